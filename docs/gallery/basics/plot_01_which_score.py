"""
Which nonconformity score should I use?
=======================================

A nonconformity score measures how badly a class fits an object. All scores give
prediction sets with the same coverage; they differ in the sets. Some scores
give smaller sets, others give more sets with a single class. Compare them on
your data.

.. admonition:: The guarantee
   :class: guarantee

   With any of these scores, a set contains the true class with probability at
   least 1 − alpha, if you choose the score without looking at the calibration
   rows.
"""

# %%
# Probabilities of any classifier
# -------------------------------
# The data are 1,797 images of handwritten digits, with a lot of noise. A
# logistic regression is trained on 400 of them. The other 1,397 are labeled
# rows that the classifier was not trained on, which is all that pippin needs.

# sphinx_gallery_thumbnail_path = '_static/thumbnails/01.svg'
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

X, y = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
X = X + rng.normal(scale=6, size=X.shape)
order = rng.permutation(len(y))
train, held_out = order[:400], order[400:]
model = LogisticRegression(C=0.01, max_iter=2000).fit(X[train], y[train])
probs, labels = model.predict_proba(X[held_out]), y[held_out]
print(f"accuracy {model.score(X[held_out], labels):.1%}")

# %%
# Seven scores on the same random splits
# --------------------------------------
# ``compare`` splits the rows 200 times into a calibration part and a test part.
# All scores use the same splits.

import pippin

scores = ["ip", "margin", "aps", "raps", "pip", "repip", "socop"]
comparison = pippin.compare(probs, labels, scores, alpha=0.1, splits=200)
comparison

# %%
# Coverage is 90% for every score, so it cannot decide between them. They differ
# in **size**, the mean number of classes in a set, and in **singletons**, the
# share of sets with exactly one class.

import matplotlib.pyplot as plt

ax = comparison.plot()
ax.set_title("Mean size against singletons: no score is best in both")
plt.show()

# %%
# The best corner is at the top left: small sets, many singletons. ``ip`` has
# the smallest sets. ``margin`` has many singletons, but much larger sets.
# ``repip`` and ``socop`` lie between the two. Intervals show whether a
# difference is larger than chance. They are paired by split, and they account
# for the overlap of the splits:

for gap in pippin.differences(comparison, "singleton_rate"):
    if (str(gap.first), str(gap.second)) == ("ip", "socop"):
        print(f"singletons, ip − socop: {gap.mean:+.3f}")
        print(f"95% interval: {gap.low:+.3f} to {gap.high:+.3f}")

# %%
# Let pippin choose
# -----------------
# ``tune`` searches for the best score on one half of the rows. The returned
# object calibrates that score on the other half, so the guarantee holds.

tuned = pippin.tune(probs, labels, prefer="singletons", max_size=2.4, seed=0)
print(tuned.score)
tuned.calibrate()

# %%
# What can go wrong
# -----------------
# **The score is chosen on the calibration rows.** Take 30 labeled rows and
# choose, of 42 scores, the one with the smallest sets on them. Then calibrate
# it on the same 30 rows. The chosen score fits these rows by chance, so its
# threshold is too small. For comparison, the score is also chosen on 30 other
# rows.

from pippin import calibrate
from pippin.metrics import coverage, mean_size

gammas = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1)
candidates = [f"repip(gamma={g}, k_reg={k})" for g in gammas for k in (1, 2, 3)]
candidates += [f"pip(beta={b})" for b in (0, 0.25, 0.5, 1, 2, 4, 16)]
candidates += [f"socop(mu={m})" for m in (0, 0.25, 0.5, 1, 2, 4)]
candidates += [f"linear(weights=[{w}])" for w in (0, 0.2, 0.4, 0.6, 0.8, 1)]
candidates += ["ip", "margin"]


def size_on(score, rows):
    """Return the mean size of sets of `rows`, calibrated on the same rows."""
    sets = calibrate(probs[rows], labels[rows], score).predict(probs[rows])
    return mean_size(sets)


covered = {"calibration rows": [], "other rows": []}
for seed in range(150):
    order = np.random.default_rng(seed).permutation(len(labels))
    rows, other, test = np.split(order, [30, 60])
    for name, chosen_on in (("calibration rows", rows), ("other rows", other)):
        best = min(candidates, key=lambda score: size_on(score, chosen_on))
        sets = calibrate(probs[rows], labels[rows], best).predict(probs[test])
        covered[name].append(coverage(sets, labels[test]))
for name, values in covered.items():
    print(f"score chosen on the {name:16}: coverage {np.mean(values):.1%}")

# %%
# With thousands of rows the loss is too small to see. With few rows, choose the
# score on separate data, or use ``tune``, which separates them.
#
# **Only one measure is compared.** If you only count singletons, you choose a
# score whose other sets may be very large. Look at both axes of the figure.
#
# Read on
# -------
# - :doc:`/scores`: definitions of all scores
# - :doc:`/results`: the same comparison on images of plants
# - :func:`pippin.compare`, :func:`pippin.differences`, :func:`pippin.sweep`,
#   :func:`pippin.tune`
