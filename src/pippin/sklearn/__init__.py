"""Scikit-learn classifiers that predict sets, and likelihood ratios; needs the extra `sklearn`."""

try:
    from pippin.sklearn.classifier import ConformalClassifier
    from pippin.sklearn.cross import CrossConformalClassifier
    from pippin.sklearn.ratios import estimate_ratios
    from pippin.sklearn.scorers import coverage, fewest_classes, singletons
except ImportError as error:
    raise ImportError(
        'pippin.sklearn needs scikit-learn 1.6 or newer: run pip install "pippin-conformal[sklearn]".'
    ) from error

__all__ = [
    "ConformalClassifier",
    "CrossConformalClassifier",
    "coverage",
    "estimate_ratios",
    "fewest_classes",
    "singletons",
]
