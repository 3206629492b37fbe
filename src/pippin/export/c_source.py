"""The C header's text, with places for `c_header.py` and `c_decider.py` to fill in."""

import textwrap

from pippin._runtime.arrays import Classes

PLAIN = {ord(c) for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 _-+.,:;()[]/&'*=<>#@"}


def c_number(value: float) -> str:
    """A literal with exactly these bits."""
    return f"({value.hex()})" if value < 0 else value.hex()


def c_text(names: Classes) -> str:
    """Names as a list of C strings, in UTF-8."""
    return ",\n".join(f'        "{_escaped(str(name))}"' for name in names)


def c_comment(text: str) -> str:
    """Text that ends no comment and begins none, in lines of a comment."""
    whole = text.replace("*/", "* /").replace("/*", "/ *")
    return textwrap.fill(whole, 96, subsequent_indent=" * ")


def _escaped(text: str) -> str:
    return "".join(chr(byte) if byte in PLAIN else f"\\{byte:03o}" for byte in text.encode("utf-8", "replace"))


TOP = """\
/* Prediction sets with the score {score}, alpha {alpha}, from {n} calibration examples.
 *
 *   int {x}_predict(const double *probs, double u, int *classes);
 *   int {x}_predict_float(const float *probs, double u, int *classes);
 *   const char *{x}_class_name(int k);
 *
 * `probs` are the {k} probabilities of one object, `u` {u}.
 * `classes` has room for {k} numbers. The size of the set is returned, and its classes, most
 * probable first, are written to `classes`; -1 is returned if `probs` is no distribution: an
 * entry negative or NaN, or a sum farther than {tolerance} from 1. Needs C99 and IEEE arithmetic
 * in double; sets equal those of pippin to the last bit if the compiler does not fuse multiply
 * and add: GCC and Clang are told below, others by a flag such as -ffp-contract=off.
 * Functions are static; define {X}_API as nothing to compile this file as a library.
 */
"""

GUARDS = """\
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

"""

NUMBERS = """\
#define {X}_CLASSES {k}
#define {X}_RANDOMIZED {randomized}
#define {X}_ALPHA {alpha}
#define {X}_WITHIN(score) {within}

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

LINEAR = """\
/* The score at rank r (from 0) of a class with probability p; `mass` is the weighted sum above it. */
static inline double {x}_score(int r, double p, double mass, double u)
{{
{columns}
    const double weight = {own} + u * {own_u};
    (void)r;
    (void)u;
    return ({constant} + weight * p) + mass + ({penalty} + u * {penalty_u});
}}

static inline double {x}_above(int r, double p)
{{
{above_column}
    (void)r;
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

PRICE = """\
/* SOCOP's tau, reached by walking m = 2, 3, ... as long as the ratio falls. */
static inline double {x}_price_{real}(const {real} *probs, double last, int after)
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

# A row that is no distribution is refused, as in Python; the sum is taken in the order of the classes.
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
{X}_API int {x}_predict{suffix}(const {real} *probs, double u, int *classes)
{{
    double sum = 0.0, mass = 0.0, last = 2.0;
    int k, size, after = -1;
"""
    + CHECKED
    + """\
    for (size = 0; size < {X}_CLASSES; size++) {{
        const int best = {x}_next_{real}(probs, last, after);
        const double p = (double)probs[best];
{before}
        if (!{X}_WITHIN({x}_score(size, p, mass, u)))
            break;
        classes[size] = best;
{behind}
        last = p;
        after = best;
    }}
    return size;
}}

"""
)

SEVERAL_TOP = """\
/* {told}
 *
 *   int {x}_predict(const double *probs, double u,{of_group} int *classes);
 *   int {x}_predict_float(const float *probs, double u,{of_group} int *classes);
 *   const char *{x}_class_name(int k);
{told_groups} *
 * `probs` are the {k} probabilities of one object, `u` {u}.
{told_group} * `classes` has room for {k} numbers. The size of the set is returned, and its classes, most
 * probable first, are written to `classes`; -1 is returned if `probs` is no distribution: an
 * entry negative or NaN, or a sum farther than {tolerance} from 1. Each class has a threshold of its
 * own, or one for its group, so a set may pass over a class. Needs C99 and IEEE arithmetic in
 * double; sets equal those of pippin to the last bit if the compiler does not fuse multiply and
 * add: GCC and Clang are told below, others by a flag such as -ffp-contract=off.
 * Functions are static; define {X}_API as nothing to compile this file as a library.
 */
"""

SEVERAL_NUMBERS = """\
#define {X}_CLASSES {k}
#define {X}_RANDOMIZED {randomized}
#define {X}_ALPHA {alpha}

"""

SEVERAL = (
    """\
{X}_API int {x}_predict{suffix}(const {real} *probs, double u,{of_group} int *classes)
{{
    double sum = 0.0, mass = 0.0, last = 2.0;
    int k, rank, size = 0, after = -1;
{known}\
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

BOTTOM = """\
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

#endif
"""
