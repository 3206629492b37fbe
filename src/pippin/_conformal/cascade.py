"""Cascades: a cheap model answers for the objects that it is sure of, and a more expensive model for the others.

Each model but the last has an exit limit: an object leaves the cascade at the first model whose largest probability
reaches its limit. The limits are fixed before calibration, so the row of the model at which an object leaves is a
function of the object alone. Calibration on these rows is split conformal prediction, and with a threshold per stage
Mondrian conformal prediction with the stage as the group.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._conformal.calibrate import calibrate
from pippin._conformal.card import Card
from pippin._conformal.combined import predictors_from_content
from pippin._conformal.cross import rows_of_n_models
from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.serialization import Content, SavedDataclass, need, whole_numbers
from pippin._conformal.sets import PredictionSets
from pippin._engine import dispatch
from pippin._engine.draws import draws, generator_of
from pippin._runtime.arrays import Classes, Codes, Flags, Indices, Seed, Vector, named, read_only
from pippin._runtime.errors import InputError
from pippin._runtime.provenance import Provenance
from pippin._theory.level import as_alpha, quantile_rank
from pippin._theory.planning import beta_quantile
from pippin._theory.scores import Score
from pippin._theory.spelling import parse_score
from pippin._validation.index import same_index
from pippin._validation.labels import as_rows_and_classes, labels_of_rows
from pippin._validation.rows import Rows, as_rows, row_of_classes, select_columns

PER_STAGE = (None, "stage")
N_CANDIDATES = 100  # number of exit limits that are tried
NORMAL_95 = 1.645  # quantile of the normal distribution


def cascade(
    models: Iterable[tuple[Any, float]],
    labels: Any,
    score: Score | str = "repip",
    alpha: float = 0.1,
    *,
    exits: float | Sequence[float] | None = None,
    classes: Classes | None = None,
    per: Literal["stage"] | None = None,
    tolerance: float = 0.02,
    learning_fraction: float = 0.3,
    seed: Seed = None,
    from_logits: bool = False,
) -> "Cascade":
    """Calibrate a cascade of models: objects that a cheap model is sure of never reach the expensive one.

    An object leaves the cascade at the first model whose largest probability reaches an exit limit, or at the last
    model. Its set follows from the probabilities of this model. The limits do not depend on the calibration rows, so
    coverage is at least 1 − alpha as for a single model, and with per="stage" also among the objects of each stage.

    Without `exits`, a share of the rows is set aside to choose one limit for all models. Smaller limits are cheaper.
    They are tried in decreasing order as long as sets are on average at most `tolerance` larger than those of the last
    model at the same coverage, at an approximate confidence of 95%.

    Cascades were combined with conformal prediction by `Fisch et al. (2021) <https://arxiv.org/abs/2007.03114>`__, who
    also proposed labels with several admissible answers.

    Args:
        models: pairs (probabilities, cost), the cheapest model first: (n, K) matrices of the same labeled rows, and
            the cost of running the model for one object, such as milliseconds.
        labels: the true classes, as indices or as names. Or several admissible classes per row, as for
            `pippin.models.admissible_labels`; sets then contain at least one of them.
        score: a score, or its name with parameters.
        alpha: significance level (miscoverage).
        exits: the exit limits, probabilities: one for all models but the last, or one for each of them. They must not
            be chosen on these rows. None to set rows aside to choose one.
        classes: names of the K columns; by default the column names of a data frame.
        per: "stage" for a threshold per stage, and a guarantee within each; by default there is one threshold.
        tolerance: relative increase in mean set size that the chosen exit limit may cause, compared with the last model
            alone; 0.02 allows sets that are 2% larger.
        learning_fraction: the share of rows that is set aside for this choice.
        seed: for randomized scores and for setting rows aside; a seed or a Generator.
        from_logits: treat all matrices as logits and apply softmax.

    Returns:
        The calibrated cascade.

    Raises:
        InputError: the models do not fit together, or an argument is invalid.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> small = (data.probs + 0.1) / (data.probs + 0.1).sum(axis=1, keepdims=True)
    >>> models = [(small[:2500], 1), (data.probs[:2500], 20)]
    >>> cascade = pippin.models.cascade(models, data.labels[:2500], exits=0.4)
    >>> cascade
    Cascade(repip, alpha=0.1, 80% settled by model 0, 2,500 calibration examples, 12 classes)
    >>> cascade.predict([small[2500:], lambda objects: data.probs[2500:][objects]])
    PredictionSets(2,486 objects, 12 classes, mean size 1.47, 60% singletons)
    """
    pairs = [tuple(pair) for pair in models]
    if len(pairs) < 2 or any(len(pair) != 2 for pair in pairs):
        raise InputError(f"Expected two or more pairs (probabilities, cost), got {len(pairs)}", "cheapest model first")
    if per not in PER_STAGE:
        raise InputError(f"Expected per to be None or 'stage', got {per!r}")
    costs, chosen, generator = _costs([cost for _, cost in pairs]), parse_score(score), generator_of(seed)
    first, names = as_rows_and_classes(pairs[0][0], classes, from_logits)
    rows = rows_of_n_models([first, *(probs for probs, _ in pairs[1:])], len(pairs), names, from_logits)
    rows, mask = tuple(part.verified() for part in rows), _admissible(labels, rows[0], names)
    kept = np.arange(len(mask))
    if exits is None:
        fraction = as_alpha(learning_fraction, "learning_fraction", "pass 0.3 for instance")
        order, cut = generator.permutation(len(mask)), round(fraction * len(mask))
        if not 0 < cut < len(mask):
            raise InputError(f"Expected more rows to choose the exit limit on, got {len(mask)}", "pass exits=")
        learning, kept = np.sort(order[:cut]), np.sort(order[cut:])
        part = tuple(one.take(learning) for one in rows)
        exits = _choose_exit(part, mask[learning], chosen, as_alpha(alpha), per, tolerance, generator)
    limits = _exits(exits, len(pairs))
    settled, stages = _route([one.take(kept) for one in rows], limits, names, from_logits)
    counts = np.bincount(stages, minlength=len(pairs))
    if per is not None and not counts.all():
        what = f"Expected calibration rows in every stage, got none that leave at model {int(counts.argmin())}"
        raise InputError(what, "pass other exits=, or leave per= out")
    own, groups = named(_best_of(settled, mask[kept]), names), None if per is None else stages
    predictor = calibrate(settled.array, own, chosen, alpha, classes=names, groups=groups, seed=generator)
    return Cascade(predictor, limits, costs, read_only(counts))


@dataclass(frozen=True, eq=False, repr=False)
class Cascade(SavedDataclass):
    """Calibrated cascade of models; `pippin.models.cascade` returns it.

    Attributes:
        predictor: the conformal predictor of the rows that `run` returns.
        exits: for each model but the last, the limit that the largest probability of an object must reach to leave the
            cascade at this model.
        costs: the cost of running each model for one object.
        counts: the number of calibration rows that left at each model.
        provenance: data files with checksums, date, author, command and versions; None if not recorded.
    """

    predictor: ConformalPredictor
    exits: tuple[float, ...]
    costs: tuple[float, ...]
    counts: Codes
    provenance: Provenance | None = None

    @property
    def classes(self) -> Classes:
        """Names of the columns, in their order."""
        return self.predictor.classes

    @property
    def alpha(self) -> float:
        """Significance level (miscoverage)."""
        return self.predictor.alpha

    @property
    def n_calibration(self) -> int:
        """Number of calibration rows."""
        return self.predictor.n_calibration

    @property
    def takes(self) -> frozenset[str]:
        """Inputs of `predict`: "folds", which stands for one matrix per model, and "seed" if sets are random."""
        return self.predictor.takes - {"groups"} | {"folds"}

    @property
    def cost(self) -> float:
        """Mean cost of a calibration row, the sum of the costs of all models that it ran through."""
        return float(self._reached() @ np.array(self.costs) / self.n_calibration)

    def cost_bound(self, confidence: float = 0.95) -> float:
        """Return an upper bound of the expected cost of an object, exact for independent rows.

        The number of calibration rows that reach a model is binomial; the bound adds the upper Clopper–Pearson limits
        of all models but the first, each at the confidence 1 − (1 − confidence)/(M − 1).

        Args:
            confidence: probability over calibration sets that the expected cost is at most the bound.

        Returns:
            The bound, in the units of the costs.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> models = [(data.probs, 1), (data.probs, 20)]
        >>> cascade = pippin.models.cascade(models, data.labels, exits=0.9)
        >>> round(cascade.cost, 2), round(cascade.cost_bound(), 2)
        (7.28, 7.5)
        """
        n, delta = self.n_calibration, (1 - as_alpha(confidence, "confidence", "0.95 for instance")) / len(self.exits)
        reached = zip(self.costs[1:], self._reached()[1:].tolist(), strict=True)
        return self.costs[0] + sum(
            cost * (1.0 if k == n else beta_quantile(1 - delta, k + 1, n - k)) for cost, k in reached
        )

    def _reached(self) -> Codes:
        """Return the number of calibration rows that ran through each model."""
        reached: Codes = np.cumsum(self.counts[::-1])[::-1]
        return reached

    def run(self, models: Any, *, from_logits: bool = False) -> tuple[Any, Codes]:
        """Run every model on the objects that reach it.

        Args:
            models: for each model an (n, K) matrix of probabilities, or for later models a function. It receives the
                positions of the objects that reach the model, and returns their rows.
            from_logits: treat the rows of all models as logits and apply softmax.

        Returns:
            The probabilities of each object by the model at which it left, (n, K), and the index of this model, (n,).

        Raises:
            InputError: a model does not return a row of probabilities of these classes for each object.
        """
        rows, stages = self._rows(models, from_logits)
        return rows.array, stages

    def _rows(self, models: Any, from_logits: bool) -> tuple[Rows, Codes]:
        if len(models) != len(self.costs):
            raise InputError(f"Expected {len(self.costs)} models, got {len(models)}", "pass a matrix or function each")
        return _route(models, self.exits, self.classes, from_logits)

    def predict(
        self, models: Any, *, seed: Seed = None, nonempty: bool = False, from_logits: bool = False
    ) -> PredictionSets:
        """Return the prediction set of every object.

        Args:
            models: as for `run`.
            seed: for a randomized score; a seed or a Generator.
            nonempty: add the most probable class to empty sets.
            from_logits: treat the rows of all models as logits and apply softmax.

        Returns:
            One set per object, with its members most probable first.

        Raises:
            InputError: a model does not return a row of probabilities of these classes for each object.
        """
        rows, stages = self._rows(models, from_logits)
        groups = None if self.predictor.groups is None else stages
        sets = self.predictor.predict(rows.array, groups=groups, seed=seed, nonempty=nonempty)
        return replace(sets, index=rows.index)

    def predict_one(self, rows: Sequence[Any], *, seed: Seed = None, nonempty: bool = False) -> Indices:
        """Return the prediction set of one object.

        Args:
            rows: for each model the K probabilities of the object, or a function without arguments that returns them;
                it is called only if the object reaches the model.
            seed: for a randomized score; a seed or a Generator.
            nonempty: add the most probable class to an empty set.

        Returns:
            Class indices, most probable first.

        Raises:
            InputError: a row is not a row of probabilities of these classes.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> models = [(data.probs[:2000], 1), (data.probs[:2000], 20)]
        >>> cascade = pippin.models.cascade(models, data.labels[:2000], exits=0.9)
        >>> cascade.predict_one([data.probs[2003], lambda: data.probs[2003]]).tolist()
        [7]
        """

        def matrix_of(row: Any) -> Any:
            return row_of_classes(self.classes, row() if callable(row) else row)[None]

        later = [lambda objects, row=row: matrix_of(row) for row in rows[1:]]
        return self.predict([matrix_of(rows[0]), *later], seed=seed, nonempty=nonempty).members

    def p_values(
        self,
        models: Any,
        labels: ArrayLike | None = None,
        *,
        seed: Seed = None,
        smoothed: bool = False,
        from_logits: bool = False,
    ) -> Any:
        """Return the conformal p-value of each class, (n, K), or with `labels` of one class per object, (n,).

        Args:
            models: as for `run`.
            labels: one class per object, as indices or as names; None for the p-values of all classes.
            seed: for a randomized score and for smoothed p-values; a seed or a Generator.
            smoothed: count the calibration scores that equal the score of the class with a random weight.
            from_logits: treat the rows of all models as logits and apply softmax.

        Returns:
            An array.

        Raises:
            InputError: a model does not return probabilities of these classes, or a label is not a class.
        """
        rows, stages = self._rows(models, from_logits)
        groups = None if self.predictor.groups is None else stages
        return self.predictor.p_values(rows.array, labels, groups=groups, seed=seed, smoothed=smoothed)

    def at(self, alpha: float) -> "Cascade":
        """Return the cascade calibrated at another alpha, with the same exit limits.

        Args:
            alpha: significance level (miscoverage).

        Returns:
            The cascade of that level.
        """
        return replace(self, predictor=self.predictor.at(alpha))

    def describe(self) -> str:
        """Describe the cascade, its expected cost and its guarantee in one sentence.

        Returns:
            The sentence.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> models = [(data.probs, 1), (data.probs, 20)]
        >>> print(pippin.models.cascade(models, data.labels, "pip", exits=0.9).describe())
        A cascade of 2 models, 69% settled by model 0, at a cost of 7.282 per object (at most 7.501 with a confidence
        of 95%), where the last model alone costs 20: pip with threshold 1.7366, from 4,986 rows: its sets contain the
        true class with probability at least 90%.
        """
        cost = f"{self.cost:.4g} per object (at most {self.cost_bound():.4g} with a confidence of 95%)"
        return (
            f"A cascade of {len(self.costs)} models, {self._shares()}, at a cost of {cost}, where the last model alone "
            f"costs {self.costs[-1]:g}: {self.predictor.describe()}"
        )

    def _shares(self) -> str:
        shares = enumerate((self.counts[:-1] / self.n_calibration).tolist())
        return ", ".join(f"{share:.0%} settled by model {model}" for model, share in shares)

    def _promise(self) -> Card:
        card, limits = self.predictor._promise(), ", ".join(f"{limit:.4g}" for limit in self.exits)
        what, condition = "What is it?", "On which condition?"
        return card | {
            what: f"A cascade with the exit limits {limits} of the largest probability, before it: {card[what]}",
            "What is guaranteed?": self.describe(),
            condition: f"{card[condition]} The exit limits were not chosen on these rows.",
        }

    def content(self) -> dict[str, Any]:
        """Return the data that `save` writes to a file, from which `pippin.load` restores the cascade.

        Returns:
            A dictionary of numbers, strings, lists and nested dictionaries.
        """
        return {
            "kind": "cascade",
            "exits": list(self.exits),
            "costs": list(self.costs),
            "counts": self.counts.tolist(),
            "predictor": self.predictor.content(),
        }

    def __repr__(self) -> str:
        per = "" if self.predictor.groups is None else " per stage"
        return self._repr(f"{self.predictor.score}{per}", self._shares(), self._examples)


def cascade_from_content(content: Content) -> Cascade:
    """Restore a cascade from the content of its file, and check its entries."""
    limits, costs = content.numbers("exits"), content.numbers("costs")
    counts = whole_numbers("counts", content.take("counts"), np.int64)
    [predictor] = predictors_from_content("predictor", [content.take("predictor")])
    content.finish()
    need("costs", len(costs) > 1 and bool(((costs > 0) & (costs < np.inf)).all()))
    need("exits", len(limits) == len(costs) - 1 and bool((limits >= 0).all()))
    need("counts", counts.shape == costs.shape and bool((counts >= 0).all()))
    need("counts", int(counts.sum()) == predictor.n_calibration)
    need("predictor", predictor.groups in (None, tuple(range(len(costs)))) and not predictor.sharpeners)
    need("predictor", predictor.takes <= {"seed", "groups"} and predictor.per in (None, "group"))
    return Cascade(predictor, tuple(limits.tolist()), tuple(costs.tolist()), counts)


def admissible_labels(
    probs: Any, labels: Any, *, classes: Classes | None = None, from_logits: bool = False
) -> NDArray[Any]:
    """Return the most probable admissible class of each row, for objects with several right answers.

    Every score of pippin increases with the rank, so this class has the smallest score of all admissible ones. A
    predictor that is calibrated on these labels has sets that contain *at least one admissible class* with probability
    at least 1 − alpha (expanded admission, `Fisch et al. 2021 <https://arxiv.org/abs/2007.03114>`__). A set contains an
    admissible class exactly if it contains the label that this function returns, so metrics can use it too. This holds
    for thresholds that do not depend on the class.

    Args:
        probs: (n, K) probabilities; logits with `from_logits=True`.
        labels: the admissible classes of each row: lists of names or indices, or an (n, K) matrix of truth values.
        classes: names of the K columns; by default the column names of a data frame.
        from_logits: treat `probs` as logits and apply softmax.

    Returns:
        One class per row, as names if the classes have names.

    Raises:
        InputError: a row has no admissible class, or an unknown one.

    >>> import pippin
    >>> pippin.models.admissible_labels([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]], [[1, 2], [0]])
    array([1, 0])
    """
    rows, names = as_rows_and_classes(probs, classes, from_logits)
    return named(_best_of(rows.verified(), _admissible(labels, rows, names)), names)


def _admissible(labels: Any, rows: Rows, classes: Classes) -> Flags:
    """Return the mask of the admissible classes of each row, (n, K): the label, or several classes per row."""
    several = isinstance(labels, Sequence) and any(isinstance(one, list | tuple | set | frozenset) for one in labels)
    if not several and getattr(labels, "ndim", 1) != 2:
        same_index("probs", rows.index, labels=labels)
        one_label: Flags = labels_of_rows(labels, rows, classes)[:, None] == np.arange(len(classes))
        return one_label
    sets = PredictionSets.from_labels(labels, classes) if several else PredictionSets.from_mask(labels)
    if sets.mask.shape != (rows.n, len(classes)):
        what = f"Expected admissible classes of shape ({rows.n}, {len(classes)}), got {sets.mask.shape}"
        raise InputError(what, "pass a row per object and a column per class")
    if (sets.sizes == 0).any():
        row = int((sets.sizes == 0).argmax())
        raise InputError("has no admissible class, expected at least one", "leave the row out", row=row)
    return sets.mask


def _best_of(rows: Rows, mask: Flags) -> Codes:
    """Return the most probable class (the first of ties) of each row among those of the mask."""
    best: Codes = np.where(mask, rows.block(0, rows.n), -1).argmax(axis=1)
    return best


def _costs(costs: list[Any]) -> tuple[float, ...]:
    numbers = all(isinstance(cost, int | float | np.number) for cost in costs)
    values = tuple(map(float, costs)) if numbers else ()
    if not numbers or not all(0 < cost < math.inf for cost in values):
        raise InputError(f"Expected positive costs, got {costs}", "pass for example milliseconds per object")
    return values


def _exits(exits: Any, n_models: int) -> tuple[float, ...]:
    limits = tuple(map(float, np.atleast_1d(exits).tolist()))
    limits = limits * (n_models - 1) if np.ndim(exits) == 0 else limits
    if len(limits) != n_models - 1 or not all(limit >= 0 for limit in limits):
        what = f"Expected an exit limit for each of {n_models - 1} models but the last, got {exits!r}"
        raise InputError(what, "pass a probability, such as 0.9")
    return limits


def _route(models: Any, exits: tuple[float, ...], classes: Classes, from_logits: bool) -> tuple[Rows, Codes]:
    """Return for each object the probabilities of the model at which it leaves, and the index of this model."""
    first = select_columns(classes, as_rows(models[0], from_logits)).verified()
    merged, waiting = np.array(first.block(0, first.n), dtype=np.float64), np.arange(first.n)
    stages, part = np.zeros(first.n, dtype=np.int64), first
    for number, limit in enumerate(exits, start=1):
        leaves = dispatch.best(part)[1] >= limit
        waiting = waiting[~leaves]
        if not len(waiting):
            break
        model = models[number]
        whole = model(waiting) if callable(model) else model
        part = select_columns(classes, as_rows(whole, from_logits))
        expected = len(waiting) if callable(model) else first.n
        if part.n != expected:
            raise InputError(f"Expected {expected:,} rows of model {number}, got {part.n:,}", "one per object")
        part = (part if callable(model) else part.take(waiting)).verified()
        merged[waiting], stages[waiting] = part.block(0, part.n), number
    return replace(first, array=merged, logits=False), stages


def _choose_exit(
    rows: tuple[Rows, ...],
    mask: Flags,
    score: Score,
    alpha: float,
    per: str | None,
    tolerance: float,
    generator: np.random.Generator,
) -> float:
    """Return an exit limit with which mean set size is at most 1 + `tolerance` times that of the last model.

    Limits are tested in decreasing order, each cheaper than the one before, at an approximate confidence of 95% until
    one fails. Tests in a fixed order need no correction for their number. `mask` holds the admissible classes.
    """
    n, last = rows[0].n, len(rows) - 1
    u, every = draws(score, n, generator), np.arange(n)
    tops = np.array([dispatch.best(part)[1] for part in rows])
    scores = np.array([dispatch.class_scores(part, score, u) for part in rows])
    probs = np.array([part.block(0, n) for part in rows])

    def sizes(stages: Codes) -> Vector:
        own, codes = scores[stages, every], _best_of(Rows(probs[stages, every]), mask)
        category, every_size = stages if per else np.zeros(n, dtype=np.int64), np.empty(n)
        for part in (category == number for number in np.unique(category)):
            every_size[part] = _adjusted_sizes(own[part], own[every, codes][part], alpha)
        return every_size

    allowed, best = (1 + tolerance) * sizes(np.full(n, last)), math.inf
    for limit in np.unique(np.quantile(tops[:last], np.linspace(0, 1, N_CANDIDATES), method="lower"))[::-1].tolist():
        leaves = tops >= limit
        leaves[last] = True
        excess = sizes(leaves.argmax(axis=0)) - allowed
        if excess.mean() + NORMAL_95 * excess.std() / math.sqrt(n) > 0:
            break
        best = limit
    return best


def _adjusted_sizes(scores: Vector, of_label: Vector, alpha: float) -> Vector:
    """Return the size of each row's set, minus the part of it that the coverage of this row explains.

    The threshold varies with the rows that determine it, and mean size with the threshold. Subtracting the slope (mean
    size per coverage) times the coverage of a row makes the variance of the mean include this variation. `of_label`
    holds the scores of the labels.
    """
    n, ranked = len(of_label), np.sort(of_label)
    k = quantile_rank(n, alpha)
    if k > n:
        return np.full(n, scores.shape[1], dtype=np.float64)
    around = 1 + round(2 * math.sqrt(n * alpha * (1 - alpha)))
    low, high = max(k - around, 1), min(k + around, n)
    at_low, at, at_high = (scores <= ranked[rank - 1] for rank in (low, k, high))
    slope = (np.count_nonzero(at_high) - np.count_nonzero(at_low)) / max(high - low, 1)
    adjusted: Vector = at.sum(axis=1) - slope * ((of_label <= ranked[k - 1]) - k / n)
    return adjusted
