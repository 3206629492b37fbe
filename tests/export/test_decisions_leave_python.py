"""Deciders in C, ONNX and torch: actions and certificates equal those of Python."""

import ctypes
import json
import subprocess
import warnings

import numpy as np
import onnxruntime
import pytest
import torch

import pippin
import pippin.torch
from pippin.export.c_header import c_header
from pippin.export.onnx import head_model
from support.decisions import field, utility_of
from support.exported_code import compiled, decisions_in_c

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
        per_action = pippin.decisions.calibrate(probs[:150], labels[:150], utility_of(values), 0.2, per="action")
        yield per_action, probs[150:]
    classes = DATA.classes
    yield (
        pippin.decisions.calibrate(DATA.probs[:2000], DATA.labels[:2000], UTILITY, classes=classes, per="action"),
        DATA.probs[2000:],
    )


with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "Too few calibration rows for some actions")
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
    exported = torch.export.export(pippin.torch.DecisionHead(decider), (logits,)).module()
    found = exported(logits)
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


def test_masses_equal_to_floors_and_thresholds_of_actions(tmp_path):
    """On calibration rows, whose masses equal floors and thresholds, action and certificate are those of Python.

    In ONNX and torch, except for the row that determines β: there, two lines of the policy are equal up to rounding.
    """
    rng = np.random.default_rng(6)
    probs = rng.dirichlet(np.full(6, 0.4), 600)
    labels = (rng.random(600)[:, None] > probs.cumsum(axis=1)).sum(axis=1)
    decider = pippin.decisions.calibrate(probs, labels, utility_of(rng.normal(size=(3, 6))), 0.2, per="action")
    wanted = decider.decide(probs)
    moved = probs * (1 + 1e-9)
    assert (decider.decide(moved).certificates != wanted.certificates).any()  # some masses equal a limit
    in_torch = pippin.torch.DecisionHead(decider, from_probs=True)(torch.tensor(probs))
    in_onnx = run(head_model(decider, dtype="float64"), "probs", probs)
    in_c = decisions_in_c(compiled([decider], tmp_path), 0, probs)
    for allowed, (actions, certificates) in ((0, in_c), (1, in_torch), (1, in_onnx)):
        same = np.asarray(actions) == wanted.codes
        assert (same & (np.asarray(certificates) == wanted.certificates)).sum() >= len(probs) - allowed


@pytest.mark.parametrize("alpha", [0.02, 0.1])
def test_sharpened_certificates_per_action_in_all_targets(alpha, tmp_path):
    """C, ONNX and torch give action and certificate of Python, but for a row with a mass within rounding of a limit."""
    fit, test = (DATA.probs[:2000], DATA.labels[:2000]), np.ascontiguousarray(DATA.probs[2000:], dtype=np.float32)
    options = {"classes": DATA.classes, "per": "action", "sharpen": "split"}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Too few calibration rows for some actions")
        decider = pippin.decisions.calibrate(*fit, UTILITY, alpha, **options)
    wanted = decider.decide(test)
    in_torch = pippin.torch.DecisionHead(decider, from_probs=True)(torch.tensor(test))
    found = {"C": decisions_in_c(compiled([decider], tmp_path), 0, test), "torch": in_torch}
    for precision in ("float64", "float32"):
        found[precision] = run(head_model(decider, precision=precision), "probs", test)
    assert len(np.unique(wanted.certificates)) > 1
    assert (np.bincount(wanted.codes, minlength=3) > 20).all()
    for target, (actions, certificates) in found.items():
        same = np.asarray(actions) == wanted.codes
        same &= np.isclose(np.asarray(certificates), wanted.certificates, rtol=1e-7)
        assert (~same).sum() <= 1, target


def test_a_header_states_the_guarantee_per_action():
    decider = pippin.decisions.calibrate(DATA.probs, DATA.labels, UTILITY, 0.1, classes=DATA.classes, per="action")
    assert "which holds 90% of the time among objects with the same action." in c_header(decider)


def test_policies_with_bounded_cost_stay_in_python():
    policy = pippin.decisions.bound_cost(DATA.probs, DATA.labels, UTILITY, classes=DATA.classes)
    for export in (c_header, head_model, pippin.torch.DecisionHead):
        with pytest.raises(pippin.InputError, match=r"got CostPolicy.*: decide with it in Python, or export a decider"):
            export(policy)
