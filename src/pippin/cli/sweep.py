"""`pippin sweep`: one score at many values of one of its parameters."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pippin.cli.inputs import read_or_example, read_values
from pippin.cli.options import (
    Alpha,
    CalibrationFraction,
    Columns,
    DataOrExample,
    LabelsFile,
    OutFolder,
    Splits,
    SplitSeed,
    an_option,
)

if TYPE_CHECKING:
    from pippin._compare.tuning import Sweep
    from pippin.tables.reading import Data

ScoreName = Annotated[str, typer.Option(help="The score, such as repip or raps(k_reg=2).")]
Parameter = Annotated[
    str | None,
    an_option("What is varied; if not given gamma of repip, lam of raps and saps, beta of pip, mu of socop."),
]
Values = Annotated[str, typer.Option(help="Numbers between commas.")]


def sweep(
    data: DataOrExample = None,
    score: ScoreName = "repip",
    parameter: Parameter = None,
    values: Values = "0,0.001,0.01,0.02,0.05,0.1,0.5,1",
    splits: Splits = 100,
    alpha: Alpha = 0.1,
    calibration_fraction: CalibrationFraction = 0.45,
    seed: SplitSeed = 0,
    out: OutFolder = Path("out"),
    labels: LabelsFile = None,
    *,
    columns: Columns,
) -> None:
    """Vary one parameter of a score, on the same random splits."""
    import pippin
    from pippin.cli.outputs import output_folder
    from pippin.tables.reading import known
    from pippin.tables.writing import write_table

    steps = read_values(values)
    given = read_or_example(data, labels, columns.layout)
    truth = known(given)
    with output_folder(out):
        swept = pippin.sweep(
            given.rows,
            truth,
            score,
            alpha,
            parameter=parameter,
            values=steps,
            splits=splits,
            calibration_fraction=calibration_fraction,
            seed=seed,
        )
        write_table(out / "sweep.parquet", swept.table)
        write_table(out / "sweep.csv", swept.summary())
        drawn = find_spec("matplotlib") is not None
        if drawn:
            from pippin.cli.report import write_sweep

            write_sweep(out, swept)
    _show(swept, given, out, drawn)


def _show(swept: "Sweep", data: "Data", out: Path, drawn: bool) -> None:
    from pippin.cli.printing import console, metrics_table, setting

    screen = console()
    screen.print(setting(swept.comparison, data))
    screen.print(metrics_table(f"{swept.parameter} of {swept.score.name}", swept.values, swept.summary()))
    if drawn:
        screen.print(f"\nThe figure: {out / 'sweep.png'}")
    else:
        screen.print('\nFor a figure: pip install "pippin-conformal[report]"')
    screen.print(f"Every split: {out / 'sweep.parquet'}; the table above: {out / 'sweep.csv'}")
