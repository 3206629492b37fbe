"""Calibration with sharpeners (recalibration of probabilities) that are fitted on a part of the labeled rows."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.calibrate import CalibrateLabelled, Settings, calibrate_labelled
from pippin._conformal.predictor import mixture
from pippin._decisions.utility import Utility
from pippin._engine.draws import check_seed
from pippin._runtime.arrays import Codes
from pippin._runtime.errors import InputError
from pippin._sharpening.learning import FEWEST, OutOfFold, sharpen_labelled
from pippin._sharpening.sharpener import CheckedFeatures, Sharpener, as_features
from pippin._sharpening.step import SharpeningStep
from pippin._theory.level import as_alpha
from pippin._theory.scores import Score, socop
from pippin._theory.spelling import IpMs, parse_score, read_call
from pippin._validation.index import same_index
from pippin._validation.labels import Labelled, as_numbered_groups
from pippin._validation.memberships import Memberships
from pippin._validation.rows import Rows, as_array

FOLDS = 5  # default
MOST_FOLDS = 100  # a sharpener is fitted and saved for each
MODES = ("split", "mixture", "cross")
# Values among which SOCOP's parameter μ is selected.
PRICES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 512.0)


class _Task(NamedTuple):
    """Labeled rows to divide between fitting a sharpener (recalibration map) and calibrating, with settings.

    `calibrate_on` is a function that calibrates on rows that are already recalibrated.
    """

    data: Labelled
    features: CheckedFeatures | None
    settings: Settings
    seed: int
    calibrate_on: CalibrateLabelled

    def fit(self, rows: NDArray[np.intp]) -> tuple[Sharpener, OutOfFold]:
        """Fit a sharpener on the rows with these indices; return it, and recalibrated out-of-fold probabilities."""
        return sharpen_labelled(self.data.take(rows), self._features(rows), self.seed)

    def sharpened(self, sharpener: Sharpener, rows: NDArray[np.intp]) -> Labelled:
        """Return the rows with these indices, after recalibration by the sharpener."""
        part = self.data.take(rows)
        return part._replace(rows=sharpener.rows(part.rows, features=self._features(rows)))

    def calibrate(self, sharpener: Sharpener, rows: NDArray[np.intp]) -> Any:
        """Calibrate on the rows with these indices, recalibrated by a sharpener fitted on other rows."""
        settings = self.settings
        options = {name: _take(value, rows) for name, value in settings.options.items()}
        taxonomy = settings.taxonomy._replace(groups=_take(settings.taxonomy.groups, rows))
        settings = settings._replace(taxonomy=taxonomy, options=options)
        return self.calibrate_on(self.sharpened(sharpener, rows), settings, SharpeningStep((sharpener,)))

    def _features(self, rows: NDArray[np.intp]) -> Any:
        return None if self.features is None else self.features.take(rows)


def calibrate_sharpened(
    sharpen: Any, data: Labelled, features: Any, settings: Settings, calibrate_on: CalibrateLabelled
) -> Any:
    """Fit sharpeners (recalibration maps) on some rows and calibrate on others: mode split, mixture or cross."""
    mode, fraction, n_folds = _mode(sharpen)
    seed: Any = 0 if settings.seed is None else settings.seed
    check_seed(seed)
    n = data.rows.n
    same_index("probs", data.rows.index, features=features, groups=settings.taxonomy.groups, **settings.options)
    learning = round(fraction * n) if mode == "split" else n - -(-n // n_folds)
    if not FEWEST <= learning < n or n < n_folds:
        raise InputError(f"Expected more rows, to learn on some and calibrate on others, got {n}", "pass more rows")
    if mode != "split" and (settings.taxonomy.per is not None or settings.confidence or settings.options):
        what = f"Expected sharpen={mode!r} for one guarantee over all rows, got another keyword with it"
        raise InputError(what, "use sharpen='split'")
    given = None if features is None else as_features(features, n)
    score, constraint = _constraint(settings.score, mode)
    task = _Task(data, given, settings._replace(score=score, seed=int(seed)), int(seed), calibrate_on)
    if mode == "split":
        return _split(task, fraction, constraint)
    parts = [np.sort(part) for part in np.array_split(np.random.default_rng(task.seed).permutation(n), n_folds)]
    sharpeners = [task.fit(np.setdiff1d(np.arange(n), part))[0] for part in parts]
    if mode == "mixture":
        return mixture(list(map(task.calibrate, sharpeners, parts)), sharpeners)
    return _cross(task, sharpeners, parts)


def _mode(sharpen: Any) -> tuple[str, float, int]:
    """Parse the keyword `sharpen`; return the mode, the share of rows that fit the sharpener, and the number of folds.

    The share is used for "split" only, and the number of folds for "mixture" and "cross".
    """
    text = "split" if sharpen is True else sharpen
    name, parameters = read_call(text) if isinstance(text, str) else (None, {})
    known = {"split": {"learning_fraction"}, "cross": {"folds"}}.get(str(name), set())
    if name not in MODES or not set(parameters) <= known:
        what = f"Expected sharpen to be a Sharpener, True, 'split', 'mixture' or 'cross', got {sharpen!r}"
        raise InputError(what, "fit one with pippin.sharpen, or write sharpen='split'")
    fraction = parameters.get("learning_fraction", 0.5)
    folds = parameters.get("folds", FOLDS)
    if type(folds) is not int or not 2 <= folds <= MOST_FOLDS:
        what = f"Expected a whole number of folds from 2 to {MOST_FOLDS}, got {folds!r}"
        raise InputError(what, f"{FOLDS} is the default")
    return str(name), as_alpha(fraction, "a learning fraction", "0.5 learns on half of the rows"), folds


def _split(task: _Task, fraction: float, constraint: "dict[str, float] | None") -> Any:
    """Fit a sharpener (recalibration map) on a share of the rows, or of the clusters of rows; calibrate on the rest.

    With a `constraint` on set sizes, first select SOCOP's parameter μ.
    """
    n = task.data.rows.n
    generator = np.random.default_rng(task.seed)
    units = task.settings.options.get("units")
    if units is None:
        fitting, calibrating = map(np.sort, np.split(generator.permutation(n), [round(fraction * n)]))
    else:  # divide the units (clusters of rows)
        codes, names = as_numbered_groups(units, n, "units")
        inside = np.isin(codes, generator.permutation(len(names))[: round(fraction * len(names))])
        fitting, calibrating = np.flatnonzero(inside), np.flatnonzero(~inside)
    sharpener, held_out = task.fit(fitting)
    if constraint:
        score = _select_mu(held_out, task.data.labels[fitting], task.settings.alpha, constraint)
        task = task._replace(settings=task.settings._replace(score=score))
    return task.calibrate(sharpener, calibrating)


def _cross(task: _Task, sharpeners: list[Sharpener], parts: list[NDArray[np.intp]]) -> Any:
    """Calibrate cross-conformally; each fold of rows is recalibrated by the sharpener that was fitted without it."""
    rows, labels, classes = task.data
    sharper = np.empty((rows.n, rows.n_classes), dtype=np.float32)
    folds = np.empty(rows.n, dtype=np.int64)
    for number, (sharpener, part) in enumerate(zip(sharpeners, parts, strict=True)):
        folds[part] = number
        sharper[part] = task.sharpened(sharpener, part).rows.array
    data, settings = Labelled(Rows(sharper), labels, classes), task.settings._replace(options={"folds": folds})
    return task.calibrate_on(data, settings, SharpeningStep(tuple(sharpeners), "folds"))


def _constraint(score: Any, mode: str) -> tuple[Any, "dict[str, float] | None"]:
    """Parse the score; return it, and the constraint (max_size or min_singletons) that selects SOCOP's μ, or None."""
    name, parameters = read_call(score) if isinstance(score, str) else (None, {})
    constraint = {key: value for key, value in parameters.items() if key in ("max_size", "min_singletons")}
    if not constraint:
        return score if isinstance(score, IpMs | Utility) else parse_score(score), None
    if name != "socop" or mode != "split" or len(parameters) > 1:
        what = f"Expected socop(max_size=…) or socop(min_singletons=…) with sharpen='split', got {score!r} and {mode!r}"
        raise InputError(what, "name μ instead, as in socop(mu=8)")
    [(key, value)] = constraint.items()
    most = 1 if key == "min_singletons" else math.inf
    if not isinstance(value, int | float) or not 0 < value <= most or value == math.inf:
        raise InputError(f"Expected {key} to be a number above 0{' and at most 1' * (most == 1)}, got {value!r}")
    return socop(), constraint


def _select_mu(held_out: OutOfFold, labels: Codes, alpha: Any, constraint: "dict[str, float]") -> Score:
    """Select the parameter μ of SOCOP under a constraint, with out-of-fold probabilities of the rows for fitting.

    With `max_size`, the μ with the most singletons is selected among those with a mean set size of at most `max_size`.
    With `min_singletons`, the μ with the smallest mean size is selected among those with at least this singleton rate.
    """
    rows = Rows(held_out.probs, checked=True)
    data = Labelled(rows, labels[held_out.rows], range(rows.n_classes))
    sizes = [calibrate_labelled(data, Settings(socop(price), alpha)).predict(rows).sizes for price in PRICES]
    mean_size = np.array([of_price.mean() for of_price in sizes])
    singletons = np.array([(of_price == 1).mean() for of_price in sizes])
    if "max_size" in constraint:
        feasible = mean_size <= constraint["max_size"]
        best = np.where(feasible, singletons, -1).argmax() if feasible.any() else mean_size.argmin()
    else:
        feasible = singletons >= constraint["min_singletons"]
        best = np.where(feasible, mean_size, np.inf).argmin() if feasible.any() else singletons.argmax()
    return socop(PRICES[best])


def _take(values: Any, rows: NDArray[np.intp]) -> Any:
    """Return the values at these row indices; None and `LabelRatios` (one value per class) are unchanged."""
    if isinstance(values, Memberships):
        return values.take(rows)
    if values is None or isinstance(values, tuple):
        return values
    array = values if isinstance(values, np.ndarray) else np.asarray(values, dtype=object)
    return array[rows] if array.dtype.kind in "iufbUO" else as_array(values)[rows]
