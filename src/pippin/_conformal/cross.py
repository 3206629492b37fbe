"""Cross-conformal prediction (CV+): every row is used for training and for calibration, fold by fold.

Model f is trained without fold f and scores its rows. Class y of a new object x is in the set if its p-value
exceeds α:

    p(y) = (1 + Σ_f #{i in fold f: s_i ≥ s_f(x, y)})/(n + 1)                (Vovk 2015)

where s_i is the score of row i under the model of its fold, and s_f(x, y) the score of class y under model f. CV+ for
classification excludes y if at least (1 − α)(n + 1) rows have s_i < s_f(x, y) (Romano, Sesia, Candès 2020). With
`below` = Σ_f #{i in fold f: s_i < s_f(x, y)},

    p > α  ⇔  n + 1 − below > α(n + 1)  ⇔  below < (1 − α)(n + 1)  ⇔  below < k

where k = ⌈(n + 1)(1 − α)⌉: both definitions give the same set, and the comparison is of integers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.card import EXCHANGEABLE_ROWS, variation_of
from pippin._conformal.rules import Request, Rule, Use
from pippin._conformal.serialization import Content, need, rising, vector_of
from pippin._engine import dispatch
from pippin._engine.numpy_engine import ranked_order
from pippin._runtime.arrays import Classes, Codes, Indices, Vector, read_only
from pippin._runtime.errors import InputError, warn
from pippin._theory.level import quantile_rank, too_few
from pippin._theory.scores import Score, coefficients
from pippin._validation.labels import as_whole, one_per_row, rows_of_models
from pippin._validation.rows import Rows, shortened

# Type of functions that are called with a block of rows (start, stop) and two counts for each row and class: the
# calibration scores smaller than the score of the class, and those smaller or equal (None if p-values are not
# smoothed).
Counted = Callable[[int, int, Codes, Codes | None], None]


@dataclass(frozen=True, eq=False)
class CrossRule(Rule):
    """Cross-conformal rule: a new object's score under each fold's model is compared with the scores of that fold."""

    fold_scores: tuple[Vector, ...]
    alpha: float

    takes = frozenset({"folds"})

    @property
    def n(self) -> int:
        """Number of calibration rows."""
        return sum(map(len, self.fold_scores))

    def members(self, score: Score, request: Request) -> dispatch.Sets:
        """Return the sets of classes with p > alpha, in the order of their mean probability over the models."""
        k, n = quantile_rank(self.n, self.alpha), request.rows.n
        sizes = np.zeros(n, dtype=np.int64)
        blocks: dict[int, Indices] = {}

        def use(start: int, stop: int, below: Codes, up_to: Codes | None) -> None:
            order = ranked_order(self.top(request.rows, request, start, stop))
            inside = np.take_along_axis(below < k, order, axis=1)
            sizes[start:stop] = inside.sum(axis=1)
            blocks[start] = order[inside].astype(np.int32)

        self._count(score, request, use)
        return sizes, np.concatenate([blocks[start] for start in sorted(blocks)])

    def with_best(self, request: Request, sets: dispatch.Sets) -> dispatch.Sets:
        sizes, members = sets
        empty = np.flatnonzero(sizes == 0)
        best = [ranked_order(self.top(request.rows, request, row, row + 1))[0, 0] for row in empty.tolist()]
        return np.maximum(sizes, 1), np.insert(members, np.cumsum(sizes)[empty], np.array(best, dtype=np.int32))

    def top(self, rows: Rows, request: Request, start: int, stop: int) -> Vector:
        total = np.zeros((stop - start, rows.n_classes))
        for part in request.folds:
            total += part.block(start, stop)
        return total

    def label_p_values(self, request: Request, score: Score, labels: Codes) -> Vector:
        u, v = request.draws
        counts = self._counts(request, lambda rows: dispatch.label_scores(rows, labels, score, u))
        return self._p_of_counts(*counts, v)

    def class_p_values(self, request: Request, score: Score, use: Use) -> None:
        def use_counts(start: int, stop: int, below: Codes, up_to: Codes | None) -> None:
            v = None if request.draws.v is None else request.draws.v[start:stop, None]
            use(start, self._p_of_counts(below, up_to, v))

        self._count(score, request, use_counts)

    def _p_of_counts(self, below: Codes, up_to: Codes | None, v: Vector | None) -> Vector:
        at_least = self.n + 1 - below
        if up_to is None or v is None:
            return at_least / (self.n + 1)
        return ((self.n - up_to) + v * (at_least - (self.n - up_to))) / (self.n + 1)

    def unseen_classes(self) -> Any:
        """Return flags of classes without calibration rows: all False, since each class is compared with all rows.

        None would mean that p-values decrease with the rank of a class, which need not hold with several models.
        """
        return np.zeros((1, 1), dtype=bool)

    def _count(self, score: Score, request: Request, use: Counted) -> None:
        """Count the calibration scores below the score of each class; for smoothed p-values, also those below or equal.

        The counts are passed to `use` block by block.
        """
        n, n_classes, u = request.rows.n, request.rows.n_classes, request.draws.u
        c = coefficients(score, n_classes)
        engine = dispatch.engine_for(n * n_classes * len(request.folds))

        def work(start: int, stop: int) -> None:
            def scores(rows: Rows) -> Vector:
                rows.check(start, stop)
                return engine.class_scores(rows.block(start, stop), c, u[start:stop])

            use(start, stop, *self._counts(request, scores))

        dispatch.in_steps(work, n, (dispatch.BLOCK >> 2) // n_classes)

    def _counts(self, request: Request, scores_of: Callable[[Rows], Vector]) -> tuple[Codes, Codes | None]:
        """Count the calibration scores of all folds that are smaller than each new score.

        For smoothed p-values, also count the scores that are smaller or equal; otherwise, the second count is None.
        """
        below: Any = 0
        up_to: Any = None if request.draws.v is None else 0
        for f, (rows, calibration) in enumerate(zip(request.folds, self.fold_scores, strict=True)):
            try:
                scores = scores_of(rows)
            except InputError as error:
                raise error.at(f"Model {f}") from None
            below = below + np.searchsorted(calibration, scores, side="left")
            if up_to is not None:
                up_to = up_to + np.searchsorted(calibration, scores, side="right")
        return below, up_to

    def warn_of_infinite(self, predictor: Any) -> None:
        """Warn if every set holds all classes, because there are too few calibration rows."""
        if note := too_few(self.n, self.alpha):
            warn(note)

    def guarantee(self, predictor: Any) -> float:
        """Return the proven coverage for exchangeable rows; in simulations coverage is mostly close to 1 − alpha.

        The bound is 1 − 2·alpha − 2(1 − 1/F)/(n/F + 1) for n rows in F folds of any size. For folds of equal size and
        an algorithm that ignores the order of its rows, 1 − 2·alpha − (1 − F/n)/(F + 1) holds too, and the result is
        the larger of both. A single fold is split conformal prediction with 1 − alpha.

        Barber, Candès, Ramdas, Tibshirani (2021), Predictive inference with the jackknife+; Romano, Sesia, Candès
        (2020), Classification with valid and adaptive coverage.
        """
        n, f = self.n, len(self.fold_scores)
        if f == 1:
            return 1 - self.alpha
        loss = 2 * (1 - 1 / f) / (n / f + 1)
        if len({len(part) for part in self.fold_scores}) == 1:
            loss = min(loss, (1 - f / n) / (f + 1))
        return max(0.0, 1 - 2 * self.alpha - loss)

    def describe(self, predictor: Any) -> str:
        return (
            f"{predictor.score}, cross-conformal in {len(self.fold_scores)} folds of {self.n:,} rows: its sets "
            f"usually contain the true class with probability {100 * (1 - self.alpha):g}%; at least "
            f"{100 * predictor.guarantee:.3g}% is proven."
        )

    def condition(self) -> str:
        return (
            f"{EXCHANGEABLE_ROWS.capitalize()} The model of each fold was trained without the rows of this fold, by an "
            "algorithm that ignores their order."
        )

    def variation(self, owner: Any, what: str = "Coverage", at_least: bool = False) -> str:
        if len(self.fold_scores) > 1:
            return super().variation(owner, what)
        return f"{what} is {variation_of(quantile_rank(self.n, self.alpha), self.n, at_least)}."

    def rows(self, owner: Any) -> str:
        return f"{self.n:,} rows in {len(self.fold_scores)} folds"

    def facts(self, predictor: Any) -> tuple[str, ...]:
        return (f"{self.n:,} calibration examples in {len(self.fold_scores)} folds",)

    def content(self, scores: bool) -> dict[str, Any]:
        return {"kind": "cross", "fold_scores": [part.tolist() for part in self.fold_scores]}


def cross_rule(scores: Vector, folds: Codes, alpha: float) -> CrossRule:
    """Create the cross-conformal rule from the out-of-fold score and the fold of each calibration row."""
    n_folds = int(folds.max()) + 1
    return CrossRule(tuple(read_only(np.sort(scores[folds == f])) for f in range(n_folds)), alpha)


def cross_from_content(content: Content, alpha: float, n: int, classes: Classes) -> CrossRule:
    """Restore a cross-conformal rule from a file, and check that its entries are consistent."""
    folds = content.take("fold_scores", lambda value: isinstance(value, list))
    parts = tuple(vector_of("fold_scores", part) for part in folds)
    need("fold_scores", sum(map(len, parts)) == n and all(len(part) and rising(part) for part in parts))
    return CrossRule(parts, alpha)


def as_folds(folds: ArrayLike, n: int) -> Codes:
    """Return the fold of each row; raise an InputError unless folds are numbered from 0, each with rows."""
    array = as_whole(one_per_row(folds, n, "folds", "whole numbers from 0"))
    if array.dtype.kind not in "iu":
        what = f"Expected {n} whole numbers from 0, the fold of each row, got {array.dtype}"
        raise InputError(what, "pass the fold that the row's model was trained without")
    if array.min() < 0 or len(np.unique(array)) != int(array.max()) + 1:
        what = f"Expected folds numbered from 0 with rows in each, got {shortened(np.unique(array).tolist())}"
        raise InputError(what, "number them 0, 1, 2, …")
    return array.astype(np.int64)


def rows_of_n_models(probs: Any, n_models: int, classes: Classes, from_logits: bool) -> tuple[Rows, ...]:
    """Check the probabilities by n_models models, an (n_models, n, K) array or a list; return the rows of each."""
    shape = getattr(probs, "shape", None)
    several = isinstance(probs, list | tuple) if shape is None else len(shape) == 3
    if not several or len(probs) != n_models:
        got = f"{len(probs)} matrices" if several else type(probs).__name__
        got = got if shape is None else f"shape {tuple(shape)}"
        what = f"Expected probabilities of shape ({n_models}, n, {len(classes)}), a matrix for each model, got {got}"
        raise InputError(what, "let every model predict, in the order of the folds")
    return rows_of_models(probs, classes, from_logits)
