"""Export of predictors and deciders as C99 headers, which allocate no memory and need no libraries.

From probabilities, results equal those of Python to the last bit, since floating-point operations are in the same
order: scores as in `pippin._theory.formula.score_at`, decisions as in `pippin._engine.numpy_engine`. Pragmas keep GCC
and Clang from fusing multiplication and addition; other compilers need a flag such as -ffp-contract=off. The softmax of
logits and the sharpener use functions of the header for exp, log and cos, which may differ from NumPy's in the last
bit.
"""

import math
import re
import textwrap
import unicodedata
import zlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.card import text_page
from pippin._conformal.exportable import (
    LARGEST_FEATURE,
    ExportableDecisions,
    ExportableGroups,
    ExportableSets,
    ExportableSharpener,
    exportable,
    models_of,
)
from pippin._conformal.predictor import ConformalPredictor
from pippin._decisions.decider import Decider
from pippin._runtime.arguments import checked
from pippin._runtime.arrays import Vector
from pippin._runtime.errors import InputError
from pippin._sharpening.features import FLOOR, SHIFT
from pippin._theory.formula import ABOVE, OWN, OWN_U, PENALTY, PENALTY_U, Coefficients
from pippin._validation.rows import SUM_TOLERANCE
from pippin.export.preprocessing import read_preprocessing

__all__ = ["c_header"]

COLUMNS = {"own": OWN, "own_u": OWN_U, "above": ABOVE, "penalty": PENALTY, "penalty_u": PENALTY_U}
ENDLESS = float(np.finfo(np.float64).max)  # stands for infinity in the header, since INFINITY needs math.h
REALS = (("double", ""), ("float", "_float"))  # C type of probabilities, suffix of its functions
BYTES = {"double": 8, "float": 4, "int": 4}
TABLE = re.compile(r"static const (double|float|int) \w+\[[^]]*\] = \{([^}]*)\}")  # declaration of a constant table
NUMBERED = {"CLASS": "classes", "ACTION": "actions", "GROUP": "groups", "KIND": "kinds of classes"}
TABLE_BYTES, CHECKSUM = "@@table_bytes@@", "@@checksum@@"  # placeholders, replaced when the rest of the text is known
SCALARS = 640  # maximum number of bytes on the stack for numbers, addresses and saved registers
PLAIN = {ord(c) for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 _-+.,:;()[]/&'*=<>#@"}


@checked
def c_header(
    predictor: ConformalPredictor | Decider,
    prefix: str = "pippin",
    *,
    weights: str | PathLike[str] | None = None,
) -> str:
    """Export a predictor or decider as a C99 header.

    Args:
        predictor: a predictor with finitely many thresholds, or a decider; at most one sharpener (recalibration map).
        prefix: the prefix of all C functions, constants and macros; different ones for headers of one program.
        weights: the folder of the network's weights, from `pippin train`. The header then also has functions that
            resize and normalize an image exactly as in the training.

    Returns:
        The text of the header.

    Raises:
        InputError: the predictor cannot be exported, the prefix is not a C identifier, or the weights are of a network
            with other classes.

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
        "table_bytes": TABLE_BYTES,
        "checksum": CHECKSUM,
    }
    words |= _group_words(given.groups, words) | _kind_words(given.source, words)
    words |= _sharpener_words(given.sharpener, words) | _image_words(predictor, weights, words)
    text = _sets(given, words) if isinstance(given, ExportableSets) else _decisions(given, words)
    text = text.replace(TABLE_BYTES, f"{_table_bytes(text):,}")
    text = text.replace(CHECKSUM, f"0x{zlib.crc32(text.encode()):08x}U")
    return _card_comment(predictor) + text


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
    x, randomized = words["x"], given.source.score.randomized
    words["u"] = "a number in (0, 1) drawn anew for it" if randomized else "is not used"
    words |= {"results": "sets", "stack_bytes": f"{_stack(given, 0):,}"}
    words["equality"] = _fill(words, "sharpened_equality" if given.sharpener else "equality")
    text = _fill(words, "sets_top", "guards")
    text += f"#define {words['X']}_RANDOMIZED {int(randomized)}\n\n"
    text += _constants(words, CLASS=given.source.classes, GROUP=given.groups and given.groups.names)
    text += _groups(given.groups, words) + _names("class", "CLASSES", given.source.classes, words) + words["kinds"]
    text += _lookup("highest", "The largest threshold in a group.", _highest(given.thresholds), words)
    conditions = []
    if given.thresholds.shape[1] > 1:
        text += _lookup("limit", "The threshold of class k.", given.thresholds, words)
        conditions.append(f"{x}_within(score, {x}_limit(group, best))")
    if given.ranks is not None:
        text += _lookup("last_rank", "The last rank, from 1, at which class k may be.", given.ranks, words)
        conditions.append(f"rank < {x}_last_rank(group, best)")
    words["inside"] = " && ".join(conditions) or "1"
    linear = math.isnan(given.c.price)
    words |= _linear_words(given.c, words["X"]) if linear else {"price": _number(given.c.price)}
    text += _fill(words, "linear" if linear else "socop") + words["sharpener"]
    for real in words["cores"].split():
        parts = ("next", "set") if linear else ("next", "tau", "set")
        text += _fill(words | _mass_updates(given.c, x, real) | {"real": real}, *parts)
    return text + _entries("predict", words) + words["image"] + _fill({}, "bottom")


def _entries(name: str, words: dict[str, str]) -> str:
    """Return the text of the functions for probabilities and logits, in double and float, by their template section."""
    text = ""
    for real, suffix in REALS:
        own = words | {"real": real, "suffix": suffix, "core": real, "given": "probs"}
        parts = ["valid", "softmax", *(["models"] if words["every"] else []), name]
        if words["sharpener"]:
            own |= {"core": "float", "given": "row"}
            own |= {"row_filled": _fill(own, "row_pooled" if words["every"] else "row_copied")}
            own |= {"sharpened": _fill(own, "sharpened")}
        text += _fill(own, *parts)
    return text


def _table_bytes(text: str) -> int:
    """Return the size in bytes of all constant tables of numbers in the text of a header."""
    return sum(BYTES[kind] * (values.count(",") + 1) for kind, values in TABLE.findall(text))


def _stack(given: ExportableSets | ExportableDecisions, arrays: int) -> int:
    """Return a bound on the stack in bytes; `arrays` is the size of the arrays of the function for sets or actions."""
    n_classes, sharpener = len(given.source.classes), given.sharpener
    arrays += SCALARS + 8 * n_classes * models_of(given)  # the softmax
    if sharpener is not None:
        arrays += 4 * 4 * n_classes
        if sharpener.feature_map is not None:
            n_x, n_waves = sharpener.feature_map.waves.shape
            arrays += 4 * (n_x + n_waves + (0 if sharpener.rotation is None else len(sharpener.rotation[1])))
    return -(-arrays // 16) * 16


def _image_words(
    predictor: ConformalPredictor | Decider, weights: str | PathLike[str] | None, words: dict[str, str]
) -> dict[str, str]:
    """Return the text about reading images like the network with these weights; empty strings without weights."""
    if weights is None:
        return {"image_meaning": "", "image": ""}
    size, *colors = read_preprocessing(Path(weights), predictor.classes)
    mean, sd = (_listed(np.array(values, dtype=np.float32)) for values in colors)
    words = words | {"size": str(size), "mean": mean, "sd": sd}
    return {name: _fill(words, name) for name in ("image_meaning", "image")}


def _sharpener_words(sharpener: ExportableSharpener | None, words: dict[str, str]) -> dict[str, str]:
    """Return the text for the placeholders about sharpening (recalibration); empty strings without a sharpener."""
    names = ("features_parameter", "features_argument", "features_meaning", "features_checked", "row", "sharpened")
    found = dict.fromkeys((*names, "sharpener", "every", "times_models", "models_meaning"), "")
    found |= {"features": "0", "cores": "double float", "n_probs": words["k"]}
    if sharpener is None:
        return found
    if sharpener.n_features:
        found |= {"n_features": str(sharpener.n_features), "largest": f"{LARGEST_FEATURE:g}F", "features": "features"}
        found |= {"features_parameter": " const float *features,", "features_argument": " features,"}
        found |= {name: _fill(words | found, name) for name in ("features_meaning", "features_checked")}
    if sharpener.pool is not None:
        n_models, floor = len(sharpener.pool), _single(float(FLOOR))
        found |= {"every": "all_", "times_models": f" * {n_models}", "n_models": str(n_models), "floor": floor}
        found |= {"n_probs": str(n_models * sharpener.classes), "pool": _listed(sharpener.pool)}
        found |= {"models_meaning": _fill(words | found, "models_meaning")}
    counter = "\n    int k;" if sharpener.pool is None or sharpener.n_features else ""
    row = _fill(words | {"counter": counter}, "row")
    return found | {"cores": "float", "sharpener": _sharpener(sharpener, words), "row": row}


def _sharpener(sharpener: ExportableSharpener, words: dict[str, str]) -> str:
    """Return the C function that sharpens probabilities, with its tables, and the functions that it calls."""
    x, feature_map, tables, buffers, steps = words["x"], sharpener.feature_map, "", "", ""
    phi, n_phi = "psi", 0

    def product(row: str, matrix: NDArray[Any], offset: NDArray[Any], names: tuple[str, str], out: str) -> str:
        nonlocal tables
        for name, values in zip(names, (matrix, offset), strict=True):
            tables += f"    static const float {name}[{values.size}] = {{\n        {_rows(values)}\n    }};\n"
        n, width = matrix.shape
        return f"    {x}_affine({row}, {names[0]}, {names[1]}, {n}, {width}, {out});\n"

    if feature_map is not None:
        (n_x, n_waves), n_axes = feature_map.waves.shape, feature_map.axes.shape[1]
        n_phi = n_x + n_waves
        buffers = f"    float psi[{n_phi}];\n"
        steps += product("z", feature_map.axes, feature_map.shift, ("axes", "shift"), "psi")
        if feature_map.feature_axes is not None and feature_map.feature_shift is not None:
            names = "feature_axes", "feature_shift"
            steps += product("features", feature_map.feature_axes, feature_map.feature_shift, names, f"psi + {n_axes}")
        steps += product("psi", feature_map.waves, feature_map.phases, ("waves", "phases"), f"psi + {n_x}")
        steps += f"    for (k = {n_x}; k < {n_phi}; k++)\n        psi[k] = {x}_cos(psi[k]);\n"
        if sharpener.rotation is not None:
            steps += product("psi", *sharpener.rotation, ("rotation", "centre"), "phi")
            phi, n_phi = "phi", len(sharpener.rotation[1])
            buffers += f"    float phi[{n_phi}];\n"
    for m in range(len(sharpener.a)):
        if m < sharpener.n_plain:
            steps += _fill(words | {"m": str(m)}, "plain_member")
            continue
        w, b = sharpener.members[m - sharpener.n_plain]
        product("", w, b, (f"w{m}", f"b{m}"), "")
        steps += _fill(words | {"m": str(m), "phi": phi, "n_phi": str(n_phi)}, "phi_member")
    numbers = {"n_members": str(len(sharpener.a)), "a": _listed(sharpener.a), "weights": _listed(sharpener.weights)}
    numbers |= {"floor": _single(float(FLOOR)), "shift": _single(float(SHIFT))}
    numbers |= {"tables": tables, "buffers": buffers, "steps": steps}
    return _fill(words | numbers, "sharpener_functions", "sharpen")


def _mass_updates(c: Coefficients, x: str, real: str) -> dict[str, str]:
    """Return the C statements that update `mass`, the term M of the score formula, before and after each rank."""
    if not math.isnan(c.price):
        before = f"        if (rank == 1)\n            mass = {x}_tau_{real}(probs, last, after);"
        return {"before": before, "behind": ""}
    second = f"{_number(c.second)} * (double)probs[{x}_next_{real}(probs, p, best)]"
    before = f"        if (rank == 0)\n            mass = {second};" if c.second else ""
    return {"before": before, "behind": f"        mass = (rank == 0 ? 0.0 : mass) + {x}_above(rank, p);"}


def _linear_words(c: Coefficients, upper: str) -> dict[str, str]:
    """Return the coefficients of a score (not SOCOP) as C code: arrays by rank, or numbers if equal at all ranks."""
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
        "share": _share(given.source),
        "safe": str(policy.safe),
        "lowest": _number(given.lowest),
        **{name: _listed(getattr(policy, name)) for name in ("grouped", "ends", "order", "action", "place", "value")},
    }
    words["utility"] = _fill(words | {"utility": _listed(policy.table)}, "utility") if by_outcome else ""
    if (own := given.by_action) is not None:
        tables: dict[str, Any] = {
            "descending": own.order,
            "falling": own.falling,
            "floors": own.floors,
            "above": own.limits,
        }
        words["utility"] = _fill(words | {name: _listed(tables[name]) for name in tables}, "by_action_tables")
    arrays = 8 * policy.n_outcomes + 8 * policy.table.size + 12 * len(policy.value) + 8 * len(policy.table) * by_outcome
    words |= {"results": "actions", "stack_bytes": f"{_stack(given, arrays):,}"}
    words["equality"] = _fill(words, "sharpened_equality" if given.sharpener else "equality")
    text = _fill(words, "decisions_top", "guards")
    text += "".join(f"#define {words['X']}_{name} {size}\n" for name, size in sizes.items()) + "\n"
    names = {"CLASS": given.source.classes, "ACTION": given.source.utility.actions}
    text += _constants(words, **names, GROUP=given.groups and given.groups.names)
    text += _groups(given.groups, words) + _names("class", "CLASSES", given.source.classes, words) + words["kinds"]
    text += _names("action", "ACTIONS", given.source.utility.actions, words)
    text += _lookup("highest", "The largest limit of a group.", _highest(given.betas), words)
    if by_outcome:
        text += _lookup("limit", "The limit of outcome k.", given.betas, words)
    text += words["sharpener"]
    for real in words["cores"].split():
        middle = ["by_outcome"] * by_outcome + ["by_action"] * (own is not None)
        text += _fill(words | {"real": real}, "action", *middle, "end")
    return text + _entries("decide", words) + words["image"] + _fill({}, "bottom")


def _share(decider: Decider) -> str:
    """Return the guaranteed probability of a decider's certificates, for each superclass if levels differ."""
    if decider.levels is None:
        among = " among objects with the same action" if decider.per == "action" else ""
        return f"{100 * (1 - decider.alpha):g}% of the time{among}"
    each = (f"{100 * (1 - level):g}% of the time if the class is a {name}" for name, level in decider.levels.items())
    return _comment(", ".join(each))


def _kind_words(source: ConformalPredictor | Decider, words: dict[str, str]) -> dict[str, str]:
    """Return the text about superclasses ("kinds") of the classes; empty strings without superclasses."""
    kinds = getattr(source._rule, "kinds", None)
    if kinds is not None:
        of_classes = kinds.per_class()
    elif isinstance(source, Decider) and source.utility.kinds is not None:
        of_classes = list(source.utility.kind_of(source.classes))
    else:
        return {"kind_functions": "", "kind_levels": "", "kinds": ""}
    names = list(dict.fromkeys(of_classes))
    levels = source.levels or {}
    macros = zip(identifiers(levels), levels.values(), strict=True)
    size = f"#define {words['X']}_KINDS {len(names)}\n"
    filled = words | {"kinds": ", ".join(str(names.index(name)) for name in of_classes)}
    text = _constants(words, KIND=names) + _names("kind", "KINDS", names, words) + _fill(filled, "kind")
    return {
        "kind_functions": _fill(words, "kind_functions"),
        "kind_levels": "".join(f"#define {words['X']}_ALPHA_{name} {level!r}\n" for name, level in macros) + size,
        "kinds": text,
    }


def _constants(words: dict[str, str], **names: Iterable[Any] | None) -> str:
    """Return C macros for the numbers of classes, actions, groups or superclasses ("kinds"), by name."""
    text = ""
    for kind, given in names.items():
        listed = () if given is None else identifiers(given)
        lines = [f"#define {words['X']}_{kind}_{name} {number}\n" for number, name in enumerate(listed)]
        filled = words | {"what": NUMBERED[kind], "constants": "".join(lines)}
        text += _fill(filled, "constants") if lines else ""
    return text


def identifiers(names: Iterable[Any]) -> list[str]:
    """Return names as different parts of C identifiers: capitals, digits and underscores.

    Accents are removed, and other characters become underscores. A name that would occur twice, or that has no letter
    or digit, gets its position in `names`, from 0, as a suffix.

    >>> identifiers(["maize", "loose silky-bent", "maïs", "крот", "Maize", 7])
    ['MAIZE', 'LOOSE_SILKY_BENT', 'MAIS', '_3', 'MAIZE_4', '7']
    """
    used: list[str] = []
    for number, name in enumerate(names):
        plain = unicodedata.normalize("NFKD", str(name)).encode("ascii", "ignore").decode().upper()
        text = re.sub("[^A-Z0-9]+", "_", plain).strip("_")
        candidate = text or f"_{number}"
        while candidate in used:
            candidate += f"_{number}"
        used.append(candidate)
    return used


def _group_words(groups: ExportableGroups | None, words: dict[str, str]) -> dict[str, str]:
    """Return the text for the placeholders about groups in the template; empty strings without groups."""
    if groups is None:
        parts = ("group_parameter", "group_argument", "known_group", "group_functions", "group_meaning")
        return {"group": "0", **dict.fromkeys(parts, "")}
    last = f"{words['X']}_GROUPS"
    if groups.other is None:
        found = {"unknown": "-1 for a group unseen at calibration", "other": "-1", "unseen": "return -1"}
    else:
        shared = "all other groups have one number and the marginal limits"
        found = {"unknown": shared, "other": last, "unseen": f"group = {last}"}
    found |= {
        "group": "group",
        "group_parameter": " int group,",
        "group_argument": " group,",
        "n_groups": str(len(groups.names)),
    }
    return found | {name: _fill(words | found, name) for name in ("known_group", "group_functions", "group_meaning")}


def _groups(groups: ExportableGroups | None, words: dict[str, str]) -> str:
    """Return the C functions that convert the number of a group to its name, and a name to the number."""
    if groups is None:
        return ""
    names = _names("group", "GROUPS", groups.names, words)
    return _fill(words, "n_groups") + names + _fill(words, "group")


def _names(kind: str, size: str, names: Any, words: dict[str, str]) -> str:
    """Return the C function that converts a number to a name; `kind` is "class", "action" or "group"."""
    text = ",\n".join(f'        "{_escaped(str(name))}"' for name in names)
    return _fill(words | {"what": kind, "size": size, "names": text}, "names")


def _lookup(name: str, what: str, values: NDArray[Any], words: dict[str, str]) -> str:
    """Return the C function that looks up the entry of a table for a group and a class or outcome k.

    `values` has a row per group, and a column per class or outcome (classes with equal utilities), or one
    column for all.
    """
    rows, width = values.shape
    place = " + ".join([f"group * {width}"] * (rows > 1) + ["k"] * (width > 1)) or "0"
    kind = "double" if values.dtype.kind == "f" else "int"
    filled = {"name": name, "what": what, "kind": kind, "n": values.size, "values": _rows(values), "place": place}
    return _fill(words | filled, "lookup")


def _highest(limits: Vector) -> Vector:
    """Return the largest threshold of each group, or for a decider the largest β in v + β·m, shape (groups, 1)."""
    highest: Vector = limits.max(axis=1, keepdims=True)
    return highest


def _listed(values: NDArray[Any], separator: str = ", ") -> str:
    numbers = values.ravel().tolist()
    spelled = _single if values.dtype == np.float32 else _number if values.dtype.kind == "f" else str
    return separator.join(map(spelled, numbers))


def _rows(values: NDArray[Any]) -> str:
    """Return numbers as C literals separated by commas, four per line."""
    flat = values.ravel()
    return ",\n        ".join(_listed(flat[i : i + 4]) for i in range(0, len(flat), 4))


def _number(value: float) -> str:
    """Return a number as hexadecimal C literal, which is exact; infinity becomes ENDLESS."""
    text = min(value, ENDLESS).hex()
    return f"({text})" if value < 0 else text


def _single(value: float) -> str:
    """Return a float32 number as hexadecimal C literal of type float, which is exact."""
    mantissa, exponent = value.hex().split("p")
    text = f"{mantissa.rstrip('0').rstrip('.')}p{exponent}F"
    return f"({text})" if value < 0 else text


def _card_comment(predictor: ConformalPredictor | Decider) -> str:
    """Return the card of a predictor or decider, with guarantee and provenance, as a C comment."""
    page = text_page({"Guarantee and provenance": predictor.card()})
    lines = (f" * {line}".rstrip() for line in _uncommented(page).splitlines())
    return "/*\n" + "\n".join(lines) + "\n */\n"


def _uncommented(text: str) -> str:
    """Put a space into /* and */, which would begin or end a C comment."""
    return text.replace("*/", "* /").replace("/*", "/ *")


def _comment(text: str) -> str:
    """Wrap text for a C comment."""
    return textwrap.fill(_uncommented(text), 96, subsequent_indent=" * ")


def _escaped(text: str) -> str:
    return "".join(chr(byte) if byte in PLAIN else f"\\{byte:03o}" for byte in text.encode("utf-8", "replace"))
