"""A large result in pieces beside the file that it will be: a run that was stopped goes on behind the last of them."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pippin._runtime.disk import naming_target, write_whole
from pippin.cli.locking import alone

if TYPE_CHECKING:
    import polars

PIECE = 1 << 19  # rows
NOTE = "made_from.json"
ARROW = ".arrow"  # how pieces of a Parquet file are kept: they are quickly written and read
GROUP = 1 << 18  # rows of a Parquet file's row group
Numbers = tuple[int, int, int, int]  # of a piece: first row, stop, the sum of the sets' sizes, how many are empty


class Pieces:
    """The pieces of one file. Each is named for its rows, and for what they add to a total: first-stop-sizes-empty."""

    def __init__(self, out: Path, folder: Path) -> None:
        self.out, self.folder = out, folder
        self.ending = ARROW if out.suffix.lower() == ".parquet" else out.suffix.lower()

    @property
    def done(self) -> int:
        """How many rows are there, from the first on."""
        rows = 0
        for first, stop, *_ in sorted(map(_numbers, self.files())):
            if first != rows:
                break
            rows = stop
        return rows

    def files(self) -> list[Path]:
        """The pieces in the order of their rows."""
        return sorted(self.folder.glob(f"[0-9]*{self.ending}"))

    def totals(self) -> tuple[int, int, int]:
        """Rows, the sum of the sizes of their sets, and how many sets are empty."""
        every = [_numbers(path) for path in self.files()]
        return every[-1][1], sum(sizes for _, _, sizes, _ in every), sum(empty for *_, empty in every)

    def cut(self, rows: int) -> None:
        """Forgets what lies behind so many rows: another file of this run has no more."""
        for path in self.files():
            if _numbers(path)[1] > rows:
                path.unlink()

    def add(self, numbers: Numbers, data: bytes) -> None:
        """One more piece, whole or not at all."""
        first, stop, sizes, empty = numbers
        write_whole(self.folder / f"{first:015}-{stop:015}-{sizes}-{empty}{self.ending}", data, lasting=False)

    def join(self) -> None:
        """The file, from all its pieces; whole or not at all."""
        draft = self.folder / f"draft{self.out.suffix}"  # which goes with the folder
        with naming_target(self.out):
            if self.ending == ARROW:
                import polars

                table = polars.scan_ipc(self.files(), glob=False)
                table.sink_parquet(draft, row_group_size=GROUP, maintain_order=True)
            else:
                with open(draft, "wb") as stream:
                    for path in self.files():
                        with open(path, "rb") as piece:
                            shutil.copyfileobj(piece, stream, 1 << 22)
                    stream.flush()
                    os.fsync(stream.fileno())
            os.replace(draft, self.out)


def table_bytes(table: "polars.DataFrame", ending: str, first: int) -> bytes:
    """A piece of a table; in .csv only the first has a header."""
    import io

    buffer = io.BytesIO()
    if ending == ".csv":
        table.write_csv(buffer, include_header=first == 0)
    else:
        table.write_ipc(buffer, compression="uncompressed")
    return buffer.getvalue()


@contextmanager
def pieces_of(outs: list[Path], made_from: dict[str, Any]) -> Iterator[tuple[list[Pieces], dict[str, Any]]]:
    """The pieces of some files that are made together, kept from an earlier run that was made from the same.

    Yields what it was made from, with what only that run could know, such as a seed that it drew. At the end
    the files are there and the pieces gone; an error of the data leaves neither.
    """
    folder = outs[0].with_name(f".{outs[0].name}.pieces")
    folder.mkdir(exist_ok=True)
    with alone(folder):
        noted = _noted(folder / NOTE, made_from)
        if noted is None:
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            noted = made_from
            write_whole(folder / NOTE, json.dumps(noted).encode())
        every = []
        for number, out in enumerate(outs):
            own = folder / str(number)
            own.mkdir(exist_ok=True)
            every.append(Pieces(out, own))
        try:
            yield every, noted
            for pieces in every:
                pieces.join()
        except ValueError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        with suppress(OSError):
            shutil.rmtree(folder)


def _noted(note: Path, made_from: dict[str, Any]) -> dict[str, Any] | None:
    """What an earlier run noted, if it was made from the same but for what is drawn."""
    try:
        found = json.loads(note.read_bytes())
        same = {key: value for key, value in found.items() if key != "drawn"}
    except (OSError, ValueError, AttributeError):
        return None
    wanted = {key: value for key, value in json.loads(json.dumps(made_from)).items() if key != "drawn"}
    return found if same == wanted else None


def _numbers(path: Path) -> Numbers:
    first, stop, sizes, empty = map(int, path.stem.split("-"))
    return first, stop, sizes, empty
