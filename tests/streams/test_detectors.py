"""Shiryaev–Roberts and CUSUM detectors: mean time between false alarms, and detection delay."""

import math

import numpy as np
import pytest

import pippin
from pippin._theory.martingale import (
    BETTORS,
    CUSUM,
    PAID,
    PIECES,
    SHIRYAEV_ROBERTS,
    SUM,
    bet,
    bettors,
    gather,
    log_capital,
)

DATA = pippin.load_example()
PREDICTOR = pippin.calibrate(DATA.probs[:1000], DATA.labels[:1000], "pip", classes=DATA.classes)
NEW, TRUE = np.ascontiguousarray(DATA.probs[1000:]), DATA.labels[1000:].tolist()
DETECTORS = ("shiryaev-roberts", "cusum")


def test_every_betting_function_integrates_to_one():
    """The factor of each bettor has mean 1 over a uniform p-value, for any earlier p-values."""
    rng = np.random.default_rng(0)
    state, density = bettors(), np.zeros(PIECES)
    for p in rng.random(200) ** 2:
        bet(state, density, p)
    paid = []
    for p in (np.arange(1000) + 0.5) / 1000:
        one, other = state.copy(), density.copy()
        bet(one, other, p)
        paid.append(one[:, PAID])
    assert np.mean(paid, axis=0) == pytest.approx(np.ones(BETTORS), abs=1e-9)
    assert np.ptp(paid, axis=0).min() > 0.1


def test_plug_in_bettor_gains_where_linear_bets_do_not():
    """For p-values symmetric around 1/2, the plug-in bettor gains and linear bets do not."""
    rng, state, density = np.random.default_rng(1), bettors(), np.zeros(PIECES)
    for p in 0.35 + 0.3 * rng.random(300):
        bet(state, density, p)
    assert state[:-1, 0].max() < 3
    assert state[-1, 0] > 100
    assert log_capital(state) > 100


def test_statistics_are_over_all_change_points():
    """Shiryaev–Roberts is the sum, CUSUM the maximum, of the gains since each earlier row."""
    paid = np.exp(0.3 * np.random.default_rng(2).normal(size=(40, BETTORS)))
    gained = np.array([paid[i:].prod(axis=0) for i in range(len(paid))])
    for detector, whole in ((SHIRYAEV_ROBERTS, gained.sum(axis=0)), (CUSUM, gained.max(axis=0))):
        state = bettors()
        for row in paid:
            state[:, PAID] = row
            log = gather(state, detector)
        assert state[:, SUM] == pytest.approx(whole)
        assert math.exp(log) == pytest.approx(whole.mean())


@pytest.mark.parametrize("detector", DETECTORS)
def test_mean_time_between_false_alarms(detector):
    """The mean time between false alarms is `mean_time`, or up to an eighth more, within three standard errors."""
    rng = np.random.default_rng(3)
    scores = rng.random(10_500)
    rows = np.column_stack([1 - scores, scores])  # the score ip of class 0
    monitor = pippin.online.Monitor(
        pippin.calibrate(rows[:500], [0] * 500, "ip"), mean_time=50, detector=detector, seed=0
    )
    alarms = [alarm.row for row in rows[500:] if (alarm := monitor.update(row, 0))]
    apart = np.diff([-1, *alarms])
    assert len(apart) == monitor.n_alarms > 5
    error = 3 * apart.std() / math.sqrt(len(apart))
    assert 50 - error <= apart.mean() <= 50 * 9 / 8 + error


def test_the_first_alarm_of_cusum_is_early_for_a_small_mean_time():
    """For a small mean time, the first alarm of CUSUM comes earlier than later ones, as the documentation says."""
    rng = np.random.default_rng(4)
    calibration = np.linspace(0, 1, 201)[1:]
    predictor = pippin.calibrate(np.column_stack([1 - calibration, calibration]), np.zeros(200, int), "ip")
    means = {}
    for mean_time in (20, 200):
        first = []
        for seed in range(60):
            monitor = pippin.online.Monitor(predictor, mean_time=mean_time, detector="cusum", seed=seed)
            scores = rng.random(1500)
            rows = np.column_stack([1 - scores, scores])
            first.append(next((alarm.row + 1 for row in rows if (alarm := monitor.update(row, 0))), 1500))
        means[mean_time] = np.mean(first)
    assert 4 < means[20] < 15
    assert 80 < means[200] < 250


@pytest.mark.parametrize("detector", DETECTORS)
def test_a_lasting_change_raises_repeated_alarms(tmp_path, detector):
    """The delay does not grow with the rows before the change; a resumed monitor has the same bits."""
    whole = pippin.online.Monitor(PREDICTOR, mean_time=10_000, detector=detector, seed=4)
    resumed, alarms = pippin.online.Monitor(PREDICTOR, mean_time=10_000, detector=detector, seed=4), []
    for number, (row, label) in enumerate(zip(NEW[:2400], TRUE, strict=False)):
        if number % 800 == 799:
            resumed.save(tmp_path / "state.json")
            resumed = pippin.online.Monitor.load(tmp_path / "state.json")
        shown = 0.5 * row + 0.5 / 12 if number >= 2000 else row
        alarm = whole.update(shown, label)
        assert alarm == resumed.update(shown, label)
        assert bool(alarm) == whole.drift_detected
        alarms += [alarm] if alarm else []
    assert len(alarms) == whole.n_alarms == resumed.n_alarms > 1
    assert 2000 < alarms[0].row < 2100
    assert abs(alarms[0].changepoint - 2000) < 60
    assert alarms[1].changepoint > alarms[0].row
    assert whole.alarm == alarms[-1]
    assert f"{whole.n_alarms:,} alarms" in whole.describe()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": 0.1, "mean_time": 100}, "delta or mean_time, got both"),
        ({"mean_time": 1}, "a number of rows above 1"),
        ({"mean_time": 100, "detector": "adwin"}, "shiryaev-roberts or cusum"),
        ({"detector": "cusum"}, "mean_time with detector"),
    ],
)
def test_errors_of_options(options, message):
    with pytest.raises(pippin.InputError, match=message):
        pippin.online.Monitor(PREDICTOR, **options)
