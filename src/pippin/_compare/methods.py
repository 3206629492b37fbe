"""What `compare` compares: a score, and how its thresholds are formed.

A plain score has one threshold for all. A `Method` asks for more: a threshold per class,
per group or per cluster, RC3P, the singletons of the margin, or sets that are never empty.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, get_args

from pippin._predictors.combination import Guarantee
from pippin._predictors.conditional import PER, Per
from pippin._theory.scores import Score, ip, parse_score

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
COMBINED = "ip/ms"  # the margin's singletons, else IP's sets; a word after it names the guarantee


@dataclass(frozen=True)
class Method:
    """A score, what its thresholds are per, and whether empty sets get the most probable class.

    `margin` asks for the IP/MS combination, of the score ip, with that guarantee.

    `str` gives the spelling that `parse_method` reads; a plain method is spelled like its score.

    >>> import pippin
    >>> print(pippin.Method(pippin.repip(gamma=0.05), per="class", nonempty=True))
    repip(gamma=0.05) per class nonempty
    """

    score: Score
    per: Per | None = None
    nonempty: bool = False
    margin: Guarantee | None = None

    def __post_init__(self) -> None:
        if self.per is not None and self.per not in PER:
            raise ValueError(f"Expected per to be None or one of {', '.join(map(repr, PER))}, got {self.per!r}.")
        if self.margin is not None and (self.margin not in get_args(Guarantee) or self.per or self.score != ip()):
            raise ValueError(
                f"Expected a margin that is 'recalibrated', 'sum' or 'none', with the score ip and no per, "
                f"got {self.margin!r}, {self.score} and {self.per!r}."
            )

    @property
    def plain(self) -> bool:
        """Whether the score alone says it all."""
        return self.per is None and self.margin is None and not self.nonempty

    @property
    def by_class(self) -> bool:
        """Whether a class is judged by examples of that class alone."""
        return self.per in ("class", "class and group", "rc3p")

    @property
    def by_group(self) -> bool:
        """Whether the method needs to know groups."""
        return self.per in ("group", "class and group")

    def __str__(self) -> str:
        score = str(self.score) if self.margin is None else COMBINED
        way = SPELLINGS[self.per] if self.margin in (None, "recalibrated") else self.margin
        parts = (score, way, NONEMPTY if self.nonempty else "")
        return " ".join(filter(None, parts))

    __repr__ = __str__


Candidate = Score | Method  # a plain method is held as its score


def parse_method(text: Any) -> Method:
    """Reads a method's spelling, such as `pip per class`; a Method passes through, a Score becomes a plain one.

    >>> import pippin
    >>> method = pippin.parse_method("raps(lam=0.1) per class and group")
    >>> method.score, method.per
    (raps(lam=0.1), 'class and group')

    Raises:
        ValueError: the text is no score, or what follows it is no way to form thresholds.
    """
    if isinstance(text, Method):
        return text
    if not isinstance(text, str):
        return Method(parse_score(text))
    end = text.rfind(")") + 1 or len(text.split(maxsplit=1)[0] if text.strip() else "") + _indent(text)
    score, words = text[:end], text[end:].split()
    nonempty = words[-1:] == [NONEMPTY]
    rest = " ".join(words[:-1] if nonempty else words)
    if score.strip() == COMBINED:
        guarantee: Any = rest or "recalibrated"
        if guarantee not in get_args(Guarantee):
            raise ValueError(f"Cannot read {rest!r} in {text.strip()!r}: write ip/ms, ip/ms sum or ip/ms none.")
        return Method(ip(), None, nonempty, guarantee)
    for per, spelling in SPELLINGS.items():
        if rest == spelling:
            return Method(parse_score(score), per, nonempty)
    parse_score(score)
    raise ValueError(
        f"Cannot read {rest!r} in {text.strip()!r}: after the score write nothing, per class, per group, "
        "per class and group, per cluster or rc3p, and then nonempty or nothing."
    )


def parse_methods(given: Any) -> tuple[Candidate, ...]:
    """One candidate or several, each once; plain ones as their scores.

    >>> parse_methods(["ip", "ip per class", "ip"])
    (ip, ip per class)
    """
    several: Iterable[Any] = (given,) if isinstance(given, str | Score | Method) else tuple(given)
    found = tuple(dict.fromkeys(_candidate(parse_method(one)) for one in several))
    if not found:
        raise ValueError("Expected at least one score, got none: pass for example ['ip', 'repip'].")
    return found


def score_of(candidate: Candidate) -> Score:
    """The score that a candidate rests on."""
    return candidate.score if isinstance(candidate, Method) else candidate


def _candidate(method: Method) -> Candidate:
    return method.score if method.plain else method


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
