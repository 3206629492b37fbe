"""Labels beyond 64 bits, as text or 128-bit integers, are errors that name the row."""

import polars
import pytest

LONG = 12345678901234567890123  # more than 64 bits hold
TABLE = {"crop": [0.5, 0.25], "weed": [0.5, 0.75]}


def test_a_csv_label_of_23_digits(call, tmp_path):
    polars.DataFrame({**TABLE, "label": ["0", str(LONG)]}).write_csv(tmp_path / "d.csv")
    for name in ("compare", "calibrate"):
        out = "p.json" if name == "calibrate" else "out"
        code, _, err = call(f"{name} {tmp_path}/d.csv --out {tmp_path}/{out}")
        assert (code, err.count("\n")) == (2, 1)
        assert f"Row 1 has the label {LONG}, expected 0 to 1" in err
    polars.DataFrame({**TABLE, "label": ["crop", str(LONG)]}).write_csv(tmp_path / "d.csv")
    code, _, err = call(f"calibrate {tmp_path}/d.csv --out {tmp_path}/p.json")
    assert (code, f"Row 1 has the label '{LONG}', which is not one of the 2 classes" in err) == (2, True)


@pytest.mark.parametrize("value", [1, -1, 2**64, LONG])
@pytest.mark.parametrize("kind", ["label", "group", "id"])
def test_a_parquet_column_of_128_bits(value, kind, call, tmp_path):
    """Small values are valid column numbers; larger ones are errors."""
    wide = polars.Series(kind, [0, value], dtype=polars.Int128)
    label = {} if kind == "label" else {"label": [0, 1]}
    polars.DataFrame({**TABLE, **label, kind: wide}).write_parquet(tmp_path / "d.parquet")
    option = "--id id" if kind == "id" else "--alpha 0.4"
    code, _, err = call(f"calibrate {tmp_path}/d.parquet {option} --score ip --out {tmp_path}/p.json")
    assert "Traceback" not in err
    told = {"label": f"Row 1 has the label {value}, expected 0 to 1", "group": "Expected groups that are all whole"}
    bad = value != 1 if kind == "label" else value >= 2**63 and kind == "group"
    assert (code, err.count("\n")) == (2 if bad else 0, 1 if bad else err.count("\n"))
    assert not bad or told[kind] in err
