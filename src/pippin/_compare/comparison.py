"""Which score, on these data, and how sure is that: random splits, shared by all methods."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from pippin._compare import method_splits
from pippin._compare.counted import METRICS, counter
from pippin._compare.influence import MOST_SPLITS, Influence, influences
from pippin._compare.many_rows import counter_of_many
from pippin._compare.methods import Method, parse_methods
from pippin._compare.sharpened_splits import check_sharpened
from pippin._compare.splits import Split, after_choice, draw_split, draw_splits
from pippin._compare.trial import Trial, make_trial
from pippin._engine import dispatch
from pippin._inputs.index import same_index
from pippin._inputs.labels import as_labelled
from pippin._predictors.coverage_by import Tally, conditional_columns, coverage_columns
from pippin._predictors.metrics import MEANINGS, WORDS, told_metric
from pippin._runtime.arrays import Classes, Codes, Flags, Vector
from pippin._runtime.disk import Checkpoint
from pippin._runtime.errors import InputError
from pippin._runtime.progress import progress_bar
from pippin._runtime.showing import html_columns
from pippin._runtime.threads import feed, run
from pippin._theory.scores import PAPER_SCORES, Score

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes

SPLITS, FEW_SPLITS = 1000, 50  # by default; few, where each takes a second or more
POOLED, FEW_POOLED = 100, 5  # splits over which coverage by class is pooled; few, of very many rows
POOLED_ROWS = 10_000_000  # of all of these, from which on there are fewer
CHUNK = 20  # splits that are drawn and counted together
CHUNK_ROWS = 1 << 20  # rows of all of these, at most, or one split
AT_ONCE = 200  # splits between two checkpoints, and between two steps of the bar
MANY_COUNTED = 100_000  # rows, beyond which splits are counted as in `many_rows.py`
AT_ONCE_ROWS = 1 << 25  # rows of all of these, at most, or FEW_AT_ONCE splits
FEW_AT_ONCE = 10  # the same, where each takes a second or more


def compare(
    probs: Any,
    labels: ArrayLike,
    scores: Sequence[Score | Method | str] | Score | Method | str = PAPER_SCORES,
    alpha: float = 0.1,
    *,
    splits: int | None = None,
    calibration_fraction: float = 0.45,
    seed: int = 0,
    classes: Classes | None = None,
    groups: ArrayLike | None = None,
    from_logits: bool = False,
    checkpoint: str | None = None,
) -> "Comparison":
    """Calibrates and tests every score on the same random splits.

    A score may ask for a guarantee beyond the marginal one, as in "pip per class", "pip per
    group", "pip per class and group", "pip per cluster" and "pip rc3p", and for sets that
    are never empty, "pip nonempty".

    Args:
        probs: (n, K) probabilities of rows that the classifier was not trained on.
        labels: the true classes; a pandas Series with the index of probs.
        scores: scores or methods, or their spellings.
        alpha: the share of errors allowed.
        splits: how many times the rows are divided; by default 1,000, or 50 where a score is sharpened,
            which learns anew every time.
        calibration_fraction: the share of rows that calibrates; the rest tests.
        seed: makes the splits; split i is the same for every score.
        classes: names of the K columns; a data frame brings its own.
        groups: the group of each row, for methods per group and for `Comparison.conditional`.
        from_logits: whether `probs` are logits, of which a softmax is taken.
        checkpoint: a file that keeps what is done, so that a stopped run goes on from there.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> comparison = pippin.compare(data.probs, data.labels, ("ip", "repip"), splits=100)
    >>> for row in comparison.summary().iter_rows(named=True):
    ...     print(f"{row['score']:5} {row['efficiency']:.2f} {row['informativeness']:.2f}")
    ip    1.37 0.69
    repip 1.47 0.73
    """
    data = as_labelled(probs, labels, classes, from_logits)
    same_index("probs", data.rows.index, groups=groups)
    methods = parse_methods(scores)
    trial = make_trial(data, alpha, calibration_fraction, seed, groups)
    return compare_in(trial, methods, usual_splits(methods) if splits is None else splits, checkpoint)


def usual_splits(methods: Sequence[Method]) -> int:
    """How many splits are enough, where nobody says how many."""
    return FEW_SPLITS if any(method.sharpened for method in methods) else SPLITS


def compare_in(
    trial: Trial, methods: tuple[Method, ...], splits: int, kept: str | None = None, quiet: bool = False
) -> "Comparison":
    """`compare` on rows that are ranked already; `quiet` where somebody else tells how far it is."""
    values = measure(trial, methods, splits, kept, quiet)
    return Comparison(methods, trial.alpha, trial.seed, trial.n, trial.n_calibration, values, trial)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What every score did on every split.

    Attributes:
        scores: what was compared.
        alpha: the share of errors allowed.
        seed: what the splits were drawn from.
        n: how many rows there are.
        n_calibration: how many of them calibrate, in every split.
        values: values[score, split, metric], with the metrics threshold, coverage, efficiency, informativeness
            and empty_rate. The threshold is NaN for a method that has several.
        trial: the rows themselves, already scored; None in a comparison that was not made by `pippin.compare`.
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
        """How many random splits there were."""
        return int(self.values.shape[1])

    @property
    def n_test(self) -> int:
        """How many rows are left to test, in every split."""
        return self.n - self.n_calibration

    def metric(self, name: str) -> Vector:
        """One metric, (scores, splits).

        Args:
            name: "threshold", "coverage", "efficiency", "informativeness" or "empty_rate".
        """
        if name not in METRICS:
            raise InputError(f"Expected a metric ({', '.join(METRICS)}), got {name!r}")
        return self.values[:, :, METRICS.index(name)]

    @property
    def table(self) -> "polars.DataFrame":
        """One row per score and split."""
        import polars

        names = np.repeat([str(score) for score in self.scores], self.splits)
        numbers = np.tile(np.arange(self.splits), len(self.scores))
        flat = self.values.reshape(-1, len(METRICS))
        return polars.DataFrame(
            {"score": names, "split": numbers, **{name: flat[:, i] for i, name in enumerate(METRICS)}}
        )

    def summary(self) -> "polars.DataFrame":
        """One row per score: the mean and standard deviation of every metric over the splits."""
        import polars

        columns: dict[str, Any] = {"score": [str(score) for score in self.scores]}
        for name in METRICS:
            values = self.metric(name)
            columns[name] = values.mean(axis=1)
            steady = np.isinf(values).any(axis=1) | (self.splits < 2)
            with np.errstate(invalid="ignore"):
                columns[f"{name}_sd"] = np.where(steady, 0.0, values.std(axis=1, ddof=min(1, self.splits - 1)))
        return polars.DataFrame(columns)

    def conditional(self) -> "polars.DataFrame":
        """One row per score: its worst class, CovGap, SSCV and worst group, pooled over the first 100 splits.

        Of more than 100,000 rows there are fewer of these splits: 5 of two million rows.
        `covgap` is the mean over classes of `|coverage − (1 − α)|`; `sscv` the largest such gap
        over strata of set sizes.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> methods = ["pip", "pip per class"]
        >>> found = pippin.compare(data.probs, data.labels, methods, splits=100, classes=data.classes)
        >>> for row in found.conditional().iter_rows(named=True):
        ...     print(row["score"], row["worst_class"], round(row["worst_class_coverage"], 2), round(row["covgap"], 3))
        pip black_grass 0.7 0.057
        pip per class charlock 0.9 0.002
        """
        import polars

        trial = self.known_trial()
        return polars.DataFrame(
            conditional_columns(self.scores, self.tallies, trial.classes, trial.group_names, self.alpha)
        )

    def class_coverage(self) -> "polars.DataFrame":
        """One row per score and class: the rows of that class, and its coverage over the same splits."""
        trial = self.known_trial()
        return self._coverage("class", trial.classes, trial.labels, [tally.classes for tally in self.tallies])

    def group_coverage(self) -> "polars.DataFrame":
        """The same per group."""
        trial = self.known_trial()
        if trial.group_names is None:
            raise InputError("These rows were compared without groups", "pass groups= to compare, one per row")
        return self._coverage("group", trial.group_names, trial.group, [tally.groups for tally in self.tallies])

    def _coverage(self, kind: str, names: Sequence[str | int], codes: Codes, counts: list[Any]) -> "polars.DataFrame":
        import polars

        rows = np.bincount(codes, minlength=len(names))
        return polars.DataFrame(coverage_columns(self.scores, counts, rows, kind, names))

    @cached_property
    def tallies(self) -> tuple[Tally, ...]:
        """Who is covered, pooled over the first splits; one for each score."""
        trial = self.known_trial()
        key = "tallies", self.scores, self.pooled
        if key not in trial.kept:
            thresholds = self.metric("threshold")[:, : self.pooled]
            trial.kept[key] = method_splits.tally_splits(trial, self.scores, thresholds, partial(draw_split, trial))
        found: tuple[Tally, ...] = trial.kept[key]
        return found

    @property
    def pooled(self) -> int:
        """Over how many splits coverage by class is pooled: 100, or fewer of very many rows."""
        return min(self.splits, max(FEW_POOLED, min(POOLED, POOLED_ROWS // self.n)))

    @property
    def closer(self) -> "Comparison":
        """The same comparison, of a sample where there are very many rows: what rows contribute is seen there."""
        trial = self.known_trial()
        if trial.closer is trial:
            return self
        splits = min(self.splits, MOST_SPLITS)
        key = "closer", self.scores, splits
        if key not in trial.kept:
            trial.kept[key] = compare_in(trial.closer, self.scores, splits, quiet=True)
        found: Comparison = trial.kept[key]
        return found

    @property
    def influences(self) -> dict[str, Influence]:
        """How much rows sway each metric."""
        trial = self.known_trial()
        key = "influences", self.scores, self.splits
        if key not in trial.kept:
            trial.kept[key] = influences(trial, self.scores, self.splits)
        found: dict[str, Influence] = trial.kept[key]
        return found

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        what: Literal["front", "coverage", "size", "singletons"] = "front",
        families: bool = False,
    ) -> "Axes":
        """Mean size against singletons, up and to the left is better; or one metric over all splits. Matplotlib axes.

        Args:
            ax: where to draw; new axes, if not given.
            what: the "front" of size against singletons, or "coverage", "size" or "singletons" by split.
            families: whether the front also shows what other parameters would do: the lines that RePIP, SOCOP, PIP
                and RAPS trace. They are compared first, on the same splits.
        """
        from pippin._compare.picture import front, splits

        known = {"coverage": "coverage", "size": "efficiency", "singletons": "informativeness"}
        if what != "front" and what not in known:
            raise InputError(f"Expected what to be 'front' or one of {', '.join(map(repr, known))}, got {what!r}")
        if what != "front":
            return splits.plot_metric(self, known[what], ax)
        return front.plot_front(self, self.families if families else {}, ax)

    @cached_property
    def families(self) -> "dict[str, Comparison]":
        """Whole families of scores on the same rows, up to 100 splits: what other parameters would do."""
        from pippin._compare.tuning import families_in

        return families_in(self.known_trial().closer, min(POOLED, self.splits))

    def known_trial(self) -> Trial:
        """The rows that were compared.

        Raises:
            InputError: they are not known, as in a comparison read from a file.
        """
        if self.trial is None:
            raise InputError("This comparison does not know its rows", "make it with pippin.compare")
        return self.trial

    def _repr_html_(self) -> str:
        told = f"{self!r}, {100 * (1 - self.alpha):g} % asked for: means over the splits"
        return html_columns(told, shown_means(self.summary()), most=len(self.scores), note=MEANINGS)

    def __repr__(self) -> str:
        return f"Comparison({', '.join(map(str, self.scores))}; {self.splits:,} splits of {self.n:,} rows)"


def shown_means(summary: "polars.DataFrame") -> dict[str, list[Any]]:
    """The means of a summary, called what people call them."""
    columns = {name: own for name, own in summary.to_dict(as_series=False).items() if not name.endswith("_sd")}
    told = {name: [told_metric(name, one) for one in own] if name in METRICS else own for name, own in columns.items()}
    order = [*(name for name in told if name != "threshold"), *(name for name in told if name == "threshold")]
    return {WORDS[name][0] if name in WORDS else name: told[name] for name in order}


def _bar(what: str, total: int, quiet: bool) -> AbstractContextManager[Callable[[int], None]]:
    return nullcontext(lambda more: None) if quiet else progress_bar(what, total)


def measure(
    trial: Trial, methods: tuple[Method, ...], splits: int, checkpoint: str | None = None, quiet: bool = False
) -> Vector:
    """values[method, split, metric] of every method on every split."""
    if isinstance(splits, bool) or not isinstance(splits, int | np.integer) or splits < 1:
        raise InputError(f"Expected at least one split, got {splits!r}")
    values = np.empty((len(methods), splits, len(METRICS)))
    randomized = any(method.score.randomized for method in methods)
    kept = Checkpoint(checkpoint, trial.fingerprint(methods) if checkpoint else "", values)
    numbered = dict(enumerate(methods))
    others = {number: method for number, method in numbered.items() if not method.plain}
    method_splits.check_methods(trial, list(others.values()))
    check_sharpened(trial, methods, splits)
    left = kept.done < splits
    plain = {number: method.score for number, method in numbered.items() if method.plain and left}
    many = trial.n > MANY_COUNTED
    with _bar("preparing scores", len(plain), quiet) as advance:
        count_plain = counter_of_many(trial, list(plain.values()), advance) if many and plain else None
    counters = {} if many else {number: counter(trial, score, splits) for number, score in plain.items()}
    notes: list[str] = []
    one_by_one = method_splits.counters(trial, others, notes) if left else {}

    def draw(start: int, stop: int) -> tuple[Flags, Vector]:
        return draw_splits(trial, range(start, stop), randomized)

    def work_of_many(start: int, stop: int) -> None:
        for index in range(start, stop):
            if count_plain:
                values[list(plain), index] = count_plain(index)
            if one_by_one:
                split = draw_split(trial, index)
                for number, count_split in one_by_one.items():
                    values[number, index] = count_split(split)

    def work(start: int, stop: int, drawn: tuple[Flags, Vector]) -> None:
        calibrations, u = drawn
        for number, count in counters.items():
            values[number, start:stop] = count(calibrations, u)
        for index, (calibration, own) in enumerate(zip(calibrations, u, strict=True), start):
            split = Split(calibration, own, partial(after_choice, trial, index))
            for number, count_split in one_by_one.items():
                values[number, index] = count_split(split)

    chunk, at_once = (
        (1, FEW_AT_ONCE)
        if any(method.sharpened for method in methods)
        else (min(CHUNK, max(1, CHUNK_ROWS // trial.n)), AT_ONCE)
    )
    at_once = max(chunk, FEW_AT_ONCE, min(at_once, AT_ONCE_ROWS // trial.n))
    alone = not others and not dispatch.is_compiled()  # NumPy's small steps hold the interpreter
    with _bar("splits", splits, quiet) as advance:
        advance(kept.done)
        while kept.done < splits:
            start, stop = kept.done, min(kept.done + at_once, splits)
            pieces = [(a, min(a + chunk, stop)) for a in range(start, stop, chunk)]
            if many:  # every thread draws its own splits
                run(work_of_many, pieces)
            else:
                feed(draw, work, pieces, alone)
            advance(stop - start)
            kept.keep(stop)
    method_splits.tell(notes)
    return values
