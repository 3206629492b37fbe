"""One name for one thing: what people read uses the words of the glossary, not the others that the field has."""

import re
from pathlib import Path

import pytest

from pippin._conformal.evaluation import GAPS, WORDS

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
TERMS = [term for found in re.findall(r"\*\*(.+?)\*\*", GLOSSARY, re.DOTALL) for term in [found.rstrip(".").lower()]]
READ = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.stem not in ("glossary", "coming-from")),
    *sorted((ROOT / "src" / "pippin" / "cli").rglob("*.py")),
    *sorted((ROOT / "src" / "pippin" / "cli").rglob("*.html")),
]
OTHERS = (
    *("nonconformity", "non-conformity", "miscoverage", "significance level", "confidence level", "error rate"),
    *("prediction region", "label-conditional", "mondrian", "q-hat", "abstain", "inefficiency", "informativity"),
)


@pytest.mark.parametrize("word", OTHERS)
def test_other_names_stay_in_the_glossary(word):
    assert [page.name for page in READ if word in page.read_text().lower()] == []


def test_every_measure_is_in_the_glossary():
    """By the word that tables and reports use, and by the paper's where there is one."""
    text = " ".join(GLOSSARY.split()).lower()
    for name, (word, _) in WORDS.items():
        assert any(word.rstrip("s") in term for term in TERMS), word
        assert name == "empty_rate" or name in text
    for name in GAPS:
        assert name.lower() in TERMS
        assert name in (ROOT / "README.md").read_text()


def test_terms_are_told_once():
    assert len(set(TERMS)) == len(TERMS)
    wanted = ("alpha, α", "coverage", "marginal", "exchangeable", "set", "size", "singleton", "score", "threshold")
    wanted = (*wanted, "quantile", "p-value", "calibration", "per class", "sscv", "covgap", "certificate", "drift")
    assert set(wanted) <= set(TERMS)
