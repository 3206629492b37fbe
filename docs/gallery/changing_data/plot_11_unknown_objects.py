"""
How do I detect objects of unknown classes?
===========================================

A classifier assigns every object to a class that it knows, even an object of
none of them. ``novelty`` computes a conformal p-value of "this object resembles
the calibration objects", and ``discoveries`` flags objects with a bounded false
discovery rate.

.. admonition:: The guarantee
   :class: guarantee

   Of the objects that ``discoveries`` flags, at most a share ``level`` are
   false alarms on average; for one object that is *not* new, P(p ≤ t) ≤ t.
"""

# %%
# Ten digits, of which the model knows eight
# ------------------------------------------
# The model is trained on the digits 0 to 7. The new batch has 200 of those
# digits and 60 eights and nines.

# sphinx_gallery_thumbnail_path = '_static/thumbnails/11.svg'
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
batch = np.concatenate([new[:200], unknown[:60]])
is_new = y[batch] >= 8

model = LogisticRegression(C=10, max_iter=1000).fit(X[train], y[train])
predictor = pippin.calibrate(
    model.predict_proba(X[calibration]), y[calibration], "pip", alpha=0.02
)
sets = predictor.predict(model.predict_proba(X[batch]))
print(
    f"{(sets.sizes[is_new] == 1).mean():.0%} of the eights and nines get a set "
    "with one (wrong) class"
)

# %%
# A prediction set cannot express "none of these classes"; novelty can. Two
# measures are compared: 1 − max p, which is the uncertainty of the model, and
# the distance of an image to the nearest training image.

near = NearestNeighbors(n_neighbors=1).fit(X[train])


def distance(images):
    """Return the distance of each image to the nearest training image."""
    return near.kneighbors(images)[0][:, 0]


by_confidence = pippin.shift.novelty(
    predictor,
    model.predict_proba(X[batch]),
    reference=model.predict_proba(X[calibration]),
)
by_distance = pippin.shift.novelty(
    predictor, X[batch], reference=X[calibration], measure=distance
)
for name, p in (("1 − max p", by_confidence), ("distance ", by_distance)):
    flagged = pippin.shift.discoveries(p, level=0.1)
    false = (flagged & ~is_new).sum()
    print(
        f"{name}: {flagged.sum():2} flagged, {(flagged & is_new).sum():2} of "
        f"{is_new.sum()} found, {false} false alarms"
    )

# %%
# With both measures, at most a tenth of the flagged objects are false alarms on
# average. They differ in how many new objects they find.

import matplotlib.pyplot as plt

fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
bins = np.linspace(0, 1, 21)
for ax, p, title in (
    (axes[0], by_confidence, "1 − max p"),
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
fig.suptitle("New digits have small p-values of novelty", weight="bold")
plt.show()

# %%
# The p-values of known digits are uniform between 0 and 1: the p-value is
# valid. The next figure shows flagged objects, those with the smallest p-values
# first, with their true digit. A number that is not orange is a false alarm.

flagged = np.flatnonzero(pippin.shift.discoveries(by_distance, level=0.1))
smallest = flagged[np.argsort(by_distance[flagged], kind="stable")][:12]
fig, axes = plt.subplots(1, 12, figsize=(9, 1.8))
for ax, i in zip(axes, smallest, strict=True):
    ax.imshow(1 - digits.images[batch[i]], cmap="gray")
    ax.set_title(
        f"{y[batch[i]]}",
        loc="center",
        color="C1" if is_new[i] else "#222222",
        fontsize=11,
    )
    ax.axis("off")
fig.suptitle(
    "Flagged digits; orange numbers are of an unknown class", weight="bold"
)
plt.show()

# %%
# ``flagged`` attaches the result to the prediction sets:

sets.flagged(pippin.shift.discoveries(by_distance, level=0.1))

# %%
# What can go wrong
# -----------------
# **The model is confident about a new object.** The measure 1 − max p detects
# an object only if the model is uncertain. Some new digits get a probability
# above 90% for a known class:

surest = model.predict_proba(X[batch][is_new]).max(axis=1)
print(f"{(surest > 0.9).mean():.0%} of the eights and nines")

# %%
# **The reference contains training rows.** Training images have smaller
# distances than new images of known digits, so most alarms are false:

trained_on = pippin.shift.novelty(
    predictor, X[batch], reference=X[train], measure=distance
)
flagged = pippin.shift.discoveries(trained_on, level=0.1)
false = (flagged & ~is_new).sum()
print(f"{flagged.sum()} flagged, {false / flagged.sum():.0%} of them false")

# %%
# Read on
# -------
# - :doc:`/streams`: novelty in streams, other measures, p-values per class
# - :doc:`/shift`: a study with classes that a network was not trained on
# - :func:`pippin.shift.novelty`, :func:`pippin.shift.discoveries`,
#   :meth:`pippin.PredictionSets.flagged`
