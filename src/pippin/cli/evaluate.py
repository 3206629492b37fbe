"""`pippin evaluate`: how a predictor does on labelled data."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pippin._runtime.errors import InputError
from pippin.cli.cluster import Scheduler, on_cluster
from pippin.cli.inputs import at_once, read_or_scan
from pippin.cli.options import Beside, Columns, DataFiles, LabelsFile, NonEmpty, PredictorFile, Worth

if TYPE_CHECKING:
    from pippin._conformal.evaluation import Evaluation
    from pippin._conformal.predictor import ConformalPredictor
    from pippin._validation.rows import Rows


def evaluate(
    predictor: PredictorFile,
    data: DataFiles,
    *,
    labels: LabelsFile = None,
    beside: Beside,
    non_empty: NonEmpty = False,
    worth: Worth,
    scheduler: Scheduler = None,
    columns: Columns,
) -> None:
    """Print coverage and set sizes on labelled data, by class and by group; of decisions, what came of them."""
    import pippin
    from pippin._engine.dispatch import accuracy
    from pippin._validation.labels import ColumnNumbers
    from pippin.cli.inputs import asked_of
    from pippin.tables.reading import Data, naming

    calibrated = pippin.load(predictor)
    if scheduler is not None:
        import pippin.dask

        known = isinstance(calibrated, pippin.ConformalPredictor)
        if labels is not None or beside.weights is not None or worth.utility is not None or not known:
            raise InputError("Expected --scheduler with tables and a predictor of thresholds", "leave it out")
        with on_cluster(scheduler, data, columns.layout) as tables:
            far = pippin.dask.evaluate(calibrated, tables, seed=beside.seed, nonempty=non_empty)
        _say(calibrated, tables.name, far, False)
        return
    found = read_or_scan(data, labels, columns.layout)
    by_threshold = isinstance(calibrated, pippin.ConformalPredictor)
    if not isinstance(found, Data) and by_threshold and beside.weights is None and worth.utility is None:
        from pippin.cli.evaluate_tables import evaluate_tables

        _say(calibrated, found.name, *evaluate_tables(calibrated, found, beside.seed, non_empty))
        return
    given = at_once(found)
    truth = given.truth(calibrated.classes)
    if worth.utility is not None or isinstance(calibrated, pippin.decisions.Decider):
        from pippin.cli.decide import acted, tell_decisions

        chosen = acted(calibrated, given, worth, beside)
        tell_decisions(calibrated, given, chosen, ColumnNumbers(truth))
        return
    asked = asked_of(calibrated, given, beside, non_empty)
    with naming(given.name):
        sets = calibrated.predict(given.rows, **asked)
    names = [str(calibrated.classes[i]) for i in truth]
    measured = pippin.evaluate(
        sets,
        names,
        groups=given.groups,
        alpha=getattr(calibrated, "alpha", None),
        n_calibration=calibrated.n_calibration,
    )
    measured = replace(measured, accuracy=accuracy(given.rows, truth))
    seen = scores_seen(calibrated)
    count = seen(given.rows, ColumnNumbers(truth)) if seen else 0
    _say(calibrated, given.name, measured, 2 * count > measured.n)


def _say(predictor: "ConformalPredictor", name: str, found: "Evaluation", known: bool) -> None:
    from pippin._runtime.errors import warn

    print(f"{predictor.describe()}\nOn {name}: {found}\n\nIt {found.verdict}.")
    if found.on_empty:
        print(found.on_empty)
    if known:
        warn("These rows seem to be those that calibrated the predictor, which say nothing of new ones. Take others.")


def scores_seen(predictor: "ConformalPredictor") -> "Callable[[Rows, Any], int] | None":
    """A function that counts rows with a score that a calibration row has too, to the last bit; None if in vain."""
    import numpy as np

    import pippin
    from pippin._conformal.predictor import ConformalPredictor

    if (
        not isinstance(predictor, ConformalPredictor)
        or predictor.calibration_scores is None
        or predictor.score.randomized
    ):
        return None
    score, known = predictor.score, np.unique(predictor.calibration_scores)
    if len(known) < 0.5 * len(predictor.calibration_scores):  # few different scores say little
        return None
    return lambda rows, truth: int(np.isin(pippin.scores.score(rows, truth, score), known).sum())
