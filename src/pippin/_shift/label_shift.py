"""Likelihood ratios under covariate shift, and class ratios under label shift."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pippin._engine import dispatch
from pippin._runtime.arrays import Classes, Codes, Vector
from pippin._runtime.errors import InputError
from pippin._runtime.showing import html_table
from pippin._validation.labels import as_labelled
from pippin._validation.rows import Rows, as_array, as_rows, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ITERATIONS, TOLERANCE = 10_000, 1e-10  # of EM: at most so many, until no share changes by more
SMALLEST = 1e-12  # a share of zero would stay zero


def likelihood_ratios(p_target: ArrayLike, n_source: int, n_target: int) -> Vector:
    """Compute w(x) = p/(1 − p) · n_source/n_target from a classifier that separates target rows from source rows.

    Args:
        p_target: for each object the probability that it comes from the target distribution (prediction)
            rather than from the source distribution (calibration).
        n_source: the number of source rows that the classifier was fitted on.
        n_target: the number of target rows.

    >>> import pippin
    >>> pippin.shift.likelihood_ratios([0.5, 0.8, 0.0], n_source=300, n_target=100)
    array([ 3., 12.,  0.])
    """
    if not all(isinstance(n, int | float | np.number) and 1 <= n < np.inf for n in (n_source, n_target)):
        what = f"Expected rows of both kinds, got n_source={n_source!r} and n_target={n_target!r}"
        raise InputError(what, "count them")
    p = np.asarray(as_array(p_target), dtype=np.float64)
    if p.ndim != 1 or not p.size:
        raise InputError(f"Expected one probability per object, got shape {p.shape}", "pass the target's column")
    invalid = ~((p >= 0) & (p < 1))
    if invalid.any():
        row = int(invalid.argmax())
        if p[row] == 1:
            raise InputError(
                f"Row {row} comes from the target with probability 1, so its ratio is infinite",
                "no source row is like it, and no weight can make up for that; leave it out, or regularize",
            )
        raise InputError(f"Row {row} has {p[row]}, expected a probability", "pass the target's column of predict_proba")
    with np.errstate(over="ignore"):
        return p / (1 - p) * (n_source / n_target)


class LabelRatios(NamedTuple):
    """Ratio of the class frequencies where one predicts to those where one calibrates.

    Attributes:
        ratios: P_new(y)/P(y) of each class.
        errors: the standard error of each.
        classes: the names of the columns, in their order.
    """

    ratios: Vector
    errors: Vector
    classes: Classes

    def _repr_html_(self) -> str:
        columns = zip(self.classes, self.ratios, self.errors, strict=True)
        rows = [(str(name), f"{ratio:.3f}", f"± {error:.3f}") for name, ratio, error in columns]
        caption = "How many times as common each class has become, with its standard error"
        return html_table(caption, ("class", "ratio", "error"), rows[:12], left_out=len(rows) - 12)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the ratio of each class with two standard errors; return Matplotlib axes.

        Args:
            ax: the axes; new ones, if not given.
        """
        from pippin._plotting.calibration import plot_ratios

        return plot_ratios(self, ax)

    def of(self, labels: Codes) -> Vector:
        """Return the ratio of the true class of each row.

        Args:
            labels: class indices.
        """
        return np.asarray(self.ratios[labels])

    def agreeing(self, classes: Classes) -> "LabelRatios":
        """Return these ratios if they are of the given classes in this order.

        Args:
            classes: the names of the columns.

        Raises:
            InputError: the classes differ.
        """
        named = not isinstance(classes, range) and not isinstance(self.classes, range)
        if len(classes) != len(self.ratios) or (named and list(map(str, classes)) != list(map(str, self.classes))):
            raise InputError(
                f"Expected the ratios of {shortened(classes)}, got those of {shortened(self.classes)}",
                "find them with label_ratios of rows that have the same columns",
            )
        return self


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

    Label shift: P(x | y) is the same for both. "confusion" solves C·w = q, C_ij = P(predicted i, true j) from the
    labeled rows and q_i = P_new(predicted i) (Lipton, Wang, Smola 2018, black-box shift estimation): consistent for any
    classifier. "em" maximizes the likelihood of the new rows, Σ log Σ_y w_y·p_y(x) (Saerens,
    Latinne, Decaestecker 2002): more precise for calibrated probabilities, and biased for others, which
    its standard errors do not include. Those of "confusion" are by the delta method.

    Args:
        probs: (n, K) probabilities of labeled rows; logits with `from_logits=True`.
        labels: their true classes, as indices or as names.
        new_probs: (m, K) probabilities of the new rows.
        method: "confusion" or "em".
        classes: names of the K columns; a data frame brings its own.
        from_logits: True if both are logits, to which a softmax is applied.

    >>> import numpy as np, pippin
    >>> data = pippin.load_example()
    >>> more = np.flatnonzero((data.labels == 0) | (np.arange(4986) % 3 == 0))      # class 0 three times as common
    >>> estimate = pippin.shift.label_ratios(data.probs, data.labels, data.probs[more])
    >>> np.round(estimate.ratios[:3] / estimate.ratios[1], 1)
    array([3.4, 1. , 1.2])
    """
    rows, codes, names = as_labelled(probs, labels, classes, from_logits)
    new, k = as_rows(new_probs, from_logits), rows.n_classes
    if new.n_classes != k:
        raise InputError(f"Expected {k} columns in new_probs, got {new.n_classes}", "pass the same classes")
    if method not in ("confusion", "em"):
        raise InputError(f"Expected method to be confusion or em, got {method!r}", "choose one of them")
    counts = np.bincount(codes, minlength=k)
    if not counts.all():
        absent = names[int(counts.argmin())]
        raise InputError(f"Expected labeled rows of every class, got none of {absent!r}", "add some")
    estimate = _by_em(new, counts / rows.n, rows.n) if method == "em" else _by_confusion(rows, codes, new)
    return LabelRatios(*estimate, names)


def _by_confusion(rows: Rows, codes: Codes, new: Rows) -> tuple[Vector, Vector]:
    """Solve w = C⁻¹q, at least 0, with Var(w) = C⁻¹(Σ_q/m + Σ_r/n)C⁻ᵀ, r the residuals of the labeled rows."""
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
    """Iterate π ← mean of the probabilities reweighted by π/P(y) until convergence; w = π/P(y)."""
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
    """Compute standard errors from the inverse of Σ g gᵀ on the simplex and the binomial error of P(y).

    g_y = (p_y/P(y))/Σ_z π_z p_z/P(z).
    """
    g = densities / (densities @ pi)[:, None]
    tangent = np.linalg.svd(np.ones((1, len(pi))))[2][1:].T  # directions that keep the sum of the shares
    information = tangent.T @ (g.T @ g) @ tangent
    variance = np.diag(tangent @ np.linalg.pinv(information) @ tangent.T)
    return np.sqrt(np.maximum(variance, 0) / shares**2 + (pi / shares) ** 2 * ((1 - shares) / (n * shares)))
