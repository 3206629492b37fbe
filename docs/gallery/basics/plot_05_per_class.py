"""
How do I get coverage for every class?
======================================

With one threshold, marginal coverage of 90% can mean 96% for one class and 71%
for another. Class-conditional calibration uses a threshold for each class. It
needs more examples and gives larger sets. Similar classes can share a threshold
as a superclass.

.. admonition:: The guarantee
   :class: guarantee

   With ``per="class"``, the set of an object of *each class* contains it with
   probability at least 1 − alpha; with superclasses, the same holds for each
   superclass, which may have its own alpha.
"""

# %%
# One threshold, a threshold per class, a threshold per superclass
# ----------------------------------------------------------------
# The 12 classes of the embedded example are plants: three crops, nine weeds. A
# robot that removes weeds must not miss a crop, so crops get a smaller alpha.

# sphinx_gallery_thumbnail_path = '_static/thumbnails/05.svg'
import pippin

data = pippin.load_example()
crops = ("maize", "common_wheat", "sugar_beet")
superclass = {
    name: "crop" if name in crops else "weed" for name in data.classes
}
settings = {
    "marginal": {"alpha": 0.1},
    "per class": {"alpha": 0.1, "per": "class"},
    "weeds 90%, crops 99%": {
        "alpha": {"weed": 0.1, "crop": 0.01},
        "per": superclass,
    },
}


def calibrate(rows, setting, **more):
    """Return a predictor, calibrated on these rows with one of the settings."""
    more = {**settings[setting], **more}
    return pippin.calibrate(
        data.probs[rows],
        data.labels[rows],
        "repip",
        classes=data.classes,
        **more,
    )


for setting in settings:
    print(calibrate(slice(0, 2500), setting).describe())

# %%
# Coverage of every class
# -----------------------
# Calibrate on a random half of the rows, test on the other half, 40 times.

import numpy as np

shares = {setting: [] for setting in settings}
sizes = {setting: [] for setting in settings}
for seed in range(40):
    order = np.random.default_rng(seed).permutation(len(data.labels))
    rows, test = np.split(order, 2)
    for setting in settings:
        sets = calibrate(rows, setting).predict(data.probs[test])
        evaluation = pippin.evaluate(sets, data.labels[test])
        coverage = evaluation.class_coverage
        shares[setting].append([coverage[name] for name in data.classes])
        sizes[setting].append(evaluation.mean_size)
means = {setting: np.mean(values, axis=0) for setting, values in shares.items()}
for setting, values in means.items():
    print(
        f"{setting:21} lowest {values.min():.0%}, highest {values.max():.0%}, "
        f"size {np.mean(sizes[setting]):.2f}"
    )

# %%

import matplotlib.pyplot as plt

order = sorted(
    range(12), key=lambda k: (superclass[data.classes[k]], means["marginal"][k])
)
fig, ax = plt.subplots(figsize=(8, 5.2))
for (setting, values), marker, color in zip(
    means.items(), "osD", ("C6", "C0", "C1"), strict=True
):
    ax.plot(
        100 * values[order],
        range(12),
        marker,
        color=color,
        markersize=8,
        label=setting,
    )
ax.axvline(90, color="#222222", linestyle="--", linewidth=1.2)
ax.axhspan(-0.5, 2.5, color="C2", alpha=0.12, linewidth=0)
ax.text(68.5, 1, "crops", color="C2", weight="bold", va="center")
ax.set_yticks(range(12), [data.classes[k].replace("_", " ") for k in order])
ax.set(xlabel="coverage of the class, %", xlim=(68, 101), ylim=(-0.5, 11.5))
ax.set_title("Class-conditional calibration covers every class at 90%", pad=34)
ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3)
plt.show()

# %%
# Per class, every class has 90%. Per superclass, weeds have 90% *together*,
# though black grass has less; crops have 99% together.
#
# Which one?
# ----------
# - **Per class** if coverage of each class matters and each class has enough
#   examples.
# - **Per superclass** if classes are treated alike. There are fewer thresholds,
#   each with more examples, and each superclass can have its own alpha.
# - **Per cluster** (``per="cluster"``) if there are many classes with few
#   examples. Classes with similar scores share a threshold. The guarantee then
#   holds for the cluster, and for a class only as far as it resembles its
#   cluster.
#
# Per class, the number of examples *of that class* counts. With 100 of them:

plan = pippin.plan(alpha=0.1, n=100)
print(
    f"coverage between {plan.low:.0%} and {plan.high:.0%} "
    "in 95% of calibrations"
)

# %%
# What can go wrong
# -----------------
# **A class has too few examples.** With fewer than 1/alpha − 1 examples, a
# class has no finite threshold and is in every set. Here are 200 rows with
# alpha = 0.05:

import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    few = calibrate(slice(0, 200), "per class", alpha=0.05)
print(caught[0].message)
set_sizes = few.predict(data.probs[200:]).sizes
print(
    f"\nsmallest set: {set_sizes.min()} classes; mean: {set_sizes.mean():.1f}"
)

# %%
# ``predictor.table()`` lists the number of examples and the threshold of each
# class:

few.table().select("class", "n", "threshold", "expected_coverage").head(4)

# %%
# **Superclasses are chosen after looking at the coverage.** Fix them before you
# look at the calibration rows. Otherwise the same rows choose the superclasses
# and calibrate them, and the guarantee does not hold.
#
# Read on
# -------
# - :doc:`/guarantees`: groups, clusters, RC3P, with proofs
# - :doc:`/results`: what class-conditional coverage costs
# - :func:`pippin.calibrate`, :class:`pippin.ConformalPredictor`,
#   :meth:`pippin.Comparison.conditional`
