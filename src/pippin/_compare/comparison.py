"""Comparison of methods on the same random splits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from pippin._compare.evidence import MOST_SPLITS, Influence, influences
from pippin._compare.methods import Method, parse_methods
from pippin._compare.split_evaluation import METRICS, measure, tally_splits
from pippin._compare.splits import Trial, make_trial
from pippin._conformal.coverage_by import Tally, conditional_columns, coverage_columns
from pippin._conformal.evaluation import MEANINGS, WORDS, format_metric
from pippin._runtime.arguments import checked, checked_methods
from pippin._runtime.arrays import Classes, Codes, Vector
from pippin._runtime.errors import InputError
from pippin._runtime.showing import html_columns
from pippin._theory.scores import PAPER_SCORES, Score
from pippin._validation.index import same_index
from pippin._validation.labels import as_labelled

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes

SPLITS, FEW_SPLITS = 1000, 50  # default numbers of splits: without and with sharpened (recalibrated) methods
POOLED, FEW_POOLED = 100, 5  # largest and smallest number of splits over which coverage by class or group is pooled
POOLED_ROWS = 10_000_000  # largest number of rows in all pooled splits together; FEW_POOLED splits are always pooled


@checked
def compare(
    probs: Any,
    labels: ArrayLike,
    scores: Sequence[Score | Method | str] | Score | Method | str = PAPER_SCORES,
    alpha: float = 0.1,
    *,
    splits: int | None = None,
    calibration_fraction: float = 0.45,
    classes: Classes | None = None,
    groups: ArrayLike | None = None,
    seed: int = 0,
    from_logits: bool = False,
    checkpoint: str | None = None,
) -> "Comparison":
    """Compare scores on the same random splits into calibration and test rows.

    A method is a score with options. Its thresholds can differ by category of a Mondrian taxonomy ("pip per class",
    "pip per group", "pip per class and group", "pip per cluster", "pip rc3p"), lie between one threshold and one per
    class ("pip interpolated"), or hold in groups that may overlap ("pip per groups", "pip per largest group"). "pip
    nonempty" adds the most probable class to empty sets. "pip sharpened" recalibrates the probabilities before the
    score is computed. "ip/ms" combines the sets of inverse probability and of the margin score.

    Args:
        probs: (n, K) probabilities of rows that the classifier was not trained on.
        labels: true class of each row, as index or name.
        scores: scores or methods, as objects or by name, such as "pip per class"; by default IP, margin, APS, RAPS,
            PIP and RePIP.
        alpha: significance level (miscoverage).
        splits: the number of random splits; by default 1,000, or 50 with a sharpened method, since its recalibration
            is fitted again in every split.
        calibration_fraction: share of the rows used for calibration; the others are test rows.
        classes: names of the K columns; by default the column names of a data frame, else 0 … K − 1.
        groups: the group of each row, for methods per group and for the coverage of each group. A matrix of 0 and 1
            with a column per group, if groups may overlap.
        seed: the seed of the splits; split i is the same for every score.
        from_logits: whether `probs` are logits, to which a softmax is applied.
        checkpoint: a file for the results of finished splits; a run that was stopped continues after them.

    Returns:
        A Comparison with the metrics of every method on every split.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> comparison = pippin.compare(data.probs, data.labels, ("ip", "repip"), splits=100)
    >>> for row in comparison.summary().iter_rows(named=True):
    ...     print(f"{row['score']:5} {row['mean_size']:.2f} {row['singleton_rate']:.2f}")
    ip    1.37 0.69
    repip 1.47 0.73
    """
    data = as_labelled(probs, labels, classes, from_logits)
    same_index("probs", data.rows.index, groups=groups)
    methods = parse_methods(scores)
    trial = make_trial(data, alpha, calibration_fraction, seed, groups)
    return compare_trial(trial, methods, default_splits(methods) if splits is None else splits, checkpoint)


def default_splits(methods: Sequence[Method]) -> int:
    """Return the default number of splits: 1000, or 50 if one of the methods is sharpened (recalibrated)."""
    return FEW_SPLITS if any(method.sharpened for method in methods) else SPLITS


@checked_methods
@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Metrics of every score on every split.

    Attributes:
        scores: the compared scores, each as a `Method` (a score with options such as "per class").
        alpha: significance level (miscoverage).
        seed: the seed of the splits.
        n: the number of rows.
        n_calibration: the number of calibration rows in each split.
        values: `values[score, split, metric]`, where the metrics are threshold, coverage, mean_size, singleton_rate,
            empty_rate and singleton_accuracy (the share of singletons that contain the true class). The threshold is
            NaN for a method with several thresholds, and singleton_accuracy is NaN for a split without singletons.
        trial: the compared rows and the settings of the splits; None for a comparison that is not made by
            `pippin.compare`.
    """

    scores: tuple[Method, ...]
    alpha: float
    seed: int
    n: int
    n_calibration: int
    values: Vector
    trial: Trial | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", parse_methods(self.scores))

    @property
    def splits(self) -> int:
        """Number of splits."""
        return int(self.values.shape[1])

    @property
    def n_test(self) -> int:
        """Number of test rows in each split."""
        return self.n - self.n_calibration

    def metric(self, name: str) -> Vector:
        """Return one metric of every score and split.

        Args:
            name: "threshold", "coverage", "mean_size", "singleton_rate", "empty_rate" or "singleton_accuracy".

        Returns:
            Array of shape (scores, splits).

        Raises:
            InputError: there is no such metric.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> pippin.compare(data.probs, data.labels, ("ip", "repip"), splits=20).metric("coverage").shape
        (2, 20)
        """
        if name not in METRICS:
            raise InputError(f"Expected a metric ({', '.join(METRICS)}), got {name!r}")
        return self.values[:, :, METRICS.index(name)]

    @property
    def table(self) -> "polars.DataFrame":
        """All metrics as a polars data frame with one row per score and split."""
        import polars

        names = np.repeat([str(score) for score in self.scores], self.splits)
        numbers = np.tile(np.arange(self.splits), len(self.scores))
        flat = self.values.reshape(-1, len(METRICS))
        metrics = {name: flat[:, i] for i, name in enumerate(METRICS)}
        return polars.DataFrame({"score": names, "split": numbers, **metrics})

    def summary(self) -> "polars.DataFrame":
        """Compute the mean and standard deviation of every metric over the splits.

        For singleton_accuracy, splits without singletons are left out.

        Returns:
            A polars data frame with one row per score. Each metric has a column for its mean, such as `coverage`, and
            one for its standard deviation, such as `coverage_sd`.
        """
        import polars

        columns: dict[str, Any] = {"score": [str(score) for score in self.scores]}
        for name in METRICS:
            values = self.metric(name)
            if name == "singleton_accuracy":
                values = np.ma.masked_invalid(values)
            columns[name] = np.ma.filled(values.mean(axis=1), np.nan)
            steady = np.isinf(values).any(axis=1) | (self.splits < 2)
            with np.errstate(invalid="ignore"):
                spread = np.ma.filled(values.std(axis=1, ddof=min(1, self.splits - 1)), np.nan)
            columns[f"{name}_sd"] = np.where(steady, 0.0, spread)
        return polars.DataFrame(columns)

    def conditional(self) -> "polars.DataFrame":
        """Compute conditional coverage of each score: by class, by set size, and by group if there are groups.

        The columns are the class with the lowest coverage, `covgap` (the mean over classes of
        `|coverage − (1 − alpha)|`), and `sscv` (the largest `|coverage − (1 − alpha)|` over sets with 0 to 1, 2 to 3,
        4 to 10, 11 to 100, and more classes). With groups, there is also the group with the lowest coverage.

        Coverage is that of the test rows of several splits together: of the first 100 splits, or of fewer splits (but
        at least 5) if there are more than 100,000 rows.

        Returns:
            A polars data frame with one row per score.

        Raises:
            InputError: the comparison was made without its rows.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> methods = ["pip", "pip per class"]
        >>> comparison = pippin.compare(data.probs, data.labels, methods, splits=100, classes=data.classes)
        >>> for row in comparison.conditional().iter_rows(named=True):
        ...     print(row["score"], row["worst_class"], round(row["worst_class_coverage"], 2), round(row["covgap"], 3))
        pip black_grass 0.7 0.057
        pip per class charlock 0.9 0.002
        """
        import polars

        trial = self.require_trial()
        columns = conditional_columns(self.scores, self.tallies, trial.classes, trial.group_names, self.alpha)
        return polars.DataFrame(columns)

    def class_coverage(self) -> "polars.DataFrame":
        """Compute the coverage of each class under each score, over the test rows of up to 100 splits together.

        Returns:
            A polars data frame with one row per score and class, its coverage and number of rows.

        Raises:
            InputError: the comparison was made without its rows.
        """
        trial = self.require_trial()
        return self._coverage("class", trial.classes, trial.labels)

    def group_coverage(self) -> "polars.DataFrame":
        """Compute the coverage of each group under each score, over the test rows of up to 100 splits together.

        Returns:
            A polars data frame with one row per score and group, its coverage and number of rows.

        Raises:
            InputError: the comparison was made without groups, or does not store its rows.
        """
        trial = self.require_trial()
        if trial.group_names is None:
            raise InputError("These rows were compared without groups", "pass groups= to compare, one per row")
        return self._coverage("group", trial.group_names, trial.group)

    def _coverage(
        self, kind: Literal["class", "group"], names: Sequence[str | int], codes: Codes
    ) -> "polars.DataFrame":
        """Return a data frame of the coverage of each class or group under each score on the first `pooled` splits."""
        import polars

        counts = [tally.classes if kind == "class" else tally.groups for tally in self.tallies]
        members = self.require_trial().members if kind == "group" else None
        rows = np.bincount(codes, minlength=len(names))
        if members is not None:
            rows = np.bincount(codes, minlength=len(members)) @ members.astype(np.int64)
        return polars.DataFrame(coverage_columns(self.scores, counts, rows, kind, names))

    @cached_property
    def coinciding(self) -> dict[Method, tuple[Method, ...]]:
        """Methods with the same options and the same results (except thresholds) in every split.

        The keys are the first methods of each such group, the values the other methods.

        With two classes most scores order the labels alike, so that their sets are the same.
        """
        first: dict[Any, Method] = {}
        equal: dict[Method, tuple[Method, ...]] = {}
        for method, values in zip(self.scores, self.values, strict=True):
            options = method.per, method.sharpened, method.nonempty, method.combination
            same = first.setdefault((options, values[:, 1:].tobytes()), method)
            if same != method:
                equal[same] = (*equal.get(same, ()), method)
        return equal

    @cached_property
    def distinct(self) -> "Comparison":
        """Comparison without methods whose sets equal those of an earlier one in every split; itself if all differ."""
        left_out = {method for methods in self.coinciding.values() for method in methods}
        return self.restricted([method for method in self.scores if method not in left_out])

    def restricted(self, methods: Sequence[Method]) -> "Comparison":
        """Return the comparison of some of the methods.

        Args:
            methods: methods of this comparison, in any order; with an empty sequence, all methods are kept.

        Returns:
            The comparison of these methods, in the given order; this comparison itself if nothing changes.

        Raises:
            InputError: a method is not in this comparison.
        """
        for method in methods:
            if method not in self.scores:
                what = f"Expected methods of this comparison ({', '.join(map(str, self.scores))}), got {method!r}"
                raise InputError(what, "choose from comparison.scores")
        if tuple(methods) in ((), self.scores):
            return self
        values = self.values[[self.scores.index(method) for method in methods]]
        return replace(self, scores=tuple(methods), values=values)

    @cached_property
    def tallies(self) -> tuple[Tally, ...]:
        """Numbers of test rows and of covered test rows, by class, group and set size: a `Tally` for each score.

        The test rows of the first `pooled` splits are counted.
        """
        return tally_splits(self.require_trial(), self.scores, self.pooled)

    @property
    def pooled(self) -> int:
        """Number of splits over which the coverage by class, group and set size is computed, at most 100.

        It is lower with more than 100,000 rows, to save time.
        """
        return min(self.splits, max(FEW_POOLED, min(POOLED, POOLED_ROWS // self.n)))

    @cached_property
    def sample(self) -> "Comparison":
        """Comparison of the same scores on 200,000 random rows; this comparison itself if it has at most as many.

        It limits the time of confidence intervals.
        """
        trial = self.require_trial()
        if trial.sample is trial:
            return self
        return compare_trial(trial.sample, self.scores, min(self.splits, MOST_SPLITS))

    @cached_property
    def influences(self) -> dict[str, Influence]:
        """Influence of single rows on the mean of each metric under each score, by the name of the metric.

        A row influences the mean, as a test row, through its own set. `pippin.differences` computes confidence
        intervals from these influences.
        """
        return influences(self.require_trial(), self.scores, self.splits)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        what: Literal["front", "coverage", "mean_size", "singleton_rate"] = "front",
        families: bool = False,
    ) -> "Axes":
        """Plot mean size against the singleton rate of each score, or the distribution of one metric over the splits.

        Args:
            ax: the axes; new ones by default.
            what: "front" for size against singleton rate, or the metric "coverage", "mean_size" or "singleton_rate".
            families: whether the plot "front" also shows what RePIP, SOCOP, PIP and RAPS reach with other parameters,
                as a line for each of the four scores. This takes time, since all these parameters are compared first.

        Returns:
            Matplotlib axes.
        """
        from pippin._plotting.comparison import PANELS, plot_front, plot_metric

        if what == "front":
            return plot_front(self, self.families if families else {}, ax)
        if what not in PANELS:
            raise InputError(f"Expected what to be 'front' or one of {', '.join(map(repr, PANELS))}, got {what!r}")
        return plot_metric(self, what, ax)

    @cached_property
    def families(self) -> "dict[str, Comparison]":
        """Comparisons of SOCOP, RePIP, PIP and RAPS with many parameters each: a dictionary by the name of the score.

        They use at most 100 splits, and at most 200,000 rows.
        """
        from pippin._compare.tuning import compare_families

        return compare_families(self.require_trial().sample, min(POOLED, self.splits))

    def require_trial(self) -> Trial:
        """Return the compared rows with the settings of the splits; raise an InputError if they are not stored.

        Returns:
            The `trial` of the comparison.

        Raises:
            InputError: the comparison was made without its rows.
        """
        if self.trial is None:
            raise InputError("Expected a comparison with its rows, got one without", "make it with pippin.compare")
        return self.trial

    def _repr_html_(self) -> str:
        note = " ".join(filter(None, (MEANINGS, describe_coinciding(self))))
        return html_columns(f"{self._title}.", self._shown(), most=len(self.scores), note=note)

    def __str__(self) -> str:
        columns = [[heading, *map(str, cells)] for heading, cells in self._shown().items()]
        widths = [max(map(len, column)) for column in columns]
        rows = zip(*columns, strict=True)
        first, *others = widths
        lines = [
            "  ".join([f"{name:<{first}}", *(f"{cell:>{width}}" for cell, width in zip(cells, others, strict=True))])
            for name, *cells in rows
        ]
        note = describe_coinciding(self)
        return "\n".join([f"{self._title}.", *lines, *([note] if note else [])])

    @property
    def _title(self) -> str:
        return f"{self!r}, {100 * (1 - self.alpha):g}% requested: means over the splits"

    @property
    def shown_names(self) -> list[str]:
        """Names of the methods in printed tables; methods that coincide share a line, as in "ip = margin"."""
        equal = self.coinciding
        return [" = ".join(map(str, (method, *equal.get(method, ())))) for method in self.distinct.scores]

    def _shown(self) -> dict[str, list[Any]]:
        """Return the mean metrics of the methods with different results, as columns of text by heading."""
        columns, names = shown_means(self.distinct.summary()), self.shown_names
        thresholds = [
            "several" if " = " in name else text for name, text in zip(names, columns["threshold"], strict=True)
        ]
        return columns | {"score": names, "threshold": thresholds}

    def __repr__(self) -> str:
        return f"Comparison({', '.join(map(str, self.scores))}; {self.splits:,} splits of {self.n:,} rows)"


def describe_coinciding(comparison: Comparison) -> str:
    """Name the methods with the same sets in every split, in a sentence; empty if all methods differ."""
    each = []
    for method, others in comparison.coinciding.items():
        *names, last = map(str, (method, *others))
        each.append(f"{', '.join(names)} and {last} have the same sets in every split")
    if not each:
        return ""
    two = comparison.trial is not None and comparison.trial.n_classes == 2
    reason = "with two classes these scores order the labels alike, so " if two else ""
    text = f"{reason}{'; '.join(each)}."
    return text[0].upper() + text[1:] if two else text


def compare_trial(trial: Trial, methods: tuple[Method, ...], splits: int, checkpoint: str | None = None) -> Comparison:
    """Compare methods on random splits of the trial's rows."""
    values = measure(trial, methods, splits, checkpoint)
    return Comparison(methods, trial.alpha, trial.seed, trial.n, trial.n_calibration, values, trial)


def shown_means(summary: "polars.DataFrame") -> dict[str, list[Any]]:
    """Format the mean metrics of a comparison's summary as table columns with readable headings."""
    columns = {name: values for name, values in summary.to_dict(as_series=False).items() if not name.endswith("_sd")}
    for name in METRICS:
        columns[name] = [format_metric(name, value) for value in columns[name]]
    columns["threshold"] = columns.pop("threshold")  # move it to the last column
    return {WORDS[name][0] if name in WORDS else name.replace("_", " "): values for name, values in columns.items()}
