"""Every script in examples/ runs by itself and says something."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_example_runs(script, tmp_path):
    """In an empty folder, from anywhere, with a readable result and no warning."""
    env = {**os.environ, "PYTHONWARNINGS": "error::UserWarning"}
    ran = subprocess.run([sys.executable, script], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert ran.stdout.strip()


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_example_is_short(script):
    """It begins with a sentence on what it shows, and fits on a screen."""
    text = script.read_text()
    assert text.startswith('"""')
    assert len(text.splitlines()) <= 40


def test_there_are_examples():
    """The folder was found."""
    assert {"digits_forest", "table_boosting"} <= {script.stem for script in EXAMPLES}
