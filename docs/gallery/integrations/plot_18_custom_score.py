"""
How do I add my own nonconformity score?
========================================

A nonconformity score is defined by a few coefficients per rank. Register a
family of scores under a name, and it works everywhere: in ``compare`` and
``tune``, in files, on the command line, in C and in ONNX.

.. admonition:: The guarantee
   :class: guarantee

   Every score that passes ``check_score`` gives sets with coverage of at least
   1 − alpha; a poor score gives large sets, not low coverage.
"""

# %%
# A family in four lines
# ----------------------
# PIP is a weighted sum of the probabilities that are larger than that of the
# class; the weight of rank r is 1/r. This family uses other powers of r. The
# function receives the ranks 1 … K and the parameters, and returns the
# coefficients of the formula in :doc:`/scores`.

# sphinx_gallery_thumbnail_path = '_static/thumbnails/18.svg'
import pippin
import pippin.testing


def steep(ranks, power):
    """Return coefficients of PIP with weights ranks**-power."""
    return {"constant": 1, "own": -1, "above": ranks**-power}


pippin.scores.register("steep", pippin.scores.Family({"power": 2.0}, steep))
pippin.testing.check_score(
    "steep(power=3)"
)  # raises LawError if a property fails

# %%
# It is now a score like any other. With ``power=1`` it equals PIP:

data = pippin.load_example()
scores = pippin.scores.score(data.probs, data.labels, "steep(power=1)")
print((scores == pippin.scores.score(data.probs, data.labels, "pip")).all())
pippin.calibrate(
    data.probs[:2000],
    data.labels[:2000],
    "steep(power=3)",
    classes=data.classes,
).predict(data.probs[2000:])

# %%
# Is it any good?
# ---------------
# Sweep its parameter and compare it with other scores on the same random
# splits.

import matplotlib.pyplot as plt

values = [0, 0.5, 1, 2, 4, 8]
swept = pippin.sweep(
    data.probs,
    data.labels,
    "steep",
    parameter="power",
    values=values,
    splits=100,
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
    ax.annotate(
        name, (size, 100 * share), xytext=(8, -4), textcoords="offset points"
    )
ax.set(
    xlabel="size (smaller is better)",
    ylabel="singletons, % (more is better)",
    xlim=(1.3, 2.7),
)
ax.set_title("The family steep for several powers, and four other scores")
ax.legend(loc="lower right")
plt.show()

# %%
# On these data ``repip`` and ``socop`` are better: for the same share of
# singletons, their sets are smaller than those of any power.
#
# What can go wrong
# -----------------
# **The score decreases with the rank.** A less probable class must not have a
# smaller score than a more probable one. This family gives a bonus to
# improbable classes, and ``register`` rejects it:

generous = pippin.scores.Family(
    {}, lambda ranks: {"constant": 1, "own": -1, "penalty": -0.1 * ranks}
)
try:
    pippin.scores.register("generous", generous)
except pippin.InputError as error:
    print(error)

# %%
# **The family is not registered where the predictor is loaded.** A predictor's
# file has the name of its score only. Register the family in a module that you
# import on both sides (``--import your_module`` on the command line):

import subprocess
import sys
import tempfile
from pathlib import Path

file = Path(tempfile.mkdtemp()) / "predictor.json"
pippin.calibrate(
    data.probs[:2000],
    data.labels[:2000],
    "steep(power=3)",
    classes=data.classes,
).save(file)
elsewhere = subprocess.run(
    [
        sys.executable,
        "-c",
        "import sys, pippin; pippin.load(sys.argv[1])",
        file,
    ],
    capture_output=True,
    text=True,
)
print(elsewhere.stderr.splitlines()[-1].replace(str(file.parent) + "/", ""))

# %%
# Read on
# -------
# - :doc:`/scores`: the formula, its coefficients, and the properties that
#   ``check_score`` verifies
# - :doc:`../basics/plot_01_which_score`: comparing scores on your data
# - :class:`pippin.scores.Family`, :func:`pippin.scores.register`,
#   :func:`pippin.testing.check_score`, :func:`pippin.scores.linear`
