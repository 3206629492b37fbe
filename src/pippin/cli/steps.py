"""Steps of a longer run: each leaves a note of what it was made from, and is skipped while that still holds."""

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pippin._runtime.disk import write_whole


def run_step(
    name: str, note: Path, made_from: dict[str, Any], outputs: Sequence[Path], work: Callable[[], None]
) -> bool:
    """Does the work, unless the note says that these very outputs were made from the same; whether it was done.

    Args:
        made_from: options and checksums of inputs, as JSON.
    """
    made_from = json.loads(json.dumps(made_from))
    if _holds(note, made_from, outputs):
        print(f"{name}: done before", file=sys.stderr, flush=True)
        return False
    print(f"{name} …", file=sys.stderr, flush=True)
    note.unlink(missing_ok=True)
    work()
    content = {"made_from": made_from, "outputs": {path.name: file_checksum(path) for path in outputs}}
    write_whole(note, json.dumps(content, indent=2, ensure_ascii=False).encode(errors="backslashreplace"))
    return True


def file_checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def folder_checksum(folder: Path) -> str:
    """SHA-256 of the names and contents of the files in a folder."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return hashlib.sha256("".join(f"{path.name}\n{file_checksum(path)}\n" for path in files).encode()).hexdigest()


def _holds(note: Path, made_from: dict[str, Any], outputs: Sequence[Path]) -> bool:
    try:
        content = json.loads(note.read_bytes())
        known = content["made_from"] == made_from and content["outputs"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return bool(known) and all(path.is_file() and known.get(path.name) == file_checksum(path) for path in outputs)
