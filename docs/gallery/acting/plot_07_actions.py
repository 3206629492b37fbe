"""
How do I choose actions with a guarantee?
=========================================

A prediction set is not yet an action. Define the utility of each action for
each class. pippin then chooses an action for each object and certifies a lower
bound of its utility.

.. admonition:: The guarantee
   :class: guarantee

   Every action has a *certificate*, and with probability at least 1 − alpha the
   utility of the action is at least its certificate, for any classifier.
"""

# %%
# Utilities of actions
# --------------------
# A robot can spray a plant, leave it, or ask a person. Spraying a weed is good.
# Spraying a crop is worse than leaving a weed. A question always has the same
# value. In medicine the actions could be "treat", "discharge" and "refer".

# sphinx_gallery_thumbnail_path = '_static/thumbnails/07.svg'
import pippin

data = pippin.load_example()
crops = ("maize", "common_wheat", "sugar_beet")
utility = pippin.decisions.Utility(
    {
        "spray": {"weed": 1, "crop": -2},
        "leave": {"weed": -1, "crop": 1},
        "ask": {"weed": 0.3, "crop": 0.3},
    },
    kinds={name: "crop" if name in crops else "weed" for name in data.classes},
)
rows, labels = data.probs[:2000], data.labels[:2000]
new, truth = data.probs[2000:], data.labels[2000:]

decider = pippin.decisions.calibrate(
    rows, labels, utility, alpha=0.02, classes=data.classes
)
decisions = decider.decide(new)
decisions

# %%
# Evaluate the decisions
# ----------------------

evaluation = pippin.decisions.evaluate(
    decisions, truth, utility, alpha=0.02, n_calibration=2000
)
print(evaluation)

# %%
# The guarantee is about each certificate: 98% of the actions reach theirs. It
# is not about the mean, so the mean utility may be below the mean certificate.
#
# Compare with prediction sets
# ----------------------------
# Another method has the same guarantee: compute prediction sets with 98%
# coverage and take the action with the best worst case over each set. But a set
# distinguishes twelve classes, and three actions need less. The worst case asks
# a person more often.

levels = (0.01, 0.02, 0.05, 0.1)
made = {
    "calibrated decisions": [decider.at(alpha).decide(new) for alpha in levels]
}
for score in ("ip", "repip"):
    predictor = pippin.calibrate(rows, labels, score, classes=data.classes)
    made[f"worst case over {score} sets"] = [
        pippin.decisions.decide(
            predictor.at(alpha).predict(new), utility, fallback="ask"
        )
        for alpha in levels
    ]

# %%

import matplotlib.pyplot as plt
import numpy as np

fig, axes = plt.subplots(1, 2, figsize=(9, 3.8))
worth = utility.of(data.classes)  # actions × classes
for name, decided in made.items():
    questions = [100 * one.counts()["ask"] / len(new) for one in decided]
    utilities = [worth[one.codes, truth].mean() for one in decided]
    for ax, values in zip(axes, (questions, utilities), strict=True):
        ax.plot(range(len(levels)), values, "o-", label=name)
titles = ("Questions to a person, %", "Mean utility")
for ax, title in zip(axes, titles, strict=True):
    ax.set_xlabel("alpha, the accepted share of broken certificates")
    ax.set_xticks(range(len(levels)), [f"{alpha:g}" for alpha in levels])
    ax.set_title(title)
axes[0].legend(fontsize=9.5)
fig.suptitle("Calibrated decisions ask less and gain more", weight="bold")
plt.show()

# %%
# What can go wrong
# -----------------
# **The guarantee is for all objects together.** Crops are rare, so more than 2%
# of them can be sprayed while 98% of all certificates hold:

is_crop = np.isin(truth, [data.classes.index(name) for name in crops])


def sprayed_crops(decisions):
    """Return the share of crops that are sprayed."""
    share = (decisions.actions[is_crop] == "spray").mean()
    return f"{share:.1%} of the crops sprayed"


print(sprayed_crops(decisions))

# %%
# Ask for a guarantee per superclass, each with its own alpha:

careful = pippin.decisions.calibrate(
    rows,
    labels,
    utility,
    {"weed": 0.1, "crop": 0.01},
    per="kind",
    classes=data.classes,
)
print(sprayed_crops(careful.decide(new)))

# %%
# **Expected utility without calibration.** The action with the largest expected
# utility has no guarantee, because the probabilities may be wrong. Here is the
# expected and the realized utility:

best = pippin.decisions.best_response(new, utility, classes=data.classes)
expected = (new.astype(float) @ worth.T)[np.arange(len(new)), best.codes]
print(f"expected utility {expected.mean():.3f}")
print(f"realized utility {worth[best.codes, truth].mean():.3f}")
print(sprayed_crops(best))

# %%
# Read on
# -------
# - :doc:`/decisions`: the method, selective classification, risk control
# - :doc:`../integrations/plot_16_onnx_and_c`: the same decisions in C, on a
#   device
# - :class:`pippin.decisions.Utility`, :func:`pippin.decisions.calibrate`,
#   :func:`pippin.decisions.decide`, :func:`pippin.decisions.evaluate`
