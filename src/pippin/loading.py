"""Reading a saved predictor, whatever its kind."""

from collections.abc import Callable
from os import PathLike
from typing import Any

from pippin import calibration, combination, conditional, cross, files, weighting
from pippin.calibration import Predictor
from pippin.combination import Combination
from pippin.conditional import ConditionalPredictor
from pippin.cross import CrossPredictor
from pippin.weighting import WeightedPredictor

AnyPredictor = Predictor | ConditionalPredictor | Combination | WeightedPredictor | CrossPredictor

KINDS: dict[str | None, Callable[..., AnyPredictor]] = {
    None: calibration.from_content,
    "conditional": conditional.from_content,
    "combination": combination.from_content,
    "weighted": weighting.from_content,
    "cross": cross.from_content,
}


def load(path: "str | PathLike[str]") -> Any:
    """Reads a predictor that `save` wrote; every number is what it was, to the last bit.

    Raises:
        ValueError: the file is damaged, was edited, or needs a newer pippin.
    """
    kind, content = files.read_predictor(path)
    if not isinstance(kind, str | None) or kind not in KINDS:
        raise ValueError(f"{path} holds a predictor of the unknown kind {kind!r}: upgrade pippin-conformal.")
    try:
        return KINDS[kind](**content)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise ValueError(f"{path} holds no sound predictor ({error}): calibrate again and save.") from error
