"""Made probabilities with the spread of a real classifier's, in blocks, so that any size fits."""

import numpy as np
from numpy.typing import NDArray

BLOCK = 4_000_000  # probabilities made at once
RIVALS = 30  # classes that share evidence with the true one


def made(n: int, n_classes: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """float32 probabilities and labels; at 1,000 classes top-1 is about 0.7 and top-5 about 0.9."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n)
    probs = np.empty((n, n_classes), dtype=np.float32)
    step = max(1, BLOCK // n_classes)
    for start in range(0, n, step):
        stop = min(start + step, n)
        probs[start:stop] = _block(rng, labels[start:stop], n_classes)
    return probs, labels


def _block(rng: np.random.Generator, labels: NDArray[np.int64], n_classes: int) -> NDArray[np.float32]:
    m = len(labels)
    rows = np.arange(m)
    logits = rng.standard_normal((m, n_classes), dtype=np.float32)
    count = min(RIVALS, n_classes - 1)
    rivals = (labels[:, None] + 1 + np.arange(count) * ((n_classes - 1) // count)) % n_classes
    above_noise = np.log(n_classes) + 6.0
    hardness = rng.exponential(1.0, m)
    # Each rival is as near as its rank among the rivals says; a hard object is near to all of them.
    nearness = 1.9 * rng.standard_normal(rivals.shape) - np.arange(count) ** 0.5
    logits[rows[:, None], rivals] += above_noise - 2.0 + nearness
    logits[rows, labels] += above_noise + 3.7 - 2.75 * hardness
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    return logits
