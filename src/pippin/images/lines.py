"""Journals: files of one JSON line per thing done, from which a killed run goes on."""

import json
import os
from collections.abc import Iterator
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


def append(stream: FileIO, content: Any) -> None:
    """Writes one line at once."""
    line = json.dumps(content).encode() + b"\n"
    with naming_target(Path(os.fsdecode(stream.name))):
        while line:
            line = line[stream.write(line) :]
