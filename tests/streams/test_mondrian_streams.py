"""Streams and monitors of Mondrian predictors: each class, superclass or group has its own threshold and history."""

import numpy as np
import pytest

import pippin

DATA = pippin.load_example()
GROUPS = np.where(np.arange(len(DATA.labels)) % 3 == 0, "north", "south")
KINDS = {name: "crop" if name in ("common_wheat", "maize", "sugar_beet") else "weed" for name in DATA.classes}
OLD, NEW = slice(0, 2000), slice(2000, 2150)


def calibrate(per, rows, **options):
    groups = {"groups": GROUPS[rows]} if "group" in str(per) else {}
    return pippin.calibrate(
        DATA.probs[rows], DATA.labels[rows], "pip", classes=DATA.classes, per=per, **groups, **options
    )


def feed(stream, grouped, rows=NEW):
    for i in range(rows.start, rows.stop):
        ticket = stream.predict_one(DATA.probs[i], **({"group": GROUPS[i]} if grouped else {}))
        stream.learn(ticket, DATA.labels[i])


@pytest.mark.parametrize("per", ["class", "group", "class and group", KINDS])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_grow_equals_recalibration_in_every_cell(per):
    """The rule "grow" equals recalibration in every category; before the first label, sets are the predictor's."""
    grouped = "group" in str(per) and per is not KINDS
    stream = pippin.online.Stream(calibrate(per, OLD), "grow")
    for i in range(2000, 2040):
        group = {"group": GROUPS[i]} if grouped else {}
        members = stream.predict_one(DATA.probs[i], **group).members
        assert np.array_equal(members, stream.predictor.predict_one(DATA.probs[i], **group))
    feed(stream, grouped)
    assert np.array_equal(stream.thresholds, calibrate(per, slice(0, NEW.stop)).thresholds)


def test_levels_of_kinds_are_kept():
    predictor = calibrate(KINDS, OLD, alpha={"weed": 0.2, "crop": 0.05})
    stream = pippin.online.Stream(predictor, "aci")
    assert np.array_equal(stream.thresholds, predictor.thresholds)


@pytest.mark.parametrize("update", ["grow", "window", "track", "aci", "dtaci"])
def test_coverage_of_each_class_and_resuming(tmp_path, update):
    whole, resumed = (pippin.online.Stream(calibrate("class", OLD), update, seed=1) for _ in range(2))
    feed(whole, False)
    feed(resumed, False, slice(2000, 2060))
    resumed.save(tmp_path / "stream.json")
    resumed = pippin.online.Stream.load(tmp_path / "stream.json")
    feed(resumed, False, slice(2060, 2150))
    assert np.array_equal(whole.thresholds, resumed.thresholds)
    assert whole.coverages == resumed.coverages
    assert set(whole.coverages) <= set(DATA.classes)
    inside = sum(whole.coverages[DATA.classes[k]] * n for k, n in enumerate(np.bincount(DATA.labels[NEW])) if n)
    assert inside / 150 == pytest.approx(whole.coverage)
    with pytest.raises(pippin.InputError, match="see thresholds"):
        _ = whole.threshold


def test_bound_of_track_holds_in_every_group():
    stream = pippin.online.Stream(calibrate("group", OLD), "track")
    for i in range(2000, 2300):
        ticket = stream.predict_one(DATA.probs[i], group=GROUPS[i])
        stream.learn(ticket, int(DATA.probs[i].argmin()))
        assert all(abs(share - 0.9) <= stream.bound for share in stream.coverages.values())


def test_class_conditional_monitor_ignores_label_shift_only():
    """Label shift alarms only the marginal monitor; a change within classes alarms the class-conditional one too."""
    rare = np.flatnonzero(np.isin(DATA.labels[2000:], (0, 9)) | (np.arange(2986) % 20 == 0)) + 2000  # the hardest two
    marginal, per_class = (pippin.online.Monitor(calibrate(per, OLD), seed=0) for per in (None, "class"))
    for i in rare:
        for monitor in (marginal, per_class):
            monitor.update(DATA.probs[i], DATA.labels[i])
    assert marginal.drift_detected
    assert not per_class.drift_detected
    for i in rare[:200]:
        per_class.update(0.5 * DATA.probs[i] + 0.5 / 12, DATA.labels[i])
    assert per_class.drift_detected


def test_group_conditional_monitor_resumes_to_the_same_bits(tmp_path):
    predictor = calibrate("group", OLD, unseen="marginal")
    whole, resumed = (pippin.online.Monitor(predictor, seed=0) for _ in range(2))
    names = [*GROUPS[2000:2090], *["east"] * 30]  # a group unseen at calibration is compared with itself
    for i, name in enumerate(names):
        if i == 50:
            resumed.save(tmp_path / "monitor.json")
            resumed = pippin.online.Monitor.load(tmp_path / "monitor.json")
        row, label = DATA.probs[2000 + i], DATA.labels[2000 + i]
        assert whole.update(row, label, group=name) == resumed.update(row, label, group=name)
    assert [int(tree[0]) for tree in whole._martingale.tree][-1] == 30


def test_errors_of_groups():
    grouped, plain = calibrate("group", OLD), calibrate(None, OLD)
    with pytest.raises(pippin.InputError, match="Expected a group"):
        pippin.online.Stream(grouped).predict_one(DATA.probs[0])
    with pytest.raises(pippin.InputError, match="one of the groups north, south"):
        pippin.online.Monitor(grouped).update(DATA.probs[0], 0, group="east")
    with pytest.raises(pippin.InputError, match="Expected no group"):
        pippin.online.Stream(plain).predict_one(DATA.probs[0], group="north")
    with pytest.raises(pippin.InputError, match="Expected no group"):
        pippin.online.Monitor(plain).update(DATA.probs[0], group="north")
