"""`pippin plan`: how many calibration examples, and what to expect of those at hand."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pippin._runtime.errors import InputError
from pippin._runtime.showing import visible
from pippin.cli.options import Alpha, Columns, LabelsFile, an_argument, an_option

if TYPE_CHECKING:
    from rich.table import Table

    from pippin._theory.planning import Plan
    from pippin.tables.columns import Layout

DISTANCES = (0.005, 0.01, 0.02, 0.05)

Counted = Annotated[Path | None, an_argument("DATA", "Calibration data, to count the examples of every class.")]
Examples = Annotated[int | None, an_option("The examples at hand.", "--n")]
Within = Annotated[float | None, an_option("How far coverage may be from 1 − alpha; 0.01 is one percentage point.")]


def plan(
    data: Counted = None,
    alpha: Alpha = 0.1,
    n: Examples = None,
    within: Within = None,
    delta: Annotated[float, typer.Option(help="In what share of calibrations the statement may fail.")] = 0.05,
    test: Annotated[int | None, an_option("The rows that will measure coverage.")] = None,
    labels: LabelsFile = None,
    *,
    columns: Columns,
) -> None:
    """Say how many calibration examples are needed, and how far coverage will vary."""
    import pippin
    from pippin.cli.printing import console

    if data is not None and n is not None:
        raise InputError(f"Expected DATA or --n, got both {data} and {n}", "the rows of DATA are what is counted")
    if test is not None and data is None and n is None:
        raise InputError("Expected --n beside --test", "name the calibration examples, for example --n 2000")
    counts = _counts(data, labels, columns.layout)
    distances = DISTANCES if within is None else (within,)
    at_hand = sum(counts.values()) if n is None else n
    found = None if n is None and data is None else pippin.plan(alpha, at_hand, delta=delta, test=test)
    wanted = [pippin.examples_for(alpha, within=d, delta=delta) for d in distances]
    screen = console()
    if found is not None:
        screen.print(_sentence(found))
    screen.print(_distance_table(distances, wanted, found, delta))
    if counts:
        target = 0.05 if within is None else within
        screen.print(_class_table(counts, alpha, delta, target))
        screen.print(
            "By class means that each class is calibrated by its own examples; one threshold for all needs none of it."
        )
    screen.print("Exact for scores without ties (ties only raise coverage), whatever the classifier and the score.")


def _counts(data: Path | None, labels: Path | None, layout: "Layout | None") -> dict[str | int, int]:
    """How many examples each class has."""
    import numpy as np

    from pippin._validation.labels import as_classes
    from pippin.cli.inputs import read_or_example

    if data is None and labels is None:
        return {}
    given = read_or_example(data, labels, layout)
    classes = as_classes(None, given.rows)
    counted = np.bincount(given.truth(), minlength=len(classes)).tolist()
    return dict(zip(classes, counted, strict=True))


def _sentence(plan: "Plan") -> str:
    from pippin._theory.level import examples_needed

    if not plan.finite:
        return (
            f"{plan.n:,} calibration examples are too few for alpha {plan.alpha:g}: every set will hold all classes. "
            f"At least {examples_needed(plan.alpha):,} are needed.\n"
        )
    text = (
        f"With {plan.n:,} calibration examples, coverage will lie between {_percent(plan.low)} and "
        f"{_percent(plan.high)} in {_percent(1 - plan.delta)} of calibrations; on average {_percent(plan.mean)}, "
        f"with a standard deviation of {_points(plan.standard_deviation)}.\n"
    )
    if plan.test is not None and plan.test_low is not None and plan.test_high is not None:
        text += (
            f"Measured on {plan.test:,} test rows, it will lie between {_percent(plan.test_low)} and "
            f"{_percent(plan.test_high)}.\n"
        )
    return text


def _distance_table(distances: tuple[float, ...], wanted: list[int], plan: "Plan | None", delta: float) -> "Table":
    from rich.table import Table

    table = Table()
    table.add_column("coverage within", justify="right")
    if plan is not None:
        table.add_column(f"chance with {plan.n:,}", justify="right")
    table.add_column(f"examples needed for {_percent(1 - delta)}", justify="right")
    for d, needed in zip(distances, wanted, strict=True):
        chance = [] if plan is None else [_percent(plan.within(d))]
        table.add_row(f"± {_points(d)}", *chance, f"{needed:,}")
    return table


def _class_table(counts: dict[str | int, int], alpha: float, delta: float, within: float) -> "Table":
    from rich.table import Table

    import pippin
    from pippin._theory.level import examples_needed

    least, wanted = examples_needed(alpha), pippin.examples_for(alpha, within=within, delta=delta)
    table = Table(title="By class", title_justify="left")
    table.add_column("class", overflow="fold")
    headings = ("examples", "coverage", f"in {_percent(1 - delta)} of\ncalibrations")
    for heading in (*headings, "missing for\na threshold", f"missing for\n± {100 * within:.3g} points"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, count in sorted(counts.items(), key=lambda item: item[1]):
        found = pippin.plan(alpha, count, delta=delta)
        spread = f"{100 * found.low:.3g} to {_percent(found.high)}" if found.finite else "every set full"
        missing = (f"{max(0, enough - count):,}" for enough in (least, wanted))
        table.add_row(visible(name), f"{count:,}", _percent(found.mean), spread, *missing)
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _points(difference: float) -> str:
    """How far shares are apart, which is not a share itself."""
    told = f"{100 * difference:.3g}"
    return f"{told} percentage point{'' if told == '1' else 's'}"
