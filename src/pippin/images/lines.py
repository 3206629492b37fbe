"""Journals: files of one JSON line per thing done, from which a killed run goes on."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from pippin._runtime.disk import naming_target


def entries(data: bytes) -> Iterator[tuple[Any, int]]:
    """Every whole line's content, and where it ends."""
    end = 0
    for line in data.splitlines(keepends=True):
        end += len(line)
        try:
            entry = json.loads(line)
        except ValueError:
            return
        if not line.endswith(b"\n"):
            return
        yield entry, end


@contextmanager
def going_on(path: Path, first: Any, found: list[tuple[Any, int]]) -> Iterator[FileIO]:
    """The journal behind the whole lines that were `found`; a last line cut short is cut off, a new one has `first`."""
    with open(path, "r+b" if found else "wb", buffering=0) as stream:
        if found:
            stream.seek(found[-1][1])
            stream.truncate()
        else:
            append(stream, first)
            os.fsync(stream.fileno())
        yield stream


def append(stream: FileIO, content: Any) -> None:
    """Writes one line at once."""
    line = json.dumps(content).encode() + b"\n"
    with naming_target(Path(os.fsdecode(stream.name))):
        while line:
            line = line[stream.write(line) :]
