"""Comparison of `pippin.torch` on a device with the NumPy core on equal probabilities.

    PYTHONPATH=src:tests TRITON_INTERPRET=1 python3 -m support.torch_device

compares a few rows of many cases, with the row kernel in Triton's interpreter on the CPU, and prints the number of
differing rows of each case as JSON.
"""

import json
import warnings
from collections.abc import Iterator

import numpy as np
import torch

import pippin
import pippin.torch as pt
from pippin.torch import row_kernel
from pippin.torch.scores import TorchLimits, TorchScore
from support.one_threshold import one_threshold
from support.rows import KINDS, made_rows
from support.scores import EVERY_SCORE

KINDS_OF_THRESHOLDS = (None, "class", "group", "class and group", "cluster", "rc3p", "kind")


def labels_at_any_rank(probs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw one class per row, mostly of small rank, sometimes of large rank."""
    far = np.where(rng.random(len(probs)) < 0.3, 0.01, 0.3)
    rank = np.minimum(rng.geometric(far) - 1, probs.shape[1] - 1)
    return np.argsort(-probs, axis=1, kind="stable")[np.arange(len(probs)), rank]


def differing(
    x: torch.Tensor,
    score: pippin.Score | str,
    logits: bool,
    per: str | None = None,
    alpha: float = 0.2,
    confidence: float | None = None,
) -> dict[str, int]:
    """Count thresholds, calibration scores, rows of sets and rows of p-values that differ from the core's."""
    probs = (pt.probabilities(x) if logits else x).cpu()
    host, rng, n = probs.numpy(), np.random.default_rng(1), len(probs)
    labels, grouped = labels_at_any_rank(host, rng), per is not None and "group" in per
    groups = rng.integers(0, 3, n)
    options = {"per": {k: "ab"[k % 2] for k in range(x.shape[1])} if per == "kind" else per, "seed": 2}
    options |= {"groups": groups, "unseen": "marginal"} if grouped else {}
    options |= {"confidence": confidence}
    given = torch.from_numpy(labels).repeat_interleave(2).to(x.device)[::2]  # not contiguous
    found = pt.calibrate(x, given, score, alpha, from_probs=not logits, **options)
    wanted = pippin.calibrate(host, labels, score, alpha, **options)
    thresholds = [made.thresholds for made in (found, wanted)]
    scores = [made.calibration_scores for made in (found, wanted)]
    counts = {
        "thresholds": int((thresholds[0] != thresholds[1]).sum()),
        "scores": int((scores[0] != scores[1]).sum()),
    }
    lost = pt.calibrate(x, given, score, alpha, from_probs=not logits, scores=False, **options)
    counts["without scores"] = int(repr(lost) != repr(found))

    head = pt.ConformalHead(wanted, from_probs=not logits, max_size=min(70, x.shape[1])).to(x.device)
    named = {"groups": np.where(np.arange(n) % 5 == 0, 9, groups)} if grouped else {}
    options = {"group": head.group_codes(named["groups"]).to(x.device)} if grouped else {}
    u = torch.from_numpy(np.random.default_rng(4).random(n)) if head.randomized else None
    sets, core = head(x, u, mask=True, **options), wanted.predict(host, seed=4, **named)
    listed = [np.concatenate([row, np.full(host.shape[1], -1)])[: head.max_size] for row in map(_members, core)]
    same = (sets.sizes.cpu().numpy() == core.sizes) & (sets.mask.cpu().numpy() == core.mask).all(axis=1)
    same &= (sets.classes.cpu().numpy() == np.array(listed)).all(axis=1)
    counts["sets"] = int((~same).sum())
    if per != "rc3p":
        v = np.random.default_rng(4)
        u, v = (torch.from_numpy(v.random(n)) if drawn else None for drawn in (head.randomized, True))
        p = pt.PValueHead(wanted, from_probs=not logits).to(x.device)(x, u, v, **options)
        core_p = wanted.p_values(host, seed=4, smoothed=True, **named)
        counts["p-values"] = int((p.cpu().numpy() != core_p).any(axis=1).sum())
    return counts


def _members(classes: list[int]) -> np.ndarray:
    return np.array(list(classes), dtype=np.int64)


def rows_of(n_classes: int, each: int) -> Iterator[tuple[str, torch.Tensor, bool]]:
    """Yield the name of a case, rows, and True for logits: probabilities of all kinds, logits of all float types."""
    probs = np.concatenate([made_rows(kind, each, n_classes, 1) for kind in KINDS])
    for dtype in (np.float32, np.float64):
        yield np.dtype(dtype).name, torch.from_numpy(probs.astype(dtype)), False
    logits = 3 * torch.randn((7 * each, n_classes), generator=torch.Generator().manual_seed(0))
    logits[::5] = logits[::5].round()
    logits[1::7, ::3] = -torch.inf
    for kind in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        yield f"logits {kind}", logits.to(kind), True


def interpreted_cases() -> Iterator[tuple[str, dict[str, int]]]:
    """Yield cases for Triton's interpreter, with fewer, more and many more classes than the kernel lists."""
    for n_classes, each, names in ((3, 1, None), (12, 2, None), (150, 1, ("float32", "logits torch.bfloat16"))):
        for name, x, logits in rows_of(n_classes, each):
            if names is None or name in names:
                for score in EVERY_SCORE if n_classes == 12 and name == "float32" else ("margin", "repip", "socop"):
                    yield f"{n_classes} {name} {score}", differing(x, score, logits, alpha=0.5)
    x = 3 * torch.randn((8, 70), generator=torch.Generator().manual_seed(2))
    for per in KINDS_OF_THRESHOLDS[1:]:
        yield f"aps per {per}", differing(x, "aps", True, per, alpha=0.5)
    yield "socop per class", differing(x, "socop", True, "class", alpha=0.5)
    x = 3 * torch.randn((30, 12), generator=torch.Generator().manual_seed(2))
    for per in (None, "group"):
        yield f"confident per {per}", differing(x, "repip", True, per, alpha=0.4, confidence=0.6)
    for score in ("ip", "aps(randomized=False)", "repip", "socop"):
        yield f"2500 {score}", differing(long_rows(), score, True, alpha=0.5)


def long_rows() -> torch.Tensor:
    """Return bfloat16 logits of 2,500 classes, a few of them probable."""
    x = 2 * torch.randn((4, 2_500), generator=torch.Generator().manual_seed(3))
    x[:, 7::500] += 9 + 3 * torch.randn((4, 5), generator=torch.Generator().manual_seed(4))
    return x.bfloat16()


def rows_left_by_kernel() -> int:
    """Count long rows with small sets for which the row kernel falls back to a full ranking."""
    x, data = long_rows(), one_threshold(pippin.scores.repip(), 0.1, 1.4, 99, range(2_500))
    head, n = pt.ConformalHead(data), len(x)
    views = (bits.view(torch.float64) for bits in (head.table_bits, head.number_bits, head.limit_bits))
    table, numbers, limits = views
    score = TorchScore(table, numbers, torch.empty(0, dtype=torch.float64), head.linear)
    sizes, members = torch.full((n,), -1), torch.full((n, 64), -1)
    sets = (sizes, members, torch.zeros((0, 2_500), dtype=torch.bool))
    row_kernel.fill_sets(x, True, score, TorchLimits(limits, None, None), sets)
    _, ranks = row_kernel.label_scores(x, True, x.argmax(dim=1), score, 2_500)
    return int((sizes < 0).sum() + (ranks < 0).sum())


def errors() -> list[str]:
    """Return error messages for invalid rows and labels, whose row numbers count from the first batch."""
    good, labels = torch.full((4, 5), 0.2), torch.zeros(4, dtype=torch.int64)
    off, broken = good.clone(), torch.zeros((6, 2))
    off[2, 1], broken[5, 0] = 0.9, torch.nan
    found = []
    for loader, from_probs in (
        ([(good, labels), (off, labels)], True),
        ([(good, labels), (good, torch.tensor([0, 1, 5, 2]))], True),
        ([(broken, torch.zeros(6, dtype=torch.int64))], False),
        ([], False),
    ):
        try:
            pt.calibrate(lambda rows: rows, loader, "ip", from_probs=from_probs)
        except pippin.InputError as error:
            found.append(str(error))
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    found = {"interpreted": row_kernel.INTERPRETED, "left": rows_left_by_kernel(), "errors": errors()}
    print(json.dumps(found | {"cases": dict(interpreted_cases())}))
