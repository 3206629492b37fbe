"""Whole-number labels that can be names or column numbers: one rule for Python and the command line."""

import re

import numpy as np
import pandas as pd
import polars
import pytest

import pippin
from pippin._validation.labels import as_labels
from pippin.tables.columns import Layout
from pippin.tables.reading import read_data

EXAMPLE = pippin.load_example()
LISTED = sorted(map(str, range(12)))  # in the order of folder listings: "0", "1", "10", "11", "2", …
COLUMNS = list(map(int, LISTED))
PROBS, LABELS = EXAMPLE.probs[:, COLUMNS], EXAMPLE.labels  # the name of the true class, as a number
TRUE = pippin.calibrate(EXAMPLE.probs, EXAMPLE.labels, "ip").threshold


def test_python_and_the_command_line_raise_the_same_error(tmp_path):
    """.npz, CSV and arrays raise the same error, and the same remedy works."""
    np.savez(tmp_path / "d.npz", probs=PROBS, labels=LABELS, classes=LISTED)
    frame = pd.DataFrame(PROBS, columns=LISTED)
    frame.assign(label=LABELS).to_csv(tmp_path / "d.csv", index=False)
    for name in ("d.npz", "d.csv"):
        with pytest.raises(ValueError, match=r"by number and column \d+ .* by name: say which with --labels-are"):
            read_data(tmp_path / name).truth()
        message = read_data(tmp_path / name, layout=Layout(labels_are="names")).labelled
        assert [LISTED[i] for i in message.labels] == LABELS.astype(str).tolist()
        numbered = read_data(tmp_path / name, layout=Layout(labels_are="indices")).truth()
        assert np.array_equal(numbered, LABELS)
    for use in (
        lambda: pippin.calibrate(frame, LABELS, "ip"),
        lambda: pippin.calibrate(PROBS, LABELS, "ip", classes=LISTED),
        lambda: pippin.compare(PROBS, LABELS, "ip", classes=LISTED, splits=2),
    ):
        with pytest.raises(ValueError, match=r"by name: pass names as text, labels.astype\(str\)"):
            use()
    assert pippin.calibrate(frame, LABELS.astype(str), "ip").threshold == TRUE
    numbers = np.argsort(COLUMNS)[LABELS]
    assert pippin.calibrate(frame, np.take(LISTED, numbers), "ip").threshold == TRUE


def test_the_command_line_gives_pythons_threshold(tmp_path, call):
    np.savez(tmp_path / "d.npz", probs=PROBS, labels=LABELS, classes=LISTED)
    line = f"calibrate {tmp_path}/d.npz --score ip --out {tmp_path}/p.json"
    assert call(line)[0] == 2
    assert call(f"{line} --labels-are names")[0] == 0
    assert pippin.load(tmp_path / "p.json").threshold == TRUE
    code, out, _ = call(f"evaluate {tmp_path}/p.json {tmp_path}/d.npz --labels-are names")
    assert code == 0
    assert re.search(r"coverage +0\.90", out)


@pytest.mark.parametrize(
    ("labels", "classes", "wanted"),
    [
        (range(102), [f"{k:03}" for k in range(1, 103)], range(102)),  # the 102 flowers
        ([0, 1], ["1", "2", "3"], [0, 1]),  # 0 is not a name
        ([1, 3, 2], ["1", "2", "3"], [0, 2, 1]),  # 3 is not a column number
        ([0, 1, 2], ["0", "1", "2"], [0, 1, 2]),  # both interpretations agree
        ([2, 0], ["crop", "weed", "soil"], [2, 0]),
        (["2", "0"], ["crop", "weed", "soil"], [2, 0]),
        (["2", "1"], ["1", "2", "3"], [1, 0]),  # text is a name
        ([30, 10], [10, 20, 30], [2, 0]),
        ([2, 1], [2, 1, 0], [0, 1]),  # whole numbers are names where classes are whole numbers
        (["1", "0"], range(2), [1, 0]),
    ],
)
def test_labels_with_one_possible_meaning(labels, classes, wanted, tmp_path):
    """The only possible interpretation is used, also for tables."""
    given = np.array(list(labels))
    assert as_labels(given, len(given), classes).tolist() == list(wanted)
    if all(isinstance(name, str) for name in classes) and given.dtype.kind == "i":
        table = polars.DataFrame(np.full((len(given), len(classes)), 1 / len(classes)), schema=list(classes))
        table.with_columns(label=polars.Series(given)).write_csv(tmp_path / "d.csv")
        assert read_data(tmp_path / "d.csv").truth().tolist() == list(wanted)


def test_masked_arrays_and_python_sets_raise():
    """Masked values are missing, and a set has no order."""
    probs, labels = EXAMPLE.probs[:40], EXAMPLE.labels[:40]
    masked = np.ma.masked_array(labels, mask=np.arange(40) == 7)
    folds = np.ma.masked_array(np.arange(40) % 4, mask=np.arange(40) == 7)
    for use, what in (
        (lambda: pippin.calibrate(probs, masked), "labels"),
        (lambda: pippin.calibrate(probs, labels, groups=folds), "groups"),
        (lambda: pippin.calibrate(probs, labels, folds=folds), "folds"),
        (lambda: pippin.metrics.coverage(pippin.calibrate(probs, labels).predict(probs), masked), "labels"),
    ):
        with pytest.raises(ValueError, match=f"Expected {what} without a mask, got row 7 masked: leave those rows out"):
            use()
    assert pippin.calibrate(probs, np.ma.masked_array(labels)).threshold == pippin.calibrate(probs, labels).threshold
    with pytest.raises(ValueError, match="in the order of the columns, got a set, which has none: pass a list"):
        pippin.calibrate(probs, labels, classes=set(EXAMPLE.classes))
