"""Whether a predictor belongs to a network: the same classes, and calibrated on images that it was not trained on.

And whether a graph is that network's: it holds a fingerprint of the logits that training noted.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from pippin._conformal.conditional import ConditionalPredictor
from pippin._conformal.marginal import Predictor
from pippin._conformal.sharpened import SharpenedPredictor
from pippin._conformal.units import UnitPredictor
from pippin._decisions.decider import Decider
from pippin._engine import decisions, dispatch
from pippin._runtime.arrays import Classes, Vector
from pippin._runtime.errors import InputError
from pippin._validation.rows import Rows
from pippin.images.training.folder import photo_of
from pippin.images.training.record import Training

CLOSE = 1e-9  # between two ways to compute one score


def check_kind(predictor: Any) -> None:
    """Raises an InputError if it cannot be asked about a window alone, or not for p-values."""
    base = predictor.base if isinstance(predictor, SharpenedPredictor) else predictor
    known = isinstance(base, Predictor | ConditionalPredictor | UnitPredictor | Decider)
    if not known or predictor.takes - {"seed", "features"}:
        asks = ", ".join(sorted(getattr(predictor, "takes", set()) - {"seed", "features"}))
        raise InputError(
            f"Expected a predictor that needs nothing but an image, got {predictor!r}"
            + (f", for its {asks}" * bool(asks)),
            "calibrate one for all, per class, per kind or by units",
        )
    if _kept(base) is None:
        raise InputError(
            f"Expected a predictor with its calibration scores, got {predictor!r} without",
            "calibrate and save it with them",
        )


def check_classes(part: str, classes: Classes, training: Training) -> None:
    """Raises an InputError if a part has other classes than the network, or the same in another order."""
    theirs, ours = tuple(map(str, classes)), training.classes
    if theirs == ours:
        return
    k = next((k for k, (a, b) in enumerate(zip(theirs, ours, strict=False)) if a != b), min(len(theirs), len(ours)))
    how = "its classes in another order" if sorted(theirs) == sorted(ours) else "other classes"
    there, here = (names[k] if k < len(names) else "nothing" for names in (theirs, ours))
    raise InputError(
        f"The {part} has {how} than the network ({there!r} where the network has {here!r})",
        "calibrate it on the logits that train wrote beside these weights",
    )


def check_calibration(part: str, predictor: Any, training: Training, calibration: Path | None) -> int:
    """How many images held out calibrated it, if none of its scores are of anything else.

    Args:
        part: what the predictor is called.
        calibration: the .npz file that calibrated it, to tell what is wrong.

    Raises:
        InputError: it was calibrated on images that trained the network, or on logits of another one.
    """
    if calibration is not None:
        _check_files(part, calibration, training)
    base = predictor.base if isinstance(predictor, SharpenedPredictor) else predictor
    if isinstance(base, UnitPredictor):
        _check_units(part, training)
    if "features" in predictor.takes and training.features is None:
        raise InputError(f"The {part} was shown features, but these weights came without", "train with --features")
    kept = _kept(base)
    found = _scores(predictor, training)
    if found is None or kept is None:  # a randomised score: what was drawn is not known
        strange = max(0, predictor.n_calibration - len(training.files))
    else:
        strange = _far(kept, found)
    if strange:
        raise InputError(
            f"The {part} was calibrated on images that trained the network, or on logits of another network: of its "
            f"{predictor.n_calibration:,} calibration scores {strange:,} are not those of images held out",
            "calibrate it on the logits that train wrote beside these weights",
        )
    return int(predictor.n_calibration)


def _check_units(part: str, training: Training) -> None:
    """Raises an InputError if windows of photographs that calibrated trained the network: these are not new."""
    both = {photo_of(file) for file in training.trained} & {photo_of(file) for file in training.files.tolist()} - {None}
    if both:
        raise InputError(
            f"The {part} promises for new photographs, but windows of {len(both):,} of those held out trained the "
            f"network, the first of {min(filter(None, both))}",
            "train with --group photo, and calibrate again",
        )


def graph_record(training: Training) -> dict[str, str]:
    """What a graph notes of the network that it was made of."""
    fingerprint = hashlib.sha256(np.ascontiguousarray(training.logits).tobytes()).hexdigest()
    return {"pippin.network": fingerprint, "pippin.classes": json.dumps(list(training.classes))}


def check_graph(part: str, told: Mapping[str, str], shapes: list[Any], size: int, training: Training) -> None:
    """Raises an InputError if a graph was made of another network, or takes other pixels."""
    foreign = any(told.get(key) != value for key, value in graph_record(training).items())
    if foreign or shapes != [[3, size, size]]:
        raise InputError(
            f"The part {part} is of another network than the weights beside it", "make the model again with --onnx"
        )


def _check_files(part: str, calibration: Path, training: Training) -> None:
    """Raises an InputError if the file names images that trained the network, or other logits of those held out."""
    try:
        with calibration.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            files, logits = kept["files"], kept["logits"]
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise InputError(f"{calibration} holds no logits and files", "name a file that train wrote") from error
    if len(files) != len(logits):
        raise InputError(f"{calibration} has {len(files):,} files and {len(logits):,} logits", "train again")
    seen = sorted(set(files.tolist()) & set(training.trained))
    if seen:
        raise InputError(
            f"The {part} was calibrated on {len(seen):,} images that trained the network, the first {seen[0]}",
            "calibrate it on images held out",
        )
    ours: dict[str, Any] = dict(zip(training.files.tolist(), training.logits, strict=True))
    other = [
        file for file, row in zip(files.tolist(), logits, strict=True) if not np.array_equal(ours.get(file, ()), row)
    ]
    if other:
        raise InputError(
            f"The {part} was calibrated on logits of another network: {len(other):,} images of {calibration} have "
            f"others here, the first {other[0]}",
            "calibrate it on the logits that train wrote beside these weights",
        )


def _kept(predictor: Any) -> Vector | None:
    """Its calibration scores."""
    cells = getattr(predictor, "cells", None)
    found: Vector | None = predictor.scores if cells is None else cells.scores
    return found


def _scores(predictor: Any, training: Training) -> Vector | None:
    """The scores of all images held out, sorted; None if they are drawn."""
    rows, base = Rows(training.logits, True, training.classes), predictor
    if isinstance(predictor, SharpenedPredictor):
        beside = training.features if "features" in predictor.takes else None
        rows, base = predictor.sharpeners[0].rows(training.logits, features=beside, from_logits=True), predictor.base
    if isinstance(base, Decider):
        return np.sort(decisions.decision_scores(rows, training.labels, base.utility.policy(base.classes)))
    if base.score.randomized:
        return None
    return np.sort(dispatch.label_scores(rows, training.labels, base.score, np.ones(rows.n)))


def _far(kept: Vector, found: Vector) -> int:
    """How many of the kept scores have none of the found ones beside them."""
    place = np.searchsorted(found, kept).clip(0, len(found) - 1)
    with np.errstate(invalid="ignore"):  # of infinite scores
        near = [np.abs(found[(place + step).clip(0, len(found) - 1)] - kept) <= CLOSE for step in (-1, 0)]
    return int(np.sum(~(near[0] | near[1] | (found[place] == kept))))
