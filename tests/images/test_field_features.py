"""Features (inputs of the network's last layer): saved by training, used by sharpeners and field models."""

import numpy as np
import polars
import pytest

import pippin
from pippin.images import FieldModel
from pippin.images.training import train
from support.small_field import photograph
from support.small_training import quiet, small_options
from support.synthetic_images import CLASSES

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def trained(images, tiny, tmp_path_factory):
    """Write weights, and logits and features of 64 held-out images."""
    folder = tmp_path_factory.mktemp("features")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIPPIN_NUM_THREADS", "1")
        train(images, folder / "probs.npz", small_options(tiny, train_fraction=0.2, features=True), on_epoch=quiet)
    return folder


def kept(folder):
    with np.load(folder / "probs.npz") as arrays:
        return dict(arrays)


def test_the_last_layer_makes_the_logits_of_them(trained):
    """The last layer computes the saved logits from the saved features."""
    from transformers import AutoModelForImageClassification

    arrays = kept(trained)
    last = AutoModelForImageClassification.from_pretrained(trained / "weights").classifier[-1]
    weight, bias = (part.detach().numpy() for part in (last.weight, last.bias))
    np.testing.assert_allclose(arrays["features"] @ weight.T + bias, arrays["logits"], rtol=1e-4, atol=1e-5)
    with np.load(trained / "weights/training.npz") as noted:
        np.testing.assert_array_equal(noted["features"], arrays["features"])


def test_from_the_command_line_to_the_windows_of_a_photograph(trained, images, tmp_path, call):
    """A sharpener fitted on features needs them in predict; the field model computes them."""
    data, out = trained / "probs.npz", tmp_path / "p.json"
    code, _, err = call(f"calibrate {data} --score socop --sharpen split --features --alpha 0.3 --out {out}")
    assert (code, err) == (0, "")
    predictor = pippin.load(out)
    assert "features" in predictor.takes
    arrays = kept(trained)
    expected = predictor.predict(arrays["logits"], features=arrays["features"], from_logits=True)
    assert call(f"predict {out} {data} --out {tmp_path}/sets.parquet")[0] == 0
    assert polars.read_parquet(tmp_path / "sets.parquet")["size"].to_list() == expected.sizes.tolist()
    assert call(f"field make --weights {trained}/weights --predictor {out} --out {tmp_path}/MODEL --windows 24")[0] == 0
    model = FieldModel.load(tmp_path / "MODEL")
    look = model.look(photograph(2))
    assert len(look) == 6
    line = f"field make --weights {trained}/weights --predictor {out} --out {tmp_path}/ONNX --windows 24 --onnx"
    assert call(line)[0] == 0
    in_graph = FieldModel.load(tmp_path / "ONNX", runtime="onnxruntime").look(photograph(2))
    assert in_graph.sets.labels() == look.sets.labels()
    whole = FieldModel(model.network, model.size, model.training, model.predictor)
    from_files = [whole.look(images / name) for name in arrays["files"][:8]]
    assert [list(one.sets[0]) for one in from_files] == [list(expected[i]) for i in range(8)]


def test_missing_features_are_reported(trained, images, tiny, tmp_path, call):
    arrays = kept(trained)
    bare = {name: arrays[name] for name in ("logits", "labels", "classes", "files")}
    np.savez(tmp_path / "bare.npz", **bare)
    code, _, err = call(f"calibrate {tmp_path}/bare.npz --sharpen split --features --out {tmp_path}/p.json")
    assert code == 2
    assert err.startswith("pippin: Expected an .npz file with an array features, but ")
    given = {"classes": CLASSES, "from_logits": True}
    rows = arrays["logits"], arrays["labels"]
    sharper = pippin.sharpen(rows[0][:40], rows[1][:40], features=arrays["features"][:40], **given)
    predictor = pippin.calibrate(
        rows[0][40:], rows[1][40:], "pip", 0.3, sharpen=sharper, features=arrays["features"][40:], **given
    )
    assert FieldModel.make(trained / "weights", predictor).predictor is predictor
    train(images, tmp_path / "probs.npz", small_options(tiny, train_fraction=0.2, epochs=1), on_epoch=quiet)
    with pytest.raises(ValueError, match="needs features, but none were saved with these weights: train with"):
        FieldModel.make(tmp_path / "weights", predictor)
