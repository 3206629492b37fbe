"""Version, changelog and citation name the same release."""

import re
import shutil
from pathlib import Path

import pytest

import pippin
from support.release_check import EXTRAS, ROOT, agreement

FILES = ("src/pippin/_runtime/version.py", "CHANGELOG.md", "CITATION.cff")


def test_version_changelog_and_citation_agree():
    assert agreement() == pippin.__version__


def test_citations_name_the_version():
    for name in ("README.md", "docs/citing.md"):
        assert f"version = {{{pippin.__version__}}}" in (ROOT / name).read_text()


@pytest.mark.parametrize("wrong", FILES)
def test_differences_are_reported(wrong, tmp_path):
    for name in FILES:
        copy = tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy)
    (tmp_path / wrong).write_text((ROOT / wrong).read_text().replace(pippin.__version__, "9.9.9"))
    with pytest.raises(AssertionError, match=r"CITATION.cff say .*9\.9\.9"):
        agreement(tmp_path)


def test_extras_exist():
    """Extras of the release check are in pyproject.toml."""
    text = Path(ROOT / "pyproject.toml").read_text()
    assert all(f"\n{extra} = [" in text for extra in EXTRAS.values())


def test_workflows_name_files_that_exist():
    text = "".join(path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml"))
    named = re.findall(r"(?<![\w/])(?:tests|src|docs)/[\w/.-]+", text)
    assert len(named) > 10
    assert [path for path in named if not (ROOT / path).exists()] == []
