"""Prediction sets that contain the true class with a chosen probability."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from pippin._compare.comparison import Comparison, compare
from pippin._compare.decisions import DecisionComparison, compare_decisions
from pippin._compare.evidence import differences
from pippin._compare.methods import Method, parse_method
from pippin._compare.tuning import Sweep, Tuned, sweep, tune
from pippin._engine.warm_up import warm_up
from pippin._inputs.example import load_example
from pippin._predictors.calibrating import calibrate, score
from pippin._predictors.combination import Combination, calibrate_combination
from pippin._predictors.conditional import ConditionalPredictor
from pippin._predictors.cross import CrossPredictor, calibrate_cross
from pippin._predictors.decisions.decider import Decider, calibrate_decisions
from pippin._predictors.decisions.judging import DecisionEvaluation, best_response, evaluate_decisions
from pippin._predictors.decisions.results import Decision, Decisions
from pippin._predictors.decisions.utility import Utility
from pippin._predictors.decisions.worst_case import decide
from pippin._predictors.explaining import Explanation
from pippin._predictors.loading import load
from pippin._predictors.marginal import Predictor
from pippin._predictors.metrics import Evaluation, coverage, efficiency, empty_rate, evaluate, informativeness
from pippin._predictors.partitions.calibration import Calibration
from pippin._predictors.points import PointPredictions
from pippin._predictors.protocol import ConformalPredictor
from pippin._predictors.risk import RiskPredictor, calibrate_risk
from pippin._predictors.selective import SelectivePredictions, SelectivePredictor, calibrate_selective
from pippin._predictors.sets import PredictionSets
from pippin._predictors.sharpening.dividing import learn
from pippin._predictors.sharpening.learning import sharpen
from pippin._predictors.sharpening.sharpened import SharpenedMixture, SharpenedPredictor
from pippin._predictors.sharpening.sharpener import Confusion, Sharpener
from pippin._predictors.streams.alarm import Alarm
from pippin._predictors.streams.label_shift import LabelRatios, label_ratios
from pippin._predictors.streams.monitor import Monitor
from pippin._predictors.streams.novelty import discoveries, novelty
from pippin._predictors.streams.risk_monitor import RiskMonitor
from pippin._predictors.streams.stream import Stream, Ticket
from pippin._predictors.units import UnitPredictor
from pippin._predictors.weighted import WeightedPredictor, calibrate_weighted, likelihood_ratios
from pippin._runtime.errors import InputError
from pippin._runtime.version import __version__ as __version__
from pippin._theory.formula import Family
from pippin._theory.planning import Plan, examples_for, plan
from pippin._theory.scores import PAPER_SCORES, Score, aps, ip, linear, margin, pip, raps, repip, saps, socop, topk
from pippin._theory.spelling import parse_score, register
from pippin.tables.scanning import Scan, scan

__all__ = [
    "PAPER_SCORES",
    "Alarm",
    "Calibration",
    "Combination",
    "Comparison",
    "ConditionalPredictor",
    "ConformalPredictor",
    "Confusion",
    "CrossPredictor",
    "Decider",
    "Decision",
    "DecisionComparison",
    "DecisionEvaluation",
    "Decisions",
    "Evaluation",
    "Explanation",
    "Family",
    "InputError",
    "LabelRatios",
    "Method",
    "Monitor",
    "Plan",
    "PointPredictions",
    "PredictionSets",
    "Predictor",
    "RiskMonitor",
    "RiskPredictor",
    "Scan",
    "Score",
    "SelectivePredictions",
    "SelectivePredictor",
    "SharpenedMixture",
    "SharpenedPredictor",
    "Sharpener",
    "Stream",
    "Sweep",
    "Ticket",
    "Tuned",
    "UnitPredictor",
    "Utility",
    "WeightedPredictor",
    "aps",
    "best_response",
    "calibrate",
    "calibrate_combination",
    "calibrate_cross",
    "calibrate_decisions",
    "calibrate_risk",
    "calibrate_selective",
    "calibrate_weighted",
    "compare",
    "compare_decisions",
    "coverage",
    "decide",
    "differences",
    "discoveries",
    "efficiency",
    "empty_rate",
    "evaluate",
    "evaluate_decisions",
    "examples_for",
    "informativeness",
    "ip",
    "label_ratios",
    "learn",
    "likelihood_ratios",
    "linear",
    "load",
    "load_example",
    "margin",
    "novelty",
    "parse_method",
    "parse_score",
    "pip",
    "plan",
    "raps",
    "register",
    "repip",
    "saps",
    "scan",
    "score",
    "sharpen",
    "socop",
    "sweep",
    "topk",
    "tune",
    "warm_up",
]

for _name in __all__:  # they live here, whatever room they were made in: pickles and links outlast moves
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = __name__

del globals()["tables"]  # a room that an import above has bound here, and no public name

if not _TYPE_CHECKING:  # type checkers want to see the import

    def __getattr__(name: str) -> object:
        """Public sub-packages are imported when they are first named, so that `import pippin` stays light."""
        if name in ("dask", "export", "images", "sklearn", "tables", "testing", "torch"):
            return _import_module(f"pippin.{name}")
        raise AttributeError(f"module 'pippin' has no attribute {name!r}")
