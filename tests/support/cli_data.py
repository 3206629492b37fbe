"""Small probabilities, labels and groups in all file formats, for tests of the command line."""

import numpy as np
import polars

RNG = np.random.default_rng(11)
PROBS = RNG.dirichlet([0.4, 0.4, 0.4], 60)
LABELS = np.array([RNG.choice(3, p=p) for p in PROBS])
NAMES = np.array(["crop", "soil", "weed"])
GROUPS = np.where(RNG.random(60) < 0.5, "north", "south")
DATA = ["data.npz", "data.csv", "data.parquet", "data.npy --labels data-labels.npy"]


def write_data(folder, probs=PROBS, labels=LABELS, stem="data"):
    """Write the data in all formats."""
    np.savez(folder / f"{stem}.npz", probs=probs, labels=labels, classes=NAMES)
    np.save(folder / f"{stem}.npy", probs)
    np.save(folder / f"{stem}-labels.npy", labels)
    write_frames(folder / stem, probs, labels)


def write_grouped(folder, groups=GROUPS, stem="grouped"):
    """Write data with groups in all formats that support them."""
    np.savez(folder / f"{stem}.npz", probs=PROBS, labels=LABELS, classes=NAMES, groups=groups)
    write_frames(folder / stem, PROBS, LABELS, group=polars.Series(groups))


def write_frames(path, probs, labels, **columns):
    """Write a table with a column per class, labels, and further columns."""
    frame = polars.DataFrame(probs, schema=list(NAMES)).with_columns(label=polars.Series(NAMES[labels]), **columns)
    frame.write_csv(path.with_suffix(".csv"))
    frame.write_parquet(path.with_suffix(".parquet"))
