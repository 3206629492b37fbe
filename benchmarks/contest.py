"""Time pippin against each peer on the same arrays, after checking that their sets agree."""

import importlib.util
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measure import per_call

import pippin
from pippin._engine import dispatch
from pippin._validation.rows import as_rows

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support import peers

AGREED = 1998  # calibration rows at which every peer takes the k-th smallest score
SLACK = 2e-8  # MAPIE takes what is within 1e-8; sums may differ in their last bits


class Rival(NamedTuple):
    """A score of a peer and the equal score of pippin; `calibrate(P, y)` returns the peer's predict function."""

    package: str
    name: str
    ours: str
    calibrate: Callable[..., peers.Predict]
    note: str = ""


PENALTY = {"penalty": 0.02, "kreg": 3}


def checked_lac(P: np.ndarray, y: np.ndarray) -> peers.Predict:
    """TorchCP's LAC behind the row check that pippin includes (finite, not negative, sums to one), written in torch."""
    import torch

    def check(table: np.ndarray) -> None:
        rows = torch.from_numpy(table)
        assert (torch.isfinite(rows) & (rows >= 0)).all()
        assert ((rows.sum(1) - 1).abs() <= 1e-3).all()

    check(P)
    predict = peers.torchcp("LAC", P, y)

    def checked_predict(T: np.ndarray) -> peers.Mask:
        check(T)
        return predict(T)

    return checked_predict


RIVALS = (
    Rival("mapie", "MAPIE lac", "ip", partial(peers.mapie, "lac")),
    Rival("torchcp", "TorchCP LAC", "ip", partial(peers.torchcp, "LAC")),
    Rival("torchcp", "TorchCP LAC, rows checked", "ip", checked_lac),
    Rival("crepes", "crepes hinge", "ip", partial(peers.crepes, "hinge")),
    Rival("torchcp", "TorchCP Margin", "margin", partial(peers.torchcp, "Margin")),
    Rival("crepes", "crepes margin", "margin", partial(peers.crepes, "margin")),
    Rival("mapie", "MAPIE aps", "aps", partial(peers.mapie, "aps")),
    Rival("torchcp", "TorchCP APS", "aps(randomized=False)", partial(peers.torchcp, "APS", randomized=False)),
    Rival(
        "mapie", "MAPIE raps", "raps", partial(peers.mapie, "raps"), "chooses λ and k itself, so sets are not compared"
    ),
    Rival(
        "torchcp", "TorchCP RAPS", "raps(randomized=False)", partial(peers.torchcp, "RAPS", randomized=False, **PENALTY)
    ),
)
FAST_RIVALS = tuple(rival for rival in RIVALS if rival.package != "crepes")  # crepes takes minutes at 100 classes


def present() -> dict[str, bool]:
    """Return which peers are installed."""
    return {rival.package: importlib.util.find_spec(rival.package) is not None for rival in RIVALS}


def disagreements(rival: Rival, probs: np.ndarray, labels: np.ndarray) -> int:
    """Count the entries that only one of the two sets has, except those within SLACK of the threshold; in float64."""
    P, T = (np.array(part, dtype=np.float64) for part in (probs[:AGREED], probs[AGREED:]))  # noqa: N806 - the matrices
    score = pippin.scores.parse(rival.ours)
    u = peers.mapie_uniforms if score.randomized else np.zeros
    calibration = dispatch.label_scores(as_rows(P), labels[:AGREED], score, u(len(P)))
    threshold = np.sort(calibration)[1800 - 1]
    every = dispatch.class_scores(as_rows(T), score, u(len(T)))
    theirs = rival.calibrate(P, labels[:AGREED])(T)
    return int((((every <= threshold) != theirs) & (np.abs(every - threshold) > SLACK)).sum())


def checked(rival: Rival, probs: np.ndarray, labels: np.ndarray) -> str:
    """Return the note on agreement; stop the benchmark if the sets differ."""
    if rival.note:
        return rival.note
    if wrong := disagreements(rival, probs, labels):
        raise SystemExit(f"{rival.name} and {rival.ours} differ in {wrong} entries: nothing was timed.")
    return "same sets"


def compete(
    rivals: tuple[Rival, ...], data: str, probs: np.ndarray, labels: np.ndarray, repeats: int
) -> dict[str, Any]:
    """Time calibrate and predict together on all rows, per rival: seconds of both and their ratio."""
    check = tuple(part[:5_000] for part in (probs, labels))
    rows = []
    for rival in rivals:
        if present()[rival.package]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the peers warn of labels that a small check lacks
                sets = checked(rival, *check)
                times = _times(rival, (probs, labels), probs, repeats)
            rows.append({"peer": rival.name, "score": rival.ours, "sets": sets, **times})
    return {"data": data, "rows": len(probs), "classes": probs.shape[1], "rivals": rows}


def _times(rival: Rival, cal: tuple[Any, Any], test: Any, repeats: int) -> dict[str, float]:
    seed = 0 if pippin.scores.parse(rival.ours).randomized else None
    works = {
        "ours_s": lambda: pippin.calibrate(*cal, rival.ours, seed=seed).predict(test, seed=seed),
        "theirs_s": lambda: rival.calibrate(*cal)(test),
    }
    times = per_call(works, repeats, 0.05)
    return {**times, "ratio": times["theirs_s"] / times["ours_s"]}


def one_row(probs: np.ndarray, labels: np.ndarray, scores: tuple[str, ...], repeats: int) -> dict[str, Any]:
    """Time the set of one row: `predict_one`, and the peers' predict on a (1, K) array."""
    row = np.ascontiguousarray(probs[-1])
    cal = np.array(probs[:AGREED]), np.array(labels[:AGREED])
    works = {f"pippin {score}": partial(pippin.calibrate(*cal, score).predict_one, row) for score in scores}
    rivals = [rival for rival in RIVALS if present()[rival.package] and rival.ours in scores]
    works |= {rival.name: partial(rival.calibrate(*cal), row[None].copy()) for rival in rivals}
    seconds = per_call(works, repeats, 0.02)
    return {
        "classes": row.size,
        "scores": {score: seconds[f"pippin {score}"] for score in scores},
        "rivals": [{"peer": r.name, "score": r.ours, "theirs_s": seconds[r.name]} for r in rivals],
    }
