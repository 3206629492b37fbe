"""Variables that predict misses: excess risk, p-values under the null hypothesis, power, and what is reported."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pippin
from pippin._conformal.diagnosis import excess_risk, permutation_p_value

DATA = pippin.load_example()
PROBS, LABELS = DATA.probs, DATA.labels


def sets_with(covered, labels, n_classes=4):
    """Return sets of one or two classes that contain the label where `covered` is True."""
    other = (labels + 1) % n_classes
    return pippin.PredictionSets.from_labels(
        [[int(c if hit else o)] for hit, c, o in zip(covered, labels, other, strict=True)], range(n_classes)
    )


def test_the_excess_risk_is_that_of_single_rows():
    """The reference predicts each row from the rows of the other folds, and averages the Brier losses."""
    rng = np.random.default_rng(1)
    part, fold = rng.integers(3, size=200), rng.integers(4, size=200)
    miss = rng.random(200) < np.array([0.05, 0.1, 0.4])[part]
    gains = []
    for i in range(200):
        other = fold != fold[i]
        mean = miss[other].mean()
        same = other & (part == part[i])
        rate = (miss[same].sum() + 10 * mean) / (same.sum() + 10)
        gains.append((mean - miss[i]) ** 2 - (rate - miss[i]) ** 2)
    cells = np.zeros((2, 3, 4), dtype=int)
    np.add.at(cells[0], (part, fold), miss)
    np.add.at(cells[1], (part, fold), 1)
    assert excess_risk(*cells) == pytest.approx(np.mean(gains))
    assert np.mean(gains) > 0.005


@pytest.mark.parametrize("sizes", [[50, 50], [200, 20, 5, 1], [10] * 12])
def test_p_values_are_valid_if_misses_do_not_depend_on_the_variable(sizes):
    """P(p ≤ t) is at most t, tested exactly at a level of 1e-5 with 600 worlds."""
    rng = np.random.default_rng(len(sizes))
    part, n = np.repeat(np.arange(len(sizes)), sizes), sum(sizes)
    p = []
    for _ in range(600):
        fold, miss = rng.integers(5, size=n), rng.random(n) < 0.15
        cells = np.zeros((2, len(sizes), 5), dtype=int)
        np.add.at(cells[0], (part[miss], fold[miss]), 1)
        np.add.at(cells[1], (part, fold), 1)
        p.append(permutation_p_value(*cells, rng))
    for t in (0.02, 0.05, 0.2, 0.5):
        assert (np.array(p) <= t).sum() <= stats.binom.ppf(1 - 1e-5, 600, t)


def test_evaluations_without_dependence_seldom_report_any():
    """Of 300 evaluations with five variables, at most 5% have a finding, tested exactly at a level of 1e-5."""
    rng, alarms = np.random.default_rng(2), 0
    for _ in range(300):
        labels = rng.integers(4, size=250)
        sets = sets_with(rng.random(250) < 0.85, labels)
        found = pippin.evaluate(
            sets, labels, alpha=0.1, groups=rng.integers(3, size=250), features=rng.normal(size=(250, 2))
        )
        alarms += len(found.findings) > 0
    assert alarms <= stats.binom.ppf(1 - 1e-5, 300, 0.05)


def test_planted_variables_are_found_with_their_worst_part():
    rng = np.random.default_rng(3)
    n = 1500
    labels, group, feature = rng.integers(4, size=n), rng.integers(3, size=n), rng.normal(size=(n, 2))
    covered = rng.random(n) < np.where(group == 2, 0.75, np.where(feature[:, 1] > 1, 0.7, 0.98))
    names = np.array(["north", "west", "south"])[group]
    frame = pd.DataFrame(feature, columns=["rain", "height"])
    found = pippin.evaluate(sets_with(covered, labels), labels, alpha=0.1, groups=names, features=frame)
    first, second = found.findings
    assert (first.variable, first.part, first.n) == ("group", "group south", (group == 2).sum())
    assert first.coverage == pytest.approx(covered[group == 2].mean())
    assert first.remedy == "calibrate with groups="
    assert second.variable == "feature height"
    assert second.part.startswith("values above 0.8")
    assert max(first.p_value, second.p_value) < 0.005
    lines = str(found).splitlines()[-4:-2]
    assert lines == [f"{first.sentence}.", f"{second.sentence}."]
    assert lines[0].startswith(f"Coverage depends on the group: it is {100 * first.coverage:.1f}% for group south (")
    assert first.sentence in found._repr_html_()


def test_the_example_names_the_class_and_what_calibration_per_class_leaves():
    """Marginal coverage of the example depends on the class; a predictor per class has a guarantee for it."""
    predictor = pippin.calibrate(PROBS[::2], LABELS[::2], "ip", classes=DATA.classes)
    found = pippin.evaluate(predictor, LABELS[1::2], probs=PROBS[1::2])
    by_name = {one.variable: one for one in found.findings}
    assert {"class", "predicted class", "largest probability"} <= set(by_name)
    assert by_name["class"].part == found.worst_class == "shepherds_purse"
    assert by_name["class"].coverage == found.class_coverage["shepherds_purse"]
    assert [one.p_value for one in found.findings] == sorted(one.p_value for one in found.findings)
    assert sum(line.startswith("Coverage depends on") for line in str(found).splitlines()) == 2
    per_class = pippin.calibrate(PROBS[::2], LABELS[::2], "ip", classes=DATA.classes, per="class")
    rest = pippin.evaluate(per_class, LABELS[1::2], probs=PROBS[1::2]).findings
    assert "class" not in {one.variable for one in rest}


def test_groups_of_the_remedy_repair_what_was_found():
    """Calibrated per predicted class, coverage no longer depends on it."""
    groups = PROBS.argmax(axis=1)
    predictor = pippin.calibrate(PROBS[::2], LABELS[::2], "ip", groups=groups[::2])
    found = pippin.evaluate(predictor, LABELS[1::2], probs=PROBS[1::2], groups=groups[1::2])
    assert "predicted class" not in {one.variable for one in found.findings}
    assert "group" not in {one.variable for one in found.findings}


def test_too_much_coverage_is_no_finding():
    """One group is always covered and the other as requested: no part is covered less than 90%."""
    rng = np.random.default_rng(5)
    labels, group = rng.integers(4, size=1000), np.arange(1000) % 2
    sets = sets_with((rng.random(1000) < 0.91) | (group == 1), labels)
    assert pippin.evaluate(sets, labels, alpha=0.1, groups=group).findings == ()


@pytest.mark.parametrize("options", [{"alpha": None}, {"alpha": 0.1, "units": True}, {"alpha": 0.1, "few": True}])
def test_no_findings_without_a_level_with_units_or_with_few_rows(options):
    n = 99 if options.pop("few", False) else 600
    rng = np.random.default_rng(6)
    labels = rng.integers(4, size=n)
    sets = sets_with(rng.random(n) < np.where(labels == 0, 0.2, 0.95), labels)
    options["units"] = np.arange(n) // 5 if options.get("units") else None
    assert pippin.evaluate(sets, labels, **options).findings == ()
    everything = sets_with(np.ones(n, dtype=bool), labels)
    assert pippin.evaluate(everything, labels, alpha=0.1).findings == ()


def test_invalid_features_raise():
    labels = np.zeros(200, dtype=int)
    sets = sets_with(np.arange(200) % 5 > 0, labels)
    with pytest.raises(pippin.InputError, match=r"Expected features of shape \(200, M\), got shape \(200,\)"):
        pippin.evaluate(sets, labels, alpha=0.1, features=np.ones(200))


def test_features_of_a_sharpened_predictor_serve_both():
    features = PROBS[:, :2].astype(np.float32)
    sharpener = pippin.sharpen(PROBS[:600], LABELS[:600], features=features[:600])
    predictor = pippin.calibrate(
        PROBS[600:1600], LABELS[600:1600], "ip", sharpen=sharpener, features=features[600:1600]
    )
    found = pippin.evaluate(predictor, LABELS[1600:], probs=PROBS[1600:], features=features[1600:])
    sets = predictor.predict(PROBS[1600:], features=features[1600:])
    assert found.coverage == pippin.evaluate(sets, LABELS[1600:]).coverage


def test_a_feature_with_few_values_has_a_part_for_each():
    rng = np.random.default_rng(7)
    labels, feature = rng.integers(4, size=900), rng.integers(3, size=900)
    sets = sets_with(rng.random(900) < np.array([0.95, 0.7, 0.95])[feature], labels)
    [finding] = pippin.evaluate(sets, labels, alpha=0.1, features=feature[:, None]).findings
    assert (finding.variable, finding.part, finding.n) == ("feature 0", "values above 0 to 1", (feature == 1).sum())


def test_the_command_evaluate_prints_findings(tmp_path, call, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, part in (("c", slice(0, None, 2)), ("t", slice(1, None, 2))):
        np.savez(f"{name}.npz", probs=PROBS[part], labels=LABELS[part], classes=np.array(DATA.classes))
    assert call("calibrate c.npz --score ip --out p.json")[0] == 0
    code, out, _ = call("evaluate p.json t.npz")
    predictor = pippin.load("p.json")
    found = pippin.evaluate(predictor, LABELS[1::2], probs=PROBS[1::2])
    assert code == 0
    assert " ".join(f"{found.findings[0].sentence}.".split()) in " ".join(out.split())


def test_the_verdict_of_a_comparison_names_a_variable():
    from pippin._compare.comparison import compare_trial
    from pippin._compare.methods import parse_methods
    from pippin._compare.splits import make_trial
    from pippin._compare.verdict import judge
    from pippin._validation.labels import as_labelled

    trial = make_trial(as_labelled(PROBS, LABELS, DATA.classes), 0.1, 0.45, 0)
    verdict = judge(trial, compare_trial(trial, parse_methods(["ip"]), 20))
    assert any(
        text.startswith("Under ip: coverage depends on the largest probability: it is 8") for text in verdict.cautions
    )
