"""Sharpened predictors and deciders in C, ONNX and torch: rows that differ from Python, and time per row.

python benchmarks/exports.py                    # embedded example, CIFAR-10, and 100 made classes with features
python benchmarks/exports.py FILE.npz …         # arrays probs or logits, and labels
python benchmarks/exports.py --float32          # every score on the embedded example: sets that are larger in float32
python benchmarks/exports.py --per-action       # deciders with certificates per action, with and without a sharpener
python benchmarks/exports.py --times            # one row in C and Python, at 12 and 100 classes
"""

import ctypes
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import pippin
import pippin.torch
from data import made
from pippin.export.c_header import c_header
from pippin.export.onnx import head_model

TESTS = Path(__file__).parent.parent / "tests"
sys.path.insert(0, str(TESTS))
from support.exported_code import (  # noqa: E402 - after the path of the tests is added
    compiled,
    decisions_in_c,
    run_onnx,
    sets_in_c,
    unexplained_actions,
    unexplained_sets,
)

ROWS = 10_000
LEVELS = {"weed": 0.1, "crop": 0.02}
WORTH = {"spray": {"weed": 1, "crop": -2}, "leave": {"weed": -1, "crop": 1}, "ask": {"weed": 0.3, "crop": 0.3}}


class Problem(NamedTuple):
    """Sharpened SOCOP, a sharpened decider with a level per kind, and rows that neither was made from."""

    name: str
    predictor: Any
    decider: Any
    probs: Any
    features: Any


def problem(name: str, probs: Any, labels: Any, features: Any = None) -> Problem:
    """A quarter of the rows fits the sharpener, a quarter calibrates; 10,000 rows are drawn near the others."""
    n, rng = len(labels), np.random.default_rng(0)
    order = rng.permutation(n)
    fit, known, rest = np.split(order, [min(n // 4, 3000), min(n // 2, 6000)])
    kinds = {str(k): "crop" if k % 3 == 0 else "weed" for k in range(probs.shape[1])}
    utility = pippin.decisions.Utility(WORTH, kinds=kinds)
    given: list[dict[str, Any]] = [{} if features is None else {"features": features[part]} for part in (fit, known)]
    sharpener = pippin.sharpen(probs[fit], labels[fit], **given[0])
    options = {"sharpen": sharpener, **given[1]}
    predictor = pippin.calibrate(probs[known], labels[known], "socop", 0.1, **options)
    decider = pippin.decisions.calibrate(probs[known], labels[known], utility, LEVELS, per="kind", **options)
    chosen = rest[np.arange(ROWS) % len(rest)]
    logits = np.log(np.maximum(probs[chosen].astype(float), 1e-9))
    logits[len(rest) :] += 0.05 * rng.normal(size=logits[len(rest) :].shape)  # repeated rows are moved a little
    power = np.exp(logits - logits.max(axis=1, keepdims=True))
    test = (power / power.sum(axis=1, keepdims=True)).astype(np.float32)
    more = None if features is None else np.ascontiguousarray(features[chosen], dtype=np.float32)
    return Problem(name, predictor, decider, test, more)


def problems(paths: list[str]) -> list[Problem]:
    """The problems of the files, or without files of three data sets."""
    if paths:
        return [problem(Path(path).stem, *_read(path)) for path in paths]
    example, images = pippin.load_example(), np.load(TESTS / "data" / "cifar10_vgg16.npz")
    probs, labels = made(20_000, 100)
    rng = np.random.default_rng(1)
    features = (rng.normal(size=(100, 8))[labels] + 2 * rng.normal(size=(20_000, 8))).astype(np.float32)
    return [
        problem("embedded example", example.probs, example.labels),
        problem("CIFAR-10", images["probs"], images["labels"]),
        problem("100 classes, 8 features", probs, labels, features),
    ]


def _read(path: str) -> tuple[Any, Any]:
    with np.load(path) as archive:
        if "probs" in archive:
            return archive["probs"], archive["labels"]
        power = np.exp(archive["logits"].astype(float) - archive["logits"].max(axis=1, keepdims=True))
        return power / power.sum(axis=1, keepdims=True), archive["labels"]


def differing(given: Problem) -> None:
    """Print how many of 10,000 rows differ, and in brackets those that are not within 1e-6 of a threshold."""
    probs, features, n_classes = given.probs, given.features, given.probs.shape[1]
    more = {} if features is None else {"features": features}
    tensors = {} if features is None else {"features": torch.from_numpy(features)}
    with tempfile.TemporaryDirectory() as folder:
        library = compiled([given.predictor, given.decider], Path(folder))
        listed = sets_in_c(library, 0, probs, np.zeros(ROWS), features=features)
        acts = decisions_in_c(library, 1, probs, features=features)[0]
    masks = {"C": (listed[:, :, None] == np.arange(n_classes)).any(axis=1)}
    actions: dict[str, Any] = {"C": acts}
    for precision in ("float64", "float32"):
        name = f"ONNX {precision}"
        masks[name] = run_onnx(head_model(given.predictor, precision=precision), probs=probs, **more)["mask"].astype(
            bool
        )
        actions[name] = run_onnx(head_model(given.decider, precision=precision), probs=probs, **more)["actions"]
    rows = torch.from_numpy(probs)
    masks["torch"] = pippin.torch.ConformalHead(given.predictor, from_probs=True)(
        rows, mask=True, **tensors
    ).mask.numpy()
    actions["torch"] = pippin.torch.DecisionHead(given.decider, from_probs=True)(rows, **tensors).actions.numpy()
    sets, decisions = given.predictor.predict(probs, **more), given.decider.decide(probs, **more)
    cells = []
    for name in masks:
        n, far = unexplained_sets(given.predictor, masks[name], sets.mask, probs, features)
        m, beyond = unexplained_actions(given.decider, actions[name], decisions.codes, probs, features)
        larger = (masks[name] >= sets.mask).all()
        cells.append(f"{name}: sets {n} ({far}){' all larger' if larger and n else ''}, actions {m} ({beyond})")
    print(f"{given.name}, mean size {sets.sizes.mean():.2f}: {'; '.join(cells)}", flush=True)


def per_action(name: str, probs: Any, labels: Any, alpha: float, sharpen: str | None) -> None:
    """Print for certificates per action how many of 10,000 rows have another action or certificate than in Python."""
    kinds = {str(k): "crop" if k % 3 == 0 else "weed" for k in range(probs.shape[1])}
    utility, rng = pippin.decisions.Utility(WORTH, kinds=kinds), np.random.default_rng(0)
    known, rest = np.split(rng.permutation(len(labels)), [len(labels) // 3])
    decider = pippin.decisions.calibrate(
        probs[known], labels[known], utility, alpha, per="action", sharpen=sharpen, seed=0
    )
    moved = probs[rng.choice(rest, ROWS)] * rng.gamma(20.0, size=(ROWS, probs.shape[1]))
    rows = (moved / moved.sum(axis=1, keepdims=True)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, Any] = {"C": decisions_in_c(compiled([decider], Path(folder)), 0, rows)}
    for precision in ("float64", "float32"):
        found[f"ONNX {precision}"] = run_onnx(head_model(decider, precision=precision), probs=rows).values()
    found["torch"] = pippin.torch.DecisionHead(decider, from_probs=True)(torch.from_numpy(rows))
    wanted, cells = decider.decide(rows), []
    for target, (actions, certificates) in found.items():
        others = np.asarray(actions) != wanted.codes
        lower = ~others & ~np.isclose(np.asarray(certificates), wanted.certificates, rtol=1e-6)
        cells.append(f"{target}: actions {others.sum()}, certificates {lower.sum()}")
    print(f"{name}, alpha {alpha:g}, sharpen {sharpen}: {'; '.join(cells)}", flush=True)


SCORES = ("ip", "margin", "pip", "repip", "socop", "topk", "aps", "raps", "saps")
SCORES = (*SCORES, *(f"{name}(randomized=False)" for name in ("aps", "raps", "saps")))


def single_precision() -> None:
    """Print for every score how many sets of the embedded example are larger in a float32 graph, and smaller."""
    data, u = pippin.load_example(), np.random.default_rng(3).random(4986)
    for score in SCORES:
        predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], score, 0.1, seed=0)
        feed = {"u": u} if predictor.score.randomized else {}
        wide = run_onnx(head_model(predictor), probs=data.probs, **feed)["mask"]
        feed = {name: value.astype(np.float32) for name, value in feed.items()}
        single = run_onnx(head_model(predictor, precision="float32"), probs=data.probs, **feed)["mask"]
        print(f"{score}: {(single > wide).any(axis=1).sum()} larger, {(single < wide).any(axis=1).sum()} smaller")


LOOP = """
#include <stddef.h>
#include "sets.h"
#include "acts.h"
/* Run all rows; the sum keeps the compiler from leaving them out. */
long run_sets(const float *probs, const float *features, int n, int m);
long run_acts(const float *probs, const float *features, int n, int m);
long run_sets(const float *probs, const float *features, int n, int m)
{
    int classes[SETS_CLASSES], i;
    long total = 0;
    (void)features;
    (void)m;
    for (i = 0; i < n; i++)
        total += sets_predict_float(probs + i * SETS_CLASSES,FEATURES 0.5, classes);
    return total;
}
long run_acts(const float *probs, const float *features, int n, int m)
{
    int i;
    long total = 0;
    (void)features;
    (void)m;
    for (i = 0; i < n; i++)
        total += acts_decide_float(probs + i * ACTS_CLASSES,FEATURES NULL);
    return total;
}
"""


def times(given: Problem, n: int = 2000) -> None:
    """Print the time of one row: in C (gcc -O3), by predict_one and decide_one, and in a batch."""
    probs, features = given.probs[:n], None if given.features is None else given.features[:n]
    more: list[dict[str, Any]] = [{}] * n if features is None else [{"features": one} for one in features]
    with tempfile.TemporaryDirectory() as folder:
        for name, head in (("sets", given.predictor), ("acts", given.decider)):
            Path(folder, f"{name}.h").write_text(c_header(head, name), encoding="utf-8")
        loop = LOOP.replace("FEATURES", "" if features is None else " features + i * m,")
        Path(folder, "loop.c").write_text(loop, encoding="utf-8")
        flags = ["-std=c99", "-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC"]
        subprocess.run(["gcc", *flags, "loop.c", "-o", "loop.so"], check=True, cwd=folder)
        library = ctypes.CDLL(str(Path(folder, "loop.so")))
        pointer = None if features is None else features.ctypes.data_as(ctypes.c_void_p)
        width = 0 if features is None else features.shape[1]
        arguments = probs.ctypes.data_as(ctypes.c_void_p), pointer, n, width
        found = {name: best(partial(library[f"run_{name}"], *arguments)) / n for name in ("sets", "acts")}
    whole = {} if features is None else {"features": features}
    found["predict_one"] = (
        best(lambda: [given.predictor.predict_one(r, **m) for r, m in zip(probs, more, strict=True)]) / n
    )
    found["decide_one"] = best(lambda: [given.decider.decide_one(r, **m) for r, m in zip(probs, more, strict=True)]) / n
    found["predict, batch"] = best(lambda: given.predictor.predict(probs, **whole)) / n
    found["decide, batch"] = best(lambda: given.decider.decide(probs, **whole)) / n
    print(f"{given.name}: " + ", ".join(f"{name} {1e6 * value:.1f} µs" for name, value in found.items()), flush=True)


def best(work: Any, repeats: int = 5) -> float:
    """The shortest of several times in seconds."""
    work()
    measured = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        measured.append(time.perf_counter() - began)
    return min(measured)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    timed = "--times" in sys.argv[1:]
    if "--float32" in sys.argv[1:]:
        single_precision()
        sys.exit()
    if "--per-action" in sys.argv[1:]:
        example, images = pippin.load_example(), np.load(TESTS / "data" / "cifar10_vgg16.npz")
        tables = {"embedded example": (example.probs, example.labels), "CIFAR-10": (images["probs"], images["labels"])}
        tables["100 classes"] = made(20_000, 100)
        for table, alpha, way in product(tables, (0.02, 0.1), (None, "split")):
            per_action(table, *tables[table], alpha, way)
        sys.exit()
    for each in problems([path for path in sys.argv[1:] if path != "--times"]):
        if not timed:
            differing(each)
        elif each.name != "CIFAR-10":
            times(each)
