"""The figures: what they show, that their texts do not cover each other, and that they are saved the same each time."""

import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import pippin
from pippin._compare import verdict
from pippin._compare.methods import parse_methods
from pippin._compare.split_evaluation import METRICS
from pippin._plotting import comparison as comparison_plots
from pippin._plotting import drawing
from pippin.cli.report import figures, page, write_sweep, write_toy
from pippin.cli.toy import CASES
from support.trials import trial_of

SPLITS = 30


@pytest.fixture(scope="module")
def found():
    """Return a comparison of the example, and its verdict."""
    data = pippin.load_example()
    comparison = pippin.compare(data.probs, data.labels, splits=SPLITS)
    trial = trial_of(data.probs, data.labels)
    return comparison, verdict.judge(trial, comparison)


def an_evaluation(
    n_classes: int, name: str = "a rather long class name, number {}", largest: int = 5
) -> pippin.Evaluation:
    """Make an evaluation with the given number of classes."""
    names = [name.format(i) for i in range(n_classes)]
    coverage = np.linspace(0.4, 1, n_classes)
    return pippin.Evaluation(
        100,
        0.9,
        1.5,
        0.7,
        0.0,
        {0: 1, 1: 60, largest: 39},
        {0: 0.0, 1: 0.9, largest: 1.0},
        dict.fromkeys(names, 12),
        dict(zip(names, coverage.tolist(), strict=True)),
    )


def boxes(figure: Figure, texts):
    """Return the areas of the visible texts, in pixels."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()
    return [text.get_window_extent(renderer) for text in texts if text.get_visible() and text.get_text()]


def cover_each_other(areas) -> bool:
    """Return True if two areas overlap."""
    return any(a.overlaps(b) for a, b in combinations(areas, 2))


def test_violins_show_every_split_of_every_score(found):
    """The figure has three panels with a point per split and score, and a line at the requested coverage."""
    comparison, _ = found
    figure = figures.violins(comparison)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["Coverage", "Size", "Singletons"]
    for ax, metric in zip(figure.axes, ("coverage", "mean_size", "singleton_rate"), strict=True):
        dots = [c.get_offsets() for c in ax.collections if len(c.get_offsets()) == SPLITS]
        np.testing.assert_array_equal([d[:, 0] for d in dots], comparison.metric(metric))
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [str(s) for s in comparison.scores]
    assert any(np.allclose(line.get_xdata(), 0.9) for line in figure.axes[0].lines)


def test_long_spellings_leave_room_for_the_rest():
    """With long names of scores, titles and axis labels stay inside the figure and do not overlap."""
    data = pippin.load_example()
    scores = ("repip(gamma=0.05, k_reg=2, beta=0.5)", "linear(weights=[1, 0.5, 0.25, 0.125, 0])", "socop", "ip")
    figure = figures.violins(pippin.compare(data.probs[:99], data.labels[:99], scores, splits=2))
    texts = [*figure.axes[0].get_yticklabels(), *(ax.xaxis.label for ax in figure.axes)]
    areas = boxes(figure, texts)
    assert not cover_each_other(areas)
    assert all(area.x0 >= 0 and area.x1 <= figure.bbox.x1 for area in areas)
    figure = figures.sizes(dict.fromkeys(map(str, map(pippin.scores.parse, scores)), an_evaluation(3)))
    assert not cover_each_other(
        boxes(figure, [ax.title for ax in figure.axes] + [ax._left_title for ax in figure.axes])
    )


@pytest.mark.filterwarnings("ignore:.*too few:UserWarning")
def test_violins_of_one_split_and_of_infinite_thresholds():
    """Violins of equal or infinite values are drawn."""
    data = pippin.load_example()
    few = pippin.compare(data.probs[:10], data.labels[:10], ("ip", "repip"), splits=1)
    assert len(figures.violins(few).axes) == 3


def test_very_different_sizes_get_a_logarithmic_axis():
    """If mean sizes differ much, such as 1.2 and 60, their axis is logarithmic."""
    values = np.ones((2, 3, len(METRICS))) * 0.9
    values[:, :, 2] = [[1.2, 1.3, 1.25], [60, 61, 62]]
    comparison = pippin.Comparison((pippin.scores.ip(), pippin.scores.margin()), 0.1, 0, 100, 45, values)
    assert figures.violins(comparison).axes[1].get_xscale() == "log"


@pytest.mark.parametrize("n_values", [3, 10, 16])
def test_sweep_has_a_point_per_split_and_a_readable_tick_per_value(n_values):
    """The figure of a sweep has two panels with a point per split, and a readable tick per value."""
    data = pippin.load_example()
    values = [round(0.013 * i, 3) for i in range(n_values)]
    figure = figures.sweep(pippin.sweep(data.probs[:500], data.labels[:500], values=values, splits=4))
    assert len(figure.axes) == 2
    for ax in figure.axes:
        assert sum(len(c.get_offsets()) for c in ax.collections) == 4 * n_values
        assert [label.get_text() for label in ax.get_xticklabels()] == [f"{v:g}" for v in values]
        assert not cover_each_other(boxes(figure, ax.get_xticklabels()))


def test_front_names_every_score_and_no_text_covers_another(found):
    """All compared scores are named; each family has its lines; labels keep clear of each other."""
    comparison, judged = found
    figure = figures.front(comparison, judged)
    (ax,) = figure.axes
    names = [text.get_text() for text in ax.texts]
    assert set(map(str, comparison.scores)) <= set(names)
    assert len(names) > len(comparison.scores)
    assert not cover_each_other(boxes(figure, ax.texts))
    titles = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sum(title.startswith("repip") for title in titles) == 3
    assert len(set(titles)) == len(titles)


def test_methods_have_the_colour_of_their_score_and_hollow_marks():
    """Methods have the color of their score and hollow marks; their long names do not overlap."""
    data = pippin.load_example()
    methods = ["pip", "repip", "pip per class", "repip(gamma=0.05) per class nonempty", "repip nonempty"]
    comparison = pippin.compare(data.probs, data.labels, methods, splits=20)
    judged = verdict.judge(comparison.trial, comparison)
    assert [comparison_plots.family_style(one).hollow for one in comparison.scores] == [False, False, True, True, True]
    assert (
        comparison_plots.family_style(comparison.scores[0]).color
        == comparison_plots.family_style(comparison.scores[2]).color
    )
    (ax,) = figures.front(comparison, judged).axes
    texts = {text.get_text(): text for text in ax.texts}
    wanted = [drawing.short(one) for one in comparison.scores]
    assert set(wanted) <= set(texts)
    assert not cover_each_other(boxes(ax.figure, ax.texts))
    assert ax.figure.legends[0].get_texts()[-1].get_text().startswith("hollow")
    labels = figures.violins(comparison).axes[0].get_yticklabels()
    assert [label.get_text() for label in labels] == wanted


def test_the_front_is_what_no_other_beats(found):
    """No method has smaller sets and more singletons than one on the front; all others are dominated."""
    known = comparison_plots.read_front(found[0], found[1].fronts)
    every = {dot.method: dot for trace in known.traces for dot in trace.dots} | {d.method: d for d in known.compared}
    for dot in every.values():
        beaten = any(o.size <= dot.size and o.singletons >= dot.singletons and o[1:] != dot[1:] for o in every.values())
        assert beaten == (dot[1:] not in {best[1:] for best in known.best})
    assert {dot.method for trace in known.traces for dot in trace.dots} == {
        score for family in found[1].fronts.values() for score in family.scores
    }


def test_toy_draws_the_six_cases():
    """The class y has its own color, and the scores are below."""
    figure = figures.toy()
    assert len(figure.axes) == len(CASES)
    for ax, case in zip(figure.axes, CASES, strict=True):
        own = len(case.above)
        np.testing.assert_allclose([bar.get_height() for bar in ax.patches], case.row())
        assert ax.patches[own].get_facecolor() not in {bar.get_facecolor() for bar in ax.patches[:own]}
        assert f"PIP {case.expected['pip']:.2f}" in ax.get_xlabel()


@pytest.mark.parametrize("largest", [3, 14, 15, 200, 4000])
def test_sizes_count_every_set_once(largest):
    """A panel per score; bars add up to all sets; ticks do not overlap."""
    spellings = ["ip", "raps(lam=0.1)", "socop(mu=0.5)", "topk"]
    figure = figures.sizes(dict.fromkeys(spellings, an_evaluation(3, largest=largest)))
    shown = [ax for ax in figure.axes if ax.get_visible()]
    assert [ax.get_title(loc="left") for ax in shown] == spellings
    for ax in shown:
        assert sum(bar.get_height() for bar in ax.patches) == pytest.approx(1)
    assert not cover_each_other(boxes(figure, shown[-1].get_xticklabels()))


@pytest.mark.parametrize("panels", [1, 3, 4, 5, 7])
def test_every_column_of_sizes_has_its_ticks_named(panels):
    """In every column, the lowest visible panel has tick labels."""
    figure = figures.sizes(dict.fromkeys([f"raps(lam=0.{k + 1})" for k in range(panels)], an_evaluation(3, largest=5)))
    lowest = {}
    for ax in figure.axes:
        if ax.get_visible():
            lowest[ax.get_subplotspec().colspan.start] = ax
    assert all(ax.xaxis.get_tick_params()["labelbottom"] for ax in lowest.values())


def made_comparison(scores):
    """Make a comparison of these scores at alpha = 0.1, whose sets have 1.5 classes."""
    return pippin.Comparison(parse_methods(list(scores)), 0.1, 0, 100, 45, np.full((len(scores), 3, len(METRICS)), 1.5))


def told(evaluation):
    """Return the rows and the coverage of every class."""
    return {name: (evaluation.class_counts[name], share) for name, share in evaluation.class_coverage.items()}


@pytest.mark.parametrize(
    ("scores", "recommended", "wanted"),
    [
        (["ip", "pip"], "ip", ["ip"]),
        (["ip", "pip", "pip nonempty"], "ip", ["ip"]),
        (["ip", "pip", "pip per class"], "ip", ["pip", "pip per class"]),
        (["ip", "pip", "pip per class", "ip rc3p", "ip per class"], "ip", ["ip", "ip per class"]),
        (["ip per class"], "ip per class", ["ip per class"]),
    ],
)
def test_a_score_is_shown_with_its_class_conditional_version(scores, recommended, wanted):
    """Coverage by class is shown for the recommended score if both versions were compared, else for another."""
    data = pippin.load_example()
    comparison = pippin.compare(data.probs, data.labels, scores, splits=2, classes=data.classes)
    found = page.coverage_by_class(comparison, parse_methods(recommended)[0])
    assert list(found) == wanted
    assert all(list(one) == list(data.classes) for one in found.values())


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("n_classes", [2, 40, 41, 1000])
def test_class_names_can_be_read(n_classes, beside, narrow):
    """Names and counts do not overlap for any number of classes; the number of omitted classes is written."""
    by_class = dict.fromkeys(("repip", "repip per class and group")[: 1 + beside], told(an_evaluation(n_classes)))
    figure = figures.class_coverage(made_comparison(by_class), by_class, narrow)
    longest = figures.NARROW if narrow else drawing.LONGEST
    (ax,) = figure.axes
    names = ax.get_yticklabels()
    assert len(names) == min(n_classes, 40)
    assert len(ax.patches) == len(names)
    areas = boxes(figure, [ax._left_title, *names, *ax.texts])
    assert not cover_each_other(areas[1:])
    marks = [line.get_xdata() for line in ax.lines if line.get_marker() == "o"]
    assert [len(x) for x in marks] == [len(names)] * beside
    assert [text.get_text() for legend in figure.legends for text in legend.get_texts()] == [
        f"{drawing.short('repip per class and group', longest)}, size 1.50"
    ] * beside
    note = f"{n_classes - 40:,} classes in between are not drawn"
    assert (note in [text.get_text() for text in ax.texts]) == (n_classes > 40)
    edge = figure.bbox
    assert all(edge.x0 <= area.x0 and area.x1 <= edge.x1 for area in areas)


def test_class_names_are_never_taken_for_formulas():
    """Dollar signs, braces, line breaks and missing glyphs in class names are drawn literally."""
    odd = an_evaluation(3, r"$\frac{{x}}$ {} <b>&" + "\n小麦")
    figure = figures.class_coverage(made_comparison(["ip"]), {"$x$": told(odd)})
    assert figures.rendered(figure, "png").startswith(b"\x89PNG")


def test_saved_twice_is_the_same_bytes(found, tmp_path):
    """PNG and SVG do not depend on the user's Matplotlib settings."""
    import matplotlib

    for folder, size in (("a", 10), ("b", 20)):
        (tmp_path / folder).mkdir()
        with matplotlib.rc_context({"font.size": size, "svg.hashsalt": folder}):
            figures.save_figure(figures.violins(found[0]), tmp_path / folder, "violins")
            figures.save_figure(figures.front(*found), tmp_path / folder, "front")
    for name in ("violins.svg", "violins.png", "front.svg", "front.png"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == [
        "front.png",
        "front.svg",
        "violins.png",
        "violins.svg",
    ]


def test_sweep_and_toy_are_written(tmp_path):
    """Figures of sweep and toy are written, in a folder that is created."""
    data = pippin.load_example()
    swept = pippin.sweep(data.probs[:200], data.labels[:200], values=(0, 1), splits=2)
    for path in (write_sweep(tmp_path / "new" / "sweep", swept), write_toy(tmp_path / "toy")):
        assert path.read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in path.with_suffix(".svg").read_bytes()


def test_drawing_touches_no_global_state():
    """Neither pyplot is imported nor the user's settings are changed."""
    code = (
        "import sys, matplotlib; before = matplotlib.rcParams.copy();"
        "from pippin.cli.report import figures; figures.rendered(figures.toy(), 'svg');"
        "assert 'matplotlib.pyplot' not in sys.modules;"
        "assert all(before[key] == matplotlib.rcParams[key] for key in before if key != 'backend')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_error_without_matplotlib_names_the_extra(tmp_path):
    """Without Matplotlib, one error message names the extra, and no file is written."""
    code = (
        "import sys; sys.modules['matplotlib'] = None; import pathlib, pippin.cli.report\n"
        f"try: pippin.cli.report.write_toy(pathlib.Path({str(tmp_path / 'out')!r}))\n"
        "except ImportError as error: print(error)"
    )
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert printed == 'A figure or report needs matplotlib: pip install "pippin-conformal[report]".\n'
    assert not (tmp_path / "out").exists()
