"""
Which nonconformity score should I use?
=======================================

A score says how badly a class fits an object. All scores give sets with the same
coverage; they differ in what the sets look like. Some have fewer classes on average,
some are more often a single class, and your own data say by how much.

.. admonition:: The guarantee
   :class: guarantee

   Whichever score you take, the set holds the true class with probability 1 − alpha, as
   long as you did not choose it by looking at the rows that calibrate.
"""

# %%
# Seven scores on the same random splits
# --------------------------------------
# The embedded example holds a network's probabilities for 12 species of seedlings.
# ``compare`` divides its rows 200 times into a part that calibrates and a part that
# tests, the same way for every score.

import pippin

data = pippin.load_example()
scores = ["ip", "margin", "aps", "raps", "pip", "repip", "socop"]
comparison = pippin.compare(
    data.probs, data.labels, scores, alpha=0.1, splits=200, classes=data.classes
)
comparison

# %%
# Coverage is 90% in every line, so it cannot choose. What differs is the **size**, the
# mean number of classes in a set, and the share of **singletons**, sets with one class.
# No score wins both:

import matplotlib.pyplot as plt

comparison.plot()
plt.show()

# %%
# Up and to the left is better. ``ip`` has the smallest sets, ``margin`` the most
# singletons but by far the largest sets; ``repip`` and ``socop`` give up little of
# either. Is a difference real? It is paired, split by split, with an interval that
# allows for the overlap of the splits:

gaps = {
    (str(gap.first), str(gap.second)): gap
    for gap in pippin.differences(comparison, "singleton_rate")
}
gap = gaps["ip", "socop"]
print(
    f"singletons, ip − socop: {gap.mean:+.3f}, 95% interval {gap.low:+.3f} to "
    f"{gap.high:+.3f}"
)

# %%
# Let pippin choose
# -----------------
# Say what you prefer. ``tune`` looks for the best score on one half of the rows and
# calibrates it on the other half.

tuned = pippin.tune(
    data.probs, data.labels, prefer="singletons", max_size=1.5, classes=data.classes
)
print(tuned.score)
tuned.calibrate()

# %%
# What can go wrong
# -----------------
# **Choosing on the rows that calibrate.** Take 50 labelled rows and, of 42 scores, the
# one whose sets are smallest on them; then calibrate it on the same 50. The winner is
# the one that was lucky there, and luck does not last. Beside it, the score is chosen
# on 50 other rows:

import numpy as np

from pippin import calibrate
from pippin.metrics import coverage, mean_size

candidates = [
    f"repip(gamma={g}, k_reg={k})"
    for g in (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1)
    for k in (1, 2, 3)
]
candidates += [f"pip(beta={b})" for b in (0, 0.25, 0.5, 1, 2, 4, 16)] + [
    f"socop(mu={m})" for m in (0, 0.25, 0.5, 1, 2, 4)
]
candidates += [f"linear(weights=[{w}])" for w in (0, 0.2, 0.4, 0.6, 0.8, 1)] + [
    "ip",
    "margin",
]


def size_on(score, rows):
    """Mean size of the sets of `rows`, calibrated on the same rows."""
    return mean_size(
        calibrate(data.probs[rows], data.labels[rows], score).predict(data.probs[rows])
    )


honest, tempted = [], []
for seed in range(150):
    rows, other, test = np.split(
        np.random.default_rng(seed).permutation(4986), [50, 100]
    )
    for found, chosen_on in ((tempted, rows), (honest, other)):
        best = min(candidates, key=lambda score: size_on(score, chosen_on))
        sets = calibrate(data.probs[rows], data.labels[rows], best).predict(
            data.probs[test]
        )
        found.append(coverage(sets, data.labels[test]))
print(
    f"{len(candidates)} scores; chosen on the rows that calibrate: "
    f"{np.mean(tempted):.1%} covered"
)
print(
    f"{len(candidates)} scores; chosen on other rows:              "
    f"{np.mean(honest):.1%} covered"
)

# %%
# With thousands of rows the harm is too small to see. With few, choose on others, or
# let ``tune`` keep the two apart.
#
# **Reading one number.** Who only counts singletons takes ``margin``, and gets sets
# that are enormous where they are not singletons. Look at both axes of the picture.
#
# Read on
# -------
# - :doc:`/scores`: the one formula behind all of them
# - :doc:`/results`: the same comparison on real photographs
# - :func:`pippin.compare`, :func:`pippin.differences`, :func:`pippin.sweep`,
#   :func:`pippin.tune`
