# mypy: ignore-errors
# Triton compiles these functions itself: their arguments are pointers and blocks, for which Python has no types.
"""A sum in rank order, to the last bit, though many terms are added at once.

The core adds t₁, t₂, … one after the other, S ← fl(S + t). Between two powers of two, B <= S < 2B, float64 numbers
are the multiples of ε = B/2⁵². As long as S stays there, fl(S + t) is S plus t rounded to a multiple of ε, whatever S
is, unless t is just between two multiples, where it goes to the even one. Sums of multiples of ε below 2B are exact in
any order. So the terms of a block up to the first that leaves [B, 2B) or has such a tie are added at once, and that one
by itself.
"""

from pippin.torch.kernels.language import constexpr, jit, tl


@jit
def added(mass, terms, BLOCK: constexpr):
    """The sums before each term of a block, for how many of them these are right, and the sum behind those."""
    bits = mass.to(tl.int64, bitcast=True)
    base = (bits & 0x7FF0000000000000).to(tl.float64, bitcast=True)
    step = (base + terms) - base
    upto = tl.cumsum(step, axis=0)
    tie = tl.abs(terms - step) == base * 1.1102230246251565e-16  # ε/2
    limit = tl.where(mass > 1e-200, 2.0 * base, 0.0)
    stops = (terms != 0) & ((mass + upto >= limit) | tie)
    place = tl.arange(0, BLOCK)
    first = tl.min(tl.where(stops, place, BLOCK), axis=0)
    before = mass + (upto - step)
    alone = tl.sum(tl.where(place == first, before + terms, 0.0), axis=0)
    behind = tl.where(first < BLOCK, alone, mass + tl.sum(step, axis=0))
    return before, tl.minimum(first + 1, BLOCK), behind
