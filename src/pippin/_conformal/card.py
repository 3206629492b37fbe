"""Cards of saved objects: questions of an assessor, such as "What is guaranteed?", with their answers.

Level, condition and variation of the guarantee are computed from the object when a card is made; only the provenance
(data, date, author, versions) is stored in its file.
"""

import math
import re
import textwrap
from collections.abc import Mapping, Sequence

from pippin._runtime.provenance import Provenance
from pippin._runtime.showing import visible
from pippin._theory.planning import coverage_interval

Card = dict[str, str]  # answer by question

NOT_RECORDED = "not recorded"
OUTSIDE = 0.05  # probability over calibration sets that coverage is outside the interval on a card
MOST_NAMES = 20  # maximum number of class names on a card
WIDTH = 96  # number of characters per line of a text page

EXCHANGEABLE_ROWS = (
    "the calibration rows and the new rows are exchangeable, such as independent draws from one distribution."
)
UNSEEN_ROWS = "The classifier was not trained on the calibration rows."
EXCHANGEABLE = f"{EXCHANGEABLE_ROWS.capitalize()} {UNSEEN_ROWS}"
SHIFT = "Nothing is guaranteed for data of another distribution, such as from another camera, season or region."


def promise_card(
    *, what: str, guarantee: str, level: str, condition: str, variation: str, limits: str, rows: str, shift: str = SHIFT
) -> Card:
    """Return the part of a card that is computed from the calibrated object: its guarantee.

    Args:
        what: the kind of object, and its parameters.
        guarantee: the guarantee in one sentence.
        level: the significance level.
        condition: the condition under which the guarantee holds.
        variation: the variation of coverage over repeated calibrations.
        limits: what is not guaranteed.
        rows: the numbers of calibration rows.
        shift: what a change of the distribution of the data means for the guarantee.
    """
    return {
        "What is it?": what,
        "What is guaranteed?": guarantee,
        "At which level?": level,
        "On which condition?": condition,
        "How much does it vary between calibrations?": variation,
        "What is not guaranteed?": f"{limits} {shift}".strip(),
        "From how many calibration rows?": rows,
    }


def origin_card(provenance: Provenance | None, checksum: str) -> Card:
    """Return the second part of a card: the provenance of an object, and the SHA-256 of its content."""
    known = provenance or Provenance({}, "", versions={})
    files = (f"{visible(name)}: {_checksum(value)}" for name, value in known.data.items())
    versions = (f"{name} {version}" for name, version in known.versions.items())
    answers = {
        "From which data?": "; ".join(files),
        "From which training of the network?": known.training and f"train.json: {_checksum(known.training)}",
        "When was it made?": known.date,
        "By whom?": visible(known.by),
        "With which command?": visible(known.command),
        "With which versions?": ", ".join(versions),
        "Which checksum identifies it?": checksum and f"{_checksum(checksum)} (of the content, without the provenance)",
    }
    return {question: answer or NOT_RECORDED for question, answer in answers.items()}


def share(value: float) -> str:
    """Format a share as a percentage without superfluous digits."""
    return f"{100 * value:.6g}%"


def variation_of(k: int, n: int, at_least: bool = False) -> str:
    """Describe in words how coverage varies over calibration sets, if the threshold is the k-th smallest of n scores.

    With `at_least`, only a lower bound is described, since coverage may exceed its beta distribution, such as with
    ties.

    >>> variation_of(1801, 2000), variation_of(1801, 2000, at_least=True)
    ('between 0.887 and 0.913 in 95% of calibrations', 'at least 0.887 in 97.5% of calibrations')
    """
    if k > n:
        return "always 1, since so few rows allow no finite threshold"
    low, high = coverage_interval(k, n, OUTSIDE)
    digits = 2 + max(1, math.ceil(round(-math.log10(1 - k / (n + 1)), 1)))
    if at_least:
        return f"at least {low:.{digits}f} in {share(1 - OUTSIDE / 2)} of calibrations"
    return f"between {low:.{digits}f} and {high:.{digits}f} in {share(1 - OUTSIDE)} of calibrations"


def listed_names(names: Sequence[object]) -> str:
    """List names for a card; if there are more than MOST_NAMES, only the first ones."""
    shown = ", ".join(visible(name) for name in names[:MOST_NAMES])
    return shown if len(names) <= MOST_NAMES else f"{shown} and {len(names) - MOST_NAMES:,} more"


def text_page(sections: Mapping[str, Card]) -> str:
    """Format cards as plain text: a heading per section, and each answer indented below its question."""
    lines = []
    for title, card in sections.items():
        lines += [visible(title), "=" * len(visible(title)), ""]
        for question, answer in card.items():
            lines += [question, *_wrapped(answer), ""]
    return "\n".join(lines)


def markdown_page(title: str, sections: Mapping[str, Card]) -> str:
    """Format cards as Markdown: a title, a heading per section if its title differs, and questions in bold."""
    lines = [f"# {_escaped(title)}", ""]
    for heading, card in sections.items():
        lines += [] if heading == title else [f"## {_escaped(heading)}", ""]
        for question, answer in card.items():
            lines += [f"**{question}**", "", _escaped(answer), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_long_words=False)


def _escaped(text: str) -> str:
    """Escape characters with a meaning in Markdown; underscores within words have none."""
    marked = re.sub(r"[\\`*<>\[\]|#]|(?<!\w)_|_(?!\w)", lambda found: f"\\{found[0]}", visible(text))
    return re.sub(r"^(\d*)([-+.)=])(?=\s|$)", r"\1\\\2", marked)  # at the start they mark a list or a heading


def _checksum(digest: str) -> str:
    return f"SHA-256 {digest}"
