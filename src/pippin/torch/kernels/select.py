# mypy: ignore-errors
# Triton compiles these functions itself: their arguments are pointers and blocks, for which Python has no types.
"""The k-th smallest of many scores, found byte by byte: how many have which next byte, and in which of these it is.

All programs run at the same time, count a share of the scores, and wait for each other after every byte.
"""

import torch

from pippin.torch.kernels.language import INTERPRETED, constexpr, jit, launch, tl

BLOCK = 1024
MOST = 64  # programs: so many run at the same time on any GPU


@jit
def _smallest(scores, faults, out, n, k, BLOCK: constexpr):
    """The k-th smallest score: once a byte leaves a single one in question, whoever has that one tells it."""
    programs = tl.num_programs(0)
    byte = tl.arange(0, 256)
    counts, arrived = faults + 1, faults + 2049
    before = k - 1  # how many of those that are still in question are smaller
    prefix = tl.full((), 0, tl.uint64)
    step = tl.full((), 0, tl.int32)
    left = n  # in question
    while (step < 8) & (left > 1):
        count = tl.zeros((256,), tl.int32)
        first = tl.program_id(0) * BLOCK
        while first < n:
            at = first + tl.arange(0, BLOCK)
            key = _key(tl.load(scores + at, mask=at < n, other=0.0))
            near = (at < n) & (_first_bytes(key, step) == prefix)
            next_byte = (key >> (56 - 8 * step).to(tl.uint64)) & 255
            count += tl.histogram(next_byte.to(tl.int32), 256, mask=near)
            first += programs * BLOCK
        tl.atomic_add(counts + step * 256 + byte, count, mask=count > 0)
        tl.debug_barrier()
        here = tl.atomic_add(arrived, 1) + 1
        while here < (step + 1) * programs:
            here = tl.atomic_add(arrived, 0)
        tl.debug_barrier()
        total = tl.load(counts + step * 256 + byte, cache_modifier=".cg")
        below = tl.cumsum(total, axis=0)
        chosen = tl.sum((below <= before).to(tl.int32), axis=0)
        before -= tl.max(tl.where(byte < chosen, below, 0), axis=0)
        left = tl.sum(tl.where(byte == chosen, total, 0), axis=0)
        prefix = (prefix << 8) | chosen.to(tl.uint64)
        step += 1
    first = tl.program_id(0) * BLOCK
    while first < n:
        at = first + tl.arange(0, BLOCK)
        score = tl.load(scores + at, mask=at < n, other=0.0)
        tl.store(out + tl.zeros_like(at), score, mask=(at < n) & (_first_bytes(_key(score), step) == prefix))
        first += programs * BLOCK
    if tl.program_id(0) == 0:
        tl.store(out + 1, tl.load(faults).to(tl.float64))


@jit
def _key(score):
    """A whole number in the order of the scores."""
    bits = score.to(tl.uint64, bitcast=True)
    return bits ^ tl.where(bits >> 63 == 1, 0xFFFFFFFFFFFFFFFF, 0x8000000000000000).to(tl.uint64)


@jit
def _first_bytes(key, many):
    """So many bytes of a key, from none to all 8; a shift by all 64 bits at once would be no shift."""
    half = (32 - 4 * many).to(tl.uint64)
    return (key >> half) >> half


def smallest(scores: torch.Tensor, k: int, faults: torch.Tensor) -> torch.Tensor:
    """The k-th smallest of scores in float64, and the first of `faults` as a number of the same kind: (2,).

    The rest of `faults` is room for counting: once, as it has to be 0 before.
    """
    out = torch.empty(2, dtype=torch.float64, device=scores.device)
    programs = 1 if INTERPRETED else min(MOST, -(-len(scores) // BLOCK))
    launch(
        _smallest, programs, (scores, faults, out), (len(scores), k), (BLOCK,), 8, together=True
    )  # fmt: skip
    return out
