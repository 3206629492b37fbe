"""A sharpener in a file: arrays as base64 of their little-endian bytes, everything checked when read."""

import base64
import binascii
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.serialization import Content, classes_content, need
from pippin._sharpening.features import SharpenerInputs, Singles
from pippin._sharpening.model import KINDS, Member, SharpeningModel
from pippin._sharpening.sharpener import Confusion, Learnt, Sharpener

NAMES = [kind.name for kind in KINDS]


def to_content(sharpener: Sharpener) -> dict[str, Any]:
    """What a file holds of it."""
    learnt, inputs = sharpener.learnt, sharpener.model.inputs
    return {
        "kind": "sharpener",
        **classes_content(sharpener.classes),
        "n_features": sharpener.takes_features,
        "weights": sharpener.weights,
        "n_learnt": learnt.n,
        "cross_entropy": list(learnt.cross_entropy),
        "accuracy": list(learnt.accuracy),
        "gain_error": learnt.gain_error,
        "confusions": [list(one) for one in learnt.confusions],
        "prints": _packed(learnt.prints),
        "inputs": None if inputs is None else {name: _packed(part) for name, part in inputs._asdict().items()},
        "members": [{name: _packed(part) for name, part in one._asdict().items()} for one in sharpener.model.members],
    }


def from_content(content: Content) -> Sharpener:
    """A sharpener from the content of a file, each part checked against the others."""
    classes = content.classes()
    n = len(classes)
    weights = content.take("weights", _are_weights)
    learnt = _learnt(content)
    given = content.take("inputs", lambda value: value is None or isinstance(value, dict))
    inputs = None if given is None else _inputs(given, n)
    parts = content.take("members", lambda value: isinstance(value, list) and len(value) == len(weights))
    axes = 0 if inputs is None else inputs.rotation.shape[1]
    seen = [axes if kind.sigma else 0 for kind in KINDS if kind.name in weights]
    members = tuple(_member(part, n, wanted) for part, wanted in zip(parts, seen, strict=True))
    features = content.whole("n_features", 0)
    given_axes = None if inputs is None else inputs.feature_axes
    need("n_features", inputs is None or features == (0 if given_axes is None else len(given_axes)))
    content.finish()
    return Sharpener(classes, weights, learnt, SharpeningModel(inputs, members), features)


def _learnt(content: Content) -> Learnt:
    n = content.whole("n_learnt", 1)
    loss, right = (content.few(key, 2) for key in ("cross_entropy", "accuracy"))
    need("accuracy", all(0 <= share <= 1 for share in right))
    error = content.number("gain_error")
    told = content.take("confusions", lambda value: isinstance(value, list) and all(map(_is_confusion, value)))
    prints = _unpacked("prints", content.take("prints"), np.dtype("<u8"))
    need("prints", prints.shape == (n,))
    return Learnt(n, (loss[0], loss[1]), (right[0], right[1]), error, tuple(Confusion(*one) for one in told), prints)


def _inputs(given: dict[str, Any], n_classes: int) -> SharpenerInputs:
    need("inputs", set(given) == set(SharpenerInputs._fields))
    parts = {name: _singles(name, value) for name, value in given.items()}
    found = SharpenerInputs(**parts)
    waves, rotation = _matrix(found.waves), _matrix(found.rotation)
    n_x, n_waves = waves.shape
    own = _matrix(found.axes).shape[1]
    need("axes", found.axes.shape == (n_classes, own) and found.shift.shape == (own,))
    need("feature_axes", (found.feature_axes is None) == (found.feature_shift is None) == (own == n_x))
    if found.feature_axes is not None and found.feature_shift is not None:
        need("feature_axes", _matrix(found.feature_axes).shape[1] == n_x - own == len(found.feature_shift))
    need("waves", n_waves > 0 and found.phases.shape == (n_waves,))
    need("rotation", rotation.shape[0] == n_x + n_waves and found.centre.shape == (rotation.shape[1],))
    return found


def _member(given: Any, n_classes: int, n_axes: int) -> Member:
    need("members", isinstance(given, dict) and set(given) == set(Member._fields))
    a, b, w = (_singles("members", given[name]) for name in Member._fields)
    need("members", a.shape == (2,) and b.shape == (n_classes,) and w.shape == (n_axes, n_classes))
    need("members", all(bool((np.abs(part) < 1e9).all()) for part in (a, b, w)))
    return Member(a, b, w)


def _matrix(array: Singles) -> Singles:
    need("inputs", array.ndim == 2)
    return array


def _packed(array: NDArray[Any] | None) -> dict[str, Any] | None:
    if array is None:
        return None
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return {"shape": list(array.shape), "base64": base64.b64encode(little.tobytes()).decode()}


def _singles(part: str, packed: Any) -> Any:
    """float32 from a file, all finite; None where there was none and there may be none."""
    if packed is None and part.startswith("feature"):
        return None
    array = _unpacked(part, packed, np.dtype("<f4")).astype(np.float32)
    need(part, bool(np.isfinite(array).all()))
    return array


def _unpacked(part: str, packed: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    need(part, isinstance(packed, dict) and set(packed) == {"shape", "base64"})
    shape, text = packed["shape"], packed["base64"]
    need(part, isinstance(shape, list) and len(shape) <= 2 and isinstance(text, str))
    need(part, all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in shape))
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        content = b"?"
    need(part, len(content) == math.prod(shape) * dtype.itemsize)
    return np.frombuffer(content, dtype=dtype).reshape(shape)


def _are_weights(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and len(value) > 0
        and list(value) == [name for name in NAMES if name in value]
        and all(isinstance(one, float) and 0 < one <= 1 for one in value.values())
        and abs(sum(value.values()) - 1) < 1e-3
    )


def _is_confusion(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 4
        and all(isinstance(name, str | int) for name in value[:2])
        and all(isinstance(share, float) and 0 <= share <= 1 for share in value[2:])
    )
