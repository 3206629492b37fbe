"""Learning and calibrating from the same labels without using a row twice."""

import math
from typing import Any, Literal, NamedTuple, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._conformal.cross import calibrate_cross
from pippin._conformal.marginal import calibrate_marginal
from pippin._conformal.sharpened import SharpenedMixture, SharpenedPredictor
from pippin._engine.draws import check_seed
from pippin._runtime.arrays import Classes, Codes, Floats
from pippin._runtime.errors import InputError
from pippin._sharpening.learning import FEWEST, OutOfFold, sharpen_labelled
from pippin._sharpening.sharpener import Sharpener, as_features
from pippin._theory.level import as_alpha
from pippin._theory.scores import Score, socop
from pippin._theory.shortage import warn_of_level
from pippin._theory.spelling import parse_score
from pippin._validation.index import same_index
from pippin._validation.labels import ColumnNumbers, Labelled, as_labelled
from pippin._validation.rows import Rows

Way = Literal["split", "mixture", "cross"]
Plain = Literal["split", "cross"]  # nothing is drawn for an object
Drawn = Literal["mixture"]
FOLDS = 5
PRICES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 512.0)  # μ of SOCOP that are tried


class Wish(NamedTuple):
    """What SOCOP's price is chosen for: most singletons at a mean size, or smallest sets with so many singletons."""

    max_size: float | None
    min_singletons: float | None


class Told(TypedDict, total=False):
    """What may be told whichever the way."""

    learning_fraction: float
    max_size: float | None
    min_singletons: float | None
    features: ArrayLike | None
    classes: Classes | None
    seed: int
    from_logits: bool


@overload
def learn(
    probs: Any,
    labels: ArrayLike,
    score: Score | str = ...,
    alpha: float = ...,
    *,
    way: Plain = ...,
    **more: Unpack[Told],
) -> SharpenedPredictor: ...
@overload
def learn(
    probs: Any, labels: ArrayLike, score: Score | str = ..., alpha: float = ..., *, way: Drawn, **more: Unpack[Told]
) -> SharpenedMixture: ...
def learn(
    probs: Any,
    labels: ArrayLike,
    score: Score | str = "socop",
    alpha: float = 0.1,
    *,
    way: Way = "split",
    learning_fraction: float = 0.5,
    max_size: float | None = None,
    min_singletons: float | None = None,
    features: ArrayLike | None = None,
    classes: Classes | None = None,
    seed: int = 0,
    from_logits: bool = False,
) -> SharpenedPredictor | SharpenedMixture:
    """Learns a sharpener on some of the rows and calibrates a score behind it on the others.

    "split" divides the rows once; its sets cover with probability 1 − alpha. "mixture" makes five
    sharpeners, each learnt without a fifth of the rows and calibrated on that fifth, and every
    object draws one of the five: all rows learn, all calibrate, and coverage is 1 − alpha over
    the draw too. "cross" holds an object's scores under the five against all rows at once:
    no draw, mostly about 1 − alpha, but proven is only `guarantee`.

    Args:
        probs: (n, K) probabilities of rows that the classifier was not trained on.
        labels: the true classes, as indices or as names.
        score: a score or its spelling.
        alpha: the share of errors allowed.
        way: "split", "mixture" or "cross".
        learning_fraction: with "split", the share of the rows that learns.
        max_size: with "split" and SOCOP, its price is chosen for the most singletons at this mean size.
        min_singletons: with "split" and SOCOP, its price is chosen for the smallest sets with this share of singletons.
        features: what else is known of each row, (n, M), such as the network's embedding.
        classes: names of the K columns; a data frame brings its own.
        seed: divides the rows, draws folds and cosines, and u for a randomised score.
        from_logits: whether `probs` are logits, of which a softmax is taken.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> predictor = pippin.learn(data.probs[:2000], data.labels[:2000], alpha=0.1, classes=data.classes)
    >>> sets = predictor.predict(data.probs[2000:])
    >>> pippin.metrics.singleton_rate(sets) > 0.78  # plain SOCOP has 75 % singletons
    True
    """
    data, chosen, level = as_labelled(probs, labels, classes, from_logits), parse_score(score), as_alpha(alpha)
    warn_of_level(level)
    wish = Wish(max_size, min_singletons)
    _check(way, learning_fraction, wish, chosen, data.rows.n)
    check_seed(seed)
    same_index("probs", data.rows.index, features=features)
    beside = None if features is None else as_features(features, data.rows.n)
    task = _Task(data, beside, chosen, alpha, seed)
    if way == "split":
        return _split(task, learning_fraction, wish)
    n = data.rows.n
    parts = [np.sort(part) for part in np.array_split(np.random.default_rng(seed).permutation(n), FOLDS)]
    sharpeners = [task.learn(np.setdiff1d(np.arange(n), part))[0] for part in parts]
    if way == "mixture":
        return SharpenedMixture(tuple(map(task.behind, sharpeners, parts)))
    return _cross(task, sharpeners, parts)


class _Task(NamedTuple):
    """Labelled rows and features, and what is to be calibrated on some of them."""

    data: Labelled
    features: Floats | None
    score: Score
    alpha: Any
    seed: int

    def learn(self, rows: NDArray[np.intp]) -> tuple[Sharpener, OutOfFold]:
        """A sharpener from some rows."""
        some = Labelled(self.data.rows.take(rows), self.data.labels[rows], self.data.classes)
        return sharpen_labelled(some, self._features(rows), self.seed)

    def sharper(self, sharpener: Sharpener, rows: NDArray[np.intp]) -> Rows:
        return sharpener.rows(self.data.rows.take(rows), features=self._features(rows))

    def behind(self, sharpener: Sharpener, rows: NDArray[np.intp]) -> SharpenedPredictor:
        """The score, calibrated on some rows behind a sharpener that learnt on others."""
        sharper = Labelled(self.sharper(sharpener, rows), self.data.labels[rows], self.data.classes)
        return sharpener.before(calibrate_marginal(sharper, self.score, self.alpha, self.seed))

    def _features(self, rows: NDArray[np.intp]) -> Floats | None:
        return None if self.features is None else self.features[rows]


def _split(task: _Task, fraction: float, wish: Wish) -> SharpenedPredictor:
    n = task.data.rows.n
    ours, others = np.split(np.random.default_rng(task.seed).permutation(n), [round(fraction * n)])
    sharpener, held_out = task.learn(np.sort(ours))
    if wish != Wish(None, None):
        task = task._replace(score=_priced(held_out, task.data.labels[np.sort(ours)], task.alpha, wish))
    return task.behind(sharpener, np.sort(others))


def _cross(task: _Task, sharpeners: list[Sharpener], parts: list[NDArray[np.intp]]) -> SharpenedPredictor:
    rows, labels, classes = task.data
    sharper = np.empty((rows.n, rows.n_classes), dtype=np.float32)
    folds = np.empty(rows.n, dtype=np.int64)
    for number, (sharpener, part) in enumerate(zip(sharpeners, parts, strict=True)):
        folds[part] = number
        sharper[part] = task.sharper(sharpener, part).array
    names = None if isinstance(classes, range) else classes
    base = calibrate_cross(sharper, ColumnNumbers(labels), folds, task.score, task.alpha, classes=names, seed=task.seed)
    return SharpenedPredictor(base, tuple(sharpeners))


def _priced(held_out: OutOfFold, labels: Codes, alpha: Any, wish: Wish) -> Score:
    """SOCOP with the price that the wish picks, judged out of fold on the rows that learnt."""
    rows = Rows(held_out.probs, checked=True)
    data = Labelled(rows, labels[held_out.rows], range(rows.n_classes))
    found = []
    for price in PRICES:
        sizes = calibrate_marginal(data, socop(price), alpha, None).predict(rows).sizes
        found.append((socop(price), float(sizes.mean()), float((sizes == 1).mean())))
    if wish.max_size is not None:
        fitting = [one for one in found if one[1] <= wish.max_size] or [min(found, key=lambda one: one[1])]
        return max(fitting, key=lambda one: one[2])[0]
    assert wish.min_singletons is not None
    fitting = [one for one in found if one[2] >= wish.min_singletons] or [max(found, key=lambda one: one[2])]
    return min(fitting, key=lambda one: one[1])[0]


def _check(way: Way, fraction: float, wish: Wish, score: Score, n: int) -> None:
    if way not in ("split", "mixture", "cross"):
        raise InputError(f"Expected the way 'split', 'mixture' or 'cross', got {way!r}")
    if not 0 < fraction < 1:
        raise InputError(f"Expected a learning fraction strictly between 0 and 1, got {fraction!r}")
    learning = round(fraction * n) if way == "split" else n - -(-n // FOLDS)
    if not FEWEST <= learning < n:
        raise InputError(f"Expected more rows, to learn on some and calibrate on others, got {n}", "pass more rows")
    if way != "split" and fraction != 0.5:
        raise InputError(f"Expected a learning fraction with way='split' alone, got {way!r}", "leave it out")
    if wish == Wish(None, None):
        return
    if None not in wish:
        raise InputError("Expected max_size or min_singletons, got both", "leave one out")
    for name, value, most in (("max_size", wish.max_size, math.inf), ("min_singletons", wish.min_singletons, 1)):
        if value is not None and not (isinstance(value, int | float) and 0 < value <= most and value < math.inf):
            raise InputError(
                f"Expected {name} to be a number above 0{' and at most 1' if most == 1 else ''}, got {value!r}"
            )
    if way != "split" or score.name != "socop":
        raise InputError(
            f"Expected max_size or min_singletons with SOCOP and way='split', got {score} and {way!r}",
            "leave it out",
        )
