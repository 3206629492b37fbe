"""Command `pippin predict`: prediction sets for new rows."""

import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import numpy as np

import pippin
from pippin._distributed.calibration import positioned
from pippin._runtime.disk import file_checksum, write_atomically
from pippin._runtime.errors import InputError
from pippin._runtime.progress import progress_bar
from pippin._validation.batched import Batch, no_rows
from pippin.cli import options
from pippin.cli.inputs import (
    batches,
    connected,
    in_memory,
    join_models,
    layout_for,
    predicts_in_batches,
    read,
    read_inputs,
    row_inputs,
)
from pippin.cli.outputs import check_distinct, check_target, echo, part_files, write_stdout
from pippin.tables.formats import STDIN
from pippin.tables.reading import Data
from pippin.tables.scanning import Scan
from pippin.tables.writing import NAMES, encode_table, id_columns, sets_table

PART = 1 << 19  # minimum number of rows of a part of the output, except the last one
_SETS = "The file of prediction sets: .csv, .parquet or .jsonl; - prints them as .csv."
_P_VALUES = "Also write point predictions with confidence and credibility, and all p-values: .csv or .parquet."


class SetsTask(NamedTuple):
    """Settings of a run, which predicts rows in parts; pickled for the workers of a cluster."""

    endings: tuple[str, ...]  # format of the file of sets, and of the file of p-values if that is written
    seed: int
    non_empty: bool
    inputs: dict[str, Any]  # features and weights for `predict`
    names: tuple[str, ...] = NAMES  # columns whose text must not run as a formula in a spreadsheet
    id_schema: Mapping[str, Any] = MappingProxyType({})  # polars type of each id column, if known


class SetsPart(NamedTuple):
    """Part of the output: number of rows, total size of their sets, number of empty sets, and content for each file."""

    rows: int
    total: int
    empty: int
    contents: tuple[bytes, ...]


def predict(
    predictor: options.PredictorFile,
    data: options.DataFiles,
    out: Annotated[Path, options.an_option(_SETS, metavar="FILE")],
    *,
    also: options.AlsoFiles = None,
    inputs: options.RowInputs,
    non_empty: options.NonEmpty = False,
    p_values: Annotated[Path | None, options.an_option(_P_VALUES, "--p-values", metavar="FILE")] = None,
    formulas: options.Formulas = False,
    scheduler: options.Scheduler = None,
    columns: options.ColumnOptions,
) -> None:
    """Write the prediction set of each row.

    The columns are the row's id, if there are ids, its number, counted from 0, the size of the set, and its labels,
    most probable first. In .csv the labels are joined by |; a | or backslash in a name is escaped by a backslash.
    Large tables are read in batches; an interrupted command resumes when it is run again.
    """
    if out != STDIN:  # --out - writes to standard output
        check_target(out, ".csv", ".parquet", ".jsonl")
    calibrated: Any = pippin.load(predictor)
    stacked = any(sharpener.pool is not None for sharpener in getattr(calibrated, "sharpeners", ()))
    if stacked != bool(also):
        got = "one matrix of probabilities" if stacked else "--also with a predictor of one model"
        remedy = "name a file of each further model by --also" if stacked else "leave --also out"
        raise InputError(f"Expected --also with a predictor of several models, got {got}", remedy)
    in_batches = predicts_in_batches(calibrated) and not also
    if scheduler is not None and not in_batches:
        raise InputError("Expected --scheduler with tables and a predictor of thresholds", "leave it out")
    source = read(data, None, layout_for(columns.layout, calibrated), scheduler)
    files = [each.path for each in source.tables] if isinstance(source, Scan) else data
    _check_distinct(out, p_values, [*files, *(also or ())], isinstance(source, Scan))
    given = source if in_batches else in_memory(source)
    given = join_models(in_memory(given), also, layout_for(columns.layout, calibrated)) if also else given
    targets = [out, *([] if p_values is None else [p_values])]
    endings = tuple(".csv" if target == STDIN else target.suffix.lower() for target in targets)
    seed = secrets.randbits(64) if inputs.seed is None else inputs.seed
    names = () if formulas else NAMES
    task = SetsTask(endings, seed, non_empty, read_inputs(calibrated, given, inputs), names=names)
    make = partial(_parts if scheduler is None else _parts_from_cluster, calibrated, given)
    with connected(scheduler):
        if isinstance(given, Data) or out == STDIN:
            totals = _write(make(task), targets)
        else:
            checksum, files_written = file_checksum(predictor), [target.name for target in targets]
            made_from = [
                checksum,
                list(map(_version, files)),
                given.layout,
                inputs.seed,
                non_empty,
                files_written,
                names,
            ]
            totals = _write_in_parts(make, task, targets, made_from)
    _summarize(totals, getattr(calibrated, "alpha", 1 - calibrated.guarantee), out, p_values)


def _version(path: Path) -> tuple[str | int, ...]:
    """Return properties that change when a file is written, such as its change time, which no program can set."""
    stat = path.stat()
    return str(path.absolute()), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _check_distinct(out: Path, p_values: Path | None, files: list[Path], scanned: bool) -> None:
    if p_values is not None:
        check_target(p_values, ".csv", ".parquet", option="--p-values")
        check_distinct("--p-values", p_values, [out, *files])
        if out == STDIN and scanned:
            raise InputError("Expected a file for --out with --p-values of tables, got -", "name a file")
    if out != STDIN:
        check_distinct("--out", out, files)


def _summarize(totals: Sequence[int], alpha: float, out: Path, p_values: Path | None) -> None:
    write_line = partial(echo, file=sys.stderr if out == STDIN else sys.stdout)
    n, total, empty = totals
    if out != STDIN:
        write_line(f"{n:,} sets of mean size {total / n:.2f} are in {out}.")
    if empty / n > alpha / 2:
        often = f"more often than the {100 * (1 - alpha):g}% requested"
        write_line(f"{100 * empty / n:.2g}% of the sets are empty: the classifier is right {often}.")
        write_line("Calibrate with a smaller alpha, or add --non-empty.")
    if p_values is not None:
        write_line(f"Point predictions with confidence, credibility and all p-values are in {p_values}.")


def _write(parts: Iterable[SetsPart], targets: list[Path]) -> list[int]:
    """Write a single part to files, or any number of parts to standard output.

    Return the number of rows, the total size of their sets, and the number of empty sets.
    """
    totals = [0, 0, 0]
    for part in parts:
        for target, content in zip(targets, part.contents, strict=True):
            if target == STDIN:
                write_stdout(content)
            else:
                write_atomically(target, content)
        totals = [total + amount for total, amount in zip(totals, part[:3], strict=True)]
    return totals


def _write_in_parts(make: Any, task: SetsTask, targets: list[Path], made_from: Any) -> list[int]:
    """Compute the parts that an interrupted run lacks, and join all parts into files; return totals like `_write`."""
    with part_files(targets, made_from, task.seed) as written:
        endings = tuple(ending.replace(".parquet", ".arrow") for ending in task.endings)
        for part in make(task._replace(endings=endings, seed=written.seed), written.totals[0]):
            written.add(part.contents, *part[:3])
    return written.totals


def _needs(predictor: Any) -> tuple[str, ...]:
    return ("groups", "ids") if "groups" in predictor.takes else ("ids",)


def _parts(predictor: Any, given: Data | Scan, task: SetsTask, start: int = 0) -> Iterator[SetsPart]:
    """Yield the parts of the output from row `start` on; batches are joined until a part has at least PART rows."""
    task, several = task._replace(id_schema=getattr(given, "id_schema", {})), []
    for batch in batches(given, *_needs(predictor), start=start):
        several.append(batch)
        if sum(each.rows.n for each in several) >= PART:
            yield make_part(predictor, several, task)
            several = []
    if several:
        yield make_part(predictor, several, task)


def _parts_from_cluster(predictor: Any, source: Any, task: SetsTask, start: int = 0) -> Iterator[SetsPart]:
    """Yield the parts of the output from row `start` on, computed by the workers of a Dask cluster."""
    from pippin.dask import partitions

    counted = partitions.with_rows(source)
    if not counted.rows:
        raise no_rows(source.name)
    work = partitions.registering(partial(_part_on_worker, task._replace(id_schema=source.id_schema)))
    slices = partitions.row_ranges(counted, PART, _needs(predictor), start)
    with progress_bar("rows", counted.rows, done=start, rate=True) as advance:
        for part in partitions.in_order(work, predictor, slices):
            yield part
            advance(part.rows)


def _part_on_worker(task: SetsTask, predictor: Any, numbered: tuple[int, Any]) -> SetsPart:
    first, rows = numbered
    return make_part(predictor, list(rows.batches(first)), task)


def make_part(predictor: Any, several: list[Batch], task: SetsTask) -> SetsPart:
    """Compute the sets and p-values of several batches, and encode them as one part of the output."""
    predictions = []
    for batch in several:
        with batch.naming():
            sets = predictor.predict(batch.rows, nonempty=task.non_empty, **_inputs(predictor, batch, task))
            predictions.append((sets, batch))
    ending, *more = task.endings
    tables = [sets_table(sets, batch.ids, ending == ".csv", batch.first) for sets, batch in predictions]
    contents = [_encode(tables, several[0], ending, task)]
    if more:
        tables = [_p_values_table(predictor, batch, task) for batch in several]
        contents.append(_encode(tables, several[0], more[0], task))
    sizes = np.concatenate([sets.sizes for sets, _ in predictions])
    return SetsPart(len(sizes), int(sizes.sum()), int((sizes == 0).sum()), tuple(contents))


def _inputs(predictor: Any, batch: Batch, task: SetsTask) -> dict[str, Any]:
    """Return the arguments of `predict` and `p_values` for a batch; both use the same random number for each row."""
    return {**task.inputs, **row_inputs(predictor, batch, positioned(task.seed, batch.first))}


def _encode(tables: list[Any], first: Batch, ending: str, task: SetsTask) -> bytes:
    """Join the tables of a part and encode them in the format `ending`; in .csv only the first part has a header."""
    import polars

    table = polars.concat(tables, how="vertical_relaxed")
    names = zip(first.ids, id_columns(first.ids), strict=True)
    known = {polars.selectors.by_name(name): task.id_schema[of] for of, name in names if of in task.id_schema}
    if known:  # polars infers no type for a batch without any id
        table = table.cast(known)
    return encode_table(table, ending, include_header=first.first == 0, names=task.names)


def _p_values_table(predictor: Any, batch: Batch, task: SetsTask) -> Any:
    """Tabulate the predicted label, confidence and credibility of each row, and the p-value `p(name)` of each class."""
    import polars

    if not hasattr(predictor, "point_predictions"):
        raise InputError("This predictor has no table of p-values", "leave --p-values out")
    with batch.naming():
        points = predictor.point_predictions(batch.rows, **_inputs(predictor, batch, task))
        p_values = predictor.p_values(batch.rows, **_inputs(predictor, batch, task))
    columns: dict[str, Any] = {
        **id_columns(batch.ids),
        "row": range(batch.first, batch.first + len(p_values)),
        "label": points.labels.tolist(),
        "confidence": points.confidence,
        "credibility": points.credibility,
    }
    return polars.DataFrame(columns | {f"p({name})": p_values[:, k] for k, name in enumerate(predictor.classes)})
