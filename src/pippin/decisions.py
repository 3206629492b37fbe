"""Decisions from probabilities or prediction sets: guaranteed utilities, selective classification, risk control."""

from pippin._compare.decisions import DecisionComparison
from pippin._compare.decisions import compare_decisions as compare
from pippin._decisions.cost import CostPolicy, bound_cost
from pippin._decisions.decider import Decider, calibrate
from pippin._decisions.decisions import Decision, DecisionEvaluation, Decisions, best_response, decide, evaluate
from pippin._decisions.risk import RiskController, control_risk
from pippin._decisions.selective import SelectiveClassifier, SelectivePredictions, select
from pippin._decisions.utility import Utility

__all__ = ["CostPolicy", "Decider", "Decision", "DecisionComparison", "DecisionEvaluation", "Decisions"]
__all__ += ["RiskController", "SelectiveClassifier", "SelectivePredictions", "Utility", "best_response", "bound_cost"]
__all__ += ["calibrate", "compare", "control_risk", "decide", "evaluate", "select"]
