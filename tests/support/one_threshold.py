"""Marginal predictors with a given threshold, without calibration scores."""

import pippin
from pippin._conformal.mondrian import single_category
from pippin._conformal.rules import marginal_rule


def one_threshold(score, alpha, threshold, n, classes):
    """Return a predictor with this threshold for all rows and classes."""
    rule = marginal_rule(single_category(None, n, len(classes)), threshold)
    return pippin.ConformalPredictor(pippin.scores.parse(score), alpha, n, classes, rule)
