"""Field models in ONNX: equal logits and sets without torch, and a graph that belongs to the weights."""

import json
import shutil
import signal
import subprocess

import numpy as np
import onnx
import pytest
from PIL import Image
from typer.testing import CliRunner

import pippin
from pippin._engine import dispatch
from pippin._validation.rows import as_rows, softmax
from pippin.cli import app
from pippin.images import FieldModel
from pippin.images.backends import check_logits, with_heads
from pippin.images.field_model import write_manifest
from support.exported_code import run_onnx
from support.small_field import make_parts, photograph
from support.synthetic_images import CLASSES
from support.without_torch import bare_python

pytestmark = pytest.mark.usefixtures("one_thread")

CLOSE = 1e-5  # to a threshold: there another rounding may decide

LOOKS = """
import json, sys
import numpy as np
from pippin.images import FieldModel
model, out, *others = sys.argv[1:]
loaded = FieldModel.load(model)
looks = [loaded.look(np.load(f"{out}/photos.npy")[i]) for i in range(6)]
np.savez(f"{out}/looks.npz", logits=np.concatenate([look.logits for look in looks]))
json.dump([look.records() for look in looks], open(f"{out}/records.json", "w"))
loaded.save(f"{out}/again")
same = FieldModel.load(f"{out}/again").look(np.load(f"{out}/photos.npy")[0]).records() == looks[0].records()
reported = {"network": type(loaded.network).__name__, "same": same, "heavy": "torch" in sys.modules}
for other in others:
    try:
        FieldModel.load(other)
    except (ValueError, ImportError) as error:
        reported[other] = str(error)
print(json.dumps(reported))
"""


@pytest.fixture(scope="module")
def parts(images, tiny, tmp_path_factory):
    return make_parts(images, tiny, tmp_path_factory.mktemp("field") / "run")


@pytest.fixture(scope="module")
def model(parts, tmp_path_factory):
    """Make a model with its graph by the command."""
    path = tmp_path_factory.mktemp("model") / "MODEL"
    given = {"weights": "weights", "predictor": "predictor.json", "decider": "decider.json"}
    line = [f"--{option}={parts / name}" for option, name in given.items()]
    done = CliRunner().invoke(app, ["field", "make", *line, "--windows=24", "--onnx", f"--out={path}"])
    assert (done.exit_code, done.stderr) == (0, "")
    return path


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    return bare_python(tmp_path_factory.mktemp("bare"))


def run_bare(bare, *arguments, cwd):
    command, environment = bare
    return subprocess.run([*command, *map(str, arguments)], env=environment, capture_output=True, text=True, cwd=cwd)


def foreign(model, folder):
    """Replace the graph of a model by that of another network, with a valid manifest."""
    shutil.copytree(model, folder)
    graph = onnx.load(folder / "network.onnx")
    for entry in graph.metadata_props:
        if entry.key == "pippin.network":
            entry.value = "0" * 64
    onnx.save(graph, folder / "network.onnx")
    reported = json.loads((folder / "field.json").read_text())
    write_manifest(folder, {key: value for key, value in reported.items() if key not in ("format", "version", "parts")})
    return folder


def near(predictor, logits):
    """Return True (n,) if a score is so close to the threshold that rounding may matter."""
    scores = dispatch.class_scores(as_rows(softmax(logits)), predictor.score, np.zeros(len(logits)))
    return (np.abs(scores - predictor.threshold) < CLOSE).any(axis=1)


def test_older_versions_of_onnxruntime_can_read_the_graph(model):
    """The opset and the version of the file format are those of other exports, since JetPack has older versions."""
    graph = onnx.load(model / "network.onnx")
    assert [(each.domain, each.version) for each in graph.opset_import] == [("", 17)]
    assert graph.ir_version == 8


def test_sets_and_actions_are_the_same_where_there_is_no_torch(model, bare, tmp_path):
    """Without torch and transformers a model runs and is saved; a graph of another network is refused."""
    photos = np.stack([photograph(seed) for seed in range(6)])
    np.save(tmp_path / "photos.npy", photos)
    others = foreign(model, tmp_path / "foreign"), tmp_path / "plain"
    shutil.copytree(model, others[1])
    (others[1] / "network.onnx").unlink()
    reported = json.loads((others[1] / "field.json").read_text())
    del reported["parts"]
    write_manifest(others[1], reported)
    done = run_bare(bare, "-c", LOOKS, model, tmp_path, *others, cwd=tmp_path)
    assert done.stderr == ""
    said = json.loads(done.stdout)
    assert (said["network"], said["same"], said["heavy"]) == ("OnnxNetwork", True, False)
    assert said[str(others[0])].startswith("The part network.onnx is of another network than the weights: make")
    assert 'needs torch, transformers, safetensors: pip install "pippin-conformal[vision]"' in said[str(others[1])]
    loaded = FieldModel.load(model)
    looks = [loaded.look(photo) for photo in photos]
    logits = np.concatenate([look.logits for look in looks])
    with np.load(tmp_path / "looks.npz") as kept:
        np.testing.assert_allclose(kept["logits"], logits, rtol=1e-5, atol=1e-5)
    doubtful = near(loaded.predictor, logits)
    assert doubtful.sum() < len(doubtful) / 2
    with open(tmp_path / "records.json") as stream:
        theirs = [record for look in json.load(stream) for record in look]
    ours = [record for look in looks for record in look.records()]
    for mine, other, may_differ in zip(ours, theirs, doubtful, strict=True):
        assert (other["set"], other["action"]) == (mine["set"], mine["action"]) or may_differ


def test_a_run_without_torch_writes_what_a_run_with_it_writes(model, bare, tmp_path, call):
    (tmp_path / "photos").mkdir()
    for seed in range(3):
        Image.fromarray(photograph(seed)).save(tmp_path / f"photos/{seed}.png")
    (tmp_path / "photos/broken.png").write_bytes(b"no image")
    line = ["field", "run", model, tmp_path / "photos", "--out"]
    done = run_bare(bare, "-m", "pippin.cli", *line, tmp_path / "bare", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("3 photographs, 18 windows: ")
    assert call(" ".join(map(str, [*line, tmp_path / "torch"])))[0] == 0
    results = []
    for name in ("bare", "torch"):
        assert len(list((tmp_path / name / "drawn").iterdir())) == 3
        lines = (tmp_path / name / "results.jsonl").read_text().splitlines()
        results.append([{**json.loads(line), "credibility": None} for line in lines])
    assert results[0] == results[1]
    refused = run_bare(bare, "-m", "pippin.cli", *line, tmp_path / "cuda", "--device", "cuda", cwd=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "torch finds none" in refused.stderr


def arrive(folder, name, seed):
    """Write a photograph under a temporary name and rename it, as cameras do."""
    Image.fromarray(photograph(seed)).save(folder.parent / name)
    (folder.parent / name).rename(folder / name)
    return (folder / name).as_posix()


def test_arriving_photographs_are_reported_once_also_after_a_kill(model, bare, tmp_path):
    """A line per photograph, also after a kill and a restart; the monitor is updated once per photograph."""
    watched, state = tmp_path / "watched", tmp_path / "monitor.json"
    watched.mkdir()
    python, environment = bare
    command = [*python, "-m", "pippin.cli", "field", "run", str(model), "--watch", str(watched)]
    command += ["--out", str(tmp_path / "out"), "--monitor", str(state), "--delta", "0.001"]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment}
    names = []
    with subprocess.Popen(command, **options) as first:
        for number in range(3):
            names.append(arrive(watched, f"{number}.png", number))
            line = json.loads(first.stdout.readline())
            assert line["photo"] == names[-1]
            assert len(line["windows"]) == 6
            assert (tmp_path / "out" / line["drawn"]).is_file()
        first.kill()
    (watched / "broken.png").write_bytes(b"no image")
    with subprocess.Popen(command, **options) as second:
        line = json.loads(second.stdout.readline())
        assert line == {
            "photo": (watched / "broken.png").as_posix(),
            "reason": f"{watched}/broken.png is damaged or no image",
        }
        names.append(arrive(watched, "3.png", 3))
        assert json.loads(second.stdout.readline())["photo"] == names[-1]
        second.send_signal(signal.SIGINT)
        rest, reported = second.communicate()
    assert (second.returncode, rest) == (0, "")
    assert reported.startswith("4 photographs, 24 windows: ")
    assert (tmp_path / "out/field.html").read_text().count("broken.png is damaged or no image") == 1
    lines = [json.loads(line) for line in (tmp_path / "out/results.jsonl").read_text().splitlines()]
    assert [line["photo"] for line in lines] == [name for name in names for _ in range(6)]
    monitor = pippin.online.Monitor.load(state)
    assert (monitor.n_rows, monitor.delta) == (4, 0.001)
    assert sum(monitor.content()["counts"]) > 4  # the held-out images are the reference


def test_the_graph_can_be_chosen_where_torch_is_installed(model, tmp_path, call):
    ours, graph = FieldModel.load(model), FieldModel.load(model, runtime="onnxruntime")
    assert type(graph.network).__name__ == "OnnxNetwork"
    np.testing.assert_allclose(graph.look(photograph(1)).logits, ours.look(photograph(1)).logits, rtol=1e-5, atol=1e-5)
    shutil.copytree(model, tmp_path / "plain", ignore=shutil.ignore_patterns("network.onnx"))
    write_manifest(tmp_path / "plain", {**json.loads((model / "field.json").read_text()), "parts": None})
    code, _, err = call(f"field bench {tmp_path}/plain {tmp_path} --runtime onnxruntime")
    assert (code, "Expected the part network.onnx to run in onnxruntime, got none" in err) == (2, True)


def test_latency_in_parts(model, tmp_path, call):
    """Each part has a median, a 99th percentile and a largest value, in increasing order."""
    for seed in range(2):
        Image.fromarray(photograph(seed)).save(tmp_path / f"{seed}.png")
    code, out, err = call(f"field bench {model} {tmp_path} --frames 12 --runtime onnxruntime")
    assert (code, err) == (0, "")
    head, names, *rows = out.splitlines()
    assert head == "12 frames of 6 windows, OnnxNetwork; milliseconds"
    assert names.split() == ["part", "p50", "p99", "largest"]
    parts = ["reading", "network", "judging", "drawing", "photograph to actions", "with drawing"]
    assert [row[:22].strip() for row in rows] == parts
    for row in rows:
        values = [float(value) for value in row[22:].split()]
        assert 0 < values[0] <= values[1] <= values[2]


def test_the_graph_alone_gives_sets_and_actions(model):
    """The graph computes the sets and decisions of its own logits."""
    loaded, graph = FieldModel.load(model), onnx.load(model / "network.onnx")
    pixels = np.random.default_rng(1).integers(0, 256, (70, 3, 24, 24), dtype=np.uint8)
    found = run_onnx(graph, pixels=pixels)
    np.testing.assert_allclose(found["logits"], loaded.logits(pixels), rtol=1e-5, atol=1e-5)
    sets, _, decisions = loaded.judge(found["logits"])
    certain = ~near(loaded.predictor, found["logits"])
    assert certain.sum() > 35
    np.testing.assert_array_equal(found["mask"][certain], sets.mask[certain])
    assert (found["actions"] != decisions.codes).sum() == 0
    reported = {entry.key: entry.value for entry in graph.metadata_props}
    assert json.loads(reported["pippin.classes"]) == list(CLASSES)
    assert reported["pippin.score"] == "pip"
    assert not any(node.metadata_props for node in graph.graph.node)  # no path of the machine that made it


def test_a_graph_of_another_network_is_noticed_when_it_is_made(model):
    """Logits of onnxruntime and torch are compared."""
    loaded = FieldModel.load(model)
    check_logits(loaded.graph, loaded.network, 24)
    next(loaded.network.model.parameters()).data += 0.5
    with pytest.raises(pippin.InputError, match="gives other logits than torch, by"):
        check_logits(loaded.graph, loaded.network, 24)


def test_what_cannot_leave_python_is_no_part_of_the_graph(model):
    logits = onnx.load(model / "network.onnx")
    weighted = pippin.calibrate(np.full((20, 4), 0.25), [0] * 20, "pip", weights=np.ones(20))
    assert len(with_heads(logits, [weighted]).graph.output) == len(logits.graph.output) == 7


def test_a_damaged_or_foreign_graph_is_named(model, tmp_path):
    path = tmp_path / "MODEL"
    shutil.copytree(model, path)
    content = bytearray((path / "network.onnx").read_bytes())
    content[len(content) // 2] ^= 1
    (path / "network.onnx").write_bytes(content)
    with pytest.raises(ValueError, match=r"The part network.onnx of .* is damaged or of another model"):
        FieldModel.load(path)
    (path / "network.onnx").unlink()
    with pytest.raises(ValueError, match=r"The part network.onnx of .* is missing"):
        FieldModel.load(path)
