"""Conformal classification: prediction sets that contain the true class with a given probability."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from pippin._compare.comparison import Comparison, compare
from pippin._compare.evidence import differences
from pippin._compare.tuning import Sweep, Tuned, sweep, tune
from pippin._conformal.calibrate import calibrate
from pippin._conformal.evaluation import Evaluation, evaluate
from pippin._conformal.explanation import Explanation
from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.serialization import load
from pippin._conformal.sets import PointPredictions, PredictionSets
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
from pippin import models as models  # isort: skip
from pippin import online as online  # isort: skip
from pippin import scores as scores  # isort: skip
from pippin import shift as shift  # isort: skip

__all__ = ["Comparison", "ConformalPredictor", "Confusion", "Evaluation", "Explanation", "InputError", "Plan"]
__all__ += ["PointPredictions", "PredictionSets", "Score", "Sharpener", "Sweep", "Tuned"]
__all__ += ["calibrate", "compare", "differences", "evaluate", "examples_for", "load", "load_example", "plan"]
__all__ += ["scan", "sharpen", "sweep", "tune", "warm_up"]

if not _TYPE_CHECKING:  # with this function, type checkers would accept every attribute name

    def __getattr__(name: str) -> object:
        """Import a public module at its first use, so that `import pippin` does not load its dependencies."""
        if name in ("dask", "export", "images", "sklearn", "testing", "torch"):
            return _import_module(f"pippin.{name}")
        raise AttributeError(f"module 'pippin' has no attribute {name!r}")
