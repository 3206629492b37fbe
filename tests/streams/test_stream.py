"""Streams: update rules by their definitions, bounds for any sequence, the same bits when resumed."""

import base64
import hashlib
import json
import pickle
import tracemalloc
import zlib

import numpy as np
import pytest

import pippin
from support.killed_processes import NEVER, killed_in_turn

DATA = pippin.load_example()
PREDICTOR = pippin.calibrate(DATA.probs[:500], DATA.labels[:500], "pip", classes=DATA.classes)
NEW, TRUE = np.ascontiguousarray(DATA.probs[500:]), DATA.labels[500:].tolist()
UPDATES = ("none", "grow", "window", "track", "aci", "dtaci")


def feed(stream, rows, labels):
    """Learn each label at once; return the threshold before each."""
    thresholds = []
    for row, label in zip(rows, labels, strict=True):
        thresholds.append(stream.threshold)
        stream.learn(stream.predict_one(row), label)
    return thresholds


def test_grow_equals_recalibration_with_all_rows():
    """The rule "grow" equals recalibration with all labels so far, to the last bit, at every row."""
    thresholds = feed(pippin.online.Stream(PREDICTOR, "grow"), NEW[:60], TRUE[:60])
    for n, threshold in enumerate(thresholds):
        again = pippin.calibrate(DATA.probs[: 500 + n], DATA.labels[: 500 + n], "pip")
        assert threshold == again.threshold


def test_window_equals_calibration_with_the_latest_rows():
    stream = pippin.online.Stream(PREDICTOR, "window", window=200, seed=0)
    feed(stream, NEW[:350], TRUE[:350])
    assert stream.threshold == pippin.calibrate(NEW[150:350], TRUE[150:350], "pip").threshold


def test_the_first_sets_are_those_of_the_predictor():
    for update in UPDATES:
        stream = pippin.online.Stream(PREDICTOR, update)
        for row in NEW[:50]:
            ticket = stream.predict_one(row)
            assert np.array_equal(ticket.members, PREDICTOR.predict_one(row)) or update in ("aci", "dtaci")
    assert pippin.online.Stream(PREDICTOR, "aci").threshold == PREDICTOR.threshold
    assert pippin.online.Stream(PREDICTOR, "dtaci").threshold == PREDICTOR.threshold


@pytest.mark.parametrize("score", ["pip", "aps"])
@pytest.mark.parametrize("update", UPDATES)
def test_a_miss_is_a_label_outside_its_set(update, score):
    predictor = pippin.calibrate(DATA.probs[:500], DATA.labels[:500], score, seed=0)
    stream, missed = pippin.online.Stream(predictor, update, seed=0), 0
    for row, label in zip(NEW[:300], TRUE[:300], strict=True):
        ticket = stream.predict_one(row)
        missed += label not in ticket.members
        stream.learn(ticket, label)
    assert stream.n_missed == missed > 0
    assert stream.coverage == 1 - missed / 300


def alternating(stream, row, n):
    """Alternate the least and the most probable class."""
    return int(row.argmax()) if n % 2 else int(row.argmin())


def adverse(stream, row, n):
    """Choose the most probable class outside the set."""
    inside = set(stream.predict_one(row).members.tolist())
    return next((int(k) for k in np.argsort(-row) if int(k) not in inside), int(row.argmin()))


def all_hard(stream, row, n):
    return int(row.argmin())


def all_easy(stream, row, n):
    return int(row.argmax())


def drifting(stream, row, n):
    return int(np.argsort(-row)[min(n // 100, 11)])


@pytest.mark.parametrize("late", [0, 7])
@pytest.mark.parametrize("update", ["track", "aci"])
@pytest.mark.parametrize("sequence", [alternating, adverse, all_hard, all_easy, drifting])
def test_coverage_is_within_its_bound_at_every_row(sequence, update, late):
    """For any sequence, also with late labels, |coverage − (1 − α)| ≤ (B + (d + 1)η_1)/(n·η_n) at every row."""
    stream, pending = pippin.online.Stream(PREDICTOR, update), []
    for n in range(1200):
        row = NEW[n]
        pending.append((stream.predict_one(row), sequence(stream, row, n)))
        if len(pending) > late:
            stream.learn(*pending.pop(0))
            assert abs(stream.coverage - 0.9) <= stream.bound + 1e-12
    assert np.isfinite(stream.bound)
    assert stream.bound < (0.75 if update == "track" else 0.25)


@pytest.mark.parametrize("score", ["pip", "socop"])
def test_track_converges_to_the_quantile(score):
    """After 5,000 exchangeable rows the mean size is within 2% of that of a calibrated predictor, over six streams."""
    predictor, ideal = (pippin.calibrate(*part, score) for part in ((DATA.probs[:500], DATA.labels[:500]), (NEW, TRUE)))
    sizes, wanted = [], []
    for seed in range(6):
        chosen = np.random.default_rng(seed).integers(0, len(NEW), 6000)
        stream = pippin.online.Stream(predictor, "track")
        feed(stream, NEW[chosen[:5000]], [TRUE[i] for i in chosen[:5000]])
        for i in chosen[5000:]:
            ticket = stream.predict_one(NEW[i])
            sizes.append(len(ticket.members))
            stream.learn(ticket, TRUE[i])
        wanted.append(pippin.metrics.mean_size(ideal.predict(NEW[chosen[5000:]])))
        assert abs(stream.coverage - 0.9) < 0.01
    assert abs(np.mean(sizes) / np.mean(wanted) - 1) < 0.02


def test_coverage_of_grow_is_exact():
    """Without ties, P(covered) = ⌈(n + 1)(1 − α)⌉/(n + 1) at every row, over many streams of uniform scores."""
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


@pytest.mark.parametrize("update", UPDATES)
def test_resuming_gives_the_same_bits(tmp_path, update):
    predictor = pippin.calibrate(DATA.probs[:500], DATA.labels[:500], "aps", seed=1)
    whole, resumed = (pippin.online.Stream(predictor, update, seed=5) for _ in range(2))
    pending = []
    for number, (row, label) in enumerate(zip(NEW[:300], TRUE[:300], strict=True)):
        if number % 90 == 50:
            resumed.save(tmp_path / "state.json")
            resumed = pippin.online.Stream.load(tmp_path / "state.json")
        one, other = whole.predict_one(row), resumed.predict_one(row)
        assert np.array_equal(one.members, other.members)
        pending.append((one, pickle.loads(pickle.dumps(other)), label))  # noqa: S301 - our own
        if number % 5 == 4:  # the latest first, and one in five never
            for first, second, true in pending[:0:-1]:
                whole.learn(first, true)
                resumed.learn(second, true)
            pending = []
        assert (whole.threshold, whole.n_missed, whole.bound) == (resumed.threshold, resumed.n_missed, resumed.bound)
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


def test_a_stream_killed_at_any_write_resumes_to_the_same_bits(tmp_path):
    program = {"code": STEPS, "modules": ["numba", "pippin"]}
    assert killed_in_turn([NEVER], tmp_path / "whole.json", **program) == [0]
    events = [("write", 3, "before"), ("os:replace", 2, "before"), NEVER]
    assert killed_in_turn(events, tmp_path / "state.json", **program) == [9, 9, 0]
    assert pippin.online.Stream.load(tmp_path / "whole.json").n_learnt == 60
    assert (tmp_path / "state.json").read_bytes() == (tmp_path / "whole.json").read_bytes()


def test_errors_of_arguments(tmp_path):
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
    assert isinstance(pippin.load(tmp_path / "stream.json"), pippin.online.Stream)


def test_a_ticket_is_used_once(tmp_path):
    """A ticket is refused if it was used, also after pickling and saving, and the state does not change."""
    stream = pippin.online.Stream(PREDICTOR, "track")
    tickets = [stream.predict_one(row) for row in NEW[:20]]
    for ticket in tickets[17:3:-2]:
        stream.learn(ticket, 0)
    stream.save(tmp_path / "stream.json")
    again = pippin.online.Stream.load(tmp_path / "stream.json")
    for learner in (stream, again):
        before = learner.threshold, learner.n_learnt
        with pytest.raises(pippin.InputError, match="Expected each ticket once, got ticket 7 again"):
            learner.learn(pickle.loads(pickle.dumps(tickets[7])), 0)  # noqa: S301 - our own
        assert before == (learner.threshold, learner.n_learnt)
        learner.learn(tickets[8], 0)
        learner.learn(tickets[0], 0)
    with pytest.raises(pippin.InputError, match="a ticket of this stream"):
        pippin.online.Stream(PREDICTOR).learn(tickets[3], 0)


def test_a_ticket_holds_a_copy_of_its_row():
    """A ticket holds a copy of its row, so that a buffer may be reused for the next row."""
    stream, other, buffer = pippin.online.Stream(PREDICTOR), pippin.online.Stream(PREDICTOR), NEW[0].copy()
    ticket = stream.predict_one(buffer)
    buffer[:] = 1 / 12
    stream.learn(ticket, 3)
    other.learn(other.predict_one(NEW[0]), 3)
    assert stream.threshold == other.threshold


def test_a_delayed_label_is_compared_with_its_own_set():
    """A delayed label is compared with the set of its own prediction, not with the current threshold."""
    stream = pippin.online.Stream(PREDICTOR, "track", rate=50.0)
    ticket = stream.predict_one(NEW[0])
    stream.learn(stream.predict_one(NEW[1]), int(NEW[1].argmin()))  # the threshold leaps
    assert len(stream.predict_one(NEW[0]).members) == 12
    stream.learn(ticket, int(NEW[0].argmin()))
    assert stream.n_missed == 2


def test_a_ticket_belongs_to_its_stream(tmp_path):
    """A ticket of another stream, or with an impossible number or group, is refused and changes nothing."""
    others = [pippin.online.Stream(PREDICTOR, seed=seed) for seed in (1, None)]
    stream = pippin.online.Stream(PREDICTOR, seed=0)
    own = stream.predict_one(NEW[0])
    for other in others:
        with pytest.raises(pippin.InputError, match="Expected a ticket of this stream"):
            stream.learn(other.predict_one(NEW[0]), TRUE[0])
    for change in ({"number": -1}, {"number": 1}, {"group": -1}, {"group": 5}):
        with pytest.raises(pippin.InputError, match="Expected a ticket of this stream"):
            stream.learn(own._replace(**change), TRUE[0])
    assert stream.n_learnt == 0
    stream.save(tmp_path / "s.json")
    again = pippin.online.Stream.load(tmp_path / "s.json")
    again.learn(own, TRUE[0])
    stream.learn(pickle.loads(pickle.dumps(own)), TRUE[0])  # noqa: S301 - our own
    assert again.threshold == stream.threshold


@pytest.mark.parametrize("label", [True, 1.5, np.True_])
def test_a_label_is_refused_whatever_was_learnt_before(label):
    """Labels of other types that compare equal to a valid label, such as True and 1, are refused."""
    stream, monitor = pippin.online.Stream(PREDICTOR), pippin.online.Monitor(PREDICTOR, seed=0)
    stream.learn(stream.predict_one(NEW[0]), 1)
    monitor.update(NEW[0], 1)
    with pytest.raises(pippin.InputError):
        stream.learn(stream.predict_one(NEW[1]), label)
    with pytest.raises(pippin.InputError):
        monitor.update(NEW[1], label)
    stream.learn(stream.predict_one(NEW[1]), 1.0)  # as pandas may write 1
    assert stream.n_learnt == 2


@pytest.mark.parametrize("make", [pippin.online.Stream, pippin.online.Monitor])
def test_streams_and_monitors_in_use_can_be_pickled(make):
    """A copy continues where the original is, and neither changes the other."""

    def step(one, i):
        if isinstance(one, pippin.online.Monitor):
            return one.update(NEW[i], TRUE[i]).evidence
        one.learn(one.predict_one(NEW[i]), TRUE[i])
        return one.threshold

    original = make(PREDICTOR, seed=0)
    for i in range(20):
        step(original, i)
    copied = pickle.loads(pickle.dumps(original))  # noqa: S301 - our own
    ahead = [step(copied, i) for i in range(20, 60)]
    assert [step(original, i) for i in range(20, 60)] == ahead


@pytest.mark.parametrize("update", ["track", "aci"])
def test_the_largest_rate_keeps_coverage_within_its_bound(update, tmp_path):
    """With the largest rate allowed, coverage is within its bound; with larger ones, thresholds could be infinite."""
    stream = pippin.online.Stream(PREDICTOR, update, rate=1e300)
    feed(stream, NEW[:300], TRUE[:300])
    stream.save(tmp_path / "s.json")
    assert abs(stream.coverage - 0.9) <= stream.bound < 0.25
    assert pippin.load(tmp_path / "s.json").bound == stream.bound
    with pytest.raises(pippin.InputError, match=r"rate of at most 1e\+300, got 1e\+308"):
        pippin.online.Stream(PREDICTOR, update, rate=1e308)


EDITS = [
    ("dtaci", ("ways", 0, "weights"), [[1e308] * 8, [0.0] * 8]),
    ("dtaci", ("ways", 0, "losses"), [5e-324, 1e-310, -1.0]),
    ("dtaci", ("ways", 0, "levels"), [[1e308] * 8, [1e308, -1e308] * 4]),
    ("track", ("rate",), [10**400]),
    ("monitor", ("mean_time",), [10**400]),
    ("grow", ("counts",), [[2**61, 0], [2**40, 0]]),
    ("grow", ("trail", 2), [1e308, 10**400, "nan", None]),
    ("monitor", ("detector",), [[], {}, [1], True]),
    ("monitor", ("bettors", 1, 3), [1.5, -0.5, 1e308]),
    ("monitor", ("bettors", 1, 1), [0.0, -1.0]),
    ("monitor", ("bettors", 1, 2), [-1.0, 1e308]),
    ("monitor", ("density", 0), [-1.0, 1e308]),
    ("monitor", ("misses", 2), [1e308]),
    ("monitor", ("labelled",), [1, 1.0, 0]),  # entries whose value would be replaced by another one
    ("monitor", ("detector",), [None]),
    ("monitor", ("bins", 0), [131071]),
    ("grow", ("trail", 2), [1.0]),
    ("grow", ("predictor", "calibration_scores"), [None]),
]


@pytest.mark.parametrize(("kind", "place", "values"), EDITS, ids=str)
def test_edited_states_are_refused(tmp_path, kind, place, values):
    """Edited states with a valid checksum are refused, so that no entry breaks a stream or a monitor later."""
    if kind == "monitor":
        saved = pippin.online.Monitor(PREDICTOR, mean_time=500, seed=0)
        for row, label in zip(NEW[:20], TRUE[:20], strict=True):
            saved.update(row, label)
    else:
        saved = pippin.online.Stream(PREDICTOR, kind, seed=0)
        feed(saved, NEW[:20], TRUE[:20])
    saved.save(tmp_path / "s.json")
    for value in values:
        whole = json.loads((tmp_path / "s.json").read_bytes())
        *where, key = place
        part = whole["predictor"]
        for step in where:
            part = part[step]
        part[key] = value
        content = json.dumps(whole["predictor"], sort_keys=True, separators=(",", ":")).encode()
        whole["sha256"] = hashlib.sha256(content).hexdigest()
        (tmp_path / "bad.json").write_text(json.dumps(whole))
        with pytest.raises(pippin.InputError):
            pippin.load(tmp_path / "bad.json")


def test_a_small_file_never_unpacks_to_a_large_stream(tmp_path):
    """A small file whose compressed list of rows with known labels is huge is refused before it is unpacked."""
    stream = pippin.online.Stream(PREDICTOR)
    stream.predict_one(NEW[0])
    stream.save(tmp_path / "s.json")
    whole = json.loads((tmp_path / "s.json").read_bytes())
    packed = zlib.compress(bytes(1 << 28), 9)
    for learnt in (packed, packed[:1000], zlib.compress(bytes(1))[:-1]):
        whole["predictor"]["learnt"] = base64.b64encode(learnt).decode()
        content = json.dumps(whole["predictor"], sort_keys=True, separators=(",", ":")).encode()
        whole["sha256"] = hashlib.sha256(content).hexdigest()
        (tmp_path / "bad.json").write_text(json.dumps(whole))
        tracemalloc.start()
        with pytest.raises(pippin.InputError, match="learnt"):
            pippin.online.Stream.load(tmp_path / "bad.json")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 26


@pytest.mark.parametrize("update", ["track", "aci"])
def test_the_smallest_rate_has_no_bound(update):
    """With step sizes so small that they underflow to 0, there is no bound."""
    stream = pippin.online.Stream(PREDICTOR, update, rate=5e-324, seed=0)
    feed(stream, NEW[:30], TRUE[:30])
    assert stream.bound == np.inf
    assert "inf" not in repr(stream)


def test_a_bound_that_says_nothing_is_left_out():
    """The description omits a bound that exceeds every deviation, as with few labels; later it states it."""
    stream, tickets = pippin.online.Stream(PREDICTOR, "aci"), []
    for number, (row, label) in enumerate(zip(NEW[:2000], TRUE[:2000], strict=True)):
        tickets.append((stream.predict_one(row), label))
        if number >= 50:
            stream.learn(*tickets[number - 50])
        if number == 55:
            assert stream.bound > 1
            assert "points" not in stream.describe()
    assert f"guaranteed within {100 * stream.bound:.3g} points for any sequence" in stream.describe()
