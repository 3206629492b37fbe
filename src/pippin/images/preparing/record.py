"""`prepare.json`: what was asked, what came of it, and whether it still stands."""

import hashlib
import json
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pippin._runtime.disk import write_whole
from pippin._runtime.errors import InputError
from pippin.images.preparing.journal import JOURNAL, run_of
from pippin.images.preparing.table import Table
from pippin.images.preparing.we3ds import VOID, Download, Problem, mask_classes
from pippin.images.preparing.windows import Options

RECORD, TABLE = "prepare.json", "windows.parquet"
FORMAT = "pippin windows"


@dataclass(frozen=True)
class Record:
    """The content of prepare.json.

    Attributes:
        run: the options, and a fingerprint of the data's file names and sizes.
        photographs: how many were found, cut and skipped.
        windows: how many were cut, were all void, and were written, and the size of these.
        classes: value, name, group, and the number of windows before and after the choice.
        skipped: file and reason, for every photograph that could not be used.
        table: SHA-256 of windows.parquet.
        versions: of what made it.
    """

    run: dict[str, Any]
    photographs: dict[str, int]
    windows: dict[str, int]
    classes: list[dict[str, Any]]
    skipped: list[dict[str, str]]
    table: str
    versions: dict[str, str]


def run_to_do(download: Download, options: Options) -> dict[str, Any]:
    """What a run is known by: the same run gives the same files."""
    return {"options": asdict(options) | {"drop": list(options.drop)}, "data": download.fingerprint}


def make_record(
    run: dict[str, Any], download: Download, table: Table, problems: list[Problem], folder: Path, sha: str
) -> Record:
    """Sums up a run whose windows are in the folder."""
    before, after = (tally.tolist() for tally in table.tally())
    classes = [c._asdict() | {"before": before[c.value], "after": after[c.value]} for c in mask_classes()[1:]]
    files = [file for _, pieces in table.pieces() for *_, file in pieces]
    return Record(
        run,
        {"found": len(download), "cut": len(download) - len(problems), "skipped": len(problems)},
        {"cut": len(table.label), "all void": before[VOID], "written": sum(after), "bytes": _bytes(folder, files)},
        classes,
        [{"file": problem.file, "reason": problem.reason} for problem in problems],
        sha,
        {"python": platform.python_version()}
        | {name: version(name) for name in ("pippin-conformal", "numpy", "pillow", "polars")},
    )


def write_record(folder: Path, record: Record) -> None:
    """Writes prepare.json."""
    content = {"format": FORMAT, "version": 1, **asdict(record)}
    write_whole(
        folder / RECORD, json.dumps(content, indent=1, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"
    )


def earlier_record(folder: Path, run: dict[str, Any]) -> Record | None:
    """What a finished run left in the folder, if it was this one; None if it was stopped or there was none.

    Raises:
        InputError: the folder holds something else.
    """
    if not folder.is_dir() or not any(folder.iterdir()):
        return None
    record, known = None, run_of(folder)
    if (folder / RECORD).is_file():
        record = _read_record(folder / RECORD)
        known = record.run
    elif known is None and [path.name for path in folder.iterdir()] != [JOURNAL]:
        raise InputError(
            f"Expected --out to be an empty folder or that of an earlier run, but {folder} holds other files",
            "choose another folder",
        )
    if known is not None and known != run:
        raise InputError(
            f"{folder} holds windows made with {_difference(known, run)}", "choose another --out or delete that folder"
        )
    return record


def is_whole(folder: Path, record: Record) -> bool:
    """Whether the table and every window it names are still there, by their sizes."""
    import polars

    path = folder / TABLE
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != record.table:
        return False
    return record.windows["bytes"] == _bytes(folder, polars.read_parquet(path, columns=["file"])["file"])


def _bytes(folder: Path, files: Iterable[str]) -> int:
    """The size of all these files; -1 where one is missing."""
    try:
        return sum((folder / file).stat().st_size for file in files)
    except FileNotFoundError:
        return -1


def _read_record(path: Path) -> Record:
    try:
        content = json.loads(path.read_bytes())
        if content.pop("format") != FORMAT or content.pop("version") != 1:
            raise InputError("another format")
        return Record(**content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} is damaged or something else", "choose another --out or delete that folder"
        ) from error


def _difference(known: dict[str, Any], run: dict[str, Any]) -> str:
    """The first option that differs, in words."""
    earlier = known.get("options", {})
    for name, value in run["options"].items():
        if earlier.get(name) != value:
            there, here = (", ".join(v) or "none" if isinstance(v, list) else v for v in (earlier.get(name), value))
            return f"--{name} {there}, not {here}"
    return "other photographs"
