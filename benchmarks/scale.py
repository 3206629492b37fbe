"""Measure tables larger than memory: seconds, peak memory, time per row as rows grow, traffic of a Dask scheduler.

    python benchmarks/scale.py --rows 20000000 --folder /tmp/scale --grow 100000000 --partitions 256 1024

writes a folder of Parquet tables of 12 classes, runs the commands on it and removes it. For a cluster it counts the
bytes that pass the scheduler. `bench.py --large` calls `measure_tables` with 20 million rows.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars
from scale_traffic import measure_traffic

import pippin

NAMES = [f"class_{k:02d}" for k in range(12)]
READ = "import polars, sys; polars.read_parquet(sys.argv[1] + '/*.parquet', columns={!r})".format([*NAMES, "label"])
PIECE = 1_000_000
COMPARED = ("--scores", "repip,aps", "--splits", "10")


def made_rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Simulate probabilities of a classifier with an accuracy of about 77%, and labels that follow them."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 4, (n, 12))
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p, (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, 11)


def made_table(rows: int, seed: int) -> polars.DataFrame:
    """Return the rows of `made_rows` as a table with named classes."""
    p, labels = made_rows(rows, seed)
    return polars.DataFrame(p, schema=NAMES).with_columns(label=polars.Series(np.array(NAMES)[labels]))


def make_tables(folder: Path, rows: int) -> None:
    """Write one Parquet table per million rows."""
    folder.mkdir(parents=True)
    for i in range(max(1, rows // PIECE)):
        made_table(min(rows, PIECE), i).write_parquet(folder / f"{i:04}.parquet")


RUN = """
import os, subprocess, sys, time
began = time.perf_counter()
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(child.pid, 0)
assert status == 0
print(time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def run(*command: str) -> tuple[float, ...]:
    """Run a command; return its wall-clock seconds, its processor seconds and the peak of its memory in MB.

    A small process starts the command, since a child process inherits the peak of its parent.
    """
    printed = subprocess.run([sys.executable, "-c", RUN, *command], capture_output=True, text=True, check=True).stdout
    return tuple(map(float, printed.split()))


def run_command(*arguments: str) -> tuple[float, ...]:
    """Run the command line of pippin; see `run`."""
    return run(sys.executable, "-m", "pippin.cli", *arguments)


def measure_tables(rows: int, folder: Path | None = None) -> dict[str, Any]:
    """Run the commands on Parquet tables, after polars has read the same columns; the shorter of two runs counts."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        make_tables(Path(place) / "tables", rows)
        tables, predictor, sets, comparison = (
            f"{place}/{name}" for name in ("tables", "predictor.json", "sets.parquet", "comparison")
        )
        runs = {
            "read by polars": partial(run, sys.executable, "-c", READ, tables),
            "calibrate": partial(run_command, "calibrate", tables, "--out", predictor),
            "predict": partial(run_command, "predict", predictor, tables, "--out", sets),
            "evaluate": partial(run_command, "evaluate", predictor, tables),
            "compare, 2 scores, 10 splits": partial(run_command, "compare", tables, *COMPARED, "--out", comparison),
        }
        repeats = [{name: work() for name, work in runs.items()} for _ in range(2)]
    results = {name: min(times[name] for times in repeats) for name in runs}
    keys = ("seconds", "processor_seconds", "peak_mb")
    return {"rows": rows, "classes": 12, "runs": {name: dict(zip(keys, r, strict=True)) for name, r in results.items()}}


def measure_growth(most: int) -> None:
    """Print the time per row of a calibration in batches that are made on the fly, and the share of merging."""
    p, labels = made_rows(PIECE, 0)
    pippin.warm_up()
    print("\n| rows | µs per row | of it merging |\n|---|---|---|")
    n = 10**6
    while n <= most:
        calibration = pippin.distributed.Calibration("repip", 0.1, classes=range(12), most_scores=0)
        parts = []
        began = time.perf_counter()
        for first in range(0, n, len(p)):
            some = slice(0, min(len(p), n - first))
            part = calibration.part(p[some], labels[some], first=first)
            jitter = np.random.default_rng(first).random(len(part.scores)) * 1e-6
            parts.append(part._replace(scores=part.scores + jitter))  # so that batches are not all alike
        scored = time.perf_counter()
        calibration.merge(parts)
        end = time.perf_counter()
        print(f"| {n:,} | {1e6 * (end - began) / n:.3f} | {1e6 * (end - scored) / n:.3f} |", flush=True)
        n *= 10


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--folder", type=Path, default=Path("out/scale"))
    parser.add_argument("--grow", type=int, default=10_000_000)
    parser.add_argument("--partitions", type=int, nargs="*", default=[256])
    options = parser.parse_args()
    if options.grow:
        measure_growth(options.grow)
    if options.rows:
        options.folder.mkdir(parents=True, exist_ok=True)
        print(json.dumps(measure_tables(options.rows, options.folder), indent=1))
    if options.partitions:
        measure_traffic(made_table(4096, 0), options.partitions, options.folder)
