"""Why each class is in an object's set or not: its rank, probability, score, threshold and p-value, and a sentence."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pippin._conformal import answers
from pippin._conformal.answers import Ruled, asked_rows, drawn
from pippin._conformal.frames import polars_frame
from pippin._conformal.rules import Asked, ByCells, one_weight
from pippin._engine import dispatch
from pippin._engine.protocol import Bounds
from pippin._runtime.arrays import Seed, Vector
from pippin._runtime.errors import InputError
from pippin._runtime.showing import Share, html_table, shown_number
from pippin._runtime.visible import visible
from pippin._shift.label_shift import LabelRatios
from pippin._validation.labels import check_names
from pippin._validation.rows import as_array

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes

TOLD = 12  # classes that a repr shows


class ExplainedClass(NamedTuple):
    """One class of the object: what speaks for it and against it.

    Attributes:
        name: the class.
        rank: its rank by probability, from 1.
        probability: what the classifier gave it.
        score: how strange it would be as the true class.
        threshold: what its score must not exceed.
        p_value: the share of calibration examples at least as strange; None where there is none.
        inside: whether it is in the set.
        why: the same in words.
    """

    name: str | int
    rank: int
    probability: float
    score: float
    threshold: float
    p_value: float | None
    inside: bool
    why: str


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Every class of one object, the most probable first, and why it is in the set or not.

    Attributes:
        classes: one entry per class, the most probable first.
        alpha: the share of errors allowed.
    """

    classes: tuple[ExplainedClass, ...]
    alpha: float

    @property
    def sentence(self) -> str:
        """The set in a sentence."""
        inside = [visible(one.name) for one in self.classes if one.inside]
        if not inside:
            best = self.classes[0]
            return (
                f"The set is empty: even {visible(best.name)}, the most probable class, scores above its threshold, so "
                f"the object is less like the calibration examples than {100 * (1 - self.alpha):g} % of them are."
            )
        named = ", ".join(inside[:TOLD]) + (f" and {len(inside) - TOLD:,} more" if len(inside) > TOLD else "")
        are = "is" if len(inside) == 1 else "are"
        return f"{len(inside):,} of {len(self.classes):,} classes {are} in the set: {named}."

    def to_frame(self) -> "polars.DataFrame":
        """One row per class, the most probable first."""
        return polars_frame(dict(zip(ExplainedClass._fields, map(list, zip(*self.classes, strict=True)), strict=True)))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The score of every class beside its threshold, for the most probable classes; Matplotlib axes.

        Args:
            ax: where to draw; new axes, if not given.
        """
        from pippin._plotting.thresholds import plot_explanation

        return plot_explanation(self, ax)

    def __repr__(self) -> str:
        shown = self.classes[:TOLD]
        names = [visible(one.name) for one in shown]
        width = max(map(len, names))
        lines = [self.sentence]
        for name, one in zip(names, shown, strict=True):
            lines.append(f"{one.rank:>3}  {name:<{width}}  {100 * one.probability:>5.1f} %  {one.why}")
        if len(self.classes) > TOLD:
            lines.append(f"     and {len(self.classes) - TOLD:,} classes that are less probable")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        heads = ("rank", "class", "probability", "score", "threshold", "p-value", "")
        rows = [
            (
                str(one.rank),
                visible(one.name),
                Share(one.probability),
                shown_number(one.score),
                shown_number(one.threshold),
                "" if one.p_value is None else shown_number(one.p_value),
                one.why.partition(":")[0],
            )
            for one in self.classes[:TOLD]
        ]
        marked = [one.inside for one in self.classes[:TOLD]]
        note = "In the set: score at most the threshold, p-value above alpha."
        return html_table(self.sentence, heads, rows, marked=marked, left_out=len(self.classes) - len(rows), note=note)


class Explains:
    """A predictor with a rule: it promises 1 − alpha, and says why a class is in a set or not."""

    @property
    def guarantee(self: Any) -> float:
        """The coverage that is proven: 1 − alpha, for all that have a threshold of their own.

        With weights, it holds where the weights are right.
        """
        promised: float = 1 - self.alpha
        return promised

    @property
    def takes(self) -> frozenset[str]:
        """What `predict` may be told beside the rows."""
        return frozenset({"seed"})

    def _promise(self: Any, who: str, few: str, whom: str = "") -> str:
        """What one threshold promises, in a sentence: from whom it is, of what there were too few, and for whom."""
        if np.isinf(self.threshold):
            return (
                f"{self.score} with an infinite threshold, {who}: every set holds all classes, since so few {few} "
                "cannot promise more."
            )
        return (
            f"{self.score} with threshold {self.threshold:.6g}, {who}: its sets hold the true class "
            f"{100 * self.guarantee:g} % of the time{whom}."
        )

    def explain(
        self: Any,
        row: Any,
        *,
        seed: Seed = None,
        group: str | int | None = None,
        weight: float | LabelRatios | None = None,
    ) -> Explanation:
        """Each class of one object: rank, probability, score, threshold, p-value, and one sentence why it is in or out.

        Args:
            row: its K probabilities, not logits.
            seed: for a randomised score; a seed or a Generator.
            group: the object's group, where there are thresholds per group.
            weight: the object's likelihood ratio, or those of the classes, where the predictor is weighted.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip", classes=data.classes)
        >>> print(predictor.explain(data.probs[2001]).sentence)
        1 of 12 classes is in the set: charlock.
        """
        check_names(self.classes, row)
        rows = asked_rows(self.classes, as_array(row)[None], False)
        for name, given, wanted in (("group", group, "groups"), ("weight", weight, "weights")):
            if (given is None) == (wanted in self.takes):
                told = f"pass {name}=, that of the object" if given is None else f"leave {name}= out"
                raise InputError(
                    f"Expected {'a' if given is None else 'no'} {name} beside the row, got {given!r}", told
                )
        codes = None if group is None else self.group_codes([group], 1)
        weights = None if weight is None else one_weight(weight, self.classes)
        return explained(self, Asked(rows, drawn(self.score, 1, seed), codes, weights), self.alpha)


def explained(predictor: Ruled, asked: Asked, alpha: float) -> Explanation:
    """Every class of a single row."""
    probs = asked.rows.verified().block(0, 1)[0]
    order = np.argsort(-probs, kind="stable")
    scores = dispatch.class_scores(asked.rows, predictor.score, asked.draws.u)[0]
    bounds = predictor._rule.bounds(asked)
    own = 0 if bounds.group is None else int(bounds.group[0])
    limits = np.broadcast_to(bounds.scores[own], probs.shape)
    ranks = None if bounds.ranks is None else np.broadcast_to(bounds.ranks[own], probs.shape)
    inside = answers.sets(predictor, asked, False, bounds).mask[0]
    p = _p_values(predictor, asked, bounds)
    found = []
    for rank, k in enumerate(order.tolist(), 1):
        p_value = None if p is None else float(p[k])
        most = None if ranks is None else int(ranks[k])
        score, limit = float(scores[k]), float(limits[k])
        why = _why(bool(inside[k]), score, limit, p_value, rank, most)
        found.append(
            ExplainedClass(predictor.classes[k], rank, float(probs[k]), score, limit, p_value, bool(inside[k]), why)
        )
    return Explanation(tuple(found), alpha)


def _p_values(predictor: Ruled, asked: Asked, bounds: Bounds) -> Vector | None:
    """The p-value of every class; None where the file left the scores out, or ranks are bounded too."""
    rule = predictor._rule
    if isinstance(rule, ByCells) and (rule.cells.scores is None or bounds.ranks is not None):
        return None
    found: Vector = answers.p_values(predictor, asked, None)[0]
    return found


def _why(inside: bool, score: float, limit: float, p_value: float | None, rank: int, most: int | None) -> str:
    told = "" if p_value is None else f" (p = {p_value:.3g})"
    first, second = _apart(score, limit)
    if inside and np.isinf(limit):
        return f"in: its rank {rank} is let in" if most else "in: its threshold is infinite, so it is in every set"
    if inside:
        return f"in: its score {first} is at most {second}{told}"
    if score <= limit:
        return f"out: its rank {rank} is above {most}, the last that is let in"
    return f"out: its score {first} is above {second}{told}"


def _apart(score: float, limit: float) -> tuple[str, str]:
    """Both with four digits, or with as many as tell them apart.

    >>> _apart(1.0000001, 1.0)
    ('1.0000001', '1.0')
    """
    first, second = shown_number(score), shown_number(limit)
    return (repr(score), repr(limit)) if first == second and score != limit else (first, second)
