"""Draw the picture of the page on image pipelines from synthetic photographs: `python docs/_site/field_picture.py`."""

import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from pippin.images import FieldModel

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.small_field import make_parts  # noqa: E402 - after the path is set
from support.small_training import make_weights  # noqa: E402 - after the path is set
from support.synthetic_images import CLASSES, draw, make_images  # noqa: E402 - after the path is set

SIDE = 200


def photograph(rng: np.random.Generator) -> Image.Image:
    """Return a photograph with two rows of three random windows."""
    names = [[CLASSES[rng.integers(len(CLASSES))] for _ in range(3)] for _ in range(2)]
    rows = [np.concatenate([draw(name, rng, SIDE, 25) for name in row], axis=1) for row in names]
    return Image.fromarray(np.concatenate(rows))


def main(folder: Path) -> None:
    """Train a small network, make a field model and draw what it returns for two photographs."""
    images = make_images(folder / "images", 400, size=SIDE, noise=30)
    parts = make_parts(images, make_weights(folder / "tiny"), folder / "parts", epochs=8)
    model = FieldModel.make(
        parts / "weights",
        parts / "predictor.json",
        decider=parts / "decider.json",
        window=SIDE,
    )
    rng = np.random.default_rng(3)
    drawn = [model.look(photograph(rng)).draw() for _ in range(2)]
    sheet = Image.new("RGB", (2 * drawn[0].width + 24, drawn[0].height), "white")
    for number, picture in enumerate(drawn):
        sheet.paste(picture, (number * (drawn[0].width + 24), 0))
    sheet.save(ROOT / "docs" / "_static" / "charts" / "field.webp", quality=45, method=6)


if __name__ == "__main__":
    main(Path(tempfile.mkdtemp()))
