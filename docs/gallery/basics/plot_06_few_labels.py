"""
How do I calibrate with only a few labels?
==========================================

Calibration rows cannot be used for training. With a hundred labels that is
expensive. Cross-conformal prediction uses every row for both: each model of a
cross-validation scores the rows of its own test fold.

.. admonition:: The guarantee
   :class: guarantee

   A split has coverage of at least 1 − alpha; cross-conformal prediction
   usually has about that too, but only a weaker bound of about 1 − 2·alpha is
   *proven*, which ``predictor_.guarantee`` returns.
"""

# %%
# A hundred handwritten digits
# ----------------------------
# ``ConformalClassifier`` holds out a quarter of the rows for calibration.
# ``CrossConformalClassifier`` fits five models, each without a fifth of the
# rows.

# sphinx_gallery_thumbnail_path = '_static/thumbnails/06.svg'
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import pippin
from pippin.sklearn import ConformalClassifier, CrossConformalClassifier

X, y = load_digits(return_X_y=True)
X = X / 16
model = LogisticRegression(C=0.3, tol=0.001, max_iter=1000)

cross = CrossConformalClassifier(model, score="pip", alpha=0.1, random_state=0)
cross.fit(X[:100], y[:100])
print(f"calibration rows: {cross.predictor_.n_calibration}")
print(f"proven coverage:  {cross.predictor_.guarantee:.0%}")

# %%
# Compare both methods on twenty random sets of a hundred labels:

methods = {"split": ConformalClassifier, "cross": CrossConformalClassifier}
results = {name: [] for name in methods}
for seed in range(20):
    order = np.random.default_rng(seed).permutation(len(y))
    rows, test = order[:100], order[100:]
    for name, method in methods.items():
        classifier = method(model, score="pip", alpha=0.1, random_state=seed)
        sets = classifier.fit(X[rows], y[rows]).predict_set(X[test])
        coverage = pippin.metrics.coverage(sets, y[test])
        results[name].append((coverage, pippin.metrics.mean_size(sets)))
for name, values in results.items():
    coverage, size = np.mean(values, axis=0)
    spread = np.std(values, axis=0)[0]
    print(f"{name}: coverage {coverage:.1%} ± {spread:.1%}, size {size:.2f}")

# %%

import matplotlib.pyplot as plt

fig, ax = plt.subplots()
for (name, values), marker in zip(results.items(), "sD", strict=True):
    coverage, size = np.array(values).T
    ax.scatter(100 * coverage, size, marker=marker, s=45, alpha=0.8, label=name)
ax.axvline(90, color="#222222", linestyle="--", linewidth=1.2)
ax.set(xlabel="coverage, %", ylabel="size (classes per set)")
ax.set_title("With 100 labels, cross-conformal sets are smaller")
ax.legend()
plt.show()

# %%
# Twenty-five calibration rows give a threshold that varies much. A hundred rows
# that are used for training and calibration give smaller sets, and coverage
# varies less.
#
# A few hundred labels and a fixed network
# ----------------------------------------
# If you cannot train the classifier, use labels to recalibrate its
# probabilities. ``sharpen="split"`` fits a recalibration on a part of the rows
# and calibrates the predictor on the others.

data = pippin.load_example()
rows, labels, new = data.probs[:500], data.labels[:500], data.probs[500:]
for name, options in (("plain", {}), ("sharpened", {"sharpen": "split"})):
    predictor = pippin.calibrate(
        rows, labels, "socop", 0.1, classes=data.classes, **options
    )
    print(f"{name:9} {predictor.predict(new)}")

# %%
# What can go wrong
# -----------------
# **Calibration on the training rows.** It needs no additional labels, but the
# model fits its training rows better than new ones. The threshold becomes too
# small. pippin cannot know the training rows of a model. It warns if the model
# makes far fewer errors than its own probabilities predict:

import warnings

from sklearn.ensemble import RandomForestClassifier

rows, test = slice(0, 300), slice(300, None)
forest = RandomForestClassifier(random_state=0).fit(X[rows], y[rows])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    probs = forest.predict_proba(X[rows])
    predictor = pippin.calibrate(probs, y[rows], "pip", alpha=0.1)
sets = predictor.predict(forest.predict_proba(X[test]))
print(f"coverage {pippin.metrics.coverage(sets, y[test]):.1%} (1 − alpha: 90%)")
print(caught[0].message)

# %%
# With few rows, a model whose probabilities are close to 1 causes no warning:

fitted = LogisticRegression(max_iter=1000, C=100).fit(X[rows], y[rows])
probs = fitted.predict_proba(X[rows])
predictor = pippin.calibrate(probs, y[rows], "pip", alpha=0.1)
sets = predictor.predict(fitted.predict_proba(X[test]))
print(f"coverage {pippin.metrics.coverage(sets, y[test]):.1%} (1 − alpha: 90%)")

# %%
# **Too few rows for alpha.** Twenty rows are not enough for 99% coverage, so
# the sets contain all classes:

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    pippin.calibrate(data.probs[:20], data.labels[:20], alpha=0.01)
print(caught[0].message)

# %%
# Read on
# -------
# - :doc:`/guarantees`: cross-conformal prediction and its bound
# - :doc:`/sharpening`: recalibration of probabilities
# - :class:`pippin.sklearn.CrossConformalClassifier`, :func:`pippin.calibrate`
#   (``folds=``, ``sharpen=``)
