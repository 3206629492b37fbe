"""Measure pippin and its peers on the same arrays in the same run, and print the tables of docs/performance.md.

    python benchmarks/bench.py [--quick] [--large] [--data FILE] [--out FILE.json]

Times are medians of interleaved repeats. The noise of a machine moves seconds, so compare ratios between runs. The sets
of pippin and of a peer are checked to agree before either is timed. `--large` adds what needs ten more minutes and 4 GB
of disk: two million rows with the report, and tables of 20 million rows. `--data` names a file with probabilities (or
logits) and labels, on which repeated splits are timed too.
"""

import argparse
import json
import tempfile
import warnings
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import contest
import numpy as np
import scale
import splits
from costs import measure_costs
from matrix import SCORES
from measure import first_calls, fresh_process, provenance
from performance_page import tables

import pippin
from data import made
from pippin.tables.reading import read_data

MATRIX = str(Path(__file__).parent / "matrix.py")
SHAPES = ((5_000, 12), (10_000, 100), (50_000, 1_000), (4_096, 150_000))
QUICK_SHAPES = ((500, 12), (2_500, 100), (3_000, 200), (64, 4_000))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure pippin and its peers.")
    parser.add_argument("--quick", action="store_true", help="small sizes, one repeat: check that the script runs")
    parser.add_argument("--large", action="store_true", help="add two million rows in memory and 20 million on disk")
    parser.add_argument("--data", type=Path, help="a file with probs or logits, and labels: repeated splits of it too")
    parser.add_argument("--out", type=Path, help="write all figures to this JSON file")
    arguments = parser.parse_args()
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")  # of the peers
    pippin.warm_up()
    figures = measure(arguments.quick, arguments.large, arguments.data)
    for title, table in tables(figures).items():
        print(f"\n## {title}\n\n{table}")
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=1) + "\n")


def measure(quick: bool, large: bool, data: Path | None) -> dict[str, Any]:
    """Measure all cases; return the figures by name."""
    repeats = 1 if quick else 5
    shapes = QUICK_SHAPES if quick else SHAPES
    example = pippin.load_example()
    probs, labels = np.array(example.probs), np.array(example.labels, dtype=np.int64)
    return {
        **provenance(),
        "versions": {name: version(name) for name, present in contest.present().items() if present},
        "quick": quick,
        "matrices": [fresh_process(MATRIX, *map(str, shape), str(min(repeats, 3))) for shape in shapes],
        "peers": [
            contest.compete(contest.RIVALS, "the example", probs, labels, repeats),
            contest.compete(contest.FAST_RIVALS, "simulated", *made(*shapes[1], seed=3), repeats),
            contest.compete(contest.FAST_RIVALS, "simulated", *made(*shapes[2]), 1 if quick else 3),
        ],
        "one_row": [
            contest.one_row(probs, labels, SCORES, repeats),
            contest.one_row(*made(2_500, 200 if quick else 1_000, seed=1), SCORES, repeats),
        ],
        "costs": measure_costs(*made(*shapes[1], seed=3), repeats),
        "compare": compare_cases(quick, large, data),
        "compare_peers": splits.against_peers(probs, labels, 50 if quick else 1_000, 2 if quick else 30),
        "tables": scale.measure_tables(20_000_000) if large else None,
        "first_call": first_calls(compile_too=not quick),
    }


def compare_cases(quick: bool, large: bool, data: Path | None) -> list[dict[str, Any]]:
    """Time `pippin.compare` with the paper's six scores on matrices of several sizes, and on a file of the user."""
    example = pippin.load_example()
    n_splits = 20 if quick else 1_000
    cases = [
        splits.six_scores("the example", example.probs, example.labels, n_splits),
        splits.six_scores("simulated", *made(500 if quick else 17_026, 176, seed=2), n_splits),
        splits.six_scores("simulated", *(made(*QUICK_SHAPES[2]) if quick else made(*SHAPES[2])), n_splits),
    ]
    if data:
        file = read_data(data)
        cases.append(splits.six_scores(data.name, file.rows, file.truth(), n_splits))
    if large:
        with tempfile.TemporaryDirectory() as folder:
            cases.append(compare_with_report(Path(folder), 2_000_000, 100))
    return cases


def compare_with_report(folder: Path, rows: int, n_splits: int) -> dict[str, Any]:
    """Time the command `pippin compare` with its report, and read the peak of its memory."""
    table = folder / "rows.npz"
    probs, labels = scale.made_rows(rows, 0)
    np.savez(table, probs=probs, labels=labels)
    command = partial(scale.run_command, "compare", str(table), "--splits", str(n_splits), "--out", str(folder / "out"))
    seconds, _, peak = command()
    return {
        "data": "simulated, with the report",
        "rows": rows,
        "classes": probs.shape[1],
        "splits": n_splits,
        "seconds": seconds,
        "peak_mb": peak,
    }


if __name__ == "__main__":
    main()
