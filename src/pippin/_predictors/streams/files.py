"""Monitors and streams on disk: the predictor, and every number of the state, each checked when read."""

from collections.abc import Callable
from os import PathLike
from typing import Any, TypeVar

import numpy as np

from pippin._engine.watching import Evidence, no_evidence
from pippin._predictors import loading
from pippin._predictors.saving import Content, decoded, need, read_predictor, vector_of, whole_numbers
from pippin._predictors.streams.alarm import Alarm
from pippin._predictors.streams.monitor import Monitor
from pippin._predictors.streams.one_object import Coin
from pippin._predictors.streams.stream import Stream
from pippin._runtime.errors import InputError
from pippin._theory.betting import RATES, SLOPES
from pippin._theory.bins import BINS, add

T = TypeVar("T")


def monitor_content(monitor: Monitor) -> dict[str, Any]:
    """What a file holds of a monitor."""
    alarm, held = monitor.alarm, monitor._evidence
    filled = np.flatnonzero(held.counts)
    return {
        "kind": "monitor",
        "delta": monitor.delta,
        "labelled": monitor._labelled,
        "n_rows": monitor.n_rows,
        "capitals": held.capitals.tolist(),
        "rises": held.rises.tolist(),
        "since": held.since.tolist(),
        "bins": filled.tolist(),
        "counts": held.counts[filled].tolist(),
        "coin": monitor._coin.content(),
        "alarm": None if alarm is None else [alarm.evidence, alarm.row, alarm.changepoint],
        "predictor": monitor.predictor.content(),
    }


def load_monitor(path: "str | PathLike[str]") -> Monitor:
    """Reads a monitor's file."""
    return _sound(path, "monitor", _monitor)


def stream_content(stream: Stream) -> dict[str, Any]:
    """What a file holds of a stream."""
    return {
        "kind": "stream",
        "update": stream.update,
        "rate": stream.rate,
        "window": stream.window,
        "counts": [stream.n_predicted, stream.n_learnt, stream.n_missed, stream._late],
        "coin": stream._coin.content(),
        **stream._way.state(),
        "predictor": stream.predictor.content(),
    }


def load_stream(path: "str | PathLike[str]") -> Stream:
    """Reads a stream's file."""
    return _sound(path, "stream", _stream)


def _stream(content: Content) -> Stream:
    predictor: Any = loading.read(decoded(content.take("predictor", lambda value: isinstance(value, dict))))
    stream = Stream(predictor, content.take("update"), rate=content.take("rate"), window=content.take("window"))
    counts = content.take("counts", lambda value: _are_counts(value, 4, 2**62))
    need("counts", counts[2] <= counts[1] <= counts[0])
    stream.n_predicted, stream.n_learnt, stream.n_missed, stream._late = counts
    stream._coin = Coin.from_content(content)
    stream._way.resume(content)
    content.finish()
    return stream


def _sound(path: "str | PathLike[str]", kind: str, read: Callable[[Content], T]) -> T:
    """What the file holds, if it is of this kind and makes sense; errors name the file."""
    content = read_predictor(path)
    if content.pop("kind", None) != kind:
        raise InputError(f"{path} holds no {kind}", "read a predictor with pippin.load")
    try:
        return read(Content(content))
    except InputError as error:
        raise InputError(f"{path} holds no sound {kind} ({error.what})", "begin anew from the predictor") from error


def _monitor(content: Content) -> Monitor:
    predictor = loading.read(decoded(content.take("predictor", lambda value: isinstance(value, dict))))
    monitor = Monitor(predictor, content.take("delta", lambda value: isinstance(value, float)))
    monitor._labelled = content.take("labelled", lambda value: value in (None, True, False))
    monitor.n_rows = content.whole("n_rows", 0)
    monitor._evidence = _evidence(content, monitor.n_rows)
    monitor._coin = Coin.from_content(content)
    monitor._alarmed = _alarm(content, monitor.n_rows)
    content.finish()
    return monitor


def _evidence(content: Content, rows: int) -> Evidence:
    """The pool and the bettors; the tree of sums is made anew."""
    held, slopes = no_evidence(), len(SLOPES)
    filled, counts = (whole_numbers(name, content.take(name), np.int64) for name in ("bins", "counts"))
    need("bins", filled.shape == counts.shape and bool(((filled >= 0) & (filled < BINS)).all()))
    need("counts", bool((counts > 0).all()))
    for place, count in zip(filled.tolist(), counts.tolist(), strict=True):
        held.counts[place] += count
        add(held.tree, place, count)
    since = content.take("since", lambda value: _are_counts(value, slopes, rows))
    capitals, rises = content.matrix("capitals", (len(RATES), 4)), np.array(content.few("rises", slopes))
    return held._replace(capitals=capitals.copy(), rises=rises, since=np.array(since, dtype=np.int64))


def _alarm(content: Content, rows: int) -> Alarm | None:
    held = content.take("alarm", lambda value: value is None or (isinstance(value, list) and len(value) == 3))
    if held is None:
        return None
    need("alarm", _are_counts(held[1:], 2, rows))
    return Alarm(True, float(vector_of("alarm", held[:1])[0]), *held[1:])


def _are_counts(values: Any, n: int, most: int) -> bool:
    whole = isinstance(values, list) and len(values) == n and all(type(one) is int for one in values)
    return whole and all(0 <= one <= most for one in values)
