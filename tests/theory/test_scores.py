"""Scores as values: their spelling, their parameters, and the public names."""

import dataclasses
import inspect
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pippin

SIZES = st.floats(0, 1e300)  # values of parameters
COUNTS = st.integers(0, 10**12)
VECTORS = st.lists(SIZES, min_size=1, max_size=6)
SCORES = st.one_of(
    st.sampled_from([pippin.scores.ip(), pippin.scores.margin(), pippin.scores.topk()]),
    st.builds(pippin.scores.aps, st.booleans()),
    st.builds(pippin.scores.raps, SIZES, COUNTS, st.booleans()),
    st.builds(pippin.scores.pip, SIZES),
    st.builds(pippin.scores.repip, SIZES, COUNTS, SIZES),
    st.builds(pippin.scores.saps, SIZES, st.booleans()),
    st.builds(pippin.scores.socop, SIZES),
    st.builds(pippin.scores.linear, VECTORS, VECTORS.map(sorted)),
)


@given(SCORES)
def test_every_spelling_parses_to_its_score(score):
    """str(score) parses to the same score, each parameter with the same bits and type."""
    back = pippin.scores.parse(str(score))
    assert back == score
    assert hash(back) == hash(score)
    assert repr(back.parameters) == repr(score.parameters)


@pytest.mark.parametrize(
    ("score", "spelling"),
    [
        (pippin.scores.ip(), "ip"),
        (pippin.scores.margin(), "margin"),
        (pippin.scores.topk(), "topk"),
        (pippin.scores.aps(), "aps"),
        (pippin.scores.aps(randomized=False), "aps(randomized=False)"),
        (pippin.scores.raps(), "raps"),
        (pippin.scores.raps(lam=1, k_reg=0), "raps(lam=1, k_reg=0)"),
        (pippin.scores.pip(beta=0), "pip(beta=0)"),
        (pippin.scores.repip(gamma=0.1 + 0.2), "repip(gamma=0.30000000000000004)"),
        (pippin.scores.repip(k_reg=5.0), "repip(k_reg=5)"),
        (pippin.scores.saps(lam=0.5, randomized=False), "saps(lam=0.5, randomized=False)"),
        (pippin.scores.socop(), "socop"),
        (pippin.scores.socop(mu=1e300), "socop(mu=1e+300)"),
        (pippin.scores.socop(mu=5e-324), "socop(mu=5e-324)"),
        (pippin.scores.linear([1, 0.5]), "linear(weights=(1, 0.5))"),
        (pippin.scores.linear(np.array([1.0]), (0, 1)), "linear(weights=(1,), penalties=(0, 1))"),
    ],
)
def test_spellings(score, spelling):
    """Only parameters that differ from the defaults are spelled."""
    assert str(score) == repr(score) == spelling
    assert pippin.scores.parse(spelling) == score


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("  ip  ", pippin.scores.ip()),
        ("ip()", pippin.scores.ip()),
        ("raps( k_reg = 2 , lam=1e-2 )", pippin.scores.raps(0.01, 2)),
        ("linear(weights=[1, 0])", pippin.scores.linear((1, 0))),
        (pippin.scores.pip(2), pippin.scores.pip(2)),
    ],
)
def test_other_ways_to_write_a_score(text, score):
    """Spaces, brackets and order are free; a Score is returned as it is."""
    assert pippin.scores.parse(text) == score


UNREADABLE = r"Cannot read the score .*write a name or name\(parameter=value\), like repip\(gamma=0.05\)"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", UNREADABLE),
        ("   ", UNREADABLE),
        ("repip(", UNREADABLE),
        ("repip(0.05)", UNREADABLE),
        ("repip(*[1])", UNREADABLE),
        ("repip(**{'gamma': 1})", UNREADABLE),
        ("repip(gamma)", UNREADABLE),
        ("repip(gamma=1, gamma=2)", UNREADABLE),
        ("repip(gamma=x)", UNREADABLE),
        ("repip(gamma=float('1'))", UNREADABLE),
        ("repip(gamma=__import__('os').getpid())", UNREADABLE),
        ("__import__('os')", UNREADABLE),
        ("__import__('os').system('true')", UNREADABLE),
        ("pip(beta=pip(beta=1))", UNREADABLE),
        ("ip()()", UNREADABLE),
        ("pippin.scores.ip()", UNREADABLE),
        ("ip, margin", UNREADABLE),
        ("ip; margin", UNREADABLE),
        ("lambda: ip", UNREADABLE),
        ("'ip'", UNREADABLE),
        ("ip\0", UNREADABLE),
        ("(" * 10_000, UNREADABLE),
        ("repip(gamma=" + "-" * 10_000 + "1)", UNREADABLE),
        ("repips", r"Unknown score 'repips': expected one of ip, margin, aps, raps, pip, repip, saps, topk, socop"),
        ("IQ", r"Unknown score 'IQ'"),
        ("print(sep=1)", r"Unknown score 'print'"),
        ("repip(lam=1)", r"The score repip has no parameter 'lam': it takes gamma, k_reg, beta"),
        ("ip(beta=1)", r"The score ip has no parameter 'beta': it takes no parameters"),
        ("repip(gamma=-1)", r"The score repip needs gamma to be a finite number of at least 0, got -1"),
        ("repip(gamma=1e999)", r"needs gamma to be a finite number of at least 0, got inf"),
        ("repip(gamma=1" + "0" * 400 + ")", r"needs gamma to be a finite number"),
        ("repip(gamma='1')", r"needs gamma to be a finite number of at least 0, got '1'"),
        ("repip(gamma=True)", r"needs gamma to be a finite number of at least 0, got True"),
        ("repip(gamma=1j)", r"needs gamma to be a finite number of at least 0, got 1j"),
        ("repip(k_reg=2.5)", r"needs k_reg to be a whole number of at least 0, got 2.5"),
        ("raps(randomized=1)", r"The score raps needs randomized to be True or False, got 1"),
        ("linear", r"The score linear needs weights to be one or more finite numbers, none negative, got \(\)"),
        ("linear(weights=1)", r"needs weights to be one or more finite numbers, none negative, got 1"),
        ("linear(weights={})", r"needs weights to be one or more finite numbers, none negative, got {}"),
        (None, r"Expected a score or its name, got NoneType: pass for example 'repip'"),
        (3, r"Expected a score or its name, got int"),
        (b"ip", r"Expected a score or its name, got bytes"),
        (pippin.scores.ip, r"Expected a score or its name, got function"),
    ],
    ids=lambda value: repr(value)[:40].split(" at ")[0],
)
def test_invalid_spellings_raise(text, words):
    """Text is not evaluated, and the error states the valid form."""
    with pytest.raises(ValueError, match=words):
        pippin.scores.parse(text)
    with pytest.raises(ValueError, match=words):
        pippin.calibrate([[0.5, 0.5]] * 20, [0] * 20, text)


NUMBER = r"a finite number of at least 0, got "


@pytest.mark.parametrize(
    ("make", "words"),
    [
        *[
            (lambda v=v: pippin.scores.repip(gamma=v), "repip needs gamma to be " + NUMBER)
            for v in (-1, math.nan, math.inf)
        ],
        (lambda: pippin.scores.repip(beta=-0.5), "repip needs beta to be " + NUMBER + "-0.5"),
        (lambda: pippin.scores.pip(beta=None), "pip needs beta to be " + NUMBER + "None"),
        (lambda: pippin.scores.pip(beta=np.array([1.0])), "pip needs beta to be " + NUMBER),
        (lambda: pippin.scores.raps(lam="0.1"), "raps needs lam to be " + NUMBER + "'0.1'"),
        (lambda: pippin.scores.saps(lam=-1), "saps needs lam to be " + NUMBER + "-1"),
        (lambda: pippin.scores.socop(mu=-1e-9), "socop needs mu to be " + NUMBER + "-1e-09"),
        (lambda: pippin.scores.socop(mu=10**400), "socop needs mu to be " + NUMBER),
        (lambda: pippin.scores.raps(k_reg=-1), "raps needs k_reg to be a whole number of at least 0, got -1"),
        (lambda: pippin.scores.raps(k_reg=True), "raps needs k_reg to be a whole number of at least 0, got True"),
        (lambda: pippin.scores.repip(k_reg=math.inf), "repip needs k_reg to be a whole number of at least 0, got inf"),
        (lambda: pippin.scores.aps(randomized=0), "aps needs randomized to be True or False, got 0"),
        (lambda: pippin.scores.saps(randomized="no"), "saps needs randomized to be True or False, got 'no'"),
        (lambda: pippin.scores.linear([]), "linear needs weights to be one or more finite numbers, none negative"),
        (lambda: pippin.scores.linear([1, -1]), "linear needs weights to be one or more finite numbers, none negative"),
        (lambda: pippin.scores.linear([1, math.nan]), "linear needs weights"),
        (lambda: pippin.scores.linear([[1, 2]]), "linear needs weights"),
        (lambda: pippin.scores.linear("12"), "linear needs weights"),
        (lambda: pippin.scores.linear([1], [1, 0]), "linear needs penalties to be .*none smaller than the one before"),
        (lambda: pippin.scores.linear([1], []), "linear needs penalties"),
        (
            lambda: pippin.scores.raps().replace(gamma=1),
            r"The score raps has no parameter 'gamma': it takes lam, k_reg",
        ),
        (lambda: pippin.scores.raps().replace(lam=-1), "raps needs lam to be " + NUMBER + "-1"),
    ],
)
def test_parameters_out_of_range(make, words):
    """Invalid values raise when the score is created."""
    with pytest.raises(ValueError, match=words):
        make()


def test_parameters_take_their_canonical_type():
    """NumPy's numbers, whole floats and lists are the same score as Python's own."""
    assert repr(pippin.scores.repip(np.float64(1), np.int64(2), np.int32(3)).parameters) == repr(
        (("gamma", 1.0), ("k_reg", 2), ("beta", 3.0))
    )
    assert pippin.scores.raps(k_reg=3.0, randomized=np.True_) == pippin.scores.raps()
    assert (
        pippin.scores.linear([1, 0])
        == pippin.scores.linear(np.array([1.0, 0.0]))
        == pippin.scores.linear((1, 0), penalties=[0])
    )
    assert pippin.scores.repip(gamma=np.float32(0.1)) != pippin.scores.repip(gamma=0.1)


def test_replace_changes_only_the_named_parameters():
    """`replace` returns a new score and does not change the first."""
    first = pippin.scores.repip(gamma=0.5, k_reg=1)
    assert first.replace(beta=2) == pippin.scores.repip(0.5, 1, 2)
    assert first.replace() == first == pippin.scores.repip(0.5, 1)


def test_scores_are_hashable_and_comparable():
    """Equal scores are equal keys, and fields cannot be assigned."""
    assert (
        len(
            {
                pippin.scores.pip(),
                pippin.scores.pip(1),
                pippin.scores.parse("pip"),
                pippin.scores.pip(2),
                pippin.scores.repip(),
            }
        )
        == 3
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        pippin.scores.pip().name = "ip"
    with pytest.raises(dataclasses.FrozenInstanceError):
        pippin.scores.pip().parameters = ()
    weights = np.array([1.0, 0.5])
    score = pippin.scores.linear(weights)
    weights[0] = 0
    assert score == pippin.scores.linear((1, 0.5))


def test_randomized_scores():
    """APS, RAPS and SAPS are randomized, except with randomized=False."""
    makers = (
        pippin.scores.ip,
        pippin.scores.margin,
        pippin.scores.pip,
        pippin.scores.repip,
        pippin.scores.topk,
        pippin.scores.socop,
    )
    assert not any(make().randomized for make in makers)
    for make in (pippin.scores.aps, pippin.scores.raps, pippin.scores.saps):
        assert make().randomized
        assert not make(randomized=False).randomized


def test_the_papers_scores():
    """The six scores of the paper, in its order, with λ = γ = 0.02, k_reg = 3 and β = 1."""
    assert [(score.name, dict(score.parameters)) for score in pippin.scores.PAPER] == [
        ("ip", {}),
        ("margin", {}),
        ("aps", {"randomized": True}),
        ("raps", {"lam": 0.02, "k_reg": 3, "randomized": True}),
        ("pip", {"beta": 1.0}),
        ("repip", {"gamma": 0.02, "k_reg": 3, "beta": 1.0}),
    ]


def test_all_lists_existing_names():
    """`__all__` names everything public, once; besides it there are only submodules."""
    public = {name for name in dir(pippin) if not name.startswith("_")}
    values = {name for name in public if not inspect.ismodule(getattr(pippin, name))}
    assert values == set(pippin.__all__)
    assert len(pippin.__all__) == len(values)
    modules = [getattr(pippin, name) for name in public - values]
    assert all(module.__name__.startswith("pippin.") for module in modules)
    imported = {}
    exec("from pippin import *", imported)
    assert values <= set(imported)
