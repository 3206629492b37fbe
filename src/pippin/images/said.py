"""What a network says of images, whoever runs it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Said(NamedTuple):
    """What a network says of some images: logits (n, K), and the input of its last layer (n, M), where asked for."""

    logits: NDArray[np.float32]
    features: NDArray[np.float32] | None


def together(every: Sequence[Said]) -> Said:
    """Several as one."""
    features = [one.features for one in every if one.features is not None]
    return Said(np.concatenate([one.logits for one in every]), np.concatenate(features) if features else None)
