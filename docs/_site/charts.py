"""Draw the charts of the study of seedlings from the tables on its page: `python docs/_site/charts.py`."""

import re
from itertools import dropwhile, takewhile
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from gallery_style import CYCLE, fresh

DOCS = Path(__file__).parents[1]
CHARTS = DOCS / "_static" / "charts"
RUNS = ("0.634", "0.772", "0.849")
GUARANTEES = ("marginal", "per cluster", "per class", "rc3p")
SCORES = ("ip", "margin", "aps", "raps", "pip", "repip", "socop")


def read_table(page: str, heading: str) -> list[dict[str, str]]:
    """Return the first table below a heading as a list of rows."""
    lines = page.split(heading, 1)[1].splitlines()
    later = dropwhile(lambda line: not line.startswith("|"), lines)
    table = takewhile(lambda line: line.startswith("|"), later)
    names, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return [dict(zip(names, row, strict=True)) for row in rows]


def number(text: str) -> float:
    """Return the first number of a table cell."""
    return float(re.findall(r"[\d.]+", text)[0])


def save(figure: mpl.figure.Figure, name: str) -> None:
    """Save as SVG without a date, so that equal charts are equal files."""
    CHARTS.mkdir(exist_ok=True)
    figure.savefig(CHARTS / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight", facecolor="white")


def draw_scores(page: str) -> None:
    """Draw size against singletons, one panel for each accuracy."""
    figure, panels = plt.subplots(1, len(RUNS), figsize=(10, 3.6))
    for panel, accuracy in zip(panels, RUNS, strict=True):
        for row in read_table(page, f": accuracy {accuracy}"):
            name = row["score"].strip("`")
            color, marker = CYCLE[SCORES.index(name)], "osD^vP*"[SCORES.index(name)]
            panel.plot(number(row["size"]), number(row["singletons"]), marker, color=color, markersize=9, label=name)
        panel.set(title=f"Accuracy {float(accuracy):.0%}", xlabel="size (smaller is better)")
    panels[0].set_ylabel("singletons, % (more is better)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(SCORES))
    save(figure, "results")


def draw_guarantees(page: str) -> None:
    """Draw size against the coverage of the worst class for class-conditional methods."""
    figure, panel = plt.subplots(figsize=(7, 3.6))
    rows = read_table(page, "### Twelve species")
    for guarantee, marker in zip(GUARANTEES, "osD^", strict=True):
        found = [row for row in rows if row["guarantee"] == guarantee]
        worst, sizes = [100 * number(row["worst class"]) for row in found], [number(row["size"]) for row in found]
        panel.plot(worst, sizes, marker, markersize=9, label=guarantee)
        for row, x, y in zip(found, worst, sizes, strict=True):
            offset = (8, 5 if row["score"] == "`ip`" else -9)
            text = {"textcoords": "offset points", "fontsize": 10}
            if guarantee == "per class":  # on the left, since RC3P has points on the right
                offset, text["ha"] = (-9, 5), "right"
            panel.annotate(row["score"].strip("`"), (x, y), offset, **text)
    panel.axvline(90, color="#222222", linestyle="--", linewidth=1.2)
    panel.set(xlabel="coverage of the worst class, %", ylabel="size", xlim=(68, 95))
    panel.legend(loc="upper left")
    save(figure, "class-conditional")


if __name__ == "__main__":
    fresh({}, "")
    mpl.rcParams["svg.hashsalt"] = "pippin"
    text = (DOCS / "results.md").read_text("utf-8")
    draw_scores(text)
    draw_guarantees(text)
