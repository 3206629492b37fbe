"""Exact significance levels of floats."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pippin
from pippin._theory.level import as_alpha, exact_alpha, quantile_rank, simplest


@given(st.floats(5e-324, 1, exclude_max=True))
def test_the_simplest_fraction_rounds_to_the_float(number):
    found = simplest(number)
    assert float(found) == number
    below, above = math.nextafter(number, 0), math.nextafter(number, 2)
    low, high = ((Fraction(number) + Fraction(other)) / 2 for other in (below, above))
    assert low < found < high
    if found.denominator < 3000:  # search all simpler fractions
        for denominator in range(1, found.denominator):
            numerator = math.floor(low * denominator) + 1
            assert not low < Fraction(numerator, denominator) < high


@given(st.integers(2, 10**6), st.data())
def test_decimal_and_rational_levels_are_exact(denominator, data):
    numerator = data.draw(st.integers(1, denominator - 1))
    assert exact_alpha(numerator / denominator) == Fraction(numerator, denominator)
    assert exact_alpha(Fraction(numerator, denominator)) == Fraction(numerator, denominator)


@pytest.mark.parametrize("alpha", [0.1, "0.1", np.float32(0.1), np.float16(0.1), Decimal("0.1"), np.array(0.1)])
def test_one_tenth_is_exact_in_every_type(alpha):
    assert exact_alpha(alpha) == Fraction(1, 10)
    assert as_alpha(alpha) == 0.1
    assert quantile_rank(999, alpha) == 900


@pytest.mark.parametrize(
    "alpha", [0, 1, -0.1, math.nan, math.inf, None, "many", True, [0.1, 0.2], Decimal("1e-9999999"), 1j]
)
def test_an_invalid_level_raises_one_sentence(alpha):
    with pytest.raises(
        pippin.InputError, match="Expected alpha, the share of errors allowed, strictly between 0 and 1"
    ):
        exact_alpha(alpha)


def test_one_third_is_exact_in_all_functions():
    """Sets, p-values, weights and folds are consistent for p-values of exactly one third."""
    rng = np.random.default_rng(0)
    probs, new = rng.dirichlet([1, 1, 1], 29), rng.dirichlet([1, 1, 1], 200)
    labels, ones = rng.integers(0, 3, 29), np.ones(200)
    one = pippin.calibrate(probs, labels, "ip", 1 / 3)
    wanted = one.predict(new).mask
    assert np.array_equal(one.p_values(new) > 1 / 3, wanted)
    weighted = pippin.calibrate(probs, labels, "ip", 1 / 3, weights=np.ones(29))
    assert np.array_equal(weighted.predict(new, weights=ones).mask, wanted)
    cross = pippin.calibrate(probs, labels, "ip", 1 / 3, folds=np.zeros(29, int))
    assert np.array_equal(cross.predict([new]).mask, wanted)
    assert (one.p_values(new) == 1 / 3).any()
