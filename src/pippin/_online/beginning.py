"""How a stream begins: a way of following for every cell, where it and what was asked fit each other."""

import math
from typing import Any

import numpy as np

from pippin._conformal.marginal import kth_smallest
from pippin._online.one_object import Coin
from pippin._online.pools import Pools
from pippin._online.ways import Adapting, Choosing, Fixed, Growing, Tracking, Way
from pippin._runtime.arrays import Vector
from pippin._runtime.errors import InputError

WAYS = ("none", "grow", "window", "track", "aci", "dtaci")


def begun(pools: Pools, update: str, rate: Any, window: Any, coin: Coin) -> list[Way]:
    """A way for each cell.

    Raises:
        InputError: the rate or the window is none, or a cell has too few scores.
    """
    _check_rate(update, rate)
    _check_window(update, window)
    cells = zip(pools.names, pools.scores, pools.levels, strict=True)
    return [_way(name, scores, alpha, update, (rate, window, coin)) for name, scores, alpha in cells]


def _way(name: Any, scores: Vector, alpha: float, update: str, how: tuple[Any, Any, Coin]) -> Way:
    rate, window, coin = how
    if update == "window":  # a file has them sorted, and they leave one after another
        held = max(1, len(scores)) if window is None else int(window)
        return Growing(coin.shuffled(scores)[-held:], alpha, held)
    if update == "grow":
        return Growing(scores, alpha, None)
    if update == "aci":
        return Adapting(scores, alpha, 0.005 if rate is None else float(rate))
    if update == "dtaci":
        return Choosing(scores, alpha)
    threshold = kth_smallest(scores, alpha)
    if update == "none":
        return Fixed(threshold)
    if math.isinf(threshold):
        few = "" if name == "all" else f", that of {name}"
        raise InputError(f"Expected a finite threshold to begin with, got inf{few}", "calibrate with more rows")
    return Tracking(threshold, alpha, _spread(scores, alpha) if rate is None else float(rate))


def _spread(scores: Vector, alpha: float) -> float:
    """How far the scores around the threshold are apart; 1 where they are not."""
    around = [max(0.0, 1 - 2 * alpha), 1 - alpha / 2]
    low, high = np.quantile(scores[np.isfinite(scores)], around, method="lower")
    return float(high - low) or 1.0


def _check_rate(update: str, rate: Any) -> None:
    if rate is None:
        return
    if update not in ("track", "aci"):
        raise InputError(f"Expected no rate, which update={update!r} has no use for, got {rate!r}", "leave it out")
    if isinstance(rate, bool) or not isinstance(rate, int | float | np.number) or not 0 < rate < math.inf:
        raise InputError(f"Expected a positive rate, got {rate!r}", "leave it out")


def _check_window(update: str, window: Any) -> None:
    if window is None:
        return
    if update != "window":
        raise InputError(f"Expected no window, since update={update!r} has none, got {window!r}", "leave it out")
    if isinstance(window, bool) or not isinstance(window, int | np.integer) or window < 1:
        raise InputError(f"Expected a window of at least one score, got {window!r}", "leave it out")
