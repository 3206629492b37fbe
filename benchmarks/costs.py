"""Measure what other results cost, as multiples of `calibrate` and `predict` with one threshold."""

import warnings
from functools import partial
from typing import Any

import numpy as np
from measure import Work, interleaved

import pippin

SCORE = "repip"


def measure_costs(probs: Any, labels: Any, repeats: int) -> dict[str, Any]:
    """Time p-values, class-conditional sets, decisions and sharpening, and plain `calibrate` and `predict`."""
    n, n_classes = probs.shape
    half = n // 2
    kinds = np.random.default_rng(0).normal(size=(5, 4))[:, np.arange(n_classes) % 4]
    utility = pippin.decisions.Utility(kinds, actions=list("abcde"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes with few examples
        plain = pippin.calibrate(probs, labels, SCORE)
        per_class = pippin.calibrate(probs, labels, SCORE, per="class")
        decider = pippin.decisions.calibrate(probs, labels, utility, 0.1)
        sharpened = pippin.calibrate(probs[:half], labels[:half], SCORE, sharpen=True)
        works: dict[str, Work] = {
            "calibrate": partial(pippin.calibrate, probs, labels, SCORE),
            "predict": partial(plain.predict, probs),
            'calibrate(per="class")': partial(pippin.calibrate, probs, labels, SCORE, per="class"),
            'predict, per="class"': partial(per_class.predict, probs),
            "p_values": partial(plain.p_values, probs),
            "point_predictions": partial(plain.point_predictions, probs),
            "decisions.calibrate, four kinds of classes": partial(
                pippin.decisions.calibrate, probs, labels, utility, 0.1
            ),
            "decide, four kinds of classes": partial(decider.decide, probs),
            "predict, sharpened": partial(sharpened.predict, probs),
        }
        seconds = interleaved(works, repeats)
        seconds |= interleaved(
            {"calibrate(sharpen=True)": partial(pippin.calibrate, probs, labels, SCORE, sharpen=True)}, 1
        )
    return {"rows": n, "classes": n_classes, "score": SCORE, "seconds": seconds}
