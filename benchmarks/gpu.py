"""How long `pippin.torch` takes to calibrate and to predict on a GPU, in reads of the logits, and TorchCP beside it.

    PYTHONPATH=src:tests python3 benchmarks/gpu.py out/gpu.json

Needs a CUDA device, torch and NumPy; TorchCP is timed if it is installed. Then thresholds, scores, sets and p-values of
some rows are compared with those of the core on the same probabilities: a few may differ, where a score is within
rounding of a threshold. Every time is the median over synchronized calls, by CUDA events, Python included.
"""

import contextlib
import json
import math
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

import pippin
import pippin.torch as pt
from support.peers import _torchcp
from support.torch_device import differing

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
ROUNDS, CALLS = 8, 6  # of each
ENOUGH = 200.0  # milliseconds, after which a slow one is called no more than three times


def made_logits(n: int, n_classes: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows with a few likely classes and a long tail, as a trained network gives them, and labels drawn from them."""
    generator = torch.Generator("cuda").manual_seed(0)
    logits = torch.randn((n, n_classes), generator=generator, device="cuda")
    likely = torch.randint(n_classes, (n, 8), generator=generator, device="cuda")
    heights = math.log(n_classes) + 2 + 2 * torch.randn((n, 8), generator=generator, device="cuda")
    logits = logits.scatter_add_(1, likely, heights).to(dtype)
    labels = torch.multinomial(torch.softmax(logits.float(), dim=1), 1, generator=generator).squeeze(1)
    return logits, labels


def milliseconds(works: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The median time of a call of each, by CUDA events around it; a few calls of each in turns.

    Python is half of a short call, and now and then it runs at half its speed: so all have their share of that.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(ROUNDS):
        for name, work in works.items():
            for _ in range(CALLS):
                if len(times[name]) >= 3 and sum(times[name]) > ENOUGH:
                    break
                start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                work()
                stop.record()
                stop.synchronize()
                times[name].append(start.elapsed_time(stop))
    return {name: median(of) for name, of in times.items()}


def measure(n: int, n_classes: int, dtype: torch.dtype) -> list[dict[str, Any]]:
    logits, labels = made_logits(n, n_classes, dtype)
    mask = torch.empty((n, n_classes), dtype=torch.bool, device="cuda")
    works: dict[str, Callable[[], Any]] = {"read": logits.sum, "write": mask.zero_}
    sizes = {}
    for name in SCORES:
        head = pt.ConformalHead(pt.calibrate(logits, labels, name)).cuda()
        sizes[name] = float(head(logits).sizes.double().mean())
        works[f"{name} calibrate"] = partial(pt.calibrate, logits, labels, name)
        works[f"{name} calibrate without scores"] = partial(pt.calibrate, logits, labels, name, scores=False)
        works[f"{name} head"] = partial(head, logits)
        works[f"{name} mask"] = partial(head, logits, mask=True)
    p_head = pt.PValueHead(pt.calibrate(logits, labels, "repip")).cuda()
    works |= {"sort": partial(_sorted, logits), "p-values": partial(p_head, logits)}
    works["per class"] = partial(_quiet, pt.calibrate, logits, labels, "repip", per="class")
    times = milliseconds(works)
    read, write = times["read"], times["write"]
    kind = str(dtype).removeprefix("torch.")
    more = ", ".join(f"{name} {times[name]:.3f}" for name in ("per class", "p-values", "sort"))
    print(n, n_classes, kind, f"read {read:.4f} ms, write {write:.4f}; RePIP {more}")
    found = []
    for name in SCORES:
        parts = ("calibrate", "calibrate without scores", "head", "mask")
        line: dict[str, Any] = {part: times[f"{name} {part}"] for part in parts}
        told = ", ".join(f"{part} {line[part] / read:.2f}" for part in parts)
        print(
            f"  {name}: size {sizes[name]:.1f}; {told}; mask − head {(line['mask'] - line['head']) / write:.2f} writes"
        )
        line |= {"n": n, "classes": n_classes, "dtype": kind, "score": name, "size": sizes[name]}
        found.append(line | {"read": read, "write": write})
    return found


def _sorted(logits: torch.Tensor) -> Any:
    return pt.probabilities(logits).sort(dim=1, descending=True, stable=True)


def _quiet(work: Callable[..., Any], *given: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return work(*given, **options)


def beside_torchcp(n: int, n_classes: int) -> list[dict[str, Any]]:
    """Calibrate and predict, with masks: TorchCP's sets are masks."""
    _, scores, SplitPredictor = _torchcp()  # noqa: N806 - a class
    logits, labels = made_logits(n, n_classes, torch.float32)
    works: dict[str, Callable[[], Any]] = {}
    agree = {}
    for name, (theirs, options) in PEERS.items():
        peer = SplitPredictor(getattr(scores, theirs)(score_type="softmax", **options), alpha=0.1, device="cuda")

        def they(peer: Any = peer) -> Any:
            peer.calculate_threshold(logits, labels)
            return peer.predict_with_logits(logits)

        def we(name: str = name) -> Any:
            return pt.ConformalHead(pt.calibrate(logits, labels, name)).cuda()(logits, mask=True)

        agree[name] = float((they().bool() == we().mask).float().mean())
        works |= {f"{name} theirs": they, f"{name} ours": we}
    times, found = milliseconds(works), []
    for name in PEERS:
        theirs, ours = times[f"{name} theirs"], times[f"{name} ours"]
        found.append({"n": n, "classes": n_classes, "score": name, "theirs": theirs, "ours": ours})
        found[-1] |= {"agree": agree[name], "ratio": theirs / ours}
        print(found[-1], flush=True)
    return found


def checks() -> dict[str, dict[str, int]]:
    """Results that differ from the core: of the example, and of made logits of both shapes."""
    example, found = pippin.load_example(), {}
    for score in (*map(pippin.scores.parse, SCORES), *pippin.scores.PAPER):
        found[f"example {score}"] = differing(torch.tensor(example.probs).cuda(), score, logits=False)
        for n, n_classes in ((1_000, 1_000), (48, 128_256)):
            for dtype in DTYPES:
                logits = made_logits(n, n_classes, dtype)[0]
                found[f"{n_classes} made {dtype} {score}"] = differing(logits, score, logits=True)
    return found


def main(out: str) -> None:
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    lines: list[dict[str, Any]] = []
    for shape in SHAPES:
        for dtype in DTYPES:
            lines += measure(*shape, dtype)
    peers = []
    with contextlib.suppress(ImportError):
        peers = [line for shape in SHAPES for line in beside_torchcp(*shape)]
    different = checks()
    differ = {case: counts for case, counts in different.items() if any(counts.values())}
    print(f"{len(different)} cases, results that differ from the core: {differ or 0}")
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    told = {"device": torch.cuda.get_device_name(), "lines": lines, "peers": peers, "differ": differ}
    Path(out).write_text(json.dumps(told | {"cases": len(different)}, indent=1))


if __name__ == "__main__":
    if len(sys.argv) != 2 or not torch.cuda.is_available():
        sys.exit("Expected one argument, the path of the JSON file to write, on a machine with a CUDA device.")
    warnings.simplefilter("ignore")
    main(sys.argv[1])
