"""Files of calibrated objects: JSON with a checksum; every entry is checked when a file is read."""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import fields, replace
from importlib import import_module
from operator import attrgetter
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.card import Card, origin_card
from pippin._runtime.arguments import checked, checked_methods
from pippin._runtime.arrays import Classes, Vector, read_only
from pippin._runtime.disk import write_atomically
from pippin._runtime.errors import InputError, UnknownScoreError
from pippin._runtime.provenance import Files, Provenance, file_checksums, provenance_from_content, timestamp
from pippin._runtime.showing import html_columns, html_facts
from pippin._theory.level import as_alpha
from pippin._theory.scores import Score, make_score

FORMAT = "pippin predictor"
VERSION = 2
MOST_CLASSES = 2**31 - 1  # class indices in prediction sets are 32-bit integers

# Functions that restore an object, by the value of the entry "kind" in its file; None is for the file of a marginal
# predictor, which has no such entry.
KINDS: dict[str | None, str] = {
    **dict.fromkeys(
        (
            None,
            "conditional",
            "weighted",
            "units",
            "cross",
            "combination",
            "interpolated",
            "overlapping",
            "sharpened",
            "sharpened mixture",
        ),
        "pippin._conformal.predictor:from_content",
    ),
    "combined": "pippin._conformal.combined:combined_from_content",
    "cascade": "pippin._conformal.cascade:cascade_from_content",
    "sharpener": "pippin._sharpening.serialization:from_content",
    **dict.fromkeys(
        ("decisions", "decisions for units", "decisions per action", "sharpened cross decisions"),
        "pippin._decisions.decider:decider_from_content",
    ),
    "bounded cost": "pippin._decisions.cost:cost_policy_from_content",
    "selective": "pippin._decisions.selective:selective_from_content",
    "risk": "pippin._decisions.risk:risk_from_content",
    "stream": "pippin._online.stream:Stream._from_content",
    "monitor": "pippin._online.monitor:Monitor._from_content",
    "risk monitor": "pippin._online.risk_monitor:RiskMonitor._from_content",
}

_INFINITE = {"inf": math.inf, "-inf": -math.inf}
_MAY_BE_INFINITE = {
    "threshold",
    "thresholds",
    "beta",
    "betas",
    "floors",
    "margin_threshold",
    "ip_threshold",
    "calibration_scores",
    "learning_scores",
    "fold_scores",
    "highest_score",
    "exits",
}
_FACTS = {  # attributes in the table shown in notebooks, and their labels
    "score": "score",
    "alpha": "alpha, the share of errors allowed",
    "level": "level, the expected loss allowed",
    "n_calibration": "calibration rows",
}

Whole = TypeVar("Whole", bound=np.signedinteger[Any])


class Content:
    """Entries of a saved file by name; each can be taken once, and is validated then.

    >>> content = Content({"alpha": 0.1, "n_ip": 7})
    >>> content.level(), content.whole("n_ip", 1, 5)
    Traceback (most recent call last):
    pippin._runtime.errors.InputError: its n_ip makes no sense.
    """

    def __init__(self, parts: dict[str, Any]) -> None:
        self._parts = dict(parts)
        self.kind = self._parts.pop("kind", None)

    def take(self, key: str, valid: Callable[[Any], bool] = lambda value: True) -> Any:
        """Remove and return an entry; raise an InputError if it is missing, or if `valid` returns False for it."""
        if key not in self._parts:
            raise InputError(f"its {key} is missing")
        value = self._parts.pop(key)
        need(key, valid(value))
        return value

    def has(self, key: str) -> bool:
        """Return True if there is an entry of this name that was not yet taken."""
        return key in self._parts

    def whole(self, key: str, least: int, most: int = 2**63 - 1) -> int:
        """Take an integer from `least` to `most`."""
        number: int = self.take(key, lambda value: _is_whole(value) and least <= value <= most)
        return number

    def level(self) -> float:
        """Take the significance level alpha."""
        alpha: float = self.take("alpha", lambda value: isinstance(value, float) and as_alpha(value) == value)
        return alpha

    def score(self) -> Score:
        """Take the nonconformity score with its parameters."""
        score = self.take("score", lambda value: isinstance(value, dict) and set(value) == {"name", "parameters"})
        need("score", isinstance(score["name"], str) and isinstance(score["parameters"], dict))
        return make_score(score["name"], score["parameters"])

    def classes(self) -> Classes:
        """Take the names of the classes, all text or all integers; return a range if they have no names."""
        n = self.whole("n_classes", 2, MOST_CLASSES)
        names = self.take("classes", lambda value: value is None or isinstance(value, list))
        if names is None:
            return range(n)
        alike = all(isinstance(name, str) for name in names) or all(_is_whole(name) for name in names)
        need("classes", alike and len(set(names)) == n == len(names))
        return tuple(names)

    def shared(self) -> tuple[float, int, Classes]:
        """Take the entries common to conformal predictors and decision policies: alpha, calibration size, classes."""
        return self.level(), self.whole("n_calibration", 1), self.classes()

    def number(self, key: str) -> float:
        """Take a number, which may be infinite."""
        return float(self.take(key, _is_number))

    def numbers(self, key: str, n: int | None = None) -> Vector:
        """Take a list of numbers without NaN, of length n if n is not None."""
        values = vector_of(key, self.take(key))
        need(key, n is None or len(values) == n)
        return values

    def scores(self, key: str, n: int) -> Vector:
        """Take n scores in increasing order, without NaN."""
        values = self.numbers(key, n)
        need(key, rising(values))
        return values

    def optional_numbers(self, key: str) -> Vector | None:
        """Take a list of numbers without NaN; return None if the entry is null."""
        values = self.take(key)
        return None if values is None else vector_of(key, values)

    def matrix(self, key: str, shape: tuple[int, ...]) -> Vector:
        """Take a matrix of numbers without NaN."""
        rows = [vector_of(key, row) for row in self.take(key, lambda value: isinstance(value, list))]
        need(key, len(rows) == shape[0] and all(len(row) == shape[1] for row in rows))
        return read_only(np.array(rows, dtype=np.float64))

    def parts(self, key: str, kind: str) -> "list[Content]":
        """Take a list of one or more saved objects, whose entry "kind" must have the value `kind`."""
        entries = self.take(key, lambda value: isinstance(value, list) and len(value) > 0)
        need(key, all(isinstance(entry, dict) and entry.get("kind") == kind for entry in entries))
        return list(map(Content, entries))

    def finish(self) -> None:
        """Raise an InputError if an entry was not taken, since it is unknown."""
        for key in self._parts:
            raise InputError(f"its {key!r} is not known")


def need(part: str, good: bool) -> None:
    """Raise an InputError that names an entry of a file as invalid, unless `good` is True."""
    if not good:
        raise InputError(f"its {part} makes no sense")


def vector_of(part: str, values: Any) -> Vector:
    """Convert a list of numbers in a file to an array; NaN and other values are invalid."""
    need(part, isinstance(values, list) and all(map(_is_number, values)))
    return read_only(np.array(values, dtype=np.float64))


def whole_numbers(part: str, values: Any, kind: type[Whole]) -> NDArray[Whole]:
    """Convert a list of integers in a file, or a list of lists, to an array; floats are invalid, even if whole."""
    flat = values if isinstance(values, list) else [None]
    for row in flat:
        need(part, all(map(_is_whole, row)) if isinstance(row, list) else _is_whole(row))
    need(part, len({len(row) if isinstance(row, list) else -1 for row in flat}) == 1)
    info = np.iinfo(kind)
    integers = np.array(values, dtype=object)
    need(part, bool((integers >= info.min).all() and (integers <= info.max).all()))
    return read_only(integers.astype(kind))


def rising(scores: Vector) -> bool:
    """Return True if scores are a one-dimensional array in increasing order, without NaN.

    >>> rising(np.array([0.1, 0.1, np.inf])), rising(np.array([0.2, 0.1])), rising(np.array([np.nan]))
    (True, False, False)
    """
    return scores.ndim == 1 and not np.isnan(scores).any() and bool((scores[1:] >= scores[:-1]).all())


def check_limits(kept: Any, limits: Any) -> None:
    """Raise an InputError if thresholds in a file are not the ones that its calibration scores give.

    >>> check_limits(0.5, 0.7)
    Traceback (most recent call last):
    pippin._runtime.errors.InputError: its thresholds are not those of its calibration scores.
    """
    if not np.array_equal(kept, limits):
        raise InputError("its thresholds are not those of its calibration scores")


class FieldsPickled:
    """Base of dataclasses that are pickled without their cached properties."""

    def __getstate__(self) -> dict[str, Any]:
        dataclass: Any = self
        return {field.name: getattr(self, field.name) for field in fields(dataclass)}


@checked_methods
class Saved:
    """Base of objects that are saved as JSON files."""

    provenance: Provenance | None = None

    def content(self) -> dict[str, Any]:
        """Return the data that `save` writes to a file, from which `load` restores the object."""
        raise NotImplementedError

    def _promise(self) -> Card:
        """Return the first part of the card: questions and answers about the guarantee."""
        raise NotImplementedError

    def card(self) -> Card:
        """Answer the questions of an assessor about the guarantee and the provenance.

        Level, condition and variation of the guarantee are computed from the object. Data, date, author, command and
        versions come from its `provenance`.

        Returns:
            The answers by question, in order; "not recorded" if the object has no provenance.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip")
        >>> predictor.card()["How much does it vary between calibrations?"]
        'Coverage is between 0.887 and 0.913 in 95% of calibrations (beta distribution, a = 1801 and b = 200).'
        """
        return self._promise() | origin_card(self.provenance, self.checksum)

    @property
    def checksum(self) -> str:
        """SHA-256 of the content without the provenance: equal for equal data and options, whenever calibrated."""
        return content_checksum(_encoded(self.content()))

    def _recorded(self, provenance: Provenance) -> Self:
        """Return a copy of the object with the given provenance."""
        saved: Any = self
        copied: Self = replace(saved, provenance=provenance)
        return copied

    def save(self, path: "str | PathLike[str]") -> None:
        """Save the object as a JSON file; `pippin.load` reads it.

        Args:
            path: the file.

        Raises:
            OSError: the file cannot be written.

        >>> import pippin, tempfile, pathlib
        >>> data = pippin.load_example()
        >>> path = pathlib.Path(tempfile.mkdtemp(), "sharpener.json")
        >>> pippin.sharpen(data.probs[:300], data.labels[:300]).save(path)
        >>> pippin.load(path).n_features
        0
        """
        write_file(path, self.content(), self.provenance)


@checked_methods
class SavedDataclass(Saved, FieldsPickled):
    """Base of dataclasses that are saved as JSON files, shown in notebooks, and pickled without cached properties."""

    def with_provenance(
        self, data: Files, *, date: str | None = None, by: str = "", command: str = "", training: str = ""
    ) -> Self:
        """Record the provenance: data files with their SHA-256, date, author, command and software versions.

        The command line does this for every object that it saves.

        Args:
            data: the path of a data file, several paths, or known SHA-256 checksums by name.
            date: date and time of the calibration; by default those of now, or of the environment variable
                SOURCE_DATE_EPOCH.
            by: the person or system that calibrated.
            command: the command that calibrated.
            training: SHA-256 of the file train.json, if `pippin train` trained the network.

        Returns:
            A copy with this `provenance`, which `save` writes and `card` shows.

        Raises:
            OSError: a file cannot be read.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs, data.labels)
        >>> predictor = predictor.with_provenance({"seedlings.npz": "0c1d…"}, date="2025-11-18", by="Ada")
        >>> predictor.card()["From which data?"], predictor.card()["By whom?"]
        ('seedlings.npz: SHA-256 0c1d…', 'Ada')
        """
        moment = timestamp() if date is None else date
        return self._recorded(Provenance(file_checksums(data), moment, by, command, training))

    def _repr_html_(self) -> str:
        shown: Any = self
        caption = f"{type(self).__name__}: {shown.describe()}"
        known = ((word, getattr(self, name, None)) for name, word in _FACTS.items())
        facts = {word: value if isinstance(value, float | int) else str(value) for word, value in known if value}
        return html_facts(caption, facts | {"classes": len(shown.classes)})

    def _repr(self, what: str, *facts: str) -> str:
        """Return a representation: class, description, level, further facts, and the number of classes."""
        shown: Any = self
        parts = (what, f"alpha={shown.alpha:g}", *facts, f"{len(shown.classes):,} classes")
        return f"{type(self).__name__}({', '.join(parts)})"

    @property
    def _examples(self: Any) -> str:
        return f"{self.n_calibration:,} calibration examples"


@checked_methods
class SavedWithScores(SavedDataclass):
    """Base of saved dataclasses whose file may omit the calibration scores."""

    def content(self, scores: bool = True) -> dict[str, Any]:
        """Return the data that `save` writes to a file, from which `load` restores the object.

        Args:
            scores: include the calibration scores.
        """
        raise NotImplementedError

    def save(self, path: "str | PathLike[str]", *, scores: bool = True) -> None:
        """Save the object as a JSON file; `pippin.load` reads it.

        Args:
            path: the file.
            scores: include the calibration scores, which `at` and `p_values` need.

        Raises:
            OSError: the file cannot be written.

        >>> import pippin, tempfile, pathlib
        >>> data = pippin.load_example()
        >>> path = pathlib.Path(tempfile.mkdtemp(), "predictor.json")
        >>> pippin.calibrate(data.probs, data.labels, "pip").save(path)
        >>> pippin.load(path)
        ConformalPredictor(pip, alpha=0.1, threshold=1.7366, 4,986 calibration examples, 12 classes)
        """
        write_file(path, self.content(scores), self.provenance)


def table_html(caption: str, table: Any) -> str:
    """Return a data frame as HTML."""
    columns = table.to_dict(as_series=False)
    return html_columns(caption, {name.replace("_", " "): values for name, values in columns.items()})


def shared_content(saved: Any) -> dict[str, Any]:
    """Return the file entries common to predictors and decision policies: alpha, calibration size, classes."""
    return {"alpha": saved.alpha, "n_calibration": saved.n_calibration, **classes_content(saved.classes)}


def classes_content(classes: Classes) -> dict[str, Any]:
    """Return the entries for the number and the names of the classes."""
    return {"n_classes": len(classes), "classes": None if isinstance(classes, range) else list(classes)}


def listed(values: NDArray[Any] | None) -> list[Any] | None:
    """Convert an array to a list; return None for None."""
    return None if values is None else values.tolist()


def attributes(of: Any, *names: str) -> dict[str, Any]:
    """Return some attributes of an object as a dictionary."""
    return {name: getattr(of, name) for name in names}


@checked
def load(path: "str | PathLike[str]") -> Any:
    """Load an object that `save` wrote, such as a predictor, a decider, a sharpener (recalibration map) or a monitor.

    Numbers are restored to the last bit. Loading runs no code from the file.

    Args:
        path: the file.

    Returns:
        An object equal to the saved one.

    Raises:
        InputError: the file is damaged, was edited, or needs a newer pippin.

    >>> import pippin, tempfile, pathlib
    >>> data = pippin.load_example()
    >>> path = pathlib.Path(tempfile.mkdtemp(), "predictor.json")
    >>> pippin.calibrate(data.probs, data.labels, "pip").save(path)
    >>> round(pippin.load(path).threshold, 4)
    1.7366
    """
    return parse(Path(path).read_bytes(), path)


def parse(text: bytes, path: object) -> Any:
    """Restore the object from the bytes of its file; error messages name the path."""
    content = parse_file(text, path)
    kind = content.get("kind")
    if not isinstance(kind, str | None) or kind not in KINDS:
        raise InputError(f"{path} holds an object of the unknown kind {kind!r}", "upgrade pippin-conformal")
    what = kind if kind in ("sharpener", "stream", "monitor", "risk monitor") else "predictor"
    try:
        record = content.pop("provenance", None)
        restored = read_content(content)
        check_agreement(content, restored.content())
        return restored if record is None else restored._recorded(provenance_from_content(record))
    except UnknownScoreError as error:
        needs = f"{path} holds a {what} that needs a score not known here ({error.what})"
        raise InputError(needs, "import the module that registers it, --import on the command line") from error
    except InputError as error:
        raise InputError(f"{path} holds no sound {what} ({error.what})", "calibrate again and save") from error


def read_content(content: dict[str, Any]) -> Any:
    """Restore an object from the content of its file."""
    kind = content.get("kind")
    need("kind", isinstance(kind, str | None) and kind in KINDS)
    module, _, function = KINDS[kind].partition(":")
    return attrgetter(function)(import_module(module))(Content(content))


def check_agreement(content: dict[str, Any], restored: dict[str, Any]) -> None:
    """Raise an InputError for the first entry of a file that the restored object would save with another value.

    Entries that only the object has, since an earlier version wrote the file, are not compared.
    """
    for key, value in content.items():
        known = key in restored
        need(key, known and (value == restored[key] or _agree(_encoded(value), _encoded(restored[key]))))


def _agree(value: Any, restored: Any) -> bool:
    """Compare an entry of a file with the same entry of the restored object, like `check_agreement`."""
    if isinstance(value, dict) and isinstance(restored, dict):
        return all(key in restored and _agree(part, restored[key]) for key, part in value.items())
    if isinstance(value, list) and isinstance(restored, list | tuple):
        return len(value) == len(restored) and all(map(_agree, value, restored))
    return bool(value == restored)


def write_file(path: "str | PathLike[str]", content: dict[str, Any], provenance: Provenance | None = None) -> None:
    """Write a JSON file: version 1 for content without the entry "kind" (a marginal predictor), version 2 otherwise.

    Floats have enough digits to restore their bits; infinity, which JSON lacks, is the text "inf". The checksum is the
    SHA-256 of the content as JSON with sorted keys and without spaces.
    """
    encoded = _encoded(content if provenance is None else content | {"provenance": provenance.content()})
    version = 2 if "kind" in content else 1
    whole = {"format": FORMAT, "version": version, "sha256": content_checksum(encoded), "predictor": encoded}
    write_atomically(path, json.dumps(whole, allow_nan=False).encode())


def parse_file(text: bytes, path: object) -> dict[str, Any]:
    """Check the format and the checksum of a file's bytes, and return the content; errors name the path.

    Raises:
        InputError: the file is damaged, was edited, is something else, or is newer.
    """
    try:
        whole = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)
        form, version = whole["format"], whole["version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        what = f"{path} is no predictor file, or is damaged or cut short"
        raise InputError(what, "save the predictor again") from error
    if form != FORMAT:
        raise InputError(f"{path} is not a predictor", f"expected the format {FORMAT!r}, got {form!r}")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InputError(f"{path} is damaged", f"expected a format version from 1 to {VERSION}, got {version!r}")
    if version > VERSION:
        what = f"{path} has format version {version}, but this pippin reads up to {VERSION}"
        raise InputError(what, "upgrade pippin-conformal")
    content = whole.get("predictor")
    if not isinstance(content, dict) or ("kind" in content) != (version == 2) or not _is_sound(content, whole):
        what = f"{path} was edited or damaged after it was saved (its checksum differs)"
        raise InputError(what, "calibrate again and save")
    return decoded(content)


def decoded(content: dict[str, Any]) -> dict[str, Any]:
    """Return content with the text "inf" replaced by infinity in entries that may be infinite."""
    return {key: _decoded(value) if key in _MAY_BE_INFINITE else value for key, value in content.items()}


def content_checksum(content: dict[str, Any]) -> str:
    """Compute the SHA-256 of content as JSON with sorted keys and without spaces."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _is_sound(content: dict[str, Any], whole: dict[str, Any]) -> bool:
    try:
        return whole.get("sha256") == content_checksum(content)
    except (ValueError, RecursionError):  # raised for a number that is too large for a float
        return False


def _encoded(value: Any) -> Any:
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if isinstance(value, dict):
        return {key: _encoded(entry) for key, entry in value.items()}
    return [_encoded(entry) for entry in value] if isinstance(value, list) else value


def _decoded(value: Any, depth: int = 2) -> Any:
    """Replace "inf" and "-inf" by infinities in a value, a list or a list of lists.

    Other text is unchanged, so that later checks reject it.
    """
    if isinstance(value, list) and depth:
        return [_decoded(entry, depth - 1) for entry in value]
    return _INFINITE.get(value, value) if isinstance(value, str) else value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dictionary; raise an InputError if a key is repeated."""
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise InputError("a key occurs twice")
    return unique


def _refuse_constant(name: str) -> NoReturn:
    raise InputError(f"{name} is not JSON")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    """Return True for a float that is not NaN, or an integer that a float holds exactly."""
    return value == value if isinstance(value, float) else _is_whole(value) and abs(value) <= 2**53
