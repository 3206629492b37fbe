"""Command `pippin tune`: choose the best score on some rows, and calibrate a predictor with it on the other rows."""

from typing import Annotated, Any, Literal

import typer

import pippin
from pippin._compare.tuning import CANDIDATES, SHARPENED
from pippin.cli import options
from pippin.cli.inputs import read_all
from pippin.cli.outputs import check_target, echo, with_provenance
from pippin.tables.reading import label_numbers

_PREFER = typer.Option(help="Prefer the most singletons (sets with one class), or the smallest mean size.")
_MAX_SIZE = options.an_option(
    "With --prefer singletons: the largest mean size allowed; if not given, 1.1 times the smallest; inf for any."
)
_SHARPEN = typer.Option("--sharpen", help="Also try SOCOP on probabilities recalibrated by a sharpener.")
_FRACTION = typer.Option(help="The share of rows for choosing; the rest is for calibration.")


def tune(
    data: options.DataFiles,
    out: options.PredictorOut,
    prefer: Annotated[Literal["singletons", "size"], _PREFER] = "singletons",
    max_size: Annotated[float | None, _MAX_SIZE] = None,
    sharpen: Annotated[bool, _SHARPEN] = False,
    alpha: options.Alpha = 0.1,
    tuning_fraction: Annotated[float, _FRACTION] = 0.5,
    splits: options.Splits = 100,
    seed: options.SplitSeed = 0,
    labels: options.LabelsFile = None,
    by: options.By = "",
    *,
    columns: options.ColumnOptions,
) -> None:
    """Choose the best score for a preference on some rows, and calibrate it on the others."""
    check_target(out, ".json")
    given = read_all(data, labels, columns.layout)
    candidates: Any = (*CANDIDATES, *SHARPENED) if sharpen else CANDIDATES
    criterion: Any = {"prefer": prefer, "max_size": max_size, "tuning_fraction": tuning_fraction}
    tuned = pippin.tune(given.rows, label_numbers(given), candidates, alpha, **criterion, splits=splits, seed=seed)
    predictor = with_provenance(tuned.calibrate(seed=seed), given, by, labels)
    predictor.save(out)
    echo(f"On {len(tuned.tuning_rows):,} rows of {given.name}: {tuned}")
    echo(f"{out}, calibrated on the other {predictor.n_calibration:,} rows: {predictor.describe()}")
