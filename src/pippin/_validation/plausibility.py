"""Plausibility of labeled rows: signs that columns and labels do not match, or that the classifier was trained on them.

Every test bounds the probability of its finding for honest rows by Chernoff's inequality (Hoeffding 1963), so that few
honest calibrations cause a warning; `benchmarks/plausibility.py` measures how many.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._runtime.arrays import Classes, Codes, Flags
from pippin._runtime.errors import warn
from pippin._validation.labels import Labelled
from pippin._validation.rows import BLOCK, Rows

LOOKS = (16, 256, 4096)  # numbers of evenly spaced rows that must look suspicious before more rows are examined
MOST = 1 << 14  # number of rows from which on only a sample is examined
UNLIKELY = 1e-3  # probability below which few errors are not attributed to chance
SURPRISING = 1e-6  # the same for errors that the probabilities predict, which underconfident networks overestimate
VERY_UNLIKELY = 1e-4  # the same for few correct rows, of which there are several tests
FEW_ERRORS = 0.002  # largest error rate that suggests training rows
VERY_FEW_ERRORS = 0.001  # error rate of a very good classifier
CERTAIN = 0.9  # share of rows with smaller largest probabilities than that of a row that counts as certain
HALF = 0.5  # accuracy above which columns and labels match
DOUBTFUL = 0.7  # accuracy divided by the mean largest probability, below which a look is suspicious

Integers = NDArray[np.integer[Any]]


class TopClasses(NamedTuple):
    """Label, most probable class (the first of ties) and its probability, of some rows out of `total`."""

    labels: Integers
    predicted: Integers
    probability: NDArray[np.floating[Any]]
    total: int

    @property
    def n(self) -> int:
        """Number of examined rows."""
        return len(self.labels)

    @property
    def right(self) -> Flags:
        """True for rows whose most probable class is the label."""
        return np.asarray(self.predicted == self.labels)


def top_classes(rows: Rows, labels: Codes, most: int = MOST) -> TopClasses:
    """Return the most probable classes of all rows, or of at least `most`/2 evenly spaced rows if there are more."""
    step = spacing(rows.n, most)
    examined, labels = Rows(rows.array[::step], rows.logits), labels[::step]
    predicted, probability = np.empty_like(labels), np.empty(len(labels))
    size = max(1, BLOCK // rows.n_classes)
    for start in range(0, len(labels), size):
        block = examined.block(start, start + size)
        predicted[start : start + size] = block.argmax(axis=1)
        probability[start : start + size] = block.max(axis=1)
    return TopClasses(labels, predicted, probability, rows.n)


def joined(parts: Iterable[TopClasses]) -> TopClasses:
    """Concatenate the most probable classes of several parts of the rows."""
    *columns, totals = zip(*parts, strict=True)
    labels, predicted, probability = (np.concatenate(column) for column in columns)
    return TopClasses(labels.astype(np.int64), predicted.astype(np.int64), probability, sum(totals))


def spacing(n: int, most: int) -> int:
    """Return the odd step between examined rows: all n rows are examined, or at least `most`/2 if there are more."""
    return n // most | 1


def warn_if_implausible(data: Labelled, units: ArrayLike | None = None) -> None:
    """Warn if labels probably do not match the columns, or rows are probably training rows."""
    for rows in data.rows.models:
        if note := find_implausibility(data._replace(rows=rows), units):
            warn(note)


def find_implausibility(data: Labelled, units: ArrayLike | None = None) -> str | None:
    """Return the warning text of `implausibility` for checked rows, or None; usually only a few rows are examined."""
    rows, labels, classes = data
    n = len(labels)
    for look in LOOKS:
        if n <= look:
            break
        step = spacing(n, look)
        right = rows.array[::step].argmax(axis=1) == labels[::step]
        m, n_right = len(right), int(np.count_nonzero(right))
        few = FEW_ERRORS * m
        if m - n_right <= few + 3 * math.sqrt(few):
            continue
        if n_right > HALF * m or n_right > DOUBTFUL * top_classes(rows, labels, look).probability.sum():
            return None
    return implausibility(top_classes(rows, labels), classes, units)


def implausibility(top: TopClasses, classes: Classes, units: ArrayLike | None = None) -> str | None:
    """Return a warning text if the labels probably do not match the columns, or rows are probably training rows.

    Args:
        top: the most probable classes of the rows.
        classes: the names of the classes.
        units: the cluster of each row, if rows are dependent; None if they are independent.

    >>> labels, probability = np.arange(60) % 3, np.linspace(0.4, 1, 60)
    >>> print(implausibility(TopClasses(labels, labels, probability, 60), range(3)))
    All 60 rows are classified correctly, although their probabilities predict 16 errors: if the classifier was trained
    on these rows, no guarantee or metric from them holds for new rows. Use rows that it was not trained on.
    """
    n_units = top.n if units is None else len(np.unique(np.asarray(units).astype(str)))
    independent = min(1.0, n_units / top.n)
    return _of_order(top, classes, independent) or _of_training_rows(top, independent)


def expected_errors(probability: NDArray[np.floating[Any]]) -> float:
    """Return the number of errors that the largest probabilities of the rows predict: the sum of 1 − probability.

    The probabilities are first divided by their 90% quantile, since label smoothing keeps them below 1.
    """
    certain = np.quantile(probability, CERTAIN)
    return float(np.maximum(0, 1 - probability / certain).sum())


def chance_bound(share: float, mean: float, n: float) -> float:
    """Bound a tail probability of the share of successes among n independent trials with mean success rate `mean`.

    For `share` above `mean`, it is the probability of at least this share of successes; for `share` below `mean`, of at
    most this share. The bound is exp(−n·KL(share ‖ mean)). The trials may have different success probabilities.

    >>> round(chance_bound(0, 0.1, 50), 9), round(0.9**50, 9)
    (0.005153775, 0.005153775)
    """
    pairs = ((share, mean), (1 - share, 1 - mean))
    return math.exp(-n * sum(x * math.log(x / max(y, 1e-300)) for x, y in pairs if x > 0))


def _of_order(top: TopClasses, classes: Classes, independent: float) -> str | None:
    """Return a warning if labels or columns are probably in another order, or labels are probably counted from 1.

    `independent` is the effective number of independent rows divided by the number of rows, below 1 for dependent rows.
    """
    accuracy = float(top.right.mean())
    if accuracy > HALF:  # no other order is right twice as often
        return None
    ending = _of_labels_from_1(top, independent) or _of_other_columns(top, classes, independent)
    chance = min(1 / len(classes), _agreement(top.labels, top.predicted))
    if not ending and accuracy < chance and chance_bound(accuracy, chance, top.n * independent) < VERY_UNLIKELY:
        ending = (
            f"less often than by chance ({100 * chance:.3g}%): check that the columns are in the order of the labels, "
            "and that labels are counted from 0."
        )
    begin = f"The most probable class is the true one in only {100 * accuracy:.3g}% of {_count(top)}"
    return f"{begin}, {ending}" if ending else None


def _of_labels_from_1(top: TopClasses, independent: float) -> str | None:
    """Return the end of the warning if no label is 0, and all labels are probably too large by one."""
    lower = top.labels - 1
    right = top.predicted == lower
    if lower.min() < 0 or not _clearly_more(right, top.right, independent):
        return None
    if not _associated(lower, top.predicted, independent):
        return None
    return (
        f"but in {100 * float(right.mean()):.3g}% if every label is lowered by one: labels are probably counted from "
        "1. Count them from 0, or check the order of the class names."
    )


def _of_other_columns(top: TopClasses, classes: Classes, independent: float) -> str | None:
    """Return the end of the warning if the columns are probably in another order.

    The order is found on half of the rows; on the others, it must be right more than twice as often as the given order.
    """
    learning, class_of = _best_order(top, len(classes))
    labels, predicted = top.labels[~learning], top.predicted[~learning]
    right, given = predicted == class_of[labels], predicted == labels
    if np.count_nonzero(right) <= 2 * np.count_nonzero(given) or not _clearly_more(right, given, independent):
        return None
    if not _associated(class_of[labels], predicted, independent):
        return None
    label = int(np.bincount(labels[right & ~given]).argmax())
    instead = f"column {classes[int(class_of[label])]!r} for label {classes[label]!r}"
    return (
        f"but would be in about {100 * float(right.mean()):.3g}% if the columns were in another order, such as "
        f"{instead}: put the columns in the order of the labels."
    )


def _of_training_rows(top: TopClasses, independent: float) -> str | None:
    """Return a warning if there are so few errors that the classifier was probably trained on the rows."""
    n = top.n
    errors = n - int(np.count_nonzero(top.right))
    if errors > FEW_ERRORS * n:
        return None
    rows = _count(top)
    all_right = f"All {rows} are" if not errors else f"All but {errors:,} of {rows} are"
    expected, surprise = expected_errors(top.probability), ""
    if errors < expected and chance_bound(errors / n, expected / n, n * independent) < SURPRISING:
        surprise = f", although their probabilities predict {expected:,.0f} errors"
    elif errors > VERY_FEW_ERRORS * n or chance_bound(errors / n, VERY_FEW_ERRORS, n * independent) > UNLIKELY:
        return None
    return (
        f"{all_right} classified correctly{surprise}: if the classifier was trained on these rows, no guarantee or "
        "metric from them holds for new rows. Use rows that it was not trained on."
    )


def _clearly_more(more: Flags, fewer: Flags, independent: float) -> bool:
    """Return True if significantly more rows are flagged in `more` than in `fewer`, by a sign test.

    `independent` is the effective number of independent rows divided by the number of rows, below 1 for dependent rows.
    """
    a, b = (int(np.count_nonzero(one & ~other)) for one, other in ((more, fewer), (fewer, more)))
    return a > b and chance_bound(a / (a + b), 0.5, (a + b) * independent) < VERY_UNLIKELY


def _associated(labels: Integers, predicted: Integers, independent: float) -> bool:
    """Return True if labels and predictions agree significantly more often than if they were independent."""
    share, chance = float((labels == predicted).mean()), _agreement(labels, predicted)
    return share > chance and chance_bound(share, chance, len(labels) * independent) < VERY_UNLIKELY


def _agreement(labels: Integers, predicted: Integers) -> float:
    """Return the expected share of equal entries if labels and predictions were independent.

    >>> _agreement(np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1]))
    0.5
    """
    size = int(max(labels.max(), predicted.max())) + 1
    counts = [np.bincount(codes[codes >= 0], minlength=size) / len(codes) for codes in (labels, predicted)]
    return float(counts[0] @ counts[1])


def _best_order(top: TopClasses, n_classes: int) -> tuple[Flags, NDArray[np.int64]]:
    """Assign to each label the class that is most often predicted for it, one to one, on half of the label's rows.

    Return the mask of these rows, and the class of each label; −1 for labels without one.
    """
    order = np.argsort(top.labels, kind="stable")
    counts = np.bincount(top.labels, minlength=n_classes)
    position = np.arange(top.n) - np.repeat(np.cumsum(counts) - counts, counts)
    learning = np.zeros(top.n, dtype=bool)
    learning[order] = position < np.repeat(counts // 2, counts)
    cells, times = np.unique(top.labels[learning] * n_classes + top.predicted[learning], return_counts=True)
    class_of, taken = np.full(n_classes, -1), set[int]()
    for cell in cells[np.argsort(-times, kind="stable")].tolist():
        label, predicted = divmod(cell, n_classes)
        if class_of[label] < 0 and predicted not in taken:
            class_of[label] = predicted
            taken.add(predicted)
    return learning, class_of


def _count(top: TopClasses) -> str:
    """Name the number of examined rows.

    >>> _count(TopClasses(np.zeros(20, int), np.zeros(20, int), np.ones(20), 1000))
    '20 examined rows (of 1,000)'
    """
    return f"{top.n:,} rows" if top.n == top.total else f"{top.n:,} examined rows (of {top.total:,})"
