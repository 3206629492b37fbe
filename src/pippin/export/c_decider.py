"""A decider as one C99 header: actions and certificates, to the last bit those of Python.

The header walks the upper envelope of the lines as `_engine/numpy_engine.py` does, in its order.
"""

import math

from pippin._conformal.exportable import PortableDecisions
from pippin._validation.rows import SUM_TOLERANCE
from pippin.export.c_limits import c_limit, group_words, groups_text, highest, listed, lookup, within_text
from pippin.export.c_source import BOTTOM, CHECKED, GUARDS, NAMES, c_comment, c_number, c_text

TOP = """\
/* Actions with certificates: {told}
 *
 *   int {x}_decide(const double *probs,{of_group} double *certificate);
 *   int {x}_decide_float(const float *probs,{of_group} double *certificate);
 *   const char *{x}_action_name(int a);
 *   const char *{x}_class_name(int k);
{told_groups} *
{told_group} * `probs` are the {k} probabilities of one object. The action's number is returned, and the utility
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

ENVELOPE = (
    """\
{X}_API int {x}_decide{suffix}(const {real} *probs,{of_group} double *certificate)
{{
    static const int grouped[{X}_CLASSES] = {{{grouped}}};
    static const int ends[{X}_OUTCOMES + 1] = {{{ends}}};
    static const int order[{X}_ACTIONS * {X}_OUTCOMES] = {{{order}}};
    static const int action[{X}_LINES] = {{{action}}};
    static const int place[{X}_LINES] = {{{place}}};
    static const double value[{X}_LINES] = {{{value}}};
    double outcome[{X}_OUTCOMES], mass[{X}_ACTIONS * {X}_OUTCOMES], start[{X}_LINES], sum = 0.0;
    int line[{X}_LINES], a, c, j, k, t, size = 0;
{own}{known}\
"""
    + CHECKED
    + """\
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
"""
)

ONE = """\
    while (size > 1 && !(start[size - 1] <= {beta}))
        size--;
    if (certificate)
        *certificate = value[line[size - 1]];
    return action[line[size - 1]];
}}

"""

PICKED = """\
    int found = {safe};
    double worth = {lowest};
"""

BY_GROUP = """\
    if ({x}_highest({group}, 0) != {X}_ENDLESS) {{
        k = size;
        while (k > 1 && !(start[k - 1] <= {x}_highest({group}, 0)))
            k--;
        found = action[line[k - 1]];
        worth = value[line[k - 1]];
    }}
"""

WORST = """\
    static const double utility[{X}_ACTIONS * {X}_OUTCOMES] = {{{utility}}};
    double worst[{X}_ACTIONS] = {{0.0}};
    int some = 0;
"""

BY_OUTCOME = """\
    /* the best worst case over the outcomes that keep every certificate from their own limit on */
    for (c = 0; c < {X}_OUTCOMES; c++) {{
        const double limit = {x}_limit({group}, c);
        for (j = size; j > 0 && utility[action[line[j - 1]] * {X}_OUTCOMES + c] >= value[line[j - 1]]; j--)
            continue;
        if (!(j < size ? {x}_within(start[j], limit) : limit == {X}_ENDLESS))
            continue;
        for (a = 0; a < {X}_ACTIONS; a++)
            if (!some || utility[a * {X}_OUTCOMES + c] < worst[a])
                worst[a] = utility[a * {X}_OUTCOMES + c];
        some = 1;
    }}
    for (a = 0; some && a < {X}_ACTIONS; a++)
        if (a == 0 || worst[a] > worth) {{
            found = a;
            worth = worst[a];
        }}
"""

END = """\
    if (certificate)
        *certificate = worth;
    return found;
}}

"""

SAFE = (
    """\
{X}_API int {x}_decide{suffix}(const {real} *probs,{of_group} double *certificate)
{{
    double sum = 0.0;
    int k;
"""
    + CHECKED
    + """\
    if (certificate)
        *certificate = {lowest}; /* too few rows calibrated: the best worst case */
    return {safe};
}}

"""
)


def decider_header(given: PortableDecisions, prefix: str) -> str:
    """The text of the header of a decider."""
    policy, several = given.policy, given.betas.size > 1 or given.groups is not None
    words = {
        **group_words(given.groups, prefix),
        "told": c_comment(given.describe()),
        "share": f"{100 * (1 - given.alpha):g} %",
        "tolerance": repr(SUM_TOLERANCE),
        "alpha": repr(given.alpha),
        "k": str(len(given.classes)),
        "actions": str(len(given.actions)),
        "outcomes": str(policy.n_outcomes),
        "lines": str(len(policy.value)),
        "safe": str(policy.safe),
        "lowest": c_number(given.lowest),
        "utility": ", ".join(map(c_number, policy.table.ravel().tolist())),
        **{name: listed(getattr(policy, name)) for name in ("grouped", "ends", "order", "action", "place")},
        "value": ", ".join(map(c_number, policy.value.tolist())),
    }
    text = (TOP + GUARDS + TABLES).format(**words) + groups_text(given.groups, prefix)
    for what, size, names in (("class", "CLASSES", given.classes), ("action", "ACTIONS", given.actions)):
        text += NAMES.format(**words, what=what, size=size, names=c_text(names))
    body, words["own"] = ENVELOPE + BY_GROUP + END, PICKED.format(**words)
    if several:
        text += within_text(prefix) + lookup(prefix, "highest", "The largest limit of a group.", highest(given.betas))
        if given.betas.shape[1] > 1:
            text += lookup(prefix, "limit", "The limit of outcome k.", given.betas)
            body, words["own"] = ENVELOPE + BY_GROUP + BY_OUTCOME + END, (PICKED + WORST).format(**words)
    else:
        words["own"], words["beta"] = "", c_limit(float(given.betas[0, 0]))
        body = SAFE if math.isinf(given.betas[0, 0]) else ENVELOPE + ONE
    for real, suffix in (("double", ""), ("float", "_float")):
        text += body.format(**words, real=real, suffix=suffix)
    return text + BOTTOM
