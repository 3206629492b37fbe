"""What the commands print: tables that a newcomer can read."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from pippin._conformal.evaluation import WORDS
from pippin._runtime.showing import visible

if TYPE_CHECKING:
    import polars

    from pippin._compare.comparison import Comparison
    from pippin._compare.decisions import DecisionComparison
    from pippin._conformal.predictor import ConformalPredictor
    from pippin.tables.reading import Data

WIDE = 160  # characters of a line that goes to a file or a pipe


def console() -> Console:
    """Standard output; brackets in names are no markup."""
    return Console(width=None if sys.stdout.isatty() else WIDE, markup=False, highlight=False, emoji=False)


def setting(comparison: "Comparison", data: "Data") -> str:
    """What was done, in words."""
    return (
        f"{data.name}: {comparison.n:,} rows, {data.rows.n_classes:,} classes, {comparison.splits:,} random splits.\n"
        f"In each split {comparison.n_calibration:,} rows calibrate every score, so that its sets hold the true class "
        f"{100 * (1 - comparison.alpha):g} % of the time, and the other {comparison.n_test:,} test that.\n"
    )


def conditional_table(comparison: "Comparison") -> Table:
    """One line per method: how far single classes, groups and sets of like size are from the level."""
    rows = list(comparison.conditional().iter_rows(named=True))
    level = f"{100 * (1 - comparison.alpha):g} %"
    splits = "the split" if comparison.splits == 1 else f"the first {min(comparison.splits, 100):,} splits"
    grouped = "worst_group" in rows[0]
    table = Table(
        title=f"Is the promise kept for every class{' and group' if grouped else ''}?",
        title_justify="left",
        title_style="bold",
        caption=f"coverage over {splits}; CovGap: mean distance of the classes from {level}, 0.01 for a percentage "
        "point; SSCV: largest distance over sets of like size",
        caption_justify="left",
    )
    for column in ("score", "worst class", "its coverage", "CovGap", "SSCV"):
        left = column in ("score", "worst class")
        table.add_column(column, justify="left" if left else "right", overflow="fold")
    if grouped:
        table.add_column("worst group", overflow="fold")
        table.add_column("its coverage", justify="right")
    for row in rows:
        told = [row["score"], visible(row["worst_class"]), f"{row['worst_class_coverage']:.3f}"]
        told += [f"{row[key]:.3f}" for key in ("covgap", "sscv")]
        told += [visible(row["worst_group"]), f"{row['worst_group_coverage']:.3f}"] if grouped else []
        table.add_row(*told)
    return table


def decisions_table(comparison: "DecisionComparison") -> Table:
    """One line per kind of decisions: what was promised, what came of it, and what was done."""
    table = Table(
        title=f"What to do: certificates to be kept {100 * (1 - comparison.alpha):g} % of the time",
        title_justify="left",
        title_style="bold",
        caption=f"means over {comparison.splits:,} splits; errors: where an action was worth less than playing safe",
        caption_justify="left",
    )
    table.add_column("decisions", overflow="fold")
    headings = ("kept", "certificate", "utility", *comparison.actions, "errors of " + ", ".join(comparison.actions))
    for heading in headings:
        table.add_column(heading, justify="right", overflow="fold")
    for row in comparison.summary().iter_rows(named=True):
        told = [row["decisions"], _share(row["kept"]), _worth(row["certificate"]), _worth(row["utility"])]
        told += [_share(row[action]) for action in comparison.actions]
        told.append(", ".join(_share(row[f"errors of {action}"]) for action in comparison.actions))
        table.add_row(*told)
    return table


def _share(value: float) -> str:
    return "–" if value != value else f"{value:.1%}"


def _worth(value: float) -> str:
    return "–" if value != value else f"{value:.3f}"


def class_table(predictor: "ConformalPredictor", most: int = 30) -> Table:
    """One line per class (and group): what its threshold rests on; of many, the rarest."""
    frame = predictor.table()
    shown = frame if len(frame) <= most else frame.sort("n", maintain_order=True).head(most)
    told = [f"the rarest {most} of {len(frame):,}"] if len(frame) > most else []
    if (frame["lacking"] > 0).any():
        told.append("lacking: examples without which the threshold is infinite and the class in every set")
    else:
        shown = shown.drop("lacking")
    table = Table(caption="; ".join(told) or None, caption_justify="left")
    for column in shown.columns:
        left = column in ("group", "class")
        table.add_column(column.replace("_", " "), justify="left" if left else "right")
    for row in shown.iter_rows(named=True):
        cells = dict(row)
        cells["threshold"] = "∞" if row["threshold"] == float("inf") else f"{row['threshold']:.6g}"
        promised = row["expected_coverage"]
        cells["expected_coverage"] = "–" if promised is None else f"{promised:.3f}"
        if "lacking" in row:
            cells["lacking"] = row["lacking"] or ""
        table.add_row(*("" if value is None else visible(value) for value in cells.values()))
    return table


def metrics_table(heading: str, names: Sequence[object], summary: "polars.DataFrame") -> Table:
    """One line per name: mean ± standard deviation of what the sets are judged by."""
    told = [f"{word}: {meaning}" for word, meaning in WORDS.values()]
    table = Table(caption="\n".join(["mean ± standard deviation over the splits", *told]), caption_justify="left")
    for column in (heading, *(word for word, _ in WORDS.values())):
        table.add_column(column, justify="left" if column == heading else "right")
    for name, row in zip(names, summary.iter_rows(named=True), strict=True):
        table.add_row(
            visible(name),
            f"{row['coverage']:.3f} ± {row['coverage_sd']:.3f}",
            f"{row['mean_size']:.2f} ± {row['mean_size_sd']:.2f}",
            *(f"{row[key]:.1%} ± {row[key + '_sd']:.1%}" for key in ("singleton_rate", "empty_rate")),
        )
    return table
