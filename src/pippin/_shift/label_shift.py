"""Likelihood ratios for covariate shift, and class ratios for label shift."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pippin._engine import dispatch
from pippin._runtime.arguments import checked, checked_methods, is_number
from pippin._runtime.arrays import Classes, Codes, Vector
from pippin._runtime.errors import InputError
from pippin._runtime.showing import html_table
from pippin._validation.labels import as_labelled, as_labels, rows_of_classes
from pippin._validation.rows import Rows, as_array, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ITERATIONS, TOLERANCE = 10_000, 1e-10  # EM stops after so many iterations, or if class frequencies change by less
MOST_SAMPLE = 2**63  # largest number of rows of a sample
SMALLEST = 1e-12  # lower bound on class frequencies in EM, which could not increase from 0


@checked
def likelihood_ratios(p_target: ArrayLike, n_source: int, n_target: int) -> Vector:
    """Compute likelihood ratios for covariate shift from a classifier that separates target rows from source rows.

    The ratio of an object x is w(x) = p/(1 − p) · n_source/n_target, where p is its probability of being a target row.

    Reference: `Tibshirani et al. (2019) <https://arxiv.org/abs/1904.06019>`__.

    Args:
        p_target: probability of each object that it comes from the target distribution (prediction) rather than from
            the source distribution (calibration).
        n_source: number of source rows that the classifier was fitted on.
        n_target: number of target rows that the classifier was fitted on.

    Returns:
        One likelihood ratio per object, for `weights=` of `pippin.calibrate` and `predict`.

    Raises:
        InputError: a probability is outside 0 to 1, or is 1, which makes the ratio infinite.

    >>> import pippin
    >>> pippin.shift.likelihood_ratios([0.5, 0.8, 0.0], n_source=300, n_target=100)
    array([ 3., 12.,  0.])
    """
    if not all(is_number(n) and 1 <= n <= MOST_SAMPLE for n in (n_source, n_target)):
        what = f"Expected rows of both samples, got n_source={n_source!r} and n_target={n_target!r}"
        raise InputError(what, "pass their numbers")
    p = np.asarray(as_array(p_target), dtype=np.float64)
    if p.ndim != 1 or not p.size:
        raise InputError(f"Expected one probability per object, got shape {p.shape}", "pass the target's column")
    invalid = ~((p >= 0) & (p < 1))
    if invalid.any():
        row = int(invalid.argmax())
        if p[row] == 1:
            what = f"Row {row} comes from the target with probability 1, so its ratio is infinite"
            raise InputError(what, "leave it out, or regularize the classifier")
        raise InputError(f"Row {row} has {p[row]}, expected a probability", "pass the target's column of predict_proba")
    with np.errstate(over="ignore"):
        return p / (1 - p) * (n_source / n_target)


@checked_methods
class LabelRatios(NamedTuple):
    """Ratio of the frequency of each class at prediction to its frequency at calibration, for label shift.

    Reference: `Podkopaev and Ramdas (2021) <https://arxiv.org/abs/2103.03323>`__.

    Attributes:
        ratios: P_new(y)/P(y) of each class.
        errors: standard error of each ratio.
        classes: names of the columns, in their order.
    """

    ratios: Vector
    errors: Vector
    classes: Classes

    def _repr_html_(self) -> str:
        columns = zip(self.classes, self.ratios, self.errors, strict=True)
        rows = [(str(name), f"{ratio:.3f}", f"± {error:.3f}") for name, ratio, error in columns]
        caption = "Ratio of new to old frequency of each class, with its standard error"
        return html_table(caption, ("class", "ratio", "error"), rows[:12], left_out=len(rows) - 12)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the ratio of each class with two standard errors.

        Args:
            ax: Matplotlib axes; new ones by default.

        Returns:
            The axes.
        """
        from pippin._plotting.calibration import plot_ratios

        return plot_ratios(self, ax)

    def of(self, labels: Codes) -> Vector:
        """Return the weight of each labeled row: the ratio of its class.

        Args:
            labels: the true classes of the rows, as indices.

        Returns:
            One ratio per row.
        """
        return np.asarray(self.ratios[as_labels(labels, np.size(labels), self.classes).astype(np.int64)])

    def agreeing(self, classes: Classes) -> "LabelRatios":
        """Return this object if its ratios are for the given classes in this order; otherwise raise an InputError.

        Args:
            classes: names of the columns.

        Returns:
            This object.

        Raises:
            InputError: the ratios are for other classes, or for another order of classes.
        """
        named = not isinstance(classes, range) and not isinstance(self.classes, range)
        if len(classes) != len(self.ratios) or (named and list(map(str, classes)) != list(map(str, self.classes))):
            what = f"Expected the ratios of {shortened(classes)}, got those of {shortened(self.classes)}"
            raise InputError(what, "estimate them with label_ratios from rows with the same columns")
        return self


@checked
def label_ratios(
    probs: Any,
    labels: ArrayLike,
    new_probs: Any,
    *,
    method: str = "confusion",
    classes: Classes | None = None,
    from_logits: bool = False,
) -> LabelRatios:
    """Estimate the class ratios w_y = P_new(y)/P(y) of new rows without labels under label shift.

    Label shift means that labeled and new rows differ only in their class frequencies; the distribution P(x | y) of the
    rows x of a class y does not change.

    Method "confusion" (black-box shift estimation) solves C·w = q, where C_ij is the share of the labeled rows that
    have the class j and are classified as i, and q_i is the share of the new rows that are classified as i. It is
    consistent for any classifier; standard errors follow from the delta method.

    Method "em" maximizes Σ_x log Σ_y w_y·p_y(x), the log-likelihood of the new rows with probabilities p_y(x). It is
    more precise for calibrated probabilities, but biased otherwise, and its standard errors do not include the bias.

    References: "confusion" `Lipton, Wang and Smola (2018) <https://arxiv.org/abs/1802.03916>`__;
    "em" `Saerens, Latinne and Decaestecker (2002) <https://doi.org/10.1162/089976602753284446>`__.

    Args:
        probs: (n, K) probabilities of labeled rows; logits with `from_logits=True`.
        labels: the true classes of these rows, as indices or as names.
        new_probs: (m, K) probabilities of the new rows.
        method: "confusion" or "em".
        classes: names of the K columns; by default those of a data frame, or 0 to K − 1.
        from_logits: treat `probs` and `new_probs` as logits and apply softmax.

    Returns:
        The ratios, for `weights=` of `pippin.calibrate` and `predict`.

    Raises:
        InputError: a class has no labeled row, the confusion matrix is singular, or `new_probs` has other columns.

    >>> import numpy as np, pippin
    >>> data = pippin.load_example()
    >>> more = np.flatnonzero((data.labels == 0) | (np.arange(4986) % 3 == 0))      # class 0 three times as common
    >>> estimate = pippin.shift.label_ratios(data.probs, data.labels, data.probs[more])
    >>> np.round(estimate.ratios[:3] / estimate.ratios[1], 1)
    array([3.4, 1. , 1.2])
    """
    rows, codes, names = as_labelled(probs, labels, classes, from_logits)
    new, k = rows_of_classes(names, new_probs, from_logits), rows.n_classes
    if method not in ("confusion", "em"):
        raise InputError(f"Expected method to be confusion or em, got {method!r}", "choose one of them")
    counts = np.bincount(codes, minlength=k)
    if not counts.all():
        absent = names[int(counts.argmin())]
        raise InputError(f"Expected labeled rows of every class, got none of {absent!r}", "add some")
    estimate = _by_em(new, counts / rows.n, rows.n) if method == "em" else _by_confusion(rows, codes, new)
    return LabelRatios(*estimate, names)


def _by_confusion(rows: Rows, codes: Codes, new: Rows) -> tuple[Vector, Vector]:
    """Estimate the class ratios w = C⁻¹q, clipped at 0, and their standard errors by the delta method.

    C is the joint distribution of predicted and true class in the n labeled rows, and q the distribution of the
    predicted class in the m new rows. Var(w) = C⁻¹(Σ_q/m + Σ_r/n)C⁻ᵀ. Both Σ are covariances of the predicted class as
    a one-hot vector: Σ_q for a new row, and Σ_r for a labeled row, multiplied by the ratio of its true class.
    """
    k, n = rows.n_classes, rows.n
    predicted, new_predicted = dispatch.best(rows)[0], dispatch.best(new)[0]
    joint, weighted = np.zeros((k, k)), np.zeros((k, k))
    np.add.at(joint, (predicted, codes), 1 / n)
    q = np.bincount(new_predicted, minlength=k) / new.n
    try:
        inverse = np.linalg.inv(joint)
    except np.linalg.LinAlgError as error:
        what = "Expected an invertible confusion matrix, got a singular one"
        raise InputError(what, "use method='em', or more rows") from error
    ratios = inverse @ q
    np.add.at(weighted, (predicted, predicted), ratios[codes] ** 2 / n)
    covariance = (np.diag(q) - np.outer(q, q)) / new.n + (weighted - np.outer(q, q)) / n
    return np.maximum(ratios, 0.0), np.sqrt(np.maximum(np.diag(inverse @ covariance @ inverse.T), 0.0))


def _by_em(new: Rows, shares: Vector, n: int) -> tuple[Vector, Vector]:
    """Estimate the class ratios w = π/P(y) by EM, and their standard errors; π are the class frequencies of new rows.

    Each iteration replaces π by the mean of the predicted probabilities, reweighted by π/P(y) and normalized by row.
    """
    new = new.verified()
    p = np.asarray(new.block(0, new.n), dtype=np.float64)
    pi, change = shares.copy(), np.inf
    for _ in range(ITERATIONS):
        posterior = p * (pi / shares)
        updated = np.maximum((posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0), SMALLEST)
        updated /= updated.sum()
        pi, change = updated, np.abs(updated - pi).max()
        if change < TOLERANCE:
            break
    return pi / shares, _em_errors(p / shares, pi, shares, n)


def _em_errors(densities: Vector, pi: Vector, shares: Vector, n: int) -> Vector:
    """Compute the standard errors of the class ratios w = π/P(y) from the errors of both class frequencies.

    The errors of P(y) are binomial. The errors of π, the class frequencies of the new rows, follow from the observed
    information Σ g·gᵀ, a sum over the new rows. g is the gradient of a row's log likelihood in π, g_y = (p_y/P(y))/Σ_z
    π_z·p_z/P(z). The information is inverted on the subspace of changes of π that keep its sum.
    """
    g = densities / (densities @ pi)[:, None]
    tangent = np.linalg.svd(np.ones((1, len(pi))))[2][1:].T  # basis of the changes of π that keep the sum of π
    information = tangent.T @ (g.T @ g) @ tangent
    variance = np.diag(tangent @ np.linalg.pinv(information) @ tangent.T)
    return np.sqrt(np.maximum(variance, 0) / shares**2 + (pi / shares) ** 2 * ((1 - shares) / (n * shares)))
