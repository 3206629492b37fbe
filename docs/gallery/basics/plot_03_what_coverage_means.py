"""
What does 90% coverage mean?
============================

Of 100 prediction sets, about 90 contain the true class. The guarantee does not
say which 90. This page shows which objects are covered more often and which
less often.

.. admonition:: The guarantee
   :class: guarantee

   On average over new objects and over calibration sets, a set contains the
   true class with probability at least 90%; the guarantee says nothing about a
   single class, a single group or a single set.
"""

# %%
# Marginal coverage: all objects together
# ---------------------------------------
# The data are images of handwritten digits. A logistic regression is trained on
# only 60 of them, 700 are used for calibration and 1,037 for testing.

# sphinx_gallery_thumbnail_path = '_static/thumbnails/03.svg'
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import pippin

X, y = load_digits(return_X_y=True)
order = np.random.default_rng(2).permutation(len(y))
train, calibration, test = np.split(order, [60, 760])
model = LogisticRegression(C=0.01, max_iter=2000).fit(X[train], y[train])

predictor = pippin.calibrate(
    model.predict_proba(X[calibration]), y[calibration], "repip", alpha=0.1
)
probs = model.predict_proba(X[test])
sets = predictor.predict(probs)
evaluation = pippin.evaluate(sets, y[test], alpha=0.1, n_calibration=700)
print(evaluation.verdict)

# %%
# Some sets of test images. Digits in a set are alternatives; an orange set does
# not contain the true digit.

fig, axes = plt.subplots(2, 6, figsize=(8, 3.4))
shown = [
    i for size in (1, 2, 3) for i in np.flatnonzero(sets.sizes == size)[:3]
]
shown += [*np.flatnonzero(~sets.contains(y[test]))[:3]]
for ax, i in zip(axes.flat, shown, strict=True):
    ax.imshow(-X[test[i]].reshape(8, 8), cmap="gray")
    members = "{" + ", ".join(map(str, sets[i])) + "}"
    color = "C0" if y[test[i]] in sets[i] else "C1"
    ax.set_title(members, loc="center", color=color)
    ax.axis("off")
fig.suptitle("Prediction sets of twelve digits", weight="bold")
plt.show()

# %%
# Coverage of each class
# ----------------------
# Easy classes are covered more often than 90%, hard classes less often. Bars
# show 95% intervals.

ax = evaluation.plot()
ax.set_title("Coverage of each digit: the mean is 90%, single digits differ")
plt.show()

# %%
# **CovGap** summarizes the differences: the mean distance of the classes'
# coverage from 90%.

worst = evaluation.worst_class
print(f"CovGap {evaluation.covgap:.3f}")
print(f"lowest: digit {worst}, coverage {evaluation.class_coverage[worst]:.1%}")

# %%
# Another calibration set, another coverage
# -----------------------------------------
# The 90% are also an average over calibration sets. The more calibration rows,
# the less the coverage varies:

plan = pippin.plan(alpha=0.1, n=700)
print(
    f"700 rows: between {plan.low:.3f} and {plan.high:.3f} "
    "in 95% of calibrations"
)

# %%
# What can go wrong
# -----------------
# **"This set is correct with probability 90%."** The guarantee does not hold
# for a selected set. Take the sets with a single digit, on which people usually
# act, and group them by that digit:

single, predicted = sets.sizes == 1, probs.argmax(axis=1)
for digit in (0, 6, 1, 9):
    rows = single & (predicted == digit)
    correct = (y[test][rows] == digit).mean()
    print(f"{rows.sum():3} sets are {{{digit}}}; {correct:.0%} are correct")

# %%
# If the objects on which you act must be correct, calibrate for that.
# ``pippin.decisions.select`` bounds the error rate *among the accepted
# predictions*; with ``per="class"``, among the accepted predictions of each
# class.

selective = pippin.decisions.select(
    model.predict_proba(X[calibration]), y[calibration], error=0.1
)
print(selective.describe())
accepted = selective.predict(probs)
wrong = (accepted.labels != y[test])[accepted.acted].mean()
print(f"accepted {accepted.acted.mean():.0%} of the objects, {wrong:.1%} wrong")

# %%
# **One class matters most.** If digit 8 must be covered as often as the others,
# use :doc:`coverage of every class <plot_05_per_class>`.
#
# Read on
# -------
# - :doc:`/guarantees`: all guarantees, with proofs
# - :doc:`/decisions`: acting on predictions
# - :func:`pippin.evaluate`, :class:`pippin.Evaluation`,
#   :func:`pippin.decisions.select`
