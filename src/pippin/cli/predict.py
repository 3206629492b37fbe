"""`pippin predict`: prediction sets for new data."""

import secrets
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pippin._runtime.errors import InputError
from pippin.cli.options import (
    DataFile,
    DrawSeed,
    NonEmpty,
    PredictorFile,
    WeightsFile,
    read_or_example,
    takes_table,
)

if TYPE_CHECKING:
    import polars

    from pippin.tables.layout import Layout
    from pippin.tables.reading import Data

SETS = "The sets: .csv, .parquet or .jsonl; - prints them as .csv."
PValuesFile = Annotated[
    Path | None,
    typer.Option(
        "--p-values",
        metavar="FILE",
        help="Also write for every row the class with the largest p-value, its confidence and credibility, and the "
        "p-value of each class: .csv or .parquet.",
        show_default=False,
    ),
]


@takes_table
def predict(
    predictor: PredictorFile,
    data: DataFile,
    out: Annotated[Path, typer.Option(metavar="FILE", help=SETS, show_default=False)],
    seed: DrawSeed = None,
    non_empty: NonEmpty = False,
    p_values: PValuesFile = None,
    weights: WeightsFile = None,
    layout: "Layout | None" = None,
) -> None:
    """Write the prediction set of every row.

    A set is the id of its row, if there are ids, the row's number, counted from 0, the set's size, and its labels,
    most probable first. In .csv the labels are
    joined by |, with a backslash before a | or backslash within a name.
    """
    import pippin
    from pippin.cli.options import asked_of
    from pippin.cli.outputs import check_target
    from pippin.tables.formats import STDIN
    from pippin.tables.reading import naming
    from pippin.tables.writing import sets_table, write_sets, write_table

    printed = out == STDIN  # which is spelled as standard output is
    if not printed:
        check_target(out, ".csv", ".parquet", ".jsonl")
    if p_values is not None:
        _check(p_values, out, data)
    calibrated = pippin.load(predictor)
    given = read_or_example(data, None, layout)
    if not printed and out.exists() and data.exists() and out.samefile(data):
        raise InputError(f"Expected --out to be another file than the data, got {out} for both", "rename it")
    shared = secrets.randbits(64) if seed is None else seed  # sets and p-values use the same u
    asked = asked_of(calibrated, given, weights, shared, non_empty)
    with naming(given.name):
        sets = calibrated.predict(given.rows, **asked)
        asked.pop("nonempty")
        table = None if p_values is None else _table(calibrated, given, asked)
    tell = partial(print, file=sys.stderr if printed else sys.stdout)
    if printed:
        sys.stdout.buffer.write(sets_table(sets, given.ids, joined=True).write_csv().encode())
    else:
        write_sets(out, sets, given.ids)
        tell(f"{len(sets):,} sets of mean size {pippin.efficiency(sets):.2f} are in {out}.")
    if (empty := pippin.empty_rate(sets)) > calibrated.alpha / 2:
        tell(
            f"{100 * empty:.2g} % of the sets are empty: the classifier is right more often than the "
            f"{100 * (1 - calibrated.alpha):g} % asked for. Calibrate with a smaller alpha, or add --non-empty."
        )
    if p_values is not None and table is not None:
        write_table(p_values, table)
        tell(f"Point predictions with confidence, credibility and all p-values are in {p_values}.")


def _check(p_values: Path, out: Path, data: Path) -> None:
    from pippin.cli.outputs import check_target

    check_target(p_values, ".csv", ".parquet", option="--p-values")
    if p_values.absolute() == out.absolute() or (p_values.exists() and data.exists() and p_values.samefile(data)):
        raise InputError(f"Expected --p-values to be a file of its own, got {p_values} twice", "rename it")


def _table(predictor: Any, data: "Data", asked: dict[str, Any]) -> "polars.DataFrame":
    """One line per row: its label, confidence and credibility, then `p(name)` of every class."""
    import polars

    from pippin.tables.writing import id_column

    if not hasattr(predictor, "forced"):
        raise InputError(f"A {type(predictor).__name__} has no table of p-values", "leave --p-values out")
    points = predictor.forced(data.rows, **asked)
    every = predictor.p_values(data.rows, **asked)
    columns: dict[str, Any] = {
        **id_column(data.ids),
        "row": range(len(every)),
        "label": points.labels.tolist(),
        "confidence": points.confidence,
        "credibility": points.credibility,
    }
    return polars.DataFrame(columns | {f"p({name})": every[:, k] for k, name in enumerate(predictor.classes)})
