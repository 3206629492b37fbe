"""A decider as one C99 header: actions and certificates, to the last bit those of Python.

The header walks the upper envelope of the lines as `_engine/plain/decisions.py` does, in its order.
"""

import math
from typing import Any

from numpy.typing import NDArray

from pippin._inputs.rows import SUM_TOLERANCE
from pippin._predictors.decisions.decider import Decider
from pippin.export.c_source import BOTTOM, GUARDS, NAMES, c_number, c_text

TOP = """\
/* Actions with certificates: {told}
 *
 *   int {x}_decide(const double *probs, double *certificate);
 *   int {x}_decide_float(const float *probs, double *certificate);
 *   const char *{x}_action_name(int a);
 *   const char *{x}_class_name(int k);
 *
 * `probs` are the {k} probabilities of one object. The action's number is returned, and the utility
 * that it has at least, {share} of the time, is written to `certificate`, unless that is NULL;
 * -1 is returned if `probs` is no distribution: an entry negative or NaN, or a sum farther than
 * {tolerance} from 1. Needs C99 and IEEE arithmetic in double; actions equal those of pippin to the last
 * bit if the compiler does not fuse multiply and add: GCC and Clang are told below, others by a flag
 * such as -ffp-contract=off. Functions are static; define {X}_API as nothing to compile this file as
 * a library.
 */
"""

TABLES = """\
#define {X}_CLASSES {k}
#define {X}_ACTIONS {actions}
#define {X}_OUTCOMES {outcomes}
#define {X}_LINES {lines}
#define {X}_ALPHA {alpha}

"""

DECIDE = """\
{X}_API int {x}_decide{suffix}(const {real} *probs, double *certificate)
{{
    static const int grouped[{X}_CLASSES] = {{{grouped}}};
    static const int ends[{X}_OUTCOMES + 1] = {{{ends}}};
    static const int order[{X}_ACTIONS * {X}_OUTCOMES] = {{{order}}};
    static const int action[{X}_LINES] = {{{action}}};
    static const int place[{X}_LINES] = {{{place}}};
    static const double value[{X}_LINES] = {{{value}}};
    double outcome[{X}_OUTCOMES], mass[{X}_ACTIONS * {X}_OUTCOMES], start[{X}_LINES], sum = 0.0;
    int line[{X}_LINES], a, c, j, k, t, size = 0;
    for (k = 0; k < {X}_CLASSES; k++) {{
        if (!(probs[k] >= 0))
            return -1;
        sum += (double)probs[k];
    }}
    if (!(sum - 1.0 <= {tolerance} && 1.0 - sum <= {tolerance}))
        return -1;
    for (c = 0; c < {X}_OUTCOMES; c++) {{
        outcome[c] = 0.0;
        for (j = ends[c]; j < ends[c + 1]; j++)
            outcome[c] += (double)probs[grouped[j]];
    }}
    for (a = 0; a < {X}_ACTIONS; a++) {{
        double total = 0.0;
        for (j = 0; j < {X}_OUTCOMES; j++) {{
            total += outcome[order[j * {X}_ACTIONS + a]];
            mass[j * {X}_ACTIONS + a] = total;
        }}
    }}
    sum = 0.0;
    for (c = 0; c < {X}_OUTCOMES; c++)
        sum += outcome[c];
    for (a = 0; a < {X}_ACTIONS; a++)
        mass[({X}_OUTCOMES - 1) * {X}_ACTIONS + a] = sum;
    for (t = 0; t < {X}_LINES; t++) {{
        const double m = mass[place[t]];
        double from = 0.0;
        if (size > 0 && !(m > mass[place[line[size - 1]]]))
            continue;
        while (size > 0) {{
            const int last = line[size - 1];
            from = (value[last] - value[t]) / (m - mass[place[last]]);
            if (!(from <= start[size - 1]))
                break;
            size--;
        }}
        line[size] = t;
        start[size] = size > 0 ? from : 0.0;
        size++;
    }}
    while (size > 1 && !(start[size - 1] <= {beta}))
        size--;
    if (certificate)
        *certificate = value[line[size - 1]];
    return action[line[size - 1]];
}}

"""

SAFE = """\
{X}_API int {x}_decide{suffix}(const {real} *probs, double *certificate)
{{
    double sum = 0.0;
    int k;
    for (k = 0; k < {X}_CLASSES; k++) {{
        if (!(probs[k] >= 0))
            return -1;
        sum += (double)probs[k];
    }}
    if (!(sum - 1.0 <= {tolerance} && 1.0 - sum <= {tolerance}))
        return -1;
    if (certificate)
        *certificate = {lowest}; /* too few rows calibrated: the best worst case */
    return {safe};
}}

"""


def decider_header(decider: Decider, prefix: str) -> str:
    """The text of the header of a decider with one β."""
    policy, beta = decider.utility.policy(decider.classes), decider.beta
    words = {
        "x": prefix,
        "X": prefix.upper(),
        "told": decider.describe().replace("*/", "* /"),
        "share": f"{100 * decider.guarantee:g} %",
        "tolerance": repr(SUM_TOLERANCE),
        "alpha": repr(decider.alpha),
        "k": str(len(decider.classes)),
        "actions": str(len(decider.utility.actions)),
        "outcomes": str(policy.n_outcomes),
        "lines": str(len(policy.value)),
        "safe": str(policy.safe),
        "lowest": c_number(float(policy.table[policy.safe].min())),
        "beta": "" if math.isinf(beta) else c_number(beta),
        **{name: _listed(getattr(policy, name)) for name in ("grouped", "ends", "order", "action", "place")},
        "value": ", ".join(map(c_number, policy.value.tolist())),
    }
    text = (TOP + GUARDS + TABLES).format(**words)
    for what, size, names in (
        ("class", "CLASSES", decider.classes),
        ("action", "ACTIONS", decider.utility.actions),
    ):
        text += NAMES.format(**words, what=what, size=size, names=c_text(names))
    body = SAFE if math.isinf(beta) else DECIDE
    for real, suffix in (("double", ""), ("float", "_float")):
        text += body.format(**words, real=real, suffix=suffix)
    return text + BOTTOM


def _listed(values: NDArray[Any]) -> str:
    return ", ".join(map(str, values.ravel().tolist()))
