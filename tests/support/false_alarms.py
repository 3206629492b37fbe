"""False alarm probability of monitors: python tests/support/false_alarms.py STREAMS ROWS.

Exchangeable rows of three classes, of which 500 calibrate, with and without labels. In half of the cases probabilities
are rounded to tenths, so that nearly all scores tie.
"""

import sys
import warnings

import numpy as np

import pippin

DELTAS = (0.01, 0.05, 0.1)
N_CALIBRATION = 500


def made(rng: np.random.Generator, n: int, tied: bool) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows of probabilities, and a class from each row."""
    probs = rng.dirichlet([0.5, 0.5, 0.5], n)
    labels = (rng.random(n)[:, None] > probs.cumsum(axis=1)[:, :2]).sum(axis=1)
    if tied:
        tenths = np.round(10 * probs[:, :2]) // 1
        tenths[:, 1] = np.minimum(tenths[:, 1], 10 - tenths[:, 0])
        probs = np.column_stack([tenths, 10 - tenths.sum(axis=1)]) / 10
    return probs, labels


def highest_evidence(rng: np.random.Generator, n: int, labelled: bool, tied: bool) -> float:
    """Return the largest evidence of a monitor along one stream."""
    probs, labels = made(rng, N_CALIBRATION + n, tied)
    old, new = probs[:N_CALIBRATION], np.ascontiguousarray(probs[N_CALIBRATION:])
    predictor = pippin.calibrate(old, labels[:N_CALIBRATION], "pip")
    seed = int(rng.integers(2**62))
    monitor = pippin.online.Monitor(predictor, reference=None if labelled else old, seed=seed)
    given = labels[N_CALIBRATION:].tolist() if labelled else [None] * n
    return max(monitor.update(row, label).evidence for row, label in zip(new, given, strict=True))


def main(streams: int, rows: int) -> None:
    """Print the share of streams with an alarm, for each kind of stream."""
    warnings.simplefilter("ignore")
    print(f"{streams:,} streams of {rows:,} rows: share with an alarm")
    print(f"{'delta':<24}" + "".join(f"{delta:>9g}" for delta in DELTAS))
    for number, (labelled, tied) in enumerate(((True, False), (True, True), (False, False), (False, True))):
        rng = np.random.default_rng(number)
        found = np.array([highest_evidence(rng, rows, labelled, tied) for _ in range(streams)])
        name = f"{'with' if labelled else 'without'} labels{', ties' if tied else ''}"
        print(f"{name:<24}" + "".join(f"{(found >= 1 / delta).mean():>9.4f}" for delta in DELTAS), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
