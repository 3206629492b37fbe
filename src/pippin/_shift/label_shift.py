"""Label shift: classes are more or less common elsewhere, but each of them looks the same."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pippin._engine import dispatch
from pippin._runtime.arrays import Classes, Codes, Vector
from pippin._runtime.errors import InputError
from pippin._runtime.showing import html_table
from pippin._validation.labels import as_labelled, shortened
from pippin._validation.rows import Rows, as_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METHODS = ("confusion", "em")
STEPS, CLOSE = 10_000, 1e-10  # of EM at most; a change that ends it
SMALLEST = 1e-12  # a share of zero would stay zero


class LabelRatios(NamedTuple):
    """How much more common each class is where one predicts.

    Attributes:
        ratios: P_new(y)/P(y) of each class.
        errors: the standard error of each.
        classes: the names of the columns, in their order.
    """

    ratios: Vector
    errors: Vector
    classes: Classes

    def _repr_html_(self) -> str:
        told = zip(self.classes, self.ratios, self.errors, strict=True)
        rows = [(str(name), f"{ratio:.3f}", f"± {error:.3f}") for name, ratio, error in told]
        caption = "How many times as common each class has become, with its standard error"
        return html_table(caption, ("class", "ratio", "error"), rows[:12], left_out=len(rows) - 12)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The ratio of every class, with two standard errors; Matplotlib axes.

        Args:
            ax: where to draw; new axes, if not given.
        """
        from pippin._plotting.ratios import plot_ratios

        return plot_ratios(self, ax)

    def of(self, labels: Codes) -> Vector:
        """The ratio of every row's true class.

        Args:
            labels: classes by number.
        """
        return np.asarray(self.ratios[labels])

    def agreeing(self, classes: Classes) -> "LabelRatios":
        """These ratios, if they are of these classes in this order.

        Args:
            classes: the names of the columns.

        Raises:
            InputError: they are of others.
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
    """How much more common each class is among new rows, which have no labels: w_y = P_new(y)/P(y).

    Where P(x | y) is the same for both. "confusion" solves C·w = q, C_ij = P(predicted i, true j) from the
    labelled rows and q_i = P_new(predicted i) (Lipton, Wang, Smola 2018, black-box shift estimation): right in the
    long run for any classifier. "em" maximises the likelihood of the new rows, Σ log Σ_y w_y·p_y(x) (Saerens,
    Latinne, Decaestecker 2002): sharper where the probabilities are calibrated, and off where they are
    not, which its standard errors do not know. Those of "confusion" are by the delta method.

    Args:
        probs: (n, K) probabilities of labelled rows; logits with `from_logits=True`.
        labels: their true classes, as indices or as names.
        new_probs: (m, K) probabilities of the rows where one predicts.
        method: "confusion" or "em".
        classes: names of the K columns; a data frame brings its own.
        from_logits: whether both are logits, of which a softmax is taken.

    >>> import numpy as np, pippin
    >>> data = pippin.load_example()
    >>> more = np.flatnonzero((data.labels == 0) | (np.arange(4986) % 3 == 0))      # class 0 three times as common
    >>> found = pippin.shift.label_ratios(data.probs, data.labels, data.probs[more])
    >>> np.round(found.ratios[:3] / found.ratios[1], 1)
    array([3.4, 1. , 1.2])
    """
    rows, codes, names = as_labelled(probs, labels, classes, from_logits)
    new = as_rows(new_probs, from_logits)
    if new.n_classes != rows.n_classes:
        raise InputError(
            f"Expected {rows.n_classes} columns in new_probs, got {new.n_classes}", "pass the same classes"
        )
    if method not in METHODS:
        raise InputError(f"Expected method to be confusion or em, got {method!r}", "choose one of them")
    counts = np.bincount(codes, minlength=rows.n_classes)
    if not counts.all():
        raise InputError(
            f"Expected labelled rows of every class, got none of {names[int(counts.argmin())]!r}", "add some"
        )
    shares = counts / rows.n
    found = _by_em(new, shares, rows.n) if method == "em" else _by_confusion(rows, codes, new)
    return LabelRatios(*found, names)


def _by_confusion(rows: Rows, codes: Codes, new: Rows) -> tuple[Vector, Vector]:
    """w = C⁻¹q, none negative, with Var(w) = C⁻¹(Σ_q/m + Σ_r/n)C⁻ᵀ, r the residuals of the labelled rows."""
    k, n, m = rows.n_classes, rows.n, new.n
    predicted, of_new = dispatch.best(rows)[0], dispatch.best(new)[0]
    joint = np.zeros((k, k))
    np.add.at(joint, (predicted, codes), 1 / n)
    q = np.bincount(of_new, minlength=k) / m
    try:
        inverse = np.linalg.inv(joint)
    except np.linalg.LinAlgError as error:
        raise InputError(
            "Expected a confusion matrix that can be inverted, got a singular one", "use method='em', or more rows"
        ) from error
    ratios = inverse @ q
    weighted = np.zeros((k, k))
    np.add.at(weighted, (predicted, predicted), ratios[codes] ** 2 / n)
    spread = (np.diag(q) - np.outer(q, q)) / m + (weighted - np.outer(q, q)) / n
    return np.maximum(ratios, 0.0), np.sqrt(np.maximum(np.diag(inverse @ spread @ inverse.T), 0.0))


def _by_em(new: Rows, shares: Vector, n: int) -> tuple[Vector, Vector]:
    """π ← mean of the probabilities reweighted by π/P(y), until it rests; w = π/P(y)."""
    new = new.verified()
    p = np.asarray(new.block(0, new.n), dtype=np.float64)
    pi = shares.copy()
    for _ in range(STEPS):
        lifted = p * (pi / shares)
        now = np.maximum((lifted / lifted.sum(axis=1, keepdims=True)).mean(axis=0), SMALLEST)
        now /= now.sum()
        done = np.abs(now - pi).max() < CLOSE
        pi = now
        if done:
            break
    return pi / shares, _em_errors(p / shares, pi, shares, n)


def _em_errors(densities: Vector, pi: Vector, shares: Vector, n: int) -> Vector:
    """From the inverse of Σ g gᵀ on the simplex, g_y = (p_y/P(y))/Σ_z π_z p_z/P(z), and the binomial error of P(y)."""
    g = densities / (densities @ pi)[:, None]
    k = len(pi)
    tangent = np.linalg.svd(np.ones((1, k)))[2][1:].T  # directions in which shares still sum to 1
    information = tangent.T @ (g.T @ g) @ tangent
    variance = np.diag(tangent @ np.linalg.pinv(information) @ tangent.T)
    relative = (1 - shares) / (n * shares)
    return np.sqrt(np.maximum(variance, 0) / shares**2 + (pi / shares) ** 2 * relative)
