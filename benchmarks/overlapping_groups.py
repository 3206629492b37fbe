"""Coverage in groups that overlap: five groups of a data set, simulated worlds, and time. Tables in Markdown.

python benchmarks/overlapping_groups.py [FILE.npz] [--score ip] [--splits 400] [--alpha 0.1] [--worlds 2000]

The file holds `probs` (or `logits`), `labels` and `classes`; without one it is the embedded example. The groups depend
on the probabilities alone, so that they are known for new objects. Coverage per group is pooled over random splits, of
which 45% of the rows calibrate. `--worlds 0` and `--rows 0` leave out the simulation and the times.
"""

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

import pippin

CALIBRATE = 0.45
METHODS: dict[str, Any] = {
    "marginal": None,
    "groups": "groups",
    "groups randomized": "groups randomized",
    "largest group": "largest group",
    "each combination (Mondrian)": "group",
}
GRASSES = ("black_grass", "loose_silky_bent", "common_wheat")
CROPS = ("common_wheat", "maize", "sugar_beet")
CLASSES = 100  # of the timed rows


def read(path: Path | None) -> tuple[Any, Any, list[str]]:
    """Probabilities, labels and names of the classes."""
    if path is None:
        example = pippin.load_example()
        return example.probs, example.labels, list(example.classes)
    with np.load(path) as data:
        probs = data["probs"] if "probs" in data else np.exp(data["logits"].astype(np.float64))
        return probs / probs.sum(axis=1, keepdims=True), data["labels"].astype(np.int64), data["classes"].tolist()


def groups_of(probs: Any, classes: list[str]) -> dict[str, Any]:
    """Five groups that overlap, from the probabilities."""
    ranked, predicted = np.sort(probs, axis=1)[:, ::-1], np.array(classes)[probs.argmax(axis=1)]
    groups = {
        "unsure": ranked[:, 0] < 0.9,
        "close call": ranked[:, 0] - ranked[:, 1] < 0.3,
        "four candidates": ranked[:, 3] > 0.01,
        "predicted grass": np.isin(predicted, GRASSES),
        "predicted crop": np.isin(predicted, CROPS),
    }
    return {name: own for name, own in groups.items() if own.any()}


def predict(probs: Any, labels: Any, groups: Any, inner: Any, outer: Any, how: Any, given: Any) -> Any:
    """Calibrate on the inner rows, and predict the outer ones."""
    new: dict[str, Any] = {}
    keywords: dict[str, Any] = {} if how is None else {"per": how}
    if how == "group":
        names = np.array([" & ".join(map(str, np.flatnonzero(row))) for row in groups])
        keywords |= {"groups": names[inner], "unseen": "marginal"}
        new = {"groups": names[outer]}
    elif how is not None:
        keywords |= {"groups": groups[inner]}
        new = {"groups": groups[outer]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of small combinations, which are a subject here
        predictor = pippin.calibrate(probs[inner], labels[inner], *given, seed=0, **keywords)
        return predictor.predict(probs[outer], seed=0, **new)


def measure(args: Any) -> None:
    """Print coverage in each group and the size of the sets, for each method."""
    probs, labels, classes = read(args.file)
    named = groups_of(probs, classes)
    groups, given = np.column_stack(list(named.values())), (args.score, args.alpha)
    print(f"{len(labels):,} rows, {args.score}, alpha = {args.alpha:g}, {args.splits} splits; rows in groups:")
    print(", ".join(f"{name} {own.sum():,}" for name, own in named.items()), end=".\n\n")
    print(f"| thresholds | all | {' | '.join(named)} | size | singletons | sets of all classes |")
    print("|---|" + "---|" * (len(named) + 4))
    for name, how in METHODS.items():
        every, shapes = np.zeros((2, 1 + len(named))), []
        for split in range(args.splits):
            order = np.random.default_rng(split).permutation(len(labels))
            inner, outer = np.split(order, [round(CALIBRATE * len(order))])
            sets = predict(probs, labels, groups, inner, outer, how, given)
            rows = np.insert(groups[outer], 0, True, axis=1)
            every += [rows.sum(axis=0), rows[sets.contain_codes(labels[outer])].sum(axis=0)]
            sizes = sets.sizes
            shapes.append([sizes.mean(), (sizes == 1).mean(), (sizes == len(classes)).mean()])
        size, single, full = np.mean(shapes, axis=0)
        shares = " | ".join(f"{share:.1%}" for share in every[1] / every[0])
        print(f"| {name} | {shares} | {size:.2f} | {single:.0%} | {full:.1%} |", flush=True)


def simulate(worlds: int, alpha: float) -> None:
    """Print the share of worlds in which a new member of each of three groups of 30 rows is covered."""
    low, high = binom.ppf([1e-4, 1 - 1e-4], worlds, 1 - alpha) / worlds
    print(f"\n{worlds:,} worlds of 60 rows, three groups of 30; a share of exactly {1 - alpha:g} is between")
    print(f"{low:.4f} and {high:.4f} with probability 0.9998.\n")
    print("| thresholds | scores | group 1 | group 2 | group 3 |\n|---|---|---|---|---|")
    for per in ("groups", "groups randomized", "largest group"):
        for ties in (False, True):
            rng, hits = np.random.default_rng(0), np.zeros(3)
            for _ in range(worlds):
                groups = np.array([rng.permutation(60) < 30 for _ in range(3)]).T
                own = groups[[rng.choice(np.flatnonzero(groups[:, g])) for g in range(3)]]
                both = np.concatenate([groups, own])
                scores = rng.random(63) * (0.4 + both @ [0.3, 0.2, 0.1])
                scores = np.ceil(scores * 8) / 8 if ties else scores
                probs = np.column_stack([1 - scores, scores])
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of the implausible probabilities
                    predictor = pippin.calibrate(
                        probs[:60], np.zeros(60, dtype=int), "ip", alpha, per=per, groups=groups
                    )
                hits += predictor.predict(probs[60:], groups=own, seed=rng).contain_codes(np.zeros(3, dtype=int))
            shares = " | ".join(f"{share:.4f}" for share in hits / worlds)
            print(f"| {per} | {'tied' if ties else 'continuous'} | {shares} |", flush=True)


def clock(n: int, alpha: float) -> None:
    """Print the times of calibration and prediction for n rows in ten groups, beside those of one threshold."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(CLASSES, 0.05), n).astype(np.float32)
    labels = (probs.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    groups = rng.random((n, 10)) < 0.3
    pippin.warm_up()
    print(f"\n{n:,} rows, {CLASSES} classes, 10 groups; best of 5:\n")
    print("| thresholds | calibrate, s | predict, s | × predict of one threshold |\n|---|---|---|---|")
    plain = 0.0
    for per in (None, "groups", "groups randomized", "largest group"):
        keywords: dict[str, Any] = {} if per is None else {"per": per, "groups": groups}
        new: dict[str, Any] = {} if per is None else {"groups": groups}
        times = []
        for _ in range(5):
            start = time.perf_counter()
            predictor = pippin.calibrate(probs, labels, "repip", alpha, **keywords)
            middle = time.perf_counter()
            predictor.predict(probs, seed=0, **new)
            times.append((middle - start, time.perf_counter() - middle))
        calibrate, predict = np.min(times, axis=0)
        plain = plain or predict
        print(f"| {per or 'one'} | {calibrate:.2f} | {predict:.3f} | {predict / plain:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--score", default="ip")
    parser.add_argument("--splits", type=int, default=400)
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--worlds", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=50_000)
    args = parser.parse_args()
    measure(args)
    if args.worlds:
        simulate(args.worlds, args.alpha)
    if args.rows:
        clock(args.rows, args.alpha)


if __name__ == "__main__":
    main()
