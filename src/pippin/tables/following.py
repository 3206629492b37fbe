"""A .csv table row by row, as its lines come: nothing is held, and nothing is waited for but the next line."""

import csv
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from pippin._runtime.arrays import Classes, Vector
from pippin._runtime.errors import InputError
from pippin._validation.labels import agree
from pippin._validation.rows import Rows
from pippin.tables.layout import Layout, find_columns


class Followed(NamedTuple):
    """A row: its probabilities, and its label and group; None where the table has none."""

    row: Vector
    label: str | None
    group: str | None


def follow_rows(lines: Iterable[str], where: object, layout: Layout, classes: Classes) -> Iterator[Followed]:
    """Each row in turn. Blank lines are none.

    Raises:
        InputError: no header, columns of other classes, or a row that has too few cells, no number or no label.

    >>> table = ["crop,weed,label", "0.25,0.75,weed"]
    >>> list(follow_rows(table, "stream.csv", Layout(), ("crop", "weed")))
    [Followed(row=array([0.25, 0.75]), label='weed', group=None)]
    """
    table = csv.reader(lines)
    header = [name.strip() for name in next(table, [])]
    if not header:
        raise InputError(f"{where} is empty, expected a table with a header", "write the names of the columns first")
    columns = find_columns(header, layout, where)
    try:
        agree(classes, Rows(np.empty((1, len(columns.names))), names=columns.names))
    except InputError as error:
        raise error.in_file(where) from error
    places = [header.index(name) for name in columns.classes]
    own, other = (None if name is None else header.index(name) for name in (columns.label, columns.group))
    for number, cells in enumerate(cells for cells in table if cells):
        if len(cells) != len(header):
            raise InputError(f"{where}: Row {number} has {len(cells)} cells, expected {len(header)}", "mend it")
        label = None if own is None else cells[own].strip()
        if label == "":
            raise InputError(f"{where}: Row {number} has no label, expected its true class", "add it to every row")
        row = _numbers([cells[i] for i in places], columns.classes, f"{where}: Row {number}")
        yield Followed(row, label, None if other is None else cells[other].strip())


def _numbers(cells: list[str], names: list[str], where: str) -> Vector:
    row = np.empty(len(cells))
    for i, cell in enumerate(cells):
        try:
            row[i] = float(cell)
        except ValueError as error:
            raise InputError(f"{where} has {cell!r} in column {names[i]!r}, expected a number", "mend it") from error
    return row
