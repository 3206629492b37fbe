"""
How do I detect drift in a stream?
==================================

Guarantees hold for objects like those that calibrated. A lens gets dirty, a robot
drives into the next field: then somebody must notice. A monitor bets against "nothing
has changed", and when it has won a hundredfold, it raises an alarm.

.. admonition:: The guarantee
   :class: guarantee

   While nothing changes, the probability that there is *ever* an alarm is at most
   delta, however long the stream is.
"""

# %%
# A stream with a change in it
# ----------------------------
# 1,200 objects as they were, then a network that has become too sure of itself: its
# probabilities are cubed.

import numpy as np

import pippin

data = pippin.load_example()
predictor = pippin.calibrate(
    data.probs[:2000], data.labels[:2000], "repip", alpha=0.1, classes=data.classes
)
overconfident = data.probs[3200:].astype(float) ** 3
stream = np.concatenate(
    [data.probs[2000:3200], overconfident / overconfident.sum(axis=1, keepdims=True)]
)
labels = data.labels[2000:]

# %%
# The monitor gets one object at a time, with its label:

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
ax.annotate("changed, not yet told", (1190, 1.0), ha="right", color="C1")
ax.set_xlim(0, 1400)
plt.show()

# %%
# On a logarithmic axis: evidence falls slowly while nothing happens, because a bet
# against nothing loses, and climbs as soon as something has. Labels that come late or
# never? ``monitor.update(row)`` watches how sure the classifier is instead.
#
# Sets that follow
# ----------------
# Where labels keep coming, sets can follow them. ``"track"`` moves the threshold after
# every label, and in the long run covers what was asked for, *whatever* the sequence:

still, following = (
    pippin.online.Stream(predictor, update=way) for way in ("none", "track")
)
for one in (still, following):
    for row, label in zip(stream, labels, strict=True):
        one.learn(one.predict_one(row), label)
print("threshold as calibrated:", still.describe())
print("threshold that follows: ", following.describe())

# %%

fig, axes = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True)
for ax, one, title in zip(
    axes, (still, following), ("As calibrated", "Following the labels"), strict=True
):
    one.plot(ax)
    ax.axvline(1200, color="#222222", linestyle=":")
    ax.set(title=title, ylim=(0.65, 1.02))
axes[1].set_ylabel("")
axes[1].get_legend().remove()
plt.show()

# %%
# What can go wrong
# -----------------
# **An order that means something.** The monitor tests whether rows could have come in
# any order. Sort the *unchanged* rows by species, as they lie in folders, and it says,
# rightly, that they could not:

by_species = np.argsort(labels[:1200], kind="stable")
sorted_monitor = pippin.online.Monitor(predictor, delta=0.01, seed=0)
alarms = (sorted_monitor.update(data.probs[2000 + i], labels[i]) for i in by_species)
print(next((alarm for alarm in alarms if alarm), "no alarm"))

# %%
# Shuffle what has no order of its own. Where classes come in blocks by nature, use a
# predictor with thresholds per class: its monitor compares each object with those of
# its own class only.
#
# **A change that harms nobody.** A network that is *less* sure makes larger sets, which
# cover more. ``Monitor`` tells that too; ``RiskMonitor`` looks at misses alone and
# stays silent:

less_sure = 0.5 * data.probs[2000:] + 0.5 / 12
changed = pippin.online.Monitor(predictor, delta=0.01, seed=0)
alarms = (
    changed.update(row, label) for row, label in zip(less_sure, labels, strict=True)
)
print("Monitor:    ", next((alarm for alarm in alarms if alarm), "no alarm"))

risk = pippin.online.RiskMonitor(predictor.alpha, tolerance=0.02, delta=0.01)
for missed in ~predictor.predict(less_sure).contains(labels):
    risk.update(missed)
print("RiskMonitor:", risk.describe())

# %%
# Read on
# -------
# - :doc:`/streams`: how the bets are made, mean time between false alarms, saving a
#   state
# - :doc:`/shift`: blur, dusk, another camera: what is noticed, and after how many
#   photographs
# - :class:`pippin.online.Monitor`, :class:`pippin.online.RiskMonitor`,
#   :class:`pippin.online.Stream`; ``pippin monitor`` on the command line
