"""Seeds and levels of invalid types raise one sentence."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import pippin

DATA = pippin.load_example()
PROBS, LABELS = DATA.probs[:100], DATA.labels[:100]
SEEDS = [1.5, 1.0, "1", True, [1], (1, 2), np.float64(1), np.array([1, 2]), Decimal(1), -1]
LEVELS = [Decimal("1e-9999999"), Decimal("NaN"), Decimal("Infinity"), Fraction(1, 10**400), 10**400, "x", None, [0.1]]
CALLS = {
    "calibrate": lambda **given: pippin.calibrate(PROBS, LABELS, "aps", **given),
    "per class": lambda **given: pippin.calibrate(PROBS, LABELS, "aps", per="class", **given),
    "units": lambda **given: pippin.calibrate(PROBS, LABELS, "aps", units=np.arange(100) // 5, **given),
    "weighted": lambda **given: pippin.calibrate(PROBS, LABELS, "aps", weights=np.ones(100), **given),
    "cross": lambda **given: pippin.calibrate(PROBS, LABELS, "aps", folds=np.arange(100) % 2, **given),
    "combination": lambda **given: pippin.calibrate(PROBS, LABELS, "ip/ms", **given),
    "compare": lambda **given: pippin.compare(PROBS, LABELS, ["aps"], splits=2, **given),
    "sweep": lambda **given: pippin.sweep(PROBS, LABELS, "raps", splits=2, **given),
    "tune": lambda **given: pippin.tune(PROBS, LABELS, splits=2, **given),
}


@pytest.mark.filterwarnings("ignore:.*thresholds are infinite")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("seed", SEEDS, ids=repr)
def test_an_invalid_seed_raises(seed, call):
    with pytest.raises(pippin.InputError, match=r"^Expected a (whole number|seed)[^\n]*\.$"):
        call(seed=seed)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("alpha", LEVELS, ids=lambda level: repr(level)[:20])
def test_an_invalid_level_raises(alpha, call):
    with pytest.raises(
        pippin.InputError, match=r"^Expected alpha, the share of errors allowed, strictly between 0 and 1"
    ):
        call(alpha=alpha)


def test_an_invalid_seed_of_predict_raises():
    predictor = CALLS["calibrate"](seed=0)
    for seed in SEEDS:
        for call in (predictor.predict, predictor.p_values, predictor.point_predictions):
            with pytest.raises(pippin.InputError, match=r"^Expected a seed"):
                call(PROBS, seed=seed)
        with pytest.raises(pippin.InputError, match=r"^Expected a seed"):
            predictor.predict_one(PROBS[0], seed=seed)
