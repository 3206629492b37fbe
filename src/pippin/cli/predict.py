"""`pippin predict`: prediction sets for new data."""

from pathlib import Path
from typing import Annotated

import typer

from pippin.cli.options import DataFile, DrawSeed, NonEmpty, PredictorFile


def predict(
    predictor: PredictorFile,
    data: DataFile,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The sets: .csv, .parquet or .jsonl.", show_default=False)],
    seed: DrawSeed = None,
    non_empty: NonEmpty = False,
) -> None:
    """Write the prediction set of every row.

    A set is its row number, counted from 0, its size, and its labels, most probable first. In .csv the labels are
    joined by |, with a backslash before a | or backslash within a name.
    """
    import pippin
    from pippin.cli.options import own_groups
    from pippin.cli.outputs import check_target
    from pippin.tables import naming, read_data, write_sets

    check_target(out, ".csv", ".parquet", ".jsonl")
    calibrated = pippin.load(predictor)
    given = read_data(data)
    if out.exists() and out.samefile(data):
        raise ValueError(f"Expected --out to be another file than the data, got {out} for both: rename it.")
    with naming(given.name):
        sets = calibrated.predict(given.rows, seed=seed, nonempty=non_empty, **own_groups(calibrated, given))
    write_sets(out, sets)
    print(f"{len(sets):,} sets with {pippin.efficiency(sets):.2f} classes on average are in {out}.")
