"""Plain scores over many splits of very many rows, counted.

Thresholds of so many rows lie so close together that nearly every set, and whether it holds its label, is the
same at all of them. That is kept a bit each, so a split counts it by the word. Beside it are the places (class and row)
that some threshold lets in and another leaves out. Where a score takes a u, every row has one; of each place it is
known, to 1/65,536, below which u it is in at every threshold and above which at none. What lies between is scored.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._compare.counted import METRICS, count_anew, reach
from pippin._compare.splits import BLOCK, MANY, draw_calibration, draw_split, split_generator, u_in_blocks
from pippin._compare.trial import Trial
from pippin._engine import dispatch
from pippin._engine.selecting import smallest
from pippin._runtime.arrays import Codes, Flags, Floats, Indices, Vector, read_only
from pippin._runtime.threads import run
from pippin._theory.formula import Coefficients
from pippin._theory.level import quantile_rank
from pippin._theory.scores import Score, coefficients

EVERY = read_only(np.arange(BLOCK, dtype=np.uint16))  # rows of a block

Words = NDArray[np.uint64]


class Sorted(NamedTuple):
    """Places that only some thresholds let in, of a score without u, by score.

    The kind is 0 for a class that makes a singleton, 1 for a pair, 2 for a larger set, and 4 more for the label.
    """

    scores: Vector
    row: Indices
    kind: NDArray[np.uint8]


class Layer(NamedTuple):
    """The same of a score with u, of a block of rows; at most one place for each entry.

    At steps of u below `inside` they are in for sure, above `outside` they are not. Their kinds are planes of bits.
    """

    row: NDArray[np.uint16]
    rank: NDArray[Any]
    inside: NDArray[np.uint16]
    outside: NDArray[np.uint16]
    planes: Words


class Prepared(NamedTuple):
    """What all splits of one score share: the thresholds that are prepared for, bits of every row, and places.

    `labels` says which of the places of a score without u are labels. The places of a score with u are kept by block
    of rows: the first of every row, and the others.
    """

    score: Score
    low: float
    high: float
    planes: Words
    totals: Codes
    fixed: Sorted | None
    labels: Indices
    layers: tuple[tuple[Layer, Layer], ...]


class Near(NamedTuple):
    """Of one score on one split: what is in for sure, and the places that depend on the threshold.

    `found` counts singletons, pairs and larger sets made of test rows, their labels, and labels that calibrate;
    `kind` has 8 more for a row that calibrates.
    """

    found: Codes
    scores: Vector
    kind: NDArray[np.uint8]


Found = tuple[float, Codes]  # the threshold, and the first four counts


def counter_of_many(trial: Trial, scores: Sequence[Score], step: Callable[[int], None]) -> Callable[[int], Vector]:
    """A function of a split's number that gives the metrics of all scores, (scores, metrics).

    `step` is told of each score that is prepared.
    """
    k = quantile_rank(trial.n_calibration, trial.alpha)
    if k > trial.n_calibration:
        return lambda index: np.tile((math.inf, 1.0, trial.n_classes, 0.0, 0.0), (len(scores), 1))
    dispatch.engine_for(trial.ranked.array.size)  # the compiled loops are loaded, and serve all that follows
    known: dict[int, Prepared] = {}

    def prepare(start: int, stop: int) -> None:
        known[start] = _prepared(trial, scores[start], k)
        step(1)

    pieces = [(number, number + 1) for number in range(len(scores))]
    if trial.n > MANY:  # of so many rows one score keeps all threads busy, and takes more room
        for piece in pieces:
            prepare(*piece)
    else:
        run(prepare, pieces)
    prepared = [known[number] for number in range(len(scores))]
    randomized = [own for own in prepared if own.score.randomized]

    def count(index: int) -> Vector:
        generator = split_generator(trial.seed, index)
        calibration = draw_calibration(trial, generator)
        chosen = _words(calibration)
        near = iter(_with_u(trial, randomized, calibration, chosen, generator))
        values = np.empty((len(scores), len(METRICS)))
        for own, row in zip(prepared, values, strict=True):
            inner = _counted_bits(own.planes, chosen)
            left = k - int(inner[0])
            found = (
                _scored(own, next(near), left)
                if own.fixed is None
                else _walked(own.fixed, own.labels, calibration, left)
            )
            if found is None:
                row[:] = count_anew(trial, own.score, k, calibration, draw_split(trial, index).u)
            else:
                row[:] = found[0], *_sums(own.totals - inner, found[1])
        values[:, 1:] /= trial.n_test
        return values

    return count


def _prepared(trial: Trial, score: Score, k: int) -> Prepared:
    from pippin._engine.compiled import packed

    low, high = limits = _reached(trial, score, k)
    c = coefficients(score, trial.n_classes)
    planes = np.zeros((packed.SIZE + trial.n_classes.bit_length(), -(-trial.n // 64)), dtype=np.uint64)
    fixed: dict[int, Sorted] = {}
    layers: dict[int, tuple[Layer, Layer]] = {}

    def work(start: int, stop: int) -> None:
        block, ranks, sizes = trial.ranked.block(start, stop), trial.ranks[start:stop], np.empty(stop - start, np.int64)
        if score.randomized:
            layers[start] = _layers(block, ranks, c, limits, sizes)
        else:
            found = _fixed(block, ranks, c, limits, sizes)
            fixed[start] = found._replace(row=found.row + np.int32(start))
        packed.pack(sizes, ranks, planes[:, start // 64 : -(-stop // 64)])

    dispatch.in_steps(work, trial.n, BLOCK)
    totals = _counted_bits(planes, ~np.zeros(planes.shape[1], dtype=np.uint64))
    known = _sorted([fixed[start] for start in sorted(fixed)]) if fixed else None
    labels = np.flatnonzero(known.kind & 4).astype(np.int32) if known else np.zeros(0, np.int32)
    return Prepared(score, low, high, planes, totals, known, labels, tuple(layers[start] for start in sorted(layers)))


def _fixed(block: Floats, ranks: Codes, c: Coefficients, limits: tuple[float, float], sizes: Codes) -> Sorted:
    """The places of a block of rows, unsorted; fills in sizes."""
    from pippin._engine.compiled import packed

    pieces, done = [], 0
    while done < len(block):
        room = len(block) - done + block.shape[1]
        found = Sorted(np.empty(room), np.empty(room, np.int32), np.empty(room, np.uint8))
        done, used = packed.near_fixed(block, ranks, c, limits, sizes, found[:], done)
        pieces.append(Sorted(found.scores[:used].copy(), found.row[:used].copy(), found.kind[:used].copy()))
    return _joined(pieces)


def _layers(
    block: Floats, ranks: Codes, c: Coefficients, limits: tuple[float, float], sizes: Codes
) -> tuple[Layer, Layer]:
    """The first place of each row of a block, and the others; fills in sizes."""
    from pippin._engine.compiled import packed

    n = len(block)
    done, used = 0, (aside := -(-n // 64) * 64)
    room = 2 * aside + -(-block.shape[1] // 64) * 64
    row, inside, outside = np.zeros((3, room), np.uint16)
    rank, planes = np.zeros(room, np.min_scalar_type(len(c.table))), np.zeros((packed.LABEL + 1, room // 64), np.uint64)
    found = Layer(row, rank, inside, outside, planes)
    while True:
        done, used = packed.near_drawn(block, ranks, c, limits, sizes, found[:], (done, used))
        if done == n:
            break
        found = Layer(*(np.concatenate([column, np.zeros_like(column)], axis=-1) for column in found))
    found.row[:n] = EVERY[:n]
    return _cut(found, 0, n), _cut(found, aside, used)


def _cut(layer: Layer, start: int, stop: int) -> Layer:
    """Some of the places, whole words of them: what is too much has no bits."""
    stop = -(-stop // 64) * 64
    row, rank, inside, outside = (column[start:stop].copy() for column in layer[:4])
    return Layer(row, rank, inside, outside, layer.planes[:, start // 64 : stop // 64].copy())


def _reached(trial: Trial, score: Score, k: int) -> tuple[float, float]:
    """A number below the thresholds of practically all splits, and one that hardly any exceeds."""
    first, last = reach(trial, k)
    u = np.random.default_rng(trial.seed).random(trial.n) if score.randomized else np.zeros(trial.n)
    scores = _label_scores(trial, score, u)
    low = math.nextafter(smallest(scores, first + 1), -math.inf) if first >= 0 else -math.inf
    if last < trial.n:
        return low, smallest(scores, last + 1)
    return low, float(_label_scores(trial, score, np.ones(trial.n)).max())


def _label_scores(trial: Trial, score: Score, u: Vector) -> Vector:
    from pippin._engine.compiled import in_order

    c, scores = coefficients(score, trial.n_classes), np.empty(trial.n)

    def work(start: int, stop: int) -> None:
        part = slice(start, stop)
        in_order.label_scores(trial.ranked.block(start, stop), trial.ranks[part], c, u[part], scores[part])

    dispatch.in_steps(work, trial.n, BLOCK)
    return scores


def _sorted(blocks: Sequence[Sorted]) -> Sorted:
    scores, row, kind = _joined(blocks)
    order = np.argsort(scores, kind="stable")
    return Sorted(scores[order], row[order], kind[order])


def _joined(blocks: Sequence[Sorted]) -> Sorted:
    return blocks[0] if len(blocks) == 1 else Sorted(*(np.concatenate(column) for column in zip(*blocks, strict=True)))


def _words(flags: Flags) -> Words:
    """A bit for every entry along the last axis, 64 in a word, the first the lowest."""
    *several, n = flags.shape
    room = np.zeros((*several, -(-n // 64) * 8), dtype=np.uint8)
    room[..., : -(-n // 8)] = np.packbits(flags, axis=-1, bitorder="little")
    return room.view("<u8").astype(np.uint64, copy=False)


def _counted_bits(planes: Words, chosen: Words) -> Codes:
    from pippin._engine.compiled import packed

    sums = np.empty(len(planes), dtype=np.int64)
    packed.count_bits(planes, chosen, sums)
    return sums


def _walked(own: Sorted, labels: Indices, calibration: Flags, left: int) -> Found | None:
    """The threshold is the label score behind which `left` more calibrate; None, if it is not prepared for."""
    from pippin._engine.compiled import packed

    passed = np.cumsum(calibration[own.row[labels]])
    if not (len(labels) and 0 < left <= passed[-1]):
        return None
    threshold = own.scores[labels[np.searchsorted(passed, left)]]
    entered = np.zeros(8, dtype=np.int64)
    packed.count_entered(own.row, own.kind, np.searchsorted(own.scores, threshold, side="right"), calibration, entered)
    return float(threshold), _by_kind(entered)


def _by_kind(entered: Codes) -> Codes:
    """Singletons, pairs and larger sets made, and labels."""
    return np.append(entered[:3] + entered[4:7], entered[4:].sum())


def _with_u(
    trial: Trial, several: Sequence[Prepared], calibration: Flags, chosen: Words, generator: np.random.Generator
) -> list[Near]:
    """All blocks of rows, with their u, for several scores."""
    from pippin._engine.compiled import packed

    if not several:
        return []
    most = max(len(layer.row) for own in several for block in own.layers for layer in block)
    near, gathered = (
        (np.empty(most), np.empty(most, np.uint8)),
        (np.empty(most, np.uint16), np.empty(most // 64, np.uint64)),
    )
    steps = np.zeros(BLOCK, dtype=np.uint16)
    counts = np.zeros((len(several), 5), dtype=np.int64)
    parts: list[list[tuple[Vector, NDArray[np.uint8]]]] = [[] for _ in several]
    for number, (start, u) in enumerate(u_in_blocks(generator, calibration)):
        block, calibrates = trial.ranked.block(start, start + len(u)), chosen[start // 64 : (start + BLOCK) // 64]
        packed.in_steps(u, steps)
        for own, found, kept in zip(several, counts, parts, strict=True):
            c = coefficients(own.score, trial.n_classes)
            firsts, others = own.layers[number]
            packed.gather(others.row, steps, calibrates, gathered)
            for layer, drawn in ((firsts, (u, steps, calibrates)), (others, (u, *gathered))):
                size = packed.sort_out(block, c, layer[:], drawn, found, near)
                kept.append((near[0][:size].copy(), near[1][:size].copy()))
    return [
        Near(found, *(np.concatenate(column) for column in zip(*kept, strict=True)))
        for found, kept in zip(counts, parts, strict=True)
    ]


def _scored(own: Prepared, near: Near, left: int) -> Found | None:
    """The same for a score with u, from the places that are not sure."""
    index, labels = left - int(near.found[4]) - 1, near.scores[near.kind >= 8]
    if not 0 <= index < len(labels):
        return None
    threshold = smallest(labels, index + 1)
    if not own.low < threshold <= own.high:
        return None
    entered = np.bincount(near.kind[(near.scores <= threshold) & (near.kind < 8)], minlength=8)
    return threshold, near.found[:4] + _by_kind(entered)


def _sums(tested: Codes, found: Codes) -> tuple[int, int, int, int]:
    """Test rows covered, the sum of sizes, singletons and empty sets."""
    sure, single, empty, *size = tested.tolist()
    firsts, pairs, larger, labels = found.tolist()
    total = sum(count << bit for bit, count in enumerate(size))
    return sure + labels, total + firsts + pairs + larger, single + firsts - pairs, empty - firsts
