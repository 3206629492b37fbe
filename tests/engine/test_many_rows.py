"""More rows than 32-bit integers can count: offsets have 64 bits, tested without such rows in memory."""

from itertools import pairwise

import numpy as np

from pippin._conformal.mondrian import Categories
from pippin._engine import dispatch


def test_blocks_begin_past_32_bits():
    """Every block begins at the end of the block before, beyond 2³² rows (tested with an object without memory)."""

    class Counted:
        n, n_classes, logits = 2**33, 2**9, False

    begun = list(dispatch._blocks(Counted()))
    assert begun[0][0] == 0
    assert begun[-1][1] == 2**33
    assert all(a[1] == b[0] for a, b in pairwise(begun))


def test_offsets_of_categories_with_many_scores():
    """Offsets of categories exceed 32 bits."""
    offsets = np.array([0, 2**31 + 3, 2**33])
    categories = Categories(np.array([[0, 1]], dtype=np.int32), offsets, None)
    assert categories.counts.tolist() == [2**31 + 3, 2**33 - 2**31 - 3]
    assert categories.quantile_ranks(0.5).tolist() == [2**30 + 2, (2**33 - 2**31 - 3 + 1) // 2]
