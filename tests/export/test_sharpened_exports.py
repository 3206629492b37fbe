"""Predictors and deciders of sharpened (recalibrated) probabilities in C, ONNX and torch give the results of Python."""

import ctypes
import subprocess

import numpy as np
import pytest
import torch

import pippin
import pippin.torch
from pippin._conformal.exportable import exportable
from pippin.export.c_header import c_header
from pippin.export.onnx import appended_model, head_model
from support.confused_rows import confused_rows
from support.decisions import field
from support.exported_code import (
    STRICT,
    compiled,
    decisions_in_c,
    padded,
    run_onnx,
    sets_in_c,
    sharpened_in_double,
    unexplained_actions,
    unexplained_sets,
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning:torch")
DATA, UTILITY = field()
LEVELS = {"weed": 0.1, "crop": 0.05}


class Case:
    """A sharpened predictor and decider, with test rows and features (or None)."""

    def __init__(self, probs, labels, utility, score, features=None, n=1500, **options):
        parts = [slice(0, n // 2), slice(n // 2, n), slice(n, None)]
        of = [{} if features is None else {"features": features[part]} for part in parts]
        classes = options.pop("classes", None)
        sharpener = pippin.sharpen(probs[parts[0]], labels[parts[0]], classes=classes, **of[0])
        given = {"sharpen": sharpener, "classes": classes, **of[1]}
        rows = probs[parts[1]], labels[parts[1]]
        self.predictor = pippin.calibrate(*rows, score, 0.1, **given, **options)
        self.decider = pippin.decisions.calibrate(*rows, utility, LEVELS, per="kind", **given)
        self.probs, self.more = probs[parts[2]], of[2]
        self.features = None if features is None else np.ascontiguousarray(features[parts[2]], dtype=np.float32)

    def sets(self, probs):
        """Return the sets of Python."""
        return self.predictor.predict(probs, **self.more)


def crops_and_weeds(n_classes):
    kinds = {str(k): "crop" if k % 3 == 0 else "weed" for k in range(n_classes)}
    values = {"spray": {"weed": 1, "crop": -2}, "leave": {"weed": -1, "crop": 1}, "ask": {"weed": 0.3, "crop": 0.3}}
    return pippin.decisions.Utility(values, kinds=kinds)


@pytest.fixture(scope="module")
def cases():
    """The embedded example, many classes with a rotation and features, and a sharpener without cosines."""
    many, labels = confused_rows(2000, 40, seed=1)
    rng = np.random.default_rng(0)
    features = np.concatenate([rng.normal(size=(2000, 5)), 0.3 * labels[:, None] % 7], axis=1)
    few = rng.dirichlet(np.ones(4), 400)  # correct probabilities, so that there is nothing to learn
    few_labels = (rng.random(400)[:, None] > few.cumsum(axis=1)).sum(axis=1).clip(max=3)
    return {
        "example": Case(DATA.probs, DATA.labels, UTILITY, "socop", classes=DATA.classes),
        "40 classes, features": Case(many, labels, crops_and_weeds(40), "repip", features),
        "per class": Case(DATA.probs, DATA.labels, UTILITY, "pip", classes=DATA.classes, per="class"),
        "210 classes": Case(*confused_rows(1100, 210, seed=3), crops_and_weeds(210), "ip", n=900),
        "temperature": Case(few, few_labels, crops_and_weeds(4), "aps", n=60),
    }


@pytest.fixture(scope="module")
def library(cases, tmp_path_factory):
    heads = [one for case in cases.values() for one in (case.predictor, case.decider)]
    return compiled(heads, tmp_path_factory.mktemp("heads"))


def masks(found, n_classes):
    """Return membership (n, K) of padded members."""
    return (found[:, :, None] == np.arange(n_classes)).any(axis=1)


def each(cases):
    """Yield number, case, test rows and u for double and float rows."""
    for number, case in enumerate(cases.values()):
        for kind in (np.float64, np.float32):
            probs = np.ascontiguousarray(case.probs, dtype=kind)
            yield 2 * number, case, probs, np.random.default_rng(number).random(len(probs))


def test_the_cases_have_all_forms_of_sharpeners(cases):
    """The test cases have sharpeners with and without cosines, features and a rotation."""
    forms = set()
    for case in cases.values():
        chain = exportable(case.predictor).sharpener
        forms.add((chain.feature_map is not None, chain.rotation is not None, chain.n_features))
        [sharpener] = case.predictor.sharpeners
        wanted = sharpener(case.probs, **case.more)
        np.testing.assert_allclose(sharpened_in_double(chain, case.probs, case.features), wanted, rtol=2e-5, atol=1e-9)
    assert forms >= {(False, False, 0), (True, False, 6), (True, False, 0), (True, True, 0)}


def test_sets_are_those_of_python(cases, library):
    """In C, ONNX in float64 and torch, rows differ only where a score is within 1e-6 of its threshold."""
    differing = 0
    for number, case, probs, u in each(cases):
        seed = np.random.default_rng(7)
        predictor, n_classes = case.predictor, probs.shape[1]
        if predictor.score.randomized:
            u = np.random.default_rng(7).random(len(probs))
        wanted = predictor.predict(probs, seed=seed, **case.more)
        feed = {} if case.features is None else {"features": case.features}
        feed |= {"u": u} if predictor.score.randomized else {}
        in_onnx = run_onnx(head_model(predictor, "probs", probs.dtype.name), probs=probs, **feed)
        head = pippin.torch.ConformalHead(predictor, from_probs=True, max_size=n_classes).half()
        features = None if case.features is None else torch.from_numpy(case.features)
        in_torch = head(torch.from_numpy(probs), u=torch.from_numpy(u), mask=True, features=features)
        in_c = sets_in_c(library, number, probs, u, features=case.features)
        for members, mask in (
            (in_c, masks(in_c, n_classes)),
            (in_onnx["classes"], in_onnx["mask"]),
            (in_torch.classes.numpy(), in_torch.mask.numpy()),
        ):
            n, far = unexplained_sets(predictor, mask, wanted.mask, probs, case.features)
            differing += n
            assert far == 0
            assert (members != padded(wanted)).any(axis=1).sum() <= n + 1  # or two members tie within rounding
    assert differing <= 3


def test_actions_are_those_of_python(cases, library):
    """Actions with a level per superclass are those of Python, in C, ONNX in float64 and torch."""
    differing = 0
    for number, case, probs, _ in each(cases):
        decider = case.decider
        wanted = decider.decide(probs, **case.more)
        feed = {} if case.features is None else {"features": case.features}
        in_onnx = run_onnx(head_model(decider, "probs", probs.dtype.name), probs=probs, **feed)
        features = None if case.features is None else torch.from_numpy(case.features)
        in_torch = pippin.torch.DecisionHead(decider, from_probs=True)(torch.from_numpy(probs), features=features)
        for actions, certificates in (
            decisions_in_c(library, number + 1, probs, features=case.features),
            (in_onnx["actions"], in_onnx["certificates"]),
            (in_torch.actions.numpy(), in_torch.certificates.numpy()),
        ):
            n, far = unexplained_actions(decider, actions, wanted.codes, probs, case.features)
            differing += n
            assert far == 0
            assert (certificates != wanted.certificates).sum() <= n
    assert differing <= 3


def test_logits_get_the_softmax_of_python(cases, library):
    """From logits in double and float, sets and actions are those of `from_logits=True`."""
    for number, case in enumerate(cases.values()):
        for kind in (np.float64, np.float32):
            logits = (np.log(np.maximum(case.probs, 1e-30)) + 5).astype(kind)
            u = np.random.default_rng(7).random(len(logits))
            wanted = case.predictor.predict(logits, seed=7, from_logits=True, **case.more)
            found = sets_in_c(library, 2 * number, logits, u, features=case.features, logits=True)
            assert (found != padded(wanted)).any(axis=1).sum() <= 1
            decisions = case.decider.decide(logits, from_logits=True, **case.more)
            actions, _ = decisions_in_c(library, 2 * number + 1, logits, features=case.features, logits=True)
            assert (actions != decisions.codes).sum() <= 1
            in_torch = pippin.torch.DecisionHead(case.decider)(
                torch.from_numpy(logits), features=None if case.features is None else torch.from_numpy(case.features)
            )
            assert (in_torch.actions.numpy() != decisions.codes).sum() <= 1


def test_rows_and_features_that_python_refuses(cases, library):
    """C returns −1; torch gives an empty set or the safe action without a certificate."""
    case = cases["40 classes, features"]
    predict, decide = library["head2_predict"], library["head3_decide"]
    predict.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_double, ctypes.c_void_p]
    decide.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    row, classes = case.probs[0].copy(), np.zeros(40, np.int32)
    for i, value in ((0, np.nan), (5, np.inf), (3, -1e15)):
        features = case.features[0].copy()
        features[i] = value
        assert predict(row.ctypes.data, features.ctypes.data, 0.5, classes.ctypes.data) == -1
        assert decide(row.ctypes.data, features.ctypes.data, None) == -1
    good = case.features[0].ctypes.data
    assert decide(row.ctypes.data, good, None) >= 0
    assert decide((0.9 * row).ctypes.data, good, None) == -1
    head = pippin.torch.ConformalHead(case.predictor, from_probs=True)
    broken = head(torch.tensor(row), features=torch.full((6,), torch.nan))
    assert broken.sizes.item() == 0
    decision = pippin.torch.DecisionHead(case.decider, from_probs=True)(
        torch.tensor(row), features=torch.full((6,), torch.nan)
    )
    assert decision.certificates.item() == -np.inf
    with pytest.raises(pippin.InputError, match=r"Expected the features of the sharpener, of shape \(6,\), got none"):
        head(torch.tensor(row))
    with pytest.raises(pippin.InputError, match=r"of shape \(6,\), got \(5,\): pass features="):
        head(torch.tensor(row), features=torch.zeros(5))
    plain = pippin.torch.ConformalHead(cases["example"].predictor, from_probs=True)
    with pytest.raises(pippin.InputError, match="Expected no features, since the sharpener has none"):
        plain(torch.tensor(cases["example"].probs[0]), features=torch.zeros(6))


def test_p_values_in_torch(cases):
    """P-values equal those of Python except where a score is within rounding of a calibration score."""
    case = cases["40 classes, features"]
    head = pippin.torch.PValueHead(case.predictor, from_probs=True)
    found = head(torch.from_numpy(case.probs), features=torch.from_numpy(case.features)).numpy()
    wanted = case.predictor.p_values(case.probs, **case.more)
    assert (found != wanted).mean() < 0.001
    assert np.abs(found - wanted).max() < 3 / case.predictor.n_calibration


def test_a_traced_head_equals_the_module(cases):
    """torch.export keeps the sharpener; autocast does not change the sets."""
    case = cases["example"]
    head = pippin.torch.ConformalHead(case.predictor, from_probs=True)
    rows = torch.from_numpy(case.probs[:64])
    exported = torch.export.export(head, (rows,)).module()
    assert torch.equal(exported(rows).sizes, head(rows).sizes)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(head(rows).classes, head(rows).classes)
    again = pippin.torch.ConformalHead(case.predictor, from_probs=True)
    again.load_state_dict(head.state_dict())
    assert torch.equal(again(rows).classes, head(rows).classes)


def test_appended_to_a_network(cases):
    """The features of a network become an input of the whole graph."""
    from onnx import TensorProto, helper

    case = cases["40 classes, features"]
    node = helper.make_node("Softmax", ["x"], ["probs"], axis=1)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 40]) for name in ("x", "probs")]
    network = helper.make_model(
        helper.make_graph([node], "network", ends[:1], ends[1:]),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=8,
    )
    logits = np.log(case.probs).astype(np.float32)
    found = run_onnx(appended_model(network, case.predictor), x=logits, features=case.features)
    wanted = case.predictor.predict(found["probs"], **case.more)
    assert (found["mask"] != wanted.mask).any(axis=1).sum() <= 1


def test_stacks_in_c_onnx_and_torch(tmp_path):
    """The input is the columns of one model after the other, as probabilities or logits; one model may be left out."""
    probs, labels = confused_rows(1200, 12, seed=5)
    rng = np.random.default_rng(6)
    noise = np.exp(rng.normal(size=probs.shape) + 1.5 * np.eye(12)[labels])
    models = [probs, noise / noise.sum(axis=1, keepdims=True), rng.dirichlet(np.ones(12), 1200)]
    parts = [[one[rows] for one in models] for rows in (slice(400), slice(400, 800), slice(800, None))]
    heads = []
    stack = pippin.models.stack(parts[0], labels[:400])
    rows = parts[1], labels[400:800]
    heads.append(pippin.calibrate(*rows, "socop", 0.1, sharpen=stack))
    heads.append(pippin.decisions.calibrate(*rows, crops_and_weeds(12), LEVELS, per="kind", sharpen=stack))
    alone = pippin.models.stack(parts[0][::2], labels[:400])
    assert alone.pool.weights[1] == 0  # noise
    heads.append(pippin.calibrate(parts[1][::2], labels[400:800], "ip", 0.1, sharpen=alone))
    library = compiled(heads, tmp_path)
    u, differing = np.zeros(400), 0
    for number, models in ((0, parts[2]), (2, parts[2][::2])):
        predictor, wide = heads[number], np.concatenate(models, axis=1)
        for logits in (False, True):
            given = np.log(wide) + 2 if logits else wide
            wanted = predictor.predict(models)
            head = pippin.torch.ConformalHead(predictor, from_probs=not logits, max_size=12)
            in_torch = head(torch.from_numpy(given), mask=True)
            source = "logits" if logits else "probs"
            in_onnx = run_onnx(head_model(predictor, source, "float64"), **{source: given})
            single = run_onnx(head_model(predictor, source, precision="float32"), **{source: given.astype(np.float32)})
            assert single["mask"][wanted.mask].all()  # thresholds are rounded up
            in_c = masks(np.array(sets_in_c(library, number, given, u, logits=logits))[:, :12], 12)
            for mask in (in_c, in_onnx["mask"], in_torch.mask.numpy()):
                n, far = unexplained_sets(predictor, mask, wanted.mask, wide)
                differing += n
                assert far == 0
            if number == 0:
                decider = heads[1]
                codes = decider.decide(models).codes
                acts = decisions_in_c(library, 1, given, logits=logits)[0]
                others = run_onnx(head_model(decider, source, "float64"), **{source: given})["actions"]
                layer = pippin.torch.DecisionHead(decider, from_probs=not logits)(torch.from_numpy(given))
                assert max((found != codes).sum() for found in (acts, others, layer.actions.numpy())) <= 1
        p = pippin.torch.PValueHead(predictor, from_probs=True)(torch.from_numpy(wide)).numpy()
        assert (p != predictor.p_values(models)).mean() < 0.001
    assert differing <= 3
    exported = torch.export.export(head, (torch.from_numpy(given),)).module()
    assert torch.equal(exported(torch.from_numpy(given)).sizes, head(torch.from_numpy(given)).sizes)
    last = wide[:1].copy()
    last[0, -1] += 0.1  # the last model sums to 1.1
    assert sets_in_c_refuses(library, number, last)
    with pytest.raises(pippin.InputError, match="Expected 12 classes of each of 2 models in the last axis"):
        head(torch.zeros(5, 12))


def sets_in_c_refuses(library, number, row):
    """Return True if the header refuses a row of probabilities."""
    predict = library[f"head{number}_predict"]
    predict.argtypes = [ctypes.c_void_p, ctypes.c_double, ctypes.c_void_p]
    return predict(row.ctypes.data, 0.5, np.zeros(64, np.int32).ctypes.data) == -1


def test_several_sharpeners_stay_in_python():
    """The error names the alternative."""
    probs, labels = confused_rows(500, seed=3)
    predictor = pippin.calibrate(probs, labels, "ip", 0.2, sharpen="mixture")
    decider = pippin.decisions.calibrate(probs, labels, crops_and_weeds(4), 0.2, sharpen="mixture")
    for one, export in ((predictor, pippin.torch.ConformalHead), (decider, pippin.torch.DecisionHead)):
        for way in (c_header, head_model, export):
            pattern = (
                r"with at most one sharpener, got 5 in .*: calibrate with sharpen='split', or with a fitted sharpener"
            )
            with pytest.raises(pippin.InputError, match=pattern):
                way(one)


def test_sharpened_headers_under_sanitizers(cases, tmp_path):
    """Address and undefined-behavior sanitizers find nothing, on valid and invalid rows, probabilities and logits."""
    case = cases["40 classes, features"]
    (tmp_path / "sets.h").write_text(c_header(case.predictor, "sets"))
    (tmp_path / "acts.h").write_text(c_header(case.decider, "acts"))
    (tmp_path / "main.c").write_text(MAIN)
    flags = [*STRICT, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run([*flags, "main.c", "-o", "main", "-lm"], check=True, cwd=tmp_path)
    probs = np.concatenate([case.probs[:60], np.full((1, 40), np.nan), np.zeros((1, 40)), np.eye(40)[:2]])
    features = np.concatenate([case.features[:62], [[np.nan] * 6, [9e14] * 6]])
    run = subprocess.run(
        [tmp_path / "main"], input=np.column_stack([probs, features]).astype(float).tobytes(), capture_output=True
    )
    assert (run.returncode, run.stderr) == (0, b"")
    lines = [list(map(int, line.split())) for line in run.stdout.decode().splitlines()]
    sizes = case.predictor.predict(case.probs[:60], features=case.features[:60]).sizes
    codes = case.decider.decide(case.probs[:60], features=case.features[:60]).codes
    assert [line[0] for line in lines[:60]] == sizes.tolist()
    assert [line[2] for line in lines[:60]] == codes.tolist()
    assert all(line == [-1, -1, -1, -1] for line in lines[60:63])


MAIN = """
#include <math.h>
#include <stdio.h>
#include "sets.h"
#include "acts.h"
/* Reads rows of doubles, the probabilities and the features, until the input ends. */
int main(void)
{
    double row[SETS_CLASSES + 6], certificate;
    while (fread(row, sizeof(double), SETS_CLASSES + 6, stdin) == SETS_CLASSES + 6) {
        double logits[SETS_CLASSES];
        float narrow[SETS_CLASSES], features[6];
        int classes[SETS_CLASSES], k;
        for (k = 0; k < 6; k++)
            features[k] = (float)row[SETS_CLASSES + k];
        for (k = 0; k < SETS_CLASSES; k++) {
            logits[k] = row[k] > 0.0 ? log(row[k]) : row[k] == 0.0 ? -INFINITY : row[k];
            narrow[k] = (float)logits[k];
        }
        printf("%d ", sets_predict(row, features, 0.5, classes));
        printf("%d ", sets_predict_logits_float(narrow, features, 0.5, classes));
        printf("%d ", acts_decide(row, features, &certificate));
        printf("%d\\n", acts_decide_logits(logits, features, &certificate));
    }
    return 0;
}
"""
