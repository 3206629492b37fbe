"""What `compare` compares: a score, and how its thresholds are formed.

A plain method is a score with one threshold for all. Others ask for more: probabilities that are
sharpened first, a threshold per class, per group or per cluster, RC3P, the singletons of the
margin, or sets that are never empty.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, get_args

from pippin._predictors.combination import Variant
from pippin._predictors.grouping import PER, Per
from pippin._runtime.errors import InputError
from pippin._theory.scores import Score, ip
from pippin._theory.spelling import parse_score

# How each kind of threshold is spelled after the score.
SPELLINGS: dict[Per | None, str] = {
    None: "",
    "class": "per class",
    "group": "per group",
    "class and group": "per class and group",
    "cluster": "per cluster",
    "rc3p": "rc3p",
}
NONEMPTY = "nonempty"
SHARPENED = "sharpened"
COMBINED = "ip/ms"  # the margin's singletons, else IP's sets; a word after it names the variant


@dataclass(frozen=True, eq=False)
class Method:
    """A score, what its thresholds are per, and what else is done to it.

    `str` gives the spelling that `parse_method` reads. A plain method equals its score, and is spelled like it.

    Attributes:
        score: the score.
        per: what the thresholds are per; None for one threshold.
        nonempty: whether empty sets get the most probable class.
        margin: that variant of the IP/MS combination, of the score ip; None for a score alone.
        sharpened: whether the probabilities are sharpened first.

    >>> import pippin
    >>> print(pippin.Method(pippin.repip(gamma=0.05), per="class", nonempty=True))
    repip(gamma=0.05) per class nonempty
    >>> pippin.Method(pippin.ip()) == pippin.ip()
    True
    """

    score: Score
    per: Per | None = None
    nonempty: bool = False
    margin: Variant | None = None
    sharpened: bool = False

    def __post_init__(self) -> None:
        if self.per is not None and self.per not in PER:
            raise InputError(f"Expected per to be None or one of {', '.join(map(repr, PER))}, got {self.per!r}")
        if self.margin is not None and (self.margin not in get_args(Variant) or self.per or self.score != ip()):
            raise InputError(
                "Expected a margin that is 'recalibrated', 'sum' or 'none', with the score ip and no per, "
                f"got {self.margin!r}, {self.score} and {self.per!r}"
            )

    @property
    def plain(self) -> bool:
        """Whether the score alone says it all."""
        return self.marginal and not self.sharpened

    @property
    def marginal(self) -> bool:
        """Whether it promises just what a plain score does: one threshold for all, and sets that may be empty."""
        return self.per is None and self.margin is None and not self.nonempty

    @property
    def by_class(self) -> bool:
        """Whether a class is judged by examples of that class alone."""
        return self.per in ("class", "class and group", "rc3p")

    @property
    def by_group(self) -> bool:
        """Whether the method needs to know groups."""
        return self.per in ("group", "class and group")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Score):
            return self.plain and self.score == other
        return isinstance(other, Method) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self.score if self.plain else self._key)

    @property
    def _key(self) -> tuple[Score, Per | None, bool, Variant | None, bool]:
        return self.score, self.per, self.nonempty, self.margin, self.sharpened

    def __str__(self) -> str:
        score = str(self.score) if self.margin is None else COMBINED
        way = SPELLINGS[self.per] if self.margin in (None, "recalibrated") else self.margin
        parts = (score, SHARPENED if self.sharpened else "", way, NONEMPTY if self.nonempty else "")
        return " ".join(filter(None, parts))

    __repr__ = __str__


def parse_method(text: Any) -> Method:
    """Reads a method's spelling, such as `pip per class`; a Method passes through, a Score becomes a plain one.

    Args:
        text: a method, a score, or a spelling.

    >>> import pippin
    >>> method = pippin.parse_method("raps(lam=0.1) per class and group")
    >>> method.score, method.per
    (raps(lam=0.1), 'class and group')

    Raises:
        InputError: the text is no score, or what follows it is no way to form thresholds.
    """
    if isinstance(text, Method):
        return text
    if not isinstance(text, str):
        return Method(parse_score(text))
    end = text.rfind(")") + 1 or len(text.split(maxsplit=1)[0] if text.strip() else "") + _indent(text)
    score, words = text[:end], text[end:].split()
    nonempty = words[-1:] == [NONEMPTY]
    sharpened = words[:1] == [SHARPENED]
    rest = " ".join(words[sharpened : -1 if nonempty else None])
    if score.strip() == COMBINED:
        variant: Any = rest or "recalibrated"
        if variant not in get_args(Variant):
            raise InputError(f"Cannot read {rest!r} in {text.strip()!r}", "write ip/ms, ip/ms sum or ip/ms none")
        return Method(ip(), None, nonempty, variant, sharpened)
    for per, spelling in SPELLINGS.items():
        if rest == spelling:
            return Method(parse_score(score), per, nonempty, None, sharpened)
    parse_score(score)
    raise InputError(
        f"Cannot read {rest!r} in {text.strip()!r}",
        "after the score write sharpened or nothing, then nothing, per class, per group, "
        "per class and group, per cluster or rc3p, and then nonempty or nothing",
    )


def parse_methods(given: Any) -> tuple[Method, ...]:
    """One method or several, or their scores or spellings, each once.

    >>> parse_methods(["ip", "ip per class", "ip"])
    (ip, ip per class)
    """
    several: Iterable[Any] = (given,) if isinstance(given, str | Score | Method) else tuple(given)
    methods = tuple(dict.fromkeys(parse_method(one) for one in several))
    if not methods:
        raise InputError("Expected at least one score, got none", "pass for example ['ip', 'repip']")
    return methods


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
