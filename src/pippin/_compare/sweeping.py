"""One score at many values of one of its parameters, on the same splits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pippin._compare.comparison import Comparison, compare, shown_means
from pippin._predictors.metrics import MEANINGS
from pippin._runtime.arrays import Classes
from pippin._runtime.errors import InputError
from pippin._runtime.showing import html_columns
from pippin._theory.scores import Score
from pippin._theory.spelling import parse_score

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes


def sweep(
    probs: Any,
    labels: ArrayLike,
    score: Score | str = "repip",
    alpha: float = 0.1,
    *,
    parameter: str | None = None,
    values: Sequence[float] = (0, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1),
    splits: int = 100,
    calibration_fraction: float = 0.45,
    seed: int = 0,
    classes: Classes | None = None,
    from_logits: bool = False,
) -> "Sweep":
    """Compares one score at many values of one of its parameters, on the same splits.

    Args:
        probs: (n, K) probabilities of rows that the classifier was not trained on.
        labels: the true classes, as indices or as names.
        score: a score or its spelling.
        alpha: the share of errors allowed.
        parameter: the one that is varied; by default the score's first: gamma of RePIP, lam of
            RAPS and SAPS, beta of PIP, mu of SOCOP.
        values: what it is set to.
        splits: how many times the rows are divided.
        calibration_fraction: the share of rows that calibrates; the rest tests.
        seed: makes the splits.
        classes: names of the K columns; a data frame brings its own.
        from_logits: whether `probs` are logits, of which a softmax is taken.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> swept = pippin.sweep(data.probs, data.labels, "repip", parameter="gamma", values=(0, 0.02, 0.5), splits=20)
    >>> swept.summary()["efficiency"].round(2).to_list()
    [1.65, 1.45, 1.4]
    """
    base = parse_score(score)
    numeric = [name for name, value in base.parameters if not isinstance(value, bool | tuple)]
    if not numeric:
        raise InputError(f"The score {base.name} has no parameter to sweep", "choose repip, raps, saps, pip or socop")
    if parameter is not None and parameter not in numeric:
        raise InputError(f"Expected a parameter of {base.name} ({', '.join(numeric)}), got {parameter!r}")
    chosen = parameter or numeric[0]
    steps = tuple(dict.fromkeys(values))
    comparison = compare(
        probs,
        labels,
        [base.replace(**{chosen: value}) for value in steps],
        alpha,
        splits=splits,
        calibration_fraction=calibration_fraction,
        seed=seed,
        classes=classes,
        from_logits=from_logits,
    )
    return Sweep(base, chosen, steps, comparison)


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """A comparison of one score at many values of one parameter.

    Attributes:
        score: the score.
        parameter: the name of the parameter.
        values: its values, as they were tried.
        comparison: what came of each.
    """

    score: Score
    parameter: str
    values: tuple[float, ...]
    comparison: Comparison

    @property
    def table(self) -> "polars.DataFrame":
        """One row per value and split."""
        return self._with_value(self.comparison.table, self.comparison.splits)

    def summary(self) -> "polars.DataFrame":
        """One row per value: the mean and standard deviation of every metric over the splits."""
        return self._with_value(self.comparison.summary(), 1)

    def _with_value(self, table: "polars.DataFrame", each: int) -> "polars.DataFrame":
        import polars

        return table.insert_column(1, polars.Series(self.parameter, np.repeat(self.values, each)))

    def plot(self) -> "tuple[Axes, ...]":
        """Size, and beside it singletons, against the parameter: a point per split, a line through the means.

        Two Matplotlib axes.
        """
        from pippin._compare.picture.splits import plot_sweep

        return plot_sweep(self)

    def __repr__(self) -> str:
        return f"Sweep({self.score}, {self.parameter} = {', '.join(f'{value:g}' for value in self.values)})"

    def _repr_html_(self) -> str:
        level = f"{100 * (1 - self.comparison.alpha):g} % asked for"
        told = f"{self.score} at {len(self.values)} values of {self.parameter}, {level}: means over the splits"
        columns = shown_means(self.summary().drop("score"))
        columns[self.parameter] = [f"{value:g}" for value in self.values]
        return html_columns(f"{told} ({self.comparison.splits:,})", columns, most=len(self.values), note=MEANINGS)
