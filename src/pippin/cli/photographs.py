"""Photographs of the first split's test rows, with their sets, in the report."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pippin._conformal.sets import PredictionSets
    from pippin.tables.reading import Data

SHOWN = ("repip", "raps", "aps")  # the first stands beside photographs; the others where it leaves no set empty


def show_photographs(page: Path, folder: Path, probs: Path, alpha: float, fraction: float, seed: int) -> None:
    """Insert photographs of `folder`, whose logits train wrote to `probs`, into the page."""
    from pippin._runtime.disk import write_whole
    from pippin.cli.report.page import photo_section, with_photos
    from pippin.tables.reading import read_data

    data = read_data(probs)
    with np.load(probs) as archive:
        files = archive["files"]
    rows, sets = first_split(data, alpha, fraction, seed)
    section = photo_section(folder, files[rows].tolist(), sets, data.truth()[rows])
    write_whole(page, with_photos(page.read_text(encoding="utf-8"), section).encode())


def first_split(
    data: "Data", alpha: float, fraction: float, seed: int
) -> "tuple[NDArray[np.int64], dict[str, PredictionSets]]":
    """Return the test rows of the first split of compare, and their sets under each score shown."""
    import pippin
    from pippin._compare.splits import draw_split, make_trial

    labelled = data.labelled
    split = draw_split(make_trial(labelled, alpha, fraction, seed), 0)
    inner, outer = np.flatnonzero(split.calibration), np.flatnonzero(~split.calibration)
    sets = {}
    for score in SHOWN:
        generator = split.generator()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*too few.*")  # compare has warned
            predictor = pippin.calibrate(
                labelled.rows.take(inner), labelled.labels[inner], score, alpha, seed=generator
            )
        outer_sets = predictor.predict(labelled.rows.take(outer), seed=generator)
        sets[str(predictor.score)] = replace(outer_sets, classes=labelled.classes)
    return outer, sets
