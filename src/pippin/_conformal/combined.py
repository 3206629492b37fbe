"""Combined predictors: the p-values of several conformal predictors for one object, merged into one.

The p-values of one object under several models depend on each other in an unknown way. Most methods are a mean of
transformed p-values: with X_m = h(p_m) for a decreasing h, a class is implausible if the mean t of the X_m is large.
Whatever the dependence of M p-values, and for every width w > 0,

    P(mean ≥ t) ≤ [G(t + (M − 1)·w) − G(t − w)]/w,  G' = P(h(U) ≥ x), U uniform in (0, 1)

(the dual bound of Embrechts and Puccetti 2006). Its minimum over w gives the constants of Vovk and Wang (2020) for the
geometric and the harmonic mean, and the Cauchy combination of Chen et al. (2023). docs/models.md has the proofs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.card import EXCHANGEABLE, Card, listed_names, promise_card, share, variation_of
from pippin._conformal.cross import CrossRule, rows_of_n_models
from pippin._conformal.evaluation import NEGLIGIBLE
from pippin._conformal.frames import like_rows
from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.serialization import (
    KINDS,
    Content,
    SavedDataclass,
    classes_content,
    decoded,
    listed,
    need,
    read_content,
    rising,
)
from pippin._conformal.sets import PredictionSets
from pippin._engine import dispatch
from pippin._engine.draws import generator_of
from pippin._engine.numpy_engine import ranked_order
from pippin._runtime.arrays import Classes, Indices, Seed, Vector, read_only
from pippin._runtime.errors import InputError, warn
from pippin._runtime.provenance import Provenance
from pippin._theory.level import as_alpha, quantile_rank, too_few
from pippin._validation.index import same_index
from pippin._validation.labels import labels_of_rows
from pippin._validation.rows import Rows, row_of_classes

MEANS: dict[str, Callable[[Vector], Vector]] = {  # increasing functions of p-values, of which the mean is taken
    "mean": lambda p: p,
    "geometric": np.log,
    "harmonic": lambda p: -1 / p,
    "cauchy": lambda p: -1 / np.tan(np.pi * p),
    "fisher": np.log,
}
SCORES = "scores"
METHODS = ("bonferroni", "majority", *MEANS, SCORES)


def combine(
    predictors: Sequence[ConformalPredictor],
    probs: Any = None,
    labels: ArrayLike | None = None,
    *,
    method: str = "mean",
    alpha: float | None = None,
    seed: Seed = None,
    from_logits: bool = False,
) -> "CombinedPredictor":
    """Combine conformal predictors of the same classes, such as of two networks: merge their p-values for each class.

    Without `probs` and `labels`, the merged value is multiplied by the constant with which it is a p-value for *any*
    dependence between the predictors, so that sets contain the true class with probability at least 1 − alpha:

    - "bonferroni": M times the smallest of M p-values;
    - "majority": 2 times the median (for odd M, 2M/(M + 1) times). Its sets are the majority votes of the predictors'
      sets at half the level (`Cherubin 2019 <https://doi.org/10.1007/s10994-018-5752-y>`__,
      `Gasparin and Ramdas 2024 <https://arxiv.org/abs/2401.09379>`__);
    - "mean": 2 times the mean; "geometric": at most e times the geometric mean; "harmonic": about ln M times the
      harmonic mean, with exact constants (`Vovk and Wang 2020 <https://arxiv.org/abs/1212.4966>`__);
    - "cauchy": the mean of cot(π·p) compared with its worst case
      (`Chen et al. 2023 <https://arxiv.org/abs/2007.12366>`__);
    - "fisher": Fisher's combination, which is valid only if the p-values are *independent*. Those of two models for
      one object are not, unless the models see independent measurements.

    With `probs` and `labels` of held-out rows, the merged value serves as a nonconformity score, and gets a conformal
    p-value of its own (`Toccaceli and Gammerman 2019 <https://doi.org/10.1007/s10994-018-5754-9>`__). It is valid for
    every method, and sets are smaller. "scores" merges the nonconformity scores instead of the p-values, by their mean
    (synergy: `Gauraha and Spjuth 2021 <https://proceedings.mlr.press/v152/gauraha21a.html>`__), and needs such rows.

    Args:
        predictors: two or more predictors of the same classes, without groups, weights, folds and features.
        probs: probabilities of the held-out rows, one (n, K) matrix per predictor; None for no recalibration. Other
            rows than those that the predictors were calibrated on, except for "scores".
        labels: the true classes of these rows, as indices or as names.
        method: the merging function.
        alpha: significance level; by default that of the predictors.
        seed: for predictors with randomized scores; a seed or a Generator.
        from_logits: treat `probs` as logits and apply softmax.

    Returns:
        The combined predictor.

    Raises:
        InputError: the predictors do not fit together, or an argument is invalid.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> sure = data.probs**2 / (data.probs**2).sum(axis=1, keepdims=True)
    >>> models = [pippin.calibrate(p[:1000], data.labels[:1000]) for p in (data.probs, sure)]
    >>> combined = pippin.models.combine(models, [data.probs[1000:2000], sure[1000:2000]], data.labels[1000:2000])
    >>> combined.predict([data.probs[2000:], sure[2000:]])
    PredictionSets(2,986 objects, 12 classes, mean size 1.59, 76% singletons)
    """
    each = tuple(predictors)
    _check(each, method)
    levels = {predictor.alpha for predictor in each} if alpha is None else {as_alpha(alpha)}
    if len(levels) > 1:
        raise InputError(f"Expected predictors of one alpha, got {sorted(levels)}", "pass alpha=")
    combined = CombinedPredictor(each, method, levels.pop())
    if (probs is None) != (labels is None) or (method == SCORES and labels is None):
        what = f"Expected probs and labels of held-out rows{' for the mean of scores' * (method == SCORES)}, got "
        raise InputError(what + ("only one of them" if (probs is None) != (labels is None) else "none"), "pass both")
    if labels is None:
        return combined
    rows = rows_of_n_models(probs, len(each), combined.classes, from_logits)
    codes = labels_of_rows(labels, rows[0], combined.classes)
    same_index("probs", rows[0].index, labels=labels)
    repeated = max(one._repeated_rows(part, codes, None, False) for one, part in zip(each, rows, strict=True))
    if method != SCORES and repeated > NEGLIGIBLE * len(codes):
        warn(
            f"About {repeated:,} of these {len(codes):,} rows seem to be calibration rows of a predictor: the "
            "combination is valid only if it is calibrated on other rows."
        )
    if note := too_few(len(codes), combined.alpha):
        warn(note)
    scores = -combined._merged(rows, codes, generator_of(seed), None)
    return replace(combined, calibration_scores=read_only(np.sort(scores)))


def _check(predictors: tuple[Any, ...], method: str) -> None:
    """Raise an InputError unless the predictors have p-values of the same classes, without further inputs."""
    if method not in METHODS:
        raise InputError(f"Expected method to be one of {', '.join(map(repr, METHODS))}, got {method!r}")
    if len(predictors) < 2 or not all(isinstance(one, ConformalPredictor) for one in predictors):
        got = ", ".join(type(one).__name__ for one in predictors) or "none"
        raise InputError(f"Expected two or more conformal predictors, got {got}", "pass what pippin.calibrate returns")
    for number, one in enumerate(predictors):
        one.check_p_values()
        crossed = method == SCORES and isinstance(one._rule, CrossRule)
        if one.takes - {"seed"} or crossed or tuple(one.classes) != tuple(predictors[0].classes):
            needs = ", ".join(sorted(one.takes - {"seed"})) or ("one score per fold" if crossed else "other classes")
            what = f"Expected predictors of the same classes with nothing but probabilities, got {needs} in {number}"
            raise InputError(what, "calibrate it with the same classes=, and without this keyword")


@dataclass(frozen=True, eq=False, repr=False)
class CombinedPredictor(SavedDataclass):
    """Conformal predictors of the same classes, whose p-values are merged; `pippin.models.combine` returns it.

    Attributes:
        predictors: the predictors.
        method: the merging function.
        alpha: significance level (miscoverage).
        calibration_scores: the merged p-values of the true classes of the held-out rows, negated so that larger is less
            plausible, and sorted; None without held-out rows.
        provenance: data files with checksums, date, author, command and versions; None if not recorded.
    """

    predictors: tuple[ConformalPredictor, ...]
    method: str
    alpha: float
    calibration_scores: Vector | None = None
    provenance: Provenance | None = None

    @property
    def classes(self) -> Classes:
        """Names of the columns, in their order."""
        return self.predictors[0].classes

    @property
    def n_calibration(self) -> int:
        """Number of held-out rows that calibrate the merged value; 0 without recalibration."""
        return 0 if self.calibration_scores is None else len(self.calibration_scores)

    @property
    def guarantee(self) -> float:
        """Proven coverage, 1 − alpha; for "fisher" without recalibration, it holds for independent p-values only."""
        return 1 - self.alpha

    @property
    def takes(self) -> frozenset[str]:
        """Inputs of `predict`: "folds", which stands for one matrix per predictor, and "seed" if sets are random."""
        return frozenset({"folds"}).union(*(predictor.takes for predictor in self.predictors))

    def predict(
        self, probs: Any, *, seed: Seed = None, nonempty: bool = False, from_logits: bool = False
    ) -> PredictionSets:
        """Return the prediction set of every row: all classes whose merged p-value exceeds alpha.

        Args:
            probs: one (n, K) matrix of probabilities per predictor, of the same objects.
            seed: for predictors with randomized scores; a seed or a Generator.
            nonempty: add the class with the largest mean probability to empty sets.
            from_logits: treat `probs` as logits and apply softmax.

        Returns:
            One set per row; its members are in descending order of their mean probability over the predictors.

        Raises:
            InputError: `probs` are not probabilities of these classes, one matrix per predictor.
        """
        rows = rows_of_n_models(probs, len(self.predictors), self.classes, from_logits)
        inside = self._p_values(rows, None, generator_of(seed), False) > self.alpha
        order = ranked_order(reduce(np.add, (part.block(0, part.n).astype(np.float64) for part in rows)))
        if nonempty:
            empty = np.flatnonzero(~inside.any(axis=1))
            inside[empty, order[empty, 0]] = True
        sizes = inside.sum(axis=1)
        members = order[np.take_along_axis(inside, order, axis=1)].astype(np.int32)
        return PredictionSets(sizes, members, self.classes, rows[0].index)

    def predict_one(self, rows: Sequence[Any], *, seed: Seed = None, nonempty: bool = False) -> Indices:
        """Return the prediction set of one object.

        Args:
            rows: K probabilities by each model.
            seed: for predictors with randomized scores; a seed or a Generator.
            nonempty: add the class with the largest mean probability to an empty set.

        Returns:
            Class indices, most probable first.

        Raises:
            InputError: `rows` are not rows of probabilities of these classes, one per predictor.
        """
        matrices = [row_of_classes(self.classes, row)[None] for row in rows]
        sets = self.predict(matrices, seed=seed, nonempty=nonempty)
        return sets.members

    def p_values(
        self,
        probs: Any,
        labels: ArrayLike | None = None,
        *,
        seed: Seed = None,
        smoothed: bool = False,
        from_logits: bool = False,
    ) -> Any:
        """Return the merged p-value of each class, (n, K), or with `labels` of one class per row, (n,).

        Args:
            probs: as for `predict`.
            labels: one class per row, as indices or as names; None for the p-values of all classes.
            seed: for predictors with randomized scores, and for smoothed p-values; a seed or a Generator.
            smoothed: count the calibration scores that equal the score of the class with a random weight; without
                recalibration, merge the smoothed p-values of the predictors.
            from_logits: treat `probs` as logits and apply softmax.

        Returns:
            An array; a frame or series, if the first matrix is a frame.

        Raises:
            InputError: `probs` or `labels` are invalid.
        """
        rows = rows_of_n_models(probs, len(self.predictors), self.classes, from_logits)
        codes = None if labels is None else labels_of_rows(labels, rows[0], self.classes)
        same_index("probs", rows[0].index, labels=labels)
        return like_rows(self._p_values(rows, codes, generator_of(seed), smoothed), rows[0], self.classes)

    def _p_values(self, rows: Sequence[Rows], codes: Any, generator: np.random.Generator, smoothed: bool) -> Vector:
        held = self.calibration_scores
        v = generator.random(rows[0].n) if smoothed else None
        merged = self._merged(rows, codes, generator, v if held is None else None)
        if held is None:
            return p_value_of(self.method, merged, len(self.predictors))
        n = len(held)
        at_least = n - np.searchsorted(held, -merged, side="left") + 1
        if v is None:
            return at_least / (n + 1)
        above = n - np.searchsorted(held, -merged, side="right")
        smooth: Vector = (above + (v if codes is not None else v[:, None]) * (at_least - above)) / (n + 1)
        return smooth

    def _merged(self, rows: Sequence[Rows], codes: Any, generator: np.random.Generator, v: Vector | None) -> Vector:
        """Return the merged value of each class, or of the classes `codes`; it increases with the p-values.

        `v` holds the random numbers of smoothed p-values; None for p-values that are not smoothed.
        """
        each = []
        for predictor, part in zip(self.predictors, rows, strict=True):
            request = predictor._request(part, None, None, None, generator, False, False)
            request = request._replace(draws=request.draws._replace(v=v))
            rule, score, u = predictor._rule, predictor._score, request.draws.u
            if self.method != SCORES:
                p = predictor._p_values(request, None) if codes is None else rule.label_p_values(request, score, codes)
                each.append(p)
            elif codes is None:
                each.append(-dispatch.class_scores(request.rows, score, u))
            else:
                each.append(-dispatch.label_scores(request.rows, codes, score, u))
        return merge(self.method, each)

    def at(self, alpha: float) -> "CombinedPredictor":
        """Return the combined predictor at another alpha.

        Args:
            alpha: significance level (miscoverage).

        Returns:
            The predictor of that level.
        """
        return replace(self, alpha=as_alpha(alpha))

    def describe(self) -> str:
        """Describe the predictor and its guarantee in one sentence.

        Returns:
            The sentence.
        """
        m, n = len(self.predictors), self.n_calibration
        merged = "nonconformity scores" if self.method == SCORES else f"p-values, merged by {self.method!r}"
        how = f"recalibrated on {n:,} rows" if n else "valid for any dependence between them"
        if self.method == "fisher" and not n:
            how = "if the p-values are independent"
        return (
            f"{m} predictors by their {merged}, {how}: its sets contain the true class with probability at least "
            f"{100 * self.guarantee:g}%."
        )

    def _promise(self) -> Card:
        n, each = self.n_calibration, ", ".join(f"{one.n_calibration:,}" for one in self.predictors)
        condition = EXCHANGEABLE if n else "Each predictor is valid for the new rows, as its own card says."
        independent = " The p-values of the predictors are independent." * (self.method == "fisher" and not n)
        known = f"Coverage is {variation_of(quantile_rank(n, self.alpha), n, at_least=True)}." if n else None
        return promise_card(
            what=f"A combination of {len(self.predictors)} conformal predictors of {len(self.classes):,} classes: "
            f"{listed_names(self.classes)}.",
            guarantee=self.describe(),
            level=f"alpha = {self.alpha:g}: coverage of at least {share(self.guarantee)}.",
            condition=condition + independent,
            variation=known or "Coverage varies, and no exact distribution is known; the guarantee is on average.",
            limits="Coverage within a single class or group, or of the sets of one size.",
            rows=f"{n:,} rows for the merged value; {each} for the predictors.",
        )

    def content(self) -> dict[str, Any]:
        """Return the data that `save` writes to a file, from which `pippin.load` restores the predictor.

        Returns:
            A dictionary of numbers, strings, lists and nested dictionaries.
        """
        return {
            "kind": "combined",
            "method": self.method,
            "alpha": self.alpha,
            **classes_content(self.classes),
            "predictors": [predictor.content() for predictor in self.predictors],
            "calibration_scores": listed(self.calibration_scores),
        }

    def __repr__(self) -> str:
        rows = f", {self.n_calibration:,} calibration examples" * bool(self.n_calibration)
        return (
            f"CombinedPredictor({self.method} of {len(self.predictors)} predictors, alpha={self.alpha:g}{rows}, "
            f"{len(self.classes):,} classes)"
        )


def combined_from_content(content: Content) -> CombinedPredictor:
    """Restore a combined predictor from the content of its file, and check its entries."""
    method, alpha, classes = content.take("method"), content.level(), content.classes()
    predictors = predictors_from_content("predictors", content.take("predictors"))
    scores = content.optional_numbers("calibration_scores")
    content.finish()
    need("method", method in METHODS and (method != SCORES or scores is not None))
    need("calibration_scores", scores is None or (len(scores) > 0 and rising(scores)))
    need("classes", tuple(classes) == tuple(predictors[0].classes))
    _check(predictors, method)
    return CombinedPredictor(predictors, method, alpha, scores)


def predictors_from_content(part: str, entries: Any) -> tuple[ConformalPredictor, ...]:
    """Restore conformal predictors from a list of contents in a file."""
    need(part, isinstance(entries, list) and len(entries) > 0 and all(isinstance(one, dict) for one in entries))
    kinds = [one.get("kind") for one in entries]
    need(part, all(isinstance(kind, str | None) and KINDS.get(kind) == KINDS[None] for kind in kinds))
    restored = tuple(read_content(decoded(one)) for one in entries)
    need(part, all(isinstance(one, ConformalPredictor) for one in restored))
    return restored


def merge(method: str, each: Sequence[Vector]) -> Vector:
    """Merge the p-values (or negated scores) of several predictors into a number that increases with each of them."""
    if method == "bonferroni":
        return reduce(np.minimum, each)
    if method == "majority":
        ranked: Vector = np.sort(np.stack(each), axis=0)[(len(each) - 1) // 2]
        return ranked
    return reduce(np.add, map(MEANS.get(method, MEANS["mean"]), each)) / len(each)


def p_value_of(method: str, merged: Vector, n_predictors: int) -> Vector:
    """Return the p-value of a merged value, valid for any dependence; for "fisher", for independent p-values.

    >>> p_value_of("mean", np.array([0.03, 0.7]), 3)
    array([0.06, 1.  ])
    """
    m = n_predictors
    if method in ("geometric", "harmonic"):
        transformed = np.exp(merged) if method == "geometric" else -1 / merged
        return np.minimum(1, constant(method, m) * transformed)
    if method == "cauchy":
        means, worst = cauchy_table(m)
        places = np.searchsorted(means, -merged, side="right") - 1  # the next smaller mean, with a larger p-value
        return np.where(places < 0, 1.0, worst[places])
    if method == "fisher":
        from scipy.special import chdtrc

        chi_squared: Vector = chdtrc(2 * m, -2 * m * merged)
        return chi_squared
    factor = {"bonferroni": m, "majority": m / ((m + 1) // 2), "mean": 2}[method]
    return np.minimum(1, factor * merged)


def constant(method: str, n_predictors: int) -> float:
    """Return the smallest factor with which the geometric or harmonic mean of p-values is a p-value.

    >>> round(constant("harmonic", 2), 4), round(constant("geometric", 1000), 4)
    (2.0, 2.7183)
    """
    if method == "geometric":
        return float(_dual_bound(lambda x: -np.exp(-x), 0.0, n_predictors, np.geomspace(1e-4, 2, 20_000)))
    widths = -np.expm1(-np.geomspace(1e-4, 30, 20_000))  # from 0 to 1, dense at both ends
    return float(_dual_bound(np.log, 1.0, n_predictors, widths))


@lru_cache(maxsize=16)
def cauchy_table(n_predictors: int) -> tuple[Vector, Vector]:
    """Return increasing values t, and for each the largest probability of mean cot(π·p) ≥ t over all dependences.

    The mean is over `n_predictors` p-values, each of which is uniform.
    """
    means = np.geomspace(1e-3, 1e8, 4000)
    shares = -np.expm1(-np.geomspace(1e-3, 30, 300))
    worst = [_dual_bound(_cauchy_primitive, mean, n_predictors, (1 + mean) * shares) for mean in means.tolist()]
    return read_only(means), read_only(np.minimum(1, worst))


def _cauchy_primitive(x: Vector) -> Vector:
    """Return an antiderivative of arctan(1/x)/π, the probability that a Cauchy variable is at least x."""
    primitive: Vector = (x * np.arctan2(1, x) + np.log1p(x * x) / 2) / math.pi
    return primitive


def _dual_bound(primitive: Callable[[Any], Any], mean: float, n_predictors: int, widths: Vector) -> Any:
    """Bound the probability that M dependent variables have at least this mean: the smallest bound over the widths w.

    `primitive` is the function G of the module docstring.
    """
    return ((primitive(mean + (n_predictors - 1) * widths) - primitive(mean - widths)) / widths).min()
