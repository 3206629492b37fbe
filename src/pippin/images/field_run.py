"""Runs of a field model on many photographs, with a journal from which an interrupted run resumes.

The journal gets an entry per photograph after the picture with its results is written, so that the results of every
entry are complete. A resumed run writes the same files, byte for byte, as an uninterrupted run.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import polars

from pippin._runtime.disk import file_checksum, read_regular_file, to_bytes, write_atomically, write_json
from pippin._runtime.errors import InputError
from pippin._runtime.provenance import software_versions, timestamp
from pippin.images.arrivals import PHOTOGRAPHS, UNREAD, is_whole
from pippin.images.batch import Journal
from pippin.images.drawing import clean_copy, size_in_words
from pippin.images.field_model import FieldModel, Look
from pippin.images.reading import open_image
from pippin.images.training.folder import images_below

JOURNAL, DRAWN, CLEAN, RUN = ".field.journal", "drawn", "clean", "run.json"
CHECKSUMS = "photographs.sha256"
PICTURES = {"drawn": DRAWN, "clean": CLEAN}  # folders of the pictures in an entry
QUALITY = 90  # JPEG quality of the pictures with results
LONGEST = 150  # maximum number of bytes of a picture's name; its temporary file has a longer name
FORMAT = "pippin field run"
LATER = re.compile(r"#\d+$")  # number of a photograph that arrived later under the same path
SCHEMA: dict[str, Any] = {
    "photo": polars.String,
    "row": polars.Int64,
    "column": polars.Int64,
    "set": polars.List(polars.String),
    "action": polars.String,
    "certificate": polars.Float64,
    "credibility": polars.Float64,
    "novelty": polars.Float64,
    "careful": polars.String,
}


def list_photographs(paths: Sequence[Path], out: Path | None = None) -> list[Path]:
    """List the photographs to process: the files among the paths, and all images in the folders, without duplicates.

    Raises:
        InputError: a path does not exist, no path has an image, or a folder contains the output folder.
    """
    photographs: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            if out is not None:
                check_outside(path, out)
            photographs.update(dict.fromkeys(images_below(path, PHOTOGRAPHS)))
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


def _decoded(model: FieldModel, entry: dict[str, Any]) -> dict[str, Any]:
    """Check an entry of a journal; the paths of its pictures must be files directly in the folders of pictures."""
    skipped = "reason" in entry
    pictures = {} if skipped else {name: folder for name, folder in PICTURES.items() if name in entry}
    good = all(isinstance(entry[name], str) for name in ("photo", "sha256", *pictures, *(["reason"] * skipped)))
    good = good and all(_is_inside(entry[name], folder) for name, folder in pictures.items())
    if not skipped:
        good = good and [type(side) for side in entry["size"]] == [int, int]
        good = good and all(_is_window(window, model) for window in entry["windows"])
    if not good:
        raise ValueError(entry)
    return entry


def _is_inside(picture: str, folder: str) -> bool:
    """Return True if the path of a picture, as read from a journal, is a file directly in a folder of pictures."""
    path = Path(picture)
    return path.parts == (folder, path.name) and path.name != ".."


def _is_window(window: dict[str, Any], model: FieldModel) -> bool:
    """Return True if an entry of a journal holds the results of a window under the model."""
    names = list(SCHEMA)[1:]
    row, column, members, action, certificate, credibility, novelty, careful = (window[name] for name in names)
    return (
        len(window) == len(names)
        and type(row) is type(column) is int
        and isinstance(members, list)
        and set(members) <= set(model.classes)
        and action in (model.actions or (None,))
        and all(isinstance(value, float | None) for value in (certificate, novelty))
        and isinstance(credibility, float)
        and careful in (None, "novel", "alarm")
    )


class FieldRun:
    """Run of a field model on photographs, with an output folder.

    `entries` maps the name of each processed photograph to its results, or to the reason why it was skipped. The name
    is the path; photographs that arrive later under the same path have a number, such as in `inbox/a.jpg#2`.
    """

    def __init__(self, model: FieldModel, out: Path, journal: Journal) -> None:
        self.model, self.out, self._journal = model, out, journal
        self.entries: dict[str, dict[str, Any]] = {}
        self._names: dict[str, list[str]] = {}  # names of the photographs under each path, in the order of arrival
        self._taken: set[str] = set()  # lower-case paths of the pictures
        self._numbers: dict[str, int] = {}  # for each stem, the number of the last picture
        for entry in journal.entries:
            self._add(entry)
        self.watcher: Callable[[Look], Look] | None = None  # called with the results of each new photograph
        self.draws = True  # False to write no pictures

    def process(self, photo: Path, *, arrived: bool = False, final: bool = True) -> tuple[dict[str, Any], bool] | None:
        """Process a photograph unless the journal has its results.

        Args:
            photo: the path.
            arrived: True for a photograph in a watched folder. Another content under a path with results is then a
                new photograph; otherwise its results replace the earlier ones.
            final: False if the file may still be written: it is then processed only if it is complete.

        Returns:
            The entry, and True if the entry is new, False if it is from the journal; None if the file is not complete,
            or has disappeared.
        """
        path = photo.as_posix()
        names = self._names.get(path, [])
        name = names[-1] if names else path
        try:
            data = read_regular_file(photo)
        except OSError as error:
            if arrived and (not final or isinstance(error, FileNotFoundError)):
                return None
            entry = {"photo": name, "sha256": "", "reason": f"cannot be read ({error.strerror})"}
        else:
            checksum = hashlib.sha256(data).hexdigest()
            for known in (self.entries[known] for known in names):
                if known["sha256"] == checksum and self._is_drawn(known):
                    return known, False
            if not final and not is_whole(data):
                return None
            if arrived and "windows" in self.entries.get(name, {}) and self.entries[name]["sha256"] != checksum:
                name = f"{path}#{len(names) + 1}"
            entry = {"photo": name, "sha256": checksum} | self._look(data, photo, name)
            if not final and "reason" in entry:
                return None
        entry["date"] = timestamp()
        self._add(entry)
        self._journal.append(entry)
        return entry, True

    def finish(self, photos: Iterable[str]) -> dict[str, Any]:
        """Write the results of the given photographs to results.jsonl and results.parquet, and a summary to run.json.

        The summary contains the provenance: dates, versions, checksums, and the cards of the model. Return its content.
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
        reasons = [row["careful"] for row in rows if row["careful"] is not None]
        careful = {reason: reasons.count(reason) for reason in sorted(set(reasons))}
        summary |= {"windows": len(rows), "counts": counts, "careful": careful, "skipped": skipped}
        write_json(self.out / RUN, summary | self._origin(entries))
        for draft in (*self.out.glob(".*.tmp"), *(self.out / DRAWN).glob(".*.tmp"), *(self.out / CLEAN).glob(".*.tmp")):
            draft.unlink(missing_ok=True)
        return summary

    def _add(self, entry: dict[str, Any]) -> None:
        """Add an entry under its name, in place of an earlier one."""
        name = str(entry["photo"])
        path = LATER.sub("", name)
        if name not in self.entries:
            self._names.setdefault(path, []).append(name)
        self.entries[name] = entry
        if "drawn" in entry:
            self._taken.add(entry["drawn"].lower())

    def _origin(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        """Write the checksums of the photographs in the format of `sha256sum`; return the provenance for run.json."""
        lines = "".join(f"{entry['sha256']}  {entry['photo']}\n" for entry in entries if entry["sha256"])
        write_atomically(self.out / CHECKSUMS, lines.encode(errors="surrogateescape"))
        dates = sorted(entry["date"] for entry in entries if isinstance(entry.get("date"), str))
        files = {name: file_checksum(self.out / name) for name in ("results.jsonl", "results.parquet", CHECKSUMS)}
        made = {"first photograph": dates[0], "last photograph": dates[-1]} if dates else {}
        made |= {"model": self._journal.header["model"], "versions": software_versions(), "files": files}
        return {"made": made, "cards": self.model.cards()}

    def _look(self, data: bytes, photo: Path, name: str) -> dict[str, Any]:
        """Apply the model to a photograph, write the picture with the results, and return the entry for the journal."""
        try:
            look = self.model.look(open_image(data, photo))
        except InputError as error:
            unread = f"{photo} has the ending {photo.suffix}, of a format that is not read"
            return {"reason": unread if photo.suffix.lower() in UNREAD else error.what}
        if self.watcher is not None:
            look = self.watcher(look)
        results = {"size": list(look.image.size), "windows": look.records()}
        if not self.draws:
            return results
        drawn = self._picture_path(name, photo.stem)
        # Subsampling of colors in JPEG would change the color of thin lines.
        save = partial(look.draw().save, format="JPEG", quality=QUALITY, subsampling=0)
        clean = f"{CLEAN}/{Path(drawn).name}"
        copy = partial(clean_copy(look.image, look.window).save, format="JPEG", quality=QUALITY)
        for place, write in ((drawn, save), (clean, copy)):
            (self.out / place).parent.mkdir(exist_ok=True)
            write_atomically(self.out / place, to_bytes(write), lasting=False)
        return {"drawn": drawn, "clean": clean, **results}

    def _picture_path(self, name: str, stem: str) -> str:
        """Return the path of the picture with the results: the photograph's name, numbered if that name is taken."""
        if "drawn" in self.entries.get(name, {}):
            return str(self.entries[name]["drawn"])
        if len(os.fsencode(stem)) > LONGEST:
            stem = os.fsencode(stem)[:LONGEST].decode("utf-8", "ignore")
        for number in count(self._numbers.get(stem, 1)):
            place = f"{DRAWN}/{stem}{'' if number == 1 else f'-{number}'}.jpg"
            if place.lower() not in self._taken:
                break
        self._numbers[stem] = number
        return place

    def _is_drawn(self, entry: dict[str, Any]) -> bool:
        paths = [self.out / entry.get(kind, "") for kind in ("drawn", "clean")]
        is_drawn = not self.draws or all(path.is_file() and path.stat().st_size > 0 for path in paths)
        return "reason" in entry or ("size" in entry and is_drawn)


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
    journal = Journal(out / JOURNAL, partial(_decoded, model))
    run = {"format": FORMAT, "model": checksum, "window": model.window, "novelty": model.novelty}
    if journal.header not in (None, run):
        sentence = f"{out} holds results of another model, or of other windows or another level of novelty"
        raise InputError(sentence, "choose another --out or delete that folder")
    journal.check_folder()
    with journal.open(run):
        yield FieldRun(model, out, journal)
