"""Tables of prediction sets and decisions, and their output files, which are written atomically."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.sets import PredictionSets
from pippin._decisions.decisions import Decisions
from pippin._runtime.disk import to_bytes, write_atomically

if TYPE_CHECKING:
    import polars

Ids = Mapping[str, NDArray[Any]]  # the id of each row, by the name of the id column; empty without ids
NAMES = ("labels", "label", "action")  # columns of the output with class or action names
FORMULA, NUMBER = r"^[=+\-@＝＋－＠\t\r\n]", r"^[+\-]?[0-9]+(\.[0-9]+)?$"
RESERVED = ("row", "size", "labels", "label", "confidence", "credibility", "action", "certificate")


def decisions_table(decisions: Decisions, ids: Ids) -> "polars.DataFrame":
    """Tabulate id, row number, action and certificate of each object; an action without certificate (−∞) gets null."""
    import polars

    certificates = np.where(np.isfinite(decisions.certificates), decisions.certificates, np.nan)
    column = polars.Series(certificates, dtype=polars.Float64, nan_to_null=True)
    columns = {"row": np.arange(len(decisions)), "action": decisions.actions.tolist(), "certificate": column}
    return polars.DataFrame(id_columns(ids) | columns)


def sets_table(sets: PredictionSets, ids: Ids, joined: bool, first: int = 0) -> "polars.DataFrame":
    """Tabulate the id and row number of each object, and the size and labels (most probable first) of its set.

    Args:
        sets: the sets.
        ids: the id of each object, by the name of the id column.
        joined: if True, join the labels of a set by `|`, and escape `|` and backslash in names by a backslash.
        first: the number of the first row.
    """
    import polars

    names = [str(name).replace("\\", "\\\\").replace("|", "\\|") for name in sets.classes] if joined else sets.classes
    kind = polars.Int64 if len(names) and isinstance(names[0], int) else polars.String
    labels = _lists(sets, polars.Series(names, dtype=kind))
    column = labels.list.join("|") if joined else labels
    columns = {"row": np.arange(first, first + len(sets)), "size": sets.sizes, "labels": column}
    return polars.DataFrame(id_columns(ids) | columns)


def _lists(sets: PredictionSets, names: "polars.Series") -> "polars.Series":
    """Return a polars column with the list of class names in each set, built without Python lists, for speed."""
    import polars

    empty = sets.sizes == 0
    # An empty set gets the index of the null that is appended to the names, and loses it again at the end.
    places = np.insert(sets.members.astype(np.int64), sets.offsets[:-1][empty], len(names))
    row = np.repeat(np.arange(len(sets), dtype=np.int32), np.maximum(sets.sizes, 1))
    members = polars.concat([names, polars.Series([None], dtype=names.dtype)]).gather(places)
    frame = polars.DataFrame({"row": polars.Series(row).set_sorted(), "labels": members})
    lists = frame.group_by("row", maintain_order=True).agg("labels")["labels"]
    return lists.list.drop_nulls() if empty.any() else lists


def id_columns(ids: Ids) -> dict[str, Any]:
    """Return the id columns by name, with an underscore appended if the output has another column of this name."""
    return {
        name + "_" if name in RESERVED else name: values if values.dtype.kind in "iu" else values.tolist()
        for name, values in ids.items()
    }


def write_table(path: Path, table: "polars.DataFrame", names: Sequence[str] | None = None) -> None:
    """Write a table as `.csv`, `.jsonl` or `.parquet` file; an interruption leaves no partial file.

    Args:
        path: the file; its ending selects the format.
        table: the table.
        names: the argument `names` of `encode_table`.
    """
    write_atomically(path, encode_table(table, Path(path).suffix.lower(), names=names))


def encode_table(
    table: "polars.DataFrame", ending: str, include_header: bool = True, names: Sequence[str] | None = NAMES
) -> bytes:
    """Encode a table as `.csv`, `.jsonl` (one JSON object per line), `.arrow`, or else `.parquet`.

    Args:
        table: the table.
        ending: the ending of the file name, which selects the format.
        include_header: if False, leave out the header of `.csv`.
        names: columns whose text must not be read as formulas by a spreadsheet that opens the `.csv` file; None for all
            columns of text, and the header.
    """
    if ending == ".jsonl":
        to_json = partial(json.dumps, ensure_ascii=False, default=str)  # dates and decimals as text
        return "".join(to_json(row) + "\n" for row in table.iter_rows(named=True)).encode()
    if ending == ".csv":
        return to_bytes(partial(_without_formulas(table, names).write_csv, include_header=include_header))
    return to_bytes(partial(table.write_ipc, compression="uncompressed") if ending == ".arrow" else table.write_parquet)


def _without_formulas(table: "polars.DataFrame", names: Sequence[str] | None) -> "polars.DataFrame":
    """Put an apostrophe before text that a spreadsheet would read as a formula, but not before numbers such as -1.5."""
    import polars
    from polars import selectors

    columns = table.columns if names is None else names
    texts = selectors.string() & selectors.by_name(*columns, require_all=False)
    is_formula = texts.str.contains(FORMULA) & ~texts.str.contains(NUMBER)
    shown = table.with_columns(polars.when(is_formula).then("'" + texts).otherwise(texts).name.keep())
    if names is None:
        odd = [name for name in columns if re.search(FORMULA, name) and not re.search(NUMBER, name)]
        shown.columns = [f"'{name}" if name in odd else name for name in columns]
    return shown
