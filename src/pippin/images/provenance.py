"""Provenance of field models: checks that the parts fit the network, and the card of a model.

The predictor of a field model must have been calibrated on logits of its network for held-out images.

So the predictor must have the network's classes, and each of its calibration scores must equal the score of an image on
which the network was not trained. An ONNX graph contains a fingerprint of the held-out logits recorded by training, by
which its network is identified.
"""

import hashlib
import json
import zlib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from pippin._conformal.card import Card, listed_names, origin_card
from pippin._conformal.rules import MondrianRule, UnitsRule
from pippin._decisions.decider import Decider
from pippin._engine import dispatch
from pippin._runtime.arrays import Vector
from pippin._runtime.errors import InputError
from pippin._runtime.provenance import Provenance
from pippin._runtime.showing import visible
from pippin._validation.rows import Rows
from pippin.images.training.folder import TrainingRecord, photo_of
from pippin.tables.limits import check_archive

TOLERANCE = 1e-9  # for rounding differences between a saved score and the score computed again
RECALIBRATE = "calibrate it on the logits that train wrote together with these weights"


def check_part(part: str, predictor: Any, training: TrainingRecord, calibration: Path | None) -> None:
    """Check that a predictor or decider fits the network that `training` describes.

    Args:
        part: "predictor" or "decider", for error messages.
        predictor: the predictor or decider.
        training: record of the network's training.
        calibration: the .npz file of the calibration data, for more precise messages.

    Raises:
        InputError: the predictor needs more inputs than an image, has other classes than the network, or was calibrated
            on training images of the network or on logits of another network.
    """
    expected = _calibration_scores(predictor)
    _check_classes(part, tuple(map(str, predictor.classes)), training.classes)
    if calibration is not None:
        _check_files(part, calibration, training)
    if isinstance(getattr(predictor, "_rule", None), UnitsRule):
        _check_units(part, training)
    if "features" in predictor.takes and training.features is None:
        raise InputError(f"The {part} needs features, but none were saved with these weights", "train with --features")
    actual, n = _held_out_scores(predictor, training), predictor.n_calibration
    # For a randomized score, only the number of scores is compared, since its random numbers are not saved.
    unmatched = max(0, n - len(training.files)) if actual is None else _count_unmatched(expected, actual)
    if unmatched:
        what = f"The {part} was calibrated on training images of the network, or on logits of another network"
        what += ", or without the views of each image" if training.views else ""
        scores = f"of its {n:,} calibration scores {unmatched:,} are not those of held-out images"
        raise InputError(f"{what}: {scores}", RECALIBRATE)


def graph_metadata(training: TrainingRecord) -> dict[str, str]:
    """Return the metadata of an ONNX graph that identify its network: a fingerprint of its logits, and the classes."""
    fingerprint = hashlib.sha256(np.ascontiguousarray(training.logits).tobytes()).hexdigest()
    return {"pippin.network": fingerprint, "pippin.classes": json.dumps(list(training.classes))}


def field_cards(
    content: dict[str, Any], training: TrainingRecord, record: bytes | None, predictor: Any, decider: Decider | None
) -> dict[str, Card]:
    """Return the cards of a field model by title: of the model, of its prediction sets and of its decisions.

    Args:
        content: the content of the manifest.
        training: record of the network's training in its folder of weights.
        record: the file train.json, or None.
        predictor: the predictor.
        decider: the decider, or None.
    """
    window, size, utility = content["window"], content["reading"]["size"], content["utility"]
    parts = {"Prediction sets": predictor} | ({} if decider is None else {"Decisions": decider})
    acting = "" if decider is None and utility is None else " and actions"
    where = "whole images" if window is None else f"windows of {window} × {window} pixels"
    what = f"A field model: a network, prediction sets{acting} for {where}, read as images of {size} × {size} pixels. "
    scopes: dict[str, list[str]] = {}
    for name, part in parts.items():
        scopes.setdefault(_scope(part, training, window), []).append(name)
    card = {
        "What is it?": f"{what}Classes: {listed_names(training.classes)}.",
        "What is guaranteed?": visible(content["promises"]),
        "For which images?": " ".join(f"{' and '.join(names)}: {scope}" for scope, names in scopes.items()),
        "Which images trained the network?": f"{len(training.trained):,} images, whose names are in "
        f"weights/training.npz. The {len(training.files):,} held-out images in the same file did not train it; "
        f"its accuracy on them is {training.accuracy:.3f}.",
    }
    known, data = _read_record(record), {}
    if known:
        images = known["images"]
        data = {f"{images['folder']} ({images['count']:,} images, names and contents)": images["sha256"]}
        options = ", ".join(f"{name} = {value}" for name, value in known["options"].items() if value is not None)
        versions = ", ".join(f"{name} {version}" for name, version in known["versions"].items())
        card["How was the network trained?"] = visible(f"{options}; finished {known['finished']}, with {versions}.")
    entries = {"data": data} | content.get("provenance", {"date": "", "versions": {}})
    origin = origin_card(Provenance(**entries), content.get("checksum", ""))
    return {"Field model": card | origin, **{name: part.card() for name, part in parts.items()}}


def _scope(part: Any, training: TrainingRecord, window: int | None) -> str:
    """Describe the images that a guarantee is for: windows of new photographs, or of the calibration photographs."""
    if isinstance(part._rule, UnitsRule):
        return "a window drawn at random from a new photograph."
    photographs = {photo_of(file) for file in training.files.tolist()}
    if window is None or photographs == {None}:
        return "images like the held-out ones, taken independently of each other."
    if photographs & {photo_of(file) for file in training.trained}:
        return "windows of photographs with windows in training and calibration; nothing is proven for new photographs."
    return "windows of photographs with windows in calibration; nothing is proven for new photographs."


def _read_record(record: bytes | None) -> dict[str, Any] | None:
    """Return the entries of a training record that cards show; None if some are missing."""
    try:
        content = json.loads(record or b"")
        texts = [content["finished"], content["images"]["folder"], content["images"]["sha256"]]
        texts += content["versions"].values()
        sound = (
            isinstance(content["options"], dict)
            and all(isinstance(text, str) for text in texts)
            and isinstance(content["images"]["count"], int)
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return content if sound else None


def _calibration_scores(predictor: Any) -> Vector:
    """Return the calibration scores of a predictor or decider.

    Raise an InputError if the scores are not saved, or if other inputs than an image are needed, such as groups.
    """
    rule, sharpeners = getattr(predictor, "_rule", None), getattr(predictor, "sharpeners", ())
    supported = isinstance(rule, MondrianRule | UnitsRule) and len(sharpeners) < 2
    more = ", ".join(sorted(getattr(predictor, "takes", set()) - {"seed", "features"}))
    if more or not supported:
        sentence = f"Expected a predictor that needs nothing but an image, got {predictor!r}"
        sentence += f", for its {more}" if more else ""
        raise InputError(sentence, "calibrate a marginal one, per class, per kind or with units")
    scores: Vector | None = predictor.calibration_scores
    if scores is None:
        sentence = f"Expected a predictor with its calibration scores, got {predictor!r} without"
        raise InputError(sentence, "calibrate and save it with them")
    return scores


def _check_classes(part: str, theirs: tuple[str, ...], ours: tuple[str, ...]) -> None:
    if theirs == ours:
        return
    k = next((k for k, (a, b) in enumerate(zip(theirs, ours, strict=False)) if a != b), min(len(theirs), len(ours)))
    how = "its classes in another order" if sorted(theirs) == sorted(ours) else "other classes"
    there, here = (names[k] if k < len(names) else "nothing" for names in (theirs, ours))
    raise InputError(f"The {part} has {how} than the network ({there!r} where the network has {here!r})", RECALIBRATE)


def _check_units(part: str, training: TrainingRecord) -> None:
    """Raise an InputError if a photograph has windows among the training images and among the held-out images."""
    both = {photo_of(file) for file in training.trained} & {photo_of(file) for file in training.files.tolist()} - {None}
    if both:
        sentence = f"The {part} is for new photographs, but {len(both):,} of them have windows in the training set"
        raise InputError(sentence, "train with --group photo, and calibrate again")


def _check_files(part: str, calibration: Path, training: TrainingRecord) -> None:
    """Raise an InputError if the calibration data contain training images, or other logits than the training record."""
    try:
        with calibration.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            check_archive(archive.zip, calibration, calibration.stat().st_size)
            files, logits = archive["files"].tolist(), archive["logits"]
    except (FileNotFoundError, InputError):
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, zlib.error, BadZipFile) as error:
        raise InputError(f"Expected logits and files in {calibration}", "name a file that train wrote") from error
    if len(files) != len(logits):
        raise InputError(f"{calibration} has {len(files):,} files and {len(logits):,} logits", "train again")
    trained = sorted(set(files) & set(training.trained))
    if trained:
        sentence = f"The {part} was calibrated on {len(trained):,} training images of the network, such as {trained[0]}"
        raise InputError(sentence, "calibrate it on held-out images")
    ours: dict[str, Any] = dict(zip(training.files.tolist(), training.logits, strict=True))
    other = [file for file, row in zip(files, logits, strict=True) if not np.array_equal(ours.get(file, ()), row)]
    if other:
        source = f"{len(other):,} images of {calibration} have different logits, the first {other[0]}"
        raise InputError(f"The {part} was calibrated on logits of another network: {source}", RECALIBRATE)


def _held_out_scores(predictor: Any, training: TrainingRecord) -> Vector | None:
    """Compute the nonconformity scores of all held-out images, sorted; return None for a randomized score."""
    rows = Rows(training.logits, True, training.classes)
    if getattr(predictor, "sharpeners", ()):
        features = training.features if "features" in predictor.takes else None
        rows = predictor.sharpeners[0].rows(training.logits, features=features, from_logits=True)
    if isinstance(predictor, Decider):
        return np.sort(dispatch.decision_scores(rows, training.labels, predictor.utility.policy(predictor.classes)))
    if predictor.score.randomized:
        return None
    return np.sort(dispatch.label_scores(rows, training.labels, predictor.score, np.ones(rows.n)))


def _count_unmatched(expected: Vector, actual: Vector) -> int:
    """Count the calibration scores (`expected`) without an equal score, up to TOLERANCE, among the sorted `actual`."""
    place = np.searchsorted(actual, expected).clip(0, len(actual) - 1)
    with np.errstate(invalid="ignore"):  # the difference of two infinite scores is NaN
        near = [np.abs(actual[(place + step).clip(0, len(actual) - 1)] - expected) <= TOLERANCE for step in (-1, 0)]
    return int(np.sum(~(near[0] | near[1] | (actual[place] == expected))))
