"""Command `pippin sweep`: compare many values of one parameter of a score."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

import pippin
from pippin.cli import options
from pippin.cli.inputs import read_all, read_values
from pippin.cli.outputs import output_folder
from pippin.cli.printing import console, metrics_table, setting
from pippin.tables.reading import label_numbers
from pippin.tables.writing import write_table

_VALUES = typer.Option(help="The values of the parameter, separated by commas.")
_PARAMETER = "The parameter; if not given, gamma of repip, lam of raps and saps, beta of pip, mu of socop."


def sweep(
    data: options.DataFilesOrExample = None,
    score: Annotated[str, typer.Option(help="The nonconformity score, such as repip or raps(k_reg=2).")] = "repip",
    parameter: Annotated[str | None, options.an_option(_PARAMETER)] = None,
    values: Annotated[str, _VALUES] = "0,0.001,0.01,0.02,0.05,0.1,0.5,1",
    splits: options.Splits = 100,
    *,
    split_options: options.SplitOptions,
    out: options.OutFolder = Path("out"),
    labels: options.LabelsFile = None,
    columns: options.ColumnOptions,
) -> None:
    """Vary a parameter of a score, on the same random splits."""
    grid = read_values(values)
    given = read_all(data, labels, columns.layout)
    truth = label_numbers(given)
    has_matplotlib = find_spec("matplotlib") is not None
    with output_folder(out):
        keywords = {"parameter": parameter, "values": grid, "splits": splits, **split_options._asdict()}
        swept = pippin.sweep(given.rows, truth, score, **keywords)
        write_table(out / "sweep.parquet", swept.table)
        write_table(out / "sweep.csv", swept.summary())
        if has_matplotlib:
            from pippin.cli.report import write_sweep

            write_sweep(out, swept)
    screen = console()
    screen.print(setting(swept.comparison, given))
    screen.print(metrics_table(f"{swept.parameter} of {swept.score.name}", swept.values, swept.summary()))
    install = 'For a figure: pip install "pippin-conformal[report]"'
    screen.print(f"\nThe figure: {out / 'sweep.png'}" if has_matplotlib else f"\n{install}")
    screen.print(f"Every split: {out / 'sweep.parquet'}; the table above: {out / 'sweep.csv'}")
