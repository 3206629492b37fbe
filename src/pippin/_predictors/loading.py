"""Reading a saved predictor, whatever its kind."""

from collections.abc import Callable
from os import PathLike
from typing import Any

from pippin._predictors import combination, conditional, cross, marginal, weighted
from pippin._predictors.combination import Combination
from pippin._predictors.conditional import ConditionalPredictor
from pippin._predictors.cross import CrossPredictor
from pippin._predictors.marginal import Predictor
from pippin._predictors.weighted import WeightedPredictor
from pippin._runtime import disk

AnyPredictor = Predictor | ConditionalPredictor | Combination | WeightedPredictor | CrossPredictor

KINDS: dict[str | None, Callable[..., AnyPredictor]] = {
    None: marginal.from_content,
    "conditional": conditional.from_content,
    "combination": combination.from_content,
    "weighted": weighted.from_content,
    "cross": cross.from_content,
}


def load(path: "str | PathLike[str]") -> Any:
    """Reads a predictor that `save` wrote; every number is what it was, to the last bit.

    Raises:
        ValueError: the file is damaged, was edited, or needs a newer pippin.
    """
    kind, content = disk.read_predictor(path)
    if not isinstance(kind, str | None) or kind not in KINDS:
        raise ValueError(f"{path} holds a predictor of the unknown kind {kind!r}: upgrade pippin-conformal.")
    try:
        return KINDS[kind](**content)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise ValueError(f"{path} holds no sound predictor ({error}): calibrate again and save.") from error
