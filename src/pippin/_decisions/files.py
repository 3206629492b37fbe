"""Deciders from their files, each part checked against the others."""

import warnings
from typing import Any

import numpy as np

from pippin._conformal.cells import Cells
from pippin._conformal.content import Content, check_limits, need, vector_of
from pippin._conformal.grouping import KIND, cells_of, group_names, kinds_of, levels_of
from pippin._decisions.decider import PER_DECISION, Decider
from pippin._decisions.utility import Utility
from pippin._runtime.arrays import Classes, Vector


def from_content(content: Content) -> Decider:
    """The decider that had this content."""
    alpha, n, classes = content.shared()
    utility = utility_of(content.take("utility"), classes)
    groups = group_names(content.take("groups", lambda value: value is None or isinstance(value, list)))
    per = content.take("per", lambda value: value is None or value in PER_DECISION)
    need("per", ("group" in (per or "")) == (groups is not None))
    shape = (1 if groups is None else len(groups), len(classes))
    betas = content.matrix("betas", shape)
    cells = cells_of(content, per or "class", n, shape, groups is not None and groups[-1] is None)
    if per == KIND:
        kinds = kinds_of(content, classes, cells)
        levels = levels_of(content, alpha, kinds)
    else:
        kinds, levels = content.take("kinds", _is_none), content.take("levels", _is_none)
    content.finish()
    need("betas", bool((betas >= 0).all()))
    need("cells", per is not None or len(cells.counts) == 1)
    if cells.scores is not None:
        check_limits(betas, cells.thresholds(levels or alpha)[cells.of])
    else:
        _check_betas(betas, cells, levels or alpha)
    return Decider(utility, per, alpha, betas, n, classes, groups, cells, kinds, levels)


def _check_betas(betas: Vector, cells: Cells, level: float | tuple[float, ...]) -> None:
    """Without scores: one β in each cell, and none that is finite from fewer rows than its level needs."""
    found = np.full(len(cells.counts), np.inf)
    found[cells.of] = betas
    need("betas", np.array_equal(found[cells.of], betas))
    need("betas", bool(np.isinf(found[cells.counts < cells.needed(level)]).all()))


def utility_of(content: Any, classes: Classes) -> Utility:
    """The utility; what was told of it when it was made is not told again."""
    need("utility", isinstance(content, dict) and set(content) == {"actions", "columns", "values", "kinds"})
    actions, columns, kinds = content["actions"], content["columns"], content["kinds"]
    need("utility", isinstance(actions, list) and all(isinstance(name, str) for name in actions))
    need("utility", columns is None or (isinstance(columns, list) and all(isinstance(c, str | int) for c in columns)))
    need("utility", isinstance(content["values"], list))
    values = [vector_of("utility", row) for row in content["values"]]
    need("utility", len({len(row) for row in values}) == 1 and len(values) == len(actions))
    need("utility", kinds is None or (isinstance(kinds, list) and all(_is_pair(pair) for pair in kinds)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        utility = Utility(np.array(values), actions=actions, classes=columns, kinds=kinds and dict(kinds))
    utility.of(classes)
    return utility


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str | int) and isinstance(pair[1], str)


def _is_none(value: Any) -> bool:
    return value is None
