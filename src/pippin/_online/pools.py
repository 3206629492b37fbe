"""Whose scores a new one is held against: all of them, or those of its own class, kind or group."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from pippin._conformal.conditional import ConditionalPredictor
from pippin._conformal.grouping import GroupNames
from pippin._conformal.marginal import Predictor
from pippin._runtime.arrays import Vector
from pippin._runtime.errors import InputError
from pippin._theory.scores import Score

ALIKE = ("class", "kind", "group", "class and group")  # what a cell may be: no row is in two of them


@dataclass(frozen=True, eq=False)
class Pools:
    """The calibration scores of every cell, its level, and `of[g][k]`: the cell of class k in group g.

    `shared` are the cells that speak for groups that were not seen: they hold everybody's scores.
    """

    score: Score
    of: list[list[int]]
    scores: list[Vector]
    levels: list[float]
    groups: GroupNames | None
    names: list[Any]
    shared: frozenset[int] = frozenset()
    _codes: dict[Hashable, int] = field(default_factory=dict)

    @property
    def by_class(self) -> bool:
        """Whether the classes of one object have cells of their own."""
        return any(len(set(cells)) > 1 for cells in self.of)

    def group(self, name: Any) -> int:
        """The group of one object, by its name; 0 where there are none."""
        if name in self._codes:
            return self._codes[name]
        self._codes[name] = code = self._found(name)
        return code

    def _found(self, name: Any) -> int:
        if (self.groups is None) != (name is None):
            told = ("no group", "leave it out") if self.groups is None else ("a group", "pass group=")
            raise InputError(f"Expected {told[0]} with this object, got {name!r}", told[1])
        if self.groups is None:
            return 0
        known = {str(one): code for code, one in enumerate(self.groups) if one is not None}
        code = known.get(str(name), len(self.groups) - 1 if self.groups[-1] is None else -1)
        if code < 0:
            raise InputError(
                f"Expected one of the groups {', '.join(known)}, got {name!r}",
                'calibrate with unseen="marginal" for others too',
            )
        return code


def pools_of(predictor: Any) -> Pools:
    """What a predictor's calibration scores are to a stream.

    Raises:
        InputError: it has no scores, or cells that share rows.
    """
    if isinstance(predictor, Predictor) and predictor.scores is not None:
        one = [[0] * len(predictor.classes)]
        return Pools(predictor.score, one, [predictor.scores], [predictor.alpha], None, ["all"])
    if not isinstance(predictor, ConditionalPredictor) or predictor.cells.scores is None or predictor.per not in ALIKE:
        raise InputError(
            f"Expected a predictor with its calibration scores and thresholds for all, per class or per group, got "
            f"{predictor!r}",
            'calibrate with or without per="class" or per="group"',
        )
    cells, ends = predictor.cells, predictor.cells.offsets.tolist()
    scores = [predictor.cells.scores[a:b] for a, b in pairwise(ends)]
    others = predictor.groups is not None and predictor.groups[-1] is None
    shared = frozenset(cells.of[-1].tolist() if others else ())
    levels = list(predictor.levels or [predictor.alpha] * len(scores))
    return Pools(predictor.score, cells.of.tolist(), scores, levels, predictor.groups, _names(predictor), shared)


def _names(predictor: ConditionalPredictor) -> list[Any]:
    """What each cell is called: a class, a kind, a group, or a group and a class."""
    found: dict[int, Any] = {}
    for g, cells in enumerate(predictor.cells.of.tolist()):
        for k, cell in enumerate(cells):
            group = None if predictor.groups is None else predictor.groups[g]
            one = predictor.kinds.by_class()[k] if predictor.kinds is not None else predictor.classes[k]
            whole = {"group": group, "class and group": (group, one)}.get(predictor.per, one)
            found.setdefault(cell, whole)
    return [found[cell] for cell in sorted(found)]
