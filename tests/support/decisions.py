"""Utilities for the embedded example, and an exact but slow implementation of risk-averse decisions."""

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
    """Return the embedded example and a utility for it."""
    data = pippin.load_example()
    kinds = {name: "crop" if name in CROPS else "weed" for name in data.classes}
    return data, pippin.decisions.Utility(WORTH, kinds=kinds)


def utility_of(values):
    """Return a utility of unnamed classes, without its warnings."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pippin.decisions.Utility(values, actions=[f"a{i}" for i in range(len(values))])


def drawn(rng, n, n_classes, honest):
    """Draw probabilities and labels from them; dishonest probabilities are overconfident."""
    logits = 1.5 * rng.normal(size=(n, n_classes))
    true = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (rng.random(n)[:, None] > true.cumsum(axis=1)).sum(axis=1).clip(max=n_classes - 1)
    shown = logits * (1 if honest else 3)
    probs = np.exp(shown - shown.max(axis=1, keepdims=True))
    return probs / probs.sum(axis=1, keepdims=True), labels


def slow_lines(row, utilities):
    """Return every line v + β·m by decreasing v, in exact arithmetic: (v, m, the first action with mass m)."""
    p, table = [Fraction(float(x)) for x in row], [[Fraction(float(x)) for x in u] for u in utilities]
    lines = []
    for v in sorted({x for u in table for x in u}, reverse=True):
        masses = [sum((q for q, x in zip(p, u, strict=True) if x >= v), Fraction(0)) for u in table]
        m = max(masses)
        lines.append((v, m, masses.index(m)))
    return lines


def slow_choice(lines, beta):
    """Return action and v of the line with the largest v + β·m; of equal ones, that with the larger m, then v."""
    beta = Fraction(beta)
    v, _, action = max(lines, key=lambda line: (line[0] + beta * line[1], line[1]))
    return action, v


def slow_score(row, label, utilities):
    """Return the smallest β beyond which every certificate holds for the label, from all crossings of lines."""
    lines, own = slow_lines(row, utilities), [Fraction(float(u[label])) for u in utilities]
    crossings = {Fraction(0)}
    for i, (v, m, _) in enumerate(lines):
        crossings |= {(v - w) / (n - m) for w, n, _ in lines[i + 1 :] if n > m}
    places = sorted(crossings)
    inside = [(a + b) / 2 for a, b in zip(places, [*places[1:], places[-1] + 2], strict=True)]
    score = None
    for place, beta in zip(reversed(places), reversed(inside), strict=True):
        action, v = slow_choice(lines, beta)
        if own[action] < v:
            break
        score = place
    return np.inf if score is None else float(score)
