"""The ROS 2 nodes in examples/ros2, with stubs of the ROS modules and headers: ROS is not installed here."""

import importlib.util
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import pippin
from pippin.images import FieldModel
from support import ros_messages
from support.small_field import UTILITY, make_parts, photograph
from support.synthetic_images import CLASSES

pytestmark = pytest.mark.usefixtures("one_thread")

ROS = Path(__file__).parents[2] / "examples/ros2"
STUBS = Path(__file__).parents[1] / "support/ros2"


@pytest.fixture(scope="module")
def model(images, tiny, tmp_path_factory):
    folder = make_parts(images, tiny, tmp_path_factory.mktemp("ros") / "run", features=True)
    files = {"decider": folder / "decider.json", "window": 24, "novelty": 0.1}
    FieldModel.make(folder / "weights", folder / "predictor.json", **files).save(folder / "MODEL")
    return folder / "MODEL"


@pytest.fixture
def ros(monkeypatch):
    """Import the example with stubs; return its module and that of the images."""
    modules = ros_messages.install(monkeypatch)
    spec = importlib.util.spec_from_file_location("pippin_node", ROS / "pippin_node.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, modules["sensor_msgs.msg"].Image


def as_message(kind, rgb, encoding="rgb8", padding=0):
    """Encode an array of red, green and blue as sensor_msgs/Image, with padded rows."""
    height, width = rgb.shape[:2]
    alpha = np.full((height, width, 1), 7, np.uint8)
    high = rgb[:, :, :1]
    pixels = {
        "rgb8": rgb,
        "bgr8": rgb[:, :, ::-1],
        "rgba8": np.concatenate([rgb, alpha], axis=2),
        "bgra8": np.concatenate([rgb[:, :, ::-1], alpha], axis=2),
        "mono8": high,
        "mono16": np.concatenate([alpha, high], axis=2),  # little-endian: the high byte is second
    }[encoding]
    rows = pixels.reshape(height, -1)
    data = np.concatenate([rows, np.zeros((height, padding), np.uint8)], axis=1)
    return kind(ros_messages.Header(), height, width, encoding, 0, data.shape[1], data.tobytes())


@pytest.mark.parametrize("encoding", ["rgb8", "bgr8", "rgba8", "bgra8", "mono8", "mono16"])
def test_encodings_are_converted_to_rgb(ros, encoding):
    module, kind = ros
    rgb = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    if encoding.startswith("mono"):
        rgb = rgb[:, :, [0, 0, 0]]
    np.testing.assert_array_equal(module.to_rgb(as_message(kind, rgb, encoding, padding=3)), rgb)


def test_the_node_publishes_what_look_returns(ros, model, monkeypatch):
    module, kind = ros
    monkeypatch.setattr(ros_messages.Node, "given", {"model": str(model)})
    node = module.PippinNode()
    photo = photograph(3)
    node.callbacks["image"](as_message(kind, photo, "bgr8"))
    look = FieldModel.load(model).look(photo)
    sent = node.publishers["sets"].messages
    assert [[each.class_id for each in message.results] for message in sent] == look.sets.labels()
    for message, p_values in zip(sent, look.p_values, strict=True):
        assert message.header.frame_id == "camera"
        assert all(each.score == p_values[CLASSES.index(each.class_id)] for each in message.results)
    (actions,) = node.publishers["actions"].messages
    assert json.loads(actions.data) == {"stamp": [12, 34], "frame": "camera", "windows": look.records()}
    (array,) = node.publishers["/diagnostics"].messages
    values = {each.key: each.value for each in array.status[0].values}
    assert (values["windows"], values["alarms"]) == ("6", "0")
    assert values["novel windows"] == str(int(look.novel.sum()))


def test_alarms_stop_the_actions_also_after_a_restart(ros, model, tmp_path, monkeypatch):
    module, kind = ros
    given = {"model": str(model), "state": str(tmp_path / "m.json"), "delta": 0.05}
    monkeypatch.setattr(ros_messages.Node, "given", given)
    node = module.PippinNode()
    for _ in range(40):
        node.callbacks["image"](as_message(kind, np.zeros((24, 24, 3), np.uint8)))
    levels = [array.status[0].level for array in node.publishers["/diagnostics"].messages]
    assert (levels[0], levels[-1]) == (b"\x01", b"\x02")
    node = module.PippinNode()
    node.callbacks["image"](as_message(kind, photograph(1)))
    windows = json.loads(node.publishers["actions"].messages[0].data)["windows"]
    assert {(window["action"], window["careful"]) for window in windows} == {("ask", "alarm")}


@pytest.mark.parametrize("problem", ["encoding", "step", "data", "size"])
def test_images_that_cannot_be_used_are_reported(ros, model, monkeypatch, problem):
    """No action is published, and the diagnostics have an error."""
    module, kind = ros
    monkeypatch.setattr(ros_messages.Node, "given", {"model": str(model)})
    node = module.PippinNode()
    message = as_message(kind, photograph(1)[: 10 if problem == "size" else None])
    changes = {"encoding": {"encoding": "bayer_rggb8"}, "step": {"step": 10}, "data": {"data": message.data[:100]}}
    for name, value in changes.get(problem, {}).items():
        setattr(message, name, value)
    node.callbacks["image"](message)
    assert not node.publishers["actions"].messages
    assert node.publishers["/diagnostics"].messages[0].status[0].level == b"\x02"
    assert node.publishers["/diagnostics"].messages[0].status[0].message == node.logged[-1]


def test_the_cpp_node_has_the_actions_of_python(tmp_path, call):
    rng = np.random.default_rng(0)
    logits = rng.normal(scale=2, size=(400, 4)).astype(np.float32)
    labels = np.array([rng.choice(4, p=row) for row in np.exp(logits) / np.exp(logits).sum(1, keepdims=True)])
    decider = pippin.decisions.calibrate(logits[:200], labels[:200], UTILITY, 0.2, classes=CLASSES, from_logits=True)
    decider.save(tmp_path / "decider.json")
    assert call(f"export {tmp_path}/decider.json --c {tmp_path}/decider.h")[0] == 0
    flags = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{STUBS}", f"-I{tmp_path}"]
    subprocess.run(["g++", *flags, ROS / "pippin_node.cpp", "-o", tmp_path / "node"], check=True)
    rows = [*logits[200:].reshape(50, -1), np.array([1, 2, np.nan, 4]), np.array([1.0, 2.0])]
    text = "\n".join(" ".join(f"{value:.9g}" for value in row) for row in rows)
    done = subprocess.run([tmp_path / "node"], input=text + "\n", capture_output=True, text=True, check=True)
    published = [line.split() for line in done.stdout.splitlines()]
    codes = [int(word) for name, *words in published if name == "actions" for word in words]
    certificates = [float(word) for name, *words in published if name == "certificates" for word in words]
    decisions = decider.decide(logits[200:], from_logits=True)
    assert codes == [*decisions.codes.tolist(), -1]
    np.testing.assert_allclose(certificates, [*decisions.certificates, -np.inf], rtol=1e-6)
    assert "action 0: spray" in done.stderr
    assert "Expected rows of 4 logits, got 2 numbers: check the network." in done.stderr
