"""Calibration scores of some rows, group names of several parts, and random numbers by row position."""

import copy
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from pippin._engine.draws import generator_of
from pippin._runtime.arrays import Codes, Indices, Vector
from pippin._runtime.errors import InputError
from pippin._validation.labels import Groups


class Part(NamedTuple):
    """Nonconformity scores of the true labels of some rows, and what determines their Mondrian cells.

    Attributes:
        scores: the scores of the true labels.
        labels: the classes by number, where thresholds are per class, group or cluster.
        groups: the groups of these rows, where thresholds are per group.
        ranks: the ranks of the labels, from 1, for RC3P.
        first: the number of rows before these, in all parts.
    """

    scores: Vector
    labels: Codes | None = None
    groups: Groups | None = None
    ranks: Indices | None = None
    first: int = 0


def united(several: Iterable[tuple[str | int, ...]]) -> tuple[str | int, ...]:
    """Return all group names in order; as text, unless all are whole numbers.

    >>> united([(2, 10), (1,)]), united([(2, 10), ("b",)])
    ((1, 2, 10), ('10', '2', 'b'))
    """
    every = {name for names in several for name in names}
    text = any(isinstance(name, str) for name in every)
    return tuple(sorted({str(name) for name in every} if text else every, key=str if text else int))


def numbered(groups: Groups, names: tuple[str | int, ...]) -> Codes:
    """Return the group of every row as its position in `names`."""
    text = bool(names) and isinstance(names[0], str)
    place = {name: code for code, name in enumerate(names)}
    return np.array([place[str(name) if text else name] for name in groups.names], dtype=np.int64)[groups.codes]


def positioned(seed: Any, first: int) -> np.random.Generator:
    """Return a copy of the generator, advanced past one draw for each of the first `first` rows.

    >>> alone = np.random.default_rng(7).random(5)
    >>> bool((positioned(7, 3).random(2) == alone[3:]).all())
    True
    """
    generator = copy.deepcopy(generator_of(seed))
    if not hasattr(generator.bit_generator, "advance"):
        raise InputError(
            f"Expected a seed or a Generator that can be advanced, got one of {type(generator.bit_generator).__name__}",
            "pass a whole number, or numpy.random.default_rng(number)",
        )
    generator.bit_generator.advance(first)
    return generator


def compact(codes: Codes | Indices) -> Any:
    """Convert classes, groups or ranks to the smallest unsigned type that holds them.

    >>> compact(np.array([3, 200])).dtype
    dtype('uint8')
    """
    return codes.astype(np.min_scalar_type(int(codes.max(initial=0))))
