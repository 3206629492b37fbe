"""A threshold per class, per group, or both: the same laws as one threshold for all, and more of them."""

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pippin
from conftest import EVERY_SCORE, made_rows, probabilities
from pippin import cell_kernels, files, plain, scoring
from pippin.cells import make_cells
from pippin.quantiles import quantile_rank
from pippin.ranking import as_rows, read_only
from pippin.scores import coefficients
from reference import ranking

every_score = pytest.mark.parametrize("score", EVERY_SCORE, ids=str)
every_way = pytest.mark.parametrize("per", ["class", "group", "class and group", "cluster", "rc3p"])

DATA = pippin.load_example()
FARMS = np.array(["north", "south", "west"])[np.arange(len(DATA.labels)) * 7 % 5 % 3]


def grouped(per):
    return "group" in per


def calibrated(per, score="pip", alpha=0.1, n=2000, **options):
    groups = FARMS[:n] if grouped(per) else None
    return pippin.calibrate(
        DATA.probs[:n], DATA.labels[:n], score, alpha, DATA.classes, seed=5, per=per, groups=groups, **options
    )


def sets_of(predictor, rows=slice(2000, 2200), **options):
    groups = FARMS[rows] if predictor.groups is not None else None
    return predictor.predict(DATA.probs[rows], seed=6, groups=groups, **options)


def kth_smallest(scores, alpha):
    """The threshold, by its definition."""
    k = math.ceil((len(scores) + 1) * (1 - Fraction(str(alpha))))
    return sorted(scores)[k - 1] if k <= len(scores) else math.inf


@every_score
@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_thresholds_are_the_kth_smallest_of_their_own_scores(score, alpha):
    """Per class, per group and per pair, from the scores that `pippin.score` gives with the same seed."""
    scores = pippin.score(DATA.probs[:2000], DATA.labels[:2000], score, seed=5)
    labels, farms = DATA.labels[:2000], FARMS[:2000]
    by_class, by_group, by_both = (calibrated(per, score, alpha) for per in ("class", "group", "class and group"))
    assert by_class.groups is None
    assert by_group.groups == by_both.groups == ("north", "south", "west")
    for k in range(12):
        assert by_class.thresholds[0, k] == kth_smallest(scores[labels == k], alpha)
        for g, farm in enumerate(by_both.groups):
            assert by_group.thresholds[g, k] == kth_smallest(scores[farms == farm], alpha)
            assert by_both.thresholds[g, k] == kth_smallest(scores[(farms == farm) & (labels == k)], alpha)


@pytest.mark.parametrize("score", [s for s in EVERY_SCORE if not s.randomized], ids=str)
def test_each_class_is_calibrated_as_if_it_were_alone(score):
    """`calibrate` on the rows of one class, or of one group, gives its threshold to the last bit."""
    by_class, by_group = calibrated("class", score), calibrated("group", score)
    for k in range(12):
        own = np.flatnonzero(DATA.labels[:2000] == k)
        alone = pippin.calibrate(DATA.probs[own], DATA.labels[own], score, 0.1)
        assert by_class.thresholds[0, k] == alone.threshold
    for g, farm in enumerate(by_group.groups):
        own = np.flatnonzero(FARMS[:2000] == farm)
        alone = pippin.calibrate(DATA.probs[own], DATA.labels[own], score, 0.1)
        assert (by_group.thresholds[g] == alone.threshold).all()


def test_unseen_groups_get_the_threshold_of_everybody():
    """Or an error that names the first such row; the name None is theirs."""
    for per, same in (("group", None), ("class and group", "class")):
        wide = calibrated(per, unseen="marginal")
        plain_one = pippin.calibrate(DATA.probs[:2000], DATA.labels[:2000], "pip", per=same)
        assert wide.groups == ("north", "south", "west", None)
        wanted = plain_one.threshold if same is None else plain_one.thresholds[0]
        assert (wide.thresholds[3] == wanted).all()
        sets = wide.predict(DATA.probs[2000:2100], groups=["east"] * 100)
        assert np.array_equal(sets.members, plain_one.predict(DATA.probs[2000:2100]).members)
        assert "(any other)" in wide.table()["group"].to_list()
    with pytest.raises(ValueError, match=r"Row 1 is in the group 'east', which the calibration has not seen: "):
        calibrated("group").predict(DATA.probs[:2], groups=["west", "east"])


@every_way
@every_score
def test_sets_equal_a_slow_oracle(score, per):
    """Every class of every row by hand: its score against its threshold, and for RC3P its rank."""
    predictor = calibrated(per, score, alpha=0.2)
    rows = slice(2000, 2060)
    sets = sets_of(predictor, rows)
    scores = pippin.score(DATA.probs[rows], None, score, seed=6)
    names = predictor.groups or ("all",)
    at = 0
    for i, row in enumerate(DATA.probs[rows]):
        g = names.index(FARMS[2000 + i]) if grouped(per) else 0
        order = ranking(row)
        wanted = [k for k in order if scores[i, k] <= predictor.thresholds[g, k]]
        if per == "rc3p":
            wanted = [k for k in wanted if order.index(k) + 1 <= predictor.rank_limits[g, k]]
        assert sets.members[at : at + sets.sizes[i]].tolist() == wanted
        at += len(wanted)
    assert at == len(sets.members)


@every_way
def test_a_rows_set_does_not_depend_on_the_rows_around_it(per):
    """Alone by `predict_one`, alone in a batch, in reverse order: the same set."""
    predictor = calibrated(per)
    rows = np.arange(2000, 2040)
    mask = sets_of(predictor, rows).mask
    assert np.array_equal(sets_of(predictor, rows[::-1]).mask, mask[::-1])
    for i, row in enumerate(rows):
        group = {"group": FARMS[row]} if grouped(per) else {}
        one = predictor.predict_one(DATA.probs[row], **group)
        assert np.array_equal(np.sort(one), np.flatnonzero(mask[i]))
        assert one.tolist() == [k for k in ranking(DATA.probs[row]) if mask[i, k]]
        assert np.array_equal(sets_of(predictor, slice(row, row + 1)).mask[0], mask[i])


@every_way
def test_nonempty_adds_the_best_class_to_empty_sets_only(per):
    """No other set changes, and `predict_one` does the same."""
    predictor = calibrated(per, "ip", alpha=0.6)
    sets, filled = sets_of(predictor), sets_of(predictor, nonempty=True)
    empty = sets.sizes == 0
    assert empty.any()
    assert np.array_equal(filled.mask[~empty], sets.mask[~empty])
    assert (filled.sizes[empty] == 1).all()
    best = DATA.probs[2000:2200].argmax(axis=1)
    assert filled.mask[np.arange(200), best][empty].all()
    row = 2000 + int(empty.argmax())
    group = {"group": FARMS[row]} if grouped(per) else {}
    assert predictor.predict_one(DATA.probs[row], nonempty=True, **group).tolist() == [best[row - 2000]]


@every_way
@pytest.mark.parametrize("score", ["pip", "aps", "socop"])
def test_saved_and_loaded_to_the_last_bit(per, score, tmp_path):
    """Every number, every set, every other level; without scores the one level stays."""
    predictor = calibrated(per, score)
    predictor.save(tmp_path / "whole.json")
    predictor.save(tmp_path / "lean.json", scores=False)
    whole, lean = pippin.load(tmp_path / "whole.json"), pippin.load(tmp_path / "lean.json")
    for again in (whole, lean):
        assert np.array_equal(again.thresholds, predictor.thresholds)
        assert (again.rank_limits is None) == (per != "rc3p")
        assert per != "rc3p" or np.array_equal(again.rank_limits, predictor.rank_limits)
        assert (again.score, again.per, again.alpha) == (predictor.score, per, 0.1)
        assert (again.classes, again.groups) == (predictor.classes, predictor.groups)
        assert again.n_calibration == predictor.n_calibration
        assert np.array_equal(sets_of(again).members, sets_of(predictor).members)
        assert again.table().equals(predictor.table())
        assert repr(again) == repr(predictor)
    assert np.array_equal(whole.cells.scores, predictor.cells.scores)
    assert np.array_equal(whole.at(0.3).thresholds, predictor.at(0.3).thresholds)
    assert np.array_equal(sets_of(whole.at(0.3)).members, sets_of(predictor.at(0.3)).members)
    with pytest.raises(ValueError, match=r"saved without its calibration scores, so it has only alpha=0\.1"):
        lean.at(0.3)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("per", "species"),
        ("per", "group"),
        ("alpha", 1.5),
        ("thresholds", [[0.5, 0.5]]),
        ("rank_limits", [[1] * 12]),
        ("cells", [[99] * 12]),
        ("cell_counts", [3]),
        ("groups", ["a", "a"]),
        ("calibration_ranks", [1]),
        ("classes", ["maize"] * 12),
        ("cells", [[0.5] * 12]),
        ("cells", [[10**12] * 12]),
        ("calibration_scores", [1.0 - i / 2000 for i in range(2000)]),
        ("calibration_scores", ["nan"] * 2000),
        ("calibration_scores", ["many"] * 2000),
        ("calibration_scores", [10**400] * 2000),
    ],
)
def test_a_file_whose_parts_disagree_is_refused(tmp_path, part, value):
    """Even with a checksum that fits."""
    path = tmp_path / "predictor.json"
    calibrated("class").save(path)
    kind, content = files.read_predictor(path)
    files.write_predictor(path, {**content, part: value}, kind=kind)
    with pytest.raises(ValueError, match=r"holds no sound predictor \(.*\): calibrate again and save\."):
        pippin.load(path)


def test_a_file_of_rc3p_has_ranks_beside_its_scores(tmp_path):
    """Or no other level could be had from it."""
    path = tmp_path / "predictor.json"
    calibrated("rc3p").save(path)
    kind, content = files.read_predictor(path)
    for ranks in (None, [0] * 2000):
        files.write_predictor(path, {**content, "calibration_ranks": ranks}, kind=kind)
        with pytest.raises(ValueError, match="its calibration_ranks makes no sense"):
            pippin.load(path)


@pytest.mark.parametrize("kind", [[], {}, "marginal"])
def test_a_file_of_an_unknown_kind_is_refused(kind, tmp_path):
    """Whatever stands there."""
    path = tmp_path / "predictor.json"
    files.write_predictor(path, {}, kind=kind)
    with pytest.raises(ValueError, match="holds a predictor of the unknown kind"):
        pippin.load(path)


@pytest.mark.parametrize("per", ["class", "group", "class and group", "rc3p"])
@every_score
def test_at_equals_calibrating_anew(score, per):
    """Another level costs no second calibration (clusters stay as they were, so they are left out)."""
    anew = calibrated(per, score, alpha=0.25)
    later = calibrated(per, score).at(0.25)
    assert np.array_equal(later.thresholds, anew.thresholds)
    assert later.alpha == 0.25
    assert per != "rc3p" or np.array_equal(later.rank_limits, anew.rank_limits)


def test_rare_classes_are_named_with_what_they_lack():
    """An infinite threshold puts the class into every set; the warning says which and how many are needed."""
    rows = np.concatenate([np.flatnonzero(DATA.labels == k)[: 8 if k in (0, 3) else 20] for k in range(12) if k != 7])
    probs, labels = DATA.probs[rows], DATA.labels[rows]
    told = (
        r"^3 of 12 thresholds are infinite, because alpha=0.1 needs 9 calibration examples each: black_grass has 8, "
        r"common_chickweed has 8, maize has 0\. Such a class is in every set: collect more, or let rare classes share "
        r"with per='cluster'\.$"
    )
    for per in ("class", "rc3p"):
        with pytest.warns(UserWarning, match=told) as caught:
            predictor = pippin.calibrate(probs, labels, "pip", classes=DATA.classes, per=per)
        assert caught[0].filename == __file__
        assert predictor.predict(DATA.probs[:50]).mask[:, [0, 3, 7]].all()
        assert predictor.table()["lacking"].to_list() == [1, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0]
        assert predictor.table()["expected_coverage"][7] == 1.0
        if per == "rc3p":
            assert predictor.rank_limits[0, [0, 3, 7]].tolist() == [12, 12, 12]
    with pytest.warns(UserWarning, match=r"1 of 2 thresholds .*: group b has 5\. .* or join small groups"):
        pippin.calibrate(DATA.probs[:40], DATA.labels[:40], per="group", groups=["a"] * 35 + ["b"] * 5)
    with pytest.warns(UserWarning, match=r"class 0 in group 1 has \d, class 1 in group 1 has .*, and \d+ more\. "):
        pippin.calibrate(DATA.probs[:40], DATA.labels[:40], per="class and group", groups=[1] * 20 + [2] * 20)


@pytest.mark.parametrize("groups", [np.arange(600) % 2, np.arange(600) % 2 == 0])
def test_the_table_names_groups_that_are_no_text(groups):
    """Beside the one for all that were not seen."""
    predictor = pippin.calibrate(DATA.probs[:600], DATA.labels[:600], groups=groups, unseen="marginal")
    assert predictor.table()["group"].unique(maintain_order=True).to_list() == [
        *map(str, np.unique(groups).tolist()),
        "(any other)",
    ]


def test_one_row_of_a_frame_brings_its_names():
    """In another order they are refused, as in a whole frame."""
    import pandas

    predictor = calibrated("class")
    row = pandas.Series(DATA.probs[0], index=DATA.classes)
    assert np.array_equal(predictor.predict_one(row), predictor.predict_one(DATA.probs[0]))
    with pytest.raises(ValueError, match=r"Column 0 is .*, expected .*: select the columns in the order"):
        predictor.predict_one(row[::-1])


def test_a_level_is_read_by_its_spelling_whatever_was_asked_before():
    """Numbers that are equal but spelled otherwise name other levels; any type that spells one will do."""
    scores, none = np.arange(999.0), np.zeros(999, dtype=int)
    cells = make_cells(scores, none, np.zeros((1, 2), dtype=int))
    for alpha in (Fraction(0.7), 0.7, np.array(0.7)):
        assert cells.quantile_ranks(alpha).tolist() == [quantile_rank(999, alpha)]
    assert quantile_rank(999, Fraction(0.7)) != quantile_rank(999, 0.7)


def test_inputs_are_left_alone():
    """Nothing is written into what the caller owns, and what the predictor owns cannot be written."""
    probs, labels, groups = np.array(DATA.probs[:900]), np.array(DATA.labels[:900]), FARMS[:900].copy()
    before = probs.copy(), labels.copy(), groups.copy()
    predictor = pippin.calibrate(probs, labels, "aps", 0.4, seed=0, per="class and group", groups=groups)
    predictor.predict(probs, seed=1, groups=groups, nonempty=True)
    for now, then in zip((probs, labels, groups), before, strict=True):
        assert np.array_equal(now, then)
    for mine in (predictor.thresholds, predictor.cells.scores, predictor.cells.of):
        with pytest.raises(ValueError, match="read-only"):
            mine[...] = 0


FIVE = {"probs": np.full((5, 2), 0.5), "labels": [0, 1, 0, 1, 0], "score": "ip", "alpha": 0.5}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"per": "klass"},
            "Expected per to be one of 'class', 'group', 'class and group', .*, got 'klass'",
        ),
        ({"per": "group"}, r"got per='group' and no groups: pass groups=, one per row\."),
        ({"per": "class and group"}, r"got per='class and group' and no groups: pass groups=, one per row\."),
        (
            {"per": "class", "groups": [1] * 5},
            r"got per='class' and groups: leave groups= out, or ask per='class and group'\.",
        ),
        ({"per": "rc3p", "groups": [1] * 5}, r"got per='rc3p' and groups: leave groups= out"),
        ({"per": "cluster", "groups": [1] * 5}, r"got per='cluster' and groups: leave groups= out"),
        ({"groups": [1, 2]}, r"Expected 5 groups, one per row, got shape \(2,\): pass groups in row order\."),
        ({"groups": [[1]] * 5}, r"Expected 5 groups, one per row, got shape \(5, 1\)"),
        (
            {"groups": [0.5] * 5},
            r"all whole numbers or all text, got float64: convert them, and name .*\.",
        ),
        ({"groups": ["a", None, "a", "a", "a"]}, "all whole numbers or all text, got object"),
        ({"groups": [1, "a", 2, "b", None]}, "all whole numbers or all text, got object"),
        ({"groups": [1] * 5, "unseen": "ignore"}, "Expected unseen to be 'error' or 'marginal', got 'ignore'"),
        ({"per": "class", "alpha": 0}, "Expected alpha, the share of errors allowed, strictly between 0 and 1, got 0"),
    ],
)
def test_bad_input_is_told_in_a_sentence(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        pippin.calibrate(**{**FIVE, **options})


def test_groups_to_predict_are_checked_as_well():
    by_group = calibrated("group")
    with pytest.raises(ValueError, match=r"This predictor has thresholds per group: pass groups=, one per row\."):
        by_group.predict(DATA.probs[:3])
    with pytest.raises(ValueError, match=r"Expected 3 groups, one per row, got shape \(1,\)"):
        by_group.predict(DATA.probs[:3], groups=["west"])
    with pytest.raises(ValueError, match=r"Row 0 is in the group 1, which the calibration has not seen"):
        by_group.predict_one(DATA.probs[0], group=1)
    with pytest.raises(ValueError, match=r"has a threshold per class and knows no groups: leave groups= out, or .*\."):
        calibrated("class").predict(DATA.probs[:3], groups=["west"] * 3)
    with pytest.raises(ValueError, match=r"Expected 12 columns, one per class .*, got 5: pass the same"):
        calibrated("class").predict(DATA.probs[:3, :5] + 0.2)


@st.composite
def limited(draw):
    """Rows, a group for each, limits that occur among the scores or lie beside them, and ranks or none."""
    probs, _ = draw(probabilities(sizes=(2, 3, 5, 12, 70)))
    n, n_classes = probs.shape
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    columns = n_classes if draw(st.booleans()) else 1
    ranked = columns > 1 and draw(st.booleans())
    return probs, rng, rng.integers(0, 3, n), columns, ranked


@every_score
@given(case=limited())
def test_compiled_loops_give_the_bits_of_numpy(score, case):
    """Ties with a limit, infinite limits of either sign, both precisions, with and without rank limits."""
    probs, rng, group, columns, ranked = case
    n, n_classes = probs.shape
    u = rng.random(n)
    rows = as_rows(probs)
    every = scoring.class_scores(rows, score, u)
    limits = rng.choice(every.ravel(), (3, columns))
    limits = np.where(rng.random(limits.shape) < 0.2, np.nextafter(limits, -np.inf), limits)
    limits = read_only(np.where(rng.random(limits.shape) < 0.2, rng.choice([-np.inf, np.inf], limits.shape), limits))
    ranks = rng.integers(0, n_classes + 1, (3, columns)).astype(np.int32) if ranked else np.zeros((1, 1), np.int32)
    c = coefficients(score, n_classes)
    sizes = np.zeros(n, dtype=np.int64)
    found, suspects = cell_kernels.members_within(rows.block(0, n), c, limits, ranks, group, u, sizes)
    wanted_sizes, wanted = plain.members_within(rows.block(0, n), c, limits, ranks, group, u)
    assert suspects == 0
    assert np.array_equal(sizes, wanted_sizes)
    assert np.array_equal(found, wanted)
    inside = every <= limits[group]
    if ranked:
        order = np.argsort(-probs, axis=1, kind="stable")
        inside &= np.argsort(order, axis=1) < ranks[group]
    mask = np.zeros((n, n_classes), dtype=bool)
    mask[np.repeat(np.arange(n), sizes), found] = True
    assert np.array_equal(mask, inside)


@every_way
def test_both_paths_predict_the_same(per, monkeypatch):
    """Through the public door: with the compiled loops, and as if they had never been loaded."""
    predictor = calibrated(per, "repip")
    compiled = sets_of(predictor)
    monkeypatch.delitem(sys.modules, "pippin.kernels")
    monkeypatch.setattr(scoring, "_scored_in_numpy", 0)
    in_numpy = sets_of(predictor)
    assert "pippin.kernels" not in sys.modules
    assert np.array_equal(in_numpy.members, compiled.members)


@pytest.mark.parametrize("kind", ["zeros", "certain", "tied"])
def test_infinite_scores_and_ties_are_no_obstacle(kind):
    """SOCOP's infinite scores: the threshold may be infinite with enough examples, too."""
    probs = made_rows(kind, 1500, 5, 3)
    labels = np.random.default_rng(4).integers(0, 5, 1500)
    for per in ("class", "cluster", "rc3p"):
        predictor = pippin.calibrate(probs, labels, "socop", 0.3, seed=1, per=per)
        inside = predictor.predict(probs).contains(labels)
        assert min(inside[labels == k].mean() for k in range(5)) > 0.5
