"""Scores by name: `formula.py` with its parameters filled in, made by a call or read from a spelling."""

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeGuard

import numpy as np

from pippin._theory.formula import FAMILIES, Coefficients, Value, Vector


@dataclass(frozen=True)
class Score:
    """A score: its name and parameters. `str` gives the spelling that `parse_score` reads.

    >>> import pippin
    >>> print(pippin.repip(gamma=0.05))
    repip(gamma=0.05)
    >>> pippin.parse_score("repip(gamma=0.05)") == pippin.repip(gamma=0.05)
    True
    """

    name: str
    parameters: tuple[tuple[str, Value], ...] = ()

    def __post_init__(self) -> None:
        if self.name not in FAMILIES or [key for key, _ in self.parameters] != list(FAMILIES[self.name].defaults):
            raise ValueError(f"Cannot make a score {self.name!r} by hand: use pippin.repip(…) or pippin.parse_score.")

    @property
    def randomized(self) -> bool:
        """Whether the score draws a u for each object."""
        return ("randomized", True) in self.parameters

    def replace(self, **parameters: Value) -> "Score":
        """The same score with some parameters changed.

        >>> import pippin
        >>> print(pippin.raps().replace(lam=0.1))
        raps(lam=0.1)
        """
        return make_score(self.name, {**dict(self.parameters), **parameters})

    def content(self) -> dict[str, Any]:
        """The score as a file holds it, all parameters spelled out."""
        return {"name": self.name, "parameters": dict(self.parameters)}

    def __str__(self) -> str:
        defaults = FAMILIES[self.name].defaults
        told = [f"{k}={_spell(v)}" for k, v in self.parameters if v != defaults.get(k)]
        return f"{self.name}({', '.join(told)})" if told else self.name

    __repr__ = __str__


def ip() -> Score:
    """Inverse probability, or hinge: 1 − p^y. The smallest sets.

    >>> import pippin
    >>> pippin.score([[0.5, 0.3, 0.2]], None, pippin.ip())
    array([[0.5, 0.7, 0.8]])
    """
    return make_score("ip", {})


def margin() -> Score:
    """Margin score: the largest other probability minus p^y. The most singletons.

    >>> import pippin
    >>> pippin.score([[0.5, 0.25, 0.25]], None, pippin.margin())
    array([[-0.25,  0.25,  0.25]])
    """
    return make_score("margin", {})


def aps(randomized: bool = True) -> Score:
    """Adaptive prediction sets: Σ_{r<R} p[r] + u·p[R]; u = 1 when not randomised.

    Romano, Sesia, Candès (2020), Classification with valid and adaptive coverage.

    >>> import pippin
    >>> pippin.score([[0.5, 0.25, 0.25]], None, pippin.aps(randomized=False))
    array([[0.5 , 0.75, 1.  ]])
    """
    return make_score("aps", {"randomized": randomized})


def raps(lam: float = 0.02, k_reg: int = 3, randomized: bool = True) -> Score:
    """Regularised APS: APS + λ·(R − k_reg)⁺.

    Angelopoulos, Bates, Malik, Jordan (2021), Uncertainty sets for image classifiers.

    >>> import pippin
    >>> pippin.score([[0.5, 0.25, 0.25]], None, pippin.raps(1, 2, randomized=False))
    array([[0.5 , 0.75, 2.  ]])
    """
    return make_score("raps", {"lam": lam, "k_reg": k_reg, "randomized": randomized})


def pip(beta: float = 1.0) -> Score:
    """Penalized inverse probability: 1 − p^y + Σ_{r<R} p[r]/r^β.

    IP at rank 1, 1 + margin at rank 2, between 0 and 2 when β = 1 (the paper's score).
    β = 0 adds the whole mass above y; a large β gives 1 + margin below rank 1.
    Melki et al. (2024).

    >>> import pippin
    >>> pippin.score([[0.5, 0.25, 0.25]], None, pippin.pip())
    array([[0.5  , 1.25 , 1.375]])
    """
    return make_score("pip", {"beta": beta})


def repip(gamma: float = 0.02, k_reg: int = 3, beta: float = 1.0) -> Score:
    """Regularised PIP: PIP + γ·(R − k_reg)⁺. PIP's singletons in smaller sets.

    >>> import pippin
    >>> pippin.score([[0.5, 0.25, 0.25]], None, pippin.repip(gamma=1, k_reg=2))
    array([[0.5  , 1.25 , 2.375]])
    """
    return make_score("repip", {"gamma": gamma, "k_reg": k_reg, "beta": beta})


def saps(lam: float = 0.1, randomized: bool = True) -> Score:
    """Sorted APS: u·p[1] at rank 1, p[1] + λ·(R − 2 + u) below; u = 1 when not randomised.

    Huang et al. (2024), Conformal prediction for deep classifier via label ranking.

    >>> import pippin
    >>> pippin.score([[0.5, 0.25, 0.25]], None, pippin.saps(0.5, randomized=False))
    array([[0.5, 1. , 1.5]])
    """
    return make_score("saps", {"lam": lam, "randomized": randomized})


def topk() -> Score:
    """The rank itself: every set has the same size.

    >>> import pippin
    >>> pippin.score([[0.2, 0.5, 0.3]], None, pippin.topk())
    array([[3., 1., 2.]])
    """
    return make_score("topk", {})


def socop(mu: float = 8.0) -> Score:
    """Singleton-optimised: the cheapest sets when leaving a singleton costs μ classes.

    s(1) = 1/p[1] and s(r) = max(1/p[r], τ), τ = min_{m>=2} (m − 1 + μ)/(p[2] + … + p[m]).
    μ = 0 gives IP's sets. Wang, Sun, Dobriban (2025), arXiv 2509.24095.

    >>> import pippin
    >>> pippin.score([[0.5, 0.25, 0.25]], None, pippin.socop(mu=1))
    array([[2., 6., 6.]])
    """
    return make_score("socop", {"mu": mu})


def linear(weights: Sequence[float] | Vector, penalties: Sequence[float] | Vector = (0.0,)) -> Score:
    """Your own score: 1 − p[r] + Σ_{j<r} w_j·p[j] + g_r, from two vectors over the ranks.

    `weights` are w_1, w_2, … (not negative), `penalties` g_1, g_2, … (not decreasing); the
    last value of each holds for all later ranks. IP is `linear((0,))`.

    >>> import pippin
    >>> pippin.score([[0.5, 0.25, 0.25]], None, pippin.linear(weights=(1, 0.5)))
    array([[0.5  , 1.25 , 1.375]])
    """
    return make_score("linear", {"weights": weights, "penalties": penalties})


def make_score(name: str, parameters: Mapping[str, object]) -> Score:
    """The score of that name; parameters not given keep their defaults.

    Raises:
        ValueError: an unknown name or parameter, or a value out of range.
    """
    if name not in FAMILIES:
        raise ValueError(f"Unknown score {name!r}: expected one of {', '.join(FAMILIES)}.")
    defaults = FAMILIES[name].defaults
    for key in parameters:
        if key not in defaults:
            takes = f"takes {', '.join(defaults)}" if defaults else "takes no parameters"
            raise ValueError(f"The score {name} has no parameter {key!r}: it {takes}.")
    filled = {**defaults, **parameters}
    return Score(name, tuple((key, _checked(name, key, filled[key])) for key in defaults))


def parse_score(text: Any) -> Score:
    """Reads a score's spelling, such as `repip(gamma=0.05, k_reg=2)`; a Score passes through.

    >>> import pippin
    >>> pippin.parse_score("raps( lam = 1e-2 )")
    raps(lam=0.01)

    Raises:
        ValueError: the text is not a score's name with keyword parameters.
    """
    if isinstance(text, Score):
        return text
    if not isinstance(text, str):
        hint = "call tuned.calibrate()" if hasattr(text, "calibrate") else "pass for example 'repip'"
        raise ValueError(f"Expected a score or its name, got {type(text).__name__}: {hint}.")
    return _read_spelling(text)


@lru_cache(maxsize=64)
def _read_spelling(text: str) -> Score:
    try:
        node = ast.parse(text.strip(), mode="eval").body
        if isinstance(node, ast.Name):
            return make_score(node.id, {})
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
            values = {k.arg: ast.literal_eval(k.value) for k in node.keywords if k.arg}
            if len(values) == len(node.keywords):
                return make_score(node.func.id, values)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if str(error).startswith(("Unknown score", "The score")):
            raise
    hint = "write a name or name(parameter=value), like repip(gamma=0.05)"
    if "ip/ms" in text:
        hint = "that is for compare, elsewhere call calibrate_combination"
    elif {"per", "rc3p", "nonempty"} & set(text.split()):
        hint = "that is for compare, elsewhere pass the score alone and per='class' beside it"
    raise ValueError(f"Cannot read the score {text!r}: {hint}.")


def parse_scores(given: Any) -> tuple[Score, ...]:
    """One score or several, each once.

    Raises:
        ValueError: there is none, or one cannot be read.
    """
    several = (given,) if isinstance(given, str | Score) else tuple(given)
    if not several:
        raise ValueError("Expected at least one score, got none: pass for example ['ip', 'repip'].")
    return tuple(dict.fromkeys(parse_score(score) for score in several))


@lru_cache(maxsize=16)
def coefficients(score: Score, n_classes: int) -> Coefficients:
    """The score's numbers for `n_classes` ranks."""
    ranks = np.arange(1, n_classes + 1, dtype=np.float64)
    made = FAMILIES[score.name].coefficients(ranks, **dict(score.parameters))
    made.table.flags.writeable = False
    return made


def _checked(name: str, key: str, value: object) -> Value:
    """The value in its canonical type, or an error that says what was expected."""
    if key == "randomized":
        wanted = "True or False"
        if isinstance(value, bool | np.bool_):
            return bool(value)
    elif key == "k_reg":
        wanted = "a whole number of at least 0"
        if _is_real(value) and value >= 0 and value == int(value):
            return int(value)
    elif key == "weights":
        wanted = "one or more finite numbers, none negative"
        if (numbers := _as_vector(value)) and min(numbers) >= 0:
            return numbers
    elif key == "penalties":
        wanted = "one or more finite numbers, none smaller than the one before"
        if (numbers := _as_vector(value)) and list(numbers) == sorted(numbers):
            return numbers
    else:
        wanted = "a finite number of at least 0"
        if _is_real(value) and value >= 0:
            return float(value)
    raise ValueError(f"The score {name} needs {key} to be {wanted}, got {value!r}.")


def _is_real(value: object) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def _as_vector(value: object) -> tuple[float, ...]:
    """The numbers of a sequence; none, if it is not one of finite numbers."""
    numbers = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(numbers, list | tuple) or not all(_is_real(x) for x in numbers):
        return ()
    return tuple(float(x) for x in numbers)


def _spell(value: Value) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_spell, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(value)


PAPER_SCORES: tuple[Score, ...] = (ip(), margin(), aps(), raps(), pip(), repip())
