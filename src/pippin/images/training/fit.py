"""Training a classifier on a folder of images, and its logits for the images held out."""

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from pippin._runtime.errors import InputError
from pippin.images.reading import without_doubts
from pippin.images.said import Said, together
from pippin.images.training.augmentation import augmented
from pippin.images.training.folder import CACHE, Images, Pixels, batches, divide, list_images
from pippin.images.training.network import (
    SCRATCH,
    Network,
    all_threads,
    as_input,
    at_once,
    last_layer,
    make_network,
    parameters,
)
from pippin.images.training.options import Options
from pippin.images.training.outcome import Checkpoint, Epoch, Made, Trained, check_place, run_id, write_trained

__all__ = ["Epoch", "Options", "Trained", "train"]

DECAY = 0.05  # of the weights, as AdamW has it
WARM_UP = 0.05  # share of the steps in which the learning rate rises
RATE, RATE_SCRATCH = 3e-4, 1e-3

Bar = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


@contextmanager
def _no_bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    yield lambda more: None


def train(
    folder: Path | str,
    out: Path | str,
    options: Options | None = None,
    *,
    tell: Callable[[Epoch], None] = print,
    bar: Bar = _no_bar,
    cache: int = CACHE,
) -> Trained:
    """Trains on a share of the images and writes the logits of the others to `out`, an .npz file.

    Beside it go `weights/` and `train.json`, and while it runs a checkpoint after every
    epoch; a run that was stopped, with the same images and options, goes on from there
    and ends as if it had not been.

    Args:
        folder: one sub-folder per class.
        tell: called after every epoch.
        bar: called with a name and a total, gives a context manager of a function to tell progress.
        cache: bytes of pixels to keep in memory; more are read again in every epoch.

    Raises:
        InputError: the images, options, weights or checkpoint cannot be used; says why and what to do.
    """
    options, folder, out = options or Options(), Path(folder), Path(out)
    device = _device(options.device)
    check_place(folder, out)
    images = list_images(folder)
    rows, held = divide(images, options.train_fraction, options.group == "photo", options.seed)
    with without_doubts(), _settled(device, options.batch):
        with bar("reading images", len(images)) as advance:
            pixels = Pixels(images, options.size, cache, advance)
        checksum = images.checksum()
        network = make_network(options.weights, images.classes, options.size, options.seed)
        if options.features:
            last_layer(network.model)  # rather now than after the last epoch
        network.model.to(device, memory_format=torch.channels_last)
        rate = options.learning_rate or (RATE_SCRATCH if options.weights == SCRATCH else RATE)
        optimiser = torch.optim.AdamW(parameters(network), lr=rate, weight_decay=DECAY)
        session = _Session(network, optimiser, pixels, images.labels, replace(options, learning_rate=rate), device)
        checkpoint = Checkpoint(out, run_id(options, checksum), network.model, optimiser)
        for number in range(len(checkpoint.epochs) + 1, options.epochs + 1):
            began = time.perf_counter()
            with bar(f"epoch {number}", len(rows)) as advance:
                loss = _epoch(session, rows, number, advance)
            logits = predict(network, pixels, held, options.batch, device).logits
            if not (math.isfinite(loss) and np.isfinite(logits).all()):
                raise InputError(f"Epoch {number} gave no finite numbers", f"pass a --learning-rate below {rate:g}")
            accuracy = float(np.mean(logits.argmax(axis=1) == images.labels[held]))
            epoch = Epoch(number, options.epochs, loss, accuracy, time.perf_counter() - began)
            checkpoint.keep(epoch)
            tell(epoch)
        said = predict(network, pixels, held, at_once(device, options.batch), device, options.features)
    trained = _trained(images, held, said, checkpoint.epochs)
    write_trained(out, trained, network, Made(images, checksum, len(rows), session.options, _named(device)))
    checkpoint.remove()
    return trained


def predict(
    network: Network, pixels: Pixels, rows: NDArray[np.int64], batch: int, device: torch.device, features: bool = False
) -> Said:
    """Logits of the images in these rows, as they are and in full precision; and their features, if asked for."""
    network.model.eval()
    with torch.inference_mode():
        pieces = [rows[start : start + batch] for start in range(0, len(rows), batch)]
        return together([network.said(block, features) for block in _blocks(pixels, pieces, device)])


class _Session(NamedTuple):
    """What training works with; the options tell the learning rate."""

    network: Network
    optimiser: torch.optim.Optimizer
    pixels: Pixels
    labels: NDArray[np.int64]
    options: Options
    device: torch.device


def _epoch(session: _Session, rows: NDArray[np.int64], number: int, advance: Callable[[int], None]) -> float:
    """One pass over the images that train, in an order drawn from seed and epoch; the mean loss."""
    network, optimiser, pixels, every_label, options, device = session
    rate = options.learning_rate or 0.0
    rng = np.random.default_rng([options.seed, number])
    views = torch.Generator().manual_seed(int(rng.integers(2**62)))
    torch.manual_seed(int(rng.integers(2**62)))  # for a network that draws, as in dropout
    pieces = batches(rng.permutation(rows), options.batch)
    step, steps = (number - 1) * len(pieces), options.epochs * len(pieces)
    network.model.train()
    total = torch.zeros((), device=device)
    for piece, block in zip(pieces, _blocks(pixels, pieces, device), strict=True):
        for group in optimiser.param_groups:
            group["lr"] = rate * _schedule(step, steps)
        labels = torch.from_numpy(every_label[piece]).to(device)
        optimiser.zero_grad(set_to_none=True)
        with _mixed(device):
            loss = functional.cross_entropy(network(augmented(block, options.flips, views)).float(), labels)
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
        optimiser.step()
        total += loss.detach() * len(piece)
        step += 1
        advance(len(piece))
    return float(total) / len(rows)


def _schedule(step: int, steps: int) -> float:
    """The learning rate's share: up in a line, then down in half a cosine."""
    return min((step + 1) / max(WARM_UP * steps, 1), 1) * (1 + math.cos(math.pi * step / steps)) / 2


def _blocks(pixels: Pixels, pieces: Any, device: torch.device) -> Iterator[torch.Tensor]:
    """Pixels between 0 and 1 on the device, piece by piece; the next one is read meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(pixels.batch, pieces[0])
        for following in [*pieces[1:], None]:
            block = coming.result()
            if following is not None:
                coming = pool.submit(pixels.batch, following)
            yield as_input(block, device)


def _device(asked: str) -> torch.device:
    if asked == "cuda" and not torch.cuda.is_available():
        raise InputError("Expected a CUDA device for --device cuda, but torch finds none", "pass --device auto or cpu")
    return torch.device("cuda" if asked != "cpu" and torch.cuda.is_available() else "cpu")


def _mixed(device: torch.device) -> AbstractContextManager[Any]:
    if device.type == "cuda" and torch.cuda.is_bf16_supported():
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return nullcontext()


@contextmanager
def _settled(device: torch.device, batch: int) -> Iterator[None]:
    """As many threads as may be used, repeatable kernels, and the caller's random numbers left alone."""
    cuda = [torch.cuda.current_device()] if device.type == "cuda" else []
    try:
        with (
            all_threads(),
            torch.random.fork_rng(devices=cuda),
            torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True),
        ):
            yield
    except torch.cuda.OutOfMemoryError as error:
        raise InputError(
            f"The graphics card's memory is too small for {batch} images at once", "pass a smaller --batch or --size"
        ) from error


def _named(device: torch.device) -> str:
    return torch.cuda.get_device_name() if device.type == "cuda" else "cpu"


def _trained(images: Images, held: NDArray[np.int64], said: Said, epochs: list[Epoch]) -> Trained:
    files = np.array(images.files)[held]
    groups = images.groups()[held]
    return Trained(said.logits, images.labels[held], images.classes, files, groups, tuple(epochs), said.features)
