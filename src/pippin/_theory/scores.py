"""Nonconformity scores: each is a family, such as RAPS, with values of its parameters."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeGuard

import numpy as np

from pippin._runtime.arrays import Vector
from pippin._runtime.errors import InputError, UnknownScoreError
from pippin._theory import formula
from pippin._theory.formula import Coefficients, Family, Value

MANY = 64  # number of classes for which a score is checked as long as the actual number is unknown


@dataclass(frozen=True)
class Score:
    """Nonconformity score: its name and its parameters, such as "repip(gamma=0.05)".

    `str` converts a score to text, and `pippin.scores.parse` reads this text.

    Attributes:
        name: the name of the score, such as "repip".
        parameters: all parameters as pairs of a name and a value.

    >>> import pippin
    >>> print(pippin.scores.repip(gamma=0.05))
    repip(gamma=0.05)
    >>> pippin.scores.parse("repip(gamma=0.05)") == pippin.scores.repip(gamma=0.05)
    True
    """

    name: str
    parameters: tuple[tuple[str, Value], ...] = ()

    def __post_init__(self) -> None:
        keys = [key for key, _ in self.parameters]
        if self.name not in formula.FAMILIES or keys != list(formula.FAMILIES[self.name].defaults):
            raise InputError(f"Cannot make a score {self.name!r} by hand", "use pippin.scores.parse")

    @cached_property
    def randomized(self) -> bool:
        """True if the score uses a random number u for each object, such as APS."""
        return bool(coefficients(self, MANY).table[:, (formula.OWN_U, formula.PENALTY_U)].any())

    def replace(self, **parameters: Value) -> "Score":
        """Return the score with some parameters changed.

        Args:
            parameters: their new values, by name.

        Returns:
            The new score.

        Raises:
            InputError: a parameter is unknown, or its value is out of range.

        >>> import pippin
        >>> print(pippin.scores.raps().replace(lam=0.1))
        raps(lam=0.1)
        """
        return make_score(self.name, {**dict(self.parameters), **parameters})

    def content(self) -> dict[str, Any]:
        """Return the name and the parameters as a dictionary, in the form in which predictors are saved to files.

        Returns:
            A dictionary with the keys "name" and "parameters".

        >>> import pippin
        >>> pippin.scores.pip().content()
        {'name': 'pip', 'parameters': {'beta': 1.0}}
        """
        return {"name": self.name, "parameters": dict(self.parameters)}

    def __str__(self) -> str:
        defaults = formula.FAMILIES[self.name].defaults
        return spell(self.name, {key: (value, defaults.get(key)) for key, value in self.parameters})

    __repr__ = __str__


def ip() -> Score:
    """Inverse probability (LAC, THR, hinge): 1 − p_y for the class y with the probability p_y.

    Its sets have the smallest mean size if the probabilities are correct.

    `Sadinle, Lei and Wasserman (2019) <https://arxiv.org/abs/1609.00451>`__.

    Returns:
        The score.

    >>> import pippin
    >>> pippin.scores.score([[0.5, 0.3, 0.2]], None, pippin.scores.ip())
    array([[0.5, 0.7, 0.8]])
    """
    return make_score("ip", {})


def margin() -> Score:
    """Margin score of a class: the largest probability of any other class, minus the probability of this class.

    It favors sets with one class.

    `Johansson et al. (2017) <https://doi.org/10.1109/IJCNN.2017.7966105>`__.

    Returns:
        The score.

    >>> import pippin
    >>> pippin.scores.score([[0.5, 0.25, 0.25]], None, pippin.scores.margin())
    array([[-0.25,  0.25,  0.25]])
    """
    return make_score("margin", {})


def aps(randomized: bool = True) -> Score:
    """Adaptive prediction sets (APS): p[1] + … + p[R − 1] + u·p[R] for the class at rank R.

    p[r] is the r-th largest probability of the object, and u is a random number, uniform in (0, 1); u = 1 if the score
    is not randomized.

    `Romano, Sesia and Candès (2020) <https://arxiv.org/abs/2006.02544>`__, Classification with valid and adaptive
    coverage.

    Args:
        randomized: draw u for each object; else it is 1. Then classes of probability 0 have the score 1, and if the
            threshold is 1, every set contains them: `calibrate` warns.

    Returns:
        The score.

    Raises:
        InputError: a parameter is out of range.

    >>> import pippin
    >>> pippin.scores.score([[0.5, 0.25, 0.25]], None, pippin.scores.aps(randomized=False))
    array([[0.5 , 0.75, 1.  ]])
    """
    return make_score("aps", {"randomized": randomized})


def raps(lam: float = 0.02, k_reg: int = 3, randomized: bool = True) -> Score:
    """Regularized APS (RAPS): the score `aps` plus the penalty λ·max(R − k_reg, 0) for the class at rank R.

    The most probable class has rank 1.

    `Angelopoulos et al. (2021) <https://arxiv.org/abs/2009.14193>`__, Uncertainty sets for image classifiers.

    Args:
        lam: λ, the penalty of each rank beyond k_reg.
        k_reg: the number of ranks without a penalty.
        randomized: whether the random number u of `aps` is drawn for each object; otherwise it is 1.

    Returns:
        The score.

    Raises:
        InputError: a parameter is out of range.

    >>> import pippin
    >>> pippin.scores.score([[0.5, 0.25, 0.25]], None, pippin.scores.raps(1, 2, randomized=False))
    array([[0.5 , 0.75, 2.  ]])
    """
    return make_score("raps", {"lam": lam, "k_reg": k_reg, "randomized": randomized})


def pip(beta: float = 1.0) -> Score:
    """Penalized inverse probability (PIP): 1 − p[R] + Σ_{r<R} p[r]·r^(−β) for the class at rank R.

    p[r] is the r-th largest probability of the object. The sum is the penalty: the weighted probabilities of all more
    probable classes. PIP equals the score `ip` at rank 1, and 1 plus the score `margin` at rank 2. For β = 1 it is
    between 0 and 2; for large β it tends to 1 plus the score `margin` at all ranks R > 1.

    `Melki et al. (2024) <https://arxiv.org/abs/2406.08884>`__.

    Args:
        beta: β, the exponent of the weights; 1 in Melki et al. (2024). For β = 0, all weights are 1.

    Returns:
        The score.

    Raises:
        InputError: a parameter is out of range.

    >>> import pippin
    >>> pippin.scores.score([[0.5, 0.25, 0.25]], None, pippin.scores.pip())
    array([[0.5  , 1.25 , 1.375]])
    """
    return make_score("pip", {"beta": beta})


def repip(gamma: float = 0.02, k_reg: int = 3, beta: float = 1.0) -> Score:
    """Regularized PIP (RePIP): the score `pip` plus the penalty γ·max(R − k_reg, 0) for the class at rank R.

    The most probable class has rank 1. Sets are smaller than those of PIP, often with fewer singletons.

    `Melki et al. (2024) <https://arxiv.org/abs/2406.08884>`__.

    Args:
        gamma: γ, the penalty of each rank beyond k_reg.
        k_reg: the number of ranks without a penalty.
        beta: β, the exponent of the weights in `pip`.

    Returns:
        The score.

    Raises:
        InputError: a parameter is out of range.

    >>> import pippin
    >>> pippin.scores.score([[0.5, 0.25, 0.25]], None, pippin.scores.repip(gamma=1, k_reg=2))
    array([[0.5  , 1.25 , 2.375]])
    """
    return make_score("repip", {"gamma": gamma, "k_reg": k_reg, "beta": beta})


def saps(lam: float = 0.1, randomized: bool = True) -> Score:
    """Sorted APS (SAPS): u·p[1] at rank 1, and p[1] + λ·(R − 2 + u) for the class at a rank R > 1.

    p[1] is the largest probability of the object, and u is a random number, uniform in (0, 1); u = 1 if the score is
    not randomized.

    `Huang et al. (2024) <https://arxiv.org/abs/2310.06430>`__, Conformal prediction for deep classifier via label
    ranking.

    Args:
        lam: λ, the penalty of each rank beyond the first.
        randomized: whether u is drawn at random for each object.

    Returns:
        The score.

    Raises:
        InputError: a parameter is out of range.

    >>> import pippin
    >>> pippin.scores.score([[0.5, 0.25, 0.25]], None, pippin.scores.saps(0.5, randomized=False))
    array([[0.5, 1. , 1.5]])
    """
    return make_score("saps", {"lam": lam, "randomized": randomized})


def topk() -> Score:
    """Top-k score: the rank of the class, 1 for the most probable one, so that all sets have the same size.

    `Angelopoulos et al. (2021) <https://arxiv.org/abs/2009.14193>`__.

    Returns:
        The score.

    >>> import pippin
    >>> pippin.scores.score([[0.2, 0.5, 0.3]], None, pippin.scores.topk())
    array([[3., 1., 2.]])
    """
    return make_score("topk", {})


def socop(mu: float = 8.0) -> Score:
    """Singleton-optimized score (SOCOP): sets that are small on average, and often singletons.

    Here a set with several classes counts as μ classes larger than it is. With p[r] the r-th largest probability of the
    object, the score is 1/p[1] at rank 1, and max(1/p[R], τ) at ranks R > 1, where τ is the smallest value of
    (m − 1 + μ)/(p[2] + … + p[m]) over m = 2, …, K. For μ = 0, the sets are those of the score `ip`.

    `Wang, Sun and Dobriban (2025) <https://arxiv.org/abs/2509.24095>`__.

    Args:
        mu: μ, the additional cost of a set with several classes, in units of one class.

    Returns:
        The score.

    Raises:
        InputError: a parameter is out of range.

    >>> import pippin
    >>> pippin.scores.score([[0.5, 0.25, 0.25]], None, pippin.scores.socop(mu=1))
    array([[2., 6., 6.]])
    """
    return make_score("socop", {"mu": mu})


def linear(weights: Sequence[float] | Vector, penalties: Sequence[float] | Vector = (0.0,)) -> Score:
    """Linear score with custom weights and penalties: 1 − p[R] + Σ_{r<R} w_r·p[r] + g_R for the class at rank R.

    p[r] is the r-th largest probability of the object. The last weight and the last penalty are used for all later
    ranks. The score `ip` is `linear((0,))`.

    Args:
        weights: the weights w_1, w_2, …; no weight may be negative.
        penalties: the penalties g_1, g_2, …; no penalty may be smaller than the one before.

    Returns:
        The score.

    Raises:
        InputError: a parameter is out of range.

    >>> import pippin
    >>> pippin.scores.score([[0.5, 0.25, 0.25]], None, pippin.scores.linear(weights=(1, 0.5)))
    array([[0.5  , 1.25 , 1.375]])
    """
    return make_score("linear", {"weights": weights, "penalties": penalties})


def make_score(name: str, parameters: Mapping[str, object]) -> Score:
    """Create a score from its name and parameters; missing parameters have their defaults.

    Raises:
        InputError: an unknown name or parameter, or a value out of range.
    """
    defaults = _family(name).defaults
    for key in parameters:
        if key not in defaults:
            takes = f"takes {', '.join(defaults)}" if defaults else "takes no parameters"
            raise InputError(f"The score {name} has no parameter {key!r}", f"it {takes}")
    filled = {**defaults, **parameters}
    return Score(name, tuple((key, _checked(name, key, filled[key])) for key in defaults))


@lru_cache(maxsize=16)
def coefficients(score: Score, n_classes: int) -> Coefficients:
    """Compute the coefficients of a score's formula for the ranks 1 to `n_classes`.

    Raises:
        InputError: a registered family returns invalid coefficients, or a score that can decrease with the rank.
    """
    family = _family(score.name)
    ranks = np.arange(1, n_classes + 1, dtype=np.float64)
    terms, registered = family.coefficients(ranks, **dict(score.parameters)), score.name not in formula.OURS
    if registered:
        _check_terms(score, terms, n_classes)
    table = formula.make_table(ranks, terms)
    if registered and (rank := formula.first_fall(table)) is not None:
        what = f"The score {score} can be smaller at rank {rank} than at the rank before"
        raise InputError(what, "raise its weights or penalties")
    return table


def _family(name: str) -> Family:
    if name not in formula.FAMILIES:
        what = f"Unknown score {name!r}: expected one of {', '.join(formula.FAMILIES)}"
        in_files = "name the module that registers a custom score with --import"
        raise UnknownScoreError(what, "import the module that registers a custom score first", in_files)
    return formula.FAMILIES[name]


def _check_terms(score: Score, terms: object, n_classes: int) -> None:
    """Raise an InputError unless a registered family returned coefficients of the formula."""
    allowed = (*formula.COLUMNS, *(name for name in formula.NUMBERS if name != "price"))
    if not isinstance(terms, Mapping) or not set(terms) <= set(allowed):
        raise InputError(f"The score {score} needs coefficients by the names {', '.join(allowed)}, got {terms!r}")
    for name, values in terms.items():
        shape = np.shape(values)
        if shape not in ((), (n_classes,) if name in formula.COLUMNS else ()) or not np.isfinite(values).all():
            wanted = f"one finite number{' or one per rank' * (name in formula.COLUMNS)}"
            raise InputError(f"The score {score} needs {name} to be {wanted}, got {values!r}")


def _checked(name: str, key: str, value: object) -> Value:
    """Validate the value of a score's parameter, and convert it to the type of the parameter's default."""
    default, builtin = formula.FAMILIES[name].defaults[key], name in formula.OURS
    kind: Any = type(default)
    if kind is bool:
        wanted, good = "True or False", isinstance(value, bool | np.bool_)
    elif kind is tuple:
        wanted, good = "one or more finite numbers", bool(numbers := _as_vector(value))
        if key == "weights" and builtin:
            wanted, good = f"{wanted}, none negative", good and min(numbers) >= 0
        elif key == "penalties" and builtin:
            wanted, good = f"{wanted}, none smaller than the one before", good and list(numbers) == sorted(numbers)
        kind = _as_vector
    else:
        wanted = f"a {'whole' if kind is int else 'finite'} number" + " of at least 0" * builtin
        good = is_real(value) and (value >= 0 or not builtin) and (kind is float or value == int(value))
    if not good:
        raise InputError(f"The score {name} needs {key} to be {wanted}, got {value!r}")
    checked: Value = kind(value)
    return checked


def is_value(value: object) -> bool:
    """Return True for a valid type of score parameter: a truth value, a finite number, or a tuple of finite numbers."""
    return isinstance(value, bool) or is_real(value) or (isinstance(value, tuple) and all(map(is_real, value)))


def is_real(value: object) -> TypeGuard[float]:
    """Return True for a finite number; False for a truth value and anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # raised for an integer above the largest float
        return False


def _as_vector(value: object) -> tuple[float, ...]:
    """Convert a sequence of finite numbers to a tuple; return an empty tuple for anything else."""
    numbers = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(numbers, list | tuple) or not all(is_real(x) for x in numbers):
        return ()
    return tuple(float(x) for x in numbers)


def spell(name: str, parameters: Mapping[str, tuple[object, object]]) -> str:
    """Write a score as text, with the parameters that differ from their defaults.

    `parameters` holds a pair of value and default for each name.
    """
    changed = [f"{key}={_spell_value(value)}" for key, (value, default) in parameters.items() if value != default]
    return f"{name}({', '.join(changed)})" if changed else name


def _spell_value(value: object) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_spell_value, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return value if isinstance(value, str) else repr(value)


PAPER_SCORES: tuple[Score, ...] = (ip(), margin(), aps(), raps(), pip(), repip())
