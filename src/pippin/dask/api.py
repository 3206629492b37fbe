"""`calibrate`, `predict`, `evaluate` and `score` of rows that Dask holds."""

import secrets
from collections.abc import Callable
from functools import partial
from typing import Any

import dask
import dask.array
import numpy as np

from pippin._conformal.evaluation import Evaluation
from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.sets import PredictionSets
from pippin._distributed.calibration import Calibration, Part, positioned, refuse_ids
from pippin._distributed.evaluation import EvaluationCounts, count_sets
from pippin._runtime.arrays import Classes, Vector
from pippin._runtime.errors import InputError
from pippin._theory.scores import Score
from pippin._theory.spelling import parse_score
from pippin._validation.labels import as_classes, labels_of_part
from pippin._validation.rows import as_rows
from pippin.dask.partitions import Partition, gathered, map_batches, partitions_of, registering, row_positions
from pippin.tables.scanning import Scan

Reduce = Callable[[list[Any]], Any]


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
) -> ConformalPredictor:
    """Make the predictor that `pippin.calibrate` makes of all rows at once, to the last bit, however they are divided.

    The scores of a partition are computed where it is. What comes to this process are the scores of the true labels,
    8 bytes a row, and their classes and groups. Dask recomputes what a lost worker held.

    Args:
        probs: a Dask array (n, K), a Dask data frame with a column per class, a list of delayed partitions, or what
            `pippin.scan` returns, whose tables the workers read.
        labels: the true classes, divided as the rows are; of a data frame the name of a column. Tables bring theirs.
        score: a score or its spelling.
        alpha: the miscoverage level; where the guarantee is per kind, one for all or {kind: alpha}.
        classes: names of the K columns; a data frame and tables bring their own.
        seed: for the randomized scores and for clusters, a whole number.
        per: the Mondrian taxonomy, as in `pippin.calibrate`.
        groups: the group of each row, divided as the rows are; of a data frame the name of a column.
        unseen: the policy of `predict` for other groups: an "error", or "marginal".

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
    partitions = partitions_of(probs, labels, groups)
    names = _classes(probs, partitions, classes, labels, groups)
    calibration = Calibration(score, alpha, classes=names, per=per, unseen=unseen, seed=seed)
    exact = calibration.score.randomized or per == "cluster"
    tasks = _tasks(partitions, partial(_part, calibration), list, exact)
    parts = [part for parts in gathered(tasks, [one.rows for one in partitions], "rows") for part in parts]
    if isinstance(probs, Scan):
        refuse_ids(parts, probs.name)
    return calibration.merge(parts)


def predict(
    predictor: ConformalPredictor, probs: Any, *, seed: int | None = None, groups: Any = None, nonempty: bool = False
) -> Any:
    """Return the prediction sets lazily: one task per partition.

    A Dask data frame gives a Dask data frame with the columns size and labels, its index kept; anything else a
    list of delayed `PredictionSets`, one per partition.

    Args:
        predictor: a calibrated predictor with one threshold, or one per class or group.
        probs: as in `calibrate`.
        seed: for a randomized score, a whole number.
        groups: the group of each row, where there are thresholds per group.
        nonempty: if True, put the most probable class into sets that would be empty.
    """
    groups = True if isinstance(probs, Scan) else groups
    partitions = partitions_of(probs, None, groups if "groups" in predictor.takes else None)
    work = partial(_sets, predictor, _drawn(seed), nonempty)
    tasks = _tasks(partitions, work, partial(_joined, predictor.classes), predictor.score.randomized)
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
    """Compute all metrics of the predictor's sets, from counts of every partition.

    Args:
        predictor: a calibrated predictor with one threshold, or one per class or group.
        probs: as in `calibrate`.
        labels: the true classes, divided as the rows are; of a data frame the name of a column. Tables bring theirs.
        seed: for a randomized score, a whole number.
        groups: the group of each row, for thresholds and for coverage per group.
        nonempty: if True, put the most probable class into sets that would be empty.
    """
    if isinstance(probs, Scan):
        labels, groups = True, True if probs.has_groups else None
    partitions = partitions_of(probs, labels, groups)
    work = partial(_counts, predictor, _drawn(seed), nonempty)
    tasks = _tasks(partitions, work, _total, predictor.score.randomized)
    total = _total(gathered(tasks, [one.rows for one in partitions], "rows"))
    if total is None:
        raise InputError("Expected at least one row of probabilities, got partitions without any")
    return (total.without_ids() if isinstance(probs, Scan) else total).evaluation(predictor)


def score(probs: Any, labels: Any, score: Any, *, classes: Classes | None = None, seed: int | None = None) -> Any:
    """Return the scores of the given labels as a lazy Dask array (n,), one chunk per partition.

    Args:
        probs: as in `calibrate`.
        labels: one class per row, divided as the rows are; of a data frame the name of a column.
        score: a score or its spelling.
        classes: names of the K columns; a data frame brings its own.
        seed: for a randomized score, a whole number.
    """
    partitions = partitions_of(probs, labels if labels is not None else True)
    chosen = parse_score(score)
    names = _classes(probs, partitions, classes, labels, None)
    work = partial(_scores, Calibration(chosen, classes=names, seed=_drawn(seed)))
    tasks = _tasks(partitions, work, _concatenated, chosen.randomized)
    lengths = [np.nan if one.rows is None else one.rows for one in partitions]
    return dask.array.concatenate(
        [dask.array.from_delayed(task, (length,), float) for task, length in zip(tasks, lengths, strict=True)]
    )


def _classes(probs: Any, partitions: list[Partition], classes: Classes | None, labels: Any, groups: Any) -> Classes:
    """Return the names of the columns, without computing any row if possible."""
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
    return dask.delayed(_names)(partitions[0].probs).compute()  # type: ignore[no-any-return]


def _names(probs: Any) -> Classes:
    return range(np.shape(probs)[1]) if not len(probs) else as_classes(None, as_rows(probs))


def _drawn(seed: int | None) -> int:
    return secrets.randbits(64) if seed is None else seed


def _tasks(partitions: list[Partition], work: Callable[..., Any], combine: Reduce, exact: bool) -> list[Any]:
    """Return a task per partition that combines the results of `work` on its batches; see `map_batches`."""
    registered, positions = registering(work), row_positions(partitions, exact)
    return [
        dask.delayed(_combined)(part, number, first, registered, combine)
        for number, (part, first) in enumerate(zip(partitions, positions, strict=True))
    ]


def _combined(part: Partition, number: int, first: int, work: Any, combine: Reduce) -> Any:
    return combine(map_batches(part, number, first, work))


def _part(calibration: Calibration, probs: Any, labels: Any, groups: Any, first: int) -> Part:
    return calibration.part(probs, labels, groups=groups, first=first)


def _scores(calibration: Calibration, probs: Any, labels: Any, groups: Any, first: int) -> Vector:
    return calibration.part(probs, labels, first=first).scores


def _concatenated(scores: list[Vector]) -> Vector:
    return np.concatenate([np.empty(0), *scores])


def _sets(predictor: Any, seed: int, nonempty: bool, probs: Any, labels: Any, groups: Any, first: int) -> Any:
    """Return the prediction sets of some rows; None without rows."""
    if not len(getattr(probs, "array", probs)):
        return None
    needed = {"groups": groups} if "groups" in predictor.takes else {}
    return predictor.predict(probs, seed=positioned(seed, first), nonempty=nonempty, **needed)


def _joined(classes: Classes, several: list[PredictionSets | None]) -> PredictionSets:
    found = [sets for sets in several if sets is not None]
    if len(found) == 1:
        return found[0]
    sizes = np.concatenate([np.empty(0, dtype=np.int64), *(sets.sizes for sets in found)])
    members = np.concatenate([np.empty(0, dtype=np.int32), *(sets.members for sets in found)])
    return PredictionSets(sizes, members, classes)


def _frame(sets: PredictionSets) -> Any:
    import pandas

    if sets.index is not None:
        return sets.to_frame()
    return pandas.DataFrame({"size": sets.sizes, "labels": pandas.Series(sets.labels(), dtype=object)})


def _counts(
    predictor: Any, seed: int, nonempty: bool, probs: Any, labels: Any, groups: Any, first: int
) -> EvaluationCounts | None:
    """Evaluate the prediction sets of some rows; None without rows."""
    sets = _sets(predictor, seed, nonempty, probs, labels, groups, first)
    if sets is None:
        return None
    rows = as_rows(probs)
    return count_sets(sets, rows, labels_of_part(labels, rows.n, predictor.classes), groups)


def _total(counts: list[EvaluationCounts | None]) -> EvaluationCounts | None:
    present = [one for one in counts if one is not None]
    return sum(present[1:], present[0]) if present else None
