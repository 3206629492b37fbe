"""`pippin decide`: actions for new data; deciders for the commands calibrate and evaluate."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pippin
from pippin._runtime.errors import InputError
from pippin._validation.labels import ColumnNumbers
from pippin.cli import options
from pippin.cli.inputs import read_all, read_inputs, row_inputs
from pippin.cli.outputs import check_distinct, check_target
from pippin.decisions import Decider, Decisions, Utility
from pippin.tables.formats import STDIN
from pippin.tables.reading import Data, label_numbers, naming
from pippin.tables.writing import decisions_table, write_table

_ACTIONS = "The actions: .csv, .parquet or .jsonl; - prints them as .csv."


def decide(
    predictor: options.PredictorFile,
    data: options.DataFiles,
    out: Annotated[Path, options.an_option(_ACTIONS, metavar="FILE")],
    *,
    worth: options.Worth,
    inputs: options.RowInputs,
    columns: options.ColumnOptions,
) -> None:
    """Write the action for every row, and the utility that is certified for it.

    PREDICTOR is a decider, from calibrate --utility; or any predictor, with --utility: then the action is the best in
    the worst case over its prediction set.
    """
    if out != STDIN:  # "-" is standard output here
        check_target(out, ".csv", ".parquet", ".jsonl")
        check_distinct("--out", out, data)
    calibrated: Any = pippin.load(predictor)
    given = read_all(data, None, columns.layout)
    decisions, _ = _decide(calibrated, given, worth, inputs)
    tell = partial(print, file=sys.stderr if out == STDIN else sys.stdout)
    if out == STDIN:
        sys.stdout.buffer.write(decisions_table(decisions, given.ids).write_csv().encode())
    else:
        write_table(out, decisions_table(decisions, given.ids))
        tell(f"{len(decisions):,} actions are in {out}.")
    shares = ", ".join(f"{name} {100 * n / len(decisions):.3g}%" for name, n in decisions.counts().items())
    tell(f"{shares}. {calibrated.describe()}")


def _decide(predictor: Any, given: Data, worth: options.Worth, inputs: options.RowInputs) -> tuple[Decisions, Utility]:
    """Decide by a decider, or by the worst case over the sets of a predictor; return the utility too."""
    keywords = {**read_inputs(predictor, given, inputs), **row_inputs(predictor, given, inputs.seed)}
    if isinstance(predictor, Decider):
        for option, value in (("--utility", worth.utility), ("--fallback", worth.fallback)):
            if value is not None:
                raise InputError(f"Expected a decider without {option}, since it has its own utility", "leave it out")
        with naming(given.name):
            return predictor.decide(given.rows, **keywords), predictor.utility
    if worth.utility is None:
        what = "Expected a decider, got a predictor of sets, which knows no actions"
        raise InputError(what, "calibrate one with --utility, or pass --utility to act on the worst case over its sets")
    with naming(given.name):
        sets = predictor.predict(given.rows, **keywords)
    with naming(worth.utility):
        utility = Utility.read(worth.utility)
        return pippin.decisions.decide(sets, utility, fallback=worth.fallback), utility


def read_utility(path: Path, given: Data) -> Utility:
    """Read a utility that knows the classes of the data."""
    with naming(path):
        utility = Utility.read(path)
        utility.of(given.labelled.classes)
    return utility


def calibrate_decider(given: Data, path: Path, alpha: float, out: Path, cells: Any, no_scores: bool) -> None:
    """`pippin calibrate --utility`: write a decider, and print its guarantee; `cells` are per, groups and unseen."""
    decider = pippin.decisions.calibrate(given.rows, label_numbers(given), read_utility(path, given), alpha, **cells)
    decider.save(out, scores=not no_scores)
    print(f"{out}, made from {given.name}: {decider.describe()}")
    print(f"On the rows that calibrated: {decider.decide(given.rows, groups=cells['groups'])!r}.")


def evaluate_decisions(predictor: Any, given: Data, worth: options.Worth, inputs: options.RowInputs) -> None:
    """`pippin evaluate` of decisions: print their utility beside that of the best response."""
    labels = ColumnNumbers(given.truth(predictor.classes))
    decisions, utility = _decide(predictor, given, worth, inputs)
    level: Any = {"alpha": predictor.alpha, "n_calibration": predictor.n_calibration}
    found = pippin.decisions.evaluate(decisions, labels, utility, **level)
    response = pippin.decisions.best_response(given.rows, utility, classes=predictor.classes)
    best = pippin.decisions.evaluate(response, labels, utility)
    shares = ", ".join(f"{name} {100 * share:.3g}%" for name, share in best.shares.items())
    print(f"{predictor.describe()}\nOn {given.name}: {found}\n\nIt {found.verdict}.")
    print("The best response, which maximizes expected utility and promises nothing,", end=" ")
    print(f"had {best.mean_utility:.4f} ({shares}).")
