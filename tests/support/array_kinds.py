"""Equal probabilities and labels in every supported kind of array."""

from decimal import Decimal

import ml_dtypes
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import torch
import xarray as xr

from support.named_columns import arrow

RNG = np.random.default_rng(7)
# Multiples of 1/64, so that half floats and bfloat16 hold them exactly and every row sums to 1.
PROBS = RNG.multinomial(64, [0.4, 0.3, 0.15, 0.1, 0.05], size=80) / 64
LABELS = RNG.integers(0, 5, 80)
NAMES = ["soil", "maïs", "weed", "pea", "rye"]


class OnlyArray:
    """Array-like object that only has `__array__`."""

    def __init__(self, array):
        self._array = array

    def __array__(self, dtype=None, copy=None):
        return self._array if dtype is None or dtype == self._array.dtype else self._array.astype(dtype)


class OnlyDlpack:
    """Array-like object that only has the DLPack protocol."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def strided(a):
    wide = np.ones([2 * size for size in a.shape], a.dtype)
    view = wide[(slice(None, None, 2),) * a.ndim]
    view[...] = a
    return view


def backwards(a):
    turn = (slice(None, None, -1),) * a.ndim
    return a[turn].copy()[turn]


def unaligned(a):
    view = np.zeros(a.nbytes + 1, np.uint8)[1:].view(a.dtype).reshape(a.shape)
    view[...] = a
    return view


def read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


def memmap(a, folder):
    path = folder / f"{a.ndim}.npy"
    np.save(path, a)
    return np.load(path, mmap_mode="r")


SOURCES = {
    "C": lambda a, _: a.copy(),
    "F": lambda a, _: np.asfortranarray(a),
    "strided": lambda a, _: strided(a),
    "strided float32": lambda a, _: strided(a.astype(np.float32)),
    "negative strides": lambda a, _: backwards(a),
    "read-only": lambda a, _: read_only(a),
    "big-endian": lambda a, _: a.astype(">f8"),
    "big-endian float32": lambda a, _: a.astype(">f4"),
    "unaligned": lambda a, _: unaligned(a),
    "unaligned float32": lambda a, _: unaligned(a.astype(np.float32)),
    "float16": lambda a, _: a.astype(np.float16),
    "float32": lambda a, _: a.astype(np.float32),
    "longdouble": lambda a, _: a.astype(np.longdouble),
    "objects": lambda a, _: np.vectorize(Decimal, otypes=[object])(a),
    "lists": lambda a, _: a.tolist(),
    "memmap": memmap,
    "pandas": lambda a, _: pd.DataFrame(a) if a.ndim == 2 else pd.Series(a),
    "pandas float32": lambda a, _: pd.DataFrame(a, dtype="float32") if a.ndim == 2 else pd.Series(a, dtype="float32"),
    "pandas Float64": lambda a, _: pd.DataFrame(a, dtype="Float64") if a.ndim == 2 else pd.Series(a, dtype="Float64"),
    "polars": lambda a, _: pl.DataFrame(a) if a.ndim == 2 else pl.Series(a),
    "pyarrow": lambda a, _: arrow(a, [str(k) for k in range(a.shape[1])]) if a.ndim == 2 else pa.array(a),
    "xarray": lambda a, _: xr.DataArray(a),
    "bfloat16 of ml_dtypes": lambda a, _: a.astype(ml_dtypes.bfloat16),
    "torch": lambda a, _: torch.tensor(a),
    "torch transposed": lambda a, _: torch.tensor(a.T.copy()).T if a.ndim == 2 else torch.tensor(strided(a)),
    "torch float32 with gradient": lambda a, _: torch.tensor(a, dtype=torch.float32, requires_grad=True),
    "torch float16": lambda a, _: torch.tensor(a, dtype=torch.float16),
    "torch bfloat16 with gradient": lambda a, _: torch.tensor(a, dtype=torch.bfloat16, requires_grad=True),
    "only __array__": lambda a, _: OnlyArray(a),
    "only __dlpack__": lambda a, _: OnlyDlpack(a),
    "only __dlpack__, torch": lambda a, _: OnlyDlpack(torch.tensor(a, dtype=torch.float32)),
}
