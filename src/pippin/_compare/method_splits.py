"""Methods over many splits: their metrics, who is covered, and what to warn of."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from pippin._compare.methods import Method
from pippin._compare.outcomes import Outcome, outcome, rank_scores
from pippin._compare.sharpened_splits import sharpened_splits
from pippin._compare.splits import BLOCK, Split
from pippin._compare.trial import Trial
from pippin._engine import dispatch
from pippin._engine.plain.scores import at_places
from pippin._predictors.coverage_by import STRATA, Tally, counted, pooled, tally
from pippin._runtime.arrays import Codes, Flags, Vector, read_only
from pippin._runtime.errors import InputError
from pippin._runtime.threads import feed, run
from pippin._runtime.warn import warn
from pippin._theory.level import examples_needed
from pippin._theory.scores import Score, coefficients
from pippin._theory.shortage import named

NUMBER = re.compile(r"\d[\d.,]*")

Metrics = tuple[float, float, float, float, float]


def counters(trial: Trial, methods: dict[int, Method], notes: list[str]) -> dict[int, Callable[[Split], Metrics]]:
    """For each method a function of a split that gives its metrics, and adds to `notes` what to warn of."""
    outcomes = Outcomes(trial, methods.values())
    return {key: partial(_metrics, outcomes, method, notes) for key, method in methods.items()}


class Outcomes:
    """What the sets of a split are, for each of several methods; all that splits share is found once."""

    def __init__(self, trial: Trial, methods: Iterable[Method]) -> None:
        scores = {method.score for method in methods if not method.sharpened}
        self.trial = trial
        self._known = {score: rank_scores(trial, score) for score in scores}

    def of(self, method: Method, split: Split) -> Outcome:
        """The test objects of one split."""
        if method.sharpened:
            return sharpened_splits(self.trial).outcome(self.trial, method, split)
        return outcome(self._known[method.score], method, self.trial.alpha, split)


def _metrics(outcomes: Outcomes, method: Method, notes: list[str], split: Split) -> Metrics:
    """Threshold, coverage, mean size, share of singletons, share of empty sets."""
    found = outcomes.of(method, split)
    notes.extend(found.notes)  # in one step: threads share the list
    n, sizes = len(found.sizes), found.sizes
    return (
        found.threshold,
        np.count_nonzero(found.covered) / n,
        int(sizes.sum()) / n,
        np.count_nonzero(sizes == 1) / n,
        np.count_nonzero(sizes == 0) / n,
    )


def tally_splits(
    trial: Trial, methods: Sequence[Method], thresholds: Vector, draw: Callable[[int], Split]
) -> tuple[Tally, ...]:
    """Who is covered under each method, pooled over the first splits.

    `thresholds[method, split]` are those of plain scores, which need no second calibration.
    """
    splits = thresholds.shape[1]
    many = trial.closer is not trial  # of so many rows nothing is kept
    outcomes = Outcomes(trial, [method for method in methods if not method.plain])
    covers = {
        number: partial(_tally, outcomes, method)
        if not method.plain
        else _plain_tally(trial, method, thresholds[number])
        for number, method in enumerate(methods)
        if not (method.plain and many)
    }
    found: dict[int, dict[int, Tally]] = {}

    def work(start: int, stop: int) -> None:
        drawn = [(index, draw(index)) for index in range(start, stop)]
        found[start] = {number: pooled(cover(*one) for one in drawn) for number, cover in covers.items()}

    if covers:
        step = 1 if many else 10
        run(work, [(a, min(a + step, splits)) for a in range(0, splits, step)])
    if many:
        plain = {number: method.score for number, method in enumerate(methods) if method.plain}

        def count(index: int, stop: int, split: Split) -> None:
            found[-1 - index] = tally_in_blocks(trial, plain, thresholds[:, index], split)

        feed(lambda index, stop: draw(index), count, [(index, index + 1) for index in range(splits if plain else 0)])
    return tuple(
        pooled(tallies[number] for tallies in found.values() if number in tallies) for number in range(len(methods))
    )


def tally_in_blocks(trial: Trial, scores: dict[int, Score], thresholds: Vector, split: Split) -> dict[int, Tally]:
    """Who is covered by plain scores in one split, counted in one block of rows after the other."""
    from pippin._engine.compiled import in_order

    parts: dict[int, dict[int, Tally]] = {}

    def work(start: int, stop: int) -> None:
        part = slice(start, stop)
        block, codes = trial.ranked.block(start, stop), (trial.ranks[part], trial.labels[part], trial.group[part])
        parts[start] = {}
        for number, score in scores.items():
            c, threshold = coefficients(score, trial.n_classes), thresholds[number]
            classes, groups, sizes = (
                np.zeros((2, n), np.int64) for n in (len(c.table), trial.n_groups, len(c.table) + 1)
            )
            found = classes, groups, sizes
            in_order.count_covered(block, codes, split.calibration[part], split.u[part], c, threshold, found)
            parts[start][number] = counted(*found)

    dispatch.in_steps(work, trial.n, BLOCK)
    return {number: pooled(part[number] for part in parts.values()) for number in scores}


def _plain_tally(trial: Trial, method: Method, thresholds: Vector) -> Callable[[int, Split], Tally]:
    """Sets of the first ranks: whether they reach into a stratum is a matter of one class."""
    n, n_classes, score = trial.n, trial.n_classes, method.score
    c = coefficients(score, n_classes)
    ends = [start - 1 for start in STRATA[1:] if start <= n_classes]
    label, *nexts = (
        at_places(dispatch.label_places(trial.ranked, rank, score, np.ones(n))[0], c)
        for rank in (trial.ranks, *(read_only(np.full(n, end)) for end in ends))
    )

    def cover(index: int, split: Split) -> Tally:
        reached = [scores(split.u) <= thresholds[index] for scores in nexts]
        sizes = np.array(STRATA)[np.sum(reached, axis=0, dtype=np.int64)] if nexts else np.zeros(n, dtype=np.int64)
        return _tallied(trial, split, sizes, label(split.u) <= thresholds[index])

    return cover


def _tally(outcomes: Outcomes, method: Method, index: int, split: Split) -> Tally:
    found = outcomes.of(method, split)
    test = ~split.calibration
    sizes, covered = np.zeros(len(test), dtype=np.int64), np.zeros(len(test), dtype=bool)
    sizes[test], covered[test] = found.sizes, found.covered
    return _tallied(outcomes.trial, split, sizes, covered)


def _tallied(trial: Trial, split: Split, sizes: Codes, covered: Flags) -> Tally:
    test = ~split.calibration
    labels, groups = trial.labels[test], trial.group[test]
    return tally(sizes[test], covered[test], labels, groups, trial.n_classes, trial.n_groups)


def tell(notes: Sequence[str]) -> None:
    """Warns of what many splits noted, once of each kind, whatever the numbers in it."""
    kinds: dict[str, list[str]] = {}
    for note in sorted(notes):  # threads note in any order
        kinds.setdefault(NUMBER.sub("#", note), []).append(note)
    for same in kinds.values():
        often = f"In {len(same):,} splits: " if len(same) > 1 else "In one split: "
        warn(often + same[0])


def check_methods(trial: Trial, methods: Sequence[Method]) -> None:
    """Warns of the classes, groups or pairs that have too few rows in a split for a finite threshold.

    Raises:
        InputError: a method needs groups, and there are none.
    """
    for method in methods:
        if method.by_group and trial.groups is None:
            raise InputError(f"Expected groups for {method}, got none", "pass groups=, one per row")
    needed, share = examples_needed(trial.alpha), trial.n_calibration / trial.n
    kinds = {(method.by_class, method.by_group): method for method in reversed(methods)}
    for (by_class, by_group), example in reversed(kinds.items()):
        if not (by_class or by_group):
            continue
        concerned = [str(method) for method in methods if (method.by_class, method.by_group) == (by_class, by_group)]
        cell, of = trial.cells(example)
        typical = np.bincount(cell, minlength=of.size) * share
        few = np.flatnonzero(typical < needed)
        if not len(few):
            continue
        told = named(few, typical, of, trial.classes if by_class else None, trial.group_names if by_group else None)
        remedy = "collect more, or compare per cluster" if by_class else "collect more, or join small groups"
        warn(
            f"{', '.join(concerned)}: alpha={trial.alpha:g} needs {needed:,} calibration examples for each threshold, "
            f"and {len(few):,} of {len(typical):,} have fewer in a split: {told}. Where the threshold is "
            f"infinite the class is in every set: {remedy}."
        )
