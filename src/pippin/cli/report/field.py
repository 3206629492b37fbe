"""HTML page of `pippin field run`: counts, windows in order of uncertainty, and photographs with their results."""

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from pippin._runtime.showing import visible
from pippin.cli.report import in_words, many, render
from pippin.images.drawing import FEW, MARKS, NONE, colours_of, mark_of, size_in_words

PAGE = "field.html"
CAREFUL = {"novel": "novel window", "alarm": "after an alarm"}
MOST = 12  # maximum number of classes whose counts are shown
PATTERNS = dict(zip((mark.words for mark in MARKS), ("", "few", "many", "none-at-all"), strict=True))  # CSS classes

Entry = dict[str, Any]
Swatch = tuple[str, str]  # CSS class of the hatching, and color
Choice = tuple[str, str, dict[int, str]]  # a filter: its label, its default, and its other options by value


class FieldResults(NamedTuple):
    """Results of `pippin field run`: journal entries of the photographs, and facts about the field model.

    Attributes:
        entries: for each photograph the results of its windows, or the reason why it was skipped.
        classes: names of the classes.
        actions: names of the actions; None if the model makes no decisions.
        window: side of a window in pixels; None for whole images.
        model: description of the model in words.
    """

    entries: Sequence[Entry]
    classes: Sequence[str]
    actions: Sequence[str] | None
    window: int | None
    model: str


class Window(NamedTuple):
    """Result for one window of photograph number `photo`: its position, prediction set, action, and p-values."""

    photo: int
    row: int
    column: int
    members: list[int]
    action: int | None
    certificate: float | None
    credibility: float
    novelty: float | None
    careful: str | None


def field_page(results: FieldResults) -> str:
    """Render field.html, which links to the pictures in the folder `drawn` next to the page."""
    photos = [entry for entry in results.entries if "reason" not in entry]
    windows, names = _windows(results, photos), _names(photos)
    return render(
        "field.html.j2",
        choices=_choices(results, windows, names),
        counts=_counts(results, windows),
        data=_script_data(results, photos, windows, names),
        model=results.model,
        n_photos=len(photos),
        n_windows=len(windows),
        patterns=PATTERNS,
        singletons=sum(len(window.members) == 1 for window in windows) / max(1, len(windows)),
        skipped=[reason(entry) for entry in results.entries if "reason" in entry],
        title=f"Field run: {many(len(photos), 'photograph')}",
    )


def _windows(results: FieldResults, photos: Sequence[Entry]) -> list[Window]:
    """Return all windows, the most uncertain first: empty sets, then larger sets, then lower credibility."""
    classes = {name: k for k, name in enumerate(results.classes)}
    actions = {name: k for k, name in enumerate(results.actions or ())}
    windows = []
    for i, entry in enumerate(photos):
        for one in entry["windows"]:
            members, action = [classes[name] for name in one["set"]], actions.get(one["action"])
            place = i, one["row"], one["column"]
            tests = one["credibility"], one.get("novelty"), one.get("careful")
            windows.append(Window(*place, members, action, one["certificate"], *tests))
    return sorted(windows, key=lambda one: (bool(one.members), -len(one.members), one.credibility))


def _counts(results: FieldResults, windows: Sequence[Window]) -> dict[str, list[tuple[str, int, Swatch | None]]]:
    """Count windows by action, by most probable class in the set, and by size of the set."""
    lists: dict[str, list[tuple[str, int, Swatch | None]]] = {}
    if results.actions is not None:
        acted, colors = Counter(window.action for window in windows), colours_of(results.actions)
        lists["Actions"] = [(name, acted[k], ("", colors[name])) for k, name in enumerate(results.actions)]
    reasons = Counter(window.careful for window in windows if window.careful is not None)
    if reasons:
        lists["Careful actions"] = [(CAREFUL[reason], n, None) for reason, n in sorted(reasons.items())]
    first = Counter(results.classes[window.members[0]] for window in windows if window.members)
    common, colors = first.most_common(MOST), {} if results.actions else colours_of(results.classes)
    lists["Most probable class"] = [(in_words(name), n, ("", colors[name]) if colors else None) for name, n in common]
    if len(first) > MOST:
        others = f"{len(first) - MOST} other classes", first.total() - sum(n for _, n in common), None
        lists["Most probable class"].append(others)
    sizes = Counter(len(window.members) for window in windows)
    patterns = {size: PATTERNS[mark_of(size).words] for size in sizes}
    lists["Size of the set"] = [(size_in_words(size), sizes[size], (patterns[size], "")) for size in sorted(sizes)]
    return lists


def reason(entry: Entry) -> str:
    """Return the name of a skipped photograph, followed by the reason why it was skipped.

    >>> reason({"photo": "a.png", "reason": "The image is 20 × 10"})
    'a.png: The image is 20 × 10'
    """
    why, photo = str(entry["reason"]), str(entry["photo"])
    return why if photo in why else f"{photo}: {why}"


def _choices(results: FieldResults, windows: Sequence[Window], names: Sequence[str]) -> dict[str, Choice]:
    """Return the filters of the list of windows, with the values that occur in the results as options."""
    acted, held = {window.action for window in windows}, {k for window in windows for k in window.members}
    actions = {k: name for k, name in enumerate(results.actions or ()) if k in acted}
    sizes = {size: size_in_words(size) for size in sorted({len(window.members) for window in windows})}
    choices = {
        "action": ("action", "any", actions),
        "class": ("class in the set", "any", {k: in_words(results.classes[k]) for k in sorted(held)}),
        "size": ("size of the set", "any", sizes),
        "photo": ("photograph", "all", dict(enumerate(names))),
    }
    return {name: choice for name, choice in choices.items() if name != "action" or results.actions is not None}


def _names(photos: Sequence[Entry]) -> list[str]:
    """Return the paths of the photographs relative to the deepest folder that contains all of them."""
    names = [str(entry["photo"]) for entry in photos]
    shared = ""
    if names and len({name.startswith("/") for name in names}) == 1:
        shared = os.path.commonpath([os.path.dirname(name) for name in names])
    return [visible(name.removeprefix(shared).removeprefix("/") if shared else name) for name in names]


def _photo(name: str, entry: Entry) -> dict[str, Any]:
    width, height = entry["size"]
    source: dict[str, Any] = {"name": name, "src": None, "clean": None}
    if "drawn" in entry:
        drawn: str = entry["drawn"]
        source |= {"src": quote(os.fsencode(drawn)), "clean": quote(os.fsencode(entry.get("clean", drawn)))}
    return source | {"width": width, "height": height, "windows": len(entry["windows"])}


def _script_data(
    results: FieldResults, photos: Sequence[Entry], windows: Sequence[Window], names: Sequence[str]
) -> dict[str, Any]:
    colored = results.classes if results.actions is None else results.actions
    colors = colours_of(colored)
    return {
        "classes": [visible(in_words(name)) for name in results.classes],
        "actions": None if results.actions is None else [visible(name) for name in results.actions],
        "colours": [colors[name] for name in colored],
        "grey": NONE,
        "marks": [mark.words for mark in MARKS],
        "few": FEW,
        "window": results.window,
        "photos": [_photo(name, entry) for name, entry in zip(names, photos, strict=True)],
        "windows": windows,
    }
