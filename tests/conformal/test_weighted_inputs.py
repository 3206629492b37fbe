"""Inputs of weighted predictors: one object, frames, logits, files, command line, and invalid arguments."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pippin
from support.predictor_files import check_wrong_parts, reloaded
from support.rows import KINDS
from support.scores import EVERY_SCORE
from support.weighted_rows import some

FULL = "ignore:.*sets hold all classes"


@pytest.mark.filterwarnings(FULL)
@pytest.mark.parametrize("score", EVERY_SCORE, ids=str)
def test_one_object_and_one_class(score):
    """`predict_one` returns the row's set; `point_predictions` the largest p-value, ties by probability."""
    for seed, kind in enumerate(KINDS):
        probs, labels, weights = some(40, seed=seed, kind=kind)
        predictor = pippin.calibrate(probs[:30], labels[:30], score, 0.3, weights=weights[:30], seed=1)
        new, own = probs[30:], weights[30:]
        p, forced = predictor.p_values(new, weights=own, seed=2), predictor.point_predictions(new, weights=own, seed=2)
        order = np.argsort(-new, axis=1, kind="stable")
        best = [max(row.tolist(), key=lambda k, i=i: p[i, k]) for i, row in enumerate(order)]
        assert forced.labels.tolist() == best
        assert np.array_equal(forced.credibility, p.max(axis=1))
        assert np.array_equal(forced.confidence, 1 - np.sort(p, axis=1)[:, -2])
        for i in range(10):
            for nonempty in (False, True):
                alone = predictor.predict(new[i : i + 1], weights=own[i : i + 1], seed=3, nonempty=nonempty)
                found = predictor.predict_one(new[i], weight=own[i], seed=3, nonempty=nonempty)
                assert found.tolist() == alone.members.tolist()


def test_the_entries_of_one_row_go_by_name():
    """A row of a data frame has the classes as its index; a large weight warns at the caller's line."""
    probs, labels, weights = some(50)
    names = ["crop", "rye", "soil", "weed"]
    frame = pd.DataFrame(probs, columns=names)
    predictor = pippin.calibrate(frame, np.array(names)[labels], "ip", 0.2, weights=weights)
    wanted = predictor.predict_one(probs[3].tolist(), weight=1).tolist()
    for row in (frame.iloc[3], frame[names[::-1]].iloc[3]):
        assert predictor.predict_one(row, weight=1).tolist() == wanted
    assert predictor.point_predictions(frame, weights=weights).labels[:3].tolist() == [
        names[k] for k in probs[:3].argmax(axis=1)
    ]
    with pytest.raises(ValueError, match=r"Expected a column for each class .*, got none called 'rye' but 'corn'"):
        predictor.predict_one(frame.rename(columns={"rye": "corn"}).iloc[3], weight=1)
    with pytest.raises(ValueError, match="Row 0 has the weight -1"):
        predictor.predict_one(probs[3], weight=-1)
    with pytest.warns(UserWarning, match="1 of 1 objects weigh more than a share of 0.2") as caught:
        assert len(predictor.predict_one(probs[3], weight=1e6)) == 4
    assert caught[0].filename == __file__


def test_frames_logits_seeds_and_inputs():
    """Inputs are validated like those of `calibrate`, and not modified."""
    probs, labels, weights = some(50)
    before = [a.copy() for a in (probs, labels, weights)]
    names = ["crop", "rye", "soil", "weed"]
    frame = pd.DataFrame(probs, columns=names, index=np.arange(50) + 7)
    predictor = pippin.calibrate(frame, np.array(names)[labels], "aps", weights=pd.Series(weights), seed=3)
    sets = predictor.predict(frame, weights=pd.Series(weights), seed=4)
    assert list(sets.index) == list(range(7, 57))
    assert predictor.classes == tuple(names)
    logits = pippin.calibrate(np.log(probs), labels, "ip", weights=weights, from_logits=True)
    assert np.allclose(
        logits.calibration_scores, pippin.calibrate(probs, labels, "ip", weights=weights).calibration_scores
    )
    assert logits.predict(np.log(probs), weights=weights, from_logits=True).sizes.sum() > 0
    assert predictor.predict(frame, weights=weights, seed=4).labels() == sets.labels()
    assert predictor.predict(frame, weights=weights, seed=5).labels() != sets.labels()
    assert all(np.array_equal(a, b) for a, b in zip(before, (probs, labels, weights), strict=True))
    assert repr(predictor).startswith("ConformalPredictor(aps, alpha=0.1, 50 calibration examples worth ")
    with pytest.raises(ValueError, match="read-only"):
        predictor.calibration_scores[0] = 0


def test_p_values_on_the_command_line(call, tmp_path, monkeypatch):
    """`pippin predict --weights --p-values` equals `point_predictions` and `p_values`."""
    monkeypatch.chdir(tmp_path)
    probs, labels, weights = some(50)
    predictor = pippin.calibrate(probs, labels, "ip", 0.2, weights=weights)
    predictor.save("p.json")
    np.savez("data.npz", probs=probs)
    np.save("w.npy", weights)
    code, _, err = call("predict p.json data.npz --weights w.npy --out sets.csv --p-values p.csv")
    assert (code, err) == (0, "")
    table, forced = pd.read_csv("p.csv"), predictor.point_predictions(probs, weights=weights)
    assert table["label"].tolist() == forced.labels.tolist()
    assert np.array_equal(table["confidence"], forced.confidence)
    assert np.array_equal(table.iloc[:, 4:], predictor.p_values(probs, weights=weights))


def test_a_saved_predictor_is_restored(tmp_path):
    """All numbers are restored to the last bit, inconsistent entries raise, and caches are not pickled."""
    probs, labels, weights = some(50)
    probs[3] = np.eye(4)[(labels[3] + 1) % 4]  # an infinite score
    predictor = pippin.calibrate(probs, labels, "socop(mu=2)", 0.2, weights=weights, classes=["a", "b", "c", "d"])
    content, back = reloaded(predictor, "weighted", tmp_path)
    for same in back:
        assert np.array_equal(same.p_values(probs, weights=weights), predictor.p_values(probs, weights=weights))
    reversed_scores = content["calibration_scores"][::-1]
    check_wrong_parts("weighted", content, calibration_scores=reversed_scores, weights=[0.0] * 50)


def test_ratios_from_a_classifier():
    """The ratio p/(1 − p) · n_source/n_target equals the ratio of the densities if p is correct."""
    x = np.linspace(-2, 2, 9)
    source, target = stats.norm(0, 1).pdf(x), stats.norm(1, 1).pdf(x)
    p = 50 * target / (50 * target + 200 * source)
    assert np.allclose(pippin.shift.likelihood_ratios(p, 200, 50), target / source)


P, Y, W = some(20)
REFUSED = {
    "nan": (
        lambda: pippin.calibrate(P, Y, weights=np.where(np.arange(20) == 3, np.nan, W)),
        "Row 3 has the weight nan",
    ),
    "inf": (
        lambda: pippin.calibrate(P, Y, weights=np.where(np.arange(20) == 4, np.inf, W)),
        "Row 4 has the weight inf",
    ),
    "negative": (lambda: pippin.calibrate(P, Y, weights=-W), "Row 0 has the weight -.*, expected a finite number"),
    "zeros": (lambda: pippin.calibrate(P, Y, weights=0 * W), "Expected some positive weight"),
    "few": (lambda: pippin.calibrate(P, Y, weights=W[:19]), r"Expected 20 weights, one per row, got shape \(19,\)"),
    "matrix": (lambda: pippin.calibrate(P, Y, weights=P), r"Expected 20 weights, one per row, got shape \(20, 4\)"),
    "text": (lambda: pippin.calibrate(P, Y, weights=["a"] * 20), "numbers"),
    "test nan": (lambda: pippin.calibrate(P, Y, weights=W).predict(P, weights=W * np.nan), "Row 0 has the weight nan"),
    "test few": (lambda: pippin.calibrate(P, Y, weights=W).predict(P, weights=W[:3]), "Expected 20 weights"),
    "row": (lambda: pippin.calibrate(P, Y, weights=W).predict(2 * P, weights=W), "Row 0 sums to 2"),
    "columns": (lambda: pippin.calibrate(P, Y, weights=W).predict(P[:, :3], weights=W), "Expected 4 columns"),
    "level": (lambda: pippin.calibrate(P, Y, weights=W, alpha=1), "Expected alpha"),
    "certain": (
        lambda: pippin.shift.likelihood_ratios([0.5, 1.0], 1, 1),
        "Row 1 comes from the target with probability 1",
    ),
    "percent": (lambda: pippin.shift.likelihood_ratios([50], 1, 1), "Row 0 has 50.0, expected a probability"),
    "nan p": (lambda: pippin.shift.likelihood_ratios([np.nan], 1, 1), "Row 0 has nan"),
    "two columns": (lambda: pippin.shift.likelihood_ratios(P, 1, 1), r"got shape \(20, 4\): pass the target's column"),
    "no rows": (lambda: pippin.shift.likelihood_ratios([0.5], 0, 1), "Expected rows of both samples"),
    "no number": (
        lambda: pippin.shift.likelihood_ratios([0.5], None, 1),
        "got n_source=None and n_target=1: pass their numbers",
    ),
    "words": (
        lambda: pippin.shift.likelihood_ratios([0.5], 1, "many"),
        "got n_source=1 and n_target='many': pass their numbers",
    ),
    "nan rows": (
        lambda: pippin.shift.likelihood_ratios([0.5], np.nan, 1),
        "got n_source=nan and n_target=1: pass their numbers",
    ),
    "no objects": (
        lambda: pippin.shift.likelihood_ratios([], 1, 1),
        r"Expected one probability per .* shape \(0,\)",
    ),
    "one object": (
        lambda: pippin.shift.likelihood_ratios(0.5, 1, 1),
        r"Expected one probability per object, got shape \(\)",
    ),
    "no p": (lambda: pippin.shift.likelihood_ratios(None, 1, 1), "Expected one probability per object"),
    "ragged p": (lambda: pippin.shift.likelihood_ratios([[0.5], [0.1, 0.2]], 1, 1), "numbers"),
}


@pytest.mark.parametrize(("call", "sentence"), REFUSED.values(), ids=REFUSED)
def test_invalid_arguments_raise(call, sentence):
    """Each error is one sentence."""
    with pytest.raises(ValueError, match=sentence):
        call()
