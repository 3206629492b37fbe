"""Cutting of photographs with masks into labelled windows.

The output folder gets the windows as `<class>/<photo>_<row>_<column>.png`, their table windows.parquet, and a record of
the run, prepare.json. There are two parallel passes over the photographs. The first reads the masks and verifies the
photographs; then the windows are selected, and the second pass cuts the photographs that have selected windows. An
interrupted run resumes, and writes the same files, byte for byte, as an uninterrupted run.
"""

import json
import platform
import time
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
    """Record of a run, the content of prepare.json.

    Attributes:
        run: the options, and a fingerprint of the names and sizes of the input files.
        photographs: the numbers of photographs that were found, cut and skipped.
        windows: four numbers: windows that were cut, windows with only void pixels, written windows, written bytes.
        classes: mask value, name and group of each class, and its numbers of windows before and after selection.
        skipped: the invalid file of each skipped photograph, and the reason.
        table: SHA-256 of windows.parquet.
        versions: versions of Python and libraries.
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
    """Photograph for the figure of `pippin prepare`, with the label (mask value) of each window.

    `stays` is True for the windows that are selected, `window` their side in pixels.
    """

    photo: str
    pixels: NDArray[np.uint8]
    window: int
    labels: NDArray[np.uint8]
    stays: NDArray[np.bool_]


@dataclass(frozen=True)
class Prepared:
    """Result of `prepare_we3ds`: the record, the number of photographs read in this run, its time and peak memory."""

    record: Record
    worked_on: int
    seconds: float
    megabytes: float


PixelCounts = dict[str, NDArray[np.int32]]  # by photograph: number of pixels, shape (rows, columns, mask values)
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
    """Cut the photographs of the WE3DS data set into labelled windows.

    Args:
        path: the folder or zip file of the data set.
        out: the output folder.
        options: size, labels and selection of the windows.
        strict: raise an error at the first invalid photograph, instead of listing it in the record.
        workers: the number of processes; by default one per core.
        draw: draws figures; called with the output folder, an example photograph and the record.

    Raises:
        InputError: `path` is not the data set, `out` has other files, or a photograph is invalid under `strict`.
    """
    need("Cutting photographs", "vision", "PIL")
    began = time.monotonic()
    options = options or WindowOptions()
    download = find_download(Path(path))
    run = {"options": asdict(options) | {"drop": list(options.drop)}, "data": download.fingerprint}
    journal = Journal(out / JOURNAL, _decoded)
    record = _earlier_record(out, run, journal)
    problems: list[Problem] = []

    def note(problem: Problem) -> None:
        if strict:
            sentence = f"Expected valid photographs under --strict, but {problem}"
            raise InputError(sentence, "repair or remove it, or run without --strict")
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
    for draft in (*out.glob(".*.tmp"), *out.glob("*/.*.png.*.tmp")):  # temporary files of a killed run
        draft.unlink(missing_ok=True)
    write_json(out / RECORD, {"format": FORMAT, "version": 1, **asdict(record)})
    journal.path.unlink(missing_ok=True)
    return Prepared(record, len(counted | cut), time.monotonic() - began, megabytes)


def _count(
    photographs: Sequence[str], window: int, journal: Journal, crew: Workers, note: Callable[[Problem], None]
) -> tuple[PixelCounts, set[str]]:
    """Count the pixels of each mask value in the windows of all photographs (first pass).

    Results in the journal are not computed again. Return the counts of valid photographs, and the photographs that were
    not in the journal. `note` is called with each problem.
    """
    counts: PixelCounts = {}
    known = dict(journal.entries)
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
    """Select the windows, and write those that do not exist yet (second pass).

    Return the table of all windows, and the photographs that were read. A photograph that cannot be decoded is removed
    from `counts`, and the windows are selected again.
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
    """Choose the photograph for the figure: one with selected windows, and windows of as many classes as possible."""
    photos = table.filter("stays")["photo"].unique(maintain_order=True)[:200]
    windows = {photo: table.filter(photo=photo) for photo in photos}
    photo = max(windows, key=lambda each: (windows[each]["value"].n_unique(), (windows[each]["value"] > SOIL).sum()))
    grid = (windows[photo]["row"][-1] + 1, windows[photo]["column"][-1] + 1)
    labels, stays = (windows[photo][name].to_numpy().reshape(grid) for name in ("value", "stays"))
    return CutPhotograph(photo, read_photograph(read, photo), window, labels, stays)


def _nothing_left(n_valid: int, problems: list[Problem]) -> InputError:
    if n_valid or not problems:
        sentence = f"Expected windows to write, but {n_valid:,} photographs have no selected windows"
        return InputError(sentence, "drop fewer classes, or pass a larger --soil")
    got = f"all {len(problems):,} are invalid, the first because {problems[0]}"
    return InputError(f"Expected photographs that can be cut, but {got}", "check the download")


# Entries of the journal: the pixel counts of a photograph, or its problem


def _encoded(photo: str, result: NDArray[np.int32] | Problem) -> dict[str, Any]:
    return result._asdict() if isinstance(result, Problem) else {"photo": photo, "counts": result.tolist()}


def _decoded(entry: dict[str, Any]) -> tuple[str, NDArray[np.int32] | Problem]:
    if "reason" in entry:
        problem = Problem(**entry)
        if not all(isinstance(part, str) for part in problem):
            raise ValueError(entry)
        return problem.photo, problem
    photo, counts = entry["photo"], np.array(entry["counts"], np.int32)
    if not isinstance(photo, str) or counts.ndim != 3 or counts.shape[2] != len(mask_classes()) or counts.min() < 0:
        raise ValueError(entry)
    return photo, counts


# The record of a run


def _make_record(
    run: dict[str, Any], download: DownloadListing, table: polars.DataFrame, problems: list[Problem], out: Path
) -> Record:
    """Make the record of a run, after its windows and their table are written."""
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


def _check_record(record: Record) -> None:
    """Raise an error if an entry of a record is missing or has another type; only entries in use are checked."""
    texts = [known[name] for known in record.classes for name in ("name", "group")]
    texts += [problem[name] for problem in record.skipped for name in ("file", "reason")]
    numbers = [record.photographs[name] for name in ("found", "cut", "skipped")]
    numbers += [record.windows[name] for name in ("cut", "all void", "written", "bytes")]
    numbers += [known[name] for known in record.classes for name in ("before", "after")]
    if not all(isinstance(text, str) for text in texts) or not all(type(number) is int for number in numbers):
        raise TypeError(record)


def _earlier_record(folder: Path, run: dict[str, Any], journal: Journal) -> Record | None:
    """Read the record that a finished run left in the output folder; return None if there is none.

    Raises:
        InputError: the folder has other files, or results of a run with other options or data.
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
            _check_record(record)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(f"{folder / RECORD} is damaged, or no record of pippin prepare", remedy) from error
        known = record.run
    else:
        journal.check_folder()
    if known is not None and known != run:
        raise InputError(f"{folder} holds windows made with {_difference(known, run)}", remedy)
    return record


def _is_complete(folder: Path, record: Record) -> bool:
    """Return True if the checksum of the table and the total size of the windows are those in the record of a run."""
    table = folder / TABLE
    if not table.is_file() or file_checksum(table) != record.table:
        return False
    return record.windows["bytes"] == _total_size(folder, polars.read_parquet(table, columns=["file"])["file"])


def _total_size(folder: Path, files: Iterable[str]) -> int:
    """Return the total size of files in bytes; -1 if one is missing."""
    try:
        return sum((folder / file).stat().st_size for file in files)
    except FileNotFoundError:
        return -1


def _difference(known: Any, run: dict[str, Any]) -> str:
    """Describe the first option in which an earlier run (`known`) differs from this run."""
    earlier = known.get("options", {}) if isinstance(known, dict) else {}
    if not isinstance(earlier, dict):
        return "other photographs"
    for name, value in run["options"].items():
        if earlier.get(name) != value:
            pair = (earlier.get(name), value)
            there, here = (", ".join(map(str, v)) or "none" if isinstance(v, list) else v for v in pair)
            return f"--{name} {there}, not {here}"
    return "other photographs"
