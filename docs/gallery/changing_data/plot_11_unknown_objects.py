"""
How do I detect objects of unknown classes?
===========================================

A classifier answers with a class that it knows, also for an object of none of them. Is
this object like those that were calibrated at all? A p-value of novelty says, and among
many objects ``discoveries`` says which to show to a person.

.. admonition:: The guarantee
   :class: guarantee

   Of the objects that ``discoveries`` flags, at most a share ``level`` are false
   alarms, on average; for one object that is *not* new, P(p ≤ t) ≤ t.
"""

# %%
# Ten digits, of which the model knows eight
# ------------------------------------------

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors

import pippin

digits = load_digits()
X, y = digits.data / 16, digits.target
rng = np.random.default_rng(0)
known, unknown = (
    rng.permutation(np.flatnonzero(y < 8)),
    rng.permutation(np.flatnonzero(y >= 8)),
)
train, calibration, new = np.split(known, [500, 1100])
batch = np.concatenate(
    [new[:200], unknown[:60]]
)  # what comes: 200 digits it knows, 60 that it has never seen
is_new = y[batch] >= 8

model = LogisticRegression(C=10, max_iter=1000).fit(X[train], y[train])
predictor = pippin.calibrate(
    model.predict_proba(X[calibration]), y[calibration], "pip", alpha=0.02
)
sets = predictor.predict(model.predict_proba(X[batch]))
print(
    f"eights and nines: {(sets.sizes[is_new] == 1).mean():.0%} get a single "
    "class, and it is always wrong"
)

# %%
# No set says "this is none of them". Ask for novelty instead. First by how unsure the
# model is, then by something that looks at the object itself: the distance to the
# nearest image that trained.

near = NearestNeighbors(n_neighbors=1).fit(X[train])


def distance(images):
    """How far each image is from the nearest one that trained."""
    return near.kneighbors(images)[0][:, 0]


by_surprise = pippin.shift.novelty(
    predictor,
    model.predict_proba(X[batch]),
    reference=model.predict_proba(X[calibration]),
)
by_distance = pippin.shift.novelty(
    predictor, X[batch], reference=X[calibration], measure=distance
)
for name, p in (("1 − max p", by_surprise), ("distance ", by_distance)):
    flagged = pippin.shift.discoveries(p, level=0.1)
    false = (flagged & ~is_new).sum()
    print(
        f"{name}: {flagged.sum():2} flagged, {(flagged & is_new).sum():2} of "
        f"{is_new.sum()} found, {false} false alarms"
    )

# %%
# The false alarms are at most a tenth of those flagged, on average, with either
# measure. What differs is how many new ones are found.

import matplotlib.pyplot as plt

fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
bins = np.linspace(0, 1, 21)
for ax, p, title in (
    (axes[0], by_surprise, "1 − max p"),
    (axes[1], by_distance, "distance to the nearest image"),
):
    ax.hist(
        [p[~is_new], p[is_new]],
        bins,
        stacked=True,
        color=["#c4c8cc", "C1"],
        label=["known digits", "eights and nines"],
    )
    ax.set(xlabel="p-value of novelty")
    ax.set_title(title)
axes[0].set_ylabel("objects")
axes[0].legend()
plt.show()

# %%
# Known digits spread evenly from 0 to 1; that is what makes the p-value valid. Those
# flagged by distance, the strangest first, with what they are; a number that is not
# orange is a false alarm:

flagged = np.flatnonzero(pippin.shift.discoveries(by_distance, level=0.1))
strangest = flagged[np.argsort(by_distance[flagged], kind="stable")][:12]
fig, axes = plt.subplots(1, 12, figsize=(9, 1.3))
for ax, i in zip(axes, strangest, strict=True):
    ax.imshow(1 - digits.images[batch[i]], cmap="gray")
    ax.set_title(
        f"{y[batch[i]]}",
        loc="center",
        color="C1" if is_new[i] else "#222222",
        fontsize=11,
    )
    ax.axis("off")
plt.show()

# %%
# A set carries the flag along:

sets.flagged(pippin.shift.discoveries(by_distance, level=0.1))

# %%
# What can go wrong
# -----------------
# **Something new that the model is sure about.** With 1 − max p alone, an object counts
# as strange only if the model hesitates. Of the new digits, so many are taken for a
# known one with more than 90% probability:

surest = model.predict_proba(X[batch][is_new]).max(axis=1)
print(f"{(surest > 0.9).mean():.0%} of the eights and nines")

# %%
# **A reference that the model was trained on.** It fits those too well, so ordinary new
# objects look strange, and most alarms are false:

trained_on = pippin.shift.novelty(
    predictor, X[batch], reference=X[train], measure=distance
)
flagged = pippin.shift.discoveries(trained_on, level=0.1)
false = (flagged & ~is_new).sum()
print(f"{flagged.sum()} flagged, {false} of them false: {false / flagged.sum():.0%}")

# %%
# Read on
# -------
# - :doc:`/streams`: novelty, other measures, p-values per class
# - :doc:`/shift`: species that a network was never shown
# - :func:`pippin.shift.novelty`, :func:`pippin.shift.discoveries`,
#   :meth:`pippin.PredictionSets.flagged`
