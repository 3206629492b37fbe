"""Decisions and their scores against an exact implementation of the definition, with both engines."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pippin
from pippin._engine import dispatch
from pippin._theory.policy import make_policy
from pippin._validation.rows import as_rows
from support.decisions import slow_choice, slow_lines, slow_score, utility_of
from support.engines import compiled, plain

ENGINES = [plain, compiled]


def scores_of(engine, probs, labels, policy):
    scores = np.empty(len(probs))
    engine.decision_scores(probs, labels, policy, scores)
    return scores


def decided(engine, probs, policy, limits, group=None):
    found = np.zeros(len(probs), np.int32), np.zeros(len(probs))
    engine.decisions(probs, policy, limits, np.zeros(len(probs), np.int64) if group is None else group, found)
    return found


@st.composite
def problems(draw):
    """Draw decision problems with few classes and actions, and ties of utilities and probabilities."""
    n_classes, n_actions = draw(st.integers(2, 6)), draw(st.integers(2, 4))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    whole = draw(st.booleans())
    utilities = (
        rng.integers(-2, 3, (n_actions, n_classes)).astype(float) if whole else rng.normal(size=(n_actions, n_classes))
    )
    if draw(st.booleans()):
        probs = rng.multinomial(16, np.ones(n_classes) / n_classes, 6) / 16
    else:
        probs = rng.dirichlet(np.full(n_classes, draw(st.sampled_from([0.2, 1.0, 5.0]))), 6)
    return utilities, probs, rng.integers(0, n_classes, 6), rng


@given(problems())
def test_scores_equal_the_definition(problem):
    """Scores equal the definition in exact fractions, and both engines agree to the last bit."""
    utilities, probs, labels, _ = problem
    policy = make_policy(utilities)
    found = scores_of(plain, probs, labels, policy)
    np.testing.assert_array_equal(scores_of(compiled, probs, labels, policy), found)
    wanted = [slow_score(row, label, utilities) for row, label in zip(probs, labels, strict=True)]
    near = np.array(wanted) < 1e12  # beyond that a score is a quotient of what rounding left
    np.testing.assert_allclose(found[near], np.array(wanted)[near], rtol=1e-6, atol=1e-12)


@given(problems(), st.floats(0, 50))
def test_actions_equal_the_definition(problem, beta):
    """Actions equal the definition for any β; of pairs that tie within rounding, both are accepted."""
    utilities, probs, _, _ = problem
    policy = make_policy(utilities)
    actions, certificates = decided(plain, probs, policy, np.array([[beta]]))
    again = decided(compiled, probs, policy, np.array([[beta]]))
    np.testing.assert_array_equal(again[0], actions)
    np.testing.assert_array_equal(again[1], certificates)
    for row, action, certificate in zip(probs, actions, certificates, strict=True):
        wanted_action, wanted = slow_choice(slow_lines(row, utilities), beta)
        mass, wanted_mass = (
            row[utilities[a] >= v].sum() for a, v in ((action, certificate), (wanted_action, float(wanted)))
        )
        assert certificate + beta * mass == pytest.approx(float(wanted) + beta * wanted_mass, abs=1e-9)


@given(problems())
def test_engines_agree_at_crossings_of_lines(problem):
    """Engines agree at a β where two actions tie up to rounding, and at the adjacent floats."""
    utilities, probs, labels, _ = problem
    policy = make_policy(utilities)
    scores = scores_of(plain, probs, labels, policy)
    for beta in scores[np.isfinite(scores)]:
        for near in (np.nextafter(beta, 0), beta, np.nextafter(beta, np.inf)):
            assert_decided_alike(probs, policy, np.array([[near]]))


@given(problems())
def test_certificates_hold_for_scores_up_to_beta(problem):
    """Certificates hold for scores up to β, to the last bit, in both engines, also with one β per outcome."""
    utilities, probs, labels, rng = problem
    policy = make_policy(utilities)
    for engine in ENGINES:
        scores = scores_of(engine, probs, labels, policy)
        for beta in (*scores[np.isfinite(scores)], 0.0, 1.0, 1e9, np.inf):
            actions, certificates = decided(engine, probs, policy, np.array([[beta]]))
            assert (utilities[actions, labels] >= certificates)[scores <= beta].all()
        limits = rng.choice(np.append(scores, np.inf), (1, policy.n_outcomes))
        actions, certificates = decided(engine, probs, policy, limits)
        own = limits[0, policy.outcome[labels]]
        assert (utilities[actions, labels] >= certificates)[scores <= own].all()


@pytest.mark.parametrize(("sharpness", "seed"), [(1, 1), (3, 3), (8, 8), (60, 61), (60, 65)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_engines_agree_on_many_lines(kind, sharpness, seed):
    """Engines agree for five actions with 300 distinct utilities each.

    Masses of the most peaked rows differ by rounding only, and their utilities by orders of magnitude.
    """
    rng = np.random.default_rng(seed)
    logits = sharpness * rng.normal(size=(60, 300))
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs, utilities = probs / probs.sum(axis=1, keepdims=True), rng.normal(size=(5, 300))
    probs, policy = probs.astype(kind), make_policy(np.exp(3 * utilities) if sharpness == 60 else utilities)
    labels = np.where(np.arange(60) % 2, probs.argmax(axis=1), rng.integers(0, 300, 60))
    scores = scores_of(plain, probs, labels, policy)
    np.testing.assert_array_equal(scores_of(compiled, probs, labels, policy), scores)
    for beta in (0.0, 1.0, 30.0, 1e5):
        assert_decided_alike(probs, policy, np.array([[beta]]))


def assert_decided_alike(probs, policy, limits, group=None):
    for a, b in zip(*(decided(engine, probs, policy, limits, group) for engine in ENGINES), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("n_actions", [2, 3, 5])
@pytest.mark.parametrize(("n", "grain"), [(200, 64), (1_000, 4), (1_000, 64)])
def test_engines_agree_on_ties(n_actions, n, grain):
    """Engines agree if utilities tie, probabilities are 0, 1 or sixteenths, and scores 0 or infinite."""
    rng = np.random.default_rng(grain)
    utilities = np.round(grain * rng.normal(size=(n_actions, n))) / grain
    utilities = np.where(rng.random(n) < 0.5, utilities, rng.normal(size=(n_actions, n)))
    policy, some = make_policy(utilities), rng.integers(0, n, (90, 16))
    some[:3] = utilities.max(axis=0).argmax()
    probs = np.zeros((90, n))
    np.add.at(probs, (np.arange(90)[:, None], np.where(np.arange(90)[:, None] < 10, some[:, :1], some)), 1 / 16)
    labels = np.where(np.arange(90) % 3, some[:, 0], rng.integers(0, n, 90))
    scores = scores_of(plain, probs, labels, policy)
    assert (scores == 0).any()
    assert np.isinf(scores).any()
    np.testing.assert_array_equal(scores_of(compiled, probs, labels, policy), scores)
    for beta in (0.0, 1.0, np.median(scores), np.inf):
        assert_decided_alike(probs, policy, np.array([[beta]]))
    limits = rng.choice(scores, (3, policy.n_outcomes))
    assert_decided_alike(probs, policy, limits, rng.integers(0, 3, 90))


def test_rows_are_independent_of_other_rows():
    """Decisions for a row are the same alone, in a pair, and with all rows."""
    rng = np.random.default_rng(3)
    probs, utilities = rng.dirichlet(np.ones(5), 7), rng.normal(size=(3, 5))
    decider = pippin.decisions.calibrate(probs, rng.integers(0, 5, 7), utility_of(utilities), 0.3)
    whole = decider.decide(probs)
    for i, row in enumerate(probs):
        assert decider.decide_one(row) == whole[i] == decider.decide(probs[i : i + 2])[0]


def test_invalid_rows_raise_errors():
    """Invalid rows raise in both engines, and in functions for single rows."""
    policy = make_policy(np.array([[1.0, -1.0], [0.0, 0.0]]))
    with pytest.raises(pippin.InputError, match=r"Row 1 sums to 0\.5"):
        dispatch.decide(as_rows(np.array([[0.5, 0.5], [0.25, 0.25]])), policy, np.ones((1, 1)), None)
    decider = pippin.decisions.calibrate(np.full((20, 2), 0.5), [0, 1] * 10, utility_of(policy.table), 0.2)
    with pytest.raises(pippin.InputError, match=r"The row sums to 0\.5"):
        decider.decide_one(np.array([0.25, 0.25]))
    with pytest.raises(pippin.InputError, match="has nan in column 0"):
        decider.decide_one(np.array([np.nan, 1.0]))
    bad = np.full((400_000, 3), 1 / 3)
    bad[399_999, 0] = -1
    three = make_policy(np.array([[1.0, -1.0, 0.5], [0.0, 0.0, 0.0]]))
    with pytest.raises(pippin.InputError, match="Row 399999"):
        dispatch.decision_scores(as_rows(bad), np.zeros(len(bad), np.int64), three)
