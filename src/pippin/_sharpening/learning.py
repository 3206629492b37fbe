"""How a sharpener is learnt: members fitted, weighed out of fold, and fitted again on all rows."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._engine.draws import check_seed
from pippin._runtime.arrays import Classes, Codes
from pippin._runtime.errors import InputError, need
from pippin._runtime.progress import progress_bar
from pippin._sharpening.features import FEW_CLASSES, Singles, fit_inputs, logarithms
from pippin._sharpening.model import KINDS, Member, MemberKind, SharpeningModel, TrainingRows, fit_member
from pippin._sharpening.sharpener import Confusion, Learnt, Sharpener, as_features, row_prints
from pippin._validation.index import same_index
from pippin._validation.labels import Labelled, as_labelled

FOLDS = 5
MANY = 1_500  # rows from which on one fold weighs the members
FEWEST = 2 * FOLDS  # rows that can be learnt from
LEAST = 0.01  # the weight below which a member is left out
MOST = 3  # members where classes are many, since each costs a pass over all of them
TOLD = 20  # confusions that are kept
ALONE = 1 << 20  # probabilities up to which one thread is quicker: with more, each short product waits for all of them


class Learning(NamedTuple):
    """Rows to learn from: probabilities, labels by number, and features where there are some."""

    probs: Singles
    labels: Codes
    features: Singles | None

    def take(self, rows: NDArray[np.intp]) -> "Learning":
        return Learning(self.probs[rows], self.labels[rows], None if self.features is None else self.features[rows])


class OutOfFold(NamedTuple):
    """Rows by number, and what members that were not fitted to them give, mixed: (rows, K)."""

    rows: NDArray[np.intp]
    probs: Singles


def sharpen(
    probs: Any,
    labels: ArrayLike,
    *,
    features: ArrayLike | None = None,
    classes: Classes | None = None,
    seed: int = 0,
    from_logits: bool = False,
) -> Sharpener:
    """Learns on labelled rows what the classifier confuses: a map from its probabilities to better ones.

    A mixture of q = softmax(a₁·z + a₂·l + b + ψ(x)·W), with z = log max(p, 1e-6), l = log(p + 0.01) and
    smooth functions ψ of the whole row, weighed by how well members do out of fold; with few
    rows it comes down to a temperature. Sets from sharper probabilities keep their guarantee as long as
    the rows that calibrate are others than these. See docs/sharpening.md.

    Args:
        probs: (n, K) probabilities of rows that the classifier was not trained on; logits with `from_logits=True`.
        labels: the true classes, as indices or as names.
        features: what else is known of each row, (n, M), such as the network's embedding.
        classes: names of the K columns; a data frame brings its own.
        seed: draws the cosines of ψ and divides the rows into folds.
        from_logits: whether `probs` are logits, of which a softmax is taken.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> sharper = pippin.sharpen(data.probs[:1200], data.labels[:1200])
    >>> sharper.helps
    True
    """
    data = as_labelled(probs, labels, classes, from_logits)
    same_index("probs", data.rows.index, features=features)
    return sharpen_labelled(data, features, seed)[0]


def sharpen_labelled(data: Labelled, features: ArrayLike | None, seed: int) -> tuple[Sharpener, OutOfFold]:
    """The sharpener, and what it gives for rows that its members were not fitted to."""
    need("Sharpening", "sharpen", "scipy", "threadpoolctl")
    check_seed(seed)
    rows, labels, classes = data
    if rows.n < FEWEST:
        raise InputError(f"Expected at least {FEWEST} rows to learn from, got {rows.n}", "pass more, or do not sharpen")
    rows = rows.verified()
    step = max(1, (1 << 20) // rows.n_classes)
    blocks = [rows.block(a, a + step).astype(np.float32) for a in range(0, rows.n, step)]
    beside = None if features is None else as_features(features, rows.n)
    learning = Learning(np.concatenate(blocks), labels, beside)
    folds = list(_held_out(rows.n, seed))
    with progress_bar("Sharpening", len(KINDS) * (len(folds) + 1)) as advance:
        order, each = _out_of_fold(learning, folds, seed, advance)
        weights = _weights(each, labels[order])
        kept = np.flatnonzero(weights)
        model = _fit_model(learning, [KINDS[number] for number in kept], seed, advance)
    mixed = (each * weights.astype(np.float32)[:, None]).sum(axis=1)
    learnt = _learnt(learning, order, mixed, classes)._replace(prints=row_prints(rows))
    named = {KINDS[number].name: float(np.float32(weights[number])) for number in kept}
    return Sharpener(classes, named, learnt, model, 0 if beside is None else beside.shape[1]), OutOfFold(order, mixed)


def _held_out(n: int, seed: int) -> Iterator[NDArray[np.intp]]:
    """The rows of each fold; of many rows one fold is enough."""
    folds = np.array_split(np.random.default_rng(seed).permutation(n), FOLDS)
    yield from folds if n <= MANY else folds[:1]


def _out_of_fold(
    learning: Learning, folds: Sequence[NDArray[np.intp]], seed: int, advance: Callable[[int], None]
) -> tuple[NDArray[np.intp], Singles]:
    """Rows by number, and what each member gives for them that was not fitted to them: (rows, members, K)."""
    found = []
    for fold in folds:
        others = np.setdiff1d(np.arange(len(learning.labels)), fold)
        out = learning.take(fold)
        found.append(_fit_model(learning.take(others), KINDS, seed, advance).each(out.probs, out.features))
    return np.concatenate(folds), np.concatenate(found)


def _fit_model(
    learning: Learning, kinds: Sequence[MemberKind], seed: int, advance: Callable[[int], None]
) -> SharpeningModel:
    """Every kind of member, fitted to all rows; one with confusions starts from the one before it."""
    from threadpoolctl import threadpool_limits

    z, both = logarithms(learning.probs)
    inputs, phi, spread = None, np.empty((len(z), 0), dtype=np.float32), np.empty(0)
    members: list[Member] = []
    with threadpool_limits(1 if z.size <= ALONE else None, user_api="blas"):
        if any(kind.sigma for kind in kinds):
            inputs, phi, spread = fit_inputs(z, learning.features, seed)
        shown = TrainingRows(z, both, phi, spread, learning.labels)
        for kind in kinds:
            members.append(fit_member(shown, kind, members[-1] if members else None))
            advance(1)
    return SharpeningModel(inputs, tuple(members))


def _weights(each: Singles, labels: Codes) -> NDArray[np.float64]:
    """The weights of all kinds of members; 0 for those that are not worth their while."""
    given = each[np.arange(len(labels)), :, labels].T.astype(np.float64)
    weights = mixture_weights(np.maximum(given, 1e-30))
    least = LEAST if each.shape[2] <= FEW_CLASSES else max(LEAST, np.sort(weights)[-MOST])
    weights[weights < least] = 0
    weights /= weights.sum()
    return weights


def _learnt(learning: Learning, order: NDArray[np.intp], mixed: Singles, classes: Classes) -> Learnt:
    """Before and after, out of fold."""
    plain, labels, rows = learning.probs[order], learning.labels[order], np.arange(len(order))
    losses = [-np.log(np.maximum(probs[rows, labels], 1e-12, dtype=np.float64)) for probs in (plain, mixed)]
    guesses = [probs.argmax(axis=1) for probs in (plain, mixed)]
    gains = losses[0] - losses[1]
    return Learnt(
        len(learning.labels),
        (float(losses[0].mean()), float(losses[1].mean())),
        (float((guesses[0] == labels).mean()), float((guesses[1] == labels).mean())),
        float(gains.std(ddof=1) / np.sqrt(len(gains))),
        _confusions(labels, guesses[0], guesses[1], classes),
        np.empty(0, dtype=np.uint64),
    )


def _confusions(labels: Codes, before: Codes, after: Codes, classes: Classes) -> tuple[Confusion, ...]:
    """The pairs of classes whose confusion changed for most rows, as shares of the true class."""
    n_classes = len(classes)
    pairs, inverse = np.unique(
        np.concatenate([labels * n_classes + guess for guess in (before, after)]), return_inverse=True
    )
    counts = [np.bincount(part, minlength=len(pairs)) for part in np.split(inverse, 2)]
    of_class = np.bincount(labels, minlength=n_classes)
    change = np.abs(counts[0] - counts[1])
    change[pairs % (n_classes + 1) == 0] = 0  # those that are right
    chosen = [int(one) for one in np.argsort(-change, kind="stable")[:TOLD] if change[one]]
    return tuple(
        Confusion(
            classes[pairs[one] // n_classes],
            classes[pairs[one] % n_classes],
            *(float(count[one] / of_class[pairs[one] // n_classes]) for count in counts),
        )
        for one in chosen
    )


def mixture_weights(probs: NDArray[np.float64], favour: float = 1.0, steps: int = 500) -> NDArray[np.float64]:
    """Return the weights w that maximize Σ_i log Σ_m w_m·probs[m, i] + favour·log w_0, by EM.

    `probs[m, i]` is what member m gives to row i's label. The first member is favoured, so that few
    rows fall back to it.

    >>> mixture_weights(np.array([[0.5, 0.5], [0.9, 0.8]])).round(2)
    array([0.81, 0.19])
    """
    weights = np.full(len(probs), 1 / len(probs))
    prior = np.zeros(len(probs))
    prior[0] = favour
    for _ in range(steps):
        share = weights[:, None] * probs
        share /= share.sum(axis=0)
        weights = share.sum(axis=1) + prior
        weights /= weights.sum()
    return weights
