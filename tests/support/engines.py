"""The NumPy and the numba engine, and sets for a single threshold."""

import numpy as np
import pytest

import pippin
from pippin._engine import dispatch
from pippin._engine import numpy_engine as plain
from pippin._engine.numba_engine import engine as compiled
from pippin._engine.numba_engine.engine import LABEL_TILES, SET_TILES
from pippin._engine.protocol import Bounds
from pippin._validation.rows import as_rows

__all__ = ["CLASSES", "compiled", "each_engine", "members", "one_bound", "plain", "sets_of_core"]

# Edges of the tiled loop, of words of 64 classes, of the sorting algorithms, and numbers between them.
EDGES = {edge for most in (LABEL_TILES, SET_TILES) for edge in (most, most + 1)}
CLASSES = sorted(EDGES | {2, 3, 5, 12, 16, 17, 31, 63, 64, 65, 100, 128, 200, 256, 257, 300, 1000})
FEW_CLASSES = [n_classes for n_classes in CLASSES if n_classes <= SET_TILES + 1]
MANY_CLASSES = [n_classes for n_classes in CLASSES if n_classes > SET_TILES + 1]

each_engine = pytest.mark.parametrize("engine", [plain, compiled], ids=["numpy", "numba"])


def one_bound(threshold):
    """Return the bounds of a single threshold."""
    return Bounds(np.array([[threshold]], dtype=np.float64))


def members(engine, probs, c, threshold, u):
    """Return sizes, members and the number of suspect rows."""
    sizes = np.zeros(len(probs), dtype=np.int64)
    return sizes, *engine.members(probs, c, one_bound(threshold), u, sizes)


def sets_of_core(predictor, probs, u):
    """Return sizes, members (n, K) padded with −1, and the mask, under the predictor's only threshold."""
    sizes, members = dispatch.members(as_rows(probs), predictor.score, one_bound(predictor.threshold), u)
    listed = np.full(probs.shape, -1)
    listed[np.arange(probs.shape[1]) < sizes[:, None]] = members
    return sizes, listed, pippin.PredictionSets(sizes, members, range(probs.shape[1])).mask
