"""Layouts of tables: columns by name, ids, prefixes, logits, gzip, standard input, and superfluous columns."""

import gzip
import io
import shlex
import subprocess
import warnings

import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pippin
from pippin._validation.rows import SUM_TOLERANCE
from pippin.tables.columns import Layout
from pippin.tables.reading import read_data
from support.command import PIPPIN

EXAMPLE = pippin.load_example()
N = 300
PROBS, LABELS, CLASSES = EXAMPLE.probs[:N].astype(float), EXAMPLE.labels[:N], EXAMPLE.classes
NAMES = [CLASSES[i] for i in LABELS]
PLAIN = pippin.calibrate(PROBS, NAMES, classes=CLASSES).threshold


def table(prefix="", before=None, after=None, values=PROBS):
    """Return a table with one column per class, between other columns."""
    columns = {f"{prefix}{name}": values[:, k] for k, name in enumerate(CLASSES)}
    return polars.DataFrame({**(before or {}), **columns, **(after or {})})


def test_columns_by_name(tmp_path, call):
    """Label, id and classes are found by name, and the output has the ids."""
    ids = [f"{i}.png" for i in range(N)]
    made = table("p_", {"photo": ids, "camera": [3] * N}, {"target": NAMES})
    made.write_csv(tmp_path / "d.csv")
    made.write_parquet(tmp_path / "d.parquet")
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress((tmp_path / "d.csv").read_bytes()))
    options = "--label target --id photo --prefix p_"
    for name in ("d.csv", "d.parquet", "d.csv.gz"):
        code, _, err = call(f"calibrate {tmp_path}/{name} {options} --out {tmp_path}/p.json")
        assert (code, err) == (0, "")
        found = pippin.load(tmp_path / "p.json")
        assert (found.threshold, found.classes) == (PLAIN, CLASSES)
        for ending in ("csv", "parquet", "jsonl"):
            out = tmp_path / f"sets.{ending}"
            line = f"predict {tmp_path}/p.json {tmp_path}/{name} {options} --out {out} --p-values {tmp_path}/q.csv"
            assert call(line)[0] == 0
            sets = {"csv": polars.read_csv, "parquet": polars.read_parquet, "jsonl": polars.read_ndjson}[ending](out)
            assert sets.columns == ["photo", "row", "size", "labels"]
            assert sets["photo"].to_list() == ids
            assert polars.read_csv(tmp_path / "q.csv")["photo"].to_list() == ids
    listed = ",".join(f"p_{name}" for name in CLASSES)
    options = f"--label target --prefix p_ --classes {shlex.quote(listed)}"
    assert call(f"calibrate {tmp_path}/d.csv {options} --out {tmp_path}/p.json")[0] == 0
    assert pippin.load(tmp_path / "p.json").threshold == PLAIN


def test_standard_input_and_output(tmp_path):
    """Sets go to standard output, messages to standard error."""
    made = table(after={"label": NAMES})
    for write in (made.write_csv, made.write_parquet):
        bytes_in = io.BytesIO()
        write(bytes_in)
        command = [*PIPPIN, "calibrate", "-", "--out", str(tmp_path / "p.json")]
        subprocess.run(command, input=bytes_in.getvalue(), check=True, capture_output=True)
        assert pippin.load(tmp_path / "p.json").threshold == PLAIN
        command = [*PIPPIN, "predict", str(tmp_path / "p.json"), "-", "--out", "-"]
        done = subprocess.run(command, input=bytes_in.getvalue(), check=True, capture_output=True)
        assert polars.read_csv(done.stdout).columns == ["row", "size", "labels"]
        assert len(polars.read_csv(done.stdout)) == N
    empty = subprocess.run([*PIPPIN, "calibrate", "-", "--out", str(tmp_path / "p.json")], input=b"", check=False)
    assert empty.returncode == 2


EXTRAS = {
    "id": list(range(N)),
    "row": [float(i) for i in range(N)],
    "target": LABELS.tolist(),
    "file": [f"{i}.png" for i in range(N)],
    "confidence": PROBS.max(axis=1).tolist(),
    "fold": [1 + i % 5 for i in range(N)],
}


@pytest.mark.parametrize("name", EXTRAS)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_extra_column_is_ignored_with_a_warning(name, ending, tmp_path):
    """An extra column is ignored with a warning, in memory and in batches; a column with a named role without."""
    path = tmp_path / f"d.{ending}"
    for before, after in (({name: EXTRAS[name]}, {}), ({}, {name: EXTRAS[name]})):
        made = table(before=before, after={**after, "label": NAMES})
        made.write_csv(path) if ending == "csv" else made.write_parquet(path)
        for read in (read_data, pippin.scan):
            with pytest.warns(
                UserWarning, match=rf"d\.{ending}: ignored the column '{name}', which holds no class prob"
            ):
                assert read(path).classes == CLASSES
    assert pippin.scan(path, ignore=name).classes == CLASSES
    assert read_data(path, layout=Layout(ids=(name,))).labelled.classes == CLASSES


def test_extra_columns_are_named_in_one_warning(tmp_path):
    table(before={"patient id": EXTRAS["id"], "file": EXTRAS["file"]}, after=EXTRAS).write_csv(tmp_path / "d.csv")
    with pytest.warns(UserWarning, match="ignored the columns 'patient id', 'file', 'id', 'row', …, which hold no"):
        assert read_data(tmp_path / "d.csv").classes == CLASSES


def test_a_class_whose_cells_are_damaged_is_not_ignored(tmp_path):
    """A class column with damaged cells raises an error that names the cell, instead of being ignored."""
    frame = table(after={"label": NAMES}).cast(polars.String)
    frame[7, "maize"] = "?"
    frame.write_csv(tmp_path / "d.csv")
    with pytest.raises(ValueError, match=r"Row 7 has '\?' in column 'maize', expected a number"):
        read_data(tmp_path / "d.csv")
    names = polars.Series("label", ["a", "b"] * 20)
    polars.DataFrame({"a": [0.4] * 40, "b": [0.6] * 40, "c": ["-"] * 40}).with_columns(
        polars.Series("label", [*names[:39], "c"])
    ).write_csv(tmp_path / "d.csv")
    with pytest.raises(ValueError, match=r"the column 'c' with text such as '-'"):
        read_data(tmp_path / "d.csv")


def test_several_models_in_one_table_are_an_error(tmp_path):
    table("a_", after={**table("b_").to_dict(as_series=False), "label": NAMES}).write_csv(tmp_path / "d.csv")
    several = "has several runs of columns that sum to 1, 'a_.*' to 'a_.*' and 'b_.*: choose one with --prefix"
    with pytest.raises(ValueError, match=several):
        read_data(tmp_path / "d.csv")
    assert read_data(tmp_path / "d.csv", layout=Layout(prefix="b_")).labelled.classes == CLASSES


@pytest.mark.parametrize("others", [{}, {"patient": range(N)}, {"patient": range(N), "sex": [1, 2] * (N // 2)}])
@pytest.mark.parametrize(
    ("column", "names"), [("p", ("0", "1")), ("p_spam", ("ham", "spam")), ("probability", ("False", "True"))]
)
def test_one_column_of_two_classes(others, column, names, tmp_path):
    """The probability of 1, of True, or of the class in the column's name; also for new rows without labels."""
    truth, p = LABELS % 2, np.clip(PROBS[:, 0], 0.01, 0.99)
    frame = polars.DataFrame({**others, column: p, "label": [names[k] for k in truth]})
    frame.write_csv(tmp_path / "d.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if others else "error")
        for given in (read_data(tmp_path / "d.csv"), pippin.scan(tmp_path / "d.csv").read_all()):
            np.testing.assert_array_equal(given.probs, np.column_stack([1 - p, p]))
            assert (given.labelled.classes, given.truth().tolist()) == (names, truth.tolist())
        new = frame.drop("label")
        new.write_csv(tmp_path / "new.csv")
        assert read_data(tmp_path / "new.csv", layout=Layout(known=names)).probs.tolist() == given.probs.tolist()


def test_one_column_of_unknown_meaning_is_an_error(tmp_path):
    """A single column that could be the probability of either class is an error."""
    polars.DataFrame({"p": PROBS[:, 0], "label": ["ham", "spam"] * (N // 2)}).write_csv(tmp_path / "d.csv")
    with pytest.raises(ValueError, match=r"d\.csv: .*: for two classes store both columns, 1 - p and p"):
        read_data(tmp_path / "d.csv")


def test_logits_in_a_table(tmp_path):
    """--logits takes a softmax; without it the error names the option; a column of row numbers is named."""
    logits = np.log(PROBS + 1e-9)
    table(values=logits, after={"label": NAMES}).write_csv(tmp_path / "d.csv")
    with pytest.raises(ValueError, match="these look like logits: add --logits"):
        read_data(tmp_path / "d.csv")
    data = read_data(tmp_path / "d.csv", layout=Layout(logits=True))
    found = pippin.calibrate(data.rows, NAMES).threshold
    assert found == pippin.calibrate(logits, NAMES, classes=CLASSES, from_logits=True).threshold
    table(values=logits, before={"id": EXTRAS["id"]}).write_csv(tmp_path / "e.csv")
    with pytest.warns(UserWarning, match="ignored the column 'id', which holds no class probabilities"):
        assert read_data(tmp_path / "e.csv", layout=Layout(logits=True)).classes == CLASSES


def test_normalize(tmp_path):
    """Counts of votes are divided by their sum with --normalize."""
    votes = np.round(PROBS * 50) + 1
    table(values=votes, after={"label": NAMES}).write_csv(tmp_path / "d.csv")
    with pytest.raises(ValueError, match="sums to"):
        read_data(tmp_path / "d.csv")
    data = read_data(tmp_path / "d.csv", layout=Layout(normalize=True))
    np.testing.assert_allclose(data.probs, votes / votes.sum(axis=1, keepdims=True))
    table(values=votes * 0).write_csv(tmp_path / "e.csv")
    with pytest.raises(ValueError, match="Row 0 sums to 0 or has negative entries, expected what --normalize can"):
        read_data(tmp_path / "e.csv", layout=Layout(normalize=True))


@pytest.mark.parametrize("decimals", [2, 3, 4])
def test_rounded_probabilities(decimals, tmp_path, call):
    """Rows whose sum differs from 1 by rounding are accepted with a warning."""
    rounded = PROBS.round(decimals)
    table(values=rounded, after={"label": NAMES}).write_csv(tmp_path / "d.csv")
    code, _, err = call(f"calibrate {tmp_path}/d.csv --out {tmp_path}/p.json")
    assert (code, err.count("\n")) == (0, int(decimals < 4))
    assert ("as far as their rounded decimals allow" in err) == (decimals < 4)
    off = rounded.copy()
    off[5, 0] += 0.2
    with pytest.raises(ValueError, match="Row 5 sums to 1"):
        pippin.calibrate(off, NAMES, classes=CLASSES)
    if decimals < 4:
        with pytest.warns(UserWarning, match="rounded decimals"):
            pippin.calibrate(rounded, NAMES, classes=CLASSES)


def test_a_missing_column_is_an_error(tmp_path, call):
    table(after={"label": NAMES}).write_csv(tmp_path / "d.csv")
    np.save(tmp_path / "d.npy", PROBS)
    for options, words in (
        ("--label truth", "has no column 'truth' for --label"),
        ("--id photo", "has no column 'photo' for --id"),
        ("--classes maize,charlok", "has no column 'charlok' for --classes"),
        ("--prefix p_", "has no column that begins with 'p_'"),
        ("--labels-are numbers", "'numbers' is not one of 'names', 'indices'"),
        ("--logits --normalize", "Expected --normalize with probabilities, got logits"),
    ):
        code, _, err = call(f"calibrate {tmp_path}/d.csv {options} --out {tmp_path}/p.json")
        assert (code, err.count("\n"), words in err) == (2, 1, True), err
    code, _, err = call(f"calibrate {tmp_path}/d.npy --label y --out {tmp_path}/p.json")
    assert (code, "have no named columns" in err) == (2, True)
    code, _, err = call(f"compare --label y --out {tmp_path}/out")
    assert (code, "Expected a table whose columns these options describe" in err) == (2, True)


CELLS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True).map(repr),
    st.integers(-(10**30), 10**30).map(str),
    st.sampled_from(["", "nan", "None", "1e999", "-0", "0x1", "1,5", "é", "a b", "1_0", "☃", "\x00", "'", '""']),
)


def told(path):
    """Return the data, or None after an error of one sentence."""
    sentence = ""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*: ignored the column")
            data = read_data(path)
        data.truth()
    except ValueError as error:
        data, sentence = None, str(error)
    assert data is not None or (sentence.endswith(".") and "\n" not in sentence)
    return data


@given(
    cells=st.lists(CELLS, min_size=4, max_size=4),
    name=st.sampled_from(["id", "y", "Unnamed: 0", "label ", "group", "1", "", "p_charlock", "maize"]),
    at=st.integers(0, 13),
)
def test_an_unexpected_column_is_ignored_or_an_error(cells, name, at, tmp_path_factory):
    """Any further column is ignored, or the error is one sentence."""
    lines = [[*CLASSES, "label"], *([*map(repr, PROBS[i].tolist()), NAMES[i]] for i in range(4))]
    quoted = [f'"{cell.replace(chr(34), "")}"' for cell in (name, *cells)]
    text = "\n".join(",".join([*line[:at], extra, *line[at:]]) for line, extra in zip(lines, quoted, strict=True))
    path = tmp_path_factory.mktemp("odd") / "d.csv"
    path.write_text(text)
    data = told(path)
    if data is not None:
        np.testing.assert_array_equal(data.probs[:, [data.classes.index(c) for c in CLASSES]], PROBS[:4])
        assert np.abs(data.probs.sum(axis=1) - 1).max() <= SUM_TOLERANCE  # with a column that may well be a class


def test_a_column_of_huge_numbers_is_ignored(tmp_path):
    """A column of huge numbers is ignored without overflow."""
    table(before={"id": [1e305] * N}, after={"label": NAMES}).write_csv(tmp_path / "d.csv")
    with pytest.warns(UserWarning, match="ignored the column 'id'"):
        assert read_data(tmp_path / "d.csv").classes == CLASSES
