"""Streams: each way's threshold by its definition, `track` within its bound whatever comes, the same bits resumed."""

import pickle
from bisect import insort

import numpy as np
import pytest

import pippin
from pippin._online import sorted_pool
from pippin._online.sorted_pool import SortedPool
from support.killing import NEVER, killed_in_turn

DATA = pippin.load_example()
PREDICTOR = pippin.calibrate(DATA.probs[:500], DATA.labels[:500], "pip", classes=DATA.classes)
NEW, TRUE = np.ascontiguousarray(DATA.probs[500:]), DATA.labels[500:].tolist()
WAYS = ("none", "grow", "window", "track", "aci", "dtaci")


def fed(stream, rows, labels):
    """The stream after each label came at once; the thresholds along the way."""
    thresholds = []
    for row, label in zip(rows, labels, strict=True):
        thresholds.append(stream.threshold)
        stream.learn(stream.predict_one(row), label)
    return thresholds


def test_a_sorted_pool_is_sorted(monkeypatch):
    """As a plain list is at every step, over many pieces, with ties, wherever the last k-th was."""
    monkeypatch.setattr(sorted_pool, "PIECE", 16)
    rng = np.random.default_rng(0)
    plain, pool = [], SortedPool(())
    for i, score in enumerate((rng.integers(0, 300, 2000) / 7).tolist()):
        insort(plain, score)
        pool.add(score)
        if i % 3 == 0:
            pool.remove(plain.pop(int(rng.integers(len(plain)))))
        if plain and i % 7 == 0:
            k = int(rng.integers(len(plain)))
            assert pool.kth(k + 1) == plain[k]
    for left in range(len(plain), 0, -1):
        assert pool.n == left
        assert pool.kth(left // 2 + 1) == plain[left // 2]
        pool.remove(plain.pop(int(rng.integers(left))))
    pool.add(1.0)
    assert (pool.n, pool.kth(1)) == (1, 1.0)


def test_grow_is_calibrating_with_all_rows_so_far():
    """To the last bit, at every row."""
    thresholds = fed(pippin.online.Stream(PREDICTOR, "grow"), NEW[:60], TRUE[:60])
    for n, threshold in enumerate(thresholds):
        again = pippin.calibrate(DATA.probs[: 500 + n], DATA.labels[: 500 + n], "pip")
        assert threshold == again.threshold


def test_a_window_holds_the_latest_rows():
    stream = pippin.online.Stream(PREDICTOR, "window", window=200, seed=0)
    fed(stream, NEW[:350], TRUE[:350])
    assert stream.threshold == pippin.calibrate(NEW[150:350], TRUE[150:350], "pip").threshold


def test_none_is_the_predictor_and_every_ticket_its_set():
    for way in WAYS:
        stream = pippin.online.Stream(PREDICTOR, way)
        for row in NEW[:50]:
            ticket = stream.predict_one(row)
            assert np.array_equal(ticket.members, PREDICTOR.predict_one(row)) or way in ("aci", "dtaci")
    assert pippin.online.Stream(PREDICTOR, "aci").threshold == PREDICTOR.threshold
    assert pippin.online.Stream(PREDICTOR, "dtaci").threshold == PREDICTOR.threshold


@pytest.mark.parametrize("score", ["pip", "aps"])
@pytest.mark.parametrize("way", WAYS)
def test_a_miss_is_a_label_outside_its_set(way, score):
    predictor = pippin.calibrate(DATA.probs[:500], DATA.labels[:500], score, seed=0)
    stream, missed = pippin.online.Stream(predictor, way, seed=0), 0
    for row, label in zip(NEW[:300], TRUE[:300], strict=True):
        ticket = stream.predict_one(row)
        missed += label not in ticket.members
        stream.learn(ticket, label)
    assert stream.n_missed == missed > 0
    assert stream.coverage == 1 - missed / 300


def alternating(stream, row, n):
    """As adverse as can be: a miss wherever one is possible, then a hit, in turn."""
    return int(row.argmax()) if n % 2 else int(row.argmin())


def adverse(stream, row, n):
    """Always the class that is just outside the set."""
    inside = set(stream.predict_one(row).members.tolist())
    return next((int(k) for k in np.argsort(-row) if int(k) not in inside), int(row.argmin()))


def all_hard(stream, row, n):
    return int(row.argmin())


def all_easy(stream, row, n):
    return int(row.argmax())


def drifting(stream, row, n):
    return int(np.argsort(-row)[min(n // 100, 11)])


@pytest.mark.parametrize("late", [0, 7])
@pytest.mark.parametrize("way", ["track", "aci"])
@pytest.mark.parametrize("sequence", [alternating, adverse, all_hard, all_easy, drifting])
def test_long_run_coverage_within_its_bound_at_every_row(sequence, way, late):
    """|coverage − (1 − α)| ≤ (B + (d + 1)η_1)/(n·η_n), for any sequence, and with labels that come late."""
    stream, waiting = pippin.online.Stream(PREDICTOR, way), []
    for n in range(1200):
        row = NEW[n]
        waiting.append((stream.predict_one(row), sequence(stream, row, n)))
        if len(waiting) > late:
            stream.learn(*waiting.pop(0))
            assert abs(stream.coverage - 0.9) <= stream.bound + 1e-12
    assert np.isfinite(stream.bound)
    assert stream.bound < (0.75 if way == "track" else 0.25)


@pytest.mark.parametrize("score", ["pip", "socop"])
def test_track_settles_on_the_quantile(score):
    """On exchangeable rows, after 5,000 of them, sets as small as a calibration's within 2 %, over six streams."""
    predictor, ideal = (pippin.calibrate(*part, score) for part in ((DATA.probs[:500], DATA.labels[:500]), (NEW, TRUE)))
    sizes, wanted = [], []
    for seed in range(6):
        chosen = np.random.default_rng(seed).integers(0, len(NEW), 6000)
        stream = pippin.online.Stream(predictor, "track")
        fed(stream, NEW[chosen[:5000]], [TRUE[i] for i in chosen[:5000]])
        for i in chosen[5000:]:
            ticket = stream.predict_one(NEW[i])
            sizes.append(len(ticket.members))
            stream.learn(ticket, TRUE[i])
        wanted.append(pippin.metrics.mean_size(ideal.predict(NEW[chosen[5000:]])))
        assert abs(stream.coverage - 0.9) < 0.01
    assert abs(np.mean(sizes) / np.mean(wanted) - 1) < 0.02


def test_grow_covers_exactly_as_often_as_it_says():
    """P(covered) = ⌈(n + 1)(1 − α)⌉/(n + 1) at every row without ties: counted over many streams of uniform scores."""
    rng = np.random.default_rng(2)
    covered = np.zeros(5)
    for _ in range(1500):
        p = rng.random(24)
        rows = np.column_stack([p, 1 - p])  # the score ip of class 0 is 1 − p, uniform
        stream = pippin.online.Stream(pippin.calibrate(rows[:19], [0] * 19, "ip", 0.1), "grow")
        for i in range(5):
            ticket = stream.predict_one(rows[19 + i])
            covered[i] += 0 in ticket.members
            stream.learn(ticket, 0)
    exact = np.array([pippin._theory.level.quantile_rank(n, 0.1) / (n + 1) for n in range(19, 24)])
    assert (np.abs(covered / 1500 - exact) < 4 * np.sqrt(0.09 / 1500)).all()


@pytest.mark.parametrize("way", WAYS)
def test_resumed_it_gives_the_same_bits(tmp_path, way):
    predictor = pippin.calibrate(DATA.probs[:500], DATA.labels[:500], "aps", seed=1)
    whole, halved = (pippin.online.Stream(predictor, way, seed=5) for _ in range(2))
    waiting = []
    for number, (row, label) in enumerate(zip(NEW[:300], TRUE[:300], strict=True)):
        if number % 90 == 50:
            halved.save(tmp_path / "state.json")
            halved = pippin.online.Stream.load(tmp_path / "state.json")
        one, other = whole.predict_one(row), halved.predict_one(row)
        assert np.array_equal(one.members, other.members)
        waiting.append((one, pickle.loads(pickle.dumps(other)), label))  # noqa: S301 - our own
        if number % 5 == 4:  # the latest first, and one in five never
            for first, second, true in waiting[:0:-1]:
                whole.learn(first, true)
                halved.learn(second, true)
            waiting = []
        assert (whole.threshold, whole.n_missed, whole.bound) == (halved.threshold, halved.n_missed, halved.bound)
    assert whole.n_learnt == 240


STEPS = """
import sys, numpy as np, pippin
from pathlib import Path
path, data = Path(sys.argv[1]), pippin.load_example()
rows = np.ascontiguousarray(data.probs[2000:2060])
predictor = pippin.calibrate(data.probs[:300], data.labels[:300])
stream = pippin.online.Stream.load(path) if path.exists() else pippin.online.Stream(predictor, "track", seed=0)
while stream.n_learnt < 60:
    stream.learn(stream.predict_one(rows[stream.n_learnt]), data.labels[2000 + stream.n_learnt])
    if stream.n_learnt % 10 == 0:
        stream.save(path)
"""


def test_killed_at_any_write_it_goes_on_to_the_same_bits(tmp_path):
    program = {"code": STEPS, "modules": ["numba", "pippin"]}
    assert killed_in_turn([NEVER], tmp_path / "whole.json", **program) == [0]
    events = [("write", 3, "before"), ("os:replace", 2, "before"), NEVER]
    assert killed_in_turn(events, tmp_path / "state.json", **program) == [9, 9, 0]
    assert pippin.online.Stream.load(tmp_path / "whole.json").n_learnt == 60
    assert (tmp_path / "state.json").read_bytes() == (tmp_path / "whole.json").read_bytes()


def test_wrong_use_is_told(tmp_path):
    clustered = pippin.calibrate(DATA.probs[:2000], DATA.labels[:2000], per="cluster", seed=0)
    with pytest.raises(pippin.InputError, match="none, grow, window, track, aci, dtaci"):
        pippin.online.Stream(PREDICTOR, "drift")
    with pytest.raises(pippin.InputError, match="thresholds for all, per class or per group"):
        pippin.online.Stream(clustered)
    with pytest.raises(pippin.InputError, match="no rate"):
        pippin.online.Stream(PREDICTOR, "grow", rate=1)
    with pytest.raises(pippin.InputError, match="positive rate"):
        pippin.online.Stream(PREDICTOR, "track", rate=-1)
    with pytest.raises(pippin.InputError, match="no window"):
        pippin.online.Stream(PREDICTOR, "track", window=3)
    with pytest.raises(pippin.InputError, match="at least one score"):
        pippin.online.Stream(PREDICTOR, "window", window=0)
    stream = pippin.online.Stream(PREDICTOR)
    with pytest.raises(pippin.InputError, match="12 probabilities"):
        stream.predict_one([0.5, 0.5])
    with pytest.raises(pippin.InputError, match="not one of the 12 classes"):
        stream.learn(stream.predict_one(NEW[0]), "thistle")
    assert stream.n_learnt == 0
    stream.save(tmp_path / "stream.json")
    with pytest.raises(pippin.InputError, match=r"pippin\.Stream\.load"):
        pippin.load(tmp_path / "stream.json")


def test_a_ticket_is_learnt_once(tmp_path):
    """Also after it was pickled and the stream was saved; a refused one changes nothing."""
    stream = pippin.online.Stream(PREDICTOR, "track")
    tickets = [stream.predict_one(row) for row in NEW[:20]]
    for ticket in tickets[17:3:-2]:
        stream.learn(ticket, 0)
    stream.save(tmp_path / "stream.json")
    again = pippin.online.Stream.load(tmp_path / "stream.json")
    for held in (stream, again):
        before = held.threshold, held.n_learnt
        with pytest.raises(pippin.InputError, match="Ticket 7 was learnt before"):
            held.learn(pickle.loads(pickle.dumps(tickets[7])), 0)  # noqa: S301 - our own
        assert before == (held.threshold, held.n_learnt)
        held.learn(tickets[8], 0)
        held.learn(tickets[0], 0)
    with pytest.raises(pippin.InputError, match="a ticket of this stream"):
        pippin.online.Stream(PREDICTOR).learn(tickets[3], 0)


def test_the_row_of_a_ticket_is_its_own():
    """Whoever fills one buffer again and again learns what was in it then."""
    stream, other, buffer = pippin.online.Stream(PREDICTOR), pippin.online.Stream(PREDICTOR), NEW[0].copy()
    ticket = stream.predict_one(buffer)
    buffer[:] = 1 / 12
    stream.learn(ticket, 3)
    other.learn(other.predict_one(NEW[0]), 3)
    assert stream.threshold == other.threshold


def test_a_late_label_is_held_against_the_set_that_was_given():
    """Not against the threshold of the hour at which it comes."""
    stream = pippin.online.Stream(PREDICTOR, "track", rate=50.0)
    ticket = stream.predict_one(NEW[0])
    stream.learn(stream.predict_one(NEW[1]), int(NEW[1].argmin()))  # the threshold leaps
    assert len(stream.predict_one(NEW[0]).members) == 12
    stream.learn(ticket, int(NEW[0].argmin()))
    assert stream.n_missed == 2
