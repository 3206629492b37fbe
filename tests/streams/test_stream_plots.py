"""Plots of streams and monitors, and the history that they show."""

from operator import add

import matplotlib
import numpy as np
import pytest

import pippin
from pippin._online.state import MAX_BLOCKS, History

matplotlib.use("agg")
DATA = pippin.load_example()
PREDICTOR = pippin.calibrate(DATA.probs[:1000], DATA.labels[:1000], "pip", classes=DATA.classes)


def test_history_of_sums_and_maxima():
    values = np.random.default_rng(0).normal(size=3333)
    for join, joined in ((add, np.sum), (max, np.max)):
        history = History(join)
        for value in values.tolist():
            history.add(value)
        whole = values[: len(values) // history.block * history.block].reshape(-1, history.block)
        assert len(history.values) < MAX_BLOCKS
        assert history.values == pytest.approx(joined(whole, axis=1))


def test_a_monitor_shows_evidence_alarm_and_change():
    monitor, values = pippin.online.Monitor(PREDICTOR, seed=0), []
    for i in range(1000, 1350):
        row = DATA.probs[i] if i < 1250 else 0.5 * DATA.probs[i] + 0.5 / 12
        values.append(monitor.update(row, DATA.labels[i]).evidence)
    ax = monitor.plot()
    evidence, limit, alarm, change = ax.lines
    assert 10 ** evidence.get_ydata() == pytest.approx(np.array(values))
    assert limit.get_ydata()[0] == pytest.approx(2)
    assert alarm.get_xdata()[0] == monitor.alarm.row + 1
    assert change.get_xdata()[0] == monitor.changepoint
    assert monitor._misses.values == [
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
