"""Measure `pippin.torch` on a GPU, and TorchCP on the same logits.

    python3 benchmarks/gpu.py out/gpu.json

The script needs a CUDA device and torch; it times TorchCP if that is installed. Every time is the median over
synchronized calls, measured with CUDA events, so the time spent in Python is included. Afterwards the thresholds,
scores, sets and p-values of some rows are compared with those computed in NumPy from the same probabilities; a result
may differ where a score is within rounding of a threshold. The JSON file is the source of the GPU tables in
docs/performance.md.
"""

import contextlib
import importlib.metadata
import json
import math
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import torch
from measure import provenance

import pippin
import pippin.torch as pt
from support.peers import _torchcp
from support.torch_device import differing

DEVICE = "cuda"
SHAPES = ((50_000, 1_000), (4_096, 128_256))
DTYPES = (torch.float32, torch.bfloat16)
SCORES = ("ip", "margin", "aps(randomized=False)", "raps(randomized=False)", "pip", "repip", "socop")
PEERS = {
    "ip": ("LAC", {}),
    "margin": ("Margin", {}),
    "aps(randomized=False)": ("APS", {"randomized": False}),
    "raps(randomized=False)": ("RAPS", {"randomized": False, "penalty": 0.02, "kreg": 3}),
    "saps(randomized=False)": ("SAPS", {"randomized": False, "weight": 0.1}),
}
ROUNDS, CALLS = 8, 6  # rounds over all calls, and repetitions of each call per round
LONGEST = 200.0  # milliseconds in total after which a call is repeated no further, once it has three repetitions


def synthetic_logits(n: int, n_classes: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw rows with a few likely classes and a long tail, and labels from their softmax."""
    generator = torch.Generator(DEVICE).manual_seed(0)
    logits = torch.randn((n, n_classes), generator=generator, device=DEVICE)
    likely = torch.randint(n_classes, (n, 8), generator=generator, device=DEVICE)
    heights = math.log(n_classes) + 2 + 2 * torch.randn((n, 8), generator=generator, device=DEVICE)
    logits = logits.scatter_add_(1, likely, heights).to(dtype)
    labels = torch.multinomial(torch.softmax(logits.float(), dim=1), 1, generator=generator).squeeze(1)
    return logits, labels


def milliseconds(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the median time of each call in ms, measured with CUDA events.

    The calls alternate, so that periods in which the host is slow affect all of them alike.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            for _ in range(CALLS):
                if len(times[name]) >= 3 and sum(times[name]) > LONGEST:
                    break
                start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                call()
                stop.record()
                stop.synchronize()
                times[name].append(start.elapsed_time(stop))
    return {name: median(values) for name, values in times.items()}


def measure(n: int, n_classes: int, dtype: torch.dtype) -> dict[str, Any]:
    """Time `calibrate`, the heads and p-values of (n, n_classes) logits."""
    logits, labels = synthetic_logits(n, n_classes, dtype)
    calls: dict[str, Callable[[], Any]] = {"read": logits.sum, "sort": partial(sort_probabilities, logits)}
    sizes = {}
    for name in SCORES:
        head = pt.ConformalHead(pt.calibrate(logits, labels, name)).to(DEVICE)
        sizes[name] = float(head(logits).sizes.double().mean())
        calls[f"{name} calibrate"] = partial(pt.calibrate, logits, labels, name)
        calls[f"{name} predict"] = partial(head, logits)
        calls[f"{name} mask"] = partial(head, logits, mask=True)
    calls["p_values"] = partial(pt.PValueHead(pt.calibrate(logits, labels, "repip")).to(DEVICE), logits)
    calls["per_class"] = partial(pt.calibrate, logits, labels, "repip", per="class")
    times = milliseconds(calls)
    return {
        "rows": n,
        "classes": n_classes,
        "dtype": str(dtype).removeprefix("torch."),
        **{f"{name}_ms": times[name] for name in ("read", "sort", "p_values", "per_class")},
        "scores": {
            name: {
                "mean_size": sizes[name],
                **{f"{part}_ms": times[f"{name} {part}"] for part in ("calibrate", "predict", "mask")},
            }
            for name in SCORES
        },
    }


def sort_probabilities(logits: torch.Tensor) -> Any:
    """Sort the probabilities of every row, as a reference for the cost of p-values."""
    return pt.probabilities(logits).sort(dim=1, descending=True, stable=True)


def compare_torchcp(n: int, n_classes: int) -> list[dict[str, Any]]:
    """Time calibration and prediction together, both as boolean masks, which are TorchCP's only form of sets."""
    _, scores, SplitPredictor = _torchcp()  # noqa: N806 - a class
    logits, labels = synthetic_logits(n, n_classes, torch.float32)
    calls: dict[str, Callable[[], Any]] = {}
    equal = {}
    for name, (theirs, options) in PEERS.items():
        peer = SplitPredictor(getattr(scores, theirs)(score_type="softmax", **options), alpha=0.1, device=DEVICE)

        def call_torchcp(peer: Any = peer) -> Any:
            peer.calculate_threshold(logits, labels)
            return peer.predict_with_logits(logits)

        def call_pippin(name: str = name) -> Any:
            return pt.ConformalHead(pt.calibrate(logits, labels, name)).to(DEVICE)(logits, mask=True)

        equal[name] = float((call_torchcp().bool() == call_pippin().mask).float().mean())
        calls |= {f"{name} torchcp": call_torchcp, f"{name} pippin": call_pippin}
    times = milliseconds(calls)
    return [
        {
            "rows": n,
            "classes": n_classes,
            "score": name,
            "peer": f"TorchCP {theirs}",
            "pippin_ms": times[f"{name} pippin"],
            "torchcp_ms": times[f"{name} torchcp"],
            "ratio": times[f"{name} torchcp"] / times[f"{name} pippin"],
            "equal_entries": equal[name],
        }
        for name, (theirs, _) in PEERS.items()
    ]


def compare_results() -> dict[str, dict[str, int]]:
    """Count the results that differ from NumPy's, on the example and on synthetic logits of both widths."""
    example, counts = pippin.load_example(), {}
    for score in (*map(pippin.scores.parse, SCORES), *pippin.scores.PAPER):
        counts[f"example {score}"] = differing(torch.tensor(example.probs).to(DEVICE), score, logits=False)
        for n, n_classes in ((1_000, 1_000), (48, 128_256)):
            for dtype in DTYPES:
                logits = synthetic_logits(n, n_classes, dtype)[0]
                counts[f"{n_classes} classes {dtype} {score}"] = differing(logits, score, logits=True)
    return counts


def installed_version(package: str) -> str | None:
    """Return the version of a package, or None where it is not installed."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)
    return None


def main(out: Path) -> None:
    """Measure everything and write the JSON file after every step."""
    out.parent.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {
        **provenance(),
        "device": torch.cuda.get_device_name(),
        "versions": {name: installed_version(name) for name in ("torch", "triton", "torchcp")},
        "cases": [],
        "peers": [],
    }

    def write(text: str) -> None:
        print(text, flush=True)
        out.write_text(json.dumps(figures, indent=1) + "\n")

    write(f"{figures['device']}, torch {torch.__version__}")
    for shape in SHAPES:
        for dtype in DTYPES:
            case = measure(*shape, dtype)
            figures["cases"].append(case)
            write(f"{shape[0]:,} × {shape[1]:,} {case['dtype']}: " + f"{case['scores']['repip']}")
    if figures["versions"]["torchcp"]:
        for shape in SHAPES:
            figures["peers"] += compare_torchcp(*shape)
            write("\n".join(f"{row['peer']}: {row['ratio']:.1f}" for row in figures["peers"][-len(PEERS) :]))
    counts = compare_results()
    figures["compared_cases"] = len(counts)
    figures["differences"] = {case: count for case, count in counts.items() if any(count.values())}
    write(f"{len(counts)} cases; results that differ from NumPy's: {figures['differences'] or 0}")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not torch.cuda.is_available():
        sys.exit("Expected one argument, the path of the JSON file to write, on a machine with a CUDA device.")
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]))
