"""IP/MS combination: the set of the margin score (MS) if it is a singleton, else the set of inverse probability (IP).

Aleksandrova and Chertov (2021) calibrate both scores at α, and select one of the two sets of an object. The sets of
each score cover 1 − α of the objects. The selected sets may cover less, since two kinds of errors add up: wrong
singletons of the margin score, and sets of IP without the true class. docs/guarantees.md proves the guarantees of the
two corrections that are implemented here.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.mondrian import kth_smallest
from pippin._conformal.rules import Request, Rule
from pippin._conformal.serialization import Content, attributes
from pippin._engine import dispatch
from pippin._engine.draws import generator_of
from pippin._engine.protocol import Bounds
from pippin._runtime.arrays import Classes, Codes, Flags, Seed, Vector
from pippin._runtime.errors import InputError, warn
from pippin._theory.level import as_alpha, exact_alpha, quantile_rank, too_few
from pippin._theory.scores import Score, ip, margin
from pippin._theory.spelling import VARIANTS, IpMs
from pippin._validation.rows import Rows


class IpMsLabels(NamedTuple):
    """Margin and IP scores of the true labels of calibration rows.

    `singletons(b)` flags the rows with exactly one class whose margin score is at most b.
    """

    margin: Vector
    ip: Vector
    singletons: Callable[[float], Flags]

    def combined(self, b: float) -> Vector:
        """Compute the combined score of each label: IP's, unless the margin's set at the threshold b is a singleton.

        For a singleton it is −∞ if the singleton is the label, and ∞ otherwise.
        """
        return np.where(self.singletons(b), np.where(self.margin <= b, -math.inf, math.inf), self.ip)


class IpMsThresholds(NamedTuple):
    """Thresholds of the margin score and of IP, the number of rows that calibrated IP's threshold, and warnings."""

    margin: float
    ip: float
    n_ip: int
    notes: tuple[str, ...]


def score_labels(rows: Rows, labels: Codes) -> IpMsLabels:
    """Compute the margin score and the IP score of each row's label."""
    none = np.zeros(rows.n)
    inverse = dispatch.label_scores(rows, labels, ip(), none)
    return IpMsLabels(dispatch.label_scores(rows, labels, margin(), none), inverse, partial(singletons, rows))


def find_thresholds(labels: IpMsLabels, alpha: Any, seed: Seed, spec: IpMs) -> IpMsThresholds:
    """Calibrate the thresholds of the margin score and of IP (inverse probability) for a variant of the combination.

    In the variant "recalibrated", some rows determine the margin's threshold. On the other rows, IP's threshold is
    calibrated with the combined score, so that coverage is at least 1 − alpha. In the variant "sum", both thresholds
    are calibrated at alpha/2, so that errors add up to at most alpha. In the variant "none", as published, both are
    calibrated at alpha, and the proven coverage is 1 − 2·alpha.
    """
    n, level = len(labels.ip), as_alpha(alpha)
    exact: Any = exact_alpha(alpha)  # a fraction, so that alpha/2 is exact
    if spec.variant != "recalibrated":
        each, name = (exact, "alpha=") if spec.variant == "none" else (exact / 2, "alpha/2=")
        notes = _notes(too_few(n, each, level=name))
        return IpMsThresholds(kth_smallest(labels.margin, each), kth_smallest(labels.ip, each), n, notes)
    first, second = _divided(n, spec.fraction, seed)
    part = exact * _share(spec.share, len(first), len(second), level)
    b, notes_found = math.inf, [too_few(len(second), exact, "rows for IP's threshold")]
    if part <= 0 or quantile_rank(len(first), part) > len(first):
        notes_found.append(
            f"{n} calibration examples are too few to take singletons from the margin at alpha={level:g}: "
            "all sets are IP's."
        )
    else:
        b = kth_smallest(labels.margin[first], part)
    scores = labels.combined(b)[second]
    q = kth_smallest(scores, exact)
    if q == math.inf:
        if quantile_rank(len(scores), exact) <= len(scores):
            notes_found.append(
                f"The margin's singletons are wrong for {np.mean(scores == math.inf):.3g} of the calibration rows, "
                f"more than alpha={level:g} allows: every set holds all classes. Pass a share below "
                f"{float(part / exact):.2g}, or more rows."
            )
        b = math.inf  # then no margin set is a singleton, and each IP set holds all classes
    return IpMsThresholds(b, q, len(second), _notes(*notes_found))


@dataclass(frozen=True, eq=False)
class IpMsRule(Rule):
    """Rule of the IP/MS combination: the set of the margin score if it is a singleton, else the set of IP.

    IP's threshold is −∞ if the singletons alone cover 1 − alpha of the rows; other sets are then empty. If it is ∞, so
    is the margin's threshold, and every set holds all classes. `n_ip` is the number of calibration rows for IP's
    threshold. `labels` holds the calibration scores that `at` needs; None in a predictor that was read from a file.
    """

    spec: IpMs
    margin_threshold: float
    ip_threshold: float
    n_ip: int
    labels: IpMsLabels | None = None
    generator: np.random.Generator | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "labels": None, "generator": None}

    def members(self, score: Score, request: Request) -> dispatch.Sets:
        return combined(request.rows, self.margin_threshold, self.ip_threshold)

    def bounds(self, request: Request) -> Bounds:
        """Return the threshold of the score (margin or IP) whose set is selected for the only row of the request."""
        by_margin = self.deciding_score(request) == margin()
        return Bounds(np.array([[self.margin_threshold if by_margin else self.ip_threshold]]))

    def deciding_score(self, request: Request) -> Score:
        """Return the score (margin or IP) whose set is selected for the only row of the request."""
        return margin() if singletons(request.rows, self.margin_threshold)[0] else ip()

    def at(self, alpha: Any) -> "tuple[IpMsRule, float]":
        if self.labels is None:
            what = "This predictor was read from a file, which keeps the two thresholds only, so it has no other level"
            raise InputError(what, "calibrate again at that level")
        found = find_thresholds(self.labels, alpha, copy.deepcopy(self.generator), self.spec)
        for note in found.notes:
            warn(note)
        rule = replace(self, margin_threshold=found.margin, ip_threshold=found.ip, n_ip=found.n_ip)
        return rule, as_alpha(alpha)

    def guarantee(self, predictor: Any) -> float:
        """Return the proven coverage: 1 − alpha, but 1 − 2·alpha for the published variant "none".

        In this variant, the errors of both scores add up.
        """
        return float(max(0.0, 1 - (2 if self.spec.variant == "none" else 1) * predictor.alpha))

    def describe(self, predictor: Any) -> str:
        proven = 100 * predictor.guarantee
        unsure = f", of which {proven:g}% is proven" if self.spec.variant == "none" else ""
        return (
            f"{predictor.score} with the thresholds {self.margin_threshold:.6g} (margin) and "
            f"{self.ip_threshold:.6g} (ip), from {predictor.n_calibration:,} rows: its sets contain the true "
            f"class with probability at least {100 * (1 - predictor.alpha):g}%{unsure}."
        )

    def facts(self, predictor: Any) -> tuple[str, ...]:
        thresholds = f"margin threshold={self.margin_threshold:.6g}", f"ip threshold={self.ip_threshold:.6g}"
        return *thresholds, f"{predictor.n_calibration:,} calibration examples"

    def content(self, scores: bool) -> dict[str, Any]:
        parts = attributes(self, "margin_threshold", "ip_threshold", "n_ip")
        return {"kind": "combination", "guarantee": self.spec.variant, **parts}


def ip_ms_rule(rows: Rows, labels: Codes, alpha: Any, spec: IpMs, seed: Seed) -> IpMsRule:
    """Calibrate the IP/MS combination at alpha; the method `at` of the rule later divides the rows in the same way."""
    generator = generator_of(seed)
    blank = IpMsRule(spec, math.inf, math.inf, rows.n, score_labels(rows, labels), copy.deepcopy(generator))
    if spec.variant == "recalibrated":
        generator.permutation(rows.n)  # advance the caller's generator, since `at` divides the rows by a copy
    return blank.at(alpha)[0]


def singletons(rows: Rows, b: float) -> Flags:
    """Flag the rows whose margin set (classes with a margin score of at most b) contains exactly one class."""
    single: Flags = dispatch.members(rows, margin(), Bounds(np.array([[b]])), np.zeros(rows.n))[0] == 1
    return single


def combined(rows: Rows, b: float, q: float) -> dispatch.Sets:
    """Return the sizes and members of the combination's sets at the thresholds b (margin) and q (IP)."""
    sizes, members = dispatch.members(rows, ip(), Bounds(np.array([[q]])), np.zeros(rows.n))
    single = singletons(rows, b)
    both = np.where(single, 1, sizes)
    joined = np.empty(both.sum(), dtype=np.int32)
    from_margin = np.repeat(single, both)
    joined[from_margin] = dispatch.best_classes(rows, np.flatnonzero(single))
    joined[~from_margin] = members[~np.repeat(single, sizes)]
    return both, joined


def ip_ms_from_content(content: Content, alpha: float, n: int, classes: Classes) -> IpMsRule:
    """Restore an IP/MS rule from a file, and check its entries."""
    variant = content.take("guarantee", lambda value: value in VARIANTS)
    margin_threshold, ip_threshold = content.number("margin_threshold"), content.number("ip_threshold")
    n_ip = content.whole("n_ip", 1, n)
    return IpMsRule(IpMs(variant), margin_threshold, ip_threshold, n_ip)


def _divided(n: int, fraction: float, seed: Seed) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Divide the rows at random; return the rows for the threshold of the margin score, and the rows for that of IP."""
    cut = round(fraction * n)
    if not 0 < cut < n:
        what = f"Expected enough rows for both thresholds, got {n}, of which the margin takes a share of {fraction:g}"
        raise InputError(what, "pass more rows, or variant='sum'")
    order = generator_of(seed).permutation(n)
    return np.sort(order[:cut]), np.sort(order[cut:])


def _share(share: float | None, n_first: int, n_second: int, alpha: float) -> Fraction:
    """Return the share of alpha at which the margin's threshold is calibrated; by default 1 − 2·√((1/n₁ + 1/n₂)/alpha).

    n₁ and n₂ are the numbers of rows for the two thresholds. A larger share gives more singletons, but also more wrong
    singletons, which IP's sets cannot compensate: if their share exceeds alpha, every set must hold all classes. The
    default is two standard deviations below 1.
    """
    if share is None:
        return Fraction(max(0.0, 1 - 2 * math.sqrt((1 / n_first + 1 / n_second) / alpha)))
    return Fraction(str(share))


def _notes(*notes: str | None) -> tuple[str, ...]:
    return tuple(filter(None, notes))
