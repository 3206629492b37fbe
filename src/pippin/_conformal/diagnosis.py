"""Diagnosis of conditional coverage: which classes, groups or features predict that a set misses the true class.

If coverage depends on a variable, a classifier of misses that knows the variable has a smaller risk than a constant.
The excess risk of the constant is estimated out of fold (Braun et al. 2025). Its p-value is that of a permutation test,
which is exact if misses are exchangeable between rows, whatever the classifier. docs/guarantees.md has the details.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._engine import dispatch
from pippin._runtime.arrays import Classes, Codes, Flags, Vector
from pippin._runtime.showing import format_share, visible
from pippin._sharpening.sharpener import as_features
from pippin._theory.planning import binomial_tails
from pippin._validation.labels import as_numbered_groups
from pippin._validation.rows import Rows

FEWEST, MOST_ROWS = 100, 100_000  # numbers of rows: fewer have no diagnosis, of more a random sample is used
BINS, MOST_PARTS, FOLDS = 5, 50, 5  # bins of a number; largest number of parts of a variable; folds of the rows
PRIOR = 10  # number of rows of the mean miss rate that are added to each part, to estimate the miss rate of the part
BATCH, MOST_DRAWS, ENOUGH = 200, 2000, 20  # permutations: at once, in all, and larger statistics after which to stop
LEVEL, MOST_SHOWN = 0.05, 2  # largest p-value, and number, of the findings that are printed


class Outcomes(NamedTuple):
    """Outcome of each row: whether its set covers the label, size of the set, label, and what is known of the row.

    `best` and `largest` are the most probable class and its probability; None if probabilities are unknown. `groups`
    holds the names of the groups; None without groups.
    """

    covered: Flags
    sizes: Codes
    labels: Codes
    best: Codes | None = None
    largest: Vector | None = None
    groups: NDArray[Any] | None = None

    @classmethod
    def of(cls, covered: Flags, sizes: Codes, labels: Codes, rows: Rows | None, groups: Any = None) -> "Outcomes":
        """Collect the outcomes of prediction sets; `rows` are the probabilities, if they are known."""
        best = largest = None
        if rows is not None:
            best = dispatch.best_classes(rows, np.arange(rows.n)).astype(np.int64)
            largest = np.concatenate([block.max(axis=1) for block in _blocks(rows)])
        return cls(covered, sizes, labels, best, largest, groups)

    @classmethod
    def joined(cls, parts: "Sequence[Outcomes]") -> "Outcomes":
        """Join the outcomes of several batches of rows."""
        columns = zip(*parts, strict=True)
        return cls(*(None if each[0] is None else np.concatenate(each) for each in columns))  # type: ignore[arg-type]  # in the order of the fields


class Finding(NamedTuple):
    """Variable that predicts misses, with the part of the rows that is covered least.

    Attributes:
        variable: the variable, such as "predicted class".
        part: the part of the rows in words, such as "charlock".
        n: number of rows of this part.
        coverage: coverage of this part.
        excess_risk: Brier risk of a constant miss rate minus that of the miss rates of the parts, out of fold.
        p_value: p-value of "misses do not depend on the variable", by Holm's method for all variables together.
        remedy: a calibration that guarantees coverage in each part, or makes it more even.
    """

    variable: str
    part: str
    n: int
    coverage: float
    excess_risk: float
    p_value: float
    remedy: str

    @property
    def sentence(self) -> str:
        """The finding in one sentence."""
        return (
            f"Coverage depends on the {self.variable}: it is {format_share(self.coverage)} for {self.part} "
            f"({self.n:,} objects), p = {self.p_value:.2g}; {self.remedy}"
        )


class Variable(NamedTuple):
    """Variable that divides the rows: the code of each row's part, the names of the parts, and the remedy."""

    name: str
    codes: Codes
    parts: Sequence[object]
    remedy: str


def diagnose(
    outcomes: Outcomes,
    classes: Classes,
    alpha: float,
    features: "ArrayLike | None" = None,
    known: Collection[str] = (),
) -> tuple[Finding, ...]:
    """Find the variables that predict misses; the most significant first.

    A variable is left out if no part of the rows is covered clearly less than 1 − alpha, by a binomial test of each
    part with Bonferroni's correction, or if its p-value is above 0.05.

    Args:
        outcomes: the outcome of each row.
        classes: names of the classes.
        alpha: significance level (miscoverage) of the sets.
        features: further features of the rows, (n, M).
        known: variables that are left out, since the predictor has a guarantee for each of their parts.
    """
    n, rng = len(outcomes.covered), np.random.default_rng(0)
    if n < FEWEST or outcomes.covered.all() or not outcomes.covered.any():
        return ()
    fold = rng.integers(FOLDS, size=n)
    chosen = rng.permutation(n)[:MOST_ROWS]
    findings = []
    for name, codes, parts, remedy in _variables(outcomes, classes, features):
        if name in known:
            continue
        counts = np.bincount(codes, minlength=len(parts))
        kept = np.sort(np.argsort(-counts, kind="stable")[:MOST_PARTS])
        place = np.full(len(parts), len(kept))  # the last part joins those that are not kept
        place[kept] = np.arange(len(kept))
        cell = place[codes] * FOLDS + fold
        shape = (len(kept) + 1, FOLDS)
        rows, missed = (
            np.bincount(cell[chosen][mask], minlength=shape[0] * FOLDS).reshape(shape)
            for mask in (slice(None), ~outcomes.covered[chosen])
        )
        p_value = permutation_p_value(missed, rows, rng)
        covered = np.bincount(codes, outcomes.covered, len(parts)).astype(np.int64)
        tails = [binomial_tails(int(covered[k]), int(counts[k]), 1 - alpha)[0] if counts[k] else 1.0 for k in kept]
        worst = int(kept[np.argmin(tails)])
        low = min(tails) * len(kept) <= LEVEL
        part, share = visible(str(parts[worst])), float(covered[worst] / max(counts[worst], 1))
        risk = float(excess_risk(missed, rows))
        findings.append((low, Finding(name, part, int(counts[worst]), share, risk, p_value, remedy)))
    findings.sort(key=lambda pair: (pair[1].p_value, -pair[1].excess_risk))
    adjusted = np.maximum.accumulate([(len(findings) - i) * one.p_value for i, (_, one) in enumerate(findings)])
    return tuple(
        one._replace(p_value=float(p)) for (low, one), p in zip(findings, adjusted, strict=True) if low and p <= LEVEL
    )


def excess_risk(missed: Codes, rows: Codes) -> Vector:
    """Compute the Brier risk of the constant miss rate minus that of the miss rates of parts, both out of fold.

    Args:
        missed: number of misses by part and fold, (…, parts, folds).
        rows: number of rows by part and fold.

    >>> excess_risk(np.array([[5, 5], [0, 0]]), np.array([[10, 10], [10, 10]])) > 0
    np.True_
    """
    others, n = missed.sum(-1, keepdims=True) - missed, rows.sum(-1, keepdims=True) - rows
    mean = others.sum(-2, keepdims=True) / np.maximum(n.sum(-2, keepdims=True), 1)
    rate = (others + PRIOR * mean) / (n + PRIOR)
    gain = missed * ((1 - mean) ** 2 - (1 - rate) ** 2) + (rows - missed) * (mean**2 - rate**2)
    total: Vector = gain.sum((-2, -1)) / rows.sum()
    return total


def permutation_p_value(missed: Codes, rows: Codes, rng: np.random.Generator) -> float:
    """Compute the p-value of the excess risk under permutations of the misses between rows (Besag and Clifford 1991).

    Counts of permuted misses have a multivariate hypergeometric distribution. Draws stop after `ENOUGH` statistics that
    are at least the observed one.
    """
    observed, above = float(excess_risk(missed, rows)) - 1e-12, 0
    for first in range(0, MOST_DRAWS, BATCH):
        drawn = rng.multivariate_hypergeometric(rows.ravel(), int(missed.sum()), BATCH, method="marginals")
        larger = np.flatnonzero(excess_risk(drawn.reshape(BATCH, *rows.shape), rows) >= observed)
        if above + len(larger) >= ENOUGH:
            return ENOUGH / (first + int(larger[ENOUGH - above - 1]) + 1)
        above += len(larger)
    return (1 + above) / (1 + MOST_DRAWS)


def shown(findings: Sequence[Finding]) -> list[str]:
    """Return the sentences of the strongest findings, for a printed evaluation or a report."""
    return [f"{finding.sentence}." for finding in findings[:MOST_SHOWN]]


def _variables(outcomes: Outcomes, classes: Classes, features: Any) -> Iterator[Variable]:
    """Yield the variables: true and predicted class, size of the set, largest probability, groups, and features."""
    n = len(outcomes.labels)
    yield Variable(
        "class", outcomes.labels, classes, "calibrate with per='class', or per='interpolated' for rare classes"
    )
    if outcomes.groups is not None:
        codes, groups = as_numbered_groups(outcomes.groups, n)
        yield Variable("group", codes, [f"group {name}" for name in groups], "calibrate with groups=")
    if outcomes.best is not None:
        remedy = "calibrate with groups=, the predicted class of each row"
        yield Variable("predicted class", outcomes.best, classes, remedy)
    sizes = np.clip(outcomes.sizes, 1, BINS) - 1  # empty sets miss by definition, so they are joined to singletons
    names = ["sets of at most 1 class", *(f"sets of {size} classes" for size in range(2, BINS))]
    by_probability = "calibrate with groups=, the bin of the largest probability"
    yield Variable("size of the set", sizes, [*names, f"sets of {BINS} classes or more"], by_probability)
    if outcomes.largest is not None:
        yield _binned("largest probability", outcomes.largest, by_probability)
    if features is not None:
        checked = as_features(features, n)
        for number, column in enumerate(checked.values.T):
            name = f"feature {checked.names[number] if checked.names else number}"
            yield _binned(name, column, "calibrate with groups=, the bin of this feature")


def _binned(name: str, values: Any, remedy: str) -> Variable:
    """Divide numbers at their quantiles into bins of about equal size; few different values get a bin each."""
    edges = np.unique(values)
    if len(edges) > BINS:
        edges = np.unique(np.quantile(values, np.arange(1, BINS) / BINS, method="inverted_cdf"))
    elif len(edges) > 1:
        edges = edges[:-1]
    ends = [f"{edge:.4g}" for edge in edges.tolist()]
    between = [f"above {low} to {high}" for low, high in pairwise(ends)]
    parts = [f"values of at most {ends[0]}", *(f"values {text}" for text in between), f"values above {ends[-1]}"]
    return Variable(name, np.searchsorted(edges, values), parts, remedy)


def _blocks(rows: Rows) -> Iterator[Any]:
    step = max(1, dispatch.BLOCK // rows.n_classes)
    return (rows.block(start, min(start + step, rows.n)) for start in range(0, rows.n, step))
