"""Prediction sets and tables out, each file whole or not at all."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.sets import PredictionSets
from pippin._decisions.decisions import Decisions
from pippin._runtime.disk import write_whole

if TYPE_CHECKING:
    import polars

__all__ = ["write_decisions", "write_sets", "write_table"]

Ids = tuple[str, NDArray[Any]]  # what they are called, and one per row


def write_sets(path: Path, sets: PredictionSets, ids: Ids | None = None) -> None:
    """Writes one line per object: its id, its row, the size of its set, and the labels, most probable first.

    By the ending: `.parquet` holds a list of labels; `.jsonl` one JSON object per line;
    `.csv` joins the labels by `|`, with a backslash before each `|` or backslash that
    belongs to a name.

    Args:
        path: the file.
        sets: the sets.
        ids: what the ids are called, and one per object.
    """
    if Path(path).suffix.lower() == ".jsonl":
        write_whole(path, sets_lines(sets, ids))
        return
    write_table(path, sets_table(sets, ids, joined=Path(path).suffix.lower() == ".csv"))


def sets_lines(sets: PredictionSets, ids: Ids | None, first: int = 0) -> bytes:
    """One JSON object per line; the first is that of row `first`."""
    name, given = ("", None) if ids is None else (ids[0], ids[1].tolist())
    lines = (
        _json_line(({} if given is None else {name: given[row]}) | {"row": first + row}, names)
        for row, names in enumerate(sets.labels())
    )
    return "".join(lines).encode("utf-8", "surrogatepass")


def decisions_table(decisions: Decisions, ids: Ids | None) -> "polars.DataFrame":
    """One line per object: its id, its row, its action, and the certificate; none where nothing is certified."""
    import polars

    promised = np.isfinite(decisions.certificates)
    certificates = [
        value if good else None for value, good in zip(decisions.certificates.tolist(), promised, strict=True)
    ]
    own = {"row": np.arange(len(decisions)), "action": decisions.actions.tolist()}
    column = polars.Series("certificate", certificates, polars.Float64)
    return polars.DataFrame({**id_column(ids), **own, "certificate": column})


def write_decisions(path: Path, decisions: Decisions, ids: Ids | None = None) -> None:
    """Writes one line per object, as `.csv`, `.parquet` or `.jsonl`.

    Args:
        path: the file.
        decisions: the decisions.
        ids: what the ids are called, and one per object.
    """
    table = decisions_table(decisions, ids)
    if Path(path).suffix.lower() == ".jsonl":
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in table.iter_rows(named=True))
        write_whole(path, "".join(lines).encode("utf-8", "surrogatepass"))
    else:
        write_table(path, table)


def sets_table(sets: PredictionSets, ids: Ids | None, joined: bool, first: int = 0) -> "polars.DataFrame":
    """One line per object, the first of row `first`; its labels joined by `|`, or as a list."""
    import polars

    names = [_escaped(name) for name in sets.classes] if joined else list(sets.classes)
    kind = polars.Int64 if names and isinstance(names[0], int) else polars.String
    labels = _lists(sets, polars.Series(names, dtype=kind))
    column = labels.list.join("|") if joined else labels
    own = {"row": np.arange(first, first + len(sets)), "size": sets.sizes, "labels": column}
    return polars.DataFrame({**id_column(ids), **own})


def _lists(sets: PredictionSets, names: "polars.Series") -> "polars.Series":
    """The names in each set, without a list of Python's for any."""
    import polars

    empty = sets.sizes == 0
    places = np.insert(sets.members.astype(np.int64), sets.offsets[:-1][empty], len(names))  # stands for no name
    row = np.repeat(np.arange(len(sets), dtype=np.int32), np.maximum(sets.sizes, 1))
    members = polars.concat([names, polars.Series([None], dtype=names.dtype)]).gather(places)
    frame = polars.DataFrame({"row": polars.Series(row).set_sorted(), "labels": members})
    lists = frame.group_by("row", maintain_order=True).agg("labels")["labels"]
    return lists.list.drop_nulls() if empty.any() else lists


def id_column(ids: Ids | None) -> dict[str, Any]:
    """The ids as a column by their name, unless a column of ours has it: then with an underscore."""
    if ids is None:
        return {}
    name = (
        ids[0] + "_"
        if ids[0] in ("row", "size", "labels", "label", "confidence", "credibility", "action", "certificate")
        else ids[0]
    )
    return {name: ids[1] if ids[1].dtype.kind in "iu" else ids[1].tolist()}


def write_table(path: Path, table: "polars.DataFrame") -> None:
    """Writes a table as `.csv` or `.parquet`, whole or not at all.

    Args:
        path: the file.
        table: what it holds.
    """
    buffer = io.BytesIO()
    if Path(path).suffix.lower() == ".csv":
        table.write_csv(buffer)
    else:
        table.write_parquet(buffer)
    write_whole(path, buffer.getvalue())


def _json_line(row: dict[str, Any], names: Sequence[str | int]) -> str:
    return json.dumps({**row, "size": len(names), "labels": names}, ensure_ascii=False) + "\n"


def _escaped(name: str | int) -> str:
    return str(name).replace("\\", "\\\\").replace("|", "\\|")
