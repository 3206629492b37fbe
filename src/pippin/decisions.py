"""From probabilities or prediction sets to actions: utilities, certified decisions, selective classification, risk."""

from pippin._compare.decisions import DecisionComparison
from pippin._compare.decisions import compare_decisions as compare
from pippin._decisions.decider import Decider
from pippin._decisions.decider import calibrate_decisions as calibrate
from pippin._decisions.judging import DecisionEvaluation, best_response
from pippin._decisions.judging import evaluate_decisions as evaluate
from pippin._decisions.results import Decision, Decisions
from pippin._decisions.risk import RiskController
from pippin._decisions.risk import calibrate_risk as control_risk
from pippin._decisions.selective import SelectiveClassifier, SelectivePredictions
from pippin._decisions.selective import calibrate_selective as select
from pippin._decisions.utility import Utility
from pippin._decisions.worst_case import decide

__all__ = ["Decider", "Decision", "DecisionComparison", "DecisionEvaluation", "Decisions", "RiskController"]
__all__ += ["SelectiveClassifier", "SelectivePredictions", "Utility", "best_response", "calibrate", "compare"]
__all__ += ["control_risk", "decide", "evaluate", "select"]
