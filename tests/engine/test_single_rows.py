"""Sets and scores of a single row equal those of the row in a batch."""

import numpy as np
import pytest

import pippin
from pippin._engine import dispatch
from pippin._engine.numpy_engine import ranked_order
from pippin._theory.scores import coefficients
from pippin._validation.rows import find_fault
from support.engines import CLASSES, plain
from support.rows import KINDS, drawn_labels, made_rows
from support.scores import every_score


@every_score
def test_single_rows_equal_the_batch(score):
    """Sets of a single row, of any size, and scores equal those of a batch, for any number of classes."""
    for n_classes in CLASSES:
        one_set, one_score = dispatch.one_set(score, n_classes), dispatch.one_score(score, n_classes)
        rng = np.random.default_rng(n_classes)
        rows = np.concatenate([made_rows(kind, 1, n_classes, n_classes) for kind in KINDS])
        rows[rows == 0] = rng.choice([0.0, -0.0], np.count_nonzero(rows == 0))
        rows, u = rows.astype((np.float32, np.float64)[n_classes % 2]), rng.random(len(KINDS))
        every, orders = plain.class_scores(rows, coefficients(score, n_classes), u), ranked_order(rows)
        for row, scores, order, draw in zip(rows, every, orders, u, strict=True):
            for label in range(0, n_classes, max(1, n_classes // 10)):
                assert one_score(row, draw, label) == scores[label]
            median = np.quantile(scores, 0.5, method="lower")
            for threshold in (scores.min(), median, np.nextafter(median, -9), np.inf, -np.inf):
                assert np.array_equal(one_set(row, draw, threshold), order[scores[order] <= threshold])


@every_score
def test_predict_one_equals_predict(score):
    """`predict_one` equals `predict` for rows of any float type and memory layout."""
    for n_classes in (2, 12, 33, 200):
        probs = made_rows("spread", 60, n_classes, 3)
        predictor = pippin.calibrate(probs, drawn_labels(probs, np.random.default_rng(0)), score, 0.3, seed=0)
        for row in (probs[1].astype(np.float32), probs[1], np.asfortranarray(probs)[1], np.repeat(probs[1], 2)[::2]):
            sets = predictor.predict(row[None], seed=4)
            assert predictor.predict_one(row, seed=4).tolist() == sets.members.tolist()


WRONG = {"NaN": np.nan, "negative": -0.25, "slightly negative": -1e-7, "sum": 0.75, "infinite": np.inf}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_invalid_rows_are_refused(wrong, precision):
    """Every function of a single row raises the same message."""
    for score in (
        pippin.scores.ip(),
        pippin.scores.margin(),
        pippin.scores.aps(),
        pippin.scores.repip(),
        pippin.scores.socop(),
    ):
        for n_classes in (3, 33, 300):
            row = np.zeros(n_classes, precision)
            row[1], row[2] = wrong, 1 - wrong if wrong < 0 else 0.5
            valid = np.full((400, n_classes), 1 / n_classes)
            predictor = pippin.calibrate(valid, np.arange(400) % n_classes, score)
            for call, more in (
                (dispatch.one_set(score, n_classes), (0.5, 0.5)),
                (dispatch.one_score(score, n_classes), (0.5, 1)),
                (predictor.predict_one, ()),
            ):
                with pytest.raises(ValueError, match="row") as caught:
                    call(row, *more)
                assert str(caught.value).startswith("The row " + find_fault(row[None]).what.removeprefix("Row 0 "))


@pytest.mark.parametrize("factor", [1 - 0.9e-3, 1 + 0.9e-3])
def test_sums_within_the_tolerance(factor):
    """Rows whose sum differs from 1 by just under 1e-3 pass."""
    for n_classes in (3, 33, 300):
        for precision in (np.float32, np.float64):
            row = (made_rows("spread", 1, n_classes, 1)[0] * factor).astype(precision)
            for score in (pippin.scores.ip(), pippin.scores.repip(), pippin.scores.socop()):
                found = dispatch.one_set(score, n_classes)(row, 0.0, np.inf)
                assert np.array_equal(found, ranked_order(row[None])[0])
