"""Execution of exported predictors: C headers with a compiler, ONNX models with onnxruntime."""

import ctypes
import subprocess

import numpy as np
import onnxruntime

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


def sets_in_c(library, number, probs, u, group=None):
    """Return the set members (n, K) of each row, padded with −1, from the i-th header."""
    predict = library[f"head{number}_predict{'_float' if probs.dtype == np.float32 else ''}"]
    predict.argtypes = [ctypes.c_void_p, ctypes.c_double, *[ctypes.c_int] * (group is not None), ctypes.c_void_p]
    found = np.full(probs.shape, -1, np.int32)
    for i, row in enumerate(probs):
        group_argument = () if group is None else (int(group[i]),)
        size = predict(row.ctypes.data, u[i], *group_argument, found[i].ctypes.data)
        assert size == (found[i] >= 0).sum()
    return found


def decisions_in_c(library, number, probs, group=None):
    """Return the action and certificate of each row."""
    decide = library[f"head{number}_decide{'_float' if probs.dtype == np.float32 else ''}"]
    decide.argtypes = [ctypes.c_void_p, *[ctypes.c_int] * (group is not None), ctypes.c_void_p]
    actions, certificates = np.empty(len(probs), int), np.empty(len(probs))
    for i, row in enumerate(probs):
        group_argument = () if group is None else (int(group[i]),)
        actions[i] = decide(row.ctypes.data, *group_argument, certificates[i:].ctypes.data)
    return actions, certificates


def run_onnx(model, **feed):
    """Run a model with onnxruntime on the CPU; return its outputs by name."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))
