"""Prediction sets, decisions and tables as files, each written whole or not at all."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.sets import PredictionSets
from pippin._decisions.decisions import Decisions
from pippin._runtime.disk import to_bytes, write_atomically

if TYPE_CHECKING:
    import polars

Ids = tuple[str, NDArray[Any]]  # the name of the ids, and one per row
RESERVED = ("row", "size", "labels", "label", "confidence", "credibility", "action", "certificate")


def write_sets(path: Path, sets: PredictionSets, ids: Ids | None = None) -> None:
    """Write one line per object: its id, its row, the size of its set, and the labels, most probable first.

    By the ending: `.parquet` holds a list of labels; `.jsonl` one JSON object per line;
    `.csv` joins the labels by `|`, with a backslash before each `|` or backslash of a name.

    Args:
        path: the file.
        sets: the sets.
        ids: the name of the ids, and one per object.
    """
    if Path(path).suffix.lower() == ".jsonl":
        write_atomically(path, sets_lines(sets, ids))
    else:
        write_table(path, sets_table(sets, ids, joined=Path(path).suffix.lower() == ".csv"))


def sets_lines(sets: PredictionSets, ids: Ids | None, first: int = 0) -> bytes:
    """Return one JSON object per line; the first is row `first`."""
    name, values = ("", None) if ids is None else (ids[0], ids[1].tolist())
    rows = (
        ({} if values is None else {name: values[i]}) | {"row": first + i, "size": len(names), "labels": names}
        for i, names in enumerate(sets.labels())
    )
    return _json_lines(rows)


def decisions_table(decisions: Decisions, ids: Ids | None) -> "polars.DataFrame":
    """Return one line per object: its id, its row, its action, and the certificate; null where there is none."""
    import polars

    certificates = np.where(np.isfinite(decisions.certificates), decisions.certificates, np.nan)
    column = polars.Series(certificates, dtype=polars.Float64, nan_to_null=True)
    columns = {"row": np.arange(len(decisions)), "action": decisions.actions.tolist(), "certificate": column}
    return polars.DataFrame(id_column(ids) | columns)


def write_decisions(path: Path, decisions: Decisions, ids: Ids | None = None) -> None:
    """Write one line per object, as `.csv`, `.parquet` or `.jsonl`.

    Args:
        path: the file.
        decisions: the decisions.
        ids: the name of the ids, and one per object.
    """
    table = decisions_table(decisions, ids)
    if Path(path).suffix.lower() == ".jsonl":
        write_atomically(path, _json_lines(table.iter_rows(named=True)))
    else:
        write_table(path, table)


def sets_table(sets: PredictionSets, ids: Ids | None, joined: bool, first: int = 0) -> "polars.DataFrame":
    """Return one line per object, the first of row `first`; its labels joined by `|`, or as a list."""
    import polars

    names = [str(name).replace("\\", "\\\\").replace("|", "\\|") for name in sets.classes] if joined else sets.classes
    kind = polars.Int64 if len(names) and isinstance(names[0], int) else polars.String
    labels = _lists(sets, polars.Series(names, dtype=kind))
    column = labels.list.join("|") if joined else labels
    columns = {"row": np.arange(first, first + len(sets)), "size": sets.sizes, "labels": column}
    return polars.DataFrame(id_column(ids) | columns)


def _lists(sets: PredictionSets, names: "polars.Series") -> "polars.Series":
    """Return the names in each set as a column of lists, without Python objects."""
    import polars

    empty = sets.sizes == 0
    places = np.insert(sets.members.astype(np.int64), sets.offsets[:-1][empty], len(names))  # null in an empty set
    row = np.repeat(np.arange(len(sets), dtype=np.int32), np.maximum(sets.sizes, 1))
    members = polars.concat([names, polars.Series([None], dtype=names.dtype)]).gather(places)
    frame = polars.DataFrame({"row": polars.Series(row).set_sorted(), "labels": members})
    lists = frame.group_by("row", maintain_order=True).agg("labels")["labels"]
    return lists.list.drop_nulls() if empty.any() else lists


def id_column(ids: Ids | None) -> dict[str, Any]:
    """Return the ids as a column of their name, with an underscore where the output has such a column."""
    if ids is None:
        return {}
    name, values = ids
    return {name + "_" if name in RESERVED else name: values if values.dtype.kind in "iu" else values.tolist()}


def write_table(path: Path, table: "polars.DataFrame") -> None:
    """Write a table as `.csv` or `.parquet`, whole or not at all.

    Args:
        path: the file.
        table: its content.
    """
    is_csv = Path(path).suffix.lower() == ".csv"
    write_atomically(path, to_bytes(table.write_csv if is_csv else table.write_parquet))


def _json_lines(rows: Iterable[dict[str, Any]]) -> bytes:
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return "".join(lines).encode("utf-8", "surrogatepass")
