"""Settings of Hypothesis, and fixtures that several files use."""

import os
import shlex
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from pippin.cli import main

settings.register_profile(
    "laws", deadline=None, max_examples=40, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.register_profile("thorough", parent=settings.get_profile("laws"), max_examples=2000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "laws"))

# Child processes import `support` too.
os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])

os.environ["SOURCE_DATE_EPOCH"] = "1763474602"  # the date in files, for every test and its child processes

collect_ignore = ["support/small_parts.py"]  # changes pieces for the process that imports it


@pytest.fixture
def call(monkeypatch, capsys):
    """Return a function that runs a command in this process: text → (exit code, standard output, standard error)."""

    def run_here(line):
        monkeypatch.setattr(sys, "argv", ["pippin", *shlex.split(line)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        return int(caught.value.code or 0), *capsys.readouterr()

    return run_here


@pytest.fixture
def no_figures(monkeypatch):
    """Hide Matplotlib, since drawing takes seconds, in tests that do not look at figures."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.fixture
def blank_figures(monkeypatch):
    """Replace the files of figures by blank ones, in tests that do not look at figures."""
    from pippin.cli.report import figures

    blank = {kind: figures.rendered(figures.new_figure(1, 1), kind) for kind in ("png", "svg")}
    monkeypatch.setattr(figures, "rendered", lambda figure, kind: blank[kind])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Change to a folder with `cli_data` in every format."""
    from support.cli_data import write_data

    monkeypatch.chdir(tmp_path)
    write_data(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Make nine small photographs in the layout of WE3DS; return (folder, masks)."""
    from support.we3ds_tree import SMALL, made_files, write_folder

    files, masks = made_files(range(9), SMALL)
    return write_folder(tmp_path_factory.mktemp("photographs"), files), masks


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Make eighty windows of ten photographs, in four classes."""
    from support.synthetic_images import make_images

    return make_images(tmp_path_factory.mktemp("images"), 80, size=24, photos=10)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Make a folder of weights of a very small network."""
    from support.small_training import make_weights

    return make_weights(tmp_path_factory.mktemp("weights"))


@pytest.fixture
def one_thread(monkeypatch):
    """Use a single thread, since tests of training that run in parallel would wait for each other."""
    monkeypatch.setenv("PIPPIN_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def report(tmp_path_factory):
    """Write the report of the embedded example, with some class names that need escaping."""
    from support.synthetic_report import nasty_report

    return nasty_report(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def browser():
    """Start one browser for all tests of a file."""
    from support.browser import open_browser

    with open_browser() as found:
        yield found


@pytest.fixture(scope="module")
def tabs(browser):
    """Open a pool of tabs for all tests of a file."""
    from support.browser import Tabs

    return Tabs(browser)


@pytest.fixture
def visit(tabs):
    """Return a function that opens a page; at the end, check that no page made a network request or logged an error."""
    pages = []

    def opened(path, width=1200, height=900, ready="#scatter svg", **settings):
        page = tabs.take(width, height, **settings)
        pages.append(page)
        page.goto(path.as_uri())
        page.wait_for_selector(ready)
        return page

    yield opened
    for page in pages:
        tabs.leave(page)
    assert tabs.new_complaints() == []
