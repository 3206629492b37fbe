"""Rows to be split again and again, and the splits: each is made by its own generator, the same for every score."""

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._compare.outcomes import Objects, Split, make_objects
from pippin._engine import dispatch
from pippin._engine.plain import Vector
from pippin._inputs.rows import Classes, Rows, as_alpha, as_groups
from pippin._predictors.marginal import warn_of_few


@dataclass(frozen=True, eq=False)
class Trial:
    """Rows to be split again and again: ranked once, their labels given as ranks."""

    rows: Rows
    ranks: NDArray[np.int64]
    n_calibration: int
    alpha: float
    seed: int
    given: Rows
    labels: NDArray[np.int64]
    classes: Classes
    groups: NDArray[np.generic] | None

    @property
    def n_test(self) -> int:
        return self.rows.n - self.n_calibration

    @cached_property
    def objects(self) -> Objects:
        """The rows for methods whose thresholds differ."""
        return make_objects(self.given, self.rows, self.labels, self.ranks, self.classes, self.groups)


def make_trial(
    rows: Rows,
    labels: NDArray[np.int64],
    calibration_fraction: float,
    alpha: float,
    seed: int,
    classes: Classes | None = None,
    groups: ArrayLike | None = None,
) -> Trial:
    """Ranks the rows once for all that follows."""
    if not 0 < calibration_fraction < 1:
        raise ValueError(
            f"Expected a calibration fraction strictly between 0 and 1, got {calibration_fraction!r}: "
            "0.45 leaves 55 % of the rows to test."
        )
    n_calibration = round(calibration_fraction * rows.n)
    if not 0 < n_calibration < rows.n:
        raise ValueError(
            f"Expected enough rows for both calibration and test, got {rows.n} with a calibration fraction of "
            f"{calibration_fraction}: pass more rows."
        )
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"Expected a seed that is a whole number of at least 0, got {seed!r}.")
    warn_of_few(n_calibration, alpha)
    ranked, ranks = dispatch.ranked_rows(rows, labels)
    names = range(rows.n_classes) if classes is None else classes
    given_groups = None if groups is None else as_groups(groups, rows.n)
    return Trial(ranked, ranks, n_calibration, as_alpha(alpha), int(seed), rows, labels, names, given_groups)


def split_generator(seed: int, index: int) -> np.random.Generator:
    """The source of all randomness of one split."""
    return np.random.default_rng([seed, index])


def draw_split(trial: Trial, index: int) -> tuple[NDArray[np.bool_], Vector]:
    """Split number `index`, the same for every score: which rows calibrate, and a u for each row.

    The split's generator first chooses the calibration rows, then draws u for them and
    for the test rows, each in row order; `calibrate(…, seed=generator)` followed by
    `predict(…, seed=generator)` draws the same.
    """
    generator = split_generator(trial.seed, index)
    calibration = _draw_calibration(trial, generator)
    drawn = generator.random(trial.rows.n)
    u = np.empty(trial.rows.n)
    u[np.flatnonzero(calibration)] = drawn[: trial.n_calibration]
    u[np.flatnonzero(~calibration)] = drawn[trial.n_calibration :]
    return calibration, u


def _draw_calibration(trial: Trial, generator: np.random.Generator) -> NDArray[np.bool_]:
    calibration = np.zeros(trial.rows.n, dtype=bool)
    calibration[generator.choice(trial.rows.n, trial.n_calibration, replace=False, shuffle=False)] = True
    return calibration


def draw_splits(trial: Trial, indices: range, randomized: bool) -> tuple[NDArray[np.bool_], Vector]:
    """Some splits, (splits, n); without a u, if no score takes one."""
    if randomized:
        calibrations, u = zip(*(draw_split(trial, index) for index in indices), strict=True)
        return np.stack(calibrations), np.stack(u)
    drawn = np.stack([_draw_calibration(trial, split_generator(trial.seed, index)) for index in indices])
    return drawn, np.zeros(drawn.shape)


def draw_whole_split(trial: Trial, index: int) -> Split:
    """The split with its generator."""
    return Split(*draw_split(trial, index), partial(after_choice, trial, index))


def after_choice(trial: Trial, index: int) -> np.random.Generator:
    """The split's generator once it has chosen the calibration rows."""
    generator = split_generator(trial.seed, index)
    generator.choice(trial.rows.n, trial.n_calibration, replace=False, shuffle=False)
    return generator
