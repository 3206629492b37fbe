"""Fuzzing of data files: each damaged table gives the rows that are in it, or raises a one-sentence InputError.

`python tests/support/table_fuzzing.py 5000` writes as many damaged and odd tables from a seed, and reads each in memory
and in batches, in a process of its own, since a Parquet file could end it. The rows are compared with those that the
standard library, NumPy or pyarrow reads.
"""

import csv
import gzip
import io
import math
import random
import struct
import subprocess
import sys
import tempfile
import time
import unicodedata
import warnings
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import polars

import pippin
from pippin.tables.columns import Layout
from pippin.tables.reading import read_data

N, NAMES = 40, ("crop", "soil", "weed")
ODD_TEXT = [
    b"",
    b'"',
    b'""',
    b",",
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\0",
    b"\xff",
    b"nan",
    b"inf",
    b"1e999",
    b"-0.1",
    b"1_0",
]
ODD_TEXT += [b"0x1", b" ", b"\t", b";", b"\xef\xbb\xbf", "é".encode(), "٠".encode(), b"=1+1", b"*", b"^a$", b"0" * 400]
NUMBERS = [0, 1, 127, 128, 255]


@cache
def sound_tables():
    """Return the content of valid tables by name of the file."""
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.ones(3), N), rng.integers(0, 3, N)
    named = polars.DataFrame(probs, schema=list(NAMES)).with_columns(label=polars.Series(np.array(NAMES)[labels]))
    full = named.with_columns(
        id=polars.Series([f"photo {i}" for i in range(N)]), group=polars.Series(rng.integers(0, 3, N))
    )
    hot = polars.DataFrame(np.eye(3)[labels], schema=list(NAMES)).with_columns(label=polars.Series(labels))
    tables = {}
    for kind, frame in (("named", named), ("full", full), ("hot", hot)):
        text = _bytes(frame.write_csv)
        tables[f"{kind}.csv"], tables[f"{kind}.csv.gz"] = text, gzip.compress(text, mtime=0)
        tables[f"{kind}.jsonl"] = _bytes(frame.write_ndjson)
        for compression in ("zstd", "snappy", "uncompressed", "lz4", "gzip", "brotli"):
            write = frame.write_parquet
            tables[f"{kind} {compression}.parquet"] = _bytes(write, compression=compression, row_group_size=15)
    tables["quoted.csv"] = _bytes(full.write_csv, quote_style="always", line_terminator="\r\n")
    arrays = {"probs": probs, "labels": labels, "classes": np.array(NAMES), "groups": labels % 2}
    for name, save in (("plain.npz", np.savez), ("packed.npz", np.savez_compressed)):
        tables[name] = _bytes(save, **arrays)
    tables["logits.npz"] = _bytes(
        np.savez, logits=np.log(probs), labels=np.array(NAMES)[labels], classes=np.array(NAMES)
    )
    tables["probs.npy"] = _bytes(np.save, probs)
    tables["single.npy"] = _bytes(np.save, probs.astype(np.float32))
    return tables


def damaged(content, ending, rng):
    """Return damaged content: flipped, lost, repeated or replaced bytes, mostly where a format keeps its lengths."""
    text = bytearray(content)
    is_text = ending in (".csv", ".jsonl")
    for _ in range(rng.choice([1, 1, 2, 4])):
        if len(text) < 8:
            break
        start = max(0, len(text) - 8 - struct.unpack("<I", text[-8:-4])[0]) if ending == ".parquet" else 0
        near = rng.random() < 0.5
        place = rng.randrange(
            start if near and start else 0, 200 if near and not start and len(text) > 200 else len(text)
        )
        way = rng.random()
        if is_text and way < 0.5:
            text[place : place + rng.randint(0, 3)] = rng.choice(ODD_TEXT)
        elif way < 0.6:
            text[place] ^= 1 << rng.randrange(8)
        elif way < 0.7:
            text[place] = rng.choice(NUMBERS)
        elif way < 0.8:
            del text[place : place + rng.randint(1, 30)]
        elif way < 0.9:
            text[place:place] = text[place : place + rng.randint(1, 30)]
        elif way < 0.95:
            text[place : place + 4] = struct.pack("<I", rng.choice([2**32 - 1, 2**31 - 1, 2**31, 2**16, 0]))
        else:
            del text[rng.randrange(len(text)) :]
    if ending == ".csv.gz" and rng.random() < 0.5:  # damage below the checksum
        return gzip.compress(damaged(gzip.decompress(content), ".csv", rng), mtime=0)
    return bytes(text)


def judge(path):
    """Read a table in memory and in batches; return "read" or "refused", or raise any other error."""
    scanned, known = None, _expected(path)
    data, problem = _attempt(lambda: _content(read_data(path, layout=LAYOUTS[path.name.split()[0].split(".")[0]])))
    if path.name.endswith((".csv", ".csv.gz", ".parquet")):
        layout = LAYOUTS[path.name.split()[0].split(".")[0]]
        scanned, other = _attempt(lambda: _content(pippin.scan(path, id=layout.ids).read_all()))
        assert (problem is None) == (other is None), f"in memory: {problem}; in batches: {other}"
        assert data is None or _equal(data, scanned), "other rows in batches"
    if data is not None and known is not None:
        probs, labels = known
        assert np.array_equal(data[0], probs), "other probabilities than in the file"
        assert labels is None or data[1] == labels, f"other labels than in the file: {data[1]} and {labels}"
    return "refused" if data is None else "read"


LAYOUTS = {kind: Layout(ids=("id",)) if kind in ("full", "quoted") else Layout() for kind in ("full", "quoted")}
LAYOUTS |= dict.fromkeys(("named", "hot", "plain", "packed", "logits", "probs", "single"), Layout())


def search(start, stop, folder, report=lambda number: None):
    """Judge damaged tables of the seeds from `start` to `stop`; return counts by ending, and failures."""
    tables, found, failures = list(sound_tables().items()), Counter(), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", "[^:]*: ignored the column")  # a damaged class is not left out silently
        for number in range(start, stop):
            report(number)
            rng = random.Random(number)
            name, content = rng.choice(tables)
            ending = name[name.index(".") :]
            path = folder / name
            path.write_bytes(damaged(content, ending, rng))
            try:
                found[ending, judge(path)] += 1
            except Exception as error:  # any error other than InputError is a failure
                failures.setdefault((ending, type(error).__name__, str(error)[:70]), (number, name, str(error)[:400]))
                found[ending, "failed"] += 1
    return found, failures


def _attempt(read):
    """Return the result of a function, or None and its error, which must be one sentence."""
    try:
        return read(), None
    except UserWarning as warning:
        return None, str(warning)
    except pippin.InputError as error:
        sentence = str(error)
        assert sentence.endswith("."), sentence
        assert not {unicodedata.category(c) for c in sentence} & {"Cc", "Cf", "Cs", "Zl", "Zp"}, sentence
        return None, sentence


def _content(data):
    """Return probabilities, labels as names, and ids of a table."""
    labels = None if data.labels is None else [(data.classes or range(9))[code] for code in data.truth().tolist()]
    return data.probs, labels, {name: list(map(str, ids.tolist())) for name, ids in data.ids.items()}, data.classes


def _equal(data, other):
    return np.array_equal(data[0], other[0]) and data[1:] == other[1:]


def _expected(path):
    """Return probabilities and labels as another library reads them; None if it does not."""
    try:
        if path.suffix == ".npz":
            with np.load(path) as arrays:
                main = arrays["probs"] if "probs" in arrays.files else arrays["logits"]
                return main, None
        if path.suffix == ".npy":
            return np.load(path), None
        if path.suffix == ".parquet":
            from pyarrow import parquet

            frame = polars.from_arrow(parquet.read_table(path))
        else:
            content = path.read_bytes()
            text = (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode("utf-8-sig")
            lines = [line for line in csv.reader(io.StringIO(text, newline="")) if line and any(map(str.strip, line))]
            head, *rows = ([cell.strip() for cell in line] for line in lines)
            frame = polars.DataFrame(rows, schema=head, orient="row")
        names = [name for name in frame.columns if name not in ("label", "group", "id")]
        probs = np.array([[_number(cell) for cell in row] for row in frame.select(names).iter_rows()])
        labels = None if "label" not in frame.columns else frame["label"].cast(polars.String).to_list()
        if labels is not None and all(map(str.isdecimal, labels)) and not set(names) & {"0", "1", "2"}:
            labels = [names[int(label)] for label in labels]  # also of 001, which is 1
        return probs, labels
    except (Exception, polars.exceptions.PanicException):  # damaged files raise many types of exceptions
        return None


def _number(cell):
    return math.nan if cell in (None, "") else float(cell)


def _bytes(write, *arguments, **options):
    buffer = io.BytesIO()
    write(buffer, *arguments, **options)
    return buffer.getvalue()


def run(n, first=0):
    """Judge n tables in child processes; return the counts, the failures, and the tables that ended a process."""
    found, failures, ended, start = Counter(), {}, [], first
    while start < first + n:
        words = [sys.executable, __file__, str(n), str(first), str(start), str(first + n)]
        child = subprocess.run(words, capture_output=True, text=True)
        lines = [line for line in child.stdout.splitlines() if line.startswith(("at ", "found ", "failed "))]
        for line in lines:
            if line.startswith("found "):
                _, ending, end, count = line.split()
                found[ending, end] += int(count)
            elif line.startswith("failed "):
                failures.setdefault(line[:90], line)
        if child.returncode == 0:
            break
        start = max(int(line.split()[1]) for line in lines if line.startswith("at ")) + 1
        reason = next((line for line in child.stderr.splitlines() if "failed" in line or "panicked" in line), "")
        ended.append((start - 1, child.returncode, reason))
    return found, failures, ended


def main(n, first=0):
    """Judge n tables; print the counts, the failures, and the tables that ended a process."""
    started = time.monotonic()
    found, failures, ended = run(n, first)
    for ending in sorted({ending for ending, _ in found}):
        print(f"{ending:10}", *(f"{found[ending, end]:>8,} {end}" for end in ("read", "refused", "failed")))
    print(f"{n:,} tables, {len(failures)} sorts of failures, {len(ended)} ended the process, in", end=" ")
    print(f"{time.monotonic() - started:.0f} s", *failures.values(), *ended, sep="\n")
    return bool(failures or ended)


def child(start, stop):
    """Judge tables, and print every hundred the counts so far, which are lost if the process ends."""
    with tempfile.TemporaryDirectory() as folder:
        for begin in range(start, stop, 100):
            found, failures = search(begin, min(begin + 100, stop), Path(folder), lambda i: print("at", i, flush=True))
            for (ending, end), count in found.items():
                print("found", ending, end, count)
            for key, example in failures.items():
                print("failed", *key, *example, sep=" | ", flush=True)


if __name__ == "__main__":
    numbers = list(map(int, sys.argv[1:]))
    if len(numbers) == 4:
        child(*numbers[2:])
    else:
        sys.exit(main(*(numbers or [5000])))
