"""The page of a field run: counts, windows in order of uncertainty, and every photograph drawn."""

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from pippin._runtime.showing import visible
from pippin.cli.report import many, render
from pippin.images.drawing import FEW, MARKS, NONE, colours_of, mark_of, size_told

PAGE = "field.html"
MOST = 12  # classes that are counted by name
PATTERNS = dict(zip((mark.told for mark in MARKS), ("", "few", "many", "none-at-all"), strict=True))  # CSS classes

Entry = dict[str, Any]
Swatch = tuple[str, str]  # pattern and color


class Seen(NamedTuple):
    """Results of a field run: an entry per photograph, and the model's names of classes and actions.

    `actions` are None where nothing is decided; `window` is the side of a window, None for whole images.
    """

    entries: Sequence[Entry]
    classes: Sequence[str]
    actions: Sequence[str] | None
    window: int | None
    model: str


class Window(NamedTuple):
    """One window: its photograph's number, its place, its set and its action."""

    photo: int
    row: int
    column: int
    members: list[int]
    action: int | None
    certificate: float | None
    credibility: float


def field_page(seen: Seen) -> str:
    """Render the page, which refers to the drawn photographs by their places in its own folder."""
    photos = [entry for entry in seen.entries if "reason" not in entry]
    windows, names = _windows(seen, photos), _names(photos)
    return render(
        "field.html.j2",
        choices=_choices(seen, windows, names),
        counts=_counts(seen, windows),
        data=_script_data(seen, photos, windows, names),
        model=seen.model,
        n_photos=len(photos),
        n_windows=len(windows),
        patterns=PATTERNS,
        singletons=sum(len(window.members) == 1 for window in windows) / max(1, len(windows)),
        skipped=[reason(entry) for entry in seen.entries if "reason" in entry],
        title=f"In the field: {many(len(photos), 'photograph')}",
    )


def _windows(seen: Seen, photos: Sequence[Entry]) -> list[Window]:
    """Return every window, the most uncertain first: empty sets, then large ones, then little credibility."""
    classes = {name: k for k, name in enumerate(seen.classes)}
    actions = {name: k for k, name in enumerate(seen.actions or ())}
    windows = []
    for i, entry in enumerate(photos):
        for one in entry["windows"]:
            members, action = [classes[name] for name in one["set"]], actions.get(one["action"])
            place = i, one["row"], one["column"]
            windows.append(Window(*place, members, action, one["certificate"], one["credibility"]))
    return sorted(windows, key=lambda one: (bool(one.members), -len(one.members), one.credibility))


def _counts(seen: Seen, windows: Sequence[Window]) -> dict[str, list[tuple[str, int, Swatch | None]]]:
    """Count windows by action, by most probable class and by size."""
    lists: dict[str, list[tuple[str, int, Swatch | None]]] = {}
    if seen.actions is not None:
        acted, colors = Counter(window.action for window in windows), colours_of(seen.actions)
        lists["Actions"] = [(name, acted[k], ("", colors[name])) for k, name in enumerate(seen.actions)]
    first = Counter(seen.classes[window.members[0]] for window in windows if window.members)
    common, colors = first.most_common(MOST), {} if seen.actions else colours_of(seen.classes)
    lists["Most probable class"] = [(_in_words(name), n, ("", colors[name]) if colors else None) for name, n in common]
    if len(first) > MOST:
        others = f"{len(first) - MOST} other classes", first.total() - sum(n for _, n in common), None
        lists["Most probable class"].append(others)
    sizes = Counter(len(window.members) for window in windows)
    patterns = {size: PATTERNS[mark_of(size).told] for size in sizes}
    lists["Size of the set"] = [(size_told(size), sizes[size], (patterns[size], "")) for size in sorted(sizes)]
    return lists


def _in_words(name: object) -> str:
    return str(name).replace("_", " ")


def reason(entry: Entry) -> str:
    """Return why a photograph was skipped, with its name.

    >>> reason({"photo": "a.png", "reason": "The image is 20 × 10"})
    'a.png: The image is 20 × 10'
    """
    why, photo = str(entry["reason"]), str(entry["photo"])
    return why if photo in why else f"{photo}: {why}"


def _choices(seen: Seen, windows: Sequence[Window], names: Sequence[str]) -> dict[str, tuple[str, str, dict[int, str]]]:
    """Return label, default and options of each filter; only what occurs is an option."""
    acted, held = {window.action for window in windows}, {k for window in windows for k in window.members}
    actions = {k: name for k, name in enumerate(seen.actions or ()) if k in acted}
    sizes = {size: size_told(size) for size in sorted({len(window.members) for window in windows})}
    choices = {
        "action": ("action", "any", actions),
        "class": ("class in the set", "any", {k: _in_words(seen.classes[k]) for k in sorted(held)}),
        "size": ("size of the set", "any", sizes),
        "photo": ("photograph", "all", dict(enumerate(names))),
    }
    return {name: choice for name, choice in choices.items() if name != "action" or seen.actions is not None}


def _names(photos: Sequence[Entry]) -> list[str]:
    """Return the names of the photographs without the folder that they share."""
    names = [str(entry["photo"]) for entry in photos]
    shared = ""
    if names and len({name.startswith("/") for name in names}) == 1:
        shared = os.path.commonpath([os.path.dirname(name) for name in names])
    return [visible(name.removeprefix(shared).removeprefix("/") if shared else name) for name in names]


def _photo(name: str, entry: Entry) -> dict[str, Any]:
    width, height = entry["size"]
    source = {"name": name, "src": quote(os.fsencode(entry["drawn"]))}
    return source | {"width": width, "height": height, "windows": len(entry["windows"])}


def _script_data(
    seen: Seen, photos: Sequence[Entry], windows: Sequence[Window], names: Sequence[str]
) -> dict[str, Any]:
    colored = seen.classes if seen.actions is None else seen.actions
    colors = colours_of(colored)
    return {
        "classes": [visible(_in_words(name)) for name in seen.classes],
        "actions": None if seen.actions is None else [visible(name) for name in seen.actions],
        "colours": [colors[name] for name in colored],
        "grey": NONE,
        "marks": [mark.told for mark in MARKS],
        "few": FEW,
        "window": seen.window,
        "photos": [_photo(name, entry) for name, entry in zip(names, photos, strict=True)],
        "windows": windows,
    }
