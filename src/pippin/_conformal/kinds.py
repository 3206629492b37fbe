"""Classes that fall into kinds, such as crop and weed, and a level for each kind."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pippin._runtime.arrays import Classes, Codes, read_only
from pippin._runtime.errors import InputError
from pippin._theory.level import as_alpha
from pippin._theory.shortage import warn_of_level
from pippin._validation.labels import shortened

Level = float | Mapping[str, float]  # for all, or for every kind


class Kinds(NamedTuple):
    """The names of the kinds, in the order of their first class, and the number of each class's kind."""

    names: tuple[str, ...]
    of: Codes

    def by_class(self) -> list[str]:
        """The kind of each class."""
        return [self.names[k] for k in self.of]


def as_kinds(kinds: Mapping[Any, str], classes: Classes) -> Kinds:
    """The kind of every class.

    Raises:
        InputError: a class has no kind, or what has one is no class.

    >>> as_kinds({"maize": "crop", "charlock": "weed", "wheat": "crop"}, ("charlock", "maize", "wheat"))
    Kinds(names=('weed', 'crop'), of=array([0, 1, 1]))
    """
    known = by_text(kinds)
    for name in map(str, classes):
        if name not in known:
            raise InputError(
                f"Expected a kind for each of the {len(classes)} classes ({shortened(classes)}), got none for {name!r}",
                "name its kind too",
            )
    if strange := set(known) - set(map(str, classes)):
        raise InputError(
            f"Got a kind for {min(strange)!r}, which is none of the {len(classes)} classes ({shortened(classes)})",
            "correct its name, or leave it out",
        )
    names = tuple(dict.fromkeys(str(known[str(name)]) for name in classes))
    return Kinds(names, read_only(np.array([names.index(str(known[str(name)])) for name in classes], dtype=np.int64)))


def by_text(given: Mapping[Any, Any]) -> dict[str, Any]:
    """By the text of the names, so that the class 1 may be spelled "1".

    >>> by_text({1: "crop", "1": "weed"})
    Traceback (most recent call last):
    pippin._runtime.errors.InputError: Got two entries that are spelled '1': leave one of them out.
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        if str(name) in found:
            raise InputError(f"Got two entries that are spelled {str(name)!r}", "leave one of them out")
        found[str(name)] = value
    return found


def as_levels(alpha: Any, kinds: Kinds | None) -> tuple[float, ...] | None:
    """A level for every kind; None where one level serves all.

    Raises:
        InputError: levels by kind where there are no kinds, a kind without one, or one of no kind.
    """
    if not isinstance(alpha, Mapping):
        as_alpha(alpha)
        return None
    if kinds is None:
        raise InputError(
            "Expected one alpha, got one per kind where there are no kinds", "pass per={class: kind} too, or one alpha"
        )
    if missing := [name for name in kinds.names if name not in alpha]:
        raise InputError(f"Expected an alpha for every kind, got none for {missing[0]!r}", "add it")
    if strange := [name for name in alpha if name not in kinds.names]:
        raise InputError(
            f"Got an alpha for {strange[0]!r}, which is none of the kinds ({', '.join(kinds.names)})",
            "correct its name",
        )
    return tuple(as_alpha(alpha[name]) for name in kinds.names)


def as_level(alpha: Any, kinds: Kinds | None) -> tuple[float, tuple[float, ...] | None]:
    """The level, and those of the kinds; where these have some of their own, it is the largest.

    >>> as_level({"crop": 0.1, "weed": 0.05}, Kinds(("weed", "crop"), np.array([0, 1])))
    (0.1, (0.05, 0.1))
    """
    levels = as_levels(alpha, kinds)
    return as_alpha(alpha) if levels is None else max(levels), levels


def warn_of_levels(alpha: Any) -> None:
    """Warns of a level, that of all or of a kind, that is likely meant the other way round."""
    for level in alpha.values() if isinstance(alpha, Mapping) else (alpha,):
        warn_of_level(as_alpha(level))


def rare_kinds(kinds: Kinds, counts: Codes, needed: Codes, outcome: str) -> str:
    """What kinds lack whose threshold is infinite, in words."""
    few = [
        f"{name} has {n:,} and needs {least:,}"
        for name, n, least in zip(kinds.names, counts.tolist(), needed.tolist(), strict=True)
        if n < least
    ]
    return (
        f"{len(few):,} of {len(kinds.names):,} thresholds are infinite, by too few calibration examples: "
        f"{', '.join(few)}. {outcome}: collect more."
    )
