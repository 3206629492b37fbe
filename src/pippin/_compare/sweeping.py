"""One score at many values of one of its parameters, on the same splits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pippin._compare.comparison import Comparison, compare
from pippin._inputs.rows import Classes
from pippin._theory.scores import Score, parse_score

if TYPE_CHECKING:
    import polars


def sweep(
    probs: Any,
    labels: ArrayLike,
    score: Score | str = "repip",
    parameter: str | None = None,
    values: Sequence[float] = (0, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1),
    splits: int = 100,
    alpha: float = 0.1,
    calibration_fraction: float = 0.45,
    seed: int = 0,
    *,
    classes: Classes | None = None,
    from_logits: bool = False,
) -> "Sweep":
    """Compares one score at many values of one of its parameters, on the same splits.

    Without `parameter` it is the score's first: gamma of RePIP, lam of RAPS and SAPS,
    beta of PIP, mu of SOCOP.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> swept = pippin.sweep(data.probs, data.labels, "repip", "gamma", (0, 0.02, 0.5), splits=20)
    >>> swept.summary()["efficiency"].round(2).to_list()
    [1.65, 1.45, 1.4]
    """
    base = parse_score(score)
    numeric = [name for name, value in base.parameters if not isinstance(value, bool | tuple)]
    if not numeric:
        raise ValueError(f"The score {base.name} has no parameter to sweep: choose repip, raps, saps, pip or socop.")
    if parameter is not None and parameter not in numeric:
        raise ValueError(f"Expected a parameter of {base.name} ({', '.join(numeric)}), got {parameter!r}.")
    chosen = parameter or numeric[0]
    steps = tuple(dict.fromkeys(values))
    scores = [base.replace(**{chosen: value}) for value in steps]
    comparison = compare(
        probs,
        labels,
        scores,
        alpha,
        splits,
        calibration_fraction,
        seed,
        classes=classes,
        from_logits=from_logits,
    )
    return Sweep(base, chosen, steps, comparison)


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """A comparison of one score at many values of one parameter."""

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
