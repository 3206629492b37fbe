"""Text of PDF files printed by a browser."""

import re
import zlib


def page_texts(pdf: bytes) -> list[str]:
    """Return the text of each page, in drawing order and without spaces."""
    objects = {int(number): body for number, body in re.findall(rb"(?s)\n(\d+) 0 obj(.*?)\nendobj", pdf)}
    pages = [body for body in objects.values() if re.search(rb"/Type\s*/Page\b", body)]
    return ["".join(_letters(objects, page).split()) for page in pages]


def _letters(objects: dict[int, bytes], page: bytes) -> str:
    alphabets = {
        name: _alphabet(objects, int(number))
        for name, number in re.findall(rb"/(F\d+) (\d+) 0 R", _fonts(objects, page))
    }
    letters, font = [], {}
    for number in re.findall(rb"\d+(?= 0 R)", re.search(rb"(?s)/Contents (\[.*?\]|\d+ 0 R)", page)[1]):
        for name, codes in re.findall(rb"/(F\d+) [\d.]+ Tf|<([0-9A-Fa-f]+)>", _stream(objects[int(number)])):
            if name:
                font = alphabets[name]
            else:
                letters += [font.get(codes[i : i + 4].upper(), "") for i in range(0, len(codes), 4)]
    return "".join(letters)


def _fonts(objects: dict[int, bytes], page: bytes) -> bytes:
    """Return the fonts in the resources of a page."""
    elsewhere = re.search(rb"/Resources (\d+) 0 R", page)
    return objects[int(elsewhere[1])] if elsewhere else page


def _alphabet(objects: dict[int, bytes], font: int) -> dict[bytes, str]:
    """Return the character of each code of a font."""
    known = re.search(rb"/ToUnicode (\d+) 0 R", objects[font])
    table = _stream(objects[int(known[1])]) if known else b""
    found: dict[bytes, str] = {}
    for part in re.findall(rb"(?s)beginbfchar(.*?)endbfchar", table):
        found |= {code.upper(): _text(to) for code, to in re.findall(rb"<(\w+)> <(\w+)>", part)}
    for part in re.findall(rb"(?s)beginbfrange(.*?)endbfrange", table):
        for low, high, to in re.findall(rb"<(\w+)> <(\w+)> <(\w+)>", part):
            for step in range(int(high, 16) - int(low, 16) + 1):
                found[b"%04X" % (int(low, 16) + step)] = chr(int(to, 16) + step)
    return found


def _text(code: bytes) -> str:
    return bytes.fromhex(code.decode()).decode("utf-16-be")


def _stream(body: bytes) -> bytes:
    start = re.search(rb">>\s*stream\r?\n", body).end()
    raw = body[start : start + int(re.search(rb"/Length (\d+)", body)[1])]
    return zlib.decompress(raw) if b"/FlateDecode" in body else raw
