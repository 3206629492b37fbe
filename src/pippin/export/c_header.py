"""A predictor as one C99 header: no allocation, no library, the same bits in double.

The header evaluates the formula, `score_at`, in its order. It keeps the compiler from
fusing multiplications and additions where the compiler listens to a pragma (GCC, Clang);
others need their own flag for that, such as -ffp-contract=off.
"""

import math
import re

import numpy as np

from pippin._conformal.exportable import PortableDecisions, PortableSets, portable
from pippin._conformal.predictor import ConformalPredictor
from pippin._decisions.decider import Decider
from pippin._runtime.arrays import Vector
from pippin._runtime.errors import InputError
from pippin._theory.formula import ABOVE, OWN, OWN_U, PENALTY, PENALTY_U, Coefficients
from pippin._validation.rows import SUM_TOLERANCE
from pippin.export.c_decider import decider_header
from pippin.export.c_limits import group_words, groups_text, highest, lookup, within_text
from pippin.export.c_source import (
    BOTTOM,
    GUARDS,
    LINEAR,
    NAMES,
    NEXT,
    NUMBERS,
    PREDICT,
    PRICE,
    SEVERAL,
    SEVERAL_NUMBERS,
    SEVERAL_TOP,
    SOCOP,
    TOP,
    c_comment,
    c_number,
    c_text,
)

__all__ = ["c_header"]

COLUMNS = {"own": OWN, "own_u": OWN_U, "above": ABOVE, "penalty": PENALTY, "penalty_u": PENALTY_U}


def c_header(predictor: ConformalPredictor | Decider, prefix: str = "pippin") -> str:
    """The text of the header.

    Args:
        predictor: one with finitely many thresholds, or a decider.
        prefix: what the names in it begin with.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> text = c_header(pippin.calibrate(data.probs, data.labels, "pip", classes=data.classes))
    >>> "int pippin_predict(const double *probs, double u, int *classes)" in text
    True
    """
    given = portable(predictor)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", prefix):
        raise InputError(f"Expected a prefix of letters, digits and _, got {prefix!r}", "choose for example 'pippin'")
    if isinstance(given, PortableDecisions):
        return decider_header(given, prefix)
    words = {
        "score": str(given.score).replace("*/", "* /"),
        "alpha": repr(given.alpha),
        "n": f"{given.n_calibration:,}",
        "k": str(len(given.classes)),
        "u": "a number in (0, 1) drawn anew for it" if given.score.randomized else "is not used",
        "randomized": str(int(given.score.randomized)),
        "tolerance": repr(SUM_TOLERANCE),
        "what": "class",
        "size": "CLASSES",
        "names": c_text(given.classes),
        "price": c_number(given.c.price) if not math.isnan(given.c.price) else "",
        **group_words(given.groups, prefix),
    }
    if given.one is None:
        return _several(given, prefix, words)
    infinite = math.isinf(given.one)
    same = "((score) == (score)) /* the threshold is infinite */"
    words["within"] = same if infinite else f"((score) <= {c_number(given.one)})"
    return (TOP + GUARDS + NUMBERS).format(**words) + _walk(given.c, prefix, words, PREDICT, "size")


def _several(given: PortableSets, prefix: str, words: dict[str, str]) -> str:
    """The header where limits differ by class or by group."""
    words["told"] = c_comment(given.describe())
    text = (SEVERAL_TOP + GUARDS + SEVERAL_NUMBERS).format(**words) + groups_text(given.groups, prefix)
    text += within_text(prefix)
    text += lookup(prefix, "highest", "The largest threshold of the classes of a group.", highest(given.thresholds))
    inside = []
    if given.thresholds.shape[1] > 1:
        text += lookup(prefix, "limit", "The threshold of class k.", given.thresholds)
        inside.append(f"{prefix}_within(score, {prefix}_limit({words['group']}, best))")
    if given.ranks is not None:
        text += lookup(prefix, "last_rank", "The last rank, from 1, at which class k may be.", given.ranks)
        inside.append(f"rank < {prefix}_last_rank({words['group']}, best)")
    return text + _walk(given.c, prefix, words | {"inside": " && ".join(inside) or "1"}, SEVERAL, "rank")


def _walk(c: Coefficients, prefix: str, words: dict[str, str], predict: str, rank: str) -> str:
    """The names of the classes, the formula, and the walk down the ranks, in double and in float."""
    linear = math.isnan(c.price)
    text = (NAMES + (_linear(c, prefix) if linear else SOCOP)).format(**words)
    for real, suffix in (("double", ""), ("float", "_float")):
        body = NEXT + predict if linear else NEXT + PRICE + predict
        text += body.format(**words, real=real, suffix=suffix, **_steps(c, prefix, real, rank))
    return text + BOTTOM


def _steps(c: Coefficients, x: str, real: str, rank: str) -> dict[str, str]:
    """What happens to the mass before a rank is scored, and behind it; `rank` is the variable that counts them."""
    if not math.isnan(c.price):
        return {
            "before": f"        if ({rank} == 1)\n            mass = {x}_price_{real}(probs, last, after);",
            "behind": "",
        }
    second = f"{c_number(c.second)} * (double)probs[{x}_next_{real}(probs, p, best)]"
    return {
        "before": f"        if ({rank} == 0)\n            mass = {second};" if c.second else "",
        "behind": f"        mass = ({rank} == 0 ? 0.0 : mass) + {x}_above({rank}, p);",
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
