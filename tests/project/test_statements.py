"""Statements of the documentation that are figures, equalities or names, checked."""

import importlib
import importlib.util
import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import pippin
import pippin.sklearn
from pippin.export.c_header import c_header

DOCS = Path(__file__).parents[2] / "docs"
COMPARISON = (DOCS / "comparison.md").read_text()


def names_of(library: str) -> list[str]:
    """Return the names in code that comparison.md lists for a library."""
    items = re.findall(rf"^- \*\*{library}\*\*: (.*?)(?=\n- |\n\n)", COMPARISON, re.DOTALL | re.MULTILINE)
    return [name for item in items for name in re.findall(r"`([\w.]+)(?:=\w*)?`", item)]


@pytest.mark.parametrize("library", ["MAPIE", "TorchCP", "crepes"])
def test_the_comparison_names_what_the_libraries_have(library):
    """Every class, function, argument and module in the column of a library is in its installed source."""
    spec = importlib.util.find_spec(library.lower())
    folder = Path(spec.origin).parent
    source = "\n".join(path.read_text() for path in folder.rglob("*.py"))
    defined = set(re.findall(r"^\s*(?:class|def) (\w+)", source, re.MULTILINE))
    defined |= set(re.findall(r"\b(\w+) ?=", source))
    modules = {".".join(path.relative_to(folder.parent).parts) for path in folder.rglob("*") if path.is_dir()}
    names = names_of(library)
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


DATA = pippin.load_example()
KNOWN, NEW = slice(0, 2000), slice(2000, None)


def test_a_smaller_alpha_removes_empty_sets():
    """IP has no empty sets at alpha = 0.1 and 0.15, and 19% at 0.3 (guarantees.md and questions.md)."""
    predictor = pippin.calibrate(DATA.probs[KNOWN], DATA.labels[KNOWN], "ip")
    rates = [pippin.metrics.empty_rate(predictor.at(alpha).predict(DATA.probs[NEW])) for alpha in (0.1, 0.15, 0.3, 0.4)]
    assert rates[:2] == [0, 0]
    assert round(rates[2], 2) == 0.19
    assert rates[3] > rates[2]


def test_an_empty_set_is_not_an_unknown_object():
    """The most probable class is correct for half of the empty sets of IP at alpha = 0.3 (guarantees.md)."""
    sets = pippin.calibrate(DATA.probs[KNOWN], DATA.labels[KNOWN], "ip", 0.3).predict(DATA.probs[NEW])
    correct = DATA.probs[NEW].argmax(axis=1) == DATA.labels[NEW]
    assert 0.45 < correct[sets.sizes == 0].mean() < 0.55


def test_no_score_is_best_everywhere():
    """SOCOP has smaller sets than RePIP at alpha = 0.05 and 0.01 (choosing.md and questions.md)."""
    for alpha, sizes, singletons in ((0.05, (2.99, 1.98), (0.56, 0.55)), (0.01, (5.90, 4.22), (0.00, 0.16))):
        summary = pippin.compare(DATA.probs, DATA.labels, ("repip", "socop"), alpha=alpha, splits=200).summary()
        assert tuple(summary["mean_size"].round(2)) == sizes
        assert tuple(summary["singleton_rate"].round(2)) == singletons


def test_nine_of_ten_scores_are_linear():
    """A score is linear if it is additive in the probabilities of a fixed order; SOCOP is not (scores.md)."""
    one, other = np.array([0.6, 0.3, 0.1]), np.array([0.5, 0.25, 0.25])
    nonlinear = set()
    for score in ("ip", "margin", "aps(randomized=False)", "raps(randomized=False)", "pip", "repip", "topk", "socop"):
        s1, s2, middle = (pippin.scores.score([p], None, score)[0] for p in (one, other, (one + other) / 2))
        if not np.allclose(middle, (s1 + s2) / 2):
            nonlinear.add(score)
    assert nonlinear == {"socop"}


def test_saps_uses_only_the_largest_probability_and_the_rank():
    """SAPS does not add up the probabilities above a class (shift.md)."""
    rows = [[0.4, 0.3, 0.2, 0.1], [0.4, 0.25, 0.25, 0.1]]
    first, second = pippin.scores.score(rows, None, "saps(randomized=False)")
    assert np.array_equal(first, second)


def test_training_rows_are_not_always_detected(recwarn):
    """A fitted estimator that does not store its rows is calibrated on them without a warning (questions.md)."""
    images, y = load_digits(return_X_y=True)
    images /= 16
    rng = np.random.default_rng(0)
    y = np.where(rng.random(len(y)) < 0.1, rng.integers(0, 10, len(y)), y)  # so that no estimator is always correct
    model = LogisticRegression(max_iter=3000).fit(images[:600], y[:600])
    head = pippin.sklearn.ConformalClassifier(model, "ip", 0.1, cv="prefit").fit(images[:600], y[:600])
    assert not [warning for warning in recwarn if "train" in str(warning.message)]
    assert pippin.metrics.coverage(head.predict_set(images[600:]), y[600:]) < 0.88


def results() -> dict[str, dict[str, tuple[float, float]]]:
    """Return mean size and singletons of each score in each run of results.md, by the accuracy in the heading."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for part in (DOCS / "results.md").read_text().split("\n### ")[1:]:
        rows = re.findall(r"^\| `(\w+)` \| [\d.]+ ± [\d.]+ \| ([\d.]+) ± [\d.]+ \| ([\d.]+)%", part, re.MULTILINE)
        heading = re.search(r"accuracy (0\.\d+)", part)
        if rows and heading:
            found[heading.group(1)] = {score: (float(size), float(rate)) for score, size, rate in rows}
    return found


def test_orderings_of_the_seedling_study():
    """The orderings that the last section of results.md names are those of its tables."""
    runs = results()
    short = {score: size for score, (size, _) in runs["0.772"].items()}
    assert min(short, key=short.__getitem__) == "ip"
    assert max(short, key=short.__getitem__) == "margin"
    assert short["pip"] < min(short["aps"], short["raps"])  # unlike the paper
    for accuracy in ("0.634", "0.849", "0.854", "0.772"):
        singletons = {score: rate for score, (_, rate) in runs[accuracy].items()}
        least = min(singletons[score] for score in ("margin", "pip", "repip"))
        assert least > max(singletons[score] for score in ("ip", "aps", "raps"))
        assert runs[accuracy]["repip"][0] <= runs[accuracy]["pip"][0]
        assert 0 <= round(singletons["pip"] - singletons["repip"], 1) <= 5  # scores.md
        if accuracy.startswith("0.8"):
            assert max(singletons, key=singletons.__getitem__) == "socop"


def test_u_is_always_an_argument_in_c():
    """pippin_predict in C takes u, also for a score that is not randomized (export.md)."""
    predictor = pippin.calibrate(DATA.probs[KNOWN], DATA.labels[KNOWN], "ip")
    header = c_header(predictor)
    assert re.search(r"pippin_predict\(const double \*\w+, double u,", header), header[:3000]


def test_the_table_of_scores_is_what_its_code_prints(capsys):
    """The code below the first table of sizes and singletons in choosing.md prints this table."""
    text = (DOCS / "choosing.md").read_text().partition("### Embedded example")[2]
    table, block = text.partition("```python\n")[0], text.partition("```python\n")[2].partition("```")[0]
    exec(block, {})
    printed: dict[str, list[str]] = {}
    for line in capsys.readouterr().out.splitlines():
        _, score, values = line.split(maxsplit=2)
        printed.setdefault(score, []).append(values)
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", table.replace("\xa0", " "), re.MULTILINE)
    assert {score: values.split(" | ") for score, values in rows} == printed
    assert len(printed) == 8


@pytest.mark.parametrize("page", [*DOCS.glob("*.md"), DOCS.parent / "README.md"], ids=lambda page: page.name)
def test_code_fits_the_column(page):
    """Lines of code blocks have at most 80 characters, which the site shows without scrolling at 1440 pixels."""
    blocks = re.findall(r"^```[^\n`]*\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    assert [line for block in blocks for line in block.splitlines() if len(line) > 80 and line[0] != ":"] == []
