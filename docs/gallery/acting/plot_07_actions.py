"""
How do I choose actions with a guarantee?
=========================================

Nobody wants a set; people want to act. Say what each action is worth if each class is
the true one, and get actions with a promise of what they are worth at least.

.. admonition:: The guarantee
   :class: guarantee

   An action comes with a *certificate*, and with probability 1 − alpha it is worth at
   least that much, whatever the classifier is like.
"""

# %%
# What actions are worth
# ----------------------
# Spraying a weed is good, spraying a crop is worse than leaving a weed, and a person
# who looks costs the same every time.

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
# What came of them
# -----------------

print(
    pippin.decisions.evaluate(decisions, truth, utility, alpha=0.02, n_calibration=2000)
)

# %%
# Why not from prediction sets?
# -----------------------------
# One could take sets with 98% coverage and the best action in the worst case over
# each. That keeps its promise too, but a guarantee for twelve species is more than a
# choice between three actions needs, and it is paid for by asking:

levels = (0.01, 0.02, 0.05, 0.1)
asked = {
    "calibrated decisions": [],
    "worst case over ip sets": [],
    "worst case over repip sets": [],
}
for alpha in levels:
    asked["calibrated decisions"].append(decider.at(alpha).decide(new))
    for score in ("ip", "repip"):
        sets = pippin.calibrate(
            rows, labels, score, alpha, classes=data.classes
        ).predict(new)
        asked[f"worst case over {score} sets"].append(
            pippin.decisions.decide(sets, utility, fallback="ask")
        )

# %%

import matplotlib.pyplot as plt
import numpy as np

fig, axes = plt.subplots(1, 2, figsize=(9, 3.8))
worth = utility.of(data.classes)  # actions × classes
for name, made in asked.items():
    shares = [100 * one.counts()["ask"] / len(new) for one in made]
    had = [worth[one.codes, truth].mean() for one in made]
    for ax, values in zip(axes, (shares, had), strict=True):
        ax.plot(range(len(levels)), values, "o-", label=name)
for ax, title, unit in zip(
    axes,
    ("A person has to look", "What came of it"),
    ("% of plants", "mean utility"),
    strict=True,
):
    ax.set(xlabel="alpha, the share of broken certificates allowed", ylabel=unit)
    ax.set_xticks(range(len(levels)), [f"{alpha:g}" for alpha in levels])
    ax.set_title(title)
axes[0].legend(fontsize=9.5)
plt.show()

# %%
# What can go wrong
# -----------------
# **The promise is for all plants together.** Crops are few. They can be sprayed more
# often than 2% of the time while 98% of all certificates are kept:

is_crop = np.isin(truth, [data.classes.index(name) for name in crops])
print(
    f"of {is_crop.sum()} crops, "
    f"{(decisions.actions[is_crop] == 'spray').mean():.1%} were sprayed"
)

# %%
# Ask for the promise per kind, with a level for each:

careful = pippin.decisions.calibrate(
    rows, labels, utility, {"weed": 0.1, "crop": 0.01}, per="kind", classes=data.classes
)
spared = careful.decide(new)
print(
    f"of {is_crop.sum()} crops, {(spared.actions[is_crop] == 'spray').mean():.1%} "
    "were sprayed"
)
spared

# %%
# **Believing the probabilities instead.** The action with the largest expected utility
# needs no calibration, and promises nothing. What it expects of itself here, and what
# it gets:

best = pippin.decisions.best_response(new, utility, classes=data.classes)
expected = (new.astype(float) @ worth.T)[np.arange(len(new)), best.codes]
print(
    f"expected utility {expected.mean():.3f}, had {worth[best.codes, truth].mean():.3f}"
)
print(
    f"of {is_crop.sum()} crops, {(best.actions[is_crop] == 'spray').mean():.1%} "
    "were sprayed"
)

# %%
# Read on
# -------
# - :doc:`/decisions`: how it works, acting only when sure, any expected loss
# - :doc:`../integrations/plot_16_onnx_and_c`: the same decisions in C, on a device
# - :class:`pippin.decisions.Utility`, :func:`pippin.decisions.calibrate`,
#   :func:`pippin.decisions.decide`, :func:`pippin.decisions.evaluate`
