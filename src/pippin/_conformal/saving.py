"""Predictors on disk: JSON that any language can read, with a checksum."""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from numpy.typing import NDArray

from pippin._conformal.content import Content
from pippin._conformal.protocol import ConformalPredictor
from pippin._runtime.arrays import Classes
from pippin._runtime.disk import write_whole
from pippin._runtime.errors import InputError
from pippin._runtime.showing import html_columns, html_facts

Held = TypeVar("Held")

FORMAT = "pippin predictor"
VERSION = 2

_INFINITE = {"inf": math.inf, "-inf": -math.inf}
_MAY_BE_INFINITE = {
    "threshold",
    "thresholds",
    "betas",
    "margin_threshold",
    "ip_threshold",
    "calibration_scores",
    "fold_scores",
}


def shared_content(predictor: ConformalPredictor) -> dict[str, Any]:
    """The level, the number of examples and the classes, as a file holds them."""
    return {"alpha": predictor.alpha, "n_calibration": predictor.n_calibration, **classes_content(predictor.classes)}


def scored_content(kind: str, predictor: Any, **parts: Any) -> dict[str, Any]:
    """A kind of predictor that has a score: the score, what all have, and its own parts, as a file holds them."""
    return {"kind": kind, "score": predictor.score.content(), **shared_content(predictor), **parts}


def attributes(of: Any, *names: str) -> dict[str, Any]:
    """Those that a file holds as they are, by name."""
    return {name: getattr(of, name) for name in names}


def listed(values: NDArray[Any] | None) -> list[Any] | None:
    """Numbers as a file holds them; None stays None."""
    return None if values is None else values.tolist()


def classes_content(classes: Classes) -> dict[str, Any]:
    """The classes, as a file holds them."""
    return {"n_classes": len(classes), "classes": None if isinstance(classes, range) else list(classes)}


def write_predictor(path: "str | PathLike[str]", content: dict[str, Any]) -> None:
    """Writes the predictor's JSON file: version 1 for one threshold, version 2 for content that names its `kind`.

    Floats are written with as many digits as bring back the same bits; infinity, which
    JSON lacks, as the text "inf". The checksum is the SHA-256 of the content as JSON
    without spaces, its keys sorted.
    """
    encoded = {key: _encoded(value) for key, value in content.items()}
    version = 2 if "kind" in content else 1
    whole = {"format": FORMAT, "version": version, "sha256": _checksum(encoded), "predictor": encoded}
    write_whole(path, json.dumps(whole, allow_nan=False).encode())


def read_predictor(path: "str | PathLike[str]") -> dict[str, Any]:
    """The content that `write_predictor` was given."""
    return parse_predictor(Path(path).read_bytes(), path)


def read_kind(
    path: "str | PathLike[str]", kind: str, told: str, read: "Callable[[Content], Held]", remedies: tuple[str, str]
) -> Held:
    """What the file holds, if it is of this kind and makes sense; errors name the file.

    Args:
        told: the kind in a sentence.
        read: makes it of the content.
        remedies: where the file is of another kind, and where it makes no sense.
    """
    content = read_predictor(path)
    if content.pop("kind", None) != kind:
        raise InputError(f"{path} holds no {told}", remedies[0])
    try:
        return read(Content(content))
    except InputError as error:
        raise InputError(f"{path} holds no sound {told} ({error.what})", remedies[1]) from error


def parse_predictor(text: bytes, path: object) -> dict[str, Any]:
    """The content of a file's bytes, its format and checksum checked; errors name the path.

    Raises:
        InputError: the file is damaged, was edited, is something else, or is newer.
    """
    try:
        whole = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_each_once)
        form, version = whole["format"], whole["version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{path} is no predictor file, or is damaged or cut short", "save the predictor again"
        ) from error
    if form != FORMAT:
        raise InputError(f"{path} is not a predictor", f"expected the format {FORMAT!r}, got {form!r}")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InputError(f"{path} is damaged", f"expected a format version from 1 to {VERSION}, got {version!r}")
    if version > VERSION:
        raise InputError(
            f"{path} has format version {version}, but this pippin reads up to {VERSION}", "upgrade pippin-conformal"
        )
    content = whole.get("predictor")
    if not isinstance(content, dict) or ("kind" in content) != (version == 2) or not _is_sound(content, whole):
        raise InputError(
            f"{path} was edited or damaged after it was saved (its checksum differs)", "calibrate again and save"
        )
    return decoded(content)


def decoded(content: dict[str, Any]) -> dict[str, Any]:
    """Content as it was before it was written: infinity, where numbers may be infinite."""
    return {key: _decoded(value) if key in _MAY_BE_INFINITE else value for key, value in content.items()}


FACTS = {  # what a notebook shows of a predictor, where it has it
    "score": "score",
    "alpha": "alpha, the share of errors allowed",
    "threshold": "threshold",
    "n_calibration": "calibration rows",
}


class Saved:
    """A dataclass that writes its `content` to a file, and keeps nothing cached when it is pickled."""

    def content(self) -> dict[str, Any]:
        """What a file holds of it."""
        raise NotImplementedError

    def save(self, path: "str | PathLike[str]") -> None:
        """Writes a JSON file that any language can read; `pippin.load` reads it.

        Args:
            path: the file.
        """
        write_predictor(path, self.content())

    def _repr_html_(self) -> str:
        shown: Any = self
        told = f"{type(self).__name__}: {shown.describe()}"
        if hasattr(self, "table"):
            columns = shown.table().to_dict(as_series=False)
            return html_columns(told, {name.replace("_", " "): own for name, own in columns.items()})
        known = {word: getattr(self, name, None) for name, word in FACTS.items()}
        facts = {
            word: value if isinstance(value, float | int) else str(value) for word, value in known.items() if value
        }
        return html_facts(told, facts | {"classes": len(shown.classes)})

    def _shown(self, what: str, *facts: str) -> str:
        """What `repr` gives: the class, what it is, its level, more facts, and how many classes it knows."""
        shown: Any = self
        told = (what, f"alpha={shown.alpha:g}", *facts, f"{len(shown.classes):,} classes")
        return f"{type(self).__name__}({', '.join(told)})"

    @property
    def _examples(self: Any) -> str:
        return f"{self.n_calibration:,} calibration examples"

    def __getstate__(self) -> dict[str, Any]:
        kept: Any = self
        return {field.name: getattr(self, field.name) for field in fields(kept)}


class SavedWithScores(Saved):
    """One whose file may leave out its calibration scores."""

    def content(self, scores: bool = True) -> dict[str, Any]:
        """What its file holds.

        Args:
            scores: whether the calibration scores are part of it.
        """
        return self._content(scores)

    def _content(self, scores: bool) -> dict[str, Any]:
        raise NotImplementedError

    def save(self, path: "str | PathLike[str]", *, scores: bool = True) -> None:
        """Writes a JSON file that any language can read; `pippin.load` reads it.

        Args:
            path: the file.
            scores: whether it holds the calibration scores, without which there is no other level and no p-value.
        """
        write_predictor(path, self.content(scores))


def _checksum(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _is_sound(content: dict[str, Any], whole: dict[str, Any]) -> bool:
    try:
        return whole.get("sha256") == _checksum(content)
    except (ValueError, RecursionError):  # a number too large for a float
        return False


def _encoded(value: Any) -> Any:
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if isinstance(value, dict):
        return {key: _encoded(one) for key, one in value.items()}
    return [_encoded(v) for v in value] if isinstance(value, list) else value


def _decoded(value: Any, depth: int = 2) -> Any:
    """Numbers, lists of them and lists of such lists; what lies deeper is no predictor's, and is refused later."""
    if isinstance(value, list) and depth:
        return [_decoded(v, depth - 1) for v in value]
    return _INFINITE.get(value, value) if isinstance(value, str) else value


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, refused where a key is there twice: nobody knows which value was meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InputError("a key occurs twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise InputError(f"{name} is not JSON")
