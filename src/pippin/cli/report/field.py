"""The page of a run in the field: counts, the uncertain windows first, and every photograph drawn."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from pippin._runtime.disk import write_whole
from pippin._runtime.visible import visible
from pippin.cli.report.framing import Page, asset, filled, framed, in_script
from pippin.cli.report.names import escaped, in_words
from pippin.images.drawing import FEW, MARKS, NONE, colours_of, mark_of, size_told

PAGE = "field.html"
MOST = 12  # classes that are counted by name
PATTERNS = dict(zip(MARKS, ("", "few", "many", "none-at-all"), strict=True))

Entry = dict[str, Any]


class Seen(NamedTuple):
    """What a run has seen: an entry per photograph, and what the model calls things.

    `actions` are None where nothing is decided; `window` is the side of a window, None for whole images.
    """

    entries: Sequence[Entry]
    classes: Sequence[str]
    actions: Sequence[str] | None
    window: int | None
    model: str


class Window(NamedTuple):
    """One window: its photograph's number, its place, and what is said of it."""

    photo: int
    row: int
    column: int
    members: list[int]
    action: int | None
    certificate: float | None
    credibility: float


def write_field_page(out: Path, seen: Seen) -> Path:
    """Writes field.html into the folder that holds the drawn photographs, and returns its path."""
    write_whole(out / PAGE, field_page(seen).encode())
    return out / PAGE


def field_page(seen: Seen) -> str:
    """The page's HTML; it refers to the drawn photographs by their places in its own folder."""
    photos = [entry for entry in seen.entries if "reason" not in entry]
    windows = _windows(seen, photos)
    main = filled(
        "field.html",
        sentence=escaped(
            f"{many(len(photos), 'photograph')}, {many(len(windows), 'window')}, "
            f"{_share(windows)} of them with just one class."
        ),
        counts="\n".join(_counts(seen, windows)),
        skipped=_skipped([entry for entry in seen.entries if "reason" in entry]),
        heading="The uncertain ones first",
        order="Windows that fit no class lead, then the largest sets, then those of the least credibility. "
        "Touch one to see it in its photograph.",
        filters="\n".join(_filters(seen, photos, windows)),
        legend="\n".join(f"<li>{_swatch('', mark)} {mark.told}</li>" for mark in MARKS),
    )
    return framed(
        Page(
            title=f"In the field: {many(len(photos), 'photograph')}",
            lead=escaped(seen.model),
            main=main,
            first="h-windows",
            skip="the windows",
            footer="This page shows the pictures of the folder <code>drawn</code> beside it, and sends nothing.",
            css=asset("page.css") + asset("field.css"),
            js=asset("field.js"),
            data=in_script(_content(seen, photos, windows)),
            images="data: 'self' file:",
        )
    )


def _windows(seen: Seen, photos: Sequence[Entry]) -> list[Window]:
    """Every window, the most uncertain first: no class at all, then many, then few, then little credibility."""
    classes = {name: k for k, name in enumerate(seen.classes)}
    actions = {name: k for k, name in enumerate(seen.actions or ())}
    found = [
        Window(
            photo=i,
            row=one["row"],
            column=one["column"],
            members=[classes[name] for name in one["set"]],
            action=None if seen.actions is None else actions[one["action"]],
            certificate=one["certificate"],
            credibility=one["credibility"],
        )
        for i, entry in enumerate(photos)
        for one in entry["windows"]
    ]
    return sorted(found, key=lambda one: (bool(one.members), -len(one.members), one.credibility))


def many(n: int, word: str) -> str:
    """A count with its word.

    >>> many(1, "window"), many(2000, "window")
    ('1 window', '2,000 windows')
    """
    return f"{n:,} {word}{'' if n == 1 else 's'}"


def _share(windows: Sequence[Window]) -> str:
    return f"{sum(len(one.members) == 1 for one in windows) / max(1, len(windows)):.0%}"


def _counts(seen: Seen, windows: Sequence[Window]) -> Iterable[str]:
    """A list of counts for actions, classes and sizes."""
    n = len(windows)
    if seen.actions is not None:
        acted, colours = Counter(one.action for one in windows), colours_of(seen.actions)
        yield _count_list(
            "Actions", [(name, acted[k], _swatch(colours[name])) for k, name in enumerate(seen.actions)], n
        )
    first, colours = Counter(one.members[0] for one in windows if one.members), colours_of(seen.classes)
    common = first.most_common(MOST)
    hues = {k: _swatch(colours[seen.classes[k]]) if seen.actions is None else "" for k, _ in common}
    rows = [(in_words(seen.classes[k]), count, hues[k]) for k, count in common]
    if len(first) > MOST:
        rows.append((f"{len(first) - MOST} other classes", first.total() - sum(count for _, count in common), ""))
    yield _count_list("Most probable class", rows, n)
    sizes = Counter(len(one.members) for one in windows)
    told = [(size_told(size), sizes[size], _swatch("", mark_of(size))) for size in sorted(sizes)]
    yield _count_list("Size of the set", told, n)


def _count_list(heading: str, rows: Iterable[tuple[str, int, str]], n: int) -> str:
    items = (
        f"<li><span>{swatch}</span><span>{escaped(name)}</span><b>{count:,}</b>"
        f'<span class="track"><i style="width: {100 * count / max(1, n):.1f}%"></i></span></li>'
        for name, count, swatch in rows
    )
    return f'<div><h3>{heading}</h3>\n<ul class="counts">\n' + "\n".join(items) + "\n</ul></div>"


def _swatch(colour: str, mark: Any = MARKS[0]) -> str:
    style = f' style="--hue: {colour}"' if colour else ""
    return f'<i class="swatch {PATTERNS[mark]}"{style}></i>'


def _skipped(entries: Sequence[Entry]) -> str:
    """Photographs that could not be used, each with the reason."""
    if not entries:
        return ""
    told = f"{many(len(entries), 'photograph')} {'was' if len(entries) == 1 else 'were'} skipped"
    items = "\n".join(f"<li>{escaped(reason(one))}</li>" for one in entries)
    return f'<details><summary>{told}</summary>\n<ul class="skipped">\n{items}\n</ul></details>'


def reason(entry: Entry) -> str:
    """Why a photograph was skipped, with its name.

    >>> reason({"photo": "a.png", "reason": "The image is 20 × 10"})
    'a.png: The image is 20 × 10'
    """
    why, photo = str(entry["reason"]), str(entry["photo"])
    return why if photo in why else f"{photo}: {why}"


def _filters(seen: Seen, photos: Sequence[Entry], windows: Sequence[Window]) -> Iterable[str]:
    """A choice of each kind, of what there is."""
    if seen.actions is not None:
        there = {one.action for one in windows}
        yield _choice("action", "action", "any", [(k, name) for k, name in enumerate(seen.actions) if k in there])
    held = {k for one in windows for k in one.members}
    yield _choice(
        "class", "class in the set", "any", [(k, in_words(name)) for k, name in enumerate(seen.classes) if k in held]
    )
    sizes = sorted({len(one.members) for one in windows})
    yield _choice("size", "size of the set", "any", [(size, size_told(size)) for size in sizes])
    yield _choice("photo", "photograph", "all", list(enumerate(_names(photos))))


def _choice(name: str, label: str, every: str, options: Sequence[tuple[int, str]]) -> str:
    items = "".join(f'<option value="{value}">{escaped(text)}</option>' for value, text in options)
    return (
        f'<p><label for="by-{name}">{label}</label>'
        f'<select id="by-{name}"><option value="">{every}</option>{items}</select></p>'
    )


def _names(photos: Sequence[Entry]) -> list[str]:
    """What photographs are called: without the folder that they all share."""
    names = [str(entry["photo"]) for entry in photos]
    if len({name.startswith("/") for name in names}) > 1:
        return [visible(name) for name in names]
    shared = os.path.commonpath([os.path.dirname(name) for name in names]) if names else ""
    return [visible(name.removeprefix(shared).removeprefix("/")) for name in names]


def _content(seen: Seen, photos: Sequence[Entry], windows: Sequence[Window]) -> dict[str, Any]:
    """What the page's script needs."""
    named = seen.classes if seen.actions is None else seen.actions
    colours = colours_of(named)
    return {
        "classes": [visible(in_words(name)) for name in seen.classes],
        "actions": None if seen.actions is None else [visible(name) for name in seen.actions],
        "colours": [colours[name] for name in named],
        "grey": NONE,
        "marks": [mark.told for mark in MARKS],
        "few": FEW,
        "window": seen.window,
        "photos": [
            {
                "name": name,
                "src": quote(os.fsencode(entry["drawn"])),
                "width": entry["size"][0],
                "height": entry["size"][1],
                "windows": len(entry["windows"]),
            }
            for name, entry in zip(_names(photos), photos, strict=True)
        ],
        "windows": windows,
    }
