"""Methods: their spellings, and invalid methods."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pippin
from pippin._compare.methods import parse_methods
from pippin._conformal.mondrian import PER
from pippin._theory.spelling import IpMs
from support.scores import EVERY_SCORE

methods = st.builds(pippin.scores.Method, st.sampled_from(EVERY_SCORE), st.sampled_from((None, *PER)), st.booleans())


@given(methods)
def test_every_spelling_parses_back(method):
    assert pippin.scores.parse_method(str(method)) == method
    assert pippin.scores.parse_method(f"  {str(method).replace(' ', '  ')} ") == method


@pytest.mark.parametrize("score", EVERY_SCORE, ids=str)
def test_a_plain_method_is_spelled_like_its_score(score):
    assert str(pippin.scores.Method(score)) == str(score)
    assert pippin.scores.parse_method(score) == pippin.scores.parse_method(str(score)) == pippin.scores.Method(score)
    assert parse_methods([pippin.scores.Method(score)]) == (score,)


@pytest.mark.parametrize(
    ("method", "spelling"),
    [
        (pippin.scores.Method(pippin.scores.pip(), "class"), "pip per class"),
        (pippin.scores.Method(pippin.scores.pip(), "group"), "pip per group"),
        (
            pippin.scores.Method(pippin.scores.repip(gamma=0.05), "class and group"),
            "repip(gamma=0.05) per class and group",
        ),
        (pippin.scores.Method(pippin.scores.pip(), "cluster"), "pip per cluster"),
        (pippin.scores.Method(pippin.scores.pip(), "interpolated"), "pip interpolated"),
        (
            pippin.scores.Method(pippin.scores.raps(lam=0.1), "interpolated(share=0.5)", True),
            "raps(lam=0.1) interpolated(share=0.5) nonempty",
        ),
        (pippin.scores.Method(pippin.scores.pip(), "rc3p"), "pip rc3p"),
        (pippin.scores.Method(pippin.scores.pip(), nonempty=True), "pip nonempty"),
        (pippin.scores.Method(pippin.scores.pip(), "class", True), "pip per class nonempty"),
        (pippin.scores.Method(pippin.scores.ip(), combination=IpMs()), "ip/ms"),
        (pippin.scores.Method(pippin.scores.ip(), combination=IpMs("sum")), "ip/ms(variant=sum)"),
        (
            pippin.scores.Method(pippin.scores.ip(), None, True, IpMs(fraction=0.25, share=0.5), True),
            "ip/ms(fraction=0.25, share=0.5) sharpened nonempty",
        ),
    ],
)
def test_known_spellings(method, spelling):
    assert str(method) == repr(method) == spelling
    assert pippin.scores.parse_method(spelling) == method


def test_duplicate_methods_are_removed():
    given = [
        "pip",
        pippin.scores.pip(),
        "pip per class",
        pippin.scores.Method(pippin.scores.pip(), "class"),
        pippin.scores.Method(pippin.scores.pip()),
    ]
    assert parse_methods(given) == (pippin.scores.pip(), pippin.scores.Method(pippin.scores.pip(), "class"))
    assert parse_methods("pip per class") == parse_methods(pippin.scores.Method(pippin.scores.pip(), "class"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "pip per species",
            "Cannot read 'per species' in 'pip per species': after the score write, each optional",
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
        ("ip/ms sum", r"Cannot read 'sum' in 'ip/ms sum': write ip/ms or ip/ms\(variant=sum\)"),
        ("ip/ms per class", "Cannot read 'per class'"),
        ("ip/ms(variant=most)", r"Cannot read the score 'ip/ms\(variant=most\)'"),
        ("ip/ms(variant='most')", "Expected the variant 'recalibrated', 'sum' or 'none', got 'most'"),
        ("ip/ms(fraction='half')", "Expected a fraction of the rows strictly between 0 and 1, got 'half'"),
        ("ip/ms(share=2)", "Expected a share of alpha above 0 and at most 1, got 2"),
        ("ip/ms(lam=1)", "The score ip/ms has no parameter 'lam': it takes variant, fraction and share"),
        (7, "Expected a score or its name, got int"),
    ],
)
def test_an_invalid_spelling_is_an_error(text, message):
    with pytest.raises(ValueError, match=message):
        pippin.scores.parse_method(text)


def test_the_combination_is_no_single_score():
    assert pippin.scores.parse_method(" IP/MS( variant = 'sum' ) ").combination == IpMs("sum")
    with pytest.raises(pippin.InputError, match=r"Cannot read the score 'ip/ms': it combines two scores"):
        pippin.scores.parse("ip/ms")
    with pytest.raises(pippin.InputError, match="Expected the score ip and no per for ip/ms, got pip and None"):
        pippin.scores.Method(pippin.scores.pip(), combination=IpMs())


def test_an_unknown_taxonomy_is_an_error():
    with pytest.raises(ValueError, match=r"Expected per to be None or one of 'class', .* got 'species'"):
        pippin.scores.Method(pippin.scores.pip(), "species")
