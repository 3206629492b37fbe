"""Where results go: looked at before the work begins, and left clean when it fails."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pippin._runtime.errors import InputError
from pippin.cli.locking import alone


def check_target(path: Path, *endings: str, option: str = "--out") -> None:
    """Raises an InputError if a file with one of these endings cannot be put there."""
    if path.suffix.lower() not in endings:
        raise InputError(f"Expected {option} to end in {' or '.join(endings)}, got {path}", "rename it")
    if path.is_dir():
        raise InputError(f"Expected {option} to be a file, but {path} is a folder", "name a file in it")
    if not path.parent.is_dir():
        raise InputError(
            f"Expected {option} in a folder that exists, got {path}", f"make the folder {path.parent} first"
        )
    _check_writable(path.parent, option)


@contextmanager
def output_folder(path: Path) -> Iterator[None]:
    """Makes the folder where it is missing, for this run alone; if it fails, what was made is removed while empty.

    Raises:
        InputError: nothing can be written there, or another run is writing there now.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    blocked = next((part for part in (path, *path.parents) if part.exists() and not part.is_dir()), None)
    if blocked is not None:
        raise InputError(f"Expected --out to be a folder, but {blocked} is a file", "choose another name")
    _check_writable(next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists()), "--out")
    path.mkdir(parents=True, exist_ok=True)
    with alone(path):
        try:
            yield
        except BaseException:
            with suppress(OSError):
                for folder in missing:
                    folder.rmdir()
            raise


def _check_writable(folder: Path, option: str) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"Expected {option} where files may be written, but {folder} is not", "choose another place")
