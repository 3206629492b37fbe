"""Which predictors can leave Python: those with one threshold, and deciders with one β."""

from typing import Any

from pippin._predictors.decisions.decider import Decider, need_one_beta
from pippin._predictors.marginal import Predictor, need_one_threshold


def exportable(predictor: Any) -> Predictor | Decider:
    """The predictor; raises an InputError if it is of another kind."""
    return need_one_beta(predictor) if isinstance(predictor, Decider) else need_one_threshold(predictor)
