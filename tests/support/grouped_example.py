"""Embedded example with three farms as groups: predictors per class, per group or both, and their sets."""

import numpy as np
import pytest

import pippin

every_way = pytest.mark.parametrize("per", ["class", "group", "class and group", "cluster", "rc3p"])
DATA = pippin.load_example()
FARMS = np.array(["north", "south", "west"])[np.arange(len(DATA.labels)) * 7 % 5 % 3]


def grouped(per):
    """Return True if the taxonomy depends on groups."""
    return "group" in per


def calibrated(per, score="pip", alpha=0.1, **options):
    """Calibrate a predictor on the first 2,000 rows."""
    probs, labels, groups = DATA.probs[:2000], DATA.labels[:2000], FARMS[:2000] if grouped(per) else None
    return pippin.calibrate(
        probs, labels, score, alpha, classes=DATA.classes, seed=5, per=per, groups=groups, **options
    )


def sets_of(predictor, rows=slice(2000, 2200), **options):
    """Predict the sets of later rows."""
    groups = FARMS[rows] if predictor.groups is not None else None
    return predictor.predict(DATA.probs[rows], seed=6, groups=groups, **options)
