"""Several models: combined conformal predictors, cascades, and objects with several admissible classes."""

from pippin._conformal.cascade import Cascade, admissible_labels, cascade
from pippin._conformal.combined import CombinedPredictor, combine

__all__ = ["Cascade", "CombinedPredictor", "admissible_labels", "cascade", "combine"]
