"""Two models: combined predictors and cascades, as tables in Markdown.

python benchmarks/cascade.py [SMALL.npz LARGE.npz] [--splits 50] [--alpha 0.1] [--sharpen] [--costs 1 10]

The files hold `logits` or `probs`, `labels` and `classes` of the same held-out images. Without them, the models are a
logistic regression and 1,000 extremely randomized trees on the digits of scikit-learn, trained on 300 of them, and the
processor time per object is measured.

In each random split, half of the rows calibrate: every method divides the same rows among all that it needs.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pippin

MERGING = ("bonferroni", "majority", "mean", "geometric", "harmonic", "cauchy", "fisher", "scores")
VALID = MERGING[:6]


def read(path: Path) -> tuple[Any, Any]:
    """Return the probabilities and the labels."""
    with np.load(path) as data:
        if "probs" in data:
            return data["probs"].astype(np.float64), data["labels"].astype(np.int64)
        logits = data["logits"].astype(np.float64)
        probs = np.exp(logits - logits.max(axis=1, keepdims=True))
        return probs / probs.sum(axis=1, keepdims=True), data["labels"].astype(np.int64)


def digits() -> tuple[list[Any], Any, list[Callable[[Any], Any]]]:
    """Train the two models; return their probabilities of the other rows, the labels, and functions of row numbers."""
    from sklearn.datasets import load_digits
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.linear_model import LogisticRegression

    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    train, rest = order[:300], order[300:]
    models = LogisticRegression(max_iter=500), ExtraTreesClassifier(1000, random_state=0)
    fitted = [model.fit(pixels[train] / 16, labels[train]) for model in models]
    held = pixels[rest] / 16
    functions = [lambda rows, model=model: model.predict_proba(held[rows]) for model in fitted]
    return [function(slice(None)) for function in functions], labels[rest], functions


def sharpened(each: list[Any], labels: Any, rows: Any, seed: int) -> list[Any]:
    """Return the probabilities of all rows, recalibrated by a sharpener per model that learned on `rows`."""
    return [np.asarray(pippin.sharpen(p[rows], labels[rows], seed=seed)(p), dtype=np.float64) for p in each]


def figures(sets: Any, labels: Any) -> list[float]:
    """Return coverage, mean size and the share of singletons."""
    return [sets.contains(labels).mean(), sets.sizes.mean(), (sets.sizes == 1).mean()]


def methods(each: list[Any], labels: Any, known: Any, new: Any, score: str, alpha: float) -> dict[str, list[float]]:
    """Evaluate every combination on one split; `known` rows calibrate, `new` rows test."""
    half, other = known[: len(known) // 2], known[len(known) // 2 :]
    truth, results = labels[new], {}
    geometric = np.exp(sum(np.log(np.maximum(p, 1e-12)) for p in each) / len(each))
    pooled = {"arithmetic": sum(each) / len(each), "geometric": geometric / geometric.sum(axis=1, keepdims=True)}
    single = {f"model {number} alone": p for number, p in enumerate(each)}
    for name, probs in {**single, **{f"{kind} mean of probabilities": p for kind, p in pooled.items()}}.items():
        predictor = pippin.calibrate(probs[known], labels[known], score, alpha, seed=0)
        results[name] = figures(predictor.predict(probs[new], seed=0), truth)
    parts = [p[new] for p in each]
    whole = [pippin.calibrate(p[known], labels[known], score, alpha, seed=0) for p in each]
    halves = [pippin.calibrate(p[half], labels[half], score, alpha, seed=0) for p in each]
    for method in VALID:
        results[f"{method}, valid"] = figures(pippin.models.combine(whole, method=method).predict(parts, seed=0), truth)
    for method in MERGING:
        rows = known if method == "scores" else other
        held = [p[rows] for p in each], labels[rows]
        combined = pippin.models.combine(whole if method == "scores" else halves, *held, method=method, seed=0)
        results[f"{method}, recalibrated"] = figures(combined.predict(parts, seed=0), truth)
    budgets = [predictor.at(alpha / 2) for predictor in whole]
    first = budgets[0].predict(parts[0], seed=0)
    mask = first.mask.copy()
    mask[first.sizes > 1] &= budgets[1].predict(parts[1], seed=0).mask[first.sizes > 1]
    results["cascade with error budgets"] = figures(pippin.PredictionSets.from_mask(mask), truth)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--splits", type=int, default=50)
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--score", default="repip")
    parser.add_argument("--sharpen", action="store_true", help="recalibrate both models on a third of the known rows")
    parser.add_argument("--costs", type=float, nargs=2, default=(1, 10))
    given = parser.parse_args()
    functions = None
    if given.files:
        (small, labels), (large, others) = map(read, given.files)
        assert (labels == others).all(), "the files hold other rows"
        each = [small, large]
    else:
        each, labels, functions = digits()
    print("accuracy:", ", ".join(f"{np.mean(p.argmax(axis=1) == labels):.1%}" for p in each))
    collected: dict[str, list[list[float]]] = {}
    cascades = []
    for split in range(given.splits):
        order = np.random.default_rng(split).permutation(len(labels))
        known, new, models = order[: len(order) // 2], order[len(order) // 2 :], each
        if given.sharpen:
            models = sharpened(each, labels, known[: len(known) // 3], split)
            known = known[len(known) // 3 :]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other rows that seem to be calibration rows
            for name, row in methods(models, labels, known, new, given.score, given.alpha).items():
                collected.setdefault(name, []).append(row)
            pairs = [(p[known], cost) for p, cost in zip(models, given.costs, strict=True)]
            made = pippin.models.cascade(pairs, labels[known], given.score, given.alpha, seed=split)
        parts = [p[new] for p in models]
        stages, alone = made.run(parts)[1], collected["model 1 alone"][-1]
        row = figures(made.predict(parts, seed=0), labels[new])
        cost = given.costs[0] + given.costs[1] * np.mean(stages == 1)
        cascades.append([np.mean(stages == 0), *row, row[1] / alone[1], cost])
    print("\n| method | coverage | size | singletons |\n|---|---|---|---|")
    for name, rows in collected.items():
        coverage, size, singles = np.mean(rows, axis=0)
        print(f"| {name} | {coverage:.3f} | {size:.3f} | {singles:.1%} |")
    settled, coverage, size, singles, ratio, cost = np.mean(cascades, axis=0)
    error = np.std([row[4] for row in cascades]) / np.sqrt(given.splits)
    print(
        f"\ncascade: {settled:.1%} settled by the small model, coverage {coverage:.3f}, size {size:.3f}, singletons "
        f"{singles:.1%}; {ratio:.3f} ± {error:.3f} times the sets of the large model alone with all rows; cost "
        f"{cost:.2f} per object"
    )
    if functions is not None:
        measure(functions, each, labels, given)


def measure(functions: list[Callable[[Any], Any]], each: list[Any], labels: Any, given: Any) -> None:
    """Print the processor time per object, of the large model alone and of the cascade, in batches and one by one."""
    half = len(labels) // 2
    pairs = [(p[:half], cost) for p, cost in zip(each, given.costs, strict=True)]
    made = pippin.models.cascade(pairs, labels[:half], given.score, given.alpha, seed=0)
    alone = pippin.calibrate(each[1][:half], labels[:half], given.score, given.alpha)
    small, large = functions
    rows, times = np.arange(half, len(labels)), {}

    def one_by_one_alone() -> None:
        for row in rows[:50]:
            alone.predict_one(large([row])[0])

    def one_by_one() -> None:
        for row in rows[:50]:
            made.predict_one([small([row])[0], lambda row=row: large([row])[0]])

    tried = {
        "in batches, large model alone": (lambda: alone.predict(large(rows)), len(rows)),
        "in batches, cascade": (lambda: made.predict([small(rows), lambda chosen: large(rows[chosen])]), len(rows)),
        "one by one, large model alone": (one_by_one_alone, 50),
        "one by one, cascade": (one_by_one, 50),
    }
    for _ in range(5):
        for name, (call, n) in tried.items():
            start = time.process_time()
            call()
            times.setdefault(name, []).append((time.process_time() - start) / n)
    print(made.describe())
    for name, every in times.items():
        print(f"{name}: {1000 * statistics.median(every):.3f} ms of processor time per object")


if __name__ == "__main__":
    main()
