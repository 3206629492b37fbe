# mypy: ignore-errors
# Triton compiles these functions itself: their arguments are pointers and blocks, for which Python has no types.
"""A sum in rank order, to the last bit, though many terms are added at once.

The core adds t₁, t₂, … one after the other, S ← fl(S + t). Between two powers of two, B <= S < 2B, float64 numbers
are the multiples of ε = B/2⁵². As long as S stays there, fl(S + t) is S plus t rounded to a multiple of ε, whatever S
is, unless t is just between two multiples, where it goes to the even one. Sums of multiples of ε below 2B are exact in
any order. So a block of terms that neither leaves [B, 2B) nor has such a tie is added at once; any other one term by
term.
"""

from pippin.torch.kernels.language import jit, tl


@jit
def steps(mass, terms):
    """By how much each term of a block raises the sum, if no term depends on the others, and whether that is so."""
    bits = mass.to(tl.int64, bitcast=True)
    base = (bits & 0x7FF0000000000000).to(tl.float64, bitcast=True)
    step = (base + terms) - base
    tie = tl.abs(terms - step) == base * 1.1102230246251565e-16  # ε/2
    calm = (mass > 1e-200) & (mass + tl.sum(step, axis=0) < 2.0 * base) & (tl.max(tie.to(tl.int32), axis=0) == 0)
    return step, calm
