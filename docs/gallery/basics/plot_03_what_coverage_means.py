"""
What does 90% coverage mean?
============================

Ninety of a hundred sets hold the true class. Which ninety is not said. This page shows
who gets more and who gets less.

.. admonition:: The guarantee
   :class: guarantee

   Over all new objects together, and over the draw of the calibration rows, the set
   holds the true class with probability at least 90%; nothing is said about one class,
   one place or one set.
"""

# %%
# All objects together
# --------------------

import pippin

data = pippin.load_example()
predictor = pippin.calibrate(
    data.probs[:2000], data.labels[:2000], "repip", alpha=0.1, classes=data.classes
)
sets = predictor.predict(data.probs[2000:])
found = pippin.evaluate(sets, data.labels[2000:], alpha=0.1, n_calibration=2000)
print(found.verdict)

# %%
# Class by class
# --------------
# The easy species pay for the hard ones.

import matplotlib.pyplot as plt
import numpy as np

found.plot()
plt.show()

# %%
# One number for how uneven it is: **CovGap**, the mean distance of a class's coverage
# from 90%.

print(
    f"CovGap {found.covgap:.3f}; worst class {found.worst_class}, "
    f"{found.class_coverage[found.worst_class]:.1%}"
)

# %%
# Another calibration, another coverage
# -------------------------------------
# The 90% are also a mean over calibrations. Two thousand rows keep one calibration
# close to it:

plan = pippin.plan(alpha=0.1, n=2000)
print(
    f"in 95% of calibrations on 2,000 rows, coverage lies between {plan.low:.3f} "
    f"and {plan.high:.3f}"
)

# %%
# What can go wrong
# -----------------
# **"This set is right with 90%."** A set that you hold in your hand has no such
# number. Take the singletons, which people act on, and sort them by what they say:

singleton = sets.sizes == 1
says, truth = data.probs[2000:].argmax(axis=1), data.labels[2000:]
for name in (
    "small_flowered_cranesbill",
    "sugar_beet",
    "loose_silky_bent",
    "black_grass",
):
    those = singleton & (says == data.classes.index(name))
    print(
        f"{those.sum():3} sets say just {name:26} "
        f"{(truth[those] == says[those]).mean():.0%} of them are right"
    )

# %%
# If what you act on must be right, ask for that: ``pippin.decisions.select`` bounds
# the errors *among the objects acted on*, and with ``per="class"`` among those taken
# for each class.

selective = pippin.decisions.select(
    data.probs[:2000], data.labels[:2000], error=0.05, classes=data.classes
)
print(selective.describe())
acted = selective.predict(data.probs[2000:])
wrong = (acted.labels != np.array(data.classes)[truth])[acted.acted].mean()
print(
    f"acted on {acted.acted.mean():.0%} of the objects, wrong in {wrong:.1%} of those"
)

# %%
# **A guarantee for one class.** If black grass matters, 90% of all plants is the wrong
# promise; ask for it :doc:`per class or per kind <plot_05_per_class>`.
#
# Read on
# -------
# - :doc:`/guarantees`: what is promised, for whom, with proofs
# - :doc:`/decisions`: acting only when sure
# - :func:`pippin.evaluate`, :class:`pippin.Evaluation`,
#   :func:`pippin.decisions.select`
