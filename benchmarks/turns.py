"""Compare the speed of two checkouts of pippin: seconds to calibrate and to predict, measured in turns.

    python benchmarks/turns.py OLD NEW [SHAPE …] [--scores ip,pip] [--steps calibrate,predict] [--rounds 3] [--quick]

OLD and NEW are the roots of two checkouts. A worker process for each imports its own `src`, and both receive the same
rows. Each round runs a step for `--seconds` in one process, then in the other, and the shortest call counts, so that
other work on the machine affects both alike. Results of the two checkouts must be equal: thresholds, and sizes and
members of the sets.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

SHAPES = ("5000x12", "10000x20", "10000x50", "10000x100", "10000x200", "50000x1000")
SCORES = ("ip", "margin", "aps", "raps", "pip", "repip", "socop")
STEPS = ("calibrate", "predict")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="root of a checkout")
    parser.add_argument("new", type=Path, help="root of another checkout")
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=f"ROWSxCLASSES (default: {' '.join(SHAPES)})")
    parser.add_argument("--scores", default=",".join(SCORES))
    parser.add_argument("--steps", default=",".join(STEPS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.15, help="duration of a step in one round")
    parser.add_argument("--quick", action="store_true", help="one small shape, one round: check that the script runs")
    options = parser.parse_args()
    if options.quick:
        options.shapes, options.rounds, options.seconds = ["500x12"], 1, 0.0
    workers = [start_worker(root) for root in (options.old, options.new)]
    print("| shape | score | step | old, ms | new, ms | new / old | mean size |\n|---|---|---|---|---|---|---|")
    for shape in options.shapes or SHAPES:
        for score in options.scores.split(","):
            for step in options.steps.split(","):
                old, new, size = compare(workers, (shape, score, step, options.seconds), options.rounds)
                cells = [shape, score, step, f"{1e3 * old:.3f}", f"{1e3 * new:.3f}", f"{new / old:.2f}"]
                print(f"| {' | '.join(cells)} | {'' if size is None else f'{size:.1f}'} |", flush=True)
    for worker in workers:
        worker.stdin.close()
        worker.wait()


def start_worker(root: Path) -> Any:
    """Start a process that measures the checkout at `root`."""
    source = root.resolve() / "src"
    if not (source / "pippin").is_dir():
        raise SystemExit(f"Expected the root of a checkout with src/pippin, got {root}.")
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", __file__, "--worker"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def compare(workers: list[Any], task: tuple[Any, ...], rounds: int) -> tuple[float, float, float | None]:
    """Shortest seconds of the old and of the new checkout, and the mean set size where sets are predicted."""
    shortest = [float("inf")] * len(workers)
    size = None
    for _ in range(rounds):
        results = set()
        for i, worker in enumerate(workers):
            worker.stdin.write(json.dumps(task) + "\n")
            worker.stdin.flush()
            if not (answer := worker.stdout.readline()):
                raise SystemExit(f"A worker stopped at {task}.")
            seconds, result, size = json.loads(answer)
            shortest[i] = min(shortest[i], seconds)
            results.add(result)
        if len(results) > 1:
            raise SystemExit(f"The checkouts give different results for {task}.")
    return shortest[0], shortest[1], size


def serve() -> None:
    """Measure the tasks that come on standard input, one per line."""
    import pippin
    from data import made

    pippin.warm_up()  # or small shapes would be measured in NumPy
    rows: dict[str, Any] = {}
    for line in sys.stdin:
        shape, score, step, seconds = json.loads(line)
        if shape not in rows:
            rows = {shape: made(*map(int, shape.split("x")))}  # of one shape at a time
        probs, labels = rows[shape]
        predictor = pippin.calibrate(probs, labels, score, 0.1, seed=0)
        if step == "calibrate":
            shortest = shortest_call(lambda p=probs, y=labels, s=score: pippin.calibrate(p, y, s, 0.1, seed=0), seconds)
            result, size = repr(predictor.threshold), None
        else:
            shortest = shortest_call(lambda p=predictor, x=probs: p.predict(x, seed=0), seconds)
            sets = predictor.predict(probs, seed=0)
            result = hashlib.sha256(sets.sizes.tobytes() + sets.members.tobytes()).hexdigest()
            size = float(sets.sizes.mean())
        print(json.dumps([shortest, result, size]), flush=True)


def shortest_call(work: Any, seconds: float) -> float:
    """Seconds of the shortest call, of at least three."""
    work()  # fills caches
    shortest, calls, end = float("inf"), 0, perf_counter() + seconds
    while calls < 3 or perf_counter() < end:
        began = perf_counter()
        work()
        shortest, calls = min(shortest, perf_counter() - began), calls + 1
    return shortest


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["--worker"] else main()
