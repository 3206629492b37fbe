"""Columns with names are selected by name in every method that takes probabilities after calibration."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr

import pippin
from support.named_columns import TABLES, arrow, data_array

DATA = pippin.load_example()
NAMES = DATA.classes
PROBS, LABELS = DATA.probs[:600].astype(np.float64), DATA.labels[:600]
NEW, TRUTH = DATA.probs[600:900].astype(np.float64), DATA.labels[600:900]
TRUE_NAMES = np.array(NAMES)[TRUTH]
ORDER = np.random.default_rng(0).permutation(len(NAMES))
TURNED, TURNED_NAMES = NEW[:, ORDER], [NAMES[k] for k in ORDER]
of_every_table = pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)

UTILITY = pippin.decisions.Utility(
    {"spray": {name: 1 - k % 3 for k, name in enumerate(NAMES)}, "wait": dict.fromkeys(NAMES, 0.3)}
)
PREDICTOR = pippin.calibrate(PROBS, LABELS, "repip", classes=NAMES)
CROSS = pippin.calibrate(PROBS, LABELS, "ip", classes=NAMES, folds=np.arange(600) % 2)
SHARPENER = pippin.sharpen(PROBS[:200], LABELS[:200], classes=NAMES)
SHARPENED = pippin.calibrate(PROBS[200:], LABELS[200:], "ip", classes=NAMES, sharpen=SHARPENER)
MIXTURE = pippin.calibrate(PROBS, LABELS, "ip", classes=NAMES, sharpen="mixture")
DECIDER = pippin.decisions.calibrate(PROBS, LABELS, UTILITY, 0.1, classes=NAMES)
SELECTIVE = pippin.decisions.select(PROBS, LABELS, error=0.2, classes=NAMES)
CONTROLLER = pippin.decisions.control_risk(PROBS, LABELS, dict.fromkeys(NAMES, 1.0), 0.1, classes=NAMES)


def reference_evidence(rows):
    monitor = pippin.online.Monitor(PREDICTOR, delta=0.01, reference=rows, seed=0)
    return [monitor.update(row).evidence for row in NEW[:20]]


def of_energy(rows):
    return pippin.shift.novelty(PREDICTOR, rows, reference=np.log(PROBS + 1e-9), measure="energy", from_logits=True)


def merged(rows):
    calibration = pippin.distributed.Calibration("ip", 0.1, classes=NAMES)
    return calibration.merge([calibration.part(rows, TRUE_NAMES)]).calibration_scores


# Calls that take rows, whose result must not depend on the order of named columns.
CALLS = {
    "predict": lambda rows: PREDICTOR.predict(rows).mask,
    "p-values": lambda rows: np.asarray(PREDICTOR.p_values(rows)),
    "p-values of names": lambda rows: np.asarray(PREDICTOR.p_values(rows, TRUE_NAMES)),
    "point predictions": lambda rows: PREDICTOR.point_predictions(rows).labels,
    "evaluate": lambda rows: str(pippin.evaluate(PREDICTOR, TRUE_NAMES, probs=rows)),
    "cross": lambda rows: CROSS.predict([rows, NEW]).mask,
    "sharpener": lambda rows: SHARPENER(rows),
    "sharpened": lambda rows: SHARPENED.predict(rows).mask,
    "mixture": lambda rows: MIXTURE.predict(rows, seed=3).mask,
    "calibrate with a sharpener": lambda rows: (
        pippin.calibrate(rows, TRUE_NAMES, "ip", classes=NAMES, sharpen=SHARPENER).threshold
    ),
    "calibrate with classes": lambda rows: pippin.calibrate(rows, TRUE_NAMES, classes=NAMES).calibration_scores,
    "decide": lambda rows: DECIDER.decide(rows).actions,
    "sets of a decider": lambda rows: DECIDER.predict(rows).mask,
    "best response": lambda rows: pippin.decisions.best_response(rows, UTILITY, classes=NAMES).actions,
    "select": lambda rows: SELECTIVE.predict(rows).labels,
    "risk": lambda rows: CONTROLLER.predict(rows).mask,
    "label ratios": lambda rows: pippin.shift.label_ratios(PROBS, LABELS, rows, classes=NAMES, method="em").ratios,
    "novelty": lambda rows: pippin.shift.novelty(PREDICTOR, rows),
    "novelty by reference": lambda rows: pippin.shift.novelty(PREDICTOR, NEW, reference=rows, per="class"),
    "monitor reference": reference_evidence,
    "distributed": merged,
}


@of_every_table
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_columns_are_selected_by_name(call, make):
    """The result is that of an array with the columns in the order of the classes, to the last bit."""
    assert np.array_equal(call(make(TURNED, TURNED_NAMES)), call(NEW))
    assert np.array_equal(call(make(NEW, NAMES)), call(NEW))


@of_every_table
def test_columns_of_other_classes_raise(make):
    """A missing class and an additional column are named in one sentence; columns are never taken by position."""
    renamed, more = ["corn" if name == "maize" else name for name in TURNED_NAMES], [*TURNED_NAMES, "id"]
    wide = np.column_stack([TURNED, np.zeros(len(TURNED))])
    for call in (CALLS["predict"], CALLS["p-values"], CALLS["evaluate"], CALLS["decide"], CALLS["label ratios"]):
        message = r"^Expected a column for each class \(.*, …\), got none called 'maize' but 'corn': rename .*\.$"
        with pytest.raises(pippin.InputError, match=message):
            call(make(TURNED, renamed))
        message = r"^Expected no column but one for each class \(.*, …\), got 'id': leave it out\.$"
        with pytest.raises(pippin.InputError, match=message):
            call(make(wide, more))


@of_every_table
def test_tables_keep_their_names_in_calibration(make):
    """Class names are the names of the columns, and labels may be names."""
    predictor = pippin.calibrate(make(TURNED, TURNED_NAMES), TRUE_NAMES, "ip")
    assert list(predictor.classes) == TURNED_NAMES
    plain = pippin.calibrate(NEW, TRUTH, "ip")
    assert np.array_equal(predictor.calibration_scores, plain.calibration_scores)


@pytest.mark.parametrize("name", [name for name in TABLES if name != "pandas, Arrow types"])
def test_masks_keep_their_names(name):
    """Sets made from a table of truth values keep its column names."""
    mask = TABLES[name]((TURNED > 0.1).astype(int), TURNED_NAMES)
    sets = pippin.PredictionSets.from_mask(mask, NAMES)
    assert np.array_equal(sets.mask, NEW > 0.1)


def test_rows_with_names_are_selected_by_name():
    """A pandas Series or DataArray of one object is selected by name, in every method for one row."""
    stream, monitor = (make(PREDICTOR, seed=0) for make in (pippin.online.Stream, pippin.online.Monitor))
    plain_stream, plain_monitor = (make(PREDICTOR, seed=0) for make in (pippin.online.Stream, pippin.online.Monitor))
    frame, array = TABLES["pandas"](TURNED, TURNED_NAMES), data_array(TURNED, TURNED_NAMES)
    for i in range(30):
        for row in (frame.iloc[i], array[i]):
            assert PREDICTOR.predict_one(row).tolist() == PREDICTOR.predict_one(NEW[i]).tolist()
            assert SHARPENED.predict_one(row).tolist() == SHARPENED.predict_one(NEW[i]).tolist()
            assert DECIDER.decide_one(row) == DECIDER.decide_one(NEW[i])
            assert str(PREDICTOR.explain(row)) == str(PREDICTOR.explain(NEW[i]))
            assert stream.predict_one(row).members.tolist() == plain_stream.predict_one(NEW[i]).members.tolist()
            assert str(monitor.update(row)) == str(plain_monitor.update(NEW[i]))
    with pytest.raises(
        pippin.InputError, match=r"Expected a column for each class .* got none called 'maize' but 'corn'"
    ):
        PREDICTOR.predict_one(frame.iloc[0].rename({"maize": "corn"}))


LABELED_CALLS = {
    "p-values": lambda rows, labels: PREDICTOR.p_values(rows, labels),
    "evaluate": lambda rows, labels: pippin.evaluate(PREDICTOR, labels, probs=rows),
    "calibrate": lambda rows, labels: pippin.calibrate(rows, labels, classes=NAMES),
    "distributed": lambda rows, labels: pippin.distributed.Calibration(classes=NAMES).part(rows, labels),
}


@pytest.mark.parametrize("call", LABELED_CALLS.values(), ids=LABELED_CALLS)
def test_labels_of_columns_in_another_order_must_be_names(call):
    """Labels of reordered columns must be names, since a number could mean a class or a column."""
    rows = TABLES["pandas"](TURNED, TURNED_NAMES)
    message = (
        r"^Expected names as text, got whole numbers where the columns are in another order .*: pass names as text"
    )
    for labels in (TRUTH, TRUTH.astype(float), TRUTH.tolist()):
        with pytest.raises(pippin.InputError, match=message):
            call(rows, labels)
    call(rows, TRUE_NAMES)
    call(rows[list(NAMES)], TRUTH)


def test_columns_named_by_numbers():
    """Numbers as names of columns are names, also for a predictor of an array."""
    unnamed = pippin.calibrate(PROBS, LABELS)
    numbered = pippin.calibrate(PROBS, LABELS, classes=range(12))
    wanted = unnamed.predict(NEW).labels()
    for predictor in (unnamed, numbered):
        for names in (ORDER, ORDER.astype(float), [str(k) for k in ORDER]):
            rows = pd.DataFrame(TURNED, columns=names)
            assert predictor.predict(rows).labels() == wanted
            assert np.array_equal(predictor.p_values(rows, TRUTH), unnamed.p_values(NEW, TRUTH))
    assert unnamed.predict(arrow(TURNED, [str(k) for k in ORDER])).labels() == wanted
    assert unnamed.predict(arrow(NEW, NAMES)).labels() == wanted  # without class names, other names say nothing


@pytest.mark.parametrize(
    "columns",
    [pd.MultiIndex.from_product([["p"], NAMES]), [0, *NAMES[1:]], pd.CategoricalIndex(NAMES), [0.5, *NAMES[1:]]],
    ids=["levels", "mixed", "categories", "floats"],
)
def test_odd_names_are_compared_as_text(columns):
    frame = pd.DataFrame(PROBS, columns=columns)
    predictor = pippin.calibrate(frame, LABELS)
    assert list(predictor.classes) == [str(name) for name in columns]
    assert predictor.predict(frame.iloc[:, ORDER]).labels() == predictor.predict(frame).labels()
    with pytest.raises(pippin.InputError, match="Expected a column for each class"):
        predictor.predict(frame.rename(columns={NAMES[3]: "corn"}))


def test_results_have_the_type_of_the_rows():
    """p-values of pandas and polars are frames in the order of the classes; those of other tables are arrays."""
    wanted = PREDICTOR.p_values(NEW)
    found = PREDICTOR.p_values(pd.DataFrame(TURNED, [f"{i}.png" for i in range(300)], TURNED_NAMES))
    pd.testing.assert_frame_equal(found, pd.DataFrame(wanted, found.index, NAMES))
    assert PREDICTOR.p_values(pl.DataFrame(TURNED, TURNED_NAMES)).equals(pl.DataFrame(wanted, list(NAMES)))
    for name in ("pyarrow", "xarray", "narwhals of pandas", "only an Arrow stream"):
        assert type(PREDICTOR.p_values(TABLES[name](TURNED, TURNED_NAMES))) is np.ndarray


def test_coordinates_of_xarray_are_an_index():
    """Labels in another order raise, and sets are found by coordinate."""
    photos = [f"{i}.png" for i in range(300)]
    rows = xr.DataArray(TURNED, dims=["photo", "class"], coords={"photo": photos, "class": TURNED_NAMES})
    truth = xr.DataArray(TRUE_NAMES, dims=["photo"], coords={"photo": photos})
    sets = PREDICTOR.predict(rows)
    assert sets.loc["7.png"] == sets[7]
    assert sets.contains(truth).tolist() == PREDICTOR.predict(NEW).contains(TRUTH).tolist()
    with pytest.raises(pippin.InputError, match=r"Expected labels with the index of sets, got row 0 as '299.png'"):
        sets.contains(truth[::-1])


def test_tables_of_several_dimensions_raise():
    data = xr.Dataset({"probs": (("photo", "class"), NEW), "truth": ("photo", TRUTH)})
    with pytest.raises(pippin.InputError, match=r"got a Dataset with 2 dimensions: pass one of its variables"):
        PREDICTOR.predict(data)
    assert PREDICTOR.predict(data["probs"]).labels() == PREDICTOR.predict(NEW).labels()


@pytest.mark.parametrize("make", [arrow, TABLES["pyarrow batch"], TABLES["only an Arrow stream"]])
def test_columns_of_arrow_types(make):
    """Types of Arrow: text is refused by name, missing values by row, and narrow floats are exact."""
    for dtype in (np.float16, np.float32):
        rows = np.eye(12, dtype=dtype)[TRUTH] * dtype(0.5) + dtype(1 / 32)
        rows[np.arange(300), (TRUTH + 1) % 12] += dtype(0.125)
        assert PREDICTOR.predict(make(rows[:, ORDER], TURNED_NAMES)).labels() == PREDICTOR.predict(rows).labels()
    columns = {name: pa.array(NEW[:, k], mask=np.arange(300) == 5) for k, name in enumerate(NAMES)}
    with pytest.raises(pippin.InputError, match=r"Row 5 has nan in column 0 \('black_grass'\)"):
        PREDICTOR.predict(pa.table(columns))
    columns = {name: pa.array(NEW[:, k]) for k, name in enumerate(NAMES)} | {"maize": pa.array(["low"] * 300)}
    with pytest.raises(pippin.InputError, match="Column 'maize' holds text such as 'low', expected the probabilities"):
        PREDICTOR.predict(pa.table(columns))
