"""Predictor files: damaged, edited and other files raise, and loading never unpickles."""

import ast
import json
import random
import re
from pathlib import Path

import pytest

import pippin
from support.predictor_files import CONTENT, same, save_one, write


@pytest.fixture
def saved(tmp_path):
    return save_one(tmp_path)


def assert_refused(path, words=""):
    """Assert that loading raises a ValueError with the file name and a remedy."""
    with pytest.raises(ValueError, match=re.escape(str(path)) + ".*" + words + ".*: (save|calibrate|upgrade|expected)"):
        pippin.load(path)


def test_a_truncated_file_raises(saved):
    """A file truncated at any position raises."""
    data = saved.read_bytes()
    for end in {*range(0, len(data), 20), len(data) - 1}:
        saved.write_bytes(data[:end])
        assert_refused(saved, "cut short")


def test_a_flipped_bit_never_changes_a_predictor(saved):
    """A damaged file raises, unless the damage is in insignificant whitespace."""
    data, predictor = saved.read_bytes(), pippin.load(saved)
    for place in random.Random(0).sample(range(8 * len(data)), 400):
        broken = bytearray(data)
        broken[place // 8] ^= 1 << place % 8
        saved.write_bytes(broken)
        try:
            back = pippin.load(saved)
        except ValueError as error:
            assert str(saved) in str(error)  # noqa: PT017
        else:
            assert same(back, predictor)


EDITS = {
    "score": {"name": "pip", "parameters": {"beta": 1.0}},
    "alpha": 0.2,
    "threshold": 1.25,
    "n_calibration": 51,
    "n_classes": 5,
    "classes": ["crop", "weed", "soil", "rye"],
    "calibration_scores": [0.0],
}


@pytest.mark.parametrize("key", EDITS)
@pytest.mark.parametrize("value", ["edited", None, [], {}, "gone"], ids=str)
def test_an_edited_entry_raises(key, value, saved):
    """Changed, empty and removed entries raise."""
    whole = json.loads(saved.read_bytes())
    if value == "gone":
        del whole["predictor"][key]
    else:
        whole["predictor"][key] = EDITS[key] if value == "edited" else value
    saved.write_text(json.dumps(whole))
    assert_refused(saved, "edited or damaged")


def test_an_added_entry_raises(saved):
    """An added entry raises."""
    whole = json.loads(saved.read_bytes())
    whole["predictor"]["note"] = "mine"
    saved.write_text(json.dumps(whole))
    assert_refused(saved, "edited or damaged")


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity"])
def test_a_number_out_of_range_raises(number, saved):
    """Numbers that JSON or floats cannot represent raise."""
    text = re.sub(r'"threshold": [^,]+', f'"threshold": {number}', saved.read_text())
    saved.write_text(text)
    assert_refused(saved)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 3}, "format version 3, but this pippin reads up to 2: upgrade pippin-conformal"),
        ({"version": 10**30}, "upgrade pippin-conformal"),
        ({"version": 0}, "version from 1 to 2, got 0"),
        ({"version": "1"}, "version"),
        ({"version": None}, "version"),
        ({"format": "pippin comparison"}, "is not a predictor: expected the format 'pippin predictor', got 'pippin co"),
        ({"format": None}, "is not a predictor"),
        ({"sha256": "0" * 64}, "edited or damaged"),
        ({"sha256": None}, "edited or damaged"),
        ({"predictor": None}, "edited or damaged"),
        ({"predictor": []}, "edited or damaged"),
    ],
    ids=str,
)
def test_another_format_version_or_checksum_raises(changes, words, tmp_path):
    """A newer format version asks for an upgrade; other errors state the received value."""
    path = tmp_path / "p.json"
    write(path, CONTENT, **changes)
    with pytest.raises(ValueError, match=re.escape(str(path)) + ".*" + re.escape(words)):
        pippin.load(path)


@pytest.mark.parametrize(
    "data",
    [
        *[b"", b"\n", b"{}", b"[]", b"null", b"1", b'"pippin predictor"', b'{"format": 1}', b"x,y\n1,2\n"],
        *[b"\x80\x04\x95pickle", b"\x93NUMPY", b"PK\x03\x04", bytes(1000), b"\xff\xfe{}"],
        *[b"[" * 100_000, b'{"format":' + b"9" * 5000 + b"}"],
    ],
    ids=lambda data: str(data[:12]),
)
def test_files_of_other_formats_raise(data, tmp_path):
    """Other JSON, text and binary files raise."""
    path = tmp_path / "p.json"
    path.write_bytes(data)
    assert_refused(path, "is no predictor file")


NONSENSE = {
    "unknown score": {"score": {"name": "nope", "parameters": {}}},
    "unknown parameter": {"score": {"name": "pip", "parameters": {"x": 1}}},
    "bad parameter": {"score": {"name": "pip", "parameters": {"beta": -1}}},
    "score without parameters": {"score": {"name": "pip"}},
    "score is text": {"score": "pip"},
    "alpha out of range": {"alpha": 1.5},
    "alpha is text": {"alpha": "0.1"},
    "threshold missing": {"threshold": None},
    "threshold is text": {"threshold": "high"},
    "threshold is NaN": {"threshold": "nan"},
    "one class": {"n_classes": 1, "classes": None},
    "classes are not a number": {"n_classes": "2", "classes": None},
    "other number of classes": {"classes": ["a", "b", "c"]},
    "repeated class": {"classes": ["a", "a"]},
    "other number of scores": {"n_calibration": 9},
    "unsorted scores": {"calibration_scores": [1.5, 1.0, 0.5, "inf"]},
    "NaN among the scores": {"calibration_scores": [0.5, 1.0, 1.5, "nan"]},
    "scores are text": {"calibration_scores": "none"},
    "unknown field": {"note": "mine"},
}


@pytest.mark.parametrize("changes", NONSENSE.values(), ids=NONSENSE)
def test_invalid_content_with_a_valid_checksum_raises(changes, tmp_path):
    """Content is validated even if the checksum is correct."""
    write(tmp_path / "p.json", {**CONTENT, **changes})
    with pytest.raises(ValueError, match=r".+"):
        pippin.load(tmp_path / "p.json")


def test_a_missing_file_raises(tmp_path):
    """A missing file and a folder raise OSErrors that name the path."""
    with pytest.raises(FileNotFoundError, match=r"missing\.json"):
        pippin.load(tmp_path / "missing.json")
    with pytest.raises(OSError, match=re.escape(str(tmp_path))):
        pippin.load(tmp_path)


def test_loading_never_unpickles():
    """No module of the package imports pickle, or allows NumPy to use it.

    numba's cache and Dask's messages between processes contain pickles, but neither is read by `load`.
    """
    picklers = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
    package = Path(pippin.__file__).parent
    other = {package / "_engine/numba_engine/compilation.py", package / "dask/partitions.py"}
    sources = [path for path in package.rglob("*.py") if path not in other]
    assert len(sources) > 5
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert not picklers & {alias.name.split(".")[0] for alias in node.names}, source
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in picklers, source
            elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant), source
                assert node.value.value is False, source
