"""Field models: results equal those of their parts for all types of images; parts that do not fit are refused."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import pippin
from pippin.images import FieldModel
from pippin.tables.reading import read_data
from support.small_field import UTILITY, make_parts, photograph
from support.synthetic_images import CLASSES

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def parts(images, tiny, tmp_path_factory):
    """Write weights, logits, predictor and decider of one training."""
    return make_parts(images, tiny, tmp_path_factory.mktemp("field") / "run")


@pytest.fixture(scope="module")
def others(images, tiny, tmp_path_factory):
    """Write the parts of another training, with other held-out images."""
    return make_parts(images, tiny, tmp_path_factory.mktemp("field") / "other", seed=1)


@pytest.fixture
def saved(parts, tmp_path):
    made = FieldModel.make(parts / "weights", parts / "predictor.json", decider=parts / "decider.json", window=24)
    made.save(tmp_path / "MODEL")
    return tmp_path / "MODEL"


def test_sets_and_actions_are_those_of_the_parts_on_the_logits_that_train_wrote(parts, images):
    """Sets and actions of a field model equal those of its parts on the logits of training, to the last bit."""
    model = FieldModel.make(parts / "weights", parts / "predictor.json", decider=parts / "decider.json")
    data = read_data(parts / "probs.npz")
    sets = pippin.load(parts / "predictor.json").predict(data.rows)
    p_values = pippin.load(parts / "predictor.json").p_values(data.rows)
    actions = pippin.load(parts / "decider.json").decide(data.rows)
    with np.load(parts / "probs.npz") as kept:
        files, logits = kept["files"], kept["logits"]
    for i in range(len(files)):
        look = model.look(images / files[i])
        np.testing.assert_array_equal(look.logits[0], logits[i])
        assert look.sets[0] == sets[i]
        assert look.actions[0] == actions.actions[i]
        assert look.certificates[0] == actions.certificates[i]
        np.testing.assert_array_equal(look.p_values[0], p_values[i])


def test_windows_are_read_as_images_of_their_own(saved, tmp_path):
    """Windows are cut row by row from the top left; the margin is not used."""
    model, pixels = FieldModel.load(saved), photograph(3)
    look = model.look(pixels)
    assert look.shape == (2, 3)
    whole = FieldModel(model.network, model.size, model.training, model.predictor, model.decider)
    for i, record in enumerate(look.records()):
        row, column = record["row"], record["column"]
        assert (row, column) == divmod(i, 3)
        alone = whole.look(pixels[24 * row : 24 * row + 24, 24 * column : 24 * column + 24])
        np.testing.assert_array_equal(alone.logits[0], look.logits[i])
        assert record["set"] == alone.sets[0]
        assert record["action"] == alone.actions[0]
        assert record["credibility"] == look.p_values[i].max()


def test_an_image_may_come_in_any_form(saved, tmp_path):
    model, pixels = FieldModel.load(saved), photograph(4)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    first = model.look(pixels)
    tensor = torch.from_numpy(pixels).permute(2, 0, 1)
    for source in (tmp_path / "photo.png", str(tmp_path / "photo.png"), Image.fromarray(pixels), tensor, tensor / 255):
        np.testing.assert_array_equal(model.look(source).logits, first.logits)


def test_it_comes_back_from_its_folder_the_same(parts, saved):
    made = FieldModel.make(parts / "weights", parts / "predictor.json", decider=parts / "decider.json", window=24)
    pixels = photograph(5)
    loaded = FieldModel.load(saved)
    np.testing.assert_array_equal(loaded.look(pixels).logits, made.look(pixels).logits)
    assert loaded.describe() == made.describe()
    loaded.save(saved)
    assert FieldModel.load(saved).look(pixels).records() == made.look(pixels).records()
    assert sorted(path.name for path in saved.parent.iterdir()) == ["MODEL"]


def test_a_utility_decides_by_the_worst_case_over_sets(parts, tmp_path):
    made = FieldModel.make(parts / "weights", parts / "predictor.json", utility=UTILITY, fallback="ask", window=24)
    made.save(tmp_path / "MODEL")
    look = FieldModel.load(tmp_path / "MODEL").look(photograph(6))
    assert look.actions.tolist() == pippin.decisions.decide(look.sets, UTILITY, fallback="ask").actions.tolist()


@pytest.mark.parametrize("per", ["class", "cluster", {"blob": "a", "ring": "a", "rows": "b", "columns": "b"}])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_guarantees_per_class_cluster_and_kind_belong_too(parts, per):
    data = read_data(parts / "probs.npz")
    predictor = pippin.calibrate(data.rows, data.truth(), "pip", 0.3, classes=CLASSES, per=per)
    model = FieldModel.make(parts / "weights", predictor, window=24)
    look = model.look(photograph(7))
    assert look.sets.labels() == predictor.predict(look.logits, from_logits=True).labels()


def test_a_sharpened_predictor_belongs_and_one_calibrated_elsewhere_does_not(parts, others):
    predictors = []
    for place in (parts, others):
        data = read_data(place / "probs.npz")
        rows, truth = data.rows, data.truth()
        first, rest = np.arange(0, rows.n, 2), np.arange(1, rows.n, 2)
        sharper = pippin.sharpen(rows.take(first), truth[first], classes=CLASSES)
        given = rows.take(rest), truth[rest]
        predictors.append(pippin.calibrate(*given, "socop", 0.3, classes=CLASSES, sharpen=sharper))
    look = FieldModel.make(parts / "weights", predictors[0]).look(photograph(8))
    assert look.sets.labels() == predictors[0].predict(look.logits, from_logits=True).labels()
    with pytest.raises(ValueError, match="The predictor was calibrated on training images of the network, or on"):
        FieldModel.make(parts / "weights", predictors[1])


def by_photograph(folder):
    """Calibrate on all held-out images by photograph; return also logits, labels and photographs."""
    with np.load(folder / "probs.npz") as kept:
        logits, labels, photos = kept["logits"], kept["labels"], kept["groups"]
    made = pippin.calibrate(logits, labels, "pip", 0.3, units=photos, classes=CLASSES, from_logits=True)
    return made, logits, labels, photos


def test_photographs_with_training_windows_are_not_new(parts):
    """Photographs with windows in the training set cannot calibrate a guarantee for new photographs."""
    with pytest.raises(
        ValueError, match=r"for new photographs, but .* have windows in the training set: train with --group photo"
    ):
        FieldModel.make(parts / "weights", by_photograph(parts)[0])


def test_photographs_as_units_belong_too(images, tiny, tmp_path):
    """Threshold and p-values count each photograph once, in Python and in the field model."""
    parts = make_parts(images, tiny, tmp_path / "run", group="photo")
    predictor, logits, labels, photos = by_photograph(parts)
    known = {"classes": CLASSES, "from_logits": True}
    assert predictor.n_effective == len(set(photos.tolist())) < len(photos)
    model = FieldModel.make(parts / "weights", predictor, window=24)
    look = model.look(photograph(7))
    assert look.sets.labels() == predictor.predict(look.logits, from_logits=True).labels()
    assert "for a row drawn at random from a new unit" in model.describe()
    strange = pippin.calibrate(logits * 1.01, labels, "pip", 0.3, units=photos, **known)
    with pytest.raises(ValueError, match="calibrated on training images of the network, or on logits of another"):
        FieldModel.make(parts / "weights", strange)


def test_a_part_of_the_rows_may_calibrate(parts):
    data = read_data(parts / "probs.npz")
    predictor = pippin.calibrate(data.rows.take(np.arange(20)), data.truth()[:20], "pip", 0.2, classes=CLASSES)
    assert FieldModel.make(parts / "weights", predictor).predictor.n_calibration == 20


# Parts that do not fit each other


def test_classes_in_another_order_are_refused(parts):
    with np.load(parts / "probs.npz") as kept:
        logits, labels = kept["logits"], kept["labels"]
    turned = pippin.calibrate(logits[:, ::-1], labels, "pip", 0.2, classes=CLASSES[::-1], from_logits=True)
    with pytest.raises(
        ValueError, match=r"The predictor has its classes in another order than the network \('rows' where"
    ):
        FieldModel.make(parts / "weights", turned)
    fewer = pippin.calibrate(logits[:, :3], [0] * len(logits), "pip", 0.2, classes=CLASSES[:3], from_logits=True)
    with pytest.raises(ValueError, match=r"The predictor has other classes than the network \('nothing' where"):
        FieldModel.make(parts / "weights", fewer)


@pytest.mark.parametrize("part", ["predictor", "decider"])
def test_what_another_network_calibrated_is_refused(parts, others, part):
    given = {"predictor": parts / "predictor.json", "decider": parts / "decider.json"} | {part: others / f"{part}.json"}
    sentence = f"The {part} was calibrated on training images of the network, or on logits of another network: of its"
    with pytest.raises(ValueError, match=sentence):
        FieldModel.make(parts / "weights", given["predictor"], decider=given["decider"])


def test_the_calibration_file_gives_precise_errors(parts, others, tmp_path):
    """With the calibration file, errors name training images in it, or other logits of the same images."""
    with pytest.raises(ValueError, match=r"calibrated on \d+ training images of the network, such as \w+/img_"):
        FieldModel.make(parts / "weights", others / "predictor.json", calibration=others / "probs.npz")
    with np.load(parts / "probs.npz") as kept:
        arrays = dict(kept)
    arrays["logits"] = arrays["logits"] + np.float32(0.01)
    np.savez(tmp_path / "p.npz", **arrays)
    with pytest.raises(
        ValueError, match=r"calibrated on logits of another network: 48 images of .*p.npz have different logits"
    ):
        FieldModel.make(parts / "weights", parts / "predictor.json", calibration=tmp_path / "p.npz")
    FieldModel.make(parts / "weights", parts / "predictor.json", calibration=parts / "probs.npz")


def test_what_needs_more_than_an_image_is_refused(parts):
    data = read_data(parts / "probs.npz")
    by_group = pippin.calibrate(
        data.rows, data.truth(), "pip", 0.4, classes=CLASSES, per="group", groups=np.arange(data.rows.n) % 2
    )
    with pytest.raises(ValueError, match=r"needs nothing but an image, got .*, for its groups: calibrate"):
        FieldModel.make(parts / "weights", by_group)


def test_choices_that_contradict_each_other_are_refused(parts, saved):
    place = parts / "weights", parts / "predictor.json"
    for more, sentence in (
        ({"decider": parts / "predictor.json"}, "Expected a decider, got ConformalPredictor"),
        ({"utility": UTILITY}, "together with a fallback"),
        ({"utility": UTILITY, "fallback": "run"}, "Expected the fallback among spray, leave, ask, got 'run'"),
        ({"utility": UTILITY, "fallback": "ask", "decider": parts / "decider.json"}, "got both"),
        ({"window": 0}, "at least one pixel"),
    ):
        with pytest.raises(ValueError, match=sentence):
            FieldModel.make(*place, **more)
    with pytest.raises(ValueError, match="The image is 23 × 90, smaller than a window of 24 × 24"):
        FieldModel.load(saved).look(np.zeros((90, 23, 3), np.uint8))


# The folder of a model


@pytest.mark.parametrize(
    "part",
    ["predictor.json", "decider.json", "weights/model.safetensors", "weights/config.json", "weights/training.npz"],
)
def test_a_damaged_or_missing_part_is_named(saved, part):
    content = bytearray((saved / part).read_bytes())
    content[len(content) // 2] ^= 1
    (saved / part).write_bytes(content)
    with pytest.raises(ValueError, match=f"The part {part} of .* is damaged or of another model"):
        FieldModel.load(saved)
    (saved / part).unlink()
    with pytest.raises(ValueError, match=f"The part {part} of .* is missing"):
        FieldModel.load(saved)


@pytest.mark.parametrize(
    ("content", "reported"),
    [({"window": "24"}, "is damaged"), ({"window": 0}, "is damaged"), ({"utility": ...}, "is damaged")],
)
def test_a_manifest_that_was_edited_is_refused(saved, content, reported):
    whole = json.loads((saved / "field.json").read_text()) | content
    whole = {key: value for key, value in whole.items() if value is not ...}
    (saved / "field.json").write_text(json.dumps(whole))
    with pytest.raises(ValueError, match=reported):
        FieldModel.load(saved)


def test_a_manifest_of_many_brackets_is_refused(saved):
    (saved / "field.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="is damaged"):
        FieldModel.load(saved)


def test_a_folder_of_weights_that_is_a_link_is_refused(saved, tmp_path):
    """A folder of weights that is a link is refused, whether or not the manifest lists its files."""
    shutil.move(saved / "weights", tmp_path / "elsewhere")
    (saved / "weights").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=r"The part weights/\S+ of .* is missing"):
        FieldModel.load(saved)
    whole = json.loads((saved / "field.json").read_text())
    whole["parts"] = {name: value for name, value in whole["parts"].items() if "/" not in name}
    (saved / "field.json").write_text(json.dumps(whole))
    with pytest.raises(ValueError, match="The part weights is not of the model"):
        FieldModel.load(saved)


def test_an_unlisted_part_is_refused(parts, tmp_path):
    FieldModel.make(parts / "weights", parts / "predictor.json").save(tmp_path / "M")
    shutil.copy(parts / "decider.json", tmp_path / "M")
    with pytest.raises(ValueError, match=r"The part decider\.json is not of the model"):
        FieldModel.load(tmp_path / "M")


def test_thin_images_are_drawn(parts):
    """Results are drawn for images of a few pixels, and for windows of one pixel."""
    model = FieldModel.make(parts / "weights", parts / "predictor.json")
    for shape in ((2, 200, 3), (200, 1, 3), (3, 3, 3)):
        model.look(np.zeros(shape, np.uint8)).draw()
    replace(model, window=1).look(np.zeros((2, 3, 3), np.uint8)).draw()


@pytest.mark.parametrize("name", ["kept.npy", "cut.npz", "empty.npz", "table.csv"])
def test_a_wrong_file_of_calibration_is_one_sentence(parts, tmp_path, name):
    np.save(tmp_path / "kept.npy", np.zeros(3))
    (tmp_path / "cut.npz").write_bytes((parts / "probs.npz").read_bytes()[:200])
    (tmp_path / "empty.npz").touch()
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"Expected logits and files in .*: name a file that train wrote"):
        FieldModel.make(parts / "weights", parts / "predictor.json", calibration=tmp_path / name)


def test_what_is_no_field_model_is_refused_and_never_replaced(parts, saved, tmp_path):
    with pytest.raises(ValueError, match="is no field model"):
        FieldModel.load(parts)
    reported = json.loads((saved / "field.json").read_text())
    (saved / "field.json").write_text(json.dumps(reported | {"version": 9}))
    with pytest.raises(ValueError, match="has version 9, but this pippin reads 1: upgrade"):
        FieldModel.load(saved)
    shutil.copytree(parts, tmp_path / "precious")
    model = FieldModel.make(parts / "weights", parts / "predictor.json")
    with pytest.raises(ValueError, match=r"new folder or that of a field model, got .*precious"):
        model.save(tmp_path / "precious")
    assert (tmp_path / "precious/probs.npz").is_file()


def test_weights_that_train_did_not_write_are_refused(parts, tiny, tmp_path):
    with pytest.raises(ValueError, match=r"has no training\.npz"):
        FieldModel.make(tiny, parts / "predictor.json")
    shutil.copytree(parts / "weights", tmp_path / "weights")
    shutil.copy(tiny / "model.safetensors", tmp_path / "weights/model.safetensors")
    with pytest.raises(ValueError, match="are other weights than those of"):
        FieldModel.make(tmp_path / "weights", parts / "predictor.json")


# The drawn picture


def test_the_picture_shows_every_window_in_the_colour_of_its_action_with_a_legend_below(saved):
    from pippin.images.drawing import COLOURS

    model, pixels = FieldModel.load(saved), photograph(9)
    look = model.look(pixels)
    picture = look.draw()
    assert picture.width >= 640
    scale = picture.width / pixels.shape[1]
    assert picture.height > scale * pixels.shape[0]
    colours = dict(zip(("spray", "leave", "ask"), COLOURS, strict=False))
    for (left, _, _, bottom), action in zip(look.boxes(), look.actions, strict=True):
        corner = picture.getpixel((round(scale * left) + 2, round(scale * bottom) - 3))
        assert "#{:02x}{:02x}{:02x}".format(*corner) == colours[action]


def test_hatching_shows_the_set_size_and_leaves_the_middle_visible(saved):
    """A photograph at significance levels with sets of one and of more classes."""
    loaded, pixels = FieldModel.load(saved), photograph(9, rows=1, columns=1, side=24, margin=0)
    pictures = []
    for alpha in (0.9, 0.05):
        look = replace(loaded, decider=None, predictor=loaded.predictor.at(alpha)).look(pixels)
        pictures.append((int(look.sets.sizes[0]), np.asarray(look.draw())))
    (few, plain), (many, hatched) = pictures
    assert few == 1 < many
    middle = np.s_[200:440, 200:440]
    upright = np.asarray(Image.fromarray(pixels).resize((640, 640)))
    for picture in (plain, hatched):
        np.testing.assert_array_equal(picture[middle], upright[middle])
    band = np.s_[590:630, 100:540]
    np.testing.assert_array_equal(plain[band], upright[band])
    assert (hatched[band] != upright[band]).any(axis=2).mean() > 0.1
