"""Distribution shift: likelihood ratios for covariate shift, class ratios for label shift, novelty detection."""

from pippin._shift.label_shift import LabelRatios, label_ratios, likelihood_ratios
from pippin._shift.novelty import discoveries, novelty

__all__ = ["LabelRatios", "discoveries", "label_ratios", "likelihood_ratios", "novelty"]
