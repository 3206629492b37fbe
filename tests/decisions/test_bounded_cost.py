"""Decisions with a bound on their expected cost: confidence by simulation, exact definition, files, checks of costs."""

import math
import pickle

import numpy as np
import pytest
from scipy import stats

import pippin
from support.decisions import drawn, field, utility_of
from support.predictor_files import write

DATA, UTILITY = field()
FIT, TEST = slice(0, 2000), slice(2000, None)
COSTS = {"operate": {"ill": 0, "well": 5}, "discharge": {"ill": 50, "well": 0}, "biopsy": {"ill": 2, "well": 2}}


def made(bound=None, **options):
    return pippin.decisions.bound_cost(
        DATA.probs[FIT], DATA.labels[FIT], UTILITY, bound=bound, classes=DATA.classes, **options
    )


def slow_actions(probs, utilities, weight):
    """Return the action of each row under a weight of the worst case; of ties, the first."""
    actions = []
    for row in probs:
        values = [
            (1 - weight) * math.fsum(p * u for p, u in zip(row, us, strict=True)) + weight * min(us) for us in utilities
        ]
        actions.append(values.index(max(values)))
    return np.array(actions)


def slow_e_value(costs, mean, largest):
    """Return the e-value of the definition: the average of Π (1 + λ(μ − c)) over five bets λ."""
    bets = [bet / (largest - mean) for bet in (0.98, 0.9, 0.75, 0.5, 0.2)]
    return sum(math.prod(1 + bet * (mean - cost) for cost in costs) for bet in bets) / 5


def test_bounds_on_all_expected_costs_hold_together_with_confidence():
    """In 2,000 worlds of 60 rows from a finite population, at most a share δ has an expected cost above its bound.

    All ten bounds count, so the bound of whichever policy is chosen holds too. The number of failures is compared with
    the 99.9% quantile of a binomial distribution. The chosen policies are not all the careful action.
    """
    rng = np.random.default_rng(9)
    probs, labels = drawn(rng, 4_000, 3, honest=False)
    utilities = np.array([[0.0, -1.0, -8.0], [-2.0, 0.0, -1.0], [-1.5, -1.5, -1.0]])
    costs = np.stack([-utilities[slow_actions(probs, utilities, w), labels] for w in made().weights])
    expected, utility = costs.mean(axis=1), utility_of(utilities)
    failures, weights, bounds = 0, [], []
    for _ in range(2000):
        rows = rng.integers(0, len(labels), 60)
        policy = pippin.decisions.bound_cost(probs[rows], labels[rows], utility, confidence=0.7)
        failures += bool((policy.cost_bounds < expected - 1e-9).any())
        weights.append(policy.weight)
        bounds.append(policy.cost_bounds[0])
    assert failures <= stats.binom.ppf(0.999, 2000, 0.3)
    assert np.mean(np.array(weights) < 0.5) > 0.5
    assert np.mean(bounds) < 3 * expected[0]


def test_mean_costs_and_bounds_equal_the_definition():
    """Actions, mean costs and bounds of all policies equal the definition in plain Python."""
    rng = np.random.default_rng(4)
    probs, labels = rng.dirichlet(np.ones(4), 50), rng.integers(0, 4, 50)
    utilities = np.round(rng.normal(size=(3, 4)), 2)
    policy = pippin.decisions.bound_cost(probs, labels, utility_of(utilities), confidence=0.9)
    spread = utilities.max() - utilities.min()
    for i, weight in enumerate(policy.weights[:-1]):
        actions = slow_actions(probs, utilities, weight)
        costs = -utilities[actions, labels]
        assert policy.mean_costs[i] == pytest.approx(costs.mean())
        delta, bound = 0.1 / 2 / (1 if i == 0 else 8), policy.cost_bounds[i] + utilities.max()
        assert slow_e_value(costs + utilities.max(), bound, spread) == pytest.approx(1 / delta, rel=1e-3)
    assert policy.cost_bounds[-1] == -utilities.min(axis=1).max()
    chosen = pippin.decisions.bound_cost(probs, labels, utility_of(utilities), bound=policy.cost_bounds[-1])
    for other in (policy, chosen, policy.at(float(policy.cost_bounds.min()))):
        decided = other.decide(probs).codes
        np.testing.assert_array_equal(decided, slow_actions(probs, utilities, other.weight))
        assert other.cost_bound == other.cost_bounds[other.weights.index(other.weight)]
        assert other.bound is None or other.cost_bound <= other.bound


def test_a_smaller_bound_gives_a_more_careful_policy():
    """A requested bound excludes policies with larger bounds; below the smallest one, an error names it."""
    policy = made()
    assert policy.mean_cost == policy.mean_costs.min()
    order = np.argsort(policy.cost_bounds)
    for i in order:
        allowed = made(float(policy.cost_bounds[i]))
        assert allowed.mean_cost == policy.mean_costs[policy.cost_bounds <= policy.cost_bounds[i]].min()
        assert allowed.at(None).weight == policy.weight
    least = policy.cost_bounds[order[0]]
    for wrong in (least - 0.01, math.nan, math.inf, "1"):
        with pytest.raises(pippin.InputError, match="Expected a bound of at least"):
            policy.at(wrong)
    assert "at least 95% of calibrations" in policy.card()["How much does it vary between calibrations?"]
    assert "with 95% confidence, their expected cost is at most" in policy.describe()


def test_saved_policies_load_to_the_same_bits(tmp_path):
    policy = made(0.5)
    wanted = policy.decide(DATA.probs[TEST])
    policy.save(tmp_path / "c.json")
    for other in (pippin.load(tmp_path / "c.json"), pickle.loads(pickle.dumps(policy))):  # noqa: S301 - our own
        assert (repr(other), other.describe(), other.checksum) == (repr(policy), policy.describe(), policy.checksum)
        np.testing.assert_array_equal(other.decide(DATA.probs[TEST]).codes, wanted.codes)
    assert policy.decide_one(DATA.probs[2000]) == wanted[0]
    content = policy.content()
    means, bounds = content["mean_costs"], content["cost_bounds"]
    for key, value in (
        ("weights", [*content["weights"][:-1], 2.0]),
        ("confidence", 1.0),
        ("bound", -3.0),
        ("bound", "much"),
        ("mean_costs", [3.0, *means[1:]]),
        ("cost_bounds", [*bounds[:-1], 0.0]),
        ("cost_bounds", [means[0] - 0.01, *bounds[1:]]),
    ):
        write(tmp_path / "bad.json", {**content, key: value}, version=2)
        with pytest.raises(pippin.InputError, match=f"holds no sound predictor .*{key} makes no sense"):
            pippin.load(tmp_path / "bad.json")


def test_costs_are_negated_and_their_signs_and_orientation_checked():
    utility = pippin.decisions.Utility.from_costs(COSTS)
    np.testing.assert_array_equal(utility.of(["well", "ill"]), [[-5, 0], [0, -50], [-2, -2]])
    array = pippin.decisions.Utility.from_costs([[0, 5], [50, 0]], actions=["a", "b"], classes=["ill", "well"])
    assert not np.signbit(array.of(["ill", "well"])[0, 0])  # no −0
    from_costs, square = pippin.decisions.Utility.from_costs, {"actions": ["ill", "well"], "classes": ["ill", "well"]}
    with pytest.raises(pippin.InputError, match="Expected costs above 0, got none: pass utilities"):
        from_costs([[0, -5], [-50, 0]], actions=["a", "b"])
    with pytest.raises(pippin.InputError, match="the action of this name is the costliest: pass costs, not utilities"):
        from_costs([[1, 0], [0, 1]], **square)
    three = {"actions": ["a", "b", "c"], "classes": ["a", "b", "c"]}
    with pytest.warns(UserWarning, match="If the class is 'a', another action costs less than the action 'a'"):
        from_costs([[1, 1, 0.5], [0, 0, 2], [2, 2, 0]], **three)
    with pytest.warns(UserWarning, match="Some costs are negative: they are treated as gains"):
        from_costs([[0, 5], [50, -1]], actions=["a", "b"])
    turned = {"ill": {"operate": 0, "discharge": 50}, "well": {"operate": 5, "discharge": 0}}
    with pytest.raises(pippin.InputError, match="are rows of the utility, expected columns: exchange rows and columns"):
        from_costs(turned).of(["ill", "well"])
    with pytest.raises(pippin.InputError, match="exchange rows and columns"):
        from_costs(turned, kinds={"flu": "ill", "cold": "well"})
    with pytest.raises(pippin.InputError, match="Expected a Utility, got ndarray"):
        pippin.decisions.bound_cost([[0.5, 0.5]], [0], np.eye(2))


def test_compare_recommends_bounded_cost_if_certificates_cost_too_much():
    """If certificates lose utility against the best response, `compare` recommends the policy of bounded cost."""
    rng = np.random.default_rng(2)
    logit = 4 * rng.normal(size=600)
    probs = 1 / (1 + np.exp(-np.column_stack([logit, -logit])))
    ill = rng.random(600) < probs[:, 0]
    utility = pippin.decisions.Utility.from_costs(COSTS)
    comparison = pippin.decisions.compare(
        probs, np.where(ill, 0, 1), utility, "ip", 0.05, splits=20, classes=["ill", "well"]
    )
    mean = dict(zip(comparison.names, comparison.values[:, :, 2].mean(axis=1), strict=True))
    assert mean["bounded cost"] > 1.05 * mean["best response"] > mean["calibrated decisions"]
    assert comparison.verdict.startswith("Take bounded cost")
    assert f"at least {-comparison.cost_bounds.mean():.3f}" in comparison.verdict
    assert (-comparison.values[2, :, 2] <= comparison.cost_bounds).mean() >= 0.9
    seedlings = pippin.decisions.compare(DATA.probs, DATA.labels, UTILITY, "ip", 0.02, splits=5, classes=DATA.classes)
    assert seedlings.verdict.startswith("Take calibrated decisions (mean utility 0.9")
