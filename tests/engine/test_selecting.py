"""The k-th smallest score, by way of a sample or by a loop: what sorting gives, whatever the scores and their order."""

import numpy as np
import pytest

from pippin._engine.compiled import engine as compiled
from pippin._engine.plain import engine as plain
from pippin._engine.selecting import FEW

N = 5 * FEW


def scores_of(kind):
    rng = np.random.default_rng(1)
    scores = rng.normal(size=N)
    return {
        "random": lambda: scores,
        "rising": lambda: np.sort(scores),
        "few values": lambda: rng.integers(0, 4, N) / 4,
        "one value": lambda: np.full(N, 0.5),
        "infinite": lambda: np.where(rng.random(N) < 0.3, np.inf, scores),
        "a sample that misleads": lambda: np.where(np.arange(N) % 25 == 0, 9.0, scores),
        "another": lambda: np.where(np.arange(N) % 25 == 0, -9.0, scores),
    }[kind]()


@pytest.mark.parametrize(
    "kind", ["random", "rising", "few values", "one value", "infinite", "a sample that misleads", "another"]
)
@pytest.mark.parametrize("n", [1, FEW, FEW + 1, N])
@pytest.mark.parametrize("engine", [plain, compiled], ids=["sample", "loop"])
def test_the_kth_smallest_is_what_sorting_gives(engine, kind, n):
    scores = scores_of(kind)[:n]
    before, wanted = scores.copy(), np.sort(scores)
    for k in {1, 2, n // 100, n // 2, 9 * n // 10, n - 1, n} & set(range(1, n + 1)):
        assert engine.smallest(scores, k) == wanted[k - 1]
    assert np.array_equal(scores, before)


def test_of_very_many_a_sample_serves_both(monkeypatch):
    monkeypatch.setattr(compiled, "SELECTED", FEW)
    scores = scores_of("random")
    assert compiled.smallest(scores, N // 3) == np.sort(scores)[N // 3 - 1]
