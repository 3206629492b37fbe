"""Every score that the laws are held against."""

import pytest

import pippin

EVERY_SCORE = (
    *pippin.PAPER_SCORES,
    pippin.aps(randomized=False),
    pippin.raps(lam=0.3, k_reg=1, randomized=False),
    pippin.pip(beta=0),
    pippin.pip(beta=0.5),
    pippin.pip(beta=40),
    pippin.repip(gamma=0.5, k_reg=0, beta=2),
    pippin.saps(),
    pippin.saps(lam=0.02, randomized=False),
    pippin.topk(),
    pippin.socop(),
    pippin.socop(mu=0),
    pippin.socop(mu=0.7),
    pippin.linear(weights=(1, 0.5, 0.25, 0), penalties=(0, 0, 0.01)),
)
every_score = pytest.mark.parametrize("score", EVERY_SCORE, ids=str)
