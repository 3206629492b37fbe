# mypy: ignore-errors
# Triton compiles these functions itself: their arguments are pointers and blocks, for which Python has no types.
"""What kernels share: the formula of linear scores."""

from pippin.torch.kernels.language import jit, tl


@jit
def linear(table, rank, constant, p, mass, u):
    """`score_at` of the formula, in its order and without fused multiply-add."""
    entry = table + rank * 5
    own = tl.load(entry) + u * tl.load(entry + 1)
    return (constant + own * p) + mass + (tl.load(entry + 3) + u * tl.load(entry + 4))
