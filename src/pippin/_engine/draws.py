"""Seeds and generators, and the random numbers u of randomized scores."""

from typing import Any

import numpy as np

from pippin._runtime.arguments import is_whole
from pippin._runtime.arrays import Vector
from pippin._runtime.errors import InputError
from pippin._theory.scores import Score


def generator_of(seed: Any) -> np.random.Generator:
    """Return a Generator unchanged, or make one from a seed; None means a random seed.

    Raises:
        InputError: the seed is neither a whole number of at least 0 nor a Generator nor None.
    """
    _check(seed)
    return np.random.default_rng(seed)


def _check(seed: Any) -> None:
    """Raise an InputError unless the seed is a whole number of at least 0, a Generator or None."""
    if seed is None:
        return
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer | np.random.Generator):
        remedy = "pass a whole number, and groups and weights by their names"
        raise InputError(f"Expected a seed or a Generator, got {type(seed).__name__}", remedy)
    if not isinstance(seed, np.random.Generator) and seed < 0:
        raise InputError(f"Expected a seed of at least 0, got {seed}", "pass for example seed=0")


def check_seed(seed: Any) -> None:
    """Raise an InputError unless the seed is a whole number of at least 0, which makes results reproducible."""
    if not is_whole(seed, 0):
        raise InputError(f"Expected a seed that is a whole number of at least 0, got {seed!r}", "pass for example 0")


def draws(score: Score, n: int, seed: Any) -> Vector:
    """Draw a uniform random number u per row for a randomized score; return zeros for other scores."""
    if score.randomized:
        return generator_of(seed).random(n)
    _check(seed)
    return np.zeros(n)
