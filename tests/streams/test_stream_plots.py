"""Pictures of streams: what the lines show is what happened, however long it was."""

import matplotlib
import numpy as np
import pytest

import pippin
from pippin._online.trail import MOST, Trail

matplotlib.use("agg")
DATA = pippin.load_example()
PREDICTOR = pippin.calibrate(DATA.probs[:1000], DATA.labels[:1000], "pip", classes=DATA.classes)


def test_a_trail_holds_the_sums_and_the_largest():
    values = np.random.default_rng(0).normal(size=3333)
    for kind, joined in (("sum", np.sum), ("largest", np.max)):
        trail = Trail(kind)
        for value in values.tolist():
            trail.add(value)
        whole = values[: len(values) // trail.block * trail.block].reshape(-1, trail.block)
        assert len(trail.values) < MOST
        assert trail.values == pytest.approx(joined(whole, axis=1))


def test_a_monitor_shows_evidence_alarm_and_change():
    monitor, told = pippin.online.Monitor(PREDICTOR, seed=0), []
    for i in range(1000, 1350):
        row = DATA.probs[i] if i < 1250 else 0.5 * DATA.probs[i] + 0.5 / 12
        told.append(monitor.update(row, DATA.labels[i]).evidence)
    ax = monitor.plot()
    evidence, limit, alarm, change = ax.lines
    assert 10 ** evidence.get_ydata() == pytest.approx(np.array(told))
    assert limit.get_ydata()[0] == pytest.approx(2)
    assert alarm.get_xdata()[0] == monitor.alarm.row + 1
    assert change.get_xdata()[0] == monitor.changepoint
    assert monitor._missed.values == [
        DATA.classes[DATA.labels[i]] not in sets
        for i, sets in zip(
            range(1000, 1350),
            PREDICTOR.predict(np.concatenate([DATA.probs[1000:1250], 0.5 * DATA.probs[1250:1350] + 0.5 / 12])),
            strict=True,
        )
    ]


def test_a_stream_shows_coverage_in_windows():
    stream = pippin.online.Stream(PREDICTOR, "track")
    for i in range(1000, 1600):
        stream.learn(stream.predict_one(DATA.probs[i]), DATA.labels[i])
    target, coverage = stream.plot().lines
    assert target.get_ydata()[0] == 0.9
    assert coverage.get_ydata().mean() == pytest.approx(stream.coverage, abs=0.002)  # the last window is smaller
    assert len(coverage.get_xdata()) <= 40
    assert pippin.online.Stream(PREDICTOR).plot().get_title(loc="left") == "Coverage along the stream"
