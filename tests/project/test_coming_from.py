"""The page for users of MAPIE, TorchCP and crepes: its code blocks run, and their assertions hold."""

import re
from pathlib import Path

import pytest

from support import peers

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text()
SETUP, *PAIRS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def called(block: str) -> str:
    """Return an id for a code block, from its imports and its last assertion."""
    return f"{PAIRS.index(block):02d} " + ", ".join(re.findall(r"from (?:mapie|torchcp|crepes)\S* import (.*)", block))


@pytest.fixture(scope="module")
def rows():
    """Run the first code block of the page; return its names."""
    peers._torchcp()
    names: dict[str, object] = {}
    exec(SETUP, names)
    return names


@pytest.mark.filterwarnings("ignore:The 'temperature' parameter is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The value of quantile exceeds 1")
@pytest.mark.parametrize("block", PAIRS, ids=called)
def test_a_pair_of_calls(block, rows):
    """Run a code block, whose assertions compare a peer with pippin."""
    assert "assert" in block
    exec(block, dict(rows))


def test_the_page_has_every_pair():
    """Each package is represented by its most used functions."""
    page = "".join(PAIRS)
    for name in ("lac", "top_k", "aps", "raps"):
        assert f'conformity_score="{name}"' in page
    for name in (
        "CrossConformalClassifier",
        "LAC",
        "Margin",
        "APS",
        "RAPS",
        "SAPS",
        "hinge, margin",
        "class_cond=True",
    ):
        assert name in page
    for name in ("ClassConditional", "Clustered", "RC3P"):
        assert f"import {name}Predictor" in page
    for name in ("predict_p(", "predict_set(", ".evaluate(", "mc=dark", "class_cond=True"):
        assert name in page
