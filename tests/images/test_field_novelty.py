"""Novelty test and monitor of a field model: exact p-values, careful actions, alarms from the first photograph on."""

import json
from dataclasses import replace

import numpy as np
import pytest

import pippin
from pippin.images import FieldModel
from pippin.images.novelty import NEIGHBOR, NoveltyTest, novelty_test
from pippin.images.reading import picture_statistics
from pippin.images.training.folder import TrainingRecord
from support.small_field import make_parts, photograph

pytestmark = pytest.mark.usefixtures("one_thread")


def record(rng, photos, windows=1, features=True):
    """Make a training record of random outputs; windows of one photograph are correlated."""
    n = photos * windows
    shared = np.repeat(rng.normal(size=(photos, 8)), windows, axis=0)
    rows = shared + 0.1 * rng.normal(size=(n, 8))
    files = np.array([f"a/img_{i // windows}_0_{i % windows}.png" for i in range(n)])
    labels = np.zeros(n, np.int64)
    given = rows[:, :4].astype(np.float32) if features else None
    return TrainingRecord(("a", "b"), (), files, rows[:, 4:6].astype(np.float32), labels, "", given, rows[:, 2:8])


def divided(whole, rows):
    """Return the record without its last `rows` images, and the inputs of the test for these."""
    parts = ("files", "logits", "labels", "features", "statistics")
    first = {name: getattr(whole, name)[:-rows] for name in parts if getattr(whole, name) is not None}
    features = None if whole.features is None else whole.features[-rows:]
    return replace(whole, **first), (whole.logits[-rows:], features, whole.statistics[-rows:])


@pytest.mark.parametrize("windows", [1, 5])
@pytest.mark.parametrize("features", [True, False])
def test_p_values_are_valid_also_for_windows_of_one_photograph(windows, features):
    """P(p ≤ t) ≤ t for the first window of a new photograph, over 600 simulated trainings."""
    rng, p = np.random.default_rng(0), []
    for _ in range(600):
        training, last = divided(record(rng, 40, windows, features), windows)
        test = NoveltyTest(training)
        p.append(test.p_values(test.strangeness(*last))[0])
    for t in (0.05, 0.1, 0.2, 0.5):
        assert np.mean(np.array(p) <= t) <= t + 3 * np.sqrt(t * (1 - t) / len(p))
    assert np.mean(np.array(p) <= 0.5) > 0.35


def test_images_without_photograph_have_the_p_values_of_ranks():
    """For images without photographs, p = (1 + the number of calibration images at least as strange)/(n + 1)."""
    rng = np.random.default_rng(1)
    test = NoveltyTest(record(rng, 50))
    values = np.append(test.scores, rng.normal(size=20))
    expected = [(1 + int((test.scores >= value).sum())) / (len(test.scores) + 1) for value in values]
    np.testing.assert_allclose(test.p_values(values), expected, rtol=1e-12)


def test_training_windows_of_the_same_photographs_make_every_image_a_unit():
    training = replace(record(np.random.default_rng(2), 10, 4), trained=("a/img_0_9_9.png",))
    assert NoveltyTest(training).smallest == 1 / 21
    assert NoveltyTest(replace(training, trained=())).smallest == 1 / 6


def test_too_few_images_make_no_test():
    rng = np.random.default_rng(3)
    assert novelty_test(record(rng, 2 * NEIGHBOR)) is None
    assert novelty_test(record(rng, 2 * NEIGHBOR + 2)) is not None
    assert novelty_test(replace(record(rng, 50), statistics=None)) is None


def test_statistics_see_what_the_network_may_not():
    images = np.stack([photograph(seed, 1, 1).transpose(2, 0, 1) for seed in range(40)])
    blank = np.stack([np.zeros_like(images[0]), np.full_like(images[0], 128), images[0] // 3])
    rng = np.random.default_rng(4)
    training = replace(record(rng, 40, features=False), statistics=picture_statistics(images))
    test = NoveltyTest(training)
    strangeness = test.strangeness(training.logits[:3], None, picture_statistics(blank))
    assert (test.p_values(strangeness) == test.smallest).all()


# In a field model


@pytest.fixture(scope="module")
def parts(images, tiny, tmp_path_factory):
    return make_parts(images, tiny, tmp_path_factory.mktemp("novelty") / "run", features=True)


@pytest.fixture(scope="module")
def model(parts):
    files = {"decider": parts / "decider.json", "window": 24, "novelty": 0.1}
    return FieldModel.make(parts / "weights", parts / "predictor.json", **files)


def test_novel_windows_get_the_careful_action(model):
    plain = model.with_novelty(0)
    photo = photograph(3)
    photo[:24, :24] = 0
    look, before = model.look(photo), plain.look(photo)
    assert model.careful == "ask"
    assert look.novel[0]
    assert look.novelty[0] == model.novelty_test.smallest
    np.testing.assert_array_equal(look.novel, look.novelty <= 0.1)
    np.testing.assert_array_equal(look.actions, np.where(look.novel, "ask", before.actions))
    np.testing.assert_array_equal(look.certificates, np.where(look.novel, -np.inf, before.certificates))
    assert look.sets.labels() == before.sets.labels()
    first, plain_first = look.records()[0], before.records()[0]
    assert (first["action"], first["certificate"], first["careful"]) == ("ask", None, "novel")
    assert first["novelty"] == look.novelty[0]
    assert (plain_first["novelty"], plain_first["careful"]) == (None, None)
    assert "Windows with a p-value of novelty of at most 0.1 get the action ask." in model.describe()


def test_the_level_is_saved_and_the_graph_gives_the_features(model, tmp_path):
    from pippin.images.backends import OnnxNetwork

    model.with_onnx().save(tmp_path / "MODEL")
    loaded = FieldModel.load(tmp_path / "MODEL")
    assert loaded.novelty == 0.1
    assert json.loads((tmp_path / "MODEL/field.json").read_text())["careful"] == "ask"
    graph = OnnxNetwork(loaded.graph, tmp_path, model.network.mean, model.network.sd)
    ours, theirs = model.look(photograph(5)), replace(loaded, network=graph).look(photograph(5))
    np.testing.assert_allclose(theirs.strangeness, ours.strangeness, rtol=1e-4)
    assert graph.has_features


def test_a_graph_without_features_is_refused(model, tmp_path):
    """A graph without features is refused, since the novelty test needs them."""
    import onnx

    from pippin.images.backends import OnnxNetwork

    graph = onnx.load_from_string(model.with_onnx().graph)
    del graph.graph.output[[output.name for output in graph.graph.output].index("features")]
    network = OnnxNetwork(graph.SerializeToString(), tmp_path, model.network.mean, model.network.sd)
    with pytest.raises(pippin.InputError, match=r"features for the novelty test, but the part network.onnx does not"):
        replace(model, network=network).with_novelty(0.1)


@pytest.mark.parametrize(("level", "sentence"), [(1.5, "at least 0 and below 1"), (0.001, "the smallest p-value")])
def test_levels_that_make_no_sense_are_refused(model, level, sentence):
    with pytest.raises(pippin.InputError, match=sentence):
        model.with_novelty(level)


def test_a_training_without_statistics_has_no_test(model):
    old = replace(model, training=replace(model.training, statistics=None, sides=None), novelty=0.0)
    assert old.with_novelty(None).look(photograph(1)).novelty is None
    with pytest.raises(pippin.InputError, match="Expected a training with picture statistics"):
        old.with_novelty(0.1)


def test_a_window_of_another_size_than_calibrated_is_refused(model, parts):
    with pytest.raises(pippin.InputError, match=r"got 30, but the images of the training .* 24 × 24 pixels: pass 24"):
        FieldModel.make(parts / "weights", parts / "predictor.json", window=30)
    assert "so sets and actions have no guarantee" in replace(model, window=12).describe()


@pytest.mark.parametrize("level", [0.1, 0])
def test_a_stream_that_is_wrong_from_the_first_photograph_raises_an_alarm(model, tmp_path, level):
    """A stream that differs from its first photograph on raises an alarm, with and without novelty test."""
    model = model.with_novelty(level)
    monitor = model.monitor(0.05, seed=0)
    for step in range(40):
        alarm = model.observe(monitor, model.look(np.zeros((24, 24, 3), np.uint8)))
        if step == 3:
            monitor.save(tmp_path / "m.json")
            monitor = pippin.online.Monitor.load(tmp_path / "m.json")
    assert alarm
    assert monitor.takes_scores is (level > 0)
    stopped = model.stop_acting(model.look(photograph(1)))
    assert set(stopped.actions) == {"ask"}
    assert {record["careful"] for record in stopped.records()} == {"alarm"}


def test_a_monitor_of_scores_takes_scores_only():
    data = pippin.load_example()
    predictor = pippin.calibrate(data.probs[:500], data.labels[:500], classes=data.classes)
    monitor = pippin.online.Monitor(predictor, reference=np.arange(50.0), seed=0)
    assert not monitor.update(25.0)
    assert monitor.describe().startswith("1 rows without labels")
    for value in (np.nan, "x", data.probs[0]):
        with pytest.raises(pippin.InputError, match="Expected a finite number as the score of an object"):
            monitor.update(value)
    with pytest.raises(pippin.InputError, match="Expected none with this row"):
        monitor.update(data.probs[0], 1)
