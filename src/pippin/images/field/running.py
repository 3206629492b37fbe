"""A field model over many photographs: a line per window, every photograph drawn, and a journal to go on from.

A photograph's picture is written first, then its line in the journal: what the journal holds is done. A killed run
goes on where it was, and leaves, byte for byte, what a run without a break leaves.
"""

import hashlib
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pippin._runtime.disk import read_plain, write_whole
from pippin._runtime.errors import InputError
from pippin.images.field.drawing import size_told
from pippin.images.field.look import Look
from pippin.images.field.model import FieldModel
from pippin.images.lines import append, entries, going_on
from pippin.images.training.folder import ENDINGS

if TYPE_CHECKING:
    import polars

JOURNAL, DRAWN, RUN = ".field.journal", "drawn", "run.json"
QUALITY = 90  # of the drawn photographs, JPEG
LONGEST = 150  # bytes of a drawn photograph's name, beside which a draft's has room
FORMAT = "pippin field run"

Entry = dict[str, Any]


def list_photographs(given: Sequence[Path], out: Path) -> list[Path]:
    """The files that were named, and all images below the folders that were, each once.

    Raises:
        InputError: there is no such file, no image at all, or the results would be taken for photographs.
    """
    found: dict[Path, None] = {}
    for path in given:
        if path.is_dir():
            check_outside(path, out)
            found.update(dict.fromkeys(images_below(path)))
        elif path.exists():
            found[path] = None
        else:
            raise InputError(f"Expected a photograph or a folder of them, but there is no {path}", "check the path")
    if not found:
        raise InputError(f"Expected photographs, but {', '.join(map(str, given))} holds none", "name another folder")
    return list(found)


def check_outside(folder: Path, out: Path) -> None:
    """Raises an InputError where what is drawn would be taken for photographs."""
    if folder.resolve() == out.resolve() or folder.resolve() in out.resolve().parents:
        raise InputError(f"Expected --out outside the photographs, got {out} in {folder}", "choose another place")


def arriving(folder: Path, pause: Callable[[], None]) -> Iterator[Path]:
    """The images of a folder, each once, as soon as its size and time hold still; it never ends.

    Args:
        pause: called after every look at the folder.
    """
    last: dict[Path, tuple[int, int]] = {}
    given: set[Path] = set()
    while True:
        for path in images_below(folder):
            if path in given:
                continue
            with suppress(OSError):  # it may be gone again
                found = path.stat()
                state = found.st_size, found.st_mtime_ns
                if last.get(path) == state:
                    given.add(path)
                    yield path
                last[path] = state
        pause()


def images_below(folder: Path) -> list[Path]:
    """Its images by their endings, in the order of their names; hidden ones are passed over."""
    every = (path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS)
    return sorted(path for path in every if not path.name.startswith(".") and path.is_file())


class FieldRun:
    """The journal of a run in a folder, and what adds to it."""

    def __init__(self, model: FieldModel, out: Path, stream: FileIO, kept: dict[str, Entry]) -> None:
        self.model, self.out, self._stream, self.kept = model, out, stream, kept
        self.watcher: Callable[[Look], None] | None = None  # is told of every photograph that is looked at

    def see(self, photo: Path) -> tuple[Entry, bool]:
        """What is to be told of a photograph, and whether it is new: what the journal knows is not looked at again."""
        name = photo.as_posix()
        try:
            checksum = hashlib.sha256(read_plain(photo)).hexdigest()
        except OSError as error:
            checksum, entry = "", self._skipped(name, "", f"cannot be read ({error.strerror})")
        else:
            known = self.kept.get(name)
            if known is not None and known["sha256"] == checksum and self._is_drawn(known):
                return known, False
            entry = self._looked(photo, name, checksum)
        self.kept[name] = entry
        append(self._stream, entry)
        return entry, True

    def finish(self, photos: Iterable[str]) -> Entry:
        """Writes results.jsonl, results.parquet and run.json for these photographs; what run.json holds."""
        told = [self.kept[name] for name in photos]
        rows = [{"photo": entry["photo"], **window} for entry in told for window in entry.get("windows", ())]
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_whole(self.out / "results.jsonl", lines.encode("utf-8", "backslashreplace"))
        buffer = io.BytesIO()
        _table(rows).write_parquet(buffer)
        write_whole(self.out / "results.parquet", buffer.getvalue())
        summary = self._summary(told, rows)
        text = json.dumps(summary, indent=1, ensure_ascii=False)
        write_whole(self.out / RUN, text.encode("utf-8", "backslashreplace") + b"\n")
        for draft in (*self.out.glob(".*.tmp"), *(self.out / DRAWN).glob(".*.tmp")):
            draft.unlink(missing_ok=True)
        return summary

    def _looked(self, photo: Path, name: str, checksum: str) -> Entry:
        try:
            look = self.model.look(photo)
        except InputError as error:
            return self._skipped(name, checksum, error.what)
        if self.watcher is not None:
            self.watcher(look)
        drawn = self._place(name, photo.stem)
        buffer = io.BytesIO()
        look.draw().save(buffer, "JPEG", quality=QUALITY, subsampling=0)  # thin lines keep their colour
        (self.out / DRAWN).mkdir(exist_ok=True)
        write_whole(self.out / drawn, buffer.getvalue(), lasting=False)
        size = list(look.image.size)
        return {"photo": name, "sha256": checksum, "drawn": drawn, "size": size, "windows": look.records()}

    def _skipped(self, name: str, checksum: str, reason: str) -> Entry:
        return {"photo": name, "sha256": checksum, "reason": reason}

    def _place(self, name: str, stem: str) -> str:
        """Where it is drawn: by its own name, with a number where another photograph has it."""
        if "drawn" in self.kept.get(name, {}):
            return str(self.kept[name]["drawn"])
        taken = {entry["drawn"].lower() for entry in self.kept.values() if "drawn" in entry}
        whole = os.fsencode(stem)
        short = stem if len(whole) <= LONGEST else whole[:LONGEST].decode("utf-8", "ignore")
        tried = (f"{DRAWN}/{short}{'' if n == 1 else f'-{n}'}.jpg" for n in range(1, len(taken) + 2))
        return next(place for place in tried if place.lower() not in taken)

    def _is_drawn(self, entry: Entry) -> bool:
        path = self.out / entry.get("drawn", "")
        return "reason" in entry or ("size" in entry and path.is_file() and path.stat().st_size > 0)

    def _summary(self, told: list[Entry], rows: list[Entry]) -> Entry:
        skipped = [{"photo": entry["photo"], "reason": entry["reason"]} for entry in told if "reason" in entry]
        acts = [row["action"] if self.model.actions is not None else size_told(len(row["set"])) for row in rows]
        return {
            "format": FORMAT,
            "version": 1,
            "model": self.model.describe(),
            "photographs": {"looked at": len(told) - len(skipped), "skipped": len(skipped)},
            "windows": len(rows),
            "counts": {name: acts.count(name) for name in sorted(set(acts))},
            "skipped": skipped,
        }


@contextmanager
def open_run(model: FieldModel, checksum: str, out: Path) -> Iterator[FieldRun]:
    """The run of this model in this folder, with what an earlier one left there.

    Args:
        checksum: of the model's manifest.

    Raises:
        InputError: the folder holds something else, or results of another model or other windows.
    """
    path, run = out / JOURNAL, {"format": FORMAT, "model": checksum, "window": model.window}
    found = list(entries(path.read_bytes())) if path.is_file() else []
    if found and found[0][0] != run:
        raise InputError(
            f"{out} holds results of another model, or of other windows", "choose another --out or delete that folder"
        )
    if not path.exists() and any(out.iterdir()):
        raise InputError(
            f"Expected --out to be an empty folder or that of an earlier run, but {out} holds other files",
            "choose another folder",
        )
    with going_on(path, run, found) as stream:
        yield FieldRun(model, out, stream, {entry["photo"]: entry for entry, _ in found[1:]})


def _table(rows: list[Entry]) -> "polars.DataFrame":
    import polars

    kinds: dict[str, Any] = {
        "photo": polars.String,
        "row": polars.Int64,
        "column": polars.Int64,
        "set": polars.List(polars.String),
        "action": polars.String,
        "certificate": polars.Float64,
        "credibility": polars.Float64,
    }
    safe = [row | {"photo": row["photo"].encode("utf-8", "backslashreplace").decode()} for row in rows]
    return polars.DataFrame(safe, schema=kinds)
