"""Random splits: each is made by its own generator, the same for every method.

Up to MANY rows, the calibrating ones are NumPy's `choice`. Of more, a byte each decides, and then as many rows
change sides, at random, as are too many or too few: whatever number the bytes chose, every set of that size was
as likely, and so is every set of the size that is asked for.
"""

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pippin._compare.trial import Trial
from pippin._engine import dispatch
from pippin._runtime.arrays import Flags, Vector

MANY = 200_000  # rows, beyond which splits are drawn as only so many rows need it
BLOCK = 1 << 16  # rows for which u is drawn at once


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
    calibration = draw_calibration(trial, generator)
    u = np.empty(trial.n)
    if trial.n > MANY:
        for start, drawn in u_in_blocks(generator, calibration):
            u[start : start + len(drawn)] = drawn
    else:
        dispatch.engine_for(0).deal(calibration, generator.random(trial.n), u)
    return Split(calibration, u, partial(after_choice, trial, index))


def u_in_blocks(generator: np.random.Generator, calibration: Flags) -> Iterator[tuple[int, Vector]]:
    """The same u, block of rows after block, from a generator that has chosen who calibrates: from which row on, and u.

    The numbers of test rows come after those of all who calibrate: they are read in the same stream, further on.
    """
    ahead: Any = copy.deepcopy(generator.bit_generator)
    ahead.advance(int(np.count_nonzero(calibration)))
    further, deal = np.random.Generator(ahead), dispatch.engine_for(0).deal
    room, u = np.empty((2, min(BLOCK, len(calibration))))
    for start in range(0, len(calibration), BLOCK):
        own = calibration[start : start + BLOCK]
        n, inner = len(own), np.count_nonzero(own)
        generator.random(out=room[:inner])
        further.random(out=room[inner:n])
        deal(own, room[:n], u[:n])
        yield start, u[:n]


def after_choice(trial: Trial, index: int) -> np.random.Generator:
    """The split's generator once it has chosen the calibration rows."""
    generator = split_generator(trial.seed, index)
    draw_calibration(trial, generator)
    return generator


def draw_splits(trial: Trial, indices: range, randomized: bool) -> tuple[Flags, Vector]:
    """Some splits, (splits, n): who calibrates, and u; without a u, if no score takes one."""
    if randomized:
        drawn = [draw_split(trial, index) for index in indices]
        return np.stack([split.calibration for split in drawn]), np.stack([split.u for split in drawn])
    calibrations = [draw_calibration(trial, split_generator(trial.seed, index)) for index in indices]
    return np.stack(calibrations), np.zeros((len(indices), trial.n))


def draw_calibration(trial: Trial, generator: np.random.Generator) -> Flags:
    """Who calibrates: n_calibration of the n rows, every choice of so many as likely as any other."""
    if trial.n > MANY:
        return choose_of_many(trial.n, trial.n_calibration, generator)
    calibration = np.zeros(trial.n, dtype=bool)
    calibration[generator.choice(trial.n, trial.n_calibration, replace=False, shuffle=False)] = True
    return calibration


def choose_of_many(n: int, size: int, generator: np.random.Generator) -> Flags:
    """`size` of n rows: each by a byte of its own, then those that are too many or too few at random."""
    raw = generator.bit_generator.random_raw(-(-n // 8)).astype("<u8", copy=False)
    chosen: Flags = raw.view(np.uint8)[:n] < round(256 * size / n)
    while excess := np.count_nonzero(chosen) - size:
        rows = generator.integers(0, n, 4 * abs(excess))
        rows = rows[chosen[rows] == (excess > 0)]  # a row that is drawn again counts where it was drawn first
        rows = rows[np.sort(np.unique(rows, return_index=True)[1])]
        chosen[rows[: abs(excess)]] ^= True
    return chosen
