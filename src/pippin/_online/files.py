"""Monitors and streams on disk: the predictor, and every number of the state, each checked when read."""

import base64
import zlib
from collections.abc import Callable
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from pippin._conformal import loading
from pippin._conformal.content import Content, need, vector_of, whole_numbers
from pippin._conformal.saving import attributes, decoded, read_kind
from pippin._engine.martingale import Martingale, new_martingale
from pippin._online.alarm import Alarm
from pippin._online.monitor import Monitor
from pippin._online.one_object import Coin
from pippin._online.risk_monitor import RiskMonitor
from pippin._online.stream import Stream
from pippin._online.trail import Trail
from pippin._runtime.arrays import Codes
from pippin._theory.betting import PIECES, SLOPES
from pippin._theory.bins import BINS, add

ASKED = ("delta", "mean_time", "detector")  # of a monitor
REMEDIES = ("read a predictor with pippin.load", "begin anew from the predictor")


def monitor_content(monitor: Monitor) -> dict[str, Any]:
    """What a file holds of a monitor."""
    alarm, held = monitor.alarm, monitor._evidence
    cells, bins = np.nonzero(held.counts)
    return {
        **attributes(monitor, *ASKED),
        "labelled": monitor._labelled,
        **attributes(monitor, "n_rows", "n_alarms"),
        "last": monitor._last,
        "trail": monitor._trail.content(),
        "misses": None if monitor._missed is None else monitor._missed.content(),
        **{name: values.tolist() for name, values in attributes(held, "bettors", "density", "rises", "since").items()},
        "cells": cells.tolist(),
        "bins": bins.tolist(),
        "counts": held.counts[cells, bins].tolist(),
        "coin": monitor._coin.content(),
        "alarm": None if alarm is None else [alarm.evidence, alarm.row, alarm.changepoint],
        "predictor": monitor.predictor.content(),
    }


def risk_content(monitor: RiskMonitor) -> dict[str, Any]:
    """What a file holds of a monitor of the promise."""
    return {
        **attributes(monitor, "alpha", "tolerance", "delta", "n_rows", "n_missed", "drift_detected"),
        "trail": monitor._trail.content(),
    }


def _risk_monitor(content: Content) -> RiskMonitor:
    monitor = RiskMonitor(content.level(), tolerance=content.number("tolerance"), delta=content.number("delta"))
    monitor.n_rows = content.whole("n_rows", 0)
    monitor.n_missed = content.whole("n_missed", 0, monitor.n_rows)
    monitor.drift_detected = content.take("drift_detected", lambda value: isinstance(value, bool))
    if content.has("trail"):  # files of before have none
        trail = monitor._trail
        trail.resume(content, "trail")
        need("trail", trail.n <= monitor.n_rows and trail.total <= monitor.n_missed)
    content.finish()
    return monitor


def stream_content(stream: Stream) -> dict[str, Any]:
    """What a file holds of a stream."""
    return {
        **attributes(stream, "update", "rate", "window"),
        "counts": [stream.n_predicted, stream._late],
        "labels_of_cells": [stream._learnt, stream._missed],
        "trail": stream._trail.content(),
        "learnt": base64.b64encode(zlib.compress(bytes(stream._known))).decode(),
        "coin": stream._coin.content(),
        "ways": [way.state() for way in stream._ways],
        "predictor": stream.predictor.content(),
    }


def _stream(content: Content) -> Stream:
    predictor: Any = loading.read(decoded(content.take("predictor", lambda value: isinstance(value, dict))))
    stream = Stream(predictor, content.take("update"), rate=content.take("rate"), window=content.take("window"))
    stream.n_predicted, stream._late = content.take("counts", lambda value: _are_counts(value, 2, 2**62))
    cells, most = len(stream._ways), stream.n_predicted
    stream._learnt, stream._missed = content.take("labels_of_cells", lambda value: _are_two(value, cells, most))
    need("labels_of_cells", sum(stream._learnt) <= stream.n_predicted)
    need("labels_of_cells", all(m <= n for n, m in zip(stream._learnt, stream._missed, strict=True)))
    stream.n_learnt, stream.n_missed = sum(stream._learnt), sum(stream._missed)
    stream._trail.resume(content, "trail")
    stream._known = _bits(content, stream)
    stream._coin = Coin.from_content(content)
    for way, state in zip(stream._ways, content.take("ways", lambda value: _are_states(value, cells)), strict=True):
        held = Content(decoded(state))
        way.resume(held)
        held.finish()
    content.finish()
    return stream


def _bits(content: Content, stream: Stream) -> bytearray:
    """Which tickets were learnt: as many as labels came."""
    try:
        found = bytearray(zlib.decompress(base64.b64decode(content.take("learnt"), validate=True)))
    except (ValueError, TypeError, zlib.error):
        found = bytearray(b"\xff")
    need("learnt", sum(byte.bit_count() for byte in found) == stream.n_learnt and len(found) <= stream.n_predicted)
    return found


def _are_two(values: Any, n: int, most: int) -> bool:
    return isinstance(values, list) and len(values) == 2 and all(_are_counts(one, n, most) for one in values)


def _are_states(values: Any, n: int) -> bool:
    return isinstance(values, list) and len(values) == n and all(isinstance(one, dict) for one in values)


def _monitor(content: Content) -> Monitor:
    predictor = loading.read(decoded(content.take("predictor", lambda value: isinstance(value, dict))))
    monitor = Monitor(predictor, **{name: content.take(name) for name in ASKED})
    monitor._labelled = content.take("labelled", lambda value: value in (None, True, False))
    monitor.n_rows, monitor.n_alarms = content.whole("n_rows", 0), content.whole("n_alarms", 0)
    monitor._last = content.number("last")
    monitor._evidence = _martingale(content, monitor.n_rows, len(monitor._pools.scores) if monitor._labelled else 1)
    monitor._trail.resume(content, "trail")
    if monitor._labelled:
        monitor._missed = Trail("sum")
        monitor._missed.resume(content, "misses")
    else:
        content.take("misses", lambda value: value is None)
    monitor._coin = Coin.from_content(content)
    monitor._alarmed = _alarm(content, monitor.n_rows)
    content.finish()
    return monitor


def _martingale(content: Content, rows: int, n_cells: int) -> Martingale:
    """The pools and the bettors; the trees of sums are made anew."""
    held, slopes = new_martingale(n_cells), len(SLOPES)
    cells, filled, counts = (_numbers(content, name) for name in ("cells", "bins", "counts"))
    need("bins", filled.shape == counts.shape == cells.shape and bool(((filled >= 0) & (filled < BINS)).all()))
    need("cells", bool(((cells >= 0) & (cells < n_cells)).all()))
    need("counts", bool((counts > 0).all()))
    for cell, place, count in zip(cells.tolist(), filled.tolist(), counts.tolist(), strict=True):
        held.counts[cell, place] += count
        add(held.tree[cell], place, count)
    since = content.take("since", lambda value: _are_counts(value, slopes, rows))
    return held._replace(
        bettors=content.matrix("bettors", held.bettors.shape).copy(),
        density=np.array(content.few("density", PIECES)),
        rises=np.array(content.few("rises", slopes)),
        since=np.array(since, dtype=np.int64),
    )


def _numbers(content: Content, name: str) -> Codes:
    """Whole numbers, or none."""
    values = content.take(name)
    return np.zeros(0, dtype=np.int64) if values == [] else whole_numbers(name, values, np.int64)


def _alarm(content: Content, rows: int) -> Alarm | None:
    held = content.take("alarm", lambda value: value is None or (isinstance(value, list) and len(value) == 3))
    if held is None:
        return None
    need("alarm", _are_counts(held[1:], 2, rows))
    return Alarm(True, float(vector_of("alarm", held[:1])[0]), *held[1:])


def _are_counts(values: Any, n: int, most: int) -> bool:
    whole = isinstance(values, list) and len(values) == n and all(type(one) is int for one in values)
    return whole and all(0 <= one <= most for one in values)


class Kind(NamedTuple):
    """What a file holds of something, and what is made of it."""

    content: Callable[[Any], dict[str, Any]]
    made: Callable[[Content], Any]


KINDS = {
    "monitor": Kind(monitor_content, _monitor),
    "risk monitor": Kind(risk_content, _risk_monitor),
    "stream": Kind(stream_content, _stream),
}


def read(path: "str | PathLike[str]", kind: str) -> Any:
    """What a file of this kind holds."""
    return read_kind(path, kind, kind, KINDS[kind].made, REMEDIES)
