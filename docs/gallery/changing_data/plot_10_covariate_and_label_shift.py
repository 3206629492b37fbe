"""
How do I handle covariate shift and label shift?
================================================

If new data come from another distribution than the calibration rows, coverage
can be lost. For two kinds of change, weights for the calibration rows restore
it: covariate shift (which objects come) and label shift (how frequent classes
are). Both need only unlabeled rows of the new distribution.

.. admonition:: The guarantee
   :class: guarantee

   With the true density ratio of the two distributions as weights, sets of the
   new distribution contain the true class with probability at least 1 − alpha;
   with an estimated ratio, coverage can be lower by as much as the estimate is
   wrong.
"""

# %%
# Covariate shift: harder objects
# -------------------------------
# Each row of the example is assigned to the old ("here") or the new
# distribution ("there"). The more confident the network, the more likely the
# row stays. The relation of a row to its class does not change.

# sphinx_gallery_thumbnail_path = '_static/thumbnails/10.svg'
import numpy as np

import pippin
from pippin.sklearn import estimate_ratios

data = pippin.load_example()
classes = data.classes


def harder(seed):
    """Return rows and labels here; harder rows and their labels there."""
    sure = data.probs.max(axis=1)
    goes = np.random.default_rng(seed).random(len(sure)) < 1 / (
        1 + np.exp(8 * sure - 6)
    )
    return (
        data.probs[~goes],
        data.labels[~goes],
        data.probs[goes],
        data.labels[goes],
    )


here, labels, there, truth = harder(seed=0)
print(
    f"right: {(here.argmax(axis=1) == labels).mean():.0%} here, "
    f"{(there.argmax(axis=1) == truth).mean():.0%} there"
)

# %%
# ``estimate_ratios`` fits a classifier that separates the two distributions, on
# columns in which they may differ. Its probabilities become weights.


def covariates(probs):
    """Return the two largest probabilities of each row."""
    return np.sort(probs, axis=1)[:, -2:]


def by_covariates(here, labels, there):
    """Return sets of the rows there, without and with covariate weights."""
    w_here, w_there = estimate_ratios(
        covariates(here), covariates(there), random_state=0
    )
    plain = pippin.calibrate(here, labels, "ip", 0.1)
    weighted = pippin.calibrate(here, labels, "ip", 0.1, weights=w_here)
    return plain.predict(there), weighted.predict(there, weights=w_there)


plain, weighted = by_covariates(here, labels, there)
for name, sets in (("plain", plain), ("weighted", weighted)):
    share, size = (
        pippin.metrics.coverage(sets, truth),
        pippin.metrics.mean_size(sets),
    )
    print(f"{name:8} {share:.1%} covered, {size:.2f} classes per set")

# %%
# Label shift: other frequencies
# ------------------------------
# The new distribution has the same classes with other frequencies: the two
# hardest classes are more frequent. Objects of a class do not change. The ratio
# of the frequencies can be estimated from unlabeled rows:

hard = np.isin(
    data.labels,
    [classes.index(name) for name in ("black_grass", "shepherds_purse")],
)


def more_of_the_hard(seed):
    """Return rows and labels here; there, mostly those of two classes."""
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
        f"times as frequent, true {real:.2f}"
    )

# %%


def by_labels(here, labels, there):
    """Return sets of the rows there, without and with label weights."""
    ratios = pippin.shift.label_ratios(here, labels, there)
    plain = pippin.calibrate(here, labels, "ip", 0.1)
    weighted = pippin.calibrate(here, labels, "ip", 0.1, weights=ratios)
    return plain.predict(there), weighted.predict(there, weights=ratios)


plain, weighted = by_labels(here, labels, there)
for name, sets in (("plain", plain), ("weighted", weighted)):
    share, size = (
        pippin.metrics.coverage(sets, truth),
        pippin.metrics.mean_size(sets),
    )
    print(f"{name:8} {share:.1%} covered, {size:.2f} classes per set")

# %%
# What can go wrong
# -----------------
# **The relation between objects and classes changes.** That is neither
# covariate shift nor label shift. Here the network becomes overconfident: its
# probabilities are cubed. Equal outputs are now correct less often, and no
# weights can correct that.


def overconfident(seed):
    """Return rows and labels here; there, cubed probabilities."""
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
    "overconfidence\n(neither)": (overconfident, by_covariates),
}
found = {name: [] for name in cases}
for name, (shift, correct) in cases.items():
    for seed in range(10):
        here, labels, there, truth = shift(seed)
        found[name].append(
            [
                100 * pippin.metrics.coverage(sets, truth)
                for sets in correct(here, labels, there)
            ]
        )
    plain, weighted = np.mean(found[name], axis=0)
    print(
        f"{name.splitlines()[0]:18} plain {plain:.1f}%, "
        f"weighted {weighted:.1f}%"
    )

# %%
# The figure shows ten random assignments of each case as dots, and their means.
# With estimated ratios, coverage is close to 90%.

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
ax.set(ylabel="coverage there, %", xlim=(-0.6, 2.6))
ax.grid(axis="x", visible=False)
ax.set_title("Weights restore coverage for the shift they model only")
ax.legend(loc="lower left")
plt.show()

# %%
# A calibration on a hundred labels of the new distribution is better than
# weights. A :doc:`monitor <plot_09_drift>` detects when it is needed.
#
# **Few rows have most of the weight.** If the distributions hardly overlap, the
# calibration depends on few rows. ``n_effective`` is the number of equally
# weighted rows with the same precision:

here, labels, there, truth = harder(seed=0)
w_here, _ = estimate_ratios(covariates(here), covariates(there), random_state=0)
weighted = pippin.calibrate(here, labels, "ip", 0.1, weights=w_here)
print(
    f"{weighted.n_calibration:,} rows, "
    f"effective number {weighted.n_effective:,.0f}"
)

# %%
# Read on
# -------
# - :doc:`/guarantees`: weighted calibration, and the effect of wrong ratios
# - :doc:`/shift`: a study of changed photographs
# - :func:`pippin.calibrate` (``weights=``),
#   :func:`pippin.sklearn.estimate_ratios`, :func:`pippin.shift.label_ratios`
