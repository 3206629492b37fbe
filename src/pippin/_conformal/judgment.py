"""Comparison of a measured share, such as coverage, with the requested share 1 − alpha, in a sentence.

The number of covered test rows has the beta-binomial distribution, which accounts for the calibration rows and for the
test rows (`pippin.plan`). A share is as promised if a deviation as large is at least as probable as two standard errors
of a normal distribution. Exact probabilities make this valid for few rows and small levels too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import NormalDist
from typing import Any, NamedTuple

from pippin._conformal.mondrian import threshold_rank
from pippin._runtime.arguments import is_whole
from pippin._runtime.arrays import Codes
from pippin._runtime.errors import InputError
from pippin._runtime.showing import visible
from pippin._theory.planning import binomial_tails, coverage_tails, measured_deviation

EXPECTED, RULED_OUT = NormalDist().cdf(-2), NormalDist().cdf(-4)  # probabilities of two and of four standard errors
MOST_ROWS = 1_000_000  # more test rows are treated as this many, in the same proportion, to limit memory
CAUSES = "causes, the most likely first: training rows used for calibration, drift, or other labels"


class Requested(NamedTuple):
    """Requested share, such as coverage, and the calibration that should reach this share.

    Attributes:
        alpha: significance level (miscoverage).
        n_calibration: number of calibration rows, or None if it is unknown.
        confidence: probability over calibration sets of a PAC guarantee; None for a guarantee on average.
    """

    alpha: float
    n_calibration: int | None = None
    confidence: float | None = None

    @property
    def percent(self) -> str:
        """The requested share as a percentage, such as 90%."""
        return f"{100 * (1 - self.alpha):g}%"


class KindLevel(NamedTuple):
    """Superclass ("kind") with its own guarantee: its name, the indices of its classes, and the requested share."""

    name: str
    codes: Codes
    requested: Requested


class Deviation(NamedTuple):
    """Deviation of a measured share from its expectation under the guarantee.

    Attributes:
        errors: the deviation in standard errors, negative if the share is too low.
        at_most: the probability of a share that is at most the measured one.
        at_least: the probability of a share that is at least the measured one.
    """

    errors: float
    at_most: float
    at_least: float


@dataclass(frozen=True)
class KindShare:
    """Coverage of the objects of one superclass ("kind"), or the share whose certificate (guaranteed utility) holds.

    Attributes:
        n: number of objects of the kind.
        share: share of these objects that are covered, or whose certificate holds.
        alpha: significance level (miscoverage) of the kind.
        n_calibration: number of calibration rows of the kind.
        verdict: comparison of the share with 1 − alpha in one sentence.
    """

    n: int
    share: float
    alpha: float
    n_calibration: int | None
    verdict: str


def row_deviation(share: float, n: int, requested: Requested) -> Deviation:
    """Compute the deviation of the coverage of n test rows from its expectation under the guarantee.

    Without n_calibration, the expectation is exactly 1 − alpha.

    >>> row_deviation(0, 1, Requested(0.1)).at_most.__round__(12)
    0.1
    """
    alpha, n_calibration, confidence = requested
    m = min(n, MOST_ROWS)
    covered = round(share * m)
    if n_calibration is not None and not _too_few(requested):
        a = threshold_rank(n_calibration, alpha, confidence)
        b = n_calibration + 1 - a
        return Deviation((share - a / (a + b)) / measured_deviation(n, a, b), *coverage_tails(covered, m, a, b))
    return Deviation((share - (1 - alpha)) / sqrt(alpha * (1 - alpha) / n), *binomial_tails(covered, m, 1 - alpha))


def unit_deviation(shares: Sequence[float], requested: Requested) -> Deviation:
    """Compute the deviation of the mean coverage of clusters of rows ("units"), which count equally.

    The variance between clusters is estimated around 1 − alpha. One further cluster with the largest possible variance
    alpha·(1 − alpha) is included, so that a few clusters of equal coverage are not mistaken for certainty. The
    calibration clusters have the same variance, if their number is known.
    """
    target, n = 1 - requested.alpha, len(shares)
    variance = (sum((share - target) ** 2 for share in shares) + requested.alpha * target) / (n + 1)
    samples = 1 / n + (1 / requested.n_calibration if requested.n_calibration else 0)
    errors = (sum(shares) / n - target) / sqrt(variance * samples)
    return Deviation(errors, NormalDist().cdf(errors), NormalDist().cdf(-errors))


def judge_share(text: str, above: str, requested: Requested, share: float, deviation: Deviation) -> str:
    """Compare a measured share with the requested one in a sentence.

    Args:
        text: the beginning of the sentence, which states the share.
        above: possible reasons for a share that is too large.
        requested: the requested share.
        share: the measured share.
        deviation: its deviation from the expected share.

    >>> judge_share("covers 99.0%", "luck", Requested(0.1), 0.99, row_deviation(0.99, 1000, Requested(0.1)))
    'covers 99.0% where 90% were requested: 9 standard errors above; likely causes: luck'
    """
    text = f"{text} where {requested.percent} were requested"
    n_calibration, (errors, at_most, at_least) = requested.n_calibration, deviation
    if share == 1 and n_calibration is not None and _too_few(requested):
        return f"{text}: {n_calibration:,} calibration rows are too few for this level, so no error is possible"
    chance = min(at_most, at_least)
    by_chance = f"by chance in 1 of {float(f'{1 / max(chance, 1e-300):.2g}'):,.0f} evaluations"
    if chance >= EXPECTED and abs(errors) <= 2:
        within = max(1, ceil(abs(errors)))
        return f"{text}, as promised: within {within} standard error{'s' if within > 1 else ''}"
    if chance >= EXPECTED:
        return f"{text}, as may happen with so few objects: {by_chance}"
    if chance < RULED_OUT:
        side = f"below; {CAUSES}" if at_most < at_least else f"above; likely causes: {above}"
        return f"{text}: {abs(errors):.0f} standard errors {side}"
    if at_most < at_least:
        return f"{text}, lower than expected: {by_chance}; other {CAUSES}"
    return f"{text}, higher than expected: {by_chance}; the guarantee holds"


def shares_of_kinds(
    counts: Codes, kinds: Sequence[KindLevel], judge: Callable[[float, int, Requested], str]
) -> dict[str, KindShare]:
    """Compare the coverage of each superclass ("kind") among the objects with the level of this superclass.

    Args:
        counts: (2, K) numbers of objects, and of those that are covered, by class.
        kinds: the superclasses, each with its requested share.
        judge: function of the share, the number of objects and the requested share that returns the verdict.
    """
    found = {}
    for name, codes, requested in kinds:
        n, covered = counts[:, codes].sum(axis=1).tolist()
        if n:
            share, (alpha, n_calibration, _) = covered / n, requested
            found[name] = KindShare(n, share, alpha, n_calibration, judge(share, n, requested))
    return found


def verdict_of_kinds(kinds: Mapping[str, KindShare]) -> str:
    """Join the verdicts of all superclasses in one sentence."""
    return "; ".join(f"{visible(name)}: {kind.verdict}" for name, kind in kinds.items())


def verdict_lines(kinds: Mapping[str, KindShare], alpha: float | None, verdict: str) -> list[str]:
    """Return the last lines of a printed evaluation: the verdict, or one per superclass; empty without a level."""
    if kinds:
        return ["", *(f"{visible(name)}, {kind.n:,} objects: {kind.verdict}." for name, kind in kinds.items())]
    return [] if alpha is None else ["", f"It {verdict}."]


def as_count(n_calibration: Any) -> int | None:
    """Return a number of calibration rows or None; raise an InputError unless it is a whole number of at least 1."""
    if n_calibration is None:
        return None
    if not is_whole(n_calibration, 1):
        raise InputError(f"Expected n_calibration to be a number of rows, got {n_calibration!r}", "leave it out")
    return int(n_calibration)


def _too_few(requested: Requested) -> bool:
    """Return True if the known number of calibration rows is too small for a finite threshold."""
    n = requested.n_calibration
    return n is not None and threshold_rank(n, requested.alpha, requested.confidence) > n
