"""Ours against each peer's on the same arrays: first that the sets agree, then the clock."""

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
    """A peer's score and ours of the same meaning; `calibrate(P, y)` gives the peer's predict."""

    package: str
    name: str
    ours: str
    calibrate: Callable[..., peers.Predict]
    note: str = ""


PENALTY = {"penalty": 0.02, "kreg": 3}
RIVALS = (
    Rival("mapie", "MAPIE lac", "ip", partial(peers.mapie, "lac")),
    Rival("torchcp", "TorchCP LAC", "ip", partial(peers.torchcp, "LAC")),
    Rival("crepes", "crepes hinge", "ip", partial(peers.crepes, "hinge")),
    Rival("torchcp", "TorchCP Margin", "margin", partial(peers.torchcp, "Margin")),
    Rival("crepes", "crepes margin", "margin", partial(peers.crepes, "margin")),
    Rival("mapie", "MAPIE aps", "aps", partial(peers.mapie, "aps")),
    Rival("torchcp", "TorchCP APS", "aps(randomized=False)", partial(peers.torchcp, "APS", randomized=False)),
    Rival("mapie", "MAPIE raps", "raps", partial(peers.mapie, "raps"), "chooses λ and k itself, so not compared"),
    Rival(
        "torchcp", "TorchCP RAPS", "raps(randomized=False)", partial(peers.torchcp, "RAPS", randomized=False, **PENALTY)
    ),
)
QUICK = tuple(rival for rival in RIVALS if rival.package != "crepes")
ADAPTIVE = tuple(rival for rival in RIVALS if rival.ours.startswith(("aps", "raps")))


def present() -> dict[str, bool]:
    """Which peers are installed."""
    return {rival.package: importlib.util.find_spec(rival.package) is not None for rival in RIVALS}


def disagreements(rival: Rival, probs: np.ndarray, labels: np.ndarray) -> int:
    """Classes that are in one set and not in the other, though not within SLACK of the threshold; in float64."""
    P, T = (np.array(part, dtype=np.float64) for part in (probs[:AGREED], probs[AGREED:]))  # noqa: N806 - the matrices
    score = pippin.scores.parse(rival.ours)
    u = peers.mapie_uniforms if score.randomized else np.zeros
    calibration = dispatch.label_scores(as_rows(P), labels[:AGREED], score, u(len(P)))
    threshold = np.sort(calibration)[1800 - 1]
    every = dispatch.class_scores(as_rows(T), score, u(len(T)))
    theirs = rival.calibrate(P, labels[:AGREED])(T)
    return int((((every <= threshold) != theirs) & (np.abs(every - threshold) > SLACK)).sum())


def checked(rival: Rival, probs: np.ndarray, labels: np.ndarray) -> str:
    """What the table says of agreement; no clock is started where the sets differ."""
    if rival.note:
        return rival.note
    if wrong := disagreements(rival, probs, labels):
        raise SystemExit(f"{rival.name} and {rival.ours} differ in {wrong} entries: nothing was timed.")
    return "same sets"


def whole(
    rivals: tuple[Rival, ...], cal: tuple[Any, Any], test: Any, check: tuple[Any, Any], repeats: int
) -> list[dict]:
    """Calibrate and predict together, per rival: their seconds, ours, and the ratio."""
    rows = []
    for rival in rivals:
        row = {"peer": rival.name, "ours": rival.ours, "present": present()[rival.package]}
        rows.append(row)
        if row["present"]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the peers warn of labels that a small check lacks
                row["agreement"] = checked(rival, *check)
                row.update(_times(rival, cal, test, repeats))
    return rows


def _times(rival: Rival, cal: tuple[Any, Any], test: Any, repeats: int) -> dict[str, float]:
    seed = 0 if pippin.scores.parse(rival.ours).randomized else None
    works = {
        "ours_s": lambda: pippin.calibrate(*cal, rival.ours, seed=seed).predict(test, seed=seed),
        "theirs_s": lambda: rival.calibrate(*cal)(test),
    }
    times = per_call(works, repeats, 0.05)
    return {**times, "ratio": times["theirs_s"] / times["ours_s"]}


def one_row(probs: np.ndarray, labels: np.ndarray, scores: tuple[str, ...], repeats: int) -> list[dict]:
    """Seconds for the set of one row: predict_one, and the peers' predict on a (1, K) array."""
    row = np.ascontiguousarray(probs[-1])
    cal = np.array(probs[:AGREED]), np.array(labels[:AGREED])
    works = {f"pippin {score}": partial(pippin.calibrate(*cal, score).predict_one, row) for score in scores}
    rivals = [rival for rival in RIVALS if present()[rival.package] and rival.ours in scores]
    works |= {rival.name: partial(rival.calibrate(*cal), row[None].copy()) for rival in rivals}
    seconds = per_call(works, repeats, 0.02)
    rows = []
    for score in scores:
        theirs = {rival.name: seconds[rival.name] for rival in rivals if rival.ours == score}
        fastest = min(theirs, key=theirs.__getitem__, default=None)
        ours = seconds[f"pippin {score}"]
        ratio = theirs[fastest] / ours if fastest else None
        rows.append(
            {
                "score": score,
                "classes": row.size,
                "ours_s": ours,
                "theirs_s": theirs,
                "fastest_peer": fastest,
                "ratio": ratio,
            }
        )
    return rows
