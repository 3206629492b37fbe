"""Selective classification: the error rate among accepted predictions is bounded with a given confidence."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._conformal.calibrate import Settings, calibrate_labelled
from pippin._conformal.card import Card, listed_names, promise_card, share
from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.serialization import (
    Content,
    SavedDataclass,
    attributes,
    classes_content,
    decoded,
    need,
    read_content,
    whole_numbers,
)
from pippin._engine import dispatch
from pippin._runtime.arguments import checked, checked_methods
from pippin._runtime.arrays import Classes, Codes, Flags, Seed, Vector, named, read_only
from pippin._runtime.errors import InputError, collected_warnings, warn
from pippin._runtime.provenance import Provenance
from pippin._runtime.showing import Share, html_table, visible
from pippin._theory.certifying import MOST, acted_needed, all_certified, certified, rows_needed, sequence
from pippin._theory.level import as_alpha, simplest
from pippin._theory.scores import Score, ip
from pippin._theory.spelling import IpMs, parse_ip_ms, parse_score
from pippin._validation.labels import Labelled, as_labelled, rows_of_classes
from pippin._validation.plausibility import warn_if_implausible
from pippin._validation.rows import Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SET_LOG_ODDS = np.arange(5.0, -1.01, -0.125)  # log-odds of the levels 1 − α at which singletons are tested
SHOWN = 10  # maximum number of predictions that a notebook displays


@dataclass(frozen=True, eq=False, repr=False)
class SelectivePredictions:
    """Most probable class of each object, accepted or rejected.

    Attributes:
        labels: the class of every object; rejected objects have no guarantee.
        acted: True for accepted objects.
        confidence: the probability of the class in `labels`.

    >>> import numpy as np, pippin
    >>> labels, acted = np.array(["weed", "crop"]), np.array([True, False])
    >>> pippin.decisions.SelectivePredictions(labels, acted, np.array([0.99, 0.5]))
    SelectivePredictions(2 objects, 50% acted on)
    """

    labels: NDArray[Any]
    acted: Flags
    confidence: Vector

    def __post_init__(self) -> None:
        for name in ("labels", "acted", "confidence"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.labels)

    def _repr_html_(self) -> str:
        caption = repr(self).removeprefix("SelectivePredictions(").removesuffix(")")
        first = zip(self.labels[:SHOWN].tolist(), self.acted[:SHOWN].tolist(), self.confidence[:SHOWN], strict=True)
        rows = [(str(label), "acted on" if acted else "left", Share(float(p))) for label, acted, p in first]
        return html_table(caption, ("label", "", "its probability"), rows, left_out=len(self) - len(rows))

    def __repr__(self) -> str:
        return f"SelectivePredictions({len(self):,} objects, {100 * self.acted.mean():.0f}% acted on)"


@checked
def select(
    probs: Any,
    labels: ArrayLike,
    *,
    error: float,
    confidence: float = 0.95,
    classes: Classes | None = None,
    per: Literal["class"] | None = None,
    predictor: ConformalPredictor | None = None,
    from_logits: bool = False,
) -> "SelectiveClassifier":
    """Calibrate a selective classifier, whose error rate *among accepted objects* is at most `error`.

    A row is accepted if its largest probability reaches a threshold. (Prediction sets with coverage 1 − alpha do not
    bound the error rate among accepted objects.) The bound holds with probability `confidence` over the calibration
    rows, which must be independent and identically distributed with later rows.

    To find the threshold, candidates that do not depend on the data are tested in decreasing order. The p-value of a
    candidate that accepts n calibration rows, of which k are misclassified, is P(Bin(n, error) ≤ k).

    Reference: `Angelopoulos et al. (2021), Learn then test <https://arxiv.org/abs/2110.01052>`__.

    Args:
        probs: (n, K) probabilities; logits with `from_logits=True`.
        labels: the true classes, as indices or as names.
        error: the error rate allowed among accepted objects.
        confidence: probability, over calibration sets, that the error rate stays within this bound.
        classes: names of the K columns; by default those of a data frame, or 0 to K − 1.
        per: "class" for a threshold and a guarantee for each predicted class.
        predictor: accept the objects whose prediction set by this predictor is a singleton, as the class in the set.
            The predictor must be calibrated on other rows. Its alpha is changed: of 49 levels from 0.007 to 0.73, it
            is the one with the most singletons among those whose error rate can be certified.
        from_logits: treat `probs` as logits and apply softmax.

    Returns:
        The classifier. If no threshold can be certified, its threshold is infinite, so that it accepts no row.

    Raises:
        InputError: probabilities or labels are invalid, or an option is out of range.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> pippin.decisions.select(data.probs, data.labels, error=0.05, confidence=0.9)
    SelectiveClassifier(error=0.05, confidence=0.9, 2,119 of 4,986 calibration rows acted on)
    """
    error = as_alpha(error, "error", "pass for example 0.05")
    confidence = as_alpha(confidence, "confidence", "pass for example 0.95")
    delta = _complement(confidence)
    if per not in (None, "class"):
        raise InputError(f"Expected per to be None or 'class', got {per!r}")
    if predictor is not None:
        _check_predictor(predictor, classes, per)
        data = as_labelled(probs, labels, predictor.classes, from_logits)._replace(classes=predictor.classes)
        return _select_singletons(data, predictor, error, confidence)
    data = as_labelled(probs, labels, classes, from_logits)
    best, top = dispatch.best(data.rows)
    warn_if_implausible(data)
    n, n_classes, wrong = data.rows.n, data.rows.n_classes, best != data.labels
    log_odds = sequence(n_classes)
    limits = np.append(1 / (1 + np.exp(-log_odds[:-1])), 0.0)
    categories = [np.ones(n, dtype=bool)] if per is None else [best == k for k in range(n_classes)]
    thresholds, counts, notes = np.full(len(categories), np.inf), np.zeros((2, len(categories)), dtype=np.int64), []
    for k, category in enumerate(categories):
        n_acted, n_wrong = _counts(top[category], limits), _counts(top[category & wrong], limits)
        last = certified(n_acted, n_wrong, log_odds, error, delta)
        if last is None:
            name = None if per is None else data.classes[k]
            notes.append(_shortage(name, n_acted, n_wrong, n, error, delta))
        else:
            thresholds[k], counts[:, k] = limits[last], (n_acted[last], n_wrong[last])
    if notes:
        warn(" ".join(notes[:5]) + (f" The same holds for {len(notes) - 5:,} other classes." if len(notes) > 5 else ""))
    acted, errors = read_only(counts[0]), read_only(counts[1])
    return SelectiveClassifier(error, confidence, per, read_only(thresholds), acted, errors, n, data.classes)


@checked_methods
@dataclass(frozen=True, eq=False, repr=False)
class SelectiveClassifier(SavedDataclass):
    """Classifier that accepts rows whose largest probability reaches a threshold.

    With probability `confidence` over the calibration rows, at most a share `error` of the accepted objects is
    misclassified; with per="class", this holds for each predicted class, which has its own threshold. With a
    `predictor`, the accepted rows are those whose prediction set is a singleton.

    Attributes:
        error: the error rate allowed among accepted objects.
        confidence: probability, over calibration sets, that the error rate stays within this bound.
        per: "class" for a threshold per predicted class, or None.
        thresholds: the probability that the most probable class of an accepted row must reach, one for all rows or one
            per predicted class; infinite if no threshold can be certified. With a predictor, its 1 − alpha.
        n_acted: number of calibration rows that reach each threshold.
        n_wrong: number of misclassified calibration rows that reach each threshold.
        n_calibration: number of calibration rows.
        classes: names of the columns, in their order.
        predictor: the predictor whose singletons are accepted, or None.
        provenance: data files with checksums, date, author, command and versions; None if not recorded.
    """

    error: float
    confidence: float
    per: str | None
    thresholds: Vector
    n_acted: Codes
    n_wrong: Codes
    n_calibration: int
    classes: Classes
    predictor: ConformalPredictor | None = None
    provenance: Provenance | None = None

    @property
    def threshold(self) -> float:
        """Probability that the most probable class must reach; raises an InputError if it differs by class."""
        if self.per is not None:
            raise InputError(f"This predictor has a threshold per {self.per}", "look at thresholds")
        return float(self.thresholds[0])

    @property
    def bound(self) -> float:
        """Certified bound on the error rate: `error`, or 1 if no threshold is certified."""
        return 1.0 if np.isinf(self.thresholds).all() else self.error

    def predict(self, probs: Any, *, from_logits: bool = False) -> SelectivePredictions:
        """Predict the most probable class of every row, and accept or reject it.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            from_logits: treat `probs` as logits and apply softmax.

        Returns:
            One prediction per row; `acted` is True for accepted rows.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> selective = pippin.decisions.select(data.probs[:2000], data.labels[:2000], error=0.05)
        >>> selective.predict(data.probs[2000:])
        SelectivePredictions(2,986 objects, 35% acted on)
        """
        best, acted, top = self._accept(rows_of_classes(self.classes, probs, from_logits))
        return SelectivePredictions(named(best, self.classes), acted, top)

    def calibrate_deferred(
        self,
        probs: Any,
        labels: ArrayLike,
        score: Score | IpMs | str = "repip",
        alpha: float = 0.1,
        *,
        confidence: float | None = None,
        seed: Seed = None,
        from_logits: bool = False,
    ) -> ConformalPredictor:
        """Calibrate prediction sets for rejected (deferred) objects: P(Y in set | rejected) ≥ 1 − alpha.

        The predictor is calibrated on the rows that this classifier rejects. Given the classifier, they are
        exchangeable with later rejected objects. So the rows must be others than those that the classifier was
        calibrated on. `Jin and Ren (2024) <https://arxiv.org/abs/2403.03868>`__ treat selection on the same rows.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            labels: the true classes, as indices or as names.
            score: a score, or its name with parameters.
            alpha: significance level (miscoverage) among rejected objects.
            confidence: probability over calibration sets that coverage is at least 1 − alpha; by default the guarantee
                is on average over calibration sets.
            seed: for randomized scores; a seed or a Generator.
            from_logits: treat `probs` as logits and apply softmax.

        Returns:
            The predictor, for rejected objects only.

        Raises:
            InputError: no row is rejected, or probabilities, labels or options are invalid.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> selective = pippin.decisions.select(data.probs[:1500], data.labels[:1500], error=0.1)
        >>> predictor = selective.calibrate_deferred(data.probs[1500:3000], data.labels[1500:3000])
        >>> new = data.probs[3000:]
        >>> predictor.predict(new[~selective.predict(new).acted])
        PredictionSets(837 objects, 12 classes, mean size 3.38, 21% singletons)
        """
        data = as_labelled(probs, labels, self.classes, from_logits)
        settings = Settings(parse_ip_ms(score) or parse_score(score), alpha, seed, confidence=confidence)
        settings.check()
        best, acted, _ = self._accept(data.rows)
        n_wrong = int((best != data.labels)[acted].sum())
        counts = data.rows.n, int(acted.sum()), n_wrong
        if counts == (self.n_calibration, int(self.n_acted.sum()), int(self.n_wrong.sum())):
            warn(
                "These are probably the rows that the selective classifier was calibrated on, so the guarantee for "
                "rejected objects does not hold. Pass other rows."
            )
        if acted.all():
            raise InputError(f"Expected rejected rows, got {data.rows.n:,} accepted ones", "pass more rows")
        return calibrate_labelled(data.take(np.flatnonzero(~acted)), settings)

    def _accept(self, rows: Rows) -> tuple[Codes, Flags, Vector]:
        """Compute the predicted class of each row, True for accepted rows, and the probability of the class."""
        best, top = dispatch.best(rows)
        if self.predictor is None:
            return best, top >= (self.thresholds if self.per is None else self.thresholds[best]), top
        sets = self.predictor.predict(rows)
        acted = (sets.sizes == 1) & np.isfinite(self.thresholds)
        labels = best.copy()
        labels[acted] = sets.members[sets.offsets[:-1][acted]]
        other = labels != best  # a singleton with another class than the most probable one, by thresholds per class
        return labels, acted, np.where(other, 1 - dispatch.label_scores(rows, labels, ip(), np.zeros(rows.n)), top)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the threshold, or with per="class" the threshold of each predicted class.

        Args:
            ax: Matplotlib axes; new ones by default.

        Returns:
            The axes.
        """
        from pippin._plotting.calibration import plot_thresholds

        names = ["all rows"] if self.per is None else self.classes
        counts = zip(self.n_acted.tolist(), self.n_wrong.tolist(), strict=True)
        notes = [f"{wrong:,} wrong of {acted:,}" if acted else "nothing certified" for acted, wrong in counts]
        across = "smallest probability that is acted on" if self.predictor is None else "1 − α of the prediction sets"
        titles = f"At most {100 * self.error:g}% wrong among those acted on", across
        return plot_thresholds(names, self.thresholds, notes, titles, ax)

    def describe(self) -> str:
        """Describe the classifier and its guarantee in one sentence.

        Returns:
            The sentence.
        """
        if np.isinf(self.thresholds).all():
            return f"Acts on nothing: from {self.n_calibration:,} rows, {100 * self.error:g}% cannot be certified."
        whom = "of those acted on" if self.per is None else "of those acted on as each class"
        if self.predictor is not None:
            return (
                f"Acts on singletons of {self.predictor.score} at alpha={self.predictor.alpha:.3g}, from "
                f"{self.n_calibration:,} rows: with {100 * self.confidence:g}% confidence at most "
                f"{100 * self.error:g}% of them are wrong."
            )
        return (
            f"Acts on what is sure, from {self.n_calibration:,} rows: with {100 * self.confidence:g}% confidence at "
            f"most {100 * self.error:g}% {whom} are wrong."
        )

    def _promise(self) -> Card:
        names = ("all rows",) if self.per is None else self.classes
        counts = zip(names, self.n_acted.tolist(), self.n_wrong.tolist(), strict=True)
        accepted = [f"{visible(name)}: {n:,} accepted, of which {wrong:,} wrong" for name, n, wrong in counts]
        what = "the most probable" if self.predictor is None else "the only member of a prediction set,"
        other = "" if self.predictor is None else " The predictor of the sets was calibrated on other rows."
        return promise_card(
            what=f"A selective classifier: it accepts or rejects {what} of {len(self.classes):,} classes: "
            f"{listed_names(self.classes)}.",
            guarantee=self.describe(),
            level=f"error = {self.error:g} among accepted objects, with a confidence of {share(self.confidence)}.",
            condition="The calibration rows and the new rows are independent draws from one distribution. The "
            f"classifier was not trained on the calibration rows.{other}",
            variation=f"The bound holds in at least {share(self.confidence)} of calibrations.",
            limits="The error rate of rejected objects, or of accepted ones within a single class or group."
            if self.per is None
            else "The error rate of rejected objects, or of accepted ones within a single group.",
            rows=f"{self.n_calibration:,} rows ({listed_names(accepted)}).",
        )

    def content(self) -> dict[str, Any]:
        """Return the data that `save` writes to a file, from which `pippin.load` rebuilds the classifier.

        Returns:
            A dictionary of numbers, strings, lists and nested dictionaries.
        """
        counts = {name: getattr(self, name).tolist() for name in ("thresholds", "n_acted", "n_wrong")}
        parts = attributes(self, "error", "per", "n_calibration") | classes_content(self.classes)
        delta = _complement(self.confidence)
        exact: dict[str, Any] = {} if _complement(delta) == self.confidence else {"confidence": self.confidence}
        if self.predictor is not None:
            exact["predictor"] = self.predictor.content()
        return {"kind": "selective", "delta": delta, **exact, **parts, **counts}

    def __repr__(self) -> str:
        per = "" if self.per is None else " per class"
        per = per if self.predictor is None else " of singletons"
        return (
            f"SelectiveClassifier(error={self.error:g}{per}, confidence={self.confidence:g}, "
            f"{int(self.n_acted.sum()):,} of {self.n_calibration:,} calibration rows acted on)"
        )


def selective_from_content(content: Content) -> SelectiveClassifier:
    """Rebuild a selective classifier from the data of a file; raise an InputError if its entries are invalid."""
    error, delta, per = content.number("error"), content.number("delta"), content.take("per")
    n, classes, thresholds = content.whole("n_calibration", 1), content.classes(), content.numbers("thresholds")
    acted, wrong = (whole_numbers(key, content.take(key), np.int64) for key in ("n_acted", "n_wrong"))
    need("error", 0 < error < 1)
    need("delta", 0 < delta <= 1)
    confidence = content.number("confidence") if content.has("confidence") else _complement(delta)
    need("confidence", 0 < confidence < 1)
    predictor = _predictor_from_content(content, classes)
    content.finish()
    need("per", per in (None, "class") if predictor is None else per is None)
    shape = (1 if per is None else len(classes),)
    sound = (thresholds >= 0) & ((thresholds <= 1) | np.isinf(thresholds))
    need("thresholds", thresholds.shape == shape and bool(sound.all()))
    need("n_acted", acted.shape == shape and bool((acted >= 0).all()) and int(acted.sum()) <= n)
    need("n_wrong", wrong.shape == shape and bool(((wrong >= 0) & (wrong <= acted)).all()))
    known = predictor is None or np.isinf(thresholds[0]) or thresholds[0] == 1 - predictor.alpha
    need("thresholds", bool(known))
    return SelectiveClassifier(error, confidence, per, thresholds, acted, wrong, n, classes, predictor)


def _predictor_from_content(content: Content, classes: Classes) -> ConformalPredictor | None:
    """Rebuild the predictor whose singletons are accepted; None if the file has none."""
    if not content.has("predictor"):
        return None
    predictor = read_content(decoded(content.take("predictor", lambda value: isinstance(value, dict))))
    need("predictor", isinstance(predictor, ConformalPredictor) and not predictor.takes)
    need("predictor", predictor.classes == classes)
    kept: ConformalPredictor = predictor
    return kept


def _check_predictor(predictor: Any, classes: Classes | None, per: str | None) -> None:
    """Raise an InputError unless singletons of the predictor can be selected."""
    if not isinstance(predictor, ConformalPredictor):
        what = f"Expected a ConformalPredictor, got {type(predictor).__name__}"
        raise InputError(what, "calibrate one with pippin.calibrate")
    if predictor.takes:
        what = f"Expected a predictor whose sets follow from the probabilities alone, got {predictor!r}"
        raise InputError(what, "calibrate one without groups, weights, features, folds and random numbers")
    if per is not None or (classes is not None and list(map(str, classes)) != list(map(str, predictor.classes))):
        raise InputError("Expected predictor= without per=, and with its own classes", "leave per= and classes= out")


def _select_singletons(
    data: Labelled, predictor: ConformalPredictor, error: float, confidence: float
) -> SelectiveClassifier:
    """Choose the alpha of a predictor with the most singletons among those whose error rate can be certified."""
    alphas, n, delta = 1 / (1 + np.exp(SET_LOG_ODDS)), data.rows.n, _complement(confidence)
    with collected_warnings([]):  # infinite thresholds at small alphas give no singletons
        levels = [predictor.at(alpha) for alpha in alphas.tolist()]
    acted, wrong = np.zeros((2, len(levels)), dtype=np.int64)
    for i, level in enumerate(levels):
        sets = level.predict(data.rows)
        single = sets.sizes == 1
        acted[i], wrong[i] = single.sum(), (sets.members[sets.offsets[:-1][single]] != data.labels[single]).sum()
    warn_if_implausible(data)
    passed = all_certified(acted, wrong, SET_LOG_ODDS, error, delta)
    best = max(passed, key=lambda i: (acted[i], -i), default=None)
    if best is None:
        by_count = np.argsort(acted, kind="stable")
        warn(_shortage(None, acted[by_count], wrong[by_count], n, error, delta))
        threshold, counts, chosen = np.inf, [0, 0], predictor
    else:
        threshold, counts, chosen = 1 - levels[best].alpha, [int(acted[best]), int(wrong[best])], levels[best]
    n_acted, n_wrong = (np.array([count], dtype=np.int64) for count in counts)
    thresholds = read_only(np.array([threshold]))
    return SelectiveClassifier(error, confidence, None, thresholds, n_acted, n_wrong, n, data.classes, chosen)


def _complement(share: float) -> float:
    """Compute 1 − share without binary rounding errors: exactly 0.05 for 0.95."""
    return float(1 - simplest(share))


def _counts(values: Vector, limits: Vector) -> Codes:
    """Count for each limit how many values are at least this limit."""
    return len(values) - np.searchsorted(np.sort(values), limits, side="left")


def _shortage(name: str | int | None, acted: Codes, wrong: Codes, n: int, error: float, delta: float) -> str:
    """Explain in a sentence why no threshold can be certified, and how many calibration rows would be needed."""
    whom, what = ("acted on", "") if name is None else (f"taken for {name}", f" as {name}")
    note = (
        f"Nothing is acted on{what}: {n:,} calibration rows cannot certify that at most {100 * error:g}% of those "
        f"{whom} are wrong."
    )
    if (needed := rows_needed(acted, wrong, n, error, delta)) is not None and needed > n:
        return f"{note} About {needed:,} rows like these would."
    least = acted_needed(0.0, error, delta)
    if least is None or acted[-1] < least:
        needed_count = f"more than {MOST:,}" if least is None else f"at least {least:,}"
        return f"{note} It takes {needed_count} of them, got {acted[-1]:,}."
    return f"{note} No number of rows like these would: the classifier is not right often enough where it is surest."
