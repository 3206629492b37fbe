"""Predictor files: the same bits come back, damage is told, and a file is never half-written."""

import ast
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pippin

RNG = np.random.default_rng(3)
PROBS = RNG.dirichlet(np.ones(4), 50)
LABELS = RNG.integers(0, 4, 50)


def made(score="repip", **options):
    return pippin.calibrate(PROBS, LABELS, score, seed=0, **options)


def held(threshold=1.0, scores=(0.5, 1.0), alpha=0.1, classes=range(2), score=pippin.repip()):  # noqa: B008
    """A predictor that holds any numbers at all."""
    return pippin.Predictor(score, alpha, threshold, len(scores), classes, np.array(scores, dtype=np.float64))


def same(a, b):
    """Every field equal, to the last bit and to the type of each class name."""
    return (
        repr(a.score.parameters) == repr(b.score.parameters)
        and a.score == b.score
        and (a.alpha.hex(), a.threshold.hex(), a.n_calibration) == (b.alpha.hex(), b.threshold.hex(), b.n_calibration)
        and (list(a.classes), list(map(type, a.classes))) == (list(b.classes), list(map(type, b.classes)))
        and isinstance(a.classes, range) == isinstance(b.classes, range)
        and a.calibration_scores.tobytes() == b.calibration_scores.tobytes()
    )


def infinite():
    with pytest.warns(UserWarning, match="too few"):
        return pippin.calibrate(PROBS[:3], LABELS[:3])


def impossible():
    """SOCOP, where some true labels have probability 0 and so a score of infinity."""
    return pippin.calibrate(np.eye(4)[(LABELS + (np.arange(50) < 3)) % 4], LABELS, "socop")


PREDICTORS = {
    "plain": made,
    "awkward float": lambda: made(pippin.repip(gamma=0.1 + 0.2, beta=1 / 3)),
    "awkward alpha": lambda: made(alpha=0.1 + 0.2),
    "whole float": lambda: made(pippin.repip(gamma=1, beta=2)),
    "tiny parameter": lambda: made(pippin.socop(mu=5e-324)),
    "not randomized": lambda: made(pippin.aps(randomized=False)),
    "randomized": lambda: made("raps"),
    "infinite threshold": infinite,
    "infinite scores": impossible,
    "text names": lambda: made(classes=["crop", "maïs 🌽", '"quoted"\n', "\ud800"]),
    "numbers for names": lambda: made(classes=[3, 2, 1, 0], alpha=0.2),
    "huge numbers for names": lambda: held(classes=(2**70, -1)),
    "custom weights": lambda: made(pippin.linear((1, 0.1 + 0.2, 1e-300), (0, 0.1, 1 / 3))),
}


@pytest.mark.parametrize("make", PREDICTORS.values(), ids=PREDICTORS)
def test_a_saved_predictor_comes_back_to_the_bit(make, tmp_path):
    """Every number, name and type is what it was, and so is the file saved again."""
    predictor = make()
    predictor.save(tmp_path / "a.json")
    back = pippin.load(tmp_path / "a.json")
    assert same(back, predictor)
    assert not back.calibration_scores.flags.writeable
    back.save(str(tmp_path / "b.json"))
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


@pytest.mark.parametrize("make", PREDICTORS.values(), ids=PREDICTORS)
def test_a_loaded_predictor_predicts_the_same(make, tmp_path):
    """Sets, single rows and other levels are those of the predictor that was saved."""
    predictor = make()
    probs = PROBS if len(predictor.classes) == 4 else np.array([[0.5, 0.5], [0.875, 0.125]])
    predictor.save(tmp_path / "p.json")
    back = pippin.load(tmp_path / "p.json")
    assert back.predict(probs, seed=1).labels() == predictor.predict(probs, seed=1).labels()
    assert back.predict_one(probs[0], seed=1).tolist() == predictor.predict_one(probs[0], seed=1).tolist()
    assert back.at(0.5).threshold == predictor.at(0.5).threshold


def test_the_cases_are_what_they_claim():
    """The infinite cases are really infinite."""
    assert infinite().threshold == np.inf
    assert np.isinf(impossible().calibration_scores).sum() == 3


NUMBERS = st.floats(allow_nan=False)


@given(st.lists(NUMBERS, min_size=1), NUMBERS, st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_any_floats_come_back(tmp_path_factory, scores, threshold, alpha):
    """Signed zeros, subnormals and infinities among the scores as well."""
    path = tmp_path_factory.mktemp("floats") / "p.json"
    predictor = held(threshold, sorted(scores), alpha)
    predictor.save(path)
    assert same(pippin.load(path), predictor)


@given(st.lists(st.text(), min_size=2, max_size=5, unique=True))
def test_any_names_come_back(tmp_path_factory, names):
    """Class names are any text: empty, with line breaks, in any script."""
    path = tmp_path_factory.mktemp("names") / "p.json"
    held(classes=tuple(names)).save(path)
    assert list(pippin.load(path).classes) == names


def test_without_scores(tmp_path):
    """scores=False makes a small file that predicts, and says why it has one level only."""
    predictor = made()
    predictor.save(tmp_path / "p.json", scores=False)
    back = pippin.load(tmp_path / "p.json")
    assert back.calibration_scores is None
    assert (back.threshold, back.n_calibration) == (predictor.threshold, 50)
    assert back.predict(PROBS).labels() == predictor.predict(PROBS).labels()
    with pytest.raises(ValueError, match=r"saved without its calibration scores, so it has only alpha=0.1: calibrate"):
        back.at(0.2)
    back.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "p.json").read_bytes()


# What the file looks like


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


@pytest.mark.parametrize("make", PREDICTORS.values(), ids=PREDICTORS)
def test_the_file_is_strict_json_in_ascii(make, tmp_path):
    """Any language's parser reads it: no NaN, no Infinity, no byte above 127."""
    make().save(tmp_path / "p.json")
    data = (tmp_path / "p.json").read_bytes()
    whole = json.loads(data.decode("ascii"), parse_constant=refuse)
    assert list(whole) == ["format", "version", "sha256", "predictor"]


def write(path, content, **changes):
    """A file by the format's description alone, its checksum right."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    whole = {"predictor": content, "sha256": hashlib.sha256(text.encode()).hexdigest(), "version": 1}
    path.write_text(json.dumps({**whole, "format": "pippin predictor", **changes}))


CONTENT = {
    "score": {"name": "pip", "parameters": {"beta": 2.0}},
    "alpha": 0.25,
    "threshold": 1.5,
    "n_calibration": 4,
    "n_classes": 2,
    "classes": ["crop", "weed"],
    "calibration_scores": [0.5, 1.0, 1.5, "inf"],
}


def test_a_file_from_elsewhere_loads(tmp_path):
    """Layout and order of keys are free: the format's description is enough to write it."""
    write(tmp_path / "p.json", CONTENT)
    wanted = held(1.5, [0.5, 1.0, 1.5, np.inf], 0.25, ("crop", "weed"), pippin.pip(2))
    assert same(pippin.load(tmp_path / "p.json"), wanted)


# Damage


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "predictor.json"
    made(classes=["crop", "soil", "weed", "rye"]).save(path)
    return path


def assert_refused(path, words=""):
    """A ValueError that names the file and says what to do."""
    with pytest.raises(ValueError, match=re.escape(str(path)) + ".*" + words + ".*: (save|calibrate|upgrade|expected)"):
        pippin.load(path)


def test_a_file_cut_short_is_refused(saved):
    """Wherever it ends too early."""
    data = saved.read_bytes()
    for end in {*range(0, len(data), 20), len(data) - 1}:
        saved.write_bytes(data[:end])
        assert_refused(saved, "cut short")


def test_a_flipped_bit_never_changes_a_predictor(saved):
    """A damaged file is refused, or the damage was in what carries no meaning."""
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
def test_an_edited_field_is_refused(key, value, saved):
    """No field can be changed, emptied or removed by hand."""
    whole = json.loads(saved.read_bytes())
    if value == "gone":
        del whole["predictor"][key]
    else:
        whole["predictor"][key] = EDITS[key] if value == "edited" else value
    saved.write_text(json.dumps(whole))
    assert_refused(saved, "edited or damaged")


def test_an_added_field_is_refused(saved):
    """Nor can one be added."""
    whole = json.loads(saved.read_bytes())
    whole["predictor"]["note"] = "mine"
    saved.write_text(json.dumps(whole))
    assert_refused(saved, "edited or damaged")


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity"])
def test_a_number_edited_out_of_range_is_refused(number, saved):
    """Not even by a number that JSON does not have, or floats do not."""
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
def test_another_format_version_or_checksum_is_refused(changes, words, tmp_path):
    """A newer file asks for a newer pippin; the rest says what was found."""
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
def test_other_files_are_refused(data, tmp_path):
    """Other JSON, text and binary files are told apart from predictors."""
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
def test_nonsense_with_the_right_checksum_is_refused(changes, tmp_path):
    """A checksum says that a file is whole, not that it makes sense."""
    write(tmp_path / "p.json", {**CONTENT, **changes})
    with pytest.raises(ValueError, match=r".+"):
        pippin.load(tmp_path / "p.json")


def test_what_is_no_file(tmp_path):
    """A missing file and a folder are the system's errors, which name the path."""
    with pytest.raises(FileNotFoundError, match=r"missing\.json"):
        pippin.load(tmp_path / "missing.json")
    with pytest.raises(OSError, match=re.escape(str(tmp_path))):
        pippin.load(tmp_path)


# Writing


def test_saving_leaves_one_file(tmp_path):
    """After each success there is the file and nothing else."""
    for threshold in (1.0, 2.0, 3.0):
        held(threshold).save(tmp_path / "p.json")
        assert [path.name for path in tmp_path.iterdir()] == ["p.json"]
        assert pippin.load(tmp_path / "p.json").threshold == threshold


def test_a_failed_save_leaves_nothing(saved):
    """A missing folder, a file for a folder, a folder for a file: an OSError, and no trace."""
    (saved.parent / "folder").mkdir()
    before = sorted(saved.parent.rglob("*")), saved.read_bytes()
    for target in ("nowhere/p.json", "predictor.json/p.json", "folder"):
        with pytest.raises(OSError, match=r".+"):
            held().save(saved.parent / target)
    assert (sorted(saved.parent.rglob("*")), saved.read_bytes()) == before


FULL_DISK = """
import resource, sys
import numpy as np
import pippin

big = pippin.Predictor(pippin.ip(), 0.1, 2.0, 50_000, range(2), np.linspace(0, 1, 50_000))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    big.save(sys.argv[1])
except OSError as error:
    print("refused", error)
"""


def test_the_old_file_survives_a_write_that_fails_halfway(saved):
    """A limit on file sizes stops the write in the middle, as a full disk would."""
    before = saved.read_bytes()
    done = subprocess.run([sys.executable, "-c", FULL_DISK, saved], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("refused")
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


SAVE_FOREVER = """
import sys
import numpy as np
import pippin

versions = [pippin.Predictor(pippin.ip(), 0.1, t, 20_000, range(2), np.linspace(0, t, 20_000)) for t in (1.0, 2.0)]
while True:
    for version in versions:
        version.save(sys.argv[1])
"""


def test_a_killed_save_leaves_a_whole_file(tmp_path):
    """kill -9 in the midst of writing: the file is one of the versions, entire."""
    path = tmp_path / "p.json"
    chance = random.Random(1)

    def look():
        return path.stat().st_mtime_ns, path.stat().st_size, sorted(os.listdir(tmp_path))

    held(1.0, np.linspace(0, 1, 20_000)).save(path)
    for _ in range(12):
        before = look()
        child = subprocess.Popen([sys.executable, "-c", SAVE_FOREVER, path])
        try:
            while look() == before and child.poll() is None:
                pass  # a write has begun when the folder changes
            time.sleep(chance.choice([0, 0, 0.0005, 0.001, 0.1]) * chance.random())
        finally:
            child.kill()
            assert child.wait() == -9
        back = pippin.load(path)
        assert back.calibration_scores.tobytes() == np.linspace(0, back.threshold, 20_000).tobytes()
        drafts = [file for file in tmp_path.iterdir() if file != path]
        for draft in drafts:
            draft.unlink()


def test_threads_may_save_to_one_path(tmp_path):
    """Savers in several threads do not trip over each other, and readers see whole files."""
    path = tmp_path / "p.json"
    held().save(path)
    failures = []

    def work(threshold):
        try:
            for _ in range(25):
                held(threshold, np.linspace(0, threshold, 2000)).save(path)
                pippin.load(path)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_ever_unpickled():
    """No module of the package imports a pickler, or lets NumPy use one."""
    picklers = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
    sources = list(Path(pippin.__file__).parent.rglob("*.py"))
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
