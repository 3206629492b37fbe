"""Output of commands: printed lines, checks of files and folders before the work begins, locks, and parts of files."""

import hashlib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from pippin._runtime.disk import file_checksum, naming_target, write_atomically
from pippin._runtime.errors import InputError
from pippin._runtime.provenance import file_checksums, training_checksum
from pippin._runtime.showing import visible
from pippin.tables.reading import Data
from pippin.tables.scanning import Scan

LOCK = ".pippin.lock"  # file to lock on Windows, which cannot lock a folder
MOST_FILES = 20  # maximum number of data files that have their own checksums in a provenance
ROW_GROUP = 1 << 18  # rows per row group of a Parquet file


def echo(text: object, file: TextIO | None = None) -> None:
    """Print text to standard output or another stream, at once; control characters become escape sequences."""
    print(visible_lines(text), file=file, flush=True)


def visible_lines(text: object) -> str:
    r"""Return text without control characters other than line ends.

    >>> visible_lines("two\nlines\x1b[2J")
    'two\nlines\\x1b[2J'
    """
    return "\n".join(map(visible, str(text).split("\n")))


def echo_json(content: dict[str, Any]) -> None:
    """Print a JSON object on one line, in ASCII and without control characters."""
    echo(json.dumps(content).replace("\x7f", "\\u007f"))


def write_stdout(content: bytes) -> None:
    """Write a table to standard output: bytes to a file or pipe, text without control characters to a terminal."""
    if sys.stdout.isatty():
        sys.stdout.write(visible_lines(content.decode()))
    else:
        sys.stdout.buffer.write(content)


def check_target(path: Path, *endings: str, option: str = "--out") -> None:
    """Raise an InputError unless the path has one of these endings, in a folder where files can be written."""
    if path.suffix.lower() not in endings:
        raise InputError(f"Expected {option} to end in {' or '.join(endings)}, got {path}", "rename it")
    if path.is_dir():
        raise InputError(f"Expected {option} to be a file, but {path} is a folder", "name a file in it")
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"Expected {option} in a folder that exists, got {path}", f"make the folder {folder} first")
    check_writable(folder, option)


def with_provenance(saved: Any, given: Data | Scan, by: str, *others: Path | None) -> Any:
    """Return an object with its provenance: the running command, the data, and other files that it was made from.

    If the data are logits that `pippin train` wrote, the training record next to them is part of the provenance.

    Args:
        saved: the object.
        given: the data.
        by: the person or system responsible.
        others: paths of further files, such as labels or a utility; or None.

    For more than MOST_FILES tables, there is one checksum: that of the output of `sha256sum` for all of them.
    """
    training, files = "", {}
    if isinstance(given, Data):
        files[given.name] = given.checksum
        if given.path is not None:
            training = training_checksum(given.path.parent, "logits", given.checksum)
    else:
        files = file_checksums([table.path for table in given.tables])
        if len(files) > MOST_FILES:
            listing = "".join(f"{checksum}  {path}\n" for path, checksum in files.items())
            digest = hashlib.sha256(listing.encode(errors="surrogateescape")).hexdigest()
            files = {f"{given.name} ({len(files):,} tables)": digest}
    files |= file_checksums([path for path in others if path is not None])
    return saved.with_provenance(files, by=by, command=running_command(), training=training)


def running_command() -> str:
    """Return the running command as it can be typed in a shell."""
    return shlex.join(["pippin", *sys.argv[1:]])


def check_distinct(option: str, path: Path, others: Iterable[Path]) -> None:
    """Raise an InputError if an output path is the same file as one of the other inputs or outputs."""
    for other in others:
        if path.absolute() == other.absolute() or (path.exists() and other.exists() and path.samefile(other)):
            raise InputError(f"Expected {option} to be a file of its own, got {path} twice", "name another file")


def check_writable(folder: Path, option: str) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"Expected {option} where files may be written, but {folder} is not", "choose another place")


@contextmanager
def output_folder(path: Path) -> Iterator[None]:
    """Create and lock a folder for the results; after an error, remove the created folders that are still empty.

    Raises:
        InputError: the folder is not writable, or locked by another run.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    existing = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
    if not existing.is_dir():
        name = (path, *path.parents)[len(missing)]
        raise InputError(f"Expected --out to be a folder, but {name} is a file", "choose another name")
    check_writable(existing, "--out")
    path.mkdir(parents=True, exist_ok=True)
    with locked(path):
        try:
            yield
        except BaseException:
            with suppress(OSError):
                for folder in missing:
                    folder.rmdir()
            raise


@contextmanager
def locked(path: Path, remedy: str = "choose another output folder") -> Iterator[None]:
    """Lock a folder or file while the `with` block runs; raise an InputError if another process has locked it.

    Args:
        path: a folder, or a file, which may be replaced while it is locked.
        remedy: what the user can do other than wait, for the error message.
    """
    with ExitStack() as stack:
        try:
            _lock(path if path.is_dir() else path.with_name(f".{path.name}.lock"), stack)
        except (BlockingIOError, PermissionError):
            what = f"Another run is writing into {path} now"
            raise InputError(what, f"wait until it has ended, or {remedy}") from None
        except OSError:  # some network file systems cannot lock folders
            pass
        yield


def _lock(path: Path, stack: ExitStack) -> None:
    """Lock a folder, or a lock file that is created here and removed at the end, until `stack` is closed."""
    if sys.platform == "win32":
        import msvcrt

        file = path / LOCK if path.is_dir() else path
        stack.callback(file.unlink, missing_ok=True)
        handle = os.open(file, os.O_RDWR | os.O_CREAT)
        stack.callback(os.close, handle)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        is_folder = path.is_dir()
        handle = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR | os.O_CREAT)
        stack.callback(os.close, handle)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not is_folder:
            if not (path.exists() and os.path.samestat(os.fstat(handle), path.stat())):
                raise BlockingIOError(f"{path} was removed by a run that has just ended")
            stack.callback(path.unlink, missing_ok=True)


class PartFiles:
    """Output files that are written in parts, so that an interrupted run can resume.

    Each part is one file per target, with the results for some of the rows. After the files of a part are complete,
    `progress.json` records the checksums of these files and of itself. A power failure can leave some files incomplete;
    then the run resumes before the first part with such a file.

    Attributes:
        seed: the seed of the run that wrote the first part.
    """

    def __init__(self, folder: Path, targets: Sequence[Path], made_from: Any, seed: int) -> None:
        self._folder, self._targets = folder, targets
        self._made_from = json.loads(json.dumps(made_from))
        self.seed = seed
        self._parts: list[tuple[list[int], list[str]]] = []
        with suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
            content, _, checksum = (folder / "progress.json").read_bytes().rpartition(b"\n")
            earlier = json.loads(content) if checksum == _checksum(content) else {}
            if earlier["made_from"] == self._made_from:
                self.seed = abs(int(earlier["seed"]))
                for (n, total, empty), checksums in earlier["parts"]:
                    files = [self._part(number, len(self._parts)) for number in range(len(targets))]
                    if list(map(file_checksum, files)) != checksums:
                        break
                    self._parts.append(([int(n), int(total), int(empty)], checksums))

    @property
    def totals(self) -> list[int]:
        """Sums over all parts: the number of rows, the total size of their sets, and the number of empty sets."""
        return [sum(column) for column in zip(*(amounts for amounts, _ in self._parts), strict=True)] or [0, 0, 0]

    def add(self, contents: Sequence[bytes], *amounts: int) -> None:
        """Write the next part, one content per target, and add its `amounts` (see `totals`) to the totals."""
        for number, content in enumerate(contents):
            (self._folder / str(number)).mkdir(exist_ok=True)
            write_atomically(self._part(number, len(self._parts)), content, lasting=False)
        self._parts.append((list(amounts), [hashlib.sha256(content).hexdigest() for content in contents]))
        progress = {"made_from": self._made_from, "seed": self.seed, "parts": self._parts}
        content = json.dumps(progress).encode()
        write_atomically(self._folder / "progress.json", content + b"\n" + _checksum(content), lasting=False)

    def join(self) -> None:
        """Write each target from its parts: a Parquet file from Arrow files, other formats by concatenating bytes."""
        for number, target in enumerate(self._targets):
            parts = [self._part(number, part) for part in range(len(self._parts))]
            draft = self._folder / f"draft{target.suffix}"
            with naming_target(target):
                if target.suffix.lower() == ".parquet":
                    import polars

                    table = polars.scan_ipc(parts, glob=False)
                    table.sink_parquet(draft, row_group_size=ROW_GROUP, maintain_order=True)
                else:
                    with open(draft, "wb") as stream:
                        for path in parts:
                            with open(path, "rb") as part:
                                shutil.copyfileobj(part, stream, 1 << 22)
                        stream.flush()
                        os.fsync(stream.fileno())
                os.replace(draft, target)

    def _part(self, number: int, part: int) -> Path:
        return self._folder / str(number) / f"{part:09}"


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


@contextmanager
def part_files(targets: Sequence[Path], made_from: Any, seed: int) -> Iterator[PartFiles]:
    """Open part files in a hidden folder next to the first target, and join them into the targets at the end.

    An interrupted run leaves the folder, and the next run with an equal `made_from` (the inputs and options) resumes
    from it. After an error in the data, the folder is removed.
    """
    folder = targets[0].with_name(f".{targets[0].name}.pieces")
    folder.mkdir(exist_ok=True)
    with locked(folder):
        parts = PartFiles(folder, targets, made_from, seed)
        try:
            yield parts
        except ValueError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        parts.join()
        shutil.rmtree(folder, ignore_errors=True)
