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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.content import Content, need, rising, vector_of
from pippin._conformal.frames import like_rows
from pippin._conformal.saving import Saved, scored_content
from pippin._conformal.sets import PredictionSets
from pippin._engine import dispatch
from pippin._engine.draws import draws
from pippin._engine.numpy_engine.scores import ranked_order
from pippin._runtime.arrays import Classes, Codes, Indices, Seed, Vector, read_only
from pippin._runtime.errors import InputError
from pippin._theory.level import as_alpha, quantile_rank
from pippin._theory.scores import Score, coefficients
from pippin._theory.shortage import warn_of_few
from pippin._theory.spelling import parse_score
from pippin._validation.index import same_index
from pippin._validation.labels import agree, as_labelled, as_labels, as_whole, check_names, one_per_row, shortened
from pippin._validation.rows import Rows, as_array, as_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def calibrate_cross(
    probs: Any,
    labels: ArrayLike,
    folds: ArrayLike,
    score: Score | str = "repip",
    alpha: float = 0.1,
    *,
    classes: Classes | None = None,
    seed: Seed = None,
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
        from_logits: whether `probs` are logits, of which a softmax is taken.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> folds = [i % 5 for i in range(200)]
    >>> pippin.calibrate_cross(data.probs[:200], data.labels[:200], folds, "pip", 0.1, classes=data.classes)
    CrossPredictor(pip, alpha=0.1, 200 calibration examples in 5 folds, 12 classes)
    """
    rows, codes, names = as_labelled(probs, labels, classes, from_logits)
    same_index("probs", rows.index, folds=folds)
    chosen, fold = parse_score(score), _as_folds(folds, rows.n)
    level = as_alpha(alpha)
    warn_of_few(rows.n, level)
    scores = dispatch.label_scores(rows, codes, chosen, draws(chosen, rows.n, seed))
    parts = tuple(read_only(np.sort(scores[fold == f])) for f in range(int(fold.max()) + 1))
    return CrossPredictor(chosen, level, rows.n, names, parts)


@dataclass(frozen=True, eq=False, repr=False)
class CrossPredictor(Saved):
    """Every row has trained and calibrated: new objects' scores are compared with those of each fold.

    Attributes:
        score: the score.
        alpha: the share of errors allowed.
        n_calibration: how many rows calibrated it.
        classes: the names of the columns, in their order.
        fold_scores: the calibration scores of each fold, in increasing order.
    """

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

    @property
    def takes(self) -> frozenset[str]:
        """What `predict` may be told beside the rows, which come as one matrix per fold."""
        return frozenset({"seed", "folds"})

    def at(self, alpha: float) -> "CrossPredictor":
        """Another level from the same calibration.

        Args:
            alpha: the share of errors aimed at.
        """
        level = as_alpha(alpha)
        warn_of_few(self.n_calibration, level)
        return replace(self, alpha=level)

    def predict(
        self, fold_probs: Any, *, seed: Seed = None, nonempty: bool = False, from_logits: bool = False
    ) -> PredictionSets:
        """The set of every object: all classes with p > alpha.

        Members come in the order of their mean probability over the folds, equal ones by class
        index; a set need not be the top of that order.

        Args:
            fold_probs: (F, n, K), model f's probabilities of the new objects.
            seed: for a randomised score, which draws one u per object for all folds.
            nonempty: whether an empty set gets the first class of that order.
            from_logits: whether `fold_probs` are logits, of which a softmax is taken.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate_cross(data.probs[:200], data.labels[:200], [i % 2 for i in range(200)])
        >>> predictor.predict([data.probs[200:], data.probs[200:]])
        PredictionSets(4,786 objects, 12 classes, mean size 1.25, 80 % singletons)
        """
        every = self._rows(fold_probs, from_logits)
        k = quantile_rank(self.n_calibration, self.alpha)
        sizes = np.zeros(every[0].n, dtype=np.int64)
        members: dict[int, Indices] = {}

        def use(start: int, stop: int, below: Codes) -> None:
            total = np.zeros(below.shape)
            for rows in every:
                total += rows.block(start, stop)
            order = ranked_order(total)
            inside = np.take_along_axis(below < k, order, axis=1)
            if nonempty:
                inside[:, 0] |= ~inside.any(axis=1)
            sizes[start:stop] = inside.sum(axis=1)
            members[start] = order[inside].astype(np.int32)

        self._count(every, draws(self.score, every[0].n, seed), use)
        found = np.concatenate([members[start] for start in sorted(members)])
        return PredictionSets(sizes, found, self.classes, every[0].index)

    def predict_one(self, rows: Any, *, seed: Seed = None, nonempty: bool = False) -> Indices:
        """One object's class indices, most probable first, as in `PredictionSets.members`.

        Args:
            rows: (F, K), model f's probabilities of the object, not logits.
            seed: for a randomised score; a seed or a Generator.
            nonempty: whether a set that would be empty gets the first class.
        """
        for row in rows:
            check_names(self.classes, row)
        return self.predict([as_array(row)[None] for row in rows], seed=seed, nonempty=nonempty).members

    def p_values(
        self, fold_probs: Any, labels: ArrayLike | None = None, *, seed: Seed = None, from_logits: bool = False
    ) -> Any:
        """p of the given labels, (n,), or of every class, (n, K); `predict` gives the classes with p > alpha.

        A pandas or polars frame gives a frame, its index and the class names kept; with labels a series.

        Args:
            fold_probs: (F, n, K), model f's probabilities of the new objects.
            labels: one class per row, as indices or as names; None asks for all classes.
            seed: for a randomised score; a seed or a Generator.
            from_logits: whether `fold_probs` are logits, of which a softmax is taken.

        >>> import pippin
        >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6]]
        >>> predictor = pippin.calibrate_cross(probs, [0, 0, 0, 0], [0, 0, 1, 1], "ip", 0.3)
        >>> predictor.p_values([[[0.7, 0.3]], [[0.5, 0.5]]])
        array([[0.4, 0.4]])
        """
        every = self._rows(fold_probs, from_logits)
        same_index("fold_probs[0]", every[0].index, labels=labels)
        n = every[0].n
        u = draws(self.score, n, seed)
        if labels is not None:
            indices = as_labels(labels, n, self.classes)
            below = np.zeros(n, dtype=np.int64)
            for f, (rows, calibration) in enumerate(zip(every, self.fold_scores, strict=True)):
                try:
                    below += np.searchsorted(calibration, dispatch.label_scores(rows, indices, self.score, u))
                except InputError as error:
                    raise error.at(f"Model {f}") from None
            return like_rows(self._p(below), every[0], self.classes)
        p = np.empty((n, len(self.classes)))

        def use(start: int, stop: int, below: Codes) -> None:
            p[start:stop] = self._p(below)

        self._count(every, u, use)
        return like_rows(p, every[0], self.classes)

    def _p(self, below: Codes) -> Vector:
        return (self.n_calibration + 1 - below) / (self.n_calibration + 1)

    def _count(self, every: Sequence[Rows], u: Vector, use: Callable[[int, int, Codes], None]) -> None:
        """Calls use(start, stop, below) with the counts of every class, block by block."""
        n, n_classes = every[0].n, len(self.classes)
        c = coefficients(self.score, n_classes)
        engine = dispatch.engine_for(n * n_classes * len(every))

        def work(start: int, stop: int) -> None:
            below = np.zeros((stop - start, n_classes), dtype=np.int64)
            for f, (rows, calibration) in enumerate(zip(every, self.fold_scores, strict=True)):
                try:
                    rows.check(start, stop)
                    scores = engine.class_scores(rows.block(start, stop), c, u[start:stop])
                except InputError as error:
                    raise error.at(f"Model {f}") from None
                below += np.searchsorted(calibration, scores, side="left")
            use(start, stop, below)

        dispatch.in_steps(work, n, (dispatch.BLOCK >> 2) // n_classes)

    def _rows(self, fold_probs: Any, from_logits: bool) -> list[Rows]:
        """One matrix per fold, all of one shape."""
        wanted = len(self.fold_scores)
        shape = getattr(fold_probs, "shape", None)
        several = isinstance(fold_probs, list | tuple) if shape is None else len(shape) == 3
        if not several or len(fold_probs) != wanted:
            got = f"{len(fold_probs)} matrices" if several else type(fold_probs).__name__
            got = got if shape is None else f"shape {tuple(shape)}"
            raise InputError(
                f"Expected probabilities of shape ({wanted}, n, {len(self.classes)}), a matrix for each of the "
                f"{wanted} models, got {got}",
                "let every model predict, in the order of the folds",
            )
        every = []
        for f, part in enumerate(fold_probs):
            try:
                every.append(rows := as_rows(part, from_logits))
                agree(self.classes, rows)
            except InputError as error:
                raise error.at(f"Model {f}") from error
            if rows.n != every[0].n:
                raise InputError(
                    f"Expected the same objects from every model, got {every[0].n} rows from model 0 and {rows.n} from "
                    f"model {f}",
                    "let every model predict all of them",
                )
            same_index("fold_probs[0]", every[0].index, **{f"fold_probs[{f}]": part})
        return every

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The scores of the calibration rows, those of all folds together; there is no one threshold. Matplotlib axes.

        Args:
            ax: where to draw; new axes, if not given.
        """
        from pippin._plotting.thresholds import Scored, plot_scores

        return plot_scores(Scored(np.concatenate(self.fold_scores), None, None, str(self.score)), ax)

    def describe(self) -> str:
        """What it is and what it promises, in a sentence."""
        return (
            f"{self.score}, cross-conformal in {len(self.fold_scores)} folds of {self.n_calibration:,} rows: its sets "
            f"are to hold the true class {100 * (1 - self.alpha):g} % of the time, and {100 * self.guarantee:.3g} % is "
            "proven."
        )

    def content(self) -> dict[str, Any]:
        """What its file holds."""
        return scored_content("cross", self, fold_scores=[part.tolist() for part in self.fold_scores])

    def __repr__(self) -> str:
        return self._shown(str(self.score), f"{self._examples} in {len(self.fold_scores)} folds")


def from_content(content: Content) -> CrossPredictor:
    """The predictor that had this content, each part checked against the others."""
    (alpha, n, classes), score = content.shared(), content.score()
    folds = content.take("fold_scores", lambda value: isinstance(value, list))
    content.finish()
    parts = tuple(vector_of("fold_scores", part) for part in folds)
    need("fold_scores", sum(map(len, parts)) == n and all(len(part) and rising(part) for part in parts))
    return CrossPredictor(score, alpha, n, classes, parts)


def _as_folds(folds: ArrayLike, n: int) -> Codes:
    array = as_whole(one_per_row(folds, n, "folds", "whole numbers from 0"))
    if array.dtype.kind not in "iu":
        raise InputError(
            f"Expected {n} whole numbers from 0, the fold of each row, got {array.dtype}",
            "pass the fold that the row's model did not see",
        )
    if array.min() < 0 or len(np.unique(array)) != int(array.max()) + 1:
        raise InputError(
            f"Expected folds numbered from 0 with rows in each, got {shortened(np.unique(array).tolist())}",
            "number them 0, 1, 2, …",
        )
    return array.astype(np.int64)
