"""What the page's script needs, as compact JSON: the chart's dots, and the slider's numbers."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._compare.methods import Method
from pippin._compare.report_data import STEPS, LevelCurve
from pippin._plotting.drawing import RATIO
from pippin._plotting.front import Dot, Front
from pippin._plotting.splits import look
from pippin._theory.level import quantile_rank
from pippin.cli.report.framing import in_script

FIRST_STEP, LAST_STEP = STEPS[0], STEPS[-1]  # the slider's α, in thousandths


def as_json(front: Front, curves: Sequence[LevelCurve], n: int, take: Method) -> str:
    """The data, safe inside a script element; n rows calibrate, and the score to take is the one that is read out."""
    ranks = np.array([quantile_rank(n, step / 1000) for step in STEPS])
    content = {
        "ratio": RATIO,
        "front": {
            "compared": [_dot(dot, large=True) for dot in front.compared],
            "traces": [
                {"title": trace.title, "dash": trace.dash, "dots": [_dot(dot, large=False) for dot in trace.dots]}
                for trace in front.traces
            ],
            "best": [{"x": dot.size, "y": dot.singletons} for dot in front.best],
        },
        "first": FIRST_STEP,
        "n": n,
        "take": str(take),
        "ranks": _packed(ranks, "<i4"),
        "curves": [_curve(curve) for curve in curves],
    }
    return in_script(content)


def _dot(dot: Dot, large: bool) -> dict[str, Any]:
    colour, marker, hollow = look(dot.method)
    told = {"label": str(dot.method), "x": dot.size, "y": dot.singletons, "colour": colour, "marker": marker}
    return told | ({"large": True} if large else {}) | ({"hollow": True} if hollow else {})


def _curve(curve: LevelCurve) -> dict[str, Any]:
    """A curve; of a method with several thresholds at a level, none is shown."""
    one = {} if curve.thresholds is None else {"thresholds": _packed(curve.thresholds, "<f8")}
    counts = ("covered", "sizes", "singletons", "empty")
    told = {"label": str(curve.method), "tested": curve.n_test}
    return one | told | {name: _packed(getattr(curve, name), "<i4") for name in counts}


def _packed(values: NDArray[Any], kind: str) -> str:
    return base64.b64encode(values.astype(kind).tobytes()).decode()
