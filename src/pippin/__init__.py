"""Prediction sets that contain the true class with a chosen probability."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from pippin._compare.comparison import Comparison, compare
from pippin._compare.evidence import differences
from pippin._compare.tuning import Sweep, Tuned, sweep, tune
from pippin._conformal.calibrating import calibrate
from pippin._conformal.combination import Combination, calibrate_combination
from pippin._conformal.conditional import ConditionalPredictor
from pippin._conformal.cross import CrossPredictor, calibrate_cross
from pippin._conformal.dividing import learn
from pippin._conformal.explaining import Explanation
from pippin._conformal.loading import load
from pippin._conformal.marginal import Predictor
from pippin._conformal.metrics import Evaluation, evaluate
from pippin._conformal.points import PointPredictions
from pippin._conformal.protocol import ConformalPredictor
from pippin._conformal.sets import PredictionSets
from pippin._conformal.sharpened import SharpenedMixture, SharpenedPredictor
from pippin._conformal.units import UnitPredictor
from pippin._conformal.weighted import WeightedPredictor, calibrate_weighted
from pippin._engine.warm_up import warm_up
from pippin._runtime.errors import InputError
from pippin._runtime.version import __version__ as __version__
from pippin._sharpening.learning import sharpen
from pippin._sharpening.sharpener import Confusion, Sharpener
from pippin._theory.planning import Plan, examples_for, plan
from pippin._theory.scores import Score
from pippin._validation.example import load_example
from pippin.tables.scanning import scan

from pippin import decisions as decisions  # isort: skip
from pippin import distributed as distributed  # isort: skip
from pippin import metrics as metrics  # isort: skip
from pippin import online as online  # isort: skip
from pippin import scores as scores  # isort: skip
from pippin import shift as shift  # isort: skip

__all__ = [
    "Combination",
    "Comparison",
    "ConditionalPredictor",
    "ConformalPredictor",
    "Confusion",
    "CrossPredictor",
    "Evaluation",
    "Explanation",
    "InputError",
    "Plan",
    "PointPredictions",
    "PredictionSets",
    "Predictor",
    "Score",
    "SharpenedMixture",
    "SharpenedPredictor",
    "Sharpener",
    "Sweep",
    "Tuned",
    "UnitPredictor",
    "WeightedPredictor",
    "calibrate",
    "calibrate_combination",
    "calibrate_cross",
    "calibrate_weighted",
    "compare",
    "differences",
    "evaluate",
    "examples_for",
    "learn",
    "load",
    "load_example",
    "plan",
    "scan",
    "sharpen",
    "sweep",
    "tune",
    "warm_up",
]

if not _TYPE_CHECKING:  # type checkers want to see the import

    def __getattr__(name: str) -> object:
        """Import public modules when they are first named, so that `import pippin` stays light."""
        if name in ("dask", "export", "images", "sklearn", "testing", "torch"):
            return _import_module(f"pippin.{name}")
        raise AttributeError(f"module 'pippin' has no attribute {name!r}")
