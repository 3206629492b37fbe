"""Distributed calibration: merged parts equal one calibration to the last bit."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pippin
from support.partitions import KINDS, PER, divided, whole_and_merged
from support.rows import KINDS as ROW_KINDS
from support.rows import made_rows
from support.scores import EVERY_SCORE

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of infinite thresholds, which the cases include


@given(
    st.sampled_from(ROW_KINDS),
    st.sampled_from(EVERY_SCORE),
    st.sampled_from(PER),
    st.sampled_from(("error", "marginal")),
    st.sampled_from((1, 2, 7, 64)),
    st.sampled_from(("even", "random", "one row")),
    st.sampled_from((0, 10**6)),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=120)
def test_merged_parts_equal_one_calibration(kind, score, per, unseen, pieces, how, most_scores, seed):
    """A predictor merged from parts has the file of one calibration, also with tied or infinite scores."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 5, 60, 400]))
    probs = made_rows(kind, n, 12, seed)
    labels = rng.integers(0, 12, n)
    if rng.random() < 0.5:  # sorted, so that parts have different scores
        order = np.argsort(pippin.scores.score(probs, labels, score, seed=0))
        probs, labels = probs[order], labels[order]
    groups = rng.integers(0, 3, n) if rng.random() < 0.5 else rng.choice(["north", "south"], n)
    cuts = divided(n, how, pieces, rng)
    whole, merged = whole_and_merged(probs, labels, score, per, groups, unseen, cuts, most_scores)
    assert merged == whole


@pytest.mark.parametrize("per", PER, ids=str)
def test_enough_rows_for_clusters_and_limits_of_ranks(per):
    """Merged parts equal one calibration if there are enough rows to cluster classes, or for limits on ranks."""
    rng = np.random.default_rng(3)
    probs = made_rows("spread", 6000, 12, 3)
    labels = (probs.cumsum(axis=1) < rng.random((6000, 1))).sum(axis=1).clip(0, 11)
    for score in ("repip", "aps"):
        for most_scores in (0, 10**6):
            cuts = divided(6000, "random", 7, rng)
            groups = rng.integers(0, 3, 6000)
            whole, merged = whole_and_merged(probs, labels, score, per, groups, "marginal", cuts, most_scores)
            assert merged == whole
    assert per != "cluster" or len(set(whole["cells"][0])) > 1
    assert per != "rc3p" or np.isfinite(np.array(whole["thresholds"], dtype=float)).any()


def test_parts_can_be_pickled():
    """Calibrations and parts can be pickled, and a part needs few bytes in addition to its scores."""
    rng = np.random.default_rng(1)
    probs = rng.dirichlet(np.ones(12), 20_000)
    labels, groups = rng.integers(0, 12, 20_000), rng.integers(0, 3, 20_000)
    calibration = pickle.loads(  # noqa: S301 - made above
        pickle.dumps(
            pippin.distributed.Calibration("aps", per="class and group", classes=range(12), seed=1, most_scores=0)
        )
    )
    parts = [
        pickle.dumps(
            calibration.part(probs[a : a + 10_000], labels[a : a + 10_000], groups=groups[a : a + 10_000], first=a)
        )
        for a in (0, 10_000)
    ]
    merged = calibration.merge(map(pickle.loads, parts))
    whole = pippin.calibrate(probs, labels, "aps", per="class and group", groups=groups, seed=1)
    assert merged.content(scores=False) == whole.content(scores=False)
    assert max(map(len, parts)) < 10_000 * 13


def test_the_callers_generator_gives_the_same_bits():
    rng = np.random.default_rng(2)
    probs, labels = rng.dirichlet(np.ones(4), 50), rng.integers(0, 4, 50)
    calibration = pippin.distributed.Calibration("aps", classes=range(4), seed=np.random.default_rng(9))
    parts = [calibration.part(probs[a : a + 25], labels[a : a + 25], first=a) for a in (0, 25)]
    whole = pippin.calibrate(probs, labels, "aps", seed=np.random.default_rng(9))
    assert calibration.merge(parts).content() == whole.content()
    with pytest.raises(pippin.InputError, match="got one of MT19937: pass a whole number"):
        pippin.distributed.Calibration("aps", classes=range(4), seed=np.random.Generator(np.random.MT19937(0)))


def test_predictors_without_scores_raise_for_p_values():
    """Beyond `most_scores` rows, a merged predictor stores no scores, so that `at` and p-values raise."""
    rng = np.random.default_rng(2)
    probs, labels = rng.dirichlet(np.ones(4), 50), rng.integers(0, 4, 50)
    calibration = pippin.distributed.Calibration("pip", classes=range(4), most_scores=49)
    predictor = calibration.merge([calibration.part(probs, labels)])
    assert (
        predictor.predict(probs).sizes.tolist() == pippin.calibrate(probs, labels, "pip").predict(probs).sizes.tolist()
    )
    with pytest.raises(pippin.InputError, match="without its calibration scores"):
        predictor.at(0.3)


def test_wrong_use_raises():
    calibration = pippin.distributed.Calibration("pip", per="group", classes=range(3))
    with pytest.raises(pippin.InputError, match="Expected groups with per='group', got none"):
        calibration.part([[0.2, 0.3, 0.5]], [1])
    with pytest.raises(pippin.InputError, match="Expected 3 columns"):
        calibration.part([[0.5, 0.5]], [1], groups=["a"])
    with pytest.raises(pippin.InputError, match="got parts without any"):
        calibration.merge([calibration.part(np.empty((0, 3)), [])])
    with pytest.raises(pippin.InputError, match="Expected per to be one of"):
        pippin.distributed.Calibration("pip", per="clas", classes=range(3))
    with pytest.raises(pippin.InputError, match="got whole numbers where classes are called 1, 2"):
        pippin.distributed.Calibration("pip", classes=("1", "2")).part([[0.5, 0.5]], [1])
    assert pippin.distributed.Calibration("pip", classes=("1", "2")).part(
        [[0.4, 0.6]], ["1"]
    ).scores == pippin.scores.score([[0.4, 0.6]], [0], "pip")
    assert KINDS[0] == "even"
