"""Matrix product whose bits in one row depend on that row alone, in NumPy; BLAS does not promise that."""

from pippin._runtime.arrays import Floats


def add_product(out: Floats, left: Floats, right: Floats) -> None:
    """Add left · right to `out`, term by term in the order of the inner index."""
    for j in range(len(right)):
        out += left[:, j : j + 1] * right[j]
