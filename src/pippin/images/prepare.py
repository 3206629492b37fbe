"""Photographs into labelled windows: `WINDOWS/<class>/<photo>_<row>_<column>.png`, windows.parquet, prepare.json.

Two passes over the photographs, each on all cores. The first reads the masks, and of the
photographs only enough to verify that they are complete. Then the windows are selected,
and the second pass reads the photographs that have any. A run that was killed resumes
where it stopped, and leaves, byte for byte, what an uninterrupted run leaves.
"""

import base64
import json
import platform
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars
from numpy.typing import NDArray

from pippin._runtime.disk import file_checksum, to_bytes, write_atomically, write_json
from pippin._runtime.errors import InputError, need
from pippin._runtime.progress import progress_bar
from pippin._runtime.threads import n_threads
from pippin.images.batch import Journal, Workers
from pippin.images.we3ds import SOIL, VOID, DownloadListing, Problem, ReadMember, find_download, mask_classes
from pippin.images.windows import WindowOptions, count_photograph, cut_photograph, make_table, read_photograph

JOURNAL, RECORD, TABLE = ".prepare.journal", "prepare.json", "windows.parquet"
FORMAT = "pippin windows"


@dataclass(frozen=True)
class Record:
    """Content of prepare.json.

    Attributes:
        run: the options, and a fingerprint of the data's file names and sizes.
        photographs: numbers of photographs found, cut and skipped.
        windows: numbers of windows cut, all void, and written, and the size of the latter in bytes.
        classes: value, name, group, and the number of windows before and after the selection.
        skipped: file and reason, for every photograph that could not be used.
        table: SHA-256 of windows.parquet.
        versions: of the software.
    """

    run: dict[str, Any]
    photographs: dict[str, int]
    windows: dict[str, int]
    classes: list[dict[str, Any]]
    skipped: list[dict[str, str]]
    table: str
    versions: dict[str, str]


@dataclass(frozen=True)
class CutPhotograph:
    """A photograph to show: the mask values labels[row, column], and which windows stay."""

    photo: str
    pixels: NDArray[np.uint8]
    window: int
    labels: NDArray[np.uint8]
    stays: NDArray[np.bool_]


@dataclass(frozen=True)
class Prepared:
    """Result of a run, and its cost; `worked_on` counts the photographs read by this run."""

    record: Record
    worked_on: int
    seconds: float
    megabytes: float


PixelCounts = dict[str, NDArray[np.int32]]  # by photograph: pixels of each window (row, column) and mask value
DrawFigures = Callable[[Path, CutPhotograph, Record], None]


def prepare_we3ds(
    path: Path,
    out: Path,
    options: WindowOptions | None = None,
    *,
    strict: bool = False,
    workers: int | None = None,
    draw: DrawFigures | None = None,
) -> Prepared:
    """Cut the WE3DS download, a folder or its zip file, into windows below `out`.

    Args:
        strict: stop at the first photograph that cannot be used, instead of naming it in the record.
        workers: number of processes; by default one for each core.
        draw: called with the folder, an example and the record before the record is written.

    Raises:
        InputError: the download or the output folder is something else, or a photograph is bad under `strict`.
    """
    need("Cutting photographs", "vision", "PIL")
    began = time.monotonic()
    options = options or WindowOptions()
    download = find_download(Path(path))
    run = {"options": asdict(options) | {"drop": list(options.drop)}, "data": download.fingerprint}
    journal = Journal(out / JOURNAL)
    record = _earlier_record(out, run, journal)
    problems: list[Problem] = []

    def note(problem: Problem) -> None:
        if strict:
            sentence = f"Expected sound photographs under --strict, but {problem}"
            raise InputError(sentence, "mend or remove it, or run without")
        problems.append(problem)

    if record is not None and strict and record.skipped:
        note(Problem("", **record.skipped[0]))
    if record is not None and _is_complete(out, record):
        journal.path.unlink(missing_ok=True)
        return Prepared(record, 0, time.monotonic() - began, 0.0)
    out.mkdir(parents=True, exist_ok=True)
    with journal.open(run), Workers(workers or n_threads(), download.open) as crew:
        (out / RECORD).unlink(missing_ok=True)
        for problem in download.unpaired:
            note(problem)
        counts, counted = _count(download.photographs, options.window, journal, crew, note)
        table, cut = _write(counts, options, out, crew, note)
        if not table["stays"].any():
            raise _nothing_left(len(counts), problems)
        with download.open() as read:
            example = _example(read, table, options.window)
        megabytes = crew.megabytes
    write_atomically(out / TABLE, to_bytes(table.filter("stays").drop("value", "stays").write_parquet))
    record = _make_record(run, download, table, sorted(problems), out)
    if draw is not None:
        draw(out, example, record)
    for draft in (*out.glob(".*.tmp"), *out.glob("*/.*.png.*.tmp")):  # of a run that was killed
        draft.unlink(missing_ok=True)
    write_json(out / RECORD, {"format": FORMAT, "version": 1, **asdict(record)})
    journal.path.unlink(missing_ok=True)
    return Prepared(record, len(counted | cut), time.monotonic() - began, megabytes)


def _count(
    photographs: Sequence[str], window: int, journal: Journal, crew: Workers, note: Callable[[Problem], None]
) -> tuple[PixelCounts, set[str]]:
    """Count the windows of every sound photograph; return also the photographs that are not from the journal."""
    counts: PixelCounts = {}
    known = dict(map(_decoded, journal.entries))
    missing = [photo for photo in photographs if photo not in known]
    results = crew.map(partial(count_photograph, window=window), missing)
    with progress_bar("reading masks", len(photographs)) as advance:
        for photo in photographs:
            result = known.get(photo)
            if result is None:
                result = next(results)
                journal.append(_encoded(photo, result))
            if isinstance(result, Problem):
                note(result)
            else:
                counts[photo] = result
            advance(1)
    return counts, set(missing)


def _write(
    counts: PixelCounts, options: WindowOptions, out: Path, crew: Workers, note: Callable[[Problem], None]
) -> tuple[polars.DataFrame, set[str]]:
    """Write the windows that are missing; return the table, and the photographs that were read.

    A photograph that cannot be decoded is removed from `counts`, and the windows are selected again.
    """
    table = make_table(counts, options)
    parts = table.filter("stays").partition_by("photo", maintain_order=True)
    jobs = [(part["photo"][0], part.select("row", "column", "file").rows()) for part in parts]
    results = crew.map(partial(cut_photograph, out=out, window=options.window), jobs)
    n, read = len(counts), set()
    with progress_bar("cutting photographs", len(jobs)) as advance:
        for (photo, _), result in zip(jobs, results, strict=True):
            if isinstance(result, Problem):
                note(result)
                del counts[photo]
            elif result:
                read.add(photo)
            advance(1)
    if len(counts) < n:
        table, more = _write(counts, options, out, crew, note)
        read |= more
    return table, read


def _example(read: ReadMember, table: polars.DataFrame, window: int) -> CutPhotograph:
    """Choose, among photographs with windows that stay, the one with the most classes."""
    photos = table.filter("stays")["photo"].unique(maintain_order=True)[:200]
    seen = {photo: table.filter(photo=photo) for photo in photos}
    photo = max(seen, key=lambda each: (seen[each]["value"].n_unique(), (seen[each]["value"] > SOIL).sum()))
    grid = (seen[photo]["row"][-1] + 1, seen[photo]["column"][-1] + 1)
    labels, stays = (seen[photo][name].to_numpy().reshape(grid) for name in ("value", "stays"))
    return CutPhotograph(photo, read_photograph(read, photo), window, labels, stays)


def _nothing_left(n_sound: int, problems: list[Problem]) -> InputError:
    if n_sound or not problems:
        sentence = f"Expected windows to write, but of {n_sound:,} photographs none has any that stay"
        return InputError(sentence, "drop fewer classes or ask for some soil")
    sentence = (
        f"Expected photographs that can be cut, but all {len(problems):,} are bad, the first because {problems[0]}"
    )
    return InputError(sentence, "check the download")


# The journal: results of the first pass


def _encoded(photo: str, result: NDArray[np.int32] | Problem) -> dict[str, Any]:
    if isinstance(result, Problem):
        return result._asdict()
    packed = base64.b64encode(zlib.compress(result.astype("<i4").tobytes(), 1)).decode()
    return {"photo": photo, "rows": result.shape[0], "counts": packed}


def _decoded(entry: dict[str, Any]) -> tuple[str, NDArray[np.int32] | Problem]:
    if "reason" in entry:
        return entry["photo"], Problem(**entry)
    counts = np.frombuffer(zlib.decompress(base64.b64decode(entry["counts"])), "<i4")
    return entry["photo"], counts.reshape(entry["rows"], -1, len(mask_classes())).astype(np.int32)


# The record


def _make_record(
    run: dict[str, Any], download: DownloadListing, table: polars.DataFrame, problems: list[Problem], out: Path
) -> Record:
    """Summarize a run whose windows and table are in the folder."""
    selected = table.filter("stays")
    before, after = (np.bincount(each["value"], minlength=len(mask_classes())).tolist() for each in (table, selected))
    size = _total_size(out, selected["file"])
    photographs = {"found": len(download), "cut": len(download) - len(problems), "skipped": len(problems)}
    windows = {"cut": len(table), "all void": before[VOID], "written": len(selected), "bytes": size}
    classes = [c._asdict() | {"before": before[c.value], "after": after[c.value]} for c in mask_classes()[1:]]
    skipped = [{"file": problem.file, "reason": problem.reason} for problem in problems]
    versions = {name: version(name) for name in ("pippin-conformal", "numpy", "pillow", "polars")}
    versions = {"python": platform.python_version()} | versions
    return Record(run, photographs, windows, classes, skipped, file_checksum(out / TABLE), versions)


def _earlier_record(folder: Path, run: dict[str, Any], journal: Journal) -> Record | None:
    """Read the record that a finished run left in the folder; None if it was stopped or there was none.

    Raises:
        InputError: the folder holds something else, or the results of another run.
    """
    if not folder.is_dir() or not any(folder.iterdir()):
        return None
    record, known, remedy = None, journal.header, "choose another --out or delete that folder"
    if (folder / RECORD).is_file():
        try:
            content = json.loads((folder / RECORD).read_bytes())
            if content.pop("format") != FORMAT or content.pop("version") != 1:
                raise ValueError(FORMAT)
            record = Record(**content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{folder / RECORD} is damaged or something else", remedy) from error
        known = record.run
    else:
        journal.check_folder()
    if known is not None and known != run:
        raise InputError(f"{folder} holds windows made with {_difference(known, run)}", remedy)
    return record


def _is_complete(folder: Path, record: Record) -> bool:
    """Return True if the table and, by their total size, all of its windows are still there."""
    table = folder / TABLE
    if not table.is_file() or file_checksum(table) != record.table:
        return False
    return record.windows["bytes"] == _total_size(folder, polars.read_parquet(table, columns=["file"])["file"])


def _total_size(folder: Path, files: Iterable[str]) -> int:
    """Size of all files in bytes; -1 where one is missing."""
    try:
        return sum((folder / file).stat().st_size for file in files)
    except FileNotFoundError:
        return -1


def _difference(known: dict[str, Any], run: dict[str, Any]) -> str:
    """Describe the first option that differs."""
    earlier = known.get("options", {})
    for name, value in run["options"].items():
        if earlier.get(name) != value:
            there, here = (", ".join(v) or "none" if isinstance(v, list) else v for v in (earlier.get(name), value))
            return f"--{name} {there}, not {here}"
    return "other photographs"
