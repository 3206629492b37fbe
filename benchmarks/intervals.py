"""Whether the intervals of `pippin.differences` keep their level, whatever the calibration fraction.

    python benchmarks/intervals.py [DATA SETS]

Each of 120 (or as many as asked for) made data sets of 1,000 rows and 8 classes is compared over 200
splits at every fraction. The truth is the mean difference over all data sets of as many
calibration rows; the table says how many of the 95% intervals hold it.
"""

import sys
import warnings

import numpy as np
from rich.console import Console
from rich.table import Table

import pippin
from pippin._compare.evidence import difference
from pippin._compare.methods import parse_method

N, CLASSES, SPLITS = 1_000, 8, 200
FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
PAIRS = (("ip", "pip"), ("ip", "socop"), ("repip", "socop"), ("ip", "ip per class"))
METRICS = {"mean_size": "size", "singleton_rate": "singletons"}


def draw(rng):
    """Probabilities of a classifier that is too sure of itself, and labels."""
    labels = rng.integers(0, CLASSES, N)
    logits = rng.normal(0, 1.3, (N, CLASSES))
    logits[np.arange(N), labels] += 1.9
    powers = np.exp(1.4 * (logits - logits.max(axis=1, keepdims=True)))
    return powers / powers.sum(axis=1, keepdims=True), labels


def held(fraction, data_sets):
    """The share of intervals that hold the truth, by pair and metric."""
    rng = np.random.default_rng(5)
    names = sorted({name for pair in PAIRS for name in pair})
    found = {(pair, metric): [] for pair in PAIRS for metric in METRICS}
    for number in range(data_sets):
        comparison = pippin.compare(*draw(rng), names, 0.1, splits=SPLITS, calibration_fraction=fraction, seed=number)
        for (pair, metric), seen in found.items():
            one = difference(comparison, metric, *(parse_method(name) for name in pair))
            seen.append((one.mean, one.low, one.high))
    return [share(np.array(seen)) for seen in found.values()]


def share(seen):
    """How many intervals hold the mean of the middles."""
    truth = seen[:, 0].mean()
    return ((seen[:, 1] <= truth) & (truth <= seen[:, 2])).mean()


def main():
    """Prints the table, a row as soon as it is known."""
    warnings.simplefilter("ignore")  # 100 calibration rows per class are few, on purpose
    data_sets = int(sys.argv[1]) if len(sys.argv) > 1 else 120
    table = Table("fraction", *(f"{a} - {b}, {word}" for a, b in PAIRS for word in METRICS.values()))
    for fraction in FRACTIONS:
        table.add_row(f"{fraction:g}", *(f"{100 * one:.0f}%" for one in held(fraction, data_sets)))
        print(".", end="", flush=True)
    print()
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
