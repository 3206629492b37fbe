"""`pippin evaluate`: how a predictor does on labelled data."""

from pippin.cli.options import DataFile, DrawSeed, LabelsFile, PredictorFile


def evaluate(predictor: PredictorFile, data: DataFile, seed: DrawSeed = None, labels: LabelsFile = None) -> None:
    """Print coverage and set sizes on labelled data, overall and by class."""
    import pippin
    from pippin.tables import naming, read_data

    calibrated = pippin.load(predictor)
    given = read_data(data, labels)
    truth = given.truth(calibrated.classes)
    with naming(given.name):
        sets = calibrated.predict(given.rows, seed=seed)
    print(
        f"{calibrated.score}, calibrated on {calibrated.n_calibration:,} rows, alpha {calibrated.alpha:g}, on ", end=""
    )
    print(pippin.evaluate(sets, [calibrated.classes[i] for i in truth]))
