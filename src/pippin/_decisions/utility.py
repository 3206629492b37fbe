"""Utilities of actions under classes, from arrays, dicts, data frames, .csv and .toml files."""

import csv
import io
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pippin._conformal.mondrian import by_class
from pippin._conformal.serialization import need
from pippin._runtime.arguments import checked_methods
from pippin._runtime.arrays import Classes, Vector, read_only
from pippin._runtime.errors import InputError, warn
from pippin._runtime.showing import format_number, html_table, visible
from pippin._theory.policy import Policy, make_policy
from pippin._validation.labels import MOST_CLASSES
from pippin._validation.rows import refuse_mask, shortened

COLUMNS_SHOWN = 12  # maximum number of columns of a utility that a notebook displays


class UtilityTable(NamedTuple):
    """Utilities before validation: names of actions and columns, and values of shape (actions, columns).

    Without `kinds` the columns are classes. With `kinds`, which maps each class to a superclass such as crop or weed,
    the columns are superclasses.
    """

    actions: tuple[str, ...]
    columns: Classes
    values: Vector
    kinds: Mapping[Any, str] | None = None


@checked_methods
@dataclass(frozen=True, eq=False, repr=False, init=False)
class Utility:
    """Utility of each action under each true class.

    Instead of a utility for each class, there may be one for each kind. A kind is a superclass, such as crop or weed,
    whose classes have equal utilities; `kinds` then defines the kind of each class.

    Args:
        values: one of four forms. An array with a row per action and a column per class, for which `actions` and
            `classes` are the names. A dictionary {action: {class: number}}. A data frame with a row per action, whose
            names are in the index or in the first column, and a column per class. Or the path of such a table as
            `.csv`, or of a `.toml` file with a table per action and optionally a table `kinds`.
        actions: the names of the rows, if `values` is an array.
        classes: the names of the columns, if `values` is an array and classes have names.
        kinds: the kind of each class, {class: kind}; the columns of `values` are then kinds instead of classes.

    Raises:
        InputError: a utility is missing or not finite, a name occurs twice, or the kinds are not the columns.

    Attributes:
        actions: names of the rows.
        columns: names of the columns: kinds if `kinds` is given, classes otherwise.
        values: the utilities, (actions, columns).
        kinds: the kind of each class, or None.
        notes: sentences about likely mistakes, such as an action that is never better than another action.

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
    columns: Classes
    values: Vector
    kinds: dict[str | int, str] | None = None
    notes: tuple[str, ...] = field(default=())

    def __init__(
        self,
        values: Any,
        *,
        actions: Sequence[str] | None = None,
        classes: Classes | None = None,
        kinds: Mapping[Any, str] | None = None,
    ) -> None:
        table = _as_table(values, actions, classes)
        if kinds is not None and table.kinds is not None:
            raise InputError("Expected kinds once, got them in the file and as an argument", "leave kinds= out")
        self._fill(table._replace(kinds=table.kinds if kinds is None else kinds))
        for note in self.notes:
            warn(note)

    def _fill(self, table: UtilityTable) -> None:
        """Validate actions, columns, values and superclasses ("kinds"), and set all attributes, without warnings."""
        table = _checked(table)
        for name, value in {**table._asdict(), "notes": _notes(table)}.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_costs(
        cls,
        costs: Any,
        *,
        actions: Sequence[str] | None = None,
        classes: Classes | None = None,
        kinds: Mapping[Any, str] | None = None,
    ) -> "Utility":
        """Create a utility from costs: the utility of an action under a class is minus its cost.

        Signs and orientation are checked. Costs are usually at least 0. If the actions are named like the classes, the
        action of the true class should be the cheapest.

        Args:
            costs: the cost of each action under each class, in the forms of the argument `values` of `Utility`: a row
                per action, a column per class.
            actions: the names of the rows, if `costs` is an array.
            classes: the names of the columns, if `costs` is an array and classes have names.
            kinds: the kind of each class, {class: kind}; the columns of `costs` are then kinds instead of classes.

        Returns:
            The utility.

        Raises:
            InputError: no cost is above 0, rows and columns are exchanged, or the right action is the costliest.

        >>> import pippin
        >>> costs = {"operate": {"benign": 5, "malignant": 0}, "discharge": {"benign": 0, "malignant": 50}}
        >>> pippin.decisions.Utility.from_costs(costs).of(["malignant", "benign"])
        array([[  0.,  -5.],
               [-50.,   0.]])
        """
        table = _as_table(costs, actions, classes)
        kinds = table.kinds if kinds is None else kinds
        _check_costs(table, kinds)
        named = None if isinstance(table.columns, range) else table.columns
        return cls(0.0 - table.values, actions=table.actions, classes=named, kinds=kinds)

    @classmethod
    def read(cls, path: "str | PathLike[str]") -> "Utility":
        """Read a utility from a .csv or .toml file.

        Args:
            path: the file.

        Returns:
            The utility.

        Raises:
            InputError: the file is missing, or is not a table of utilities.
        """
        return cls(path)

    @property
    def classes(self) -> Classes:
        """Classes that have a utility."""
        return self.columns if self.kinds is None else tuple(self.kinds)

    def kind_of(self, classes: Classes) -> tuple[str, ...]:
        """Return the kind (superclass, such as crop or weed) of each class.

        Args:
            classes: names of the classes.

        Returns:
            One kind per class.

        Raises:
            InputError: the utility has no kinds, or none for a class.
        """
        if self.kinds is None:
            raise InputError("Expected a utility with kinds of classes, got one without", "pass kinds={class: kind}")
        return tuple(by_class(self.kinds, classes, "a kind"))

    def of(self, classes: Classes) -> Vector:
        """Return the utility of each action under each of these classes, in their order.

        Args:
            classes: names of the columns of probabilities.

        Returns:
            An array (actions, classes).

        Raises:
            InputError: a class has no utility, or a utility is for none of the classes.
        """
        if isinstance(self.columns, range) and self.kinds is None:
            if len(classes) != len(self.columns):
                what = f"Expected utilities of {len(classes)} classes ({shortened(classes)}), got {len(self.columns)}"
                raise InputError(what, "pass one column per class, in the order of the probabilities")
            return self.values
        columns = {name: k for k, name in enumerate(self.columns)}
        _check_orientation(classes, self.actions, self.classes)
        if self.kinds is None:
            return read_only(self.values[:, by_class(columns, classes, "a utility")])
        return read_only(self.values[:, [columns[kind] for kind in self.kind_of(classes)]])

    def policy(self, classes: Classes) -> Policy:
        """Return the utilities of these classes in the form that the compiled decision functions take.

        Args:
            classes: names of the columns of probabilities.

        Returns:
            The policy, whose arrays are computed once for each sequence of classes and then reused.
        """
        key = tuple(islice(classes, MOST_CLASSES))
        if key not in self._policies:
            self._policies[key] = make_policy(self.of(classes))
        return self._policies[key]

    def content(self) -> dict[str, Any]:
        """Return the data that `Decider.save` writes to a file for the utility.

        Returns:
            A dictionary of numbers, strings, lists and nested dictionaries.
        """
        return {
            "actions": list(self.actions),
            "columns": None if isinstance(self.columns, range) else list(self.columns),
            "values": self.values.tolist(),
            "kinds": None if self.kinds is None else [[name, kind] for name, kind in self.kinds.items()],
        }

    @cached_property
    def _policies(self) -> dict[tuple[str | int, ...], Policy]:
        return {}

    def _repr_html_(self) -> str:
        shown = list(self.columns)[:COLUMNS_SHOWN]
        rows = [
            (name, *map(format_number, row[: len(shown)])) for name, row in zip(self.actions, self.values, strict=True)
        ]
        n_left = len(self.columns) - len(shown)
        more = f" {n_left:,} more classes are not shown." if n_left else ""
        note = f"Utility of each action by {'true class' if self.kinds is None else 'kind of the true class'}."
        return html_table(f"{self!r}", ("action", *map(str, shown)), rows, note=note + more)

    def __repr__(self) -> str:
        kinds = f" of {len(set(self.kinds.values())):,} kinds" if self.kinds is not None else ""
        return f"Utility({visible(', '.join(self.actions))}; {len(self.classes):,} classes{kinds})"


def utility_from_content(content: Any, classes: Classes) -> Utility:
    """Rebuild a utility from the data of a saved decider, without the warnings that `Utility` issues."""
    try:
        actions, columns, values, kinds = (content[key] for key in ("actions", "columns", "values", "kinds"))
        utility = object.__new__(Utility)
        utility._fill(_from_array(values, actions, columns)._replace(kinds=kinds and dict(kinds)))
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise InputError("its utility makes no sense") from error
    need("utility", utility.content() == content)
    utility.of(classes)
    return utility


def _as_table(values: Any, actions: Sequence[str] | None, classes: Classes | None) -> UtilityTable:
    has_names = isinstance(values, Mapping | str | PathLike) or hasattr(values, "columns")
    if has_names and (actions is not None or classes is not None):
        raise InputError("Expected actions= and classes= only with an array, got named values", "leave them out")
    if isinstance(values, str | PathLike):
        return _from_file(Path(values))
    if isinstance(values, Mapping):
        return _from_dicts(values)
    if hasattr(values, "columns"):
        return _from_frame(values)
    return _from_array(values, actions, classes)


def _from_array(values: Any, actions: Sequence[str] | None, classes: Classes | None) -> UtilityTable:
    table = _numbers(values)
    if table.ndim != 2:
        raise InputError(f"Expected utilities of shape (actions, classes), got {table.shape}", "one row per action")
    n_actions, n_classes = table.shape
    if actions is None:
        raise InputError(f"Expected names for the {n_actions} actions of an array, got none", "pass actions=")
    if isinstance(actions, str) or len(actions) != n_actions:
        raise InputError(f"Expected {n_actions} actions, one per row of utilities, got {actions!r}", "name every row")
    if classes is not None and len(classes) != n_classes:
        raise InputError(f"Expected {n_classes} classes, one per column, got {len(classes)}", "name every column")
    return UtilityTable(tuple(map(str, actions)), range(n_classes) if classes is None else _plain(classes), table)


def _from_dicts(values: Mapping[Any, Any]) -> UtilityTable:
    for action, row in values.items():
        if not isinstance(row, Mapping):
            raise InputError(f"Expected {{class: utility}} for the action {action!r}, got {row!r}", "name the classes")
    columns = dict.fromkeys(name for row in values.values() for name in row)
    for action, row in values.items():
        if missing := [name for name in columns if name not in row]:
            what = f"The action {action!r} has no utility for {missing[0]!r}, which others have"
            raise InputError(what, "pass a utility of every action for every class")
    table = _numbers([[row[name] for name in columns] for row in values.values()] or np.empty((0, 0)))
    return UtilityTable(tuple(map(str, values)), _plain(columns), table)


def _from_frame(frame: Any) -> UtilityTable:
    """Read a frame with the actions in its first column, or a pandas frame with the actions in its index."""
    columns = list(frame.columns)
    first = np.asarray(frame[columns[0]]) if columns else np.empty(0)
    if first.dtype.kind in "OUT":
        actions, columns = first.tolist(), columns[1:]
    elif hasattr(frame, "iloc"):
        actions = frame.index
    else:
        raise InputError("Expected a first column with the actions, got numbers there", "put their names first")
    table = np.stack([_numbers(frame[name]) for name in columns], axis=1) if columns else np.empty((len(actions), 0))
    return UtilityTable(tuple(map(str, actions)), _plain(columns), read_only(table))


def _from_file(path: Path) -> UtilityTable:
    form = path.suffix.lower()
    if form not in (".csv", ".toml"):
        raise InputError(f"Expected a utility in a .csv or .toml file, got {path}", "save it as one of them")
    try:
        text = path.read_text(encoding="utf-8-sig")
        content: Any = tomllib.loads(text) if form == ".toml" else list(csv.reader(io.StringIO(text)))
    except (ValueError, RecursionError, csv.Error) as error:
        raise InputError(f"{path} is no {form[1:].upper()} in UTF-8 ({error})", "correct the file") from error
    try:
        if form == ".csv":
            return _from_lines(content)
        kinds = content.pop("kinds", None)
        return _from_dicts(content)._replace(kinds=kinds)
    except InputError as error:
        raise error.in_file(path) from error


def _from_lines(lines: list[list[str]]) -> UtilityTable:
    lines = [line for line in lines if any(text.strip() for text in line)]
    if len(lines) < 2 or len(lines[0]) < 2:
        raise InputError(f"expected a line of classes and one line per action, got {len(lines)} lines")
    head, *body = lines
    for action, *utilities in body:
        if len(utilities) != len(head) - 1:
            what = f"the action {action!r} has {len(utilities)} utilities, expected {len(head) - 1}"
            raise InputError(what, "write one for every class of the first line")
    actions, columns = tuple(line[0].strip() for line in body), tuple(name.strip() for name in head[1:])
    return UtilityTable(actions, columns, _numbers([line[1:] for line in body]))


def _numbers(values: Any) -> Vector:
    refuse_mask(values, "utilities")
    try:
        if isinstance(values, list | tuple):
            values = [[_number(value) for value in row] for row in values]
        return read_only(np.array(values, dtype=np.float64))
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise InputError(f"Expected utilities that are numbers, one per action and class ({error})") from error


def _number(value: Any) -> float:
    if isinstance(value, bool) or value is None:
        raise ValueError(f"got {value!r}")
    return float("nan") if isinstance(value, str) and not value.strip() else float(value)


def _plain(names: Any) -> tuple[Any, ...]:
    return tuple(name.item() if isinstance(name, np.generic) else name for name in names)


def _checked(table: UtilityTable) -> UtilityTable:
    """Validate a utility table; return it with the names of its kinds (superclasses), if any, as strings."""
    actions, columns, values, kinds = table
    if len(actions) < 2:
        raise InputError(f"Expected at least two actions to choose from, got {len(actions)}", "add another action")
    for what, names in (("action", actions), ("class" if kinds is None else "kind", columns)):
        if twice := [name for name, count in Counter(map(str, names)).items() if count > 1]:
            raise InputError(f"The {what} {twice[0]!r} occurs twice in the utility", "remove one of them")
    if len(bad := np.argwhere(~np.isfinite(values))):
        a, k = bad[0]
        what = f"The utility of {actions[a]!r} for {columns[k]!r} is {values[a, k]}, expected a finite number"
        raise InputError(what, "use a large negative number for an outcome to avoid")
    return table if kinds is None else _with_kinds(table, kinds)


def _check_costs(table: UtilityTable, kinds: Mapping[Any, str] | None) -> None:
    """Raise an InputError if costs have the wrong sign or orientation, and warn of negative costs."""
    values, names = table.values, list(map(str, table.columns))
    if not (values > 0).any():
        raise InputError("Expected costs above 0, got none", "pass utilities to pippin.decisions.Utility")
    if isinstance(kinds, Mapping):
        _check_orientation(tuple(dict.fromkeys(kinds.values())), table.actions, table.columns)
    if set(names) == set(table.actions):
        order = [names.index(action) for action in table.actions]
        right, least, most = values[range(len(order)), order], values.min(axis=0)[order], values.max(axis=0)[order]
        if ((right == most) & (right > least)).all():
            what = "For every class, the action of this name is the costliest"
            raise InputError(what, "pass costs, not utilities")
        if (right > least).any():
            name = table.actions[int((right > least).argmax())]
            warn(f"If the class is {name!r}, another action costs less than the action {name!r}.")
    if (values < 0).any():
        warn("Some costs are negative: they are treated as gains.")


def _check_orientation(classes: Classes, actions: tuple[str, ...], columns: Classes) -> None:
    """Raise an InputError if the classes are among the names of actions instead of the names of columns."""
    names = set(map(str, classes))
    if names <= set(actions) and not names <= set(map(str, columns)):
        what = f"The classes ({shortened(classes)}) are rows of the utility, expected columns"
        raise InputError(what, "exchange rows and columns: one row per action, one column per class")


def _with_kinds(table: UtilityTable, kinds: Mapping[Any, str]) -> UtilityTable:
    if not isinstance(kinds, Mapping) or not kinds:
        raise InputError(f"Expected kinds as {{class: kind}}, got {kinds!r}", "name the kind of every class")
    if isinstance(table.columns, range):
        raise InputError("Expected the columns of the utility to be kinds with names, got numbers", "pass classes=")
    columns = tuple(map(str, table.columns))
    by_class = dict(zip(_plain(kinds), map(str, kinds.values()), strict=True))
    for name, kind in by_class.items():
        if kind not in columns:
            what = f"The class {name!r} is of the kind {kind!r}, which has no utility ({shortened(columns)} have)"
            raise InputError(what, "correct the kind, or give it a utility")
    if unused := [kind for kind in columns if kind not in by_class.values()]:
        raise InputError(f"The utility is of a kind {unused[0]!r}, which no class has", "leave it out")
    return table._replace(columns=columns, kinds=by_class)


def _notes(table: UtilityTable) -> tuple[str, ...]:
    """Return warnings about actions that are never better than another one, and about classes with equal utilities."""
    values, columns = table.values, table.columns
    same = np.flatnonzero((values == values[0]).all(axis=0))
    if len(same) == len(columns):
        return ("All actions have equal utility for every class.",)
    notes = []
    for a, row in enumerate(values):
        better = (values >= row).all(axis=1) & ((values > row).any(axis=1) | (np.arange(len(values)) < a))
        if better.any():
            notes.append(
                f"The action {table.actions[a]!r} is redundant: under no class is its utility higher than that of "
                f"{table.actions[int(better.argmax())]!r}."
            )
    if len(same):
        names = ", ".join(repr(columns[k]) for k in same[:4]) + (", …" if len(same) > 4 else "")
        notes.append(f"All actions have equal utility for {names}.")
    return tuple(notes)
