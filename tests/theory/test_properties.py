"""Properties of PIP from the paper, and its toy table."""

import numpy as np
import pytest
from hypothesis import given

import pippin
from pippin.cli.toy import CASES
from support.rows import probabilities


@pytest.mark.parametrize("case", CASES)
def test_the_papers_toy_table(case):
    """Scores equal Table 1 of the paper, for a distribution that contains the class of interest."""
    row = case.row()
    assert sum(row) == pytest.approx(1)
    assert sorted(row, reverse=True) == row
    assert {name: round(value, 2) for name, value in case.computed().items()} == case.expected


@given(data=probabilities())
def test_pip_is_ip_at_the_top_and_margin_plus_one_below(data):
    """PIP = IP at rank 1; below it, PIP = 1 + MS + Σ_{r=2}^{R−1} p[r]/r; always in [0, 2]."""
    probs, _ = data
    order = np.argsort(-probs, axis=1, kind="stable")
    ip, ms, pip = (
        np.take_along_axis(pippin.scores.score(probs, None, name), order, axis=1) for name in ("ip", "margin", "pip")
    )
    ranked = np.take_along_axis(probs, order, axis=1).astype(float)
    ranks = np.arange(1, probs.shape[1] + 1)
    between = np.cumsum(ranked / ranks, axis=1) - ranked[:, :1]
    assert np.array_equal(pip[:, 0], ip[:, 0])
    assert pip[:, 1:] == pytest.approx(1 + ms[:, 1:] + between[:, :-1], abs=1e-12)
    assert (pip >= -1e-6).all()
    assert (pip <= 2 + 1e-6).all()


def test_both_bounds_of_pip_are_reached():
    """PIP reaches its bounds: 0 for a class of probability 1, and 2 for the others."""
    assert pippin.scores.score([[1.0, 0.0, 0.0]], None, "pip").tolist() == [[0, 2, 2]]


@pytest.mark.parametrize("n_classes", [2, 3, 12, 1000])
def test_equal_probabilities_have_different_scores(n_classes):
    """With equal probabilities 1/K, PIP at rank R is 1 + (H_{R−1} − 1)/K, where H_n is the harmonic number."""
    scores = pippin.scores.score(np.full((1, n_classes), 1 / n_classes), None, "pip")[0]
    harmonic = np.concatenate([[0], np.cumsum(1 / np.arange(1, n_classes))])
    assert scores == pytest.approx(1 + (harmonic - 1) / n_classes, abs=1e-12)
    assert len(set(scores)) == n_classes


def test_beta_moves_pip_from_the_whole_mass_to_the_margin():
    """β = 0 adds all larger probabilities; a large β gives 1 + margin below rank 1."""
    probs = np.array([[0.4, 0.3, 0.2, 0.1]])
    assert pippin.scores.score(probs, None, pippin.scores.pip(beta=0))[0] == pytest.approx([0.6, 1.1, 1.5, 1.8])
    assert pippin.scores.score(probs, None, pippin.scores.pip(beta=60))[0, 1:] == pytest.approx(
        1 + pippin.scores.score(probs, None, "margin")[0, 1:]
    )


def test_socop_without_a_price_gives_the_sets_of_ip():
    """With μ = 0 a set with several classes has no extra cost."""
    data = pippin.load_example()
    sets = [pippin.calibrate(data.probs, data.labels, s).predict(data.probs) for s in ("ip", "socop(mu=0)")]
    assert np.array_equal(sets[0].members, sets[1].members)


def test_socop_is_cheapest_where_the_probabilities_are_right():
    """No other score reaches SOCOP's |C| + μ·1{|C| ≥ 2} at the same coverage, if labels follow the probabilities."""
    rng = np.random.default_rng(5)
    probs = rng.dirichlet(np.full(10, 0.25), 40_000)
    labels = (rng.random(len(probs))[:, None] > probs.cumsum(axis=1)).sum(axis=1).clip(max=9)
    mu = 3.0

    def cost(score):
        sizes = pippin.calibrate(probs, labels, score, seed=0).predict(probs, seed=0).sizes
        return (sizes + mu * (sizes >= 2)).mean()

    others = ("ip", "margin", "aps", "raps", "pip", "repip", "saps", "topk", "socop(mu=0.5)", "socop(mu=20)")
    assert cost("socop(mu=3)") < min(map(cost, others))
