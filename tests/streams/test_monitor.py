"""Monitors: valid p-values, false alarm probability, detection of changes, the same bits when resumed."""

import warnings

import numpy as np
import pytest

import pippin
from pippin._engine.martingale import new_martingale
from pippin._engine.numba_engine.martingale import p_value
from pippin._theory.martingale import BINS, bin_of
from support.false_alarms import highest_evidence
from support.killed_processes import NEVER, killed_in_turn

DATA = pippin.load_example()
PREDICTOR = pippin.calibrate(DATA.probs[:2000], DATA.labels[:2000], classes=DATA.classes)
NEW, TRUE = np.ascontiguousarray(DATA.probs[2000:]), DATA.labels[2000:].tolist()


def p_values(scores, v):
    """Return the conformal p-value of each score among the earlier ones."""
    state = new_martingale()
    return np.array([p_value(s, draw, state.counts[0], state.tree[0]) for s, draw in zip(scores, v, strict=True)])


def test_bins_are_monotone_in_the_score():
    rng = np.random.default_rng(0)
    scores = np.sort(np.concatenate([rng.normal(size=500), rng.normal(size=500) * 1e-13, rng.normal(size=500) * 1e9]))
    places = [bin_of(s) for s in (-np.inf, *scores, np.inf)]
    assert places == sorted(places)
    assert places[0] == 0
    assert places[-1] == BINS - 1


@pytest.mark.parametrize("kind", ["apart", "tied", "all the same"])
def test_p_values_by_their_definition(kind):
    """p = (#greater + v(#equal + 1))/(n + 1), by counting, where bins hold one score each."""
    rng = np.random.default_rng(1)
    scores = {"apart": rng.permutation(200), "tied": rng.integers(0, 5, 200), "all the same": np.zeros(200)}[kind] / 256
    v = rng.random(200)
    for n, (p, s) in enumerate(zip(p_values(scores, v), scores, strict=True)):
        before = scores[:n]
        assert p == ((before > s).sum() + v[n] * ((before == s).sum() + 1)) / (n + 1)


@pytest.mark.parametrize("levels", [3, 10**9])
def test_p_values_are_uniform_and_independent(levels):
    """p-values are uniform and pairwise independent, also with many ties, by chi-squared tests."""
    rng = np.random.default_rng(2)
    cells = np.zeros((4, 4))
    for _ in range(4000):
        p = p_values(rng.integers(0, levels, 6) / 7.0, rng.random(6))
        cells[int(4 * p[-2]), int(4 * p[-1])] += 1
    assert ((cells - 250) ** 2 / 250).sum() < 37.7  # 99.9% of chi-square with 15 degrees of freedom


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("labelled", [False, True])
def test_false_alarm_probability(labelled, tied):
    """P(any alarm) is at most delta over exchangeable streams, within three standard errors."""
    rng = np.random.default_rng(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [highest_evidence(rng, 250, labelled, tied) for _ in range(200)]
    assert np.mean(np.array(found) >= 10) <= 0.1 + 3 * np.sqrt(0.09 / 200)


@pytest.mark.parametrize("labelled", [False, True])
def test_a_change_and_its_change_point_are_detected(labelled):
    monitor = pippin.online.Monitor(PREDICTOR, reference=None if labelled else DATA.probs[:2000], seed=0)
    dim = 0.5 * NEW + 0.5 / 12
    labels = TRUE if labelled else [None] * len(TRUE)
    assert not any(monitor.update(row, label) for row, label in zip(NEW[:1000], labels[:1000], strict=True))
    alarms = [monitor.update(row, label) for row, label in zip(dim[1000:1200], labels[1000:1200], strict=True)]
    first = next(i for i, alarm in enumerate(alarms) if alarm)
    assert first < 100
    assert monitor.drift_detected
    assert abs(monitor.changepoint - 1000) < 60
    assert all(alarms[first:])
    assert monitor.alarm.evidence >= 100
    assert f"since row {monitor.changepoint:,}" in str(alarms[first])
    assert str(monitor.alarm) in monitor.describe()


@pytest.mark.parametrize("score", ["pip", "aps"])
@pytest.mark.parametrize("labelled", [False, True])
def test_resuming_gives_the_same_bits(tmp_path, score, labelled):
    predictor = pippin.calibrate(DATA.probs[:500], DATA.labels[:500], score, seed=1)
    whole, resumed = (pippin.online.Monitor(predictor, 0.05, seed=5) for _ in range(2))
    for number, (row, label) in enumerate(zip(NEW[:400], TRUE[:400], strict=True)):
        given = label if labelled else None
        if number % 100 == 50:
            resumed.save(tmp_path / "state.json")
            resumed = pippin.online.Monitor.load(tmp_path / "state.json")
            assert resumed.evidence == whole.evidence
        shown = 1 - (1 - row) / 11 if number > 300 else row
        shown = shown / shown.sum()
        assert whole.update(shown, given) == resumed.update(shown, given)
    assert whole.alarm == resumed.alarm
    assert whole.drift_detected


STEPS = """
import sys, numpy as np, pippin
from pathlib import Path
path, data = Path(sys.argv[1]), pippin.load_example()
rows = np.ascontiguousarray(data.probs[2000:2060])
predictor = pippin.calibrate(data.probs[:300], data.labels[:300])
monitor = pippin.online.Monitor.load(path) if path.exists() else pippin.online.Monitor(predictor, seed=0)
while monitor.n_rows < 60:
    monitor.update(rows[monitor.n_rows], data.labels[2000 + monitor.n_rows])
    if monitor.n_rows % 10 == 0:
        monitor.save(path)
"""


EVENTS = (("write", 1), ("write", 3), ("os:replace", 2), ("os:fsync", 2))


def test_a_monitor_killed_at_any_write_resumes_to_the_same_bits(tmp_path):
    """kill -9 with half a file written, or before it is renamed: the last saved state is kept."""
    program = {"code": STEPS, "modules": ["numba", "pippin"]}
    assert killed_in_turn([NEVER], tmp_path / "whole.json", **program) == [0]
    kills = [(event, number, "before") for event, number in EVENTS]
    assert killed_in_turn([*kills, NEVER], tmp_path / "state.json", **program) == [9] * len(kills) + [0]
    assert pippin.online.Monitor.load(tmp_path / "whole.json").n_rows == 60
    assert (tmp_path / "state.json").read_bytes() == (tmp_path / "whole.json").read_bytes()


def test_memory_is_constant():
    monitor = pippin.online.Monitor(PREDICTOR, seed=0)
    sizes = set()
    for row, label in zip(NEW, TRUE, strict=True):
        monitor.update(row, label)
        sizes.add(sum(part.nbytes for part in monitor._martingale))
    assert len(sizes) == 1
    assert int(monitor._martingale.tree[0, 0]) == 2000 + len(NEW)


def test_evidence_never_overflows():
    monitor = pippin.online.Monitor(PREDICTOR, seed=0)
    for _ in range(3000):
        alarm = monitor.update(np.eye(12)[0], 1)
    assert np.isfinite(alarm.evidence)
    assert alarm.evidence > 1e300


def test_errors_of_arguments():
    per_class = pippin.calibrate(DATA.probs[:2000], DATA.labels[:2000], per="cluster", seed=0)
    monitor = pippin.online.Monitor(PREDICTOR, reference=DATA.probs[:100])
    with pytest.raises(pippin.InputError, match="delta, the probability of a false alarm"):
        pippin.online.Monitor(PREDICTOR, 0)
    with pytest.raises(pippin.InputError, match="since the reference holds none"):
        monitor.update(NEW[0], 0)
    monitor.update(NEW[0])
    with pytest.raises(pippin.InputError, match="two monitors"):
        monitor.update(NEW[0], 0)
    with pytest.raises(pippin.InputError, match="12 probabilities"):
        monitor.update(NEW[0, :3])
    with pytest.raises(pippin.InputError, match="thresholds for all, per class or per group"):
        pippin.online.Monitor(per_class).update(NEW[0], 0)
    with pytest.raises(pippin.InputError, match="seed"):
        pippin.online.Monitor(PREDICTOR, seed=1.5)
    with pytest.raises(pippin.InputError, match="not one of the 12 classes"):
        pippin.online.Monitor(PREDICTOR).update(NEW[0], "thistle")
    assert pippin.online.Monitor(per_class).update(NEW[0]).row == 0


def test_a_refused_row_leaves_the_state_unchanged():
    monitor, other = pippin.online.Monitor(PREDICTOR, seed=0), pippin.online.Monitor(PREDICTOR, seed=0)
    monitor.update(NEW[0], 0)
    for bad in (2 * NEW[0], np.full(12, np.nan)):
        with pytest.raises(pippin.InputError, match="The row"):
            monitor.update(bad, 0)
    other.update(NEW[0], 0)
    assert monitor.update(NEW[1], 0) == other.update(NEW[1], 0)


def test_errors_of_files(tmp_path):
    PREDICTOR.save(tmp_path / "predictor.json")
    pippin.online.Monitor(PREDICTOR).save(tmp_path / "monitor.json")
    with pytest.raises(pippin.InputError, match=r"does not hold a monitor: read it with pippin\.load"):
        pippin.online.Monitor.load(tmp_path / "predictor.json")
    assert isinstance(pippin.load(tmp_path / "monitor.json"), pippin.online.Monitor)
    text = (tmp_path / "monitor.json").read_text()
    (tmp_path / "monitor.json").write_text(text.replace('"n_rows": 0', '"n_rows": 9'))
    with pytest.raises(pippin.InputError, match="edited or damaged"):
        pippin.online.Monitor.load(tmp_path / "monitor.json")
