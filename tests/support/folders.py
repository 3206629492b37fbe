"""What a folder holds, for tests that compare before and after, or two of them."""

from pathlib import Path


def tree(folder):
    """Every file with its bytes, and every folder, by path."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def content(folder: Path) -> dict[str, bytes]:
    """Every file below the folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def times(folder: Path) -> dict[str, int]:
    """When each file was last written."""
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
