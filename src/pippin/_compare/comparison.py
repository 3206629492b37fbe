"""Which score, on these data, and how sure is that: random splits, shared by all scores.

The rows are ranked once. From split to split only the threshold changes, and a score's
thresholds lie close together: sets are counted from their sizes at the lowest one plus
the few classes that enter up to the highest. So a split costs an order statistic and
some counting, whatever the number of classes.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._compare import method_splits
from pippin._compare.methods import Candidate, Method, parse_methods, score_of
from pippin._compare.outcomes import Split
from pippin._compare.splits import Trial, after_choice, draw_splits, draw_whole_split, make_trial
from pippin._engine import dispatch, plain_splits
from pippin._engine.plain import Places, Vector, at_places
from pippin._engine.plain_splits import Known, Scored, is_adaptive
from pippin._inputs.index import same_index
from pippin._inputs.rows import Classes, as_classes, as_labels, as_rows
from pippin._predictors.coverage_by import Tally, conditional_columns, coverage_columns
from pippin._runtime.disk import Checkpoint
from pippin._runtime.progress import progress_bar
from pippin._runtime.threads import feed
from pippin._theory.formula import Coefficients
from pippin._theory.level import quantile_rank
from pippin._theory.scores import PAPER_SCORES, Score, coefficients

if TYPE_CHECKING:
    import polars

METRICS = ("threshold", "coverage", "efficiency", "informativeness", "empty_rate")
POOLED = 100  # splits over which coverage by class is pooled
CHUNK = 20  # splits that are drawn and counted together
AT_ONCE = 200  # splits between two checkpoints
MOST_LEVELS = 64  # sets are kept at no more thresholds than these
SPREAD = 6  # standard deviations around the middle threshold that are prepared for


def compare(
    probs: Any,
    labels: ArrayLike,
    scores: Sequence[Candidate | str] | Candidate | str = PAPER_SCORES,
    alpha: float = 0.1,
    splits: int = 1000,
    calibration_fraction: float = 0.45,
    seed: int = 0,
    *,
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
        splits: how many times the rows are divided.
        calibration_fraction: the share of rows that calibrates; the rest tests.
        seed: makes the splits; split i is the same for every score.
        groups: the group of each row, for methods per group and for `Comparison.conditional`.
        checkpoint: a file that keeps what is done, so that a stopped run goes on from there.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> comparison = pippin.compare(data.probs, data.labels, ("ip", "repip"), splits=100)
    >>> for row in comparison.summary().iter_rows(named=True):
    ...     print(f"{row['score']:5} {row['efficiency']:.2f} {row['informativeness']:.2f}")
    ip    1.37 0.69
    repip 1.47 0.73
    """
    rows = as_rows(probs, from_logits)
    same_index("probs", rows.index, labels=labels, groups=groups)
    names = as_classes(classes, rows)
    truth = as_labels(labels, rows.n, names)
    chosen = parse_methods(scores)
    trial = make_trial(rows, truth, calibration_fraction, alpha, seed, names, groups)
    return compare_in(trial, chosen, splits, checkpoint)


def compare_in(trial: Trial, candidates: Sequence[Candidate], splits: int, kept: str | None = None) -> "Comparison":
    """`compare` on rows that are ranked already."""
    values = measure(trial, candidates, splits, kept)
    return Comparison(tuple(candidates), trial.alpha, trial.seed, trial.rows.n, trial.n_calibration, values, trial)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What every score did on every split: values[score, split, metric], the metrics as in METRICS.

    The threshold is NaN for a method that has several.
    """

    scores: tuple[Candidate, ...]
    alpha: float
    seed: int
    n: int
    n_calibration: int
    values: NDArray[np.float64]
    trial: Trial | None = None

    @property
    def splits(self) -> int:
        return int(self.values.shape[1])

    @property
    def n_test(self) -> int:
        return self.n - self.n_calibration

    def metric(self, name: str) -> NDArray[np.float64]:
        """One metric, (scores, splits)."""
        if name not in METRICS:
            raise ValueError(f"Expected a metric ({', '.join(METRICS)}), got {name!r}.")
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

        `covgap` is the mean over classes of |coverage − (1 − α)|; `sscv` the largest such gap
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

        objects = self._known_trial().objects
        return polars.DataFrame(
            conditional_columns(self.scores, self.tallies, objects.classes, objects.groups, self.alpha)
        )

    def class_coverage(self) -> "polars.DataFrame":
        """One row per score and class: the rows of that class, and its coverage over the first 100 splits."""
        objects = self._known_trial().objects
        return self._coverage("class", objects.classes, objects.labels, [found.classes for found in self.tallies])

    def group_coverage(self) -> "polars.DataFrame":
        """The same per group."""
        objects = self._known_trial().objects
        if objects.groups is None:
            raise ValueError("These rows were compared without groups: pass groups= to compare, one per row.")
        return self._coverage("group", objects.groups, objects.group, [found.groups for found in self.tallies])

    def _coverage(self, kind: str, names: Sequence[str | int], codes: Any, counts: list[Any]) -> "polars.DataFrame":
        import polars

        rows = np.bincount(codes, minlength=len(names))
        return polars.DataFrame(coverage_columns(self.scores, counts, rows, kind, names))

    @cached_property
    def tallies(self) -> tuple[Tally, ...]:
        """Who is covered, pooled over the first 100 splits; one for each score."""
        trial = self._known_trial()
        thresholds = self.metric("threshold")[:, :POOLED]
        return method_splits.tally_splits(
            trial.objects, self.scores, thresholds, self.alpha, partial(draw_whole_split, trial)
        )

    def _known_trial(self) -> Trial:
        if self.trial is None:
            raise ValueError("This comparison does not know its rows: make it with pippin.compare.")
        return self.trial

    def __repr__(self) -> str:
        return f"Comparison({', '.join(map(str, self.scores))}; {self.splits:,} splits of {self.n:,} rows)"


def measure(
    trial: Trial, scores: Sequence[Candidate], splits: int, checkpoint: str | None = None
) -> NDArray[np.float64]:
    """values[score, split, metric] of every score on every split."""
    if isinstance(splits, bool) or not isinstance(splits, int | np.integer) or splits < 1:
        raise ValueError(f"Expected at least one split, got {splits!r}.")
    values = np.empty((len(scores), splits, len(METRICS)))
    randomized = any(score_of(score).randomized for score in scores)
    kept = Checkpoint(checkpoint, _fingerprint(trial, scores) if checkpoint else "", values)
    plain = {number: score for number, score in enumerate(scores) if isinstance(score, Score)}
    methods = {number: method for number, method in enumerate(scores) if isinstance(method, Method)}
    if methods:
        method_splits.check_methods(trial.objects, list(methods.values()), trial.n_calibration, trial.alpha)
    left = kept.done < splits
    counters = {number: counter(trial, score, splits) for number, score in plain.items() if left}
    notes: list[str] = []
    by_cell = method_splits.counters(trial.objects, methods, trial.alpha, notes) if methods and left else {}

    def draw(start: int, stop: int) -> tuple[NDArray[np.bool_], Vector]:
        return draw_splits(trial, range(start, stop), randomized)

    def work(start: int, stop: int, drawn: tuple[NDArray[np.bool_], Vector]) -> None:
        calibrations, u = drawn
        for number, count in counters.items():
            values[number, start:stop] = count(calibrations, u)
        for number, count_split in by_cell.items():
            for index, (calibration, own) in enumerate(zip(calibrations, u, strict=True), start):
                values[number, index] = count_split(Split(calibration, own, partial(after_choice, trial, index)))

    alone = not methods and dispatch.compiled(0) is None  # NumPy's small steps hold the interpreter
    with progress_bar("splits", splits) as advance:
        advance(kept.done)
        while kept.done < splits:
            start, stop = kept.done, min(kept.done + AT_ONCE, splits)
            feed(draw, work, [(a, min(a + CHUNK, stop)) for a in range(start, stop, CHUNK)], alone)
            advance(stop - start)
            kept.keep(stop)
    method_splits.tell(notes)
    return values


def counter(trial: Trial, score: Score, splits: int) -> Callable[[NDArray[np.bool_], Vector], NDArray[np.float64]]:
    """A function of some splits, (splits, n), that gives the metrics of the score."""
    n, k = trial.rows.n, quantile_rank(trial.n_calibration, trial.alpha)
    if k > trial.n_calibration:
        return lambda calibrations, u: np.tile((math.inf, 1.0, trial.rows.n_classes, 0.0, 0.0), (len(u), 1))
    known, low, high = _known(trial, score, k)
    count_splits = _engine(splits * n)

    def count(calibrations: NDArray[np.bool_], u: Vector) -> NDArray[np.float64]:
        counts = np.empty((len(u), len(METRICS)))
        count_splits(known, k, score.randomized, calibrations, u, counts)
        for i in np.flatnonzero((counts[:, 0] < low) | (counts[:, 0] > high)):
            counts[i, 2:] = _count_anew(trial, score, counts[i, 0], calibrations[i], u[i])
        counts[:, 1:] /= trial.n_test
        return counts

    return count


def _engine(work: int) -> Callable[..., None]:
    """The compiled loops, if they are loaded or worth loading; else NumPy, which counts a row in some nanoseconds."""
    if dispatch.compiled(work // 1000) is None:
        return plain_splits.count_splits
    from pippin._engine.compiled import splits

    return splits.count_splits


def _known(trial: Trial, score: Score, k: int) -> tuple[Known, float, float]:
    """What all splits of the score share, and the thresholds between which it suffices."""
    n, c = trial.rows.n, coefficients(score, trial.rows.n_classes)
    u = np.random.default_rng(trial.seed).random(n)
    places, _ = dispatch.label_places(trial.rows, trial.ranks, score, u)
    label, label_row, _ = _scored(places, score, c, u)
    low, high = _reach(trial, np.sort(label.scores), float(at_places(places, c)(np.ones(n)).max()), k)
    sizes, places = dispatch.band(trial.rows, score, low, high)
    if score.randomized:
        places = _ordered(places, np.argsort(np.minimum(places.rank, 2), kind="stable"))
    place, place_row, rank = _scored(places, score, c, u)
    step = len(rank) + 1 if score.randomized else max(n // 4, len(rank) // MOST_LEVELS, 1)
    levels = _levels(sizes, place_row, step)
    kind = np.minimum(rank, 2).astype(np.int8)
    return Known(label, label_row, low, levels, step, place, place_row, kind), low, high


def _scored(
    places: Places, score: Score, c: Coefficients, u: Vector
) -> tuple[Scored, NDArray[np.int32], NDArray[np.int32]]:
    """The places with their scores, their rows and their ranks; sorted, if the score takes no u."""
    scores = _place_scores(places, c, u)
    if not score.randomized:  # then nothing but the scores is looked at again
        order = np.argsort(scores, kind="stable")
        none = Scored(c._replace(table=np.asfortranarray(c.table[:0])), scores[:0], scores[:0], scores[order], False)
        return none, places.row[order], places.rank[order]
    here = c._replace(table=np.asfortranarray(c.table[places.rank]))  # its columns are read one by one
    return Scored(here, places.p, places.mass, scores, is_adaptive(c)), places.row, places.rank


def _place_scores(places: Places, c: Coefficients, u: Vector) -> Vector:
    if dispatch.compiled(0) is None:
        return at_places(places, c)(u)
    from pippin._engine.compiled import splits

    return splits.place_scores(*places, c, u)


def _ordered(places: Places, order: NDArray[np.intp]) -> Places:
    return Places(places.row[order], places.rank[order], places.p[order], places.mass[order])


def _levels(sizes: NDArray[np.int64], entering: NDArray[np.int32], step: int) -> NDArray[np.int32]:
    """The sizes of all sets after every `step` places that enter them."""
    added = [np.bincount(entering[a - step : a], minlength=len(sizes)) for a in range(step, len(entering) + 1, step)]
    return np.cumsum([sizes, *added], axis=0, dtype=np.int32)


def _count_anew(
    trial: Trial, score: Score, threshold: float, calibration: NDArray[np.bool_], u: Vector
) -> tuple[int, int, int]:
    """For a threshold outside the prepared levels, which is legal but next to never seen."""
    sizes, _ = dispatch.members(trial.rows, score, threshold, u)
    sizes = sizes[~calibration]
    return int(sizes.sum()), int((sizes == 1).sum()), int((sizes == 0).sum())


def _reach(trial: Trial, ordered: Vector, highest: float, k: int) -> tuple[float, float]:
    """Levels between which the thresholds of practically all splits lie; none exceeds the highest label score."""
    n, share = trial.rows.n, k / (trial.n_calibration + 1)
    spread = SPREAD * math.sqrt(share * (1 - share) * (1 / trial.n_calibration + 1 / n)) + 2 / trial.n_calibration
    first, last = math.floor((share - spread) * n), math.ceil((share + spread) * n)
    return float(ordered[first]) if first >= 0 else -math.inf, float(ordered[last]) if last < n else highest


def _fingerprint(trial: Trial, candidates: Sequence[Candidate]) -> str:
    """What a checkpoint must agree with to be continued."""
    told = [dispatch.checksum(trial.rows, trial.ranks)]
    for candidate in candidates:
        score = score_of(candidate)
        told.append(f"{score.name}{score.parameters}")
        told += trial.objects.fingerprint(candidate) if isinstance(candidate, Method) else []
    return "\n".join([*told, f"{trial.alpha} {trial.n_calibration} {trial.seed}"])
