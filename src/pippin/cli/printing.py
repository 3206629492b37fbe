"""Tables that commands print to the terminal."""

import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from pippin._compare.comparison import Comparison
from pippin._compare.decisions import DecisionComparison
from pippin._conformal.coverage_by import strata_names
from pippin._conformal.evaluation import WORDS
from pippin._runtime.showing import visible
from pippin.cli.outputs import visible_lines
from pippin.tables.reading import Data

if TYPE_CHECKING:
    import polars
    from rich.console import Console
    from rich.table import Table

CONDITIONAL = ("worst_class_coverage", "covgap", "sscv")
WIDE = 160  # characters per line in a file or pipe


def console() -> "Console":
    """Return a rich console for standard output that shows names literally, without markup and control characters."""
    from rich.console import Console

    class LiteralConsole(Console):
        """Console that prints control characters of text as escape sequences."""

        def print(self, *objects: Any, **options: Any) -> None:
            super().print(*(visible_lines(o) if isinstance(o, str) else o for o in objects), **options)

    return LiteralConsole(width=None if sys.stdout.isatty() else WIDE, markup=False, highlight=False, emoji=False)


def new_table(
    *columns: str, left: Collection[str] = (), title: str | None = None, caption: str | None = None
) -> "Table":
    """Make a table of text without control characters; columns named in `left` are aligned left, the others right."""
    from rich.table import Table

    class LiteralTable(Table):
        """Table whose cells show control characters as escape sequences."""

        def add_row(self, *cells: Any, **options: Any) -> None:
            super().add_row(*map(visible, cells), **options)

    table = LiteralTable(title=title, title_justify="left", title_style="bold", caption=caption, caption_justify="left")
    for column in columns:
        table.add_column(visible_lines(column), justify="left" if column in left else "right", overflow="fold")
    return table


def setting(comparison: Comparison, data: Data) -> str:
    """Describe the data and the random splits of a comparison in two sentences."""
    return (
        f"{data.name}: {comparison.n:,} rows, {data.rows.n_classes:,} classes, {comparison.splits:,} random splits.\n"
        f"In each split, all scores are calibrated on {comparison.n_calibration:,} rows for "
        f"{100 * (1 - comparison.alpha):g}% coverage, and tested on the other {comparison.n_test:,}.\n"
    )


def conditional_table(comparison: Comparison) -> "Table":
    """Tabulate measures of coverage by class, and by group if there are groups, for each method."""
    rows = list(comparison.distinct.conditional().iter_rows(named=True))
    splits = "the split" if comparison.splits == 1 else f"the first {min(comparison.splits, 100):,} splits"
    grouped = "worst_group" in rows[0]
    level = f"{100 * (1 - comparison.alpha):g}%"
    title = f"Coverage by class{' and group' if grouped else ''}"
    caption = (
        f"coverage over {splits}; CovGap: mean distance of the classes from {level}, 0.01 for a percentage point; "
        f"SSCV: largest distance from {level} among set sizes {strata_names(comparison.require_trial().n_classes)}"
    )
    columns = ["score", "worst class", "its coverage", "CovGap", "SSCV", "worst group", "its coverage"]
    left = ("score", "worst class", "worst group")
    table = new_table(*columns[: 7 if grouped else 5], left=left, title=title, caption=caption)
    for name, row in zip(comparison.shown_names, rows, strict=True):
        cells = [name, row["worst_class"], *(f"{row[each]:.3f}" for each in CONDITIONAL)]
        cells += [row["worst_group"], f"{row['worst_group_coverage']:.3f}"] if grouped else []
        table.add_row(*cells)
    return table


def decisions_table(comparison: DecisionComparison) -> "Table":
    """Tabulate mean certificate (guaranteed utility), mean utility and shares of actions of each decision rule."""
    shown = list(map(visible, comparison.actions))
    errors = "errors of " + ", ".join(shown)
    table = new_table(
        *("decisions", "kept", "certificate", "utility", *shown, errors),
        left=("decisions",),
        title=f"Decisions with certificates that hold {100 * (1 - comparison.alpha):g}% of the time",
        caption=f"means over {comparison.splits:,} splits; kept: share of certificates that held; "
        "errors: share of objects for which the action had less utility than the safe action",
    )
    for row in comparison.summary().iter_rows(named=True):
        cells = [row["decisions"], _number(row["kept"], ".1%")]
        cells += [_number(row[name], ".3f") for name in ("certificate", "utility")]
        cells += [_number(row[action], ".1%") for action in comparison.actions]
        table.add_row(*cells, ", ".join(_number(row[f"errors of {action}"], ".1%") for action in comparison.actions))
    return table


def class_table(predictor: Any, most: int = 30) -> "Table":
    """Tabulate threshold and number of calibration examples of each category, or of the `most` rarest categories."""
    frame = predictor.table()
    shown = frame if len(frame) <= most else frame.sort("n", maintain_order=True).head(most)
    notes = [f"the rarest {most} of {len(frame):,}"] if len(frame) > most else []
    if "lacking" not in frame.columns:
        pass
    elif (frame["lacking"] > 0).any():
        notes.append("lacking: examples missing for a finite threshold; until then the class is in every set")
    else:
        shown = shown.drop("lacking")
    headings = [column.replace("_", " ") for column in shown.columns]
    table = new_table(*headings, left=("group", "class"), caption="; ".join(notes) or None)
    for row in shown.iter_rows(named=True):
        cells = row | {"threshold": f"{row['threshold']:.6g}".replace("inf", "∞")}
        if "expected_coverage" in row:
            cells["expected_coverage"] = _number(row["expected_coverage"], ".3f")
        cells |= {"lacking": row["lacking"] or ""} if "lacking" in row else {}
        table.add_row(*("" if value is None else value for value in cells.values()))
    return table


def metrics_table(heading: str, names: Sequence[object], summary: "polars.DataFrame") -> "Table":
    """Tabulate the mean ± standard deviation of each metric over the splits, with a row for each of `names`."""
    accuracy = {"singleton_accuracy": ("sing. acc.", "share of singletons that contain the true class")}
    measures = {name: words for name, words in (WORDS | accuracy).items() if name in summary.columns}
    meanings = "\n".join(f"{word}: {meaning}" for word, meaning in measures.values())
    caption = f"mean ± standard deviation over the splits\n{meanings}"
    table = new_table(heading, *(word for word, _ in measures.values()), left=(heading,), caption=caption)
    for column in table.columns[1:]:
        column.no_wrap = True  # long names are folded instead of numbers
    specs = dict.fromkeys(measures, ".1%") | {"coverage": ".3f", "mean_size": ".2f"}
    for name, row in zip(names, summary.iter_rows(named=True), strict=True):
        cells = {each: f"{row[each]:{spec}} ± {row[f'{each}_sd']:{spec}}" for each, spec in specs.items()}
        cells |= {"empty_rate": f"{row['empty_rate']:.1%}"}  # without its deviation, the table fits into 80 characters
        cells |= {} if row["singleton_accuracy"] == row["singleton_accuracy"] else {"singleton_accuracy": "–"}
        table.add_row(str(name), *cells.values())
    return table


def _number(value: float | None, spec: str) -> str:
    """Format a number; write a dash for None and NaN."""
    return "–" if value is None or value != value else format(value, spec)
