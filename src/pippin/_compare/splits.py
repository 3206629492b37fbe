"""Random splits: each is made by its own generator, the same for every method."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from pippin._compare.trial import Trial
from pippin._engine import dispatch
from pippin._runtime.arrays import Flags, Vector


class Split(NamedTuple):
    """Who calibrates, a u for each row, and the split's generator as it is once the calibrating rows are chosen."""

    calibration: Flags
    u: Vector
    generator: Callable[[], np.random.Generator]


def split_generator(seed: int, index: int) -> np.random.Generator:
    """The source of all randomness of one split."""
    return np.random.default_rng([seed, index])


def draw_split(trial: Trial, index: int) -> Split:
    """Split number `index`.

    The split's generator first chooses the calibration rows, then draws u for them and
    for the test rows, each in row order; `calibrate(…, seed=generator)` followed by
    `predict(…, seed=generator)` draws the same.
    """
    generator = split_generator(trial.seed, index)
    calibration = _draw_calibration(trial, generator)
    u = np.empty(trial.n)
    dispatch.engine_for(0).deal(calibration, generator.random(trial.n), u)
    return Split(calibration, u, partial(after_choice, trial, index))


def after_choice(trial: Trial, index: int) -> np.random.Generator:
    """The split's generator once it has chosen the calibration rows."""
    generator = split_generator(trial.seed, index)
    _draw_calibration(trial, generator)
    return generator


def draw_splits(trial: Trial, indices: range, randomized: bool) -> tuple[Flags, Vector]:
    """Some splits, (splits, n): who calibrates, and u; without a u, if no score takes one."""
    if randomized:
        drawn = [draw_split(trial, index) for index in indices]
        return np.stack([split.calibration for split in drawn]), np.stack([split.u for split in drawn])
    calibrations = [_draw_calibration(trial, split_generator(trial.seed, index)) for index in indices]
    return np.stack(calibrations), np.zeros((len(indices), trial.n))


def _draw_calibration(trial: Trial, generator: np.random.Generator) -> Flags:
    calibration = np.zeros(trial.n, dtype=bool)
    calibration[generator.choice(trial.n, trial.n_calibration, replace=False, shuffle=False)] = True
    return calibration
