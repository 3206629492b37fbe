"""Metrics: each one against a loop that a reader can check by eye."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pippin

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
def test_every_metric_is_its_definition(classes, case):
    """coverage, efficiency, informativeness and empty_rate, each as a plain loop."""
    rows, truth = case
    sets, labels = make(rows, classes), [classes[k] for k in truth]
    assert pippin.coverage(sets, labels) == pytest.approx(
        share(k in row for row, k in zip(rows, truth, strict=True)), abs=1e-12
    )
    assert pippin.efficiency(sets) == pytest.approx(share(len(row) for row in rows), abs=1e-12)
    assert pippin.informativeness(sets) == pytest.approx(share(len(row) == 1 for row in rows), abs=1e-12)
    assert pippin.empty_rate(sets) == pytest.approx(share(not row for row in rows), abs=1e-12)


@every_naming
@given(cases())
def test_evaluate_is_all_of_them(classes, case):
    """evaluate repeats the metrics and splits coverage by size and by class, of those that occur."""
    rows, truth = case
    pairs = list(zip(rows, truth, strict=True))
    sets, labels = make(rows, classes), [classes[k] for k in truth]
    result = pippin.evaluate(sets, labels)
    assert result.n == len(rows)
    assert result.coverage == pippin.coverage(sets, labels)
    assert result.efficiency == pippin.efficiency(sets)
    assert result.informativeness == pippin.informativeness(sets)
    assert result.empty_rate == pippin.empty_rate(sets)

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
    """Worked by hand, as plain floats."""
    sets = make(rows, range(5))
    found = (
        pippin.coverage(sets, truth),
        pippin.efficiency(sets),
        pippin.informativeness(sets),
        pippin.empty_rate(sets),
    )
    assert found == wanted
    assert {type(value) for value in found} == {float}


def test_names_and_indices_evaluate_alike():
    """Labels may be names or indices where classes have text names."""
    sets = make([[0], [1, 0], [2]], NAMES["text"])
    assert pippin.evaluate(sets, [0, 1, 1]) == pippin.evaluate(sets, ["a", "b", "b"])


def test_evaluation_is_plain_and_frozen():
    """Its numbers are Python's own, and nothing can be assigned."""
    result = pippin.evaluate(make([[0], [1, 0]], NAMES["text"]), ["a", "b"])
    assert type(result.n) is int
    for counts in (result.size_counts, result.class_counts):
        assert {type(value) for value in counts.values()} == {int}
    for shares in (result.size_coverage, result.class_coverage):
        assert {type(value) for value in shares.values()} == {float}
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.coverage = 1.0


def test_evaluation_reads_well():
    """A table for people: names in line with their numbers, absent classes and sizes left out."""
    classes = ("crop", "narrow-leaved plantain", "soil", "weed")
    text = str(pippin.evaluate(make([[0], [1, 0], [], [1, 0]], classes), ["crop", "weed", "crop", classes[1]]))
    assert text.splitlines() == [
        "4 objects",
        "coverage         0.5000   share of sets that contain the true class",
        "efficiency       1.2500   mean set size",
        "informativeness  0.2500   share of sets with one class",
        "empty            0.2500   share of sets with no class",
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


@pytest.mark.parametrize("metric", [pippin.coverage, pippin.evaluate])
@pytest.mark.parametrize(
    ("labels", "words"), [([0], "Expected 2 labels"), ([0, 9], "Row 1 has the label 9"), (["a", "x"], "label 'x'")]
)
def test_bad_labels(metric, labels, words):
    """Labels pass the same door as everywhere."""
    with pytest.raises(ValueError, match=words):
        metric(make([[0], [1]], NAMES["text"]), labels)


@pytest.mark.parametrize("metric", [pippin.efficiency, pippin.informativeness, pippin.empty_rate])
def test_no_sets_have_no_metrics(metric):
    """A share of nothing is an error with a sentence, not a NaN or a warning."""
    with pytest.raises(ValueError, match="at least one"):
        metric(make([[0], [1]], range(5))[:0])
