"""Field model that is fast to make: a very small network with its predictor and decider."""

import numpy as np
import pytest

import pippin
from pippin.images.training import train
from support.small_training import quiet, small_options
from support.synthetic_images import CLASSES, draw

KINDS = {"blob": "weed", "ring": "weed", "columns": "crop", "rows": "crop"}
UTILITY = pippin.decisions.Utility(
    {"spray": {"weed": 1, "crop": -2}, "leave": {"weed": -1, "crop": 1}, "ask": {"weed": 0.3, "crop": 0.3}}, kinds=KINDS
)


def make_parts(images, tiny, folder, **options):
    """Write weights, logits, a predictor and a decider; half of the held-out images calibrate."""
    folder.mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIPPIN_NUM_THREADS", "1")  # as in tests of the field command, for equal logits
        train(images, folder / "probs.npz", small_options(tiny, **{"train_fraction": 0.4} | options), on_epoch=quiet)
    with np.load(folder / "probs.npz") as kept:
        logits, labels = kept["logits"][::2], kept["labels"][::2]
    known = {"classes": CLASSES, "from_logits": True}
    pippin.calibrate(logits, labels, "pip", 0.2, **known).save(folder / "predictor.json")
    pippin.decisions.calibrate(logits, labels, UTILITY, 0.2, **known).save(folder / "decider.json")
    return folder


def photograph(seed, rows=2, columns=3, side=24, margin=7):
    """Draw a photograph (height, width, 3) of random windows, with margins at the right and at the bottom."""
    rng = np.random.default_rng(seed)
    picture = np.full((rows * side + margin, columns * side + margin, 3), 90, np.uint8)
    for row in range(rows):
        for column in range(columns):
            part = draw(CLASSES[rng.integers(len(CLASSES))], rng, side, 30)
            picture[row * side : (row + 1) * side, column * side : (column + 1) * side] = part
    return picture
