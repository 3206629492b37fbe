"""Photographs with their sets, as a part of the page: where a single class was right or wrong, and the hard ones."""

import base64
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.sets import PredictionSets
from pippin.cli.report.names import escaped, in_words

EACH = 6  # photographs of a kind
SIDE = 112  # pixels of a thumbnail
MOST = 6  # classes of a set that are named
LAST = '<section aria-labelledby="h-run">'

STYLE = """<style>
.photos { display: grid; grid-template-columns: repeat(auto-fill, minmax(8.2rem, 1fr)); gap: .9rem; padding: 0;
  margin: 0 0 1rem; list-style: none; }
.photos li { background: var(--card); border: 1px solid var(--line); border-radius: 10px; overflow: hidden;
  font-size: .85rem; line-height: 1.35; }
.photos img { display: block; width: 100%; aspect-ratio: 1; object-fit: cover; background: var(--band); }
.photos p { margin: 0; padding: .45rem .6rem .55rem; }
.photos b { display: block; }
.photos .in { color: var(--good); } .photos .out { color: var(--warning); }
</style>"""


def kinds(
    sets: dict[str, PredictionSets], labels: NDArray[np.int64]
) -> dict[str, tuple[PredictionSets, NDArray[np.int64]]]:
    """Which rows are shown under which heading: of the first score, but empty sets of the first that left any."""
    score, first = next(iter(sets.items()))
    right, one = first.hold(labels), first.sizes == 1
    bare, empty = next(((name, found) for name, found in sets.items() if (found.sizes == 0).any()), (score, first))
    return {
        "Singletons that are right": (first, _some(np.flatnonzero(one & right))),
        "Singletons that are wrong": (first, _some(np.flatnonzero(one & ~right))),
        "The largest sets, of each true class in turn": (first, _largest(first, labels)),
        "Empty sets" + (f", under {bare}" if bare != score else ""): (empty, _some(np.flatnonzero(empty.sizes == 0))),
    }


def photo_section(
    folder: Path, files: Sequence[str], sets: dict[str, PredictionSets], labels: NDArray[np.int64]
) -> str:
    """A section of the page.

    Args:
        folder: where the photographs are; one that is gone is shown as an empty square.
        files: the path inside it of every row.
        sets: of the first split's test rows, by the score that made them; the first is shown, the others where it
            leaves no set empty.
        labels: the true classes, as numbers.
    """
    parts = []
    for heading, (found, rows) in kinds(sets, labels).items():
        cards = "\n".join(_card(folder, files[i], found, int(i), int(labels[i])) for i in rows)
        body = f'<ul class="photos">\n{cards}\n</ul>' if len(rows) else "<p>None on the first split.</p>"
        parts.append(f"<h3>{escaped(heading)}</h3>\n{body}")
    told = (
        f"Some of the first split's {len(files):,} test rows with their sets under {next(iter(sets))}: first what the "
        "photograph truly shows, then its set, the most probable class first."
    )
    return (
        f'<section aria-labelledby="h-photos">\n{STYLE}\n<h2 id="h-photos">Photographs and their sets</h2>\n'
        f"<p>{escaped(told)}</p>\n" + "\n".join(parts) + "\n</section>"
    )


def with_photos(page: str, section: str) -> str:
    """The report's page with the section before the last one, which says how to repeat it."""
    place = page.rindex(LAST)
    return f"{page[:place]}{section}\n{page[place:]}"


def _some(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """A few rows, evenly spread."""
    return rows if len(rows) <= EACH else rows[np.linspace(0, len(rows) - 1, EACH).astype(int)]


def _largest(sets: PredictionSets, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of the largest sets: the largest of each true class, then the next of each, none with the same members."""
    order = np.argsort(-sets.sizes, kind="stable")
    of_class: dict[int, dict[frozenset[int], int]] = {}
    for row in order[sets.sizes[order] > 1].tolist():
        of_class.setdefault(int(labels[row]), {}).setdefault(frozenset(_members(sets, row)), row)
    turns = [(turn, row) for rows in of_class.values() for turn, row in enumerate(rows.values())]
    chosen = [row for _, row in sorted(turns, key=lambda one: (one[0], -sets.sizes[one[1]], one[1]))[:EACH]]
    return np.array(sorted(chosen, key=lambda row: (-sets.sizes[row], row)), dtype=np.int64)


def _members(sets: PredictionSets, row: int) -> list[int]:
    members: list[int] = sets.members[sets.offsets[row] : sets.offsets[row + 1]].tolist()
    return members


def _card(folder: Path, file: str, sets: PredictionSets, row: int, label: int) -> str:
    truth = escaped(in_words(sets.classes[label]))
    members = _members(sets, row)
    names = [_member(in_words(sets.classes[k]), k == label) for k in members[:MOST]]
    if len(members) > MOST:
        names.append(f"and {len(members) - MOST} more" + (", the true one too" if label in members[MOST:] else ""))
    picture = thumbnail(folder / file)
    image = f'<img src="data:image/jpeg;base64,{picture}" alt="{truth}" title="{escaped(file)}">' if picture else ""
    return f"<li>{image}<p><b>{truth}</b>{', '.join(names) or 'no class'}</p></li>"


def _member(name: str, true: bool) -> str:
    return f'<span class="in">{escaped(name)} ✓</span>' if true else f'<span class="out">{escaped(name)}</span>'


def thumbnail(path: Path) -> str | None:
    """A small JPEG in base64; None if the file cannot be read."""
    from PIL import Image, ImageOps

    buffer = io.BytesIO()
    try:
        with Image.open(path) as image:
            image.draft("RGB", (SIDE, SIDE))
            ImageOps.fit(ImageOps.exif_transpose(image).convert("RGB"), (SIDE, SIDE)).save(buffer, "JPEG", quality=80)
    except Exception:  # Pillow's decoders raise many kinds
        return None
    return base64.b64encode(buffer.getvalue()).decode()
