"""Scores for which properties are tested."""

import pytest

import pippin

EVERY_SCORE = (
    *pippin.scores.PAPER,
    pippin.scores.aps(randomized=False),
    pippin.scores.raps(lam=0.3, k_reg=1, randomized=False),
    pippin.scores.pip(beta=0),
    pippin.scores.pip(beta=0.5),
    pippin.scores.pip(beta=40),
    pippin.scores.repip(gamma=0.5, k_reg=0, beta=2),
    pippin.scores.saps(),
    pippin.scores.saps(lam=0.02, randomized=False),
    pippin.scores.topk(),
    pippin.scores.socop(),
    pippin.scores.socop(mu=0),
    pippin.scores.socop(mu=0.7),
    pippin.scores.linear(weights=(1, 0.5, 0.25, 0), penalties=(0, 0, 0.01)),
)
every_score = pytest.mark.parametrize("score", EVERY_SCORE, ids=str)
