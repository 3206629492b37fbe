"""The page for those who come from MAPIE, TorchCP or crepes: every block runs, and its assertions hold."""

import re
from pathlib import Path

import pytest

from support import peers

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text()
SETUP, *PAIRS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def called(block: str) -> str:
    """A block by what it imports from the peer and by the last thing that it asserts."""
    return f"{PAIRS.index(block):02d} " + ", ".join(re.findall(r"from (?:mapie|torchcp|crepes)\S* import (.*)", block))


@pytest.fixture(scope="module")
def rows():
    """What the page's first block defines; TorchCP is imported without what no score needs."""
    peers._torchcp()
    names: dict[str, object] = {}
    exec(SETUP, names)
    return names


@pytest.mark.filterwarnings("ignore:The 'temperature' parameter is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The value of quantile exceeds 1")
@pytest.mark.parametrize("block", PAIRS, ids=called)
def test_a_pair_of_calls(block, rows):
    """Theirs, ours, and what the page says of the two."""
    assert "assert" in block
    exec(block, dict(rows))


def test_the_page_has_every_pair():
    """What people call most, of each package."""
    told = "".join(PAIRS)
    for name in ("lac", "top_k", "aps", "raps"):
        assert f'conformity_score="{name}"' in told
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
        assert name in told
    for name in ("ClassConditional", "Clustered", "RC3P"):
        assert f"import {name}Predictor" in told
    for name in ("predict_p(", "predict_set(", ".evaluate(", "mc=dark", "class_cond=True"):
        assert name in told
