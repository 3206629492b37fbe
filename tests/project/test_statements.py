"""Statements of the documentation that are figures, equalities or names, checked."""

import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def column(library: str) -> list[str]:
    """Return the names in code in one column of the tables of comparison.md."""
    names: list[str] = []
    text = (DOCS / "comparison.md").read_text()
    for table in re.findall(r"^\| \| pippin .*?(?=\n\n)", text, re.DOTALL | re.MULTILINE):
        header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
        for row in rows:
            names += re.findall(r"`([\w.]+)(?:=\w*)?`", row[header.index(library)])
    return names


@pytest.mark.parametrize("library", ["MAPIE", "TorchCP", "crepes"])
def test_the_comparison_names_what_the_libraries_have(library):
    """Every class, function, argument and module in the column of a library is in its installed source."""
    spec = importlib.util.find_spec(library.lower())
    folder = Path(spec.origin).parent
    source = "\n".join(path.read_text() for path in folder.rglob("*.py"))
    defined = set(re.findall(r"^\s*(?:class|def) (\w+)", source, re.MULTILINE))
    defined |= set(re.findall(r"\b(\w+) ?=", source))
    modules = {".".join(path.relative_to(folder.parent).parts) for path in folder.rglob("*") if path.is_dir()}
    names = column(library)
    assert len(names) > 5
    assert [name for name in names if name not in defined | modules] == []
