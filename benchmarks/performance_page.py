"""Write the tables of docs/performance.md from docs/bench.json and docs/bench-gpu.json, so that no figure is typed.

    python benchmarks/performance_page.py

A table stands between the comments `<!-- table: NAME -->` and `<!-- end -->` of the page. A test compares the page with
what this script writes.
"""

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Figures = dict[str, Any]

DOCS = Path(__file__).parents[1] / "docs"
TABLE = re.compile(r"(<!-- table: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
SCORES = {
    "ip": "IP",
    "repip": "RePIP",
    "socop": "SOCOP",
    "aps(randomized=False)": "APS",
    "pip": "PIP",
    "margin": "margin",
}


def main() -> None:
    page = DOCS / "performance.md"
    page.write_text(filled(page.read_text("utf-8")), encoding="utf-8")


def filled(page: str) -> str:
    """Return the page with every table made from the JSON files."""
    named = {**tables(load("bench.json")), **gpu_tables(load("bench-gpu.json"))}
    return TABLE.sub(lambda match: f"{match[1]}\n{named[match['name']]}\n\n{match[3]}", page)


def load(name: str) -> Figures:
    """Read a JSON file of figures."""
    return json.loads((DOCS / name).read_text("utf-8"))


def tables(figures: Figures) -> dict[str, str]:
    """Return the tables of `make bench` in Markdown, by name; cases that were not measured are left out."""
    makers: dict[str, Callable[[Figures], str]] = {
        "machine": machine,
        "libraries": libraries,
        "scores": scores,
        "memory": memory,
        "one-row": one_row,
        "first-call": first_call,
        "compare": compare,
        "compare-libraries": compare_libraries,
        "larger-than-memory": larger_than_memory,
        "costs": costs,
        "not-faster": not_faster,
    }
    return {name: make(figures) for name, make in makers.items() if name != "larger-than-memory" or figures["tables"]}


def machine(figures: Figures) -> str:
    """Name the command, version, commit, date and machine of the run."""
    versions = ", ".join(f"{name} {version}" for name, version in figures["versions"].items())
    device = f"one {figures['device']}, " if "device" in figures else ""
    return (
        f"pippin {figures['pippin']} (commit {figures['commit']}), {figures['date']}, Python {figures['python']}, "
        f"{device}{figures['processor']}, {figures['cores']} cores, {figures['memory_gib']} GiB; {versions}."
    )


def libraries(figures: Figures) -> str:
    """Table of the ratio of each peer's time to pippin's, per shape."""
    cases = figures["peers"]
    ratios = {
        (row["peer"], row["score"]): {case_shape(other): None for other in cases}
        for case in cases
        for row in case["rivals"]
    }
    for case in cases:
        for row in case["rivals"]:
            ratios[row["peer"], row["score"]][case_shape(case)] = row["theirs_s"] / row["ours_s"]
    rows = [
        [peer, f"`{score}`", *("" if ratio is None else ratio_text(ratio) for ratio in by_shape.values())]
        for (peer, score), by_shape in ratios.items()
    ]
    return markdown(["library", "pippin", *map(case_shape, cases)], rows)


def not_faster(figures: Figures) -> str:
    """Table of the cases in which a peer takes at most 1.5 times the time of pippin, in milliseconds."""
    rows = [
        [row["peer"], f"`{row['score']}`", case_shape(case), milliseconds(row["theirs_s"]), milliseconds(row["ours_s"])]
        for case in figures["peers"]
        for row in case["rivals"]
        if row["theirs_s"] <= 1.5 * row["ours_s"]
    ]
    return markdown(["library", "pippin", "rows × classes", "library, ms", "pippin, ms"], rows)


def scores(figures: Figures) -> str:
    """Table of milliseconds to calibrate and to predict, per score and shape."""
    cases = figures["matrices"]
    rows = [
        [
            name,
            *(
                f"{milliseconds(case['scores'][score]['calibrate'])} + {milliseconds(case['scores'][score]['predict'])}"
                f" ({case['scores'][score]['mean_size']:,.1f})"
                for case in cases
            ),
        ]
        for score, name in SCORES.items()
    ]
    rows.append(["`probs.sum()`", *(milliseconds(case["one_read"]) for case in cases)])
    return markdown(["score", *map(case_shape, cases)], rows)


def memory(figures: Figures) -> str:
    """Table of the memory beyond the input, as a share of the input, for the largest two matrices."""
    rows = []
    for score, name in SCORES.items():
        shares = [
            f"{case['scores'][score][f'{step}_bytes'] / case['bytes']:.1%}"
            for case in figures["matrices"][-2:]
            for step in ("calibrate", "predict")
        ]
        rows.append([name, *shares])
    heads = [f"{case_shape(case)}, {step}" for case in figures["matrices"][-2:] for step in ("calibrate", "predict")]
    return markdown(["score", *heads], rows)


def one_row(figures: Figures) -> str:
    """Table of microseconds for one row, and of the fastest peer."""
    rows = []
    for score, name in SCORES.items():
        cells = [name]
        for case in figures["one_row"]:
            rivals = [row for row in case["rivals"] if row["score"] == score]
            fastest = min(rivals, key=lambda row: row["theirs_s"], default=None)
            cells.append(f"{1e6 * case['scores'][score]:.1f}")
            cells.append(f"{fastest['peer']} {1e6 * fastest['theirs_s']:,.0f}" if fastest else "")
        rows.append(cells)
    heads = [head for case in figures["one_row"] for head in (f"{case['classes']:,} classes, µs", "fastest peer, µs")]
    return markdown(["score", *heads], rows)


def first_call(figures: Figures) -> str:
    """Table of seconds in a new process, with and without machine code on disk."""
    rows = [
        [name, *(f"{case[key]:.2f}" for key in ("import", "calibrate", "warm_up"))]
        for name, case in figures["first_call"].items()
    ]
    return markdown(
        ["machine code", "`import pippin`, s", "first `calibrate` of the example, s", "`warm_up()`, s"], rows
    )


def compare(figures: Figures) -> str:
    """Table of seconds of `compare` with six scores."""
    rows = [
        [
            case["data"],
            case_shape(case),
            f"{case['splits']:,}",
            f"{case['seconds']:.2g}",
            megabytes(case.get("peak_mb")),
        ]
        for case in figures["compare"]
    ]
    return markdown(["data", "rows × classes", "splits", "s", "peak memory, MB"], rows)


def compare_libraries(figures: Figures) -> str:
    """Table of milliseconds per score and split, in `compare` and in a loop over a peer."""
    ours = figures["compare_peers"]["per_score_and_split"]
    rows = [
        [row["peer"], milliseconds(row["theirs_s"]), milliseconds(ours), ratio_text(row["theirs_s"] / ours)]
        for row in figures["compare_peers"]["peers"]
    ]
    return markdown(["library", "library, ms", "pippin, ms", "ratio"], rows)


def larger_than_memory(figures: Figures) -> str:
    """Table of seconds and memory of the commands on Parquet tables."""
    rows = [
        [name, f"{run['seconds']:.0f}", f"{run['processor_seconds']:.0f}", megabytes(run["peak_mb"])]
        for name, run in figures["tables"]["runs"].items()
    ]
    return markdown(["command", "s", "processor seconds", "peak memory, MB"], rows)


def costs(figures: Figures) -> str:
    """Table of seconds as multiples of plain `calibrate` or `predict`."""
    seconds = figures["costs"]["seconds"]
    rows = []
    for name, time in seconds.items():
        base = "calibrate" if "calibrate" in name else "predict"
        if name != base:
            rows.append([f"`{name}`" if "," not in name else name, ratio_text(time / seconds[base]), base])
    return markdown(["call", "multiple", "of plain"], rows)


def gpu_tables(figures: Figures) -> dict[str, str]:
    """Return the tables of the GPU in Markdown, by name."""
    cases = figures["cases"]
    rows = [
        [
            name,
            *(
                f"{case['scores'][score]['calibrate_ms']:.2f} + {case['scores'][score]['predict_ms']:.2f}"
                f" ({case['scores'][score]['mean_size']:,.1f})"
                for case in cases
            ),
        ]
        for score, name in SCORES.items()
    ]
    for key, name in (("p_values_ms", "p-values, RePIP"), ("sort_ms", "`torch.sort`"), ("read_ms", "one read")):
        rows.append([name, *(f"{case[key]:.2f}" for case in cases)])
    peers = [
        [
            row["peer"],
            f"`{row['score']}`",
            case_shape(row),
            f"{row['torchcp_ms']:.2f}",
            f"{row['pippin_ms']:.2f}",
            ratio_text(row["torchcp_ms"] / row["pippin_ms"]),
        ]
        for row in figures["peers"]
    ]
    return {
        "gpu-machine": machine(figures),
        "gpu-scores": markdown(["score", *(f"{case_shape(case)}, {case['dtype']}" for case in cases)], rows),
        "gpu-libraries": markdown(["library", "pippin", "rows × classes", "library, ms", "pippin, ms", "ratio"], peers),
    }


def case_shape(case: Figures) -> str:
    """Rows × classes of a case."""
    return f"{case['rows']:,} × {case['classes']:,}"


def milliseconds(seconds: float) -> str:
    """Milliseconds with two significant digits."""
    value = 1e3 * seconds
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def ratio_text(ratio: float) -> str:
    """A ratio with two significant digits."""
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"


def megabytes(value: float | None) -> str:
    """Whole megabytes; empty where memory was not measured."""
    return "" if value is None else f"{value:,.0f}"


def markdown(heads: list[str], rows: Iterable[list[str]]) -> str:
    """A table in Markdown, numbers to the right."""
    rows = list(rows)
    numeric = [all(re.match(r"[\d.,%]*( |$)", row[i]) for row in rows) for i in range(len(heads))]
    rule = ["---:" if right else "---" for right in numeric]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows))


if __name__ == "__main__":
    main()
