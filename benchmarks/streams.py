"""What a step of a stream and a monitor costs, and how it grows.

python benchmarks/streams.py times
"""

import argparse
import resource
import time

import numpy as np

import pippin

WAYS = ("none", "grow", "window", "track", "aci")
POOLS = (10**3, 10**4, 10**5, 10**6)


def rows_of(rng, n):
    """Rows like those of the embedded example, none twice."""
    data = pippin.load_example()
    chosen = rng.integers(0, len(data.labels), n)
    probs = 0.98 * data.probs[chosen] + 0.02 * rng.dirichlet(np.full(12, 50.0), n)
    return np.ascontiguousarray(probs / probs.sum(axis=1, keepdims=True)), data.labels[chosen]


def times(steps):
    """Prints the median time of predict_one, learn and update together, by the scores in the pool."""
    rng = np.random.default_rng(0)
    print(f"{'scores in the pool':<20}" + "".join(f"{n:>12,}" for n in POOLS))
    for way in WAYS:
        found = [step_time(pippin.calibrate(*rows_of(rng, n), "pip"), way, *rows_of(rng, steps)) for n in POOLS]
        print(f"{way + ', µs':<20}" + "".join(f"{1e6 * one:>12.1f}" for one in found), flush=True)
    print(f"largest memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")


def step_time(predictor, way, probs, labels):
    """The median over the steps after the first hundred."""
    stream, monitor = pippin.Stream(predictor, way, seed=0), pippin.Monitor(predictor, seed=0)
    took = []
    for row, label in zip(probs, labels.tolist(), strict=True):
        began = time.perf_counter()
        stream.learn(stream.predict_one(row), label)
        monitor.update(row, label)
        took.append(time.perf_counter() - began)
    return float(np.median(took[100:]))


def main():
    """Reads the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ways = parser.add_subparsers(dest="way", required=True)
    ways.add_parser("times").add_argument("--steps", type=int, default=20_000)
    given = parser.parse_args()
    times(given.steps)


if __name__ == "__main__":
    main()
