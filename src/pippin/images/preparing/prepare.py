"""Photographs into labelled windows: `WINDOWS/<class>/<photo>_<row>_<column>.png`, windows.parquet, prepare.json.

Two passes over the photographs, each on all cores. The first reads the masks, and of the
photographs only enough to know that they are whole. Then it is decided which windows stay,
and the second pass reads the photographs that have any. A run that was killed goes on where
it was, and what it leaves equals, byte for byte, what a run without a break leaves.
"""

import hashlib
import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.disk import read_plain, write_whole
from pippin._runtime.errors import InputError
from pippin._runtime.extras import need
from pippin._runtime.progress import progress_bar
from pippin._runtime.threads import n_threads
from pippin.images.preparing.journal import JOURNAL, Journal, open_journal
from pippin.images.preparing.png import BadImageError, encode, read_header
from pippin.images.preparing.record import (
    RECORD,
    TABLE,
    Record,
    earlier_record,
    is_whole,
    make_record,
    run_to_do,
    write_record,
)
from pippin.images.preparing.table import Piece, Table, make_table
from pippin.images.preparing.we3ds import Download, Problem, Reader, find_download, image_file, reading
from pippin.images.preparing.windows import Counted, Options, count_photograph, read_photograph
from pippin.images.preparing.workers import Workers


@dataclass(frozen=True)
class Example:
    """A photograph to show: labels[row, column] are mask values, and stays says which windows were written."""

    photo: str
    pixels: NDArray[np.uint8]
    window: int
    labels: NDArray[np.uint8]
    stays: NDArray[np.bool_]


@dataclass(frozen=True)
class Prepared:
    """What a run left in `folder`, and what this one spent on it; `worked_on` is 0 where nothing was to do."""

    folder: Path
    record: Record
    worked_on: int
    seconds: float
    megabytes: float


Draw = Callable[[Path, Example, Record], None]


def prepare_we3ds(
    path: Path,
    out: Path,
    options: Options | None = None,
    *,
    strict: bool = False,
    workers: int | None = None,
    draw: Draw | None = None,
) -> Prepared:
    """Cuts the WE3DS download, a folder or its zip file, into windows below `out`.

    Args:
        strict: stop at the first photograph that cannot be used, instead of naming it in the record.
        workers: how many processes; by default one for each core.
        draw: called with the folder, an example and the record before the record is written.

    Raises:
        InputError: the download or the output folder is something else, or a photograph is bad under `strict`.
    """
    need("Cutting photographs", "vision", "PIL")
    began = time.monotonic()
    options = options or Options()
    download = find_download(Path(path))
    run = run_to_do(download, options)
    record = earlier_record(out, run)
    if record is not None and strict and record.skipped:
        raise _strictly("{file} {reason}".format(**record.skipped[0]))
    if record is not None and is_whole(out, record):
        _tidy(out)
        return Prepared(out, record, 0, time.monotonic() - began, 0.0)
    out.mkdir(parents=True, exist_ok=True)
    tool = partial(reading, download.path, download.top)
    with open_journal(out, run) as journal, Workers(workers or n_threads(), tool) as crew:
        (out / RECORD).unlink(missing_ok=True)
        worked = _Run(out, download, options, strict, journal, crew)
        table = worked.cut()
        with tool() as read:
            example = _example(read, table, options.window)
        megabytes = crew.megabytes
    record = make_record(run, download, table, sorted(worked.problems), out, _write_table(out, table))
    if draw is not None:
        draw(out, example, record)
    _sweep(out)
    write_record(out, record)
    _tidy(out)
    return Prepared(out, record, len(worked.worked_on), time.monotonic() - began, megabytes)


class _Run:
    """The two passes; `problems` and `worked_on` fill as they go."""

    def __init__(
        self,
        out: Path,
        download: Download,
        options: Options,
        strict: bool,
        journal: Journal,
        crew: Workers[Reader],
    ) -> None:
        self.out, self.download, self.options, self.strict = out, download, options, strict
        self.journal, self.crew = journal, crew
        self.problems: list[Problem] = []
        self.worked_on: set[str] = set()

    def cut(self) -> Table:
        """Both passes. A photograph that turns out bad only when it is cut has others take its place."""
        for problem in self.download.unpaired:
            self._note(problem)
        counted = self._count()
        while True:
            table = make_table(counted, self.options)
            if not table.stays.any():
                raise self._nothing(len(counted))
            bad = self._write(table)
            if not bad:
                return table
            counted = [one for one in counted if one.photo not in bad]

    def _count(self) -> list[Counted]:
        """The windows of every sound photograph."""
        counted = []
        photographs = self.download.photographs
        missing = [photo for photo in photographs if photo not in self.journal.kept]
        fresh = self.crew.map(partial(count_photograph, window=self.options.window), missing)
        with progress_bar("reading masks", len(photographs)) as advance:
            for photo in photographs:
                if photo not in self.journal.kept:
                    self.journal.add(next(fresh))
                    self.worked_on.add(photo)
                result = self.journal.kept[photo]
                if isinstance(result, Problem):
                    self._note(result)
                else:
                    counted.append(result)
                advance(1)
        return counted

    def _write(self, table: Table) -> set[str]:
        """Writes the windows that are not there yet; the photographs that cannot be decoded."""
        bad = set()
        jobs = list(table.pieces())
        work = partial(cut_photograph, out=self.out, window=self.options.window)
        with progress_bar("cutting photographs", len(jobs)) as advance:
            for (photo, _), result in zip(jobs, self.crew.map(work, jobs), strict=True):
                if isinstance(result, Problem):
                    self._note(result)
                    bad.add(photo)
                elif result:
                    self.worked_on.add(photo)
                advance(1)
        return bad

    def _note(self, problem: Problem) -> None:
        if self.strict:
            raise _strictly(str(problem))
        self.problems.append(problem)

    def _nothing(self, n_sound: int) -> InputError:
        if n_sound or not self.problems:
            return InputError(
                f"Expected windows to write, but of {n_sound:,} photographs none has any that stay",
                "drop fewer classes or ask for some soil",
            )
        return InputError(
            f"Expected photographs that can be cut, but all {len(self.problems):,} are bad, the first because "
            f"{self.problems[0]}",
            "check the download",
        )


def cut_photograph(read: Reader, job: tuple[str, tuple[Piece, ...]], out: Path, window: int) -> int | Problem:
    """Writes those windows of a photograph that are not there yet, or not sound; how many they were."""
    photo, pieces = job
    missing = [piece for piece in pieces if not _is_sound(out / piece.file)]
    if not missing:
        return 0
    try:
        pixels = read_photograph(read, photo)
    except BadImageError as bad:
        return Problem(photo, image_file(photo), str(bad))
    for row, column, file in missing:
        part = pixels[row * window : (row + 1) * window, column * window : (column + 1) * window]
        (out / file).parent.mkdir(exist_ok=True)
        write_whole(out / file, encode(np.ascontiguousarray(part)), lasting=False)  # else read_header tells
    return len(missing)


def _is_sound(window: Path) -> bool:
    try:
        read_header(read_plain(window))
    except (OSError, BadImageError):
        return False
    return True


def _example(read: Reader, table: Table, window: int) -> Example:
    photo = table.example()
    here = table.photo == photo
    grid = (int(table.row[here].max()) + 1, int(table.column[here].max()) + 1)
    labels, stays = table.label[here].reshape(grid), table.stays[here].reshape(grid)
    return Example(photo, read_photograph(read, photo), window, labels, stays)


def _write_table(out: Path, table: Table) -> str:
    """Writes windows.parquet; its SHA-256."""
    buffer = io.BytesIO()
    table.frame().write_parquet(buffer)
    write_whole(out / TABLE, buffer.getvalue())
    return hashlib.sha256(buffer.getvalue()).hexdigest()


def _sweep(out: Path) -> None:
    """Removes the drafts that a killed run left."""
    for draft in (*out.glob(".*.tmp"), *out.glob("*/.*.png.*.tmp")):
        draft.unlink(missing_ok=True)


def _tidy(out: Path) -> None:
    (out / JOURNAL).unlink(missing_ok=True)


def _strictly(problem: str) -> InputError:
    return InputError(f"Expected sound photographs under --strict, but {problem}", "mend or remove it, or run without")
