"""Tables that would take too much memory, and damaged Parquet files: refused in one sentence, before they are read."""

import gzip
import io
import re
import subprocess
import sys
import zlib

import numpy as np
import polars
import pytest

import pippin
from pippin.tables import limits
from pippin.tables.columns import Layout
from pippin.tables.limits import check_parquet, check_text
from pippin.tables.reading import read_data
from support import table_fuzzing

ROWS = "0.25,0.75,b\n" * 50


def refuses(path, match):
    """Assert that reading a table in memory and in batches raises the same error of one sentence."""
    for read in (lambda: read_data(path), lambda: list(pippin.scan(path).batches())):
        with pytest.raises(pippin.InputError, match=match) as caught:
            read()
        assert str(caught.value).startswith(str(path))
        assert "\n" not in str(caught.value)


PEAK = """
import sys, pippin
from pippin.images.batch import peak_megabytes
try:
    list(pippin.scan(sys.argv[1]).batches())
except pippin.InputError as error:
    print(round(peak_megabytes()))
"""


@pytest.mark.parametrize("begin", [b"a,b,label\n" + b"0" * 9, b"", b"a,b,label\n" + ROWS.encode() * 9000])
def test_a_line_without_end_takes_little_memory(begin, tmp_path):
    """A line without end is refused with little memory; polars would take several times its 160 MB."""
    path, plain = tmp_path / "table.csv.gz", tmp_path / "table.csv"
    plain.write_bytes(begin + bytes(160 << 20))
    path.write_bytes(gzip.compress(plain.read_bytes(), 1))
    for each in (path, plain):
        refuses(each, "has a line of more than 67 MB, or a quote that is never closed: write one line per row")
    ended = subprocess.run([sys.executable, "-c", PEAK, str(path)], check=True, capture_output=True, text=True)
    assert int(ended.stdout) < 160


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_a_quote_over_many_lines_is_a_long_line(ending, tmp_path, monkeypatch):
    """A quote that is never closed makes one long line of all further lines; closed quotes do not."""
    monkeypatch.setattr(limits, "LONGEST_LINE", 1 << 21)
    good = 'a,b,label\n0.25,0.75,"b"\n0.25,0.75,"quo""ted"\n' + '0.25,0.75,"two\nlines"\n' * 200_000
    for text, is_good in ((good, True), (f'{good}0.25,0.75,"b\n{ROWS * 9000}', False)):
        content = text.encode()
        path = tmp_path / f"table.{ending}"
        path.write_bytes(gzip.compress(content, 1) if ending == "csv.gz" else content)
        if is_good:
            assert check_text(path, path, whole=True) == 0
        else:
            with pytest.raises(pippin.InputError, match=r"has a line of more than 2 MB"):
                check_text(path, path, whole=True)


def test_lines_are_counted_as_the_csv_module_counts_them():
    """Line ends are found like by the csv module, for random text in chunks of any size."""
    rng = np.random.default_rng(0)
    for _ in range(400):
        text = rng.choice(np.array([b'"', b"\n", b"a", b",", b'""'], dtype=object), rng.integers(1, 60)).tolist()
        text = b"".join(text)
        end = max((i for i in range(len(text)) if text[i] == 10 and text[:i].count(b'"') % 2 == 0), default=-1)
        place, is_quoted, found = 0, False, -1
        while place < len(text):
            chunk = text[place : place + int(rng.integers(1, 30))]
            last, is_quoted = limits._last_line_end(chunk, is_quoted)
            found = place + last if last >= 0 else found
            place += len(chunk)
        assert (found, is_quoted) == (end, bool(text.count(b'"') % 2))


def test_files_that_expand_too_much_are_refused(tmp_path, monkeypatch):
    """Compressed text, arrays and Parquet columns; the limit is 4 GB if it is more than 200 times the file."""
    monkeypatch.setattr(limits, "MOST_UNPACKED", 1 << 20)
    (tmp_path / "table.csv.gz").write_bytes(gzip.compress(b"a,b,label\n" + ROWS.encode() * 4000))
    refuses(tmp_path / "table.csv.gz", r"has 0.00\d+ MB, but would take at least 0.0\d+ GB of memory: unpack it first")
    frame = polars.DataFrame({"a": np.full(200_000, 0.25), "b": np.full(200_000, 0.75)})
    frame.write_parquet(tmp_path / "table.parquet")
    refuses(tmp_path / "table.parquet", "would take at least .* GB of memory: write it without dictionaries")
    np.savez_compressed(tmp_path / "table.npz", probs=frame.to_numpy())
    with pytest.raises(pippin.InputError, match=r"would take at least .* GB of memory: save the arrays with numpy"):
        read_data(tmp_path / "table.npz")
    np.savez(tmp_path / "table.npz", probs=frame.to_numpy())
    assert read_data(tmp_path / "table.npz").rows.n == 200_000


def test_the_size_in_the_directory_of_an_archive_is_believed(tmp_path):
    """An archive is refused by the sizes in its directory, without unpacking."""
    np.savez_compressed(tmp_path / "d.npz", probs=np.full((9, 2), 0.5), labels=np.zeros(9, np.int64))
    content = bytearray((tmp_path / "d.npz").read_bytes())
    for match in list(re.finditer(b"PK\x01\x02", content)):
        content[match.start() + 24 : match.start() + 28] = b"\xfe\xff\xff\xff"
    (tmp_path / "d.npz").write_bytes(content)
    with pytest.raises(pippin.InputError, match=r"would take at least 8\.59 GB of memory"):
        read_data(tmp_path / "d.npz")


@pytest.mark.parametrize("pack", [zlib.compress, lambda data: b"\x28\xb5\x2f\xfd" + data])
def test_text_is_compressed_by_gzip_only(pack, tmp_path):
    """polars would unpack other formats too, without these limits."""
    path = tmp_path / "table.csv"
    path.write_bytes(pack(f"a,b,label\n{ROWS}".encode()))
    refuses(path, "is compressed in another way than by gzip: compress it with gzip")


@pytest.mark.parametrize("damage", [lambda d: d[:-9], lambda d: d[:-5] + b"\0" + d[-4:], lambda d: d[: len(d) // 2]])
def test_compressed_text_that_is_cut_short_is_refused(damage, tmp_path):
    """Truncated compressed text is refused, even if the text itself could be read."""
    path = tmp_path / "table.csv.gz"
    path.write_bytes(damage(gzip.compress(f"a,b,label\n{ROWS}".encode(), mtime=0)))
    refuses(path, "is damaged or not compressed by gzip: compress it again")


@pytest.mark.parametrize("blank", ["\n", "\r\n", " \n\t\n\n", "\ufeff\n"])
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_blank_lines_above_the_header_are_skipped(blank, ending, tmp_path):
    path, text = tmp_path / f"table.{ending}", f"{blank}a,b,label\n\n{ROWS}".encode()
    path.write_bytes(gzip.compress(text) if ending == "csv.gz" else text)
    assert read_data(path).classes == pippin.scan(path).classes == ("a", "b")
    assert read_data(path).rows.n == pippin.scan(path).read_all().rows.n == 50


@pytest.mark.parametrize("options", [{}, {"statistics": "full"}, {"data_page_size": 300}, {"row_group_size": 7}])
def test_sound_parquet_files_pass(options, tmp_path):
    """Valid Parquet files pass, with nested columns, missing values, long texts or no rows."""
    frame = polars.DataFrame(
        {
            "a": np.linspace(0, 1, 60),
            "b": 1 - np.linspace(0, 1, 60),
            "text": ["x" * (i * i) for i in range(60)],
            "gaps": [None if i % 3 else float(i) for i in range(60)],
            "lists": [list(range(i % 5)) for i in range(60)],
            "parts": [{"x": i, "y": [True, None]} for i in range(60)],
            "flags": [i % 2 == 0 for i in range(60)],
        }
    )
    for each in (frame, frame[:0], frame[:1]):
        for compression in ("zstd", "snappy", "uncompressed", "lz4", "gzip", "brotli"):
            buffer = io.BytesIO()
            each.write_parquet(buffer, compression=compression, **options)
            check_parquet(buffer.getvalue(), tmp_path)


READ_ALL = """
import sys, pippin
from pathlib import Path
path, ended = Path(sys.argv[1]), []
content = path.read_bytes()
for place in map(int, sys.argv[2:]):
    for change in (1, 255):
        path.write_bytes(content[:place] + bytes([content[place] ^ change]) + content[place + 1 :])
        try:
            list(pippin.scan(path, id="id").batches("labels", "ids"))
        except pippin.InputError:
            ended.append(place)
print(len(ended))
"""


def test_damaged_page_headers_never_end_the_process(tmp_path):
    """Damage to any byte of a page header is an error, although polars would abort for a negative number of values."""
    content = table_fuzzing.sound_tables()["full zstd.parquet"]
    length = int.from_bytes(content[-8:-4], "little")
    first = limits.read_thrift(content[-8 - length : -8], 0)[0][4][0]
    starts = [chunk[3].get(11, chunk[3][9]) for chunk in first[1]]
    places = [start + i for start in starts[::2] for i in range(20)]
    (tmp_path / "table.parquet").write_bytes(content)
    words = [sys.executable, "-c", READ_ALL, str(tmp_path / "table.parquet"), *map(str, places)]
    ended = subprocess.run(words, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert int(ended.stdout) > len(places) / 2


@pytest.mark.parametrize("rows", [30, 120])
def test_a_table_with_other_rows_than_when_scanned_is_noticed(rows, tmp_path):
    """A table with fewer rows than when it was scanned, which polars would leave out silently, or more is an error."""
    path = tmp_path / "table.parquet"
    frame = polars.DataFrame({"a": np.full(120, 0.5), "b": np.full(120, 0.5)})
    frame[:40].write_parquet(path, row_group_size=15)
    found = pippin.scan(path)
    frame[:rows].write_parquet(path, row_group_size=15)
    with pytest.raises(pippin.InputError, match=f"has {rows} rows that can be read, expected 40: write it again, or"):
        list(found.batches())


@pytest.mark.parametrize("member", [b"probs", b"features"])
def test_a_damaged_array_is_named(member, tmp_path):
    """A damaged array is named in the error, also the features, which are read separately."""
    arrays = {"probs": np.full((9, 2), 0.5), "labels": np.zeros(9, np.int64), "features": np.ones((9, 2))}
    np.savez(tmp_path / "d.npz", **arrays)
    content = bytearray((tmp_path / "d.npz").read_bytes())
    content[content.index(member + b".npy") + 150] ^= 1
    (tmp_path / "d.npz").write_bytes(content)
    with pytest.raises(pippin.InputError, match=f"The array {member.decode()} of .* is damaged: write the file again"):
        read_features_after_data(tmp_path / "d.npz")


def read_features_after_data(path):
    from pippin.tables.reading import read_features

    return read_features(read_data(path, layout=Layout()))


def test_damaged_tables_give_their_rows_or_one_sentence():
    """All formats, in memory and in batches; `python tests/support/table_fuzzing.py 5000` runs longer."""
    found, failures, ended = table_fuzzing.run(300)
    assert (failures, ended) == ({}, [])
    ends = {end: sum(count for (_, other), count in found.items() if other == end) for end in ("read", "refused")}
    assert ends["refused"] > ends["read"] > 10
