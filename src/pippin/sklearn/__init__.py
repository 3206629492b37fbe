"""Scikit-learn classifiers that predict sets, and likelihood ratios; needs the extra `sklearn`."""

try:
    from pippin.sklearn.classifiers import ConformalClassifier, CrossConformalClassifier
    from pippin.sklearn.ratios import estimate_ratios
    from pippin.sklearn.scorers import coverage, neg_mean_size, singleton_rate
except ImportError as error:
    raise ImportError(
        'pippin.sklearn needs scikit-learn 1.6 or newer: run pip install "pippin-conformal[sklearn]".'
    ) from error

__all__ = ["ConformalClassifier", "CrossConformalClassifier"]
__all__ += ["coverage", "estimate_ratios", "neg_mean_size", "singleton_rate"]
