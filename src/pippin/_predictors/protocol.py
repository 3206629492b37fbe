"""What every predictor is, whatever its kind: what `pippin.load` returns, and what every tool takes."""

from os import PathLike
from typing import Any, Protocol, runtime_checkable

from pippin._predictors.sets import PredictionSets
from pippin._runtime.arrays import Classes


@runtime_checkable
class ConformalPredictor(Protocol):
    """A calibrated predictor of any kind.

    `alpha` is the share of errors allowed, `n_calibration` how many rows calibrated it, and
    `classes` the names of the columns. `guarantee` is the coverage that is proven, and
    `takes` says what `predict` is to be told beside the rows: "seed", "groups", "weights";
    "folds" where the rows come as one matrix per model.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> predictor = pippin.calibrate(data.probs, data.labels, "pip", per="class")
    >>> isinstance(predictor, pippin.ConformalPredictor), sorted(predictor.takes)
    (True, ['seed'])
    """

    @property
    def alpha(self) -> float: ...
    @property
    def n_calibration(self) -> int: ...
    @property
    def classes(self) -> Classes: ...
    @property
    def guarantee(self) -> float: ...
    @property
    def takes(self) -> frozenset[str]: ...

    def predict(self, probs: Any, /, *args: Any, **kwargs: Any) -> PredictionSets:
        """The prediction set of every row.

        Args:
            probs: (n, K) probabilities; what else there is to say, by name.
        """

    def describe(self) -> str:
        """What it is and what it promises, in a sentence."""

    def content(self) -> dict[str, Any]:
        """What its file holds."""

    def save(self, path: "str | PathLike[str]") -> None:
        """Writes a JSON file that any language can read; `pippin.load` reads it.

        Args:
            path: the file.
        """
