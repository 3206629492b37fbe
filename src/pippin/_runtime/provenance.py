"""Provenance of calibrated objects: their data with checksums, date, author, command and software versions."""

import hashlib
import json
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from pippin._runtime.disk import file_checksum
from pippin._runtime.errors import InputError
from pippin._runtime.version import __version__

TRAINING_RECORD = "train.json"
Files = str | PathLike[str] | Iterable[str | PathLike[str]] | Mapping[str, str]


def software_versions() -> dict[str, str]:
    """Return the versions of pippin, NumPy and Python."""
    return {"pippin": __version__, "NumPy": np.__version__, "Python": platform.python_version()}


@dataclass(frozen=True)
class Provenance:
    """Origin of a calibrated object: a record that is saved with it, and that its `card` shows.

    Empty texts mean that something was not recorded.

    Attributes:
        data: SHA-256 of each file that the object was made from, by name.
        date: date and time (UTC) of the calibration, such as "2025-11-18T14:03:22Z".
        by: the person or system that calibrated.
        command: the command that calibrated.
        training: SHA-256 of train.json, the record of the training of the network whose outputs were calibrated.
        versions: versions of pippin, NumPy and Python that calibrated.
    """

    data: Mapping[str, str]
    date: str
    by: str = ""
    command: str = ""
    training: str = ""
    versions: Mapping[str, str] = field(default_factory=software_versions)

    def __post_init__(self) -> None:
        for name in ("date", "by", "command", "training"):
            if not isinstance(getattr(self, name), str):
                raise InputError(f"Expected {name} to be text, got {getattr(self, name)!r}", "leave it out")

    def content(self) -> dict[str, Any]:
        """Return the record as entries of a file."""
        entries = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: dict(value) if isinstance(value, Mapping) else value for name, value in entries.items()}


def file_checksums(data: Files) -> dict[str, str]:
    """Compute the SHA-256 of each file by name; return a mapping of names to known checksums as it is."""
    if isinstance(data, Mapping):
        if not all(isinstance(text, str) for pair in data.items() for text in pair):
            raise InputError("Expected data to map names of files to their SHA-256", "pass the files instead")
        return dict(data)
    try:
        paths = [data] if isinstance(data, str | PathLike) else data
        return {os.fspath(path): file_checksum(Path(path)) for path in paths}
    except (TypeError, ValueError) as error:
        raise InputError(f"Expected data to be paths of files, got {type(data).__name__}", "name each file") from error


def provenance_from_content(entries: Any) -> Provenance:
    """Restore a record from the entries of a file; raise an InputError for invalid entries."""
    names = {each.name for each in fields(Provenance)}
    if not isinstance(entries, dict) or set(entries) != names or not all(map(_is_text_or_texts, entries.items())):
        raise InputError("its provenance makes no sense")
    return Provenance(**entries)


def _is_text_or_texts(entry: tuple[str, Any]) -> bool:
    name, value = entry
    if name in ("data", "versions"):
        return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
    return isinstance(value, str)


def training_checksum(folder: Path, part: str, checksum: str) -> str:
    """Return the SHA-256 of the training record train.json in a folder if it names a part with this checksum.

    Args:
        folder: the folder of the record.
        part: "logits" or "weights", files that the training wrote.
        checksum: the SHA-256 of this file.

    Returns:
        The SHA-256 of the record; empty if there is no record, or if it is of another training.
    """
    path = folder / TRAINING_RECORD
    try:
        content = path.read_bytes()
        outputs = json.loads(content)["outputs"]
        return hashlib.sha256(content).hexdigest() if outputs[part] == checksum else ""
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""


def timestamp() -> str:
    """Return the date and time (UTC), such as 2025-11-18T14:03:22Z.

    If the environment variable SOURCE_DATE_EPOCH is set, it is used instead of the clock, so that files are
    reproducible. It holds the seconds since 1970.

    Raises:
        InputError: SOURCE_DATE_EPOCH is no whole number of seconds.
    """
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        moment = datetime.now(UTC) if seconds is None else datetime.fromtimestamp(int(seconds), UTC)
    except (ValueError, OverflowError, OSError) as error:
        what = f"Expected SOURCE_DATE_EPOCH to be a whole number of seconds since 1970, got {seconds!r}"
        raise InputError(what, "correct or unset this environment variable") from error
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
