"""What every predictor is, whatever its kind: what `pippin.load` returns, and what every tool takes."""

from os import PathLike
from typing import Any, Protocol, runtime_checkable

from pippin._conformal.sets import PredictionSets
from pippin._runtime.arrays import Classes


@runtime_checkable
class ConformalPredictor(Protocol):
    """A calibrated predictor of any kind.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> predictor = pippin.calibrate(data.probs, data.labels, "pip", per="class")
    >>> isinstance(predictor, pippin.ConformalPredictor), sorted(predictor.takes)
    (True, ['seed'])
    """

    @property
    def alpha(self) -> float:
        """The share of errors allowed."""

    @property
    def n_calibration(self) -> int:
        """How many rows calibrated it."""

    @property
    def classes(self) -> Classes:
        """The names of the columns, in their order."""

    @property
    def guarantee(self) -> float:
        """The coverage that is proven."""

    @property
    def takes(self) -> frozenset[str]:
        """What `predict` is to be told beside the rows.

        Some of "seed", "groups" and "weights"; "folds" where the rows come as one matrix per model.
        """

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
