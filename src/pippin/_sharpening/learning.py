"""Fitting of a sharpener, a mixture of recalibration maps called members.

The weights of the mixture are fitted to out-of-fold probabilities (stacking), then the members to all rows.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._engine.draws import check_seed
from pippin._runtime.arguments import checked
from pippin._runtime.arrays import Classes, Codes
from pippin._runtime.errors import InputError, need
from pippin._runtime.progress import progress_bar
from pippin._sharpening.features import FEW_CLASSES, Singles, fit_feature_map, logarithms
from pippin._sharpening.model import KINDS, Member, MemberKind, SharpeningModel, TrainingRows, fit_member
from pippin._sharpening.pooling import Pool, fit_pools
from pippin._sharpening.sharpener import Confusion, OutOfFoldMetrics, Sharpener, as_features, row_prints
from pippin._validation.index import same_index
from pippin._validation.labels import Labelled, are_several, as_labelled, as_rows_of_stack

FOLDS = 5
MANY_ROWS = 1_500  # with more rows, the mixture weights are fitted on one held-out fold instead of all, for speed
FEWEST = 2 * FOLDS  # minimum number of rows for fitting a sharpener (recalibration map)
LEAST_WEIGHT = 0.01  # members (recalibration maps of the mixture) with a smaller weight are dropped
MOST_MEMBERS = 3  # maximum number of members for more than FEW_CLASSES classes; each needs a pass over all rows
CONFUSIONS_KEPT = 20  # maximum number of pairs of confused classes in the metrics
SINGLE_THREADED = 1 << 20  # largest number of training probabilities for which BLAS is faster with one thread


class TrainingSet(NamedTuple):
    """Training rows of a sharpener (recalibration map): probabilities (n, K), labels, and features (n, M) or None.

    For a stack of several models, the probabilities have the shape (n, models, K) until they are pooled.
    """

    probs: Singles
    labels: Codes
    features: Singles | None

    def take(self, rows: NDArray[np.intp]) -> "TrainingSet":
        """Return the training set of the rows with these indices."""
        return TrainingSet(self.probs[rows], self.labels[rows], None if self.features is None else self.features[rows])

    def pooled(self, pool: Pool | None) -> "TrainingSet":
        """Return the training set with the pooled probabilities of several models; unchanged without a pool."""
        return self if pool is None else self._replace(probs=pool(self.probs))


class OutOfFold(NamedTuple):
    """Indices of some training rows, and their probabilities recalibrated by maps that were fitted on other rows."""

    rows: NDArray[np.intp]
    probs: Singles


@checked
def sharpen(
    probs: Any,
    labels: ArrayLike,
    *,
    features: ArrayLike | None = None,
    classes: Classes | None = None,
    seed: int = 0,
    from_logits: bool = False,
) -> Sharpener:
    """Fit a sharpener, a map that recalibrates probabilities and corrects a classifier's confusions, on labeled rows.

    The map is a mixture: a weighted mean of several maps, whose weights are fitted out of fold. Each of them turns the
    probabilities p of a row into softmax(a₁·log max(p, 1e-6) + a₂·log(p + 0.01) + b + φ·W). The numbers a₁ and a₂, the
    vector b and the matrix W are fitted; φ is a vector of smooth functions of the whole row (`random Fourier features
    <https://papers.nips.cc/paper/2007/hash/013a006f03dbc5392effeb8f18fda755-Abstract.html>`__). With few rows, the map
    is close to temperature scaling (`Guo et al. 2017 <https://arxiv.org/abs/1706.04599>`__).

    Prediction sets from sharpened probabilities keep their guarantee if the sharpener was not fitted on the calibration
    rows. See docs/sharpening.md.

    Args:
        probs: (n, K) probabilities of rows that the classifier was not trained on; logits with `from_logits=True`.
        labels: the true classes, as indices or as names.
        features: (n, M) further features of each row, such as the network's embedding.
        classes: names of the K columns; by default those of a data frame, or 0 to K − 1.
        seed: seed of the random features and of the folds.
        from_logits: treat `probs` as logits and apply softmax.

    Returns:
        The fitted sharpener; call it with probabilities, or pass it to `calibrate`.

    Raises:
        InputError: `probs`, `labels` or `features` are invalid, or there are fewer than 10 rows.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> sharpener = pippin.sharpen(data.probs[:1200], data.labels[:1200])
    >>> sharpener.helps
    True
    """
    data = as_labelled(probs, labels, classes, from_logits)
    same_index("probs", data.rows.index, features=features)
    return sharpen_labelled(data, features, seed)[0]


def stack(
    probs: Any,
    labels: ArrayLike,
    *,
    features: ArrayLike | None = None,
    classes: Classes | None = None,
    seed: int = 0,
    from_logits: bool = False,
) -> Sharpener:
    """Fit a stack, a map from the probabilities of several models to better ones, on labeled rows.

    The stack first pools the models, p_k ∝ Π_m p_mk^w_m with a fitted weight for each model, and then recalibrates p by
    the map that `pippin.sharpen` fits (`stacked generalization <https://doi.org/10.1016/S0893-6080(05)80023-1>`__,
    Wolpert 1992). If all models together are not better out of fold than the best one by more than one standard error,
    the stack uses the best model alone. Prediction sets keep their guarantee if the stack was not fitted on the
    calibration rows.

    Args:
        probs: a list of M matrices (n, K), the probabilities of the same rows by each model, or an (M, n, K) array; no
            model was trained on these rows. Logits with `from_logits=True`.
        labels: the true classes, as indices or as names.
        features: (n, F) further features of each row, such as a network's embedding.
        classes: names of the K columns; by default those of a data frame, or 0 to K − 1.
        seed: seed of the random features and of the folds.
        from_logits: treat `probs` as logits and apply softmax.

    Returns:
        The fitted stack, a `Sharpener` with M matrices as input; pass it to `calibrate`.

    Raises:
        InputError: `probs`, `labels` or `features` are invalid, or there are fewer than 10 rows.

    >>> import numpy as np, pippin
    >>> data, rng = pippin.load_example(), np.random.default_rng(0)
    >>> second = np.exp(rng.normal(size=data.probs.shape) + 2 * np.eye(12)[data.labels])
    >>> models = [data.probs, second / second.sum(axis=1, keepdims=True)]
    >>> stack = pippin.models.stack([one[:600] for one in models], data.labels[:600])
    >>> predictor = pippin.calibrate([one[600:1200] for one in models], data.labels[600:1200], sharpen=stack)
    >>> len(predictor.predict([one[1200:] for one in models]))
    3786
    """
    if not are_several(probs):
        what = f"Expected the probabilities of several models, got {type(probs).__name__}"
        raise InputError(what, "pass a list of matrices, or use pippin.sharpen for one model")
    data = as_labelled(as_rows_of_stack(probs, from_logits), labels, classes)
    same_index("probs[0]", data.rows.index, features=features)
    return sharpen_labelled(data, features, seed)[0]


def sharpen_labelled(data: Labelled, features: Any, seed: int) -> tuple[Sharpener, OutOfFold]:
    """Fit a sharpener (recalibration map) to validated rows; return it, and recalibrated out-of-fold probabilities.

    If the rows hold the probabilities of several models, the sharpener is a stack, which pools them first.
    """
    need("Sharpening", "sharpen", "scipy", "threadpoolctl")
    check_seed(seed)
    rows, labels, classes = data
    n = rows.n
    if n < FEWEST:
        raise InputError(f"Expected at least {FEWEST} rows to fit a sharpener, got {n}", "pass more, or do not sharpen")
    rows = rows.verified()
    step = max(1, (1 << 20) // rows.n_classes)
    blocks = [rows.block(start, start + step).astype(np.float32) for start in range(0, n, step)]
    checked = None if features is None else as_features(features, n)
    training = TrainingSet(np.concatenate(blocks), labels, None if checked is None else checked.values)
    folds = np.array_split(np.random.default_rng(seed).permutation(n), FOLDS)[: 1 if n > MANY_ROWS else FOLDS]
    pool: Pool | None = None
    pools_of_others: list[Pool | None] = [None] * len(folds)  # fitted without one fold each
    if training.probs.ndim == 3:
        pool, *of_others = fit_pools(training.probs, labels, folds)
        pools_of_others = list(of_others)
    with progress_bar("Sharpening", len(KINDS) * (len(folds) + 1)) as advance:
        held_out = []  # for each fold, the probabilities by each recalibration map, (rows, maps, K)
        for fold, pool_of_others in zip(folds, pools_of_others, strict=True):
            others = training.take(np.setdiff1d(np.arange(n), fold)).pooled(pool_of_others)
            test = training.take(fold).pooled(pool_of_others)
            held_out.append(_fit_model(others, KINDS, seed, advance).each(test.probs, test.features))
        order, by_member = np.concatenate(folds), np.concatenate(held_out)
        weights = _stacking_weights(by_member, labels[order])
        kept = np.flatnonzero(weights)
        model = _fit_model(training.pooled(pool), [KINDS[number] for number in kept], seed, advance)
    mixed = (by_member * weights.astype(np.float32)[:, None]).sum(axis=1)
    before = training if pool is None else training._replace(probs=training.probs[:, pool.best])
    metrics = _metrics(before, order, mixed, classes)._replace(prints=row_prints(rows, checked))
    named = {KINDS[number].name: float(np.float32(weights[number])) for number in kept}
    n_features, names = (0, None) if checked is None else (checked.values.shape[1], checked.names)
    return Sharpener(classes, named, metrics, model, n_features, names, pool=pool), OutOfFold(order, mixed)


def _fit_model(
    training: TrainingSet, kinds: Sequence[MemberKind], seed: int, advance: Callable[[int], None]
) -> SharpeningModel:
    """Fit the recalibration maps (members) of a mixture to all training rows, one map for each form in `kinds`.

    The search for the parameters of a map starts at the parameters of the previous map, if their shapes agree.
    """
    from threadpoolctl import threadpool_limits

    z, log_shifted = logarithms(training.probs)
    feature_map, phi, squares = None, np.empty((len(z), 0), dtype=np.float32), np.empty(0)
    members: list[Member] = []
    with threadpool_limits(1 if z.size <= SINGLE_THREADED else None, user_api="blas"):
        if any(kind.sigma for kind in kinds):
            feature_map, phi, squares = fit_feature_map(z, training.features, seed)
        rows = TrainingRows(z, log_shifted, phi, squares, training.labels)
        for kind in kinds:
            members.append(fit_member(rows, kind, members[-1] if members else None))
            advance(1)
    return SharpeningModel(feature_map, tuple(members))


def _stacking_weights(by_member: Singles, labels: Codes) -> NDArray[np.float64]:
    """Compute the weights of the maps in the mixture from out-of-fold probabilities; small weights become 0."""
    of_labels = by_member[np.arange(len(labels)), :, labels].T.astype(np.float64)
    weights = mixture_weights(np.maximum(of_labels, 1e-30))
    few_classes = by_member.shape[2] <= FEW_CLASSES
    weights[weights < (LEAST_WEIGHT if few_classes else max(LEAST_WEIGHT, np.sort(weights)[-MOST_MEMBERS]))] = 0
    weights /= weights.sum()
    return weights


def _metrics(training: TrainingSet, order: NDArray[np.intp], mixed: Singles, classes: Classes) -> OutOfFoldMetrics:
    """Compute metrics of probabilities before sharpening, and of the out-of-fold probabilities `mixed` after it.

    The field `prints`, fingerprints of the rows, is left empty.
    """
    labels, rows = training.labels[order], np.arange(len(order))
    both = training.probs[order], mixed
    before, after = (-np.log(np.maximum(probs[rows, labels], 1e-12, dtype=np.float64)) for probs in both)
    predicted = [probs.argmax(axis=1) for probs in both]
    return OutOfFoldMetrics(
        len(training.labels),
        (float(before.mean()), float(after.mean())),
        (float((predicted[0] == labels).mean()), float((predicted[1] == labels).mean())),
        float((before - after).std(ddof=1) / np.sqrt(len(order))),
        _confusions(labels, predicted, classes),
        np.empty(0, dtype=np.uint64),
    )


def _confusions(labels: Codes, predicted: Sequence[Codes], classes: Classes) -> tuple[Confusion, ...]:
    """Find the pairs (true, predicted class) whose number of rows differs most between two lists of predictions."""
    n_classes = len(classes)
    codes = np.concatenate([labels * n_classes + classes_of_rows for classes_of_rows in predicted])
    pairs, inverse = np.unique(codes, return_inverse=True)
    before, after = (np.bincount(part, minlength=len(pairs)) for part in np.split(inverse, 2))
    change = np.abs(before - after)
    true, other = pairs // n_classes, pairs % n_classes
    change[true == other] = 0
    class_size = np.bincount(labels, minlength=n_classes)
    largest = [i for i in np.argsort(-change, kind="stable")[:CONFUSIONS_KEPT].tolist() if change[i]]
    shares = ((float(counts[i] / class_size[true[i]]) for counts in (before, after)) for i in largest)
    return tuple(Confusion(classes[true[i]], classes[other[i]], *pair) for i, pair in zip(largest, shares, strict=True))


def mixture_weights(probs: NDArray[np.float64], prior: float = 1.0, steps: int = 500) -> NDArray[np.float64]:
    """Compute mixture weights w by EM from the probabilities of the true classes: the mode of the posterior of w.

    The objective is Σ_i log Σ_m w_m·probs[m, i] + prior·log w_0. `probs[m, i]` is the probability that map m of the
    mixture assigns to the true class of row i. The prior favors the first map (temperature scaling), which dominates if
    there are few rows.

    >>> mixture_weights(np.array([[0.5, 0.5], [0.9, 0.8]])).round(2)
    array([0.81, 0.19])
    """
    weights = np.full(len(probs), 1 / len(probs))
    counts = np.zeros(len(probs))
    counts[0] = prior
    for _ in range(steps):
        share = weights[:, None] * probs
        share /= share.sum(axis=0)
        weights = share.sum(axis=1) + counts
        weights /= weights.sum()
    return weights
