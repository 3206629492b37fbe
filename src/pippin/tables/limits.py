"""Checks of tables before they take memory: size after decompression, length of lines, pages of a Parquet file.

polars ends the process if a damaged Parquet file makes it allocate more memory than exists, and keeps a whole line of
text in memory. Both are found here in one pass that takes constant memory.
"""

import gzip
import io
import mmap
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pippin._runtime.errors import InputError

MOST_UNPACKED, MOST_RATIO = 1 << 32, 200  # refuse files that are larger unpacked, in bytes, and unpack as many times
LONGEST_LINE = 1 << 26  # bytes of a line of text; a million numbers have a third of it
CHUNK = 1 << 20  # bytes that are read at once
AHEAD = 1 << 22  # bytes within which polars finds the header; it reads less than one megabyte ahead
FEW = 16  # line ends that are tested one by one before all of them are tested at once
GZIP, OTHERS = b"\x1f\x8b", (b"\x28\xb5\x2f\xfd", b"\x78\x01", b"\x78\x9c", b"\x78\xda")  # first bytes; zstd, zlib
BLANK = re.compile(rb"(?:\xef\xbb\xbf)?(?:[ \t]*\r?\n)*")
MAGIC, REPEATED = b"PAR1", 2  # REPEATED marks columns of lists, which have other numbers of values than rows
DEEPEST = 12  # nesting of structures in the footer of a Parquet file, at most


def check_unpacked(path: Path, packed: int, unpacked: int, remedy: str) -> None:
    """Raise an InputError for a file that would take more than `MOST_UNPACKED` bytes, far more than its own size."""
    if unpacked > max(MOST_UNPACKED, MOST_RATIO * packed):
        what = f"{path} has {packed / 1e6:.3g} MB, but would take at least {unpacked / 1e9:.3g} GB of memory"
        raise InputError(what, remedy)


def check_archive(archive: zipfile.ZipFile, path: Path, packed: int) -> None:
    """Raise an InputError for an .npz file whose arrays take far more memory than the file has bytes."""
    unpacked = sum(member.file_size for member in archive.infolist())
    check_unpacked(path, packed, unpacked, "save the arrays with numpy.savez")


# Checks of text tables


def check_text(source: Path | bytes, path: Path, whole: bool) -> int:
    """Check the lines of a text table, compressed by gzip or not; return the number of blank lines at its start.

    Args:
        source: the path of the file, or its content.
        path: the name of the file in error messages.
        whole: True to check all lines, False for those that polars reads to find the header.

    Raises:
        InputError: a line is longer than `LONGEST_LINE`, or the file is damaged or expands too much.
    """
    with open(source, "rb") if isinstance(source, Path) else io.BytesIO(source) as stream:
        begin = stream.read(4)
        packed = stream.seek(0, io.SEEK_END)
        stream.seek(0)
        if begin.startswith(OTHERS):
            raise InputError(f"{path} is compressed in another way than by gzip", "compress it with gzip")
        is_packed = begin.startswith(GZIP)
        blank, length, unpacked, is_quoted = 0, 0, 0, False
        for chunk in _chunks(stream, is_packed, path):
            if not unpacked:
                rows = BLANK.sub(b"", chunk, count=1)
                if not rows and len(chunk) < CHUNK:
                    raise InputError(f"{path} has only blank lines, expected a header", "write the table again")
                blank = chunk[: len(chunk) - len(rows)].count(b"\n")
            unpacked += len(chunk)
            if is_packed:
                check_unpacked(path, packed, unpacked, "unpack it first")
            end, is_quoted = _last_line_end(chunk, is_quoted)
            length = length + len(chunk) if end < 0 else len(chunk) - end - 1
            if length > LONGEST_LINE:
                what = f"{path} has a line of more than {LONGEST_LINE / 1e6:.0f} MB, or a quote that is never closed"
                raise InputError(what, "write one line per row")
            if end >= 0 and unpacked >= AHEAD and not whole:
                break
        return blank


def beginning(path: Path) -> bytes:
    """Return the first lines of a text table, compressed by gzip or not: at most `AHEAD` bytes, without a partial line.

    The result is empty if the first line is longer.
    """
    with open(path, "rb") as stream:
        is_packed = stream.read(2) == GZIP
        stream.seek(0)
        text, whole = b"", True
        for chunk in _chunks(stream, is_packed, path):
            text += chunk
            if len(text) >= AHEAD:
                whole = False
                break
    return text if whole else text[: _last_line_end(text, False)[0] + 1]


def _chunks(stream: BinaryIO, is_packed: bool, path: Path) -> Iterator[bytes]:
    """Yield the text of a file in chunks, decompressed if `is_packed`."""
    try:
        with gzip.GzipFile(fileobj=stream) if is_packed else stream as text:
            while chunk := text.read(CHUNK):
                yield chunk
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} is damaged or not compressed by gzip", "compress it again") from error


def _last_line_end(chunk: bytes, is_quoted: bool) -> tuple[int, bool]:
    r"""Find the last line end outside quotes; return its position, or −1, and whether the end of the chunk is quoted.

    >>> _last_line_end(b'a,"b\nc"\n"d', False), _last_line_end(b"a\nb", True)
    ((7, True), (-1, True))
    """
    quotes = chunk.count(b'"')
    quoted_after = is_quoted ^ bool(quotes & 1)
    end, quoted, last = len(chunk), quoted_after, len(chunk)
    for _ in range(FEW):
        if (end := chunk.rfind(b"\n", 0, last)) < 0:
            return -1, quoted_after
        quoted ^= bool(chunk.count(b'"', end, last) & 1)
        if not quoted:
            return end, quoted_after
        last = end
    values = np.frombuffer(chunk, np.uint8)
    inside = np.bitwise_xor.accumulate(values == ord('"')) ^ is_quoted
    ends = np.flatnonzero((values == ord("\n")) & ~inside)
    return int(ends[-1]) if len(ends) else -1, quoted_after


# Checks of Parquet files


def check_parquet(source: Path | bytes, path: Path) -> None:
    """Check that the column chunks and pages of a Parquet file are inside the file, and hold as many values as stated.

    Args:
        source: the path of the file, or its content.
        path: the name of the file in error messages.

    Raises:
        InputError: the file is damaged, or would take far more memory than it has bytes.
    """
    if isinstance(source, bytes):
        _check_chunks(source, path)
        return
    with open(source, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        _check_chunks(content, path)


def _check_chunks(content: Any, path: Path) -> None:
    try:
        length, magic = struct.unpack("<I4s", content[-8:])
        _need(magic == MAGIC and length <= len(content) - 12)
        footer = read_thrift(content[-8 - length : -8], 0)[0]
        schema, n_rows, groups = footer[2], footer[3], footer[4]
        _need(sum(group[3] for group in groups) == n_rows)
        if not any(element.get(3) == REPEATED for element in schema):
            _need(all(chunk[3][5] == group[3] for group in groups for chunk in group[1]))
        columns = [chunk[3] for group in groups for chunk in group[1]]
        check_unpacked(path, len(content), 8 * sum(column[5] for column in columns), "write it without dictionaries")
        for column in columns:
            _check_pages(content, column)
    except (LookupError, TypeError, ValueError, struct.error) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is damaged or no Parquet file", "write it again") from error


def _check_pages(content: Any, column: dict[int, Any]) -> None:
    """Check the page headers of a column chunk, given its description in the footer."""
    n_values, packed, data, dictionary = column[5], column[7], column[9], column.get(11, 0)
    place = dictionary if len(MAGIC) <= dictionary < data else data
    _need(packed >= 0 and len(MAGIC) <= place <= place + packed <= len(content))
    n_seen = 0
    while n_seen < n_values:
        header, place = read_thrift(content, place)
        page = header.get(5) or header.get(8)  # of data pages of version 1 and 2
        n = page[1] if page else header.get(7, {1: 0})[1]  # else of a dictionary
        place += header[3]
        _need(header[3] >= 0 and 0 <= n <= (n_values - n_seen if page else header[2]) and place <= len(content))
        n_seen += n if page else 0


def _need(good: bool) -> None:
    if not good:
        raise ValueError("not as stated in the file")


def read_thrift(content: Any, place: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    r"""Read a structure in the compact protocol of Apache Thrift, by which Parquet files describe themselves.

    Return a dict by field number, and the position after the structure. Texts and floats, which are not needed, are
    None. Raise an IndexError if the content ends first.

    >>> read_thrift(b"\x15\x06\x1c\x15\x01\x00\x00", 0)
    ({1: 3, 2: {1: -1}}, 7)
    """
    fields: dict[int, Any] = {}
    number = 0
    while head := content[place]:
        kind, step = head & 15, head >> 4
        place += 1
        if not step:
            number, place = _signed(content, place)
        number += step
        if kind == 5 or kind == 6:
            fields[number], place = _signed(content, place)
        elif kind < 3:
            fields[number] = kind == 1
        else:
            fields[number], place = _thrift_value(content, place, kind, depth)
    return fields, place + 1


def _thrift_value(content: Any, place: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind == 12:
        _need(depth < DEEPEST)
        return read_thrift(content, place, depth + 1)
    if kind == 9 or kind == 10:
        n, kind = content[place] >> 4, content[place] & 15
        place += 1
        if n == 15:
            n, place = _unsigned(content, place)
        values = []
        for _ in range(n):
            value, place = _thrift_value(content, place, kind, depth)
            values.append(value)
        return values, place
    if 4 <= kind <= 6:
        return _signed(content, place)
    if kind == 8:
        n, place = _unsigned(content, place)
    else:
        n = {1: 1, 2: 1, 3: 1, 7: 8}[kind]  # the elements of a list of truth values have a byte each
    _need(place + n <= len(content))
    return None, place + n


def _signed(content: Any, place: int) -> tuple[int, int]:
    number, place = _unsigned(content, place)
    return number >> 1 ^ -(number & 1), place


def _unsigned(content: Any, place: int) -> tuple[int, int]:
    byte = content[place]
    if byte < 128:
        return byte, place + 1
    number, shift = byte & 127, 7
    while shift < 70:
        place += 1
        byte = content[place]
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place + 1
        shift += 7
    raise ValueError("a number of more than 64 bits")
