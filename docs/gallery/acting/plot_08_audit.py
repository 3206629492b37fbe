"""
How do I report coverage to an auditor?
=======================================

Somebody who did not build the system asks what it promises, whether the promise was
kept, for whom it was not, and whether the file that runs is the file that was checked.
Each question has an answer that can be printed.

.. admonition:: The guarantee
   :class: guarantee

   The promise is a number with a law: on fresh labelled rows, coverage that strays from
   it by more than chance allows is told, with how many standard errors.
"""

# %%
# What is promised
# ----------------
# Three parts of the data that never meet: the network was trained on other photographs,
# 2,000 rows calibrate, and the rest is the audit.

import tempfile
from pathlib import Path

import pippin

folder = Path(tempfile.mkdtemp())
data = pippin.load_example()
predictor = pippin.calibrate(
    data.probs[:2000], data.labels[:2000], "repip", alpha=0.1, classes=data.classes
)
predictor.save(folder / "predictor.json")
print(predictor.describe())

# %%
# And, before anything is tested, what an audit of so many rows may show if the promise
# holds:

plan = pippin.plan(alpha=0.1, n=2000, test=2986)
print(
    f"on 2,986 rows, coverage between {plan.test_low:.3f} and "
    f"{plan.test_high:.3f} in 95 of 100 cases"
)

# %%
# Was it kept, and for whom?
# --------------------------

audit, truth = data.probs[2000:], data.labels[2000:]
found = pippin.evaluate(predictor.predict(audit), truth, alpha=0.1, n_calibration=2000)
print(found.verdict)

# %%
# The same numbers class by class, with what chance alone would do to so few plants.
# What lies outside is a fact, not bad luck.

import matplotlib.pyplot as plt
import numpy as np

names = sorted(found.class_coverage, key=found.class_coverage.get)
fig, ax = plt.subplots(figsize=(8, 4.8))
for place, name in enumerate(names):
    n = found.class_counts[name]
    spread = 300 * np.sqrt(0.09 / n)
    share = 100 * found.class_coverage[name]
    ax.plot(
        [90 - spread, min(100, 90 + spread)],
        [place, place],
        color="#c4c8cc",
        linewidth=9,
        solid_capstyle="butt",
    )
    ax.plot(
        share,
        place,
        "o",
        markersize=8,
        color="C1" if abs(share - 90) > spread else "C0",
    )
    ax.text(61, place, f"{n} plants", va="center", fontsize=9.5, color="#666666")
ax.axvline(90, color="#222222", linestyle="--", linewidth=1.2)
ax.set_yticks(range(12), [name.replace("_", " ") for name in names])
ax.set(xlabel="coverage, %; grey: three standard errors around 90%", xlim=(60.5, 101))
ax.set_title("Promised for all together; kept for all together")
plt.show()

# %%
# An auditor will stop at the orange dots. The honest sentence beside them: *the promise
# is for all plants, not for each species*. If it has to be for each, calibrate it so:

fair = pippin.calibrate(
    data.probs[:2000],
    data.labels[:2000],
    "repip",
    alpha=0.1,
    classes=data.classes,
    per="class",
)
again = pippin.evaluate(fair.predict(audit), truth, alpha=0.1, n_calibration=2000)
for name, one in (("one threshold", found), ("per class", again)):
    worst = one.class_coverage[one.worst_class]
    print(
        f"{name:13} worst class {one.worst_class}, {worst:.1%} covered; "
        f"{one.mean_size:.2f} classes per set"
    )

# %%
# Is this the file that was checked?
# ----------------------------------
# A predictor's file is JSON with a checksum of its content. What is loaded is what was
# saved, to the last bit:

import json

loaded = pippin.load(folder / "predictor.json")
print("the same content:", loaded.content() == predictor.content())
print(
    "checksum:", json.loads((folder / "predictor.json").read_text())["sha256"][:16], "…"
)

# %%
# A page for the file
# -------------------
# ``pippin compare data.npz --out report`` writes ``report.html``: one file with tables,
# figures, checks of coverage and the verdict in words, which opens without a network.

import subprocess
import sys

np.savez(
    folder / "data.npz", probs=data.probs, labels=data.labels, classes=data.classes
)
command = [
    "compare",
    folder / "data.npz",
    "--scores",
    "ip,repip",
    "--splits",
    "100",
    "--out",
    folder / "report",
]
subprocess.run(
    [sys.executable, "-m", "pippin.cli", *map(str, command)],
    check=True,
    capture_output=True,
)
print(*sorted(file.name for file in (folder / "report").iterdir()), sep="\n")

# %%
# What can go wrong
# -----------------
# **Auditing on the rows that calibrated.** Their coverage is what was asked for by
# construction; it says nothing. The command line knows those rows again:

np.savez(
    folder / "same.npz",
    probs=data.probs[:2000],
    labels=data.labels[:2000],
    classes=data.classes,
)
command = ["evaluate", folder / "predictor.json", folder / "same.npz"]
run = subprocess.run(
    [sys.executable, "-m", "pippin.cli", *map(str, command)],
    capture_output=True,
    text=True,
)
print(run.stderr)

# %%
# **A file that somebody touched.** One digit of the threshold:

text = (folder / "predictor.json").read_text()
touched = text.replace(repr(predictor.threshold), repr(predictor.threshold - 0.1))
_ = (folder / "touched.json").write_text(touched)
try:
    pippin.load(folder / "touched.json")
except pippin.InputError as error:
    print(str(error).replace(str(folder) + "/", ""))

# %%
# **Rows that are not like those that calibrated.** Then the promise does not apply, and
# the verdict says it in standard errors:

blurred = audit.astype(float) ** 3
sets = predictor.predict(blurred / blurred.sum(axis=1, keepdims=True))
print(pippin.evaluate(sets, truth, alpha=0.1, n_calibration=2000).verdict)

# %%
# Read on
# -------
# - :doc:`/predictor-file`: what is in the file, and its checksum
# - :doc:`/guarantees`: every promise, with its proof
# - :func:`pippin.evaluate`, :class:`pippin.Evaluation`, :func:`pippin.plan`,
#   :func:`pippin.load`
