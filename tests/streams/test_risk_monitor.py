"""Risk monitors: exact bets, false alarm probability, and time-uniform lower bounds."""

import math

import numpy as np
import pytest

import pippin
from pippin._conformal.serialization import write_file
from pippin._theory.martingale import STAKES, log_risk_capital, risk_lower_bound


def test_a_bet_against_the_true_rate_has_mean_one():
    """Under the true rate, a bet has mean 1, summed over all outcomes of twelve rows."""
    for rate in (0.05, 0.12, 0.7):
        total = sum(
            math.comb(12, k) * rate**k * (1 - rate) ** (12 - k) * math.exp(log_risk_capital(k, 12 - k, rate))
            for k in range(13)
        )
        assert total == pytest.approx(1, abs=1e-12)


def test_capital_is_the_product_of_its_bets():
    outcomes = np.random.default_rng(0).random(50) < 0.3
    capitals = [math.prod(1 - c + c * x / 0.2 for x in outcomes) for c in STAKES]
    assert math.exp(log_risk_capital(int(outcomes.sum()), 50 - int(outcomes.sum()), 0.2)) == pytest.approx(
        np.mean(capitals)
    )


def test_the_lower_bound_is_where_the_capital_reaches_its_limit():
    for missed, hit in ((1, 0), (5, 20), (300, 700), (40, 0)):
        assert log_risk_capital(missed, hit, risk_lower_bound(missed, hit, 0.05)) == pytest.approx(
            math.log(20), abs=1e-6
        )


@pytest.mark.parametrize("rate", [0.05, 0.12])
def test_probability_of_false_alarms_and_of_invalid_bounds(rate):
    """False alarms and invalid bounds are as rare as guaranteed, over 300 streams whose miss rate is at the limit."""
    rng, alarms, above = np.random.default_rng(1), 0, 0
    for _ in range(300):
        monitor = pippin.online.RiskMonitor(0.1, tolerance=0.02, delta=0.1)
        highest = -math.inf
        for missed in rng.random(400) < rate:
            monitor.update(missed)
            highest = max(highest, log_risk_capital(monitor.n_missed, monitor.n_rows - monitor.n_missed, rate))
        alarms += monitor.drift_detected
        above += highest >= math.log(10)
    allowed = 300 * 0.1 + 3 * math.sqrt(300 * 0.09)
    assert max(alarms, above) <= allowed
    assert above > 0


def test_excess_misses_are_detected():
    rng = np.random.default_rng(2)
    kept, broken = pippin.online.RiskMonitor(0.1), pippin.online.RiskMonitor(0.1)
    assert not any(kept.update(missed) for missed in rng.random(5000) < 0.1)
    assert any(broken.update(missed) for missed in rng.random(1000) < 0.2)
    assert broken.lower_bound > 0.12
    assert broken.evidence >= 100
    assert "violated" in broken.describe()
    assert "not refuted" in kept.describe()


def test_errors_of_arguments():
    with pytest.raises(pippin.InputError, match="tolerance"):
        pippin.online.RiskMonitor(0.1, tolerance=0.95)
    with pytest.raises(pippin.InputError, match="True or False"):
        pippin.online.RiskMonitor(0.1).update(1)
    assert pippin.online.RiskMonitor(0.1).lower_bound == 0


def _state(monitor):
    return {**vars(monitor), "_history": monitor._history.content()}


def test_resuming_gives_the_same_state(tmp_path):
    path, whole = tmp_path / "risk.json", pippin.online.RiskMonitor(0.1, tolerance=0.01, delta=0.05)
    for i in range(300):
        whole.update(i % 4 == 0)
    resumed = pippin.online.RiskMonitor(0.1, tolerance=0.01, delta=0.05)
    for i in range(300):
        if i % 70 == 9:
            resumed.save(path)
            resumed = pippin.online.RiskMonitor.load(path)
        resumed.update(i % 4 == 0)
    assert _state(resumed) == _state(whole)
    assert whole.drift_detected
    path.write_text(path.read_text().replace('"n_missed": ', '"n_missed": 1'))
    with pytest.raises(pippin.InputError, match="edited or damaged"):
        pippin.online.RiskMonitor.load(path)
    pippin.online.Monitor(pippin.calibrate([[0.5, 0.5]] * 9, [0] * 9)).save(path)
    with pytest.raises(pippin.InputError, match="does not hold a risk monitor"):
        pippin.online.RiskMonitor.load(path)


def test_plot_shows_the_evidence_at_every_label():
    """The line shows `evidence` after each label."""
    monitor, values = pippin.online.RiskMonitor(0.1, tolerance=0.02), []
    for i in range(300):
        monitor.update(i % 4 == 0)
        values.append(monitor.evidence)
    evidence, limit = monitor.plot().lines
    assert 10 ** evidence.get_ydata() == pytest.approx(values)
    assert evidence.get_xdata().tolist() == list(range(1, 301))
    assert 10 ** limit.get_ydata()[0] == pytest.approx(1 / monitor.delta)


def test_files_of_the_first_format_have_no_history(tmp_path):
    monitor = pippin.online.RiskMonitor(0.1, tolerance=0.02)
    for i in range(100):
        monitor.update(i % 4 == 0)
    content = monitor.content()
    del content["trail"]
    write_file(tmp_path / "risk.json", content)
    again = pippin.online.RiskMonitor.load(tmp_path / "risk.json")
    again.update(True)
    monitor.update(True)
    (line, _) = again.plot().lines
    assert (line.get_xdata().tolist(), 10 ** line.get_ydata()[-1]) == ([101], pytest.approx(monitor.evidence))
