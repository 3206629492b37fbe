"""
How do I export to ONNX and C?
==============================

A calibrated predictor consists of a score and a threshold. pippin exports it as
an ONNX graph for any ONNX runtime, and as a C header without dependencies for a
microcontroller.

.. admonition:: The guarantee
   :class: guarantee

   For the same probabilities, C and ONNX return the sets of Python, so the
   guarantee of the calibration applies to them.
"""

# %%
# Export
# ------

# sphinx_gallery_thumbnail_path = '_static/thumbnails/16.svg'
import subprocess
import sys
import tempfile
from pathlib import Path

import pippin

folder = Path(tempfile.mkdtemp())
data = pippin.load_example()
predictor = pippin.calibrate(
    data.probs[:2000],
    data.labels[:2000],
    "repip",
    alpha=0.1,
    classes=data.classes,
)
predictor.save(folder / "predictor.json")

# %%
# On the command line this is ``pippin export predictor.json --onnx head.onnx
# --c head.h``:

command = [
    "export",
    folder / "predictor.json",
    "--onnx",
    folder / "head.onnx",
    "--c",
    folder / "head.h",
]
subprocess.run(
    [sys.executable, "-m", "pippin.cli", *map(str, command)],
    check=True,
    capture_output=True,
)
for file in sorted(folder.iterdir()):
    print(f"{file.name:15} {file.stat().st_size:6,} bytes")

# %%
# ONNX
# ----

import numpy as np
import onnxruntime

new, truth = data.probs[2000:], data.labels[2000:]
expected = predictor.predict(new)
session = onnxruntime.InferenceSession(folder / "head.onnx")
sizes, classes, mask = session.run(["sizes", "classes", "mask"], {"probs": new})
print(
    f"{(mask != expected.mask).any(axis=1).sum()} of {len(new):,} sets differ "
    "from Python's"
)

# %%
# In C
# ----
# The program reads rows of probabilities and prints each set. The header
# allocates no memory and needs no library.

program = """
#include <stdio.h>
#include "head.h"

int main(void)
{
    float row[PIPPIN_CLASSES];
    int classes[PIPPIN_CLASSES];
    while (fread(row, sizeof(float), PIPPIN_CLASSES, stdin) == PIPPIN_CLASSES) {
        int size = pippin_predict_float(row, 0.0, classes);
        for (int k = 0; k < size; k++)
            printf("%s ", pippin_class_name(classes[k]));
        printf("\\n");
    }
    return 0;
}
"""
written = (folder / "main.c").write_text(program)

# %%
# Compile and run it, if there is a compiler:

import shutil

compiler = shutil.which("cc")
if compiler is None:
    print("There is no C compiler here.")
else:
    subprocess.run(
        [compiler, "-std=c99", "-O2", "-o", folder / "sets", folder / "main.c"],
        check=True,
    )
    run = subprocess.run(
        [folder / "sets"], input=new.tobytes(), capture_output=True, check=True
    )
    lines = run.stdout.decode().splitlines()
    different = sum(
        line.split() != list(map(str, members))
        for line, members in zip(lines, expected, strict=True)
    )
    print(f"row 23: {{{lines[23].strip()}}}")
    print(f"{different} of {len(lines):,} sets differ from Python's")

# %%
# What can go wrong
# -----------------
# **The network on the device differs from the calibrated one.** Devices often
# use quantized networks. Here the logits are rounded to a few bits, but the
# predictor was calibrated on floats:

logits = np.log(np.maximum(data.probs, 1e-7)).astype(float)


def on_device(bits):
    """Return probabilities of logits that are rounded to `bits` bits."""
    step = (logits.max() - logits.min()) / (2**bits - 1)
    rounded = np.exp(np.round(logits / step) * step)
    return rounded / rounded.sum(axis=1, keepdims=True)


bits = [2, 3, 4, 5, 6, 8]
before, after = [], []
for b in bits:
    seen = on_device(b)
    again = pippin.calibrate(
        seen[:2000], data.labels[:2000], "repip", alpha=0.1
    )
    before.append(
        100 * pippin.metrics.coverage(predictor.predict(seen[2000:]), truth)
    )
    after.append(
        100 * pippin.metrics.coverage(again.predict(seen[2000:]), truth)
    )
    print(
        f"{b} bits: coverage {before[-1]:.1f}%; "
        f"calibrated on device outputs {after[-1]:.1f}%"
    )

# %%

import matplotlib.pyplot as plt

fig, ax = plt.subplots()
ax.axhline(90, color="#222222", linestyle="--", linewidth=1.2)
ax.plot(
    range(len(bits)), before, "o-", color="C1", label="calibrated on floats"
)
ax.plot(
    range(len(bits)),
    after,
    "s-",
    color="C0",
    label="calibrated on the device's outputs",
)
ax.set_xticks(range(len(bits)), bits)
ax.set(xlabel="bits per logit", ylabel="coverage, %")
ax.set_title("Calibrate on the outputs of the network that will run")
ax.legend()
plt.show()

# %%
# Compute the calibration logits on the device, or in its runtime with the same
# rounding.
#
# **The predictor cannot be exported.** Predictors with weights per object or a
# model per fold have no C or ONNX form:

weighted = pippin.calibrate(
    data.probs[:2000],
    data.labels[:2000],
    weights=np.ones(2000),
    classes=data.classes,
)
weighted.save(folder / "weighted.json")
command = ["export", folder / "weighted.json", "--c", folder / "weighted.h"]
refused = subprocess.run(
    [sys.executable, "-m", "pippin.cli", *map(str, command)],
    capture_output=True,
    text=True,
)
print(refused.stderr)

# %%
# Read on
# -------
# - :doc:`/export`: groups, decisions, appending to a network's own graph
# - :doc:`/predictor-file`: the file format
# - :doc:`../acting/plot_07_actions`: decisions, which can be exported too
