"""Scores by their spelling: read from text, and families of others registered under a name."""

import ast
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from pippin._runtime.errors import InputError
from pippin._theory.formula import FAMILIES, OURS, Family
from pippin._theory.scores import MANY, Score, coefficients, is_value, make_score

OTHER_NAMES = {"lac": "ip", "hinge": "ip", "thr": "ip", "top_k": "topk", "ms": "margin"}  # what others call ours


def register(name: str, family: Family) -> None:
    """Makes a family of scores known under a name: then `"name(parameter=value)"` is a score everywhere.

    A name may be registered again, but not one of the scores that come with this package.
    `pippin.testing.check_score` holds a score against all laws.

    Args:
        name: a word of letters, digits and _.
        family: its parameters, and the coefficients that they give.

    >>> import pippin
    >>> def steep(ranks, power):
    ...     return {"constant": 1, "own": -1, "above": ranks**-power}
    >>> pippin.scores.register("steep", pippin.scores.Family({"power": 2.0}, steep))
    >>> pippin.scores.score([[0.5, 0.25, 0.25]], None, "steep(power=1)")
    array([[0.5  , 1.25 , 1.375]])

    Raises:
        InputError: another name or family than that, or a score that can fall with the rank.
    """
    if not isinstance(name, str) or not name.isidentifier() or name in OURS:
        raise InputError(f"Expected a new name of letters, digits and _, got {name!r}", "choose for example 'mine'")
    if not isinstance(family, Family) or not all(is_value(value) for value in family.defaults.values()):
        raise InputError(
            f"Expected a family whose parameters are numbers, truth values or tuples of numbers, got {family!r}",
            "pass pippin.scores.Family(defaults, coefficients)",
        )
    earlier = FAMILIES.get(name)
    FAMILIES[name] = Family(dict(family.defaults), family.coefficients)
    try:
        _read_spelling.cache_clear()
        coefficients.cache_clear()
        coefficients(make_score(name, {}), MANY)
    except BaseException:
        FAMILIES.pop(name)
        if earlier is not None:
            FAMILIES[name] = earlier
        raise


def parse_score(text: Any) -> Score:
    """Reads a score's spelling, such as `repip(gamma=0.05, k_reg=2)`; a Score passes through.

    Capitals do not matter, and names that other libraries use are understood: LAC, THR and
    hinge are ip, top_k is topk.

    Args:
        text: a score or its spelling.

    >>> import pippin
    >>> pippin.scores.parse("raps( lam = 1e-2 )")
    raps(lam=0.01)
    >>> pippin.scores.parse("LAC")
    ip

    Raises:
        InputError: the text is not a score's name with keyword parameters.
    """
    if isinstance(text, Score):
        return text
    if getattr(text, "plain", False):  # a method that is nothing but its score
        return parse_score(text.score)
    if not isinstance(text, str):
        hint = "call tuned.calibrate()" if hasattr(text, "calibrate") else "pass for example 'repip'"
        raise InputError(f"Expected a score or its name, got {type(text).__name__}", hint)
    return _read_spelling(text)


@lru_cache(maxsize=64)
def _read_spelling(text: str) -> Score:
    name, parameters = read_call(text)
    if name is not None:
        lower = name.lower()
        known = name if name in FAMILIES else OTHER_NAMES.get(lower, lower if lower in FAMILIES else name)
        return make_score(known, parameters)
    hint = "write a name or name(parameter=value), like repip(gamma=0.05)"
    if "ip/ms" in text:
        hint = "that is for calibrate and compare, elsewhere name a single score"
    elif "sharpened" in text.split():
        hint = "that is for compare, elsewhere pass the score alone and sharpen='split' beside it"
    elif {"per", "rc3p", "nonempty"} & set(text.split()):
        hint = "that is for compare, elsewhere pass the score alone and per='class' beside it"
    raise InputError(f"Cannot read the score {text!r}", hint)


def read_call(text: str) -> tuple[str | None, dict[str, Any]]:
    """What a spelling says; no name, if it is none."""
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
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)


IP_MS_VARIANTS = ("recalibrated", "sum", "none")


@dataclass(frozen=True)
class IpMs:
    """The IP/MS combination: the margin's set where it is a singleton, else IP's. `str` gives its spelling.

    Attributes:
        variant: "recalibrated" covers at least 1 − alpha: one part of the rows fixes the margin's threshold, the
            other calibrates IP's. "sum" calibrates both at alpha/2. "none" calibrates both at alpha, as published:
            all that is proven is 1 − 2·alpha.
        fraction: for "recalibrated", the part of the rows that fixes the margin's threshold.
        share: for "recalibrated", the margin's threshold is taken at share × alpha; None chooses it by the rows.

    >>> IpMs("sum"), parse_ip_ms("ip/ms(share=0.5)"), parse_ip_ms("ip")
    (ip/ms(variant=sum), ip/ms(share=0.5), None)
    """

    variant: str = "recalibrated"
    fraction: float = 0.5
    share: float | None = None

    randomized = False

    def __post_init__(self) -> None:
        if self.variant not in IP_MS_VARIANTS:
            raise InputError(f"Expected the variant 'recalibrated', 'sum' or 'none', got {self.variant!r}")

    def __str__(self) -> str:
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        parts = [f"{name}={value}" for name, value in own.items() if value != getattr(IpMs, name)]
        return f"ip/ms({', '.join(parts)})" if parts else "ip/ms"

    __repr__ = __str__


def parse_ip_ms(text: Any) -> IpMs | None:
    """Read the spelling of the IP/MS combination, such as `ip/ms(variant=sum)`; None for any other score."""
    if isinstance(text, IpMs):
        return text
    if not isinstance(text, str) or not text.strip().lower().startswith("ip/ms"):
        return None
    name, parameters = read_call("ip_ms" + text.strip()[len("ip/ms") :])
    if name != "ip_ms" or not set(parameters) <= {field.name for field in fields(IpMs)}:
        raise InputError(f"Cannot read the score {text!r}", "write ip/ms, ip/ms(variant=sum) or ip/ms(variant=none)")
    return IpMs(**parameters)


def parse_scores(given: Any) -> tuple[Score, ...]:
    """One score or several, each once.

    Raises:
        InputError: there is none, or one cannot be read.
    """
    several = (given,) if isinstance(given, str | Score) else tuple(given)
    if not several:
        raise InputError("Expected at least one score, got none", "pass for example ['ip', 'repip']")
    return tuple(dict.fromkeys(parse_score(score) for score in several))
