"""What is known of the masks, kept line by line, so that a stopped run does not read them again."""

import base64
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from pippin.images.lines import append, entries, going_on
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
        append(self._stream, _encoded(result))


def run_of(folder: Path) -> Any:
    """What the run that left a journal in this folder was to do; None where there is none."""
    path = folder / JOURNAL
    return next(entries(path.read_bytes()), (None, 0))[0] if path.is_file() else None


@contextmanager
def open_journal(folder: Path, run: Any) -> Iterator[Journal]:
    """The journal of this run in this folder; its last line, if cut short, is forgotten."""
    path = folder / JOURNAL
    found = list(entries(path.read_bytes())) if path.is_file() else []
    with going_on(path, run, found) as stream:
        results = (_decoded(entry) for entry, _ in found[1:])
        yield Journal(stream, {result.photo: result for result in results})


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
