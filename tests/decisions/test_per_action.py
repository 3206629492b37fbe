"""Certificates that hold within each action: guarantee by simulation, exact definition, files, options, warnings."""

import pickle
from fractions import Fraction

import numpy as np
import pytest

import pippin
from support.decisions import drawn, field, utility_of
from support.predictor_files import write

DATA, UTILITY = field()
FIT, TEST = slice(0, 2000), slice(2000, None)


def made(alpha=0.02, per="action", **options):
    return pippin.decisions.calibrate(
        DATA.probs[FIT], DATA.labels[FIT], UTILITY, alpha, classes=DATA.classes, per=per, **options
    )


@pytest.mark.filterwarnings("ignore:Too few calibration rows for some actions")
@pytest.mark.parametrize("tied", [False, True])
def test_certificates_hold_within_every_action(tied):
    """P(U(a, Y) ≥ certificate | action a) ≥ 1 − α in 2,000 worlds (1,000 with ties) of 60 overconfident rows.

    Given the policy, the numbers of objects with an action and of broken certificates among them are exchangeable with
    those of the calibration rows, so over all worlds their ratio is at most α, up to four standard errors. Marginal
    certificates break this bound for some action in the same worlds, if scores do not tie.
    """
    rng = np.random.default_rng([3, tied])
    utilities = np.array([[1.0, 0.8, -2.0], [-1.0, -0.5, 1.0], [0.2, 0.2, 0.3]])
    probs, labels = drawn(rng, 40_000, 3, honest=False)
    if tied:
        probs = np.round(4 * probs + 0.3)
        probs /= probs.sum(axis=1, keepdims=True)
    utility, alpha = utility_of(utilities), 0.2
    chosen, broken = np.zeros((2, 2000, 3)), np.zeros((2, 2000, 3))
    n_worlds = 1000 if tied else 2000
    for world in range(n_worlds):
        rows, test = rng.integers(0, len(labels), 60), rng.integers(0, len(labels), 60)
        for rule, per in enumerate(("action", None)):
            if per is None and (tied or world >= 300):
                continue
            decider = pippin.decisions.calibrate(probs[rows], labels[rows], utility, alpha, per=per, seed=world)
            found = decider.decide(probs[test])
            fails = utilities[found.codes, labels[test]] < found.certificates
            chosen[rule, world] = np.bincount(found.codes, minlength=3)
            broken[rule, world] = np.bincount(found.codes, fails, minlength=3)
    excess = broken - alpha * chosen
    errors = excess[0, :n_worlds].std(axis=0) / np.sqrt(n_worlds)
    assert (excess[0, :n_worlds].mean(axis=0) <= 4 * errors).all(), broken[0].sum(axis=0) / chosen[0].sum(axis=0)
    assert (chosen[0].sum(axis=0) > 2 * n_worlds).all()  # every action occurs
    assert broken[0].sum() > 0.05 * chosen[0, :, :2].sum()  # certificates are not all trivial
    marginal = excess[1, :300]
    assert tied or (marginal.mean(axis=0) > 4 * marginal.std(axis=0) / np.sqrt(300)).any()


def slow_decider(probs, labels, utilities, alpha, learning, calibrating):
    """Calibrate certificates per action in exact fractions; return a function that decides for one row.

    The marginal decider of the learning rows, which other tests compare with its definition, is the base policy.
    """
    table = [[Fraction(float(x)) for x in row] for row in utilities]
    safe = int(np.argmax(utilities.min(axis=1)))

    def mass(row, a, v):
        return sum((Fraction(float(p)) for p, x in zip(row, table[a], strict=True) if x >= v), Fraction(0))

    def threshold(values):
        k = -(-(len(values) + 1) * (1 - Fraction(alpha)) // 1)
        return sorted(values)[int(k) - 1] if k <= len(values) else None

    marginal = pippin.decisions.calibrate(probs[learning], labels[learning], utility_of(utilities), alpha).decide(probs)
    choices = dict(enumerate(zip(marginal.codes.tolist(), marginal.certificates.tolist(), strict=True)))
    sure = {i: mass(probs[i], *choices[i]) for i in choices}
    floors = {}
    for a in range(len(table)):
        mine = [i for i in learning if choices[i][0] == a]
        allowed = []
        for floor in {sure[i] for i in mine}:
            reach = [i for i in mine if sure[i] >= floor]
            if sum(table[a][labels[i]] < choices[i][1] for i in reach) <= Fraction(alpha) * len(reach):
                allowed.append(floor)
        floors[a] = 0 if a == safe else min(allowed, default=2)
    final = {i: choices[i][0] if sure[i] >= floors[choices[i][0]] else safe for i in choices}
    scores = {a: [] for a in range(len(table))}
    for i in calibrating:
        a = final[i]
        higher = [x for x in table[a] if x > table[a][labels[i]]]
        scores[a].append(mass(probs[i], a, min(higher)) if higher else Fraction(0))
    limits = {a: threshold(values) for a, values in scores.items()}

    def decide(i):
        a, row = final[i], probs[i]
        good = [v for v in table[a] if limits[a] is not None and mass(row, a, v) > limits[a]]
        return a, float(max(good, default=min(table[a])))

    return decide


@pytest.mark.filterwarnings("ignore:Too few calibration rows for some actions")
def test_decisions_equal_the_exact_definition():
    """Decisions equal the definition in exact fractions, with ties of probabilities and utilities."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        utilities = rng.integers(-2, 3, (3, 4)).astype(float)
        probs, labels = rng.multinomial(16, np.ones(4) / 4, 40) / 16, rng.integers(0, 4, 40)
        learning, calibrating = np.split(np.random.default_rng(seed).permutation(40), [20])
        wanted = slow_decider(probs, labels, utilities, 0.5, learning, calibrating)
        per = "action(learning_fraction=0.5)"
        decider = pippin.decisions.calibrate(probs, labels, utility_of(utilities), 0.5, per=per, seed=seed)
        found = decider.decide(probs)
        assert list(zip(found.codes.tolist(), found.certificates.tolist(), strict=True)) == list(map(wanted, range(40)))


@pytest.mark.parametrize("sharpen", [None, "split"])
def test_saved_deciders_load_to_the_same_bits(sharpen, tmp_path):
    decider = made(sharpen=sharpen)
    wanted = decider.decide(DATA.probs[TEST])
    decider.save(tmp_path / "d.json")
    for other in (pippin.load(tmp_path / "d.json"), pickle.loads(pickle.dumps(decider))):  # noqa: S301 - our own
        assert (repr(other), other.describe()) == (repr(decider), decider.describe())
        for level in (decider, decider.at(0.2)):
            again = other.at(level.alpha).decide(DATA.probs[TEST])
            np.testing.assert_array_equal(again.codes, level.decide(DATA.probs[TEST]).codes)
            np.testing.assert_array_equal(again.certificates, level.decide(DATA.probs[TEST]).certificates)
    assert other.decide_one(DATA.probs[2000]) == wanted[0]
    decider.save(tmp_path / "short.json", scores=False)
    short = pippin.load(tmp_path / "short.json")
    np.testing.assert_array_equal(short.decide(DATA.probs[TEST]).certificates, wanted.certificates)
    with pytest.raises(pippin.InputError, match="saved without its calibration scores"):
        short.at(0.2)


def test_inconsistent_files_raise_errors(tmp_path):
    content = made().content()
    scores = content["calibration_scores"]
    for key, value, message in (
        ("thresholds", [0.5, 0.5, 0.5], "thresholds are not those of its calibration scores"),
        ("floors", [0.5, -1.0, 0.0], "floors makes no sense"),
        ("floors", [0.5, 0.5], "floors makes no sense"),
        ("beta", [-1.0], "beta makes no sense"),
        ("cell_counts", [1, 1, 1], "n_calibration makes no sense"),
        ("calibration_scores", scores[::-1], "calibration_scores makes no sense"),
    ):
        write(tmp_path / "bad.json", {**content, key: value}, version=2)
        with pytest.raises(pippin.InputError, match=f"holds no sound predictor .*{message}"):
            pippin.load(tmp_path / "bad.json")


def test_sets_and_evaluation_agree_with_the_certificates():
    """Sets contain the true class exactly if the certificate holds, and the evaluation has the share of each action."""
    decider = made(0.1)
    found, sets = decider.decide(DATA.probs[TEST]), decider.predict(DATA.probs[TEST])
    kept = UTILITY.of(DATA.classes)[found.codes, DATA.labels[TEST]] >= found.certificates
    np.testing.assert_array_equal(sets.contains(DATA.labels[TEST]), kept)
    result = pippin.decisions.evaluate(found, DATA.labels[TEST], UTILITY, predictor=decider)
    for name, share in result.kept_by_action.items():
        assert share == kept[found.actions == name].mean()
    assert "kept" in str(result)
    assert "kept" in result._repr_html_()
    expected = pippin.decisions.best_response(DATA.probs[TEST], UTILITY, classes=DATA.classes)
    assert not pippin.decisions.evaluate(expected, DATA.labels[TEST], UTILITY).kept_by_action


def test_actions_with_few_rows_get_their_worst_case():
    """At α = 0.02, an action needs 49 rows; with fewer, its certificate is its smallest utility, with a warning."""
    with pytest.warns(UserWarning, match=r"alpha=0.02 needs 49 rows of each action, and the policy selects leave for"):
        decider = pippin.decisions.calibrate(
            DATA.probs[:500], DATA.labels[:500], UTILITY, 0.02, classes=DATA.classes, per="action"
        )
    found = decider.decide(DATA.probs)
    assert set(found.certificates[found.actions == "leave"]) <= {-1.0}
    assert set(found.certificates[found.actions == "spray"]) == {1.0}


def test_rejected_options():
    for options, message in (
        ({"per": "action(share=0.5)"}, "with learning_fraction only"),
        ({"per": "action(learning_fraction=1.5)"}, "a learning fraction strictly"),
        ({"groups": np.zeros(2000, int)}, "Expected no groups with per='action'"),
        ({"units": np.arange(2000)}, "Expected one of units="),
        ({"sharpen": "mixture"}, "one guarantee over all rows"),
        ({"alpha": {"weed": 0.1, "crop": 0.1}}, "one per kind without kinds"),
    ):
        with pytest.raises(pippin.InputError, match=message):
            made(**options)
    assert "leave" in made().card()["How much does it vary between calibrations?"]
    made().plot()
