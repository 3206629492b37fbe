"""`pippin predict` past memory: tables are read in batches, and written as they are read."""

import hashlib
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pippin.cli.pieces import PIECE, Pieces, pieces_of, table_bytes

if TYPE_CHECKING:
    import polars

    from pippin import ConditionalPredictor, Predictor
    from pippin._inputs.batched import Batch
    from pippin._predictors.sets import PredictionSets
    from pippin.tables.scanning import Scan

Counts = tuple[int, int, int]  # rows, the sum of the sizes of their sets, and how many sets are empty


def predict_tables(
    predictor: "Predictor | ConditionalPredictor",
    file: Path,
    source: "Scan",
    outs: list[Path | None],
    seed: int | None,
    non_empty: bool,
) -> Counts:
    """Writes the sets into the first file, and p-values into the second, if there is one; `-` is standard output."""
    targets = [out for out in outs if out is not None]
    if targets[0] == Path("-"):
        return _printed(predictor, source, secrets.randbits(64) if seed is None else seed, non_empty)
    made_from = {
        "predictor": hashlib.sha256(file.read_bytes()).hexdigest(),
        "tables": [[str(one.path.absolute()), *_stamp(one.path)] for one in source.sources],
        "layout": list(source.layout),
        "non_empty": non_empty,
        "seed": seed,
        "outs": [out.name for out in targets],
        "drawn": secrets.randbits(64) if seed is None else seed,
    }
    with pieces_of(targets, made_from) as (pieces, noted):
        start = min(one.done for one in pieces)
        for one in pieces:
            one.cut(start)
        for several in _by_piece(source, predictor, start):
            _write(pieces, several, predictor, noted["drawn"], non_empty, source.id_type)
        return pieces[0].totals()


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _by_piece(source: "Scan", predictor: Any, start: int) -> "Iterator[list[Batch]]":
    """Batches, as many as make a piece."""
    from pippin._inputs.batched import watched

    needs = [*(["groups"] if "groups" in predictor.takes else []), *(["ids"] if source.layout.id else [])]
    several: list[Batch] = []
    for batch in watched(source, *needs, start=start):
        several.append(batch)
        if sum(one.rows.n for one in several) >= PIECE:
            yield several
            several = []
    if several:
        yield several


def _asked(predictor: Any, batch: "Batch", seed: int) -> dict[str, Any]:
    from pippin._predictors.partitions.part import positioned

    beside = {"groups": batch.groups} if "groups" in predictor.takes else {}
    return {"seed": positioned(seed, batch.first), **beside}


def _sets(predictor: Any, batch: "Batch", seed: int, non_empty: bool) -> "PredictionSets":
    with batch.naming():
        found: PredictionSets = predictor.predict(batch.rows, nonempty=non_empty, **_asked(predictor, batch, seed))
    return found


def _typed(table: "polars.DataFrame", ids: Any, kind: Any) -> "polars.DataFrame":
    """With ids of the tables' own type, also where a piece has none but missing ones."""
    from pippin.tables.writing import id_column

    return table.cast(dict.fromkeys(id_column(ids), kind)) if kind is not None else table


def _write(
    pieces: list[Pieces], batches: "list[Batch]", predictor: Any, seed: int, non_empty: bool, id_type: Any
) -> None:
    """One more piece of every file; that of the sets last, so that none is behind it."""
    import polars

    from pippin.cli.predict import p_values_table
    from pippin.tables.writing import sets_lines, sets_table

    first, n = batches[0].first, sum(batch.rows.n for batch in batches)
    for one in pieces[1:]:
        tables = []
        for batch in batches:
            with batch.naming():
                asked = _asked(predictor, batch, seed)
                tables.append(p_values_table(predictor, batch.rows, batch.ids, asked, batch.first))
        whole = _typed(polars.concat(tables, how="vertical_relaxed"), batches[0].ids, id_type)
        one.add((first, first + n, 0, 0), table_bytes(whole, one.ending, first))
    every = [_sets(predictor, batch, seed, non_empty) for batch in batches]
    ending = pieces[0].ending
    if ending == ".jsonl":
        data = b"".join(sets_lines(s, b.ids, b.first) for s, b in zip(every, batches, strict=True))
    else:
        joined = ending == ".csv"
        tables = [sets_table(s, b.ids, joined, b.first) for s, b in zip(every, batches, strict=True)]
        whole = _typed(polars.concat(tables, how="vertical_relaxed"), batches[0].ids, id_type)
        data = table_bytes(whole, ending, first)
    sizes, empty = sum(int(s.sizes.sum()) for s in every), sum(int((s.sizes == 0).sum()) for s in every)
    pieces[0].add((first, first + n, sizes, empty), data)


def _printed(predictor: Any, source: "Scan", seed: int, non_empty: bool) -> Counts:
    from pippin.tables.writing import sets_table

    n = total = empty = 0
    for batches in _by_piece(source, predictor, 0):
        for batch in batches:
            sets = _sets(predictor, batch, seed, non_empty)
            table = sets_table(sets, batch.ids, True, batch.first)
            sys.stdout.buffer.write(table.write_csv(include_header=batch.first == 0).encode())
            n, total, empty = n + len(sets), total + int(sets.sizes.sum()), empty + int((sets.sizes == 0).sum())
    return n, total, empty
