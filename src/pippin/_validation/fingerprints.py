"""Fingerprints (hashes) of rows, to find repeated rows without storing the rows."""

from collections.abc import Iterator
from hashlib import blake2b
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Prints = NDArray[np.uint64]

_BLOCK = 2**20  # number of matrix entries that are hashed at once
LARGEST, GRID = 3, 1e-3  # number of probabilities in the fingerprint of a rounded row, and the step of their grid


def fingerprints(X: Any) -> Prints:
    """Compute a hash of each row; equal rows of dense arrays, sparse arrays and data frames have equal hashes.

    >>> fingerprints([[0.5, 0.0], [0.5, 0.0]]) == fingerprints(np.array([[0.5, 0], [0.0, 0.5]]))
    array([ True, False])
    """
    if hasattr(X, "tocsr"):
        rows = X.tocsr()
        ends = np.zeros(rows.data.size + 1, dtype=np.uint64)
        np.cumsum(_mixed(_bits(rows.data)) * _multipliers(rows.indices), out=ends[1:])
        sums: Prints = ends[rows.indptr[1:]] - ends[rows.indptr[:-1]]
        return sums
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    prints = np.zeros(n, dtype=np.uint64)
    column = 0
    for part in _parts(X, n):
        odd = _multipliers(np.arange(column, column + part.shape[1]))
        step = max(1, _BLOCK // max(1, part.shape[1]))
        for start in range(0, n, step):
            block = _mixed(_bits(part[start : start + step]))
            prints[start : start + step] += (block * odd).sum(axis=1, dtype=np.uint64)
        column += part.shape[1]
    return prints


def rounded_prints(probs: NDArray[Any]) -> Prints:
    """Compute one number per row from its largest probabilities on a coarse grid.

    Most rows have the same number after rounding, for example to three digits.


    >>> rows = np.array([[0.70012, 0.19996, 0.09992]])
    >>> rounded_prints(rows) == rounded_prints(rows.round(3))
    array([ True])
    """
    count = min(LARGEST, probs.shape[1])
    columns = np.argpartition(probs, -count, axis=1)[:, -count:]
    cells = np.rint(np.take_along_axis(probs, columns, axis=1).astype(np.float64) / GRID).astype(np.uint64)
    prints: Prints = (_mixed(cells) * _multipliers(columns)).sum(axis=1, dtype=np.uint64)
    return prints


def seen_before(known: NDArray[Any], rows: NDArray[Any], once: bool = False) -> int:
    """Count the `rows` that are among the `known` rows; return 0 if repetitions within `known` explain as many.

    Rows are given by one number each, such as a fingerprint or a score.

    The probability that a new row equals a known one is estimated from the share of known rows that occur more than
    once (Good 1953). Counts up to six standard deviations above the expected number are attributed to chance. With
    `once`, only known fingerprints that occur once are counted, and the probability is estimated from those that occur
    twice. This finds repeated rows even if most rows share a few fingerprints.

    >>> rows = fingerprints(np.arange(100).reshape(50, 2))
    >>> seen_before(rows[:40], rows[20:]), seen_before(rows[:40], rows[40:])
    (20, 0)
    """
    different, counts = np.unique(known, return_counts=True)
    counted, twins = different, counts[counts > 1].sum()
    if once:
        counted, twins = different[counts == 1], 2 * (counts == 2).sum()
    found = int(np.isin(counted, rows).sum() if once else np.isin(rows, counted).sum())
    n, m = len(known), len(rows)
    expected = m * (int(twins) + 1) / (n + 2)
    return found if found > expected + 6 * sqrt(expected * (1 + m / n)) else 0


def estimate_repeated(known: NDArray[Any], rows: NDArray[Any]) -> int:
    """Estimate how many `known` rows are among `rows`, from those that occur once; 0 if chance explains as many.

    >>> known = np.arange(100.0)
    >>> estimate_repeated(known, known[50:]), estimate_repeated(known, known + 0.5)
    (50, 0)
    """
    found = seen_before(known, rows, once=True)
    return round(found * len(known) / np.count_nonzero(np.unique(known, return_counts=True)[1] == 1)) if found else 0


def _parts(X: Any, n: int) -> Iterator[NDArray[Any]]:
    """Yield the columns of the data as matrices of n rows: one matrix for an array, one per column for a data frame."""
    if hasattr(X, "iloc") and X.ndim == 2:
        yield from (np.asarray(X.iloc[:, j]).reshape(n, 1) for j in range(X.shape[1]))
    elif hasattr(X, "get_columns"):
        yield from (np.asarray(column).reshape(n, 1) for column in X.get_columns())
    else:
        array = np.asarray(X)
        yield array.reshape(n, array.size // n if n else 0)


def _bits(values: NDArray[Any]) -> Prints:
    """Return the bits of each number as float64, so that 1 and 1.0 are equal; of other values, a hash of the text."""
    if values.dtype.kind in "fiub":
        return (values.astype(np.float64) + 0.0).view(np.uint64)  # adding 0.0 turns -0.0 into 0.0
    texts = [str(value) for value in values.ravel().tolist()]
    known = {text: int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) for text in set(texts)}
    return np.array([known[text] for text in texts], dtype=np.uint64).reshape(values.shape)


def _mixed(bits: Prints) -> Prints:
    """Mix (hash) the bits of each number; 0 stays 0, so that zeros that a sparse row does not store add nothing."""
    bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return bits ^ (bits >> np.uint64(32))


def _multipliers(columns: NDArray[Any]) -> Prints:
    """Return an odd factor for the entries of each column, so that the hash of a row depends on their order."""
    steps = (columns.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    return _mixed(steps) | np.uint64(1)
