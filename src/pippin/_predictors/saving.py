"""Predictors on disk: JSON that any language can read, with a checksum, and every part of it checked when read."""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from pippin._predictors.protocol import ConformalPredictor
from pippin._runtime.arrays import Classes, Vector, read_only
from pippin._runtime.disk import write_whole
from pippin._runtime.errors import InputError
from pippin._runtime.showing import html_columns, html_facts
from pippin._theory.level import as_alpha
from pippin._theory.scores import Score, make_score

T = TypeVar("T", bound=np.signedinteger[Any])
Held = TypeVar("Held")

FORMAT = "pippin predictor"
VERSION = 2
MOST_CLASSES = 2**31 - 1  # members of sets are held in 32 bits

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

    def __getstate__(self) -> dict[str, Any]:
        kept: Any = self
        return {field.name: getattr(self, field.name) for field in fields(kept)}


class SavedWithScores(Saved):
    """One whose file may leave out its calibration scores."""

    def content(self, scores: bool = True) -> dict[str, Any]:
        """What a file holds of it."""
        raise NotImplementedError

    def save(self, path: "str | PathLike[str]", *, scores: bool = True) -> None:
        """Writes a JSON file that any language can read; `pippin.load` reads it.

        Args:
            path: the file.
            scores: whether it holds the calibration scores, without which there is no other level and no p-value.
        """
        write_predictor(path, self.content(scores))


class Content:
    """What a file holds, each part taken once, and checked as it is taken.

    >>> content = Content({"alpha": 0.1, "n_ip": 7})
    >>> content.level(), content.whole("n_ip", 1, 5)
    Traceback (most recent call last):
    pippin.InputError: its n_ip makes no sense.
    """

    def __init__(self, parts: dict[str, Any]) -> None:
        self._parts = dict(parts)

    def take(self, key: str, sound: Callable[[Any], bool] = lambda value: True) -> Any:
        """A part, if it makes sense."""
        if key not in self._parts:
            raise InputError(f"its {key} is missing")
        value = self._parts.pop(key)
        need(key, sound(value))
        return value

    def has(self, key: str) -> bool:
        """Whether there is such a part, not taken yet."""
        return key in self._parts

    def whole(self, key: str, least: int, most: int = 2**63 - 1) -> int:
        """A whole number, which 64 bits can hold."""
        found: int = self.take(key, lambda value: _is_whole(value) and least <= value <= most)
        return found

    def level(self) -> float:
        """The share of errors allowed."""
        found: float = self.take("alpha", lambda value: isinstance(value, float) and as_alpha(value) == value)
        return found

    def score(self) -> Score:
        """The score with its parameters."""
        found = self.take("score", lambda value: isinstance(value, dict) and set(value) == {"name", "parameters"})
        need("score", isinstance(found["name"], str) and isinstance(found["parameters"], dict))
        return make_score(found["name"], found["parameters"])

    def classes(self) -> Classes:
        """The names of the columns, all text or all whole numbers; a range where there are none."""
        n = self.whole("n_classes", 2, MOST_CLASSES)
        names = self.take("classes", lambda value: value is None or isinstance(value, list))
        if names is None:
            return range(n)
        alike = all(isinstance(name, str) for name in names) or all(_is_whole(name) for name in names)
        need("classes", alike and len(set(names)) == n == len(names))
        return tuple(names)

    def number(self, key: str) -> float:
        """A number that may be infinite."""
        return float(self.take(key, _is_number))

    def scores(self, key: str, n: int) -> Vector:
        """n scores in increasing order, none NaN."""
        values = vector_of(key, self.take(key))
        need(key, len(values) == n and rising(values))
        return values

    def optional_numbers(self, key: str) -> Vector | None:
        """A list of numbers, none NaN; None where the file left them out."""
        values = self.take(key)
        return None if values is None else vector_of(key, values)

    def few(self, key: str, n: int) -> tuple[float, ...]:
        """n numbers."""
        values = vector_of(key, self.take(key))
        need(key, len(values) == n)
        return tuple(values.tolist())

    def matrix(self, key: str, shape: tuple[int, ...]) -> Vector:
        """Rows of numbers, none NaN."""
        rows = self.take(key, lambda value: isinstance(value, list))
        found = [vector_of(key, row) for row in rows]
        need(key, len(found) == shape[0] and all(len(row) == shape[1] for row in found))
        return read_only(np.array(found, dtype=np.float64))

    def finish(self) -> None:
        """Raises an InputError where a part was not taken."""
        for key in self._parts:
            raise InputError(f"its {key!r} is not known")


def need(part: str, good: bool) -> None:
    """Raises an InputError that names the part of a file that cannot be."""
    if not good:
        raise InputError(f"its {part} makes no sense")


def vector_of(part: str, values: Any) -> Vector:
    """Numbers from a list of a file, none NaN."""
    need(part, isinstance(values, list) and all(map(_is_number, values)))
    return read_only(np.array(values, dtype=np.float64))


def whole_numbers(part: str, values: Any, kind: type[T]) -> NDArray[T]:
    """Whole numbers from lists of a file; anything else is refused, not rounded."""
    flat = values if isinstance(values, list) else [None]
    for row in flat:
        need(part, all(map(_is_whole, row)) if isinstance(row, list) else _is_whole(row))
    need(part, len({len(row) if isinstance(row, list) else -1 for row in flat}) == 1)
    info = np.iinfo(kind)
    found = np.array(values, dtype=object)
    need(part, bool((found >= info.min).all() and (found <= info.max).all()))
    return read_only(found.astype(kind))


def rising(scores: Vector) -> bool:
    """Whether scores are one list in increasing order, none of them NaN.

    >>> rising(np.array([0.1, 0.1, np.inf])), rising(np.array([0.2, 0.1])), rising(np.array([np.nan]))
    (True, False, False)
    """
    return scores.ndim == 1 and not np.isnan(scores).any() and bool((scores[1:] >= scores[:-1]).all())


def check_limits(kept: Any, limits: Any) -> None:
    """Raises an InputError if the limits in a file are not those that its calibration scores give at its level.

    >>> check_limits(0.5, 0.7)
    Traceback (most recent call last):
    pippin.InputError: its thresholds are not those of its calibration scores.
    """
    if not np.array_equal(kept, limits):
        raise InputError("its thresholds are not those of its calibration scores")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    """A float that is not NaN; or a whole number that is one, as other languages may write it."""
    return value == value if isinstance(value, float) else _is_whole(value) and abs(value) <= 2**53


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
