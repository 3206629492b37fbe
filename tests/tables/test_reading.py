"""DATA files: all formats give the same data, and damaged files are errors of one sentence."""

import io
import random
import re

import numpy as np
import polars
import pytest

import pippin
from pippin.tables.reading import example_data, read_data

RNG = np.random.default_rng(5)
PROBS = RNG.dirichlet(np.ones(3), 30)
LABELS = RNG.integers(0, 3, 30)
NAMES = ("crop", "maïs 🌽", "a,b")
FORMATS = ("npz", "csv", "parquet", "npy")


def written(folder, ending, probs=PROBS, labels=LABELS, names=NAMES):
    """Write data in one format; return the path and the path of the labels."""
    path = folder / f"data.{ending}"
    if ending == "npz":
        np.savez(path, probs=probs, labels=labels, classes=np.array(names))
    elif ending == "npy":
        np.save(path, probs)
        np.save(folder / "labels.npy", labels)
        return path, folder / "labels.npy"
    else:
        frame = polars.DataFrame(probs, schema=list(names)).with_columns(
            label=polars.Series([str(names[i]) for i in labels])
        )
        frame.write_csv(path) if ending == "csv" else frame.write_parquet(path)
    return path, None


@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_gives_the_same(ending, tmp_path):
    """Every format gives equal labels and, to the last bit, equal probabilities."""
    data = read_data(*written(tmp_path, ending))
    np.testing.assert_array_equal(data.probs, PROBS)
    np.testing.assert_array_equal(data.truth(), LABELS)
    assert data.classes == (None if ending == "npy" else NAMES)
    assert not data.from_logits
    assert len(data.checksum) == 64
    assert repr(data).endswith(": 30 rows, 3 classes)")


def test_logits_groups_and_upper_case_endings(tmp_path):
    path = tmp_path / "DATA.NPZ"
    with open(path, "wb") as stream:
        np.savez(stream, logits=np.log(PROBS), labels=LABELS, groups=np.arange(30) // 3)
    data = read_data(path)
    assert data.from_logits
    np.testing.assert_array_equal(data.groups, np.arange(30) // 3)
    np.testing.assert_allclose(pippin.scores.score(data.rows, None, "ip"), 1 - PROBS)


def test_single_precision_stays(tmp_path):
    path, _ = written(tmp_path, "parquet", PROBS.astype(np.float32))
    assert read_data(path).probs.dtype == np.float32


def test_the_example_is_data():
    data = example_data()
    assert data.name == "the embedded example"
    np.testing.assert_array_equal(data.truth(), pippin.load_example().labels)


@pytest.mark.parametrize("kind", [np.array(["b", "a"]), np.array([b"b", b"a"]), np.array([1, 0], dtype=np.uint8)])
def test_labels_of_every_kind(kind, tmp_path):
    np.savez(tmp_path / "d.npz", probs=[[0.5, 0.5]] * 2, labels=kind, classes=["a", "b"])
    assert read_data(tmp_path / "d.npz").truth().tolist() == [1, 0]


@pytest.mark.parametrize("dtype", [polars.Categorical, polars.Enum(["crop", "maïs 🌽", "a,b"]), polars.String])
def test_labels_of_every_kind_in_parquet(dtype, tmp_path):
    path, _ = written(tmp_path, "parquet")
    polars.read_parquet(path).with_columns(polars.col("label").cast(dtype)).write_parquet(path)
    np.testing.assert_array_equal(read_data(path).truth(), LABELS)


@pytest.mark.parametrize(
    ("header", "labels", "expected"),
    [
        ("a,b,c", "2,0", [2, 0]),  # column numbers
        ("a,b,c", "c,a", [2, 0]),  # names
        ("0,1,2", "2,0", [2, 0]),  # both, and equal
        ("1,2,3", "3,1", [2, 0]),  # names that are numbers
        ("a,b,c", "2.0,0.0", [2, 0]),  # numbers, as pandas writes a column with missing values
        ("1,2,3", "3.0,1.0", [2, 0]),
        ("1.0,2.0,3.0", "3.0,1.0", [2, 0]),  # names
        (" a , b ,c", " c ,a", [2, 0]),  # spaces around
    ],
)
def test_the_meaning_of_labels(header, labels, expected, tmp_path):
    """Whole numbers are column numbers, unless a class is named by one."""
    one, two = labels.split(",")
    (tmp_path / "d.csv").write_text(f"{header},label\n 1,0,0,{one}\n0.2, 0.3,0.5,{two}\n")
    assert read_data(tmp_path / "d.csv").truth().tolist() == expected


def test_names_are_looked_up_in_the_predictors_classes(tmp_path):
    np.savez(tmp_path / "d.npz", probs=[[0.5, 0.5]] * 2, labels=["b", "a"])
    data = read_data(tmp_path / "d.npz")
    assert data.truth(("a", "b")).tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"d.npz: Row 0 has the label 'b', .* name all classes in the file"):
        data.truth()


def test_blank_lines_windows_ends_and_a_byte_order_mark(tmp_path):
    (tmp_path / "d.csv").write_bytes("\ufeffa,b,label\r\n0.5,0.5,a\r\n\r\n0.25,0.75,b\r\n\r\n".encode())
    data = read_data(tmp_path / "d.csv")
    assert data.probs.tolist() == [[0.5, 0.5], [0.25, 0.75]]
    assert data.truth().tolist() == [0, 1]


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def parquet(**columns):
    buffer = io.BytesIO()
    polars.DataFrame(columns).write_parquet(buffer)
    return buffer.getvalue()


HALF = [[0.5, 0.5]]
WRONG = [
    ("d.txt", b"", "end in .npz, .csv, .csv.gz, .parquet or .npy"),
    ("d", b"", "end in .npz, .csv, .csv.gz, .parquet or .npy"),
    ("d.npz", None, "There is no file"),
    *((f"d.{ending}", b"", "is empty") for ending in FORMATS),
    *((f"d.{ending}", b"\x00\x01garbage\xff" * 20, "damaged|cannot be read") for ending in FORMATS),
    ("d.npz", npz(probs=HALF, labels=[0])[:-30], "damaged"),
    ("d.npz", npz(labels=[0]), "holds labels, expected an array probs or an array logits"),
    ("d.npz", npz(), "holds nothing"),
    ("d.npz", npz(probs=HALF, logits=HALF), "both probs and logits"),
    ("d.npz", npy(HALF), "holds one bare array"),
    ("d.npy", npz(probs=HALF), "holds named arrays"),
    ("d.npz", npz(probs=np.array([[0.5, None]])), "array probs .* Python objects"),
    ("d.npz", npz(probs=HALF, classes=np.array(["a", None])), "array classes .* Python objects"),
    ("d.npz", npz(probs=HALF, labels=[0], classes=[["a", "b"]]), "expected classes to be one row of names"),
    ("d.npz", npz(probs=HALF, labels=[0], classes=[0.5, 1.5]), "expected classes to be one row of names"),
    ("d.npz", npz(probs=HALF, labels=[0], classes=["a", "a"]), "occurs twice"),
    ("d.npz", npz(probs=HALF, labels=[0], classes=["a", "b", "c"]), "Expected 3 columns"),
    ("d.npz", npz(probs=HALF, labels=[0], groups=[0, 1]), "Expected 1 groups"),
    ("d.npz", npz(probs=[["x", "y"]]), "probabilities that are numbers"),
    ("d.npz", npz(probs=[[1j, 0]]), "probabilities that are numbers"),
    ("d.npz", npz(probs=[0.5, 0.5]), r"store one object as shape \(1, K\)"),
    ("d.npz", npz(probs=np.ones((0, 2))), "at least one row"),
    ("d.npz", npz(probs=[[1.0]]), "at least two classes"),
    ("d.npz", npz(probs=[[0.5, 0.5], [np.nan, 1]], classes=["a", "b"]), r"Row 1 has nan in column 0 \('a'\)"),
    ("d.npz", npz(logits=[[0.5, 0.5], [np.nan, 1]]), "Row 1 has a largest logit of nan"),
    (
        "d.npz",
        npz(probs=[[3.0, -1.0]]),
        "look like logits: add --logits, or save them as the array logits of an .npz file",
    ),
    ("d.npz", npz(probs=[[50.0, 50.0]]), "percentages"),
    ("d.csv", b"a,b,label\n", "at least one row"),
    ("d.csv", b"\n \n", "has only blank lines, expected a header"),
    ("d.csv", b"a,,label\n0.5,0.5,a\n", "column without a name"),
    ("d.csv", b"a,a,label\n0.5,0.5,a\n", "two columns 'a'"),
    ("d.csv", b"a,b,label\n0.5,0.5,a\n0.5,x,a\n", "Row 1 has 'x' in column 'b', expected a number"),
    ("d.csv", b"a,b,name,label\n0.5,0.5,x,name\n", "Row 0 has 'x' in column 'name', expected a number"),
    ("d.csv", b"a,b,label\n0.5,,a\n", r"Row 0 has nan in column 1 \('b'\)"),
    ("d.csv", b"a,b,label\n0.5,0.5,a,b\n", "equally many cells in every line"),
    ("d.csv", b"a,b,label\n0.5,0.5\n", "Row 0 has no label"),
    ("d.csv", b"a,b\n0.5,0.5\n", "has no labels: name the column with --label"),
    ("d.csv", b"a,b,c,d,label\n0.5,0.5,0.9,0.1,a\n", "runs of columns that sum to 1, 'a' to 'b' and 'c' to 'd'"),
    ("d.csv", b"a,b,label\n0.5,0.5,\xff\n", "UTF-8"),
    ("d.csv", b"a,b,label\n0.5,0.5,c\n", "Row 0 has the label 'c'"),
    ("d.csv", b"a,b,label\n0.5,0.5,2\n", "Row 0 has the label 2, expected 0 to 1"),
    (
        "d.parquet",
        parquet(a=["x"], b=[0.5], label=["a"]),
        "the column 'a' of String: name it with --id a",
    ),
    ("d.parquet", parquet(a=[0.5], b=[0.5], label=[["a"]]), "in column 'label', expected one class per row"),
    ("d.parquet", parquet(a=[0.5, 0.5], b=[0.5, 0.5], label=["a", None]), "Row 1 has no label"),
    ("d.parquet", parquet(a=[0.5], b=[0.5], label=[1.5]), "Row 0 has the label 1.5"),
    ("d.parquet", parquet(a=[0.5], b=[0.5]), "has no labels"),
    ("d.npz", npz(probs=HALF, labels=[0.5]), "Row 0 has the label 0.5, expected a whole number or a class name"),
    ("d.npz", npz(probs=HALF, labels=[0, 1]), "Expected 1 labels, .* store one per row"),
    ("d.npz", npz(probs=HALF, labels=["a"], classes=["b", "c"]), "Row 0 has the label 'a'"),
]


@pytest.mark.parametrize(("name", "content", "match"), WRONG, ids=[f"{n}-{m[:30]}" for n, _, m in WRONG])
def test_errors_are_one_sentence_that_names_the_file(name, content, match, tmp_path):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=match) as caught:
        read_data(path).truth()
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert message.endswith(".")
    assert not re.search(r"from_logits|classes=|frame\[|predict_one", message)


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        read_data(tmp_path / "d.csv")


def test_labels_given_twice_or_in_another_kind_of_file(tmp_path):
    path, _ = written(tmp_path, "npz")
    np.save(tmp_path / "labels.npy", LABELS)
    with pytest.raises(ValueError, match="labels of its own"):
        read_data(path, tmp_path / "labels.npy")
    np.savez(path, probs=PROBS)
    assert read_data(path, tmp_path / "labels.npy").truth().tolist() == LABELS.tolist()
    with pytest.raises(ValueError, match=r"ends in .npy"):
        read_data(path, tmp_path / "labels.csv")
    with pytest.raises(ValueError, match="There is no file"):
        read_data(path, tmp_path / "none.npy")


def test_damaged_files_raise_input_errors_only(tmp_path, capfd):
    """With random bytes changed or cut off, the data are read or the error is one sentence; nothing is printed."""
    rng = random.Random(7)
    for ending in FORMATS:
        path, labels = written(tmp_path, ending)
        whole = path.read_bytes()
        for _ in range(40):
            damaged = bytearray(whole)
            for _ in range(rng.choice((1, 3, 20))):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            path.write_bytes(damaged[: rng.choice((len(whole), rng.randrange(1, len(whole))))])
            try:
                read_data(path, labels).truth(NAMES)
            except ValueError as error:
                assert str(path) in str(error)  # noqa: PT017 - an error is one of two valid results
    assert capfd.readouterr().err == ""
