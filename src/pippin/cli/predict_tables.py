"""`pippin predict` past memory: tables are read in batches, here or on a cluster, and written as they are read."""

import hashlib
import secrets
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pippin.cli.pieces import PIECE, Numbers, Pieces, pieces_of, table_bytes

if TYPE_CHECKING:
    import polars

    from pippin import ConformalPredictor
    from pippin._conformal.sets import PredictionSets
    from pippin._validation.batched import Batch
    from pippin.dask.partitions import RowRange
    from pippin.tables.scanning import Scan

Counts = tuple[int, int, int]  # rows, the sum of the sizes of their sets, and how many sets are empty
Made = list[tuple[Numbers, bytes]]  # a piece of each file that is written


class Asked(NamedTuple):
    """What is made of every piece: a file of each ending, of sets and then of p-values, with ids of one type."""

    endings: tuple[str, ...]
    seed: int
    non_empty: bool
    id_type: Any


def predict_tables(
    predictor: "ConformalPredictor",
    file: Path,
    source: "Scan",
    outs: list[Path | None],
    seed: int | None,
    non_empty: bool,
    far: bool = False,
) -> Counts:
    """Writes the sets into the first file, and p-values into the second, if there is one; `-` is standard output.

    The rows are read and predicted here, or, if it is `far`, by the workers of the cluster at hand: a few
    pieces at a time come back, in order, and are written here.
    """
    targets = [out for out in outs if out is not None]
    drawn = secrets.randbits(64) if seed is None else seed
    made = _made_far if far else _made_here
    if targets[0] == Path("-"):
        return _printed(made(source, predictor, Asked((".csv",), drawn, non_empty, source.id_type), 0))
    made_from = {
        "predictor": hashlib.sha256(file.read_bytes()).hexdigest(),
        "tables": [[str(one.path.absolute()), *_stamp(one.path)] for one in source.tables],
        "layout": list(source.layout),
        "non_empty": non_empty,
        "seed": seed,
        "outs": [out.name for out in targets],
        "drawn": drawn,
    }
    with pieces_of(targets, made_from) as (pieces, noted):
        start = min(one.done for one in pieces)
        for one in pieces:
            one.cut(start)
        asked = Asked(tuple(one.ending for one in pieces), noted["drawn"], non_empty, source.id_type)
        with ThreadPoolExecutor(1) as writer:  # while the next piece is made
            last: Future[None] | None = None
            for several in made(source, predictor, asked, start):
                if last is not None:
                    last.result()
                last = writer.submit(_add, pieces, several)
            if last is not None:
                last.result()
        return pieces[0].totals()


def _add(pieces: list[Pieces], several: Made) -> None:
    """A piece of each file; that of the sets last, so that no other is behind it."""
    for one, own in reversed(list(zip(pieces, several, strict=True))):
        one.add(*own)


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _needs(source: "Scan", predictor: Any) -> tuple[str, ...]:
    return (*(("groups",) if "groups" in predictor.takes else ()), *(("ids",) if source.layout.id else ()))


def _made_here(source: "Scan", predictor: Any, asked: Asked, start: int) -> Iterator[Made]:
    """Every piece behind the start, of as many batches as fill it."""
    from pippin._validation.batched import watched

    several: list[Batch] = []
    for batch in watched(source, *_needs(source, predictor), start=start):
        several.append(batch)
        if sum(one.rows.n for one in several) >= PIECE:
            yield made_of(predictor, several, asked)
            several = []
    if several:
        yield made_of(predictor, several, asked)


def _made_far(source: "Scan", predictor: Any, asked: Asked, start: int) -> Iterator[Made]:
    """The same, by the workers of a cluster."""
    from functools import partial

    from pippin._runtime.progress import progress_bar
    from pippin._validation.batched import no_rows
    from pippin.dask.partitions import in_order, registering, row_ranges, with_rows

    known = with_rows(source)
    if not known.rows:
        raise no_rows(source.name)
    pieces = row_ranges(known, PIECE, _needs(source, predictor), start)
    with progress_bar("rows", known.rows, done=start, rate=True) as advance:
        for made in in_order(registering(partial(_made_there, asked)), predictor, pieces):
            yield made
            first, stop, *_ = made[0][0]
            advance(stop - first)


def _made_there(asked: Asked, predictor: Any, piece: "tuple[int, RowRange]") -> Made:
    first, rows = piece
    return made_of(predictor, list(rows.batches(first)), asked)


def made_of(predictor: Any, batches: "list[Batch]", asked: Asked) -> Made:
    """A piece of every file that is asked for, from these rows."""
    import polars

    from pippin.cli.predict import p_values_table
    from pippin.tables.writing import sets_lines, sets_table

    first, n = batches[0].first, sum(batch.rows.n for batch in batches)
    every = [_sets(predictor, batch, asked) for batch in batches]
    ending, *more = asked.endings
    if ending == ".jsonl":
        data = b"".join(sets_lines(s, b.ids, b.first) for s, b in zip(every, batches, strict=True))
    else:
        joined = ending == ".csv"
        tables = [sets_table(s, b.ids, joined, b.first) for s, b in zip(every, batches, strict=True)]
        data = _table(polars.concat(tables, how="vertical_relaxed"), batches[0], ending, asked)
    sizes, empty = sum(int(s.sizes.sum()) for s in every), sum(int((s.sizes == 0).sum()) for s in every)
    found: Made = [((first, first + n, sizes, empty), data)]
    for other in more:
        tables = []
        for batch in batches:
            with batch.naming():
                beside = _beside(predictor, batch, asked.seed)
                tables.append(p_values_table(predictor, batch.rows, batch.ids, beside, batch.first))
        data = _table(polars.concat(tables, how="vertical_relaxed"), batches[0], other, asked)
        found.append(((first, first + n, 0, 0), data))
    return found


def _beside(predictor: Any, batch: "Batch", seed: int) -> dict[str, Any]:
    from pippin._distributed.calibration import positioned

    beside = {"groups": batch.groups} if "groups" in predictor.takes else {}
    return {"seed": positioned(seed, batch.first), **beside}


def _sets(predictor: Any, batch: "Batch", asked: Asked) -> "PredictionSets":
    with batch.naming():
        beside = _beside(predictor, batch, asked.seed)
        found: PredictionSets = predictor.predict(batch.rows, nonempty=asked.non_empty, **beside)
    return found


def _table(table: "polars.DataFrame", batch: "Batch", ending: str, asked: Asked) -> bytes:
    """With ids of the tables' own type, also where a piece has none but missing ones."""
    from pippin.tables.writing import id_column

    ids = id_column(batch.ids)
    whole = table.cast(dict.fromkeys(ids, asked.id_type)) if asked.id_type is not None else table
    return table_bytes(whole, ending, batch.first)


def _printed(pieces: Iterator[Made]) -> Counts:
    n = total = empty = 0
    for (((first, stop, sizes, none), data),) in pieces:
        sys.stdout.buffer.write(data)
        n, total, empty = n + stop - first, total + sizes, empty + none
    return n, total, empty
