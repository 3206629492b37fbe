"""Export of predictors and deciders as C99 headers, which allocate no memory and need no libraries.

Results equal those of Python to the last bit, since floating-point operations are in the same order: scores as in
`pippin._theory.formula.score_at`, decisions as in `pippin._engine.numpy_engine`. Pragmas keep GCC and Clang from fusing
multiplication and addition; other compilers need a flag such as -ffp-contract=off.
"""

import math
import re
import textwrap
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.exportable import ExportableDecisions, ExportableGroups, ExportableSets, exportable
from pippin._conformal.predictor import ConformalPredictor
from pippin._decisions.decider import Decider
from pippin._runtime.arrays import Vector
from pippin._runtime.errors import InputError
from pippin._theory.formula import ABOVE, OWN, OWN_U, PENALTY, PENALTY_U, Coefficients
from pippin._validation.rows import SUM_TOLERANCE

__all__ = ["c_header"]

COLUMNS = {"own": OWN, "own_u": OWN_U, "above": ABOVE, "penalty": PENALTY, "penalty_u": PENALTY_U}
ENDLESS = float(np.finfo(np.float64).max)  # stands for infinity in the header, since INFINITY needs math.h
REALS = (("double", ""), ("float", "_float"))  # C type of probabilities, suffix of its functions
PLAIN = {ord(c) for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 _-+.,:;()[]/&'*=<>#@"}


def c_header(predictor: ConformalPredictor | Decider, prefix: str = "pippin") -> str:
    """Export a predictor or decider as a C99 header.

    Args:
        predictor: a predictor with finitely many thresholds, or a decider.
        prefix: the prefix of all C functions and macros.

    Returns:
        The text of the header.

    Raises:
        InputError: the predictor cannot be exported, or the prefix is not a C identifier.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> text = c_header(pippin.calibrate(data.probs, data.labels, "pip", classes=data.classes))
    >>> "int pippin_predict(const double *probs, double u, int *classes)" in text
    True
    """
    given = exportable(predictor)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", prefix):
        raise InputError(f"Expected a prefix of letters, digits and _, got {prefix!r}", "choose for example 'pippin'")
    words = {
        "x": prefix,
        "X": prefix.upper(),
        "about": _comment(predictor.describe()),
        "alpha": repr(predictor.alpha),
        "k": str(len(predictor.classes)),
        "tolerance": repr(SUM_TOLERANCE),
        "endless": _number(ENDLESS),
    }
    words["checked"] = _fill(words, "checked")
    words |= _group_words(given.groups, words)
    return _sets(given, words) if isinstance(given, ExportableSets) else _decisions(given, words)


@cache
def _sections() -> dict[str, Template]:
    """Read the sections of the template c_header.h.in by name."""
    text = files("pippin.export").joinpath("c_header.h.in").read_text(encoding="utf-8")
    _, *parts = re.split(r"^@@ (\w+)\n", text, flags=re.MULTILINE)
    return {name: Template(section) for name, section in zip(parts[::2], parts[1::2], strict=True)}


def _fill(words: dict[str, Any], *names: str) -> str:
    """Fill the placeholders of some template sections with `words`, and join the sections."""
    return "".join(_sections()[name].substitute(words) for name in names)


def _sets(given: ExportableSets, words: dict[str, str]) -> str:
    """Return the text of the C header of a predictor, which computes prediction sets."""
    x, group, randomized = words["x"], words["group"], given.source.score.randomized
    words["u"] = "a number in (0, 1) drawn anew for it" if randomized else "is not used"
    text = _fill(words, "sets_top", "guards")
    text += f"#define {words['X']}_RANDOMIZED {int(randomized)}\n\n" + _groups(given.groups, words)
    text += _names("class", "CLASSES", given.source.classes, words)
    text += _lookup("highest", "The largest threshold in a group.", _highest(given.thresholds), words)
    conditions = []
    if given.thresholds.shape[1] > 1:
        text += _lookup("limit", "The threshold of class k.", given.thresholds, words)
        conditions.append(f"{x}_within(score, {x}_limit({group}, best))")
    if given.ranks is not None:
        text += _lookup("last_rank", "The last rank, from 1, at which class k may be.", given.ranks, words)
        conditions.append(f"rank < {x}_last_rank({group}, best)")
    words["inside"] = " && ".join(conditions) or "1"
    linear = math.isnan(given.c.price)
    words |= _linear_words(given.c, words["X"]) if linear else {"price": _number(given.c.price)}
    text += _fill(words, "linear" if linear else "socop")
    for real, suffix in REALS:
        updates = _mass_updates(given.c, x, real)
        parts = ("next", "predict") if linear else ("next", "tau", "predict")
        text += _fill(words | updates | {"real": real, "suffix": suffix}, *parts)
    return text + _fill({}, "bottom")


def _mass_updates(c: Coefficients, x: str, real: str) -> dict[str, str]:
    """Return the C statements that update `mass`, the term M of the score formula, before and after each rank."""
    if not math.isnan(c.price):
        before = f"        if (rank == 1)\n            mass = {x}_tau_{real}(probs, last, after);"
        return {"before": before, "behind": ""}
    second = f"{_number(c.second)} * (double)probs[{x}_next_{real}(probs, p, best)]"
    before = f"        if (rank == 0)\n            mass = {second};" if c.second else ""
    return {"before": before, "behind": f"        mass = (rank == 0 ? 0.0 : mass) + {x}_above(rank, p);"}


def _linear_words(c: Coefficients, upper: str) -> dict[str, str]:
    """Return the coefficients of a linear score as C code: arrays over the ranks, or numbers if equal at all ranks."""
    words, arrays = {"constant": _number(c.constant)}, {}
    for name, column in COLUMNS.items():
        arrays[name], words[name] = _column(name, c.table[:, column], upper)
    for name in ("own_u", "penalty_u"):  # a term u·0 is left out, which changes no result
        words[name] = f" + u * {words[name]}" if c.table[:, COLUMNS[name]].any() else ""
    words["above_column"] = arrays.pop("above")
    return {**words, "columns": "".join(arrays.values())}


def _column(name: str, values: Vector, upper: str) -> tuple[str, str]:
    """Return the C declaration of coefficients by rank, and the expression for the coefficient at rank r.

    If all coefficients are equal, there is no declaration, and the expression is a number.
    """
    if bool((values == values[0]).all()):
        return "", _number(float(values[0]))
    return f"    static const double {name}[{upper}_CLASSES] = {{\n        {_rows(values)}\n    }};\n", f"{name}[r]"


def _decisions(given: ExportableDecisions, words: dict[str, str]) -> str:
    """Return the text of the C header of a decider, which computes actions and certificates.

    A certificate is the utility that the action has with a guaranteed probability of 1 − alpha.
    """
    policy, by_outcome = given.policy, given.betas.shape[1] > 1
    sizes = {"ACTIONS": len(policy.table), "OUTCOMES": policy.n_outcomes, "LINES": len(policy.value)}
    words |= {
        "share": f"{100 * (1 - given.source.alpha):g}%",
        "safe": str(policy.safe),
        "lowest": _number(given.lowest),
        **{name: _listed(getattr(policy, name)) for name in ("grouped", "ends", "order", "action", "place", "value")},
    }
    words["utility"] = _fill(words | {"utility": _listed(policy.table)}, "utility") if by_outcome else ""
    text = _fill(words, "decisions_top", "guards")
    text += "".join(f"#define {words['X']}_{name} {size}\n" for name, size in sizes.items()) + "\n"
    text += _groups(given.groups, words)
    text += _names("class", "CLASSES", given.source.classes, words)
    text += _names("action", "ACTIONS", given.source.utility.actions, words)
    text += _lookup("highest", "The largest limit of a group.", _highest(given.betas), words)
    if by_outcome:
        text += _lookup("limit", "The limit of outcome k.", given.betas, words)
    for real, suffix in REALS:
        parts = ("decide", "by_outcome", "end") if by_outcome else ("decide", "end")
        text += _fill(words | {"real": real, "suffix": suffix}, *parts)
    return text + _fill({}, "bottom")


def _group_words(groups: ExportableGroups | None, words: dict[str, str]) -> dict[str, str]:
    """Return the text for the placeholders about groups in the template; empty strings without groups."""
    if groups is None:
        parts = ("group_parameter", "known_group", "group_functions", "group_meaning")
        return {"group": "0", **dict.fromkeys(parts, "")}
    last = f"{words['X']}_GROUPS"
    if groups.other is None:
        found = {"unknown": "-1 for a group unseen at calibration", "other": "-1", "unseen": "return -1"}
    else:
        shared = "all other groups have one number and the marginal limits"
        found = {"unknown": shared, "other": last, "unseen": f"group = {last}"}
    found |= {"group": "group", "group_parameter": " int group,", "n_groups": str(len(groups.names))}
    return found | {name: _fill(words | found, name) for name in ("known_group", "group_functions", "group_meaning")}


def _groups(groups: ExportableGroups | None, words: dict[str, str]) -> str:
    """Return the C functions that convert the number of a group to its name, and a name to the number."""
    if groups is None:
        return ""
    names = _names("group", "GROUPS", groups.names, words)
    return _fill(words, "n_groups") + names + _fill(words, "group")


def _names(kind: str, size: str, names: Any, words: dict[str, str]) -> str:
    """Return the C function that converts the number of a class, action or group (`kind`) to its name."""
    text = ",\n".join(f'        "{_escaped(str(name))}"' for name in names)
    return _fill(words | {"what": kind, "size": size, "names": text}, "names")


def _lookup(name: str, what: str, values: NDArray[Any], words: dict[str, str]) -> str:
    """Return the C function that looks up the entry of a table for a group and a class or outcome k.

    `values` has a row per group, and a column per class or outcome (group of classes with equal utilities), or one
    column for all.
    """
    rows, width = values.shape
    place = " + ".join([f"group * {width}"] * (rows > 1) + ["k"] * (width > 1)) or "0"
    kind = "double" if values.dtype.kind == "f" else "int"
    filled = {"name": name, "what": what, "kind": kind, "n": values.size, "values": _rows(values), "place": place}
    return _fill(words | filled, "lookup")


def _highest(limits: Vector) -> Vector:
    """Return the largest threshold (or β of a decider) of each group, shape (groups, 1)."""
    highest: Vector = limits.max(axis=1, keepdims=True)
    return highest


def _listed(values: NDArray[Any], separator: str = ", ") -> str:
    numbers = values.ravel().tolist()
    return separator.join(map(_number if values.dtype.kind == "f" else str, numbers))


def _rows(values: NDArray[Any]) -> str:
    """Return numbers as C literals separated by commas, four per line."""
    flat = values.ravel()
    return ",\n        ".join(_listed(flat[i : i + 4]) for i in range(0, len(flat), 4))


def _number(value: float) -> str:
    """Return a number as hexadecimal C literal, which is exact; infinity becomes ENDLESS."""
    text = min(value, ENDLESS).hex()
    return f"({text})" if value < 0 else text


def _comment(text: str) -> str:
    """Wrap text for a C comment; a space is put into /* and */, which would begin or end a comment."""
    return textwrap.fill(text.replace("*/", "* /").replace("/*", "/ *"), 96, subsequent_indent=" * ")


def _escaped(text: str) -> str:
    return "".join(chr(byte) if byte in PLAIN else f"\\{byte:03o}" for byte in text.encode("utf-8", "replace"))
