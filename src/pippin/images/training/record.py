"""`weights/training.npz`: which images trained a network, and its logits for those held out."""

import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.errors import InputError

TRAINING, WEIGHTS = "training.npz", "model.safetensors"


@dataclass(frozen=True, eq=False, repr=False)
class Training:
    """What a network was trained on, by the names of files, and what it says of the files held out.

    `weights` is the SHA-256 of the weights that say so; `features` the input of its last layer, where it was kept.
    """

    classes: tuple[str, ...]
    trained: tuple[str, ...]
    files: NDArray[np.str_]
    logits: NDArray[np.float32]
    labels: NDArray[np.int64]
    weights: str
    features: NDArray[np.float32] | None = None

    def encoded(self) -> bytes:
        """The bytes of its file."""
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {
            "classes": np.array(self.classes),
            "trained": np.array(self.trained, dtype=np.str_),
            "files": self.files,
            "logits": self.logits,
            "labels": self.labels,
            "weights": np.array(self.weights),
        }
        if self.features is not None:
            arrays["features"] = self.features
        np.savez_compressed(buffer, **arrays)
        return buffer.getvalue()


def read_training(folder: Path) -> Training:
    """What `pippin train` noted beside these weights.

    Raises:
        InputError: nothing is noted there, it is damaged, or it is of other weights.
    """
    path = folder / TRAINING
    if not path.is_file():
        raise InputError(
            f"Expected weights that pippin train wrote, but {folder} holds no {TRAINING}",
            "train again, or name the folder weights beside its logits",
        )
    try:
        with np.load(path, allow_pickle=False) as kept:
            found = Training(
                tuple(kept["classes"].tolist()),
                tuple(kept["trained"].tolist()),
                kept["files"],
                kept["logits"],
                kept["labels"],
                str(kept["weights"]),
                kept["features"] if "features" in kept.files else None,
            )
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is damaged", "train again") from error
    if found.weights != file_checksum(folder / WEIGHTS):
        raise InputError(f"{folder / WEIGHTS} are not the weights that {path} speaks of", "train again")
    return found


def file_checksum(path: Path) -> str:
    """SHA-256 of a file; of nothing, where there is none."""
    return hashlib.sha256(path.read_bytes() if path.is_file() else b"").hexdigest()
