"""Groups that may overlap: coverage in every group at once, against the full linear program and in every odd case."""

import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import linprog
from scipy.stats import binom

import pippin
import pippin.torch
from pippin.export.c_header import c_header
from pippin.export.onnx import head_model
from support.exported_code import compiled, padded, run_onnx, sets_in_c
from support.predictor_files import check_wrong_parts

DATA = pippin.load_example()
N = 1500
P, Y, Q, TRUE = DATA.probs[:N], DATA.labels[:N], DATA.probs[N:], DATA.labels[N:]
TOP = np.sort(DATA.probs, axis=1)
ALL = np.column_stack([TOP[:, -1] < 0.9, TOP[:, -2] > 0.2, DATA.probs.argmax(axis=1) < 6])
NAMES = ["unsure", "close", "first half"]
G, H = ALL[:N], ALL[N:]
SHARP, RANDOM, LARGEST = "groups", "groups randomized", "largest group"
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def calibrated(scores, groups, alpha, per=SHARP):
    """Calibrate on rows whose label has these scores under the score ip."""
    probs = np.column_stack([1 - scores, scores])
    return pippin.calibrate(probs, np.zeros(len(scores), dtype=int), "ip", alpha, per=per, groups=groups)


def covered(predictor, score, group, seed=None):
    return 0 in predictor.predict_one(np.array([1 - score, score]), group=group, seed=seed)


def world(rng, n, ties):
    """Draw scores from 0 to 1 and overlapping groups; the scores depend on the groups."""
    groups = rng.random((n, 3)) < rng.uniform(0.3, 0.8, 3)
    groups[0] = True
    if rng.random() < 0.3:
        groups[:, 2] = groups[:, 0]  # collinear
    scores = rng.random(n) * (0.4 + 0.2 * groups.sum(axis=1)) * 0.9
    if ties:  # also with scores of 1, those of probability 0
        scores = np.minimum(np.round(scores * 9) / 8, 1)
    return scores, groups


@pytest.mark.parametrize("per", [SHARP, LARGEST])
@pytest.mark.parametrize(
    ("n", "alpha", "ties"), [(12, 0.2, False), (12, 0.25, True), (30, 0.1, True), (31, 0.13, False)]
)
def test_each_row_left_out_is_covered_often_enough_in_every_group(per, n, alpha, ties):
    """The law holds for every set of n + 1 rows, if each is left out once, so exchangeability gives coverage."""
    rng = np.random.default_rng(n)
    for _ in range(8):
        scores, groups = world(rng, n + 1, ties)
        hits = np.zeros(n + 1, dtype=bool)
        for i in range(n + 1):
            others = np.arange(n + 1) != i
            if not groups[others].any(axis=0).all():
                hits[i] = True  # the only row of a group: an infinite threshold
                continue
            hits[i] = covered(calibrated(scores[others], groups[others], alpha, per), scores[i], groups[i])
        for members in (*groups.T, np.ones(n + 1, dtype=bool)):
            assert hits[members].sum() >= (1 - alpha) * members.sum() - 1e-9


def test_randomized_sets_cover_exactly_in_every_group():
    """Left out once each, rows without ties are covered with a mean probability of exactly 1 − alpha."""
    rng = np.random.default_rng(5)
    levels = (np.arange(400) + 0.5) / 400

    class Levels(np.random.Generator):
        """Generator whose numbers are evenly spaced in (0, 1)."""

        def random(self, n):
            return levels

    for alpha in (0.1, 0.3):
        scores, groups = world(rng, 25, False)
        hits = np.zeros(25)
        for i in range(25):
            others = np.arange(25) != i
            predictor = calibrated(scores[others], groups[others], alpha, RANDOM)
            row = np.tile([1 - scores[i], scores[i]], (400, 1))
            own = np.tile(groups[i], (400, 1))
            sets = predictor.predict(row, groups=own, seed=Levels(np.random.PCG64(0)))
            hits[i] = sets.contain_codes(np.zeros(400, dtype=int)).mean()
        for members in (*groups.T, np.ones(25, dtype=bool)):
            assert hits[members].mean() == pytest.approx(1 - alpha, abs=1 / 400)


@pytest.mark.parametrize("per", [SHARP, RANDOM, LARGEST])
def test_coverage_in_simulated_worlds_of_thirty_rows_per_group(per):
    """A new member of each group is covered in at least 1 − alpha of the worlds, up to an exact binomial bound."""
    rng, alpha, worlds = np.random.default_rng(1), 0.1, 300
    hits = np.zeros(3)
    for _ in range(worlds):
        groups = np.zeros((60, 3), dtype=bool)
        for g in range(3):
            groups[rng.choice(60, 30, replace=False), g] = True
        spread = 0.3 + 0.3 * groups[:, 0] + 0.3 * groups[:, 1]
        scores = rng.random(60) * spread
        predictor = calibrated(scores, groups, alpha, per)
        for g in range(3):
            own = groups[rng.choice(np.flatnonzero(groups[:, g]))]
            hits[g] += covered(predictor, rng.random() * (0.3 + 0.3 * own[0] + 0.3 * own[1]), own, rng)
    assert (hits >= binom.ppf(1e-6, worlds, 1 - alpha)).all()
    if per == RANDOM:
        assert (hits <= binom.ppf(1 - 1e-6, worlds, 1 - alpha)).all()


def value(scores, phi, new, own, alpha):
    """Solve the dual linear program of all rows with the new object at the value `new`."""
    problem = {"A_eq": np.vstack([phi, own]).T, "b_eq": np.zeros(phi.shape[1]), "bounds": [(-alpha, 1 - alpha)]}
    return -linprog(-np.append(scores, new), **problem, method="highs").fun


@pytest.mark.parametrize("case", range(30))
def test_threshold_is_that_of_the_full_linear_program(case):
    """The optimal value is convex in −log p of the new label; its slope reaches 1 − alpha at the threshold."""
    rng = np.random.default_rng(case)
    n, alpha, step = int(rng.integers(8, 50)), float(rng.choice([0.05, 0.1, 0.2, 0.25])), 1e-4
    scores, groups = world(rng, n, case % 2)
    scores = np.minimum(scores, 0.97)
    numeric = case % 5 == 4
    features = rng.normal(size=(n, 2)) if numeric else groups
    own = rng.normal(size=2) if numeric else (rng.random(3) < 0.5)
    phi, new = np.column_stack([np.ones(n), features]), np.append(1, own)
    predictor = calibrated(scores, features, alpha)
    limit = predictor.explain(np.array([0.5, 0.5]), group=own).classes[0].threshold

    def slope(at):
        values = -np.log(1 - scores)
        return (value(values, phi, at, new, alpha) - value(values, phi, at - step, new, alpha)) / step

    if np.isinf(limit):
        assert slope(500) < 1 - alpha - 1e-9
    else:
        assert slope(-np.log(1 - limit) - 1e-6) < 1 - alpha + 1e-6
        assert slope(-np.log(1 - limit) + 2 * step) > 1 - alpha - 1e-6


def test_disjoint_groups_have_the_thresholds_of_one_group_per_row():
    """Also with ties, and for numbers of rows at which (n + 1)(1 − alpha) is a whole number."""
    for n in (40, 38, 500):
        codes = np.arange(n) % 2
        scores = np.round(TOP[:n, 0] * 1e4) if n == 38 else TOP[:n, 0]
        scores = scores / (1 + scores.max())
        probs, labels = np.column_stack([1 - scores, scores]), np.zeros(n, dtype=int)
        plain = pippin.calibrate(probs, labels, "ip", groups=codes)
        both = [pippin.calibrate(probs, labels, "ip", per=SHARP, groups=given) for given in (np.eye(2)[codes], codes)]
        for predictor in both:
            assert sorted(predictor.thresholds.ravel()) == sorted(plain.thresholds[:, 0])


def test_largest_group_and_its_p_values():
    predictor = pippin.calibrate(P, Y, "pip", per=LARGEST, groups=G)
    scores = pippin.scores.score(P, Y, "pip")
    every = [scores, *(scores[G[:, g]] for g in range(3))]

    def kth(own):
        return np.sort(own)[-(-(len(own) + 1) * 9 // 10) - 1]

    new, rows = pippin.scores.score(Q, None, "pip"), np.column_stack([np.ones(len(H), dtype=bool), H])
    limits = np.array([max(kth(own) for own, inside in zip(every, row, strict=True) if inside) for row in rows])
    sets = predictor.predict(Q, groups=H)
    assert np.array_equal(sets.mask, new <= limits[:, None])
    p = predictor.p_values(Q, groups=H)
    for i in range(0, len(Q), 301):
        each = [(1 + (own >= new[i, 4]).sum()) / (len(own) + 1) for own, one in zip(every, rows[i], strict=True) if one]
        assert p[i, 4] == max(each)
    assert np.array_equal(p > 0.1, sets.mask)
    assert (predictor.p_values(Q, groups=H, smoothed=True, seed=0) <= p).all()


def test_true_label_is_in_the_set_if_its_score_is_at_most_the_threshold(tmp_path):
    for per in (SHARP, LARGEST):
        predictor = pippin.calibrate(P, Y, "pip", per=per, groups=G, classes=DATA.classes)
        predictor.save(tmp_path / "p.json")
        for one in (predictor, pippin.load(tmp_path / "p.json"), pickle.loads(pickle.dumps(predictor))):  # noqa: S301 - our own
            limits = one.thresholds[one.group_codes(H, len(H)), 0]
            inside = one.predict(Q, groups=H).contain_codes(TRUE)
            assert np.array_equal(inside, pippin.scores.score(Q, TRUE, "pip") <= limits)
            assert np.array_equal(one.thresholds, predictor.thresholds)


def test_combinations_without_calibration_rows_have_a_threshold_but_no_export():
    both = G[:, 0] & ~G[:, 1] & G[:, 2]
    predictor = pippin.calibrate(P[~both], Y[~both], "pip", per=SHARP, groups=G[~both])
    assert len(predictor.groups) == 5
    assert predictor.predict(Q, groups=H).contain_codes(TRUE).mean() > 0.85
    with pytest.raises(pippin.InputError, match=r"has no calibration rows"):
        predictor.group_codes(H, len(H))


def test_exports_use_the_combination_as_the_group(tmp_path):
    predictor = pippin.calibrate(P, Y, "pip", per=SHARP, groups=pd.DataFrame(G, columns=NAMES))
    sets = predictor.predict(Q, groups=H)
    head = pippin.torch.ConformalHead(predictor, from_probs=True)
    assert head(torch.tensor(Q), group=head.group_codes(H)).sizes.tolist() == sets.sizes.tolist()
    code = predictor.group_codes(H, len(H))
    in_onnx = run_onnx(head_model(predictor, "probs", Q.dtype.name), probs=Q, group=code)
    assert in_onnx["sizes"].tolist() == sets.sizes.tolist()
    assert np.array_equal(sets_in_c(compiled([predictor], tmp_path), 0, Q, np.zeros(len(Q)), code), padded(sets))
    for given in ({"per": RANDOM, "groups": G}, {"per": SHARP, "groups": P[:, :2]}):
        with pytest.raises(pippin.InputError, match="Expected a threshold for each combination"):
            c_header(pippin.calibrate(P, Y, "pip", **given))
    with pytest.raises(pippin.InputError, match="call its p_values in Python"):
        pippin.torch.PValueHead(predictor)


def test_names_select_columns_and_text_names_combinations():
    frame = pd.DataFrame(ALL, columns=NAMES)
    predictor = pippin.calibrate(P, Y, "pip", per=SHARP, groups=frame[:N])
    sets = predictor.predict(Q, groups=H)
    turned = frame[N:].reset_index(drop=True)[NAMES[::-1]]
    texts = [" & ".join(np.array(NAMES)[row]) or "none" for row in ALL]
    from_text = pippin.calibrate(P, Y, "pip", per=SHARP, groups=texts[:N])
    for other in (
        predictor.predict(Q, groups=turned),
        predictor.predict(Q, groups=texts[N:]),
        from_text.predict(Q, groups=texts[N:]),
        from_text.predict(Q, groups=turned),
    ):
        assert other.members.tolist() == sets.members.tolist()
    assert predictor.predict_one(Q[0], group=texts[N]).tolist() == predictor.predict_one(Q[0], group=H[0]).tolist()


def test_redundant_groups_change_nothing():
    plain = pippin.calibrate(P, Y, "pip", per=SHARP, groups=G).predict(Q, groups=H)
    for more in (lambda g: g[:, [0]], lambda g: np.ones((len(g), 1)), lambda g: ~g[:, [1]]):
        wide = [np.hstack([g, more(g)]) for g in (G, H)]
        assert pippin.calibrate(P, Y, "pip", per=SHARP, groups=wide[0]).predict(Q, groups=wide[1]).mask.tolist() == (
            plain.mask.tolist()
        )


@pytest.mark.filterwarnings("default::UserWarning")
def test_too_small_groups_get_all_classes_and_are_named():
    small = np.zeros(N, dtype=bool)
    small[:8] = True
    frame = pd.DataFrame({"large": G[:, 0], "small": small})
    for per in (SHARP, LARGEST):
        with pytest.warns(UserWarning, match=r"1 of 2 groups have fewer than the 9 .*small \(8\)"):
            predictor = pippin.calibrate(P, Y, "pip", per=per, groups=frame)
        new = np.column_stack([H[:, 0], np.arange(len(H)) % 2])
        sizes = predictor.predict(Q, groups=new).sizes
        assert (sizes[1::2] == 12).all()
        assert sizes[::2].mean() < 3
    small[8] = True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nine = pippin.calibrate(P, Y, "pip", per=SHARP, groups=np.column_stack([G[:, 0], small]))
    assert np.isfinite(nine.thresholds).all()


def test_infinite_scores_count_as_the_largest():
    """More than a share alpha of infinite scores in a group makes its threshold infinite, and no other."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.2, 1, 400)
    p[:20] = 0  # an infinite score of SOCOP
    groups = np.column_stack([np.arange(400) < 60, np.arange(400) % 2 == 0])
    probs, labels = np.column_stack([p, 1 - p]), np.zeros(400, dtype=int)
    assert np.isinf(pippin.scores.score(probs[:20], labels[:20], "socop")).all()
    predictor = pippin.calibrate(probs, labels, "socop", per=SHARP, groups=groups)
    limits = dict(zip(predictor.groups, predictor.thresholds.ravel(), strict=True))
    assert np.isinf([limits["0"], limits["0 & 1"]]).all()
    assert np.isfinite([limits["none"], limits["1"]]).all()


def test_other_levels_and_randomness():
    predictor = pippin.calibrate(P, Y, "aps", per=RANDOM, groups=G, seed=1)
    assert predictor.takes == {"groups", "seed"}
    same = pippin.calibrate(P, Y, "aps", 0.2, per=RANDOM, groups=G, seed=1)
    one, two = predictor.at(0.2).predict(Q, groups=H, seed=3), same.predict(Q, groups=H, seed=3)
    assert one.members.tolist() == two.members.tolist()
    assert one.members.tolist() != same.predict(Q, groups=H, seed=4).members.tolist()


WRONG = [
    ({"groups": G}, "pass per='groups'"),
    ({"groups": G, "per": "group"}, "pass per='groups'"),
    ({"per": SHARP}, "pass a matrix of 0 and 1"),
    ({"per": SHARP, "groups": G[:9]}, "Expected groups of shape"),
    ({"per": SHARP, "groups": np.full((N, 2), np.nan)}, "expected a finite number"),
    ({"per": SHARP, "groups": np.column_stack([G, np.zeros(N)])}, "got none in 3"),
    ({"per": LARGEST, "groups": P[:, :2]}, "pass per='groups'"),
    ({"per": SHARP, "groups": G, "confidence": 0.9}, "without per='groups'"),
    ({"per": SHARP, "groups": G, "unseen": "marginal"}, "leave it out"),
    ({"per": SHARP, "groups": G, "weights": np.ones(N)}, "choose one of them"),
    ({"per": SHARP, "groups": pd.DataFrame(G, columns=["a & b", "c", "d"])}, "rename the columns"),
    ({"per": SHARP, "groups": ["none"] * N}, "pass a matrix of 0 and 1"),
]


@pytest.mark.parametrize(("given", "message"), WRONG)
def test_wrong_calls_say_what_to_do(given, message):
    with pytest.raises(pippin.InputError, match=message):
        pippin.calibrate(P, Y, "pip", **given)


def test_wrong_groups_of_new_objects():
    from scipy.sparse import csr_matrix

    predictor = pippin.calibrate(P, Y, "pip", per=SHARP, groups=pd.DataFrame(G, columns=NAMES))
    wrong = {
        "got none": None,
        "Expected the groups unsure": H[:, :2],
        "expected 0 or 1": H * 2,
        "which has no calibration rows": ["unsure & far"] * len(H),
        "toarray": csr_matrix(H),
    }
    for message, groups in wrong.items():
        with pytest.raises(pippin.InputError, match=message):
            predictor.predict(Q, groups=groups)


def test_compare_and_evaluate_report_the_groups():
    frame = pd.DataFrame(ALL, columns=NAMES)
    methods = ["pip", "pip per groups", "pip per largest group"]
    comparison = pippin.compare(DATA.probs, DATA.labels, methods, groups=frame, splits=3, seed=2)
    table = comparison.group_coverage()
    assert table["group"].to_list() == NAMES * 3
    assert table["n"].to_list()[:3] == ALL.sum(axis=0).tolist()
    generator = np.random.default_rng([2, 0])
    chosen = np.zeros(len(DATA.labels), dtype=bool)
    chosen[generator.choice(len(chosen), comparison.n_calibration, replace=False, shuffle=False)] = True
    for i, per in ((1, SHARP), (2, LARGEST)):
        predictor = pippin.calibrate(DATA.probs[chosen], DATA.labels[chosen], "pip", per=per, groups=ALL[chosen])
        rest = DATA.probs[~chosen], DATA.labels[~chosen], ALL[~chosen]
        sets = predictor.predict(rest[0], groups=rest[2])
        assert comparison.metric("mean_size")[i, 0] == sets.sizes.mean()
        result = pippin.evaluate(predictor, rest[1], probs=rest[0], groups=rest[2])
        inside = sets.contain_codes(rest[1])
        assert list(result.group_coverage.values()) == [inside[rest[2][:, g]].mean() for g in range(3)]
        assert pippin.evaluate(sets, rest[1], groups=rest[2]).group_coverage == result.group_coverage
    with pytest.raises(pippin.InputError, match="compare per groups"):
        pippin.compare(DATA.probs, DATA.labels, ["pip per group"], groups=frame, splits=2)


def test_damaged_files_are_refused():
    content = pippin.calibrate(P, Y, "pip", per=SHARP, groups=G, classes=DATA.classes).content()
    wrong = {"per": "class", "cells": [0] * N, "groups": ["a", "a", "b"], "combinations": [[1, 1, 1]]}
    check_wrong_parts("overlapping", content, **wrong)


def test_sets_are_those_of_mapie_for_the_same_function_of_the_scores():
    """MAPIE takes the larger end where the regression has several thresholds; these numbers of rows have one."""
    from mapie.conditional_conformal_prediction import ConditionalSplitConformalClassifier
    from mapie.conformity_scores.sets.lac import LACConformityScore
    from sklearn.datasets import make_classification
    from sklearn.linear_model import LogisticRegression

    class MinusLog(LACConformityScore):
        def get_conformity_scores(self, y, y_pred, y_enc=None, **options):
            return -np.log(1 - super().get_conformity_scores(y, y_pred, y_enc=y_enc, **options))

        def get_prediction_sets(self, y_pred_proba, *arguments, **options):
            return -np.log(y_pred_proba) <= self.quantiles_

    x, y = make_classification(900, 6, n_informative=5, n_redundant=0, n_classes=4, random_state=0)
    model = LogisticRegression().fit(x[:300], y[:300])
    known, new = slice(300, 503), slice(840, 900)

    def groups(rows):
        return np.column_stack([rows[:, 0] > 0, rows[:, 1] > 0.3, rows[:, 2] + rows[:, 0] > 0.5])

    for per, randomize in ((SHARP, False), (RANDOM, True)):
        mapie = ConditionalSplitConformalClassifier(
            lambda rows: np.insert(groups(rows), 0, True, axis=1).astype(float),
            model,
            conformity_score=MinusLog(),
            randomize=randomize,
            seed=3,
        ).conformalize(x[known], y[known])
        ours = pippin.calibrate(model.predict_proba(x[known]), y[known], "ip", per=per, groups=groups(x[known]))
        sets = ours.predict(model.predict_proba(x[new]), groups=groups(x[new]), seed=3)
        assert np.array_equal(sets.mask, mapie.predict_set(x[new])[1][:, :, 0])


def test_the_command_evaluates_each_group(tmp_path, call):
    """Groups are text in a table; coverage is that of every group, not of their combinations."""
    names = ["&".join(name for name, one in zip("abc", row, strict=True) if one) or "none" for row in G.tolist()]
    np.savez(tmp_path / "data.npz", probs=P, labels=Y, groups=names)
    assert call(f"calibrate {tmp_path}/data.npz --score pip --per groups --out {tmp_path}/p.json")[0] == 0
    code, out, _ = call(f"evaluate {tmp_path}/p.json {tmp_path}/data.npz")
    assert code == 0
    sets = pippin.load(tmp_path / "p.json").predict(P, groups=G)
    expected = pippin.evaluate(sets, Y, groups=G).group_coverage
    for name, coverage in zip("abc", expected.values(), strict=True):
        assert re.search(rf"^{name} .*{coverage:.4f}$", out, re.MULTILINE), out
