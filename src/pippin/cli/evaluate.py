"""`pippin evaluate`: how a predictor does on labelled data."""

from pippin.cli.options import DataFile, DrawSeed, LabelsFile, NonEmpty, PredictorFile


def evaluate(
    predictor: PredictorFile,
    data: DataFile,
    seed: DrawSeed = None,
    labels: LabelsFile = None,
    non_empty: NonEmpty = False,
) -> None:
    """Print coverage and set sizes on labelled data, overall, by class and by group."""
    import pippin
    from pippin.cli.options import own_groups
    from pippin.tables import naming, read_data

    calibrated = pippin.load(predictor)
    given = read_data(data, labels)
    truth = given.truth(calibrated.classes)
    with naming(given.name):
        sets = calibrated.predict(given.rows, seed=seed, nonempty=non_empty, **own_groups(calibrated, given))
    per = f" per {calibrated.per}".replace("per rc3p", "by RC3P") if hasattr(calibrated, "per") else ""
    print(
        f"{calibrated.score}{per}, calibrated on {calibrated.n_calibration:,} rows, alpha {calibrated.alpha:g}, on ",
        end="",
    )
    names = [calibrated.classes[i] for i in truth]
    print(pippin.evaluate(sets, names, groups=given.groups, alpha=calibrated.alpha))
