"""The IP/MS combination: its definition, and the coverage of each variant."""

import json
import math
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import pippin
from pippin._conformal.ip_ms import IpMsRule, combined, score_labels, singletons
from pippin._conformal.serialization import read_content
from pippin._theory.level import quantile_rank
from pippin._theory.spelling import IpMs
from pippin._validation.rows import as_rows
from support.one_threshold import one_threshold
from support.rows import KINDS, made_rows, probabilities

GUARANTEES = ("recalibrated", "sum", "none")


def slow_set(row, b, q):
    """Return one object's set by definition: the margin's set if it is a singleton, else IP's."""
    order = sorted(range(len(row)), key=lambda k: (-row[k], k))
    margins, inverse = (pippin.scores.score(row[None], None, name)[0] for name in ("margin", "ip"))
    single = [k for k in order if margins[k] <= b]
    return single if len(single) == 1 else [k for k in order if inverse[k] <= q]


def slow_quantile(scores, alpha):
    """Return the k-th smallest score by sorting, with k in exact arithmetic."""
    k = math.ceil((len(scores) + 1) * (1 - alpha))
    return sorted(scores)[k - 1] if k <= len(scores) else math.inf


def slow_thresholds(probs, labels, alpha, guarantee, first, share):
    """Return both thresholds from the definitions."""

    def scored(name, rows):
        return [float(pippin.scores.score(probs[i : i + 1], labels[i : i + 1], name)[0]) for i in rows]

    everyone = range(len(labels))
    if guarantee != "recalibrated":
        each = alpha if guarantee == "none" else alpha / 2
        return slow_quantile(scored("margin", everyone), each), slow_quantile(scored("ip", everyone), each)
    b = slow_quantile(scored("margin", first), alpha * share)
    own = []
    for i in sorted(set(everyone) - set(first)):
        order = sorted(range(probs.shape[1]), key=lambda k: (-probs[i, k], k))
        single = [k for k in order if pippin.scores.score(probs[i : i + 1], [k], "margin")[0] <= b]
        if len(single) == 1:
            own.append(-math.inf if labels[i] == single[0] else math.inf)
        else:
            own.append(scored("ip", [i])[0])
    q = slow_quantile(own, alpha)
    return (math.inf if q == math.inf else b), q


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_sets_equal_the_definition(kind, n_classes, guarantee):
    """Thresholds and sets equal a slow reference on rows with ties, zeros, ones and two classes."""
    probs = made_rows(kind, 90, n_classes, seed=n_classes)
    rng = np.random.default_rng(1)
    labels = np.array([rng.choice(n_classes, p=p) for p in 0.7 * probs + 0.3 / n_classes])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pippin.calibrate(probs, labels, f"ip/ms(variant={guarantee}, share=0.5)", 0.2, seed=4)
    first = np.random.default_rng(4).permutation(90)[:45]
    expected = slow_thresholds(probs, labels, Fraction(1, 5), guarantee, first.tolist(), Fraction(1, 2))
    content = found.content()
    assert (content["margin_threshold"], content["ip_threshold"]) == expected
    assert (content["n_calibration"], content["n_ip"]) == (90, 45 if guarantee == "recalibrated" else 90)
    sets = found.predict(probs)
    for i, row in enumerate(probs):
        assert sets.members[sets.offsets[i] : sets.offsets[i + 1]].tolist() == slow_set(row, *expected)
        assert found.predict_one(row).tolist() == sets.members[sets.offsets[i] : sets.offsets[i + 1]].tolist()


@given(data=probabilities(sizes=(2, 3, 12, 70)), seed=st.integers(0, 10**6))
def test_sets_for_arbitrary_thresholds(data, seed):
    """Sets follow from those of the two scores, and contain a label exactly if its combined score is at most q."""
    probs, labels = data
    rng = np.random.default_rng(seed)
    margins, inverse = (
        pippin.scores.score(probs, None, "margin").ravel(),
        pippin.scores.score(probs, None, "ip").ravel(),
    )
    rows = as_rows(probs)
    for b in (*rng.choice(margins, 2), np.nextafter(rng.choice(margins), -2), -2.0, math.inf):
        for q in (*rng.choice(inverse, 2), -math.inf):
            made = [
                one_threshold(name, 0.1, threshold, 9, range(probs.shape[1]))
                for name, threshold in (("margin", b), ("ip", q))
            ]
            of_margin, of_ip = (p.predict(probs) for p in made)
            sets = pippin.PredictionSets(*combined(rows, b, q), range(probs.shape[1]))
            assert (singletons(rows, b) == (of_margin.sizes == 1)).all()
            for i in range(len(probs)):
                assert sets[i] == (of_margin[i] if of_margin.sizes[i] == 1 else of_ip[i])
            rule = IpMsRule(IpMs("none"), float(b), float(q), 9)
            whole = pippin.ConformalPredictor(rule.spec, 0.1, 9, range(probs.shape[1]), rule)
            assert np.array_equal(whole.predict(probs).members, sets.members)
            assert whole.predict_one(probs[0]).tolist() == sets[0]
            assert (sets.contains(labels) == (score_labels(rows, labels).combined(b) <= q)).all()


def treacherous(n, rng):
    """Draw rows on which the errors of both scores add up.

    Half of the rows look easy, about (0.8, 0.1, 0.1), and half hard, about (0.5, 0.46, 0.04). 9% of all rows are easy,
    but their true class is not the most probable one; these have the largest margin scores. 9% are hard, and their true
    class is the third; these have the largest IP scores.
    """
    easy = np.arange(n) < n // 2
    rng.shuffle(easy)
    probs = np.where(easy[:, None], [0.8, 0.1, 0.1], [0.5, 0.46, 0.04]) + rng.uniform(0, 0.01, (n, 3))
    wrong = rng.random(n) < 0.18
    labels = np.where(easy, np.where(wrong, 1, 0), np.where(wrong, 2, rng.integers(0, 2, n)))
    return probs / probs.sum(axis=1, keepdims=True), labels


def test_the_published_combination_can_undercover():
    """As published the combination covers 82% instead of 90%; both corrections cover 90%."""
    rng = np.random.default_rng(3)
    probs, labels = treacherous(4000, rng)
    new_probs, new_labels = treacherous(40_000, rng)
    covered = {
        guarantee: pippin.metrics.coverage(
            pippin.calibrate(probs, labels, f"ip/ms(variant={guarantee})", 0.1, seed=0).predict(new_probs), new_labels
        )
        for guarantee in GUARANTEES
    }
    assert covered["none"] == pytest.approx(0.82, abs=0.01)
    assert covered["sum"] > 0.89
    assert covered["recalibrated"] > 0.89
    for score in ("ip", "margin"):
        assert pippin.metrics.coverage(pippin.calibrate(probs, labels, score).predict(new_probs), new_labels) > 0.89


def population(n, rng):
    probs = rng.dirichlet(np.full(5, 0.3), n)
    return probs, (rng.random(n)[:, None] > (0.9 * probs + 0.02).cumsum(axis=1)).sum(axis=1).clip(max=4)


def test_recalibrated_coverage_has_its_exact_distribution():
    """Given the margin's threshold, recalibrated coverage is Beta(k, n₂ + 1 − k) between the atoms of the score.

    The population is finite and known, so coverage is computed exactly, over 2,000 draws of the second part of the
    rows.
    """
    n, alpha, draws = 80, 0.2, 2000
    rng = np.random.default_rng(8)
    probs, labels = population(30_000, rng)
    k = quantile_rank(n, alpha)
    for share, atoms in ((0.5, False), (0.9, True)):
        b = pippin.calibrate(*population(300, rng), "margin", share * alpha).threshold
        scores = np.sort(score_labels(as_rows(probs), labels).combined(b))
        right, wrong = (scores == -math.inf).mean(), (scores == math.inf).mean()
        drawn = scores[rng.integers(0, len(scores), (draws, n))]
        q = np.partition(drawn, k - 1, axis=1)[:, k - 1]
        coverage = np.searchsorted(scores, q, side="right") / len(scores)
        assert coverage.mean() >= 1 - alpha
        law = stats.beta(k, n + 1 - k)
        full = coverage == 1
        assert full.mean() == pytest.approx(law.sf(1 - wrong), abs=4 * math.sqrt(0.25 / draws))
        assert (full.mean() > 0.02) == atoms
        between = coverage[~full]
        assert between.min() > right
        inside = law.cdf(1 - wrong)
        assert stats.kstest(between, lambda x, law=law, top=inside: law.cdf(x) / top).pvalue > 0.01


@pytest.mark.parametrize("guarantee", ["recalibrated", "sum"])
@pytest.mark.parametrize("make", [population, treacherous], ids=lambda f: f.__name__)
def test_mean_coverage_is_at_least_the_guarantee(make, guarantee):
    """Mean coverage is at least the guarantee, over 300 calibrations of 120 rows."""
    rng = np.random.default_rng(12)
    covered = []
    for seed in range(300):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = pippin.calibrate(*make(120, rng), f"ip/ms(variant={guarantee}, share=0.6)", 0.1, seed=seed)
        probs, labels = make(200, rng)
        covered.append(pippin.metrics.coverage(found.predict(probs), labels))
    assert np.mean(covered) >= 0.9 - 4 * np.std(covered) / math.sqrt(300)
    if guarantee == "sum":
        assert np.mean(covered) > 0.9


def test_other_sets_are_empty_if_singletons_cover_enough():
    """If the margin's singletons cover 1 − α of the rows, all other sets are empty."""
    probs = np.tile([[0.9, 0.06, 0.04]], (400, 1))
    probs[::50] = [0.4, 0.35, 0.25]
    labels = np.zeros(400, dtype=int)
    found = pippin.calibrate(probs, labels, "ip/ms", 0.1, seed=1)
    assert found.content()["ip_threshold"] == -math.inf
    sets = found.predict(probs)
    assert (
        sets.sizes.tolist() == np.where(singletons(as_rows(probs), found.content()["margin_threshold"]), 1, 0).tolist()
    )


def test_too_many_wrong_singletons_give_full_sets_and_a_warning():
    probs = population(200, np.random.default_rng(0))[0]
    wrong = np.argsort(probs, axis=1)[:, 0]
    some = np.random.default_rng(1).random(200) < 0.5
    with pytest.warns(UserWarning, match=r"singletons are wrong for .* Pass a share below 1, or more rows"):
        # the first part is easy and the second hard, as with drift
        found = pippin.calibrate(
            probs, np.where(_second_part(200, 5) & some, wrong, probs.argmax(axis=1)), "ip/ms(share=1)", 0.1, seed=5
        )
    assert (found.content()["margin_threshold"], found.content()["ip_threshold"]) == (math.inf, math.inf)
    assert (found.predict(probs).sizes == 5).all()
    assert len(found.predict_one(probs[0])) == 5


def _second_part(n, seed):
    second = np.ones(n, dtype=bool)
    second[np.random.default_rng(seed).permutation(n)[: n // 2]] = False
    return second


def test_too_few_examples():
    """The warning names the part of the rows that is too small, and the consequence."""
    probs, labels = population(40, np.random.default_rng(0))
    for guarantee, few, needed in (("none", 8, 9), ("sum", 18, 19)):
        with pytest.warns(UserWarning, match=f"{few} calibration examples are too few .* at least {needed} are needed"):
            found = pippin.calibrate(probs[:few], labels[:few], f"ip/ms(variant={guarantee})", 0.1)
        assert (found.predict(probs).sizes == 5).all()
    with pytest.warns(UserWarning, match="too few to take singletons from the margin") as caught:
        found = pippin.calibrate(probs, labels, "ip/ms", 0.1, seed=0)
    assert len(caught) == 1
    assert found.content()["margin_threshold"] == math.inf
    ip = one_threshold("ip", 0.1, found.content()["ip_threshold"], 20, range(5)).predict(probs)
    assert found.predict(probs).labels() == ip.labels()
    with pytest.warns(UserWarning, match="8 rows for IP's threshold are too few") as caught:
        found = pippin.calibrate(probs, labels, "ip/ms(fraction=0.8, share=1)", 0.1, seed=0)
    assert len(caught) == 1
    assert (found.predict(probs).sizes == 5).all()


def test_the_seed_divides_the_rows():
    data = pippin.load_example()
    first, same, other, drawn = (
        pippin.calibrate(data.probs, data.labels, "ip/ms", seed=s)
        for s in (1, 1, 2, np.random.default_rng(1))
    )  # fmt: skip
    assert first.content() == same.content() == drawn.content()
    assert first.content() != other.content()
    none = [pippin.calibrate(data.probs, data.labels, "ip/ms(variant=none)", seed=s) for s in (1, 2)]
    assert none[0].content() == none[1].content()


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_all_input_types_give_equal_results(guarantee):
    """Named classes, logits and other float types give equal sets, and inputs are not modified."""
    data = pippin.load_example()
    probs, labels = data.probs[:500].copy(), data.labels[:500].copy()
    probs.flags.writeable = labels.flags.writeable = False
    kept = probs.copy(), labels.copy()
    found = pippin.calibrate(probs, labels, f"ip/ms(variant={guarantee})", 0.1, classes=data.classes, seed=3)
    named = [data.classes[k] for k in labels]
    assert (
        pippin.calibrate(probs, named, f"ip/ms(variant={guarantee})", 0.1, classes=data.classes, seed=3).content()
        == found.content()
    )
    sets = found.predict(probs)
    assert sets.classes == data.classes
    assert np.array_equal(found.predict(probs.astype(np.float64)).members, sets.members)
    logits = np.log(probs.astype(np.float64))
    from_logits = pippin.calibrate(logits, labels, f"ip/ms(variant={guarantee})", 0.1, seed=3, from_logits=True)
    assert from_logits.content()["ip_threshold"] == pytest.approx(found.content()["ip_threshold"], abs=1e-6)
    assert len(from_logits.predict(logits, from_logits=True)) == 500
    assert np.array_equal(probs, kept[0])
    assert np.array_equal(labels, kept[1])
    assert repr(found).startswith("ConformalPredictor(ip/ms")


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_saved_predictor_is_restored(guarantee, tmp_path):
    data = pippin.load_example()
    found = pippin.calibrate(data.probs, data.labels, f"ip/ms(variant={guarantee})", 0.1, classes=data.classes, seed=3)
    found.save(tmp_path / "both.json")
    again = pippin.load(tmp_path / "both.json")
    assert again.content() == found.content()
    assert np.array_equal(again.predict(data.probs).members, found.predict(data.probs).members)
    whole = json.loads((tmp_path / "both.json").read_text())
    assert (whole["version"], whole["predictor"].pop("kind")) == (2, "combination")
    for part, bad in (
        ("alpha", 1), ("guarantee", "some"), ("ip_threshold", math.nan), ("margin_threshold", None),
        ("n_calibration", 0), ("n_ip", 10**6), ("n_classes", 3), ("classes", ["a"] * 12),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="makes no sense"):
            read_content({**whole["predictor"], "kind": "combination", part: bad})


@pytest.mark.parametrize(
    ("score", "alpha", "words"),
    [
        ("ip/ms(variant='all')", 0.1, "Expected the variant 'recalibrated', 'sum' or 'none', got 'all'"),
        ("ip/ms", 0, "Expected alpha"),
        ("ip/ms(fraction=1)", 0.1, "Expected a fraction of the rows strictly between 0 and 1, got 1"),
        ("ip/ms(fraction=0.001)", 0.1, "Expected enough rows for both thresholds, got 100"),
        ("ip/ms(share=0)", 0.1, "Expected a share of alpha above 0 and at most 1, got 0"),
        ("ip/ms(share=1.5)", 0.1, "Expected a share of alpha"),
        ("ip/ms(share='half')", 0.1, "Expected a share of alpha"),
        ("ip/ms(portion=0.5)", 0.1, "The score ip/ms has no parameter 'portion'"),
        ("ip/ms(", 0.1, "Cannot read the score"),
    ],
)
def test_invalid_arguments_raise_one_sentence(score, alpha, words):
    probs, labels = population(100, np.random.default_rng(0))
    with pytest.raises(ValueError, match=words):
        pippin.calibrate(probs, labels, score, alpha)
    with pytest.raises(ValueError, match="Expected 5 columns"):
        pippin.calibrate(probs, labels, "ip/ms(variant=sum)").predict(probs[:, :2])


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_an_invalid_row_is_named_by_its_original_number(guarantee):
    probs, labels = population(100, np.random.default_rng(0))
    good = pippin.calibrate(probs, labels, f"ip/ms(variant={guarantee}, share=0.5)", 0.2, seed=0)
    probs[71, 2] = math.nan
    with pytest.raises(ValueError, match="Row 71 has nan"):
        pippin.calibrate(probs, labels, f"ip/ms(variant={guarantee})", 0.2, seed=0)
    with pytest.raises(ValueError, match="Row 71 has nan"):
        good.predict(probs)
    with pytest.raises(ValueError, match="Row 0 has nan"):
        good.predict_one(probs[71])


def test_it_can_be_pickled():
    probs, labels = population(100, np.random.default_rng(0))
    found = pippin.calibrate(probs, labels, "ip/ms(variant=sum)", 0.2)
    one = found.predict_one(probs[0])
    assert pickle.loads(pickle.dumps(found)).predict_one(probs[0]).tolist() == one.tolist()  # noqa: S301 - our own
