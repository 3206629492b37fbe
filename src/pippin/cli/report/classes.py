"""Coverage of every class: a plain score, and beside it the version that promises it for each."""

from typing import Any

from matplotlib.figure import Figure

from pippin._compare.comparison import Comparison
from pippin._plotting.coverage import draw_shares
from pippin._plotting.drawing import INK, LONGEST, arranged, beside, drawn, name_rows, short, tell_hidden
from pippin.cli.report.style import new_figure

ClassCoverage = dict[str | int, tuple[int, float]]  # of each class its rows and its coverage

NARROW = 18  # characters of a name in a narrow figure
PARTNERS = ("class", "class and group", "cluster", "rc3p")  # which version stands beside, the first that was compared


def classes_told(comparison: Comparison, recommended: str) -> dict[str, ClassCoverage]:
    """The classes under one score, and under the version of it that promises coverage for every class.

    The score is the one recommended, if such a version of it was compared; else the first that has one.
    """
    table = comparison.class_coverage().drop_nans()
    names = [str(candidate) for candidate in comparison.scores]
    methods = [candidate for candidate in comparison.scores if not candidate.plain]
    pairs = [
        (str(method.score), str(method))
        for per in PARTNERS
        for method in methods
        if method.per == per and str(method.score) in names
    ]
    shown = next((pair for pair in pairs if pair[0] == recommended), pairs[0] if pairs else (recommended,))
    return {
        name: {row["class"]: (row["n"], row["coverage"]) for row in table.filter(table["score"] == name).to_dicts()}
        for name in shown
    }


@drawn
def classes(by_class: dict[str, ClassCoverage], alpha: float, sizes: dict[str, float], narrow: bool = False) -> Figure:
    """The worst on top; of many classes, those with the least and the most. The version beside is hollow marks.

    `sizes` are the mean sizes, told where there are two to compare. A narrow figure fits a telephone's screen whole.
    """
    longest = NARROW if narrow else LONGEST
    (title, coverage), *others = by_class.items()
    shown, places, hidden = arranged(sorted(coverage, key=lambda name: coverage[name][1]))
    figure = new_figure(4.8 if narrow else 9, 1.4 + 0.27 * (len(shown) + 2 * bool(hidden) + 1.5 * bool(others)))
    ax = figure.subplots()
    values = [coverage[name][1] for name in shown]
    draw_shares(ax, places, values, alpha)
    for place, name, value in zip(places, shown, values, strict=True):
        beside(ax, place, f"{value:.1%} of {coverage[name][0]:,}")
    if hidden:
        tell_hidden(ax, hidden, "classes")
    told_title = short(title, longest)
    for name, other in others:
        marks: dict[str, Any] = {
            "markerfacecolor": "white",
            "markeredgecolor": INK,
            "markeredgewidth": 1.6,
            "markersize": 7.5,
        }
        found = [other[k][1] for k in shown]
        label = f"{short(name, longest)}, size {sizes[name]:.2f}"
        ax.plot(found, places, linestyle="", marker="o", clip_on=False, zorder=4, label=label, **marks)
        figure.legend(loc="outside lower center", fontsize=10)
        told_title = f"{told_title}, size {sizes[title]:.2f}"
    name_rows(ax, places, shown, longest)
    if narrow:
        ax.set_xticks([0, 0.5, 1])
    ax.set_xlabel("coverage")
    ax.set_title(told_title, loc="left", pad=18, parse_math=False)
    return figure
