"""Scores by their spelling: read from text, and families of others registered under a name."""

import ast
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
    name, parameters = _name_and_parameters(text)
    if name is not None:
        lower = name.lower()
        known = name if name in FAMILIES else OTHER_NAMES.get(lower, lower if lower in FAMILIES else name)
        return make_score(known, parameters)
    hint = "write a name or name(parameter=value), like repip(gamma=0.05)"
    if "ip/ms" in text:
        hint = "that is for compare, elsewhere call calibrate_combination"
    elif "sharpened" in text.split():
        hint = "that is for compare, elsewhere call pippin.learn, or pass the score alone and sharpen= beside it"
    elif {"per", "rc3p", "nonempty"} & set(text.split()):
        hint = "that is for compare, elsewhere pass the score alone and per='class' beside it"
    raise InputError(f"Cannot read the score {text!r}", hint)


def _name_and_parameters(text: str) -> tuple[str | None, dict[str, Any]]:
    """What a spelling says; no name, if it is none."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
        if isinstance(node, ast.Name):
            return node.id, {}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
            values = {k.arg: ast.literal_eval(k.value) for k in node.keywords if k.arg}
            if len(values) == len(node.keywords):
                return node.func.id, values
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        pass
    return None, {}


def parse_scores(given: Any) -> tuple[Score, ...]:
    """One score or several, each once.

    Raises:
        InputError: there is none, or one cannot be read.
    """
    several = (given,) if isinstance(given, str | Score) else tuple(given)
    if not several:
        raise InputError("Expected at least one score, got none", "pass for example ['ip', 'repip']")
    return tuple(dict.fromkeys(parse_score(score) for score in several))
