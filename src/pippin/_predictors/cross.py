"""Cross-conformal prediction: every row both trains and calibrates, fold by fold.

Model f was trained without the rows of fold f and scores them. A class y of a new object x
is in the set if its p-value exceeds α:

    p(y) = (1 + Σ_f #{i in fold f: s_i ≥ s_f(x, y)})/(n + 1)                (Vovk 2015)

CV+ for classification leaves a class out if the scores below its own are (1 − α)(n + 1) or
more (Romano, Sesia, Candès 2020). With `below` = Σ_f #{i in fold f: s_i < s_f(x, y)},

    p > α  ⇔  n + 1 − below > α(n + 1)  ⇔  below < (1 − α)(n + 1)  ⇔  below < k

where k = ⌈(n + 1)(1 − α)⌉: the two are the same set, and whole numbers decide.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._engine import dispatch, plain
from pippin._inputs.index import same_index
from pippin._inputs.rows import (
    Classes,
    Rows,
    agree,
    as_alpha,
    as_classes,
    as_labels,
    as_rows,
    ranked_order,
    read_only,
)
from pippin._predictors.contents import checked_classes, rising, shared_content
from pippin._predictors.marginal import Seed, warn_of_few
from pippin._predictors.sets import PredictionSets
from pippin._runtime import disk
from pippin._runtime.threads import run
from pippin._theory.level import quantile_rank
from pippin._theory.scores import Score, coefficients, make_score, parse_score

Vector = NDArray[np.float64]
Counts = NDArray[np.int64]


def calibrate_cross(
    probs: Any,
    labels: ArrayLike,
    folds: ArrayLike,
    score: Score | str = "repip",
    alpha: float = 0.1,
    classes: Classes | None = None,
    seed: Seed = None,
    *,
    from_logits: bool = False,
) -> "CrossPredictor":
    """A predictor from out-of-fold probabilities, for data too few to hold a part of them out.

    Coverage is usually about 1 − alpha; what is proven is less, see `CrossPredictor.guarantee`.

    Args:
        probs: (n, K) probabilities; row i from the model that did not see fold `folds[i]`.
        labels: the true classes, as indices or as names.
        folds: for each row its fold, 0 to F − 1. Assign them at random, without looking at y.
        score: a score or its spelling.
        alpha: the share of errors aimed at.
        classes: names of the K columns; a data frame brings its own.
        seed: for the randomised scores; a seed or a Generator.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> folds = [i % 5 for i in range(200)]
    >>> pippin.calibrate_cross(data.probs[:200], data.labels[:200], folds, "pip", 0.1, data.classes)
    CrossPredictor(pip, alpha=0.1, 200 calibration examples in 5 folds, 12 classes)
    """
    rows = as_rows(probs, from_logits)
    same_index("probs", rows.index, labels=labels, folds=folds)
    chosen = parse_score(score)
    names = as_classes(classes, rows)
    indices = as_labels(labels, rows.n, names)
    fold = _as_folds(folds, rows.n)
    level = _level(rows.n, alpha)
    scores = dispatch.label_scores(rows, indices, chosen, dispatch.draws(chosen, rows.n, seed))
    parts = tuple(read_only(np.sort(scores[fold == f])) for f in range(int(fold.max()) + 1))
    return CrossPredictor(chosen, level, rows.n, names, parts)


@dataclass(frozen=True, eq=False, repr=False)
class CrossPredictor:
    """The calibration scores of each fold in increasing order: what new objects' scores are compared with."""

    score: Score
    alpha: float
    n_calibration: int
    classes: Classes
    fold_scores: tuple[Vector, ...]

    @property
    def guarantee(self) -> float:
        """The coverage that is proven for exchangeable rows; simulations mostly come near 1 − alpha.

        1 − 2·alpha − 2(1 − 1/F)/(n/F + 1) for F folds of any size; for folds of one size and an
        algorithm that ignores the order of its rows also 1 − 2·alpha − (1 − F/n)/(F + 1). The
        larger of the two is given; 1 − alpha for a single fold, which is split conformal
        prediction. Barber, Candès, Ramdas, Tibshirani (2021), Predictive inference with the
        jackknife+; Romano, Sesia, Candès (2020).

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate_cross(data.probs[:200], data.labels[:200], [i % 5 for i in range(200)])
        >>> round(predictor.guarantee, 3)
        0.761
        """
        n, f = self.n_calibration, len(self.fold_scores)
        if f == 1:
            return 1 - self.alpha
        loss = 2 * (1 - 1 / f) / (n / f + 1)
        if len({len(part) for part in self.fold_scores}) == 1:
            loss = min(loss, (1 - f / n) / (f + 1))
        return max(0.0, 1 - 2 * self.alpha - loss)

    def at(self, alpha: float) -> "CrossPredictor":
        """Another level from the same calibration."""
        return replace(self, alpha=_level(self.n_calibration, alpha))

    def predict(
        self, fold_probs: Any, seed: Seed = None, *, nonempty: bool = False, from_logits: bool = False
    ) -> PredictionSets:
        """The set of every object: all classes with p > alpha.

        `fold_probs` is (F, n, K): model f's probabilities of the new objects. Members come in the
        order of their mean probability over the folds, equal ones by class index; a set need not
        be the top of that order. A randomised score draws one u per object for all folds. With
        `nonempty=True` an empty set gets the first of that order.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate_cross(data.probs[:200], data.labels[:200], [i % 2 for i in range(200)])
        >>> predictor.predict([data.probs[200:], data.probs[200:]])
        PredictionSets(4,786 objects, 12 classes, mean size 1.25, 80 % singletons)
        """
        every = self._rows(fold_probs, from_logits)
        k = quantile_rank(self.n_calibration, self.alpha)
        sizes = np.zeros(every[0].n, dtype=np.int64)
        members: dict[int, NDArray[np.int32]] = {}

        def use(start: int, stop: int, below: Counts) -> None:
            total = np.zeros(below.shape)
            for rows in every:
                total += rows.block(start, stop)
            order = ranked_order(total)
            inside = np.take_along_axis(below < k, order, axis=1)
            if nonempty:
                inside[:, 0] |= ~inside.any(axis=1)
            sizes[start:stop] = inside.sum(axis=1)
            members[start] = order[inside].astype(np.int32)

        self._count(every, dispatch.draws(self.score, every[0].n, seed), use)
        found = np.concatenate([members[start] for start in sorted(members)])
        return PredictionSets(sizes, found, self.classes, every[0].index)

    def p_values(
        self, fold_probs: Any, labels: ArrayLike | None = None, seed: Seed = None, *, from_logits: bool = False
    ) -> Vector:
        """p of the given labels, (n,), or of every class, (n, K); `predict` gives the classes with p > alpha.

        >>> import pippin
        >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6]]
        >>> predictor = pippin.calibrate_cross(probs, [0, 0, 0, 0], [0, 0, 1, 1], "ip", 0.3)
        >>> predictor.p_values([[[0.7, 0.3]], [[0.5, 0.5]]])
        array([[0.4, 0.4]])
        """
        every = self._rows(fold_probs, from_logits)
        same_index("fold_probs[0]", every[0].index, labels=labels)
        n = every[0].n
        u = dispatch.draws(self.score, n, seed)
        if labels is not None:
            indices = as_labels(labels, n, self.classes)
            below = np.zeros(n, dtype=np.int64)
            for f, (rows, calibration) in enumerate(zip(every, self.fold_scores, strict=True)):
                try:
                    below += np.searchsorted(calibration, dispatch.label_scores(rows, indices, self.score, u))
                except ValueError as error:
                    raise ValueError(f"Model {f}: {error}") from None
            return self._p(below)
        p = np.empty((n, len(self.classes)))

        def use(start: int, stop: int, below: Counts) -> None:
            p[start:stop] = self._p(below)

        self._count(every, u, use)
        return p

    def _p(self, below: Counts) -> Vector:
        return (self.n_calibration + 1 - below) / (self.n_calibration + 1)

    def _count(self, every: Sequence[Rows], u: Vector, use: Callable[[int, int, Counts], None]) -> None:
        """Calls use(start, stop, below) with the counts of every class, block by block."""
        n, n_classes = every[0].n, len(self.classes)
        c = coefficients(self.score, n_classes)
        engine = dispatch.compiled(n * n_classes * len(every)) or plain

        def work(start: int, stop: int) -> None:
            below = np.zeros((stop - start, n_classes), dtype=np.int64)
            for f, (rows, calibration) in enumerate(zip(every, self.fold_scores, strict=True)):
                try:
                    rows.check(start, stop)
                    scores = engine.class_scores(rows.block(start, stop), c, u[start:stop])
                except ValueError as error:
                    raise ValueError(f"Model {f}: {error}") from None
                below += np.searchsorted(calibration, scores, side="left")
            use(start, stop, below)

        step = max(4, (dispatch.BLOCK >> 2) // n_classes)
        run(work, ((start, min(start + step, n)) for start in range(0, n, step)))

    def _rows(self, fold_probs: Any, from_logits: bool) -> list[Rows]:
        """One matrix per fold, all of one shape."""
        wanted = len(self.fold_scores)
        shape = getattr(fold_probs, "shape", None)
        several = isinstance(fold_probs, list | tuple) if shape is None else len(shape) == 3
        if not several or len(fold_probs) != wanted:
            got = f"{len(fold_probs)} matrices" if several else type(fold_probs).__name__
            got = got if shape is None else f"shape {tuple(shape)}"
            raise ValueError(
                f"Expected probabilities of shape ({wanted}, n, {len(self.classes)}), a matrix for each of the "
                f"{wanted} models, got {got}: let every model predict, in the order of the folds."
            )
        every = []
        for f, part in enumerate(fold_probs):
            try:
                every.append(rows := as_rows(part, from_logits))
                agree(self.classes, rows)
            except ValueError as error:
                raise ValueError(f"Model {f}: {error}") from error
            if rows.n != every[0].n:
                raise ValueError(
                    f"Expected the same objects from every model, got {every[0].n} rows from model 0 and {rows.n} from "
                    f"model {f}: let every model predict all of them."
                )
            same_index("fold_probs[0]", every[0].index, **{f"fold_probs[{f}]": part})
        return every

    def save(self, path: "str | PathLike[str]") -> None:
        """Writes a JSON file that any language can read; `pippin.load` reads it."""
        content = {
            "score": self.score.content(),
            **shared_content(self),
            "fold_scores": [part.tolist() for part in self.fold_scores],
        }
        disk.write_predictor(path, content, kind="cross")

    def __repr__(self) -> str:
        return (
            f"CrossPredictor({self.score}, alpha={self.alpha:g}, {self.n_calibration:,} calibration examples in "
            f"{len(self.fold_scores)} folds, {len(self.classes):,} classes)"
        )


def from_content(
    score: Any, alpha: Any, n_calibration: Any, n_classes: Any, classes: Any, fold_scores: Any
) -> CrossPredictor:
    """The predictor that had this content, each part checked against the others."""
    parts = tuple(read_only(np.array(part, dtype=np.float64)) for part in fold_scores)
    names = checked_classes(
        alpha,
        n_calibration,
        n_classes,
        classes,
        fold_scores=sum(part.size for part in parts) == n_calibration
        and all(part.size and rising(part) for part in parts),
    )
    return CrossPredictor(make_score(score["name"], score["parameters"]), alpha, n_calibration, names, parts)


def _level(n: int, alpha: float) -> float:
    level = as_alpha(alpha)
    warn_of_few(n, level)
    return level


def _as_folds(folds: ArrayLike, n: int) -> Counts:
    try:
        array = np.asarray(folds)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"Expected {n} whole numbers from 0, the fold of each row, got {type(folds).__name__}: pass one per row."
        ) from error
    if array.shape != (n,) or array.dtype.kind not in "iu":
        raise ValueError(
            f"Expected {n} whole numbers from 0, the fold of each row, got {array.dtype} of shape {array.shape}: "
            "pass the fold that the row's model did not see."
        )
    if array.min() < 0 or len(np.unique(array)) != int(array.max()) + 1:
        raise ValueError(
            f"Expected folds numbered from 0 with rows in each, got {_shortened(np.unique(array).tolist())}: "
            "number them 0, 1, 2, …"
        )
    return array.astype(np.int64)


def _shortened(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:6])) + (", …" if len(numbers) > 6 else "")
