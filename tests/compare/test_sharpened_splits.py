"""Methods with sharpened (recalibrated) probabilities in `compare`, compared with a naive loop, and in the verdict."""

import gc
import weakref

import numpy as np
import pytest

import pippin
from pippin._compare.comparison import compare_trial
from pippin._compare.report_data import study
from pippin._compare.split_evaluation import check_methods
from pippin._compare.splits import draw_split
from pippin._compare.verdict import judge
from support.confused_rows import confused_rows
from support.trials import trial_of


def test_a_sharpened_method_is_spelled_after_its_score():
    """In the text of a method, the word "sharpened" follows the score and precedes the taxonomy."""
    for text in (
        "socop sharpened",
        "ip sharpened per class",
        "pip(beta=2) sharpened nonempty",
        "ip/ms(variant=sum) sharpened",
    ):
        method = pippin.scores.parse_method(text)
        assert str(method) == text
        assert method.sharpened
        assert not method.plain
    assert pippin.scores.parse_method("ip sharpened") != pippin.scores.parse_method("ip")
    with pytest.raises(pippin.InputError, match="Cannot read 'blunted'"):
        pippin.scores.parse_method("ip blunted")


@pytest.mark.parametrize("spelling", ["socop", "ip per class", "aps"])
def test_each_split_fits_calibrates_and_tests_on_disjoint_rows(spelling):
    """A naive loop fits the sharpener on half of the calibration rows, and calibrates on the other half."""
    probs, labels = confused_rows(200, seed=40)
    name, _, per = spelling.partition(" ")
    trial = trial_of(probs, labels, alpha=0.2, fraction=0.5)
    found = compare_trial(trial, (pippin.scores.parse_method(f"{name} sharpened {per}".strip()),), 2)
    for index in range(2):
        split = draw_split(trial, index)
        inner = np.flatnonzero(split.calibration)
        generator = np.random.default_rng(int(split.generator().integers(2**62)))
        ours = np.sort(generator.choice(inner, 50, replace=False))
        sharper = pippin.sharpen(probs[ours], labels[ours], seed=trial.seed)
        others, test = np.setdiff1d(inner, ours), np.flatnonzero(~split.calibration)
        scores = pippin.scores.score(sharper(probs), None, name, seed=Given(split.u))
        limits = np.full(4, kth(scores[others, labels[others]], 0.2))
        if per:
            limits = np.array([kth(scores[others[labels[others] == k], k], 0.2) for k in range(4)])
        inside = scores[test] <= limits
        expected = inside[np.arange(len(test)), labels[test]].mean(), inside.sum(axis=1).mean()
        assert (found.metric("coverage")[0, index], found.metric("mean_size")[0, index]) == pytest.approx(expected)


class Given(np.random.Generator):
    """Generator that returns given numbers."""

    def __init__(self, u):
        super().__init__(np.random.PCG64(0))
        self.u = u

    def random(self, size=None, dtype=np.float64, out=None):
        return self.u


def kth(scores, alpha):
    """Return the k-th smallest score, by its definition."""
    k = int(np.ceil((len(scores) + 1) * (1 - alpha) - 1e-9))
    return np.inf if k > len(scores) else np.sort(scores)[k - 1]


def test_the_verdict_recommends_sharpening_only_if_it_pays():
    """The verdict recommends sharpening for systematically confused classes, not for calibrated probabilities."""
    trial = trial_of(*confused_rows(1500, seed=41), alpha=0.1, fraction=0.5)
    methods = tuple(map(pippin.scores.parse_method, ("socop", "socop sharpened")))
    found = study(trial, methods, 12)
    assert str(found.verdict.take) == "socop sharpened"
    assert any(sentence.startswith("Sharpening pays: it changes socop by -") for sentence in found.verdict.sentences)
    assert [str(curve.method) for curve in found.curves] == ["socop", "socop sharpened"]
    assert set(found.evaluations) == {"socop", "socop sharpened"}
    assert found.comparison.conditional()["score"].to_list() == ["socop", "socop sharpened"]
    rng = np.random.default_rng(42)
    true = rng.dirichlet(np.full(4, 0.5), 600)
    labels = (rng.random(600)[:, None] > true.cumsum(axis=1)).sum(axis=1).clip(max=3)
    trial = trial_of(true, labels, alpha=0.1, fraction=0.5)
    verdict = judge(trial, compare_trial(trial, methods, 8))
    assert str(verdict.take) == "socop"
    assert any("Sharpening gains nothing clear here, so keep socop" in sentence for sentence in verdict.sentences)


def test_caches_are_freed_with_their_trial():
    """Cached sharpeners (recalibration maps) of a comparison are freed with it."""
    trial = trial_of(*confused_rows(60, seed=44), alpha=0.3, fraction=0.5)
    compare_trial(trial, (pippin.scores.parse_method("ip sharpened"),), 1)
    known = weakref.ref(trial)
    del trial
    gc.collect()
    assert known() is None


def test_too_few_rows_are_an_error_and_many_splits_a_warning():
    """Too few rows are an error, and many splits a warning, before any sharpener is fitted."""
    probs, labels = confused_rows(60, seed=43)
    with pytest.raises(pippin.InputError, match="Expected at least 20 calibration rows in a split for ip sharpened"):
        pippin.compare(probs[:30], labels[:30], ["ip sharpened"], 0.2, splits=2)
    with pytest.warns(UserWarning, match="a sharpener is fitted in each of 101 splits"):
        check_methods(trial_of(probs, labels), [pippin.scores.parse_method("ip sharpened")], 101)
