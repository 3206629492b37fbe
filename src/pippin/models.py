"""Several models: combined conformal predictors."""

from pippin._conformal.combined import CombinedPredictor, combine

__all__ = ["CombinedPredictor", "combine"]
