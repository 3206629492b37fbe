"""
How do I calibrate with only a few labels?
==========================================

Labels that calibrate are labels that do not train. With a hundred of them that hurts.
Cross-conformal prediction lets every row do both.

.. admonition:: The guarantee
   :class: guarantee

   A split keeps at least 1 − alpha; cross-conformal prediction keeps about that in
   practice, but what is *proven* is less, about 1 − 2·alpha, and
   ``predictor_.guarantee`` says how much.
"""

# %%
# A hundred handwritten digits
# ----------------------------
# Hold a quarter of the rows out, or let five models take turns: each is trained without
# a fifth of the rows and scores that fifth.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import pippin
from pippin.sklearn import ConformalClassifier, CrossConformalClassifier

X, y = load_digits(return_X_y=True)
X = X / 16
model = LogisticRegression(C=0.3, tol=0.001, max_iter=1000)

cross = CrossConformalClassifier(model, score="pip", alpha=0.1, random_state=0).fit(
    X[:100], y[:100]
)
print(
    f"five models, {cross.predictor_.n_calibration} calibration rows; proven: at "
    f"least {cross.predictor_.guarantee:.0%}"
)

# %%
# One draw of a hundred rows says little. Twenty of them, for both ways:

found = {"split": [], "cross": []}
for seed in range(20):
    order = np.random.default_rng(seed).permutation(len(y))
    few, others = order[:100], order[100:]
    for name, kind in (
        ("split", ConformalClassifier),
        ("cross", CrossConformalClassifier),
    ):
        sets = (
            kind(model, score="pip", alpha=0.1, random_state=seed)
            .fit(X[few], y[few])
            .predict_set(X[others])
        )
        found[name].append(
            (pippin.metrics.coverage(sets, y[others]), pippin.metrics.mean_size(sets))
        )
found = {name: np.array(values) for name, values in found.items()}
for name, values in found.items():
    covered, size = values.mean(axis=0)
    print(
        f"{name}: coverage {covered:.1%} ± {values[:, 0].std():.1%}, {size:.2f} "
        "classes per set"
    )

# %%

import matplotlib.pyplot as plt

fig, ax = plt.subplots()
for (name, values), marker in zip(found.items(), "sD", strict=True):
    ax.scatter(
        100 * values[:, 0], values[:, 1], marker=marker, s=45, alpha=0.8, label=name
    )
ax.axvline(90, color="#222222", linestyle="--", linewidth=1.2)
ax.set(xlabel="coverage, %", ylabel="classes per set")
ax.set_title("The same 100 labels, twenty times: cross-conformal wastes less")
ax.legend()
plt.show()

# %%
# Twenty-five rows that calibrate make a threshold of luck. A hundred that do both give
# smaller sets, and coverage that varies less.
#
# A few hundred labels, and a network that is fixed
# -------------------------------------------------
# If you cannot train the classifier, spend labels on what it confuses:
# ``sharpen="split"`` sharpens the probabilities on some rows and calibrates on the
# others.

data = pippin.load_example()
rows, labels, new = data.probs[:500], data.labels[:500], data.probs[500:]
print(
    "plain:    ",
    pippin.calibrate(rows, labels, "socop", 0.1, classes=data.classes).predict(new),
)
print(
    "sharpened:",
    pippin.calibrate(
        rows, labels, "socop", 0.1, sharpen="split", classes=data.classes
    ).predict(new),
)

# %%
# What can go wrong
# -----------------
# **Calibrating on the rows that trained.** It saves labels and looks splendid. The
# model has seen the answers, so its scores there are better than they will ever be
# again:

few, others = slice(0, 100), slice(100, None)
fitted = LogisticRegression(max_iter=1000, C=100).fit(X[few], y[few])
cheated = pippin.calibrate(fitted.predict_proba(X[few]), y[few], "pip", alpha=0.1)
sets = cheated.predict(fitted.predict_proba(X[others]))
print(f"asked for 90%, got {pippin.metrics.coverage(sets, y[others]):.1%}")

# %%
# What a fitted model saw cannot be known, but one that is right on *every* calibration
# row is suspicious, and told:

import warnings

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    ConformalClassifier(fitted, score="pip", cv="prefit").fit(X[few], y[few])
print(told[0].message)

# %%
# **An alpha that so few rows cannot keep.** Twenty rows cannot promise 99%: there is
# no threshold, and sets hold all classes.

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    pippin.calibrate(rows[:20], labels[:20], alpha=0.01)
print(told[0].message)

# %%
# Read on
# -------
# - :doc:`/guarantees`: cross-conformal prediction, and what is proven of it
# - :doc:`/sharpening`: learning what a classifier confuses
# - :class:`pippin.sklearn.CrossConformalClassifier`, :func:`pippin.calibrate`
#   (``folds=``, ``sharpen=``)
