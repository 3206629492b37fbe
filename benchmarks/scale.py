"""Tables larger than memory: seconds beside a read by polars, peak memory, time per row as rows grow, traffic of Dask.

    python benchmarks/scale.py --rows 20000000 --folder /tmp/scale --grow 100000000 --partitions 256 1024

makes a folder of Parquet tables of 12 classes (and removes it), and runs the commands as people do. Of a cluster it
counts the bytes that pass the scheduler.
"""

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars
from scale_traffic import measure_traffic

import pippin

NAMES = [f"class_{k:02d}" for k in range(12)]
READ = "import polars, sys; polars.read_parquet(sys.argv[1] + '/*.parquet', columns={!r})".format([*NAMES, "label"])
STREAM = (
    "import polars, sys; table = polars.scan_parquet(sys.argv[1] + '/*.parquet').select({!r})\n"
    "for batch in table.collect_batches(chunk_size=1 << 17, maintain_order=True): pass"
).format([*NAMES, "label"])
PIECE = 1_000_000
COMPARED = ("--scores", "repip,aps", "--splits", "10")
COLUMNS = ("s", "× a read", "× in batches", "processor s", "× a read", "× in batches", "MB beyond the interpreter")


def made_rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of a classifier that is right about 77% of the time, and labels that follow them."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 4, (n, 12))
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p, (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, 11)


def made_table(rows: int, seed: int) -> polars.DataFrame:
    """The same with the names of the classes."""
    p, labels = made_rows(rows, seed)
    return polars.DataFrame(p, schema=NAMES).with_columns(label=polars.Series(np.array(NAMES)[labels]))


def make_tables(folder: Path, rows: int) -> None:
    """A table for every million rows."""
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


def timed(*command: str) -> tuple[float, ...]:
    """Seconds on the clock and of processors, and the peak in MB, of a process that a small one starts."""
    printed = subprocess.run([sys.executable, "-c", RUN, *command], capture_output=True, text=True, check=True).stdout
    return tuple(map(float, printed.split()))


def measure_commands(folder: Path, rows: int) -> None:
    """The commands beside two ways to read the same columns; each twice, in turn, and the smaller counts."""
    make_tables(folder / "tables", rows)
    tables, predictor, sets = (str(folder / name) for name in ("tables", "predictor.json", "sets.parquet"))
    cli = (sys.executable, "-m", "pippin.cli")
    runs = {
        "the interpreter": (sys.executable, "-c", "import pippin.cli, numba, polars"),
        "read by polars": (sys.executable, "-c", READ, tables),
        "read in batches by polars": (sys.executable, "-c", STREAM, tables),
        "calibrate": (*cli, "calibrate", tables, "--out", predictor),
        "predict": (*cli, "predict", predictor, tables, "--out", sets),
        "evaluate": (*cli, "evaluate", predictor, tables),
        "compare": (*cli, "compare", tables, *COMPARED, "--out", str(folder / "compared")),
    }
    every = [{name: timed(*command) for name, command in runs.items()} for _ in range(2)]
    found = {name: tuple(min(one[name][i] for one in every) for i in range(3)) for name in runs}
    base = found["the interpreter"][2]
    reads = [found[name] for name in ("read by polars", "read in batches by polars")]
    print(f"\n{rows:,} × 12 in Parquet\n| | {' | '.join(COLUMNS)} |")
    for name, (wall, used, peak) in found.items():
        times = [f"{wall:.1f}", *(f"{wall / one[0]:.1f}" for one in reads)]
        work = [f"{used:.1f}", *(f"{used / one[1]:.1f}" for one in reads)]
        print(f"| {name} | {' | '.join(times)} | {' | '.join(work)} | {peak - base:,.0f} |")
    shutil.rmtree(folder)


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
        measure_commands(options.folder, options.rows)
    if options.partitions:
        measure_traffic(made_table(4096, 0), options.partitions, options.folder)
