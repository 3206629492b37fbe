"""p-values beside one sort of the matrix, and thresholds per class beside a single one."""

import warnings
from functools import partial
from typing import Any

import numpy as np
from measure import Work, interleaved
from rich.table import Table

import pippin

SCORES = ("ip", "margin", "aps(randomized=False)", "pip", "repip", "socop")
CALIBRATION = 20_000


def measure(probs: Any, labels: Any, repeats: int) -> dict[str, Any]:
    """Seconds of every p-value of the matrix, plain and smoothed, marginal and per class; and of calibrations."""
    head = min(CALIBRATION, len(probs) // 2)
    rows = []
    for per in (None, "class"):
        for score in SCORES:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of rare classes
                predictor = pippin.calibrate(probs[:head], labels[:head], score, per=per)
                works: dict[str, Work] = {
                    "sort": partial(np.sort, probs, axis=1),
                    "p_values": partial(predictor.p_values, probs),
                    "smoothed": partial(predictor.p_values, probs, smoothed=True, seed=0),
                    "point_predictions": partial(predictor.point_predictions, probs),
                    "calibrate_marginal": partial(pippin.calibrate, probs, labels, score),
                    "calibrate": partial(pippin.calibrate, probs, labels, score, per=per),
                }
                rows.append({"score": score, "per": per or "all", **interleaved(works, repeats)})
    return {"shape": list(probs.shape), "calibration": head, "rows": rows}


def table(figures: dict[str, Any]) -> Table:
    """Ratios: p-values in sorts of the matrix, calibration in marginal calibrations."""
    n, n_classes = figures["shape"]
    shown = Table(
        *("score", "per", "np.sort, s", "p-values, ×", "smoothed, ×", "point predictions, ×", "calibrate / marginal"),
        title=f"p-values of {n:,} × {n_classes:,} float32 with {figures['calibration']:,} calibration scores; "
        "× are multiples of one np.sort of the matrix (one thread)",
    )
    for row in figures["rows"]:
        ratios = (f"{row[name] / row['sort']:.2f}" for name in ("p_values", "smoothed", "point_predictions"))
        conditional = f"{row['calibrate'] / row['calibrate_marginal']:.2f}"
        shown.add_row(row["score"], row["per"], f"{row['sort']:.2f}", *ratios, conditional)
    return shown


if __name__ == "__main__":
    from rich.console import Console

    from data import made

    pippin.warm_up()
    Console(width=140).print(table(measure(*made(50_000, 1_000), repeats=5)))
