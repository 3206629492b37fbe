"""
How many calibration examples do I need?
========================================

The law of coverage is known before there are any data. So the question can be answered
before anybody labels a photograph.

.. admonition:: The guarantee
   :class: guarantee

   With n calibration examples, the coverage you will live with is a draw from Beta(k, n
   + 1 − k), k = ⌈(n + 1)(1 − alpha)⌉: at least 1 − alpha on average, and spread by a
   known amount.
"""

# %%
# Ask for a plan
# --------------

import matplotlib.pyplot as plt

import pippin

plan = pippin.plan(alpha=0.1, n=500)
plan.plot()
plt.show()

# %%
# That is the law of the coverage that one calibration gives, whatever the classifier.
# How many examples are needed for a width that you can accept?

for within in (0.05, 0.02, 0.01):
    n = pippin.examples_for(alpha=0.1, within=within)
    print(f"90% ± {within:.0%} in 95% of calibrations: {n:,} examples")

# %%
# Halving the width takes four times the examples, as everywhere in statistics. The
# classifier, the number of classes and the score play no part in it.

import numpy as np

counts = (
    10 * np.unique(np.geomspace(2, 2000, 100).astype(int)) - 1
)  # where (n + 1)(1 − alpha) is a whole number
plans = [pippin.plan(alpha=0.1, n=n) for n in counts.tolist()]
fig, ax = plt.subplots()
low, high = [100 * plan.low for plan in plans], [100 * plan.high for plan in plans]
ax.fill_between(counts, low, high, alpha=0.25, label="95 of 100 calibrations")
ax.plot(counts, [100 * plan.mean for plan in plans], label="mean")
ax.axhline(90, color="C1", linestyle="--", label="asked for")
ax.set(
    xscale="log", xlabel="calibration examples", ylabel="coverage, %", ylim=(70, 100)
)
ax.set_xticks([20, 100, 500, 2000, 20_000], ["20", "100", "500", "2,000", "20,000"])
ax.set_title("The coverage that one calibration gives")
ax.legend(ncols=3, loc="lower right")
plt.show()
# sphinx_gallery_thumbnail_number = 2

# %%
# Does it hold?
# -------------
# The example has 4,986 labelled rows. Calibrate on 100 of them, two thousand times, and
# see what the others say.

data = pippin.load_example()
seen = pippin.compare(
    data.probs, data.labels, "repip", splits=2000, calibration_fraction=100 / 4986
).metric("coverage")[0]
plan = pippin.plan(alpha=0.1, n=100)
print(f"law:  mean {plan.mean:.3f}, 95% between {plan.low:.3f} and {plan.high:.3f}")
print(
    f"seen: mean {seen.mean():.3f}, 95% between {np.quantile(seen, 0.025):.3f} "
    f"and {np.quantile(seen, 0.975):.3f}"
)

# %%
# What can go wrong
# -----------------
# **Fewer than 1/alpha − 1 examples.** Then no threshold can promise anything, and the
# honest answer is every class:

import warnings

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    few = pippin.calibrate(data.probs[:8], data.labels[:8], "repip", alpha=0.1)
print(told[0].message)
few.predict(data.probs[8:])

# %%
# **Counting all rows where each class needs its own.** Per class, the rarest class
# decides. Here is what 500 rows leave for it:

labels, each = np.unique(data.labels[:500], return_counts=True)
rarest = int(each.min())
plan = pippin.plan(alpha=0.1, n=rarest)
print(
    f"{data.classes[labels[each.argmin()]]}: {rarest} examples, coverage between "
    f"{plan.low:.2f} and {plan.high:.2f}"
)

# %%
# **Rows that are not independent cases.** A thousand windows of ten photographs are
# closer to ten examples than to a thousand. ``calibrate(…, units=photos)`` counts
# photographs.
#
# Read on
# -------
# - :doc:`/guarantees`: units, and guarantees per class and per group
# - :doc:`/scores`: where the law comes from
# - :func:`pippin.plan`, :func:`pippin.examples_for`; ``pippin plan data.npz`` on the
#   command line
