"""Choice of a score on rows that are not used for calibration, and sweeps of a parameter of a score."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._compare.comparison import Comparison, compare_trial, shown_means
from pippin._compare.methods import Method, parse_methods
from pippin._compare.splits import Trial, make_trial
from pippin._conformal.calibrate import Settings, calibrate_labelled
from pippin._conformal.evaluation import MEANINGS
from pippin._conformal.mondrian import Taxonomy
from pippin._conformal.predictor import ConformalPredictor
from pippin._engine.draws import check_seed
from pippin._runtime.arguments import checked
from pippin._runtime.arrays import Classes, Seed
from pippin._runtime.errors import InputError
from pippin._runtime.showing import html_columns
from pippin._sharpening.learning import sharpen_labelled
from pippin._sharpening.sharpener import Sharpener
from pippin._sharpening.step import SharpeningStep
from pippin._theory.level import as_alpha
from pippin._theory.scores import Score, ip, margin, pip, raps, repip, socop
from pippin._theory.spelling import parse_score
from pippin._validation.labels import Labelled, as_labelled

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes

FRONTS: dict[str, tuple[Score, ...]] = {
    "socop": tuple(socop(mu) for mu in (0, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128)),
    "repip": tuple(repip(gamma, k_reg) for k_reg in (1, 2, 3) for gamma in (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5)),
    "pip": tuple(pip(beta) for beta in (0, 0.25, 0.5, 1, 2, 4, 16)),
    "raps": tuple(raps(lam, k_reg) for k_reg in (1, 3) for lam in (0.001, 0.005, 0.02, 0.1, 0.5)),
}
CANDIDATES: tuple[Score, ...] = (ip(), margin(), *FRONTS["socop"], *FRONTS["repip"], *FRONTS["pip"])
SHARPENED = tuple(Method(score, sharpened=True) for score in FRONTS["socop"])
MOST_VALUES = 10_000  # largest number of values in a sweep
SIZE_FACTOR = 1.1  # by default, largest ratio of the chosen score's mean size to the smallest mean size


@dataclass(frozen=True)
class Pick:
    """Best score for one preference, with its mean size and singleton rate over the splits."""

    preference: str
    score: Method
    mean_size: float
    singleton_rate: float

    @property
    def percent(self) -> str:
        return f"{100 * self.singleton_rate:.0f}% singletons"

    @property
    def means(self) -> str:
        return f"{self.percent} at size {self.mean_size:.2f}"


@dataclass(frozen=True, eq=False, repr=False)
class Tuned:
    """Chosen score, and the remaining rows to calibrate it on; the result of `pippin.tune`.

    Attributes:
        method: the chosen score with its options, such as sharpening (recalibration).
        alpha: significance level (miscoverage).
        preference: the criterion of the choice in words, such as "most singletons at a size of at most 1.5".
        tuning_rows: indices of the rows on which the score was chosen.
        calibration_rows: indices of the remaining rows, which `calibrate` uses.
        comparison: the comparison of all candidates on the tuning rows.
    """

    method: Method
    alpha: float
    preference: str
    tuning_rows: NDArray[np.intp]
    calibration_rows: NDArray[np.intp]
    comparison: Comparison
    _data: Labelled

    @property
    def score(self) -> Score:
        """The chosen score, without sharpening (recalibration)."""
        return self.method.score

    def calibrate(self, alpha: float | None = None, *, seed: Seed = None) -> ConformalPredictor:
        """Calibrate a predictor of the chosen score on the rows that were not used for the choice.

        For a sharpened score, the sharpener (map that recalibrates probabilities) is fitted on the tuning rows.

        Args:
            alpha: significance level (miscoverage); by default the one at which the score was chosen.
            seed: for a randomized score; a seed or a Generator.

        Returns:
            The calibrated predictor.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> tuned = pippin.tune(data.probs, data.labels, ("ip", "repip"), splits=20, classes=data.classes)
        >>> tuned.calibrate().n_calibration
        2493
        """
        level, remaining = self.alpha if alpha is None else alpha, self._data.take(self.calibration_rows)
        settings = Settings(self.score, level, seed, Taxonomy(self.method.per))
        if not self.method.sharpened:
            return calibrate_labelled(remaining, settings)
        sharpened = remaining._replace(rows=self._sharpener.rows(remaining.rows))
        return calibrate_labelled(sharpened, settings, SharpeningStep((self._sharpener,)))

    def describe(self) -> str:
        """Describe the choice and its alternatives, with mean sizes and singleton rates on the tuning rows.

        Returns:
            Two lines, which name the chosen score, and the scores with the smallest sets and with the most singletons.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> print(pippin.tune(data.probs, data.labels, ("ip", "margin", "repip"), splits=20).describe())
        repip has the most singletons at a size of at most 1.1 times the smallest: 73% singletons at size 1.46.
        Of the 3 candidates, ip has the smallest size (69% singletons at size 1.37), margin the most singletons (76%
        singletons at size 2.54).
        """
        chosen = pick(self.comparison, self.method, self.preference)
        others = [other for other in picks(self.comparison)[:2] if other.score != chosen.score]
        parts = (
            f"{other.score} {'has ' * (i == 0)}the {other.preference} ({other.means})" for i, other in enumerate(others)
        )
        count = f"Of the {len(self.comparison.scores):,} candidates, "
        ending = f"{count}{', '.join(parts)}" if others else "No other candidate has smaller sets or more singletons"
        return f"{chosen.score} has the {chosen.preference}: {chosen.means}.\n{ending}."

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot mean size against the singleton rate of every candidate, and name the chosen one.

        Args:
            ax: the axes; new ones by default.

        Returns:
            Matplotlib axes.
        """
        from pippin._plotting.comparison import plot_choice

        return plot_choice(self.comparison, self.method, ax)

    def _repr_html_(self) -> str:
        chosen = self.comparison.scores.index(self.method)
        columns = {name: [values[chosen]] for name, values in shown_means(self.comparison.summary()).items()}
        return html_columns(f"{self!r}.", columns, note=MEANINGS)

    def __str__(self) -> str:
        return self.describe()

    def __repr__(self) -> str:
        return (
            f"Tuned({self.method}: {self.preference}, chosen on {len(self.tuning_rows):,} rows; "
            f"{len(self.calibration_rows):,} are left to calibrate)"
        )

    @cached_property
    def _sharpener(self) -> Sharpener:
        return sharpen_labelled(self._data.take(self.tuning_rows), None, self.comparison.seed)[0]


@checked
def tune(
    probs: Any,
    labels: ArrayLike,
    scores: Sequence[Score | Method | str] | Score | Method | str = CANDIDATES,
    alpha: float = 0.1,
    *,
    prefer: Literal["size", "singletons"] = "singletons",
    max_size: float | None = None,
    tuning_fraction: float = 0.5,
    splits: int = 100,
    seed: int = 0,
    classes: Classes | None = None,
    from_logits: bool = False,
) -> Tuned:
    """Choose the best score for a preference, on rows that are not used for calibration.

    Choosing a score on its own calibration rows would break the coverage guarantee. So the rows are divided at random
    into two parts: the candidates are compared on random splits of the first, and `Tuned.calibrate` uses the second.

    Args:
        probs: (n, K) probabilities of rows that the classifier was not trained on.
        labels: true class of each row, as index or name.
        scores: the candidates, as objects or by name, such as "socop sharpened".
        alpha: significance level (miscoverage).
        prefer: "size" for the smallest mean size, "singletons" for the largest singleton rate.
        max_size: the largest mean size allowed, with prefer="singletons"; by default 1.1 times the smallest mean size
            of a candidate (sizes below 1, from empty sets, count as 1), and `math.inf` for any size.
        tuning_fraction: share of the rows on which the score is chosen.
        splits: the number of random splits of these rows.
        seed: the seed of the division of the rows and of the splits.
        classes: names of the K columns; by default the column names of a data frame, else 0 … K − 1.
        from_logits: whether `probs` are logits, to which a softmax is applied.

    Returns:
        A Tuned with the chosen score; `print` shows what was chosen, and against which alternatives.

    Raises:
        InputError: no candidate has a mean size of at most `max_size`, or a candidate has several thresholds.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> tuned = pippin.tune(data.probs, data.labels, prefer="singletons", max_size=1.5, classes=data.classes)
    >>> tuned.score
    socop
    >>> predictor = tuned.calibrate()
    """
    data = as_labelled(probs, labels, classes, from_logits)
    candidates = parse_methods(scores)
    for method in candidates:
        if not (method.marginal or (method.interpolated and not method.nonempty)):
            what = f"Expected scores, sharpened or interpolated, got {method}"
            raise InputError(what, "tune the score, then calibrate it with per=")
    as_alpha(tuning_fraction, "a tuning fraction", "0.5 leaves half of the rows to calibrate")
    check_seed(seed)
    n = data.rows.n
    order = np.random.default_rng(seed).permutation(n)
    tuning_rows, calibration_rows = (np.sort(part) for part in np.split(order, [round(tuning_fraction * n)]))
    if len(tuning_rows) < 4 or len(calibration_rows) < 1:
        raise InputError(f"Expected at least 8 rows, to choose on some and calibrate on others, got {n}")
    trial = make_trial(data.take(tuning_rows), alpha, 0.5, seed)
    comparison = compare_trial(trial, candidates, splits)
    best, preference = choose_by_preference(comparison, prefer, max_size)
    return Tuned(best, as_alpha(alpha), preference, tuning_rows, calibration_rows, comparison, data)


def compare_families(trial: Trial, splits: int) -> dict[str, Comparison]:
    """Compare the scores within each family in FRONTS (one score with many parameter values) on `splits` splits."""
    return {family: compare_trial(trial, parse_methods(members), splits) for family, members in FRONTS.items()}


def choose_by_preference(comparison: Comparison, prefer: str, max_size: float | None = None) -> tuple[Method, str]:
    """Return the best method for the preference "size" or "singletons", and the preference in words."""
    sizes = comparison.metric("mean_size").mean(axis=1)
    singletons = comparison.metric("singleton_rate").mean(axis=1)
    orders = {"size": ("smallest size", -singletons, sizes), "singletons": ("most singletons", sizes, -singletons)}
    if prefer not in orders:
        raise InputError(f"Expected the preference 'size' or 'singletons', got {prefer!r}")
    if max_size is not None and not (isinstance(max_size, int | float | np.number) and max_size > 0):
        raise InputError(f"Expected max_size to be a number of classes above 0, got {max_size!r}", "leave it out")
    if prefer == "size" and max_size is not None:
        raise InputError("Expected max_size only with prefer='singletons': prefer='size' takes the smallest sets")
    (words, *keys), allowed = orders[prefer], np.arange(len(sizes))
    if prefer == "singletons" and max_size is None:
        words += f" at a size of at most {SIZE_FACTOR:g} times the smallest"
        allowed = np.flatnonzero(sizes <= SIZE_FACTOR * max(1.0, sizes.min()))
    elif max_size is not None and max_size < np.inf:
        max_size = float(min(max_size, 1e300))  # 10**400 is no float
        words += f" at a size of at most {max_size:g}"
        allowed = np.flatnonzero(sizes <= max_size)
        if not len(allowed):
            raise InputError(f"No candidate has size {max_size:g} or less", f"the smallest is {sizes.min():.3f}")
    best = np.lexsort([key[allowed] for key in keys])[0]
    return comparison.scores[int(allowed[best])], words


def pick(comparison: Comparison, score: Method, preference: str) -> Pick:
    """Return the given score with its mean size and singleton rate in the comparison; `preference` is in words."""
    of_score = comparison.scores.index(score)
    means = (float(comparison.metric(name)[of_score].mean()) for name in ("mean_size", "singleton_rate"))
    return Pick(preference, score, *means)


def picks(comparison: Comparison) -> tuple[Pick, Pick, Pick]:
    """Pick three scores: smallest sets, most singletons, and most singletons at nearly the smallest mean size."""
    preferences = ("size", None), ("singletons", np.inf), ("singletons", None)
    smallest, most, both = (pick(comparison, *choose_by_preference(comparison, *each)) for each in preferences)
    return smallest, most, both


@checked
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
    """Compare many values of one parameter of a score on the same random splits.

    Args:
        probs: (n, K) probabilities of rows that the classifier was not trained on.
        labels: true class of each row, as index or name.
        score: a score, or its name with parameters, such as "repip(k_reg=2)".
        alpha: significance level (miscoverage).
        parameter: the parameter to vary; by default the score's first: gamma of RePIP, lam of
            RAPS and SAPS, beta of PIP, mu of SOCOP.
        values: the values of the parameter.
        splits: the number of random splits.
        calibration_fraction: share of the rows used for calibration; the others are test rows.
        seed: the seed of the splits.
        classes: names of the K columns; by default the column names of a data frame, else 0 … K − 1.
        from_logits: whether `probs` are logits, to which a softmax is applied.

    Returns:
        A Sweep with the comparison of all values.

    Raises:
        InputError: the score has no such parameter.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> swept = pippin.sweep(data.probs, data.labels, "repip", parameter="gamma", values=(0, 0.02, 0.5), splits=20)
    >>> swept.summary()["mean_size"].round(2).to_list()
    [1.65, 1.45, 1.4]
    """
    base = parse_score(score)
    numeric = [name for name, value in base.parameters if not isinstance(value, bool | tuple)]
    if not numeric:
        raise InputError(f"The score {base.name} has no parameter to sweep", "choose repip, raps, saps, pip or socop")
    if parameter is not None and parameter not in numeric:
        raise InputError(f"Expected a parameter of {base.name} ({', '.join(numeric)}), got {parameter!r}")
    chosen = parameter or numeric[0]
    steps = tuple(dict.fromkeys(islice(values, MOST_VALUES + 1)))
    if len(steps) > MOST_VALUES:
        raise InputError(f"Expected at most {MOST_VALUES:,} values, got more", "a sweep compares some tens of them")
    methods = parse_methods(base.replace(**{chosen: value}) for value in steps)
    trial = make_trial(as_labelled(probs, labels, classes, from_logits), alpha, calibration_fraction, seed)
    return Sweep(base, chosen, steps, compare_trial(trial, methods, splits))


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """Comparison of many values of one parameter of a score; the result of `pippin.sweep`.

    Attributes:
        score: the score.
        parameter: the name of the parameter.
        values: the values of the parameter.
        comparison: the comparison of all values.
    """

    score: Score
    parameter: str
    values: tuple[float, ...]
    comparison: Comparison

    @property
    def table(self) -> "polars.DataFrame":
        """All metrics as a polars data frame with one row per value and split."""
        return self._with_value(self.comparison.table, self.comparison.splits)

    def summary(self) -> "polars.DataFrame":
        """Compute the mean and standard deviation of every metric over the splits.

        Returns:
            A polars data frame with one row per value.
        """
        return self._with_value(self.comparison.summary(), 1)

    def _with_value(self, table: "polars.DataFrame", each: int) -> "polars.DataFrame":
        import polars

        return table.insert_column(1, polars.Series(self.parameter, np.repeat(self.values, each)))

    def plot(self) -> "tuple[Axes, ...]":
        """Plot mean size and singleton rate against the parameter: a point per split, a line through the means.

        Returns:
            Two Matplotlib axes, the first for mean size, the second for the singleton rate.
        """
        from pippin._plotting.comparison import plot_sweep

        return plot_sweep(self)

    def __repr__(self) -> str:
        return f"Sweep({self.score}, {self.parameter} = {', '.join(f'{value:g}' for value in self.values)})"

    def _repr_html_(self) -> str:
        level = f"{100 * (1 - self.comparison.alpha):g}% requested"
        title = f"{self.score} at {len(self.values)} values of {self.parameter}, {level}: means over the splits"
        columns = shown_means(self.summary().drop("score"))
        columns[self.parameter] = [f"{value:g}" for value in self.values]
        return html_columns(f"{title} ({self.comparison.splits:,})", columns, most=len(self.values), note=MEANINGS)
