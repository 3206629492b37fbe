"""`pippin describe`, and the provenance that commands record."""

import hashlib
import json
import os
import re

import numpy as np
import pytest

import pippin
from support.cli_data import DATA, GROUPS, LABELS, NAMES, PROBS, write_frames, write_grouped
from support.command import run

DATE = "2025-11-18T14:03:22Z"


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def utility(folder):
    (folder / "utility.csv").write_text("action,crop,soil,weed\nspray,-2,-1,1\nleave,1,1,-1\n")
    return "utility.csv"


@pytest.mark.parametrize("data", DATA)
def test_calibrate_records_the_data(data, call, folder):
    line = f"calibrate {data} --score ip --alpha 0.2 --by 'Ada L.' --out p.json"
    assert call(line)[0] == 0
    record = pippin.load("p.json").provenance
    files = [word for word in data.split() if not word.startswith("--")]
    assert record.data == {file: sha256(folder / file) for file in files}
    assert (record.date, record.by, record.command, record.training) == (DATE, "Ada L.", f"pippin {line}", "")
    code, out, err = call("describe p.json")
    assert (code, err) == (0, "")
    assert out.startswith("p.json\n======\n\nWhat is it?\n  A conformal predictor: sets of 3 classes by ")
    assert f"Which checksum identifies it?\n  SHA-256 {pippin.load('p.json').checksum}" in out
    assert f"With which command?\n  pippin calibrate {data} --score ip" in out
    assert max(map(len, out.splitlines())) <= 98


def test_files_besides_the_data_are_recorded(call, folder, utility):
    np.save("weights.npy", np.ones(60))
    assert call("calibrate data.npz --score ip --alpha 0.2 --weights weights.npy --out w.json")[0] == 0
    assert set(pippin.load("w.json").provenance.data) == {"data.npz", "weights.npy"}
    assert call(f"calibrate data.npz --utility {utility} --alpha 0.2 --out d.json")[0] == 0
    assert pippin.load("d.json").provenance.data == {name: sha256(folder / name) for name in ("data.npz", utility)}
    code, out, _ = call("describe d.json")
    assert code == 0
    assert "A decider: actions spray, leave, each with a certificate" in out


def test_tune_records_the_data(call, folder):
    assert call("tune data.csv --alpha 0.2 --splits 3 --out t.json")[0] == 0
    record = pippin.load("t.json").provenance
    assert record.data == {"data.csv": sha256(folder / "data.csv")}
    assert record.command == "pippin tune data.csv --alpha 0.2 --splits 3 --out t.json"


@pytest.mark.parametrize("n_tables", [3, 21])
def test_tables_are_recorded_one_by_one_or_by_the_checksum_of_their_list(n_tables, call, folder):
    (folder / "tables").mkdir()
    for number in range(n_tables):
        write_frames(folder / f"tables/{number:02}", PROBS, LABELS)
        (folder / f"tables/{number:02}.csv").unlink()
    assert call("calibrate tables --score ip --alpha 0.2 --out p.json")[0] == 0
    data = pippin.load("p.json").provenance.data
    each = {f"tables/{number:02}.parquet": sha256(folder / f"tables/{number:02}.parquet") for number in range(n_tables)}
    if n_tables == 3:
        assert data == each
    else:  # as `sha256sum tables/* | sha256sum`
        listing = "".join(f"{checksum}  {name}\n" for name, checksum in each.items())
        assert data == {"tables (21 tables)": hashlib.sha256(listing.encode()).hexdigest()}


def test_standard_input_and_the_environment_variable(folder):
    done = run(
        *("calibrate", "-", "--score", "ip", "--alpha", "0.2", "--out", "p.json"),
        folder=folder,
        input=(folder / "data.csv").read_text(),
        env={**os.environ, "PIPPIN_BY": "Team 7"},
        check=True,
    )
    assert done.stderr == ""
    record = pippin.load(folder / "p.json").provenance
    assert record.data == {"standard input": sha256(folder / "data.csv")}
    assert record.by == "Team 7"


def test_equal_commands_write_equal_files(call, folder):
    """With a fixed SOURCE_DATE_EPOCH, a command that is run twice writes equal files."""
    for _ in range(2):
        assert call("calibrate data.npz --alpha 0.2 --out p.json")[0] == 0
        content = (folder / "p.json").read_bytes()
    assert call("calibrate data.npz --alpha 0.2 --out p.json")[0] == 0
    assert (folder / "p.json").read_bytes() == content


def test_a_training_record_next_to_the_data_is_recorded_if_it_names_them(call, folder):
    record = {"outputs": {"logits": sha256(folder / "data.npz"), "weights": "0" * 64}}
    (folder / "train.json").write_text(json.dumps(record))
    assert call("calibrate data.npz --alpha 0.2 --out p.json")[0] == 0
    expected = f"train.json: SHA-256 {sha256(folder / 'train.json')}"
    assert pippin.load("p.json").card()["From which training of the network?"] == expected
    for content in (json.dumps({"outputs": {"logits": "0" * 64}}), "{}", "[" * 10**5, "[]"):
        (folder / "train.json").write_text(content)
        assert call("calibrate data.npz --alpha 0.2 --out p.json")[0] == 0
        assert pippin.load("p.json").provenance.training == ""


def test_a_monitor_shows_the_data_of_its_predictor(call, folder):
    assert call("calibrate data.npz --score ip --alpha 0.2 --out p.json")[0] == 0
    assert call("monitor p.json data.csv --state state.json --seed 0")[0] == 0
    code, out, _ = call("describe state.json")
    assert code == 0
    assert f"From which data?\n  data.npz: SHA-256 {sha256(folder / 'data.npz')}" in out
    assert re.search(r"In which state is it\?\n  60 rows with labels", out)


@pytest.mark.parametrize("kind", ["predictor", "decider"])
def test_exports_carry_the_card(kind, call, folder, utility):
    pytest.importorskip("onnx")
    options = f"--utility {utility}" if kind == "decider" else "--score ip"
    assert call(f"calibrate data.npz {options} --alpha 0.2 --out p.json")[0] == 0
    assert call("export p.json --c head.h --onnx head.onnx")[0] == 0
    card = pippin.load("p.json").card()
    header = (folder / "head.h").read_text()
    comment = re.sub(r"\s*\n \*\s*", " ", header[: header.index("*/")])
    assert all(f"{question} {answer}" in comment for question, answer in card.items())
    code, out, err = call("describe head.onnx")
    assert (code, err) == (0, "")
    assert out.partition("\n\n")[2] == call("describe p.json")[1].partition("\n\n")[2]


def test_an_appended_graph_has_a_card_for_each_head(call, folder, utility):
    pytest.importorskip("onnx")
    assert call("calibrate data.npz --score ip --alpha 0.2 --out p.json")[0] == 0
    assert call(f"calibrate data.npz --utility {utility} --alpha 0.2 --out d.json")[0] == 0
    assert call("export p.json --onnx a.onnx --input probs")[0] == 0
    import onnx
    from onnx import TensorProto, helper

    end = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in ("logits", "probs")]
    node = helper.make_node("Softmax", ["logits"], ["probs"], axis=1)
    classifier = helper.make_model(helper.make_graph([node], "classifier", end[:1], end[1:]))
    onnx.save(classifier, "c.onnx")
    assert call("export d.json --onnx one.onnx --append-to c.onnx")[0] == 0
    assert call("export p.json --onnx two.onnx --append-to one.onnx --output probs")[0] == 0
    _, out, _ = call("describe two.onnx")
    assert "two.onnx: pippin.card\n" in out
    assert "two.onnx: pippin.sets.card\n" in out
    assert out.index("A decider: ") < out.index("A conformal predictor: ")
    code, _, err = call("describe c.onnx")
    assert (code, err) == (2, "pippin: Expected an ONNX graph of pippin, but c.onnx has no card: export it again.\n")
    (folder / "c.onnx").write_bytes(b"no graph")
    assert call("describe c.onnx")[2] == "pippin: c.onnx is no ONNX graph, or is damaged: export it again.\n"


def test_names_with_a_meaning_in_c_and_markdown_are_escaped(call, folder):
    names = np.array(["*/ int x; /*", "_a_ <b>", "# |c|"])
    np.savez("data.npz", probs=PROBS, labels=LABELS, classes=names)
    assert call("calibrate data.npz --score ip --alpha 0.2 --by '- */' --out p.json")[0] == 0
    code, out, _ = call("describe p.json --markdown")
    assert code == 0
    assert out.startswith("# p.json\n\n**What is it?**\n\nA conformal predictor")
    assert r"Classes: \*/ int x; /\*, \_a\_ \<b\>, \# \|c\|." in out
    assert "**By whom?**\n\n\\- \\*/\n" in out
    assert call("export p.json --c head.h")[0] == 0
    header = (folder / "head.h").read_text()
    assert "* / int x; / *" in header[: header.index("*/")]


def test_files_that_cannot_be_described(call, folder):
    code, _, err = call("describe data.npz")
    assert (code, err.count("\n")) == (2, 1)
    assert "data.npz is no predictor file, or is damaged or cut short" in err
    assert call("describe absent.json")[:2] == (2, "")
    (folder / "empty").mkdir()
    assert "empty is no field model, or its field.json is damaged" in call("describe empty")[2]


def test_taxonomies_are_described(call, folder):
    write_grouped(folder)
    assert call("calibrate grouped.csv --score ip --alpha 0.2 --per group --out p.json")[0] == 0
    counts = {name: int((name == GROUPS).sum()) for name in ("north", "south")}
    few, many = sorted(counts, key=counts.get)
    _, out, _ = call("describe p.json")
    printed = " ".join(out.split())
    assert f"60 rows: group {few} ({counts[few]} rows, the fewest), group {many} ({counts[many]} rows, the most)." in (
        printed
    )
    assert list(pippin.load("p.json").classes) == NAMES.tolist()
