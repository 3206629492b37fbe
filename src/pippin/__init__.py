"""Prediction sets that contain the true class with a chosen probability."""

from pippin.calibration import Predictor, calibrate, score, warm_up
from pippin.combination import Combination, calibrate_combination
from pippin.conditional import ConditionalPredictor
from pippin.cross import CrossPredictor, calibrate_cross
from pippin.evidence import differences
from pippin.example import load_example
from pippin.experiment import Comparison, compare
from pippin.loading import load
from pippin.methods import Method, parse_method
from pippin.metrics import Evaluation, coverage, efficiency, empty_rate, evaluate, informativeness
from pippin.planning import Plan, examples_for, plan
from pippin.pvalues import PointPredictions
from pippin.scores import (
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
from pippin.sets import PredictionSets
from pippin.sweeping import Sweep, sweep
from pippin.tuning import Tuned, tune
from pippin.weighting import WeightedPredictor, calibrate_weighted, likelihood_ratios

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
