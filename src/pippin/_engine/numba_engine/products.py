"""Matrix product whose bits in one row depend on that row alone, compiled; BLAS does not promise that."""

from pippin._engine.numba_engine.compilation import entry_point
from pippin._runtime.arrays import Floats


@entry_point
def add_product(out: Floats, left: Floats, right: Floats) -> None:
    """Add left · right to `out`, term by term in the order of the inner index."""
    inner, width = right.shape
    fours = inner - inner % 4
    for i in range(left.shape[0]):
        for j in range(0, fours, 4):  # four terms per pass over the row of `out`
            a, b, c, d = left[i, j], left[i, j + 1], left[i, j + 2], left[i, j + 3]
            for k in range(width):
                total = out[i, k]
                total += a * right[j, k]
                total += b * right[j + 1, k]
                total += c * right[j + 2, k]
                total += d * right[j + 3, k]
                out[i, k] = total
        for j in range(fours, inner):
            a = left[i, j]
            for k in range(width):
                out[i, k] += a * right[j, k]
