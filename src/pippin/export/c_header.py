"""A predictor as one C99 header: no allocation, no library, the same bits in double.

The header evaluates the formula, `score_at`, in its order. It keeps the compiler from
fusing multiplications and additions where the compiler listens to a pragma (GCC, Clang);
others need their own flag for that, such as -ffp-contract=off.
"""

import math
import re

import numpy as np

from pippin._inputs.rows import SUM_TOLERANCE
from pippin._predictors.decisions.decider import Decider
from pippin._predictors.marginal import Predictor
from pippin._runtime.arrays import Vector
from pippin._runtime.errors import InputError
from pippin._theory.formula import ABOVE, OWN, OWN_U, PENALTY, PENALTY_U, Coefficients
from pippin._theory.scores import coefficients
from pippin.export.c_decider import decider_header
from pippin.export.c_source import (
    BOTTOM,
    GUARDS,
    LINEAR,
    NAMES,
    NEXT,
    NUMBERS,
    PREDICT,
    PRICE,
    SOCOP,
    TOP,
    c_number,
    c_text,
)
from pippin.export.kinds import exportable

COLUMNS = {"own": OWN, "own_u": OWN_U, "above": ABOVE, "penalty": PENALTY, "penalty_u": PENALTY_U}


def c_header(predictor: Predictor | Decider, prefix: str = "pippin") -> str:
    """The text of the header.

    Args:
        predictor: one with a single threshold, or a decider with a single β.
        prefix: what the names in it begin with.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> text = c_header(pippin.calibrate(data.probs, data.labels, "pip", classes=data.classes))
    >>> "int pippin_predict(const double *probs, double u, int *classes)" in text
    True
    """
    predictor = exportable(predictor)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", prefix):
        raise InputError(f"Expected a prefix of letters, digits and _, got {prefix!r}", "choose for example 'pippin'")
    if isinstance(predictor, Decider):
        return decider_header(predictor, prefix)
    c = coefficients(predictor.score, len(predictor.classes))
    words = {
        "x": prefix,
        "X": prefix.upper(),
        "score": str(predictor.score).replace("*/", "* /"),
        "alpha": repr(predictor.alpha),
        "n": f"{predictor.n_calibration:,}",
        "k": str(len(predictor.classes)),
        "u": "a number in (0, 1) drawn anew for it" if predictor.score.randomized else "is not used",
        "randomized": str(int(predictor.score.randomized)),
        "tolerance": repr(SUM_TOLERANCE),
        "within": "((score) == (score)) /* the threshold is infinite */"
        if math.isinf(predictor.threshold)
        else f"((score) <= {c_number(predictor.threshold)})",
        "what": "class",
        "size": "CLASSES",
        "names": c_text(predictor.classes),
        "price": c_number(c.price) if not math.isnan(c.price) else "",
    }
    linear = math.isnan(c.price)
    text = (TOP + GUARDS + NUMBERS + NAMES + (_linear(c, prefix) if linear else SOCOP)).format(**words)
    for real, suffix in (("double", ""), ("float", "_float")):
        body = NEXT + PREDICT if linear else NEXT + PRICE + PREDICT
        text += body.format(**words, real=real, suffix=suffix, **_steps(c, prefix, real))
    return text + BOTTOM


def _steps(c: Coefficients, x: str, real: str) -> dict[str, str]:
    """What happens to the mass before a rank is scored, and behind it."""
    if not math.isnan(c.price):
        return {
            "before": f"        if (size == 1)\n            mass = {x}_price_{real}(probs, last, after);",
            "behind": "",
        }
    second = f"{c_number(c.second)} * (double)probs[{x}_next_{real}(probs, p, best)]"
    return {
        "before": f"        if (size == 0)\n            mass = {second};" if c.second else "",
        "behind": f"        mass = (size == 0 ? 0.0 : mass) + {x}_above(size, p);",
    }


def _linear(c: Coefficients, prefix: str) -> str:
    """The formula with the coefficients in it; a column that is the same for all ranks becomes one number."""
    arrays, terms = {}, {}
    for name, column in COLUMNS.items():
        arrays[name], terms[name] = _column(name, c.table[:, column], prefix.upper())
    above_column = arrays.pop("above").replace("{", "{{").replace("}", "}}")
    columns = "".join(arrays.values()).replace("{", "{{").replace("}", "}}")
    text = LINEAR
    for name in ("own_u", "penalty_u"):  # without u, u·0 is left out, which changes no bit
        if not c.table[:, COLUMNS[name]].any():
            text = text.replace(f" + u * {{{name}}}", "")
    for name, term in terms.items():
        text = text.replace(f"{{{name}}}", term)
    text = text.replace("{constant}", c_number(c.constant))
    return text.replace("{columns}\n", columns).replace("{above_column}\n", above_column)


def _column(name: str, values: Vector, upper: str) -> tuple[str, str]:
    if bool((values == values[0]).all()):
        return "", c_number(float(values[0]))
    rows = [", ".join(map(c_number, part.tolist())) for part in np.split(values, range(4, len(values), 4))]
    body = ",\n        ".join(rows)
    return f"    static const double {name}[{upper}_CLASSES] = {{\n        {body}\n    }};\n", f"{name}[r]"
