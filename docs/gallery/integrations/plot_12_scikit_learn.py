"""
How do I use pipelines and grid search of scikit-learn?
=======================================================

``ConformalClassifier`` wraps a scikit-learn classifier. It holds out a quarter
of the rows for calibration and fits the classifier on the others. All steps
that learn from data belong inside it, and so does a grid search.

.. admonition:: The guarantee
   :class: guarantee

   Sets contain the true class with probability at least 1 − alpha, if neither
   the fitted pipeline nor the choice of its parameters has used the
   calibration rows.
"""

# %%
# The pipeline goes inside
# ------------------------

# sphinx_gallery_thumbnail_path = '_static/thumbnails/12.svg'
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pippin.sklearn import (
    ConformalClassifier,
    coverage,
    neg_mean_size,
    singleton_rate,
)

X, y = load_digits(return_X_y=True)
noise = np.random.default_rng(0).normal(scale=6, size=(len(X), 32))
X = X[:, ::2] + noise  # half of the pixels
X, X_new, y, y_new = train_test_split(X, y, test_size=0.4, random_state=0)
model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
clf = ConformalClassifier(model, score="repip", alpha=0.1, random_state=0).fit(
    X, y
)
clf.predict_set(X_new)

# %%
# It is a scikit-learn estimator: ``predict``, ``predict_proba``, ``score``,
# ``clone`` and ``cross_val_score`` work.

print(
    f"accuracy {clf.score(X_new, y_new):.1%}, "
    f"coverage {coverage(clf, X_new, y_new):.1%}"
)

# %%
# The grid search goes inside
# ---------------------------
# Then it uses only the rows on which the classifier is fitted, and the
# calibration rows choose nothing.

grid = {"logisticregression__C": [0.003, 0.03, 0.3, 3]}
tuned = ConformalClassifier(
    GridSearchCV(model, grid, cv=3), score="repip", alpha=0.1, random_state=0
).fit(X, y)
print(tuned.estimator_.best_params_)
tuned.predict_set(X_new)

# %%
# A search over the nonconformity score
# -------------------------------------
# The score is a parameter of ``ConformalClassifier``, so this search is
# outside. Accuracy cannot choose a score, because it does not depend on it. Use
# ``singleton_rate`` or ``neg_mean_size``. Keep rows for calibration that the
# search does not use, and call ``calibrate`` with them; without that call
# ``predict_set`` warns that the guarantee is lost.

X_search, X_rest, y_search, y_rest = train_test_split(
    X, y, test_size=0.25, random_state=0
)
search = GridSearchCV(
    clf,
    {
        "estimator__logisticregression__C": [0.003, 0.03, 0.3, 3],
        "score": ["ip", "margin", "repip", "socop"],
    },
    scoring={
        "singletons": singleton_rate,
        "classes": neg_mean_size,
        "coverage": coverage,
    },
    refit="singletons",
    cv=3,
).fit(X_search, y_search)
print(search.best_params_)
chosen = search.best_estimator_.calibrate(X_rest, y_rest)
print(f"coverage {coverage(chosen, X_new, y_new):.1%}")
chosen.predict_set(X_new)

# %%

import matplotlib.pyplot as plt

results = search.cv_results_
fig, ax = plt.subplots()
sizes = {0.003: 30, 0.03: 60, 0.3: 110, 3: 180}
for score, marker in zip(
    ["ip", "margin", "repip", "socop"], "osPD", strict=True
):
    those = np.array([params["score"] == score for params in results["params"]])
    strength = [
        sizes[params["estimator__logisticregression__C"]]
        for params in np.array(results["params"])[those]
    ]
    x, up = (
        -results["mean_test_classes"][those],
        100 * results["mean_test_singletons"][those],
    )
    ax.scatter(x, up, s=strength, marker=marker, alpha=0.75, label=score)
best = search.best_index_
at = (
    -results["mean_test_classes"][best],
    100 * results["mean_test_singletons"][best],
)
ax.annotate(
    "chosen",
    at,
    xytext=(-14, 0),
    textcoords="offset points",
    ha="right",
    va="center",
)
ax.set(
    xlabel="size (smaller is better)",
    ylabel="singletons, % (more is better)",
)
ax.set_title("Sixteen candidates; larger marks have a larger C")
ax.legend(loc="lower right")
plt.show()

# %%
# What can go wrong
# -----------------
# **A supervised step is outside.** The data are 2,000 columns of noise, of
# which ``SelectKBest`` keeps the 20 with the strongest relation to y. Inside,
# it does not use the calibration rows. Outside, it does, and coverage is lost:

from sklearn.feature_selection import SelectKBest

inside, outside = [], []
for seed in range(10):
    rng = np.random.default_rng(seed)
    noise, labels = rng.normal(size=(600, 2000)), rng.integers(0, 4, 600)
    kept_in = ConformalClassifier(
        make_pipeline(SelectKBest(k=20), LogisticRegression()),
        random_state=seed,
    )
    kept_out = make_pipeline(
        SelectKBest(k=20),
        ConformalClassifier(LogisticRegression(), random_state=seed),
    )
    for found, made in ((inside, kept_in), (outside, kept_out)):
        found.append(
            coverage(
                made.fit(noise[:200], labels[:200]), noise[200:], labels[200:]
            )
        )
print(f"selected inside:  {np.mean(inside):.1%} covered")
print(f"selected outside: {np.mean(outside):.1%} covered")

# %%
# **A fitted model is calibrated on its training rows.** ``cv="prefit"``
# calibrates a fitted model on the rows that you pass. pippin rejects training
# rows only if the estimator stores them, and warns only in clear cases. Pass
# other rows:

from sklearn.ensemble import RandomForestClassifier

half = len(y) // 2
forest = RandomForestClassifier(50, max_depth=8, random_state=0).fit(
    X[:half], y[:half]
)
for name, rows in (
    ("training rows", slice(0, half)),
    ("other rows", slice(half, None)),
):
    share = coverage(
        ConformalClassifier(forest, score="pip", cv="prefit").fit(
            X[rows], y[rows]
        ),
        X_new,
        y_new,
    )
    print(f"calibrated on {name}: coverage {share:.1%}")

# %%
# Read on
# -------
# - :doc:`/scikit-learn`: pipelines and searches, names of parameters
# - :doc:`../basics/plot_06_few_labels`: cross-conformal prediction
# - :class:`pippin.sklearn.ConformalClassifier`,
#   :func:`pippin.sklearn.singleton_rate`, :func:`pippin.sklearn.neg_mean_size`
