"""Training of a classifier on a folder of images, and its logits of the held-out images."""

import hashlib
import json
import math
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from pippin._runtime.disk import file_checksum, to_bytes, write_atomically, write_json
from pippin._runtime.errors import InputError
from pippin._runtime.provenance import TRAINING_RECORD, timestamp
from pippin._runtime.version import __version__
from pippin.images.training import Epoch, Options, choose_device
from pippin.images.training.folder import CACHE, WEIGHTS, Images, Pixels, TrainingRecord, batches, divide, list_images
from pippin.images.training.network import SCRATCH, Outputs, TorchNetwork, all_threads, augment, make_network

CHECKPOINT = "train.checkpoint.pt"
DECAY = 0.05  # weight decay of AdamW
WARM_UP = 0.05  # share of the training steps in which the learning rate rises
RATE, RATE_SCRATCH = 3e-4, 1e-3  # largest learning rate, with pretrained weights and from scratch

ProgressBar = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


def train(
    folder: Path | str,
    out: Path | str,
    options: Options | None = None,
    *,
    on_epoch: Callable[[Epoch], None] = print,
    bar: ProgressBar = lambda what, total: nullcontext(lambda more: None),
    cache: int = CACHE,
) -> TrainingRecord:
    """Train a classifier on a share of the images, and write its logits of the other images, which are held out.

    Writes `out`, and to the same folder `weights/` and `train.json`. A checkpoint is written after each epoch. From it,
    an interrupted run with equal images and options resumes, with the results of an uninterrupted run.

    Args:
        folder: folder with one sub-folder of images per class.
        out: the .npz file of the logits.
        options: options of the training.
        on_epoch: function that is called with the results of each epoch.
        bar: function of a name and a total that returns a context manager, which yields a function to report progress.
        cache: bytes of pixels to keep in memory, at most; if the images need more, they are read again in each epoch.

    Returns:
        The record of the training, with the logits.

    Raises:
        InputError: the images, options, weights or checkpoint are invalid.
    """
    options, folder, out = options or Options(), Path(folder), Path(out)
    device = torch.device(choose_device(options.device))
    if folder.resolve() in out.resolve().parents:
        raise InputError(f"Expected --out outside the folder of images, got {out}", "choose another place")
    if not out.parent.is_dir():
        raise InputError(f"Expected --out in a folder that exists, got {out}", f"make the folder {out.parent} first")
    images = list_images(folder)
    rows, held = divide(images, options.train_fraction, options.group == "photo", options.seed)
    with _reproducible(device, options.batch):
        with bar("reading images", len(images)) as advance:
            pixels = Pixels(images, options.size, cache, advance)
        checksum = images.checksum()
        network = make_network(options.weights, images.classes, options.size, options.seed)
        if options.features:
            network.last_layer()  # raise an error now, not after the training, if there are no features
        network.model.to(device, memory_format=torch.channels_last)
        rate = options.learning_rate or (RATE_SCRATCH if options.weights == SCRATCH else RATE)
        parameters = [p for p in network.model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=DECAY)
        session = _Session(network, optimizer, pixels, images, replace(options, learning_rate=rate))
        checkpoint = out.with_name(CHECKPOINT)
        identity = json.dumps([asdict(replace(options, device="auto")), checksum], sort_keys=True)
        run = hashlib.sha256(identity.encode()).hexdigest()
        epochs = session.restore(checkpoint, run)
        for number in range(len(epochs) + 1, options.epochs + 1):
            began = time.perf_counter()
            with bar(f"epoch {number}", len(rows)) as advance:
                loss = session.run_epoch(rows, number, advance)
            logits, _ = session.predict(held, options.batch, False)
            if not (math.isfinite(loss) and np.isfinite(logits).all()):
                what = f"Epoch {number} had no finite loss or logits"
                raise InputError(what, f"pass a --learning-rate below {rate:g}")
            accuracy = float(np.mean(logits.argmax(axis=1) == images.labels[held]))
            epochs.append(Epoch(number, options.epochs, loss, accuracy, time.perf_counter() - began))
            session.save_checkpoint(checkpoint, run, epochs)
            on_epoch(epochs[-1])
        session.network = network = replace(network, views=options.views)
        logits, features = session.predict(held, network.inference_batch(options.batch), options.features)
    files, weights = np.array(images.files), ""
    training_files = tuple(files[rows].tolist())
    held_out = (files[held], logits, images.labels[held])
    pictures = pixels.statistics[held], pixels.sides[held]
    trained = TrainingRecord(images.classes, training_files, *held_out, weights, features, *pictures, tuple(epochs))
    trained = replace(trained, views=options.views)
    write_trained(out, trained, session, checksum)
    for leftover in (checkpoint, *out.parent.glob(f".{CHECKPOINT}.*.tmp")):
        leftover.unlink(missing_ok=True)
    return trained


@dataclass
class _Session:
    """State of a training run: network, optimizer, images with their pixels, and options."""

    network: TorchNetwork
    optimizer: torch.optim.Optimizer
    pixels: Pixels
    images: Images
    options: Options

    def run_epoch(self, rows: NDArray[np.int64], number: int, advance: Callable[[int], None]) -> float:
        """Train once on each image of `rows`, in an order drawn by seed and epoch number; return the mean loss."""
        options, device = self.options, self.network.device
        rng = np.random.default_rng([options.seed, number])
        views = torch.Generator().manual_seed(int(rng.integers(2**62)))
        torch.manual_seed(int(rng.integers(2**62)))  # seed of dropout layers
        parts = batches(rng.permutation(rows), options.batch)
        step, steps = (number - 1) * len(parts), options.epochs * len(parts)
        bfloat16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
        self.network.model.train()
        total = torch.zeros((), device=device)
        for part, block in zip(parts, self._blocks(parts), strict=True):
            for group in self.optimizer.param_groups:
                group["lr"] = (options.learning_rate or 0.0) * _schedule(step, steps)
            labels = torch.from_numpy(self.images.labels[part]).to(device)
            self.optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=bfloat16):
                logits = self.network(augment(self.network.to_input(block), options.flips, views)).float()
                loss = functional.cross_entropy(logits, labels)
            loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
            self.optimizer.step()
            total += loss.detach() * len(part)
            step += 1
            advance(len(part))
        return float(total) / len(rows)

    def predict(self, rows: NDArray[np.int64], batch: int, features: bool) -> Outputs:
        """Compute logits of the images `rows`, and features if requested, without augmentation, in full precision."""
        self.network.model.eval()
        parts = [rows[start : start + batch] for start in range(0, len(rows), batch)]
        return self.network.outputs_of(self._blocks(parts), features)

    def restore(self, path: Path, run: str) -> list[Epoch]:
        """Restore network and optimizer from the checkpoint of an interrupted run.

        Return the results of the epochs in the checkpoint; [] if there is no checkpoint.
        """
        if not path.exists():
            return []
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
            known, epochs = state["run"], [Epoch(**epoch) for epoch in state["epochs"]]
        except Exception as error:  # torch raises many types of exceptions for a damaged file
            raise InputError(f"{path} is no checkpoint, or is damaged", "delete it to start again") from error
        if known != run:
            sentence = f"{path} belongs to another run (other images or options)"
            raise InputError(sentence, "delete it to start again, or choose another output folder")
        self.network.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimiser"])
        return epochs

    def save_checkpoint(self, path: Path, run: str, epochs: list[Epoch]) -> None:
        """Save network, optimizer and results after an epoch; random generators are seeded anew in each epoch."""
        state: dict[str, Any] = {"run": run, "epochs": [asdict(epoch) for epoch in epochs]}
        state |= {"model": self.network.model.state_dict(), "optimiser": self.optimizer.state_dict()}
        write_atomically(path, to_bytes(partial(torch.save, state)))

    def _blocks(self, parts: Sequence[NDArray[np.int64]]) -> Iterator[NDArray[np.uint8]]:
        """Yield the pixels of each batch of images, while the next batch is read in another thread."""
        with ThreadPoolExecutor(1) as pool:
            pending = pool.submit(self.pixels.batch, parts[0])
            for part in parts[1:]:
                block, pending = pending.result(), pool.submit(self.pixels.batch, part)
                yield block
            yield pending.result()


def _schedule(step: int, steps: int) -> float:
    """Return the factor of the learning rate at a step: linear warm-up times a decay by half a cosine."""
    return min((step + 1) / max(WARM_UP * steps, 1), 1) * (1 + math.cos(math.pi * step / steps)) / 2


@contextmanager
def _reproducible(device: torch.device, batch: int) -> Iterator[None]:
    """Use all threads and deterministic CUDA kernels in the `with` block; restore torch's random state at the end."""
    cuda = [torch.cuda.current_device()] if device.type == "cuda" else []
    deterministic = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True)
    try:
        with all_threads(), torch.random.fork_rng(devices=cuda), deterministic:
            yield
    except torch.cuda.OutOfMemoryError as error:
        sentence = f"The GPU has too little memory for {batch} images per step"
        raise InputError(sentence, "pass a smaller --batch or --size") from error


def write_trained(out: Path, trained: TrainingRecord, session: _Session, checksum: str) -> None:
    """Write weights/ (with the training record) and train.json; then the logits, whose file shows that all is done."""
    images = session.images
    session.network.save(out.with_name("weights"), session.options.size, trained)
    counts = np.bincount(images.labels, minlength=len(images.classes)).tolist()
    versions = {name: version(name) for name in ("numpy", "torch", "transformers", "pillow", "safetensors")}
    classes = dict(zip(images.classes, counts, strict=True))
    numbers = {"count": len(images), "train": len(trained.trained), "held_out": len(trained.files), "classes": classes}
    record: dict[str, Any] = {
        "options": asdict(session.options),
        "images": {"folder": str(images.root), "sha256": checksum, **numbers},
        "accuracy": trained.accuracy,
        "epochs": [asdict(epoch) for epoch in trained.epochs],
        "device": torch.cuda.get_device_name() if session.network.device.type == "cuda" else "cpu",
        "versions": {"python": platform.python_version(), "pippin": __version__} | versions,
        "finished": timestamp(),
    }
    names, groups = np.array(trained.classes), trained.groups
    labels = names[trained.labels]  # names, since indices are ambiguous if a class is called 3
    arrays: dict[str, Any] = {"logits": trained.logits, "labels": labels, "classes": names, "files": trained.files}
    if len(set(groups.tolist())) < len(groups):  # some photographs have several windows
        arrays["groups"] = groups
    if trained.features is not None:
        arrays["features"] = trained.features
    content = to_bytes(partial(np.savez_compressed, **arrays))
    weights = file_checksum(out.with_name("weights") / WEIGHTS)
    record["outputs"] = {"logits": hashlib.sha256(content).hexdigest(), "weights": weights}
    write_json(out.with_name(TRAINING_RECORD), record)
    write_atomically(out, content)
