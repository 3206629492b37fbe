"""Thresholds and multipliers per class, kind, cluster and group in C, ONNX and torch equal those of Python."""

import ctypes
import json

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper

import pippin
import pippin.torch
from pippin._conformal.exportable import exportable
from pippin._engine import dispatch
from pippin._validation.rows import as_rows
from pippin.export.c_header import c_header
from pippin.export.onnx import appended_model, head_model
from support.decisions import CROPS, field, utility_of
from support.exported_code import compiled, decisions_in_c, run_onnx, sets_in_c
from support.rows import KINDS, drawn_labels, made_rows

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning:torch")

DATA, UTILITY = field()
FARMS = np.array(["north", "south 7", "östlich"])


def made(n_classes, seed):
    """Return rows with many ties, and labels."""
    rng = np.random.default_rng(seed)
    probs = np.concatenate([made_rows(kind, 15, n_classes, seed) for kind in (*KINDS, "tied")])
    return probs, drawn_labels(probs, rng), range(n_classes)


ROWS = {"example": (DATA.probs[:400], DATA.labels[:400], DATA.classes), "tied 5": made(5, 1), "tied 20": made(20, 2)}


def ways(rows):
    """Return the keywords of all taxonomies for these rows."""
    n, classes = len(rows[1]), rows[2]
    farms = FARMS[np.arange(n) % 3]
    kinds = {name: "crop" if k % 3 == 0 else "weed" for k, name in enumerate(classes)}
    yield {"per": "class"}
    yield {"per": "rc3p"}
    yield {"per": "cluster"}
    yield {"per": "interpolated"}
    yield {"per": kinds, "alpha": {"crop": 0.3, "weed": 0.05}}
    yield {"per": "group", "groups": farms}
    yield {"per": "class and group", "groups": np.arange(n) % 3 + 7, "unseen": "marginal"}


def problems():
    """Return predictors with their calibration rows, some of whose scores equal a threshold."""
    for name, rows in ROWS.items():
        for i, way in enumerate(ways(rows)):
            scores = ("pip", "raps", "margin", "margin", "saps", "topk", "socop")
            for score in {"example": (scores[i], "repip"), "tied 5": (scores[i], "aps")}.get(name, scores[i : i + 1]):
                asked = {"alpha": 0.2, **way}
                predictor = pippin.calibrate(rows[0], rows[1], score, classes=rows[2], seed=0, **asked)
                yield name, predictor, way.get("groups")


@pytest.fixture(scope="module")
def cases():
    return [(predictor, ROWS[name][0], groups) for name, predictor, groups in problems()]


@pytest.fixture(scope="module")
def library(cases, tmp_path_factory):
    return compiled([predictor for predictor, _, _ in cases], tmp_path_factory.mktemp("heads"))


def listed(predictor, probs, u, groups):
    """Return the members of each set in Python, then −1, and the group numbers."""
    group = predictor.group_codes(groups, len(probs))
    bounds = predictor._rule.limits._replace(group=group)
    sizes, members = dispatch.members(as_rows(probs), predictor.score, bounds, u)
    found = np.full(probs.shape, -1)
    found[np.arange(probs.shape[1]) < sizes[:, None]] = members
    return found, group


def rows_that_differ(found, wanted):
    return int((np.asarray(found) != wanted).any(axis=1).sum())


def test_no_row_differs(cases, library):
    """Sets are equal on calibration rows, many of whose scores equal a threshold, in double and float."""
    assert len(cases) == 35
    endless = 0
    for number, (predictor, given, groups) in enumerate(cases):
        endless += np.isinf(predictor.thresholds).any()
        for probs in (given.astype(np.float64), given.astype(np.float32)):
            u = np.random.default_rng(number).random(len(probs))
            wanted, group = listed(predictor, probs, u, groups)
            feed = {"u": u} if predictor.score.randomized else {}
            feed |= {} if group is None else {"group": group}
            in_onnx = run_onnx(head_model(predictor, "probs", probs.dtype.name), probs=probs, **feed)
            head = pippin.torch.ConformalHead(predictor, from_probs=True, max_size=probs.shape[1]).half()
            reported = None if group is None else head.group_codes(groups)
            in_torch = head(torch.from_numpy(probs), u=torch.tensor(u), mask=True, group=reported)
            mask = np.zeros(probs.shape, bool)
            mask[np.nonzero(wanted >= 0)[0], wanted[wanted >= 0]] = True
            assert rows_that_differ(sets_in_c(library, number, probs, u, group), wanted) == 0
            assert rows_that_differ(in_onnx["classes"], wanted) == 0
            assert rows_that_differ(in_torch.classes, wanted) == 0
            assert rows_that_differ(in_onnx["mask"], mask) == rows_that_differ(in_torch.mask, mask) == 0
            assert (in_onnx["sizes"] == mask.sum(1)).all()
            assert (in_torch.sizes.numpy() == mask.sum(1)).all()
    assert endless >= 3


def test_groups_by_name_and_number_and_unseen_groups(cases, library):
    """Groups are given by name or number; unseen groups are refused, or have the marginal thresholds."""
    strict = next(i for i, (one, *_) in enumerate(cases) if one.per == "group")
    open_to_all = next(i for i, (one, *_) in enumerate(cases) if one.per == "class and group")
    for number, names, stranger in ((strict, FARMS, -1), (open_to_all, (7, 8, 9), 3)):
        predictor, probs, _ = cases[number]
        find, name = library[f"head{number}_group"], library[f"head{number}_group_name"]
        name.restype = ctypes.c_char_p
        assert [find(ctypes.c_char_p(str(one).encode())) for one in (*names, "nort", "north 1")] == [
            0,
            1,
            2,
            *[stranger] * 2,
        ]
        assert [name(g).decode() for g in (-1, 0, 1, 2, 3)] == ["", *map(str, names), ""]
        model, head = head_model(predictor, "probs", "float64"), pippin.torch.ConformalHead(predictor, from_probs=True)
        reported = {entry.key: entry.value for entry in model.metadata_props}
        assert json.loads(reported["pippin.groups"]) == list(names)
        rows, u, far = probs[:2].astype(np.float64), np.zeros(2), np.array([9, -1])
        feed = {"probs": rows, "group": far} | ({"u": u} if predictor.score.randomized else {})
        if stranger < 0:
            predict = library[f"head{number}_predict"]
            predict.argtypes = [ctypes.c_void_p, ctypes.c_double, ctypes.c_int, ctypes.c_void_p]
            assert [predict(rows[0].ctypes.data, 0.0, g, None) for g in (-1, 3)] == [-1, -1]
            for g in (9, -1):
                with pytest.raises(Exception, match="out of data bounds"):
                    run_onnx(model, **feed | {"group": np.array([0, g])})
                with pytest.raises(pippin.InputError, match=rf"from 0 to 2, got {g}: pass the numbers"):
                    head(torch.tensor(rows), group=torch.tensor([0, g]))
            continue
        wanted, _ = listed(predictor, rows, u, ["elsewhere", "nowhere"])
        assert rows_that_differ(sets_in_c(library, number, rows, u, far), wanted) == 0
        assert rows_that_differ(run_onnx(model, **feed)["classes"], wanted) == 0
        in_torch = head(torch.tensor(rows), torch.tensor(u), group=torch.tensor(far))
        assert rows_that_differ(in_torch.classes, wanted) == 0
        assert head.group_codes(["8", "9", "x"]).tolist() == [1, 2, 3]


def test_the_torch_head_compiles_and_moves_with_several_thresholds(cases):
    """torch.compile, opcheck, leading axes and state_dict; groups without a taxonomy are refused."""
    predictor, probs, groups = next(case for case in cases if case[0].per == "class and group")
    head = pippin.torch.ConformalHead(predictor, from_probs=True, max_size=3)
    rows, group = torch.tensor(probs[:8]).reshape(2, 4, -1), head.group_codes(groups[:8]).reshape(2, 4)
    u = torch.rand(2, 4, dtype=torch.float64)
    found = head(rows, u, mask=True, group=group)
    compiled_head = torch.compile(head, fullgraph=True, backend="aot_eager")
    for mine, theirs in zip(found, compiled_head(rows, u, True, group), strict=True):
        assert torch.equal(mine, theirs)
    assert found.classes.shape == (2, 4, 3)
    numbers = (head.table_bits.view(torch.float64), head.number_bits.view(torch.float64))
    given = (rows[0], *numbers, u[0], head.linear, head.limit_bits.view(torch.float64), head.rank_limits, group[0])
    torch.library.opcheck(torch.ops.pippin.prediction_sets.default, (*given, False, 2, True))
    again = pippin.torch.ConformalHead(predictor.at(0.5), from_probs=True, max_size=3)
    again.load_state_dict(head.state_dict())
    assert torch.equal(again(rows, u, group=group).classes, found.classes)
    assert "largest threshold=" in repr(head)
    with pytest.raises(pippin.InputError, match=r"group of each object by number, int64 of shape \(2, 4\), got none"):
        head(rows)
    plain = pippin.torch.ConformalHead(cases[0][0], from_probs=True)
    with pytest.raises(pippin.InputError, match="all objects have the same thresholds, got some: leave them out"):
        plain(torch.tensor(cases[0][1][:2]), group=torch.tensor([0, 0]))


def deciders():
    """Return deciders with several β, and their calibration rows."""
    farms, kinds = FARMS[np.arange(400) % 3], {n: "crop" if n in CROPS else "weed" for n in DATA.classes}
    example = DATA.probs[:400], DATA.labels[:400], UTILITY
    for more in (
        {"per": "class"},
        {"per": kinds, "alpha": {"crop": 0.02, "weed": 0.2}},
        {"per": "group", "groups": farms},
        {"per": "class and group", "groups": farms, "unseen": "marginal", "alpha": 0.3},
    ):
        asked = {"alpha": 0.1, **more}
        yield pippin.decisions.calibrate(*example, classes=DATA.classes, **asked), example[0], more.get("groups")
    rng = np.random.default_rng(6)
    for n_classes, n_actions, whole in ((2, 2, False), (5, 3, True), (12, 4, False)):
        awkward = (made_rows(kind, 25, n_classes, 3) for kind in ("tied", "zeros"))
        probs = np.concatenate([rng.dirichlet(np.full(n_classes, 0.5), 200), *awkward])
        labels = np.array([rng.choice(n_classes, p=row) for row in probs])
        values = rng.integers(-2, 3, (n_actions, n_classes)) if whole else rng.normal(size=(n_actions, n_classes))
        for more in ({"per": "class"}, {"per": "group", "groups": np.arange(250) % 2}):
            made = pippin.decisions.calibrate(probs, labels, utility_of(values), 0.15, **more)
            yield made, probs, more.get("groups")


def test_no_decision_differs(tmp_path):
    """Decisions in C are equal to the last bit; those in ONNX and torch too, unless actions tie within rounding."""
    every = list(deciders())
    library = compiled([decider for decider, _, _ in every], tmp_path)
    assert sum(decider._limits.shape[1] > 1 for decider, _, _ in every) >= 5
    for number, (decider, given, groups) in enumerate(every):
        for probs in (given.astype(np.float64), given.astype(np.float32)):
            wanted = decider.decide(probs, groups=groups)
            known = exportable(decider).groups
            group = None if known is None else known.codes(groups, len(probs))
            feed = {} if group is None else {"group": group}
            in_onnx = run_onnx(head_model(decider, "probs", probs.dtype.name), probs=probs, **feed)
            head = pippin.torch.DecisionHead(decider, from_probs=True).half()
            reported = None if group is None else head.group_codes(groups)
            in_torch = head(torch.from_numpy(probs), reported)
            in_c = decisions_in_c(library, number, probs, group)
            for actions, certificates in (in_c, in_onnx.values(), in_torch):
                assert (np.asarray(actions) != wanted.codes).sum() == 0
                assert (np.asarray(certificates) != wanted.certificates).sum() == 0
    for number, stranger in ((2, -1), (3, 3)):
        decide, certificate = library[f"head{number}_decide"], ctypes.c_double()
        decide.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
        row, decider = DATA.probs[0].astype(np.float64), every[number][0]
        found = decide(row.ctypes.data, 9, ctypes.addressof(certificate))
        assert found == (-1 if stranger < 0 else decider.decide(row[None], groups=["far"]).codes[0])


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_decisions_and_sets_behind_a_classifier_of_any_opset(opset, cases):
    """Sets and decisions can be appended to classifiers of any opset; from 18 on, axes of reductions are inputs."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.DOUBLE, ["n", 12])]
    outputs = [helper.make_tensor_value_info("probs", TensorProto.DOUBLE, ["n", 12])]
    nodes = [helper.make_node("Softmax", ["x"], ["probs"], axis=1)]
    network = helper.make_model(
        helper.make_graph(nodes, "network", inputs, outputs),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=8,
    )
    logits = np.log(np.maximum(DATA.probs[:90], 1e-9)).astype(np.float64)
    decider = next(deciders())[0]
    found = run_onnx(appended_model(network, decider), x=logits)
    np.testing.assert_array_equal(found["actions"], decider.decide(found["probs"]).codes)
    found = run_onnx(appended_model(network, cases[0][0]), x=logits)
    np.testing.assert_array_equal(found["mask"], cases[0][0].predict(found["probs"]).mask)


def test_what_has_a_threshold_for_every_object_stays_in_python():
    weighted = pippin.calibrate(DATA.probs[:50], DATA.labels[:50], "pip", weights=np.ones(50))
    for export in (c_header, head_model, pippin.torch.ConformalHead):
        with pytest.raises(pippin.InputError, match=r"finitely many thresholds, got ConformalPredictor.*: only"):
            export(weighted)
    with pytest.raises(pippin.InputError, match="Expected a decider, got ConformalPredictor"):
        pippin.torch.DecisionHead(pippin.calibrate(DATA.probs, DATA.labels, "pip"))


def test_the_command_writes_them_too(cases, tmp_path, call):
    predictor = cases[0][0]
    predictor.save(tmp_path / "p.json")
    code, said, _ = call(f"export {tmp_path}/p.json --c {tmp_path}/p.h --onnx {tmp_path}/p.onnx")
    assert (code, said.count("with 12 classes is in")) == (0, 2)
    assert (tmp_path / "p.h").read_text() == c_header(pippin.load(tmp_path / "p.json"))


def test_a_threshold_of_units_leaves_too():
    """A predictor for clustered rows can be exported, since it has a single threshold."""
    made = pippin.calibrate(DATA.probs[:600], DATA.labels[:600], "pip", units=np.arange(600) // 6)
    wanted = made.predict(DATA.probs[600:1600])
    found = run_onnx(head_model(made, "probs", "float64"), probs=np.asarray(DATA.probs[600:1600], np.float64))
    assert np.array_equal(found["mask"], wanted.mask)
    assert exportable(made).thresholds.tolist() == [[made.threshold]]


@pytest.mark.parametrize("per", [None, "class", "group"])
def test_a_broken_row_is_acted_on_with_care_and_certifies_nothing(per):
    """A row with NaN gets the action with the best worst case, and a certificate of −∞."""
    probs = np.random.default_rng(0).dirichlet([1] * 4, 400)
    utility = pippin.decisions.Utility([[1, -5, -5, -5], [-1, 1, 1, 1], [0.2] * 4], actions=["spray", "leave", "ask"])
    groups = {"groups": np.arange(400) % 2} if per == "group" else {}
    decider = pippin.decisions.calibrate(
        probs, drawn_labels(probs, np.random.default_rng(0)), utility, 0.2, per=per, **groups
    )
    rows = probs[:3].copy()
    rows[1] = np.nan
    reported = {"group": np.array([0, 1, 0])} if groups else {}
    found = pippin.torch.DecisionHead(decider, from_probs=True)(
        torch.tensor(rows), **{name: torch.tensor(value) for name, value in reported.items()}
    )
    in_onnx = run_onnx(head_model(decider, "probs", "float64"), probs=rows, **reported)
    assert found.actions.tolist() == in_onnx["actions"].tolist()
    assert (int(found.actions[1]), float(found.certificates[1])) == (2, -np.inf)
    assert in_onnx["certificates"][1] == -np.inf
    assert np.isfinite(in_onnx["certificates"][[0, 2]]).all()
