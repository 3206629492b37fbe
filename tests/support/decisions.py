"""A field of crops and weeds, utilities to decide about it, and a slow transcription of the calibration."""

from fractions import Fraction

import numpy as np

import pippin

CROPS = ("maize", "common_wheat", "sugar_beet")
WORTH = {
    "spray": {"weed": 1, "crop": -2},
    "leave": {"weed": -1, "crop": 1},
    "ask": {"weed": 0.3, "crop": 0.3},
}


def field():
    """The embedded example and its utility."""
    data = pippin.load_example()
    kinds = {name: "crop" if name in CROPS else "weed" for name in data.classes}
    return data, pippin.Utility(WORTH, kinds=kinds)


def utility_of(values):
    """A utility of numbered classes, whatever there is to tell of it."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pippin.Utility(values, actions=[f"a{i}" for i in range(len(values))])


def slow_choice(row, utilities, beta):
    """(action, v) by the definition, in exact arithmetic: v_l + β·m_l largest, of equal ones the larger m."""
    p = [Fraction(float(x)) for x in row]
    best = None
    for v in sorted({Fraction(float(x)) for x in utilities.ravel()}, reverse=True):
        masses = [sum((p[y] for y in range(len(p)) if Fraction(float(u[y])) >= v), Fraction(0)) for u in utilities]
        m = max(masses)
        found = (v + beta * m, m), masses.index(m), v
        if best is None or found[0] > best[0]:
            best = found
    return best[1], best[2]


def slow_score(row, label, utilities):
    """The smallest β from which on the label keeps every certificate, by the definition between all crossings."""
    p = [Fraction(float(x)) for x in row]
    levels = sorted({Fraction(float(x)) for x in utilities.ravel()}, reverse=True)
    lines = [
        (v, max(sum((p[y] for y in range(len(p)) if Fraction(float(u[y])) >= v), Fraction(0)) for u in utilities))
        for v in levels
    ]
    crossings = {Fraction(0)}
    for i, (v, m) in enumerate(lines):
        crossings |= {(v - w) / (n - m) for w, n in lines[i + 1 :] if n > m}
    places = sorted(crossings)
    inside = [(a + b) / 2 for a, b in zip(places, [*places[1:], places[-1] + 2], strict=True)]
    score = None
    for place, beta in zip(reversed(places), reversed(inside), strict=True):
        action, v = slow_choice(row, utilities, beta)
        if Fraction(float(utilities[action, label])) < v:
            break
        score = place
    return np.inf if score is None else float(score)
