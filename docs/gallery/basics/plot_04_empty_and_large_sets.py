"""
Why is a prediction set empty or large?
=======================================

A prediction set contains every class whose nonconformity score is at most the
threshold. For some objects all scores are above it, for others many are below.
``explain`` shows the scores of one object.

.. admonition:: The guarantee
   :class: guarantee

   Empty and large sets are included in the guarantee: of *all* sets, a share of
   at least 1 − alpha contains the true class on average, and an empty set never
   does.
"""

# %%
# A large set
# -----------
# The embedded example has a neural network's probabilities for 12 classes.

# sphinx_gallery_thumbnail_path = '_static/thumbnails/04.svg'
import matplotlib.pyplot as plt
import numpy as np

import pippin

data = pippin.load_example()
new, truth = data.probs[2000:], data.labels[2000:]


def calibrate(score="repip", alpha=0.1):
    """Return a predictor, calibrated on the first 2,000 rows."""
    return pippin.calibrate(
        data.probs[:2000],
        data.labels[:2000],
        score,
        alpha,
        classes=data.classes,
    )


predictor = calibrate()
large = int(np.flatnonzero(predictor.predict(new).sizes == 5)[0])
explanation = predictor.explain(new[large])
print(explanation.sentence)

# %%

ax = explanation.plot()
ax.set_title("Five classes have scores below the threshold")
plt.show()

# %%
# The network is unsure between several classes. A set that is correct for 90%
# of the objects has to contain all of them. The set is large because this
# object is difficult.
#
# An empty set
# ------------
# With alpha = 0.3 some sets are empty:

loose = calibrate(alpha=0.3)
empty = int(np.flatnonzero(loose.predict(new).sizes == 0)[0])
explanation = loose.explain(new[empty])
print(explanation.sentence)

# %%

ax = explanation.plot()
ax.set_title("All classes have scores above the threshold")
plt.show()

# %%
# An empty set does *not* mean that the object belongs to an unknown class. It
# is one of the 30% of objects that may be missed. ``explain`` also has a table
# of all classes:

explanation

# %%
# When do empty sets occur?
# -------------------------
# They occur if alpha is larger than the error rate of the classifier. Then sets
# with one class each would cover too much, and some sets have to be empty.

error = (new.argmax(axis=1) != truth).mean()
print(f"error rate of the most probable class: {error:.1%}\n")
for alpha in (0.05, 0.1, 0.2, 0.25, 0.3):
    sets = predictor.at(alpha).predict(new)
    size = pippin.metrics.mean_size(sets)
    empty_rate = pippin.metrics.empty_rate(sets)
    print(f"alpha {alpha:4}: size {size:.2f}, {empty_rate:.1%} empty")

# %%
# If many sets are empty, choose a **smaller** alpha.
#
# What can go wrong
# -----------------
# **Empty sets are filled, and coverage is compared with 1 − alpha.**
# ``nonempty=True`` adds the most probable class to each empty set. The
# guarantee still holds, but coverage is above 1 − alpha:

for nonempty in (False, True):
    sets = loose.predict(new, nonempty=nonempty)
    coverage = pippin.metrics.coverage(sets, truth)
    print(f"nonempty={nonempty!s:5}: coverage {coverage:.1%} (1 − alpha: 70%)")

# %%
# **A score without a penalty on the rank.** The score ``pip`` is a sum of
# probabilities that hardly grows after a few ranks. If the threshold is above
# that sum, the set contains *every* class. The penalty of ``repip`` prevents
# such sets:

for score in ("pip", "repip", "repip(gamma=0.1)"):
    sets = calibrate(score).predict(new)
    full = (sets.sizes == 12).sum()
    size = pippin.metrics.mean_size(sets)
    print(f"{score:17} size {size:.2f}, {full:3} sets contain all 12 classes")

# %%
# Read on
# -------
# - :doc:`/guarantees`: p-values, credibility, and sets that are never empty
# - :doc:`../changing_data/plot_11_unknown_objects`: objects of unknown classes
# - :meth:`pippin.ConformalPredictor.explain`, :class:`pippin.Explanation`,
#   :func:`pippin.metrics.empty_rate`
