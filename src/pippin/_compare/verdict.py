"""Recommendation of a score from a comparison, in sentences."""

from dataclasses import dataclass, replace

import numpy as np

from pippin._compare.comparison import Comparison
from pippin._compare.evidence import CoverageCheck, Difference, check_order, check_spread, difference
from pippin._compare.methods import Method
from pippin._compare.split_evaluation import sets_of_split
from pippin._compare.splits import Trial, draw_split
from pippin._compare.tuning import CANDIDATES, FRONTS, Pick, compare_families, picks
from pippin._conformal.diagnosis import Outcomes, diagnose, shown
from pippin._conformal.evaluation import explain_empty_sets
from pippin._runtime.showing import visible
from pippin._theory.scores import ip

FRONT_SPLITS, FEW_FRONT_SPLITS = 100, 20  # largest and smallest number of splits to compare families of scores
FRONT_ROWS = 5_000_000  # largest number of rows in all splits that compare families of scores
SHORTFALL = 0.05  # the worst class is reported if its coverage is below 1 − alpha by at least this


@dataclass(frozen=True, eq=False)
class Verdict:
    """Recommendation and checks of a report.

    `on_empty` explains empty sets of the recommended score by the accuracy of the classifier; None if this is not the
    cause, or there are none. `compared` are the best of the compared scores for three preferences: smallest sets, most
    singletons, and most singletons at nearly the smallest size. `tuned` are the best among these scores and all that
    `pippin.tune` tries by default. `fronts` holds, for each family of scores, a comparison of one score with many
    parameter values. `cautions` are sentences on low coverage of a class or a method.
    """

    sentences: tuple[str, ...]
    on_empty: str | None
    compared: tuple[Pick, ...]
    tuned: tuple[Pick, ...]
    fronts: dict[str, Comparison]
    checks: tuple[CoverageCheck, ...]
    cautions: tuple[str, ...] = ()

    @property
    def take(self) -> Method:
        """The recommended score: most singletons among the scores with nearly the smallest mean size."""
        return self.compared[-1].score


def judge(trial: Trial, comparison: Comparison) -> Verdict:
    """Recommend a score, and test the coverage of a comparison.

    Only scores with one threshold and possibly empty sets are candidates, since other methods have another guarantee;
    those are described separately. A sharpened (recalibrated) score is a candidate if sharpening clearly improves it.
    With very many rows, families of scores are compared on a sample (`Trial.sample`).
    """
    splits = min(max(FEW_FRONT_SPLITS, min(FRONT_SPLITS, FRONT_ROWS // trial.sample.n)), comparison.splits)
    fronts = compare_families(trial.sample, splits)
    marginal = [method for method in comparison.scores if method.marginal]
    worthwhile = [method for method in marginal if not method.sharpened or _wins(comparison, method)]
    candidates = comparison.restricted(worthwhile)
    tuned_families = [front for family, front in fronts.items() if set(FRONTS[family]) <= set(CANDIDATES)]
    values = {  # metrics of the candidates and of all scores that `pippin.tune` tries
        score: of_score
        for compared_scores in (candidates, *tuned_families)
        for score, of_score in zip(compared_scores.scores, compared_scores.values[:, :splits], strict=True)
    }
    everything = replace(candidates, scores=tuple(values), values=np.stack(list(values.values())), trial=None)
    compared, tuned = picks(candidates), picks(everything)
    checks: tuple[CoverageCheck, ...] = ()
    if comparison.splits > 1:
        plain = comparison.restricted([method for method in comparison.scores if method.plain])
        law = (check_spread(plain),) if plain.scores[0].plain else ()
        checks = (*law, check_order(trial, ip()))
    on_empty = _on_empty_sets(trial, candidates, compared[-1].score)
    sentences = (
        *_recommendation(candidates, compared, tuned),
        *_on_sharpening(comparison),
        *filter(None, (on_empty,)),
    )
    take = compared[-1].score
    cautions = (*_on_worst_class(comparison, take), *_on_misses(trial, take), *_on_low_coverage(comparison))
    return Verdict(sentences, on_empty, compared, tuned, fronts, checks, cautions)


def _plain(comparison: Comparison, method: Method) -> Method | None:
    """Return the method without sharpening (recalibration); None if it was not compared, or is the method itself."""
    plain = replace(method, sharpened=False)
    return plain if method.sharpened and plain in comparison.scores else None


def _changes(comparison: Comparison, first: Method, second: Method) -> tuple[Difference, Difference]:
    """Compute the differences in mean size and in singleton rate between two methods."""
    return difference(comparison, "mean_size", first, second), difference(comparison, "singleton_rate", first, second)


def _wins(comparison: Comparison, sharpened: Method) -> bool:
    """Return True if sharpening (recalibration) clearly improves mean size or singleton rate, and worsens neither.

    Return True also if the unsharpened method was not compared.
    """
    if (plain := _plain(comparison, sharpened)) is None:
        return True
    size, single = _changes(comparison, sharpened, plain)
    return (size.high < 0 or single.low > 0) and not (size.low > 0 or single.high < 0)


def _on_sharpening(comparison: Comparison) -> tuple[str, ...]:
    """Describe for each sharpened method whether sharpening improves on the unsharpened method."""
    sentences = []
    for method in comparison.scores:
        if (plain := _plain(comparison, method)) is None or comparison.splits < 2:
            continue
        size, single = _changes(comparison, method, plain)
        changes = (
            f"{size.mean:+.2f} classes per set (95% interval {size.low:+.2f} to {size.high:+.2f}) and "
            f"{100 * single.mean:+.1f} points of singletons ({100 * single.low:+.1f} to {100 * single.high:+.1f})"
        )
        if _wins(comparison, method):
            text = f"Sharpening pays: it changes {plain} by {changes}, although it takes rows from calibration."
        else:
            text = f"Sharpening gains nothing clear here, so keep {plain}: it changes it by {changes}."
        sentences.append(text)
    return tuple(sentences)


def _recommendation(comparison: Comparison, compared: tuple[Pick, ...], tuned: tuple[Pick, ...]) -> tuple[str, ...]:
    """Describe the recommended score, and compare it with the score of the smallest sets and with tuned scores."""
    smallest, most, both = compared
    if np.isinf(comparison.metric("threshold")).any():
        return (
            "There are too few rows for this level, or they are too hard: some thresholds are infinite, and then every "
            "set contains all classes.",
        )
    alternatives = _alternatives(both, smallest, most) if len(comparison.scores) > 1 else ""
    sentences = [f"Take {both.score}: on these data it gives {both.means}{alternatives}."]
    if both.score != smallest.score and comparison.splits > 1:
        gap = difference(comparison, "singleton_rate", both.score, smallest.score)
        clarity = "clear" if gap.clear else "not clear"
        sentences.append(
            f"Against {smallest.score} that is {100 * gap.mean:+.1f} percentage points of singletons (95% interval "
            f"{100 * gap.low:+.1f} to {100 * gap.high:+.1f}, so the difference is {clarity} for new rows like these)."
        )
    better = tuned[2]
    if better.singleton_rate > both.singleton_rate + 0.005 and better.score not in comparison.scores:
        sentences.append(
            f"Tuned, there are more singletons: {better.score} gives {better.means}; `pippin tune` chooses it on rows "
            "that are not used for calibration."
        )
    return tuple(sentences)


def _alternatives(both: Pick, smallest: Pick, most: Pick) -> str:
    """Describe the scores with smaller sets or more singletons than the recommended score."""
    others = []
    if smallest.mean_size < both.mean_size - 0.005:
        others.append(f"{smallest.score} is smaller ({smallest.mean_size:.2f}) but has {smallest.percent}")
    if most.singleton_rate > both.singleton_rate + 0.005:
        others.append(f"{most.score} has {most.percent} but size {most.mean_size:.2f}")
    if others:
        return "; " + ", and ".join(others)
    tied = sorted({str(pick.score) for pick in (smallest, most)} - {str(both.score)})
    if tied:
        return f"; {' and '.join(tied)} {'does' if len(tied) == 1 else 'do'} as well, to two decimals"
    return ", and no other has smaller sets or more singletons"


def _on_empty_sets(trial: Trial, comparison: Comparison, recommended: Method) -> str | None:
    """Explain empty sets if the classifier is more accurate than 1 − alpha."""
    empty = float(comparison.metric("empty_rate")[comparison.scores.index(recommended)].mean())
    return explain_empty_sets(float(np.mean(trial.ranks == 0)), trial.alpha, trial.n_calibration, empty)


def _on_worst_class(comparison: Comparison, recommended: Method) -> tuple[str, ...]:
    """Name the class with the lowest coverage, if this is far below 1 − alpha, and a method that covers the class."""
    if comparison.trial is None or np.isinf(comparison.metric("threshold")).any():
        return ()
    rows = {row["score"]: row for row in comparison.conditional().iter_rows(named=True)}
    worst = {method: rows[str(method)]["worst_class_coverage"] for method in comparison.scores}
    enough = 1 - comparison.alpha - SHORTFALL
    if worst[recommended] > enough:
        return ()
    problem = (
        f"The guarantee is for all classes together: under {recommended}, "
        f"{visible(rows[str(recommended)]['worst_class'])} is covered only {100 * worst[recommended]:.0f}% of the time"
    )
    better = [method for method in comparison.scores if not method.plain and worst[method] > enough]
    if not better and any(candidate.by_class for candidate in comparison.scores):
        return (f"{problem}.",)
    if not better:
        return (f"{problem}; compare {Method(recommended.score, 'class')} to see what a guarantee per class costs.",)
    sizes = dict(zip(comparison.scores, comparison.metric("mean_size").mean(axis=1).tolist(), strict=True))
    chosen = min(better, key=lambda method: (method.score != recommended.score, sizes[method]))
    return (f"{problem}; {chosen} brings the worst class to {100 * worst[chosen]:.0f}% at size {sizes[chosen]:.2f}.",)


def _on_misses(trial: Trial, recommended: Method) -> tuple[str, ...]:
    """Name the variables, other than the class, that predict misses of the recommended method on the first split."""
    if recommended.sharpened:
        return ()
    split = draw_split(trial, 0)
    sets, test = sets_of_split(trial, recommended, split), split.test_rows
    groups = None if trial.group_names is None else np.array(trial.group_names)[trial.group[test]]
    outcomes = Outcomes.of(sets.covered, sets.sizes, trial.labels[test], trial.rows.take(test), groups)
    found = diagnose(outcomes, trial.classes, trial.alpha, known=("class", "size of the set"))
    return tuple(f"Under {recommended}: {sentence[0].lower()}{sentence[1:]}" for sentence in shown(found)[:1])


def _on_low_coverage(comparison: Comparison) -> tuple[str, ...]:
    """Name the methods whose coverage is below 1 − alpha by more than one standard deviation over splits."""
    coverage = comparison.metric("coverage")
    spread = coverage.std(axis=1, ddof=1) if comparison.splits > 1 else np.full(len(coverage), np.inf)
    return tuple(
        f"{method} covers only {100 * mean:.1f}% of the objects, less than the "
        f"{100 * (1 - comparison.alpha):g}% requested."
        for method, mean, sd in zip(comparison.scores, coverage.mean(axis=1).tolist(), spread.tolist(), strict=True)
        if not method.plain and 1 - comparison.alpha - mean > sd
    )


def describe_sample(comparison: Comparison) -> str:
    """Return a sentence that says which results use only a sample of the rows; empty if all results use all rows."""
    if comparison.trial is None or comparison.trial.sample is comparison.trial:
        return ""
    return (
        f"All {comparison.n:,} rows were split. Fronts, curves over levels, sizes of sets and the width of intervals "
        f"use a random sample of {comparison.trial.sample.n:,} rows, coverage by class {comparison.pooled} splits."
    )


def describe_absent_classes(comparison: Comparison) -> str:
    """Return a sentence on the number of classes without rows; empty if all classes have rows."""
    if comparison.trial is None:
        return ""
    n_classes = comparison.trial.n_classes
    absent = n_classes - len(np.unique(comparison.trial.labels))
    if not absent:
        return ""
    have, they = ("has no rows and is", "it is") if absent == 1 else ("have no rows and are", "they are")
    text = f"{absent:,} of the {n_classes:,} classes {have} left out here."
    full = [str(one) for one in comparison.scores if one.by_class]
    return f"{text} Without a finite threshold, {they} in every set of {', '.join(full)}." if full else text
