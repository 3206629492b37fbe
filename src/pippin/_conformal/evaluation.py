"""Evaluation of prediction sets on labeled rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import floor, log10, sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._conformal.coverage_by import Tally, covgap, shares, sscv, strata_names, tally
from pippin._conformal.diagnosis import Finding, Outcomes, diagnose, shown
from pippin._conformal.judgment import (
    KindLevel,
    KindShare,
    Requested,
    as_count,
    judge_share,
    row_deviation,
    shares_of_kinds,
    unit_deviation,
    verdict_lines,
    verdict_of_kinds,
)
from pippin._conformal.mondrian import OVERLAPPING
from pippin._conformal.rules import calibration_size, is_by_unit, kind_levels, warn_without_units
from pippin._conformal.sets import PredictionSets
from pippin._engine.dispatch import accuracy
from pippin._runtime.arguments import checked, checked_methods
from pippin._runtime.arrays import Classes, Codes
from pippin._runtime.errors import InputError, warn
from pippin._runtime.showing import AMBER, BLUE, Share, format_number, format_share, html_columns, visible
from pippin._theory.level import as_alpha, examples_needed
from pippin._validation.batched import Batched, is_batched, labels_of
from pippin._validation.index import same_index
from pippin._validation.labels import (
    ColumnNumbers,
    Labelled,
    are_several,
    as_labels,
    labels_of_rows,
    rows_of_classes,
)
from pippin._validation.memberships import as_reported_groups, group_of_each_row
from pippin._validation.plausibility import warn_if_implausible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WORDS = {  # printed name and meaning of each metric
    "coverage": ("coverage", "share of sets that contain the true class"),
    "mean_size": ("size", "classes per set (efficiency in Melki et al. 2024)"),
    "singleton_rate": ("singletons", "share of sets with one class (informativeness in Melki et al. 2024)"),
    "empty_rate": ("empty", "share of sets with no class"),
}


MEANINGS = "Size: classes per set; singletons: sets with one class (efficiency, informativeness in Melki et al. 2024)."
GAPS = {  # meaning of the metrics of conditional coverage; "level" is 1 − alpha
    "CovGap": "mean distance of the classes' coverage from the level",
    "SSCV": "largest distance from the level over sets of similar size",
}


def format_metric(name: str, value: float) -> str:
    """Format a metric: shares as percentages, sizes with two digits.

    >>> format_metric("coverage", 0.9012), format_metric("mean_size", 1.4823), format_metric("threshold", 1.72881)
    ('90.1%', '1.48', '1.729')
    """
    if name == "threshold":
        return format_number(value)
    return f"{value:.2f}" if name == "mean_size" else format_share(value)


def explain_empty_sets(
    accuracy: float, alpha: float, n: int | None, empty: float | None = None, *, option: bool = False
) -> str | None:
    """Explain in one sentence that sets are empty because the classifier's accuracy exceeds 1 − alpha.

    A smaller alpha is advised only if it has a finite threshold.

    Args:
        accuracy: share of rows whose most probable class is the true class.
        alpha: significance level (miscoverage).
        n: the number of calibration rows, or None if it is unknown.
        empty: share of empty sets; None if no sets were predicted yet.
        option: True to name the options of the command line.

    Returns:
        The sentence; None if the accuracy does not exceed 1 − alpha, or no set is empty.

    >>> print(explain_empty_sets(0.97, 0.1, 2000, 0.08))
    The classifier is right 97% of the time, more often than the 90% that alpha=0.1 asks for, so 8% of the sets are
    empty: ask for alpha=0.03 or less, or use sets that are never empty.
    >>> print(explain_empty_sets(1, 0.1, 2000, option=True))
    The classifier is right 100% of the time, more often than the 90% that alpha=0.1 asks for, so some sets will be
    empty: use other rows if it was trained on these, otherwise predict with --non-empty.
    """
    if accuracy <= 1 - alpha or empty == 0:
        return None
    remedy = "predict with --non-empty" if option else "use sets that are never empty"
    if accuracy == 1:
        remedy = f"use other rows if it was trained on these, otherwise {remedy}"
    else:
        unit = 10.0 ** (floor(log10(1 - accuracy)) - 1)
        lower = float(f"{floor((1 - accuracy) / unit + 1e-9) * unit:.2g}")  # two digits, rounded down
        if n is None or examples_needed(lower) <= n:
            remedy = f"{'pass --alpha ' if option else 'ask for alpha='}{lower:g} or less, or {remedy}"
    share = "some sets will be" if empty is None else f"{100 * empty:.2g}% of the sets are"
    return (
        f"The classifier is right {_percentage(accuracy)} of the time, more often than the {100 * (1 - alpha):g}% "
        f"that alpha={alpha:g} asks for, so {share} empty: {remedy}."
    )


def _percentage(share: float) -> str:
    """Format a share with three digits, but as 100% only if it is 1.

    >>> _percentage(0.97123), _percentage(0.99987), _percentage(1.0)
    ('97.1%', 'more than 99.9%', '100%')
    """
    return "more than 99.9%" if 0.9995 <= share < 1 else f"{100 * share:.3g}%"


NEGLIGIBLE = 0.1  # largest share of calibration rows among rows to evaluate that causes no warning
KNOWN = {  # variables for which a predictor has a guarantee in each part, by its taxonomy
    **dict.fromkeys(("class", "cluster", "rc3p"), ("class",)),
    **dict.fromkeys(("group", *OVERLAPPING), ("group",)),
    "class and group": ("class", "group"),
}
ABOVE = "tied scores, categories with few rows, sets that are never empty, or easier rows"


@checked_methods
@dataclass(frozen=True)
class Evaluation:
    """Metrics of prediction sets on labeled rows; `pippin.evaluate` returns it.

    Attributes:
        n: number of objects.
        coverage: share of sets that contain the true class.
        mean_size: mean number of classes in a set; `Melki et al. (2024) <https://arxiv.org/abs/2406.08884>`__ call it
            efficiency.
        singleton_rate: share of sets with one class; Melki et al. (2024) call it informativeness.
        empty_rate: share of empty sets.
        size_counts: number of sets of each size.
        size_coverage: coverage of the sets of each size.
        class_counts: number of objects of each class.
        class_coverage: coverage of each class.
        group_counts: number of objects in each group; empty without groups.
        group_coverage: coverage of each group; empty without groups.
        alpha: significance level (miscoverage), or None if it is unknown or differs by superclass ("kind").
        covgap: CovGap, the mean over classes of `|coverage − (1 − alpha)|`; None without alpha.
        sscv: size-stratified coverage violation, the largest `|coverage − (1 − alpha)|` over the sets with 0 to 1, 2
            to 3, 4 to 10, 11 to 100, and more classes; None without alpha.
        n_calibration: number of calibration rows, or of calibration units; None if it is unknown.
        accuracy: share of objects whose most probable class is the true class, or None if it is unknown.
        confidence: probability over calibration sets of a PAC guarantee; None for a guarantee on average.
        clustered: True if the groups are units (clusters of rows), each of which counts once in the verdict.
        kinds: coverage, level and verdict of each kind (superclass) with a guarantee of its own; empty without kinds.
        n_classes: number of classes, or None if it is unknown.
        findings: variables that predict misses (classes, groups, features, sizes of sets, and the largest probability),
            the most significant first, each with the part of the rows that is covered least; see docs/guarantees.md.
            Empty with units, or if no variable clearly predicts misses.

    >>> import pippin
    >>> sets = pippin.PredictionSets.from_labels([["weed"], ["crop"]], ["crop", "weed"])
    >>> pippin.evaluate(sets, ["weed", "weed"], alpha=0.1).covgap
    0.4
    """

    n: int
    coverage: float
    mean_size: float
    singleton_rate: float
    empty_rate: float
    size_counts: dict[int, int]
    size_coverage: dict[int, float]
    class_counts: dict[str | int, int]
    class_coverage: dict[str | int, float]
    group_counts: dict[str | int, int] = field(default_factory=dict)
    group_coverage: dict[str | int, float] = field(default_factory=dict)
    alpha: float | None = None
    covgap: float | None = None
    sscv: float | None = None
    n_calibration: int | None = None
    accuracy: float | None = None
    confidence: float | None = None
    clustered: bool = False
    kinds: dict[str, KindShare] = field(default_factory=dict)
    n_classes: int | None = None
    findings: tuple[Finding, ...] = field(default=(), compare=False)

    @property
    def verdict(self) -> str:
        """Sentence that compares coverage with 1 − alpha; without alpha, it states coverage only.

        Coverage is as promised within two standard errors, which account for the test rows, and for the calibration
        rows if their number is known. For few rows the exact probability decides, see docs/guarantees.md. With units
        (clusters of rows), the mean coverage of the units is compared; with kinds (superclasses), each kind is
        compared with its own level.
        """
        if self.kinds:
            return verdict_of_kinds(self.kinds)
        if self.alpha is None:
            return f"covers {format_share(self.coverage)}; pass alpha to judge that"
        requested = Requested(self.alpha, self.n_calibration, self.confidence)
        if self.clustered and self.mean_group_coverage is not None:
            of_units, share = list(self.group_coverage.values()), self.mean_group_coverage
            text = f"covers {format_share(share)} of the rows of a unit, on average over {len(of_units):,} units,"
            return judge_share(text, ABOVE, requested, share, unit_deviation(of_units, requested))
        return _judge_coverage(self.coverage, self.n, requested)

    @property
    def on_empty(self) -> str | None:
        """Sentence that explains why sets are empty: the accuracy of the classifier exceeds 1 − alpha.

        None if the accuracy does not exceed 1 − alpha, if no set is empty, or if alpha or the accuracy is unknown.
        """
        if self.alpha is None or self.accuracy is None:
            return None
        return explain_empty_sets(self.accuracy, self.alpha, self.n_calibration, self.empty_rate)

    @property
    def worst_class(self) -> str | int:
        """Class with the lowest coverage."""
        return min(self.class_coverage, key=lambda name: self.class_coverage[name])

    @property
    def singleton_accuracy(self) -> float | None:
        """Share of the sets with one class that contain the true class; None if there is no such set."""
        return self.size_coverage.get(1)

    @property
    def mean_group_coverage(self) -> float | None:
        """Unweighted mean of the groups' coverages, the expected coverage of a random group; None without groups."""
        return fmean(self.group_coverage.values()) if self.group_coverage else None

    @property
    def worst_group(self) -> str | int | None:
        """Group with the lowest coverage; None without groups."""
        return min(self.group_coverage, key=lambda name: self.group_coverage[name], default=None)

    def __str__(self) -> str:
        lines = [f"{self.n:,} objects"]
        lines += [f"{word:<11}  {value:.4f}   {text}" for word, value, text in self._metrics() if value is not None]
        lines += ["", "size    sets  coverage"]
        lines += [f"{size:>4} {self.size_counts[size]:>7}  {value:.4f}" for size, value in self.size_coverage.items()]
        lines += _listed("class", self.class_counts, self.class_coverage)
        lines += _listed("group", self.group_counts, self.group_coverage) if self.group_coverage else []
        lines += ["", *shown(self.findings)] if self.findings else []
        return "\n".join([*lines, *verdict_lines(self.kinds, self.alpha, self.verdict)])

    def _repr_html_(self) -> str:
        metrics = {word: [format_metric(name, getattr(self, name))] for name, (word, _) in WORDS.items()}
        shares = {"singleton accuracy": self.singleton_accuracy, "accuracy": self.accuracy}
        shares |= {name: getattr(self, name.lower()) for name in GAPS}
        metrics |= {name: [format_share(value)] for name, value in shares.items() if value is not None}
        note = " ".join(f"{name}: {meaning}." for name, meaning in GAPS.items() if shares.get(name) is not None)
        if self.sscv is not None:
            note = f"{note[:-1]} ({strata_names(self.n_classes)} classes)."
        verdict = "coverage is guaranteed for each kind" if self.kinds else self.verdict
        found = " ".join(["", *shown(self.findings)])
        overall = html_columns(f"{self.n:,} objects: {verdict}.{found}", metrics, note=f"{MEANINGS} {note}")
        if self.kinds:
            of_kinds: dict[str, list[Any]] = {
                "kind": [visible(name) for name in self.kinds],
                "objects": [kind.n for kind in self.kinds.values()],
                "verdict": [kind.verdict for kind in self.kinds.values()],
            }
            overall += html_columns("By kind.", of_kinds, most=len(self.kinds))
        worst = sorted(self.class_coverage, key=lambda name: self.class_coverage[name])
        of_classes: dict[str, list[Any]] = {
            "class": [visible(name) for name in worst],
            "objects": [self.class_counts[name] for name in worst],
            "coverage": [self._share(self.class_coverage[name]) for name in worst],
        }
        short = "" if self.alpha is None else f"Amber: below the {100 * (1 - self.alpha):g}% requested for all rows."
        return overall + html_columns("By class, the least covered first.", of_classes, note=short)

    def plot(self, ax: "Axes | None" = None, *, what: Literal["class", "group", "size"] = "class") -> "Axes":
        """Plot the coverage of each class, group or set size, with 95% confidence intervals.

        Args:
            ax: Matplotlib axes to draw on; new axes by default.
            what: "class" or "group", with the lowest coverage on top, or "size".

        Returns:
            The Matplotlib axes.

        Raises:
            InputError: `what` is "group", and the sets were evaluated without groups.

        >>> import pippin
        >>> sets = pippin.PredictionSets.from_labels([["weed"], ["crop"]], ["crop", "weed"])
        >>> axes = pippin.evaluate(sets, ["weed", "weed"]).plot()
        """
        from pippin._plotting.sets import plot_coverage

        return plot_coverage(self, what, ax)

    def _share(self, value: float) -> Share:
        return Share(value, AMBER if self.alpha is not None and value < 1 - self.alpha else BLUE)

    def _metrics(self) -> Iterator[tuple[str, float | None, str]]:
        """Yield name, value and meaning of each metric; metrics by class and by group require a known alpha."""
        for name, (word, meaning) in WORDS.items():
            yield word, getattr(self, name), meaning
        yield "sing. acc.", self.singleton_accuracy, "share of singletons that contain the true class"
        yield "accuracy", self.accuracy, "share of rows whose most probable class is the true one"
        if self.alpha is None and not self.kinds:
            return
        level = "the level of its kind" if self.alpha is None else f"{1 - self.alpha:g}"
        groups = list(self.group_coverage.values())
        yield "worst class", self.class_coverage[self.worst_class], f"coverage of {visible(self.worst_class)}"
        if self.worst_group is not None:
            yield "worst group", self.group_coverage[self.worst_group], f"coverage of {visible(self.worst_group)}"
            error = f", ± {stdev(groups) / sqrt(len(groups)):.4f}" if len(groups) > 1 else ""
            text = f"mean coverage of the {len(groups):,} groups, each counting once{error}"
            yield "mean group", self.mean_group_coverage, text
        yield "CovGap", self.covgap, f"mean distance of the classes' coverage from {level}"
        yield "SSCV", self.sscv, f"largest distance from {level} over sizes {strata_names(self.n_classes)}"


def _judge_coverage(coverage: float, n: int, requested: Requested) -> str:
    """Compare the coverage of n rows with the requested coverage in a sentence."""
    text = f"covers {format_share(coverage)}"
    return judge_share(text, ABOVE, requested, coverage, row_deviation(coverage, n, requested))


def _listed(kind: str, counts: dict[str | int, int], coverages: dict[str | int, float]) -> list[str]:
    """Return the lines of a printed table: number of objects and coverage of each class or group."""
    width = max([5, *(len(visible(name)) for name in coverages)])
    rows = [f"{visible(name):<{width}}  {counts[name]:>7}  {value:.4f}" for name, value in coverages.items()]
    return ["", f"{kind:<{width}}  objects  coverage", *rows]


@checked
def evaluate(
    sets: Any,
    labels: ArrayLike,
    *,
    probs: Any = None,
    groups: ArrayLike | None = None,
    units: ArrayLike | None = None,
    features: ArrayLike | None = None,
    alpha: float | None = None,
    n_calibration: int | None = None,
    **options: Any,
) -> Evaluation:
    """Evaluate prediction sets: coverage, mean size, singletons and empty sets, with coverage by set size and class.

    Args:
        sets: prediction sets, also of another library (`PredictionSets.from_mask`); or a predictor, to evaluate its
            sets of `probs`.
        labels: the true classes, as indices or as names; or tables from `pippin.scan`, whose label column is read.
        probs: (n, K) probabilities, if `sets` is a predictor.
        groups: the group of each object, for coverage per group; a group-conditional predictor uses them too. A matrix
            of 0 and 1 with a column per group, if groups may overlap.
        units: the cluster of each object, such as the photograph of each window. Coverage is listed by cluster, and
            the verdict treats clusters instead of objects as independent. For a predictor that was calibrated with
            units, clusters that are passed as `groups` are treated in the same way.
        features: further features of each object, (n, M), to find those that predict misses (`Evaluation.findings`); a
            predictor with a sharpener that was fitted with features uses them too.
        alpha: significance level (miscoverage), for CovGap, SSCV and the verdict; by default the predictor's.
        n_calibration: number of calibration rows (with `units`, of calibration clusters), for the verdict; by default
            the predictor's.
        options: other keywords of the predictor's `predict`, such as seed or weights.

    Returns:
        The metrics; `print` shows them as a table, followed by at most two variables that predict misses
        (`Braun et al. 2025 <https://arxiv.org/abs/2512.11779>`__), and by a verdict.

    Raises:
        InputError: there is no set, a label is not one of the classes, or keywords of `predict` are passed with sets.

    >>> import pippin
    >>> import numpy as np
    >>> sets = pippin.PredictionSets(np.array([1, 2]), np.array([1, 0, 1]), ("crop", "weed"))
    >>> print(pippin.evaluate(sets, ["crop", "weed"]))
    2 objects
    coverage     0.5000   share of sets that contain the true class
    size         1.5000   classes per set (efficiency in Melki et al. 2024)
    singletons   0.5000   share of sets with one class (informativeness in Melki et al. 2024)
    empty        0.0000   share of sets with no class
    sing. acc.   0.0000   share of singletons that contain the true class
    <BLANKLINE>
    size    sets  coverage
       1       1  0.0000
       2       1  1.0000
    <BLANKLINE>
    class  objects  coverage
    crop         1  0.0000
    weed         1  1.0000
    """
    if hasattr(sets, "predict"):
        return _evaluate_predictor(sets, labels, probs, groups, units, features, alpha, n_calibration, options)
    if probs is not None or options:
        given = "probs" if probs is not None else next(iter(options))
        raise InputError(f"Expected {given}= only with a predictor, got sets", "leave it out, or pass the predictor")
    if is_batched(labels):
        labels = cast("ArrayLike", labels_of(cast("Batched", labels), sets.classes))
    if groups is not None and units is not None:
        raise InputError("Expected groups= or units=, got both", "pass the units to report their coverage")
    level, n_rows = None if alpha is None else as_alpha(alpha), as_count(n_calibration)
    result = evaluate_counts(*_count(sets, labels, units if groups is None else groups), level)
    same_index("sets", sets.index, features=features)
    result = replace(result, n_calibration=n_rows, clustered=units is not None)
    truth = as_labels(labels, len(sets), sets.classes)
    names = None if groups is None else group_of_each_row(groups, len(sets))
    return diagnosed(
        result, Outcomes.of(sets.contain_codes(truth), sets.sizes, truth, None, names), sets.classes, features
    )


def _evaluate_predictor(
    predictor: Any,
    labels: ArrayLike,
    probs: Any,
    groups: ArrayLike | None,
    units: ArrayLike | None,
    features: ArrayLike | None,
    alpha: float | None,
    n_calibration: int | None,
    options: dict[str, Any],
) -> Evaluation:
    """Evaluate the predictor's sets of `probs`; `accuracy` is None if `probs` has one matrix per fold or model."""
    if probs is None:
        raise InputError("Expected probs= with a predictor, got none", "pass the probabilities of the rows")
    needed = {} if groups is None or "groups" not in predictor.takes else {"groups": groups}
    if groups is not None and not needed and units is not None:
        raise InputError("Expected groups= or units=, got both", "pass the units to report their coverage")
    if features is not None and "features" in predictor.takes:
        options = {**options, "features": features}
    from_logits, grouping = bool(options.get("from_logits")), groups if units is None else units
    if units is None and groups is not None and getattr(predictor, "per", None) in OVERLAPPING:
        members = predictor._rule.memberships(groups, np.shape(groups)[0])
        grouping = members if members.binary else None
    if "folds" in predictor.takes or are_several(probs):
        rows, sets = None, predictor.predict(probs, **needed, **options)
        codes = as_labels(labels, len(sets), predictor.classes)
    else:
        rows = rows_of_classes(predictor.classes, probs, from_logits, labels=labels)
        batched = labels_of(cast("Batched", labels), predictor.classes) if is_batched(labels) else None
        codes = labels_of_rows(labels, rows, predictor.classes) if batched is None else batched.codes
        sets = predictor.predict(rows, **needed, **options)
    counted, _, names = _count(sets, ColumnNumbers(codes), grouping)
    level = None if alpha is None else as_alpha(alpha)
    result = evaluate_predictor_counts(predictor, counted, names, level, as_count(n_calibration), units is not None)
    repeated = count_calibration_rows(
        predictor, probs if rows is None else rows, codes, options.get("features"), from_logits
    )
    warn_of_calibration_rows(repeated, result.n)
    of_rows = None if groups is None or result.clustered else group_of_each_row(groups, result.n)
    outcomes = Outcomes.of(sets.contain_codes(codes), sets.sizes, codes, rows, of_rows)
    result = diagnosed(result, outcomes, predictor.classes, features, getattr(predictor, "per", None))
    if rows is None:
        return result
    warn_if_implausible(Labelled(rows, codes, predictor.classes))
    return replace(result, accuracy=accuracy(rows, codes))


def count_calibration_rows(
    predictor: Any, probs: Any, labels: Codes, features: Any = None, from_logits: bool = False
) -> int:
    """Count the rows that seem to be calibration rows of the predictor or decider, see `_repeated_rows`."""
    count = getattr(predictor, "_repeated_rows", None)
    return 0 if count is None else count(probs, labels, features, from_logits)


def warn_of_calibration_rows(repeated: int, n: int) -> None:
    """Warn if more than a negligible share of n rows seem to be calibration rows."""
    if repeated > NEGLIGIBLE * n:
        warn(
            f"About {repeated:,} of these {n:,} rows seem to be calibration rows of the predictor: on them coverage "
            "is 1 − alpha whatever it is on new rows. Evaluate on other rows."
        )


def diagnosed(
    result: Evaluation, outcomes: Outcomes, classes: Classes, features: ArrayLike | None = None, per: str | None = None
) -> Evaluation:
    """Add the variables that predict misses to an evaluation; not with units, whose rows are not exchangeable.

    `per` is the taxonomy of the predictor, whose classes or groups have a guarantee.
    """
    if result.alpha is None or result.clustered:
        return result
    return replace(result, findings=diagnose(outcomes, classes, result.alpha, features, KNOWN.get(per or "", ())))


def _count(
    sets: Any, labels: ArrayLike, groups: ArrayLike | None
) -> tuple[Tally, Sequence[str | int], Sequence[str | int] | None]:
    """Count objects and covered objects by class, group and set size; return the names of classes and groups too."""
    if not isinstance(sets, PredictionSets):
        what = f"Expected prediction sets or a predictor, got {type(sets).__name__}"
        raise InputError(what, "of another library, pass PredictionSets.from_mask(...)")
    same_index("sets", sets.index, labels=labels, groups=groups)
    truth = as_labels(labels, len(sets), sets.classes)
    group, names, members = np.zeros_like(truth), None, None
    if groups is not None:
        group, names, members = as_reported_groups(groups, len(sets))
    n_groups = 1 if names is None else len(names if members is None else members)
    counted = tally(sets.sizes, sets.contain_codes(truth), truth, group, len(sets.classes), n_groups, members)
    return counted, sets.classes, names


def evaluate_predictor_counts(
    predictor: Any,
    counted: Tally,
    groups: Sequence[str | int] | None,
    alpha: float | None = None,
    n_calibration: int | None = None,
    by_unit: bool = False,
) -> Evaluation:
    """Evaluate counts of the sets of a predictor, with its levels and its numbers of calibration rows.

    Args:
        predictor: the predictor, decider or risk controller that made the sets.
        counted: the counts.
        groups: names of the groups, or None.
        alpha: significance level; by default that of the predictor, or of each superclass ("kind").
        n_calibration: number of calibration rows; by default the effective sample size of the predictor.
        by_unit: True if the groups are units (clusters of rows). The groups are always units if the predictor was
            calibrated with units.
    """
    kinds = () if alpha is not None else kind_levels(predictor)
    levels = {kind.requested.alpha for kind in kinds}
    if alpha is None and len(levels) <= 1:
        alpha = getattr(predictor, "alpha", None)
    result = evaluate_counts(counted, predictor.classes, groups, alpha, kinds)
    if groups is None:
        warn_without_units(predictor)
    clustered = groups is not None and (by_unit or is_by_unit(predictor))
    if n_calibration is None:
        n_calibration = calibration_size(predictor, result.n, len(result.group_counts) if clustered else None)
    confidence = getattr(predictor, "confidence", None)
    return replace(result, n_calibration=n_calibration, confidence=confidence, clustered=clustered)


def evaluate_counts(
    counted: Tally,
    classes: Classes,
    groups: Sequence[str | int] | None,
    alpha: float | None,
    kinds: Sequence[KindLevel] = (),
) -> Evaluation:
    """Compute the metrics from numbers of objects and covered objects, which may be sums over batches of rows.

    `kinds` are the superclasses, if each has its own guarantee; `alpha` is None if their levels differ.
    """
    (by_size, covered), names = counted.sizes, () if groups is None else groups
    n = int(by_size.sum())
    if not n:
        raise InputError("Expected at least one prediction set to measure, got none")
    sizes = np.flatnonzero(by_size).tolist()
    of_classes: Any = alpha
    if kinds:
        of_classes = np.empty(len(classes))
        for kind in kinds:
            of_classes[kind.codes] = kind.requested.alpha
    return Evaluation(
        n=n,
        coverage=int(covered.sum()) / n,
        mean_size=int((np.arange(len(by_size)) * by_size).sum()) / n,
        singleton_rate=int(by_size[1:2].sum()) / n,
        empty_rate=int(by_size[0]) / n,
        size_counts={size: int(by_size[size]) for size in sizes},
        size_coverage={size: float(covered[size] / by_size[size]) for size in sizes},
        class_counts=_named(counted.classes[0], classes, counted.classes[0]),
        class_coverage=_named(shares(counted.classes), classes, counted.classes[0]),
        group_counts=_named(counted.groups[0], names, counted.groups[0]),
        group_coverage=_named(shares(counted.groups), names, counted.groups[0]),
        alpha=alpha,
        covgap=None if of_classes is None else covgap(counted.classes, of_classes),
        sscv=None if alpha is None else sscv(counted.strata, alpha),
        kinds=shares_of_kinds(counted.classes, kinds, _judge_coverage),
        n_classes=len(classes),
    )


def _named(values: NDArray[Any], names: Sequence[str | int], counts: Codes) -> dict[str | int, Any]:
    """Return {name: value} of classes or groups, without those that have no objects."""
    return {name: value for name, value, n in zip(names, values.tolist(), counts.tolist(), strict=False) if n}
