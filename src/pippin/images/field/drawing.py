"""A photograph with its windows drawn: what is said in colour is said in words and in patterns too."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from PIL import Image, ImageDraw, ImageFont

if TYPE_CHECKING:
    from pippin.images.field.look import Look

# The colours of Okabe and Ito, which the colour-blind can tell apart.
COLOURS = ("#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#ffffff")
INK, PAPER, NONE = "#222222", "#ffffff", "#999999"
LONGEST = 26  # characters of a name
SMALLEST = 640  # pixels of the drawn picture's longer side, at least
BAND = 0.1  # share of a window's side that is hatched, along each edge
FEW = 3  # classes of a set that is nearly certain


class Mark(NamedTuple):
    """How certain a window is, and the hatching that says so."""

    told: str
    rising: bool
    falling: bool


MARKS = (
    Mark("one class", False, False),
    Mark(f"2 to {FEW} classes", True, False),
    Mark(f"more than {FEW} classes", True, True),
    Mark("no class", False, True),
)


def mark_of(size: int) -> Mark:
    """The mark of a set of this size.

    >>> [mark_of(size).told for size in (0, 1, 3, 4)]
    ['no class', 'one class', '2 to 3 classes', 'more than 3 classes']
    """
    return MARKS[3 if size == 0 else 0 if size == 1 else 1 if size <= FEW else 2]


def size_told(size: int) -> str:
    """A set's size in words.

    >>> [size_told(size) for size in (0, 1, 2)]
    ['no class', 'one class', '2 classes']
    """
    return MARKS[3].told if size == 0 else MARKS[0].told if size == 1 else f"{size} classes"


def colours_of(names: Iterable[str]) -> dict[str, str]:
    """A colour for every name; the eight are used again where there are more."""
    return {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(names)}


def drawn(look: "Look") -> "Image.Image":
    """The photograph, its windows framed, hatched and named, and a legend below."""
    scale = max(1.0, SMALLEST / max(look.image.size))
    width, height = (round(scale * side) for side in look.image.size)
    unit = max(2, max(width, height) // 400)  # pixels of a thin frame
    picture = look.image.resize((width, height)) if scale > 1 else look.image.copy()
    colours, said = _colours(look), _said(look)
    draw = ImageDraw.Draw(picture)
    for box, size, name in zip(look.boxes(), look.sets.sizes.tolist(), said, strict=True):
        placed = tuple(round(scale * side) for side in box)
        _window(picture, (placed[0], placed[1], placed[2], placed[3]), colours[name], mark_of(size), unit)
    for i, (box, name) in enumerate(zip(look.boxes(), said, strict=True)):
        more = int(look.sets.sizes[i]) - 1
        text = name if look.decisions is not None or more < 1 else f"{name} +{more}"
        _words(
            draw,
            (round(scale * box[0]) + 2 * unit, round(scale * box[1]) + 2 * unit),
            text,
            5 * unit,
            unit,
            round(scale * (box[2] - box[0])) - 5 * unit,
        )
    return _with_legend(
        picture, {name: colours[name] for name in dict.fromkeys([*colours]) if name in said}, look, unit
    )


def _said(look: "Look") -> list[str]:
    """What each window is called: its action, else its most probable class."""
    if look.actions is not None:
        return [str(name) for name in look.actions.tolist()]
    return [_short(names[0]) if names else MARKS[3].told for names in look.sets.labels()]


def _colours(look: "Look") -> dict[str, str]:
    """A colour for every action or class."""
    names = look.decisions.names if look.decisions is not None else tuple(map(_short, look.sets.classes))
    return {MARKS[3].told: NONE} | colours_of(names)


def _window(picture: "Image.Image", box: tuple[int, int, int, int], colour: str, mark: Mark, unit: int) -> None:
    """A frame, and the hatching in a band along it: what the window shows stays in sight."""
    left, top, right, bottom = box
    width, height = right - left, bottom - top
    band = max(round(min(width, height) * BAND), 4 * unit)
    part = picture.crop(box)
    middle = part.crop((band, band, width - band, height - band)) if min(width, height) > 2 * band else None
    inside = ImageDraw.Draw(part)
    _hatch(inside, width, height, colour, mark, unit)
    if middle is not None:
        part.paste(middle, (band, band))
    for inset, ink in ((0, INK), (1, colour)) if min(width, height) > 3 else ((0, colour),):
        inside.rectangle((inset, inset, width - 1 - inset, height - 1 - inset), None, ink, unit - inset + 1)
    picture.paste(part, (left, top))


def _hatch(draw: "ImageDraw.ImageDraw", width: int, height: int, colour: str, mark: Mark, unit: int) -> None:
    """Parallel lines over a rectangle, each with a dark edge so that it shows on any ground."""
    step = 6 * unit
    for x in range(-height, width, step):
        for wide, ink in ((unit + 1, INK), (unit - 1, colour)):
            if mark.rising:
                draw.line((x, height, x + height, 0), ink, wide)
            if mark.falling:
                draw.line((x, 0, x + height, height), ink, wide)


def _words(draw: "ImageDraw.ImageDraw", place: tuple[int, int], text: str, size: int, unit: int, room: int) -> None:
    """Text on a light ground, smaller where the room is narrow."""
    size = max(10, size)
    while size > 10 and draw.textlength(text, font=ImageFont.load_default(size)) > room:
        size -= 1
    font = ImageFont.load_default(size)
    left, top, right, bottom = draw.textbbox(place, text, font=font)
    draw.rectangle((left - unit, top - unit, right + unit, bottom + unit), PAPER)
    draw.text(place, text, INK, font=font)


def _with_legend(picture: "Image.Image", names: dict[str, str], look: "Look", unit: int) -> "Image.Image":
    """Swatches below the picture: colours with their names, then patterns with theirs."""
    marks = [mark for mark in MARKS if mark in {mark_of(size) for size in look.sets.sizes.tolist()}]
    items = [(name, colour, colour, MARKS[0]) for name, colour in names.items()]
    items += [(mark.told, PAPER, NONE, mark) for mark in marks]
    side, font = 8 * unit, ImageFont.load_default(max(11, 6 * unit))
    placed, x, y = [], side, side // 2
    for text, ground, colour, mark in items:
        wide = side * 2 + round(font.getlength(text)) + side
        if x + wide > picture.width and x > side:
            x, y = side, y + side * 3 // 2
        placed.append((x, y, text, ground, colour, mark))
        x += wide
    whole = Image.new("RGB", (picture.width, picture.height + y + side * 3 // 2), PAPER)
    whole.paste(picture, (0, 0))
    draw = ImageDraw.Draw(whole)
    for x, y, text, ground, colour, mark in placed:
        top = picture.height + y
        whole.paste(ground, (x, top, x + side, top + side))
        _window(whole, (x, top, x + side, top + side), colour, mark, max(2, unit // 2))
        draw.text((x + side * 3 // 2, top + side // 2), text, INK, font=font, anchor="lm")
    return whole


def _short(name: object) -> str:
    text = str(name).replace("_", " ")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
