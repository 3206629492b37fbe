"""Several models: stacks, combined conformal predictors, cascades, and objects with several admissible classes."""

from pippin._conformal.cascade import Cascade, admissible_labels, cascade
from pippin._conformal.combined import CombinedPredictor, combine
from pippin._sharpening.learning import stack
from pippin._sharpening.pooling import Pool

__all__ = ["Cascade", "CombinedPredictor", "Pool", "admissible_labels", "cascade", "combine", "stack"]
