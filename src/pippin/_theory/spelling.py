"""Scores as text such as "raps(lam=0.1)": parsing, registration of custom families, and the IP/MS combination."""

import ast
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar, Literal

from pippin._runtime.errors import InputError
from pippin._theory.formula import FAMILIES, OURS, Family
from pippin._theory.level import as_alpha
from pippin._theory.scores import MANY, Score, coefficients, is_real, is_value, make_score, spell

OTHER_NAMES = {"lac": "ip", "hinge": "ip", "thr": "ip", "top_k": "topk", "ms": "margin"}  # names in other libraries
COMBINED = "ip/ms"
INTERPOLATED = "interpolated"
VARIANTS = ("recalibrated", "sum", "none")


@dataclass(frozen=True)
class IpMs:
    """Score of the IP/MS combination: the set of the margin score if it is a singleton, else the set of IP.

    `str` gives the text that `parse_ip_ms` reads.

    Attributes:
        variant: calibration of the two thresholds. "recalibrated" calibrates the threshold of IP for the combination,
            on rows that are not used for the threshold of the margin score. "sum" calibrates both at alpha/2. "none"
            calibrates both at alpha, as published; this guarantees a coverage of only 1 − 2·alpha.
        fraction: for "recalibrated", the share of the rows that is used for the threshold of the margin score.
        share: for "recalibrated", the share of alpha at which the threshold of the margin score is calibrated; None
            for the default, which depends on the numbers of rows.

    >>> print(IpMs("sum"), IpMs(fraction=0.25))
    ip/ms(variant=sum) ip/ms(fraction=0.25)
    """

    variant: Literal["recalibrated", "sum", "none"] = "recalibrated"
    fraction: float = 0.5
    share: float | None = None

    randomized: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.variant not in VARIANTS:
            raise InputError(f"Expected the variant 'recalibrated', 'sum' or 'none', got {self.variant!r}")
        if not is_real(self.fraction) or not 0 < self.fraction < 1:
            raise InputError(f"Expected a fraction of the rows strictly between 0 and 1, got {self.fraction!r}")
        if self.share is not None and (not is_real(self.share) or not 0 < self.share <= 1):
            raise InputError(f"Expected a share of alpha above 0 and at most 1, got {self.share!r}")

    def __str__(self) -> str:
        return spell(COMBINED, {field.name: (getattr(self, field.name), field.default) for field in fields(self)})

    __repr__ = __str__


def parse_ip_ms(text: Any) -> IpMs | None:
    """Parse "ip/ms", with or without parameters; return None for any other score.

    >>> parse_ip_ms("ip/ms(variant=none)"), parse_ip_ms("ip")
    (ip/ms(variant=none), None)

    Raises:
        InputError: a parameter is unknown, or other words follow.
    """
    if isinstance(text, IpMs):
        return text
    if not isinstance(text, str) or not text.strip().lower().startswith(COMBINED):
        return None
    name, parameters = read_call(f"combined{text.strip()[len(COMBINED) :]}")
    if name != "combined":
        raise InputError(f"Cannot read the score {text!r}", "write ip/ms or ip/ms(variant=sum)")
    if unknown := sorted(set(parameters) - {field.name for field in fields(IpMs)}):
        raise InputError(f"The score ip/ms has no parameter {unknown[0]!r}", "it takes variant, fraction and share")
    return IpMs(**parameters)


@dataclass(frozen=True)
class Interpolated:
    """Parameters of thresholds between marginal and class-conditional ones.

    `str` converts them to the text that `pippin.calibrate` accepts as `per`.

    Attributes:
        share: weight of a class's own scores, against those of all classes, in the threshold of the class; above 0 and
            at most 1. With a smaller share, all thresholds are closer to the marginal one.
        learning_fraction: share of the rows that determine how much the thresholds of classes differ; the other rows
            calibrate.

    >>> print(Interpolated(), Interpolated(share=0.5))
    interpolated interpolated(share=0.5)
    """

    share: float = 0.75
    learning_fraction: float = 0.5

    def __post_init__(self) -> None:
        if not is_real(self.share) or not 0 < self.share <= 1:
            raise InputError(f"Expected a share above 0 and at most 1, got {self.share!r}", "0.5 is half way")
        as_alpha(self.learning_fraction, "a learning fraction", "0.5 learns on half of the rows")

    def __str__(self) -> str:
        return spell(INTERPOLATED, {field.name: (getattr(self, field.name), field.default) for field in fields(self)})


def parse_interpolated(text: Any) -> Interpolated | None:
    """Parse the taxonomy "interpolated", with or without parameters; return None for any other value.

    >>> parse_interpolated("interpolated(share=0.5)"), parse_interpolated("class")
    (Interpolated(share=0.5, learning_fraction=0.5), None)

    Raises:
        InputError: a parameter is unknown or out of its range.
    """
    name, parameters = read_call(text) if isinstance(text, str) else (None, {})
    if name != INTERPOLATED:
        return None
    if unknown := sorted(set(parameters) - {field.name for field in fields(Interpolated)}):
        raise InputError(f"'interpolated' has no parameter {unknown[0]!r}", "it takes share and learning_fraction")
    return Interpolated(**parameters)


def register(name: str, family: Family) -> None:
    """Register a family of scores, so that all functions accept `"name(parameter=value)"` as a score.

    A registered family can be replaced by another one of this name, a built-in family cannot. To test the scores of the
    family, call `pippin.testing.check_score`.

    Args:
        name: a name that consists of letters, digits and underscores.
        family: the parameters with their default values, and a function that returns the coefficients of the score.

    Raises:
        InputError: the name or the family is invalid, or the score can decrease with the rank.

    >>> import pippin
    >>> def steep(ranks, power):
    ...     return {"constant": 1, "own": -1, "above": ranks**-power}
    >>> pippin.scores.register("steep", pippin.scores.Family({"power": 2.0}, steep))
    >>> pippin.scores.score([[0.5, 0.25, 0.25]], None, "steep(power=1)")
    array([[0.5  , 1.25 , 1.375]])
    """
    if not isinstance(name, str) or not name.isidentifier() or name in OURS:
        raise InputError(f"Expected a new name of letters, digits and _, got {name!r}", "choose for example 'mine'")
    if not isinstance(family, Family) or not all(is_value(value) for value in family.defaults.values()):
        what = f"Expected a Family whose parameters are numbers, truth values or tuples of numbers, got {family!r}"
        raise InputError(what, "pass pippin.scores.Family(defaults, coefficients)")
    earlier = FAMILIES.get(name)
    FAMILIES[name] = Family(dict(family.defaults), family.coefficients)
    try:
        _parse_text.cache_clear()
        coefficients.cache_clear()
        coefficients(make_score(name, {}), MANY)
    except BaseException:
        FAMILIES.pop(name)
        if earlier is not None:
            FAMILIES[name] = earlier
        raise


def parse_score(text: Any) -> Score:
    """Parse a score from its name and parameters, such as `repip(gamma=0.05, k_reg=2)`.

    Case does not matter. Names of other libraries are accepted: LAC, THR and hinge are ip, top_k is topk, ms is margin.

    Args:
        text: the name with parameters; or a `Score`, which is returned unchanged.

    Returns:
        The score; parameters that the text leaves out have their default values.

    Raises:
        InputError: the text is not a score's name with keyword parameters.

    >>> import pippin
    >>> pippin.scores.parse("raps( lam = 1e-2 )")
    raps(lam=0.01)
    >>> pippin.scores.parse("LAC")
    ip
    """
    if isinstance(text, Score):
        return text
    if getattr(text, "plain", False):  # a `Method` of `compare` that consists of a score only
        return parse_score(text.score)
    if not isinstance(text, str):
        hint = "call tuned.calibrate()" if hasattr(text, "calibrate") else "pass for example 'repip'"
        raise InputError(f"Expected a score or its name, got {type(text).__name__}", hint)
    return _parse_text(text)


@lru_cache(maxsize=64)
def _parse_text(text: str) -> Score:
    name, parameters = read_call(text)
    if name is not None:
        lower = name.lower()
        family = name if name in FAMILIES else OTHER_NAMES.get(lower, lower if lower in FAMILIES else name)
        return make_score(family, parameters)
    hint = "write a name or name(parameter=value), like repip(gamma=0.05)"
    if COMBINED in text.lower():
        hint = "it combines two scores, which only calibrate and compare can do"
    elif "sharpened" in text.split():
        hint = "that is for compare, elsewhere pass the score alone and sharpen= with it"
    elif {"per", "rc3p", "nonempty"} & set(text.split()):
        hint = "that is for compare, elsewhere pass the score alone and per='class' with it"
    raise InputError(f"Cannot read the score {text!r}", hint)


def read_call(text: str) -> tuple[str | None, dict[str, Any]]:
    """Split text such as "raps(lam=0.1)" into name and parameters; return None as the name if it has another form."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
        if isinstance(node, ast.Name):
            return node.id, {}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
            values = {k.arg: _literal(k.value) for k in node.keywords if k.arg}
            if len(values) == len(node.keywords):
                return node.func.id, values
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        pass
    return None, {}


def _literal(node: ast.expr) -> Any:
    return node.id if isinstance(node, ast.Name) and node.id in VARIANTS else ast.literal_eval(node)
