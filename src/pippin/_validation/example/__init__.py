"""The embedded example: a real network's probabilities for photographs of seedlings.

They are outputs of a ResNet18 for 4,986 images that it had not seen, of 12 species of crops and weeds, with 80%
accuracy. The network was trained from scratch on a tenth of the Plant Seedlings Dataset V2 (Giselsson et al. 2017,
Aarhus University and University of Southern Denmark, understood to be CC BY-SA 4.0). No image is part of this package.
"""

from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.showing import Share, html_table


@dataclass(frozen=True, repr=False)
class Example:
    """Probabilities of a network for seedlings of 12 species, and their true species.

    Attributes:
        probs: (n, K) probabilities.
        labels: (n,) indices of the true classes.
        classes: names of the K classes.
    """

    probs: NDArray[np.float32]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]

    def _repr_html_(self) -> str:
        counts, right = np.bincount(self.labels), np.bincount(self.labels[self.probs.argmax(axis=1) == self.labels])
        columns = zip(self.classes, counts.tolist(), right, strict=True)
        rows = [(name, f"{n:,}", Share(hit / n)) for name, n, hit in columns]
        note = f"probs: {self.probs.shape[0]:,} × {self.probs.shape[1]} probabilities; labels: the true classes."
        caption = f"{len(self.labels):,} seedlings of {len(self.classes)} species, with the probabilities of a network"
        return html_table(caption, ("class", "rows", "most probable class is right"), rows, note=note)

    def __repr__(self) -> str:
        return f"Example({len(self.labels):,} seedlings, {len(self.classes)} species)"


def load_example() -> Example:
    """Load the embedded example: class probabilities and true classes of images of seedlings, and the class names.

    Returns:
        The example, with attributes probs, labels and classes.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> data.probs.shape, data.classes[data.labels[0]]
    ((4986, 12), 'cleavers')
    """
    with (files(__package__) / "seedlings.npz").open("rb") as stream, np.load(stream, allow_pickle=False) as data:
        return Example(data["probs"], data["labels"].astype(np.int64), tuple(data["classes"].tolist()))
