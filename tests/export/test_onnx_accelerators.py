"""ONNX graphs in float32 and for other opsets: operators, types, and sets that are not smaller than those of Python."""

import re
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import pippin
from pippin.export.onnx import appended_model, head_model
from support.decisions import field, utility_of
from support.exported_code import run_onnx
from support.rows import KINDS, drawn_labels, made_rows
from support.scores import EVERY_SCORE

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
DATA, UTILITY = field()
PAGE = Path(__file__).parents[2] / "docs" / "export.md"
FARMS = np.arange(4986) % 3
KINDS_OF = {name: "crop" if name in ("maize", "common_wheat", "sugar_beet") else "weed" for name in DATA.classes}


def documented():
    """Return the operators that the documentation lists."""
    [line] = re.findall(r"The graphs have only these operators: ([^.]*)\.", " ".join(PAGE.read_text().split()))
    return set(re.findall(r"`(\w+)`", line))


def exported():
    """Return predictors and deciders with every kind of threshold, with and without a sharpener."""
    rows, options = (DATA.probs[1000:], DATA.labels[1000:]), {"classes": DATA.classes}
    farms = FARMS[1000:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sharpener = pippin.sharpen(DATA.probs[:500], DATA.labels[:500], classes=DATA.classes)
        features = np.random.default_rng(0).normal(size=(4986, 3))
        with_features = pippin.sharpen(DATA.probs[:500], DATA.labels[:500], features=features[:500], **options)
        for score in ("pip", "raps", "margin", "socop"):
            yield pippin.calibrate(*rows, score, 0.1, seed=0, **options)
        yield pippin.calibrate(*rows, "aps", 0.1, seed=0, per="class and group", groups=farms, **options)
        yield pippin.calibrate(*rows, "saps", 0.1, seed=0, groups=farms, unseen="marginal", **options)
        yield pippin.calibrate(*rows, "repip", 0.1, per="rc3p", **options)
        yield pippin.calibrate(*rows, "socop", 0.1, sharpen=sharpener, per="class", **options)
        yield pippin.calibrate(*rows, "ip", 0.1, sharpen=with_features, features=features[1000:], **options)
        yield pippin.decisions.calibrate(*rows, UTILITY, 0.02, **options)
        yield pippin.decisions.calibrate(*rows, UTILITY, {"weed": 0.1, "crop": 0.01}, per=KINDS_OF, **options)
        yield pippin.decisions.calibrate(*rows, UTILITY, 0.02, groups=farms, sharpen=sharpener, **options)
        yield pippin.decisions.calibrate(*rows, UTILITY, 0.1, per="action", **options)
        many = np.random.default_rng(1).dirichlet(np.full(90, 0.3), 400)
        yield pippin.decisions.calibrate(many, many.argmax(axis=1), utility_of(np.eye(3, 90)), 0.1)


@pytest.fixture(scope="module")
def every():
    return list(exported())


def test_the_graphs_have_only_the_documented_operators(every):
    """Graphs of every kind contain only operators that are documented, and each documented operator occurs."""
    found = set()
    for one in every:
        for source in ("probs", "logits"):
            for precision, opset in (("float64", 17), ("float32", 13), ("float32", 18), ("float32", 21)):
                model = head_model(one, source, precision=precision, opset=opset)
                assert model.opset_import[0].version == opset
                found |= {node.op_type for node in model.graph.node}
    assert found == documented()


def test_float32_graphs_have_no_wider_types(every):
    """Float32 graphs have no float64, and int64 only for shapes, axes and indices that are cast at once."""
    for one in every:
        for source in ("probs", "logits"):
            graph = onnx.shape_inference.infer_shapes(
                head_model(one, source, precision="float32"), strict_mode=True, data_prop=True
            ).graph
            values = (*graph.input, *graph.output, *graph.value_info)
            kinds = {value.name: value.type.tensor_type.elem_type for value in values}
            assert len(kinds) >= sum(len(node.output) for node in graph.node)
            constants = {constant.name: constant.data_type for constant in graph.initializer}
            assert TensorProto.DOUBLE not in {*kinds.values(), *constants.values()}
            wide = {name for name, kind in kinds.items() if kind == TensorProto.INT64}
            assert wide == {n.output[-1] for n in graph.node if n.op_type in ("TopK", "ArgMax")}
            for node in graph.node:
                if wide & set(node.input):
                    assert (node.op_type, node.attribute[0].i) == ("Cast", TensorProto.INT32)
                if node.op_type == "ScatterElements":
                    assert kinds[node.input[0]] == kinds[node.input[2]] == TensorProto.INT32
                shapes = (
                    "TopK",
                    "CumSum",
                    "Unsqueeze",
                    "Squeeze",
                    "Slice",
                    "ReduceSum",
                    "Pad",
                    "ReduceMax",
                    "ReduceMin",
                )
                if any(constants.get(name) == TensorProto.INT64 for name in node.input):
                    assert node.op_type in (*shapes, "ReduceMean")
            outputs = {value.name: value.type.tensor_type.elem_type for value in graph.output}
            wanted = {"sizes": TensorProto.INT32, "classes": TensorProto.INT32, "mask": TensorProto.BOOL}
            decided = {"actions": TensorProto.INT32, "certificates": TensorProto.FLOAT}
            assert outputs == (decided if "actions" in outputs else wanted)


@pytest.mark.parametrize("score", EVERY_SCORE, ids=str)
def test_sets_in_float32_contain_those_in_float64(score):
    """Sets in float32 contain those in float64 on calibration rows, some of whose scores equal the threshold."""
    differ = Counter()
    for n_classes in (2, 12, 70):
        made = np.concatenate([made_rows(kind, 40, n_classes, 1) for kind in KINDS]).astype(np.float32)
        example = n_classes == 12
        rows = DATA.probs[:2000] if example else made
        labels = DATA.labels[:2000] if example else drawn_labels(rows, np.random.default_rng(0))
        u = np.random.default_rng(3).random(len(rows)).astype(np.float32)
        for per in (None, "class"):
            one = pippin.calibrate(rows, labels, score, 0.2, seed=np.random.default_rng(3), per=per)
            feed = {"u": u} if one.score.randomized else {}
            wide = run_onnx(head_model(one), probs=rows, **{name: value.astype(float) for name, value in feed.items()})
            found = run_onnx(head_model(one, precision="float32"), probs=rows, **feed)
            assert (found["mask"] >= wide["mask"]).all()
            assert (found["sizes"] == found["mask"].sum(axis=1)).all()
            assert ((found["classes"] >= 0).sum(axis=1) == found["sizes"]).all()
            if example:
                differ[per] += int((found["mask"] != wide["mask"]).any(axis=1).sum())
    assert max(differ.values()) <= (12 if one.score.name in ("aps", "raps", "saps") else 2)  # of 2,000


@pytest.mark.parametrize("per", [None, "class", "kind", "action"])
def test_certificates_in_float32_hold_where_the_score_is_within_beta(per):
    """In float32, the certificate of every calibration row with a score of at most β holds."""
    rows, labels = DATA.probs[:3000], DATA.labels[:3000]
    decider = pippin.decisions.calibrate(rows, labels, UTILITY, 0.05, per=per, classes=DATA.classes)
    wanted, found = decider.decide(rows), run_onnx(head_model(decider, precision="float32"), probs=rows)
    utilities = UTILITY.of(DATA.classes)
    kept = utilities[found["actions"], labels] >= found["certificates"].astype(float)
    assert kept[utilities[wanted.codes, labels] >= wanted.certificates].all()
    assert (found["actions"] != wanted.codes).sum() <= 3
    assert (found["certificates"].astype(float) <= wanted.certificates)[found["actions"] == wanted.codes].all()


def test_opset_of_an_appended_graph():
    """The graph of the classifier is converted to the opset; its own is kept by default."""
    node = helper.make_node("Softmax", ["x"], ["probs"], axis=1)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 12]) for name in ("x", "probs")]
    graph = helper.make_graph([node], "classifier", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    predictor = pippin.calibrate(DATA.probs, DATA.labels, "pip", classes=DATA.classes)
    logits = np.log(DATA.probs[:300])
    for opset, version in ((None, 15), (19, 19)):
        whole = appended_model(model, predictor, precision="float32", opset=opset)
        assert whole.opset_import[0].version == version
        found = run_onnx(whole, x=logits)
        assert (found["mask"] >= predictor.predict(found["probs"]).mask).all()


def test_wrong_use():
    """Wrong arguments raise one sentence."""
    predictor = pippin.calibrate(DATA.probs, DATA.labels, "pip")
    for options, message in (
        ({"precision": "float16"}, "Expected the precision float64 or float32, got 'float16'."),
        ({"opset": 12}, "Expected an opset from 13 to 21, got 12: use 17."),
        (
            {"precision": "float32", "dtype": "float64"},
            "Expected input of type float32 for precision='float32', got 'float64': leave dtype= out.",
        ),
    ):
        with pytest.raises(pippin.InputError) as error:
            head_model(predictor, **options)
        assert str(error.value) == message


def test_the_command_writes_both(call, tmp_path):
    """The options --precision and --opset act as their arguments in Python."""
    predictor = pippin.calibrate(DATA.probs, DATA.labels, "pip", classes=DATA.classes)
    predictor.save(tmp_path / "p.json")
    assert call(f"export {tmp_path}/p.json --onnx {tmp_path}/h.onnx --precision float32 --opset 13")[0] == 0
    found = onnx.load(tmp_path / "h.onnx")
    assert found == head_model(predictor, precision="float32", opset=13)
    assert {entry.key: entry.value for entry in found.metadata_props}["pippin.precision"] == "float32"
