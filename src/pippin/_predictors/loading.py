"""Reading a saved predictor, whatever its kind."""

from collections.abc import Callable
from os import PathLike

from pippin._predictors import combination, conditional, cross, marginal, risk, weighted
from pippin._predictors.decisions import files as decisions
from pippin._predictors.protocol import ConformalPredictor
from pippin._predictors.saving import Content, read_predictor
from pippin._runtime.errors import InputError

KINDS: dict[str | None, Callable[[Content], ConformalPredictor]] = {
    None: marginal.from_content,
    "conditional": conditional.from_content,
    "combination": combination.from_content,
    "weighted": weighted.from_content,
    "cross": cross.from_content,
    "decisions": decisions.from_content,
    "risk": risk.from_content,
}


def load(path: "str | PathLike[str]") -> ConformalPredictor:
    """Reads a predictor that `save` wrote; every number is what it was, to the last bit.

    Args:
        path: the file.

    Raises:
        InputError: the file is damaged, was edited, or needs a newer pippin.
    """
    content = read_predictor(path)
    kind = content.pop("kind", None)
    if not isinstance(kind, str | None) or kind not in KINDS:
        raise InputError(f"{path} holds a predictor of the unknown kind {kind!r}", "upgrade pippin-conformal")
    try:
        return KINDS[kind](Content(content))
    except InputError as error:
        raise InputError(f"{path} holds no sound predictor ({error.what})", "calibrate again and save") from error
