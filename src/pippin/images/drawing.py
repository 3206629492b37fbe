"""Drawing of a photograph with the results of its windows; text and hatching also show what colors show."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from PIL import Image, ImageDraw, ImageFont

if TYPE_CHECKING:
    from pippin.images.field_model import Look

# Colors by Okabe and Ito that color-blind people can distinguish.
COLOURS = ("#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#ffffff")
INK, PAPER, NONE = "#222222", "#ffffff", "#999999"
LONGEST = 26  # maximum number of characters of a class name that are written
SMALLEST = 640  # minimum length of the longer side in pixels; smaller photographs are enlarged
BAND = 0.1  # width of the hatched band along the edges, as a share of the window's side
WINDOW_UNITS = 45  # smallest ratio of a window's side to the width of a thin frame
SMALLEST_LETTERS = 10  # size of the smallest letters in pixels
CLEAN_SIDE = 224  # largest side in pixels of a window in the copies without drawing
NOVEL = "novel"  # added to the words of a novel window
FEW = 3  # largest number of classes in a set that counts as small

Box = tuple[int, ...]  # left, top, right, bottom


class SizeMark(NamedTuple):
    """Range of set sizes: its description, and whether its hatching has rising and falling lines."""

    words: str
    rising: bool
    falling: bool


MARKS = (
    SizeMark("one class", False, False),
    SizeMark(f"2 to {FEW} classes", True, False),
    SizeMark(f"more than {FEW} classes", True, True),
    SizeMark("no class", False, True),
)


def mark_of(size: int) -> SizeMark:
    """Return the description and hatching of the range that contains a set size.

    >>> [mark_of(size).words for size in (0, 1, 3, 4)]
    ['no class', 'one class', '2 to 3 classes', 'more than 3 classes']
    """
    return MARKS[3 if size == 0 else 0 if size == 1 else 1 if size <= FEW else 2]


def size_in_words(size: int) -> str:
    """Describe the size of a prediction set in words.

    >>> [size_in_words(size) for size in (0, 1, 2)]
    ['no class', 'one class', '2 classes']
    """
    return mark_of(size).words if size < 2 else f"{size} classes"


def colours_of(names: Iterable[str]) -> dict[str, str]:
    """Assign a color to each name; with more than eight names, colors are repeated."""
    return {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(names)}


def draw_look(look: "Look") -> "Image.Image":
    """Draw a photograph with a legend; each window has a frame, hatching for its set size, and a class or action."""
    scale = max(1.0, SMALLEST / max(look.image.size))
    width, height = (round(scale * side) for side in look.image.size)
    legend_unit = max(2, max(width, height) // 400)
    boxes = [tuple(round(scale * side) for side in box) for box in look.boxes()]
    side = min(boxes[0][2] - boxes[0][0], boxes[0][3] - boxes[0][1])
    unit = max(1, min(legend_unit, side // WINDOW_UNITS))  # width of a thin frame in pixels
    picture = look.image.resize((width, height)) if scale > 1 else look.image.copy()
    draw = ImageDraw.Draw(picture)
    sizes = look.sets.sizes.tolist()
    if look.decisions is None:
        every = [_short(name) for name in look.sets.classes]
        names = [_short(members[0]) if members else MARKS[3].words for members in look.sets.labels()]
        texts = [name if size < 2 else f"{name} +{size - 1}" for name, size in zip(names, sizes, strict=True)]
    else:
        every, names = list(look.decisions.names), [str(name) for name in look.decisions.actions.tolist()]
        texts = names
    if look.novel is not None:
        texts = [f"{text}, {NOVEL}" if novel else text for text, novel in zip(texts, look.novel, strict=True)]
    colors = {MARKS[3].words: NONE} | colours_of(every)
    for box, size, name in zip(boxes, sizes, names, strict=True):
        _window(picture, box, colors[name], mark_of(size), unit)
    for (left, top, right, bottom), text in zip(boxes, texts, strict=True):
        room = right - left - 5 * unit, (bottom - top) // 3
        _words(draw, (left + 2 * unit, top + 2 * unit), text, unit, room)
    marks = {mark_of(size) for size in sizes}
    items = [(name, color, color, MARKS[0]) for name, color in colors.items() if name in names]
    items += [(mark.words, PAPER, NONE, mark) for mark in MARKS if mark in marks]
    return _with_legend(picture, items, legend_unit)


def clean_copy(image: "Image.Image", window: int | None) -> "Image.Image":
    """Copy a photograph without drawing; windows of more than CLEAN_SIDE pixels are reduced to that size."""
    scale = min(1.0, CLEAN_SIDE / (window or min(image.size)))
    return image.resize((round(scale * image.width), round(scale * image.height))) if scale < 1 else image


def _window(picture: "Image.Image", box: Box, color: str, mark: SizeMark, unit: int) -> None:
    """Draw the frame of a window and a hatched band along the frame, which leaves the middle of the window visible."""
    left, top, right, bottom = box
    width, height = right - left, bottom - top
    band = max(round(min(width, height) * BAND), 4 * unit)
    part = picture.crop((left, top, right, bottom))
    middle = part.crop((band, band, width - band, height - band)) if min(width, height) > 2 * band else None
    inside = ImageDraw.Draw(part)
    for x in range(-height, width, 6 * unit):
        for wide, ink in ((unit + 1, INK), (unit - 1, color)):  # dark edges are visible on any background
            if mark.rising:
                inside.line((x, height, x + height, 0), ink, wide)
            if mark.falling:
                inside.line((x, 0, x + height, height), ink, wide)
    if middle is not None:
        part.paste(middle, (band, band))
    for inset, ink in ((0, INK), (1, color)) if min(width, height) > 3 else ((0, color),):
        inside.rectangle((inset, inset, width - 1 - inset, height - 1 - inset), None, ink, unit - inset + 1)
    picture.paste(part, (left, top))


def _words(draw: "ImageDraw.ImageDraw", place: tuple[int, int], text: str, unit: int, room: tuple[int, int]) -> None:
    """Write text on a light background, in smaller letters if it would exceed the space `room`, (width, height).

    Text that exceeds this space in the smallest letters is left out; the color of the frame then gives the action.
    """
    for size in range(max(SMALLEST_LETTERS, 5 * unit), SMALLEST_LETTERS - 1, -1):
        font = ImageFont.load_default(size)
        left, top, right, bottom = draw.textbbox(place, text, font=font)
        if right - left <= room[0] and bottom - top <= room[1]:
            draw.rectangle((left - unit, top - unit, right + unit, bottom + unit), PAPER)
            draw.text(place, text, INK, font=font)
            return


def _with_legend(picture: "Image.Image", items: list[tuple[str, str, str, SizeMark]], unit: int) -> "Image.Image":
    """Add a legend below a picture; its items are (text, background, color of the frame, range of set sizes)."""
    side, font = 8 * unit, ImageFont.load_default(max(11, 6 * unit))
    places, x, y = [], side, side // 2
    for text, *_ in items:
        wide = side * 2 + round(font.getlength(text)) + side
        if x + wide > picture.width and x > side:
            x, y = side, y + side * 3 // 2
        places.append((x, picture.height + y))
        x += wide
    whole = Image.new("RGB", (picture.width, picture.height + y + side * 3 // 2), PAPER)
    whole.paste(picture, (0, 0))
    draw = ImageDraw.Draw(whole)
    for (x, top), (text, ground, color, mark) in zip(places, items, strict=True):
        whole.paste(ground, (x, top, x + side, top + side))
        _window(whole, (x, top, x + side, top + side), color, mark, max(2, unit // 2))
        draw.text((x + side * 3 // 2, top + side // 2), text, INK, font=font, anchor="lm")
    return whole


def _short(name: object) -> str:
    text = str(name).replace("_", " ")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
