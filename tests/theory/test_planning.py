"""The planner against SciPy, brute force and simulation."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

import pippin
from pippin._theory.level import examples_needed, quantile_rank
from pippin._theory.planning import beta_binomial, beta_cdf, beta_quantile

SIZES = (1, 2, 3, 9, 10, 19, 99, 100, 1000, 12_345, 10**6)
HUNDREDTHS = [i / 100 for i in range(1, 100)]


@pytest.mark.parametrize("n", SIZES)
def test_beta_cdf_equals_scipy(n):
    """The distribution function equals SciPy's far into both tails, for all levels 0.01, 0.02, …"""
    for alpha in HUNDREDTHS:
        a = min(n, quantile_rank(n, alpha))
        b = n + 1 - a
        middle, spread = a / (a + b), math.sqrt(a * b / (a + b) ** 3)
        for z in (-8, -3, -1, -0.01, 0.01, 2, 5):
            x = min(max(middle + z * spread, 0.0), 1.0)
            assert beta_cdf(x, a, b) == pytest.approx(special.betainc(a, b, x), abs=2e-12)


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.floats(0, 1))
def test_beta_cdf_equals_scipy_for_random_arguments(a, b, x):
    """The distribution function equals SciPy's for random arguments, and both tails add up to one."""
    assert beta_cdf(x, a, b) == pytest.approx(special.betainc(a, b, x), abs=2e-12)
    assert beta_cdf(x, a, b) + beta_cdf(1 - x, b, a) == pytest.approx(1, abs=1e-9)


def test_beta_cdf_for_very_large_parameters():
    """For very large parameters, the quantile and the distribution function are inverse to each other."""
    for n in (10**8, 10**9):
        a = quantile_rank(n, 0.1)
        for share in (0.001, 0.5, 0.975):
            assert special.betainc(a, n + 1 - a, beta_quantile(share, a, n + 1 - a)) == pytest.approx(share, rel=1e-6)


@pytest.mark.parametrize(
    ("m", "a", "b"), [(1, 1, 1), (50, 90, 11), (7, 9, 1), (1000, 3, 400), (3000, 900_000, 100_001)]
)
def test_beta_binomial_equals_scipy(m, a, b):
    """Beta-binomial probabilities equal SciPy's, whose accuracy is lower for large a and b."""
    assert beta_binomial(m, a, b) == pytest.approx(stats.betabinom(m, a, b).pmf(np.arange(m + 1)), rel=1e-7, abs=1e-12)
    assert beta_binomial(m, a, b).sum() == pytest.approx(1)


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1, 0.3, 0.5, 0.9, 0.123])
@pytest.mark.parametrize("n", SIZES)
def test_a_plan_equals_the_beta_distribution(n, alpha):
    """All values of a plan equal SciPy's."""
    found = pippin.plan(alpha, n, delta=0.1, test=200)
    k = math.ceil((n + 1) * (1 - Fraction(str(alpha))))
    assert (found.alpha, found.n, found.k, found.finite) == (alpha, n, k, k <= n)
    if k > n:
        assert (found.mean, found.standard_deviation, found.low, found.high) == (1, 0, 1, 1)
        assert (found.test_standard_deviation, found.test_low, found.test_high) == (0, 1, 1)
        assert found.below(0.001) == 0
        assert found.within(0.001) == 0
        assert found.within(alpha) == 1
        return
    law, on_test = stats.beta(k, n + 1 - k), stats.betabinom(200, k, n + 1 - k)
    assert (found.mean, found.standard_deviation) == pytest.approx((law.mean(), law.std()), rel=1e-9)
    assert (found.low, found.high) == pytest.approx(law.ppf([0.05, 0.95]), abs=1e-11)
    assert found.below() == pytest.approx(law.cdf(1 - alpha), abs=1e-9)
    assert found.below(0.02) == pytest.approx(law.cdf(0.98 - alpha), abs=1e-9)
    assert found.within(0.02) == pytest.approx(law.cdf(1.02 - alpha) - law.cdf(0.98 - alpha), abs=1e-9)
    assert found.test_standard_deviation == pytest.approx(on_test.std() / 200, rel=1e-9)
    least, most = round(200 * found.test_low), round(200 * found.test_high)
    assert max(on_test.cdf(least - 1), on_test.sf(most)) <= 0.05 + 1e-9
    assert min(on_test.cdf(least), on_test.sf(most - 1)) > 0.05 - 1e-9


def test_simulated_coverage_follows_the_plan():
    """20,000 calibrations of uniform scores, whose coverage is the threshold: shares as planned."""
    n, alpha, draws = 137, 0.15, 20_000
    rng = np.random.default_rng(5)
    found = pippin.plan(alpha, n, delta=0.1, test=40)
    coverage = np.partition(rng.random((draws, n)), found.k - 1, axis=1)[:, found.k - 1]
    noise = 4 * math.sqrt(0.25 / draws)
    assert coverage.mean() == pytest.approx(found.mean, abs=4 * found.standard_deviation / math.sqrt(draws))
    assert coverage.std() == pytest.approx(found.standard_deviation, rel=0.03)
    assert ((found.low <= coverage) & (coverage <= found.high)).mean() == pytest.approx(0.9, abs=noise)
    assert (coverage < 0.85 - 0.02).mean() == pytest.approx(found.below(0.02), abs=noise)
    assert (np.abs(coverage - 0.85) <= 0.03).mean() == pytest.approx(found.within(0.03), abs=noise)
    measured = rng.binomial(40, coverage) / 40
    assert measured.std() == pytest.approx(found.test_standard_deviation, rel=0.03)
    assert ((found.test_low <= measured) & (measured <= found.test_high)).mean() > 0.9 - noise


def brute_force(alpha, within, delta, side, top):
    """Return the result of `examples_for` by trying all n up to `top` with SciPy."""
    level, d = Fraction(str(alpha)), Fraction(str(within))
    n = np.arange(1, top)
    b = np.array([math.floor(int(total) * level) for total in n + 1])
    low, high = float(1 - level - d), float(1 - level + d)
    bad = b == 0
    k, b = n + 1 - b, np.maximum(b, 1)
    out = special.betainc(k, b, low) if low > 0 else np.zeros(len(n))
    if side == "both" and high < 1:
        out += special.betaincc(k, b, high)
    bad |= out > delta + 1e-12
    return int(n[bad][-1]) + 1 if bad.any() else 1


@pytest.mark.parametrize("side", ["both", "below"])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1, 0.25, 0.33, 0.5, 0.7, 0.9, 0.123, 0.0777])
def test_examples_for_equals_an_exhaustive_search(alpha, side):
    """The result of `examples_for` suffices with all larger n, and n − 1 does not, by exhaustive search."""
    for within in (0.02, 0.03, 0.05, 0.1, 0.2):
        for delta in (0.01, 0.05, 0.3, 0.9):
            found = pippin.examples_for(alpha, within=within, delta=delta, side=side)
            assert found == brute_force(alpha, within, delta, side, max(300, 3 * found)), (within, delta)


def test_the_criterion_is_not_monotone():
    """An n below the result of `examples_for` can suffice by chance; the result and all larger n do."""
    needed = pippin.examples_for(0.1, within=0.05, delta=0.05)
    good = [pippin.plan(0.1, n).within(0.05) >= 0.95 for n in range(1, 3 * needed)]
    assert not good[needed - 2]
    assert any(good[: needed - 1])
    assert all(good[needed - 1 :])


def test_examples_for_with_large_and_small_distances():
    """A large distance only needs a finite threshold; for a small one, the distribution is checked."""
    assert pippin.examples_for(0.1, within=0.5) == examples_needed(0.1) == 9
    for alpha, side in ((0.1, "both"), (0.01, "below"), (0.123457, "both")):
        found = pippin.examples_for(alpha, within=0.001, delta=0.05, side=side)
        chance = [
            1 - p.below(0.001) if side == "below" else p.within(0.001)
            for p in (pippin.plan(alpha, n) for n in (found - 1, found))
        ]
        assert chance[0] < 0.95 <= chance[1]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pippin.plan(0, 10), "Expected alpha"),
        (lambda: pippin.plan(0.1, -1), "calibration examples as a whole number from 0 to 1,000,000,000, got -1"),
        (lambda: pippin.plan(0.1, 2.5), "whole number"),
        (lambda: pippin.plan(0.1, True), "whole number"),
        (lambda: pippin.plan(0.1, 10, test=0), "test rows as a whole number from 1 to 10,000,000, got 0"),
        (lambda: pippin.plan(0.1, 10, delta=1), "Expected delta strictly between 0 and 1, got 1"),
        (lambda: pippin.plan(0.1, 10, delta="much"), "Expected delta"),
        (lambda: pippin.plan(0.1, 10).within(-0.1), "Expected a distance from 1 − alpha of at least 0 and"),
        (lambda: pippin.plan(0.1, 10).below(float("nan")), "Expected a distance"),
        (lambda: pippin.examples_for(0.1, within=0.0001), "of at least 0.0005 and less than 1, got 0.0001"),
        (lambda: pippin.examples_for(0.1, within=1), "Expected a distance"),
        (lambda: pippin.examples_for(0.1, within=0.01, delta=0), "Expected delta"),
        (
            lambda: pippin.examples_for(0.1, within=0.01, side="above"),
            "Expected side to be 'both' or 'below', got 'above'",
        ),
    ],
)
def test_invalid_arguments_raise_one_sentence(call, words):
    with pytest.raises(ValueError, match=words) as caught:
        call()
    assert str(caught.value).endswith(".")


# The command


def test_the_plan_command_prints_a_summary(call):
    code, out, err = call("plan --n 2000 --test 500")
    assert (code, err) == (0, "")
    assert "With 2,000 calibration examples, coverage will lie between 88.7% and 91.3% in 95% of calibrations" in out
    assert "on average 90%, with a standard deviation of 0.67 percentage points." in " ".join(out.split())
    assert re.search(r"│ +± 1 percentage point │ +86.5% │ +3,450 │", out)
    assert re.search(r"│ ± 0.5 percentage points │ ", out)
    assert "± 1%" not in out
    assert "Measured on 500 test rows" in out
    assert "3,450" in out
    code, out, _ = call("plan --within 0.02 --delta 0.1 --alpha 0.2")
    assert code == 0
    assert f"{pippin.examples_for(0.2, within=0.02, delta=0.1):,}" in out
    assert "90%" in out
    assert "13,821" in call("plan")[1]
    assert "5 calibration examples are too few for alpha 0.1" in call("plan --n 5")[1]


def test_the_plan_command_reports_each_class(call, tmp_path, monkeypatch):
    """The command lists rare classes first, with the rows they lack for a threshold and for ± 5 percentage points."""
    monkeypatch.chdir(tmp_path)
    labels = np.repeat([0, 1, 2], [200, 4, 30])
    np.savez("data.npz", probs=np.full((234, 4), 0.25), labels=labels, classes=["crop", "weed", "soil", "stone"])
    code, out, err = call("plan data.npz")
    assert (code, err) == (0, "")
    assert "With 234 calibration examples" in out
    assert "± 5 points" in out
    lines = {line.split()[1]: line.split() for line in out.splitlines() if line.split()[1:2] and "│" in line}
    cells = {name: [w for w in lines[name] if w != "│"] for name in ("stone", "weed", "soil", "crop")}
    assert cells["stone"] == ["stone", "0", "100%", "in", "every", "set", "9", "131"]
    assert cells["weed"][-2:] == ["5", "127"]
    assert cells["soil"][-2:] == ["0", "101"]
    assert cells["crop"][-2:] == ["0", "0"]
    assert out.index("stone") < out.index("weed") < out.index("soil") < out.index("crop")
    np.save("probs.npy", np.full((234, 4), 0.25))
    np.save("labels.npy", labels)
    assert "With 234 calibration examples" in call("plan probs.npy --labels labels.npy")[1]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("plan --alpha 0", "strictly between 0 and 1"),
        ("plan --n -3", "got -3"),
        ("plan --n many", "'--n'"),
        ("plan --within 0.00001", "Expected a distance"),
        ("plan --delta 2", "Expected delta"),
        ("plan --test 100", "Expected --n with --test"),
        ("plan none.npz", "There is no file none.npz"),
        ("plan none.npz --n 3", "Expected DATA or --n, got both"),
        ("plan --labels none.npy", "Expected data for the labels"),
    ],
)
def test_wrong_use_of_the_plan_command(call, line, words):
    code, out, err = call(line)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
