"""DtACI: equal to the algorithm of the paper, and coverage restored after a change."""

import math

import numpy as np

import pippin
from pippin._online.update_rules import GAMMAS, SPAN

DATA = pippin.load_example()
PREDICTOR = pippin.calibrate(DATA.probs[:1000], DATA.labels[:1000], "pip", classes=DATA.classes)
NEW, TRUE = np.ascontiguousarray(DATA.probs[1000:]), DATA.labels[1000:].tolist()


def reference_levels(scores, new_scores, alpha):
    """Return the level at every step by a plain implementation of Gibbs and Candès (2022)."""
    levels, weights, losses = [alpha] * len(GAMMAS), [1 / len(GAMMAS)] * len(GAMMAS), SPAN * (alpha * (1 - alpha)) ** 2
    for s in new_scores:
        yield sum(w * a for w, a in zip(weights, levels, strict=True)) / sum(weights)
        best = (1 + sum(one >= s for one in scores)) / (len(scores) + 1)
        lost = [alpha * (best - a) - min(0, best - a) for a in levels]
        eta = math.sqrt((math.log(len(GAMMAS) * SPAN) + 2) / losses)
        losses = (1 - 1 / SPAN) * losses + sum(w * x * x for w, x in zip(weights, lost, strict=True))
        raised = [w * math.exp(-eta * x) for w, x in zip(weights, lost, strict=True)]
        weights = [(1 - 1 / (2 * SPAN)) * w / sum(raised) + 1 / (2 * SPAN * len(GAMMAS)) for w in raised]
        levels = [a + g * (alpha - (a >= best and a > 0)) for a, g in zip(levels, GAMMAS, strict=True)]


def test_equals_the_algorithm_of_the_paper():
    stream = pippin.online.Stream(PREDICTOR, "dtaci")
    new_scores = pippin.scores.score(NEW[:150], TRUE[:150], "pip")
    for level, row, label in zip(
        reference_levels(PREDICTOR.calibration_scores.tolist(), new_scores, 0.1), NEW, TRUE, strict=False
    ):
        rule = stream._rules[0]
        assert abs(rule._weights @ rule._levels - level) < 1e-12
        stream.learn(stream.predict_one(row), label)


def test_coverage_is_restored_after_a_change():
    """The fixed threshold loses coverage; before the change both keep it."""
    sure = NEW.astype(float) ** 4
    sure /= sure.sum(axis=1, keepdims=True)
    inside = {update: [] for update in ("none", "dtaci")}
    for update, covered in inside.items():
        stream = pippin.online.Stream(PREDICTOR, update)
        for row, label in zip(np.concatenate([NEW[:1000], sure[1000:3000]]), TRUE, strict=False):
            ticket = stream.predict_one(row)
            covered.append(label in ticket.members)
            stream.learn(ticket, label)
    assert abs(np.mean(inside["dtaci"][:1000]) - 0.9) < 0.02
    assert np.mean(inside["none"][1500:]) < 0.86
    assert abs(np.mean(inside["dtaci"][1500:]) - 0.9) < 0.02
