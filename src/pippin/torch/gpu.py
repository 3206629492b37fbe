# mypy: disable-error-code="untyped-decorator,no-untyped-def,import-not-found,import-untyped,assignment,misc"
"""Triton kernels: a row is read once, and its classes are ranked only as far as its set goes.

`_tops` reads everything once and keeps the largest value of every group of neighbours.
`_walk` takes one row: again and again the best group's best class, until a score passes
the threshold. Scores are summed in rank order in float64 without fused multiply-add, so
the sets are those of `plain.py` to the last bit.
"""

import torch

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError:  # torch for CPUs comes without it
    triton = tl = None

PRESENT = triton is not None
jit = triton.jit if PRESENT else lambda kernel: kernel

STEPS = 1024  # ranks that are walked before a row is left to a sort
LONGEST = 1024  # groups per row
CHUNK = 4096  # values per program


@jit
def _tops(probs, tops, n_classes, n_tops, GROUPS: "tl.constexpr", GROUP: "tl.constexpr"):
    row = tl.program_id(0).to(tl.int64)
    group = tl.program_id(1) * GROUPS + tl.arange(0, GROUPS)
    index = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    values = tl.load(probs + row * n_classes + index, mask=index < n_classes, other=-1.0)
    tl.store(tops + row * n_tops + group, tl.max(values, axis=1), mask=group < n_tops)


@jit
def _walk(
    probs, tops, table, numbers, draws, sizes, classes, lasts, settled,
    n_classes, n_tops, width, steps, TOPS: "tl.constexpr", GROUP: "tl.constexpr",
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    constant, second, threshold = tl.load(numbers), tl.load(numbers + 1), tl.load(numbers + 3)
    u = tl.load(draws + row)
    groups, lane = tl.arange(0, TOPS), tl.arange(0, GROUP)
    top = tl.load(tops + row * n_tops + groups, mask=groups < n_tops, other=-1.0)
    _, group = tl.max(top, axis=0, return_indices=True)
    last_p = tl.full((), float("inf"), probs.dtype.element_ty)
    last = tl.full((), -1, tl.int32)
    size = tl.full((), 0, tl.int32)
    going = tl.full((), 1, tl.int32)
    mass = tl.full((), 0.0, tl.float64)
    while (going != 0) & (size < steps):
        index = group * GROUP + lane
        values = tl.load(probs + row * n_classes + index, mask=index < n_classes, other=-1.0)
        free = (values < last_p) | ((values == last_p) & (index > last))
        values = tl.where(free, values, -1.0)
        p, place = tl.max(values, axis=0, return_indices=True)
        top = tl.where(groups == group, tl.max(tl.where(lane == place, -1.0, values), axis=0), top)
        k = group * GROUP + place
        following, group = tl.max(top, axis=0, return_indices=True)
        wide = p.to(tl.float64)
        if size == 0:
            mass = second * following.to(tl.float64)
        entry = table + size * 5
        own = tl.load(entry) + u * tl.load(entry + 1)
        score = (constant + own * wide) + mass + (tl.load(entry + 3) + u * tl.load(entry + 4))
        if (score <= threshold) & (p >= 0):
            tl.store(classes + row * width + size, k.to(tl.int64), mask=size < width)
            mass = tl.where(size == 0, 0.0, mass) + tl.load(entry + 2) * wide
            last_p = p
            last = k
            size += 1
        else:
            going = 0
    tl.store(sizes + row, size.to(tl.int64))
    tl.store(lasts + row, last.to(tl.int64))
    tl.store(settled + row, (going == 0) | (size == n_classes))


@jit
def _count(ranked, table, numbers, draws, sizes, n, n_classes, ROWS: "tl.constexpr"):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    constant, second, threshold = tl.load(numbers), tl.load(numbers + 1), tl.load(numbers + 3)
    start = ranked + row.to(tl.int64) * n_classes
    u = tl.load(draws + row, mask=row < n, other=0.0)
    going = row < n
    size = tl.zeros((ROWS,), tl.int64)
    mass = second * tl.load(start + 1, mask=going, other=0.0).to(tl.float64)
    rank = tl.full((), 0, tl.int32)
    while (rank < n_classes) & (tl.max(going.to(tl.int32), axis=0) != 0):
        p = tl.load(start + rank, mask=going, other=0.0).to(tl.float64)
        entry = table + rank * 5
        own = tl.load(entry) + u * tl.load(entry + 1)
        score = (constant + own * p) + mass + (tl.load(entry + 3) + u * tl.load(entry + 4))
        going = going & (score <= threshold)
        size += going.to(tl.int64)
        mass = tl.where(rank == 0, 0.0, mass) + tl.load(entry + 2) * p
        rank += 1
    tl.store(sizes + row, size, mask=row < n)


def walk(
    probs: torch.Tensor,
    table: torch.Tensor,
    numbers: torch.Tensor,
    u: torch.Tensor,
    sizes: torch.Tensor,
    classes: torch.Tensor,
    last: torch.Tensor,
) -> torch.Tensor | None:
    """Fills in sizes, members and last members; says which rows are settled, None if all must be."""
    n, n_classes = probs.shape
    group = max(32, triton.next_power_of_2(triton.cdiv(n_classes, LONGEST)))
    n_tops = triton.cdiv(n_classes, group)
    per_program = min(triton.next_power_of_2(n_tops), max(1, CHUNK // group))
    tops = torch.empty((n, n_tops), dtype=probs.dtype, device=probs.device)
    settled = torch.empty(n, dtype=torch.bool, device=probs.device)
    width, steps, padded = classes.shape[1], min(STEPS, n_classes), triton.next_power_of_2(n_tops)
    with torch.cuda.device(probs.device):
        if n:
            _tops[(n, triton.cdiv(n_tops, per_program))](probs, tops, n_classes, n_tops, per_program, group)
            _walk[(n,)](
                probs, tops, table, numbers, u, sizes, classes, last, settled, n_classes, n_tops, width, steps,
                padded, group, num_warps=4 if padded > 128 else 1, enable_fp_fusion=False,
            )  # fmt: skip
    return None if steps == n_classes else settled


def count_sorted(ranked: torch.Tensor, table: torch.Tensor, numbers: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """The sizes of rows that are sorted already, summed one rank after the other."""
    n, n_classes = ranked.shape
    sizes = torch.empty(n, dtype=torch.int64, device=ranked.device)
    with torch.cuda.device(ranked.device):
        _count[(triton.cdiv(n, 32),)](
            ranked, table, numbers, u, sizes, n, n_classes, 32, num_warps=1, enable_fp_fusion=False
        )
    return sizes
