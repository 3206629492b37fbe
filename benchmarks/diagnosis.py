"""Variables that predict misses: false alarms without any dependence, and power on data. A table in Markdown.

python benchmarks/diagnosis.py [FILE.npz] [--splits 100] [--alpha 0.1]

The file holds `probs` and `labels`; without one it is the embedded example. In each split half of the rows calibrate,
and the others are evaluated. For the false alarms, the outcomes of the evaluated rows are exchanged at random.
"""

import argparse
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import pippin
from pippin._conformal.diagnosis import Outcomes, diagnose
from pippin._validation.rows import as_rows

WAYS: dict[str, Any] = {"marginal": None, "per class": "class", "interpolated": "interpolated"}
VARIABLES = ("class", "predicted class", "largest probability", "size of the set")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--alpha", type=float, default=0.1)
    options = parser.parse_args()
    given: Any = pippin.load_example() if options.file is None else np.load(options.file)
    probs, labels = (given.probs, given.labels) if options.file is None else (given["probs"], given["labels"])
    labels, classes = labels.astype(np.int64), range(probs.shape[1])
    print(f"| score ip | {' | '.join(VARIABLES)} | any, if misses are exchanged |", "|---|" + "---|" * 5, sep="\n")
    for name, per in WAYS.items():
        found, alarms = Counter[str](), 0
        for split in range(options.splits):
            rng = np.random.default_rng(split)
            inner, outer = np.array_split(rng.permutation(len(labels)), 2)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of rare classes
                predictor = pippin.calibrate(probs[inner], labels[inner], "ip", options.alpha, per=per, seed=split)
            sets, rows = predictor.predict(probs[outer]), as_rows(probs[outer])
            covered = sets.contain_codes(labels[outer])
            for hits in (covered, rng.permutation(covered)):
                outcomes = Outcomes.of(hits, sets.sizes, labels[outer], rows)
                variables = [one.variable for one in diagnose(outcomes, classes, options.alpha)]
                if hits is covered:
                    found.update(variables)
                else:
                    alarms += len(variables) > 0
        shares = [f"{found[variable] / options.splits:.0%}" for variable in VARIABLES]
        print(f"| {name} | {' | '.join(shares)} | {alarms / options.splits:.1%} |", flush=True)


if __name__ == "__main__":
    main()
