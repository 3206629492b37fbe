"""What pippin costs, beside its peers, on the same arrays in the same run.

    python benchmarks/bench.py [--quick] [--data FILE] [--out FILE.json]

`--data` names a file of your own, with probabilities (or logits) and labels, to be compared on repeated splits.

Figures are medians of repeats, the splits excepted. The machine's noise moves seconds, so
ratios are what to compare between runs. Sets are checked to agree before anything is
timed, and an absent peer is listed as absent.
"""

import argparse
import json
import os
import platform
import warnings
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import conditional
import contest
import numpy as np
import splits
from matrix import SCORES
from measure import first_calls, fresh_process, interleaved, slope
from rich.console import Console
from rich.table import Table

import pippin
from data import made
from pippin._runtime.threads import n_threads
from pippin.tables.reading import read_data

MATRIX = str(Path(__file__).parent / "matrix.py")
console = Console(width=120 if not os.isatty(1) else None)


def main() -> None:
    parser = argparse.ArgumentParser(description="Times pippin beside its peers.")
    parser.add_argument("--quick", action="store_true", help="small sizes, one repeat: does it run at all?")
    parser.add_argument("--data", type=Path, help="a file with probs or logits, and labels: repeated splits of it too")
    parser.add_argument("--out", type=Path, help="write all figures to this JSON file")
    arguments = parser.parse_args()
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")  # of the peers
    pippin.warm_up()
    figures = measure(arguments.quick, arguments.data)
    show(figures)
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=1) + "\n")


def measure(quick: bool, given: Path | None) -> dict[str, Any]:
    """All cases, by name."""
    repeats = 1 if quick else 5
    n, n_classes = (3_000, 200) if quick else (50_000, 1_000)
    large = (64, 4_000, 1) if quick else (4_096, 150_000, 3)
    example = pippin.load_example()
    small = np.array(example.probs), np.array(example.labels, dtype=np.int64)
    probs, labels = made(n, n_classes)
    head = probs[:5_000], labels[:5_000]
    middle = made(2_500 if quick else 10_000, 100, seed=3)
    cut = contest.AGREED
    return {
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "threads": n_threads(),
        },
        "peers": {name: version(name) if there else None for name, there in contest.present().items()},
        "quick": quick,
        "small": contest.whole(
            contest.RIVALS, (small[0][:cut], small[1][:cut]), small[0][cut:].copy(), small, 1 if quick else repeats * 3
        ),
        "middle": contest.whole(
            contest.QUICK, middle, middle[0], tuple(part[:4_000] for part in middle), 1 if quick else repeats * 3
        ),
        "matrix": fresh_process(MATRIX, str(n), str(n_classes), str(repeats)),
        "matrix_peers": contest.whole(contest.ADAPTIVE, (probs, labels), probs, head, 1 if quick else 3),
        "large": fresh_process(MATRIX, *map(str, large)),
        "one_row_12": contest.one_row(*small, SCORES, repeats),
        "one_row_1000": contest.one_row(*made(2_500, 200 if quick else 1_000, seed=1), SCORES, repeats),
        "growth_rows": [
            growth("n", [(probs[: n // part], labels[: n // part]) for part in (8, 4, 2, 1)], score, repeats)
            for score in ("repip", "aps(randomized=False)")
        ],
        "growth_classes": [
            growth(
                "K",
                [made(1_000, k) for k in ((125, 250, 500, 1_000) if quick else (1_000, 4_000, 16_000, 64_000))],
                score,
                repeats,
            )
            for score in ("repip", "aps(randomized=False)")
        ],
        "splits": splits.beside_peers(*small, 50 if quick else 1_000, 2 if quick else 30),
        "splits_medium": [splits.six_scores(*case, 20 if quick else 1_000) for case in medium(quick, given)],
        "splits_large": splits.beside_a_sort(probs, labels, 20 if quick else 1_000, ("repip", "aps", "pip")),
        "conditional": conditional.measure(probs, labels, repeats),
        "first_call": first_calls(compile_too=not quick),
    }


def medium(quick: bool, given: Path | None) -> Iterator[tuple[str, Any, Any]]:
    """A made matrix of a common size, and the file that was given: name, rows and labels."""
    yield "made", *made(500 if quick else 17_026, 176, seed=2)
    if given:
        data = read_data(given)
        yield given.name, data.rows, data.truth()


def growth(along: str, cases: list[tuple[Any, Any]], score: str, repeats: int) -> dict[str, Any]:
    """Seconds of calibrate and predict over growing matrices, and the slope of their logarithms."""
    works = {str(i): partial(calibrate_and_predict, *case, score) for i, case in enumerate(cases)}
    seconds = list(interleaved(works, repeats).values())
    sizes = [case[0].shape[0 if along == "n" else 1] for case in cases]
    return {"score": score, "along": along, "sizes": sizes, "seconds": seconds, "slope": slope(sizes, seconds)}


def calibrate_and_predict(probs: Any, labels: Any, score: str) -> None:
    pippin.calibrate(probs, labels, score).predict(probs)


def show(figures: dict[str, Any]) -> None:
    """Prints one table per case."""
    show_contest("4,986 × 12, the embedded example: calibrate 1,998, predict 2,988", figures["small"])
    show_contest("10,000 × 100 float32: calibrate and predict", figures["middle"])
    show_matrix(figures["matrix"])
    shape = f"{figures['matrix']['rows']:,} × {figures['matrix']['classes']:,}"
    show_contest(f"{shape} float32: calibrate and predict, beside peers", figures["matrix_peers"])
    show_matrix(figures["large"])
    show_one_row(figures["one_row_12"])
    show_one_row(figures["one_row_1000"])
    table = Table("score", "along", "sizes", "ms", "slope", title="Growth: calibrate and predict")
    for case in (*figures["growth_rows"], *figures["growth_classes"]):
        sizes, times = (" ".join(texts) for texts in (map(str, case["sizes"]), map(milli, case["seconds"])))
        table.add_row(case["score"], case["along"], sizes, times, f"{case['slope']:.2f}")
    console.print(table)
    show_splits(figures["splits"], figures["splits_large"], shape)
    console.print(conditional.table(figures["conditional"]))
    table = Table("data", "rows", "classes", "splits", "seconds", title="Repeated splits, six scores")
    for case in figures["splits_medium"]:
        numbers = (f"{case[key]:,}" for key in ("rows", "classes", "splits"))
        table.add_row(case["data"], *numbers, f"{case['seconds']:.2f}")
    console.print(table)
    table = Table("compiled loops", "import pippin, s", "first calibrate, s", "warm_up, s", title="A fresh process")
    for name, case in figures["first_call"].items():
        table.add_row(name, *(f"{case[key]:.3f}" for key in ("import", "calibrate", "warm_up")))
    console.print(table)


def show_splits(example: dict[str, Any], large: dict[str, Any], shape: str) -> None:
    title = f"{example['splits']:,} splits of 4,986 × 12, six scores: {example['seconds']:.2f} s in all"
    table = Table("peer", "theirs, ms", "ours, ms", "theirs / ours", title=title, caption="per score and split")
    for row in example["peers"]:
        ours = milli(example["per_score_and_split"])
        table.add_row(row["peer"], milli(row["theirs_s"]), ours, f"{row['ratio']:.0f}")
    console.print(table)
    title = f"{large['splits']:,} splits of {shape}; one np.sort of the matrix is {large['sort_s']:.2f} s"
    table = Table("score", "seconds", "× one sort", title=title)
    for score, row in large["scores"].items():
        table.add_row(score, f"{row['seconds']:.2f}", f"{row['ratio']:.1f}")
    console.print(table)


def show_contest(title: str, rows: list[dict[str, Any]]) -> None:
    table = Table("peer", "pippin", "theirs, ms", "ours, ms", "theirs / ours", "sets", title=title)
    for row in rows:
        if row["present"]:
            cells = milli(row["theirs_s"]), milli(row["ours_s"]), f"{row['ratio']:.1f}", row["agreement"]
        else:
            cells = "absent", "", "", ""
        table.add_row(row["peer"], row["ours"], *cells)
    console.print(table)


def show_matrix(case: dict[str, Any]) -> None:
    read = case["one_read"]
    title = (
        f"{case['rows']:,} × {case['classes']:,} float32, {case['bytes'] / 1e6:,.0f} MB; "
        f"one read (one thread) is {milli(read)} ms; × are multiples of it; extra memory by {case['memory_read_from']}"
    )
    columns = (
        "score",
        "calibrate, ms",
        "×",
        "predict, ms",
        "×",
        "size",
        "extra MB",
        "of input",
        "extra MB",
        "of input",
    )
    table = Table(*columns, title=title)
    for score, row in case["scores"].items():
        cells = [score]
        for step in ("calibrate", "predict"):
            cells += [milli(row[step]), f"{row[step] / read:.1f}"]
        cells.append(f"{row['mean_size']:.1f}")
        for step in ("calibrate", "predict"):
            grown = row[f"{step}_bytes"]
            cells += [f"{grown / 1e6:.1f}", f"{grown / case['bytes']:.2%}"]
        table.add_row(*cells)
    console.print(table)


def show_one_row(rows: list[dict[str, Any]]) -> None:
    title = f"One row, K = {rows[0]['classes']:,}"
    table = Table("score", "predict_one, µs", "peers, µs", "fastest / ours", title=title)
    for row in rows:
        theirs = ", ".join(f"{name} {seconds * 1e6:.0f}" for name, seconds in row["theirs_s"].items())
        ratio = f"{row['ratio']:.1f}" if row["ratio"] else ""
        table.add_row(row["score"], f"{row['ours_s'] * 1e6:.1f}", theirs, ratio)
    console.print(table)


def milli(seconds: float) -> str:
    """Milliseconds with three digits."""
    return f"{seconds * 1e3:.3g}" if seconds < 1 else f"{seconds * 1e3:,.0f}"


if __name__ == "__main__":
    main()
