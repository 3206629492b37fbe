"""The conformal predictor: a calibrated score that turns rows of probabilities into prediction sets."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.card import Card, listed_names, promise_card, share
from pippin._conformal.cross import CrossRule, cross_from_content, rows_of_n_models
from pippin._conformal.explanation import Explanation, explain, explain_models
from pippin._conformal.frames import frame, like_rows
from pippin._conformal.interpolated import interpolated_from_content
from pippin._conformal.ip_ms import IpMsRule, ip_ms_from_content
from pippin._conformal.mondrian import KIND, Categories, group_codes
from pippin._conformal.overlapping import LARGEST, OverlappingRule, overlapping_from_content
from pippin._conformal.rules import (
    Calibrated,
    MondrianRule,
    Request,
    Rule,
    UnitsRule,
    WeightedRule,
    as_weights,
    marginal_from_content,
    mondrian_from_content,
    units_from_content,
    weighted_from_content,
)
from pippin._conformal.serialization import Content, decoded, need, read_content, shared_content, table_html
from pippin._conformal.sets import PointPredictions, PredictionSets
from pippin._engine import dispatch
from pippin._engine.draws import draws, generator_of
from pippin._engine.protocol import Draws
from pippin._runtime.arguments import checked_methods
from pippin._runtime.arrays import Classes, Codes, Indices, Seed, Vector, named
from pippin._runtime.errors import InputError, warn
from pippin._runtime.provenance import Provenance
from pippin._sharpening.serialization import from_content as sharpener_from_content
from pippin._sharpening.sharpener import one_row_of_features
from pippin._sharpening.step import SharpeningStep
from pippin._shift.label_shift import LabelRatios
from pippin._theory.scores import Score, aps, ip
from pippin._theory.spelling import INTERPOLATED, IpMs
from pippin._validation.batched import Batched, check_table_keywords, watched
from pippin._validation.fingerprints import estimate_repeated
from pippin._validation.index import same_index
from pippin._validation.labels import labels_of_rows
from pippin._validation.rows import as_one_row, as_rows, row_of_classes, select_columns

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes

ROUNDING = 1e-6  # tolerance for rounding errors of a sum of probabilities


@checked_methods
@dataclass(frozen=True, eq=False, repr=False)
class ConformalPredictor(Calibrated):
    """Calibrated nonconformity score that turns probabilities into prediction sets; `pippin.calibrate` returns it.

    Attributes:
        score: the nonconformity score.
        alpha: significance level (miscoverage); the largest one, if superclasses ("kinds") have different levels.
        n_calibration: number of calibration rows.
        classes: names of the columns, in their order.
        provenance: data files with checksums, date, author, command and versions; None if not recorded.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], classes=data.classes)
    >>> predictor.predict(data.probs[2000:])
    PredictionSets(2,986 objects, 12 classes, mean size 1.48, 73% singletons)
    """

    score: Score | IpMs
    alpha: float
    n_calibration: int
    classes: Classes
    _rule: Rule
    _sharpening: SharpeningStep | None = None
    provenance: Provenance | None = None

    @property
    def threshold(self) -> float:
        """Threshold: a set contains all classes whose score is at most this number; infinite with too few rows.

        Raises an InputError if the predictor has several thresholds.
        """
        thresholds = self.thresholds
        if thresholds.size != 1:
            raise InputError(f"Expected a predictor with one threshold, got {self!r}", "look at its thresholds")
        return float(thresholds[0, 0])

    @property
    def thresholds(self) -> Vector:
        """Thresholds: a set contains the classes whose score is at most their threshold.

        The shape is (groups, K), with a single row without groups, or (1, 1) for one threshold. It is
        (combinations, 1) for groups that may overlap, with a row for each of their combinations in `groups`.
        """
        rule = self._rule
        if isinstance(rule, MondrianRule | UnitsRule) or (isinstance(rule, OverlappingRule) and rule.groups):
            return rule.limits.scores
        raise InputError(f"Expected a predictor with thresholds of its own, got {self!r}", "look at its p_values")

    @property
    def rank_limits(self) -> Indices | None:
        """Largest rank with which each class can be in a set, (1, K), for per="rc3p"; None for other predictors.

        Rank 1 is the most probable class.
        """
        return self._rule.limits.ranks if isinstance(self._rule, MondrianRule) else None

    @property
    def confidence(self) -> float | None:
        """Probability, over calibration sets, that coverage is at least 1 − alpha (PAC guarantee).

        None for a predictor whose guarantee is on average over calibration sets.
        """
        return self._rule.confidence if isinstance(self._rule, MondrianRule) else None

    @property
    def calibration_scores(self) -> Vector | None:
        """Nonconformity scores of the true classes of the calibration rows; None if they are not stored.

        They are sorted; with a Mondrian taxonomy, they are listed category by category, and sorted in each of them.
        """
        rule = self._rule
        if isinstance(rule, MondrianRule):
            return rule.categories.scores
        if isinstance(rule, UnitsRule | WeightedRule | OverlappingRule):
            return rule.scores
        return np.sort(np.concatenate(rule.fold_scores)) if isinstance(rule, CrossRule) else None

    @property
    def guarantee(self) -> float:
        """Proven coverage: 1 − alpha, or less for cross-conformal prediction and for `ip/ms(variant=none)`.

        For a weighted predictor, it holds if the weights are correct. For a cross-conformal predictor, it is the larger
        of two bounds: one for exchangeable rows (`Vovk and Wang 2020 <https://arxiv.org/abs/1212.4966>`__), and one for
        independent rows, folds of equal size, and a training algorithm that is symmetric in its rows
        (`Barber et al. 2021 <https://arxiv.org/abs/1905.02928>`__).
        """
        return self._rule.guarantee(self)

    @property
    def takes(self) -> frozenset[str]:
        """Names of the keywords that `predict` uses: "groups", "weights", "features", and "seed" if sets are random.

        The name "folds" is no keyword. It means that `predict` needs (F, n, K) probabilities, a matrix for the model of
        each of F folds.
        """
        takes = set(self._rule.takes)
        if self.score.randomized or self._rule.randomized:
            takes.add("seed")
        if self._sharpening is not None:
            takes -= {"folds"}
            takes |= {"features"} if self._sharpening.n_features else set()
            takes |= {"seed"} if self._sharpening.combine == "mixture" else set()
        return frozenset(takes)

    def predict(
        self,
        probs: Any,
        *,
        groups: ArrayLike | None = None,
        weights: "ArrayLike | LabelRatios | None" = None,
        features: ArrayLike | None = None,
        seed: Seed = None,
        nonempty: bool = False,
        from_logits: bool = False,
    ) -> PredictionSets:
        """Return the prediction set of every row: all classes whose score is at most the threshold.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`. For a cross-conformal predictor, (F, n, K)
                probabilities, a matrix for the model of each fold; for a predictor with a stack, a matrix for each of
                its models. Or tables from `pippin.scan`.
            groups: the group of each row, if thresholds are per group; memberships as for `pippin.calibrate`, if groups
                may overlap.
            weights: the likelihood ratios of the rows, or the `LabelRatios`, of a weighted predictor.
            features: further features per object, for a sharpener (recalibration map) that was fitted with features.
            seed: for a randomized score, for per="groups randomized", and for a predictor that draws a sharpener for
                each object (`pippin.calibrate(..., sharpen="mixture")`); a seed or a Generator.
            nonempty: add the most probable class to empty sets, which can only increase coverage and size.
            from_logits: treat `probs` as logits and apply softmax.

        Returns:
            One set per row, with its members most probable first.

        Raises:
            InputError: `probs` are not probabilities of these classes, a keyword that the predictor needs is missing,
                or a keyword is passed that it does not use.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip", per="class")
        >>> predictor.predict(data.probs[2000:])
        PredictionSets(2,986 objects, 12 classes, mean size 2.28, 53% singletons)
        """
        if hasattr(probs, "batches"):
            others = {"groups": groups, "weights": weights, "features": features, "from_logits": from_logits or None}
            return self._predict_batches(probs, seed, nonempty, **others)
        request = self._request(probs, groups, weights, features, seed, False, from_logits)
        sets = self._rule.members(self._score, request)
        if nonempty:
            sets = self._rule.with_best(request, sets)
        return PredictionSets(*sets, self.classes, request.rows.index)

    def predict_one(
        self,
        row: Any,
        *,
        group: str | int | None = None,
        weight: "float | LabelRatios | None" = None,
        features: ArrayLike | None = None,
        seed: Seed = None,
        nonempty: bool = False,
    ) -> Indices:
        """Return the prediction set of one object.

        Latency is lowest for a predictor with one threshold. The first call in a process is slower, since it loads
        compiled code; `pippin.warm_up` loads it in advance.

        Args:
            row: its K probabilities, not logits; for a cross-conformal predictor (F, K), a row for the model of each
                fold; for a predictor with a stack a row for each model.
            group: the group of the object, if thresholds are per group; its memberships, one for each group, if groups
                may overlap.
            weight: the likelihood ratio of the object, or the `LabelRatios`, of a weighted predictor.
            features: further features of the object, for a sharpener (recalibration map) fitted with features.
            seed: for a randomized score, for per="groups randomized", and for a predictor that draws a sharpener for
                each object (`pippin.calibrate(..., sharpen="mixture")`); a seed or a Generator.
            nonempty: add the most probable class to an empty set.

        Returns:
            Class indices, most probable first.

        Raises:
            InputError: `row` is not a row of probabilities of these classes, a keyword that the predictor needs is
                missing, or a keyword is passed that it does not use.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip")
        >>> predictor.predict_one(data.probs[2003]).tolist()
        [7]
        """
        fast = self._fast
        if fast is None or nonempty or group is not None or weight is not None or features is not None:
            request = self._request_one(row, group, weight, features, seed)
            sets = self._rule.members(self._score, request)
            return self._rule.with_best(request, sets)[1] if nonempty else sets[1]
        randomized, one_set, threshold = fast
        u = generator_of(seed).random() if randomized or seed is not None else 0.0
        return one_set(as_one_row(row, self.classes), u, threshold)

    @cached_property
    def _fast(self) -> "tuple[bool, dispatch.OneSet, float] | None":
        """Randomized flag, compiled function and threshold for a fast `predict_one`; None with several thresholds."""
        if self._sharpening is not None or self.per is not None or not hasattr(self._rule, "limits"):
            return None
        return self.score.randomized, dispatch.one_set(self._score, len(self.classes)), self.threshold

    def p_values(
        self,
        probs: Any,
        labels: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        weights: "ArrayLike | LabelRatios | None" = None,
        features: ArrayLike | None = None,
        seed: Seed = None,
        smoothed: bool = False,
        from_logits: bool = False,
    ) -> Any:
        """Return the conformal p-value of each class, (n, K), or with `labels` of one class per row, (n,).

        For a class with score s, p = (1 + #{calibration scores >= s})/(n + 1); the set contains the classes with
        p > alpha. A Mondrian predictor counts only the calibration scores of the same category. A predictor that was
        calibrated with `weights` or `units` adds the weights of these scores instead of counting them.

        Args:
            probs: as for `predict`.
            labels: one class per row, as indices or as names; None for the p-values of all classes.
            groups: the group of each row, if thresholds are per group.
            weights: the likelihood ratios of the rows, or the `LabelRatios`, of a weighted predictor.
            features: further features per object, for a sharpener (recalibration map) that was fitted with features.
            seed: for a randomized score, for smoothed p-values, and for a predictor that draws a sharpener for each
                object (`pippin.calibrate(..., sharpen="mixture")`); a seed or a Generator.
            smoothed: count the calibration scores that equal the score of the class with a random weight, uniform in
                (0, 1). Not available for a predictor that was calibrated with `units` of several rows.
            from_logits: treat `probs` as logits and apply softmax.

        Returns:
            An array; a frame or series with index and class names, if `probs` is a pandas or polars frame.

        Raises:
            InputError: the predictor has no p-values, or `probs`, `labels` or a keyword are invalid.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:1999], data.labels[:1999], "pip")
        >>> predictor.p_values(data.probs[1999:2001], data.labels[1999:2001])
        array([0.3035, 0.8375])
        """
        self.check_p_values(smoothed)
        request = self._request(probs, groups, weights, features, seed, smoothed, from_logits)
        return like_rows(self._p_values(request, labels), request.rows, self.classes)

    def _p_values(self, request: Request, labels: ArrayLike | None) -> Vector:
        rows = request.rows
        if labels is not None:
            if rows.index is not None:
                same_index("probs", rows.index, labels=labels)
            return self._rule.label_p_values(request, self._score, labels_of_rows(labels, rows, self.classes))
        every = np.empty((rows.n, rows.n_classes))

        def use(start: int, p: Vector) -> None:
            every[start : start + len(p)] = p

        self._rule.class_p_values(request, self._score, use)
        return every

    def point_predictions(
        self,
        probs: Any,
        *,
        groups: ArrayLike | None = None,
        weights: "ArrayLike | LabelRatios | None" = None,
        features: ArrayLike | None = None,
        seed: Seed = None,
        smoothed: bool = False,
        from_logits: bool = False,
    ) -> PointPredictions:
        """Return the class with the largest p-value of each row, with its confidence and credibility.

        Ties are broken by probability. A class without calibration rows has p = 1 for every object: it is not
        selected, but since it may be the true class, confidence is 0.

        Args:
            probs: as for `predict`.
            groups: the group of each row, if thresholds are per group.
            weights: the likelihood ratios of the rows, or the `LabelRatios`, of a weighted predictor.
            features: further features per object, for a sharpener (recalibration map) that was fitted with features.
            seed: for a randomized score, for smoothed p-values, and for a predictor that draws a sharpener for each
                object (`pippin.calibrate(..., sharpen="mixture")`); a seed or a Generator.
            smoothed: count the calibration scores that equal the score of the class with a random weight, uniform in
                (0, 1). Not available for a predictor that was calibrated with `units` of several rows.
            from_logits: treat `probs` as logits and apply softmax.

        Returns:
            The classes, with confidence and credibility.

        Raises:
            InputError: the predictor has no p-values, or `probs` or a keyword are invalid.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:1999], data.labels[:1999], "pip", classes=data.classes)
        >>> predictor.point_predictions(data.probs[1999:])
        PointPredictions(2,987 objects, mean confidence 0.938, mean credibility 0.549)
        """
        self.check_p_values(smoothed)
        request = self._request(probs, groups, weights, features, seed, smoothed, from_logits)
        rows, rule, unseen = request.rows, self._rule, self._rule.unseen_classes()
        if unseen is None:
            pair = dispatch.best_two(rows)
            largest, second = (rule.label_p_values(request, self._score, codes) for codes in pair)
            return PointPredictions(named(pair[0], self.classes), 1 - second, largest)
        best, largest, second = np.empty(rows.n, dtype=np.int64), np.empty(rows.n), np.empty(rows.n)

        def use(start: int, p: Vector) -> None:  # receives the p-values of a block of rows
            stop = start + len(p)
            part, row = slice(start, stop), np.arange(len(p))
            eligible = np.where(unseen[0 if request.group is None else request.group[part]], -1, p)
            at_top = eligible == eligible.max(axis=1, keepdims=True)
            best[part] = np.where(at_top, rule.top(rows, request, start, stop), -1).argmax(axis=1)
            largest[part] = p[row, best[part]]
            p[row, best[part]] = -1
            second[part] = p.max(axis=1)

        rule.class_p_values(request, self._score, use)
        return PointPredictions(named(best, self.classes), 1 - second, largest)

    def explain(
        self,
        row: Any,
        *,
        group: str | int | None = None,
        weight: "float | LabelRatios | None" = None,
        features: ArrayLike | None = None,
        seed: Seed = None,
    ) -> Explanation:
        """Explain the prediction set of one object: rank, probability, score, threshold and p-value of each class.

        Args:
            row: its K probabilities, not logits; for a predictor with a stack a row for each model.
            group: the group of the object, if thresholds are per group.
            weight: the likelihood ratio of the object, or the `LabelRatios`, of a weighted predictor.
            features: further features of the object, for a sharpener (recalibration map) fitted with features.
            seed: for a randomized score, and for a predictor that draws a sharpener for each object
                (`pippin.calibrate(..., sharpen="mixture")`); a seed or a Generator.

        Returns:
            The explanation; `print` shows it as a table.

        Raises:
            InputError: the predictor is cross-conformal, or `row` or a keyword are invalid.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip", classes=data.classes)
        >>> print(predictor.explain(data.probs[2001]).sentence)
        1 of 12 classes is in the set: charlock.
        """
        rule = self._rule
        if isinstance(rule, CrossRule):
            what = f"Expected a predictor with one score for each class, got {self!r}"
            raise InputError(what, "look at its p_values instead")
        request = self._request_one(row, group, weight, features, seed)
        score = rule.deciding_score(request) if isinstance(rule, IpMsRule) else self._score
        p = None if self._p_values_error() else self._p_values(request, None)[0]
        inside = PredictionSets(*rule.members(self._score, request), self.classes).mask[0]
        explanation = explain(request, score, rule.bounds(request), inside, p, self.alpha)
        single = self._sharpening is not None and self._sharpening.combine == "single"
        return explain_models(self.sharpeners[0], row, explanation) if single else explanation

    def table(self) -> "polars.DataFrame":
        """Return a table of the thresholds: one row per class (and group), with calibration rows and expected coverage.

        `expected_coverage` is k/(n + 1) for a threshold that is the k-th smallest of n scores: the mean coverage over
        calibration sets, if scores have no ties. For per="cluster" it is the coverage of all classes of a cluster
        together, for per="interpolated" that of all classes together; for per="rc3p" it is a lower bound. It is null
        where there is no guarantee: for groups without calibration rows, and for classes that are too rare for a
        cluster (their threshold is that of all rows). `lacking` is the number of calibration rows that are missing for
        a finite threshold. For groups that may overlap, the table has one row per combination of groups, with its
        calibration rows and its threshold.

        Returns:
            A polars frame.

        Raises:
            InputError: the predictor has no thresholds of Mondrian categories, since it is weighted, cross-conformal, a
                combination of two scores, calibrated with `units`, or draws a sharpener for each object.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs, data.labels, "pip", classes=data.classes, per="class")
        >>> predictor.table().select("class", "n", "expected_coverage").row(0)
        ('black_grass', 273, 0.9014598540145985)
        """
        rule = self._rule
        if isinstance(rule, OverlappingRule) and rule.groups:
            thresholds: polars.DataFrame = frame(rule.table(self))
            return thresholds
        if not isinstance(rule, MondrianRule) or self._mixture:
            raise InputError(f"Expected a predictor with thresholds per category, got {self!r}", "look at describe()")
        categories, levels = rule.categories, rule.levels or self.alpha
        n_groups, n_classes = categories.lookup.shape
        category = categories.lookup.ravel()
        counts = categories.counts[category]
        reached = np.minimum(categories.quantile_ranks(levels, rule.confidence)[category], counts + 1)
        columns: dict[str, Any] = {}
        if self.groups is not None:
            names = self.groups
            if None in names:
                names = tuple("(any other)" if name is None else str(name) for name in names)
            columns["group"] = [name for name in names for _ in range(n_classes)]
        columns["class"] = list(self.classes) * n_groups
        if rule.kinds is not None:
            columns[KIND] = rule.kinds.per_class()
        promised = np.repeat([name is not None for name in self.groups or ("all",)], n_classes)
        if self.per == "cluster":
            promised = (counts < self.n_calibration) | (len(categories.counts) == 1)
            columns["cluster"] = [int(category[k]) if promised[k] else None for k in range(n_classes)]
        columns |= {"n": counts, "threshold": np.broadcast_to(self.thresholds, categories.lookup.shape).ravel()}
        if self.rank_limits is not None:
            columns["rank_limit"] = self.rank_limits.ravel()
        expected = reached / (counts + 1)
        columns["expected_coverage"] = [float(expected[i]) if promised[i] else None for i in range(len(expected))]
        columns["lacking"] = np.maximum(categories.needed(levels, rule.confidence)[category] - counts, 0)
        table: polars.DataFrame = frame(columns)
        return table

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the calibration scores with the threshold, or the threshold of each Mondrian category.

        Args:
            ax: Matplotlib axes to draw on; new axes by default.

        Returns:
            The Matplotlib axes.

        Raises:
            InputError: the predictor has no calibration scores.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> axes = pippin.calibrate(data.probs, data.labels, "pip", per="class", classes=data.classes).plot()
        """
        from pippin._plotting.calibration import category_names, plot_scores, plot_thresholds

        if self.per is not None:
            table = self.table().to_dict(as_series=False)
            names = category_names(table, self.per)
            rows = {name: row for row, name in enumerate(names)}.values()  # last table row of each category
            notes = [f"{table['n'][row]:,} examples" for row in rows]
            thresholds = np.array([table["threshold"][row] for row in rows])
            text = f"{self.score} per {self.per}", "threshold: classes that score up to this enter the set"
            return plot_thresholds([names[row] for row in rows], thresholds, notes, text, ax)
        self._need_scores("has no picture")
        scores = self.calibration_scores
        if scores is None:
            raise InputError(f"{self!r} has no calibration scores, so it has no picture", "look at describe()")
        return plot_scores(scores, *self._rule.picture(), str(self.score), ax)

    def describe(self) -> str:
        """Describe the predictor and its guarantee in one sentence.

        Returns:
            The sentence.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> pippin.calibrate(data.probs, data.labels, "pip").describe()
        'pip with threshold 1.7366, from 4,986 rows: its sets contain the true class with probability at least 90%.'
        """
        step = self._sharpening
        if step is not None and step.combine == "mixture":
            return (
                f"{self.score} behind {len(step.sharpeners)} sharpeners, each with a threshold from rows that it did "
                f"not learn on, of which every object draws one, from {self.n_calibration:,} rows: its sets contain "
                f"the true class with probability at least {100 * self.guarantee:g}%."
            )
        text = self._rule.describe(self)
        return text if step is None else f"{text[:-1]}; {step.describe()}."

    def _promise(self) -> Card:
        rule, step = self._rule, self._sharpening
        names = listed_names(self.classes)
        what = f"A conformal predictor: sets of {len(self.classes):,} classes by the nonconformity score {self.score}"
        level = self._level()
        if self.guarantee < 1 - self.alpha:
            usual, proven = share(1 - self.alpha), f"{100 * self.guarantee:.3g}%"
            level = f"alpha = {self.alpha:g}: coverage of {usual} is usual, {proven} is proven"
        if step is not None:
            what += ", of probabilities that a sharpener recalibrates"
        return promise_card(
            what=f"{what}. Classes: {names}.",
            guarantee=self.describe(),
            level=f"{level}.",
            condition=self._condition(),
            variation=self._variation(),
            limits=rule.limits_of_guarantee(),
            rows=f"{rule.rows(self)}.",
        )

    def content(self, scores: bool = True) -> dict[str, Any]:
        """Return the data that `save` writes to a file, from which `pippin.load` restores the predictor.

        Args:
            scores: include the calibration scores; only a marginal or Mondrian predictor can predict without them.

        Returns:
            A dictionary of numbers, strings, lists and nested dictionaries.

        Raises:
            InputError: the predictor needs its calibration scores to predict.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip")
        >>> predictor.content(scores=False)["threshold"] == predictor.threshold
        True
        """
        rule, step = self._rule, self._sharpening
        if not scores and not isinstance(rule, MondrianRule):
            what = "The calibration scores of this predictor are needed for its sets, so its file cannot leave them out"
            raise InputError(what, "save with scores=True")
        if self._mixture:
            return self._mixture_content(scores)
        own = {} if isinstance(rule, IpMsRule) else {"score": self._score.content()}
        content = {**own, **shared_content(self), **rule.content(scores)}
        return content if step is None else self._sharpened_content(content, step.sharpeners)

    def _repr_html_(self) -> str:
        if self.per is None or (isinstance(self._rule, OverlappingRule) and not self._rule.groups):
            return super()._repr_html_()
        return table_html(f"ConformalPredictor: {self.describe()}", self.table())

    def __repr__(self) -> str:
        way = {None: "", "rc3p": " rc3p", INTERPOLATED: f" {INTERPOLATED}"}.get(self.per, f" per {self.per}")
        sharpened = {None: "", "single": " sharpened", "folds": " sharpened", "mixture": " sharpened in a mixture"}
        step = sharpened[None if self._sharpening is None else self._sharpening.combine]
        return self._repr(f"{self.score}{step}{way}", *self._rule.facts(self))

    def group_codes(self, groups: ArrayLike | None, n: int) -> Codes | None:
        """Return, for each object, the number of the row of `thresholds` that applies to its group.

        Args:
            groups: the group of each object, integers or text; 1 and "1" are the same group. Memberships, if groups
                may overlap.
            n: the number of objects.

        Returns:
            Row numbers, (n,); None if the predictor has no groups.

        Raises:
            InputError: groups are missing, or the predictor does not use groups, or a group has no calibration rows.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:4], data.labels[:4], "pip", 0.5, groups=["a", "b", "a", "b"])
        >>> predictor.group_codes(["b", "a"], 2)
        array([1, 0])
        """
        if isinstance(self._rule, OverlappingRule):
            return self._rule.group_codes(groups, n)
        return group_codes(self.groups, self.per or "all rows together", groups, n)

    def _warn_of_infinite(self) -> None:
        """Warn of infinite thresholds, and of a threshold of 1 of APS without randomization."""
        super()._warn_of_infinite()
        one_threshold = self.per is None and hasattr(self._rule, "limits")
        if self.score == aps(randomized=False) and one_threshold and abs(self.threshold - 1) < ROUNDING:
            warn(
                f"The threshold of {self.score} is 1, the score of classes of probability 0 without randomization: "
                "sets contain them. Use randomized=True, which has smaller sets."
            )

    @property
    def _score(self) -> Any:
        """Score that is passed to the rule, typed as Any.

        `self.score` may be an `IpMs`, which is not a `Score`; the rule of IP/MS does not use this argument.
        """
        return self.score

    def _repeated_rows(self, probs: Any, labels: Codes, features: ArrayLike | None, from_logits: bool) -> int:
        """Estimate the number of calibration rows among these rows, from calibration scores that occur once.

        It is 0 without calibration scores, and with a randomized score.
        """
        rule, step, score = self._rule, self._sharpening, self._score
        known = self.calibration_scores
        if isinstance(rule, IpMsRule):
            score, known = ip(), rule.labels and rule.labels.ip
        if known is None or score.randomized:
            return 0
        if step is not None:
            every = step.rows(probs, features, from_logits)
        elif isinstance(rule, CrossRule):
            every = rows_of_n_models(probs, len(rule.fold_scores), self.classes, from_logits)
        else:
            every = (select_columns(self.classes, as_rows(probs, from_logits)),)
        known = known[-self.n_calibration :]  # a score that is also in a pooled category occurs twice
        scores = (dispatch.label_scores(rows, labels, score, np.zeros(rows.n)) for rows in every)
        return sum(estimate_repeated(known, of_model) for of_model in scores)

    def _p_values_error(self) -> InputError | None:
        """Return the InputError that explains why this predictor has no p-values; None if it has p-values."""
        if isinstance(self._rule, MondrianRule) and self._rule.categories.raw_scores is None:
            what = "This predictor was saved without its calibration scores, so it can give no p-values"
            return InputError(what, "calibrate again, or save with scores=True")
        if isinstance(self._rule, IpMsRule):
            what = "The IP/MS combination chooses between two sets, so no p-value belongs to a class"
        elif self.rank_limits is not None:
            what = "The sets of per='rc3p' bound the rank of a class too, so no p-value belongs to them"
        elif isinstance(self._rule, OverlappingRule) and self.per != LARGEST:
            what = f"The sets of per={self.per!r} come from a regression at one level, so no p-value belongs to them"
            return InputError(what, "calibrate with per='largest group' for p-values")
        else:
            return None
        return InputError(what, "calibrate with per='class', or one score such as ip, for p-values")

    def check_p_values(self, smoothed: bool = False) -> None:
        """Raise an InputError if the predictor has no p-values, or no smoothed ones.

        Args:
            smoothed: if True, smoothed p-values are required.

        Raises:
            InputError: the predictor has no such p-values.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip")
        >>> predictor.check_p_values()
        """
        if smoothed and isinstance(self._rule, UnitsRule) and self._rule.n_units < self.n_calibration:
            what = "Smoothed p-values of clustered rows may be too small, so this predictor has none"
            raise InputError(what, "leave smoothed= out")
        if error := self._p_values_error():
            raise error

    def _request(
        self, probs: Any, groups: Any, weights: Any, features: Any, seed: Seed, smoothed: bool, from_logits: bool
    ) -> Request:
        """Validate arguments of `predict` or `p_values`; draw u of randomized scores, then v of smoothed p-values."""
        step, rule, part = self._sharpening, self._rule, None
        folds: tuple[Any, ...] = ()
        if step is None:
            if features is not None:
                raise InputError("Expected features= only for a sharpened predictor, got some", "leave them out")
            if isinstance(rule, CrossRule):
                folds = rows_of_n_models(probs, len(rule.fold_scores), self.classes, from_logits)
            rows = folds[0] if folds else as_rows(probs, from_logits)
        elif step.combine == "mixture":
            seed = generator_of(seed)
            rows, part = step.mixed(probs, features, from_logits, seed)
        else:
            sharper = step.rows(probs, features, from_logits)
            rows, folds = sharper[0], sharper if step.combine == "folds" else ()
        rows = select_columns(self.classes, rows)
        if rows.index is not None:
            same_index("probs", rows.index, groups=groups, weights=weights)
        group, memberships = part, None
        if isinstance(rule, OverlappingRule):
            memberships = rule.memberships(groups, rows.n)
        elif groups is not None or rule.groups is not None:
            group = self.group_codes(groups, rows.n)
        smoothed |= rule.randomized
        seed = generator_of(seed) if smoothed else seed
        u = draws(self._score, rows.n, seed)
        v = generator_of(seed).random(rows.n) if smoothed else None
        # With several sharpeners, draw u for all rows under the first sharpener, then for all rows under the second, …
        if part is not None and self.score.randomized:
            u[np.argsort(part, kind="stable")] = u.copy()
        own = self._own_weights(weights, rows.n)
        return Request(rows, Draws(u, v), self.classes, group, own, folds, memberships)

    def _own_weights(self, weights: "ArrayLike | LabelRatios | None", n: int) -> Vector | None:
        """Return the weights of n objects, (n, 1), or with `LabelRatios` the weight of each class, (1, K)."""
        if weights is None and "weights" in self._rule.takes:
            remedy = "pass weights=, the likelihood ratios of the rows"
            raise InputError("This predictor is weighted, and got no weights", remedy)
        if weights is None:
            return None
        if "weights" not in self._rule.takes:
            raise InputError("This predictor is not weighted, but got weights", "leave weights= out")
        if isinstance(weights, LabelRatios):
            return as_weights(weights.agreeing(self.classes).ratios, len(self.classes))[None]
        return as_weights(weights, n)[:, None]

    def _request_one(self, row: Any, group: Any, weight: Any, features: Any, seed: Seed) -> Request:
        """Check the arguments of `predict_one` or `explain`, and return a request with one row."""
        takes = self._rule.takes
        for name, value in (("group", group), ("weight", weight)):
            if (value is None) == (f"{name}s" in takes):
                remedy = f"pass {name}= of the object" if value is None else f"leave {name}= out"
                what = f"Expected {'a' if value is None else 'no'} {name} with the row, got {value!r}"
                raise InputError(what, remedy)
        probs: Any
        if self._sharpening is not None:
            probs = self._sharpening.one_object(row)
        elif isinstance(self._rule, CrossRule):
            probs = [row_of_classes(self.classes, one)[None] for one in row]
        else:
            probs = row_of_classes(self.classes, row)[None]
        given = one_row_of_features(features)
        weights: Any = weight if weight is None or isinstance(weight, LabelRatios) else [weight]
        return self._request(probs, None if group is None else [group], weights, given, seed, False, False)

    def _predict_batches(self, source: Batched, seed: Seed, nonempty: bool, **others: Any) -> PredictionSets:
        """Predict the sets of tables, batch by batch; `others` are keywords that are not supported for tables."""
        check_table_keywords(others, "leave it out, since tables bring their own columns")
        if self._rule.takes - {"groups"} or "features" in self.takes:
            raise InputError(f"Expected rows in memory for {self!r}, got tables", "read them into arrays first")
        needs = ("groups",) if "groups" in self._rule.takes else ()
        generator, every = generator_of(seed), []
        for batch in watched(source, *needs):
            with batch.naming():
                own = batch.groups if needs else None
                every.append(self.predict(batch.rows, seed=generator, nonempty=nonempty, groups=own))
        sizes, members = (np.concatenate([getattr(one, name) for one in every]) for name in ("sizes", "members"))
        return PredictionSets(sizes, members, self.classes)


RULE_READERS = {
    None: marginal_from_content,
    "conditional": mondrian_from_content,
    "weighted": weighted_from_content,
    "units": units_from_content,
    "cross": cross_from_content,
    "combination": ip_ms_from_content,
    "interpolated": interpolated_from_content,
    "overlapping": overlapping_from_content,
}


def from_content(content: Content) -> Any:
    """Restore a predictor of any type, or a decider with several sharpeners, from the content of its file."""
    if content.kind == "sharpened mixture":
        return _mixture_from_content(content)
    if content.kind == "sharpened":
        return _sharpened_from_content(content)
    score: Any = None if content.kind == "combination" else content.score()
    alpha, n, classes = content.shared()
    rule: Rule = RULE_READERS[content.kind](content, alpha, n, classes)
    content.finish()
    return ConformalPredictor(rule.spec if isinstance(rule, IpMsRule) else score, alpha, n, classes, rule)


def _sharpened_from_content(content: Content) -> Any:
    inner = content.take("base", lambda value: isinstance(value, dict) and "sharpened" not in str(value.get("kind")))
    base = read_content(decoded(inner))
    need("base", isinstance(base, Calibrated))
    n_folds = len(base._rule.fold_scores) if isinstance(base._rule, CrossRule) else None
    return replace(base, _sharpening=sharpening_from_content(content, base.classes, n_folds))


def sharpening_from_content(content: Content, classes: Classes, n_folds: int | None) -> SharpeningStep:
    """Restore the sharpeners (recalibration maps) of a file, its last entry: one per fold, or one without folds."""
    sharpeners = tuple(map(sharpener_from_content, content.parts("sharpeners", "sharpener")))
    content.finish()
    need("sharpeners", len(sharpeners) == (n_folds or 1))
    need("sharpeners", all(sharpener.classes == classes for sharpener in sharpeners))
    need("sharpeners", len({(sharpener.n_features, sharpener.feature_names) for sharpener in sharpeners}) == 1)
    return SharpeningStep(sharpeners, "folds" if n_folds else "single")


def _mixture_from_content(content: Content) -> Any:
    parts = [_sharpened_from_content(part) for part in content.parts("parts", "sharpened")]
    content.finish()
    need("parts", len(parts) > 1 and len({(type(part), part.alpha, tuple(part.classes)) for part in parts}) == 1)
    need("parts", all(part.per is None and isinstance(part._rule, MondrianRule) for part in parts))
    sharpeners = [part.sharpeners[0] for part in parts]
    need("parts", len({(sharpener.n_features, sharpener.feature_names) for sharpener in sharpeners}) == 1)
    return mixture(parts, sharpeners)


def mondrian_of(predictor: ConformalPredictor) -> MondrianRule:
    """Return the rule of a marginal or Mondrian predictor."""
    assert isinstance(predictor._rule, MondrianRule)
    return predictor._rule


def without_scores(predictor: ConformalPredictor) -> ConformalPredictor:
    """Return a copy of a Mondrian or marginal predictor without its calibration scores."""
    rule = mondrian_of(predictor)
    return replace(predictor, _rule=replace(rule, categories=replace(rule.categories, raw_scores=None, ranks=None)))


def mixture(parts: list[Any], sharpeners: Any) -> Any:
    """Join predictors or decision policies, each with its own sharpener (recalibration map), into a mixture.

    A new row uses one of them at random. Each was calibrated on rows that its sharpener was not fitted on.
    """
    n_classes, counts = len(parts[0].classes), [part.n_calibration for part in parts]
    scores = [part.calibration_scores for part in parts if part.calibration_scores is not None]
    joined = np.concatenate(scores) if len(scores) == len(parts) else None
    lookup = np.repeat(np.arange(len(parts), dtype=np.int32)[:, None], n_classes, axis=1)
    rule = MondrianRule(Categories(lookup, np.concatenate([[0], np.cumsum(counts)]), joined))
    limits = rule.limits._replace(scores=np.concatenate([part._rule.limits.scores for part in parts]))
    step = SharpeningStep(tuple(sharpeners), "mixture")
    return replace(parts[0], n_calibration=sum(counts), _rule=replace(rule, limits=limits), _sharpening=step)
