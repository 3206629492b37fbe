"""The answer in plain words: which score to take for what, and the fronts that families trace."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pippin._compare.comparison import Comparison
from pippin._compare.evidence import CoverageCheck, check_order, check_spread, difference
from pippin._compare.methods import Method
from pippin._compare.trial import Trial
from pippin._compare.tuning import CANDIDATES, FRONTS, families_in, preferred
from pippin._predictors.metrics import empty_because
from pippin._runtime.arrays import Vector
from pippin._runtime.visible import visible
from pippin._theory.scores import ip

FRONT_SPLITS, FEW_FRONT_SPLITS = 100, 20  # few, of many rows, whose means hardly vary
FRONT_ROWS = 5_000_000  # of all splits, from which on there are fewer
JUDGED = len(FRONTS) + 3  # steps of the work
HIDDEN = 0.05  # how far below the level the worst class is worth a sentence
ROOM = 1.1  # "at most 10 % larger than the smallest" is the middle way


@dataclass(frozen=True)
class Pick:
    """The score for one preference, with its means."""

    preference: str
    score: Method
    efficiency: float
    informativeness: float


@dataclass(frozen=True, eq=False)
class Verdict:
    """Everything a report says beyond the table."""

    sentences: tuple[str, ...]
    compared: tuple[Pick, ...]  # the best of the scores that were compared
    tuned: tuple[Pick, ...]  # the best of these and of all members of the fronts
    fronts: dict[str, Comparison]
    checks: tuple[CoverageCheck, ...]

    @property
    def take(self) -> Method:
        """The score to take, if somebody asks for one: the most singletons among sets that are hardly larger."""
        return self.compared[-1].score


def judge(trial: Trial, comparison: Comparison, step: Callable[[], None] = lambda: None) -> Verdict:
    """Names the best score for each preference, among those compared and among tuned ones.

    Methods with several thresholds, or without empty sets, buy another guarantee; they are
    not judged by size beside plain scores, but in a sentence of their own. Sharpened scores are
    judged beside plain ones, if they clearly win. Of very many rows, fronts are traced on a sample. `step` is
    called JUDGED times, as the work goes on.
    """
    enough = max(FEW_FRONT_SPLITS, min(FRONT_SPLITS, FRONT_ROWS // trial.closer.n))
    splits = min(enough, comparison.splits)
    fronts = families_in(trial.closer, splits, step)
    judged = _judged(comparison)
    merged: dict[Method, Vector] = {}
    tried = [front for family, front in fronts.items() if set(FRONTS[family]) <= set(CANDIDATES)]
    for found in (judged, *tried):  # nothing is named that `tune` would not find
        merged.update(zip(found.scores, found.values[:, :splits], strict=True))
    everything = Comparison(
        tuple(merged), trial.alpha, trial.seed, trial.n, trial.n_calibration, np.stack(list(merged.values()))
    )
    compared, tuned = _picks(judged), _picks(everything)
    step()
    checks: tuple[CoverageCheck, ...] = ()
    if comparison.splits > 1:
        plain = _only(comparison, [method for method in comparison.scores if method.plain])
        law = (check_spread(plain),) if plain.scores[0].plain else ()
        checks = (*law, check_order(trial, ip()))
    step()
    told = _sentences(judged, compared, tuned)
    sentences = (
        *told,
        *_on_sharpening(comparison),
        *_on_empty(trial, judged, compared[-1].score),
        *_on_classes(comparison, compared[-1].score),
        *_too_little(comparison),
    )
    step()
    return Verdict(sentences, compared, tuned, fronts, checks)


def _judged(comparison: Comparison) -> Comparison:
    """The methods that promise what a plain score does, less sharpened ones that win nothing; all, if none is left."""
    marginal = [method for method in comparison.scores if method.marginal]
    return _only(comparison, [method for method in marginal if not method.sharpened or _wins(comparison, method)])


def _only(comparison: Comparison, methods: Sequence[Method]) -> Comparison:
    """The comparison of some of its methods; of all, if these are none."""
    if not methods:
        return comparison
    numbers = [comparison.scores.index(method) for method in methods]
    return replace(comparison, scores=tuple(methods), values=comparison.values[numbers])


def _wins(comparison: Comparison, sharpened: Method) -> bool:
    """Whether sharpening clearly helps the score, in size or singletons, and clearly harms it in neither."""
    plain = replace(sharpened, sharpened=False)
    if plain not in comparison.scores:
        return True
    size, single = (difference(comparison, metric, sharpened, plain) for metric in ("efficiency", "informativeness"))
    return (size.high < 0 or single.low > 0) and not (size.low > 0 or single.high < 0)


def _on_sharpening(comparison: Comparison) -> tuple[str, ...]:
    """For each score that was compared both ways, what sharpening does to it."""
    told = []
    for method in comparison.scores:
        plain = replace(method, sharpened=False)
        if not method.sharpened or plain not in comparison.scores or comparison.splits < 2:
            continue
        size, single = (difference(comparison, metric, method, plain) for metric in ("efficiency", "informativeness"))
        changes = (
            f"{size.mean:+.2f} classes per set (95 % interval {size.low:+.2f} to {size.high:+.2f}) and "
            f"{100 * single.mean:+.1f} points of singletons ({100 * single.low:+.1f} to {100 * single.high:+.1f})"
        )
        if _wins(comparison, method):
            told.append(f"Sharpening pays: it changes {plain} by {changes}, the rows that it learns on counted.")
        else:
            told.append(f"Sharpening wins nothing clear here, so keep {plain}: it changes it by {changes}.")
    return tuple(told)


def _picks(comparison: Comparison) -> tuple[Pick, ...]:
    sizes = comparison.metric("efficiency").mean(axis=1)
    singletons = comparison.metric("informativeness").mean(axis=1)
    limit = float(f"{ROOM * sizes.min():.3g}")
    found = []
    for prefer, max_size in (("size", None), ("singletons", None), ("singletons", max(limit, float(sizes.min())))):
        score, words = preferred(comparison, prefer, max_size)
        i = comparison.scores.index(score)
        found.append(Pick(words, score, float(sizes[i]), float(singletons[i])))
    return tuple(found)


def _sentences(comparison: Comparison, compared: tuple[Pick, ...], tuned: tuple[Pick, ...]) -> tuple[str, ...]:
    smallest, most, both = compared
    if np.isinf(comparison.metric("threshold")).any():
        return (
            "These rows are too few, or too hard, for the level: some thresholds are infinite, and then every set "
            "holds all classes.",
        )
    aside = _aside(both, smallest, most) if len(comparison.scores) > 1 else ""
    told = [f"Take {both.score}: on these data it gives {_counts(both)}{aside}."]
    if both.score != smallest.score and comparison.splits > 1:
        gap = difference(comparison, "informativeness", both.score, smallest.score)
        sure = "clear" if gap.clear else "not clear"
        told.append(
            f"Against {smallest.score} that is {100 * gap.mean:+.1f} percentage points of singletons (95 % interval "
            f"{100 * gap.low:+.1f} to {100 * gap.high:+.1f}, so the difference is {sure} for new rows like these)."
        )
    better = tuned[2]
    if better.informativeness > both.informativeness + 0.005 and better.score not in comparison.scores:
        told.append(
            f"Tuned, there are more singletons: {_means(better)}; choose it with pippin.tune, on rows that do not "
            "calibrate."
        )
    return tuple(told)


def _on_empty(trial: Trial, comparison: Comparison, recommended: Method) -> tuple[str, ...]:
    """Why sets are empty, where the classifier is right more often than was asked."""
    empty = float(comparison.metric("empty_rate")[comparison.scores.index(recommended)].mean())
    accuracy = float(np.mean(trial.ranks == 0))
    return (empty_because(accuracy, trial.alpha, empty),) if empty and accuracy > 1 - trial.alpha else ()


def _on_classes(comparison: Comparison, recommended: Method) -> tuple[str, ...]:
    """What the marginal guarantee hides of the classes, and what it costs to mend that."""
    if comparison.trial is None or np.isinf(comparison.metric("threshold")).any():
        return ()
    coverage = {row["score"]: row for row in comparison.conditional().iter_rows(named=True)}
    own = coverage[str(recommended)]
    if own["worst_class_coverage"] > 1 - comparison.alpha - HIDDEN:
        return ()
    worst = visible(own["worst_class"])
    hides = (
        f"The guarantee is for all classes together: under {recommended}, {worst} is covered only "
        f"{100 * own['worst_class_coverage']:.0f} % of the time"
    )
    sizes = dict(zip(comparison.scores, comparison.metric("efficiency").mean(axis=1).tolist(), strict=True))
    better = [
        candidate
        for candidate in comparison.scores
        if not candidate.plain and coverage[str(candidate)]["worst_class_coverage"] > 1 - comparison.alpha - HIDDEN
    ]
    if not better and any(candidate.by_class for candidate in comparison.scores):
        return (f"{hides}.",)
    if not better:
        return (f"{hides}; compare {Method(recommended.score, 'class')} to see what a guarantee per class costs.",)
    chosen = min(better, key=lambda method: (method.score != recommended.score, sizes[method]))
    return (
        f"{hides}; {chosen} brings the worst class to {100 * coverage[str(chosen)]['worst_class_coverage']:.0f} % at "
        f"size {sizes[chosen]:.2f}.",
    )


def on_sample(comparison: Comparison) -> str:
    """What is told of a sample of the rows; empty, if nothing is."""
    if comparison.trial is None or comparison.trial.closer is comparison.trial:
        return ""
    return (
        f"All {comparison.n:,} rows were split. Fronts, curves over levels, sizes of sets and the width of intervals "
        f"are seen in {comparison.trial.closer.n:,} of them at random, coverage by class in {comparison.pooled} splits."
    )


def on_absent(comparison: Comparison) -> str:
    """How many classes have no rows, and what becomes of them; empty, if all classes have some."""
    if comparison.trial is None:
        return ""
    known = comparison.trial.n_classes
    absent = known - len(np.unique(comparison.trial.labels))
    if not absent:
        return ""
    have, they = ("has no rows and is", "it is") if absent == 1 else ("have no rows and are", "they are")
    text = f"{absent:,} of the {known:,} classes {have} left out here."
    full = [str(one) for one in comparison.scores if one.by_class]
    return f"{text} Without a finite threshold, {they} in every set of {', '.join(full)}." if full else text


def _too_little(comparison: Comparison) -> tuple[str, ...]:
    """Methods that cover less than was asked, by more than coverage varies from split to split."""
    coverage = comparison.metric("coverage")
    spread = coverage.std(axis=1, ddof=1) if comparison.splits > 1 else np.full(len(coverage), np.inf)
    short = 1 - comparison.alpha - coverage.mean(axis=1) > spread
    return tuple(
        f"{candidate} covers only {100 * coverage[i].mean():.1f} % of the objects, less than the "
        f"{100 * (1 - comparison.alpha):g} % that was asked for."
        for i, candidate in enumerate(comparison.scores)
        if not candidate.plain and short[i]
    )


def _means(pick: Pick) -> str:
    return f"{pick.score} gives {_counts(pick)}"


def _counts(pick: Pick) -> str:
    return f"{_percent(pick)} singletons at size {pick.efficiency:.2f}"


def _percent(pick: Pick) -> str:
    return f"{100 * pick.informativeness:.0f} %"


def _aside(both: Pick, smallest: Pick, most: Pick) -> str:
    others = []
    if smallest.efficiency < both.efficiency - 0.005:
        others.append(
            f"{smallest.score} is smaller ({smallest.efficiency:.2f}) but has {_percent(smallest)} singletons"
        )
    if most.informativeness > both.informativeness + 0.005:
        others.append(f"{most.score} has {_percent(most)} singletons but size {most.efficiency:.2f}")
    if others:
        return "; " + ", and ".join(others)
    tied = {str(pick.score) for pick in (smallest, most)} - {str(both.score)}
    if tied:
        return f"; {' and '.join(sorted(tied))} {'does' if len(tied) == 1 else 'do'} as well, to two decimals"
    return ", and no other has smaller sets or more singletons"
