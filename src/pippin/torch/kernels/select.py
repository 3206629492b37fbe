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
    programs = tl.num_programs(0)
    byte = tl.arange(0, 256)
    counts, arrived = faults + 1, faults + 2049
    before = k - 1  # how many of those that are still in question are smaller
    prefix = tl.full((), 0, tl.uint64)
    for step in tl.static_range(8):
        count = tl.zeros((256,), tl.int32)
        first = tl.program_id(0) * BLOCK
        while first < n:
            at = first + tl.arange(0, BLOCK)
            key = tl.load(scores + at, mask=at < n, other=0.0).to(tl.uint64, bitcast=True)
            key = key ^ tl.where(key >> 63 == 1, 0xFFFFFFFFFFFFFFFF, 0x8000000000000000).to(tl.uint64)
            near = at < n
            if step > 0:
                near = near & (key >> (64 - 8 * step) == prefix)
            count += tl.histogram(((key >> (56 - 8 * step)) & 255).to(tl.int32), 256, mask=near)
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
        prefix = (prefix << 8) | chosen.to(tl.uint64)
    if tl.program_id(0) == 0:
        key = prefix ^ tl.where(prefix >> 63 == 1, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF).to(tl.uint64)
        tl.store(out, key.to(tl.float64, bitcast=True))
        tl.store(out + 1, tl.load(faults).to(tl.float64))


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
