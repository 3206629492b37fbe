"""HTML representations of public objects in notebooks."""

import numpy as np

import pippin
from pippin._runtime.showing import AMBER, BLUE

DATA = pippin.load_example()
ROWS, LABELS, C = DATA.probs[:1000], DATA.labels[:1000], DATA.classes
CROPS = ("maize", "common_wheat", "sugar_beet")


def test_objects_have_html():
    """Public objects have HTML with their figures."""
    predictor = pippin.calibrate(ROWS, LABELS, "pip", classes=C)
    sets = predictor.predict(DATA.probs[1000:])
    worth = {"spray": {"weed": 1, "crop": -2}, "leave": {"weed": -1, "crop": 1}}
    utility = pippin.decisions.Utility(worth, kinds={name: "crop" if name in CROPS else "weed" for name in C})
    decider = pippin.decisions.calibrate(ROWS, LABELS, utility, 0.05, classes=C)
    shown = {
        "with probability at least 90%": predictor,
        "expected coverage": pippin.calibrate(ROWS, LABELS, "ip", per="class", classes=C),
        "singletons: sets with one class": sets,
        "singletons": pippin.compare(ROWS, LABELS, ["ip", "pip"], splits=2, classes=C),
        "gamma": pippin.sweep(ROWS, LABELS, "repip", values=[0.01, 0.1], splits=2),
        "the 1,801-th smallest score": pippin.plan(0.1, 2000),
        "certified utility": decider.decide(DATA.probs[1000:]),
        "at least its certificate": decider,
        "the least covered first": pippin.evaluate(sets, DATA.labels[1000:], alpha=0.1),
        "No labels yet": pippin.online.Stream(predictor, update="track"),
        "evidence": pippin.online.Monitor(predictor),
        "best response": pippin.decisions.compare(ROWS, LABELS, utility, "ip", splits=2, classes=C),
        "cross-entropy": pippin.sharpen(ROWS[:200], LABELS[:200], classes=C),
        "4,986 seedlings of 12 species": DATA,
        "chosen on 500 rows": pippin.tune(ROWS, LABELS, ["ip", "pip"], splits=2, classes=C),
        "credibility: the largest": predictor.point_predictions(DATA.probs[1000:]),
        "acted on": pippin.decisions.select(ROWS, LABELS, error=0.1, classes=C).predict(DATA.probs[1000:]),
        "0 of 0 labels were missed": pippin.online.RiskMonitor(0.1),
        "Utility of each action by kind of the true class": utility,
        "playing safe": pippin.decisions.evaluate(decider.decide(DATA.probs[1000:]), DATA.labels[1000:], utility),
        "Ratio of new to old frequency": pippin.shift.label_ratios(ROWS, LABELS, DATA.probs[1000:], classes=C),
    }
    for wanted, thing in shown.items():
        assert wanted in thing._repr_html_(), type(thing)


def test_colors_of_sets():
    """Singletons are blue, larger sets amber; the first twelve members are shown."""
    sets = pippin.PredictionSets(np.array([1, 2, 20]), np.array([0, 0, 1, *range(20)]), range(30))
    html = sets._repr_html_()
    assert (html.count(BLUE), html.count(AMBER)) == (1, 2 + 12)
    assert "and 8 more" in html
    assert " – novel" in sets.flagged([True, False, False])._repr_html_()


def test_shares_have_bars():
    """Bars are as long as the share, and amber if it is below the target."""
    sets = pippin.PredictionSets(np.array([1, 1, 1, 1]), np.array([0, 1, 1, 1]), ("crop", "weed"))
    html = pippin.evaluate(sets, ["crop", "crop", "weed", "weed"], alpha=0.1)._repr_html_()
    assert f"{AMBER} 50.0%" in html
    assert f"{BLUE} 100.0%" in html
    assert "CovGap: mean distance of the classes" in html
    assert "SSCV: largest distance" in html
    assert "CovGap" not in pippin.evaluate(sets, ["crop", "crop", "weed", "weed"])._repr_html_()


def test_names_are_escaped_and_empty_sets_marked():
    names = ("<script>alert(1)</script>", "b")
    sets = pippin.PredictionSets(np.array([1, 0]), np.array([0]), names)
    html = sets._repr_html_()
    assert "<script" not in html
    assert "(empty)" in html
