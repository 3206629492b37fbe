"""Snapshots of folders, for tests that compare folders."""

from pathlib import Path


def tree(folder):
    """Return the bytes of each file, and None for each folder, by path."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def content(folder: Path) -> dict[str, bytes]:
    """Return the bytes of each file below the folder, by relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def times(folder: Path) -> dict[str, int]:
    """Return the modification time of each file."""
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
