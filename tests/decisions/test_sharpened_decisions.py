"""Decisions on sharpened (recalibrated) probabilities or clustered rows: exact laws, files, command line, wrong use."""

import numpy as np
import pytest
from scipy import stats

import pippin
from pippin._theory.level import quantile_rank
from support.confused_rows import confused_rows
from support.decisions import utility_of

KINDS = {0: "weed", 1: "weed", 2: "crop", 3: "crop"}
UTILITY = pippin.decisions.Utility(
    {"spray": {"weed": 1, "crop": -2}, "leave": {"weed": -1, "crop": 1}, "ask": {"weed": 0.3, "crop": 0.3}},
    kinds=KINDS,
)
BY_CLASS = utility_of([[1.0, 0.8, -2.0, -1.0], [-1.0, -0.5, 1.0, 0.9], [0.2, 0.2, 0.2, 0.3]])
LEVELS = {"weed": 0.1, "crop": 0.05}


@pytest.fixture(scope="module")
def sharper():
    """Return a sharpener fitted on 200 rows."""
    return pippin.sharpen(*confused_rows(200))


def kept(decider, probs, labels, **more):
    """Return True for each row whose certificate holds."""
    found = decider.decide(probs, **more)
    return decider.utility.of(decider.classes)[found.codes, labels] >= found.certificates


def test_sharpened_multipliers_follow_the_beta_distribution(sharper):
    """Over 800 calibrations of 49 rows, the share of rows with a score of at most β is Beta(45, 5)-distributed."""
    probs, labels = confused_rows(800 * 49 + 20_000, seed=30)
    scores = pippin.decisions.calibrate(sharper(probs), labels, BY_CLASS).calibration_scores
    test = np.sort(scores)
    shares, held = [], []
    for start in range(0, 800 * 49, 49):
        part = slice(start, start + 49)
        decider = pippin.decisions.calibrate(probs[part], labels[part], BY_CLASS, 0.1, sharpen=sharper)
        shares.append(np.searchsorted(test, decider.beta, side="right") / len(test))
        if start % (8 * 49) == 0:
            held.append(kept(decider, probs[-8000:], labels[-8000:]).mean())
    assert stats.kstest(shares, stats.beta(45, 5).cdf, alternative="greater").pvalue > 0.01
    assert np.mean(held) > 0.9 - 4 * np.sqrt(0.09 / 8000)


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_exact_guarantee_by_leaving_one_row_out(sharper, alpha):
    """If each of n + 1 rows is left out in turn, the certificates (guaranteed utilities) of at least k of them hold."""
    probs, labels = confused_rows(60, seed=31)
    every = np.arange(60)
    held = [
        kept(
            pippin.decisions.calibrate(probs[every != i], labels[every != i], BY_CLASS, alpha, sharpen=sharper),
            probs[[i]],
            labels[[i]],
        )[0]
        for i in range(60)
    ]
    assert sum(held) >= quantile_rank(59, alpha)


@pytest.mark.parametrize("sharpened", [False, True])
def test_exact_guarantee_by_leaving_one_unit_out(sharper, sharpened):
    """If each cluster of rows is left out in turn, the mean share of its certificates that hold is at least 1 − α."""
    probs, labels = confused_rows(300, seed=32)
    units = np.sort(np.random.default_rng(0).integers(0, 40, 300) ** 2 // 40)
    names = np.unique(units)
    shares = []
    for unit in names:
        others = units != unit
        decider = pippin.decisions.calibrate(
            probs[others], labels[others], BY_CLASS, 0.2, units=units[others], sharpen=sharper if sharpened else None
        )
        shares.append(kept(decider, probs[~others], labels[~others]).mean())
    assert np.mean(shares) >= 0.8


@pytest.mark.parametrize(
    "options",
    [{}, {"per": "class"}, {"per": "kind"}, {"groups": True}, {"units": True}, {"alpha": LEVELS, "per": "kind"}],
    ids=str,
)
def test_decisions_equal_those_on_sharpened_rows(sharper, options, tmp_path):
    """Decisions equal those calibrated on sharpened rows, for every taxonomy, in files and row by row."""
    probs, labels = confused_rows(700, seed=33)
    names = np.arange(700) % 5
    options = {"alpha": 0.2, **options} | {name: names[:500] for name in ("groups", "units") if name in options}
    one = pippin.decisions.calibrate(probs[:500], labels[:500], UTILITY, sharpen=sharper, **options)
    plain = pippin.decisions.calibrate(sharper(probs[:500]), labels[:500], UTILITY, **options)
    more = {"groups": names[500:]} if "groups" in options else {}
    expected = plain.decide(sharper(probs[500:]), **more)
    assert one.calibration_scores.tolist() == plain.calibration_scores.tolist()
    one.save(tmp_path / "d.json")
    for decider in (one, pippin.load(tmp_path / "d.json")):
        found = decider.decide(probs[500:], **more)
        assert found.codes.tolist() == expected.codes.tolist()
        assert found.certificates.tolist() == expected.certificates.tolist()
        sets, wanted = decider.predict(probs[500:], **more), plain.predict(sharper(probs[500:]), **more)
        assert sets.members.tolist() == wanted.members.tolist()
        for i in range(0, 200, 20):
            group = {"group": names[500 + i]} if more else {}
            assert decider.decide_one(probs[500 + i], **group) == expected[i]
        assert "behind a sharpener fitted on 200 rows" in decider.describe()
        assert decider.takes == plain.takes
        assert "sharpened" in repr(decider)
    if "per" not in options:
        assert one.at(0.3).betas.tolist() == plain.at(0.3).betas.tolist()
    with pytest.raises(pippin.InputError, match="Expected 4 columns, one per class"):
        one.decide(probs[:, :3], **more)


def test_units_are_described_and_drawn(tmp_path):
    """The description, the effective sample size, the plot and the warning are those of units, not of rows."""
    probs, labels = confused_rows(300, seed=34)
    decider = pippin.decisions.calibrate(probs, labels, UTILITY, 0.2, units=np.arange(300) // 6)
    assert "from 300 rows of 50 units: each action" in decider.describe()
    assert decider.describe().endswith("80% of the time, for a row drawn at random from a new unit.")
    assert decider.n_effective == 50
    assert "50 units of 300 calibration examples" in repr(decider)
    new, truth = confused_rows(300, seed=36)
    evaluation = pippin.evaluate(decider, truth, probs=new, units=np.arange(300) // 6)
    assert evaluation.n_calibration == 50
    assert decider.plot().get_title(loc="left").startswith("Certificates kept: β = ")
    with pytest.raises(
        pippin.InputError, match="needed for its decisions, so the file has them: save with scores=True"
    ):
        decider.save(tmp_path / "d.json", scores=False)
    with pytest.warns(UserWarning, match="3 calibration units are too few for alpha=0.2: at least 4 are needed"):
        few = pippin.decisions.calibrate(probs, labels, UTILITY, 0.2, units=np.arange(300) // 100)
    assert set(few.decide(probs).actions) == {"ask"}
    one_row_each = pippin.decisions.calibrate(probs, labels, UTILITY, 0.2, units=np.arange(300))
    assert one_row_each.beta == pippin.decisions.calibrate(probs, labels, UTILITY, 0.2).beta


def test_split_divides_rows_or_units():
    """One part of the rows fits the sharpener and the other calibrates; clusters of rows are not divided."""
    probs, labels = confused_rows(600, seed=35)
    half = pippin.decisions.calibrate(probs, labels, UTILITY, 0.2, sharpen=True, seed=1)
    assert (half.sharpeners[0].out_of_fold.n, half.n_calibration) == (300, 300)
    third = pippin.decisions.calibrate(
        probs, labels, UTILITY, 0.2, sharpen="split(learning_fraction=0.3)", units=np.arange(600) // 6
    )
    assert (third.sharpeners[0].out_of_fold.n, third.n_calibration, third.n_effective) == (180, 420, 70)


def test_mixture_draws_one_of_five_sharpeners(tmp_path):
    """Each object has the action of one of five deciders, each calibrated on rows that its sharpener has not seen."""
    probs, labels = confused_rows(900, seed=39)
    saved = pippin.decisions.calibrate(probs[:600], labels[:600], UTILITY, 0.2, sharpen="mixture", seed=2)
    saved.save(tmp_path / "d.json")
    decider = pippin.load(tmp_path / "d.json")
    assert decider.takes == {"seed"}
    assert (decider.n_calibration, len(decider.sharpeners), decider.betas.shape) == (600, 5, (5, 4))
    assert "sharpened in a mixture" in repr(decider)
    assert "of which every object draws one: each action is worth" in decider.describe()
    parts = np.array_split(np.random.default_rng(2).permutation(600), 5)
    singles = []
    for sharpener, part, beta in zip(decider.sharpeners, parts, decider.betas[:, 0], strict=True):
        part = np.sort(part)
        alone = pippin.decisions.calibrate(probs[part], labels[part], UTILITY, 0.2, sharpen=sharpener)
        assert alone.beta == beta
        singles.append(alone.decide(probs[600:]).codes)
    found, again = decider.decide(probs[600:], seed=5), saved.decide(probs[600:], seed=5)
    assert found.codes.tolist() == again.codes.tolist()
    drawn = np.random.default_rng(5).integers(5, size=300)
    assert found.codes.tolist() == [singles[k][i] for i, k in enumerate(drawn)]
    assert decider.decide_one(probs[600], seed=5) == decider.decide(probs[600:601], seed=5)[0]
    assert decider.at(0.1).betas.shape == (5, 4)
    assert len(decider.plot().get_legend().get_texts()) == 5
    for share in (kept(decider, probs[600:], labels[600:], seed=seed).mean() for seed in range(5)):
        assert share > 0.72


def test_features_are_needed_where_the_sharpener_has_them(tmp_path):
    """Missing and superfluous features are refused; a row alone equals the same row in a batch."""
    probs, labels = confused_rows(600, seed=36)
    features = np.random.default_rng(0).normal(size=(600, 3)) + labels[:, None]
    decider = pippin.decisions.calibrate(
        probs[:500], labels[:500], UTILITY, 0.2, sharpen="split", features=features[:500]
    )
    decider.save(tmp_path / "d.json")
    decider = pippin.load(tmp_path / "d.json")
    assert decider.takes == {"features"}
    found = decider.decide(probs[500:], features=features[500:])
    assert decider.decide_one(probs[500], features=features[500]) == found[0]
    for wrong in (lambda: decider.decide(probs[500:]), lambda: decider.decide_one(probs[500])):
        with pytest.raises(pippin.InputError, match="Expected the 3 features that the sharpener was fitted with"):
            wrong()
    evaluation = pippin.evaluate(decider, labels[500:], probs=probs[500:], features=features[500:])
    assert evaluation.coverage == kept(decider, probs[500:], labels[500:], features=features[500:]).mean()
    plain = pippin.decisions.calibrate(probs[:500], labels[:500], UTILITY, 0.2)
    for wrong in (
        lambda: plain.decide(probs[:9], features=features[:9]),
        lambda: plain.decide_one(probs[0], features=features[0]),
    ):
        with pytest.raises(pippin.InputError, match="Expected features= only for a sharpened decider, got some"):
            wrong()
    with pytest.raises(pippin.InputError, match="Expected features= only with sharpen="):
        pippin.decisions.calibrate(probs, labels, UTILITY, 0.2, features=features)


def test_wrong_use():
    """Each error names what was expected, what was received, and the remedy."""
    probs, labels = confused_rows(400, seed=38)
    sharper = pippin.sharpen(probs[:200], labels[:200])
    with pytest.raises(pippin.InputError, match="got 200 of 400 that it was fitted on: split the rows first"):
        pippin.decisions.calibrate(probs, labels, UTILITY, 0.2, sharpen=sharper)
    with pytest.raises(pippin.InputError, match="Expected sharpen='mixture' for one guarantee over all rows"):
        pippin.decisions.calibrate(probs, labels, UTILITY, 0.2, sharpen="mixture", per="kind")
    with pytest.raises(pippin.InputError, match="Expected one of units=, per= or groups=, got them together"):
        pippin.decisions.calibrate(probs, labels, UTILITY, 0.2, units=np.arange(400), per="class")
    with pytest.raises(pippin.InputError, match="got one per kind without kinds of classes"):
        pippin.decisions.calibrate(probs, labels, UTILITY, LEVELS, units=np.arange(400))
    with pytest.raises(pippin.InputError, match="Expected the classes of the sharpener"):
        pippin.decisions.calibrate(
            probs, labels, utility_of(BY_CLASS.values), 0.2, classes=(3, 2, 1, 0), sharpen=sharper
        )


def test_a_decider_and_a_predictor_are_no_mixture(sharper, tmp_path):
    """A file with a decider and a predictor as the parts of a mixture is refused."""
    from pippin._conformal.serialization import write_file

    probs, labels = confused_rows(300, seed=37)
    decider = pippin.decisions.calibrate(probs, labels, UTILITY, 0.2, sharpen=sharper)
    predictor = pippin.calibrate(probs, labels, "ip", 0.2, sharpen=sharper)
    write_file(tmp_path / "m.json", {"kind": "sharpened mixture", "parts": [decider.content(), predictor.content()]})
    with pytest.raises(pippin.InputError, match="its parts makes no sense"):
        pippin.load(tmp_path / "m.json")
