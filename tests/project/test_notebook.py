"""The notebook of first steps runs, and the last line of every cell has an HTML representation."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "examples" / "first_steps.ipynb"
STEPS = ("Load", "Calibrate", "Sets", "Explain", "Evaluate", "Compare", "Sweep", "Plan", "Decide", "Stream")


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """Run the notebook in an empty folder; return its cells with outputs."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.outputs for cell in notebook.cells if cell.cell_type == "code")  # stored without any
    NotebookClient(
        notebook, timeout=None, startup_timeout=3600, resources={"metadata": {"path": tmp_path_factory.mktemp("empty")}}
    ).execute()
    return notebook.cells


def test_there_are_ten_steps(executed):
    texts = [cell.source for cell in executed if cell.cell_type == "markdown"]
    assert [text.split("**")[1].rstrip(".") for text in texts if text.startswith("**")] == list(STEPS)
    assert sum(cell.cell_type == "code" for cell in executed) == len(STEPS)


@pytest.mark.parametrize("step", range(len(STEPS)), ids=STEPS)
def test_the_last_line_has_html(executed, step):
    """The last line of each step is shown as a table or a sentence, without printed output or warnings."""
    cell = [cell for cell in executed if cell.cell_type == "code"][step]
    (output,) = cell.outputs
    assert output.output_type == "execute_result"
    assert "<table" in output.data["text/html"]
    assert "object at 0x" not in output.data["text/plain"]
