"""Execution of exported predictors: C headers with a compiler, ONNX models with onnxruntime."""

import ctypes
import subprocess

import numpy as np
import onnxruntime

import pippin
from pippin._conformal.exportable import exportable
from pippin._engine import dispatch
from pippin._sharpening.features import FLOOR, SHIFT
from pippin._validation.rows import as_rows
from pippin.export.c_header import c_header

STRICT = ["gcc", "-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
STRICT = [*STRICT, "-ffp-contract=off"]


def compiled(predictors, folder):
    """Compile the headers of predictors into one library; names of the i-th begin with `head{i}_`."""
    source, target = folder / "heads.c", folder / "heads.so"
    source.write_text("".join(c_header(one, f"head{i}") for i, one in enumerate(predictors)), encoding="utf-8")
    defines = [f"-DHEAD{i}_API=" for i in range(len(predictors))]
    subprocess.run([*STRICT, *defines, "-shared", "-fPIC", source, "-o", target], check=True)
    return ctypes.CDLL(str(target))


def _entry(library, number, name, probs, logits):
    return library[f"head{number}_{name}{'_logits' if logits else ''}{'_float' if probs.dtype == np.float32 else ''}"]


def sets_in_c(library, number, probs, u, group=None, features=None, logits=False):
    """Return the set members (n, K) of each row, padded with −1, from the i-th header."""
    predict = _entry(library, number, "predict", probs, logits)
    optional = [ctypes.c_void_p] * (features is not None), [ctypes.c_int] * (group is not None)
    predict.argtypes = [ctypes.c_void_p, *optional[0], ctypes.c_double, *optional[1], ctypes.c_void_p]
    found = np.full(probs.shape, -1, np.int32)
    for i, row in enumerate(probs):
        more = () if features is None else (features[i].ctypes.data,)
        group_argument = () if group is None else (int(group[i]),)
        size = predict(row.ctypes.data, *more, u[i], *group_argument, found[i].ctypes.data)
        assert size == (found[i] >= 0).sum()
    return found


def decisions_in_c(library, number, probs, group=None, features=None, logits=False):
    """Return the action and certificate of each row."""
    decide = _entry(library, number, "decide", probs, logits)
    optional = [ctypes.c_void_p] * (features is not None) + [ctypes.c_int] * (group is not None)
    decide.argtypes = [ctypes.c_void_p, *optional, ctypes.c_void_p]
    actions, certificates = np.empty(len(probs), int), np.empty(len(probs))
    for i, row in enumerate(probs):
        more = () if features is None else (features[i].ctypes.data,)
        group_argument = () if group is None else (int(group[i]),)
        actions[i] = decide(row.ctypes.data, *more, *group_argument, certificates[i:].ctypes.data)
    return actions, certificates


def padded(sets):
    """Return the members of sets (n, K), most probable first, then −1."""
    found = np.full((len(sets), len(sets.classes)), -1)
    found[np.arange(found.shape[1]) < sets.sizes[:, None]] = sets.members
    return found


def sharpened_in_double(sharpener, probs, features=None):
    """Compute an exportable sharpener in float64, from the description of its chain of maps."""
    p = probs.astype(np.float32)
    if sharpener.pool is not None:
        logs = np.log(np.maximum(p, FLOOR).astype(np.float64)).reshape(len(p), len(sharpener.pool), -1)
        power = np.exp(np.einsum("nmk,m->nk", logs, sharpener.pool.astype(np.float64)))
        p = (power / power.sum(axis=1, keepdims=True)).astype(np.float32)
    z, log_shifted = np.log(np.maximum(p, FLOOR).astype(np.float64)), np.log((p + SHIFT).astype(np.float64))
    z, log_shifted = (part - part.mean(axis=1, keepdims=True) for part in (z, log_shifted))
    maps, phi = sharpener.feature_map, None
    if maps is not None:
        x = z @ maps.axes.astype(np.float64) + maps.shift
        if maps.feature_axes is not None:
            own = features.astype(np.float32).astype(np.float64)
            x = np.concatenate([x, own @ maps.feature_axes.astype(np.float64) + maps.feature_shift], axis=1)
        phi = np.concatenate([x, np.cos(x @ maps.waves.astype(np.float64) + maps.phases)], axis=1)
        if sharpener.rotation is not None:
            phi = phi @ sharpener.rotation[0].astype(np.float64) + sharpener.rotation[1]
    total = np.zeros(p.shape)
    for m, (a, weight) in enumerate(zip(sharpener.a.astype(np.float64), sharpener.weights, strict=True)):
        u = a[0] * z + a[1] * log_shifted
        if m >= sharpener.n_plain:
            w, b = sharpener.members[m - sharpener.n_plain]
            u += phi @ w.astype(np.float64) + b
        power = np.exp(u - u.max(axis=1, keepdims=True))
        total += weight * power / power.sum(axis=1, keepdims=True)
    return total


def unexplained_sets(predictor, found, wanted, probs, features=None, slack=1e-6):
    """Count the rows whose sets differ, and those of them with a differing class not within `slack` of its threshold.

    Scores are computed in float64; `found` and `wanted` are masks.
    """
    given, rows = exportable(predictor), np.flatnonzero((found != wanted).any(axis=1))
    if not len(rows):
        return 0, 0
    part = sharpened_in_double(given.sharpener, probs[rows], None if features is None else features[rows])
    scores = pippin.scores.score(part / part.sum(axis=1, keepdims=True), None, predictor.score)
    far = np.abs(scores / given.thresholds[0] - 1) > slack
    return len(rows), int((far & (found != wanted)[rows]).any(axis=1).sum())


def unexplained_actions(decider, found, wanted, probs, features=None, slack=1e-6):
    """Count the rows whose actions differ, and those of them that do not change if β changes by a share of `slack`."""
    given, rows = exportable(decider), np.flatnonzero(found != wanted)
    if not len(rows):
        return 0, 0
    part = sharpened_in_double(given.sharpener, probs[rows], None if features is None else features[rows])
    near = [dispatch.decide(as_rows(part), given.policy, given.betas * f, None)[0] for f in (1 - slack, 1, 1 + slack)]
    explained = [np.any([codes == one[rows] for codes in near], axis=0) for one in (found, wanted)]
    return len(rows), int((~(explained[0] & explained[1])).sum())


def run_onnx(model, **feed):
    """Run a model with onnxruntime on the CPU; return its outputs by name."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))
