"""Command `pippin evaluate`: measure coverage and set sizes, or utilities, on labelled rows."""

from typing import Any

import pippin
from pippin._conformal.diagnosis import Outcomes
from pippin._conformal.evaluation import count_calibration_rows, diagnosed, warn_of_calibration_rows
from pippin._distributed.evaluation import count_sets
from pippin._engine.draws import generator_of
from pippin._runtime.errors import InputError
from pippin._validation.batched import needed
from pippin.cli import options
from pippin.cli.decide import evaluate_decisions
from pippin.cli.inputs import (
    batches,
    connected,
    in_memory,
    layout_for,
    predicts_in_batches,
    read,
    read_inputs,
    row_inputs,
)
from pippin.cli.outputs import echo
from pippin.tables.reading import Data
from pippin.tables.scanning import Scan

MOST_DIAGNOSED = 1_000_000  # about so many rows are kept in memory to find variables that predict misses


def evaluate(
    predictor: options.PredictorFile,
    data: options.DataFiles,
    *,
    labels: options.LabelsFile = None,
    inputs: options.RowInputs,
    non_empty: options.NonEmpty = False,
    utilities: options.UtilityOptions,
    scheduler: options.Scheduler = None,
    columns: options.ColumnOptions,
) -> None:
    """Print coverage, set sizes and singleton accuracy on labelled data; for decisions, their realized utility."""
    calibrated: Any = pippin.load(predictor)
    decides = utilities.utility is not None or isinstance(
        calibrated, pippin.decisions.Decider | pippin.decisions.CostPolicy
    )
    in_batches = predicts_in_batches(calibrated) and not decides
    if scheduler is not None and (labels is not None or inputs.weights is not None or not in_batches):
        raise InputError("Expected --scheduler with tables and a predictor of thresholds", "leave it out")
    source = read(data, labels, layout_for(columns.layout, calibrated), scheduler)
    if decides:
        evaluate_decisions(calibrated, in_memory(source), utilities, inputs)
    elif scheduler is not None:
        from pippin import dask

        with connected(scheduler):
            found = dask.evaluate(calibrated, source, seed=inputs.seed, nonempty=non_empty)
        _print(calibrated, source.name, found)
    else:
        given = source if in_batches else in_memory(source)
        _print(calibrated, given.name, _measure(calibrated, given, inputs, non_empty))


def _measure(predictor: Any, given: Data | Scan, inputs: options.RowInputs, non_empty: bool) -> pippin.Evaluation:
    """Evaluate the prediction sets in batches; warn if rows seem to have been used for calibration."""
    more, generator = read_inputs(predictor, given, inputs), generator_of(inputs.seed)
    total, repeated, outcomes = None, 0, list[Outcomes]()
    needs = ["labels"] if isinstance(given, Scan) and not given.has_groups else ["labels", "groups"]
    for batch in batches(given, *needs, classes=predictor.classes):
        batch = batch.select_columns(predictor.classes)
        with batch.naming():
            labels, keywords = needed(batch.labels), {**more, **row_inputs(predictor, batch, generator)}
            sets = predictor.predict(batch.rows, nonempty=non_empty, **keywords)
            measured = count_sets(sets, batch.rows, labels, batch.groups)
        if len(outcomes) * len(labels) <= MOST_DIAGNOSED:
            outcomes.append(Outcomes.of(sets.contain_codes(labels), sets.sizes, labels, batch.rows, batch.groups))
        repeated += count_calibration_rows(predictor, batch.rows, labels, keywords.get("features"))
        total = measured if total is None else total + measured
    assert total is not None
    warn_of_calibration_rows(repeated, total.n)
    total = total.without_ids()
    joined = Outcomes.joined(outcomes)
    joined = joined if total.groups else joined._replace(groups=None)
    return diagnosed(total.evaluation(predictor), joined, predictor.classes, per=getattr(predictor, "per", None))


def _print(predictor: Any, name: str, found: pippin.Evaluation) -> None:
    echo(f"{predictor.describe()}\nOn {name}: {found}")
    if found.on_empty:
        echo(found.on_empty)
