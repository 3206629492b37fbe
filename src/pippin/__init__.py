"""Prediction sets that contain the true class with a chosen probability."""

from pippin._compare.comparison import Comparison, compare
from pippin._compare.evidence import differences
from pippin._compare.methods import Method, parse_method
from pippin._compare.sweeping import Sweep, sweep
from pippin._compare.tuning import Tuned, tune
from pippin._inputs.example import load_example
from pippin._predictors.combination import Combination, calibrate_combination
from pippin._predictors.conditional import ConditionalPredictor
from pippin._predictors.cross import CrossPredictor, calibrate_cross
from pippin._predictors.loading import load
from pippin._predictors.marginal import Predictor, calibrate, score, warm_up
from pippin._predictors.metrics import Evaluation, coverage, efficiency, empty_rate, evaluate, informativeness
from pippin._predictors.p_values import PointPredictions
from pippin._predictors.sets import PredictionSets
from pippin._predictors.weighted import WeightedPredictor, calibrate_weighted, likelihood_ratios
from pippin._theory.planning import Plan, examples_for, plan
from pippin._theory.scores import (
    PAPER_SCORES,
    Score,
    aps,
    ip,
    linear,
    margin,
    parse_score,
    pip,
    raps,
    repip,
    saps,
    socop,
    topk,
)

__version__ = "0.1.0"

__all__ = [
    "PAPER_SCORES",
    "Combination",
    "Comparison",
    "ConditionalPredictor",
    "CrossPredictor",
    "Evaluation",
    "Method",
    "Plan",
    "PointPredictions",
    "PredictionSets",
    "Predictor",
    "Score",
    "Sweep",
    "Tuned",
    "WeightedPredictor",
    "aps",
    "calibrate",
    "calibrate_combination",
    "calibrate_cross",
    "calibrate_weighted",
    "compare",
    "coverage",
    "differences",
    "efficiency",
    "empty_rate",
    "evaluate",
    "examples_for",
    "informativeness",
    "ip",
    "likelihood_ratios",
    "linear",
    "load",
    "load_example",
    "margin",
    "parse_method",
    "parse_score",
    "pip",
    "plan",
    "raps",
    "repip",
    "saps",
    "score",
    "socop",
    "sweep",
    "topk",
    "tune",
    "warm_up",
]
