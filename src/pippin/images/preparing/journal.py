"""What is known of the masks, kept line by line, so that a stopped run does not read them again."""

import base64
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from pippin._runtime.disk import naming_target
from pippin.images.preparing.we3ds import Problem, mask_classes
from pippin.images.preparing.windows import Counted

JOURNAL = ".prepare.journal"


class Journal:
    """Results by photograph: those that an earlier run left, then those added, each on disk at once."""

    def __init__(self, stream: FileIO, kept: dict[str, Counted | Problem]) -> None:
        self._stream, self.kept = stream, kept

    def add(self, result: Counted | Problem) -> None:
        """Notes a result."""
        self.kept[result.photo] = result
        _append(self._stream, _encoded(result))


def run_of(folder: Path) -> Any:
    """What the run that left a journal in this folder was to do; None where there is none."""
    path = folder / JOURNAL
    return next(_entries(path.read_bytes()), (None, 0))[0] if path.is_file() else None


@contextmanager
def open_journal(folder: Path, run: Any) -> Iterator[Journal]:
    """The journal of this run in this folder; its last line, if cut short, is forgotten."""
    path = folder / JOURNAL
    entries = list(_entries(path.read_bytes())) if path.is_file() else []
    with open(path, "r+b" if entries else "wb", buffering=0) as stream:
        if entries:
            stream.seek(entries[-1][1])
            stream.truncate()
        else:
            _append(stream, run)
            os.fsync(stream.fileno())
        results = (_decoded(entry) for entry, _ in entries[1:])
        yield Journal(stream, {result.photo: result for result in results})


def _entries(data: bytes) -> Iterator[tuple[Any, int]]:
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


def _append(stream: FileIO, content: Any) -> None:
    line = json.dumps(content).encode() + b"\n"
    with naming_target(Path(os.fsdecode(stream.name))):
        while line:
            line = line[stream.write(line) :]


def _encoded(result: Counted | Problem) -> dict[str, Any]:
    if isinstance(result, Problem):
        return result._asdict()
    packed = base64.b64encode(zlib.compress(result.counts.astype("<i4").tobytes(), 1)).decode()
    return {"photo": result.photo, "rows": result.counts.shape[0], "counts": packed}


def _decoded(entry: dict[str, Any]) -> Counted | Problem:
    if "reason" in entry:
        return Problem(**entry)
    counts = np.frombuffer(zlib.decompress(base64.b64decode(entry["counts"])), "<i4")
    return Counted(entry["photo"], counts.reshape(entry["rows"], -1, len(mask_classes())).astype(np.int32))
