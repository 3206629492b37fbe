"""Methods over many splits: their metrics, who is covered, and what a level makes of one split."""

import re
import warnings
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pippin._compare.methods import Candidate, Method
from pippin._compare.outcomes import Objects, Scored, Split, outcome, score_objects
from pippin._engine import dispatch
from pippin._engine.plain import Vector, at_places
from pippin._inputs.rows import read_only
from pippin._predictors.coverage_by import STRATA, Tally, pooled, tally
from pippin._runtime.threads import run
from pippin._theory.level import examples_needed
from pippin._theory.scores import Score, coefficients
from pippin._theory.shortage import named

NUMBER = re.compile(r"\d[\d.,]*")

Metrics = tuple[float, float, float, float, float]


def counters(
    objects: Objects, methods: dict[int, Method], alpha: float, notes: list[str]
) -> dict[int, Callable[[Split], Metrics]]:
    """For each method a function of a split that gives its metrics, and adds to `notes` what to warn of."""
    known = {score: score_objects(objects, score) for score in {method.score for method in methods.values()}}
    return {key: partial(_metrics, known[method.score], method, alpha, notes) for key, method in methods.items()}


def _metrics(scored: Scored, method: Method, alpha: float, notes: list[str], split: Split) -> Metrics:
    """Threshold, coverage, mean size, share of singletons, share of empty sets."""
    found = outcome(scored, method, alpha, split)
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
    objects: Objects,
    candidates: Sequence[Candidate],
    thresholds: Vector,
    alpha: float,
    draw: Callable[[int], Split],
) -> tuple[Tally, ...]:
    """Who is covered under each candidate, pooled over the first splits.

    `thresholds[candidate, split]` are those of plain scores, which need no second calibration.
    """
    splits = thresholds.shape[1]
    scored = {s: score_objects(objects, s) for s in {c.score for c in candidates if isinstance(c, Method)}}
    covers = [
        _plain_tally(objects, candidate, thresholds[number])
        if isinstance(candidate, Score)
        else partial(_tally, scored[candidate.score], candidate, alpha)
        for number, candidate in enumerate(candidates)
    ]
    found: dict[int, list[Tally]] = {}

    def work(start: int, stop: int) -> None:
        drawn = [(index, draw(index)) for index in range(start, stop)]
        found[start] = [pooled(cover(index, split) for index, split in drawn) for cover in covers]

    run(work, [(a, min(a + 10, splits)) for a in range(0, splits, 10)])
    return tuple(pooled(parts) for parts in zip(*found.values(), strict=True))


def _plain_tally(objects: Objects, score: Score, thresholds: Vector) -> Callable[[int, Split], Tally]:
    """Sets of the first ranks: whether they reach into a stratum is a matter of one class."""
    n, n_classes = objects.ranked.n, objects.ranked.n_classes
    c = coefficients(score, n_classes)
    ends = [start - 1 for start in STRATA[1:] if start <= n_classes]
    label, *nexts = (
        at_places(dispatch.label_places(objects.ranked, rank, score, np.ones(n))[0], c)
        for rank in (objects.ranks, *(read_only(np.full(n, end)) for end in ends))
    )

    def cover(index: int, split: Split) -> Tally:
        reached = [scores(split.u) <= thresholds[index] for scores in nexts]
        sizes = np.array(STRATA)[np.sum(reached, axis=0, dtype=np.int64)] if nexts else np.zeros(n, dtype=np.int64)
        return _tallied(objects, split, sizes, label(split.u) <= thresholds[index])

    return cover


def _tally(scored: Scored, method: Method, alpha: float, index: int, split: Split) -> Tally:
    found = outcome(scored, method, alpha, split)
    test = ~split.calibration
    sizes, covered = np.zeros(len(test), dtype=np.int64), np.zeros(len(test), dtype=bool)
    sizes[test], covered[test] = found.sizes, found.covered
    return _tallied(scored.objects, split, sizes, covered)


def _tallied(objects: Objects, split: Split, sizes: NDArray[np.int64], covered: NDArray[np.bool_]) -> Tally:
    test = ~split.calibration
    labels, groups = objects.labels[test], objects.group[test]
    return tally(sizes[test], covered[test], labels, groups, len(objects.classes), objects.n_groups)


def tell(notes: Sequence[str]) -> None:
    """Warns of what many splits noted, once of each kind, whatever the numbers in it."""
    kinds: dict[str, list[str]] = {}
    for note in sorted(notes):  # threads note in any order
        kinds.setdefault(NUMBER.sub("#", note), []).append(note)
    for same in kinds.values():
        often = f"In {len(same):,} splits: " if len(same) > 1 else "In one split: "
        warnings.warn(often + same[0], stacklevel=5)


def check_methods(objects: Objects, methods: Sequence[Method], n_calibration: int, alpha: float) -> None:
    """Warns of the classes, groups or pairs that have too few rows in a split for a finite threshold.

    Raises:
        ValueError: a method needs groups, and there are none.
    """
    for method in methods:
        if method.by_group and objects.groups is None:
            raise ValueError(f"Expected groups for {method}, got none: pass groups=, one per row.")
    needed, share = examples_needed(alpha), n_calibration / objects.given.n
    for by_class, by_group in dict.fromkeys((method.by_class, method.by_group) for method in methods):
        if not (by_class or by_group):
            continue
        concerned = [str(method) for method in methods if (method.by_class, method.by_group) == (by_class, by_group)]
        cell, of = objects.cells(by_class, by_group)
        typical = np.bincount(cell, minlength=of.size) * share
        few = np.flatnonzero(typical < needed)
        if not len(few):
            continue
        told = named(few, typical, of, objects.classes if by_class else None, objects.groups if by_group else None)
        remedy = "collect more, or compare per cluster" if by_class else "collect more, or join small groups"
        warnings.warn(
            f"{', '.join(concerned)}: alpha={alpha:g} needs {needed:,} calibration examples for each threshold, and "
            f"{len(few):,} of {len(typical):,} have fewer in a split: {told}. Where the threshold is "
            f"infinite the class is in every set: {remedy}.",
            stacklevel=5,
        )
