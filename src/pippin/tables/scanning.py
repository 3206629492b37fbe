"""Tables past memory: their rows in batches, one after the other, checked as they come."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import Codes
from pippin._runtime.disk import joined_on_disk
from pippin._runtime.errors import InputError
from pippin._validation.batched import Batch, no_rows
from pippin._validation.labels import ColumnNumbers, Reading, as_classes, as_labels, two_meanings
from pippin._validation.rows import Rows, as_rows
from pippin.tables.formats import (
    NO_PARQUET,
    PLAIN_WHOLE,
    csv_body,
    csv_content,
    opened,
    parquet_content,
    parsed,
    whole_if_all,
)
from pippin.tables.layout import Layout, no_class, strangers
from pippin.tables.reading import Data, check_rows, checked_groups, naming, normalized_unless
from pippin.tables.sources import Mark, Source, check_types, csv_blocks, described, expand

if TYPE_CHECKING:
    import polars

BATCH = 1 << 17  # rows
HELD = 1 << 28  # bytes of probabilities that are gathered in memory


def scan(
    paths: "str | PathLike[str] | Sequence[str | PathLike[str]]",
    *,
    label: str | None = None,
    id: str | None = None,
    classes: Sequence[str] | None = None,
    prefix: str | None = None,
    logits: bool = False,
    normalize: bool = False,
    labels_are: Reading | None = None,
) -> "Scan":
    """Tables that are read in batches: `calibrate`, `predict` and `evaluate` take what this returns.

    Args:
        paths: a file, a folder, a pattern such as `"folder/*.parquet"`, or several; .parquet, .csv or .csv.gz.
        label: the column of true classes, if it is not called label.
        id: a column that names the rows.
        classes: the columns of probabilities; without it, all that are no label, group or id.
        prefix: what the columns of probabilities begin with, and the classes do not.
        logits: whether a softmax is taken of the columns first.
        normalize: whether each row is divided by its sum first.
        labels_are: "names" or "indices", where whole numbers could be both.

    >>> import pathlib, pippin, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("north.csv", "south.csv"):
    ...         _ = pathlib.Path(folder, name).write_text("crop,weed,label" + "\\n0.9,0.1,crop" * 20)
    ...     pippin.calibrate(pippin.scan(folder), score="ip")
    Predictor(ip, alpha=0.1, threshold=0.1, 40 calibration examples, 2 classes)
    """
    given = [paths] if isinstance(paths, str | PathLike) else list(paths)
    layout = Layout(label, id, None if classes is None else tuple(classes), prefix, logits, normalize, labels_are)
    return scan_tables([Path(path) for path in given], layout)


def scan_tables(paths: Sequence[Path], layout: Layout) -> "Scan":
    """The same with all that was said of the columns in one."""
    if not paths:
        raise InputError("Expected a table, got none", "name a file, a folder or a pattern")
    sources = described(expand(paths), layout)
    for source in sources:
        check_types(source)
    return Scan(tuple(paths), sources, layout)


@dataclass(frozen=True, eq=False, repr=False)
class Scan:
    """Tables and what their columns are; the rows are read when they are asked for.

    Attributes:
        paths: the files, in the order in which they are read.
        sources: what each file is.
        layout: what their columns mean.
        id_types: the polars types of the ids of all tables, where these are some of them.
    """

    paths: tuple[Path, ...]
    sources: tuple[Source, ...]
    layout: Layout
    id_types: frozenset[Any] | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the first table."""
        names = self.sources[0].columns.names
        with naming(self.sources[0].path):
            return tuple(map(str, as_classes(names, as_rows(np.empty((1, len(names)))))))

    @property
    def name(self) -> str:
        """What the tables are called together."""
        more = len(self.paths) - 1
        return str(self.paths[0]) + (f" and {more} more" if more else "")

    @property
    def rows(self) -> int | None:
        """How many rows there are, if the tables say so."""
        counts = [source.rows for source in self.sources]
        return None if None in counts else sum(filter(None, counts))

    @property
    def has_groups(self) -> bool:
        """Whether the rows come with groups."""
        return self.sources[0].columns.group is not None

    @property
    def id_type(self) -> Any:
        """The polars type of the ids, where all tables say the same; None where nobody does."""
        return next(iter(self._id_types)) if len(self._id_types) == 1 else None

    @property
    def _id_types(self) -> frozenset[Any]:
        if self.id_types is not None:
            return self.id_types
        return frozenset(dict(source.schema).get(source.columns.id or "") for source in self.sources)

    def __repr__(self) -> str:
        n = len(self.sources)
        return f"Scan({self.name}: {n:,} table{'s' if n > 1 else ''}, {len(self.classes):,} classes)"

    def batches(self, *needs: str, start: int = 0) -> Iterator[Batch]:
        """The rows from `start` on, some at a time, in order.

        Args:
            needs: what is read beside the probabilities: "labels", "groups", "ids".
            start: how many rows are left out.
        """
        reading = self._reading() if "labels" in needs else None
        kind: str | None = None
        first = start
        for source, in_file, frame in self._frames(needs, start):
            data = self._data(source, frame, in_file)
            labels = None
            if "labels" in needs:
                labels, own = self._truth(replace(data, labels_are=reading))
                kind = _agreed(kind, own, data)
            yield Batch(data.rows, labels, data.groups, data.ids, first, _Naming(data, not source.columns.chosen))
            first += len(data.probs)

    def some(self, start: int, stop: int) -> "tuple[Scan, int]":
        """Those tables that hold the rows from `start` to `stop`, and how many rows of them come before.

        All of them must say how many rows they have. What is left says no more of them than these rows
        need, for a process in another folder.

        Args:
            start: the first row.
            stop: the row behind the last.
        """
        found: list[Source] = []
        before, first = 0, start
        for source in self.sources:
            rows = source.rows or 0
            if before < stop and start < before + rows:
                first = start - before if not found else first
                marks = tuple(mark for mark in source.marks if mark.row <= max(0, start - before))[-1:]
                found.append(source._replace(path=source.path.absolute(), marks=marks))
            before += rows
        return Scan(self.paths, tuple(found), self.layout, self._id_types), first

    def settled(self) -> "Scan":
        """The same tables, where what whole numbers mean as labels is said, if it has to be."""
        return replace(self, layout=self.layout._replace(labels_are=self._reading()))

    def gathered(self) -> Data:
        """All rows at once, for what cannot do with less; past HELD bytes probabilities lie in an unnamed file."""
        columns = self.sources[0].columns
        beside = {"labels": columns.label, "groups": columns.group, "ids": columns.id}
        needs = [need for need, column in beside.items() if column is not None]
        every: list[Batch] = []  # without their rows, which would stay in memory

        def checked() -> Iterator[NDArray[Any]]:
            for batch in self.batches(*needs):
                with batch.naming():
                    rows = batch.rows.verified()
                every.append(batch._replace(rows=Rows(np.empty((0, rows.n_classes))), naming=nullcontext))
                yield rows.array

        probs = joined_on_disk(checked(), self._kind, HELD)
        if not len(probs):
            raise no_rows(self.name)
        groups = None if columns.group is None else checked_groups(_joined([b.groups for b in every]), len(probs))
        labels = None if columns.label is None else ColumnNumbers(np.concatenate([b.labels for b in every]))
        ids = None if columns.id is None else (columns.id, _joined([b.ids[1] for b in every if b.ids]))
        checksum = _checksum([source.path for source in self.sources])
        return Data(Path(self.name), checksum, probs, self.layout.logits, labels, self.classes, groups, None, ids)

    @property
    def _kind(self) -> type[np.floating[Any]]:
        """Of the probabilities together: float32, if they are that in every table."""
        import polars

        kinds = {dict(source.schema).get(name) for source in self.sources for name in source.columns.classes}
        return np.float32 if kinds == {polars.Float32} and not self.layout.normalize else np.float64

    def _data(self, source: Source, frame: "polars.DataFrame", in_file: int) -> Data:
        columns = source.columns
        present = columns._replace(
            label=columns.label if columns.label in frame.columns else None,
            group=columns.group if columns.group in frame.columns else None,
            id=columns.id if columns.id in frame.columns else None,
        )
        if source.is_parquet:
            content = parquet_content(frame, present, source.path)
        else:
            content = csv_content(frame, present, source.path, in_file)
            content["labels"] = whole_if_all(content.get("labels"))
        probs = content["probs"]
        if self.layout.normalize:
            probs = normalized_unless(self.layout.logits, probs, source.path, in_file)
        odd = strangers(probs, True) if self.layout.logits and not columns.chosen and in_file == 0 else []
        if odd:
            raise no_class(source.path, [columns.names[k] for k in odd], "of whole numbers beside logits")
        ids = None if present.id is None else (present.id, self._alike(content["ids"]))
        return Data(
            source.path,
            "",
            probs,
            self.layout.logits,
            content.get("labels"),
            self.classes,
            whole_if_all(content.get("groups")),
            self.layout.labels_are,
            ids,
            in_file,
            False,
        )

    def _alike(self, ids: NDArray[Any]) -> NDArray[Any]:
        """Ids of one type in all tables: as text, where they differ."""
        if len(self._id_types) == 1:
            return ids
        return _as_text(ids)

    def _truth(self, data: Data) -> tuple[Codes, str | None]:
        """The classes of a batch by number, and whether its labels are names or numbers, where they are not both."""
        codes = data.truth()
        if isinstance(data.labels, ColumnNumbers) or data.labels is None or not len(codes):
            return codes, "names" if len(codes) else None
        label, code = str(data.labels[0]), int(codes[0])
        by_name, by_number = label == self.classes[code], PLAIN_WHOLE.fullmatch(label) and int(label) == code
        return codes, None if by_name and by_number else "names" if by_name else "column numbers"

    def _reading(self) -> Reading | None:
        """What labels are, where a whole number can name one class and be the column number of another."""
        if self.layout.labels_are is not None or not two_meanings(self.classes):
            return self.layout.labels_are
        seen: dict[Any, None] = {}
        whole = True
        for source, in_file, frame in self._frames(("labels",), 0):
            labels = self._data(source, frame, in_file).labels
            if isinstance(labels, np.ndarray):
                seen |= dict.fromkeys(labels.tolist())
                whole = whole and labels.dtype.kind in "iu"
        if not whole:
            return "names"
        labels = np.array(list(seen))
        try:
            return "indices" if (as_labels(labels, len(labels), self.classes) == labels).all() else "names"
        except InputError:
            return None  # the first batch that is not clear by itself tells it, with its row

    def _frames(self, needs: Iterable[str], start: int) -> "Iterator[tuple[Source, int, polars.DataFrame]]":
        """Pieces of the tables, with how many rows of the table come before, after `start` rows of all."""
        skipped, group = start, list(self.sources)
        while group:
            alike = [group[0]]
            while group[0].is_parquet and len(alike) < len(group) and group[len(alike)].schema == group[0].schema:
                alike.append(group[len(alike)])
            del group[: len(alike)]
            if alike[0].is_parquet:
                held = sum(source.rows or 0 for source in alike)
                if skipped < held:
                    yield from _parquet_frames(alike, tuple(needs), skipped)
                skipped = max(0, skipped - held)
            else:
                wanted = _wanted(alike[0], needs)
                mark = next((mark for mark in reversed(alike[0].marks) if mark.row <= skipped), Mark(0, 0))
                skipped -= mark.row
                for in_file, rows in _csv_frames(alike[0].path, mark):
                    frame = rows.select(wanted)
                    left_out = min(skipped, len(frame))
                    skipped -= left_out
                    if left_out < len(frame):
                        yield alike[0], in_file + left_out, frame[left_out:]


@dataclass(frozen=True, eq=False)
class _Naming:
    """Errors inside name the batch's file, and count rows as it does; a column to blame is told by name."""

    data: Data
    table: bool

    @contextmanager
    def __call__(self) -> Iterator[None]:
        data = self.data
        try:
            yield
        except InputError as error:
            assert data.path is not None
            check_rows(data.path, data.rows, self.table, data.first)
            raise error.later(data.first).in_file(data.path) from error


def _agreed(before: str | None, now: str | None, data: Data) -> str | None:
    if before is not None and now is not None and before != now:
        raise InputError(
            f"has a label that is one of the {now}, where those before are {before}",
            row=data.first,
            remedy="write all labels in one way",
        ).in_file(data.name)
    return before or now


def _checksum(paths: Sequence[Path]) -> str:
    """SHA-256 of a file; of several, that of theirs."""
    sums = []
    for path in paths:
        with path.open("rb") as file:
            sums.append(hashlib.file_digest(file, "sha256").hexdigest())
    return sums[0] if len(sums) == 1 else hashlib.sha256("".join(sums).encode()).hexdigest()


def _joined(several: Sequence[Any]) -> Any:
    """Arrays as one; as text where their types differ."""
    alike = len({array.dtype.kind for array in several if len(array)}) == 1
    return np.concatenate(several if alike else [_as_text(array) for array in several])


def _as_text(array: NDArray[Any]) -> NDArray[Any]:
    return np.array([None if one is None else str(one) for one in array.tolist()], dtype=object)


def _wanted(source: Source, needs: Iterable[str]) -> list[str]:
    """The columns that are read: the classes', and what is needed beside."""
    columns = source.columns
    beside = {"labels": columns.label, "groups": columns.group, "ids": columns.id}
    return list(dict.fromkeys([*columns.classes, *(name for need in needs if (name := beside[need]) is not None)]))


def _csv_frames(path: Path, mark: Mark) -> "Iterator[tuple[int, polars.DataFrame]]":
    seen = mark.row
    for _, text in csv_blocks(path, mark.byte):
        body = csv_body(text, path)
        for start in range(0, len(body), BATCH):
            yield seen + start, body[start : start + BATCH]
        seen += len(body)


def _parquet_frames(
    sources: list[Source], needs: tuple[str, ...], start: int
) -> "Iterator[tuple[Source, int, polars.DataFrame]]":
    import polars

    for source in sources:
        with opened(source.path):
            pass  # there since it was described
    table = polars.scan_parquet([source.path for source in sources], glob=False)
    frames = (
        table.select(_wanted(sources[0], needs)).slice(start).collect_batches(chunk_size=BATCH, maintain_order=True)
    )
    ends = np.cumsum([source.rows or 0 for source in sources]).tolist()
    at, number = start, 0
    while True:
        frame = parsed(lambda: next(iter(frames), None), f"{sources[number].path} {NO_PARQUET}", "write it again")
        if frame is None:
            return
        while len(frame):
            while at >= ends[number]:
                number += 1
            piece, frame = frame[: ends[number] - at], frame[ends[number] - at :]
            yield sources[number], at - (ends[number] - (sources[number].rows or 0)), piece
            at += len(piece)
