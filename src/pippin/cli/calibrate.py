"""`pippin calibrate`: a predictor from probabilities and labels."""

from pathlib import Path
from typing import Annotated

import typer

from pippin.cli.options import Alpha, DataFile, DrawSeed, LabelsFile


def calibrate(
    data: DataFile,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The predictor, .json.", show_default=False)],
    score: Annotated[str, typer.Option(help="The score, such as repip or raps(lam=0.1).")] = "repip",
    alpha: Alpha = 0.1,
    seed: DrawSeed = None,
    labels: LabelsFile = None,
    no_scores: Annotated[
        bool, typer.Option("--no-scores", help="Leave the calibration scores out of the file.")
    ] = False,
) -> None:
    """Turn data that the classifier was not trained on into a predictor."""
    import pippin
    from pippin.cli.outputs import check_target
    from pippin.tables import read_data, writing

    check_target(out, ".json")
    given = read_data(data, labels)
    predictor = pippin.calibrate(given.rows, given.truth(), score, alpha, seed=seed)
    with writing(out):
        predictor.save(out, scores=not no_scores)
    print(
        f"{predictor.score} with threshold {predictor.threshold:.6g}, from {predictor.n_calibration:,} rows of "
        f"{given.name}, is in {out}: its sets hold the true class {100 * (1 - predictor.alpha):g} % of the time."
    )
