"""The glossary contains every measure and term once."""

import re
from pathlib import Path

from pippin._conformal.evaluation import GAPS, WORDS

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
TERMS = [term for found in re.findall(r"\*\*(.+?)\*\*", GLOSSARY, re.DOTALL) for term in [found.rstrip(".").lower()]]


def test_every_measure_is_in_the_glossary():
    """Every measure is in the glossary, by the word of tables and by the paper's word, if there is one."""
    text = " ".join(GLOSSARY.split()).lower()
    for name, (word, _) in WORDS.items():
        assert any(word.rstrip("s") in term for term in TERMS), word
        assert name == "empty_rate" or name in text
    for name in GAPS:
        assert name.lower() in TERMS
        assert name in (ROOT / "README.md").read_text()


def test_terms_are_unique():
    assert len(set(TERMS)) == len(TERMS)
    wanted = ("alpha, α", "coverage", "marginal", "exchangeable", "set", "size", "singleton", "score", "threshold")
    wanted = (*wanted, "quantile", "p-value", "calibration", "per class", "sscv", "covgap", "certificate", "drift")
    assert set(wanted) <= set(TERMS)
