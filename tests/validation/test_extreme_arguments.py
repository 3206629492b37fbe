"""Extreme arguments of public functions and methods: a result or one sentence, never another exception.

Each argument of a valid call is replaced by extreme values: some of them, and all with HYPOTHESIS_PROFILE=thorough.
Estimators of scikit-learn and `forward` of torch modules follow the conventions of those libraries.
"""

import os
from decimal import Decimal
from fractions import Fraction
from itertools import cycle, islice

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch

import pippin
from support.public_names import PUBLIC

pytestmark = pytest.mark.filterwarnings("ignore")
N, CHOSEN = 60, 4
RNG = np.random.default_rng(0)
P, Q = RNG.dirichlet(np.ones(3), (2, N))
Y, GROUPS, NAMES = RNG.integers(0, 3, N), np.array(["a", "b"])[np.arange(N) % 2], ("crop", "soil", "weed")
KINDS = {"crop": "crop", "soil": "rest", "weed": "rest"}
EXTREME = {
    **{
        repr(number): number for number in (float("nan"), float("inf"), -float("inf"), -1, 0, 1e308, 5e-324, 0.5, 2**63)
    },
    "10**400": 10**400,
    "-10**400": -(10**400),
    "true": True,
    "none": None,
    "complex": 1j,
    "empty text": "",
    "text": "x",
    "null": "a\0b",
    "surrogate": "\ud800",
    "long text": "x" * 100_000,
    "bytes": b"x",
    "list": [],
    "nested": [[[]]],
    "dict": {},
    "dict of 1": {"a": 1},
    "set": {1, 2},
    "object": object(),
    "list of nan": [float("nan")],
    "huge": [10**400] * 3,
    "range": range(10**15),
    "long": list(range(100_000)),
    "0-d": np.array(0.5),
    "0-d object": np.array(None),
    "float16": np.float16(0.1),
    "int8": np.int8(-1),
    "no rows": np.zeros(0),
    "shape": np.full((2, 2, 2), 0.5),
    "nan": np.full((N, 3), np.nan),
    "dates": np.full(N, "NaT", "M8[s]"),
    "objects": np.array([[1]] * N + [None], object)[:N],
    "text array": np.full(N, "x"),
    "bool": np.ones(N, bool),
    "decimal": Decimal("NaN"),
    "fraction": Fraction(1, 3),
    "frame": pd.DataFrame({"a": ["x"]}),
    "tensor": torch.tensor(np.nan),
}
UNCHECKED = {  # truth values in the fastest method; a method without checks, by its docstring
    *{(f"pippin.{name}.predict_one", "nonempty") for name in ("ConformalPredictor", "decisions.RiskController")},
    ("pippin.PredictionSets.contain_codes", "codes"),
}


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """Return valid calls by name: the function, and its arguments."""
    folder = tmp_path_factory.mktemp("calls")
    decisions, online = pippin.decisions, pippin.online
    frame = pd.DataFrame(P, columns=NAMES).assign(label=np.array(NAMES)[Y])
    frame.to_csv(folder / "t.csv", index=False)
    (folder / "u.csv").write_text("action,crop,soil,weed\nspray,1,-2,0\nleave,-1,1,1\n")
    utility, named = decisions.Utility.read(folder / "u.csv"), {"classes": NAMES}
    of_kinds = decisions.Utility([[1, -2], [-1, 1]], actions=("a", "b"), classes=("crop", "rest"), kinds=KINDS)
    data, settings = {"probs": P, "labels": Y, **named}, {"alpha": 0.3, "seed": 0}
    predictor = pippin.calibrate(P, Y, "ip", 0.3, **named)
    grouped = pippin.calibrate(P, Y, "aps", 0.3, seed=0, groups=GROUPS, **named)
    weighted = pippin.calibrate(P, Y, "ip", 0.3, weights=np.ones(N), **named)
    sharpener = pippin.sharpen(P, Y, features=P[:, :2], **named)
    sharpened = pippin.calibrate(Q, Y, "ip", 0.3, sharpen=sharpener, features=Q[:, :2], **named)
    decider = decisions.calibrate(P, Y, utility, 0.3, **named)
    risk, sets = decisions.control_risk(P, Y, [1.0, 0.5, 0.2], 0.3, **named), predictor.predict(P)
    selective = decisions.select(P, Y, error=0.6, confidence=0.6, **named)
    comparison = pippin.compare(P, Y, ["ip", "aps"], 0.3, splits=3, **named)
    calibration = pippin.distributed.Calibration("ip", 0.3, per="group", **named)
    stream, monitor = online.Stream(predictor, seed=0), online.Monitor(predictor, seed=0)
    with_groups, table = online.Stream(grouped, seed=0), pippin.scan(folder / "t.csv")
    for name, saved in (("p", predictor), ("s", stream), ("m", monitor), ("r", online.RiskMonitor(0.1))):
        saved.save(folder / f"{name}.json")
    row, one, out = {"row": P[0]}, {"row": P[0], "group": "a"}, {"path": folder / "out.json"}
    record = {"data": [folder / "t.csv"], "date": "", "by": "", "command": "", "training": ""}
    many, compared = {"probs": P, "groups": GROUPS, "seed": 0}, {**data, "alpha": 0.3, "splits": 2, "seed": 0}
    logits = {"model_or_logits": torch.tensor(np.log(P)), "loader_or_labels": torch.tensor(Y), **named}
    saved = {"Decider": decider, "RiskController": risk, "SelectiveClassifier": selective}
    made = [
        *(
            (f"decisions.{name}.{method}", each, keys)
            for name, each in saved.items()
            for method, keys in (("save", out), ("with_provenance", record))
        ),
        ("decisions.Decider.decide", decider, {"probs": P, "groups": None, "seed": None, "from_logits": False}),
        ("decisions.Decider.decide_one", decider, {**row, "group": None, "seed": None}),
        ("decisions.Decider.at", decider, {"alpha": 0.2}),
        ("decisions.RiskController.predict", risk, {"probs": P, "seed": None, "nonempty": False, "from_logits": False}),
        ("decisions.RiskController.predict_one", risk, {**row, "seed": None}),
        ("decisions.RiskController.at", risk, {"level": 0.2}),
        ("decisions.SelectiveClassifier.predict", selective, {"probs": P, "from_logits": False}),
        ("decisions.Utility.policy", utility, named),
        ("decisions.Utility.of", utility, named),
        ("decisions.Utility.kind_of", of_kinds, named),
        ("decisions.Utility.read", None, {"path": folder / "u.csv"}),
        ("decisions.Utility", None, {"values": np.eye(3), "actions": ("a", "b", "c"), **named, "kinds": None}),
        ("decisions.Utility", None, {"values": {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 0}}}),
        ("decisions.best_response", None, {"probs": P, "utility": utility, **named}),
        ("decisions.calibrate", None, {**data, "utility": utility, "alpha": 0.3, "per": "group", "groups": GROUPS}),
        ("decisions.calibrate", None, {**data, "utility": of_kinds, "alpha": {"crop": 0.3, "rest": 0.2}, "per": KINDS}),
        ("decisions.calibrate", None, {**data, "utility": utility, "units": np.arange(N) // 2, "seed": 0}),
        ("decisions.compare", None, {**compared, "utility": utility, "scores": ["ip"], "calibration_fraction": 0.5}),
        ("decisions.control_risk", None, {**data, "loss": [1, 0.5, 0.2], "level": 0.3, "score": "ip", "bound": None}),
        ("decisions.decide", None, {"sets": sets, "utility": utility, "fallback": None}),
        (
            "decisions.evaluate",
            None,
            {
                "decisions": decider.decide(P),
                "labels": Y,
                "utility": utility,
                "alpha": 0.3,
                "units": np.arange(N) // 2,
                "n_calibration": 10,
                "predictor": None,
            },
        ),
        ("decisions.select", None, {**data, "error": 0.5, "confidence": 0.6, "per": None}),
        ("distributed.Calibration.part", calibration, {"probs": P, "labels": Y, "groups": GROUPS, "first": 0}),
        ("distributed.Calibration.merge", calibration, {"parts": [calibration.part(P, Y, groups=GROUPS)]}),
        (
            "distributed.Calibration",
            None,
            {"score": "ip", **settings, **named, "per": "class", "unseen": "error", "most_scores": 10},
        ),
        ("distributed.Scan.row_range", table.read_all() and table, {"start": 0, "stop": 5}),
        ("distributed.Scan.batches", table, {"start": 0}),
        *((f"metrics.{name}", None, {"sets": sets}) for name in ("mean_size", "singleton_rate", "empty_rate")),
        *((f"metrics.{name}", None, {"sets": sets, "labels": Y}) for name in ("coverage", "singleton_accuracy")),
        *((f"metrics.{name}", None, {"sets": sets, "labels": Y, "alpha": 0.3}) for name in ("covgap", "sscv")),
        *(
            (f"online.{name}.load", None, {"path": folder / f"{name[0].lower()}.json"})
            for name in ("Stream", "Monitor", "RiskMonitor")
        ),
        *((f"online.{name}.save", each, out) for name, each in (("Stream", stream), ("Monitor", monitor))),
        ("online.Monitor", None, {"predictor": predictor, "delta": 0.01, "reference": P[:, 0], "seed": 0}),
        ("online.Monitor", None, {"predictor": predictor, "mean_time": 20, "detector": "cusum", "seed": 0}),
        ("online.Monitor.update", monitor, {**row, "label": 0, "group": None}),
        ("online.RiskMonitor", None, {"alpha": 0.1, "tolerance": 0.02, "delta": 0.01}),
        ("online.RiskMonitor.update", online.RiskMonitor(0.1), {"missed": True}),
        ("online.Stream", None, {"predictor": predictor, "update": "aci", "rate": 0.1, "seed": 0}),
        ("online.Stream", None, {"predictor": predictor, "update": "window", "window": 5}),
        ("online.Stream.predict_one", stream, {**row, "group": None}),
        ("online.Stream.predict_one", with_groups, one),
        ("online.Stream.learn", stream, {"ticket": stream.predict_one(P[0]), "label": 0}),
        ("scores.aps", None, {"randomized": True}),
        ("scores.raps", None, {"lam": 0.1, "k_reg": 2, "randomized": True}),
        ("scores.repip", None, {"gamma": 0.1, "k_reg": 2, "beta": 1}),
        ("scores.socop", None, {"mu": 1}),
        ("scores.linear", None, {"weights": [1, 0.5], "penalties": [0]}),
        ("scores.parse", None, {"text": "ip"}),
        ("scores.score", None, {"probs": P, "labels": Y, "score": "aps", "seed": 0, "from_logits": False}),
        ("shift.discoveries", None, {"p": [0.1, 0.2], "level": 0.1}),
        ("shift.label_ratios", None, {**data, "new_probs": Q, "method": "confusion"}),
        ("shift.likelihood_ratios", None, {"p_target": P[:, 0], "n_source": 3, "n_target": 3}),
        ("shift.LabelRatios.of", pippin.shift.label_ratios(P, Y, Q, **named), {"labels": Y}),
        ("shift.LabelRatios.agreeing", pippin.shift.label_ratios(P, Y, Q, **named), named),
        (
            "shift.novelty",
            None,
            {"predictor": predictor, "probs": P, "reference": Q, "per": None, "measure": "surprise"},
        ),
        ("calibrate", None, {**data, **settings, "score": "aps", "per": "group", "groups": GROUPS, "unseen": "error"}),
        ("calibrate", None, {**data, **settings, "units": np.arange(N) // 2, "confidence": None, "per": None}),
        ("calibrate", None, {**data, "alpha": {"crop": 0.3, "rest": 0.2}, "per": KINDS}),
        ("calibrate", None, {**data, "weights": np.ones(N)}),
        ("calibrate", None, {**data, "folds": np.arange(N) % 2}),
        ("calibrate", None, {**data, "probs": Q, "sharpen": sharpener, "features": Q[:, :2]}),
        (
            "compare",
            None,
            {**compared, "scores": ["ip"], "calibration_fraction": 0.5, "groups": None, "checkpoint": None},
        ),
        ("differences", None, {"comparison": comparison, "metric": "coverage", "level": 0.9}),
        (
            "evaluate",
            None,
            {"sets": sets, "labels": Y, "alpha": 0.3, "groups": GROUPS, "units": None, "n_calibration": 9},
        ),
        ("examples_for", None, {"alpha": 0.1, "within": 0.05, "delta": 0.05, "side": "both"}),
        ("load", None, {"path": folder / "p.json"}),
        ("plan", None, {"alpha": 0.1, "n": 100, "delta": 0.05, "test": 50}),
        (
            "scan",
            None,
            {"paths": folder / "t.csv", "label": "label", "classes": NAMES, "prefix": None, "labels_are": None},
        ),
        ("sharpen", None, {**data, "features": Q[:, :2], "seed": 0}),
        (
            "sweep",
            None,
            {**compared, "score": "raps", "parameter": "lam", "values": [0, 0.1], "calibration_fraction": 0.5},
        ),
        (
            "tune",
            None,
            {**compared, "scores": ["ip", "aps"], "prefer": "singletons", "max_size": 3, "tuning_fraction": 0.5},
        ),
        ("Comparison.metric", comparison, {"name": "coverage"}),
        ("Comparison.plot", comparison, {"what": "front"}),
        ("Comparison.restricted", comparison, {"methods": comparison.scores[:1]}),
        ("ConformalPredictor.predict", grouped, {**many, "nonempty": False, "from_logits": False}),
        ("ConformalPredictor.predict", weighted, {"probs": P, "weights": np.ones(N)}),
        ("ConformalPredictor.predict", sharpened, {"probs": Q, "features": Q[:, :2]}),
        ("ConformalPredictor.p_values", grouped, {**many, "labels": Y, "smoothed": False}),
        ("ConformalPredictor.predict_one", grouped, {**one, "seed": 0}),
        ("ConformalPredictor.predict_one", predictor, {**row, "seed": 0}),
        ("ConformalPredictor.predict_one", weighted, {**row, "weight": 1.0}),
        ("ConformalPredictor.explain", sharpened, {**row, "features": Q[0, :2]}),
        ("ConformalPredictor.at", predictor, {"alpha": 0.2}),
        ("ConformalPredictor.save", predictor, out),
        ("Evaluation.plot", pippin.evaluate(sets, Y), {"what": "class"}),
        ("Plan.within", pippin.plan(0.1, 100), {"distance": 0.1}),
        ("Plan.below", pippin.plan(0.1, 100), {"by": 0.1}),
        ("PredictionSets.contains", sets, {"labels": Y}),
        ("PredictionSets.flagged", sets, {"novel": np.zeros(N, bool)}),
        ("PredictionSets.from_mask", None, {"mask": np.ones((4, 3), bool), **named}),
        ("PredictionSets.from_labels", None, {"sets": [["crop"], []], **named}),
        ("Sharpener.one", sharpener, {**row, "features": P[0, :2]}),
        ("Sharpener.save", sharpener, out),
        ("torch.ConformalHead", None, {"predictor": predictor, "from_probs": False, "max_size": 2}),
        ("torch.DecisionHead", None, {"decider": decider}),
        ("torch.probabilities", None, {"logits": torch.tensor(P)}),
        (
            "torch.calibrate",
            None,
            {**logits, "alpha": 0.3, "per": "group", "groups": GROUPS, "unseen": "error", "seed": 0},
        ),
        ("export.onnx.head_model", None, {"predictor": predictor, "source": "probs", "dtype": "float32", "opset": 17}),
        ("export.c_header.c_header", None, {"predictor": predictor, "prefix": "pippin"}),
    ]
    return [(f"pippin.{name}", each, arguments) for name, each, arguments in made]


def call(name, instance, arguments):
    """Call a function, a constructor, or a method of the instance; exhaust an iterator."""
    owner, _, last = name.rpartition(".")
    function = PUBLIC[name] if name in PUBLIC else getattr(PUBLIC[owner] if instance is None else instance, last)
    result = function(**arguments)
    return list(result) if hasattr(result, "__next__") else result


def test_an_extreme_argument_gives_a_result_or_one_sentence(calls, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some paths are names of files
    values, wrong = cycle(EXTREME.items()), []
    chosen = len(EXTREME) if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else CHOSEN
    for name, instance, arguments in calls:
        call(name, instance, arguments)
        for argument in arguments:
            if (name, argument) in UNCHECKED:
                continue
            for label, value in islice(values, chosen):
                try:
                    call(name, instance, arguments | {argument: value})
                except pippin.InputError as error:
                    text = str(error)
                    if not text.endswith(".") or not text.isprintable() or len(text) > 1500:
                        wrong.append((name, argument, label, text))
                except OSError:  # of a path that does not exist
                    assert argument in ("path", "paths", "data", "checkpoint"), (name, argument, label)
                except MemoryError:  # NumPy takes no memory for an array that is larger than the memory
                    assert label == "range"
                except Exception as error:  # any other exception is a failure
                    wrong.append((name, argument, label, repr(error)[:200]))
        plt.close("all")
    assert wrong == []
