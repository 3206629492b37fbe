"""Command `pippin plan`: the distribution of coverage, and the number of calibration examples needed."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import pippin
from pippin._runtime.errors import InputError
from pippin._theory.level import confident_examples, examples_needed
from pippin.cli import options
from pippin.cli.inputs import read_all
from pippin.cli.printing import console, new_table

DISTANCES = (0.005, 0.01, 0.02, 0.05)
_DATA = options.an_argument("DATA", "Calibration data, whose examples are counted by class.")
_WITHIN = "The allowed distance of coverage from 1 − alpha; 0.01 is one percentage point."


def plan(
    data: Annotated[list[Path] | None, _DATA] = None,
    alpha: options.Alpha = 0.1,
    n: Annotated[int | None, options.an_option("The number of calibration examples.", "--n")] = None,
    within: Annotated[float | None, options.an_option(_WITHIN)] = None,
    delta: Annotated[float, typer.Option(help="The share of calibration sets with coverage outside the range.")] = 0.05,
    test: Annotated[int | None, options.an_option("The number of test rows, to plan a measurement.")] = None,
    labels: options.LabelsFile = None,
    confidence: options.Confidence = None,
    *,
    columns: options.ColumnOptions,
) -> None:
    """Print the distribution of coverage over calibration sets, and the number of examples needed."""
    if data and n is not None:
        raise InputError(f"Expected DATA or --n, got both {data[0]} and {n}", "leave --n out to count the rows of DATA")
    if test is not None and not data and n is None:
        raise InputError("Expected --n with --test, got none", "pass the number of examples, such as --n 2000")
    counts: dict[str | int, int] = {}
    if data or labels is not None:
        _, codes, classes = read_all(data, labels, columns.layout).labelled
        counts = dict(zip(classes, np.bincount(codes, minlength=len(classes)).tolist(), strict=True))
        n = sum(counts.values())
    if confidence is not None and (within is not None or n is None):
        what = "Expected DATA or --n with --confidence, and no --within"
        raise InputError(what, "pass the number of examples, such as --n 2000; the distance then follows")
    planned = None if n is None else pippin.plan(alpha, n, delta=delta, test=test, confidence=confidence)
    screen = console()
    if planned is not None:
        screen.print(_sentences(planned))
    if confidence is None:
        screen.print(_distance_table(DISTANCES if within is None else (within,), alpha, delta, planned))
    if counts:
        screen.print(_class_table(counts, alpha, delta, 0.05 if within is None else within, confidence))
        screen.print("By class: for thresholds per class; a marginal threshold does not need this many in each class.")
    screen.print("Exact for scores without ties (ties only raise coverage), for every classifier and score.")


def _sentences(plan: pippin.Plan) -> str:
    if not plan.finite:
        return (
            f"{plan.n:,} calibration examples are too few for alpha {plan.alpha:g}: every set will hold all classes. "
            f"At least {_needed(plan.alpha, plan.confidence):,} are needed.\n"
        )
    sure = ""
    if plan.confidence is not None:
        share = _percent(1 - plan.alpha)
        sure = f", coverage will be at least {share} in {100 * (1 - plan.below()):.4g}% of calibrations: it"
    text = (
        f"With {plan.n:,} calibration examples{sure or ', coverage'} will lie between {_percent(plan.low)} and "
        f"{_percent(plan.high)} in {_percent(1 - plan.delta)} of calibrations; on average {_percent(plan.mean)}, "
        f"with a standard deviation of {_points(plan.standard_deviation)}.\n"
    )
    if plan.test_low is not None and plan.test_high is not None:
        low, high = _percent(plan.test_low), _percent(plan.test_high)
        text += f"Measured on {plan.test:,} test rows, it will lie between {low} and {high}.\n"
    return text


def _distance_table(distances: tuple[float, ...], alpha: float, delta: float, plan: pippin.Plan | None) -> Any:
    chances = [] if plan is None else [f"chance with {plan.n:,}"]
    table = new_table("coverage within", *chances, f"examples needed for {_percent(1 - delta)}")
    for distance in distances:
        chance = [] if plan is None else [_percent(plan.within(distance))]
        needed = pippin.examples_for(alpha, within=distance, delta=delta)
        table.add_row(f"± {_points(distance)}", *chance, f"{needed:,}")
    return table


def _needed(alpha: float, confidence: float | None) -> int:
    """Return the smallest number of examples with a finite threshold."""
    return examples_needed(alpha) if confidence is None else confident_examples(alpha, confidence)


def _class_table(
    counts: dict[str | int, int], alpha: float, delta: float, within: float, confidence: float | None
) -> Any:
    needed = [_needed(alpha, confidence)]
    if confidence is None:
        needed.append(pippin.examples_for(alpha, within=within, delta=delta))
    headings = ("examples", "coverage", f"in {_percent(1 - delta)} of\ncalibrations", "missing for\na threshold")
    last = [f"missing for\n± {100 * within:.3g} points"][: len(needed) - 1]
    table = new_table("class", *headings, *last, left=("class",), title="By class")
    for name, count in sorted(counts.items(), key=lambda item: item[1]):
        planned = pippin.plan(alpha, count, delta=delta, confidence=confidence)
        spread = f"{100 * planned.low:.3g} to {_percent(planned.high)}" if planned.finite else "in every set"
        missing = (f"{max(0, enough - count):,}" for enough in needed)
        table.add_row(str(name), f"{count:,}", _percent(planned.mean), spread, *missing)
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def _points(difference: float) -> str:
    """Format the difference of two shares in percentage points, such as 0.01 as `1 percentage point`."""
    points = f"{100 * difference:.3g}"
    return f"{points} percentage point{'' if points == '1' else 's'}"
