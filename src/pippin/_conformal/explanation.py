"""Explanation of one object's set: rank, probability, score, threshold and p-value of each class, and a sentence."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pippin._conformal.frames import frame
from pippin._conformal.rules import Request
from pippin._engine import dispatch
from pippin._engine.protocol import Bounds
from pippin._runtime.arrays import Flags, Vector
from pippin._runtime.showing import Share, format_number, html_table, visible
from pippin._sharpening.sharpener import Sharpener
from pippin._theory.scores import Score

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes

MOST_SHOWN = 12  # maximum number of classes that `repr` lists


class ExplainedClass(NamedTuple):
    """Explanation of one class of an object.

    Attributes:
        name: the class.
        rank: its rank by probability, from 1.
        probability: its probability.
        score: its nonconformity score.
        threshold: the largest score at which this class is in the set.
        p_value: its conformal p-value; None if the predictor has no p-values.
        inside: True if the class is in the set.
        why: the reason for `inside` in words.
    """

    name: str | int
    rank: int
    probability: float
    score: float
    threshold: float
    p_value: float | None
    inside: bool
    why: str


class ExplainedModel(NamedTuple):
    """Contribution of one model of a stack to the set of an object.

    Attributes:
        weight: weight of the model in the stack; 0 if the stack leaves it out.
        best: the most probable class of this model alone.
        probability: the probability of the class `best` by this model.
        evidence: log odds that the model adds for the most probable class of the stack against the second one.
    """

    weight: float
    best: str | int
    probability: float
    evidence: float


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Explanation of an object's prediction set, class by class; `ConformalPredictor.explain` returns it.

    Attributes:
        classes: one entry per class, the most probable first.
        alpha: significance level (miscoverage).
        models: for a predictor with a stack, the contribution of each model.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip", classes=data.classes)
    >>> predictor.explain(data.probs[2001]).classes[0].why
    'in: its score 0.0003092 is at most 1.729 (p = 0.867)'
    """

    classes: tuple[ExplainedClass, ...]
    alpha: float
    models: tuple[ExplainedModel, ...] = ()

    @property
    def sentence(self) -> str:
        """Summary of the set in one sentence."""
        inside = [visible(one.name) for one in self.classes if one.inside]
        if not inside:
            best = self.classes[0]
            return (
                f"The set is empty: even {visible(best.name)}, the most probable class, scores above its threshold, so "
                f"the object is less like the calibration examples than {100 * (1 - self.alpha):g}% of them are."
            )
        more = f" and {len(inside) - MOST_SHOWN:,} more" if len(inside) > MOST_SHOWN else ""
        named = ", ".join(inside[:MOST_SHOWN]) + more
        are = "is" if len(inside) == 1 else "are"
        return f"{len(inside):,} of {len(self.classes):,} classes {are} in the set: {named}."

    def to_frame(self) -> "polars.DataFrame":
        """Convert the explanation to a polars frame with one row per class, the most probable first.

        Returns:
            A frame with the columns of `classes`: name, rank, probability, score, threshold, p_value, inside and why.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip")
        >>> predictor.explain(data.probs[2001]).to_frame().shape
        (12, 8)
        """
        table: polars.DataFrame = frame(dict(zip(ExplainedClass._fields, zip(*self.classes, strict=True), strict=True)))
        return table

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the scores and thresholds of the most probable classes.

        Args:
            ax: Matplotlib axes to draw on; new axes by default.

        Returns:
            The Matplotlib axes.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip")
        >>> axes = predictor.explain(data.probs[2001]).plot()
        """
        from pippin._plotting.calibration import plot_explanation

        return plot_explanation(self, ax)

    def __repr__(self) -> str:
        shown = self.classes[:MOST_SHOWN]
        names = [visible(one.name) for one in shown]
        width = max(map(len, names))
        lines = [self.sentence]
        for name, one in zip(names, shown, strict=True):
            lines.append(f"{one.rank:>3}  {name:<{width}}  {100 * one.probability:>5.1f}%  {one.why}")
        if len(self.classes) > MOST_SHOWN:
            lines.append(f"     and {len(self.classes) - MOST_SHOWN:,} classes that are less probable")
        return "\n".join([*lines, *self._lines_of_models()])

    def _lines_of_models(self) -> Iterator[str]:
        first, second = (visible(one.name) for one in self.classes[:2])
        for m, (weight, best, probability, evidence) in enumerate(self.models):
            alone = f"alone {visible(best)} with {100 * probability:.1f}%"
            yield f"model {m}, weight {weight:.2f}: {alone}, log odds {evidence:+.2f} for {first} against {second}"

    def _repr_html_(self) -> str:
        heads = ("rank", "class", "probability", "score", "threshold", "p-value", "")
        rows = [
            (
                str(one.rank),
                visible(one.name),
                Share(one.probability),
                format_number(one.score),
                format_number(one.threshold),
                "" if one.p_value is None else format_number(one.p_value),
                one.why.partition(":")[0],
            )
            for one in self.classes[:MOST_SHOWN]
        ]
        marked = [one.inside for one in self.classes[:MOST_SHOWN]]
        note = "In the set: score at most the threshold, p-value above alpha."
        note = "; ".join([note, *self._lines_of_models()])
        return html_table(self.sentence, heads, rows, marked=marked, left_out=len(self.classes) - len(rows), note=note)


def explain_models(sharpener: Sharpener, row: Any, explanation: Explanation) -> Explanation:
    """Add the contribution of each model to the explanation of an object; unchanged without a stack."""
    if sharpener.pool is None:
        return explanation
    probs, classes = sharpener.one_row(row), list(sharpener.classes)
    first, second = (classes.index(one.name) for one in explanation.classes[:2])
    terms = sharpener.pool.terms(probs)
    models = (
        ExplainedModel(weight, classes[int(p.argmax())], float(p.max()), float(term[first] - term[second]))
        for weight, p, term in zip(sharpener.pool.weights, probs, terms, strict=True)
    )
    return replace(explanation, models=tuple(models))


def explain(
    request: Request, score: Score, bounds: Bounds, inside: Flags, p: Vector | None, alpha: float
) -> Explanation:
    """Explain the set of a single row.

    Args:
        request: the row, with its group, weight and random numbers.
        score: the score that is compared with the bounds.
        bounds: the largest score and, with RC3P, the largest rank with which each class is in the set.
        inside: flags of the classes in the set.
        p: the p-value of each class; None if the predictor has no p-values.
        alpha: significance level (miscoverage).
    """
    probs = request.rows.verified().block(0, 1)[0]
    scores = dispatch.class_scores(request.rows, score, request.draws.u)[0]
    own = 0 if bounds.group is None else int(bounds.group[0])
    limits = np.broadcast_to(bounds.scores[own], probs.shape)
    ranks = None if bounds.ranks is None else np.broadcast_to(bounds.ranks[own], probs.shape)
    explained = []
    for rank, k in enumerate(np.argsort(-probs, kind="stable").tolist(), 1):
        p_value = None if p is None else float(p[k])
        most = None if ranks is None else int(ranks[k])
        s, limit = float(scores[k]), float(limits[k])
        why = _why(bool(inside[k]), s, limit, p_value, rank, most)
        name, probability = request.classes[k], float(probs[k])
        explained.append(ExplainedClass(name, rank, probability, s, limit, p_value, bool(inside[k]), why))
    return Explanation(tuple(explained), alpha)


def _why(inside: bool, score: float, limit: float, p_value: float | None, rank: int, most: int | None) -> str:
    """Describe why a class is in the set or not; `limit` is its threshold, `most` its largest rank with RC3P."""
    p_text = "" if p_value is None else f" (p = {p_value:.3g})"
    first, second = _apart(score, limit)
    if inside and np.isinf(limit):
        return f"in: its rank {rank} is let in" if most else "in: its threshold is infinite, so it is in every set"
    if inside:
        return f"in: its score {first} is at most {second}{p_text}"
    if score <= limit:
        return f"out: its rank {rank} is above {most}, the last that is let in"
    return f"out: its score {first} is above {second}{p_text}"


def _apart(score: float, limit: float) -> tuple[str, str]:
    """Format two numbers with four digits, or with all digits if they differ and would look equal with four.

    >>> _apart(1.0000001, 1.0)
    ('1.0000001', '1.0')
    """
    first, second = format_number(score), format_number(limit)
    return (repr(score), repr(limit)) if first == second and score != limit else (first, second)
