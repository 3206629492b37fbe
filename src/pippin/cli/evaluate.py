"""`pippin evaluate`: how a predictor does on labelled data."""

from typing import TYPE_CHECKING

from pippin.cli.options import (
    DataFile,
    DrawSeed,
    LabelsFile,
    NonEmpty,
    PredictorFile,
    WeightsFile,
    read_or_example,
    takes_table,
)

if TYPE_CHECKING:
    from pippin.tables.layout import Layout


@takes_table
def evaluate(
    predictor: PredictorFile,
    data: DataFile,
    seed: DrawSeed = None,
    labels: LabelsFile = None,
    non_empty: NonEmpty = False,
    weights: WeightsFile = None,
    layout: "Layout | None" = None,
) -> None:
    """Print coverage and set sizes on labelled data, overall, by class and by group."""
    import pippin
    from pippin.cli.options import asked_of
    from pippin.tables.reading import naming

    calibrated = pippin.load(predictor)
    given = read_or_example(data, labels, layout)
    truth = given.truth(calibrated.classes)
    asked = asked_of(calibrated, given, weights, seed, non_empty)
    with naming(given.name):
        sets = calibrated.predict(given.rows, **asked)
    names = [calibrated.classes[i] for i in truth]
    print(f"{calibrated.describe()}\nOn {given.name}: ", end="")
    print(pippin.evaluate(sets, names, groups=given.groups, alpha=calibrated.alpha))
