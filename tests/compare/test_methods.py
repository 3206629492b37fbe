"""Methods: their spellings, and what they refuse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pippin
from pippin._compare.methods import parse_methods
from pippin._predictors.grouping import PER
from support.scores import EVERY_SCORE

methods = st.builds(pippin.Method, st.sampled_from(EVERY_SCORE), st.sampled_from((None, *PER)), st.booleans())


@given(methods)
def test_every_spelling_parses_back(method):
    assert pippin.parse_method(str(method)) == method
    assert pippin.parse_method(f"  {str(method).replace(' ', '  ')} ") == method


@pytest.mark.parametrize("score", EVERY_SCORE, ids=str)
def test_a_plain_method_is_spelled_like_its_score(score):
    assert str(pippin.Method(score)) == str(score)
    assert pippin.parse_method(score) == pippin.parse_method(str(score)) == pippin.Method(score)
    assert parse_methods([pippin.Method(score)]) == (score,)


@pytest.mark.parametrize(
    ("method", "spelling"),
    [
        (pippin.Method(pippin.pip(), "class"), "pip per class"),
        (pippin.Method(pippin.pip(), "group"), "pip per group"),
        (pippin.Method(pippin.repip(gamma=0.05), "class and group"), "repip(gamma=0.05) per class and group"),
        (pippin.Method(pippin.pip(), "cluster"), "pip per cluster"),
        (pippin.Method(pippin.pip(), "rc3p"), "pip rc3p"),
        (pippin.Method(pippin.pip(), nonempty=True), "pip nonempty"),
        (pippin.Method(pippin.pip(), "class", True), "pip per class nonempty"),
    ],
)
def test_known_spellings(method, spelling):
    assert str(method) == repr(method) == spelling
    assert pippin.parse_method(spelling) == method


def test_each_candidate_once_and_plain_ones_as_scores():
    given = ["pip", pippin.pip(), "pip per class", pippin.Method(pippin.pip(), "class"), pippin.Method(pippin.pip())]
    assert parse_methods(given) == (pippin.pip(), pippin.Method(pippin.pip(), "class"))
    assert parse_methods("pip per class") == parse_methods(pippin.Method(pippin.pip(), "class"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "pip per species",
            "Cannot read 'per species' in 'pip per species': after the score write sharpened",
        ),
        ("pip per", "Cannot read 'per'"),
        ("pip nonempty per class", "Cannot read 'nonempty per class'"),
        ("pip per rc3p", "Cannot read 'per rc3p'"),
        ("raps(lam=0.1) always", "Cannot read 'always'"),
        ("best per class", "Unknown score 'best'"),
        ("best per species", "Unknown score 'best'"),
        ("raps(lam=1 per class", "Cannot read the score"),
        ("per class", "Unknown score|Cannot read the score"),
        ("", "Cannot read the score ''"),
        (7, "Expected a score or its name, got int"),
    ],
)
def test_what_cannot_be_read_is_said(text, message):
    with pytest.raises(ValueError, match=message):
        pippin.parse_method(text)


def test_an_unknown_kind_is_said():
    with pytest.raises(ValueError, match=r"Expected per to be None or one of 'class', .* got 'species'"):
        pippin.Method(pippin.pip(), "species")
