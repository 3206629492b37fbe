"""
How many calibration examples do I need?
========================================

The distribution of the coverage of a calibrated predictor is known before any
data exist. It depends on alpha and on the number of calibration examples only.
You can therefore plan how many examples to label.

.. admonition:: The guarantee
   :class: guarantee

   With n exchangeable calibration examples without ties, the coverage of the
   calibrated predictor has a Beta(k, n + 1 − k) distribution with k = ⌈(n +
   1)(1 − alpha)⌉, whose mean is at least 1 − alpha.
"""

# %%
# The distribution of coverage
# ----------------------------
# Different calibration sets of the same size give different thresholds, so
# coverage varies. ``plan`` computes the distribution:

# sphinx_gallery_thumbnail_path = '_static/thumbnails/02.svg'
import matplotlib.pyplot as plt

import pippin

plan = pippin.plan(alpha=0.1, n=500)
ax = plan.plot()
ax.set_title("Coverage after calibration on 500 examples")
plt.show()

# %%
# ``examples_for`` answers the inverse question: how many examples keep the
# coverage within a given distance of 90%?

for within in (0.05, 0.02, 0.01):
    n = pippin.examples_for(alpha=0.1, within=within)
    print(f"90% ± {within:.0%} in 95% of calibrations: {n:,} examples")

# %%
# Half the width requires four times the examples. The classifier, the number of
# classes and the score have no influence.

import numpy as np

# n for which (n + 1)(1 − alpha) is a whole number
counts = 10 * np.unique(np.geomspace(2, 2000, 100).astype(int)) - 1
plans = [pippin.plan(alpha=0.1, n=n) for n in counts.tolist()]
low = [100 * plan.low for plan in plans]
high = [100 * plan.high for plan in plans]
fig, ax = plt.subplots()
ax.fill_between(counts, low, high, alpha=0.25, label="95% of calibrations")
ax.plot(counts, [100 * plan.mean for plan in plans], label="mean")
ax.axhline(90, color="C1", linestyle="--", label="1 − alpha")
ax.set(
    xscale="log",
    xlabel="calibration examples",
    ylabel="coverage, %",
    ylim=(70, 100),
)
ax.set_xticks(
    [20, 100, 500, 2000, 20_000], ["20", "100", "500", "2,000", "20,000"]
)
ax.set_title("Coverage concentrates around 90% as the calibration set grows")
ax.legend(ncols=3, loc="lower right")
plt.show()

# %%
# Check the distribution on data
# ------------------------------
# The embedded example has 4,986 labeled rows: probabilities of a neural network
# for 12 classes. Calibrate on 100 of them and measure coverage on the others,
# 2,000 times.

data = pippin.load_example()
comparison = pippin.compare(
    data.probs,
    data.labels,
    "repip",
    splits=2000,
    calibration_fraction=100 / 4986,
)
measured = comparison.metric("coverage")[0]
plan = pippin.plan(alpha=0.1, n=100)
low, high = np.quantile(measured, [0.025, 0.975])
print(
    f"theory:   mean {plan.mean:.3f}, 95% in {plan.low:.3f} to {plan.high:.3f}"
)
print(f"measured: mean {measured.mean():.3f}, 95% in {low:.3f} to {high:.3f}")

# %%
# What can go wrong
# -----------------
# **Fewer than 1/alpha − 1 examples.** Then no finite threshold has the
# guarantee. The predictor warns, and its sets contain every class:

import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    few = pippin.calibrate(data.probs[:8], data.labels[:8], "repip", alpha=0.1)
print(caught[0].message)
few.predict(data.probs[8:])

# %%
# **A guarantee per class needs examples of every class.** The rarest class
# decides. Of 500 rows it has only few:

classes, n_per_class = np.unique(data.labels[:500], return_counts=True)
rarest = int(n_per_class.min())
plan = pippin.plan(alpha=0.1, n=rarest)
print(f"{data.classes[classes[n_per_class.argmin()]]}: {rarest} examples,")
print(
    f"coverage between {plan.low:.2f} and {plan.high:.2f} "
    "in 95% of calibrations"
)

# %%
# **Rows that depend on each other.** A thousand crops of ten photographs carry
# the information of about ten examples, and so do a thousand visits of ten
# patients. Pass the photograph or the patient as ``calibrate(…, units=…)``;
# then clusters are counted.
#
# Read on
# -------
# - :doc:`/guarantees`: where the distribution comes from, clustered data, and
#   guarantees per class and per group
# - :func:`pippin.plan`, :func:`pippin.examples_for`; ``pippin plan data.npz``
#   on the command line
