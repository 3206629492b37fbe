"""What every class is covered by, and what that costs: a table in Markdown.

python benchmarks/rare.py [FILE.npz] [--splits 100] [--alpha 0.1]

The file holds `probs`, `labels` and `classes`; without one it is the embedded example. Coverage
per class is pooled over random splits, of which 45% of the rows calibrate.
"""

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pippin

SCORES = ("ip", "pip", "repip")
WAYS: dict[str, Any] = {
    "marginal": None,
    "per class": "class",
    "per cluster": "cluster",
    "rc3p": "rc3p",
    "interpolated": "interpolated",
}
CALIBRATE = 0.45
HEADER = "| score | guarantee | coverage | worst class | CovGap | size | of it without limit | singletons |"


def read(path: Path | None) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Probabilities and labels."""
    if path is None:
        example = pippin.load_example()
        return example.probs, example.labels
    with np.load(path) as data:
        return data["probs"], data["labels"].astype(np.int64)


def measure(probs: Any, labels: Any, score: str, per: Any, alpha: float, splits: int) -> list[float]:
    """Coverage, that of the worst class, CovGap, mean size, how much of it is classes without limit, singletons."""
    n_classes = probs.shape[1]
    covered, seen = np.zeros(n_classes), np.zeros(n_classes)
    sizes, free, single = [], [], []
    for split in range(splits):
        order = np.random.default_rng(split).permutation(len(labels))
        inner, outer = np.split(order, [round(CALIBRATE * len(order))])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of rare classes, which are the subject here
            predictor = pippin.calibrate(probs[inner], labels[inner], score, alpha, seed=split, per=per)
        sets = predictor.predict(probs[outer])
        covered += np.bincount(labels[outer], sets.contains(labels[outer]), n_classes)
        seen += np.bincount(labels[outer], minlength=n_classes)
        sizes.append(sets.sizes.mean())
        single.append((sets.sizes == 1).mean())
        free.append(without_limit(predictor))
    by_class = covered[seen > 0] / seen[seen > 0]
    gap = np.abs(by_class - (1 - alpha)).mean()
    return [covered.sum() / seen.sum(), by_class.min(), gap, *(float(np.mean(x)) for x in (sizes, free, single))]


def without_limit(predictor: Any) -> int:
    """How many classes are in every set."""
    if predictor.per is None:
        return int(np.isinf(predictor.threshold)) * len(predictor.classes)
    free = np.isinf(predictor.thresholds)
    if predictor.rank_limits is not None:
        free &= predictor.rank_limits == len(predictor.classes)
    return int(free.sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--alpha", type=float, default=0.1)
    options = parser.parse_args()
    probs, labels = read(options.file)
    print(HEADER, "|" + "---|" * (HEADER.count("|") - 1), sep="\n")
    for score in SCORES:
        for name, per in WAYS.items():
            coverage, worst, gap, size, free, single = measure(probs, labels, score, per, options.alpha, options.splits)
            figures = f"{coverage:.3f} | {worst:.3f} | {gap:.3f} | {size:.2f} | {free:.1f} | {single:.1%}"
            print(f"| `{score}` | {name} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
