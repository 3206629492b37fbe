"""Metrics of prediction sets against plain loops."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pippin
from pippin._conformal.coverage_by import tally

NAMES = {"no names": range(5), "text": tuple("abcde"), "numbers": (10, 20, 30, 40, 50), "other order": (4, 3, 2, 1, 0)}
every_naming = pytest.mark.parametrize("classes", NAMES.values(), ids=NAMES)


@st.composite
def cases(draw):
    """Sets over five classes as lists of indices, and a true class index for each."""
    one = st.permutations(range(5)).flatmap(lambda p: st.integers(0, 5).map(lambda size: p[:size]))
    rows = draw(st.lists(one, min_size=1, max_size=12))
    truth = draw(st.lists(st.integers(0, 4), min_size=len(rows), max_size=len(rows)))
    return rows, truth


def make(rows, classes):
    return pippin.PredictionSets(
        np.array([len(row) for row in rows]), np.array([k for row in rows for k in row], dtype=np.int32), classes
    )


def share(hits):
    hits = list(hits)
    return sum(hits) / len(hits)


@every_naming
@given(cases())
def test_every_metric_equals_its_definition(classes, case):
    """Coverage, mean size, singleton rate and rate of empty sets equal plain loops."""
    rows, truth = case
    sets, labels = make(rows, classes), [classes[k] for k in truth]
    assert pippin.metrics.coverage(sets, labels) == pytest.approx(
        share(k in row for row, k in zip(rows, truth, strict=True)), abs=1e-12
    )
    assert pippin.metrics.mean_size(sets) == pytest.approx(share(len(row) for row in rows), abs=1e-12)
    assert pippin.metrics.singleton_rate(sets) == pytest.approx(share(len(row) == 1 for row in rows), abs=1e-12)
    assert pippin.metrics.empty_rate(sets) == pytest.approx(share(not row for row in rows), abs=1e-12)


@every_naming
@given(cases())
def test_evaluate_returns_all_metrics(classes, case):
    """`evaluate` returns the metrics, and coverage by the sizes and classes that occur."""
    rows, truth = case
    pairs = list(zip(rows, truth, strict=True))
    sets, labels = make(rows, classes), [classes[k] for k in truth]
    result = pippin.evaluate(sets, labels)
    assert result.n == len(rows)
    assert result.coverage == pippin.metrics.coverage(sets, labels)
    assert result.mean_size == pippin.metrics.mean_size(sets)
    assert result.singleton_rate == pippin.metrics.singleton_rate(sets)
    assert result.empty_rate == pippin.metrics.empty_rate(sets)

    sizes = sorted({len(row) for row in rows})
    assert list(result.size_counts.items()) == [(s, sum(len(row) == s for row in rows)) for s in sizes]
    assert list(result.size_coverage) == sizes
    for size, value in result.size_coverage.items():
        assert value == pytest.approx(share(k in row for row, k in pairs if len(row) == size), abs=1e-12)

    present = sorted(set(truth))
    assert list(result.class_counts.items()) == [(classes[k], truth.count(k)) for k in present]
    assert list(result.class_coverage) == [classes[k] for k in present]
    for k in present:
        wanted = share(k in row for row, true in pairs if true == k)
        assert result.class_coverage[classes[k]] == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(
    ("rows", "truth", "wanted"),
    [
        ([[], [], []], [0, 1, 2], (0.0, 0.0, 0.0, 1.0)),
        ([[0, 1, 2, 3, 4]] * 2, [4, 0], (1.0, 5.0, 0.0, 0.0)),
        ([[3]], [3], (1.0, 1.0, 1.0, 0.0)),
        ([[0], [0], [0, 1], []], [0, 1, 1, 2], (0.5, 1.0, 0.5, 0.25)),
    ],
)
def test_known_numbers(rows, truth, wanted):
    """Metrics equal values computed by hand."""
    sets = make(rows, range(5))
    found = (
        pippin.metrics.coverage(sets, truth),
        pippin.metrics.mean_size(sets),
        pippin.metrics.singleton_rate(sets),
        pippin.metrics.empty_rate(sets),
    )
    assert found == wanted
    assert {type(value) for value in found} == {float}


def test_names_and_indices_give_equal_evaluations():
    """Labels may be names or indices where classes have text names."""
    sets = make([[0], [1, 0], [2]], NAMES["text"])
    assert pippin.evaluate(sets, [0, 1, 1]) == pippin.evaluate(sets, ["a", "b", "b"])


def test_evaluation_is_immutable():
    """Values are Python numbers, and fields cannot be assigned."""
    result = pippin.evaluate(make([[0], [1, 0]], NAMES["text"]), ["a", "b"])
    assert type(result.n) is int
    for counts in (result.size_counts, result.class_counts):
        assert {type(value) for value in counts.values()} == {int}
    for shares in (result.size_coverage, result.class_coverage):
        assert {type(value) for value in shares.values()} == {float}
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.coverage = 1.0


def test_an_evaluation_prints_as_a_table():
    """The table is aligned and omits classes and sizes that do not occur."""
    classes = ("crop", "narrow-leaved plantain", "soil", "weed")
    text = str(pippin.evaluate(make([[0], [1, 0], [], [1, 0]], classes), ["crop", "weed", "crop", classes[1]]))
    assert text.splitlines() == [
        "4 objects",
        "coverage     0.5000   share of sets that contain the true class",
        "size         1.2500   classes per set (efficiency in Melki et al. 2024)",
        "singletons   0.2500   share of sets with one class (informativeness in Melki et al. 2024)",
        "empty        0.2500   share of sets with no class",
        "sing. acc.   1.0000   share of singletons that contain the true class",
        "",
        "size    sets  coverage",
        "   0       1  0.0000",
        "   1       1  1.0000",
        "   2       2  0.5000",
        "",
        "class                   objects  coverage",
        "crop                          2  0.5000",
        "narrow-leaved plantain        1  1.0000",
        "weed                          1  0.0000",
    ]


@pytest.mark.parametrize("metric", [pippin.metrics.coverage, pippin.evaluate])
@pytest.mark.parametrize(
    ("labels", "words"), [([0], "Expected 2 labels"), ([0, 9], "Row 1 has the label 9"), (["a", "x"], "label 'x'")]
)
def test_invalid_labels_raise(metric, labels, words):
    """Labels are validated like those of `calibrate`."""
    with pytest.raises(ValueError, match=words):
        metric(make([[0], [1]], NAMES["text"]), labels)


@pytest.mark.parametrize("metric", [pippin.metrics.mean_size, pippin.metrics.singleton_rate, pippin.metrics.empty_rate])
def test_metrics_of_no_sets_raise(metric):
    """Metrics of no sets raise one sentence instead of returning NaN."""
    with pytest.raises(ValueError, match="at least one"):
        metric(make([[0], [1]], range(5))[:0])


@given(cases(), st.lists(st.sampled_from(["north", "south"]), min_size=12, max_size=12))
def test_classes_groups_and_sizes_against_loops(case, where):
    """Worst class, CovGap, SSCV and coverage per group equal plain loops."""
    rows, truth = case
    groups, hits = where[: len(rows)], [k in row for row, k in zip(rows, truth, strict=True)]
    result = pippin.evaluate(make(rows, tuple("abcde")), ["abcde"[k] for k in truth], groups=groups, alpha=0.2)

    def shares(kinds):
        return {one: share(h for h, kind in zip(hits, kinds, strict=True) if kind == one) for one in sorted(set(kinds))}

    by_class, by_group = shares(["abcde"[k] for k in truth]), shares(groups)
    by_stratum = shares([len(row) // 2 if len(row) < 4 else 2 for row in rows])
    assert result.group_coverage == pytest.approx(by_group)
    assert result.group_counts == {name: groups.count(name) for name in by_group}
    assert result.class_coverage[result.worst_class] == pytest.approx(min(by_class.values()))
    assert result.group_coverage[result.worst_group] == pytest.approx(min(by_group.values()))
    assert result.covgap == pytest.approx(np.mean([abs(value - 0.8) for value in by_class.values()]))
    assert result.sscv == pytest.approx(max(abs(value - 0.8) for value in by_stratum.values()))


def test_alpha_and_groups_add_lines_to_the_table():
    """Conditional metrics and a table of groups are added."""
    sets = make([[0], [1, 0], [2], []], NAMES["text"])
    text = str(pippin.evaluate(sets, ["a", "b", "b", "e"], groups=[2, 2, 7, 7], alpha=0.25))
    assert "worst class  0.0000   coverage of e" in text
    assert "worst group  0.0000   coverage of 7" in text
    assert "CovGap       0.4167   mean distance of the classes' coverage from 0.75" in text
    assert "SSCV         0.4167   largest distance from 0.75 over sizes 0–1, 2–3 and 4–5" in text
    assert "group  objects  coverage\n2            2  1.0000\n7            2  0.0000\n\nIt covers 50.0%" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": [1]}, "Expected 2 groups, one per row"),
        ({"groups": [0.5, 1.5]}, "all whole numbers or all text"),
        ({"alpha": 0}, "strictly between 0 and 1"),
    ],
)
def test_invalid_groups_and_levels_raise(options, message):
    with pytest.raises(ValueError, match=message):
        pippin.evaluate(make([[0], [1]], range(5)), [0, 1], **options)


def test_strata_of_set_sizes():
    """SSCV groups set sizes as 0 to 1, 2 to 3, 4 to 10, 11 to 100, and more."""
    sizes = np.array([0, 1, 2, 3, 4, 10, 11, 100, 101, 500])
    none = np.zeros(10, dtype=np.int64)
    counted = tally(sizes, sizes > 1, none, none, 1, 1)
    assert counted.strata.tolist() == [[2, 2, 2, 2, 2], [0, 2, 2, 2, 2]]


def test_aliases_are_the_same_functions():
    """The paper's names of metrics are aliases of the same functions."""
    assert pippin.metrics.efficiency is pippin.metrics.mean_size
    assert pippin.metrics.informativeness is pippin.metrics.singleton_rate


def test_measures_by_hand():
    """Singleton accuracy, CovGap and SSCV equal counts by hand, for sets of all five ranges of size."""
    rng = np.random.default_rng(0)
    mask = rng.random((400, 150)) < rng.choice([0.003, 0.015, 0.05, 0.2, 0.9], 400)[:, None]
    labels = rng.integers(0, 5, 400)
    mask[rng.random(400) < 0.8, :] |= np.eye(150, dtype=bool)[labels][rng.random(400) < 0.8][:1]
    sets, sizes = pippin.PredictionSets.from_mask(mask), mask.sum(axis=1)
    inside = mask[np.arange(400), labels]
    assert pippin.metrics.singleton_accuracy(sets, labels) == inside[sizes == 1].mean()
    gaps = [abs(inside[labels == k].mean() - 0.9) for k in range(5)]
    assert pippin.metrics.covgap(sets, labels, 0.1) == pytest.approx(np.mean(gaps))
    strata = [(0, 1), (2, 3), (4, 10), (11, 100), (101, 150)]
    chosen = [(sizes >= low) & (sizes <= high) for low, high in strata]
    violations = [abs(inside[part].mean() - 0.9) for part in chosen]
    assert all(part.any() for part in chosen)
    assert pippin.metrics.sscv(sets, labels, 0.1) == pytest.approx(max(violations))
    result = pippin.evaluate(sets, labels, alpha=0.1)
    assert result.singleton_accuracy == pippin.metrics.singleton_accuracy(sets, labels)
    assert (result.covgap, result.sscv) == (
        pippin.metrics.covgap(sets, labels, 0.1),
        pippin.metrics.sscv(sets, labels, 0.1),
    )


def test_no_singleton_has_no_accuracy():
    sets = make([[0, 1], []], NAMES["text"])
    assert np.isnan(pippin.metrics.singleton_accuracy(sets, [0, 1]))
    assert pippin.evaluate(sets, [0, 1]).singleton_accuracy is None


def test_a_predictor_is_evaluated_on_its_rows():
    """Evaluating a predictor equals evaluating its sets with its level and number of calibration rows."""
    data = pippin.load_example()
    predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "aps", classes=data.classes, seed=0)
    new, truth = data.probs[2000:], data.labels[2000:]
    found = pippin.evaluate(predictor, truth, probs=new, seed=3)
    sets = predictor.predict(new, seed=3)
    plain = pippin.evaluate(sets, truth, alpha=0.1, n_calibration=2000)
    for name in ("n", "coverage", "mean_size", "singleton_rate", "empty_rate", "covgap", "sscv", "n_calibration"):
        assert getattr(found, name) == getattr(plain, name)
    groups = np.arange(len(truth)) % 2
    assert set(pippin.evaluate(predictor, truth, probs=new, groups=groups, seed=3).group_coverage) == {0, 1}
    grouped = pippin.calibrate(
        data.probs[:2000], data.labels[:2000], "pip", classes=data.classes, groups=np.arange(2000) % 2
    )
    by_hand = pippin.metrics.coverage(grouped.predict(new, groups=groups), truth)
    assert pippin.evaluate(grouped, truth, probs=new, groups=groups).coverage == by_hand
    with pytest.raises(pippin.InputError, match="Expected probs= with a predictor, got none"):
        pippin.evaluate(predictor, truth)
    for options in ({"probs": new}, {"seed": 3}):
        with pytest.raises(pippin.InputError, match="= only with a predictor, got sets"):
            pippin.evaluate(sets, truth, **options)
