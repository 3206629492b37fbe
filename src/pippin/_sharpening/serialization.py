"""Files of a sharpener (recalibration map): arrays are base64 of little-endian bytes, and are validated when read."""

import base64
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.serialization import MOST_CLASSES, Content, classes_content, need, vector_of
from pippin._sharpening.features import FeatureMap, Singles
from pippin._sharpening.model import KINDS, Member, SharpeningModel
from pippin._sharpening.pooling import Pool
from pippin._sharpening.sharpener import Confusion, OutOfFoldMetrics, Sharpener


def to_content(sharpener: Sharpener) -> dict[str, Any]:
    """Return the data that `Sharpener.save` writes to a file: numbers, text and lists by name."""
    metrics, feature_map = sharpener.out_of_fold, sharpener.model.feature_map
    return {
        "kind": "sharpener",
        **classes_content(sharpener.classes),
        "n_features": sharpener.n_features,
        **({} if sharpener.feature_names is None else {"feature_names": list(sharpener.feature_names)}),
        **({} if sharpener.pool is None else {"pool": {k: list(v) for k, v in sharpener.pool._asdict().items()}}),
        "weights": sharpener.weights,
        "n_learnt": metrics.n,
        "cross_entropy": list(metrics.cross_entropy),
        "accuracy": list(metrics.accuracy),
        "gain_error": metrics.gain_error,
        "confusions": [list(confusion) for confusion in metrics.confusions],
        # If each row has a single fingerprint, they are written as a vector, as in files of version 0.1.
        "prints": _encoded(metrics.prints if len(metrics.prints) > 1 else metrics.prints[0]),
        "inputs": None if feature_map is None else _encoded_fields(feature_map),
        "members": [_encoded_fields(member) for member in sharpener.model.members],
    }


def from_content(content: Content) -> Sharpener:
    """Restore a sharpener (recalibration map) from the data of a file; raise an InputError for invalid entries."""
    classes = content.classes()
    n_classes = len(classes)
    weights = content.take("weights", lambda value: isinstance(value, dict) and len(value) > 0)
    need("weights", list(weights) == [kind.name for kind in KINDS if kind.name in weights])
    need("weights", all(isinstance(weight, float) and 0 < weight <= 1 for weight in weights.values()))
    need("weights", abs(sum(weights.values()) - 1) < 1e-3)
    metrics = _metrics(content)
    inputs = content.take("inputs", lambda value: value is None or isinstance(value, dict))
    feature_map = None if inputs is None else _feature_map(inputs, n_classes)
    parts = content.take("members", lambda value: isinstance(value, list) and len(value) == len(weights))
    n_axes = 0 if feature_map is None else feature_map.rotation.shape[1]
    axes = [n_axes if kind.sigma else 0 for kind in KINDS if kind.name in weights]
    members = tuple(_member(part, n_classes, n) for part, n in zip(parts, axes, strict=True))
    n_features = content.whole("n_features", 0)
    if feature_map is not None:
        feature_axes = feature_map.feature_axes
        need("n_features", n_features == (0 if feature_axes is None else len(feature_axes)))
    names = content.take("feature_names") if content.has("feature_names") else None
    need("feature_names", names is None or (isinstance(names, list) and len(names) == n_features and _are_names(names)))
    pool = _pool(content.take("pool")) if content.has("pool") else None
    content.finish()
    feature_names = None if names is None else tuple(names)
    model = SharpeningModel(feature_map, members)
    return Sharpener(classes, weights, metrics, model, n_features, feature_names, pool=pool)


def _pool(parts: Any) -> Pool:
    """Check the weights of the models of a stack, and their cross-entropies."""
    need("pool", isinstance(parts, dict) and set(parts) == set(Pool._fields))
    weights, losses = (vector_of("pool", parts[name]) for name in Pool._fields)
    need("pool", 0 < len(weights) == len(losses) and bool((losses >= 0).all() and np.isfinite(losses).all()))
    need("pool", bool((weights >= 0).all() and (weights < 1e6).all() and (weights > 0).any()))
    return Pool(tuple(weights.tolist()), tuple(losses.tolist()))


def _are_names(names: list[Any]) -> bool:
    return any(all(type(name) is kind for name in names) for kind in (str, int))


def _metrics(content: Content) -> OutOfFoldMetrics:
    n = content.whole("n_learnt", 1)
    before, after = content.numbers("cross_entropy", 2).tolist()
    accuracy, new_accuracy = content.numbers("accuracy", 2).tolist()
    need("accuracy", 0 <= accuracy <= 1 and 0 <= new_accuracy <= 1)
    error = content.number("gain_error")
    confusions = content.take("confusions", lambda value: isinstance(value, list))
    for confusion in confusions:
        need("confusions", isinstance(confusion, list) and len(confusion) == 4)
        need("confusions", all(isinstance(name, str | int) for name in confusion[:2]))
        need("confusions", all(isinstance(share, float) and 0 <= share <= 1 for share in confusion[2:]))
    encoded = content.take("prints", lambda value: isinstance(value, dict) and isinstance(value.get("shape"), list))
    prints = np.atleast_2d(_decoded("prints", encoded, np.dtype("<u8"), len(encoded["shape"])))
    need("prints", prints.ndim == 2 and 1 <= len(prints) <= 3 and prints.shape[1] == n)
    pairs = tuple(Confusion(*confusion) for confusion in confusions)
    return OutOfFoldMetrics(n, (before, after), (accuracy, new_accuracy), error, pairs, prints)


def _feature_map(parts: dict[str, Any], n_classes: int) -> FeatureMap:
    need("inputs", set(parts) == set(FeatureMap._fields))
    matrices = ("axes", "feature_axes", "waves", "rotation")
    arrays: dict[str, Any] = {
        name: None if value is None and name.startswith("feature") else _singles(name, value, 1 + (name in matrices))
        for name, value in parts.items()
    }
    found = FeatureMap(**arrays)
    (n_x, n_waves), n_axes = found.waves.shape, found.axes.shape[1]
    need("axes", len(found.axes) == n_classes and len(found.shift) == n_axes)
    need("feature_axes", (found.feature_axes is None) == (found.feature_shift is None) == (n_axes == n_x))
    if found.feature_axes is not None and found.feature_shift is not None:
        need("feature_axes", found.feature_axes.shape[1] == n_x - n_axes == len(found.feature_shift))
    need("waves", n_waves > 0 and len(found.phases) == n_waves)
    need("rotation", len(found.rotation) == n_x + n_waves and len(found.centre) == found.rotation.shape[1])
    return found


def _member(part: Any, n_classes: int, n_axes: int) -> Member:
    need("members", isinstance(part, dict) and set(part) == set(Member._fields))
    a, b, w = (_singles("members", part[name], ndim) for name, ndim in (("a", 1), ("b", 1), ("w", 2)))
    need("members", a.shape == (2,) and b.shape == (n_classes,) and w.shape == (n_axes, n_classes))
    need("members", all(bool((np.abs(array) < 1e9).all()) for array in (a, b, w)))
    return Member(a, b, w)


def _encoded_fields(arrays: FeatureMap | Member) -> dict[str, Any]:
    return {name: None if array is None else _encoded(array) for name, array in arrays._asdict().items()}


def _encoded(array: NDArray[Any]) -> dict[str, Any]:
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return {"shape": list(array.shape), "base64": base64.b64encode(little.tobytes()).decode()}


def _singles(part: str, encoded: Any, ndim: int) -> Singles:
    """Decode a float32 array; raise an InputError if a number is not finite."""
    array = _decoded(part, encoded, np.dtype("<f4"), ndim).astype(np.float32)
    need(part, bool(np.isfinite(array).all()))
    return array


def _decoded(part: str, encoded: Any, dtype: np.dtype[Any], ndim: int) -> NDArray[Any]:
    need(part, isinstance(encoded, dict) and set(encoded) == {"shape", "base64"})
    shape, text = encoded["shape"], encoded["base64"]
    need(part, isinstance(shape, list) and len(shape) == ndim and isinstance(text, str))
    need(part, all(type(length) is int and 0 <= length <= MOST_CLASSES for length in shape))
    try:
        content = base64.b64decode(text, validate=True)
    except ValueError:
        content = b"?"
    need(part, len(content) == math.prod(shape) * dtype.itemsize)
    return np.frombuffer(content, dtype=dtype).reshape(shape)
