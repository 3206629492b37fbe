"""What each action is worth if each class is the true one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from pippin._conformal.kinds import by_text
from pippin._decisions.reading import Given, as_given
from pippin._runtime.arrays import Classes, Vector, read_only
from pippin._runtime.errors import InputError
from pippin._runtime.showing import html_table, shown_number
from pippin._runtime.warn import warn
from pippin._theory.policy import Policy, make_policy
from pippin._validation.labels import shortened

COLUMNS_SHOWN = 12  # in a notebook
Source = Any  # an array, a dict of dicts, a data frame, or a path


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Utility:
    """Utilities of actions × classes: what an action is worth if that class is the true one.

    Where classes fall into kinds (crop, weed, soil), utilities may be given per kind, with the
    kind of each class beside them.

    Args:
        values: an array of shape (A, K) with `actions` and, where they have names, `classes`; a
            dict {action: {class: number}}; a data frame with one row per action, named by its
            index or its first column, and one column per class; or the path of such a table as
            `.csv`, or of a `.toml` file with a table per action and, if wanted, one `kinds`.
        actions: the names of an array's rows.
        classes: the names of an array's columns.
        kinds: the kind of each class, {class: kind}; the columns of `values` are then kinds.

    Attributes:
        actions: the names of the rows.
        columns: the names of the columns: classes, or kinds where there are some.
        values: the utilities, (actions, columns).
        kinds: the kind of each class, where classes fall into kinds.
        notes: what is odd about it, in sentences: an action that another one always beats, for instance.

    >>> import pippin
    >>> utility = pippin.decisions.Utility(
    ...     {"spray": {"weed": 1, "crop": -2}, "leave": {"weed": -1, "crop": 1}, "ask": {"weed": 0.3, "crop": 0.3}},
    ...     kinds={"black_grass": "weed", "charlock": "weed", "maize": "crop"},
    ... )
    >>> utility
    Utility(spray, leave, ask; 3 classes of 2 kinds)
    >>> utility.of(["maize", "charlock", "black_grass"])
    array([[-2. ,  1. ,  1. ],
           [ 1. , -1. , -1. ],
           [ 0.3,  0.3,  0.3]])
    """

    actions: tuple[str, ...]
    columns: Classes  # classes; kinds, where there are some
    values: Vector
    kinds: dict[str | int, str] | None = None
    notes: tuple[str, ...] = field(default=())

    def __init__(
        self,
        values: Source,
        *,
        actions: Sequence[str] | None = None,
        classes: Classes | None = None,
        kinds: Mapping[Any, str] | None = None,
    ) -> None:
        given = as_given(values, actions, classes)
        if kinds is not None and given.kinds is not None:
            raise InputError("Expected the kinds once, got them in the file and beside it", "leave kinds= out")
        chosen = _checked(given._replace(kinds=given.kinds if kinds is None else kinds))
        for name in ("actions", "columns", "values", "kinds"):
            object.__setattr__(self, name, getattr(chosen, name))
        object.__setattr__(self, "notes", (*_dominated(chosen), *_indifferent(chosen)))
        for note in self.notes:
            warn(note)

    @classmethod
    def read(cls, path: "str | PathLike[str]") -> "Utility":
        """The utility of a .csv or .toml file.

        Args:
            path: the file.
        """
        return cls(path)

    @property
    def classes(self) -> Classes:
        """The classes that have a utility."""
        return self.columns if self.kinds is None else tuple(self.kinds)

    def kind_of(self, classes: Classes) -> tuple[str, ...]:
        """The kind of each class.

        Args:
            classes: the names of the classes.
        """
        if self.kinds is None:
            raise InputError("This utility knows no kinds of classes", "make it with kinds={class: kind}")
        known = by_text(self.kinds)
        self._check(classes)
        return tuple(known[str(name)] for name in classes)

    def of(self, classes: Classes) -> Vector:
        """The utilities (A, K) of these classes, in this order.

        Args:
            classes: the names of the columns of probabilities.

        Raises:
            InputError: a class has no utility, or there is one for a class that is not among them.
        """
        if isinstance(self.columns, range) and self.kinds is None:
            if len(classes) != len(self.columns):
                raise InputError(
                    f"Expected utilities of {len(classes)} classes ({shortened(classes)}), got {len(self.columns)}",
                    "give every class its column, in the order of the probabilities",
                )
            return self.values
        self._check(classes)
        columns = {str(name): k for k, name in enumerate(self.columns)}
        wanted = list(map(str, classes)) if self.kinds is None else self.kind_of(classes)
        return read_only(self.values[:, [columns[name] for name in wanted]])

    def policy(self, classes: Classes) -> Policy:
        """What the engines need of it, for these classes.

        Args:
            classes: the names of the columns of probabilities.
        """
        key = tuple(classes)
        if key not in self._policies:
            self._policies[key] = make_policy(self.of(classes))
        return self._policies[key]

    def action_index(self, action: object) -> int:
        """The number of an action.

        Args:
            action: its name.
        """
        if action not in self.actions:
            raise InputError(
                f"Expected one of the actions ({', '.join(self.actions)}), got {action!r}", "name one of them"
            )
        return self.actions.index(str(action))

    def content(self) -> dict[str, Any]:
        """What a file holds of it."""
        return {
            "actions": list(self.actions),
            "columns": None if isinstance(self.columns, range) else list(self.columns),
            "values": self.values.tolist(),
            "kinds": None if self.kinds is None else [[name, kind] for name, kind in self.kinds.items()],
        }

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("actions", "columns", "values", "kinds", "notes")}

    def _repr_html_(self) -> str:
        shown = list(self.columns)[:COLUMNS_SHOWN]
        rows = [
            (name, *map(shown_number, own[: len(shown)])) for name, own in zip(self.actions, self.values, strict=True)
        ]
        left = len(self.columns) - len(shown)
        note = (
            f"What each action is worth by the {'class' if self.kinds is None else 'kind of the class'} that is true."
        )
        more = f" {left:,} more classes are not shown." if left else ""
        return html_table(f"{self!r}", ("action", *map(str, shown)), rows, note=note + more)

    def __repr__(self) -> str:
        told = f" of {len(set(self.kinds.values())):,} kinds" if self.kinds is not None else ""
        return f"Utility({', '.join(self.actions)}; {len(self.classes):,} classes{told})"

    @cached_property
    def _policies(self) -> dict[tuple[str | int, ...], Policy]:
        return {}

    def _check(self, classes: Classes) -> None:
        """Every class has one utility, and no other has."""
        known, wanted = list(map(str, self.classes)), list(map(str, classes))
        if missing := [name for name in wanted if name not in set(known)]:
            raise InputError(
                f"The utility says nothing of the class {missing[0]!r}, which is one of {len(wanted)} "
                f"({shortened(classes)})",
                "give every class a utility or a kind",
            )
        if strange := [name for name in known if name not in set(wanted)]:
            raise InputError(
                f"The utility is of a class {strange[0]!r}, which is none of the {len(wanted)} classes "
                f"({shortened(classes)})",
                "correct its name, or leave it out",
            )


def _checked(given: Given) -> Given:
    """The utility with every part held against the others."""
    actions, columns, values, kinds = given
    if len(actions) < 2:
        raise InputError(
            f"Expected at least two actions to choose from, got {len(actions)}", "add what else could be done"
        )
    for what, names in (("action", actions), ("kind" if kinds is not None else "class", columns)):
        twice = next((name for i, name in enumerate(names) if str(name) in map(str, names[:i])), None)
        if twice is not None:
            raise InputError(f"The {what} {twice!r} occurs twice in the utility", "name each of them once")
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        a, k = bad[0]
        raise InputError(
            f"The utility of {actions[a]!r} for {columns[k]!r} is {values[a, k]}, expected a finite number",
            "say what that is worth, a large negative number for what must not happen",
        )
    return given if kinds is None else _of_kinds(given, kinds)


def _of_kinds(given: Given, kinds: Mapping[Any, str]) -> Given:
    if not isinstance(kinds, Mapping) or not kinds:
        raise InputError(f"Expected kinds as {{class: kind}}, got {kinds!r}", "name the kind of every class")
    if isinstance(given.columns, range):
        raise InputError("Expected the columns of the utility to be kinds with names, got numbers", "pass classes=")
    known = set(map(str, given.columns))
    named = {_plain(name): str(kind) for name, kind in kinds.items()}
    for name, kind in named.items():
        if kind not in known:
            raise InputError(
                f"The class {name!r} is of the kind {kind!r}, which has no utility ({shortened(given.columns)} have)",
                "correct the kind, or give it a utility",
            )
    if unused := [kind for kind in map(str, given.columns) if kind not in set(named.values())]:
        raise InputError(
            f"The utility is of a kind {unused[0]!r}, which no class has", "correct the kinds, or leave it out"
        )
    return given._replace(columns=tuple(map(str, given.columns)), kinds=named)


def _plain(name: Any) -> Any:
    return name.item() if isinstance(name, np.generic) else name


def _dominated(given: Given) -> list[str]:
    """Actions that another one beats or equals whatever the class is."""
    if (given.values == given.values[0]).all():
        return []
    told, numbers = [], np.arange(len(given.actions))
    for a, own in enumerate(given.values):
        reaches, beats = (given.values >= own).all(axis=1), (given.values > own).any(axis=1)
        better = reaches & (beats | (numbers < a))  # of two that are equal, the second is told
        if better.any():
            other = given.actions[int(better.argmax())]
            told.append(
                f"The action {given.actions[a]!r} is never worth more than {other!r}, whatever the class is: "
                "nobody need choose it."
            )
    return told


def _indifferent(given: Given) -> list[str]:
    """Outcomes for which all actions are worth the same."""
    same = np.flatnonzero((given.values == given.values[0]).all(axis=0))
    if not len(same):
        return []
    names = ", ".join(repr(given.columns[k]) for k in same[:4]) + (", …" if len(same) > 4 else "")
    if len(same) == len(given.columns):
        return ["The utility distinguishes no class: every action is worth the same whatever the class is."]
    return [f"The utility never distinguishes actions for {names}: each is worth the same there, whatever is done."]
