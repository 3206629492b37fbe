"""A field model on disk: its parts, and a manifest with their checksums."""

import hashlib
import json
from pathlib import Path
from typing import Any

from pippin._runtime.disk import write_whole
from pippin._runtime.errors import InputError

MANIFEST = "field.json"
FORMAT, VERSION = "pippin field model", 1


def write_manifest(folder: Path, content: dict[str, Any]) -> None:
    """Writes field.json, with the checksum of every other file of the folder."""
    parts = {name: _checksum(folder / name) for name in _names(folder)}
    whole = {"format": FORMAT, "version": VERSION, **content, "parts": parts}
    write_whole(folder / MANIFEST, json.dumps(whole, indent=1, ensure_ascii=False).encode() + b"\n")


def read_manifest(folder: Path) -> dict[str, Any]:
    """What field.json holds, if every part is there as it was saved.

    Raises:
        InputError: it is no field model, it needs a newer pippin, or a part is missing, strange or damaged.
    """
    try:
        content = json.loads((folder / MANIFEST).read_bytes())
        form, version, parts = content["format"], content["version"], dict(content["parts"])
        window = [content[key] for key in ("classes", "utility", "fallback", "window")][-1]
        if isinstance(window, bool) or not (window is None or (isinstance(window, int) and window >= 1)):
            raise ValueError(window)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder} is no field model, or its {MANIFEST} is damaged", "make it again") from error
    if form != FORMAT or not isinstance(version, int):
        raise InputError(f"{folder} is no field model", "make one with pippin field make")
    if version > VERSION:
        raise InputError(f"{folder} has version {version}, but this pippin reads {VERSION}", "upgrade pippin-conformal")
    for name, checksum in parts.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
            raise InputError(f"The part {name} of {folder} is missing", "make the model again")
        if _checksum(path) != checksum:
            raise InputError(f"The part {name} of {folder} is damaged or of another model", "make the model again")
    if strange := sorted(set(_names(folder)) - set(parts)):
        raise InputError(f"The part {strange[0]} is not of the model {folder}", "take it out, or make the model again")
    return dict(content)


def manifest_checksum(folder: Path) -> str:
    """What tells a model from others: the checksum of its manifest, which holds those of all parts."""
    return _checksum(folder / MANIFEST)


def _names(folder: Path) -> list[str]:
    every = (path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)
    return sorted(path.relative_to(folder).as_posix() for path in every)


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
