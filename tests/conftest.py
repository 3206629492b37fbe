"""What many tests share: every score, rows of every awkward kind, and fixtures of more than one file."""

import os
import shlex
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import pippin
from pippin.cli import main

EVERY_SCORE = (
    *pippin.PAPER_SCORES,
    pippin.aps(randomized=False),
    pippin.raps(lam=0.3, k_reg=1, randomized=False),
    pippin.pip(beta=0),
    pippin.pip(beta=0.5),
    pippin.pip(beta=40),
    pippin.repip(gamma=0.5, k_reg=0, beta=2),
    pippin.saps(),
    pippin.saps(lam=0.02, randomized=False),
    pippin.topk(),
    pippin.socop(),
    pippin.socop(mu=0),
    pippin.socop(mu=0.7),
    pippin.linear(weights=(1, 0.5, 0.25, 0), penalties=(0, 0, 0.01)),
)
every_score = pytest.mark.parametrize("score", EVERY_SCORE, ids=str)

settings.register_profile(
    "laws", deadline=None, max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.register_profile("thorough", parent=settings.get_profile("laws"), max_examples=2000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "laws"))


def made_rows(kind: str, n: int, n_classes: int, seed: int) -> np.ndarray:
    """Rows of probabilities in float64: spread, tied, sparse, (nearly) certain or all equal."""
    rng = np.random.default_rng(seed)
    if kind == "spread":
        p = rng.dirichlet(np.full(n_classes, 0.3), n) + 1e-12
    elif kind == "peaked":
        p = np.exp(rng.normal(0, 4, (n, n_classes)))
    elif kind == "tied":
        p = rng.integers(1, 4, (n, n_classes)).astype(float)
    elif kind == "zeros":
        p = rng.integers(0, 3, (n, n_classes)) * (rng.random((n, n_classes)) < 0.3) + 0.0
        p[np.arange(n), rng.integers(0, n_classes, n)] += 1
    elif kind == "equal":
        p = np.ones((n, n_classes))
    else:
        p = np.zeros((n, n_classes))
        p[np.arange(n), rng.integers(0, n_classes, n)] = 1
        if kind == "almost certain":
            p += 10.0 ** rng.integers(-20, -3, (n, n_classes))
    return p / p.sum(axis=1, keepdims=True)


KINDS = ("spread", "peaked", "tied", "zeros", "equal", "certain", "almost certain")


@st.composite
def probabilities(draw, sizes=(2, 3, 5, 12, 70, 1000), max_rows=8):
    """(probs, labels): a few rows of one kind, in float32 or float64, with labels at any rank."""
    n_classes = draw(st.sampled_from(sizes))
    n = draw(st.integers(1, max_rows))
    seed = draw(st.integers(0, 2**32 - 1))
    probs = made_rows(draw(st.sampled_from(KINDS)), n, n_classes, seed)
    probs = probs.astype(draw(st.sampled_from((np.float32, np.float64))))
    rng = np.random.default_rng(seed + 1)
    order = np.argsort(-probs, axis=1, kind="stable")
    rank = np.minimum(rng.geometric(draw(st.sampled_from((0.02, 0.4))), n) - 1, n_classes - 1)
    return probs, order[np.arange(n), rank]


@pytest.fixture
def call(monkeypatch, capsys):
    """A command in this process, as typed: (exit code, standard output, standard error)."""

    def run_here(line):
        monkeypatch.setattr(sys, "argv", ["pippin", *shlex.split(line)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        return int(caught.value.code or 0), *capsys.readouterr()

    return run_here


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with `cli_data` in every format."""
    from cli_data import write_data

    monkeypatch.chdir(tmp_path)
    write_data(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Nine small photographs in the layout of WE3DS: (folder, masks)."""
    from we3ds_tree import SMALL, made_files, write_folder

    files, masks = made_files(range(9), SMALL)
    return write_folder(tmp_path_factory.mktemp("photographs"), files), masks


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Eighty windows of ten photographs, in four classes."""
    from made_images import make_images

    return make_images(tmp_path_factory.mktemp("images"), 80, size=24, photos=10)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A folder of weights of a very small network."""
    from small_training import make_weights

    return make_weights(tmp_path_factory.mktemp("weights"))


@pytest.fixture
def one_thread(monkeypatch):
    """Tests of training that run beside each other would wait for each other."""
    monkeypatch.setenv("PIPPIN_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def report(tmp_path_factory):
    """The embedded example's report, some of its classes renamed to be nasty."""
    from made_report import nasty_report

    return nasty_report(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def browser():
    """One browser for all tests of a file."""
    from browser import open_browser

    with open_browser() as found:
        yield found


@pytest.fixture
def visit(browser):
    """Opens a page; at the end nothing may have been asked of the network nor complained about."""
    contexts, complaints = [], []

    def asked(route):
        if not route.request.url.startswith(("file:", "data:")):
            complaints.append(route.request.url)
        route.continue_() if route.request.url.startswith("file:") else route.abort()

    def opened(path, width=1200, height=900, **settings):
        context = browser.new_context(viewport={"width": width, "height": height}, **settings)
        contexts.append(context)
        context.route("**/*", asked)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path.as_uri())
        page.wait_for_selector("#scatter svg")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
