"""`pippin compare`: several scores on the same random splits."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pippin.cli.options import (
    Alpha,
    CalibrationFraction,
    DataOrExample,
    LabelsFile,
    OutFolder,
    Splits,
    SplitSeed,
    read_or_example,
    read_scores,
)

if TYPE_CHECKING:
    from pippin.experiment import Comparison
    from pippin.tables import Data

CHECKPOINT = "compare.checkpoint.npz"

Scores = Annotated[
    str, typer.Option(help="Scores between commas, such as ip,repip(gamma=0.05); paper and all stand for several.")
]


def compare(
    data: DataOrExample = None,
    scores: Scores = "paper",
    splits: Splits = 1000,
    alpha: Alpha = 0.1,
    calibration_fraction: CalibrationFraction = 0.45,
    seed: SplitSeed = 0,
    out: OutFolder = Path("out"),
    labels: LabelsFile = None,
) -> None:
    """Compare scores on the same random splits; a stopped run goes on where it was."""
    import pippin
    from pippin.cli.outputs import output_folder
    from pippin.tables import write_table

    chosen = read_scores(scores)
    given = read_or_example(data, labels)
    truth = given.truth()
    with output_folder(out):
        comparison = pippin.compare(
            given.rows, truth, chosen, alpha, splits, calibration_fraction, seed, checkpoint=str(out / CHECKPOINT)
        )
        write_table(out / "results.parquet", comparison.table)
        write_table(out / "summary.csv", comparison.summary())
        report(comparison, given, out, shlex.join(["pippin", *sys.argv[1:]]))
        for finished in (out / CHECKPOINT, *out.glob(f".{CHECKPOINT}.*.tmp")):
            finished.unlink(missing_ok=True)
    _show(comparison, given, out)


def report(comparison: "Comparison", data: "Data", out: Path, command: str) -> None:
    """Figures, verdict and report.html."""
    # CALL SITE of the report:
    #     from pippin.report import write_report
    #     write_report(comparison, data, out, command)


def _show(comparison: "Comparison", data: "Data", out: Path) -> None:
    from pippin.cli.printing import console, metrics_table, setting, warn_of_few

    warn_of_few(comparison)
    screen = console()
    screen.print(setting(comparison, data))
    screen.print(metrics_table("score", comparison.scores, comparison.summary()))
    screen.print(f"Every split is in {out / 'results.parquet'}, the summary in {out / 'summary.csv'}.")
