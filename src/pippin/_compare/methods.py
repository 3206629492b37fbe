"""Methods (a nonconformity score with a Mondrian taxonomy and options), and their spelling, such as "pip per class".

A plain method is a score with one threshold. Other methods have sharpened (recalibrated) probabilities, thresholds per
class, group or cluster, RC3P, interpolated thresholds, the IP/MS combination, or sets that are never empty.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, get_args

from pippin._conformal.mondrian import OVERLAPPING, Per
from pippin._runtime.errors import InputError
from pippin._theory.scores import Score, ip
from pippin._theory.spelling import COMBINED, INTERPOLATED, IpMs, parse_interpolated, parse_ip_ms, parse_score

# Words after the name of the score that select each taxonomy.
COMPARED = tuple(per for per in get_args(Per) if per != "groups randomized")
SPELLINGS: dict[str | None, str] = {
    None: "",
    **{per: f"per {per}" for per in COMPARED},
    "rc3p": "rc3p",
    INTERPOLATED: INTERPOLATED,
}
NONEMPTY = "nonempty"
SHARPENED = "sharpened"


@dataclass(frozen=True, eq=False)
class Method:
    """A nonconformity score with a Mondrian taxonomy and options, such as "pip per class".

    `str` converts a method to text, and `parse_method` reads this text. Without taxonomy and options, a method equals
    its score and has the same text.

    Attributes:
        score: the score; `ip()` if there is a `combination`.
        per: the Mondrian taxonomy; None for one threshold.
        nonempty: whether the most probable class is put into sets that would be empty.
        combination: the combination "ip/ms" of inverse probability and margin score; None for a single score.
        sharpened: whether probabilities are sharpened (recalibrated) first.

    >>> import pippin
    >>> print(pippin.scores.Method(pippin.scores.repip(gamma=0.05), per="class", nonempty=True))
    repip(gamma=0.05) per class nonempty
    >>> pippin.scores.Method(pippin.scores.ip()) == pippin.scores.ip()
    True
    """

    score: Score
    per: str | None = None
    nonempty: bool = False
    combination: IpMs | None = None
    sharpened: bool = False

    def __post_init__(self) -> None:
        if self.per is not None and self.per not in COMPARED and not parse_interpolated(self.per):
            raise InputError(f"Expected per to be None or one of {', '.join(map(repr, COMPARED))}, got {self.per!r}")
        if self.combination is not None and (self.per or self.score != ip()):
            raise InputError(f"Expected the score ip and no per for {COMBINED}, got {self.score} and {self.per!r}")

    @property
    def plain(self) -> bool:
        """True for a score without further options: it has one threshold, may give empty sets, and is not sharpened."""
        return self.marginal and not self.sharpened

    @property
    def marginal(self) -> bool:
        """True if the method has one threshold and sets that may be empty; False for a combination such as IP/MS."""
        return self.per is None and self.combination is None and not self.nonempty

    @property
    def interpolated(self) -> bool:
        """True if the thresholds lie between marginal and class-conditional ones; the guarantee is marginal."""
        return parse_interpolated(self.per) is not None

    @property
    def by_class(self) -> bool:
        """True if the thresholds are class-conditional."""
        return self.per in ("class", "class and group", "rc3p")

    @property
    def by_group(self) -> bool:
        """True if the thresholds depend on the group of a row, or on all its groups if these overlap."""
        return "group" in (self.per or "")

    @property
    def overlapping(self) -> bool:
        """True if the groups may overlap."""
        return self.per in OVERLAPPING

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Score):
            return self.plain and self.score == other
        return isinstance(other, Method) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.score if self.plain else tuple(vars(self).values()))

    def __str__(self) -> str:
        words = (
            SHARPENED if self.sharpened else "",
            SPELLINGS.get(self.per, self.per or ""),
            NONEMPTY if self.nonempty else "",
        )
        return " ".join(filter(None, (str(self.combination or self.score), *words)))

    __repr__ = __str__


def parse_method(text: Any) -> Method:
    """Parse a method from text, such as "pip per class" (a score with a Mondrian taxonomy and options).

    Args:
        text: the text; or a Score, which becomes a method with one threshold; or a Method, which is returned.

    Returns:
        The score with its taxonomy and options.

    Raises:
        InputError: the text does not begin with a score, or the words after it are unknown.

    >>> import pippin
    >>> method = pippin.scores.parse_method("raps(lam=0.1) per class and group")
    >>> method.score, method.per
    (raps(lam=0.1), 'class and group')
    """
    if isinstance(text, Method):
        return text
    if not isinstance(text, str):
        return Method(parse_score(text))
    text, parameters = text.strip(), INTERPOLATED
    if found := re.search(rf"(?<= ){INTERPOLATED}\([^()]*\)", text):
        text, parameters = text.replace(found[0], INTERPOLATED), str(parse_interpolated(found[0]) or found[0])
    end = text.rfind(")") + 1 or len(text.split(maxsplit=1)[0] if text else "")
    score, words = text[:end], text[end:].split()
    nonempty, sharpened = words[-1:] == [NONEMPTY], words[:1] == [SHARPENED]
    rest = " ".join(words[sharpened : -1 if nonempty else None])
    if (combination := parse_ip_ms(score)) is not None:
        if rest:
            raise InputError(f"Cannot read {rest!r} in {text!r}", "write ip/ms or ip/ms(variant=sum), without per")
        return Method(ip(), None, nonempty, combination, sharpened)
    chosen = parse_score(score)
    for per, spelling in SPELLINGS.items():
        if rest == spelling:
            return Method(chosen, parameters if per == INTERPOLATED else per, nonempty, None, sharpened)
    suffixes = (
        "sharpened; per class, per group, per class and group, per cluster, per groups, per largest group, rc3p or "
    )
    suffixes += "interpolated; nonempty"
    remedy = f"after the score write, each optional and in this order: {suffixes}"
    raise InputError(f"Cannot read {rest!r} in {text!r}", remedy)


def parse_methods(given: Any) -> tuple[Method, ...]:
    """Parse one or more methods, scores or spellings, and remove duplicates.

    >>> parse_methods(["ip", "ip per class", "ip"])
    (ip, ip per class)
    """
    several: Iterable[Any] = (given,) if isinstance(given, str | Score | Method) else given
    methods = tuple(dict.fromkeys(map(parse_method, several)))
    if not methods:
        raise InputError("Expected at least one score, got none", "pass for example ['ip', 'repip']")
    return methods
