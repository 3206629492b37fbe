"""Mondrian predictors: thresholds per class, group, or both."""

import math
from fractions import Fraction

import numpy as np
import pytest

import pippin
from pippin._conformal.mondrian import sort_into_categories
from pippin._theory.level import exact_alpha, quantile_rank
from support.exact_scores import ranking
from support.grouped_example import DATA, FARMS, calibrated, every_way, grouped, sets_of
from support.rows import made_rows
from support.scores import EVERY_SCORE, every_score


def kth_smallest(scores, alpha):
    """Return the threshold by definition."""
    k = math.ceil((len(scores) + 1) * (1 - Fraction(str(alpha))))
    return sorted(scores)[k - 1] if k <= len(scores) else math.inf


@every_score
@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_thresholds_are_the_kth_smallest_of_their_own_scores(score, alpha):
    """The threshold of each class, group or pair is the k-th smallest score of its own rows."""
    scores = pippin.scores.score(DATA.probs[:2000], DATA.labels[:2000], score, seed=5)
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


def test_unseen_groups_get_the_marginal_threshold():
    """With unseen="marginal", a group without calibration rows gets the marginal threshold; by default it raises."""
    for per, same in (("group", None), ("class and group", "class")):
        wide = calibrated(per, unseen="marginal")
        plain_one = pippin.calibrate(DATA.probs[:2000], DATA.labels[:2000], "pip", per=same)
        assert wide.groups == ("north", "south", "west", None)
        wanted = plain_one.threshold if same is None else plain_one.thresholds[0]
        assert (wide.thresholds[3] == wanted).all()
        sets = wide.predict(DATA.probs[2000:2100], groups=["east"] * 100)
        assert np.array_equal(sets.members, plain_one.predict(DATA.probs[2000:2100]).members)
        assert "(any other)" in wide.table()["group"].to_list()
    with pytest.raises(ValueError, match=r"Row 1 is in the group 'east', which has no calibration rows: "):
        calibrated("group").predict(DATA.probs[:2], groups=["west", "east"])


@every_way
@every_score
def test_sets_equal_a_slow_reference(score, per):
    """The reference compares each score with its threshold, and with RC3P each rank with its limit."""
    predictor = calibrated(per, score, alpha=0.2)
    rows = slice(2000, 2060)
    sets = sets_of(predictor, rows)
    scores = pippin.scores.score(DATA.probs[rows], None, score, seed=6)
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
def test_a_set_does_not_depend_on_other_rows(per):
    """Sets are equal by `predict_one`, in a batch of one, and in reverse order."""
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
    """Other sets are unchanged, also in `predict_one`."""
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


@pytest.mark.parametrize("per", ["class", "group", "class and group", "rc3p"])
@every_score
def test_at_equals_calibrating_anew(score, per):
    """Predictors from `at` equal those calibrated at the level (except clusters, which `at` keeps)."""
    anew = calibrated(per, score, alpha=0.25)
    later = calibrated(per, score).at(0.25)
    assert np.array_equal(later.thresholds, anew.thresholds)
    assert later.alpha == 0.25
    assert per != "rc3p" or np.array_equal(later.rank_limits, anew.rank_limits)


def test_a_level_is_exact_in_every_type():
    """A float level is the simplest fraction that rounds to it, also after loading."""
    scores, none = np.arange(999.0), np.zeros(999, dtype=int)
    categories = sort_into_categories(scores, none, np.zeros((1, 2), dtype=int))
    for alpha in (Fraction(0.7), Fraction(7, 10), 0.7, np.array(0.7), np.float32(0.7), "0.7"):
        assert categories.quantile_ranks(alpha).tolist() == [quantile_rank(999, alpha)] == [300]
    assert exact_alpha(1 / 3) == exact_alpha(Fraction(1, 3)) == Fraction(1, 3)


@pytest.mark.parametrize("kind", ["zeros", "certain", "tied"])
def test_infinite_scores_and_ties(kind):
    """With SOCOP's infinite scores, a threshold can be infinite although there are enough examples."""
    probs = made_rows(kind, 1500, 5, 3)
    labels = np.random.default_rng(4).integers(0, 5, 1500)
    for per in ("class", "cluster", "rc3p"):
        predictor = pippin.calibrate(probs, labels, "socop", 0.3, seed=1, per=per)
        inside = predictor.predict(probs).contains(labels)
        assert min(inside[labels == k].mean() for k in range(5)) > 0.5


def test_the_warning_names_rare_classes_and_their_counts():
    """The warning for infinite thresholds names the classes, their counts and the number needed."""
    rows = np.concatenate([np.flatnonzero(DATA.labels == k)[: 8 if k in (0, 3) else 20] for k in range(12) if k != 7])
    probs, labels = DATA.probs[rows], DATA.labels[rows]
    message = (
        r"^3 of 12 thresholds are infinite, because alpha=0.1 needs 9 calibration examples each: black_grass has 8, "
        r"common_chickweed has 8, maize has 0\. Such a class is in every set: collect more, or let rare classes share "
        r"with per='cluster'\.$"
    )
    for per in ("class", "rc3p"):
        with pytest.warns(UserWarning, match=message) as caught:
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
def test_the_table_names_groups_that_are_not_text(groups):
    """Groups that are numbers or truth values are text in the table of thresholds, with a row for unseen groups."""
    predictor = pippin.calibrate(DATA.probs[:600], DATA.labels[:600], groups=groups, unseen="marginal")
    assert predictor.table()["group"].unique(maintain_order=True).to_list() == [
        *map(str, np.unique(groups).tolist()),
        "(any other)",
    ]
