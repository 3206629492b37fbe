"""ONNX graphs give the sets of Python in onnxruntime."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import pippin
from pippin._validation.rows import softmax
from pippin.cli import main
from pippin.export.onnx import OPSET, appended_model, head_model
from support.engines import sets_of_core
from support.exported_code import run_onnx
from support.one_threshold import one_threshold
from support.rows import KINDS, drawn_labels, made_rows
from support.scores import EVERY_SCORE

ROOT = Path(__file__).parents[2]


def feed_of(predictor, source, values, u):
    return {source: values} | ({"u": u} if predictor.score.randomized else {})


def assert_same(found, predictor, probs, u, prefix=""):
    """Assert that sizes, members (padded with −1) and mask are those of Python."""
    for name, wanted in zip(("sizes", "classes", "mask"), sets_of_core(predictor, probs, u), strict=True):
        np.testing.assert_array_equal(found[prefix + name], wanted)
    assert found[prefix + "sizes"].dtype == found[prefix + "classes"].dtype == np.int64


@pytest.mark.parametrize("score", EVERY_SCORE, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sets_are_the_cores(score, dtype):
    """Sets equal those of Python for ties and other edge cases, and for short, long and full sets."""
    rng = np.random.default_rng(0)
    for n_classes in (2, 3, 12, 200):
        probs = np.concatenate([made_rows(kind, 25, n_classes, 1) for kind in KINDS]).astype(dtype)
        labels = drawn_labels(probs, rng)
        predictor = pippin.calibrate(probs, labels, score, 0.1, seed=0)
        endless = one_threshold(score, 0.1, float("inf"), 3, range(n_classes))
        for at in (predictor, predictor.at(0.5), endless):
            u = rng.random(len(probs))
            found = run_onnx(head_model(at, "probs", dtype.__name__), **feed_of(at, "probs", probs, u))
            assert_same(found, at, probs, u)


@pytest.mark.parametrize("score", pippin.scores.PAPER, ids=str)
def test_real_data(score):
    """On the embedded example and CIFAR-10, sets of half of the rows equal those of Python."""
    example, images = pippin.load_example(), np.load(ROOT / "tests" / "data" / "cifar10_vgg16.npz")
    for probs, labels in ((example.probs, example.labels), (images["probs"], images["labels"])):
        predictor = pippin.calibrate(probs[::2], labels[::2], score, seed=0)
        rest, u = probs[1::2].copy(), np.random.default_rng(1).random(len(probs[1::2]))
        model = head_model(predictor, "probs", str(probs.dtype))
        assert_same(run_onnx(model, **feed_of(predictor, "probs", rest, u)), predictor, rest, u)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logits(dtype):
    """From logits, the graph computes the softmax in float64."""
    logits = (3 * np.random.default_rng(0).normal(size=(300, 20))).astype(dtype)
    probs = softmax(logits)
    predictor = pippin.calibrate(probs, drawn_labels(probs, np.random.default_rng(0)), "repip", 0.2)
    # Test half way to the next score, where the last bit of a softmax does not matter.
    scores = np.unique(pippin.scores.score(probs, None, "repip"))
    at = int(np.searchsorted(scores, predictor.threshold))
    between = one_threshold(predictor.score, 0.2, float(scores[at : at + 2].mean()), 300, range(20))
    assert_same(run_onnx(head_model(between, "logits", dtype.__name__), logits=logits), between, probs, np.zeros(300))


def test_metadata_of_the_graph():
    """The metadata contain opset, class names, score and level."""
    data = pippin.load_example()
    model = head_model(pippin.calibrate(data.probs, data.labels, "repip(gamma=0.1)", classes=data.classes))
    reported = {entry.key: entry.value for entry in model.metadata_props}
    assert [(o.domain, o.version) for o in model.opset_import] == [("", OPSET)]
    assert json.loads(reported["pippin.classes"]) == list(data.classes)
    assert reported["pippin.score"] == "repip(gamma=0.1)"
    assert reported["pippin.alpha"] == "0.1"


def classifier(opset, output="probs", extra=()):
    """Make a linear classifier of 4 features and 3 classes, with a softmax and optional further outputs."""
    rng = np.random.default_rng(0)
    weights = numpy_helper.from_array(rng.normal(size=(4, 3)).astype(np.float32), "classes")
    nodes = [
        helper.make_node("MatMul", ["x", "classes"], ["logits"]),
        helper.make_node("Softmax", ["logits"], [output], axis=1),
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in (output, *extra)]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])]
    graph = helper.make_graph(nodes, "classifier", inputs, outputs, [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize("opset", [11, 13, 17, 21])
@pytest.mark.parametrize("score", ["repip", "raps", "socop", "margin"])
def test_appended_to_a_classifier(score, opset):
    """An appended graph keeps the classifier's outputs, avoids their names, and converts older opsets."""
    model = classifier(opset)
    before = model.SerializeToString()
    x = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)
    probs = run_onnx(model, x=x)["probs"]
    predictor = pippin.calibrate(probs, drawn_labels(probs, np.random.default_rng(0)), score, 0.3, seed=0)
    u = np.random.default_rng(2).random(50)
    found = run_onnx(appended_model(model, predictor), **feed_of(predictor, "x", x, u))
    np.testing.assert_array_equal(found["probs"], probs)
    found["classes"] = found.pop("pippin_classes")
    assert_same(found, predictor, probs, u)
    assert model.SerializeToString() == before


def test_the_last_operation_distinguishes_probabilities_from_logits():
    """The last operation determines whether outputs are probabilities or logits; if unclear, an error asks for it."""
    x = np.random.default_rng(1).normal(size=(200, 4)).astype(np.float32)
    probs = run_onnx(classifier(17), x=x)["probs"]
    predictor = pippin.calibrate(probs, drawn_labels(probs, np.random.default_rng(0)), "repip", 0.05)
    for ends, holds in ((("MatMul",), True), (("MatMul", "Identity"), True), (("MatMul", "Mul"), False)):
        model = classifier(17)
        del model.graph.node[1:]
        model.graph.node[0].output[0] = "mid" if len(ends) > 1 else "probs"
        if len(ends) > 1:
            model.graph.node.append(helper.make_node(ends[1], ["mid", "mid"][: 1 + (ends[1] == "Mul")], ["probs"]))
        if not holds:
            with pytest.raises(ValueError, match=r"got .*, computed by Mul, which can be either: pass"):
                appended_model(model, predictor)
            continue
        found = run_onnx(appended_model(model, predictor), x=x)["mask"]
        wanted = run_onnx(appended_model(classifier(17), predictor), x=x)["mask"]
        assert (found != wanted).sum() <= 2  # their softmax is in float32


def test_minus_zero_is_zero():
    """SOCOP divides by p: a probability of −0.0 is in no set, and sizes are those of the classes listed."""
    probs = np.array([[0.7, 0.3, -0.0], [1.0, -0.0, -0.0], [0.5, -0.0, 0.5]], dtype=np.float32)
    predictor = one_threshold(pippin.scores.socop(), 0.1, 9.0, 9, range(3))
    found = run_onnx(head_model(predictor), probs=probs)
    assert_same(found, predictor, probs, np.zeros(3))
    np.testing.assert_array_equal((found["classes"] >= 0).sum(axis=1), found["sizes"])


def test_the_output_is_chosen_by_name():
    """If several outputs fit, an error lists them, and one is chosen by name."""
    predictor = one_threshold(pippin.scores.ip(), 0.1, 0.6, 9, range(3))
    model = classifier(17, extra=("logits",))
    with pytest.raises(ValueError, match=r"got the outputs probs, logits \(2 fit\): name the one"):
        appended_model(model, predictor)
    with pytest.raises(ValueError, match="Expected the output 'logit' to be of floats with 3 columns"):
        appended_model(model, predictor, "logits", "logit")
    x = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)
    from_logits = run_onnx(appended_model(model, predictor, "logits", "logits"), x=x)
    from_probs = run_onnx(appended_model(model, predictor, "probs", "probs"), x=x)
    np.testing.assert_array_equal(from_logits["mask"], from_probs["mask"])
    with pytest.raises(ValueError, match="of floats with 7 columns"):
        appended_model(classifier(17), one_threshold(pippin.scores.ip(), 0.1, 0.6, 9, range(7)))


@pytest.fixture
def export(monkeypatch, capsys):
    """Return a function that runs `pippin export` in this process: (exit code, standard output, standard error)."""

    def run_here(*arguments):
        monkeypatch.setattr(sys, "argv", ["pippin", "export", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        return int(caught.value.code or 0), *capsys.readouterr()

    return run_here


def test_the_command_writes_graphs(tmp_path, export):
    """The command writes a graph alone or appended; wrong use is one sentence and exit code 2."""
    x = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)
    probs = run_onnx(classifier(17), x=x)["probs"]
    predictor = pippin.calibrate(probs, drawn_labels(probs, np.random.default_rng(0)), "pip", 0.3)
    predictor.save(tmp_path / "p.json")
    onnx.save(classifier(17), tmp_path / "model.onnx")
    alone, whole = tmp_path / "head.onnx", tmp_path / "whole.onnx"
    code, said, complaint = export(tmp_path / "p.json", "--onnx", alone)
    assert (code, complaint) == (0, "")
    assert f"is in {alone}" in said
    assert_same(run_onnx(onnx.load(alone), probs=probs), predictor, probs, np.zeros(50))
    code, _, complaint = export(tmp_path / "p.json", "--onnx", whole, "--append-to", tmp_path / "model.onnx")
    assert (code, complaint) == (0, "")
    np.testing.assert_array_equal(run_onnx(onnx.load(whole), x=x)["mask"], predictor.predict(probs).mask)
    (tmp_path / "broken.onnx").write_bytes(b"no graph")
    for arguments, sentence in (
        ((), "Expected --onnx or --c, got neither"),
        (("--onnx", tmp_path / "head.txt"), "Expected --onnx to end in .onnx"),
        (("--onnx", tmp_path / "no" / "head.onnx"), "Expected --onnx in a folder that exists"),
        (("--onnx", alone, "--input", "odds"), "Expected the input to be probs or logits, got 'odds'"),
        (("--onnx", alone, "--dtype", "int8"), "'int8' is not one of 'float32', 'float64'"),
        (("--c", tmp_path / "h.h", "--append-to", tmp_path / "model.onnx"), "Expected --onnx with --append-to"),
        (("--onnx", alone, "--append-to", tmp_path / "broken.onnx"), "with its weights in one file, got"),
        (("--onnx", alone, "--append-to", tmp_path / "none.onnx"), "Cannot use"),
    ):
        code, said, complaint = export(tmp_path / "p.json", *arguments)
        assert (code, said) == (2, "")
        assert sentence in complaint
        assert len(complaint.strip().splitlines()) == 1


def test_the_error_without_onnx_names_the_extra(tmp_path):
    """Without onnx, Python and the command name the extra to install."""
    one_threshold(pippin.scores.ip(), 0.1, 0.6, 9, range(3)).save(tmp_path / "p.json")
    without = "import sys; sys.modules['onnx'] = None; "
    run = subprocess.run([sys.executable, "-c", f"{without}import pippin.export.onnx"], capture_output=True, text=True)
    assert 'pip install "pippin-conformal[onnx]"' in run.stderr.strip().splitlines()[-1]
    code = f"{without}sys.argv = 'pippin export p.json --onnx h.onnx'.split(); from pippin.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip().endswith('pip install "pippin-conformal[onnx]".')
