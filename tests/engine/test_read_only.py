"""Loops are made for arrays that cannot be written where they only read; others are no reason to compile."""

import numpy as np
import pytest

import pippin
from pippin._engine.compiled import decisions, engine, narrow, priced, ranked, tiled, unranked
from pippin._inputs.rows import as_rows
from pippin._theory.policy import make_policy
from pippin._theory.scores import coefficients

LOOPS = [
    *(module.fill_places for module in (priced, ranked, unranked)),
    *(tiled.label_places, narrow._label_places_in_one_window, narrow._label_places_in_several),
    *(decisions.decision_scores, decisions.decisions),
]


@pytest.mark.parametrize("n_classes", [3, 40, 400])
def test_labels_limits_and_groups_may_be_writable(n_classes):
    pippin.warm_up()
    before = [len(loop.signatures) for loop in LOOPS]
    probs, labels, scores = np.full((40, n_classes), 1 / n_classes), np.zeros(40, dtype=np.int64), np.empty(40)
    for kind in (np.float32, np.float64):
        block = as_rows(probs.astype(kind)).block(0, 40)
        for name in ("ip", "repip", "socop"):
            c = coefficients(pippin.parse_score(name), n_classes)
            engine.label_scores(block, labels, c, np.zeros(40), scores)
        policy = make_policy(np.eye(2, n_classes))
        engine.decision_scores(probs.astype(kind), labels, policy, scores)
        engine.decisions(
            probs.astype(kind), policy, np.ones((1, 1)), labels, (np.zeros(40, dtype=np.int32), np.empty(40))
        )
    assert [len(loop.signatures) for loop in LOOPS] == before
