"""The k-th smallest of many scores."""

import math

import numpy as np

from pippin._runtime.arrays import Vector

FEW = 2048  # scores up to which a sample saves nothing
SPREAD = 3  # standard deviations of a sample's quantile that are looked at


def smallest(scores: Vector, k: int) -> float:
    """The k-th smallest score, k from 1 on.

    A sample tells between which scores it is likely to lie; the few of these are looked at, or all, if it does not.
    """
    n = len(scores)
    if n > FEW:
        sample = np.sort(scores[:: math.isqrt(n) // 4])
        m, share = len(sample), k / n
        spread = SPREAD * math.sqrt(m * share * (1 - share)) + 2
        first, last = int(m * share - spread), int(m * share + spread)
        low, high = sample[first] if first >= 0 else -math.inf, sample[last] if last < m else math.inf
        below, near = int(np.count_nonzero(scores < low)), scores[(scores >= low) & (scores <= high)]
        if below < k <= below + len(near):
            scores, k = near, k - below
    return float(np.partition(scores, k - 1)[k - 1])
