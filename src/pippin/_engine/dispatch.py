"""Scores, sets, p-values and decisions of rows, computed block by block on all cores by one of two engines.

Small inputs are computed with NumPy. Once NumPy has scored about a million probabilities, the compiled loops are
loaded, and used for all later calls. Results of both engines are equal to the last bit.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._engine import numpy_engine
from pippin._engine.protocol import BorderlineClasses, Bounds, Draws, Engine, SortedScores
from pippin._runtime.arrays import Codes, Floats, Indices, Vector, read_only
from pippin._runtime.disk import allocate_like
from pippin._runtime.errors import InputError
from pippin._runtime.threads import n_threads, run
from pippin._theory.formula import score_at
from pippin._theory.policy import Policy
from pippin._theory.scores import Score, coefficients
from pippin._validation.rows import Rows, find_fault

BLOCK = 1 << 20  # largest number of probabilities in a block: four megabytes of float32
TILE = 1 << 17  # largest number of probabilities in a block if whole rows are sorted: fits into the cache of a core
ALONE = 1 << 17  # largest number of probabilities for which one thread is at least as fast as several
WORTH_COMPILING = 1_000_000  # number of probabilities that NumPy scores in the time that loading compiled loops takes

OneSet = Callable[[NDArray[Any], float, float], Indices]
OneScore = Callable[[NDArray[Any], float, int], float]
OneDecision = Callable[[NDArray[Any]], tuple[int, float]]
UseBlock = Callable[[int, Vector], None]
Sets = tuple[Codes, Indices]  # size of each row's set; classes in all sets, row by row, most probable first

_COMPILED = "pippin._engine.numba_engine.engine"
_scored_in_numpy = 0
_loaded: Engine | None = None


def engine_for(work: int) -> Engine:
    """Return the numba engine if it is loaded or worth loading, else the NumPy engine.

    `work` is the number of probabilities that the caller is about to score. Loading is worthwhile once all
    calls together score at least WORTH_COMPILING probabilities.
    """
    global _scored_in_numpy, _loaded
    if _loaded is not None:
        return _loaded
    if _COMPILED not in sys.modules:
        _scored_in_numpy += work
        if _scored_in_numpy < WORTH_COMPILING:
            return numpy_engine
    from pippin._engine.numba_engine import engine  # waits if another thread is importing it

    _loaded = engine
    return engine


def label_scores(rows: Rows, labels: Codes, score: Score, u: Vector) -> Vector:
    """Compute for each row the nonconformity score of its class in `labels`."""
    n, n_classes = rows.array.shape
    c, engine, scores = coefficients(score, n_classes), engine_for(n * n_classes), np.empty(n)

    in_engine(engine, rows, lambda block, part: engine.label_scores(block, labels[part], c, u[part], scores[part]))
    return scores


def accuracy(rows: Rows, labels: Codes) -> float:
    """Compute the share of rows whose most probable class (the first of ties) is their label."""
    right = np.empty(rows.n, dtype=bool)
    fill(right, rows, lambda start, stop: rows.block(start, stop).argmax(axis=1) == labels[start:stop])
    return int(np.count_nonzero(right)) / rows.n


def smallest(scores: Vector, k: int) -> float:
    """Return the k-th smallest score, k from 1 on."""
    copy = scores.copy()
    copy.partition(k - 1)
    return float(copy[k - 1])


def borderline_classes(rows: Rows, ranks: Codes, score: Score, low: float, high: float) -> BorderlineClasses:
    """Find the classes of sorted rows that are in a set at the threshold `high` but not at `low`.

    The result determines the sets at all thresholds between the two. `ranks` are the ranks of the labels, from 0.
    """
    c, engine = coefficients(score, rows.n_classes), engine_for(rows.array.size)
    blocks: dict[int, Any] = {}

    def work(start: int, stop: int) -> None:
        sizes, row, *columns = engine.borderline_classes(rows.block(start, stop), ranks[start:stop], c, low, high)
        blocks[start] = sizes, row + np.int32(start), *columns

    in_blocks(work, rows)
    sizes, *columns = (
        np.concatenate(parts) for parts in zip(*(blocks[start] for start in sorted(blocks)), strict=True)
    )
    scores = np.empty(0)
    if not score.randomized:
        _, rank, _, p, mass = columns
        with np.errstate(divide="ignore", over="ignore"):
            scores = score_at(c._replace(table=c.table[rank]), slice(None), p, mass, 0.0)
        order = np.argsort(scores, kind="stable")
        scores, *columns = (column[order] for column in (scores, *columns))
    labels = np.flatnonzero(columns[2]).astype(np.int32)
    return BorderlineClasses(*map(read_only, (sizes, ranks < sizes, ranks == 0, *columns, labels, scores)))


def class_scores(rows: Rows, score: Score, u: Vector) -> Vector:
    """Compute the score of every class of every row."""
    c, engine = coefficients(score, rows.n_classes), engine_for(rows.array.size)
    scores = np.empty((rows.n, rows.n_classes))
    fill(scores, rows, lambda start, stop: engine.class_scores(checked_block(rows, start, stop), c, u[start:stop]))
    return scores


def members(rows: Rows, score: Score, bounds: Bounds, u: Vector) -> Sets:
    """Compute the prediction set of each row: the classes whose scores, and ranks for RC3P, do not exceed `bounds`."""
    n, n_classes = rows.array.shape
    c, engine, sizes = coefficients(score, n_classes), engine_for(n * n_classes), np.empty(n, dtype=np.int64)
    found: dict[int, Indices] = {}

    def work(block: Floats, part: slice) -> int:
        block_bounds = bounds if bounds.group is None else bounds._replace(group=bounds.group[part])
        found[part.start], suspects = engine.members(block, c, block_bounds, u[part], sizes[part])
        return suspects

    in_engine(engine, rows, work)
    return sizes, found[0] if len(found) == 1 else np.concatenate([found[start] for start in sorted(found)])


def p_values(rows: Rows, score: Score, held: SortedScores, group: Codes | None, draws: Draws, use: UseBlock) -> None:
    """Compute the p-values of all classes block by block; call use(first row's index, p-values) for every block."""
    group = np.zeros(rows.n, dtype=np.int64) if group is None else group
    engine = engine_for(rows.array.size)
    key = engine.INSPECTS, score
    if key not in held.fills:
        held.fills[key] = engine.p_values(coefficients(score, rows.n_classes), held)
    fill = held.fills[key]

    def work(start: int, stop: int) -> None:
        part, p = slice(start, stop), np.empty((stop - start, rows.n_classes))
        numbers = Draws(draws.u[part], None if draws.v is None else draws.v[part])
        fill(checked_block(rows, start, stop), group[part], numbers, p)
        use(start, p)

    in_steps(work, rows.n, TILE // rows.n_classes)


def one_set(score: Score, n_classes: int) -> OneSet:
    """Return a compiled function that computes the set of one row, most probable class first.

    Its arguments are the row, the random number u of a randomized score, and the threshold.
    """
    from pippin._engine.numba_engine import engine

    return _of_one_row(engine.one_set(coefficients(score, n_classes)))


def one_score(score: Score, n_classes: int) -> OneScore:
    """Return a compiled function that computes the score of one class of one row.

    Its arguments are the row, the random number u of a randomized score, and the index of the class.
    """
    from pippin._engine.numba_engine import engine

    return _of_one_row(engine.one_score(coefficients(score, n_classes)))


def _of_one_row(loop: Callable[..., Any]) -> Callable[[NDArray[Any], float, Any], Any]:
    """Return a function that calls the compiled `loop` on one row, and validates the row if necessary.

    `loop` also returns True if the row must be validated: it has negative or NaN entries, or a sum other than 1.
    """

    def compute(row: NDArray[Any], u: float, argument: Any) -> Any:
        result, suspect = loop(row, u, argument)
        if suspect:
            check_one_row(row)
        return result

    return compute


def check_one_row(row: NDArray[Any]) -> None:
    """Raise an InputError if a row is not a probability distribution."""
    if (fault := find_fault(row[None])) is not None:
        what = fault.what.removeprefix("Row 0 ")
        raise InputError(f"The row {what}", "apply softmax first" if fault.in_files else fault.remedy)


def decision_scores(rows: Rows, labels: Codes, policy: Policy) -> Vector:
    """Compute for each row the nonconformity score of its class in `labels`, for calibrating decisions.

    Under a multiplier β, a decision is the action a and the utility level v with the largest v + β·m, where m is the
    probability that a has a utility of at least v. The score is the smallest β above which the utility of the selected
    action under the class is at least v.
    """
    engine, scores = engine_for(rows.array.size), np.empty(rows.n)

    in_engine(engine, rows, lambda block, part: engine.decision_scores(block, labels[part], policy, scores[part]))
    return scores


def decide(rows: Rows, policy: Policy, limits: Vector, group: Codes | None) -> tuple[Indices, Vector]:
    """Compute the action of every row and its certificate: the utility that is guaranteed with probability 1 − alpha.

    They are the action a and the utility level v with the largest v + β·m, where m is the probability that a has a
    utility of at least v. Row i uses the calibrated multiplier β in `limits[group[i]]`, or in `limits[0]` without
    groups: one number, or one for each outcome (classes with equal utilities).
    """
    engine, limits = engine_for(rows.array.size), np.ascontiguousarray(limits)
    group = np.zeros(rows.n, dtype=np.int64) if group is None else group
    actions, certificates = np.zeros(rows.n, dtype=np.int32), np.zeros(rows.n)

    def work(block: Floats, part: slice) -> int:
        return engine.decisions(block, policy, limits, group[part], (actions[part], certificates[part]))

    in_engine(engine, rows, work)
    return actions, certificates


def best_response(rows: Rows, utilities: Vector) -> Indices:
    """Compute for every row the action with the largest expected utility, the first of ties."""
    actions, by_class = np.empty(rows.n, dtype=np.int32), np.ascontiguousarray(utilities.T)
    fill(actions, rows, lambda start, stop: (checked_block(rows, start, stop) @ by_class).argmax(axis=1))
    return actions


def one_decision(policy: Policy, beta: float) -> OneDecision:
    """Return a function that computes the action and certificate of one row.

    They are the action a and the utility level v with the largest v + beta·m, where m is the probability that a has a
    utility of at least v. This v is the certificate: the utility that is guaranteed with probability 1 − alpha.
    """
    from pippin._engine.numba_engine.decisions import line_of_row, row_arrays

    if np.isinf(beta):
        safe = policy.safe, float(policy.table[policy.safe].min())

        def decide_safely(row: NDArray[Any]) -> tuple[int, float]:
            check_one_row(row)
            return safe

        return decide_safely

    arrays, actions, values = row_arrays(policy), policy.action.tolist(), policy.value.tolist()

    def find(row: NDArray[Any]) -> tuple[int, float]:
        double = row if row.dtype == np.float64 and row.flags.writeable else row.astype(np.float64)
        line, suspect = line_of_row(double, *arrays, beta)
        if suspect:
            check_one_row(row)
        return actions[line], values[line]

    return find


def best(rows: Rows) -> tuple[Codes, Vector]:
    """Return the most probable class of every row (the first of ties) and its probability."""
    classes, top = np.empty(rows.n, dtype=np.int64), np.empty(rows.n)

    def work(start: int, stop: int) -> None:
        block = checked_block(rows, start, stop)
        classes[start:stop] = block.argmax(axis=1)
        top[start:stop] = block[np.arange(stop - start), classes[start:stop]]

    in_blocks(work, rows)
    return read_only(classes), read_only(top)


def best_classes(rows: Rows, chosen: NDArray[np.intp]) -> Indices:
    """Return the most probable class (the first of ties) of the rows with the indices `chosen`."""
    best = np.empty(len(chosen), dtype=np.int32)

    def work(start: int, stop: int) -> None:
        best[start:stop] = rows.take(chosen[start:stop]).block(0, stop - start).argmax(axis=1)

    in_steps(work, len(chosen), BLOCK // rows.n_classes)
    return best


def with_best(rows: Rows, sets: Sets) -> Sets:
    """Add to every empty set the most probable class of its row, and return all sets."""
    sizes, members = sets
    empty = np.flatnonzero(sizes == 0)
    return np.maximum(sizes, 1), np.insert(members, np.cumsum(sizes)[empty], best_classes(rows, empty))


def best_two(rows: Rows) -> tuple[Codes, Codes]:
    """Return the most probable class of each row, and the second one; of ties, the first."""
    first, second = np.empty(rows.n, dtype=np.int64), np.empty(rows.n, dtype=np.int64)

    def work(start: int, stop: int) -> None:
        block = rows.block(start, stop).copy()
        first[start:stop] = block.argmax(axis=1)
        block[np.arange(stop - start), first[start:stop]] = -1
        second[start:stop] = block.argmax(axis=1)

    in_steps(work, rows.n, TILE // rows.n_classes)
    return read_only(first), read_only(second)


def ranked_rows(rows: Rows, labels: Codes) -> tuple[Rows, Codes]:
    """Return the rows with probabilities in descending order, and the rank (from 0) of each label."""
    ranked = allocate_like(rows.array, (rows.n, rows.n_classes), rows.block(0, 1).dtype)
    ranks = np.empty(rows.n, dtype=np.int64)

    def work(start: int, stop: int) -> None:
        block = checked_block(rows, start, stop)
        ranks[start:stop] = _ranks_in(block, labels[start:stop])
        ranked[start:stop] = np.sort(block, axis=1)[:, ::-1]

    in_blocks(work, rows)
    return Rows(read_only(ranked), checked=True), read_only(ranks)


def row_orders(rows: Rows) -> Indices:
    """Return the classes of every row in descending order of probability, ties in the order of the classes."""
    orders = np.empty((rows.n, rows.n_classes), dtype=np.int32)
    fill(orders, rows, lambda start, stop: numpy_engine.ranked_order(rows.block(start, stop)))
    return read_only(orders)


def label_ranks(rows: Rows, labels: Codes) -> Codes:
    """Return the rank (from 0) of one class per row; equally probable classes rank in the order of the classes."""
    ranks = np.empty(rows.n, dtype=np.int64)
    fill(ranks, rows, lambda start, stop: _ranks_in(rows.block(start, stop), labels[start:stop]))
    return ranks


def _ranks_in(block: Any, labels: Codes) -> Any:
    own = np.take_along_axis(block, labels[:, None], axis=1)
    before = np.arange(block.shape[1]) < labels[:, None]
    return ((block > own) | ((block == own) & before)).sum(axis=1)


def checksum(rows: Rows, labels: Codes) -> str:
    """Return the SHA-256 digest of the rows and labels."""
    digest = hashlib.sha256(repr(rows.array.shape).encode())
    for start, stop in _blocks(rows):
        digest.update(np.ascontiguousarray(rows.array[start:stop]).data)
    digest.update(labels.data)
    return digest.hexdigest()


def checked_block(rows: Rows, start: int, stop: int) -> Floats:
    """Return the rows `start` to `stop`, after checking that they are probability distributions."""
    rows.check(start, stop)
    return rows.block(start, stop)


def in_engine(engine: Engine, rows: Rows, compute: Callable[[Floats, slice], int]) -> None:
    """Call compute(block, slice of its rows) for every block of rows, on all cores, and validate the rows.

    `compute` returns the number of suspect rows (negative or NaN entries, or a sum other than 1). Blocks with suspect
    rows are validated after the call; if the engine cannot detect these rows (`Engine.INSPECTS` is False), every block
    is validated before the call.
    """

    def work(start: int, stop: int) -> None:
        block = rows.block(start, stop) if engine.INSPECTS else checked_block(rows, start, stop)
        if compute(block, slice(start, stop)):
            rows.check(start, stop)

    in_blocks(work, rows)


def in_blocks(work: Callable[[int, int], None], rows: Rows) -> None:
    """Call work(start, stop) for every block of rows, on all cores."""
    if rows.array.size <= ALONE:
        work(0, rows.n)
    else:
        run(work, _blocks(rows))


def fill(array: NDArray[Any], rows: Rows, compute: Callable[[int, int], Any]) -> None:
    """Set array[start:stop] to compute(start, stop) for every block of rows, on all cores."""

    def work(start: int, stop: int) -> None:
        array[start:stop] = compute(start, stop)

    in_blocks(work, rows)


def _blocks(rows: Rows) -> Iterator[tuple[int, int]]:
    block = BLOCK // 2 if rows.logits else BLOCK  # half as many, since the softmax is computed in float64
    step = max(4, min(block // rows.n_classes, -(-rows.n // n_threads())))
    return ((start, min(start + step, rows.n)) for start in range(0, rows.n, step))


def in_steps(work: Callable[[int, int], None], n: int, step: int) -> None:
    """Divide n rows into blocks of at most `step` rows, and call work(start, stop) for each block, on all cores."""
    step = max(1, step)
    run(work, ((start, min(start + step, n)) for start in range(0, n, step)))
