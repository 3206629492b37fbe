"""`pippin evaluate`: how a predictor does on labelled data."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pippin.cli.options import (
    DataFile,
    DrawSeed,
    Fallback,
    LabelsFile,
    NonEmpty,
    PredictorFile,
    UtilityFile,
    WeightsFile,
    read_or_example,
    takes_table,
)

if TYPE_CHECKING:
    from pippin._inputs.rows import Rows
    from pippin._predictors.protocol import ConformalPredictor
    from pippin.tables.layout import Layout


@takes_table
def evaluate(
    predictor: PredictorFile,
    data: DataFile,
    seed: DrawSeed = None,
    labels: LabelsFile = None,
    non_empty: NonEmpty = False,
    weights: WeightsFile = None,
    utility: UtilityFile = None,
    fallback: Fallback = None,
    layout: "Layout | None" = None,
) -> None:
    """Print coverage and set sizes on labelled data, by class and by group; of decisions, what came of them."""
    import pippin
    from pippin._engine.dispatch import accuracy
    from pippin._inputs.labels import ColumnNumbers
    from pippin._runtime.warn import warn
    from pippin.cli.options import asked_of
    from pippin.tables.reading import naming

    calibrated = pippin.load(predictor)
    given = read_or_example(data, labels, layout)
    truth = given.truth(calibrated.classes)
    if utility is not None or isinstance(calibrated, pippin.Decider):
        from pippin.cli.decide import acted, tell_decisions

        chosen = acted(calibrated, given, utility, fallback, weights, seed)
        tell_decisions(calibrated, given, chosen, ColumnNumbers(truth))
        return
    asked = asked_of(calibrated, given, weights, seed, non_empty)
    with naming(given.name):
        sets = calibrated.predict(given.rows, **asked)
    names = [str(calibrated.classes[i]) for i in truth]
    found = pippin.evaluate(
        sets, names, groups=given.groups, alpha=calibrated.alpha, n_calibration=calibrated.n_calibration
    )
    found = replace(found, accuracy=accuracy(given.rows, truth))
    print(f"{calibrated.describe()}\nOn {given.name}: {found}\n\nIt {found.verdict}.")
    if found.on_empty:
        print(found.on_empty)
    if _calibrated_it(calibrated, given.rows, ColumnNumbers(truth)):
        warn("These rows seem to be those that calibrated the predictor, which say nothing of new ones. Take others.")


def _calibrated_it(predictor: "ConformalPredictor", rows: "Rows", truth: Any) -> bool:
    """Whether most of these rows have a score that a calibration row has too, to the last bit."""
    import numpy as np

    import pippin
    from pippin._predictors.marginal import Predictor

    if not isinstance(predictor, Predictor) or predictor.calibration_scores is None or predictor.score.randomized:
        return False
    known = predictor.calibration_scores
    if len(np.unique(known)) < 0.5 * len(known):  # few different scores say little
        return False
    return bool(np.isin(pippin.score(rows, truth, predictor.score), known).mean() > 0.5)
