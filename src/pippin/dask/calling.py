"""What to call: `calibrate`, `predict`, `evaluate` and `score` of rows that Dask holds."""

import secrets
from collections.abc import Sequence
from functools import partial
from typing import Any

import dask
import dask.array
import numpy as np

from pippin._conformal.conditional import ConditionalPredictor
from pippin._conformal.marginal import Predictor
from pippin._conformal.metrics import Evaluation
from pippin._conformal.protocol import ConformalPredictor
from pippin._distributed.batches import Held, refusing_ids
from pippin._distributed.calibration import Calibration
from pippin._distributed.measuring import Measured, measure
from pippin._distributed.part import Part, positioned
from pippin._engine import dispatch
from pippin._engine.draws import draws
from pippin._runtime.arrays import Classes
from pippin._runtime.errors import InputError
from pippin._theory.scores import Score
from pippin._theory.spelling import parse_score
from pippin._validation.batched import needed
from pippin._validation.labels import as_classes, labels_of_part
from pippin._validation.rows import as_rows
from pippin.dask.blocks import Block, blocks_of, each, firsts
from pippin.dask.families import knowing
from pippin.dask.watching import computed, persisted
from pippin.tables.scanning import Scan

MERGED_AT_ONCE = 16  # answers that one task adds up


def calibrate(
    probs: Any,
    labels: Any = None,
    score: Score | str = "repip",
    alpha: Any = 0.1,
    *,
    classes: Classes | None = None,
    seed: int | None = None,
    per: Any = None,
    groups: Any = None,
    unseen: str = "error",
) -> Predictor | ConditionalPredictor:
    """The predictor that `pippin.calibrate` makes of all rows at once, to the last bit, however they are divided.

    Every partition is scored where it is. Its scores stay there; what leaves are counts, which
    are added up on the cluster. A worker that is lost is made up for by Dask.

    Args:
        probs: a Dask array (n, K), a Dask data frame with a column per class, a list of delayed partitions, or what
            `pippin.scan` returns, whose tables the workers read.
        labels: the true classes, divided as the rows are; of a data frame the name of a column. Tables bring theirs.
        score: a score or its spelling.
        alpha: the share of errors allowed; where the guarantee is per kind, one for all or {kind: alpha}.
        classes: names of the K columns; a data frame and tables bring their own.
        seed: for the randomised scores and for clusters, a whole number.
        per: what the guarantee holds for, as in `pippin.calibrate`.
        groups: the group of each row, divided as the rows are; of a data frame the name of a column.
        unseen: what `predict` does with a group that is not among them: an "error", or "marginal".

    >>> import dask.array, pippin, pippin.dask
    >>> data = pippin.load_example()
    >>> probs, labels = dask.array.from_array(data.probs, 1000), dask.array.from_array(data.labels, 1000)
    >>> predictor = pippin.dask.calibrate(probs, labels, "pip")
    >>> predictor.threshold == pippin.calibrate(data.probs, data.labels, "pip").threshold
    True
    """
    per = "group" if per is None and groups is not None else per
    if isinstance(probs, Scan):
        labels, groups = True, True if isinstance(per, str) and "group" in per else None
    blocks = blocks_of(probs, labels, groups)
    known = _classes(probs, blocks, classes, labels, groups)
    calibration = Calibration(score, alpha, classes=known, per=per, unseen=unseen, seed=seed)
    exact = calibration.score.randomized or per == "cluster"
    scored = knowing(partial(_part, calibration))
    tasks = [
        dask.delayed(each)(block, number, first, scored)
        for number, (block, first) in enumerate(zip(blocks, firsts(blocks, exact), strict=True))
    ]
    rows = [block.rows for block in blocks]
    parts = persisted(tasks, rows)

    def ask(question: Any) -> Any:
        return _total([dask.delayed(_answer)(question, several) for several in parts], rows, "rows counted")

    return calibration.merged(refusing_ids(ask, probs.name) if isinstance(probs, Scan) else ask)


def predict(
    predictor: ConformalPredictor,
    probs: Any,
    *,
    seed: int | None = None,
    groups: Any = None,
    nonempty: bool = False,
) -> Any:
    """The prediction sets, when they are computed: one task per partition.

    A Dask data frame gives a Dask data frame with the columns size and labels, its index kept; anything else a
    list of delayed `PredictionSets`, one per partition.

    Args:
        predictor: a calibrated predictor with one threshold, or one per class or group.
        probs: as in `calibrate`.
        seed: for a randomised score, a whole number.
        groups: the group of each row, where there are thresholds per group.
        nonempty: whether the most probable class is put into sets that would be empty.
    """
    groups = True if isinstance(probs, Scan) else groups
    blocks = blocks_of(probs, None, groups if "groups" in predictor.takes else None)
    chosen = knowing(partial(_sets, predictor, _drawn(seed), nonempty))
    tasks = [
        dask.delayed(_joined)(block, number, first, chosen, predictor.classes)
        for number, (block, first) in enumerate(zip(blocks, firsts(blocks, _randomized(predictor)), strict=True))
    ]
    if not hasattr(probs, "to_delayed") or isinstance(probs, dask.array.Array):
        return tasks
    import pandas
    from dask.dataframe import from_delayed

    meta = pandas.DataFrame({"size": np.empty(0, dtype=np.int64), "labels": pandas.Series([], dtype=object)})
    with dask.config.set({"dataframe.convert-string": False}):  # labels are lists
        return from_delayed([dask.delayed(_frame)(task) for task in tasks], meta=meta, verify_meta=False)


def evaluate(
    predictor: ConformalPredictor,
    probs: Any,
    labels: Any = None,
    *,
    seed: int | None = None,
    groups: Any = None,
    nonempty: bool = False,
) -> Evaluation:
    """All metrics of the predictor's sets, from counts that are added up on the cluster.

    Args:
        predictor: a calibrated predictor with one threshold, or one per class or group.
        probs: as in `calibrate`.
        labels: the true classes, divided as the rows are; of a data frame the name of a column. Tables bring theirs.
        seed: for a randomised score, a whole number.
        groups: the group of each row, for thresholds and for coverage per group.
        nonempty: whether the most probable class is put into sets that would be empty.
    """
    if isinstance(probs, Scan):
        labels, groups = True, True if probs.has_groups else None
    blocks = blocks_of(probs, labels, groups)
    measured = knowing(partial(_measured, predictor, _drawn(seed), nonempty))
    total: Measured | None = _total(
        [
            dask.delayed(_sum_of)(block, number, first, measured)
            for number, (block, first) in enumerate(zip(blocks, firsts(blocks, _randomized(predictor)), strict=True))
        ],
        [block.rows for block in blocks],
        "rows",
    )
    if total is None:
        raise InputError("Expected at least one row of probabilities, got partitions without any")
    return (total.without_ids() if isinstance(probs, Scan) else total).evaluation(predictor)


def score(
    probs: Any, labels: Any, score: Score | str, *, classes: Classes | None = None, seed: int | None = None
) -> Any:
    """The scores of the given labels as a Dask array (n,), one chunk per partition, when they are computed.

    Args:
        probs: as in `calibrate`.
        labels: one class per row, divided as the rows are; of a data frame the name of a column.
        score: a score or its spelling.
        classes: names of the K columns; a data frame brings its own.
        seed: for a randomised score, a whole number.
    """
    blocks = blocks_of(probs, labels if labels is not None else True)
    chosen = parse_score(score)
    known = _classes(probs, blocks, classes, labels, None)
    work = knowing(partial(_scores, chosen, known, _drawn(seed)))
    arrays = []
    for number, (block, first) in enumerate(zip(blocks, firsts(blocks, chosen.randomized), strict=True)):
        task = dask.delayed(_concatenated)(block, number, first, work)
        arrays.append(dask.array.from_delayed(task, (np.nan if block.rows is None else block.rows,), float))
    return dask.array.concatenate(arrays)


def _classes(probs: Any, blocks: list[Block], classes: Classes | None, labels: Any, groups: Any) -> Classes:
    """The names of the columns, without a look at the rows where they say them."""
    if isinstance(probs, Scan):
        return probs.classes
    if classes is not None:
        return as_classes(classes, as_rows(np.empty((1, len(classes)))))
    columns = getattr(probs, "columns", None)
    if columns is not None:
        names = tuple(name for name in columns if name not in [one for one in (labels, groups) if isinstance(one, str)])
        return range(len(names)) if names == tuple(range(len(names))) else names
    if isinstance(probs, dask.array.Array):
        return range(int(probs.shape[1]))
    return dask.delayed(_names)(blocks[0].probs).compute()  # type: ignore[no-any-return]


def _names(probs: Any) -> Classes:
    return range(np.shape(probs)[1]) if not len(probs) else as_classes(None, as_rows(probs))


def _drawn(seed: int | None) -> int:
    return secrets.randbits(64) if seed is None else seed


def _randomized(predictor: Any) -> bool:
    return bool(predictor.score.randomized)


def _total(answers: list[Any], rows: Sequence[int | None], what: str) -> Any:
    """The sum of what tasks answer, added up by tasks, a few at a time: one answer comes here."""
    sums = answers
    while len(sums) > 1:
        sums = [dask.delayed(_added)(sums[i : i + MERGED_AT_ONCE]) for i in range(0, len(sums), MERGED_AT_ONCE)]
    return computed(sums[0], answers, rows, what)


def _added(answers: list[Any]) -> Any:
    found = [answer for answer in answers if answer is not None]
    return sum(found[1:], found[0]) if found else None


def _answer(question: Any, parts: list[Part]) -> Any:
    with Held() as held:
        for part in parts:
            held.add(part)
        return held.ask(question) if parts else None


def _part(calibration: Calibration, probs: Any, labels: Any, groups: Any, first: int) -> Part:
    return calibration.part(probs, labels, groups=groups, first=first)


def _sets(predictor: Any, seed: int, nonempty: bool, probs: Any, labels: Any, groups: Any, first: int) -> Any:
    beside = {"groups": groups} if "groups" in predictor.takes else {}
    if not len(getattr(probs, "array", probs)):
        return None
    return predictor.predict(probs, seed=positioned(seed, first), nonempty=nonempty, **beside)


def _joined(block: Block, number: int, first: int, work: Any, classes: Classes) -> Any:
    from pippin._conformal.sets import PredictionSets

    found = [one for one in each(block, number, first, work) if one is not None]
    if len(found) == 1:
        return found[0]
    sizes = np.concatenate([np.empty(0, dtype=np.int64), *(one.sizes for one in found)])
    members = np.concatenate([np.empty(0, dtype=np.int32), *(one.members for one in found)])
    return PredictionSets(sizes, members, classes)


def _frame(sets: Any) -> Any:
    import pandas

    if sets.index is not None:
        return sets.to_frame()
    return pandas.DataFrame({"size": sets.sizes, "labels": pandas.Series(sets.labels(), dtype=object)})


def _measured(predictor: Any, seed: int, nonempty: bool, probs: Any, labels: Any, groups: Any, first: int) -> Any:
    sets = _sets(predictor, seed, nonempty, probs, labels, groups, first)
    if sets is None:
        return None
    rows = as_rows(probs)
    return measure(sets, rows, labels_of_part(labels, rows.n, predictor.classes), groups)


def _sum_of(block: Block, number: int, first: int, work: Any) -> Any:
    return _added(each(block, number, first, work))


def _scores(score: Score, classes: Classes, seed: int, probs: Any, labels: Any, groups: Any, first: int) -> Any:
    if not len(getattr(probs, "array", probs)):
        return np.empty(0)
    rows = as_rows(probs)
    u = draws(score, rows.n, positioned(seed, first) if score.randomized else None)
    return dispatch.label_scores(rows, needed(labels_of_part(labels, rows.n, classes)), score, u)


def _concatenated(block: Block, number: int, first: int, work: Any) -> Any:
    return np.concatenate([np.empty(0), *each(block, number, first, work)])
