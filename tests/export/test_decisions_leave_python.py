"""Deciders in C, ONNX and torch: actions and certificates equal those of Python."""

import ctypes
import json
import subprocess

import numpy as np
import onnxruntime
import pytest
import torch

import pippin
import pippin.torch
from pippin.export.c_header import c_header
from pippin.export.onnx import head_model
from support.decisions import field, utility_of

DATA, UTILITY = field()
STRICT = ["cc", "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic"]


def problems():
    """Calibrate deciders of several sizes, and return them with test rows."""
    rng = np.random.default_rng(4)
    yield (
        pippin.decisions.calibrate(DATA.probs[:2000], DATA.labels[:2000], UTILITY, 0.02, classes=DATA.classes),
        DATA.probs[2000:2600],
    )
    for n_classes, n_actions, whole in ((2, 2, False), (5, 3, True), (40, 4, False), (90, 3, True)):
        values = rng.integers(-2, 3, (n_actions, n_classes)) if whole else rng.normal(size=(n_actions, n_classes))
        probs = rng.dirichlet(np.full(n_classes, 0.5), 300)
        labels = np.array([rng.choice(n_classes, p=row) for row in probs])
        for alpha in (0.02, 0.2):
            yield pippin.decisions.calibrate(probs[:150], labels[:150], utility_of(values), alpha), probs[150:]


PROBLEMS = list(problems())
with_problems = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: repr(problem[0]))


@with_problems
def test_c_gives_the_cores_actions_to_the_last_bit(problem, tmp_path):
    """Actions in C equal those of Python to the last bit, in double and float; invalid rows are refused."""
    decider, probs = problem
    (tmp_path / "d.c").write_text(c_header(decider, "mine"))
    target = tmp_path / "d.so"
    subprocess.run([*STRICT, "-DMINE_API=", "-shared", "-fPIC", tmp_path / "d.c", "-o", target], check=True)
    loaded = ctypes.CDLL(str(target))
    loaded.mine_action_name.restype = loaded.mine_class_name.restype = ctypes.c_char_p
    for kind, name in ((np.float64, "mine_decide"), (np.float32, "mine_decide_float")):
        decide = getattr(loaded, name)
        decide.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        rows, certificate = probs.astype(kind), ctypes.c_double()
        wanted = decider.decide(rows)
        for row, action, promised in zip(rows, wanted.codes, wanted.certificates, strict=True):
            assert decide(row.ctypes.data, ctypes.addressof(certificate)) == action
            assert certificate.value == promised
        assert decide(rows[0].ctypes.data, None) == wanted.codes[0]
        assert decide((rows[0] / 2).ctypes.data, None) == -1
    names = [loaded.mine_action_name(a).decode() for a in range(len(decider.utility.actions))]
    assert names == list(decider.utility.actions)


def run(model, name, values):
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(["actions", "certificates"], {name: values})


@with_problems
def test_onnx_gives_the_cores_actions(problem):
    """ONNX gives the actions of Python from probabilities and logits; metadata describe the decider."""
    decider, probs = problem
    for kind in (np.float32, np.float64):
        model = head_model(decider, "probs", np.dtype(kind).name)
        actions, certificates = run(model, "probs", probs.astype(kind))
        wanted = decider.decide(probs.astype(kind))
        np.testing.assert_array_equal(actions, wanted.codes)
        np.testing.assert_array_equal(certificates, wanted.certificates)
    logits = np.log(np.maximum(probs, 1e-12)).astype(np.float64)
    actions, _ = run(head_model(decider, "logits", "float64"), "logits", logits)
    np.testing.assert_array_equal(actions, decider.decide(logits, from_logits=True).codes)
    reported = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(reported["pippin.actions"]) == list(decider.utility.actions)


@with_problems
def test_the_torch_head_gives_the_cores_actions(problem):
    """The torch head gives the actions of Python with any leading axes; half() does not change its numbers."""
    decider, probs = problem
    head = pippin.torch.DecisionHead(decider, from_probs=True).half()
    for kind in (np.float32, np.float64):
        found = head(torch.tensor(probs[:120].astype(kind)).reshape(2, 60, -1))
        wanted = decider.decide(probs[:120].astype(kind))
        np.testing.assert_array_equal(found.actions.reshape(-1).numpy(), wanted.codes)
        np.testing.assert_array_equal(found.certificates.reshape(-1).numpy(), wanted.certificates)
    logits = torch.tensor(probs).log().clamp(min=-30)
    found = pippin.torch.DecisionHead(decider)(logits)
    np.testing.assert_array_equal(found.actions.numpy(), decider.decide(torch.softmax(logits, -1).numpy()).codes)
    assert head.beta == decider.beta
    with pytest.raises(pippin.InputError, match="classes in the last axis"):
        head(torch.zeros(3, 1))


@pytest.mark.filterwarnings("ignore:.*are too few")
def test_too_few_rows_play_safe_everywhere(tmp_path):
    decider = pippin.decisions.calibrate(DATA.probs[:20], DATA.labels[:20], UTILITY, 0.02, classes=DATA.classes)
    probs = DATA.probs[:5].astype(np.float32)
    actions, certificates = run(head_model(decider), "probs", probs)
    assert actions.tolist() == [2] * 5
    assert certificates.tolist() == [0.3] * 5
    found = pippin.torch.DecisionHead(decider, from_probs=True)(torch.tensor(probs))
    assert found.actions.tolist() == [2] * 5
    (tmp_path / "d.c").write_text(c_header(decider))
    subprocess.run([*STRICT, "-DPIPPIN_API=", "-c", tmp_path / "d.c", "-o", tmp_path / "d.o"], check=True)
