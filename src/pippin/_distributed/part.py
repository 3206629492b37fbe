"""What calibration keeps of some rows, and u for rows that are not the first."""

import copy
from typing import Any, NamedTuple

import numpy as np

from pippin._engine.draws import generator_of
from pippin._runtime.arrays import Codes, Indices, Vector
from pippin._runtime.errors import InputError
from pippin._validation.labels import Groups


class Part(NamedTuple):
    """The scores of the true labels of some rows, and what their cells follow from, as far as it is asked for.

    Attributes:
        scores: the scores of the true labels.
        labels: the classes, by number.
        groups: those of these rows.
        ranks: the ranks of the labels, from 1.
        first: how many rows come before.
    """

    scores: Vector
    labels: Codes | None = None
    groups: Groups | None = None
    ranks: Indices | None = None
    first: int = 0


def joined(parts: "list[Part]") -> Part:
    """Several parts as one, in the order of their rows; there must be one at least."""
    ordered = sorted(parts, key=lambda part: part.first)
    labels, ranks = (
        None if getattr(ordered[0], name) is None else np.concatenate([getattr(part, name) for part in ordered])
        for name in ("labels", "ranks")
    )
    groups = None
    if ordered[0].groups is not None:
        names = united([part.groups.names for part in ordered if part.groups is not None])
        groups = Groups(np.concatenate([numbered(part.groups, names) for part in ordered]), names)
    return Part(np.concatenate([part.scores for part in ordered]), labels, groups, ranks, ordered[0].first)


def united(several: "list[tuple[str | int, ...]]") -> tuple[str | int, ...]:
    """The names of all groups in order; as text, unless all are whole numbers.

    >>> united([(2, 10), (1,)]), united([(2, 10), ("b",)])
    ((1, 2, 10), ('10', '2', 'b'))
    """
    every = {name for names in several for name in names}
    text = any(isinstance(name, str) for name in every)
    return tuple(sorted({str(name) for name in every} if text else every, key=str if text else int))


def numbered(groups: Groups | None, names: tuple[str | int, ...]) -> Codes:
    """The groups of some rows by number, as they are among all names."""
    assert groups is not None
    text = bool(names) and isinstance(names[0], str)
    place = {name: code for code, name in enumerate(names)}
    return np.array([place[str(name) if text else name] for name in groups.names], dtype=np.int64)[groups.codes]


def positioned(seed: Any, first: int) -> np.random.Generator:
    """A generator that goes on where one that has drawn for `first` rows would; the one given stays as it is.

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


def compact(labels: Codes) -> Any:
    """Classes by number in as few bytes as they need.

    >>> compact(np.array([3, 200])).dtype
    dtype('uint8')
    """
    most = int(labels.max(initial=0))
    return labels.astype(np.min_scalar_type(most))
