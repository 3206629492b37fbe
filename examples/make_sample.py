"""Rows of the embedded example as two tables: sample.csv with labels, and new.csv without.

    python examples/make_sample.py [FOLDER]

The files that this script writes are in this folder; the commands in README.md use them.
"""

import sys
from pathlib import Path

import numpy as np
import polars as pl

import pippin

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
data = pippin.load_example()
rows = np.random.default_rng(0).permutation(len(data.labels))[:500]
table = pl.DataFrame(data.probs[rows], schema=list(data.classes), orient="row")
labels = pl.Series("label", [data.classes[k] for k in data.labels[rows]])
table[:400].with_columns(labels[:400]).write_csv(folder / "sample.csv", float_precision=4)
table[400:].write_csv(folder / "new.csv", float_precision=4)
print(f"{folder / 'sample.csv'}: 400 labeled rows of {len(data.classes)} classes; {folder / 'new.csv'}: 100 rows")
