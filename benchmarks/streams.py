"""What a step of a stream and a monitor costs, and how it grows.

python benchmarks/streams.py times
"""

import argparse
import resource
import time

import numpy as np

import pippin

WAYS = ("none", "grow", "window", "track", "aci", "dtaci")
POOLS = (10**3, 10**4, 10**5, 10**6)


def rows_of(rng, n):
    """Rows like those of the embedded example, none twice."""
    data = pippin.load_example()
    chosen = rng.integers(0, len(data.labels), n)
    probs = 0.98 * data.probs[chosen] + 0.02 * rng.dirichlet(np.full(12, 50.0), n)
    return np.ascontiguousarray(probs / probs.sum(axis=1, keepdims=True)), data.labels[chosen]


def times(steps):
    """Prints the time of predict_one, learn and update together, by the scores in the pool: the best of four rounds."""
    rng, found = np.random.default_rng(0), {}
    predictors = [pippin.calibrate(*rows_of(rng, n), "pip") for n in POOLS]
    for _ in range(4):
        for way in WAYS:
            for n, predictor in zip(POOLS, predictors, strict=True):
                found.setdefault((way, n), []).append(step_time(predictor, way, *rows_of(rng, steps)))
    print(f"{'scores in the pool':<20}" + "".join(f"{n:>12,}" for n in POOLS))
    for way in WAYS:
        print(f"{way + ', µs':<20}" + "".join(f"{1e6 * min(found[way, n]):>12.1f}" for n in POOLS))
    print(f"largest memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")


def step_time(predictor, way, probs, labels):
    """The median over the steps after the first hundred."""
    stream, monitor = pippin.online.Stream(predictor, way, seed=0), pippin.online.Monitor(predictor, seed=0)
    took = []
    for row, label in zip(probs, labels.tolist(), strict=True):
        began = time.perf_counter()
        stream.learn(stream.predict_one(row), label)
        monitor.update(row, label)
        took.append(time.perf_counter() - began)
    return float(np.median(took[100:]))


CHANGES = {f"less sure, {share}": (share, 1) for share in (0.03, 0.1, 0.3)}  # so much of a row becomes 1/12 each
CHANGES |= {f"too sure, {power}": (0, power) for power in (1.5, 2, 3)}  # p to this power, and normalised


def detectors(predictor, old, seed):
    """Return each detector as a function of a row, its label and its score; river's start with the `old` scores."""
    from river import drift

    ville = pippin.online.Monitor(predictor, seed=seed)
    roberts, cusum = (
        pippin.online.Monitor(predictor, mean_time=10_000, detector=name, seed=seed)
        for name in ("shiryaev-roberts", "cusum")
    )
    rivers = {"ADWIN (0.002)": drift.ADWIN(), "Page–Hinkley": drift.PageHinkley(threshold=50)}
    for one in rivers.values():
        for score in old:
            one.update(score)

    def told(one):
        def feed(row, label, score):
            one.update(score)
            return one.drift_detected

        return feed

    ours = {"Monitor, delta 0.01": ville, "mean_time 10,000": roberts, "the same, cusum": cusum}
    fed = {name: lambda row, label, score, one=one: bool(one.update(row, label)) for name, one in ours.items()}
    return fed | {name: told(one) for name, one in rivers.items()}


def delays(streams):
    """Prints, for the example's rows in random order, false alarms in 3,000 rows, then rows until a change is told."""
    data, found, false = pippin.load_example(), {}, {}
    for seed in range(streams):
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(data.labels))
        calibration = data.probs[order[:2000]], data.labels[order[:2000]]
        predictor = pippin.calibrate(*calibration, "pip")
        old = pippin.scores.score(*calibration, "pip").tolist()
        new, later = order[2000:], rng.choice(order[2000:], 1500)
        given = seen(data, new)
        watching = detectors(predictor, old, seed)
        alarms = dict.fromkeys(watching, 0)
        for row in given:
            for name, feed in watching.items():
                alarms[name] += feed(*row)
        for name, n in alarms.items():
            false.setdefault(name, []).append(n)
        for word, change in CHANGES.items():
            rows, good = seen(data, later, *change), seen(data, new[:500])
            for name, feed in detectors(predictor, old, seed).items():
                for row in good:
                    feed(*row)
                when = next((i + 1 for i, row in enumerate(rows) if feed(*row)), np.inf)
                found.setdefault((name, word), []).append(when)
    print(f"{streams} streams; false alarms: streams with one in {len(new):,} unchanged rows; median rows until told")
    print(f"{'':<22}{'false':>8}" + "".join(f"{word:>16}" for word in CHANGES))
    for name in false:
        each = [np.array(found[name, word]) for word in CHANGES]
        cells = "".join(f"{np.median(one):>10.0f} {np.isfinite(one).mean():>5.0%}" for one in each)
        print(f"{name:<22}{np.mean(np.array(false[name]) > 0):>8.1%}{cells}")


def seen(data, rows, share=0, power=1):
    """Rows with their labels and the scores of these, changed."""
    probs = data.probs[rows].astype(float) ** power
    probs = (1 - share) * probs / probs.sum(axis=1, keepdims=True) + share / 12
    labels = data.labels[rows]
    return list(zip(probs, labels.tolist(), pippin.scores.score(probs, labels, "pip").tolist(), strict=True))


def novelties(batches):
    """Prints the false discovery rate and the share discovered, at two levels: 100 objects each, 20 of them novel."""
    rng = np.random.default_rng(1)

    def rows(n, sure):
        top = 0.5 + 0.5 * rng.beta(sure, 2, n)
        return np.column_stack([top, 1 - top])

    predictor = pippin.calibrate(rows(20, 6), [0] * 20, "ip")
    for level in (0.1, 0.2, 0.3):
        false, power = [], []
        for _ in range(batches):
            batch = np.vstack([rows(80, 6), rows(20, 0.5)])
            found = pippin.shift.discoveries(pippin.shift.novelty(predictor, batch, reference=rows(300, 6)), level)
            false.append(found[:80].sum() / max(1, found.sum()))
            power.append(found[80:].mean())
        error = np.std(false) / np.sqrt(batches)
        print(f"level {level}: false {np.mean(false):.4f} ± {error:.4f}, discovered {np.mean(power):.3f}")


def means(rows):
    """Prints the mean time between two false alarms of both detectors, by the limit, on uniform p-values."""
    import numba

    from pippin._theory import martingale

    bet = numba.njit(martingale.bet)

    @numba.njit
    def simulate(held, density, limits, roberts, given):
        sums, last = np.zeros((limits.size, len(held))), np.zeros(limits.size)
        total, alarms = np.zeros(limits.size), np.zeros(limits.size)
        for row in range(1, given.size + 1):
            bet(held, density, given[row - 1])
            for j in range(limits.size):
                for i in range(len(held)):
                    before = 1 + sums[j, i] if roberts else max(1.0, sums[j, i])
                    sums[j, i] = before * held[i, 1]
                if sums[j].mean() >= limits[j]:
                    total[j] += row - last[j]
                    alarms[j] += 1
                    last[j] = row
                    sums[j] = 0
        return total / alarms, alarms

    p = np.random.default_rng(1).random(rows)
    for name, limits in (("shiryaev-roberts", (50, 100, 500, 1000, 10_000)), ("cusum", martingale.CUSUM_LIMITS[1:])):
        given = np.array(limits, dtype=float)
        found, alarms = simulate(martingale.bettors(), np.zeros(martingale.PIECES), given, name != "cusum", p)
        told = ", ".join(f"{limit:g}: {mean:,.0f}" for limit, mean in zip(limits, found, strict=True))
        print(f"{name}, {rows:,} rows, fewest alarms {alarms.min():.0f}; limit: mean time\n  {told}", flush=True)


def main():
    """Reads the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ways = parser.add_subparsers(dest="way", required=True)
    ways.add_parser("times").add_argument("--steps", type=int, default=4000)
    ways.add_parser("delays").add_argument("--streams", type=int, default=100)
    ways.add_parser("novelties").add_argument("--batches", type=int, default=500)
    ways.add_parser("means").add_argument("--rows", type=int, default=5_000_000)
    given = parser.parse_args()
    {"times": times, "delays": delays, "novelties": novelties, "means": means}[given.way](list(vars(given).values())[1])


if __name__ == "__main__":
    main()
