# mypy: ignore-errors
# Triton compiles these functions itself: their arguments are pointers and blocks, for which Python has no types.
"""What kernels share: the formula of linear scores, what is drawn for a row, and its limit."""

from pippin.torch.kernels.language import constexpr, jit, tl


@jit
def linear(table, rank, constant, p, mass, u):
    """`score_at` of the formula, in its order and without fused multiply-add."""
    entry = table + rank * 5
    own = tl.load(entry) + u * tl.load(entry + 1)
    return (constant + own * p) + mass + (tl.load(entry + 3) + u * tl.load(entry + 4))


@jit
def flat_members(p, table, formula, top, limit):
    """Which classes of a row are members, by a flat score; the best two are, or it may be wrong about the best one."""
    mass = tl.load(table + 2) * top.to(tl.float64)
    return (p >= 0) & (linear(table, 1, tl.load(formula), p.to(tl.float64), mass, 0.0) <= limit)


@jit
def draw_of(draws, row, DRAWN: constexpr):
    u = tl.full((), 0.0, tl.float64)
    if DRAWN:
        u = tl.load(draws + row)
    return u


@jit
def limit_of(highest, group, row, GROUPED: constexpr):
    """A row's group, and the highest limit there."""
    g = tl.full((), 0, tl.int64)
    if GROUPED:
        g = tl.load(group + row)
    return g, tl.load(highest + g)
