"""Limits by group and by class, or by outcome, in the C header, and the groups by name."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.exportable import KnownGroups
from pippin._runtime.arrays import Vector
from pippin.export.c_source import NAMES, c_number, c_text

ENDLESS = np.finfo(np.float64).max  # in place of infinity, which C writes only with an include

WITHIN = """\
#define {X}_ENDLESS {endless}

/* Whether a score keeps to a limit; the limit {X}_ENDLESS stands for infinity. */
static inline int {x}_within(double score, double limit)
{{
    return score <= limit || (limit == {X}_ENDLESS && score == score);
}}

"""

LOOKUP = """\
/* {what} */
static inline {kind} {x}_{name}(int group, int k)
{{
    static const {kind} every[{n}] = {{
        {values}
    }};
    (void)group;
    (void)k;
    return every[{place}];
}}

"""

GROUP = """\
/* The number of the group of that name; {unknown}. */
{X}_API int {x}_group(const char *name)
{{
    int group, i;
    for (group = 0; group < {X}_GROUPS; group++) {{
        const char *known = {x}_group_name(group);
        for (i = 0; name[i] && name[i] == known[i]; i++)
            continue;
        if (name[i] == known[i])
            return group;
    }}
    return {other};
}}

"""

KNOWN = """\
    if (group < 0 || group >= {X}_GROUPS)
        {unseen};
"""

TOLD = """\
 *   int {x}_group(const char *name);
 *   const char *{x}_group_name(int group);
"""

TOLD_GROUP = """\
 * `group` is the number of the object's group, by name what {x}_group says; {unknown}.
"""


def groups_text(groups: KnownGroups | None, prefix: str) -> str:
    """The groups by number and by name; nothing where there are none."""
    if groups is None:
        return ""
    words = group_words(groups, prefix)
    text = f"#define {words['X']}_GROUPS {len(groups.names)}\n\n"
    text += NAMES.format(**words, what="group", size="GROUPS", names=c_text(groups.names))
    return text + GROUP.format(**words)


def group_words(groups: KnownGroups | None, prefix: str) -> dict[str, str]:
    """What the templates say where objects have groups, and where they have none."""
    words = {"x": prefix, "X": prefix.upper()}
    if groups is None:
        return {**words, "group": "0", "of_group": "", "known": "", "told_groups": "", "told_group": ""}
    seen = groups.other is None
    words["unknown"] = "-1 for one that calibration has not seen" if seen else "others share the limits of all together"
    words["other"] = "-1" if seen else f"{words['X']}_GROUPS"
    words["unseen"] = "return -1" if seen else f"group = {words['X']}_GROUPS"
    told = {"told_groups": TOLD.format(**words), "told_group": TOLD_GROUP.format(**words)}
    return {**words, "group": "group", "of_group": " int group,", "known": KNOWN.format(**words), **told}


def lookup(prefix: str, name: str, what: str, values: NDArray[Any]) -> str:
    """A function (group, k) that looks into a table (G, 1) or (G, width)."""
    kind = "double" if values.dtype.kind == "f" else "int"
    numbers = [c_limit(value) if kind == "double" else str(value) for value in values.ravel().tolist()]
    lines = (", ".join(numbers[i : i + 4]) for i in range(0, len(numbers), 4))
    rows, width = values.shape
    place = " + ".join([f"group * {width}"] * (rows > 1) + ["k"] * (width > 1)) or "0"
    return LOOKUP.format(
        x=prefix, name=name, what=what, kind=kind, n=values.size, values=",\n        ".join(lines), place=place
    )


def within_text(prefix: str) -> str:
    return WITHIN.format(x=prefix, X=prefix.upper(), endless=c_number(ENDLESS))


def highest(limits: Vector) -> Vector:
    """The largest limit of each group, (G, 1)."""
    found: Vector = limits.max(axis=1, keepdims=True)
    return found


def c_limit(value: float) -> str:
    return c_number(min(value, float(ENDLESS)))


def listed(values: NDArray[Any]) -> str:
    return ", ".join(map(str, values.ravel().tolist()))
