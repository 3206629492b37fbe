"""
How do I detect drift in a stream?
==================================

The guarantee needs new objects from the distribution of the calibration rows. A
monitor detects when that distribution changes. It is a test martingale: a bet
against "nothing has changed" whose capital grows only if the bet is right.

.. admonition:: The guarantee
   :class: guarantee

   While nothing changes, the probability of *any* alarm is at most delta,
   however long the stream is.
"""

# %%
# A stream with a change
# ----------------------
# The first 1,200 objects come from the distribution of the calibration rows.
# After them the network is overconfident: its probabilities are cubed and
# normalized.

# sphinx_gallery_thumbnail_path = '_static/thumbnails/09.svg'
import numpy as np

import pippin

data = pippin.load_example()
predictor = pippin.calibrate(
    data.probs[:2000],
    data.labels[:2000],
    "repip",
    alpha=0.1,
    classes=data.classes,
)
overconfident = data.probs[3200:].astype(float) ** 3
stream = np.concatenate(
    [
        data.probs[2000:3200],
        overconfident / overconfident.sum(axis=1, keepdims=True),
    ]
)
labels = data.labels[2000:]

# %%
# The monitor receives one object at a time, with its label:

monitor = pippin.online.Monitor(predictor, delta=0.01, seed=0)
for row, label in zip(stream, labels, strict=True):
    alarm = monitor.update(row, label)
    if alarm:
        print(alarm)
        break

# %%

import matplotlib.pyplot as plt

ax = monitor.plot()
ax.axvspan(1200, monitor.alarm.row, color="C1", alpha=0.12, linewidth=0)
ax.annotate("change, not yet detected", (1190, 1.0), ha="right", color="C1")
ax.set_xlim(0, 1400)
ax.set_title("The capital of the bet grows after the change")
plt.show()

# %%
# The axis is logarithmic. Before the change the capital falls slowly, because
# the bet is wrong. After the change it grows fast. If labels are late or
# missing, ``monitor.update(row)`` observes the confidence of the classifier
# instead.
#
# Sets that adapt
# ---------------
# If labels keep arriving, the threshold can adapt. ``update="track"`` moves it
# after every label. Its long-run coverage is 1 − alpha for *any* sequence of
# objects:

fixed, adaptive = (
    pippin.online.Stream(predictor, update=update)
    for update in ("none", "track")
)
for one in (fixed, adaptive):
    for row, label in zip(stream, labels, strict=True):
        one.learn(one.predict_one(row), label)
print("fixed threshold:   ", fixed.describe())
print("adaptive threshold:", adaptive.describe())

# %%

fig, axes = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True)
for ax, one, title in zip(
    axes,
    (fixed, adaptive),
    ("Fixed threshold", "Adaptive threshold"),
    strict=True,
):
    one.plot(ax)
    ax.axvline(1200, color="#222222", linestyle=":")
    ax.set(title=title, ylim=(0.65, 1.02))
axes[1].set_ylabel("")
axes[1].get_legend().remove()
fig.suptitle("An adaptive threshold restores coverage", weight="bold")
plt.show()

# %%
# What can go wrong
# -----------------
# **The rows are sorted.** The monitor tests exchangeability: that every order
# of the rows is equally likely. Rows that are sorted by class violate it,
# although their distribution has not changed:

by_class = np.argsort(labels[:1200], kind="stable")
sorted_monitor = pippin.online.Monitor(predictor, delta=0.01, seed=0)
alarms = (
    sorted_monitor.update(data.probs[2000 + i], labels[i]) for i in by_class
)
print(next((alarm for alarm in alarms if alarm), "no alarm"))

# %%
# Shuffle rows whose order has no meaning. If classes come in blocks by nature,
# use a predictor with thresholds per class: its monitor compares each object
# with objects of the same class.
#
# **A harmless change raises an alarm.** A network that is *less* confident
# gives larger sets with more coverage. ``Monitor`` detects this change too.
# ``RiskMonitor`` only observes misses and raises no alarm:

underconfident = 0.5 * data.probs[2000:] + 0.5 / 12
changed = pippin.online.Monitor(predictor, delta=0.01, seed=0)
alarms = (
    changed.update(row, label)
    for row, label in zip(underconfident, labels, strict=True)
)
print("Monitor:    ", next((alarm for alarm in alarms if alarm), "no alarm"))

risk = pippin.online.RiskMonitor(predictor.alpha, tolerance=0.02, delta=0.01)
for missed in ~predictor.predict(underconfident).contains(labels):
    risk.update(missed)
print("RiskMonitor:", risk.describe())

# %%
# Read on
# -------
# - :doc:`/streams`: test martingales, mean time between false alarms, saved
#   states
# - :doc:`/shift`: which changes of photographs are detected, and how fast
# - :class:`pippin.online.Monitor`, :class:`pippin.online.RiskMonitor`,
#   :class:`pippin.online.Stream`; ``pippin monitor`` on the command line
