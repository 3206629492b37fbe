"""What sharpening wins on real outputs, what it costs, and how wrong it goes on rows that were used twice.

    python benchmarks/sharpen.py FILE.npz … [--splits 50] [--alpha 0.1] [--few]
    python benchmarks/sharpen.py --times
    python benchmarks/sharpen.py FILE.npz --twice

In each split a quarter of the rows learns and another quarter calibrates behind the sharpener; plain
scores calibrate on both, and all are tested on the other half. With --few it is 200 and 300 rows.
"At PIP's singletons" is the mean size along SOCOP's front over μ where it has as many singletons as
PIP, divided by IP's mean size.
"""

import argparse
import os
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # splits are divided among processes

import numpy as np
from rich.console import Console
from rich.table import Table

import pippin

PRICES = (0, 0.5, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 512, 4096, 65536)
PLAIN = ("ip", "pip", "repip", "socop")


def load(path):
    """Probabilities and labels of a file with `probs` or `logits`."""
    with np.load(path) as file:
        labels = file["labels"].astype(np.int64)
        probs = file["probs"].astype(np.float64) if "probs" in file else file["logits"].astype(np.float64)
        if "probs" not in file:
            probs = np.exp(probs - probs.max(axis=1, keepdims=True))
    return probs / probs.sum(axis=1, keepdims=True), labels


def point(calibration, test, score, alpha, **how):
    """Size, singletons and coverage of one score."""
    sets = pippin.calibrate(*calibration, score, alpha, **how).predict(test[0])
    return pippin.metrics.mean_size(sets), pippin.metrics.singleton_rate(sets), pippin.metrics.coverage(sets, test[1])


def measure(path, alpha, few, seed):
    """One split: plain scores, SOCOP's front, and both sharpened; the last entry is per class."""
    import warnings

    warnings.simplefilter("ignore")  # rare classes have infinite thresholds, on purpose
    probs, labels = load(path)
    order, n = np.random.default_rng(seed).permutation(len(labels)), len(labels)
    ends = [200, 500] if few else [n // 4, n // 2]
    learn, calibrate, test = np.split(order, ends)
    sharper = pippin.sharpen(probs[learn], labels[learn])
    better = sharper(probs)

    def rows(source, which):
        return source[which], labels[which]

    both, tested = np.concatenate([learn, calibrate]), rows(probs, test)
    plain = [point(rows(probs, both), tested, score, alpha) for score in PLAIN]
    front = [point(rows(probs, both), tested, pippin.scores.socop(mu), alpha) for mu in PRICES]
    sharp = [point(rows(better, calibrate), rows(better, test), pippin.scores.socop(mu), alpha) for mu in PRICES]
    per = point(rows(better, calibrate), rows(better, test), "socop", alpha, per="class")
    return np.array([*plain, *front, *sharp, per])


def at_singletons(front, singletons):
    """The size at a share of singletons, along a front of (size, singletons)."""
    order = np.argsort(front[:, 1])
    return np.interp(singletons, front[order, 1], front[order, 0])


def told(value):
    """Size and singletons."""
    return f"{value[0]:.2f} / {100 * value[1]:.0f}%"


def compare(paths, splits, alpha, few):
    """A row of the table for every file."""
    heads = ("data", "IP", "PIP", "RePIP", "SOCOP", "SOCOP sharpened", "at PIP's singletons", "difference to SOCOP")
    table = Table(*heads, "coverage", "per class")
    table.title = f"mean size / singletons, alpha = {alpha:g}, {splits} splits" + (", 200 + 300 labels" if few else "")
    for path in paths:
        with ProcessPoolExecutor(2) as pool:
            found = np.array(list(pool.map(partial(measure, path, alpha, few), range(splits))))
        mean, m = found.mean(axis=0), len(PRICES)
        plain, front, sharp, per = mean[:4], mean[4 : 4 + m], mean[4 + m : 4 + 2 * m], mean[-1]
        ratios = [at_singletons(one, plain[1, 1]) / plain[0, 0] for one in (front, sharp)]
        # Paired, split by split, at the prices whose mean fronts meet PIP's singletons.
        pairs = [
            at_singletons(one[4 + m : 4 + 2 * m], plain[1, 1]) - at_singletons(one[4 : 4 + m], plain[1, 1])
            for one in found
        ]
        eight = PRICES.index(8)
        coverage = found[:, 4 + m + eight, 2]
        table.add_row(
            Path(path).stem,
            *(told(one) for one in (*plain, sharp[eight])),
            f"{ratios[0]:.3f} → {ratios[1]:.3f}",
            f"{np.mean(pairs):+.3f} ± {np.std(pairs, ddof=1) / np.sqrt(splits):.3f}",
            f"{coverage.mean():.4f} ± {coverage.std(ddof=1) / np.sqrt(splits):.4f}",
            f"{per[2]:.4f}, {told(per)}",
        )
    Console(width=190).print(table)


def twice(paths, splits, alpha):
    """Coverage if the rows that learnt calibrate too: what `calibrate` refuses."""
    for path in paths:
        probs, labels = load(path)
        found = []
        for seed in range(splits):
            order = np.random.default_rng(seed).permutation(len(labels))
            ours, test = order[:500], order[500:]
            better = pippin.sharpen(probs[ours], labels[ours])(probs)
            found.append(point((better[ours], labels[ours]), (better[test], labels[test]), "socop", alpha)[2])
        print(f"{Path(path).stem}: 500 rows learn and calibrate: coverage {np.mean(found):.3f} for {1 - alpha:g}")


def made(n, n_classes, seed=0):
    """Rows of a classifier that confuses neighbours."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n)
    logits = rng.normal(0, 1, (n, n_classes)).astype(np.float32)
    logits[np.arange(n), labels] += 4
    logits[np.arange(n), labels ^ 1 if n_classes % 2 == 0 else labels] += 2 * (labels % 2)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True), labels


def times():
    """Fitting, applying, one row."""
    pippin.warm_up()
    for n, n_classes in ((2_500, 12), (2_500, 100), (12_500, 1_000)):
        probs, labels = made(n, n_classes)
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        sharper = pippin.sharpen(probs, labels)
        took = time.perf_counter() - start
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
        print(
            f"learn {n:,} × {n_classes:,}: {took:.1f} s, {grown:.2f} GB more; {', '.join(sharper.weights)}", flush=True
        )
        if n_classes == 12:
            best = min(clock(partial(sharper.one, probs[0])) for _ in range(3_000))
            print(f"one row of 12: {1e6 * best:.0f} µs")
    many, _ = made(50_000, 1_000, seed=1)
    for told, one in ((", ".join(sharper.weights), sharper), ("with two confusions", with_confusions(sharper, many))):
        best = min(clock(partial(one, many)) for _ in range(5))
        print(f"apply to 50,000 × 1,000: {best:.2f} s; {told}", flush=True)


def with_confusions(sharper, probs):
    """The sharpener with one temperature and two members that look at the whole row, of any weights."""
    from pippin._sharpening.features import fit_feature_map, logarithms
    from pippin._sharpening.model import Member, SharpeningModel

    z, _ = logarithms(probs[:3_000])
    feature_map, phi, _ = fit_feature_map(z, None, seed=0)
    generator, n_classes = np.random.default_rng(0), z.shape[1]
    a, b = np.array([0.6, 0.1], np.float32), np.zeros(n_classes, np.float32)
    seen = [(0.1 * generator.normal(size=(axes, n_classes))).astype(np.float32) for axes in (0, *2 * [phi.shape[1]])]
    model = SharpeningModel(feature_map, tuple(Member(a, b, w) for w in seen))
    return replace(sharper, weights={"temperature": 0.4, "first": 0.3, "second": 0.3}, model=model)


def clock(call):
    """Seconds that a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main():
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--splits", type=int, default=50)
    parser.add_argument("--alpha", type=float, default=0.1)
    for flag in ("few", "times", "twice"):
        parser.add_argument(f"--{flag}", action="store_true")
    asked = parser.parse_args()
    if asked.times:
        times()
    elif asked.twice:
        twice(asked.files, min(asked.splits, 10), asked.alpha)
    elif asked.files:
        compare(asked.files, asked.splits, asked.alpha, asked.few)
    else:
        sys.exit("Name at least one .npz file with probs or logits, and labels; or pass --times.")


if __name__ == "__main__":
    main()
