"""Evaluation of methods on random splits.

`sets_of_split` calibrates any method on the calibration rows of a split and predicts the test rows.

For a score with one threshold, `split_counter` computes the same metrics faster, since rows are scored only once. The
thresholds of nearly all splits are in a narrow band, a range of scores. So two results are enough for each split: the
set sizes at the lower end of the band, and the few borderline classes, whose scores are in the band.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from pippin._compare.methods import Method
from pippin._compare.splits import RowNumbers, Split, Trial, check_splits, draw_split
from pippin._conformal.calibrate import Settings, mondrian_predictor
from pippin._conformal.coverage_by import Tally, tally
from pippin._conformal.ip_ms import combined, find_thresholds, score_labels
from pippin._conformal.mondrian import Taxonomy, sort_into_categories
from pippin._conformal.overlapping import overlapping_rule, scale_of
from pippin._conformal.predictor import mondrian_of
from pippin._engine import dispatch
from pippin._engine.draws import draws
from pippin._engine.protocol import Bounds
from pippin._runtime.arrays import Codes, Flags, Vector, read_only
from pippin._runtime.disk import SplitCheckpoint
from pippin._runtime.errors import InputError, warn
from pippin._runtime.progress import progress_bar
from pippin._runtime.threads import run
from pippin._sharpening.learning import FEWEST, sharpen_labelled
from pippin._theory.level import examples_needed, named, quantile_rank
from pippin._theory.scores import Score, coefficients
from pippin._validation.labels import Labelled

METRICS = ("threshold", "coverage", "mean_size", "singleton_rate", "empty_rate", "singleton_accuracy")
SPREAD = 4  # half width of the band of thresholds, in standard deviations of a threshold over the splits
CHUNK, CHUNK_ROWS = 20, 1 << 20  # largest number of splits that a thread processes at once, and of their rows in total
AT_ONCE, AT_ONCE_ROWS = 200, 1 << 25  # largest number of splits between checkpoints, and of their rows in total
FEW_AT_ONCE = 10  # smallest number of splits between checkpoints
PER_PROBABILITY = 1000  # counting this many rows, over all splits, takes NumPy as long as scoring one probability
NUMBER = re.compile(r"\d[\d.,]*")
BLOCK_ROWS = 1 << 18  # largest number of rows whose sets are in memory at once
SLOW_SPLITS = 100  # number of splits above which `check_methods` warns that sharpening takes long


class SplitThresholds(NamedTuple):
    """Thresholds of a method on one split, for IP/MS also the threshold of the margin score, and texts of warnings."""

    bounds: Bounds
    margin: float | None = None
    notes: tuple[str, ...] = ()


class SplitSets(NamedTuple):
    """Sizes of the prediction sets of some rows, and flags of the sets that contain the label.

    `threshold` is NaN for a method with several thresholds; `notes` are texts of warnings.
    """

    threshold: float
    sizes: Codes
    covered: Flags
    notes: tuple[str, ...] = ()

    def metrics(self) -> tuple[float, ...]:
        """Compute the metrics in the order of METRICS; without singletons, singleton_accuracy is NaN."""
        n, single = len(self.sizes), self.sizes == 1
        covered, singletons, correct = map(np.count_nonzero, (self.covered, single, single & self.covered))
        empty = np.count_nonzero(self.sizes == 0)
        accuracy = correct / singletons if singletons else math.nan
        return self.threshold, covered / n, int(self.sizes.sum()) / n, singletons / n, empty / n, accuracy


class CalibratedSplit(NamedTuple):
    """A method calibrated on one split: thresholds as a function of alpha, and random numbers u of the test rows."""

    at: Callable[[float], SplitThresholds]
    u: Vector


def sets_of_split(trial: Trial, method: Method, split: Split) -> SplitSets:
    """Calibrate the method on a split and predict the test rows."""
    if method.sharpened:
        trial, method, split = sharpen_split(trial, method, split)
    calibrated = calibrate_on_split(trial, method, split)
    return predict_rows(trial, method, calibrated.at(trial.alpha), split.test_rows, calibrated.u)


def calibrate_on_split(trial: Trial, method: Method, split: Split) -> CalibratedSplit:
    """Calibrate a method on the calibration rows of a split; sharpening (recalibration) is not supported here.

    Random numbers (u of randomized scores, and those of clustering) are drawn from the split's generator, as
    `pippin.calibrate` and `predict` do.
    """
    rows, u_test = split.calibration_rows, split.u[~split.calibration]
    if method.per in ("cluster", "rc3p") or method.interpolated:
        generator = split.generator()
        data = Labelled(trial.rows.take(rows), trial.labels[rows], range(trial.n_classes))
        predictor, note = mondrian_predictor(data, Settings(method.score, trial.alpha, generator, Taxonomy(method.per)))
        notes = (note,) if note else ()
        u_test = draws(method.score, len(u_test), generator)
        rule = mondrian_of(predictor)
        return CalibratedSplit(lambda alpha: SplitThresholds(rule.at(alpha)[0].limits, notes=notes), u_test)
    spec = method.combination
    if spec is not None:
        both = score_labels(trial.ranked.take(rows), read_only(trial.ranks[rows]))

        def combination(alpha: float) -> SplitThresholds:
            thresholds = find_thresholds(both, alpha, split.generator(), spec)
            return SplitThresholds(Bounds(np.array([[thresholds.ip]])), thresholds.margin, thresholds.notes)

        return CalibratedSplit(combination, u_test)
    scores = dispatch.label_scores(trial.ranked, trial.ranks, method.score, split.u)[rows]
    if method.overlapping:
        own = trial.combinations.take(trial.group[rows])
        scale = scale_of(method.score, trial.n_classes)
        overlapping = overlapping_rule(scores, own, str(method.per), trial.alpha, scale)
        every = trial.combinations
        return CalibratedSplit(lambda alpha: SplitThresholds(Bounds(overlapping.thresholds(every, alpha))), u_test)
    category, lookup = trial.categories(method)
    categories = sort_into_categories(scores, category[rows], lookup)
    return CalibratedSplit(lambda alpha: SplitThresholds(Bounds(categories.thresholds(alpha)[lookup])), u_test)


def predict_rows(trial: Trial, method: Method, thresholds: SplitThresholds, rows: RowNumbers, u: Vector) -> SplitSets:
    """Predict the sets of some rows, block by block; `u` has one random number per row."""
    sizes, covered = np.empty(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=bool)
    for start in range(0, len(rows), BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        sizes[part], covered[part] = _predict_block(trial, method, thresholds, rows[part], u[part])
    several = method.per is not None or thresholds.margin is not None
    return SplitSets(np.nan if several else thresholds.bounds.scores.item(), sizes, covered, thresholds.notes)


def _predict_block(
    trial: Trial, method: Method, thresholds: SplitThresholds, rows: RowNumbers, u: Vector
) -> tuple[Codes, Flags]:
    """Predict the set sizes of some rows, and flags of the sets that contain the label."""
    bounds, margin, _ = thresholds
    # Without thresholds by class, sorted rows are sufficient, since a set consists of the most probable classes.
    by_rank = bounds.scores.shape[1] == 1 and bounds.ranks is None
    probs, labels = (trial.ranked, trial.ranks) if by_rank else (trial.rows, trial.labels)
    probs, labels = probs.take(rows), labels[rows]
    if margin is not None:
        sets = combined(probs, margin, bounds.scores.item())
    else:
        group = trial.group[rows] if len(bounds.scores) > 1 else None
        sets = dispatch.members(probs, method.score, bounds._replace(group=group), u)
    sizes, members = dispatch.with_best(probs, sets) if method.nonempty else sets
    if by_rank:
        return sizes, labels < sizes
    hits = np.repeat(np.arange(len(rows)), sizes)[members == np.repeat(labels, sizes)]
    return sizes, np.isin(np.arange(len(rows)), hits)


def sharpen_split(trial: Trial, method: Method, split: Split) -> tuple[Trial, Method, Split]:
    """Fit a sharpener (map that recalibrates probabilities) on half of the calibration rows of a split.

    Return a trial of all other rows with recalibrated probabilities, the method without sharpening, and the split of
    these rows. A method without sharpening is calibrated on both halves, so that a comparison includes the cost of the
    rows for fitting.
    """
    calibration_rows = split.calibration_rows
    generator = np.random.default_rng(int(split.generator().integers(2**62)))
    learning = np.sort(generator.choice(calibration_rows, len(calibration_rows) // 2, replace=False))
    if split.index not in trial.sharpeners:
        data = Labelled(trial.rows.take(learning), trial.labels[learning], trial.classes)
        trial.sharpeners[split.index] = sharpen_labelled(data, None, trial.seed)[0]
    sharpener = trial.sharpeners[split.index]
    others = np.delete(np.arange(trial.n), learning)
    sharpened = trial.subset(others, sharpener.rows(trial.rows.take(others)), len(calibration_rows) - len(learning))
    remaining = replace(split, calibration=split.calibration[others], u=split.u[others])
    return sharpened, replace(method, sharpened=False), remaining


def warn_of_notes(notes: Sequence[str]) -> None:
    """Issue the warnings in `notes`; texts that differ only in numbers are issued once, with their count."""
    kinds: dict[str, list[str]] = {}
    for note in sorted(notes):  # sorted, since the order in which threads add warnings is random
        kinds.setdefault(NUMBER.sub("#", note), []).append(note)
    for similar in kinds.values():
        where = f"In {len(similar):,} splits: " if len(similar) > 1 else "In one split: "
        warn(where + similar[0])


def check_methods(trial: Trial, methods: Sequence[Method], splits: int) -> None:
    """Warn of Mondrian categories with too few rows in a split for a finite threshold, and of slow methods.

    Raises:
        InputError: a method needs groups, but there are none, or there are too few rows to fit a sharpener.
    """
    for method in methods:
        if method.by_group and trial.group_names is None:
            raise InputError(f"Expected groups for {method}, got none", "pass groups=, one per row")
        if method.per == "group" and trial.members is not None:
            what = f"Expected one group per row for {method}, got a matrix of groups that may overlap"
            raise InputError(what, "compare per groups, or pass the combination of groups of each row as text")
        if method.sharpened and trial.n_calibration < 2 * FEWEST:
            what = f"Expected at least {2 * FEWEST} calibration rows in a split for {method}, got {trial.n_calibration}"
            raise InputError(what, "pass more rows: half of them fit the sharpener")
    needed, share = examples_needed(trial.alpha), trial.n_calibration / trial.n
    kinds: dict[tuple[bool, bool], list[Method]] = {}
    for method in methods:
        if not method.overlapping:
            kinds.setdefault((method.by_class, method.by_group), []).append(method)
    for (by_class, by_group), alike in kinds.items():
        category, lookup = trial.categories(alike[0])
        typical = np.bincount(category, minlength=lookup.size) * share
        few = np.flatnonzero(typical < needed)
        if not len(few) or not (by_class or by_group):
            continue
        classes, groups = trial.classes if by_class else None, trial.group_names if by_group else None
        rare = named(few, np.minimum(typical, needed - 1), lookup, classes, groups)  # 8.55 of 9 is not rounded to 9
        remedy = "collect more, or compare per cluster" if by_class else "collect more, or join small groups"
        warn(
            f"{', '.join(map(str, alike))}: alpha={trial.alpha:g} needs {needed:,} calibration examples for each "
            f"threshold, and {len(few):,} of {len(typical):,} have fewer in a split: {rare}. Where the threshold is "
            f"infinite the class is in every set: {remedy}."
        )
    sharpened = ", ".join(str(method) for method in methods if method.sharpened)
    if sharpened and splits > SLOW_SPLITS:
        warn(
            f"{sharpened}: a sharpener is fitted in each of {splits:,} splits, which takes long; 50 splits give nearly "
            "the same means."
        )


SplitCounter = Callable[[Sequence[Split], Flags, Vector], Vector]  # arguments: splits, their calibration masks, u


def split_counter(trial: Trial, score: Score, n_splits: int) -> SplitCounter:
    """Return a function that computes the metrics of the score on given splits, as an array (splits, metrics)."""
    k = quantile_rank(trial.n_calibration, trial.alpha)
    if k > trial.n_calibration:
        full_sets = (math.inf, 1.0, trial.n_classes, 0.0, 0.0, math.nan)
        return lambda splits, calibrations, u: np.tile(full_sets, (len(splits), 1))
    low, high = threshold_band(trial, score, k)
    border = dispatch.borderline_classes(trial.ranked, trial.ranks, score, low, high)
    c, engine = coefficients(score, trial.n_classes), dispatch.engine_for(n_splits * trial.n // PER_PROBABILITY)

    def count(splits: Sequence[Split], calibrations: Flags, u: Vector) -> Vector:
        counts = np.empty((len(splits), len(METRICS)))
        engine.count_splits(border, c, k, calibrations, u, counts)
        with np.errstate(invalid="ignore"):
            counts[:, 5] /= counts[:, 3]  # singleton_accuracy
        counts[:, 1:5] /= trial.n_test
        # A rare split whose threshold is outside the band is evaluated by `sets_of_split`.
        for i in np.flatnonzero(~((low < counts[:, 0]) & (counts[:, 0] <= high))).tolist():
            counts[i] = sets_of_split(trial, Method(score), splits[i]).metrics()
        return counts

    return count


def threshold_band(trial: Trial, score: Score, k: int) -> tuple[float, float]:
    """Return two scores, lower and upper, between which nearly all thresholds of random splits lie."""
    n, share = trial.n, k / (trial.n_calibration + 1)
    spread = SPREAD * math.sqrt(share * (1 - share) * (1 / trial.n_calibration + 1 / n)) + 2 / trial.n_calibration
    first, last = math.floor((share - spread) * n), math.ceil((share + spread) * n)
    u = np.random.default_rng(trial.seed).random(n)
    scores = np.partition(dispatch.label_scores(trial.ranked, trial.ranks, score, u), [max(first, 0), min(last, n - 1)])
    low = math.nextafter(scores[first], -math.inf) if first >= 0 else -math.inf
    if last < n:
        return low, float(scores[last])
    ends = (dispatch.label_scores(trial.ranked, trial.ranks, score, np.full(n, end)) for end in (0.0, 1.0))
    return low, max(float(scores.max()) for scores in ends)


def tally_splits(trial: Trial, methods: Sequence[Method], splits: int) -> tuple[Tally, ...]:
    """Count covered rows by class, group and set size over the first `splits` splits, for each method."""
    tallies: dict[int, list[Tally]] = {}

    def work(start: int, stop: int) -> None:
        split = draw_split(trial, start)
        labels, groups = trial.labels[split.test_rows], trial.group[split.test_rows]
        shape = trial.n_classes, trial.n_groups, trial.members
        predicted = (sets_of_split(trial, method, split) for method in methods)
        tallies[start] = [tally(sets.sizes, sets.covered, labels, groups, *shape) for sets in predicted]

    run(work, [(index, index + 1) for index in range(splits)])
    return tuple(reduce(Tally.__add__, of_method) for of_method in zip(*tallies.values(), strict=True))


def measure(trial: Trial, methods: tuple[Method, ...], splits: int, checkpoint: str | None = None) -> Vector:
    """Compute `values[method, split, metric]` of every method on every split, in parallel.

    Finished splits are stored in the file `checkpoint`, from which a stopped run continues.
    """
    check_splits(splits)
    values = np.empty((len(methods), splits, len(METRICS)))
    stored = SplitCheckpoint(checkpoint, trial.fingerprint(methods) if checkpoint else "", values)
    check_methods(trial, methods, splits)
    counters: dict[int, SplitCounter] = {}
    notes: list[str] = []
    if stored.done < splits:
        plain = [number for number, method in enumerate(methods) if method.plain]
        with progress_bar("preparing scores", len(plain)) as advance:
            for number in plain:
                counters[number] = split_counter(trial, methods[number].score, splits)
                advance(1)

    def work(start: int, stop: int) -> None:
        batch = [draw_split(trial, index) for index in range(start, stop)]
        masks, u = (read_only(np.stack(parts)) for parts in zip(*((s.calibration, s.u) for s in batch), strict=True))
        for number, method in enumerate(methods):
            if number in counters:
                values[number, start:stop] = counters[number](batch, masks, u)
                continue
            for split in batch:
                sets = sets_of_split(trial, method, split)
                values[number, split.index] = sets.metrics()
                notes.extend(sets.notes)

    slow = any(method.sharpened for method in methods)
    chunk = 1 if slow else max(1, min(CHUNK, CHUNK_ROWS // trial.n))
    at_once = FEW_AT_ONCE if slow else max(chunk, FEW_AT_ONCE, min(AT_ONCE, AT_ONCE_ROWS // trial.n))
    with progress_bar("splits", splits) as advance:
        advance(stored.done)
        while stored.done < splits:
            start, stop = stored.done, min(stored.done + at_once, splits)
            run(work, [(a, min(a + chunk, stop)) for a in range(start, stop, chunk)])
            advance(stop - start)
            stored.save(stop)
    warn_of_notes(notes)
    return values
