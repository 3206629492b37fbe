"""Every method of every rule with NumPy, pandas, polars and torch input works or raises an InputError."""

import warnings

import numpy as np
import pandas as pd
import polars
import pytest
import torch

import pippin

DATA = pippin.load_example()
N, M = 600, 40
P, Y, Q, TRUE = DATA.probs[:N], DATA.labels[:N], DATA.probs[N : N + M], DATA.labels[N : N + M]
GROUPS = np.array(["north", "south"])
ROW_GROUPS = GROUPS[np.arange(M) % 2]
KINDS = {name: "crop" if number % 3 else "weed" for number, name in enumerate(DATA.classes)}
OTHER = slice(2000, 2300)
FITTED = pippin.sharpen(DATA.probs[OTHER], DATA.labels[OTHER], classes=DATA.classes, features=DATA.probs[OTHER, :2])

PREDICTORS = {  # keywords of calibrate, keywords of predict
    "marginal": ({}, {}),
    "confidence": ({"confidence": 0.9}, {}),
    "randomized": ({"score": "aps", "seed": 1}, {}),
    "class": ({"per": "class"}, {}),
    "group": ({"groups": GROUPS[np.arange(N) % 2]}, {"groups": ROW_GROUPS}),
    "class and group": ({"per": "class and group", "groups": GROUPS[np.arange(N) % 2]}, {"groups": ROW_GROUPS}),
    "groups": ({"per": "groups", "groups": P > 0.05}, {"groups": Q > 0.05}),
    "groups randomized": ({"per": "groups randomized", "groups": P > 0.05}, {"groups": Q > 0.05}),
    "largest group": ({"per": "largest group", "groups": P > 0.05}, {"groups": Q > 0.05}),
    "numeric groups": ({"per": "groups", "groups": P[:, :2]}, {"groups": Q[:, :2]}),
    "cluster": ({"per": "cluster", "seed": 1}, {}),
    "rc3p": ({"per": "rc3p"}, {}),
    "interpolated": ({"per": "interpolated", "seed": 1}, {}),
    "kind": ({"per": KINDS, "alpha": {"crop": 0.1, "weed": 0.2}}, {}),
    "units": ({"units": np.arange(N) // 5}, {}),
    "weights": ({"weights": 1 + P[:, 0]}, {"weights": 1 + Q[:, 0]}),
    "label ratios": ({"weights": pippin.shift.label_ratios(P, Y, Q)}, {"weights": pippin.shift.label_ratios(P, Y, Q)}),
    "folds": ({"folds": np.arange(N) % 2}, {}),
    "ip/ms": ({"score": "ip/ms", "seed": 1}, {}),
    "ip/ms sum": ({"score": "ip/ms(variant=sum)"}, {}),
    "sharpener": ({"sharpen": FITTED, "features": P[:, :2]}, {"features": Q[:, :2]}),
    "split": ({"sharpen": True}, {}),
    "split per class": ({"sharpen": "split", "per": "class"}, {}),
    "mixture": ({"sharpen": "mixture", "score": "aps"}, {}),
    "cross": ({"sharpen": "cross"}, {}),
}
NO_P_VALUES = {
    "rc3p",
    "ip/ms",
    "ip/ms sum",
    "groups",
    "groups randomized",
    "numeric groups",
}  # methods that need p-values raise an InputError
NO_EXPLANATION = {"folds", "cross"}  # with a score per model there is no explanation
NO_LIMITS = {"groups randomized", "numeric groups"}  # thresholds differ by object
NO_TABLE = {"units", "weights", "label ratios", "folds", "ip/ms", "ip/ms sum", "mixture", "cross", *NO_LIMITS}
ONE_THRESHOLD = {"marginal", "confidence", "randomized", "units", "sharpener", "split"}
FRAMES = {
    "numpy": lambda probs: probs,
    "pandas": lambda probs: pd.DataFrame(probs, columns=list(DATA.classes)),
    "polars": lambda probs: polars.DataFrame(probs, schema=list(DATA.classes)),
    "torch": torch.tensor,
}


@pytest.fixture(scope="module", params=PREDICTORS)
def kind(request):
    given, asked = PREDICTORS[request.param]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows per category
        return request.param, pippin.calibrate(P, Y, **{"score": "pip", **given}, classes=DATA.classes), asked


def rows(name, library):
    probs = FRAMES[library](Q)
    return [probs, probs] if name == "folds" else probs


@pytest.mark.parametrize("library", FRAMES)
def test_sets_p_values_and_points_from_every_library(kind, library):
    name, predictor, asked = kind
    probs = rows(name, library)
    sets = predictor.predict(probs, seed=3, **asked)
    plain = predictor.predict(rows(name, "numpy"), seed=3, **asked)
    assert sets.members.tolist() == plain.members.tolist()
    assert (predictor.predict(probs, seed=3, nonempty=True, **asked).sizes >= 1).all()
    if name in NO_P_VALUES:
        for method in (predictor.p_values, predictor.point_predictions):
            with pytest.raises(pippin.InputError, match="no p-value belongs to"):
                method(probs, **asked)
        return
    p = predictor.p_values(probs, seed=3, **asked)
    assert type(p).__module__.partition(".")[0] == ("numpy" if library == "torch" else library)
    levels = predictor.levels
    if name != "confidence":
        limit = predictor.alpha if levels is None else np.array([levels[KINDS[k]] for k in DATA.classes])
        assert np.array_equal(np.asarray(p) > limit, sets.mask)
    own = predictor.p_values(probs, TRUE, seed=3, **asked)
    assert np.array_equal(np.asarray(own), np.asarray(p)[np.arange(M), TRUE])
    points = predictor.point_predictions(probs, seed=3, **asked)
    assert set(points.labels) <= set(DATA.classes)
    assert len(points) == M
    if name == "units":
        with pytest.raises(pippin.InputError, match="leave smoothed= out"):
            predictor.p_values(probs, smoothed=True)
        return
    smoothed = predictor.p_values(probs, seed=3, smoothed=True, **asked)
    assert (np.asarray(smoothed) <= np.asarray(p) + 1e-12).all()


def test_one_object_at_a_time(kind):
    name, predictor, asked = kind
    sets = predictor.predict(rows(name, "numpy"), seed=3, **asked)
    if "seed" in predictor.takes:
        return  # u differs, and so do the sets
    for i in range(M):
        row = [Q[i], Q[i]] if name == "folds" else Q[i]
        one = {"groups": "group", "weights": "weight"}
        own = {one.get(key, key): value if isinstance(value, tuple) else value[i] for key, value in asked.items()}
        members = sets.members[sets.offsets[i] : sets.offsets[i + 1]]
        assert predictor.predict_one(row, **own).tolist() == members.tolist()
        assert len(predictor.predict_one(row, nonempty=True, **own)) >= 1
        if name in NO_EXPLANATION:
            with pytest.raises(pippin.InputError, match="look at its p_values instead"):
                predictor.explain(row, **own)
        else:
            inside = [one.name for one in predictor.explain(row, **own).classes if one.inside]
            assert inside == sets[i]


def test_at_save_and_describe_of_every_rule(kind, tmp_path):
    name, predictor, asked = kind
    predictor.save(tmp_path / "p.json")
    loaded = pippin.load(tmp_path / "p.json")
    assert type(loaded) is pippin.ConformalPredictor
    assert (repr(loaded), loaded.describe()) == (repr(predictor), predictor.describe())
    sets = predictor.predict(rows(name, "numpy"), seed=3, **asked)
    assert loaded.predict(rows(name, "numpy"), seed=3, **asked).members.tolist() == sets.members.tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert predictor.at(0.3).alpha == 0.3
        assert predictor.at(0.3).predict(rows(name, "numpy"), seed=3, **asked).sizes.sum() <= sets.sizes.sum()
    assert 0 <= predictor.guarantee <= 1 - predictor.alpha
    assert predictor.n_effective <= predictor.n_calibration == loaded.n_calibration
    for attribute, those in (("threshold", ONE_THRESHOLD), ("table", set(PREDICTORS) - NO_TABLE)):
        if name in those:
            assert getattr(predictor, attribute) is not None
        else:
            with pytest.raises(pippin.InputError, match="Expected a predictor with"):
                getattr(predictor, attribute)()


def test_unused_keywords_raise(kind):
    name, predictor, asked = kind
    for key, value in {"groups": ROW_GROUPS, "weights": np.ones(M), "features": Q[:, :2]}.items():
        if key in asked:
            with pytest.raises(pippin.InputError):
                predictor.predict(rows(name, "numpy"), **{k: v for k, v in asked.items() if k != key})
        else:
            with pytest.raises(pippin.InputError, match=r"leave (groups=|weights=|them) out|leave features= out"):
                predictor.predict(rows(name, "numpy"), **{**asked, key: value})


def test_plots_of_every_rule(kind):
    import matplotlib.pyplot as plt

    name, predictor, _ = kind
    if name.startswith("ip/ms"):
        with pytest.raises(pippin.InputError, match="no picture"):
            predictor.plot()
    elif name in NO_LIMITS:
        with pytest.raises(pippin.InputError, match="Expected a predictor with thresholds per category"):
            predictor.plot()
    else:
        assert predictor.plot().get_title() is not None
    plt.close("all")


CONTRADICTIONS = [
    {"per": "class", "units": np.arange(N)},
    {"weights": np.ones(N), "folds": np.arange(N) % 2},
    {"score": "ip/ms", "per": "class"},
    {"folds": np.arange(N) % 2, "sharpen": FITTED},
    {"units": np.arange(N), "confidence": 0.9},
    {"per": "rc3p", "confidence": 0.9},
    {"confidence": 1.5},
    {"sharpen": "mixture", "per": "class"},
    {"sharpen": "both"},
    {"features": P},
    {"score": "socop(max_size=2)", "sharpen": "cross"},
]


@pytest.mark.parametrize("given", CONTRADICTIONS, ids=lambda given: " ".join(map(str, given)))
def test_contradicting_keywords_raise(given):
    with pytest.raises(pippin.InputError):
        pippin.calibrate(P, Y, **given)


def test_evaluating_on_calibration_rows_is_warned_of(kind):
    """Every predictor with stored scores that are not randomized recognizes its calibration rows, and no other rows."""
    name, predictor, asked = kind
    old = {**asked, **{key: value for key, value in PREDICTORS[name][0].items() if key in asked}}

    def warnings_on(probs, labels, **keywords):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            pippin.evaluate(predictor, labels, probs=[probs, probs] if name == "folds" else probs, seed=1, **keywords)
        return [
            str(one.message) for one in caught if "seem to be calibration rows of the predictor" in str(one.message)
        ]

    assert warnings_on(Q, TRUE, **asked) == []
    assert len(warnings_on(P, Y, **old)) == (predictor.score != "ip/ms" and not predictor.score.randomized)
