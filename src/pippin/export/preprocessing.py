"""Preprocessing of a network's images, read from the folder of its weights: size, and normalization of colors."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pippin._runtime.errors import InputError

CONFIG = "preprocessor_config.json"
LARGEST_SIDE = 1 << 13  # pixels of the side of the images that a network takes, at most


class Preprocessing(NamedTuple):
    """Side in pixels of the images that a network takes, and mean and standard deviation of each color."""

    size: int
    mean: tuple[float, ...]
    sd: tuple[float, ...]


def read_preprocessing(folder: Path, classes: Sequence[str | int]) -> Preprocessing:
    """Read the preprocessing of a network from the folder of its weights.

    Raises:
        InputError: the folder is not of a network trained by `pippin train`, or its classes are not `classes`.
    """
    try:
        config = json.loads((folder / "config.json").read_bytes())
        reading = json.loads((folder / CONFIG).read_bytes())
        size, mean, sd = int(reading["crop_size"]["height"]), reading["image_mean"], reading["image_std"]
        names = tuple(config["id2label"][str(k)] for k in range(len(config["id2label"])))
        mean, sd = ([float(value) for value in part] for part in (mean, sd))
        if not (1 <= size <= LARGEST_SIDE and len(mean) == len(sd) == 3 and 0 not in sd):
            raise ValueError(size)
    except (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
        raise InputError(f"The configuration of {folder} is missing or damaged", "train again") from error
    if tuple(map(str, names)) != tuple(map(str, classes)):
        what = (
            f"Expected the weights of a network with these {len(classes)} classes in this order, got others in {folder}"
        )
        raise InputError(what, "name the weights that these classes came from")
    return Preprocessing(size, tuple(mean), tuple(sd))
