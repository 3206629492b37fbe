"""What training leaves behind: a checkpoint while it lasts; logits, weights and a record in the end."""

import hashlib
import io
import json
import platform
import time
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pippin._runtime.disk import write_whole
from pippin._runtime.errors import InputError
from pippin._runtime.version import __version__
from pippin.images.training.folder import Images
from pippin.images.training.network import Network
from pippin.images.training.options import Options
from pippin.images.training.record import Training

CHECKPOINT = "train.checkpoint.pt"


@dataclass(frozen=True)
class Epoch:
    """One pass over the images that train: their mean loss, and the accuracy on those held out."""

    number: int
    of: int
    loss: float
    accuracy: float
    seconds: float

    def __str__(self) -> str:
        return (
            f"epoch {self.number:>{len(str(self.of))}} of {self.of}: loss {self.loss:.4f}, "
            f"held-out accuracy {self.accuracy:.4f}, {self.seconds:.1f} s"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Trained:
    """The images held out, with the classifier's logits, and how training went."""

    logits: NDArray[np.float32]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    files: NDArray[np.str_]
    groups: NDArray[np.str_]
    epochs: tuple[Epoch, ...]
    features: NDArray[np.float32] | None = None

    @property
    def accuracy(self) -> float:
        """The share of images held out whose most probable class is the true one."""
        return float(np.mean(self.logits.argmax(axis=1) == self.labels))


class Checkpoint:
    """The state after the last finished epoch; made from the file of a stopped run, it sets network and optimiser."""

    def __init__(self, out: Path, run: str, model: Any, optimiser: torch.optim.Optimizer) -> None:
        self._path, self._run, self._model, self._optimiser = out.with_name(CHECKPOINT), run, model, optimiser
        self.epochs: list[Epoch] = []
        self._clean()
        if not self._path.exists():
            return
        try:
            state = torch.load(self._path, map_location="cpu", weights_only=True)
            known, epochs = state["run"], [Epoch(**epoch) for epoch in state["epochs"]]
        except Exception as error:  # whatever a damaged file makes torch raise
            raise InputError(f"{self._path} is no checkpoint, or is damaged", "delete it to start anew") from error
        if known != run:
            raise InputError(
                f"{self._path} belongs to another run (other images or options)",
                "delete it to start anew, or choose another output folder",
            )
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        self.epochs = epochs

    def keep(self, epoch: Epoch) -> None:
        """Notes that the epoch is finished. Order and views of the next are drawn from its number alone."""
        self.epochs.append(epoch)
        buffer = io.BytesIO()
        state = {
            "run": self._run,
            "epochs": [asdict(epoch) for epoch in self.epochs],
            "model": self._model.state_dict(),
            "optimiser": self._optimiser.state_dict(),
        }
        torch.save(state, buffer)
        write_whole(self._path, buffer.getvalue())

    def remove(self) -> None:
        """Once the results are written."""
        self._path.unlink(missing_ok=True)
        self._clean()

    def _clean(self) -> None:
        for left in self._path.parent.glob(f".{CHECKPOINT}.*.tmp"):
            left.unlink(missing_ok=True)


def run_id(options: Options, checksum: str) -> str:
    """What tells a run from others: its images and options, but not its device."""
    told = json.dumps([asdict(replace(options, device="auto")), checksum], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


def check_place(folder: Path, out: Path) -> None:
    """Raises a ValueError where the results would be taken for images, or cannot be put."""
    if out.suffix != ".npz":
        raise InputError(f"Expected --out to end in .npz, got {out}", "rename it")
    if folder.resolve() in out.resolve().parents:
        raise InputError(f"Expected --out outside the folder of images, got {out}", "choose another place")
    if not out.parent.is_dir():
        raise InputError(f"Expected --out in a folder that exists, got {out}", f"make the folder {out.parent} first")


class Made(NamedTuple):
    """What a classifier was made from: images and their checksum, how many of them trained, options, and where."""

    images: Images
    checksum: str
    n_train: int
    options: Options
    device: str


def write_trained(out: Path, trained: Trained, network: Network, made: Made) -> None:
    """Writes weights/ (with what was held out), train.json and, last, the logits: where these are, all is."""
    images = made.images
    held = set(trained.files.tolist())
    seen = tuple(file for file in images.files if file not in held)

    def record_of(weights: str) -> bytes:
        said = trained.logits, trained.labels, weights, trained.features
        return Training(trained.classes, seen, trained.files, *said).encoded()

    network.save(out.with_name("weights"), made.options.size, record_of)
    counts = np.bincount(images.labels, minlength=len(images.classes))
    record = {
        "options": asdict(made.options),
        "images": {
            "folder": str(images.root),
            "sha256": made.checksum,
            "count": len(images),
            "train": made.n_train,
            "held_out": len(trained.files),
            "classes": dict(zip(images.classes, counts.tolist(), strict=True)),
        },
        "accuracy": trained.accuracy,
        "epochs": [asdict(epoch) for epoch in trained.epochs],
        "device": made.device,
        "versions": {"python": platform.python_version(), "pippin": __version__} | _versions(),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    write_whole(
        out.with_name("train.json"), json.dumps(record, indent=2, ensure_ascii=False).encode(errors="backslashreplace")
    )
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {
        "logits": trained.logits,
        "labels": np.array(trained.classes)[trained.labels],  # names: a class may be called 3
        "classes": np.array(trained.classes),
        "files": trained.files,
    }
    if len(set(trained.groups.tolist())) < len(trained.groups):  # else each image is a photograph of its own
        arrays["groups"] = trained.groups
    if trained.features is not None:
        arrays["features"] = trained.features
    np.savez_compressed(buffer, **arrays)
    write_whole(out, buffer.getvalue())


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("numpy", "torch", "transformers", "pillow", "safetensors")}
