"""Utilities as people have them: arrays, dicts of dicts, data frames, .csv and .toml files."""

import csv
import tomllib
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import Classes, Vector, read_only
from pippin._runtime.errors import InputError


class Given(NamedTuple):
    """A utility before it is checked: its actions, its columns, the values (A, columns), and the kinds of classes."""

    actions: tuple[str, ...]
    columns: Classes
    values: Vector
    kinds: Mapping[Any, str] | None = None


def as_given(values: Any, actions: Sequence[str] | None, classes: Classes | None) -> Given:
    """The utility that somebody has, whatever it came in.

    Raises:
        InputError: it has another shape than actions × classes, or something in it is no number.
    """
    named = isinstance(values, Mapping | str | PathLike) or hasattr(values, "columns")
    if named and (actions is not None or classes is not None):
        raise InputError("Expected actions= and classes= with an array alone, got them beside names", "leave them out")
    if isinstance(values, str | PathLike):
        return _from_file(Path(values))
    if isinstance(values, Mapping):
        return _from_dicts(values)
    if hasattr(values, "columns"):
        return _from_frame(values)
    return _from_array(values, actions, classes)


def _from_array(values: Any, actions: Sequence[str] | None, classes: Classes | None) -> Given:
    table = _numbers(values)
    if table.ndim != 2:
        raise InputError(
            f"Expected utilities of shape (actions, classes), got shape {table.shape}", "one row per action"
        )
    if actions is None:
        raise InputError(f"Expected names for the {len(table)} actions of an array, got none", "pass actions=")
    if isinstance(actions, str) or len(actions) != len(table):
        raise InputError(f"Expected {len(table)} actions, one per row of utilities, got {actions!r}", "name every row")
    if classes is not None and len(classes) != table.shape[1]:
        raise InputError(
            f"Expected {table.shape[1]} classes, one per column of utilities, got {len(classes)}", "name every column"
        )
    columns = range(table.shape[1]) if classes is None else tuple(_plain(name) for name in classes)
    return Given(tuple(map(str, actions)), columns, table)


def _from_dicts(values: Mapping[Any, Any]) -> Given:
    """The columns are those of the first action; the others must have the same."""
    for action, own in values.items():
        if not isinstance(own, Mapping):
            raise InputError(f"Expected {{class: utility}} for the action {action!r}, got {own!r}", "name the classes")
    columns: tuple[Any, ...] = tuple(dict.fromkeys(name for own in values.values() for name in own))
    for action, own in values.items():
        missing = [name for name in columns if name not in own]
        if missing:
            raise InputError(
                f"The action {action!r} has no utility for {missing[0]!r}, which others have",
                "give every action one for every class",
            )
    table = _numbers([[own[name] for name in columns] for own in values.values()] or np.empty((0, 0)))
    return Given(tuple(map(str, values)), tuple(_plain(name) for name in columns), table)


def _from_frame(frame: Any) -> Given:
    """A pandas frame whose index names the actions, or any frame whose first column does."""
    columns = list(frame.columns)
    first = np.asarray(frame[columns[0]]) if columns else np.empty(0)
    if first.dtype.kind in "OUT":
        actions, columns = [str(name) for name in first.tolist()], columns[1:]
    elif hasattr(frame, "iloc"):
        actions = [str(name) for name in frame.index]
    else:
        raise InputError(
            "Expected a frame whose first column names the actions, got numbers there", "put their names first"
        )
    table = np.stack([_numbers(frame[name]) for name in columns], axis=1) if columns else np.empty((len(actions), 0))
    return Given(tuple(actions), tuple(_plain(name) for name in columns), read_only(table))


def _from_file(path: Path) -> Given:
    if path.suffix.lower() == ".toml":
        return _from_toml(path)
    if path.suffix.lower() != ".csv":
        raise InputError(f"Expected a utility in a .csv or .toml file, got {path}", "save it as one of them")
    try:
        with open(path, newline="", encoding="utf-8-sig") as stream:
            lines = [line for line in csv.reader(stream) if any(cell.strip() for cell in line)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is no CSV in UTF-8 ({error})", "save it as one") from error
    if len(lines) < 2 or len(lines[0]) < 2:
        raise InputError(f"{path}: expected a line of classes and one line per action, got {len(lines)} lines")
    columns = [name.strip() for name in lines[0][1:]]
    for line in lines[1:]:
        if len(line) != len(columns) + 1:
            raise InputError(
                f"{path}: the action {line[0]!r} has {len(line) - 1} utilities, expected {len(columns)}",
                "one for every class of the first line",
            )
    try:
        table = _numbers([line[1:] for line in lines[1:]])
    except InputError as error:
        raise error.in_file(path) from error
    return Given(tuple(line[0].strip() for line in lines[1:]), tuple(columns), table)


def _from_toml(path: Path) -> Given:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is no TOML ({error})", "correct it") from error
    kinds = content.pop("kinds", None)
    try:
        given = _from_dicts(content)
    except InputError as error:
        raise error.in_file(path) from error
    return given._replace(kinds=kinds)


def _numbers(values: Any) -> Vector:
    try:
        if isinstance(values, list | tuple):
            values = [[_number(cell) for cell in row] for row in values]
        table: NDArray[np.float64] = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"Expected utilities that are numbers, one per action and class ({error})") from error
    return read_only(table)


def _number(cell: Any) -> float:
    if isinstance(cell, str) and not cell.strip():
        return float("nan")
    if isinstance(cell, bool) or cell is None:
        raise ValueError(f"got {cell!r}")
    return float(cell)


def _plain(name: Any) -> Any:
    return name.item() if isinstance(name, np.generic) else name
