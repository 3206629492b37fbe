"""Statements of the documentation that are figures, equalities or names, checked."""

import importlib
import importlib.util
import inspect
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


def paper(text: str) -> set[str]:
    """Return the addresses of papers in a text."""
    return set(re.findall(r"https://(?:arxiv\.org|doi\.org|papers\.nips\.cc)/[^\s)>]+", text))


def referenced() -> dict[str, set[str]]:
    """Return the papers of every public name in the tables of references.md, without those in the theory pages only."""
    found: dict[str, set[str]] = {}
    for line in (DOCS / "references.md").read_text().splitlines():
        if line.startswith("|"):
            *_, place = line.strip("|").split("|")
            for name in re.findall(r"`(pippin\.[\w.]+)`", place):
                found.setdefault(name, set()).update(paper(line))
    return found


@pytest.mark.parametrize(("name", "papers"), referenced().items())
def test_the_reference_of_a_method_links_to_its_paper(name, papers):
    """Every paper of references.md is linked by the docstring of the function that the table names."""
    target = importlib.import_module("pippin")
    importlib.import_module("pippin.sklearn")
    for part in name.split(".")[1:]:
        target = getattr(target, part)
    linked = paper(inspect.getdoc(target) or "")
    assert papers <= linked, f"{name} does not link to {papers - linked}"


def test_every_method_has_a_paper():
    """The table names every score of the papers and every kind of guarantee, decision and stream."""
    methods = {
        f"pippin.scores.{name}" for name in ("ip", "margin", "aps", "raps", "pip", "repip", "saps", "socop", "topk")
    }
    methods |= {f"pippin.decisions.{name}" for name in ("calibrate", "select", "control_risk")}
    methods |= {f"pippin.online.{name}" for name in ("Monitor", "Stream", "RiskMonitor")}
    methods |= {
        f"pippin.shift.{name}"
        for name in ("label_ratios", "LabelRatios", "likelihood_ratios", "novelty", "discoveries")
    }
    methods |= {"pippin.metrics.covgap", "pippin.metrics.sscv", "pippin.calibrate", "pippin.sharpen", "pippin.plan"}
    methods |= {"pippin.ConformalPredictor.guarantee", "pippin.sklearn.estimate_ratios"}
    assert methods <= referenced().keys()
