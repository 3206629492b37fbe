"""Detectors for machines that run for months: the mean time between false alarms, and how soon a change is told."""

import math

import numpy as np
import pytest

import pippin
from pippin._theory.betting import (
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


def test_every_bet_is_fair():
    """What each bettor is paid has mean 1 over a uniform p-value, whatever came before."""
    rng = np.random.default_rng(0)
    held, density = bettors(), np.zeros(PIECES)
    for p in rng.random(200) ** 2:
        bet(held, density, p)
    paid = []
    for p in (np.arange(1000) + 0.5) / 1000:
        one, other = held.copy(), density.copy()
        bet(one, other, p)
        paid.append(one[:, PAID])
    assert np.mean(paid, axis=0) == pytest.approx(np.ones(BETTORS), abs=1e-9)
    assert np.ptp(paid, axis=0).min() > 0.1


def test_a_law_that_jumpers_cannot_see_pays_the_plug_in_bettor():
    """p-values around one half and symmetric: linear bets gain nothing."""
    rng, held, density = np.random.default_rng(1), bettors(), np.zeros(PIECES)
    for p in 0.35 + 0.3 * rng.random(300):
        bet(held, density, p)
    assert held[:-1, 0].max() < 3
    assert held[-1, 0] > 100
    assert log_capital(held) > 100


def test_sums_are_over_all_beginnings():
    """Shiryaev–Roberts is the sum, CUSUM the largest, of what was gained since each row before."""
    paid = np.exp(0.3 * np.random.default_rng(2).normal(size=(40, BETTORS)))
    gained = np.array([paid[i:].prod(axis=0) for i in range(len(paid))])
    for detector, whole in ((SHIRYAEV_ROBERTS, gained.sum(axis=0)), (CUSUM, gained.max(axis=0))):
        held = bettors()
        for row in paid:
            held[:, PAID] = row
            log = gather(held, detector)
        assert held[:, SUM] == pytest.approx(whole)
        assert math.exp(log) == pytest.approx(whole.mean())


@pytest.mark.parametrize("detector", DETECTORS)
def test_the_mean_time_between_false_alarms_is_as_long_as_asked(detector):
    """Over one long stream of exchangeable rows: what was asked, within three standard errors and an eighth."""
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


@pytest.mark.parametrize("detector", DETECTORS)
def test_a_change_is_told_again_until_it_is_over(tmp_path, detector):
    """After a long good time as soon as at the beginning; resumed, to the same bits."""
    whole = pippin.online.Monitor(PREDICTOR, mean_time=10_000, detector=detector, seed=4)
    halved, alarms = pippin.online.Monitor(PREDICTOR, mean_time=10_000, detector=detector, seed=4), []
    for number, (row, label) in enumerate(zip(NEW[:2400], TRUE, strict=False)):
        if number % 800 == 799:
            halved.save(tmp_path / "state.json")
            halved = pippin.online.Monitor.load(tmp_path / "state.json")
        shown = 0.5 * row + 0.5 / 12 if number >= 2000 else row
        alarm = whole.update(shown, label)
        assert alarm == halved.update(shown, label)
        assert bool(alarm) == whole.drift_detected
        alarms += [alarm] if alarm else []
    assert len(alarms) == whole.n_alarms == halved.n_alarms > 1
    assert 2000 < alarms[0].row < 2100
    assert abs(alarms[0].changepoint - 2000) < 60
    assert alarms[1].changepoint > alarms[0].row
    assert whole.alarm == alarms[-1]
    assert f"{whole.n_alarms:,} alarms" in whole.describe()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"delta": 0.1, "mean_time": 100}, "delta or mean_time, got both"),
        ({"mean_time": 1}, "a number of rows above 1"),
        ({"mean_time": 100, "detector": "adwin"}, "shiryaev-roberts or cusum"),
        ({"detector": "cusum"}, "mean_time beside detector"),
    ],
)
def test_wrong_promises_are_told(asked, told):
    with pytest.raises(pippin.InputError, match=told):
        pippin.online.Monitor(PREDICTOR, **asked)
