"""The embedded example: a real network's probabilities for photographs of seedlings.

Outputs of a ResNet18, trained from scratch on a tenth of the Plant Seedlings Dataset V2
(Giselsson et al. 2017, Aarhus University and University of Southern Denmark, understood
to be CC BY-SA 4.0), for the 4,986 images that it had not seen: 12 species of crops and
weeds, 80 % accuracy. No image is part of this package.
"""

from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, repr=False)
class Example:
    """A network's probabilities for 12 species of seedlings, and which species they are.

    Attributes:
        probs: (n, K) probabilities.
        labels: (n,) the true classes, by number.
        classes: the K names.
    """

    probs: NDArray[np.float32]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Example({len(self.labels):,} seedlings, {len(self.classes)} species)"


def load_example() -> Example:
    """The example's probabilities, labels and class names.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> data.probs.shape, data.classes[data.labels[0]]
    ((4986, 12), 'cleavers')
    """
    with (files(__package__) / "seedlings.npz").open("rb") as stream, np.load(stream, allow_pickle=False) as data:
        return Example(data["probs"], data["labels"].astype(np.int64), tuple(data["classes"].tolist()))
