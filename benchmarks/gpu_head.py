"""How long `pippin.torch.ConformalHead` takes on a GPU, against one read of the logits and a full sort.

    PYTHONPATH=src python3 benchmarks/gpu_head.py out/gpu_head.json

Needs a CUDA device, torch and NumPy. A sort-based step is what other libraries do: softmax,
sort, cumulative sum, compare, on the same device. First the sets of some rows are compared
with those of the NumPy core on the same probabilities.
"""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

import pippin
from pippin._engine.plain import scores as plain
from pippin._engine.protocol import Bounds
from pippin._theory.scores import coefficients
from pippin.torch import ConformalHead, gpu, probabilities

SHAPES = ((50_000, 1_000), (4_096, 128_256))
SCORES = (*pippin.PAPER_SCORES, pippin.saps(), pippin.topk(), pippin.socop())
TIMED = ("ip", "raps", "repip")
REPEATS = 30


def made_logits(n: int, n_classes: int, dtype: torch.dtype) -> torch.Tensor:
    """Rows with a few likely classes and a long tail, as a trained network gives them."""
    generator = torch.Generator("cuda").manual_seed(0)
    logits = torch.randn((n, n_classes), generator=generator, device="cuda")
    likely = torch.randint(n_classes, (n, 8), generator=generator, device="cuda")
    heights = math.log(n_classes) + 2 + 2 * torch.randn((n, 8), generator=generator, device="cuda")
    logits.scatter_add_(1, likely, heights)
    return logits.to(dtype)


def made_predictor(score: pippin.Score, probs: np.ndarray, threshold: float | None = None) -> pippin.Predictor:
    """Calibrated on some rows, with labels drawn from their own probabilities."""
    rng = np.random.default_rng(0)
    labels = np.array([rng.choice(len(row), p=row / row.sum()) for row in probs.astype(np.float64)])
    c = coefficients(score, probs.shape[1])
    found = np.sort(plain.label_places(probs, labels, c, rng.random(len(probs)))[1])
    level = float(found[int(0.9 * len(found))]) if threshold is None else threshold
    return pippin.Predictor(score, 0.1, level, len(probs), range(probs.shape[1]), None)


def disagreements(predictor: pippin.Predictor, probs: torch.Tensor) -> int:
    """Rows whose size, members or mask differ from the NumPy core's."""
    rows = probs.cpu().numpy()
    u = np.random.default_rng(1).random(len(rows))
    c = coefficients(predictor.score, rows.shape[1])
    sizes = np.zeros(len(rows), dtype=np.int64)
    members, _ = plain.members(rows, c, Bounds(np.array([[predictor.threshold]])), u, sizes)
    head = ConformalHead(predictor, from_probs=True).cuda()
    sets = head(probs, torch.from_numpy(u), mask=True)
    mask = np.zeros(rows.shape, bool)
    mask[np.repeat(np.arange(len(rows)), sizes), members] = True
    listed = np.full((len(rows), head.max_size), -1)
    ends = np.cumsum(sizes)
    for i, (end, size) in enumerate(zip(ends, sizes, strict=True)):
        listed[i, : min(size, head.max_size)] = members[end - size : end][: head.max_size]
    same = (sets.sizes.cpu().numpy() == sizes) & (sets.mask.cpu().numpy() == mask).all(axis=1)
    return int((~(same & (sets.classes.cpu().numpy() == listed).all(axis=1))).sum())


def sort_based(logits: torch.Tensor, head: ConformalHead, u: torch.Tensor) -> torch.Tensor:
    """Softmax, full sort, cumulative sum, compare, and the mask scattered back: in float32 throughout."""
    values, order = torch.softmax(logits.float(), dim=-1).sort(dim=-1, descending=True)
    table = head.table_bits.view(torch.float64).float()
    mass = torch.cumsum(table[:, 2] * values, dim=-1) - table[:, 2] * values
    scores = 1 + (table[:, 0] + u[:, None] * table[:, 1]) * values + mass + table[:, 3]
    return torch.zeros_like(order, dtype=torch.bool).scatter_(1, order, scores <= head.threshold)


def milliseconds(work: Callable[[], Any]) -> float:
    """The median over the repeats, by CUDA events."""
    for _ in range(3):
        work()
    times = []
    for _ in range(REPEATS):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop))
    return median(times)


def measure(n: int, n_classes: int, dtype: torch.dtype) -> list[dict[str, Any]]:
    """Correctness on some rows, then the times of one shape."""
    logits = made_logits(n, n_classes, dtype)
    sample = probabilities(logits[: 1000 if n_classes < 10_000 else 32])
    tied = (sample * 64).round() / 64 + 1 / n_classes
    tied /= tied.sum(dim=1, keepdim=True)
    doubles = torch.softmax(logits[:16].double(), dim=-1)
    for score in SCORES if dtype == torch.float32 else map(pippin.parse_score, TIMED):
        predictors = [made_predictor(score, sample.cpu().numpy()), made_predictor(score, sample[:4].cpu().numpy(), 1.6)]
        everything = made_predictor(score, sample[:4].cpu().numpy(), float("inf"))
        wrong = [disagreements(p, rows) for p in predictors for rows in (sample, tied, doubles)]
        wrong.append(disagreements(everything, sample[:16]))
        print(f"{n:,} x {n_classes:,} {dtype} {score}: rows that differ from NumPy {wrong}", flush=True)
        if score.name != "socop" and any(wrong):
            sys.exit("The sets differ from the NumPy core's.")
    found = []
    read = milliseconds(logits.sum)
    softmax = milliseconds(lambda: probabilities(logits))
    u = torch.rand(n, device="cuda")
    for name in TIMED:
        head = ConformalHead(made_predictor(pippin.parse_score(name), sample.cpu().numpy())).cuda()
        probs = probabilities(logits)
        bare = ConformalHead(made_predictor(pippin.parse_score(name), sample.cpu().numpy()), from_probs=True).cuda()
        times = {
            "read": read,
            "softmax": softmax,
            "head": milliseconds(lambda head=head: head(logits)),
            "head, mask too": milliseconds(lambda head=head: head(logits, mask=True)),
            "head, from probabilities": milliseconds(lambda bare=bare, probs=probs: bare(probs)),
            "sort": milliseconds(lambda head=head: sort_based(logits, head, u)),
        }
        size = float(head(logits).sizes.double().mean())
        found.append({"n": n, "classes": n_classes, "dtype": str(dtype), "score": name, "mean size": size} | times)
    return found


def main(out: str) -> None:
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Triton: {gpu.PRESENT}")
    lines = [line for shape in SHAPES for dtype in (torch.float32, torch.float16) for line in measure(*shape, dtype)]
    for line in lines:
        reads = line["head"] / line["read"]
        cells = [f"{value:.3f}" if isinstance(value, float) else str(value) for value in line.values()]
        print(" | ".join(cells), f"| {reads:.1f} reads, {line['sort'] / line['head']:.1f} times as fast as a sort")
    print("columns:", " | ".join(lines[0]))
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    Path(out).write_text(json.dumps({"device": torch.cuda.get_device_name(), "lines": lines}, indent=1))


if __name__ == "__main__":
    if len(sys.argv) != 2 or not torch.cuda.is_available():
        sys.exit("Expected one argument, the path of the JSON file to write, on a machine with a CUDA device.")
    main(sys.argv[1])
