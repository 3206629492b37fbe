"""A scikit-learn classifier that predicts sets; needs the extra `sklearn`."""

try:
    from pippin.sklearn.classifier import ConformalClassifier
except ImportError as error:
    raise ImportError(
        'pippin.sklearn needs scikit-learn 1.6 or newer: run pip install "pippin-conformal[sklearn]".'
    ) from error

__all__ = ["ConformalClassifier"]
