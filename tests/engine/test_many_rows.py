"""More rows than 32 bits count: where each block's rows begin is 64 bits wide, shown without holding such rows."""

from itertools import pairwise

import numpy as np

from pippin._conformal.mondrian import Categories
from pippin._engine import dispatch


def test_blocks_begin_past_32_bits():
    """Rows that only say how many they are: every block begins where the one before ends."""

    class Counted:
        n, n_classes, logits = 2**33, 2**9, False

    begun = list(dispatch._blocks(Counted()))
    assert begun[0][0] == 0
    assert begun[-1][1] == 2**33
    assert all(a[1] == b[0] for a, b in pairwise(begun))


def test_cells_of_many_scores():
    """Where a cell's scores begin is no 32-bit number."""
    offsets = np.array([0, 2**31 + 3, 2**33])
    categories = Categories(np.array([[0, 1]], dtype=np.int32), offsets, None)
    assert categories.counts.tolist() == [2**31 + 3, 2**33 - 2**31 - 3]
    assert categories.quantile_ranks(0.5).tolist() == [2**30 + 2, (2**33 - 2**31 - 3 + 1) // 2]
