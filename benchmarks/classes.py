"""Time per row over the number of classes: every score of the paper, and IP and margin beside TorchCP.

    python benchmarks/classes.py [--quick] [--plot out/classes.svg]

10,000 rows in float32, one thread for both, whose own processor time is read. All works of all sizes run in turn, and
the best of several rounds counts: other work on the machine can only add to it. "Check" is the row check that ours
includes (finite, not negative, sums to one), written in torch.
"""

import argparse
import os
import sys
from functools import partial
from pathlib import Path
from time import thread_time
from typing import Any

os.environ["PIPPIN_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import torch
from drawing import curves
from matrix import SCORES

import pippin
from data import made
from support import peers

ROWS = 10_000
SIZES = (8, 10, 12, 14, 16, 18, 20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200, 250, 300)
NAMED = (16, 20, 25, 50, 100, 200)
PEERS = {"ip": "LAC", "margin": "Margin"}


def check(table: Any) -> bool:
    """The row check, written in torch."""
    return bool(torch.isfinite(table).all() and (table >= 0).all() and ((table.sum(1) - 1).abs() <= 1e-3).all())


def works(probs: Any, labels: Any, beside_peers: bool) -> dict[str, Any]:
    """What is timed at one number of classes, by name."""
    found: dict[str, Any] = {}
    for score in SCORES:
        found[f"{score} calibrate"] = partial(pippin.calibrate, probs, labels, score)
        found[f"{score} predict"] = partial(pippin.calibrate(probs, labels, score).predict, probs)
    if beside_peers:
        for name in PEERS.values():
            found[name] = lambda name=name: peers.torchcp(name, probs, labels)(probs)
        table = torch.from_numpy(probs)
        found["check"] = lambda: (check(table), check(table))  # to calibrate and to predict
    return found


def best(works: dict[int, dict[str, Any]], rounds: int) -> dict[int, dict[str, float]]:
    """The least seconds of each; every round runs all of them, each twice in a row."""
    least = {size: dict.fromkeys(own, float("inf")) for size, own in works.items()}
    for _ in range(rounds):
        for size, own in works.items():
            for name, work in own.items():
                for _ in range(2):
                    start = thread_time()
                    work()
                    least[size][name] = min(least[size][name], thread_time() - start)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description="Times every score over the number of classes.")
    parser.add_argument("--quick", action="store_true", help="three sizes, one round: does it run at all?")
    parser.add_argument("--plot", type=Path, help="draw time per row over the number of classes into this SVG")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    sizes, rounds = ((12, 20, 50), 1) if arguments.quick else (SIZES, 12)
    seconds = best({size: works(*made(ROWS, size), size in (12, *NAMED)) for size in sizes}, rounds)
    for size in sizes:
        if "LAC" in seconds[size]:
            print(beside(size, seconds[size]))
    micro = {
        f"{score}, {step}": [1e6 * seconds[size][f"{score} {step}"] / ROWS for size in sizes]
        for score in SCORES
        for step in ("calibrate", "predict")
    }
    print("\nµs per row; the largest step between neighbours, and where; the same per class")
    print(f"{'':36}" + " ".join(f"{size:>5}" for size in sizes))
    for name, times in micro.items():
        print(f"{name:36}" + " ".join(f"{time:5.3f}" for time in times) + f"  {steps(sizes, times)}")
    if arguments.plot:
        arguments.plot.parent.mkdir(parents=True, exist_ok=True)
        shown = {name.removesuffix(", predict"): times for name, times in micro.items() if name.endswith("predict")}
        arguments.plot.write_text(curves(sizes, shown, "classes", "µs per row to predict"))


def beside(size: int, seconds: dict[str, float]) -> str:
    """IP and margin beside TorchCP, calibrate and predict together."""
    told = []
    for score, peer in PEERS.items():
        ours = seconds[f"{score} calibrate"] + seconds[f"{score} predict"]
        told.append(
            f"{score} {1e3 * ours:.3f} ms, {peer} {1e3 * seconds[peer]:.3f} ms: {seconds[peer] / ours:.2f} times, "
            f"with the check {(seconds[peer] + seconds['check']) / ours:.2f}"
        )
    return f"K = {size:3}: " + "; ".join(told)


def steps(sizes: tuple[int, ...], times: list[float]) -> str:
    """The largest growth between neighbouring sizes."""
    grown = [(b / a, size) for a, b, size in zip(times, times[1:], sizes[1:], strict=False)]
    per_class = max(ratio * before / size for (ratio, size), before in zip(grown, sizes, strict=False))
    ratio, where = max(grown)
    return f"{ratio:.2f} at {where}; {per_class:.2f}"


if __name__ == "__main__":
    main()
