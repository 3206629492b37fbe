"""Both engines, and the sets that one of them finds under one threshold."""

import numpy as np

from pippin._engine.compiled import engine as compiled
from pippin._engine.plain import engine as plain
from pippin._engine.protocol import Bounds

__all__ = ["compiled", "members", "one_bound", "plain"]


def one_bound(threshold):
    """One threshold for all."""
    return Bounds(np.array([[threshold]], dtype=np.float64))


def members(engine, probs, c, threshold, u):
    """Sizes, members, and how many rows are suspect."""
    sizes = np.zeros(len(probs), dtype=np.int64)
    return sizes, *engine.members(probs, c, one_bound(threshold), u, sizes)
