"""Calibration, sets and p-values of `pippin.torch` on some device, held against the NumPy core row by row.

    PYTHONPATH=src:tests python3 -m support.on_device

On a machine with a GPU that is the GPU, and numbers behind it choose among the numbers of classes. Elsewhere a few
rows are taken, on the CPU; with TRITON_INTERPRET=1 by the kernels, which run there slowly.
"""

import json
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

import pippin
import pippin.torch as pt
from pippin._engine.plain import engine as plain
from pippin._engine.protocol import Bounds, Draws
from pippin._predictors.portable import portable_p, portable_sets
from pippin._theory.level import quantile_rank
from pippin._theory.scores import coefficients
from support.rows import KINDS, made_rows
from support.scores import EVERY_SCORE


def labels_at_any_rank(probs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One class per row: mostly one of the best, sometimes one far down."""
    far = np.where(rng.random(len(probs)) < 0.3, 0.01, 0.3)
    rank = np.minimum(rng.geometric(far) - 1, probs.shape[1] - 1)
    return np.argsort(-probs, axis=1, kind="stable")[np.arange(len(probs)), rank]


def differing(x: torch.Tensor, score: pippin.Score, logits: bool, per: str | None = None, alpha: float = 0.2) -> int:
    """Rows whose set or p-values are not the core's, calibrated on the device; all, if its thresholds are not."""
    probs = pt.probabilities(x) if logits else x
    host, rng = probs.cpu().numpy(), np.random.default_rng(1)
    n, n_classes = host.shape
    labels, u, groups = labels_at_any_rank(host, rng), rng.random(n), rng.integers(0, 3, n)
    grouped = groups if per is not None and "group" in per else None
    given = torch.from_numpy(labels).repeat_interleave(2).to(x.device)[::2]  # not one after the other in memory
    found = pt.calibrate(x, given, score, alpha, seed=2, per=per, groups=grouped, from_probs=not logits)
    c = coefficients(score, n_classes)
    scores = np.empty(n)
    drawn = np.random.default_rng(2).random(n) if score.randomized else np.zeros(n)
    plain.label_scores(host, labels, c, drawn, scores)
    mine = found.scores if per is None else None
    if mine is not None and not np.array_equal(mine, scores):
        return n
    if per is None and found.threshold != np.sort(scores)[quantile_rank(n, alpha) - 1]:
        return n
    if per is not None:
        wanted = pippin.calibrate(host, labels, score, alpha, seed=2, per=per, groups=grouped)
        if not np.array_equal(wanted.thresholds, found.thresholds):
            return n
    told_sets = portable_sets(found)
    codes = None if grouped is None else groups.astype(np.int64)
    limits = np.broadcast_to(told_sets.thresholds, (len(told_sets.thresholds), n_classes if per else 1))
    sizes = np.zeros(n, dtype=np.int64)
    members, _ = plain.members(host, c, Bounds(limits, codes, told_sets.ranks), u, sizes)
    head = pt.ConformalHead(found, from_probs=not logits).to(x.device)
    told = {} if grouped is None else {"group": torch.from_numpy(groups).to(x.device)}
    sets = head(x, torch.from_numpy(u).to(x.device) if score.randomized else None, mask=True, **told)
    wanted_mask = np.zeros((n, n_classes), dtype=bool)
    wanted_mask[np.repeat(np.arange(n), sizes), members] = True
    listed = np.full((n, n_classes), -1)
    listed[np.arange(n_classes) < sizes[:, None]] = members
    same = (sets.sizes.cpu().numpy() == sizes) & (sets.mask.cpu().numpy() == wanted_mask).all(axis=1)
    same &= (sets.classes.cpu().numpy() == listed[:, : head.max_size]).all(axis=1)
    if per != "rc3p":
        same &= same_p_values(found, x, host, logits, codes)
    return int((~same).sum())


def same_p_values(predictor: Any, x: torch.Tensor, host: np.ndarray, logits: bool, codes: Any) -> np.ndarray:
    """Which rows have the core's p-values, smoothed ones for a randomised score."""
    n, needed, rng = len(host), portable_p(predictor), np.random.default_rng(4)
    u, v = (rng.random(n), rng.random(n)) if predictor.score.randomized else (np.zeros(n), None)
    wanted = np.empty(host.shape)
    group = np.zeros(n, dtype=np.int64) if codes is None else codes
    plain.p_values(needed.c, needed.held)(host, group, Draws(u, v), wanted)
    told = {} if codes is None else {"group": torch.from_numpy(codes).to(x.device)}
    told |= {} if v is None else {"u": torch.from_numpy(u), "v": torch.from_numpy(v)}
    found = pt.PValueHead(predictor, from_probs=not logits).to(x.device)(x, **told)
    return (found.cpu().numpy() == wanted).all(axis=1)


def rows_of(n_classes: int, each: int, device: str) -> Iterator[tuple[str, torch.Tensor, bool]]:
    """A name, rows and whether they are logits: every awkward kind of probabilities, and logits of every precision."""
    probs = np.concatenate([made_rows(kind, each, n_classes, 1) for kind in KINDS])
    for dtype in (np.float32, np.float64):
        yield np.dtype(dtype).name, torch.from_numpy(probs.astype(dtype)).to(device), False
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn((7 * each, n_classes), generator=generator)
    logits[::5] = logits[::5].round()
    logits[1::7, ::3] = -torch.inf
    for kind in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        yield f"logits {kind}", logits.to(device, kind), True


def all_differing(device: str, shapes: tuple[tuple[int, int], ...], scores: Any = EVERY_SCORE) -> dict[str, int]:
    """How many rows differ, by case; `shapes` are numbers of classes, with a seventh of the rows."""
    found = {}
    for n_classes, each in shapes:
        for name, x, logits in rows_of(n_classes, each, device):
            for score in scores:
                for per in (None, "class", "group", "rc3p") if score.name in ("repip", "socop", "aps") else (None,):
                    found[f"{n_classes} {name} {score} {per}"] = differing(x, score, logits, per)
    return found


def few_differing() -> dict[str, int]:
    """A few rows of some cases, some with large sets of equal classes: what the interpreter of kernels has time for."""
    found = {}
    for n_classes in (40, 4_100):
        for name, x, logits in rows_of(n_classes, 1, "cpu"):
            if name in ("logits torch.bfloat16",) or (n_classes == 40 and name == "float32"):
                for score in (pippin.repip(), pippin.socop()):
                    found[f"{n_classes} {name} {score}"] = differing(x[:3], score, logits, alpha=0.5)
    level, long = (
        (torch.randn((5, n_classes), generator=torch.Generator().manual_seed(3)).round() / 8).bfloat16()
        for n_classes in (60, 4_100)
    )
    found["long and level"] = differing(long, pippin.aps(), logits=True)
    for score, per in ((pippin.aps(randomized=False), None), (pippin.aps(), "class"), (pippin.socop(), None)):
        found[f"level {score} {per}"] = differing(level, score, logits=True, per=per, alpha=0.3)
    return found | large_differing() | {"loaded": differing_once_loaded()}


def large_differing() -> dict[str, int]:
    """Sets of some tens or hundreds of classes, and of all: ranked in part, sorted whole, or only counted."""
    found = {}
    for n_classes, scores in ((600, ("aps(randomized=False)", "margin")), (9_000, ("ip", "margin"))):
        logits = torch.randn((6, n_classes), generator=torch.Generator().manual_seed(5))
        logits[:3, :9] += 6
        logits[5] = logits[5].round()  # equal ones are ranked by their place
        for score in map(pippin.parse_score, scores):
            for alpha in (0.2, 0.6):
                found[f"{n_classes} large {score} {alpha}"] = differing(logits, score, logits=True, alpha=alpha)
    return found


def differing_once_loaded() -> int:
    """Rows whose set is not that of a head with the state that another head has loaded after its first sets."""
    data = pippin.load_example()
    probs = torch.tensor(data.probs[:4])
    fresh, other = (
        pt.ConformalHead(pippin.calibrate(data.probs, data.labels, "ip", alpha, per="class"), from_probs=True)
        for alpha in (0.01, 0.3)
    )
    other(probs)
    other.load_state_dict(fresh.state_dict())
    return int((fresh(probs).sizes != other(probs).sizes).sum())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if os.environ.get("TRITON_INTERPRET") == "1":
        from support.quick_interpreter import quicken

        quicken()
    shapes = ((12, 20), (200, 20), (1000, 12), (5003, 4))
    if len(sys.argv) > 1:
        shapes = tuple(shape for shape in shapes if str(shape[0]) in sys.argv[1:])
    counts = all_differing("cuda", shapes) if torch.cuda.is_available() else few_differing()
    differ = {case: n for case, n in counts.items() if n}
    print(json.dumps({"kernels": pt.kernels.serve(torch.zeros(1)), "cases": len(counts), "differ": differ}))
    sys.exit(any(counts.values()))
