"""
How do I report coverage to an auditor?
=======================================

An auditor asks which coverage is guaranteed, whether it was reached, for which
classes it was not, and whether the predictor in use is the one that was tested.
Each question has an answer that can be printed.

.. admonition:: The guarantee
   :class: guarantee

   The distribution of coverage on n test rows is known, so a test on fresh
   labeled rows reports whether coverage is within two standard errors of 1 −
   alpha, and how rare a larger deviation is.
"""

# %%
# What is guaranteed?
# -------------------
# Use three separate parts of the data: the network was trained on other
# photographs, 2,000 rows are for calibration, and the other rows are for the
# audit.

# sphinx_gallery_thumbnail_path = '_static/thumbnails/08.svg'
import tempfile
from pathlib import Path

import pippin

folder = Path(tempfile.mkdtemp())
data = pippin.load_example()
rows, labels = data.probs[:2000], data.labels[:2000]
audit, truth = data.probs[2000:], data.labels[2000:]
predictor = pippin.calibrate(rows, labels, "repip", 0.1, classes=data.classes)
predictor.save(folder / "predictor.json")
print(predictor.describe())

# %%
# Before the test, ``plan`` gives the range of coverage that is consistent with
# the guarantee:

plan = pippin.plan(alpha=0.1, n=2000, test=len(truth))
print(f"95% of audits: between {plan.test_low:.3f} and {plan.test_high:.3f}")

# %%
# Was it reached?
# ---------------

evaluation = pippin.evaluate(
    predictor.predict(audit), truth, alpha=0.1, n_calibration=2000
)
print(evaluation.verdict)

# %%
# For which classes was it not?
# -----------------------------
# The guarantee is marginal: it never promised 90% for a single class. The
# figure shows the coverage of each class with a 95% interval. With 12
# intervals, one can exclude the true value by chance; an interval far below 90%
# is a finding.

import matplotlib.pyplot as plt

ax = evaluation.plot()
ax.set_title("Marginal coverage is 90%; coverage of single classes differs")
plt.show()

# %%
# If every class must be covered, calibrate per class:

per_class = pippin.calibrate(
    rows, labels, "repip", 0.1, classes=data.classes, per="class"
)
again = pippin.evaluate(
    per_class.predict(audit), truth, alpha=0.1, n_calibration=2000
)
for name, one in (("marginal", evaluation), ("per class", again)):
    worst = one.worst_class
    n = one.class_counts[worst]
    print(f"{name}: size {one.mean_size:.2f}")
    print(f"  lowest: {worst}, {one.class_coverage[worst]:.1%} of {n} rows")

# %%
# With a guarantee per class, the lowest coverage of the audit is still below
# 90%. Part of that is chance: the threshold of a class depends on its few
# calibration rows, and its coverage is measured on few rows. ``plan`` gives the
# range for one class:

n = int((labels == data.classes.index(again.worst_class)).sum())
plan = pippin.plan(alpha=0.1, n=n, test=again.class_counts[again.worst_class])
print(f"{n} calibration rows, {plan.test} test rows:")
print(f"95% of audits between {plan.test_low:.3f} and {plan.test_high:.3f}")

# %%
# Is it the predictor that was tested?
# ------------------------------------
# A predictor's file is JSON with a checksum of its content. A loaded predictor
# equals the saved one:

import json

loaded = pippin.load(folder / "predictor.json")
checksum = json.loads((folder / "predictor.json").read_text())["sha256"]
print("same content:", loaded.content() == predictor.content())
print("checksum:", checksum[:16], "…")

# %%
# A report as one HTML file
# -------------------------
# ``pippin compare data.npz --out report`` writes ``report.html`` with tables,
# figures, checks of coverage and a verdict. It opens without a network
# (:doc:`/report`).

import subprocess
import sys

import numpy as np


def write(name, probs, labels):
    """Write rows to a file that the command line reads."""
    np.savez(folder / name, probs=probs, labels=labels, classes=data.classes)


def run(*arguments):
    """Run a pippin command in the temporary folder."""
    command = [sys.executable, "-m", "pippin.cli", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


write("data.npz", data.probs, data.labels)
_ = run(
    "compare",
    "data.npz",
    "--scores",
    "ip,repip",
    "--splits",
    "100",
    "--out",
    "r",
)
print(*sorted(file.name for file in (folder / "r").iterdir()), sep="\n")

# %%
# What can go wrong
# -----------------
# **The audit uses the calibration rows.** Their coverage is 1 − alpha by
# construction. The command line recognizes them:

write("same.npz", rows, labels)
print(run("evaluate", "predictor.json", "same.npz").stderr)

# %%
# **The file was edited.** Here one number is changed, and loading fails:

text = (folder / "predictor.json").read_text()
edited = text.replace(
    repr(predictor.threshold), repr(predictor.threshold - 0.1)
)
_ = (folder / "edited.json").write_text(edited)
try:
    pippin.load(folder / "edited.json")
except pippin.InputError as error:
    print(str(error).replace(str(folder) + "/", ""))

# %%
# **The audit rows have another distribution.** Then the guarantee does not
# apply, and the verdict reports the deviation in standard errors:

overconfident = audit.astype(float) ** 3
overconfident /= overconfident.sum(axis=1, keepdims=True)
sets = predictor.predict(overconfident)
print(pippin.evaluate(sets, truth, alpha=0.1, n_calibration=2000).verdict)

# %%
# Read on
# -------
# - :doc:`/predictor-file`: content of the file, and its checksum
# - :doc:`/guarantees`: all guarantees, with proofs
# - :func:`pippin.evaluate`, :class:`pippin.Evaluation`, :func:`pippin.plan`,
#   :func:`pippin.load`
