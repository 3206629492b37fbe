"""Rows for tests of Dask clusters, as partitions of unequal sizes and as tables."""

import gzip
from importlib import import_module
from itertools import pairwise

import dask
import numpy as np
import polars

RNG = np.random.default_rng(6)
N = 4000
PROBS = RNG.dirichlet(np.full(12, 0.3), N)
LABELS = (PROBS.cumsum(axis=1) < RNG.random((N, 1))).sum(axis=1).clip(0, 11)
GROUPS = RNG.choice(["north", "south"], N)
CUTS = [0, 1, 1, 900, 2500, 2501, N]


def divided(array):
    """Divide an array into delayed partitions of unequal sizes, one of them empty."""
    return [dask.delayed(np.array(array[a:b])) for a, b in pairwise(CUTS)]


def write_tables(folder):
    """Write all rows with groups and ids to four tables: .parquet, .csv, .csv.gz and .parquet."""
    names = [f"class {k}" for k in range(12)]
    frame = polars.DataFrame(PROBS, schema=names).with_columns(
        label=polars.Series(np.array(names)[LABELS]),
        group=polars.Series(GROUPS),
        photo=polars.Series([f"{i}.png" for i in range(N)]),
    )
    folder.mkdir()
    frame[:500].write_parquet(folder / "0.parquet")
    frame[500:1700].write_csv(folder / "1.csv")
    (folder / "2.csv.gz").write_bytes(gzip.compress(frame[1700:2400].write_csv().encode()))
    frame[2400:].write_parquet(folder / "3.parquet")


def predict_command_in_small_parts(folder, monkeypatch, call):
    """Return a command, up to its output file, that predicts all tables in parts of 300 rows."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(import_module("pippin.cli.predict"), "PART", 300)
    write_tables(folder / "tables")
    call("calibrate tables --id photo --score aps --seed 1 --out p.json")
    return "predict p.json tables --id photo --seed 2 --out"
