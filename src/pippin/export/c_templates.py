"""Templates of the C99 header, filled in by `c_header.py`."""

SETS_TOP = """\
/* {about}
 *
 *   int {x}_predict(const double *probs, double u,{group_parameter} int *classes);
 *   int {x}_predict_float(const float *probs, double u,{group_parameter} int *classes);
 *   const char *{x}_class_name(int k);
{group_functions} *
 * `probs` are the {k} probabilities of one object, `u` {u}.
{group_meaning} * `classes` has space for {k} numbers. The size of the set is returned, and its classes, most
 * probable first, are written to `classes`; -1 is returned if `probs` is no distribution: an
 * entry negative or NaN, or a sum farther than {tolerance} from 1. Where classes have thresholds
 * of their own, a set may pass over a class.
"""

DECISIONS_TOP = """\
/* Actions with certificates: {about}
 *
 *   int {x}_decide(const double *probs,{group_parameter} double *certificate);
 *   int {x}_decide_float(const float *probs,{group_parameter} double *certificate);
 *   const char *{x}_action_name(int a);
 *   const char *{x}_class_name(int k);
{group_functions} *
{group_meaning} * `probs` are the {k} probabilities of one object. The number of the action is returned, and the
 * utility that it has at least, {share} of the time, is written to `certificate`, unless that is NULL;
 * -1 is returned if `probs` is no distribution: an entry negative or NaN, or a sum farther than
 * {tolerance} from 1.
"""

# Needed by every header: requirements, guards, the number of classes, and comparison with a limit.
GUARDS = """\
 *
 * Needs C99 and IEEE arithmetic in double. Results equal those of pippin to the last bit if the
 * compiler does not fuse multiply and add: pragmas below switch that off in GCC and Clang, other
 * compilers need a flag such as -ffp-contract=off. Functions are static; define {X}_API as nothing
 * to compile this file as a library.
 */
#ifndef {X}_HEAD_H
#define {X}_HEAD_H

#if defined(__FAST_MATH__)
#error "{x}: compile without -ffast-math, which changes the sets"
#endif
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ == 2
#error "{x}: compile with -msse2 -mfpmath=sse, so that doubles are not computed in 80 bits"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#endif

#ifndef {X}_API
#define {X}_API static inline
#endif

#define {X}_CLASSES {k}
#define {X}_ALPHA {alpha}
#define {X}_ENDLESS {endless}

/* 1 if a score keeps to a limit; the limit {X}_ENDLESS stands for infinity. */
static inline int {x}_within(double score, double limit)
{{
    return score <= limit || (limit == {X}_ENDLESS && score == score);
}}

"""

NAMES = """\
{X}_API const char *{x}_{what}_name(int k)
{{
    static const char *const names[{X}_{size}] = {{
{names}
    }};
    return k >= 0 && k < {X}_{size} ? names[k] : "";
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

GROUP_FUNCTIONS = """\
 *   int {x}_group(const char *name);
 *   const char *{x}_group_name(int group);
"""

GROUP_MEANING = """\
 * `group` is the number of the object's group, which {x}_group returns for its name; {unknown}.
"""

GROUP = """\
#define {X}_GROUPS {n_groups}

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

KNOWN_GROUP = """\
    if (group < 0 || group >= {X}_GROUPS)
        {unseen};
"""

LINEAR = """\
/* The score at rank r (from 0) of a class with probability p; `mass` is the weighted sum above it. */
static inline double {x}_score(int r, double p, double mass, double u)
{{
{columns}    const double weight = {own}{own_u};
    (void)r;
    (void)u;
    return ({constant} + weight * p) + mass + ({penalty}{penalty_u});
}}

static inline double {x}_above(int r, double p)
{{
{above_column}    (void)r;
    return {above} * p;
}}

"""

SOCOP = """\
/* The score at rank r (from 0) of a class with probability p; `mass` is 0 at the first rank, then tau. */
static inline double {x}_score(int r, double p, double mass, double u)
{{
    const double own = 1.0 / (p + 0.0);
    (void)r;
    (void)u;
    return own > mass ? own : mass;
}}

"""

NEXT = """\
/* The class that ranks just below class `after` with probability `last`; equal ones by index. */
static inline int {x}_next_{real}(const {real} *probs, double last, int after)
{{
    double best = -1.0;
    int k, found = 0;
    for (k = 0; k < {X}_CLASSES; k++) {{
        const double p = (double)probs[k];
        if (p > best && (p < last || (p == last && k > after))) {{
            best = p;
            found = k;
        }}
    }}
    return found;
}}

"""

TAU = """\
/* SOCOP's tau, found by walking m = 2, 3, ... while the ratio falls. */
static inline double {x}_tau_{real}(const {real} *probs, double last, int after)
{{
    double mass = 0.0, tau = 0.0;
    int m;
    for (m = 1; m < {X}_CLASSES; m++) {{
        double ratio;
        after = {x}_next_{real}(probs, last, after);
        last = (double)probs[after];
        mass += last;
        ratio = ((double)m + {price}) / mass;
        if (m > 1 && !(ratio < tau))
            break;
        tau = ratio;
    }}
    return tau;
}}

"""

# The sum is taken in the order of the classes, as in Python.
CHECKED = """\
    for (k = 0; k < {X}_CLASSES; k++) {{
        if (!(probs[k] >= 0))
            return -1;
        sum += (double)probs[k];
    }}
    if (!(sum - 1.0 <= {tolerance} && 1.0 - sum <= {tolerance}))
        return -1;
"""

PREDICT = (
    """\
{X}_API int {x}_predict{suffix}(const {real} *probs, double u,{group_parameter} int *classes)
{{
    double sum = 0.0, mass = 0.0, last = 2.0;
    int k, rank, size = 0, after = -1;
{known_group}\
"""
    + CHECKED
    + """\
    for (rank = 0; rank < {X}_CLASSES; rank++) {{
        const int best = {x}_next_{real}(probs, last, after);
        const double p = (double)probs[best];
        double score;
{before}
        score = {x}_score(rank, p, mass, u);
        if (!{x}_within(score, {x}_highest({group}, 0)))
            break;
        if ({inside})
            classes[size++] = best;
{behind}
        last = p;
        after = best;
    }}
    return size;
}}

"""
)

DECIDE = (
    """\
{X}_API int {x}_decide{suffix}(const {real} *probs,{group_parameter} double *certificate)
{{
    static const int grouped[{X}_CLASSES] = {{{grouped}}};
    static const int ends[{X}_OUTCOMES + 1] = {{{ends}}};
    static const int order[{X}_ACTIONS * {X}_OUTCOMES] = {{{order}}};
    static const int action[{X}_LINES] = {{{action}}};
    static const int place[{X}_LINES] = {{{place}}};
    static const double value[{X}_LINES] = {{{value}}};
    double outcome[{X}_OUTCOMES], mass[{X}_ACTIONS * {X}_OUTCOMES], start[{X}_LINES], sum = 0.0;
    int line[{X}_LINES], a, c, j, k, t, size = 0;
    int chosen = {safe};
    double worth = {lowest};
{utility}{known_group}\
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
    if ({x}_highest({group}, 0) != {X}_ENDLESS) {{
        k = size;
        while (k > 1 && !(start[k - 1] <= {x}_highest({group}, 0)))
            k--;
        chosen = action[line[k - 1]];
        worth = value[line[k - 1]];
    }}
"""
)

UTILITY = """\
    static const double utility[{X}_ACTIONS * {X}_OUTCOMES] = {{{utility}}};
    double worst[{X}_ACTIONS] = {{0.0}};
    int some = 0;
"""

BY_OUTCOME = """\
    /* Best worst case over the outcomes that break no certificate beyond their own limit. */
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
            chosen = a;
            worth = worst[a];
        }}
"""

END = """\
    if (certificate)
        *certificate = worth;
    return chosen;
}}

"""

BOTTOM = """\
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

#endif
"""
