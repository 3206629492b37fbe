"""Cross-conformal sharpened decisions: by definition, share of certificates that hold, files, exports and wrong use."""

import numpy as np
import pytest

import pippin
from pippin.export.c_header import c_header
from support.confused_rows import confused_rows
from support.decisions import slow_score, utility_of

UTILITY = utility_of([[1.0, 0.8, -2.0, -1.0], [-1.0, -0.5, 0.9, 0.7], [0.2, 0.2, 0.2, 0.3]])
KINDS = utility_of([[1.0, 1.0, -2.0, -2.0], [-1.0, -1.0, 1.0, 1.0], [0.3, 0.3, 0.3, 0.3]])
KNOWN = confused_rows(200, seed=51)
NEW = confused_rows(300, seed=52)


@pytest.fixture(scope="module")
def decider():
    """Return a decider with five sharpeners."""
    return pippin.decisions.calibrate(*KNOWN, UTILITY, 0.2, sharpen="cross", seed=4)


def slow_sets(decider, folds, seed, new):
    """Return the p-value of every class of every new row, from the definition."""
    probs, labels = KNOWN[0][:60], KNOWN[1][:60]
    values = decider.utility.values
    parts = np.array_split(np.random.default_rng(seed).permutation(60), folds)
    p_values = np.ones((len(new), 4))
    for sharpener, part in zip(decider.sharpeners, parts, strict=True):
        known = [
            slow_score(row, label, values) for row, label in zip(sharpener(probs[part]), labels[part], strict=True)
        ]
        for i, row in enumerate(sharpener(new)):
            p_values[i] += [sum(s >= slow_score(row, y, values) for s in known) for y in range(4)]
    return p_values / 61


@pytest.mark.parametrize(("utility", "folds"), [(UTILITY, 2), (KINDS, 5)], ids=["classes", "kinds"])
def test_decisions_by_definition(utility, folds):
    """The action has the best worst case over the classes with p-values above alpha, or with the largest p-value."""
    given, new = (KNOWN[0][:60], KNOWN[1][:60], utility), NEW[0][:12]
    one = pippin.decisions.calibrate(*given, 0.2, sharpen=f"cross(folds={folds})", seed=3)
    p_values = slow_sets(one, folds, 3, new)
    empty = 0
    for alpha in (0.02, 0.1, 0.3, 0.6, 0.9):
        found = one.at(alpha).decide(new)
        for i, p in enumerate(p_values):
            members = np.flatnonzero(p > alpha)
            empty += len(members) == 0
            members = members if len(members) else np.flatnonzero(p == p.max())
            worst = utility.values[:, members].min(axis=1)
            assert (found.codes[i], found.certificates[i]) == (worst.argmax(), worst.max())
    assert empty > 0 or utility is KINDS


def test_certificates_hold_more_often_than_proven_and_about_as_often_as_requested():
    """Over ten calibrations on 80 rows, within three standard errors of the mean."""
    alpha = 0.1
    probs, labels = confused_rows(10 * 80, seed=53)
    new, truth = confused_rows(2000, seed=54)
    held = []
    for start in range(0, 10 * 80, 80):
        part = slice(start, start + 80)
        one = pippin.decisions.calibrate(probs[part], labels[part], KINDS, alpha, sharpen="cross", seed=start)
        found = one.decide(new)
        held.append((KINDS.values[found.codes, truth] >= found.certificates).mean())
    error = 3 * np.std(held, ddof=1) / np.sqrt(10)
    assert one.guarantee == pytest.approx(1 - 2 * alpha - min(1.6 / 17, (1 - 5 / 80) / 6))
    assert np.mean(held) > one.guarantee + error
    assert np.mean(held) > 1 - alpha - error
    assert np.mean(held) < 1 - alpha + 0.05


def test_files_and_rows_agree(decider, tmp_path):
    """A loaded decider gives the same decisions, for a batch, single rows and other levels."""
    decider.save(tmp_path / "d.json")
    loaded = pippin.load(tmp_path / "d.json")
    expected = decider.decide(NEW[0])
    for one in (decider, loaded):
        found = one.decide(NEW[0])
        assert found.codes.tolist() == expected.codes.tolist()
        assert found.certificates.tolist() == expected.certificates.tolist()
        assert [one.decide_one(row) for row in NEW[0][:20]] == [expected[i] for i in range(20)]
        assert one.at(0.05).decide(NEW[0]).certificates.mean() < expected.certificates.mean()
        assert one.calibration_scores.tolist() == sorted(decider.calibration_scores)
        assert (one.takes, one.n_calibration, len(one.sharpeners)) == (set(), 200, 5)
        assert one.card() == decider.card() or one.card()["What is guaranteed?"] == decider.describe()
    with pytest.raises(pippin.InputError, match="needed for its decisions, so the file has them: save with scores"):
        decider.save(tmp_path / "e.json", scores=False)


def test_the_certificate_holds_exactly_in_the_predicted_set(decider):
    """`predict` returns the classes under which the certificate holds, in the order of their mean probability."""
    found, sets = decider.decide(NEW[0]), decider.predict(NEW[0])
    holds = UTILITY.values[found.codes] >= found.certificates[:, None]
    assert np.array_equal([sets.contains(np.full(300, y)) for y in range(4)], holds.T)
    mean = np.mean([sharpener(NEW[0]) for sharpener in decider.sharpeners], axis=0)
    for i in range(300):
        members = sets.members[sets.offsets[i] : sets.offsets[i + 1]]
        assert (np.diff(mean[i, members]) < 1e-6).all()
    evaluation = pippin.decisions.evaluate(found, NEW[1], UTILITY, predictor=decider)
    assert evaluation.kept == holds[np.arange(300), NEW[1]].mean()
    assert pippin.evaluate(decider, NEW[1], probs=NEW[0]).coverage == evaluation.kept
    with pytest.warns(UserWarning, match="calibration"):
        pippin.evaluate(decider, KNOWN[1], probs=KNOWN[0])


def test_the_promise_is_the_usual_and_the_proven_share(decider):
    """The description, the card and the repr say that less than 1 − alpha is proven."""
    assert decider.guarantee == pytest.approx(0.6 - 1.6 / 41)
    end = "usually, each action is worth at least its certificate 80% of the time; at least 56.1% is proven."
    assert decider.describe().endswith(end)
    assert "behind 5 sharpeners, the first fitted on 160 rows" in decider.describe()
    card = decider.card()
    level = "alpha = 0.2: that certificates hold in 80% of cases is usual, in 56.1% is proven."
    assert card["At which level?"] == level
    assert card["From how many calibration rows?"] == "200 rows in 5 folds."
    assert repr(decider) == "Decider(a0, a1, a2 sharpened, alpha=0.2, 200 calibration examples in 5 folds, 4 classes)"


def test_the_plot_has_a_line_per_sharpener(decider):
    """The lines show the scores of the folds; no β is marked."""
    axes = decider.plot()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [f"sharpener {f}" for f in range(1, 6)]
    assert axes.get_title(loc="left") == "Certificates kept, per sharpener"


def test_features(tmp_path):
    """Features are required, and give the same decision row by row."""
    probs, labels = confused_rows(260, seed=55)
    features = np.random.default_rng(0).normal(size=(260, 3)) + labels[:, None]
    one = pippin.decisions.calibrate(
        probs[:200], labels[:200], KINDS, 0.2, sharpen="cross(folds=2)", features=features[:200]
    )
    one.save(tmp_path / "d.json")
    one = pippin.load(tmp_path / "d.json")
    assert one.takes == {"features"}
    found = one.decide(probs[200:], features=features[200:])
    assert one.decide_one(probs[200], features=features[200]) == found[0]
    with pytest.raises(pippin.InputError, match="Expected the 3 features that the sharpener was fitted with"):
        one.decide(probs[200:])


def test_too_few_rows_give_the_safe_action():
    """With fewer rows than alpha requires, the action always has the best worst case over all classes."""
    with pytest.warns(UserWarning, match="60 calibration examples are too few for alpha=0.01: at least 99 are needed"):
        one = pippin.decisions.calibrate(KNOWN[0][:60], KNOWN[1][:60], KINDS, 0.01, sharpen="cross")
    found = one.decide(NEW[0])
    assert set(found.actions) == {"a2"}
    assert set(found.certificates) == {0.3}
    assert one.describe().endswith("too few to guarantee more than the worst case, so the action is always a2.")


def test_wrong_use(decider):
    """Each error names the remedy."""
    for wrong in (lambda: decider.betas, lambda: decider.beta):
        with pytest.raises(pippin.InputError, match=r"which compares scores of folds: calibrate with sharpen='split'"):
            wrong()
    for options in ({"per": "class"}, {"groups": np.arange(200) % 2}, {"units": np.arange(200) // 4}):
        with pytest.raises(pippin.InputError, match="Expected sharpen='cross' for one guarantee over all rows"):
            pippin.decisions.calibrate(*KNOWN, UTILITY, 0.2, sharpen="cross", **options)
    with pytest.raises(pippin.InputError, match=r"which compares scores of folds: calibrate with sharpen='split'"):
        c_header(decider)
