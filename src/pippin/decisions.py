"""Decisions from probabilities or prediction sets: guaranteed utilities, selective classification, risk control."""

from pippin._compare.decisions import DecisionComparison
from pippin._compare.decisions import compare_decisions as compare
from pippin._decisions.decider import Decider, calibrate
from pippin._decisions.decisions import Decision, DecisionEvaluation, Decisions, best_response, decide, evaluate
from pippin._decisions.risk import RiskController, control_risk
from pippin._decisions.selective import SelectiveClassifier, SelectivePredictions, select
from pippin._decisions.utility import Utility

__all__ = ["Decider", "Decision", "DecisionComparison", "DecisionEvaluation", "Decisions", "RiskController"]
__all__ += ["SelectiveClassifier", "SelectivePredictions", "Utility", "best_response", "calibrate", "compare"]
__all__ += ["control_risk", "decide", "evaluate", "select"]
