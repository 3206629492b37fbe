"""Calibration in parts: the ordinary predictor, to the last bit, however the rows are divided."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pippin
from pippin._distributed.part import Part
from pippin._distributed.selecting import in_one_cell, keys_of, smallest_of_cells, values_of
from support.partitions import KINDS, PER, asking, divided, whole_and_merged
from support.rows import KINDS as ROW_KINDS
from support.rows import made_rows
from support.scores import EVERY_SCORE

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of thresholds that are infinite, on purpose


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
def test_parts_are_the_whole(kind, score, per, unseen, pieces, how, most_scores, seed):
    """All rows sorted by score or not, tied or not, with infinite scores or not: what the file holds is the same."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 5, 60, 400]))
    probs = made_rows(kind, n, 12, seed)
    labels = rng.integers(0, 12, n)
    if rng.random() < 0.5:  # sorted, so that parts have nothing in common
        order = np.argsort(pippin.scores.score(probs, labels, score, seed=0))
        probs, labels = probs[order], labels[order]
    groups = rng.integers(0, 3, n) if rng.random() < 0.5 else rng.choice(["north", "south"], n)
    cuts = divided(n, how, pieces, rng)
    whole, merged = whole_and_merged(probs, labels, score, per, groups, unseen, cuts, most_scores)
    assert merged == whole


@pytest.mark.parametrize("per", PER, ids=str)
def test_enough_rows_for_clusters_and_limits_of_ranks(per):
    """So many rows that nothing is left out for want of them."""
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


@given(
    st.lists(st.floats(allow_nan=False), min_size=1, max_size=40),
    st.integers(0, 3),
    st.sampled_from((0, 3, 1 << 16)),
    st.data(),
)
def test_the_kth_smallest_of_any_numbers(values, pieces, few, data):
    """Negative, tied, infinite, denormal: by counts alone, and with what is left gathered."""
    k = data.draw(st.integers(1, len(values)))
    parts = [Part(part) for part in np.array_split(np.array(values), pieces + 1)]
    found = smallest_of_cells(asking(parts), in_one_cell, np.array([[k]]), few)
    expected = sorted(values)[k - 1]
    assert found.values[0, 0] == expected
    assert found.smaller[0, 0] == sum(value < expected for value in values)
    assert found.equal[0, 0] == sum(value == expected for value in values)


def test_keys_keep_the_order_and_bring_the_values_back():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=50) * 10.0 ** rng.integers(-300, 300, 50), [0.0, np.inf, -np.inf]])
    assert (np.argsort(keys_of(values), kind="stable") == np.argsort(values, kind="stable")).all()
    np.testing.assert_array_equal(values_of(keys_of(values)), values)


def test_questions_and_parts_can_be_sent():
    """Pickled, as engines do it; and what comes back of a part is small, however many rows it has."""
    rng = np.random.default_rng(1)
    probs = rng.dirichlet(np.ones(12), 20_000)
    labels, groups = rng.integers(0, 12, 20_000), rng.integers(0, 3, 20_000)
    calibration = pickle.loads(  # noqa: S301 - made above
        pickle.dumps(
            pippin.distributed.Calibration("aps", per="class and group", classes=range(12), seed=1, most_scores=0)
        )
    )
    parts = [
        calibration.part(probs[a : a + 10_000], labels[a : a + 10_000], groups=groups[a : a + 10_000], first=a)
        for a in (0, 10_000)
    ]
    sizes = []

    def ask(question):
        answers = [pickle.loads(pickle.dumps(question))(part) for part in parts]  # noqa: S301
        sizes.extend(len(pickle.dumps(answer)) for answer in answers)
        return answers[0] + answers[1]

    merged = calibration.merged(ask)
    whole = pippin.calibrate(probs, labels, "aps", per="class and group", groups=groups, seed=1)
    assert merged.content(scores=False) == whole.content(scores=False)
    assert max(sizes) < 10_000 * 16


def test_the_callers_generator_gives_the_same_bits():
    rng = np.random.default_rng(2)
    probs, labels = rng.dirichlet(np.ones(4), 50), rng.integers(0, 4, 50)
    calibration = pippin.distributed.Calibration("aps", classes=range(4), seed=np.random.default_rng(9))
    parts = [calibration.part(probs[a : a + 25], labels[a : a + 25], first=a) for a in (0, 25)]
    whole = pippin.calibrate(probs, labels, "aps", seed=np.random.default_rng(9))
    assert calibration.merged(asking(parts)).content() == whole.content()
    with pytest.raises(pippin.InputError, match="got one of MT19937: pass a whole number"):
        pippin.distributed.Calibration("aps", classes=range(4), seed=np.random.Generator(np.random.MT19937(0)))


def test_what_is_left_out_is_told():
    """Without its scores there is no other level; with fewer rows than that, there is."""
    rng = np.random.default_rng(2)
    probs, labels = rng.dirichlet(np.ones(4), 50), rng.integers(0, 4, 50)
    calibration = pippin.distributed.Calibration("pip", classes=range(4), most_scores=49)
    predictor = calibration.merged(asking([calibration.part(probs, labels)]))
    assert (
        predictor.predict(probs).sizes.tolist() == pippin.calibrate(probs, labels, "pip").predict(probs).sizes.tolist()
    )
    with pytest.raises(pippin.InputError, match="without its calibration scores"):
        predictor.at(0.3)


def test_wrong_use():
    calibration = pippin.distributed.Calibration("pip", per="group", classes=range(3))
    with pytest.raises(pippin.InputError, match="got per='group' and no groups"):
        calibration.part([[0.2, 0.3, 0.5]], [1])
    with pytest.raises(pippin.InputError, match="Expected 3 columns"):
        calibration.part([[0.5, 0.5]], [1], groups=["a"])
    with pytest.raises(pippin.InputError, match="got parts without any"):
        calibration.merged(asking([calibration.part(np.empty((0, 3)), [])]))
    with pytest.raises(pippin.InputError, match="Expected per to be one of"):
        pippin.distributed.Calibration("pip", per="clas", classes=range(3))
    with pytest.raises(pippin.InputError, match="got whole numbers where classes are called 1, 2"):
        pippin.distributed.Calibration("pip", classes=("1", "2")).part([[0.5, 0.5]], [1])
    assert pippin.distributed.Calibration("pip", classes=("1", "2")).part(
        [[0.4, 0.6]], ["1"]
    ).scores == pippin.scores.score([[0.4, 0.6]], [0], "pip")
    assert KINDS[0] == "even"
