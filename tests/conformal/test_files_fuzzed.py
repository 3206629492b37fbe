"""Fuzzed files: each loads as a usable object with the content of its file, or raises one sentence."""

import re
from collections import Counter

import pytest

import pippin
from support.file_fuzzing import file_of, judge, search, sound_files


def test_the_files_to_damage_are_valid():
    """Without damage all files load."""
    judged = {kind: judge(file_of(content)) for kind, content in sound_files().items()}
    assert len(judged) == 78
    assert set(judged.values()) == {"used"}, judged


def test_damaged_files_load_or_raise_an_input_error():
    """All kinds of files and damage; `python tests/support/file_fuzzing.py 1000000` runs longer.

    A file that loads gives an object with its content, which works and can be saved again.
    """
    found, failures = search(6000)
    assert failures == {}
    ends = Counter(end for (_, end), count in found.items() for _ in range(count))
    assert ends["refused"] > ends["used"] > 500
    assert {kind for kind, _ in found} == set(sound_files())


NESTED = {f"{key} {depth}": (key, depth) for key in ("threshold", "classes", "score", "note") for depth in (900, 1000)}


@pytest.mark.parametrize(("key", "depth"), NESTED.values(), ids=NESTED)
def test_a_deeply_nested_file_raises(key, depth, tmp_path):
    """Deep nesting raises an error that names the file."""
    path = tmp_path / "p.json"
    path.write_bytes(file_of({**sound_files()["marginal"], key: f"@{depth}"}))
    with pytest.raises(pippin.InputError, match=r"p\.json .*: (calibrate again and save|save the predictor again)\."):
        pippin.load(path)


UNSOUND = {
    "name null": ({"classes": ["crop", None, "weed"]}, "its classes makes"),
    "name true": ({"classes": ["crop", True, "weed"]}, "its classes makes"),
    "true among numbers": ({"classes": [True, 5, 2]}, "its classes makes"),
    "name 0.5": ({"classes": [0.5, 1, 2]}, "its classes makes"),
    "more rows than scores": ({"n_calibration": 25}, "its calibration_scores makes"),
    "no rows": ({"n_calibration": 0}, "its n_calibration makes"),
    "rows by half": ({"n_calibration": 24.5}, "its n_calibration makes"),
    "rows true": ({"n_calibration": True}, "its n_calibration makes"),
    "more classes than can be": ({"classes": None, "n_classes": 2**63}, "its n_classes makes"),
    "a key of two lines": ({"a\nb": 1}, r"its 'a\nb' is not known"),
}


@pytest.mark.parametrize(("changes", "message"), UNSOUND.values(), ids=UNSOUND)
def test_an_invalid_entry_is_named(changes, message, tmp_path):
    """A file with an invalid entry and a correct checksum raises an error that names the entry."""
    path = tmp_path / "p.json"
    path.write_bytes(file_of({**sound_files()["marginal"], **changes}))
    with pytest.raises(pippin.InputError, match=re.escape(f"p.json holds no sound predictor ({message}")):
        pippin.load(path)


@pytest.mark.parametrize("key", ["threshold", "alpha", "sha256", "name", "gamma"])
def test_a_repeated_key_raises(key, tmp_path):
    """A repeated key raises at any depth, also with equal values."""
    path = tmp_path / "p.json"
    text = file_of(sound_files()["marginal"]).decode()
    at = text.index(f'"{key}"')
    value = text[at : text.index(",", at)].split("}")[0]
    path.write_text(f"{text[:at]}{value}, {text[at:]}")
    with pytest.raises(
        pippin.InputError, match=r"p\.json is no predictor file, or is damaged .*: save the predictor ag"
    ):
        pippin.load(path)
