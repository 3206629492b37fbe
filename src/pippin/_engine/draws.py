"""One u per object for a randomised score, from a seed or a generator."""

from typing import Any

import numpy as np

from pippin._runtime.arrays import Vector
from pippin._runtime.errors import InputError
from pippin._theory.scores import Score


def generator_of(seed: Any) -> np.random.Generator:
    """A generator passes through; a seed makes one, and None one from fresh entropy.

    Raises:
        InputError: something else stands where the seed belongs, such as groups.
    """
    _check(seed)
    return np.random.default_rng(seed)


def _check(seed: Any) -> None:
    if seed is None:
        return
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer | np.random.Generator):
        raise InputError(
            f"Expected a seed or a Generator, got {type(seed).__name__}",
            "pass a whole number, and groups and weights by their names",
        )
    if isinstance(seed, int | np.integer) and seed < 0:
        raise InputError(f"Expected a seed of at least 0, got {seed}", "pass for example seed=0")


def check_seed(seed: Any) -> None:
    """Raises an InputError where a seed cannot stand for the same numbers every time."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(
            f"Expected a seed that is a whole number of at least 0, got {seed!r}", "pass for example seed=0"
        )


def draws(score: Score, n: int, seed: Any) -> Vector:
    """One u per object for a randomised score; zeros for any other, which takes none."""
    if score.randomized:
        return generator_of(seed).random(n)
    _check(seed)
    return np.zeros(n)
