"""
How do I add my own nonconformity score?
========================================

A score is a few numbers per rank. Write them down under a name, and the score is known
everywhere: in ``compare``, in ``tune``, in files, on the command line, in C and ONNX,
at the speed of the others.

.. admonition:: The guarantee
   :class: guarantee

   Every score that passes ``check_score`` gives sets with coverage 1 − alpha; a bad
   idea costs size, never coverage.
"""

# %%
# A family in four lines
# ----------------------
# PIP adds up the probabilities above a class, the r-th with weight 1/r. What if the
# weights fell more steeply, or more slowly? ``coefficients`` gets the ranks 1 … K and
# your parameters, and returns the columns of the formula in :doc:`/scores`.

import pippin
import pippin.testing


def steep(ranks, power):
    """PIP, with weights that fall like ranks to the power −power."""
    return {"constant": 1, "own": -1, "above": ranks**-power}


pippin.scores.register("steep", pippin.scores.Family({"power": 2.0}, steep))
pippin.testing.check_score("steep(power=3)")  # raises, with the law that fails

# %%
# It is now a score like any other. With ``power=1`` it is PIP, to the last bit:

data = pippin.load_example()
scores = pippin.scores.score(data.probs, data.labels, "steep(power=1)")
print((scores == pippin.scores.score(data.probs, data.labels, "pip")).all())
pippin.calibrate(
    data.probs[:2000], data.labels[:2000], "steep(power=3)", classes=data.classes
).predict(data.probs[2000:])

# %%
# Is it any good?
# ---------------
# Sweep its parameter on the same random splits, beside the scores that it has to beat.

import matplotlib.pyplot as plt

values = [0, 0.5, 1, 2, 4, 8]
swept = pippin.sweep(
    data.probs, data.labels, "steep", parameter="power", values=values, splits=100
)
others = pippin.compare(
    data.probs, data.labels, ["ip", "margin", "repip", "socop"], splits=100
)

fig, ax = plt.subplots()
line = swept.summary()
ax.plot(line["mean_size"], 100 * line["singleton_rate"], "o-", label="steep")
for value, size, share in zip(
    values, line["mean_size"], 100 * line["singleton_rate"], strict=True
):
    ax.annotate(
        f"{value:g}",
        (size, share),
        xytext=(-4, 7),
        textcoords="offset points",
        ha="right",
        fontsize=9.5,
    )
for name, size, share in (
    others.summary().select("score", "mean_size", "singleton_rate").iter_rows()
):
    ax.scatter(size, 100 * share, color="C6", marker="s", s=50, zorder=3)
    ax.annotate(name, (size, 100 * share), xytext=(8, -4), textcoords="offset points")
ax.set(
    xlabel="classes per set (fewer is better)",
    ylabel="singletons, % (more is better)",
    xlim=(1.3, 2.7),
)
ax.set_title("The line that power traces, and what it has to beat")
ax.legend(loc="lower right")
plt.show()

# %%
# Between PIP and margin there is nothing to be had that ``repip`` and ``socop``, up and
# to the left, do not have for less. An honest picture of one's own idea is worth having
# early.
#
# What can go wrong
# -----------------
# **A score that falls with the rank.** A set is the top of the ranking, so a class must
# never score better than one above it. Here is a bonus for unlikely classes, against a
# network's blind spots, and it is refused as soon as it is registered:

generous = pippin.scores.Family(
    {}, lambda ranks: {"constant": 1, "own": -1, "penalty": -0.1 * ranks}
)
try:
    pippin.scores.register("generous", generous)
except pippin.InputError as error:
    print(error)

# %%
# **A score without a way home.** The file of a predictor names its score. Where the
# family is not registered, the file cannot be read, and says so. So put the family into
# a module that both sides import (``--import your_module`` on the command line):

import subprocess
import sys
import tempfile
from pathlib import Path

file = Path(tempfile.mkdtemp()) / "predictor.json"
pippin.calibrate(
    data.probs[:2000], data.labels[:2000], "steep(power=3)", classes=data.classes
).save(file)
elsewhere = subprocess.run(
    [sys.executable, "-c", "import sys, pippin; pippin.load(sys.argv[1])", file],
    capture_output=True,
    text=True,
)
print(elsewhere.stderr.splitlines()[-1].replace(str(file.parent) + "/", ""))

# %%
# Read on
# -------
# - :doc:`/scores`: the formula, its columns, and the laws that ``check_score`` holds a
#   score against
# - :doc:`../basics/plot_01_which_score`: comparing scores on your data
# - :class:`pippin.scores.Family`, :func:`pippin.scores.register`,
#   :func:`pippin.testing.check_score`, :func:`pippin.scores.linear`
