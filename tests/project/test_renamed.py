"""The table of renamed names in CHANGELOG.md contains every public name of 0.1, and its new names exist."""

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

import pippin

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "CHANGELOG.md").read_text().split("### Renamed")[1].split("\n### ")[0]
CELLS = [line.strip("| ").split(" | ") for line in TABLE.splitlines() if line.startswith("| ")][1:]
NAMES = [cells for cells in CELLS if cells[0].startswith("`")]  # others rename commands, columns and representations
KEPT, RENAMED = ([cells for cells in NAMES if (cells[1] == "unchanged") is same] for same in (True, False))


def codes(cell):
    return re.findall(r"`([^`]+)`", cell)


def resolved(name):
    """Return the object of a dotted name below `pippin`; None for a field without a default."""
    found = pippin
    for part in name.split("."):
        if dataclasses.is_dataclass(found) and part in {field.name for field in dataclasses.fields(found)}:
            return None
        found = getattr(found, part)
    return found


def test_the_table_has_two_columns():
    assert len(CELLS) > 40
    assert {len(cells) for cells in CELLS} == {2}


def test_every_name_of_the_first_version_is_in_the_first_column():
    old = {re.split(r"[.(]", code)[0] for cells in NAMES for code in codes(cells[0])}
    exported = (ROOT / "tests" / "data" / "exported.txt").read_text().split()
    assert len(exported) == 87
    assert sorted(set(exported) - old) == []


@pytest.mark.parametrize("name", [name for cells in KEPT for name in codes(cells[0])])
def test_unchanged_names_exist(name):
    assert hasattr(pippin, name)


@pytest.mark.parametrize("call", sorted({code for _, new in RENAMED for code in codes(new) if code[0].isalpha()}))
def test_new_names_exist(call):
    """Keywords in parentheses are in the signature."""
    name, _, arguments = call.partition("(")
    found = resolved(name)
    keywords = re.findall(r"(?:^|, )(\w+)=", re.sub(r'"[^"]*"', "", arguments))
    if keywords:
        assert set(keywords) <= set(inspect.signature(found).parameters)


def test_old_names_are_gone():
    """Renamed or removed names are not attributes of `pippin`."""
    old = {code for cells in RENAMED for code in codes(cells[0]) if code.isidentifier()}
    kept = {code for _, new in RENAMED for code in codes(new)}
    assert [name for name in sorted(old - kept) if hasattr(pippin, name)] == []
