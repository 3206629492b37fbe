"""Warnings about training rows and the order of columns: false alarms, and mistakes that they notice.

    python benchmarks/plausibility.py --honest 300 --seed 1 --classifiers    # the tables of docs/guarantees.md

`--honest` simulates calibrations of each of 504 settings on all processors, `--classifiers` uses scikit-learn on three
of its data sets.

Honest calibrations: labels are drawn from probabilities, which are then reported as they are, overconfident
(temperature 0.5), underconfident (temperature 2) or smoothed. Classes are equally frequent, or rare (priors 1/k). At
the accuracy "chance" the probabilities do not depend on the label.
"""

import argparse
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pippin

ROWS = (50, 100, 200, 500, 1000, 2000, 5000)
CLASSES = (2, 3, 10, 30, 100)
ACCURACIES = (0.0, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99, 0.999)  # 0 for chance
REPORTED = {  # probabilities that the classifier reports, of its logits and the true probabilities
    "calibrated": lambda logits, known: known,
    "overconfident": lambda logits, known: softmax(logits / 0.5),
    "underconfident": lambda logits, known: softmax(logits / 2),
    "label smoothing 0.1": lambda logits, known: 0.9 * known + 0.1 / known.shape[1],
}
KINDS = {"All": "training rows", "The": "order"}  # first word of each warning


def warnings_of(probs: NDArray[Any], labels: NDArray[Any]) -> list[str]:
    """Calibrate, and return the kinds of the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pippin.calibrate(probs, labels, "ip", 0.1)
    return [KINDS[str(one.message).split()[0]] for one in caught]


def softmax(logits: NDArray[Any]) -> NDArray[Any]:
    """Return rows of probabilities."""
    logits = np.exp(logits - logits.max(axis=1, keepdims=True))
    return logits / logits.sum(axis=1, keepdims=True)


def drawn(rng: np.random.Generator, probs: NDArray[Any]) -> NDArray[np.int64]:
    """Draw the label of each row from its probabilities."""
    below = rng.random(len(probs))[:, None] >= probs.cumsum(axis=1)[:, :-1]
    return np.asarray(below.sum(axis=1))


def prior_of(n_classes: int, rare: bool) -> NDArray[Any]:
    """Return the frequencies of the classes."""
    weights = 1 / np.arange(1, n_classes + 1) if rare else np.ones(n_classes)
    return np.asarray(weights / weights.sum())


@cache
def spread_for(accuracy: float, n_classes: int, rare: bool) -> float | None:
    """Return the standard deviation of the logits that gives this accuracy; None if the priors alone exceed it."""
    if not accuracy:
        return 2.0
    prior = prior_of(n_classes, rare)
    noise = np.random.default_rng(0).standard_normal((10_000, n_classes))
    if accuracy <= prior.max():
        return None
    low, high = 0.0, 2e4
    for _ in range(40):
        middle = (low + high) / 2
        reached = softmax(middle * noise + np.log(prior)).max(axis=1).mean()
        low, high = (middle, high) if reached < accuracy else (low, middle)
    return high


def alarms_of(setting: tuple[int, int, float, bool], repeats: int, seed: int) -> Counter[tuple[str, str]]:
    """Count the false alarms in `repeats` honest calibrations of a setting, by kind of probabilities and of warning."""
    (n, n_classes, accuracy, rare), alarms = setting, Counter[tuple[str, str]]()
    prior, spread = prior_of(n_classes, rare), spread_for(accuracy, n_classes, rare)
    rng = np.random.default_rng([seed, list(settings()).index(setting)])
    for _ in range(repeats):
        logits = spread * rng.standard_normal((n, n_classes)) + np.log(prior)
        known = softmax(logits)
        labels = drawn(rng, known if accuracy else np.tile(prior, (n, 1)))
        for name, reported in REPORTED.items():
            alarms.update((name, kind) for kind in warnings_of(reported(logits, known), labels))
    return alarms


def settings() -> Iterator[tuple[int, int, float, bool]]:
    """Yield rows, classes, accuracy and rarity of every setting, without those whose priors exceed the accuracy."""
    for setting in product(ROWS, CLASSES, ACCURACIES, (False, True)):
        if spread_for(setting[2], setting[1], setting[3]) is not None:
            yield setting


def honest(repeats: int, seed: int) -> None:
    """Print the rate of false alarms by kind of probabilities: of all settings, and of the worst."""
    total, alarms = Counter[str](), Counter[tuple[str, str]]()
    by_setting = Counter[tuple[str, str, str]]()
    every = sorted(settings(), key=lambda setting: -setting[0] * setting[1])  # the longest first
    with ProcessPoolExecutor() as pool:
        for setting, found in zip(every, pool.map(partial(alarms_of, repeats=repeats, seed=seed), every), strict=True):
            n, n_classes, accuracy, rare = setting
            where = f"n={n} K={n_classes} accuracy={accuracy or 'chance'}{' rare' if rare else ''}"
            total.update(dict.fromkeys(REPORTED, repeats))
            alarms.update(found)
            by_setting.update({(*kind, where): times for kind, times in found.items()})
    print("| probabilities | calibrations | warning | false alarms | worst setting |\n|---|---|---|---|---|")
    for name, kind in product(REPORTED, KINDS.values()):
        of_kind = {where: times for (a, b, where), times in by_setting.items() if (a, b) == (name, kind)}
        worst = max(of_kind, key=lambda where: of_kind[where], default=None)
        rate = f"{alarms[name, kind]:,} ({1000 * alarms[name, kind] / total[name]:.3f} in 1,000)"
        text = "–" if worst is None else f"{of_kind[worst]:,} of {repeats:,}: {worst}"
        print(f"| {name} | {total[name]:,} | {kind} | {rate} | {text} |", flush=True)


def classifiers(splits: int = 20) -> None:
    """Print which mistakes are noticed with classifiers of scikit-learn, and the false alarms on held-out rows."""
    from sklearn.datasets import load_breast_cancer, load_digits, load_wine
    from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    models = {
        "random forest": lambda seed: RandomForestClassifier(random_state=seed),
        "random forest, leaves of 5": lambda seed: RandomForestClassifier(min_samples_leaf=5, random_state=seed),
        "gradient boosting, 30 trees": lambda seed: GradientBoostingClassifier(n_estimators=30, random_state=seed),
        "histogram boosting": lambda seed: HistGradientBoostingClassifier(random_state=seed),
        "logistic regression": lambda seed: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "decision tree": lambda seed: DecisionTreeClassifier(random_state=seed),
        "1 nearest neighbor": lambda seed: KNeighborsClassifier(1),
        "naive Bayes": lambda seed: make_pipeline(StandardScaler(), GaussianNB()),
    }
    print("| data | classifier | accuracy | coverage of new rows after calibration on training rows | ", end="")
    print("training rows | reversed columns | labels from 1 | shuffled columns | held-out rows |")
    print("|---|---|---|---|---|---|---|---|---|")
    for load, (name, model) in product((load_digits, load_wine, load_breast_cancer), models.items()):
        rows, y = load(return_X_y=True)
        counts, accuracy, coverage = np.zeros(5, dtype=int), [], []
        for seed in range(splits):
            train, test, y_train, y_test = train_test_split(rows, y, test_size=0.5, random_state=seed)
            fitted = model(seed).fit(train, y_train)
            inside, outside = fitted.predict_proba(train), fitted.predict_proba(test)
            accuracy.append((outside.argmax(axis=1) == y_test).mean())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                predictor = pippin.calibrate(inside, y_train, "repip", 0.1)
            coverage.append(pippin.metrics.coverage(predictor.predict(outside), y_test))
            n_classes = outside.shape[1]
            rng, order = np.random.default_rng(seed), np.arange(n_classes)
            while (order == np.arange(n_classes)).all():
                rng.shuffle(order)
            below = y_test < n_classes - 1
            cases = (
                (inside, y_train),
                (outside[:, ::-1], y_test),
                (outside[below], y_test[below] + 1),
                (outside[:, order], y_test),
                (outside, y_test),
            )
            counts += [bool(warnings_of(*case)) for case in cases]
        cells = [f"{np.mean(accuracy):.1%}", f"{np.mean(coverage):.1%}", *(f"{count}" for count in counts)]
        print(f"| {load.__name__.removeprefix('load_')} | {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--honest", type=int, metavar="REPEATS", help="calibrations of each setting")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--classifiers", action="store_true")
    options = parser.parse_args()
    if options.honest:
        honest(options.honest, options.seed)
    if options.classifiers:
        classifiers()


if __name__ == "__main__":
    main()
