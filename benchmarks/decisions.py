"""Spray, leave or ask: decisions on the embedded example, and how long they take on 50,000 × 1,000.

python benchmarks/decisions.py            # the table of docs/decisions.md
python benchmarks/decisions.py --sharpened [--splits 200]  # the table of docs/decisions.md with sharpeners
python benchmarks/decisions.py --per-action  # the table of docs/decisions.md on certificates given the action
python benchmarks/decisions.py --costs    # the table of docs/decisions.md on breast cancer
python benchmarks/decisions.py --deferred  # the table of docs/decisions.md on rejected objects
python benchmarks/decisions.py --times    # multiples of one read of the matrix; one row in µs
"""

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")  # splits are divided among processes

import numpy as np

import pippin

CROPS = ("maize", "common_wheat", "sugar_beet")
WORTH = {"spray": {"weed": 1, "crop": -2}, "leave": {"weed": -1, "crop": 1}, "ask": {"weed": 0.3, "crop": 0.3}}


def table(alpha: float = 0.02, splits: int = 200) -> None:
    """Calibrated decisions, the worst case over the sets of seven scores, and the best response."""
    data = pippin.load_example()
    utility = pippin.decisions.Utility(
        WORTH, kinds={name: "crop" if name in CROPS else "weed" for name in data.classes}
    )
    scores = [*map(str, pippin.scores.PAPER), "socop"]
    found = pippin.decisions.compare(
        data.probs, data.labels, utility, scores, alpha, splits=splits, classes=data.classes
    )
    print("| decisions | kept | certificate | utility | spray | leave | ask |\n|---|---|---|---|---|---|---|")
    for row in found.summary().iter_rows(named=True):
        promised = ["–", "–"] if np.isnan(row["kept"]) else [f"{row['kept']:.1%}", f"{row['certificate']:.3f}"]
        cells = [row["decisions"], *promised, f"{row['utility']:.3f}", *(f"{row[name]:.1%}" for name in found.actions)]
        print("| " + " | ".join(cells) + " |")


SHARPENED = (None, "split", "mixture", "cross", "cross(folds=10)")


def sharpened_split(alpha: float, split: int) -> list[list[float]]:
    """Measures of plain and sharpened decisions on one split; 45% of the rows fit the sharpener and calibrate."""
    data = pippin.load_example()
    kinds = {name: "crop" if name in CROPS else "weed" for name in data.classes}
    utility = pippin.decisions.Utility(WORTH, kinds=kinds)
    known, new = np.split(np.random.default_rng([7, split]).permutation(len(data.labels)), [2244])
    given, rows = (data.probs[known], data.labels[known], utility, alpha), []
    for sharpen in SHARPENED:
        decider = pippin.decisions.calibrate(*given, classes=data.classes, sharpen=sharpen, seed=split)
        decisions = decider.decide(data.probs[new], seed=split)
        result = pippin.decisions.evaluate(decisions, data.labels[new], utility)
        rows.append([result.kept, result.mean_certificate, result.mean_utility, *result.shares.values()])
    return rows


def sharpened_table(alpha: float = 0.02, splits: int = 200) -> None:
    """Plain and sharpened decisions on the same splits, with the standard error of "ask", after every 40 splits."""
    rows: list[list[list[float]]] = []
    with ProcessPoolExecutor() as pool:
        for row in pool.map(partial(sharpened_split, alpha), range(splits)):
            rows.append(row)
            if len(rows) not in range(40, splits, 40) and len(rows) != splits:
                continue
            found = np.array(rows)
            print(f"{len(rows)} splits\n\n| decisions | kept | certificate | utility | spray | leave | ask | ± |")
            print("|---" * 8 + "|", flush=True)
            errors = found[:, :, -1].std(axis=0, ddof=1) / np.sqrt(len(rows))
            for sharpen, values, error in zip(SHARPENED, found.mean(axis=0), errors, strict=True):
                kept, certificate, utility, *shares = values
                name = "calibrated decisions" if sharpen is None else f'sharpened, "{sharpen}"'
                cells = [name, f"{kept:.2%}", f"{certificate:.3f}", f"{utility:.3f}", *(f"{x:.2%}" for x in shares)]
                print("| " + " | ".join([*cells, f"{error:.2%}"]) + " |", flush=True)


def per_action_table(alpha: float = 0.02, splits: int = 200) -> None:
    """Certificates kept given each action, with one guarantee for all objects and with one per action."""
    data = pippin.load_example()
    kinds = {name: "crop" if name in CROPS else "weed" for name in data.classes}
    utility = pippin.decisions.Utility(WORTH, kinds=kinds)
    rules = {"calibrated decisions": {}, "per action": {"per": "action"}}
    rules |= {'per action, sharpened "split"': {"per": "action", "sharpen": "split"}}
    found: dict[str, list[list[float]]] = {name: [] for name in rules}
    for split in range(splits):
        order = np.random.default_rng([7, split]).permutation(len(data.labels))
        known, new = np.split(order, [round(0.45 * len(order))])
        for name, options in rules.items():
            given = data.probs[known], data.labels[known], utility, alpha
            decider = pippin.decisions.calibrate(*given, classes=data.classes, seed=split, **options)
            decisions = decider.decide(data.probs[new])
            result = pippin.decisions.evaluate(decisions, data.labels[new], utility)
            kept = [result.kept_by_action.get(action, np.nan) for action in utility.actions]
            certified = np.mean((decisions.actions == "leave") & (decisions.certificates == 1))
            shares = result.shares.values()
            found[name].append([*kept, *shares, certified, result.mean_certificate, result.mean_utility])
    heads = "decisions", "kept: spray", "leave", "ask", "share: spray", "leave", "ask", "leave with certificate 1"
    print("| " + " | ".join((*heads, "mean certificate", "mean utility")) + " |")
    print("|---" * 10 + "|")
    for name, rows in found.items():
        *shares, certificate, utility_mean = np.nanmean(rows, axis=0)
        cells = [name, *(f"{share:.1%}" for share in shares), f"{certificate:.3f}", f"{utility_mean:.3f}"]
        print("| " + " | ".join(cells) + " |")


def costs_table(splits: int = 200) -> None:
    """Costs of breast cancer: certificates at two levels, a bound on the expected cost, and the best response."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    features, labels = load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    probs = cross_val_predict(model, features, labels, cv=10, method="predict_proba")
    costs = {"operate": (0, 5), "discharge": (50, 0), "biopsy": (2, 2)}
    names = ("malignant", "benign")
    utility = pippin.decisions.Utility.from_costs(
        {action: dict(zip(names, row, strict=True)) for action, row in costs.items()}
    )
    print("| decisions | mean cost | operate | discharge | biopsy |\n|---|---|---|---|---|")
    for alpha in (0.02, 0.05):
        options = {"splits": splits, "calibration_fraction": 0.5, "classes": names}
        found = pippin.decisions.compare(probs, labels, utility, "ip", alpha, **options)
        for row in found.summary().iter_rows(named=True):
            certified = not np.isnan(row["kept"])
            if certified or alpha == 0.05:
                name = f"{row['decisions']}, α = {alpha:g}" if certified else row["decisions"]
                print(f"| {name} | {-row['utility']:.3f} | " + " | ".join(f"{row[a]:.1%}" for a in costs) + " |")
    within = (-found.values[found.names.index("bounded cost"), :, 2] <= found.cost_bounds).mean()
    print(f"\nbound {found.cost_bounds.mean():.2f} on average; {within:.1%} of splits within it\n{found.verdict}")


def deferred_table(alpha: float = 0.1, splits: int = 200) -> None:
    """Coverage of objects that a selective classifier rejects, by sets of all rows and of rejected rows."""
    data = pippin.load_example()
    names = "calibrated on all rows", "calibrated on rejected rows"
    found: dict[str, list[list[float]]] = {name: [] for name in names}
    acted = []
    for split in range(splits):
        order = np.random.default_rng([7, split]).permutation(len(data.labels))
        half = round(0.225 * len(order))
        one, two, new = np.split(order, [half, 2 * half])
        selective = pippin.decisions.select(data.probs[one], data.labels[one], error=0.1)
        left = ~selective.predict(data.probs[new]).acted
        acted.append(1 - left.mean())
        given = data.probs[two], data.labels[two], "repip", alpha
        predictors = pippin.calibrate(*given), selective.calibrate_deferred(*given)
        for rows, predictor in zip(found.values(), predictors, strict=True):
            sets = predictor.predict(data.probs[new][left])
            rows.append([sets.contains(data.labels[new][left]).mean(), sets.sizes.mean()])
    print(f"{np.mean(acted):.1%} of the objects are accepted\n")
    print("| sets of repip | rejected objects covered | mean size |\n|---|---|---|")
    for name, rows in found.items():
        covered, size = np.mean(rows, axis=0)
        print(f"| {name} | {covered:.1%} | {size:.2f} |")


def best(work, repeats: int = 5) -> float:
    """The shortest of several times."""
    work()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def times() -> None:
    """Five actions, with utilities by kind, whole ones, and any."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(50_000, 1_000)).astype(np.float32)
    labels = rng.integers(0, 1_000, len(logits))
    logits[np.arange(len(logits)), labels] += 7
    probs = np.exp(logits)
    probs /= probs.sum(axis=1, keepdims=True)
    read = best(lambda: probs.sum())
    print(f"one read {1000 * read:.0f} ms")
    kinds = {
        "four kinds": rng.normal(size=(5, 4))[:, rng.integers(0, 4, 1_000)],
        "whole numbers": rng.integers(-2, 3, (5, 1_000)).astype(float),
        "any numbers": rng.normal(size=(5, 1_000)),
    }
    for name, values in kinds.items():
        utility = pippin.decisions.Utility(values, actions=list("abcde"))
        decider = pippin.decisions.calibrate(probs, labels, utility, 0.1)
        calibrate = best(lambda u=utility: pippin.decisions.calibrate(probs, labels, u, 0.1))
        decide = best(lambda d=decider: d.decide(probs))
        print(f"{name}: decisions.calibrate {calibrate / read:.1f} reads, decide {decide / read:.1f} reads")
    row = probs[0].copy()
    one = best(lambda: [decider.decide_one(row) for _ in range(2000)])
    print(f"one of 1,000 classes: decide_one {one / 2e-3:.1f} µs")
    data = pippin.load_example()
    utility = pippin.decisions.Utility(
        WORTH, kinds={name: "crop" if name in CROPS else "weed" for name in data.classes}
    )
    small = pippin.decisions.calibrate(data.probs, data.labels, utility, 0.02, classes=data.classes)
    row = data.probs[0].copy()
    one = best(lambda: [small.decide_one(row) for _ in range(5000)])
    print(f"one of 12 classes: decide_one {one / 5e-3:.1f} µs")


if __name__ == "__main__":
    if "--times" in sys.argv[1:]:
        times()
    elif "--per-action" in sys.argv[1:]:
        per_action_table()
    elif "--deferred" in sys.argv[1:]:
        deferred_table()
    elif "--costs" in sys.argv[1:]:
        costs_table()
    else:
        splits = int(sys.argv[sys.argv.index("--splits") + 1]) if "--splits" in sys.argv else 200
        sharpened_table(splits=splits) if "--sharpened" in sys.argv[1:] else table()
