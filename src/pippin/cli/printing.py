"""What the commands print: tables that a newcomer can read."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    import polars

    from pippin.experiment import Comparison
    from pippin.tables import Data

WIDE = 160  # characters of a line that goes to a file or a pipe


def console() -> Console:
    """Standard output; class names are printed as they are."""
    return Console(width=None if sys.stdout.isatty() else WIDE, markup=False, highlight=False, emoji=False)


def setting(comparison: "Comparison", data: "Data") -> str:
    """What was done, in words."""
    return (
        f"{data.name}: {comparison.n:,} rows, {data.rows.n_classes:,} classes, {comparison.splits:,} random splits.\n"
        f"In each split {comparison.n_calibration:,} rows calibrate every score, so that its sets hold the true class "
        f"{100 * (1 - comparison.alpha):g} % of the time, and the other {comparison.n_test:,} test that.\n"
    )


def metrics_table(heading: str, names: Sequence[object], summary: "polars.DataFrame") -> Table:
    """One line per name: mean ± standard deviation of what the sets are judged by."""
    table = Table(caption="mean ± standard deviation over the splits", caption_justify="left")
    for column in (heading, "coverage", "classes per set", "sets with one class", "empty sets"):
        table.add_column(column, justify="left" if column == heading else "right")
    for name, row in zip(names, summary.iter_rows(named=True), strict=True):
        table.add_row(
            str(name),
            f"{row['coverage']:.3f} ± {row['coverage_sd']:.3f}",
            f"{row['efficiency']:.2f} ± {row['efficiency_sd']:.2f}",
            *(f"{row[key]:.1%} ± {row[key + '_sd']:.1%}" for key in ("informativeness", "empty_rate")),
        )
    return table
