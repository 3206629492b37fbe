"""Reading a saved predictor, whatever its kind."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

from pippin._conformal import combination, conditional, cross, marginal, sharpened, units, weighted
from pippin._conformal.content import Content, need
from pippin._conformal.protocol import ConformalPredictor
from pippin._conformal.saving import parse_predictor
from pippin._decisions import files as decisions
from pippin._decisions import risk
from pippin._runtime.errors import InputError, UnknownScoreError

KINDS: dict[str | None, Callable[[Content], ConformalPredictor]] = {
    None: marginal.from_content,
    "conditional": conditional.from_content,
    "combination": combination.from_content,
    "weighted": weighted.from_content,
    "units": units.from_content,
    "cross": cross.from_content,
    "sharpened": lambda content: sharpened.from_content(content, read),
    "sharpened mixture": lambda content: sharpened.mixture_from_content(content, read),
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
    return parse(Path(path).read_bytes(), path)


def parse(text: bytes, path: object) -> ConformalPredictor:
    """The predictor whose file has these bytes; errors name the path."""
    content = parse_predictor(text, path)
    kind = content.get("kind")
    if kind == "sharpener":
        raise InputError(f"{path} holds a sharpener, not a predictor", "read it with pippin.Sharpener.load")
    if kind == "selective":
        raise InputError(
            f"{path} holds a predictor that acts when sure, not one of sets", "read it with SelectiveClassifier.load"
        )
    if kind in ("monitor", "stream", "risk monitor"):
        name = kind.title().replace(" ", "")
        raise InputError(f"{path} holds a {kind}, not a predictor", f"read it with pippin.{name}.load")
    if not isinstance(kind, str | None) or kind not in KINDS:
        raise InputError(f"{path} holds a predictor of the unknown kind {kind!r}", "upgrade pippin-conformal")
    try:
        return read(content)
    except UnknownScoreError as error:
        told = f"{path} holds a predictor that needs a score not known here ({error.what})"
        raise InputError(told, "import the module that registers it, --import on the command line") from error
    except InputError as error:
        raise InputError(f"{path} holds no sound predictor ({error.what})", "calibrate again and save") from error


def read(content: dict[str, Any]) -> ConformalPredictor:
    """The predictor that had this content, or that stands behind a sharpener."""
    kind, parts = content.get("kind"), {key: value for key, value in content.items() if key != "kind"}
    need("kind", isinstance(kind, str | None) and kind in KINDS)
    return KINDS[kind](Content(parts))
