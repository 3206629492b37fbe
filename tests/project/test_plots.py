"""Every `.plot()` returns Matplotlib axes that show the figures of the object."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt

import pippin
from pippin._plotting import drawing
from pippin._plotting.sets import size_groups
from pippin._theory.planning import share_interval

matplotlib.use("agg")
DATA = pippin.load_example()
P, Y, C = DATA.probs[:1000], DATA.labels[:1000], DATA.classes
NEW, TRUE = DATA.probs[1000:2000], DATA.labels[1000:2000]
CROPS = ("maize", "common_wheat", "sugar_beet")
KINDS = {name: "crop" if name in CROPS else "weed" for name in C}
WORTH = {"spray": {"weed": 1, "crop": -2}, "leave": {"weed": -1, "crop": 1}, "ask": {"weed": 0.3, "crop": 0.3}}
UTILITY = pippin.decisions.Utility(WORTH, kinds=KINDS)
PREDICTOR = pippin.calibrate(P, Y, "pip", classes=C)
SETS = PREDICTOR.predict(NEW)


@pytest.fixture(autouse=True)
def closed():
    """Close all figures after a test."""
    yield
    plt.close("all")


def names(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def area(heights, x):
    return ((heights[1:] + heights[:-1]) / 2 * np.diff(x)).sum()


def notes(ax):
    return [text.get_text() for text in ax.texts]


def test_sets_show_their_sizes():
    ax = SETS.plot()
    found = np.bincount(SETS.sizes) / len(SETS)
    assert [bar.get_height() for bar in ax.patches] == pytest.approx(found)
    assert [bar.get_hatch() == "///" for bar in ax.patches] == [size == 1 for size in range(len(found))]
    assert ax.get_title(loc="left") == "1,000 sets: mean size 1.86, 73% singletons"


def test_large_sets_share_bars():
    sizes = np.array([1, 1, 300, 700])
    ax = pippin.PredictionSets(sizes, np.zeros(sizes.sum(), dtype=int), range(1000)).plot()
    assert [label.get_text() for label in ax.get_xticklabels()] == size_groups(700)[0]
    assert [bar.get_height() for bar in ax.patches if bar.get_height()] == [0.5, 0.25, 0.25]


def test_no_sets_give_an_empty_plot():
    ax = pippin.PredictionSets(np.zeros(0, dtype=int), np.zeros(0, dtype=int), C).plot()
    assert ax.get_title(loc="left") == "0 sets"


def test_given_axes_are_used():
    """The caller's style is not changed."""
    before = dict(matplotlib.rcParams)
    figure, axes = plt.subplots(1, 2)
    assert SETS.plot(axes[0]) is axes[0]
    assert PREDICTOR.plot(ax=axes[1]) is axes[1]
    assert plt.get_fignums() == [figure.number]
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("what", ["class", "group", "size"])
def test_an_evaluation_shows_coverage_and_its_interval(what):
    groups = np.where(np.arange(1000) % 3 == 0, "north", "south")
    found = pippin.evaluate(SETS, TRUE, groups=groups, alpha=0.1)
    ax = found.plot(what=what)
    shares, counts = getattr(found, f"{what}_coverage"), getattr(found, f"{what}_counts")
    order = sorted(shares) if what == "size" else sorted(shares, key=lambda name: shares[name])
    assert names(ax) == [str(name) for name in order]
    assert [bar.get_width() for bar in ax.patches] == [shares[name] for name in order]
    assert [bar.get_hatch() == "///" for bar in ax.patches] == [shares[name] < 0.9 for name in order]
    target, *intervals = ax.lines
    assert target.get_xdata()[0] == 0.9
    for name, line in zip(order, intervals, strict=True):
        assert tuple(line.get_xdata()) == share_interval(round(shares[name] * counts[name]), counts[name])
    assert f"{shares[order[0]]:.1%} of {counts[order[0]]:,}" in notes(ax)


def test_errors_of_evaluation_plots():
    found = pippin.evaluate(SETS, TRUE)
    assert len(found.plot().lines) == len(C)  # without a level, no target
    with pytest.raises(pippin.InputError, match="pass groups= to evaluate"):
        found.plot(what="group")
    with pytest.raises(pippin.InputError, match="Expected what to be one of 'class', 'group', 'size', got 'kind'"):
        found.plot(what="kind")


def test_many_classes_are_drawn_in_part():
    labels = np.arange(120) % 60
    sets = pippin.PredictionSets(np.ones(120, dtype=int), np.where(labels < 20, labels, 0), range(60))
    ax = pippin.evaluate(sets, labels, alpha=0.1).plot()
    assert len(ax.patches) == drawing.FIRST + drawing.LAST
    assert "20 classes in between are not drawn" in notes(ax)


@pytest.fixture(scope="module")
def comparison():
    return pippin.compare(DATA.probs, DATA.labels, ["ip", "repip", "pip per class"], splits=20, classes=C)


def test_a_comparison_shows_size_against_singletons(comparison):
    ax = comparison.plot()
    means = comparison.summary()
    dots = {(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines if len(line.get_xdata()) == 1}
    assert dots == set(zip(means["mean_size"], means["singleton_rate"], strict=True))
    assert set(notes(ax)) == {"ip", "repip", "pip per class"}


def test_a_comparison_shows_families():
    """The plot of families shows the results that `compare` has for all their scores."""
    comparison = pippin.compare(P[:200], Y[:200], "ip", splits=2)
    ax = comparison.plot(families=True)
    assert set(comparison.families) == {"socop", "repip", "pip", "raps"}
    socop = next(line for line in ax.lines if str(line.get_label()).startswith("socop"))
    means = comparison.families["socop"].summary()
    assert socop.get_xdata() == pytest.approx(means["mean_size"].to_numpy())


@pytest.mark.parametrize("metric", ["coverage", "mean_size", "singleton_rate"])
def test_a_comparison_shows_every_split(comparison, metric):
    ax = comparison.plot(what=metric)
    values = comparison.metric(metric)
    assert names(ax) == ["ip", "repip", "pip per class"]
    dots = [part.get_offsets()[:, 0] for part in ax.collections if len(part.get_offsets()) == 20]
    assert np.sort(dots) == pytest.approx(np.sort(values, axis=1))
    assert ax.lines[0].get_xdata() == pytest.approx(values.mean(axis=1))
    assert any(line.get_xdata()[0] == 0.9 for line in ax.lines) == (metric == "coverage")


def test_errors_of_comparison_plots(comparison):
    with pytest.raises(pippin.InputError, match="got 'threshold'"):
        comparison.plot(what="threshold")


def test_a_sweep_shows_size_and_singletons():
    swept = pippin.sweep(P, Y, "repip", values=(0, 0.1, 1), splits=5)
    size, singletons = swept.plot()
    assert size.lines[-1].get_ydata() == pytest.approx(swept.summary()["mean_size"].to_numpy())
    assert singletons.lines[-1].get_ydata() == pytest.approx(swept.summary()["singleton_rate"].to_numpy())
    assert [label.get_text() for label in size.get_xticklabels()] == ["0", "0.1", "1"]
    assert size.get_xlabel() == "γ of repip"


def test_tuning_shows_its_candidates():
    tuned = pippin.tune(P, Y, ["ip", "margin", "pip"], splits=5, classes=C)
    ax = tuned.plot()
    assert sum(len(line.get_xdata()) == 1 for line in ax.lines) == 3
    assert notes(ax) == [str(tuned.method)]


def test_a_plan_shows_the_law_of_coverage():
    """The density has area 1; the shaded area is the probability of the interval."""
    plan = pippin.plan(0.1, 500, test=300)
    ax = plan.plot()
    curve, test, target = ax.lines
    x, density = curve.get_data()
    assert area(density, x) == pytest.approx(1, abs=1e-3)
    shaded = (x >= plan.low) & (x <= plan.high)
    assert area(density[shaded], x[shaded]) == pytest.approx(0.95, abs=0.01)
    assert test.get_xdata().tolist() == [plan.test_low, plan.test_high]
    assert target.get_xdata()[0] == 0.9
    assert set(pippin.plan(0.1, 5).plot().lines[0].get_xdata()) == {1}


def test_decisions_show_actions_and_certificates():
    decider = pippin.decisions.calibrate(P, Y, UTILITY, 0.02, classes=C)
    decisions = decider.decide(NEW)
    ax = decisions.plot()
    assert names(ax) == ["spray", "leave", "ask"]
    widths = np.array([bar.get_width() for bar in ax.patches]).reshape(-1, 3).sum(axis=0)
    assert widths == pytest.approx([count / 1000 for count in decisions.counts().values()])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["1", "0.3"]


def test_certificates_of_an_action_are_stacked():
    """The bar of an action is divided by decreasing certificate; objects without a certificate come last."""
    given = np.array([1.0, 0.3, -np.inf, 1.0])
    ax = pippin.decisions.Decisions(np.array([0, 0, 0, 1]), given, ("spray", "leave"), C).plot()
    drawn = [(bar.get_x(), bar.get_width()) for bar in ax.patches]
    assert drawn == [(0, 0.25), (0, 0.25), (0.25, 0.25), (0.25, 0), (0.5, 0.25), (0.25, 0)]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["1", "0.3", "nothing"]


def test_a_decider_shows_kept_certificates_by_beta():
    decider = pippin.decisions.calibrate(P, Y, UTILITY, {"weed": 0.1, "crop": 0.02}, classes=C, per="kind")
    ax = decider.plot()
    steps = {line.get_label(): line for line in ax.lines if line.get_label() in ("crop", "weed")}
    assert set(steps) == {"crop", "weed"}
    marks = {line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"}
    assert marks == set(np.unique(decider.betas))
    assert {line.get_ydata()[0] for line in ax.lines if line.get_linestyle() == "--"} == {0.9, 0.98}
    assert steps["crop"].get_ydata()[-1] == 1


def test_a_predictor_shows_its_scores_and_threshold():
    ax = PREDICTOR.plot()
    scores = PREDICTOR.calibration_scores
    blue = [bar for bar in ax.patches if bar.get_hatch() != "///"]
    assert sum(bar.get_height() for bar in blue) == (scores <= PREDICTOR.threshold).sum() == 901
    assert sum(bar.get_height() for bar in ax.patches) == 1000
    assert ax.lines[0].get_xdata()[0] == PREDICTOR.threshold
    assert blue[-1].get_x() + blue[-1].get_width() == pytest.approx(PREDICTOR.threshold)


def test_far_scores_are_counted_not_drawn():
    """Scores far beyond the threshold are counted in a note, not drawn."""
    predictor = pippin.calibrate(P, Y, "socop(mu=32)", classes=C)
    ax = predictor.plot()
    beyond = 1000 - sum(bar.get_height() for bar in ax.patches)
    assert beyond > 0
    assert ax.get_xlabel() == f"score of the true class; {beyond:.0f} more beyond"


def test_kinds_of_predictors_show_scores():
    weights = 1 + P[:, 0].astype(float)
    weighted = pippin.calibrate(P, Y, "ip", weights=weights, classes=C)
    assert sum(bar.get_height() for bar in weighted.plot().patches) == pytest.approx(weights.sum())
    units = np.arange(1000) // 8
    in_units = pippin.calibrate(P, Y, "ip", classes=C, units=units).plot()
    assert sum(bar.get_height() for bar in in_units.patches) == pytest.approx(125)
    cross = pippin.calibrate(P, Y, "ip", folds=np.arange(1000) % 5, classes=C).plot()
    assert sum(bar.get_height() for bar in cross.patches) == 1000
    assert cross.get_legend().get_texts()[0].get_text() == "1,000 rows"
    risk = pippin.decisions.control_risk(P, Y, dict.fromkeys(C, 1.0), 0.1, score="ip", classes=C)
    assert risk.plot().lines[0].get_xdata()[0] == risk.threshold


def test_plots_need_calibration_scores(tmp_path):
    PREDICTOR.save(tmp_path / "p.json", scores=False)
    with pytest.raises(pippin.InputError, match="so it has no picture: calibrate again, or save with scores=True"):
        pippin.load(tmp_path / "p.json").plot()


def test_thresholds_per_class_per_kind_and_per_group():
    fair = pippin.calibrate(P, Y, "ip", per="class", classes=C)
    ax = fair.plot()
    drawn = dict(zip(names(ax), ax.lines[0].get_xdata(), strict=True))
    assert drawn == dict(zip(C, fair.thresholds[0], strict=True))
    assert f"{np.bincount(Y)[0]:,} examples" in notes(ax)
    kinds = pippin.calibrate(P, Y, "ip", per=KINDS, classes=C).plot()
    assert set(names(kinds)) == {"crop", "weed"}
    groups = np.where(np.arange(1000) % 3 == 0, "north", "south")
    per_group = pippin.calibrate(P, Y, "ip", per="group", groups=groups, classes=C)
    ax = per_group.plot()
    assert dict(zip(names(ax), ax.lines[0].get_xdata(), strict=True)) == {
        "north": per_group.thresholds[0, 0],
        "south": per_group.thresholds[1, 0],
    }


def test_infinite_thresholds_are_arrows():
    with pytest.warns(UserWarning, match="infinite"):
        fair = pippin.calibrate(P[:100], Y[:100], "ip", per="class", classes=C)
    dots, arrows = fair.plot().lines
    assert len(arrows.get_xdata()) == np.isinf(fair.thresholds).sum() > 0
    assert (arrows.get_xdata() > dots.get_xdata().max()).all()


def test_selective_predictors_show_their_thresholds():
    with pytest.warns(UserWarning, match="cannot certify"):
        selective = pippin.decisions.select(P, Y, error=0.1, per="class", classes=C)
    ax = selective.plot()
    finite = np.isfinite(selective.thresholds)
    assert np.sort(ax.lines[0].get_xdata()) == pytest.approx(np.sort(selective.thresholds[finite]))
    assert notes(ax).count("nothing certified") == (~finite).sum()


def test_sharpened_predictors_show_scores():
    sharper = pippin.sharpen(P[:60], Y[:60], classes=C)
    predictor = pippin.calibrate(P[300:], Y[300:], "ip", classes=C, sharpen=sharper)
    assert predictor.plot().lines[0].get_xdata()[0] == predictor.threshold


def test_an_explanation_shows_scores_and_thresholds():
    found = PREDICTOR.explain(DATA.probs[2023])
    ax = found.plot()
    scores, limits = ax.lines
    assert names(ax) == [one.name for one in found.classes]
    assert scores.get_xdata().tolist() == [one.score for one in found.classes]
    assert set(limits.get_xdata()) == {PREDICTOR.threshold}
    assert [bar.get_hatch() == "///" for bar in ax.patches] == [not one.inside for one in found.classes]


def test_label_ratios_show_ratios_and_errors():
    found = pippin.shift.label_ratios(P, Y, NEW[TRUE != 3], classes=C)
    ax = found.plot()
    assert dict(zip(names(ax), ax.lines[0].get_xdata(), strict=True)) == dict(zip(C, found.ratios, strict=True))


def test_comparisons_of_decisions_show_certificates_and_utilities():
    found = pippin.decisions.compare(P, Y, UTILITY, "ip", splits=2, classes=C)
    certificates, utilities = found.plot()
    assert certificates.lines[0].get_ydata().tolist() == found.curves[0].certificate.tolist()
    assert utilities.lines[0].get_ydata().tolist() == found.curves[0].utility.tolist()


def test_error_without_matplotlib():
    code = (
        "import sys; sys.modules['matplotlib'] = None; import pippin; d = pippin.load_example();"
        "pippin.calibrate(d.probs[:50], d.labels[:50], 'ip').plot()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    said = 'A plot needs matplotlib: pip install "pippin-conformal[report]".'
    assert done.stderr.strip().splitlines()[-1] == f"pippin._runtime.errors.MissingExtraError: {said}"


def test_result_classes_have_plot():
    """All public classes that hold results."""
    without = {
        *(
            "Alarm",
            "Calibration",
            "Cascade",
            "CombinedPredictor",
            "Confusion",
            "CostPolicy",
            "Decision",
            "DecisionEvaluation",
        ),
        *("Family", "InputError", "Method", "PointPredictions", "Pool", "Scan", "Score", "SelectivePredictions"),
        *("Ticket", "Utility"),
    }
    modules = (pippin, pippin.decisions, pippin.distributed, pippin.models, pippin.online, pippin.scores, pippin.shift)
    public = {name: getattr(module, name) for module in modules for name in module.__all__}
    classes = {name: value for name, value in public.items() if isinstance(value, type)}
    assert {name for name, value in classes.items() if not hasattr(value, "plot")} == without
