"""The figures: each takes results of this package and returns a matplotlib figure of them."""

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pippin._compare.comparison import Comparison
from pippin._compare.decisions import DecisionComparison
from pippin._compare.methods import parse_methods
from pippin._compare.tuning import Sweep
from pippin._compare.verdict import Verdict
from pippin._conformal.metrics import Evaluation
from pippin._plotting.drawing import GRID, INK, LOOKS, TARGET, drawn, short
from pippin._plotting.front import draw_front, label_front, read_front
from pippin._plotting.sets import draw_sizes, size_groups
from pippin._plotting.splits import PANELS, SWEPT, draw_metric, draw_promises, draw_sweep, look, name_scores
from pippin.cli.report.style import new_figure
from pippin.cli.report.toy_cases import CASES, Case


@drawn
def violins(comparison: Comparison) -> Figure:
    """Coverage, size and singletons of every score: a violin, and one point per split."""
    longest = max(len(short(score)) for score in comparison.scores)
    figure = new_figure(10.4 + 0.09 * longest, 1.5 + 0.62 * len(comparison.scores))
    axes = figure.subplots(1, 3, sharey=True, squeeze=False)[0]
    for ax, metric in zip(axes, PANELS, strict=True):
        draw_metric(ax, comparison, metric)
    name_scores(axes[0], comparison)
    return figure


@drawn
def front(comparison: Comparison, verdict: Verdict) -> Figure:
    """Mean size against the share of singletons, and the line that each family traces."""
    known = read_front(comparison, verdict.fronts)
    figure = new_figure(9, 6.6)
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    draw_front(ax, known)
    figure.legend(loc="outside lower center", ncols=2, fontsize=9.5)
    figure.draw_without_rendering()
    label_front(ax, known)
    return figure


@drawn
def promises(comparison: DecisionComparison) -> Figure:
    """What decisions promise and what comes of them, as more broken certificates are allowed."""
    figure = new_figure(10.4, 4.8)
    draw_promises(figure.subplots(1, 2, sharey=True), comparison)
    return figure


@drawn
def sweep(swept: Sweep) -> Figure:
    """Size and singletons against a parameter's value: one point per split, a line through the means."""
    figure = new_figure(11, 4.4)
    axes = figure.subplots(1, 2, squeeze=False, gridspec_kw={"wspace": 0.06})[0]
    for ax, metric in zip(axes, SWEPT, strict=True):
        draw_sweep(ax, swept, metric)
    return figure


@drawn
def toy() -> Figure:
    """The paper's six toy cases: y has probability 0.1 in all, the scores differ by what stands above it."""
    figure = new_figure(10, 5.6)
    axes = figure.subplots(2, 3, sharey=True)
    for number, (ax, case) in enumerate(zip(axes.flat, CASES, strict=True), 1):
        _toy_case(ax, case)
        ax.set_title(f"Case {number}", loc="left")
    for ax in axes[:, 0]:
        ax.set_ylabel("probability")
    return figure


def _toy_case(ax: Axes, case: Case) -> None:
    row, own = case.row(), len(case.above)
    colours = [LOOKS["ip"].colour] * own + [TARGET] + [GRID] * (len(row) - own - 1)
    bars = ax.bar(range(len(row)), row, color=colours, width=0.8)
    bars[own].set_hatch("///")
    bars[own].set_edgecolor(INK)
    ax.set_xticks(range(own + 1), [*"abcdefgh"[:own], "y"])
    ax.set_xlim(-0.7, 11.3)
    names = {"ip": "IP", "margin": "MS", "pip": "PIP"}
    ax.set_xlabel("     ".join(f"{names[name]} {value:.2f}" for name, value in case.computed().items()))


@drawn
def sizes(evaluations: dict[str, Evaluation]) -> Figure:
    """How large the sets are: for every score, the share of sets of each size, on one split."""
    columns = 2 if len(evaluations) == 4 else min(3, len(evaluations))
    rows = -(-len(evaluations) // columns)
    figure = new_figure(11 if columns == 3 else 4.5 * columns, 0.5 + 2.3 * rows)
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    groups = size_groups(max(max(e.size_counts) for e in evaluations.values()))
    for ax, (spelling, evaluation) in zip(axes.flat, evaluations.items(), strict=False):
        draw_sizes(ax, evaluation.size_counts, groups, look(parse_methods(spelling)[0]).colour)
        ax.set_title(short(spelling), loc="left", parse_math=False, fontsize=12 if len(spelling) < 24 else 9)
    for column, ax in enumerate(axes.flat[len(evaluations) :], columns - (rows * columns - len(evaluations))):
        ax.set_visible(False)
        axes[-2, column].tick_params(labelbottom=True)  # the lowest that is seen
    figure.supxlabel("size", fontsize=11)
    figure.supylabel("share of sets", fontsize=11)
    return figure
