"""Command `pippin decide`: choose actions for new rows.

The commands calibrate and evaluate also use this module, to calibrate a decider and to evaluate its decisions.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pippin
from pippin._conformal.evaluation import count_calibration_rows, warn_of_calibration_rows
from pippin._conformal.rules import is_by_unit
from pippin._runtime.errors import InputError
from pippin._runtime.showing import visible
from pippin._validation.batched import needed
from pippin._validation.labels import ColumnNumbers
from pippin.cli import options
from pippin.cli.inputs import batches, layout_for, read_all, read_inputs, row_inputs
from pippin.cli.outputs import check_distinct, check_target, echo, write_stdout
from pippin.decisions import CostPolicy, Decider, Decisions, Utility
from pippin.tables.formats import STDIN
from pippin.tables.reading import Data, label_numbers, naming
from pippin.tables.writing import NAMES, decisions_table, encode_table, write_table

_ACTIONS = "The file of actions: .csv, .parquet or .jsonl; - prints them as .csv."


def decide(
    predictor: options.PredictorFile,
    data: options.DataFiles,
    out: Annotated[Path, options.an_option(_ACTIONS, metavar="FILE")],
    *,
    utilities: options.UtilityOptions,
    inputs: options.RowInputs,
    formulas: options.Formulas = False,
    columns: options.ColumnOptions,
) -> None:
    """Write an action for every row, with a certificate: a lower bound of its utility.

    PREDICTOR is from calibrate --utility (with --max-cost, there are no certificates); or any predictor, together with
    --utility: then the action is the one with the best worst case over the row's prediction set.
    """
    if out != STDIN:  # --out - writes to standard output
        check_target(out, ".csv", ".parquet", ".jsonl")
        check_distinct("--out", out, data)
    calibrated: Any = pippin.load(predictor)
    given = read_all(data, None, layout_for(columns.layout, calibrated))
    names = () if formulas else NAMES
    decisions, _ = _decide(calibrated, given, utilities, inputs)
    write_line = partial(echo, file=sys.stderr if out == STDIN else sys.stdout)
    if out == STDIN:
        write_stdout(encode_table(decisions_table(decisions, given.ids), ".csv", names=names))
    else:
        write_table(out, decisions_table(decisions, given.ids), names)
        write_line(f"{len(decisions):,} actions are in {out}.")
    shares = ", ".join(f"{visible(name)} {100 * n / len(decisions):.3g}%" for name, n in decisions.counts().items())
    write_line(f"{shares}. {calibrated.describe()}")


def _decide(
    predictor: Any, given: Data, utilities: options.UtilityOptions, inputs: options.RowInputs
) -> tuple[Decisions, Utility]:
    """Choose an action for each row by a decider, or by the worst-case utility over the prediction set of a predictor.

    Return the decisions, and the utility that they are based on.
    """
    keywords = {**read_inputs(predictor, given, inputs), **row_inputs(predictor, given, inputs.seed)}
    if isinstance(predictor, Decider | CostPolicy):
        for option, value in (("--utility", utilities.utility), ("--fallback", utilities.fallback)):
            if value is not None:
                raise InputError(f"Expected a decider without {option}, since it has its own utility", "leave it out")
        with naming(given.name):
            return predictor.decide(given.rows, **keywords), predictor.utility
    if utilities.utility is None:
        what = "Expected a decider, got a predictor of sets"
        raise InputError(what, "calibrate one with --utility, or pass --utility to act on the worst case over its sets")
    with naming(given.name):
        sets = predictor.predict(given.rows, **keywords)
    with naming(utilities.utility):
        utility = Utility.read(utilities.utility)
        return pippin.decisions.decide(sets, utility, fallback=utilities.fallback), utility


def read_utility(path: Path, given: Data) -> Utility:
    """Read the utility of each action from a file, and check that it covers all classes of the data."""
    with naming(path):
        utility = Utility.read(path)
        utility.of(given.labelled.classes)
    return utility


def calibrate_decider(given: Data, path: Path, alpha: float, keywords: Any) -> Decider:
    """Calibrate a decider (decision policy) for the utility in the file `path`.

    `keywords` are arguments of `pippin.decisions.calibrate`: the taxonomy or the clusters of rows ("units"), the
    sharpener (recalibration map), and the seed.
    """
    utility = read_utility(path, given)
    return pippin.decisions.calibrate(given.rows, label_numbers(given), utility, alpha, **keywords)


def bound_cost(given: Data, path: Path, max_cost: float) -> CostPolicy:
    """Calibrate decisions with an expected cost (minus the utility in the file `path`) of at most `max_cost`."""
    utility = read_utility(path, given)
    return pippin.decisions.bound_cost(given.rows, label_numbers(given), utility, bound=max_cost)


def print_decider(decider: Decider, given: Data, keywords: Any, out: Path) -> None:
    """Print the guarantee of a decider (decision policy) that was written to `out`, and its decisions on the data.

    `keywords` are the arguments with which `calibrate_decider` was called.
    """
    echo(f"{out}, made from {given.name}: {decider.describe()}")
    needed = {name: keywords[name] for name in decider.takes}
    which = "these" if decider.sharpeners else "the calibration"
    echo(f"On {which} rows: {decider.decide(given.rows, **needed)!r}.")


def evaluate_decisions(
    predictor: Any, given: Data, utilities: options.UtilityOptions, inputs: options.RowInputs
) -> None:
    """Print the realized utility of decisions on labelled rows, and of maximizing expected utility for comparison."""
    [batch] = batches(given, "labels", classes=predictor.classes)
    batch = batch.select_columns(predictor.classes)
    codes = needed(batch.labels)
    labels = ColumnNumbers(codes)
    decisions, utility = _decide(predictor, given, utilities, inputs)
    units = batch.groups if is_by_unit(predictor) else None
    evaluation = pippin.decisions.evaluate(decisions, labels, utility, units=units, predictor=predictor)
    features = read_inputs(predictor, given, inputs).get("features")
    warn_of_calibration_rows(count_calibration_rows(predictor, batch.rows, codes, features), len(codes))
    response = pippin.decisions.best_response(batch.rows, utility, classes=predictor.classes)
    best = pippin.decisions.evaluate(response, labels, utility)
    shares = ", ".join(f"{visible(name)} {100 * share:.3g}%" for name, share in best.shares.items())
    echo(f"{predictor.describe()}\nOn {given.name}: {evaluation}")
    echo(
        "The best response, which maximizes expected utility without a guarantee, had a mean utility of "
        f"{best.mean_utility:.4f} ({shares})."
    )
