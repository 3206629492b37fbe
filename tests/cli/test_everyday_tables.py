"""Tables as people write them: each gives the predictor of the plain table, most of them without any option."""

import io

import numpy as np
import pandas
import pytest

import pippin

EXAMPLE = pippin.load_example()
CLASSES = [*EXAMPLE.classes[:3], "großes Knöterich №1"]
PROBS = np.round(EXAMPLE.probs[:600, :4].astype(float) + 1e-3, 6)
PROBS = np.round(PROBS / PROBS.sum(axis=1, keepdims=True), 3)  # as people round
LABELS = np.random.default_rng(0).integers(0, 4, 600)
NAMES = np.array(CLASSES)[LABELS]
SPAM = np.round(PROBS[:, 0] * 0.9 + 0.05, 3)


def frame(prefix="", suffix="", classes=CLASSES, label="label"):
    """Return a frame of probabilities with a column of labels."""
    made = pandas.DataFrame(PROBS, columns=[f"{prefix}{name}{suffix}" for name in classes])
    return made.assign(**{label: np.array(classes)[LABELS]})


def text(made, index=False, **options):
    stream = io.StringIO()
    made.to_csv(stream, index=index, **options)
    return stream.getvalue()


IDS = [f"img_{i:04}.png" for i in range(600)]
PREDICTED = np.array(CLASSES)[PROBS.argmax(axis=1)]
EVERYDAY = {
    "plain": (text(frame()), ""),
    "pandas index": (text(frame(), index=True), ""),
    "pandas index and id": (text(frame().assign(id=IDS), index=True), ""),
    "id first": (text(frame().assign(id=IDS)[["id", *CLASSES, "label"]]), ""),
    "predictions": (text(frame().assign(predicted=PREDICTED)), ""),
    "prediction and confidence": (text(frame().assign(pred=PREDICTED, confidence=PROBS.max(axis=1))), ""),
    "confidence first": (text(pandas.concat([pandas.Series(PROBS.max(axis=1), name="top"), frame()], axis=1)), ""),
    "semicolons": (text(frame(), sep=";"), ""),
    "semicolons and decimal commas": (text(frame(), sep=";", decimal=","), ""),
    "tabs": (text(frame(), sep="\t"), ""),
    "byte order mark": ("\ufeff" + text(frame().assign(id=IDS)), ""),
    "prefixes": (text(frame("p_").assign(id=IDS, label=NAMES)), ""),
    "prefixes of labels too": (text(frame("proba_").assign(label=[f"proba_{name}" for name in NAMES])), ""),
    "labels as numbers": (text(frame().assign(label=LABELS)), ""),
    "labels as floats": (text(frame().assign(label=LABELS.astype(float))), ""),
    "metadata": (text(frame().assign(camera=3, date="2026-05-01", lat=48.1, exposure=np.nan)), ""),
    "quoted decimal commas": (text(frame(), decimal=",", quoting=1), ""),
    "windows lines": (text(frame().assign(file=IDS), lineterminator="\r\n"), ""),
    "another name of labels": (text(frame(label="target").assign(id=IDS)), "--label target"),
    "another name of groups": (text(frame().assign(region=np.arange(600) % 3)), "--group region --per group"),
}


@pytest.mark.parametrize("kind", EVERYDAY)
def test_everyday_tables(kind, tmp_path, call):
    """A table as people write it gives the threshold and classes of the plain table, and is predicted from."""
    content, options = EVERYDAY[kind]
    (tmp_path / "data.csv").write_text(content, encoding="utf-8", newline="")
    code, _, err = call(f"calibrate {tmp_path}/data.csv --score ip --alpha 0.2 {options} --out {tmp_path}/p.json")
    assert code == 0, err
    assert all(line.startswith("pippin: warning: ") for line in err.splitlines())
    found = pippin.load(tmp_path / "p.json")
    groups = np.arange(600) % 3 if "--group" in options else None
    with pytest.warns(UserWarning, match="rounded decimals"):
        wanted = pippin.calibrate(PROBS, LABELS, "ip", 0.2, groups=groups)
    assert np.array_equal(found.thresholds, wanted.thresholds)
    if "prefixes of labels" not in kind:
        assert [str(name) for name in found.classes] == CLASSES
    options = options.partition(" --per")[0]
    code, _, err = call(f"predict {tmp_path}/p.json {tmp_path}/data.csv {options} --out {tmp_path}/sets.csv")
    assert code == 0, err
    assert len((tmp_path / "sets.csv").read_text(encoding="utf-8").splitlines()) == 601


def test_several_id_columns_are_copied(tmp_path, call):
    made = frame().assign(id=IDS, field=np.arange(600) % 7)
    (tmp_path / "data.csv").write_text(text(made), encoding="utf-8")
    ids = "--id id --id field"
    assert call(f"calibrate {tmp_path}/data.csv {ids} --score ip --out {tmp_path}/p.json")[0] == 0
    for command in (f"predict {tmp_path}/p.json {tmp_path}/data.csv {ids} --out {tmp_path}/sets.csv",):
        assert call(command)[0] == 0
    written = pandas.read_csv(tmp_path / "sets.csv")
    assert list(written.columns) == ["id", "field", "row", "size", "labels"]
    assert written["id"].tolist() == IDS
    assert written["field"].tolist() == made["field"].tolist()


def test_one_message_names_all_missing_columns(tmp_path, call):
    (tmp_path / "data.csv").write_text(text(frame()), encoding="utf-8")
    code, _, err = call(f"calibrate {tmp_path}/data.csv --label y --id a --group g --out {tmp_path}/p.json")
    assert code == 2
    assert "has no columns 'y' for --label or 'g' for --group or 'a' for --id" in err


def test_a_single_column_of_two_classes(tmp_path, call):
    """A single column is read as the probability of the positive class, as other tools export it."""
    truth = (np.random.default_rng(1).random(600) < SPAM).astype(int)
    table = pandas.DataFrame({"patient": range(600), "prob": SPAM, "label": truth})
    (tmp_path / "data.csv").write_text(text(table), encoding="utf-8")
    code, _, err = call(f"calibrate {tmp_path}/data.csv --id patient --score ip --out {tmp_path}/p.json")
    assert (code, err) == (0, "")
    found = pippin.load(tmp_path / "p.json")
    assert found.threshold == pippin.calibrate(np.column_stack([1 - SPAM, SPAM]), truth, "ip").threshold
    (tmp_path / "new.csv").write_text(text(table.drop(columns="label")), encoding="utf-8")
    code, _, err = call(f"predict {tmp_path}/p.json {tmp_path}/new.csv --id patient --out {tmp_path}/sets.csv")
    assert (code, err) == (0, "")
    assert pandas.read_csv(tmp_path / "sets.csv")["patient"].tolist() == list(range(600))
