"""Runs of a field model on many photographs, with a journal from which an interrupted run resumes.

The journal gets an entry per photograph after the picture with its results is written, so that the results of every
entry are complete. A resumed run writes the same files, byte for byte, as an uninterrupted run.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import polars

from pippin._runtime.disk import read_regular_file, to_bytes, write_atomically, write_json
from pippin._runtime.errors import InputError
from pippin.images.batch import Journal
from pippin.images.drawing import size_in_words
from pippin.images.field_model import FieldModel, Look
from pippin.images.training.folder import images_below

JOURNAL, DRAWN, RUN = ".field.journal", "drawn", "run.json"
QUALITY = 90  # JPEG quality of the pictures with results
LONGEST = 150  # bytes of a picture's name, at most; its temporary file has a longer name
FORMAT = "pippin field run"
SCHEMA: dict[str, Any] = {
    "photo": polars.String,
    "row": polars.Int64,
    "column": polars.Int64,
    "set": polars.List(polars.String),
    "action": polars.String,
    "certificate": polars.Float64,
    "credibility": polars.Float64,
}


def list_photographs(paths: Sequence[Path], out: Path) -> list[Path]:
    """List the photographs to process: the files among the paths, and all images in the folders, without duplicates.

    Raises:
        InputError: a path does not exist, no path has an image, or a folder contains the output folder.
    """
    photographs: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            check_outside(path, out)
            photographs.update(dict.fromkeys(images_below(path)))
        elif path.exists():
            photographs[path] = None
        else:
            raise InputError(f"Expected a photograph or a folder of them, but there is no {path}", "check the path")
    if not photographs:
        raise InputError(f"Expected photographs, but {', '.join(map(str, paths))} has none", "name another folder")
    return list(photographs)


def check_outside(folder: Path, out: Path) -> None:
    """Raise an InputError if the output folder is inside a folder of photographs, where pictures would be processed."""
    if out.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"Expected --out outside the photographs, got {out} in {folder}", "choose another place")


def arriving(folder: Path, pause: Callable[[], None]) -> Iterator[Path]:
    """Watch a folder forever, and yield each new image once it is complete.

    An image counts as complete if its size and modification time are unchanged between two scans of the folder.

    Args:
        folder: the folder to scan.
        pause: function that is called after each scan, to wait for the next.
    """
    last: dict[Path, tuple[int, int]] = {}
    yielded: set[Path] = set()
    while True:
        for path in images_below(folder):
            if path in yielded:
                continue
            with suppress(OSError):  # the file may have been removed
                state = path.stat().st_size, path.stat().st_mtime_ns
                if last.get(path) == state:
                    yielded.add(path)
                    yield path
                last[path] = state
        pause()


def _is_inside(drawn: str) -> bool:
    """Return True if the path of a picture, as read from a journal, is a file directly in the folder `drawn`."""
    path = Path(drawn)
    return path.parts == (DRAWN, path.name) and path.name != ".."


class FieldRun:
    """Run of a field model on photographs, with an output folder.

    `entries` maps the path of each processed photograph to its results, or to the reason why it was skipped.
    """

    def __init__(self, model: FieldModel, out: Path, journal: Journal) -> None:
        self.model, self.out, self._journal = model, out, journal
        entries = (entry for entry in journal.entries if _is_inside(entry.get("drawn", f"{DRAWN}/none")))
        self.entries: dict[str, dict[str, Any]] = {entry["photo"]: entry for entry in entries}
        self.watcher: Callable[[Look], None] | None = None  # called with the results of each new photograph

    def process(self, photo: Path) -> tuple[dict[str, Any], bool]:
        """Process a photograph unless the journal has its results.

        Return its entry, and True if the entry is new, False if it is from the journal.
        """
        name = photo.as_posix()
        try:
            checksum = hashlib.sha256(read_regular_file(photo)).hexdigest()
        except OSError as error:
            entry = {"photo": name, "sha256": "", "reason": f"cannot be read ({error.strerror})"}
        else:
            known = self.entries.get(name)
            if known is not None and known["sha256"] == checksum and self._is_drawn(known):
                return known, False
            entry = {"photo": name, "sha256": checksum} | self._look(photo, name)
        self.entries[name] = entry
        self._journal.append(entry)
        return entry, True

    def finish(self, photos: Iterable[str]) -> dict[str, Any]:
        """Write the results of these photographs to results.jsonl and results.parquet, and a summary to run.json.

        Return the content of run.json.
        """
        entries = [self.entries[name] for name in photos]
        rows = [{"photo": entry["photo"], **window} for entry in entries for window in entry.get("windows", ())]
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_atomically(self.out / "results.jsonl", lines.encode("utf-8", "backslashreplace"))
        readable = [row | {"photo": row["photo"].encode("utf-8", "backslashreplace").decode()} for row in rows]
        table = polars.DataFrame(readable, schema=SCHEMA)
        write_atomically(self.out / "results.parquet", to_bytes(table.write_parquet))
        skipped = [{"photo": entry["photo"], "reason": entry["reason"]} for entry in entries if "reason" in entry]
        acts = [row["action"] if self.model.actions is not None else size_in_words(len(row["set"])) for row in rows]
        numbers = {"looked at": len(entries) - len(skipped), "skipped": len(skipped)}
        counts = {name: acts.count(name) for name in sorted(set(acts))}
        summary = {"format": FORMAT, "version": 1, "model": self.model.describe(), "photographs": numbers}
        summary |= {"windows": len(rows), "counts": counts, "skipped": skipped}
        write_json(self.out / RUN, summary)
        for draft in (*self.out.glob(".*.tmp"), *(self.out / DRAWN).glob(".*.tmp")):
            draft.unlink(missing_ok=True)
        return summary

    def _look(self, photo: Path, name: str) -> dict[str, Any]:
        """Apply the model to a photograph, write the picture with the results, and return the entry for the journal."""
        try:
            look = self.model.look(photo)
        except InputError as error:
            return {"reason": error.what}
        if self.watcher is not None:
            self.watcher(look)
        drawn = self._picture_path(name, photo.stem)
        # Subsampling of colors in JPEG would change the color of thin lines.
        save = partial(look.draw().save, format="JPEG", quality=QUALITY, subsampling=0)
        (self.out / DRAWN).mkdir(exist_ok=True)
        write_atomically(self.out / drawn, to_bytes(save), lasting=False)
        return {"drawn": drawn, "size": list(look.image.size), "windows": look.records()}

    def _picture_path(self, name: str, stem: str) -> str:
        """Return the path of the picture with the results: the photograph's name, numbered if that name is taken."""
        if "drawn" in self.entries.get(name, {}):
            return str(self.entries[name]["drawn"])
        taken = {entry["drawn"].lower() for entry in self.entries.values() if "drawn" in entry}
        if len(os.fsencode(stem)) > LONGEST:
            stem = os.fsencode(stem)[:LONGEST].decode("utf-8", "ignore")
        places = (f"{DRAWN}/{stem}{'' if n == 1 else f'-{n}'}.jpg" for n in range(1, len(taken) + 2))
        return next(place for place in places if place.lower() not in taken)

    def _is_drawn(self, entry: dict[str, Any]) -> bool:
        path = self.out / entry.get("drawn", "")
        return "reason" in entry or ("size" in entry and path.is_file() and path.stat().st_size > 0)


@contextmanager
def open_run(model: FieldModel, checksum: str, out: Path) -> Iterator[FieldRun]:
    """Open an output folder for a run of a field model, and read the journal of an interrupted run.

    Args:
        model: the field model.
        checksum: checksum of the model's manifest, which identifies the model.
        out: the output folder.

    Raises:
        InputError: the folder has other files, or results of another model or for windows of another size.
    """
    journal, run = Journal(out / JOURNAL), {"format": FORMAT, "model": checksum, "window": model.window}
    if journal.header not in (None, run):
        sentence = f"{out} holds results of another model, or of other windows"
        raise InputError(sentence, "choose another --out or delete that folder")
    journal.check_folder()
    with journal.open(run):
        yield FieldRun(model, out, journal)
