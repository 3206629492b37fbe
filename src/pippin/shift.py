"""Data of another distribution than the calibration rows: likelihood ratios, label shift, novelty."""

from pippin._conformal.weighted import likelihood_ratios
from pippin._shift.label_shift import LabelRatios, label_ratios
from pippin._shift.novelty import discoveries, novelty

__all__ = ["LabelRatios", "discoveries", "label_ratios", "likelihood_ratios", "novelty"]
