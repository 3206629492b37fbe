"""Both engines, and the sets that one of them finds under one threshold."""

import numpy as np

import pippin
from pippin._engine import dispatch
from pippin._engine.compiled import engine as compiled
from pippin._engine.plain import engine as plain
from pippin._engine.protocol import Bounds
from pippin._inputs.rows import as_rows

__all__ = ["compiled", "members", "one_bound", "plain", "sets_of_core"]


def one_bound(threshold):
    """One threshold for all."""
    return Bounds(np.array([[threshold]], dtype=np.float64))


def members(engine, probs, c, threshold, u):
    """Sizes, members, and how many rows are suspect."""
    sizes = np.zeros(len(probs), dtype=np.int64)
    return sizes, *engine.members(probs, c, one_bound(threshold), u, sizes)


def sets_of_core(predictor, probs, u):
    """The core's sizes, members (n, K) with −1 behind them, and mask, under the predictor's one threshold."""
    sizes, members = dispatch.members(as_rows(probs), predictor.score, one_bound(predictor.threshold), u)
    listed = np.full(probs.shape, -1)
    listed[np.arange(probs.shape[1]) < sizes[:, None]] = members
    return sizes, listed, pippin.PredictionSets(sizes, members, range(probs.shape[1])).mask
