"""Time repeated splits: `pippin.compare` against a loop over each peer."""

from statistics import median
from time import perf_counter
from typing import Any

import contest
import numpy as np
from measure import timed

import pippin
from pippin._compare.splits import draw_split, make_trial
from pippin._validation.labels import as_labelled
from pippin._validation.rows import as_rows


def against_peers(probs: Any, labels: Any, splits: int, peer_splits: int) -> dict[str, Any]:
    """Time the six scores of pippin on all splits, and each score of a peer on some of the same splits."""
    seconds = median(timed(lambda: pippin.compare(probs, labels, splits=splits)) for _ in range(3))
    ours = seconds / splits / len(pippin.scores.PAPER)
    trial = make_trial(as_labelled(probs, labels), 0.1, 0.45, 0)
    cuts = [draw_split(trial, i).calibration for i in range(peer_splits)]
    rows = []
    for rival in contest.RIVALS:
        if rival.package == "crepes" or not contest.present()[rival.package]:
            continue  # crepes takes minutes where the others take seconds
        start = perf_counter()
        for calibration in cuts:
            mask = rival.calibrate(probs[calibration], labels[calibration])(probs[~calibration])
            mask[np.arange(len(mask)), labels[~calibration]].mean(), mask.sum(axis=1).mean()
        theirs = (perf_counter() - start) / peer_splits
        rows.append({"peer": rival.name, "theirs_s": theirs, "ratio": theirs / ours})
    return {"splits": splits, "seconds": seconds, "per_score_and_split": ours, "peers": rows}


def six_scores(name: str, probs: Any, labels: Any, splits: int) -> dict[str, Any]:
    """Time the six scores of the paper on all splits of one matrix."""
    rows = as_rows(probs)
    seconds = timed(lambda: pippin.compare(rows, labels, splits=splits))
    return {"data": name, "rows": rows.n, "classes": rows.n_classes, "splits": splits, "seconds": seconds}
