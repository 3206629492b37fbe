"""`pippin predict`: prediction sets for new data."""

import secrets
import sys
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pippin._runtime.errors import InputError
from pippin.cli.cluster import Scheduler, connected, tables_of
from pippin.cli.inputs import at_once, read_or_scan
from pippin.cli.options import Beside, Columns, DataFiles, NonEmpty, PredictorFile, an_option

if TYPE_CHECKING:
    import polars

    from pippin._validation.rows import Rows
    from pippin.tables.writing import Ids

P_VALUES = "Point predictions with confidence, credibility and all p-values are in {}."
SETS = "The sets: .csv, .parquet or .jsonl; - prints them as .csv."
PValuesFile = Annotated[
    Path | None,
    an_option(
        "Also write for every row the class with the largest p-value, its confidence and credibility, and the "
        "p-value of each class: .csv or .parquet.",
        "--p-values",
        metavar="FILE",
    ),
]


def predict(
    predictor: PredictorFile,
    data: DataFiles,
    out: Annotated[Path, an_option(SETS, metavar="FILE")],
    *,
    beside: Beside,
    non_empty: NonEmpty = False,
    p_values: PValuesFile = None,
    scheduler: Scheduler = None,
    columns: Columns,
) -> None:
    """Write the prediction set of every row.

    A set is the id of its row, if there are ids, the row's number, counted from 0, the set's size, and its labels,
    most probable first. In .csv the labels are
    joined by |, with a backslash before a | or backslash within a name. Large tables are read in
    batches and written as they are read; a run that was stopped goes on where it was.
    """
    import pippin
    from pippin.cli.inputs import asked_of
    from pippin.cli.outputs import check_target
    from pippin.tables.formats import STDIN
    from pippin.tables.reading import Data, naming
    from pippin.tables.writing import sets_table, write_sets, write_table

    printed = out == STDIN  # which is spelled as standard output is
    if not printed:
        check_target(out, ".csv", ".parquet", ".jsonl")
    calibrated = pippin.load(predictor)
    by_threshold = isinstance(calibrated, pippin.ConformalPredictor)
    if scheduler is not None and (beside.weights is not None or not by_threshold):
        raise InputError("Expected --scheduler with tables and a predictor of thresholds", "leave it out")
    found = read_or_scan(data, None, columns.layout) if scheduler is None else tables_of(data, columns.layout)
    files = data if isinstance(found, Data) else [source.path for source in found.tables]
    if p_values is not None:
        _check(p_values, out, files)
        if printed and not isinstance(found, Data):
            raise InputError("Expected a file for --out beside --p-values of tables, got -", "name a file")
    if not printed and out.exists() and any(path.exists() and out.samefile(path) for path in files):
        raise InputError(f"Expected --out to be another file than the data, got {out} for both", "rename it")
    tell = partial(print, file=sys.stderr if printed else sys.stdout)
    if not isinstance(found, Data) and isinstance(calibrated, pippin.ConformalPredictor):
        from pippin.cli.predict_tables import predict_tables

        if beside.weights is not None:
            raise InputError(f"A {type(calibrated).__name__} takes no weights", "leave --weights out")
        given_to = (calibrated, predictor, found, [out, p_values], beside.seed, non_empty)
        with connected(scheduler) as far:
            n, total, empty = predict_tables(*given_to, far=far)
        _tell(tell, None if printed else out, n, total, empty, calibrated.alpha)
        if p_values is not None:
            tell(P_VALUES.format(p_values))
        return
    given = at_once(found)
    shared = secrets.randbits(64) if beside.seed is None else beside.seed  # sets and p-values use the same u
    asked = asked_of(calibrated, given, beside._replace(seed=shared), non_empty)
    with naming(given.name):
        sets = calibrated.predict(given.rows, **asked)
        asked.pop("nonempty")
        table = None if p_values is None else p_values_table(calibrated, given.rows, given.ids, asked)
    if printed:
        sys.stdout.buffer.write(sets_table(sets, given.ids, joined=True).write_csv().encode())
    else:
        write_sets(out, sets, given.ids)
    counts = len(sets), int(sets.sizes.sum()), int((sets.sizes == 0).sum())
    _tell(tell, None if printed else out, *counts, getattr(calibrated, "alpha", 1 - calibrated.guarantee))
    if p_values is not None and table is not None:
        write_table(p_values, table)
        tell(P_VALUES.format(p_values))


def _tell(tell: Callable[[str], None], out: Path | None, n: int, total: int, empty: int, alpha: float) -> None:
    if out is not None:
        tell(f"{n:,} sets of mean size {total / n:.2f} are in {out}.")
    if empty / n > alpha / 2:
        tell(
            f"{100 * empty / n:.2g} % of the sets are empty: the classifier is right more often than the "
            f"{100 * (1 - alpha):g} % asked for. Calibrate with a smaller alpha, or add --non-empty."
        )


def _check(p_values: Path, out: Path, data: list[Path]) -> None:
    from pippin.cli.outputs import check_target

    check_target(p_values, ".csv", ".parquet", option="--p-values")
    same = p_values.exists() and any(path.exists() and p_values.samefile(path) for path in data)
    if p_values.absolute() == out.absolute() or same:
        raise InputError(f"Expected --p-values to be a file of its own, got {p_values} twice", "rename it")


def p_values_table(
    predictor: Any, rows: "Rows", ids: "Ids | None", asked: dict[str, Any], first: int = 0
) -> "polars.DataFrame":
    """One line per row: its label, confidence and credibility, then `p(name)` of every class."""
    import polars

    from pippin.tables.writing import id_column

    if not hasattr(predictor, "forced"):
        raise InputError(f"A {type(predictor).__name__} has no table of p-values", "leave --p-values out")
    points = predictor.forced(rows, **deepcopy(asked))  # a generator must give the same u twice
    every = predictor.p_values(rows, **asked)
    columns: dict[str, Any] = {
        **id_column(ids),
        "row": range(first, first + len(every)),
        "label": points.labels.tolist(),
        "confidence": points.confidence,
        "credibility": points.credibility,
    }
    return polars.DataFrame(columns | {f"p({name})": every[:, k] for k, name in enumerate(predictor.classes)})
