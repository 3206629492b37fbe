"""What thresholds are per: which calibration examples speak for a class of an object, and their files."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.cells import Cells, Placement, by_class, by_group
from pippin._conformal.content import Content, need, rising, whole_numbers
from pippin._conformal.kinds import Kinds, as_kinds, rare_kinds
from pippin._conformal.saving import listed
from pippin._runtime.arrays import Classes, Codes, Indices, Vector, read_only
from pippin._runtime.errors import InputError
from pippin._theory.level import as_alpha
from pippin._theory.shortage import named
from pippin._validation.index import same_index
from pippin._validation.labels import Labelled, as_groups, as_numbered_groups

Per = Literal["class", "group", "class and group", "cluster", "rc3p"]
PER: tuple[str, ...] = get_args(Per)
KIND = "kind"  # what a mapping of classes to kinds is called in files and in words
GroupNames = tuple[str | int | None, ...]  # the name None stands for every group that was not seen
UNSEEN = ("error", "marginal")


class Grouping(NamedTuple):
    """What thresholds are per: the groups of the rows, and what becomes of others later, belong to it."""

    per: str | Mapping[Any, str]
    groups: ArrayLike | None = None
    unseen: str = "error"

    @property
    def name(self) -> str:
        """What thresholds are per, in words."""
        return self.per if isinstance(self.per, str) else KIND

    def check(self) -> None:
        """Raises an InputError where the three do not fit together."""
        per, groups, unseen = self.name, self.groups, self.unseen
        if isinstance(self.per, str) and per not in PER:
            raise InputError(f"Expected per to be one of {', '.join(map(repr, PER))}, or {{class: kind}}, got {per!r}")
        if unseen not in UNSEEN:
            raise InputError(f"Expected unseen to be 'error' or 'marginal', got {unseen!r}")
        if unseen != "error" and groups is None:
            raise InputError(
                f"Expected groups beside unseen={unseen!r}, got none",
                "pass groups=, one per row, or leave unseen= out",
            )
        if ("group" in per) != (groups is not None):
            got = "no groups" if groups is None else "groups"
            raise InputError(
                f"Expected groups where thresholds are per group and only there, got per={per!r} and {got}",
                "pass groups=, one per row" if groups is None else "leave groups= out, or ask per='class and group'",
            )


class Celled(NamedTuple):
    """Calibration scores in their cells, the names of the groups, and the kinds of the classes, where there are any."""

    cells: Cells
    groups: GroupNames | None
    kinds: Kinds | None


class Places(NamedTuple):
    """Where calibration rows belong, with the names of the groups and the kinds of the classes, where there are any."""

    placement: Placement
    groups: GroupNames | None
    kinds: Kinds | None


def places(grouping: Grouping, classes: Classes, names: tuple[str | int, ...] | None) -> Places:
    """The cells of thresholds per class, kind, group, or class and group; `names` are those of the groups."""
    if not isinstance(grouping.per, str):
        kinds = as_kinds(grouping.per, classes)
        return Places(Placement(kinds.of[None].astype(np.int32), kinds.of), None, kinds)
    if names is None:
        return Places(by_class(len(classes)), None, None)
    known: GroupNames = (*names, None) if grouping.unseen == "marginal" else names
    return Places(by_group(len(names), len(classes), "class" in grouping.per, grouping.unseen), known, None)


def celled(scores: Vector, data: Labelled, grouping: Grouping, ranks: Indices | None = None) -> Celled:
    """The cells of thresholds per class, kind, group, or class and group."""
    grouping.check()
    rows, labels, classes = data
    same_index("probs", rows.index, groups=grouping.groups)
    groups = None if grouping.groups is None else as_numbered_groups(grouping.groups, rows.n)
    codes, names = (None, None) if groups is None else groups
    placement, known, kinds = places(grouping, classes, names)
    return Celled(placement.cells(scores, labels, codes, ranks), known, kinds)


class PerCell(Protocol):
    """What has a limit for every cell: thresholds, or multipliers of decisions."""

    @property
    def per(self) -> str | None: ...
    @property
    def alpha(self) -> float: ...
    @property
    def classes(self) -> Classes: ...
    @property
    def groups(self) -> GroupNames | None: ...
    @property
    def cells(self) -> Cells: ...
    @property
    def kinds(self) -> Kinds | None: ...
    @property
    def levels(self) -> tuple[float, ...] | None: ...


def rare_cells(held: PerCell, what: str, of_kinds: str, of_others: str) -> str | None:
    """The cells whose limit is infinite, what they lack, and what comes of it; None where there are none.

    Args:
        what: the limits in a word.
        of_kinds: what comes of it where cells are kinds of classes.
        of_others: and elsewhere.
    """
    counts, needed = held.cells.counts, held.cells.needed(held.levels or held.alpha)
    few = np.flatnonzero(counts < needed)
    if not len(few):
        return None
    if held.kinds is not None:
        return rare_kinds(held.kinds, counts, needed, of_kinds)
    classes = None if held.per == "group" else held.classes
    told = named(few, counts, held.cells.of, classes, held.groups, held.per == "cluster")
    return (
        f"{len(few):,} of {len(counts):,} {what} are infinite, because alpha={held.alpha:g} needs "
        f"{needed[0]:,} calibration examples each: {told}. {of_others}."
    )


def group_codes(known: GroupNames | None, per: str, groups: ArrayLike | None, n: int) -> Codes | None:
    """The row of thresholds that each object uses; the group 1 may be spelled "1", and the other way round.

    None without groups, where all use the same.
    """
    if known is None:
        if groups is not None:
            raise InputError(
                f"This predictor has a threshold per {per} and knows no groups",
                'leave groups= out, or calibrate with per="group"',
            )
        return None
    if groups is None:
        raise InputError(
            f"This predictor has thresholds per {per}",
            "pass groups=, one per row",
            "add an array groups (.npz) or a column group (.csv, .parquet) to the data",
        )
    given = as_groups(groups, n)
    numbers = {name: code for code, name in enumerate(known)}
    other = numbers.pop(None, -1)
    numbers |= {str(name): code for name, code in numbers.items()}
    codes = np.array([numbers.get(name, numbers.get(str(name), other)) for name in given.tolist()], dtype=np.int64)
    if (codes < 0).any():
        row = int((codes < 0).argmax())
        raise InputError(
            f"is in the group {given[row].item()!r}, which the calibration has not seen",
            'calibrate with such rows, or with unseen="marginal" to give them a threshold of their own',
            "calibrate with such rows, or with --unseen marginal to give them a threshold of their own",
            row,
        )
    return codes


def kinds_of(content: Content, classes: Any, cells: Cells) -> Kinds:
    """The kinds of a file: one per class, the same for those that share a cell."""
    given = content.take("kinds", lambda value: isinstance(value, list) and len(value) == len(classes))
    need("kinds", all(isinstance(kind, str) for kind in given))
    kinds = as_kinds(dict(zip(map(str, classes), given, strict=True)), classes)
    need("kinds", bool((kinds.of == cells.of[0]).all()))
    return kinds


def levels_of(content: Content, alpha: float, kinds: Kinds | None) -> tuple[float, ...] | None:
    """The levels of a file, one for each kind, where it has some; the largest is its alpha."""
    given = None if kinds is None else content.take("levels")
    if given is None or kinds is None:
        return None
    need("levels", isinstance(given, list) and len(given) == len(kinds.names))
    need("levels", all(isinstance(level, float) and as_alpha(level) == level for level in given))
    need("alpha", max(given) == alpha)
    return tuple(given)


def group_names(names: list[Any] | None) -> GroupNames | None:
    """The names of the groups of a file."""
    if names is None:
        return None
    others = [name for name in names if name is not None]
    alike = any(all(isinstance(name, kind) for name in others) for kind in (str, int))
    need("groups", bool(others) and alike and len(set(names)) == len(names) and None not in names[:-1])
    return tuple(names)


def cells_content(held: PerCell, scores: bool) -> dict[str, Any]:
    """The groups and the cells, as a file holds them; their scores, if they are wanted."""
    kept = held.cells.scores if scores else None
    return {
        "groups": None if held.groups is None else list(held.groups),
        "cells": held.cells.of.tolist(),
        "cell_counts": held.cells.counts.tolist(),
        "calibration_scores": listed(kept),
        "calibration_ranks": None if kept is None else listed(held.cells.ranks),
    }


def cells_of(content: Content, per: str, n: int, shape: tuple[int, int], shared: bool) -> Cells:
    """The cells of a file, with their scores, if it has them; `shared`, where one more cell may hold all of them."""
    of = whole_numbers("cells", content.take("cells"), np.int32)
    counts = whole_numbers("cell_counts", content.take("cell_counts"), np.int64)
    need("cell_counts", counts.ndim == 1 and bool((counts >= 0).all()))
    need("cells", of.shape == shape and int(of.min()) >= 0 and int(of.max()) < len(counts))
    total = int(counts.sum())
    most = 2 * n if shared else n
    need("n_calibration", n <= total <= most)
    scores = content.optional_numbers("calibration_scores")
    ranks = content.take(
        "calibration_ranks", lambda value: (value is not None) == (per == "rc3p" and scores is not None)
    )
    label_ranks = None if ranks is None else whole_numbers("calibration_ranks", ranks, np.int32)
    if scores is not None:
        cells = np.split(scores, np.cumsum(counts)[:-1])
        need("calibration_scores", len(scores) == total and all(map(rising, cells)))
    if label_ranks is not None:
        need("calibration_ranks", label_ranks.shape == (total,) and bool((label_ranks >= 1).all()))
    return Cells(of, read_only(np.concatenate([[0], np.cumsum(counts)])), scores, label_ranks)
