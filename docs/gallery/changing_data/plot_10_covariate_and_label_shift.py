"""
How do I handle covariate shift and label shift?
================================================

You calibrated here and predict there. If *which* objects come has changed, but not what
each of them looks like, the calibration rows can be weighted until they stand for the
new field. No label from there is needed.

.. admonition:: The guarantee
   :class: guarantee

   With the right ratios of the two distributions as weights, sets in the new field hold
   the true class with probability at least 1 − alpha; with estimated ratios, up to
   their error.
"""

# %%
# Covariate shift: harder photographs
# -----------------------------------
# Each photograph of the example goes to one of two fields, by a chance that depends on
# how sure the network is of it. The sure ones mostly stay and calibrate, the doubtful
# ones mostly go. What a photograph says about its species does not change.

import numpy as np

import pippin
from pippin.sklearn import estimate_ratios

data = pippin.load_example()
classes = data.classes


def harder(seed):
    """Rows and labels that stay; rows and labels of the harder field."""
    sure = data.probs.max(axis=1)
    goes = np.random.default_rng(seed).random(len(sure)) < 1 / (
        1 + np.exp(8 * sure - 6)
    )
    return data.probs[~goes], data.labels[~goes], data.probs[goes], data.labels[goes]


here, labels, there, truth = harder(seed=0)
print(
    f"right: {(here.argmax(axis=1) == labels).mean():.0%} here, "
    f"{(there.argmax(axis=1) == truth).mean():.0%} there"
)

# %%
# ``estimate_ratios`` fits a classifier that tells the two fields apart, by whatever
# columns you think they differ in, and turns it into a weight for every row.


def look(probs):
    """What the fields may differ in: the two largest probabilities of a photograph."""
    return np.sort(probs, axis=1)[:, -2:]


def by_covariates(here, labels, there):
    """Sets in the new field, plain and weighted by what the fields differ in."""
    w_here, w_there = estimate_ratios(look(here), look(there), random_state=0)
    plain = pippin.calibrate(here, labels, "ip", 0.1)
    weighted = pippin.calibrate(here, labels, "ip", 0.1, weights=w_here)
    return plain.predict(there), weighted.predict(there, weights=w_there)


plain, weighted = by_covariates(here, labels, there)
for name, sets in (("plain", plain), ("weighted", weighted)):
    share, size = pippin.metrics.coverage(sets, truth), pippin.metrics.mean_size(sets)
    print(f"{name:8} {share:.1%} covered, {size:.2f} classes per set")

# %%
# Label shift: other frequencies
# ------------------------------
# The next field has the same species, and far more of the two that are hardest. Each of
# them looks as it always did. How much more common each one is can be read from
# unlabelled rows:

hard = np.isin(
    data.labels, [classes.index(name) for name in ("black_grass", "shepherds_purse")]
)


def more_of_the_hard(seed):
    """Rows and labels that stay; of the new field, all of two species, few others."""
    rng = np.random.default_rng(seed)
    first, second = np.split(rng.permutation(len(data.labels)), 2)
    second = second[hard[second] | (rng.random(len(second)) < 0.2)]
    return (
        data.probs[first],
        data.labels[first],
        data.probs[second],
        data.labels[second],
    )


here, labels, there, truth = more_of_the_hard(seed=0)
ratios = pippin.shift.label_ratios(here, labels, there, classes=classes)
for name in ("black_grass", "shepherds_purse", "maize"):
    k = classes.index(name)
    real = (truth == k).mean() / (labels == k).mean()
    print(
        f"{name:15} estimated {ratios.ratios[k]:.2f} ± {ratios.errors[k]:.2f} "
        f"times as common, really {real:.2f}"
    )

# %%


def by_labels(here, labels, there):
    """Sets in the new field, plain and weighted by how common each species is there."""
    ratios = pippin.shift.label_ratios(here, labels, there)
    plain = pippin.calibrate(here, labels, "ip", 0.1)
    weighted = pippin.calibrate(here, labels, "ip", 0.1, weights=ratios)
    return plain.predict(there), weighted.predict(there, weights=ratios)


plain, weighted = by_labels(here, labels, there)
for name, sets in (("plain", plain), ("weighted", weighted)):
    share, size = pippin.metrics.coverage(sets, truth), pippin.metrics.mean_size(sets)
    print(f"{name:8} {share:.1%} covered, {size:.2f} classes per set")

# %%
# What can go wrong
# -----------------
# **The objects themselves look different.** That is neither of the two. Let the network
# become too sure of itself in the new field, its probabilities cubed: outputs that look
# alike are now right less often than they were, and no weight can know that.


def too_sure(seed):
    """Rows and labels that stay; of the others, what too sure a network says."""
    first, second = np.split(
        np.random.default_rng(seed).permutation(len(data.labels)), 2
    )
    cubed = data.probs[second].astype(float) ** 3
    return (
        data.probs[first],
        data.labels[first],
        cubed / cubed.sum(axis=1, keepdims=True),
        data.labels[second],
    )


cases = {
    "harder objects\n(covariate shift)": (harder, by_covariates),
    "other frequencies\n(label shift)": (more_of_the_hard, by_labels),
    "another look\n(neither of them)": (too_sure, by_covariates),
}
found = {name: [] for name in cases}
for name, (field, mended) in cases.items():
    for seed in range(10):
        here, labels, there, truth = field(seed)
        found[name].append(
            [
                100 * pippin.metrics.coverage(sets, truth)
                for sets in mended(here, labels, there)
            ]
        )
    plain, weighted = np.mean(found[name], axis=0)
    print(f"{name.splitlines()[0]:18} plain {plain:.1f}%, weighted {weighted:.1f}%")

# %%
# Ten divisions into fields for each case, one dot each, and their means. Estimated
# ratios come close to 90%, not to the last bit:

import matplotlib.pyplot as plt

fig, ax = plt.subplots()
for place, values in enumerate(found.values()):
    for side, column, colour, label in (
        (-0.13, 0, "C6", "plain"),
        (0.13, 1, "C0", "weighted"),
    ):
        shares = np.array(values)[:, column]
        ax.plot(
            np.full(10, place + side),
            shares,
            "o",
            color=colour,
            alpha=0.4,
            markersize=6,
        )
        ax.hlines(
            shares.mean(),
            place + side - 0.1,
            place + side + 0.1,
            color=colour,
            linewidth=3,
            label=None if place else label,
        )
ax.axhline(90, color="#222222", linestyle="--", linewidth=1.2)
ax.set_xticks(range(3), list(cases))
ax.set(ylabel="coverage in the new field, %", xlim=(-0.6, 2.6))
ax.grid(axis="x", visible=False)
ax.set_title("Weights mend what they are made for, and nothing else")
ax.legend(loc="lower left")
plt.show()

# %%
# A hundred labels from the new field and a new calibration are worth more than any
# weights, and a :doc:`monitor <plot_09_drift>` says when they are due.
#
# **Few rows that weigh much.** Where the fields hardly overlap, a handful of rows carry
# the calibration. ``n_effective`` says how many equal ones they are worth:

here, labels, there, truth = harder(seed=0)
w_here, _ = estimate_ratios(look(here), look(there), random_state=0)
weighted = pippin.calibrate(here, labels, "ip", 0.1, weights=w_here)
print(f"{weighted.n_calibration:,} rows, worth {weighted.n_effective:,.0f}")

# %%
# Read on
# -------
# - :doc:`/guarantees`: weighted calibration, and what wrong ratios cost
# - :doc:`/shift`: real photographs, changed in many ways
# - :func:`pippin.calibrate` (``weights=``),
#   :func:`pippin.sklearn.estimate_ratios`, :func:`pippin.shift.label_ratios`
