"""Sentences that compare coverage with 1 − alpha: exact probabilities, clusters ("units"), superclasses ("kinds")."""

import re
import warnings

import numpy as np
import pytest

import pippin
from pippin._theory.planning import beta_binomial

DATA = pippin.load_example()
CROPS = ("maize", "common_wheat", "sugar_beet")
KINDS = {name: "crop" if name in CROPS else "weed" for name in DATA.classes}
LEVELS = {"crop": 0.01, "weed": 0.1}
OLD, NEW = slice(0, 2400), slice(2400, None)


def verdict(covered, n, alpha, **options):
    """Return the verdict on n sets of one class, of which `covered` contain the true class."""
    sets = pippin.PredictionSets(np.ones(n, int), np.zeros(n, int), ("a", "b"))
    labels = np.r_[np.zeros(covered, int), np.ones(n - covered, int)]
    return pippin.evaluate(sets, labels, alpha=alpha, **options).verdict


def test_few_rows_are_judged_by_their_probability():
    """Verdicts on few rows use exact probabilities: normal approximations would give 3 and 7 standard errors here."""
    one = "covers 0.0% where 90% were requested, as may happen with so few objects: by chance in 1 of 10 evaluations"
    assert verdict(0, 1, 0.1) == one
    assert verdict(0, 1, 0.1, n_calibration=9) == one
    assert "lower than expected: by chance in 1 of 50 evaluations; other causes" in verdict(19, 20, 0.001)
    assert "as may happen with so few objects: by chance in 1 of 11" in verdict(99, 100, 0.001)
    assert verdict(5, 5, 0.1, n_calibration=8).endswith(
        "8 calibration rows are too few for this level, so no error is possible"
    )


def test_each_side_has_its_words():
    """If coverage is too low or too high, the verdict names likely causes, the most likely first."""
    causes = "causes, the most likely first: training rows used for calibration, drift, or other labels"
    low = verdict(2110, 2400, 0.1, n_calibration=2400)
    assert low.startswith(
        "covers 87.9% where 90% were requested, lower than expected: by chance in 1 of 95 evaluations"
    )
    assert low.endswith(f"; other {causes}")
    assert verdict(4460, 5263, 0.1).endswith(f"13 standard errors below; {causes}")
    assert verdict(927, 1000, 0.1, n_calibration=1000).endswith("by chance in 1 of 52 evaluations; the guarantee holds")
    assert "9 standard errors above; likely causes: tied scores" in verdict(990, 1000, 0.1)
    assert verdict(4460, 5263, 0.1, n_calibration=100).endswith("as promised: within 2 standard errors")


@pytest.mark.parametrize(
    ("alpha", "n", "m"), [(0.1, 9, 5), (0.1, 30, 40), (0.05, 200, 60), (0.3, 50, 7), (0.001, 2000, 90)]
)
def test_too_low_is_said_as_rarely_as_beyond_two_standard_errors(alpha, n, m):
    """Under the exact distribution of coverage, a false "too low" is as rare as two standard errors."""
    k = pippin.plan(alpha, n).k
    law = beta_binomial(m, k, n + 1 - k)
    low = high = 0.0
    for covered, chance in enumerate(law.tolist()):
        text = verdict(covered, m, alpha, n_calibration=n)
        low += chance if "lower than" in text or "errors below" in text else 0
        high += chance if "higher than" in text or "errors above" in text else 0
        if said := re.search(r"1 of ([\d,]+) evaluations", text):
            tail = min(law[: covered + 1].sum(), law[covered:].sum())
            assert 1 / tail == pytest.approx(float(said[1].replace(",", "")), rel=0.05)
    assert low <= 0.0228
    assert high <= 0.0228
    assert verdict(0, m, alpha, n_calibration=n).startswith("covers 0.0%")


def test_a_confident_threshold_is_expected_to_cover_more():
    """With a PAC guarantee the mean of coverage is above 1 − alpha, which is not reported as too high."""
    rows, labels = np.random.default_rng(0).random(41_000), np.zeros(41_000, int)
    probs = np.stack([1 - rows, rows], axis=1)
    predictor = pippin.calibrate(probs[:1000], labels[:1000], "ip", confidence=0.999)
    found = pippin.evaluate(predictor, labels[1000:], probs=probs[1000:])
    assert found.coverage > 0.92
    assert "as promised" in found.verdict


def clustered(rng, units, share):
    """Draw uniform scores in clusters of 20 rows; in a share of the clusters, all rows have one score."""
    unit = np.repeat(np.arange(units), 20)
    score = np.where((rng.random(units) < share)[unit], rng.random(units)[unit], rng.random(len(unit)))
    return np.stack([1 - score, score], axis=1), np.zeros(len(unit), int), unit


def test_the_standard_error_of_units():
    """On clustered rows, the verdict by cluster is rarely a false alarm in 300 calibrations; that by row often is."""
    rng = np.random.default_rng(5)
    failed = {"units": 0, "rows": 0}
    for _ in range(300):
        probs, labels, unit = clustered(rng, 100, 0.8)
        predictor = pippin.calibrate(probs, labels, "ip", 0.2, units=unit)
        probs, labels, unit = clustered(rng, 60, 0.8)
        found = pippin.evaluate(predictor, labels, probs=probs, groups=unit)
        assert (found.clustered, found.n_calibration) == (True, 100)
        failed["units"] += (
            "expected" in found.verdict or "errors below" in found.verdict or "errors above" in found.verdict
        )
        by_row = pippin.evaluate(predictor.predict(probs), labels, alpha=0.2, n_calibration=100 * 20)
        failed["rows"] += "as promised" not in by_row.verdict
    assert failed["units"] <= 25  # 4.6% of 300, plus three standard errors
    assert failed["rows"] > 100


def test_units_of_any_predictor():
    """With `units=`, each cluster of rows counts once, for sets and for predictors that were calibrated on rows."""
    unit = np.repeat(np.arange(10), 2)
    sets = pippin.PredictionSets(np.ones(20, int), np.zeros(20, int), ("a", "b"))
    labels = np.r_[np.zeros(18, int), 1, 0]
    found = pippin.evaluate(sets, labels, units=unit, alpha=0.1, n_calibration=50)
    assert found.verdict.startswith(
        "covers 95.0% of the rows of a unit, on average over 10 units, where 90% were requested"
    )
    with pytest.raises(ValueError, match="Expected groups= or units=, got both"):
        pippin.evaluate(sets, labels, units=unit, groups=unit)
    rows = pippin.calibrate(DATA.probs[OLD], DATA.labels[OLD])
    found = pippin.evaluate(rows, DATA.labels[NEW], probs=DATA.probs[NEW], units=np.arange(2586) // 6)
    assert (found.clustered, found.n_calibration) == (True, 400)
    of_units = pippin.calibrate(DATA.probs[OLD], DATA.labels[OLD], units=np.arange(2400) // 6)
    with pytest.warns(UserWarning, match="calibrated with units, but these rows came without"):
        assert not pippin.evaluate(of_units, DATA.labels[NEW], probs=DATA.probs[NEW]).clustered


def test_each_kind_has_its_level_and_its_verdict():
    """With a level per superclass, print shows a verdict for each, and CovGap compares a class with its own level."""
    predictor = pippin.calibrate(DATA.probs[OLD], DATA.labels[OLD], "ip", LEVELS, classes=DATA.classes, per=KINDS)
    found = pippin.evaluate(predictor, DATA.labels[NEW], probs=DATA.probs[NEW])
    crop = np.isin(DATA.labels[NEW], [DATA.classes.index(name) for name in CROPS])
    hits = predictor.predict(DATA.probs[NEW]).contains(DATA.labels[NEW])
    assert (found.alpha, found.sscv) == (None, None)
    assert {name: (kind.n, kind.alpha) for name, kind in found.kinds.items()} == {
        "weed": (int((~crop).sum()), 0.1),
        "crop": (int(crop.sum()), 0.01),
    }
    assert found.kinds["crop"].share == pytest.approx(hits[crop].mean())
    assert found.kinds["crop"].n_calibration == int(
        np.isin(DATA.labels[OLD], [DATA.classes.index(c) for c in CROPS]).sum()
    )
    gaps = [abs(share - 1 + LEVELS[KINDS[name]]) for name, share in found.class_coverage.items()]
    assert found.covgap == pytest.approx(np.mean(gaps))
    lines = str(found).splitlines()[-2:]
    assert [line.partition(",")[0] for line in lines] == ["weed", "crop"]
    assert "where 90% were requested" in lines[0]
    assert "where 99% were requested" in lines[1]
    assert found.verdict == "; ".join(f"{name}: {kind.verdict}" for name, kind in found.kinds.items())
    assert "By kind." in found._repr_html_()
    shifted = pippin.evaluate(predictor, np.where(crop, DATA.labels[NEW] - 1, DATA.labels[NEW]), probs=DATA.probs[NEW])
    assert "errors below" in shifted.kinds["weed"].verdict


def test_deciders_are_judged_per_kind():
    """For decisions, the share of certificates (guaranteed utilities) that hold is compared by superclass."""
    utility = pippin.decisions.Utility(
        {"spray": {"weed": 1, "crop": -2}, "leave": {"weed": -1, "crop": 1}, "ask": {"weed": 0.3, "crop": 0.3}},
        kinds=KINDS,
    )
    rows, labels = DATA.probs[OLD], DATA.labels[OLD]
    decider = pippin.decisions.calibrate(rows, labels, utility, LEVELS, classes=DATA.classes, per="kind")
    decisions = decider.decide(DATA.probs[NEW])
    found = pippin.decisions.evaluate(decisions, DATA.labels[NEW], utility, predictor=decider)
    assert found.alpha is None
    assert list(found.kinds) == ["weed", "crop"]
    total = sum(kind.n * kind.share for kind in found.kinds.values())
    assert total == pytest.approx(found.kept * found.n)
    last = str(found).splitlines()[-1]
    assert last.startswith("crop, 439 objects: keeps ")
    assert "of its certificates where 99% were requested" in last
    with pytest.raises(ValueError, match="Expected predictor= or alpha="):
        pippin.decisions.evaluate(decisions, DATA.labels[NEW], utility, predictor=decider, alpha=0.1)


def test_the_printed_evaluation_ends_with_the_verdict():
    """With a level, print ends with the verdict, once; without a level there is none."""
    predictor = pippin.calibrate(DATA.probs[OLD], DATA.labels[OLD])
    found = pippin.evaluate(predictor, DATA.labels[NEW], probs=DATA.probs[NEW])
    assert str(found).endswith(f"\n\nIt {found.verdict}.")
    assert found.verdict in found._repr_html_()
    assert "It covers" not in str(pippin.evaluate(predictor.predict(DATA.probs[NEW]), DATA.labels[NEW]))


@pytest.mark.parametrize("wrong", [0, -3, True, 2.5, "many"])
def test_a_number_of_calibration_rows_is_checked(wrong):
    with pytest.raises(ValueError, match="Expected n_calibration to be a number of rows, got"):
        verdict(1, 1, 0.1, n_calibration=wrong)


def test_calibration_rows_of_a_decider_are_recognized():
    """A decider recognizes its calibration rows by their scores, and does not mistake new rows for them."""
    utility = pippin.decisions.Utility(np.eye(12), actions=list(DATA.classes))
    decider = pippin.decisions.calibrate(DATA.probs[OLD], DATA.labels[OLD], utility)
    with pytest.warns(UserWarning, match="seem to be calibration rows of the predictor"):
        pippin.evaluate(decider, DATA.labels[OLD], probs=DATA.probs[OLD])
    pippin.evaluate(decider, DATA.labels[NEW], probs=DATA.probs[NEW])
    tied = pippin.decisions.Utility(
        {"spray": {"weed": 1, "crop": -2}, "leave": {"weed": -1, "crop": 1}, "ask": {"weed": 0.3, "crop": 0.3}},
        kinds=KINDS,
    )
    decider = pippin.decisions.calibrate(DATA.probs[OLD], DATA.labels[OLD], tied, classes=DATA.classes)
    scores = decider.calibration_scores
    assert len(np.unique(scores)) < 0.3 * len(scores)
    with pytest.warns(UserWarning, match="About 2,400 of these 2,400 rows seem to be calibration rows"):
        pippin.evaluate(decider, DATA.labels[OLD], probs=DATA.probs[OLD])


@pytest.mark.parametrize(("n", "decimals"), [(50, 6), (300, 3), (2000, 4), (5000, 2)])
def test_new_rows_are_not_mistaken_for_calibration_rows(n, decimals):
    """Rounded rows share scores by chance; over 60 honest calibrations there is no warning."""
    rng = np.random.default_rng(n)
    for _ in range(60):
        probs = rng.dirichlet(np.full(4, 0.3), 2 * n).round(decimals)
        probs /= probs.sum(axis=1, keepdims=True)
        labels = (rng.random(2 * n)[:, None] > probs.cumsum(axis=1)).sum(axis=1).clip(max=3)
        predictor = pippin.calibrate(probs[:n], labels[:n], "ip")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            pippin.evaluate(predictor, labels[n:], probs=probs[n:])


def test_decisions_are_judged_by_unit():
    """Decisions are judged by cluster of rows; a decider calibrated with clusters warns if they are missing."""
    utility = pippin.decisions.Utility(np.eye(12), actions=list(DATA.classes))
    unit = np.arange(len(DATA.labels)) // 6
    decider = pippin.decisions.calibrate(DATA.probs[OLD], DATA.labels[OLD], utility, units=unit[OLD])
    decisions, labels = decider.decide(DATA.probs[NEW]), DATA.labels[NEW]
    found = pippin.decisions.evaluate(decisions, labels, utility, units=unit[NEW], predictor=decider)
    assert (found.n_calibration, len(found.unit_kept)) == (400, 431)
    assert np.mean(found.unit_kept) == pytest.approx(found.kept)  # all units have six rows
    assert "of the certificates of a unit, on average over 431 units, where 90% were requested" in found.verdict
    with pytest.warns(UserWarning, match="calibrated with units, but these rows came without"):
        assert pippin.decisions.evaluate(decisions, labels, utility, predictor=decider).unit_kept == ()
