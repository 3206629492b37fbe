"""Rows for tests of clusters, in parts of very different sizes and in tables."""

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
    """In parts of very different sizes, one of them empty."""
    return [dask.delayed(np.array(array[a:b])) for a, b in pairwise(CUTS)]


def write_tables(folder):
    """All rows in four tables, with groups and ids: Parquet, text, packed text, and Parquet."""
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


def words_in_small_pieces(folder, monkeypatch, call):
    """The words of a command that predicts all tables, here and in small pieces, but for the file it writes."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(import_module("pippin.cli.predict"), "PART", 300)
    write_tables(folder / "tables")
    call("calibrate tables --id photo --score aps --seed 1 --out p.json")
    return "predict p.json tables --id photo --seed 2 --out"
