"""Every script in examples/ runs by itself and prints a result."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_example_runs(script, tmp_path):
    """Each script runs in an empty folder, and prints a result without warnings."""
    env = {**os.environ, "PYTHONWARNINGS": "error::UserWarning"}
    ran = subprocess.run([sys.executable, script], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert ran.stdout.strip()


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_example_is_short(script):
    """Each script begins with a sentence on what it shows, and fits on a screen."""
    text = script.read_text()
    assert text.startswith('"""')
    assert len(text.splitlines()) <= 40


def test_there_are_examples():
    """The list of scripts is not empty."""
    assert {"digits_forest", "table_boosting"} <= {script.stem for script in EXAMPLES}
