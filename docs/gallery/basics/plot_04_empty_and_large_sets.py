"""
Why is a prediction set empty or large?
=======================================

A set holds every class whose score is at most the threshold. All classes of an object
may score above it, or all of them below. Both happen, both mean something, and
``explain`` says what.

.. admonition:: The guarantee
   :class: guarantee

   Empty and large sets are counted in: 1 − alpha of *all* sets hold the true class, and
   an empty set is one of those that do not.
"""

# %%
# A large set
# -----------

import numpy as np

import pippin

data = pippin.load_example()
predictor = pippin.calibrate(
    data.probs[:2000], data.labels[:2000], "repip", alpha=0.1, classes=data.classes
)
new, truth = data.probs[2000:], data.labels[2000:]
large = int(np.flatnonzero(predictor.predict(new).sizes == 5)[0])
told = predictor.explain(new[large])
print(told.sentence)

# %%

import matplotlib.pyplot as plt

told.plot()
plt.show()

# %%
# Each class stands with its score, its probability and its p-value; in the set is what
# does not pass the threshold. The network hesitates between several species, so a set
# with 90% coverage has to name several. It is large because the object is hard, and
# that is what it should say.
#
# An empty set
# ------------
# Ask for less, alpha = 0.3, and some sets are empty:

loose = pippin.calibrate(
    data.probs[:2000], data.labels[:2000], "repip", alpha=0.3, classes=data.classes
)
empty = int(np.flatnonzero(loose.predict(new).sizes == 0)[0])
told = loose.explain(new[empty])
print(told.sentence)

# %%

told.plot()
plt.show()
# sphinx_gallery_thumbnail_number = 2

# %%
# An empty set does not mean "no plant" and does not mean "something new". It means that
# this object is one of the 30% that were given up. ``explain`` also shows itself as a
# table:

told

# %%
# When do empty sets come?
# ------------------------
# When you ask for less than the classifier gives anyway. How often is its first choice
# right?

accuracy = (new.argmax(axis=1) == truth).mean()
print(f"in {accuracy:.1%} of the new rows")

# %%
# So from about alpha = 0.2 on, the only way not to cover too much is to leave sets
# empty:

for alpha in (0.05, 0.1, 0.2, 0.25, 0.3):
    sets = predictor.at(alpha).predict(new)
    print(
        f"alpha {alpha:4}: {pippin.metrics.mean_size(sets):.2f} classes per set, "
        f"{pippin.metrics.empty_rate(sets):.1%} empty"
    )

# %%
# What can go wrong
# -----------------
# **Filling empty sets and believing the old number.** ``nonempty=True`` puts the best
# class into each empty set. No guarantee breaks, but coverage is now more than was
# asked for, and what you compare it with is not:

for nonempty in (False, True):
    sets = loose.predict(new, nonempty=nonempty)
    covered = pippin.metrics.coverage(sets, truth)
    print(f"nonempty={nonempty!s:5}: {covered:.1%} covered, 70% asked for")

# %%
# **A score that cannot stop.** PIP adds up what stands above a class, and beyond a few
# ranks that sum hardly grows. Where the threshold lies beyond it, *every* class is
# below. A penalty on the rank, which is what makes RePIP of PIP, closes such sets:

for score in ("pip", "repip", "repip(gamma=0.1)"):
    sets = pippin.calibrate(
        data.probs[:2000], data.labels[:2000], score, alpha=0.1
    ).predict(new)
    full = (sets.sizes == 12).sum()
    print(
        f"{score:17} {full:3} of {len(sets):,} sets hold all 12 classes; "
        f"{pippin.metrics.mean_size(sets):.2f} on average"
    )

# %%
# Read on
# -------
# - :doc:`/guarantees`: sets that are never empty, p-values and credibility
# - :doc:`../changing_data/plot_11_unknown_objects`: when an object is really new
# - :meth:`pippin.ConformalPredictor.explain`, :class:`pippin.Explanation`,
#   :func:`pippin.metrics.empty_rate`
