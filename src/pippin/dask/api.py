"""Calibration, prediction, evaluation and scores of Dask arrays, data frames and delayed partitions."""

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
from pippin._runtime.arguments import checked
from pippin._runtime.arrays import Classes, Vector
from pippin._runtime.errors import InputError
from pippin._theory.scores import Score
from pippin._theory.spelling import parse_score
from pippin._validation.labels import as_rows_and_classes, labels_of_part, rows_of_classes
from pippin.dask.partitions import Partition, gathered, map_batches, partitions_of, registering, row_positions
from pippin.tables.scanning import Scan

Reduce = Callable[[list[Any]], Any]


@checked
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
    """Calibrate a predictor on a Dask cluster.

    The result equals that of `pippin.calibrate` on all rows to the last bit.

    Workers compute the scores of the true classes in each partition. This process receives these scores, 8 bytes per
    row, with the classes and groups of the rows. Dask recomputes the results of a lost worker.

    Args:
        probs: a Dask array (n, K), a Dask data frame with a column per class, a list of delayed partitions, or the
            result of `pippin.scan`, whose tables the workers read.
        labels: the true classes, partitioned as the rows; for a data frame, a column name. Scanned tables contain them.
        score: a score, or its name with parameters, such as "raps(lam=0.1)".
        alpha: significance level (miscoverage). If `per` joins classes to superclasses ("kinds"), {kind: alpha} sets a
            level for each kind.
        classes: names of the K columns; by default those of a data frame or of scanned tables, or 0 to K − 1.
        seed: seed for randomized scores and for per="cluster", a whole number.
        per: Mondrian taxonomy, as in `pippin.calibrate`.
        groups: the group of each row, partitioned as the rows; for a data frame, a column name.
        unseen: policy of `predict` for groups without calibration rows: "error" raises an InputError, "marginal" uses
            the threshold that is calibrated on all groups together.

    Returns:
        The predictor.

    Raises:
        InputError: `probs` is not partitioned, or labels or groups have other partitions.

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
    parts = [part for parts in gathered(tasks, [each.rows for each in partitions], "rows") for part in parts]
    if isinstance(probs, Scan):
        refuse_ids(parts, probs.name)
    return calibration.merge(parts)


@checked
def predict(
    predictor: ConformalPredictor, probs: Any, *, seed: int | None = None, groups: Any = None, nonempty: bool = False
) -> Any:
    """Predict sets lazily: return Dask objects with one task per partition, which are computed later.

    Args:
        predictor: a calibrated predictor with one threshold, or one per class or group.
        probs: partitioned probabilities, as in `calibrate`.
        seed: seed for a randomized score, a whole number.
        groups: the group of each row, for thresholds per group.
        nonempty: add the most probable class to empty sets.

    Returns:
        For a Dask data frame, a Dask data frame with its index and the columns size and labels; otherwise a list of
        delayed `PredictionSets`, one per partition.

    >>> import dask.array, pippin, pippin.dask
    >>> data = pippin.load_example()
    >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], classes=data.classes)
    >>> parts = pippin.dask.predict(predictor, dask.array.from_array(data.probs[2000:], 1000))
    >>> parts[0].compute()
    PredictionSets(1,000 objects, 12 classes, mean size 1.49, 73% singletons)
    """
    groups = True if isinstance(probs, Scan) else groups
    partitions = partitions_of(probs, None, groups if "groups" in predictor.takes else None)
    work = partial(_sets, predictor, _seed_or_random(seed), nonempty)
    tasks = _tasks(partitions, work, partial(_joined, predictor.classes), predictor.score.randomized)
    if not hasattr(probs, "to_delayed") or isinstance(probs, dask.array.Array):
        return tasks
    import pandas
    from dask.dataframe import from_delayed

    meta = pandas.DataFrame({"size": np.empty(0, dtype=np.int64), "labels": pandas.Series([], dtype=object)})
    with dask.config.set({"dataframe.convert-string": False}):  # keep the labels as lists of names
        return from_delayed([dask.delayed(_frame)(task) for task in tasks], meta=meta, verify_meta=False)


@checked
def evaluate(
    predictor: ConformalPredictor,
    probs: Any,
    labels: Any = None,
    *,
    seed: int | None = None,
    groups: Any = None,
    nonempty: bool = False,
) -> Evaluation:
    """Evaluate the prediction sets of a predictor on labeled rows; workers return only counts of their partitions.

    Args:
        predictor: a calibrated predictor with one threshold, or one per class or group.
        probs: partitioned probabilities, as in `calibrate`.
        labels: the true classes, partitioned as the rows; for a data frame, a column name. Scanned tables contain them.
        seed: seed for a randomized score, a whole number.
        groups: the group of each row, for thresholds and for coverage per group.
        nonempty: add the most probable class to empty sets.

    Returns:
        The evaluation, equal to that of `pippin.evaluate` on all sets.

    Raises:
        InputError: all partitions are empty.

    >>> import dask.array, pippin, pippin.dask
    >>> data = pippin.load_example()
    >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], classes=data.classes)
    >>> probs, labels = (dask.array.from_array(array[2000:], 1000) for array in (data.probs, data.labels))
    >>> round(pippin.dask.evaluate(predictor, probs, labels).coverage, 4)
    0.9019
    """
    if isinstance(probs, Scan):
        labels, groups = True, True if probs.has_groups else None
    partitions = partitions_of(probs, labels, groups)
    work = partial(_counts, predictor, _seed_or_random(seed), nonempty)
    tasks = _tasks(partitions, work, _total, predictor.score.randomized)
    total = _total(gathered(tasks, [each.rows for each in partitions], "rows"))
    if total is None:
        raise InputError("Expected at least one row of probabilities, got partitions without any")
    return (total.without_ids() if isinstance(probs, Scan) else total).evaluation(predictor)


@checked
def score(probs: Any, labels: Any, score: Any, *, classes: Classes | None = None, seed: int | None = None) -> Any:
    """Compute the nonconformity score of one class per row lazily, as a Dask array.

    Args:
        probs: partitioned probabilities, as in `calibrate`.
        labels: one class per row, partitioned as the rows; for a data frame, a column name.
        score: a score, or its name with parameters, such as "raps(lam=0.1)".
        classes: names of the K columns; by default those of a data frame, or 0 to K − 1.
        seed: seed for a randomized score, a whole number.

    Returns:
        A Dask array (n,) with one chunk per partition.

    >>> import dask.array, pippin.dask
    >>> probs, labels = dask.array.from_array([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]), dask.array.from_array([2, 1])
    >>> pippin.dask.score(probs, labels, "pip").compute()
    array([1.375, 0.2  ])
    """
    partitions = partitions_of(probs, labels if labels is not None else True)
    chosen = parse_score(score)
    names = _classes(probs, partitions, classes, labels, None)
    work = partial(_part, Calibration(chosen, classes=names, seed=_seed_or_random(seed)))
    tasks = _tasks(partitions, work, _scores, chosen.randomized)
    lengths = [np.nan if each.rows is None else each.rows for each in partitions]
    pairs = zip(tasks, lengths, strict=True)
    return dask.array.concatenate([dask.array.from_delayed(task, (length,), float) for task, length in pairs])


def _classes(probs: Any, partitions: list[Partition], classes: Classes | None, labels: Any, groups: Any) -> Classes:
    """Return the class names; a partition is computed only if neither `classes` nor the collection has them."""
    if isinstance(probs, Scan):
        return probs.classes
    if classes is not None:
        return as_rows_and_classes(np.empty((1, len(classes))), classes)[1]
    columns = getattr(probs, "columns", None)
    if columns is not None:
        names = tuple(name for name in columns if not any(isinstance(x, str) and x == name for x in (labels, groups)))
        return range(len(names)) if names == tuple(range(len(names))) else names
    if isinstance(probs, dask.array.Array):
        return range(int(probs.shape[1]))
    return dask.delayed(_names)(partitions[0].probs).compute()  # type: ignore[no-any-return]


def _names(probs: Any) -> Classes:
    return range(np.shape(probs)[1]) if not len(probs) else as_rows_and_classes(probs, None)[1]


def _seed_or_random(seed: int | None) -> int:
    return secrets.randbits(64) if seed is None else seed


def _tasks(partitions: list[Partition], work: Callable[..., Any], combine: Reduce, exact: bool) -> list[Any]:
    """Make one delayed task per partition, which calls `combine` on the results of `map_batches` with `work`."""
    registered, positions = registering(work), row_positions(partitions, exact)
    pairs = enumerate(zip(partitions, positions, strict=True))
    return [dask.delayed(_combined)(part, number, first, registered, combine) for number, (part, first) in pairs]


def _combined(part: Partition, number: int, first: int, work: Any, combine: Reduce) -> Any:
    return combine(map_batches(part, number, first, work))


def _part(calibration: Calibration, probs: Any, labels: Any, groups: Any, first: int) -> Part:
    return calibration.part(probs, labels, groups=groups, first=first)


def _scores(parts: list[Part]) -> Vector:
    return np.concatenate([np.empty(0), *(part.scores for part in parts)])


def _sets(predictor: Any, seed: int, nonempty: bool, probs: Any, labels: Any, groups: Any, first: int) -> Any:
    """Predict the sets of some rows of a partition; `first` is the number of all previous rows."""
    needed = {"groups": groups} if "groups" in predictor.takes else {}
    return predictor.predict(probs, seed=positioned(seed, first), nonempty=nonempty, **needed)


def _joined(classes: Classes, parts: list[PredictionSets]) -> PredictionSets:
    """Concatenate the prediction sets of several batches, or of none."""
    if len(parts) == 1:
        return parts[0]
    sizes = np.concatenate([np.empty(0, dtype=np.int64), *(sets.sizes for sets in parts)])
    members = np.concatenate([np.empty(0, dtype=np.int32), *(sets.members for sets in parts)])
    return PredictionSets(sizes, members, classes)


def _frame(sets: PredictionSets) -> Any:
    import pandas

    if sets.index is not None:
        return sets.to_frame()
    return pandas.DataFrame({"size": sets.sizes, "labels": pandas.Series(sets.labels(), dtype=object)})


def _counts(
    predictor: Any, seed: int, nonempty: bool, probs: Any, labels: Any, groups: Any, first: int
) -> EvaluationCounts:
    """Predict the sets of some rows of a partition, and return their counts for an evaluation."""
    rows = rows_of_classes(predictor.classes, probs, False, labels=labels)
    sets = _sets(predictor, seed, nonempty, rows, labels, groups, first)
    return count_sets(sets, rows, labels_of_part(labels, rows, predictor.classes), groups)


def _total(counts: list[EvaluationCounts | None]) -> EvaluationCounts | None:
    present = [part for part in counts if part is not None]
    return sum(present[1:], present[0]) if present else None
