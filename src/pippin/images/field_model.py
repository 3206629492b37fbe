"""Field models, which compute prediction sets and decisions for photographs.

A field model is one folder with a network, its image preprocessing, a conformal predictor, and optionally a decider or
utility.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.serialization import load
from pippin._conformal.sets import PredictionSets
from pippin._decisions.decider import Decider
from pippin._decisions.decisions import Decisions, decide
from pippin._decisions.utility import Utility, utility_from_content
from pippin._runtime.arrays import Vector
from pippin._runtime.disk import atomic_folder, file_checksum, write_atomically, write_json
from pippin._runtime.errors import InputError, need
from pippin._runtime.version import __version__
from pippin._validation.rows import Rows, softmax
from pippin.images.backends import GRAPH, Backend, OnnxNetwork, load_backend, make_graph
from pippin.images.provenance import check_part
from pippin.images.reading import crop_square, open_image
from pippin.images.training.folder import TrainingRecord, read_training

PREDICTOR, DECIDER, MANIFEST = "predictor.json", "decider.json", "field.json"
FORMAT, VERSION = "pippin field model", 1


@dataclass(frozen=True, eq=False, repr=False)
class Look:
    """Results of a field model for one image: a prediction set, p-values and an action for each window.

    Windows are listed row by row from the top left. If the model has no windows, the whole image counts as one.

    Attributes:
        image: the image in RGB, rotated by its EXIF orientation.
        window: the side of a window in pixels; None for the whole image.
        shape: the number of rows and the number of columns of windows.
        logits: the logits of the network, a row per window and a column per class.
        sets: the prediction set of each window.
        p_values: the conformal p-values, a row per window and a column per class.
        decisions: the action of each window with its certificate; None for a model without decider and utility.
    """

    image: "Image.Image"
    window: int | None
    shape: tuple[int, int]
    logits: NDArray[np.float32]
    sets: PredictionSets
    p_values: Vector
    decisions: Decisions | None

    @property
    def actions(self) -> NDArray[Any] | None:
        """Action of each window; None for a model without decider and utility."""
        return None if self.decisions is None else self.decisions.actions

    @property
    def certificates(self) -> Vector | None:
        """Certificate of each window's action, a lower bound of its utility; −∞ for an action without certificate."""
        return None if self.decisions is None else self.decisions.certificates

    @property
    def credibility(self) -> Vector:
        """Largest p-value of each window; small for a window that is unlike the calibration images of every class."""
        return np.asarray(self.p_values.max(axis=1))

    def boxes(self) -> list[tuple[int, int, int, int]]:
        """Compute the position of each window in the image.

        Returns:
            Left, top, right and bottom in pixels, for each window.
        """
        return _boxes(self.image.size, self.window)

    def records(self) -> list[dict[str, Any]]:
        """Convert the results to a list of dictionaries, which can be written as JSON.

        Returns:
            For each window its row, column, class names in the set (most probable first), action, certificate and
            credibility.
        """
        records, credibility = [], self.credibility.tolist()
        for i, names in enumerate(self.sets.labels()):
            action, certificate = (None, None) if self.decisions is None else self.decisions[i]
            certificate = certificate if certificate is not None and np.isfinite(certificate) else None
            place = {"row": i // self.shape[1], "column": i % self.shape[1], "set": list(map(str, names))}
            records.append(place | {"action": action, "certificate": certificate, "credibility": credibility[i]})
        return records

    def draw(self) -> "Image.Image":
        """Draw the image with its windows: colors show actions or classes, hatching shows set sizes.

        Returns:
            A Pillow image.
        """
        from pippin.images.drawing import draw_look

        return draw_look(self)

    def __len__(self) -> int:
        return len(self.sets)

    def __repr__(self) -> str:
        width, height = self.image.size
        counts = {} if self.decisions is None else self.decisions.counts()
        singles = int((self.sets.sizes == 1).sum())
        parts = [f"{len(self)} windows", f"{singles} singletons", *(f"{n} {action}" for action, n in counts.items())]
        return f"Look({width} × {height}: {', '.join(parts)})"


@dataclass(frozen=True, eq=False, repr=False)
class FieldModel:
    """Model that computes prediction sets and decisions for photographs, saved as one folder.

    `FieldModel.load("MODEL").look("photo.jpg").sets` are the prediction sets of the windows of a photograph under a
    model that `pippin field make` wrote.

    Attributes:
        network: the network that computes logits from pixels, in torch or ONNX.
        size: the side of the network's input images in pixels.
        training: the record of the training: names of the training images, and logits of the held-out images.
        predictor: the conformal predictor that computes the prediction sets.
        decider: the decider that chooses actions; or None.
        utility: in place of a decider, a utility: the action has the best worst case over the prediction set; or None.
        fallback: the action for an empty set, if there is a utility.
        window: the side of the windows of a photograph in pixels; None for whole images.
        graph: network, predictor and decider as one ONNX graph, made by `with_onnx`; or None.
    """

    network: Backend
    size: int
    training: TrainingRecord
    predictor: ConformalPredictor
    decider: Decider | None = None
    utility: Utility | None = None
    fallback: str | None = None
    window: int | None = None
    graph: bytes | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the logits."""
        return self.training.classes

    @property
    def actions(self) -> tuple[str, ...] | None:
        """Names of the actions; None for a model without decider and utility."""
        utility = self.utility if self.decider is None else self.decider.utility
        return None if utility is None else utility.actions

    @classmethod
    def make(
        cls,
        weights: str | PathLike[str],
        predictor: "ConformalPredictor | str | PathLike[str]",
        *,
        decider: "Decider | str | PathLike[str] | None" = None,
        utility: "Utility | str | PathLike[str] | None" = None,
        fallback: str | None = None,
        window: int | None = None,
        calibration: str | PathLike[str] | None = None,
    ) -> "FieldModel":
        """Make a field model from parts, and check that they fit each other.

        Args:
            weights: the folder `weights` that `pippin train` wrote.
            predictor: a predictor calibrated on the logits that `train` wrote with these weights, or its file.
            decider: a decider calibrated on these logits, or its file.
            utility: in place of a decider, a utility or its file: the action has the best worst case over each set.
            fallback: the action for an empty set; needed with a utility.
            window: the side of the windows in pixels, as for `pippin prepare`; None for whole images.
            calibration: the .npz file of the calibration data, for more precise error messages.

        Returns:
            The field model.

        Raises:
            InputError: a part is invalid or does not fit the network; the message names the part.
        """
        folder = Path(weights)
        training = read_training(folder)
        conformal = predictor if isinstance(predictor, ConformalPredictor) else load(predictor)
        loaded_decider: Any = load(decider) if isinstance(decider, str | PathLike) else decider
        parsed = Utility.read(utility) if isinstance(utility, str | PathLike) else utility
        _check_choices(loaded_decider, parsed, fallback, window)
        for part, each in {"predictor": conformal, "decider": loaded_decider}.items():
            if each is not None:
                check_part(part, each, training, None if calibration is None else Path(calibration))
        if parsed is not None:
            parsed.of(training.classes)
        network, size = load_backend(folder, training)
        return cls(network, size, training, conformal, loaded_decider, parsed, fallback, window)

    def with_onnx(self) -> "FieldModel":
        """Export network, predictor and decider as one ONNX graph, with which the model runs without torch.

        The input of the graph is the pixels of preprocessed images. If the predictor has a sharpener, which cannot be
        exported, the graph computes no sets.

        Returns:
            A copy of the model with the `graph`.

        Raises:
            InputError: the network cannot be exported, or the graph computes other logits than torch.
        """
        if isinstance(self.network, OnnxNetwork):
            return replace(self, graph=self.network.graph)
        need("A field model in ONNX", "vision", "onnx", "onnxscript", "onnxruntime")
        heads = [head for head in (self.decider, self.predictor) if head is not None]
        return replace(self, graph=make_graph(self.network, self.size, self.training, heads))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a folder atomically; replace an existing field model, but no other files.

        Args:
            path: the folder.

        Raises:
            InputError: the folder contains files and is not a field model.
        """
        folder = Path(path).absolute()
        if folder.exists() and not ((folder / MANIFEST).is_file() or (folder.is_dir() and not any(folder.iterdir()))):
            raise InputError(f"Expected a new folder or that of a field model, got {folder}", "choose another name")
        training = self.training
        reading = {"size": self.size, "mean": list(self.network.mean), "sd": list(self.network.sd)}
        utility = None if self.utility is None else self.utility.content()
        content: dict[str, Any] = {"classes": list(self.classes), "reading": reading, "window": self.window}
        content |= {"utility": utility, "fallback": self.fallback, "trained_on": len(training.trained)}
        content |= {"calibrated_on": self.predictor.n_calibration, "promises": self.describe(), "pippin": __version__}
        with atomic_folder(folder) as draft:
            self.network.save(draft / "weights", self.size, training)
            self.predictor.save(draft / PREDICTOR)
            if self.decider is not None:
                self.decider.save(draft / DECIDER)
            if self.graph is not None:
                write_atomically(draft / GRAPH, self.graph)
            write_manifest(draft, content)

    @classmethod
    def load(cls, path: str | PathLike[str], *, device: str = "cpu") -> "FieldModel":
        """Read a folder that `save` wrote, and check that its parts are undamaged and fit each other.

        Args:
            path: the folder.
            device: the device of the network, such as "cpu" or "cuda".

        Returns:
            The field model.

        Raises:
            InputError: a part is missing, damaged or of another model; the message names the part.
        """
        folder = Path(path)
        manifest = read_manifest(folder)
        choices: dict[str, Any] = {"fallback": manifest["fallback"], "window": manifest["window"]}
        if (folder / DECIDER).is_file():
            choices["decider"] = folder / DECIDER
        if manifest["utility"] is not None:
            choices["utility"] = utility_from_content(manifest["utility"], tuple(manifest["classes"]))
        model = cls.make(folder / "weights", folder / PREDICTOR, **choices)
        if not isinstance(model.network, OnnxNetwork):
            model.network.model.to(device)
        return replace(model, graph=(folder / GRAPH).read_bytes() if (folder / GRAPH).is_file() else None)

    def look(self, image: Any) -> Look:
        """Compute prediction sets, p-values and decisions for the windows of an image.

        Args:
            image: a path, a Pillow image, a NumPy array (height, width[, 3]) or a torch tensor (3, height, width).

        Returns:
            The results, which can be drawn.

        Raises:
            InputError: the image cannot be read, has a color mode or array type without a unique meaning, or is smaller
                than a window.
        """
        opened = open_image(image)
        width, height = opened.size
        side = self.window
        shape = (1, 1) if side is None else (height // side, width // side)
        if not all(shape):
            sentence = f"The image is {width} × {height}, smaller than a window of {side} × {side}"
            raise InputError(sentence, "leave it out")
        crops = [opened.crop(box) if side else opened for box in _boxes(opened.size, side)]
        pixels = np.stack([crop_square(crop, self.size) for crop in crops])
        logits, features = self.network.outputs(pixels, "features" in self.predictor.takes)
        # The seed depends on the pixels, so that a randomized score gives equal sets for equal images.
        seed = int.from_bytes(hashlib.sha256(pixels.tobytes()).digest()[:8])
        return Look(opened, side, shape, logits, *self.judge(logits, seed, features))

    def logits(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Compute the logits of preprocessed images.

        Args:
            pixels: array (n, 3, size, size) with values from 0 to 255.

        Returns:
            Array (n, K).
        """
        return self.network.outputs(pixels, False)[0]

    def judge(
        self, logits: NDArray[np.float32], seed: int = 0, features: NDArray[np.float32] | None = None
    ) -> tuple[PredictionSets, NDArray[np.float64], Decisions | None]:
        """Compute prediction sets, p-values and decisions from logits of the network.

        Args:
            logits: the logits, (n, K).
            seed: the seed of a randomized score.
            features: the inputs of the network's last layer, if the predictor takes features.

        Returns:
            The sets, the p-values (n, K), and the decisions; these are None for a model without decider and utility.
        """
        predictor: Any = self.predictor
        probs = Rows(softmax(logits), checked=True)
        more = {name: value for name, value in (("seed", seed), ("features", features)) if name in predictor.takes}
        sets = predictor.predict(probs, **more)
        p_values = np.asarray(predictor.p_values(probs, **more))
        if self.decider is not None:
            return sets, p_values, self.decider.decide(probs)
        decisions = None if self.utility is None else decide(sets, self.utility, fallback=self.fallback)
        return sets, p_values, decisions

    def describe(self) -> str:
        """Describe the model and its guarantee in a few sentences.

        Returns:
            The text.
        """
        where = "whole images" if self.window is None else f"windows of {self.window} × {self.window}"
        acting = "" if self.decider is None else f" {self.decider.describe()}"
        if self.utility is not None:
            acting = f" Actions with the best worst case over each set: {', '.join(self.utility.actions)}."
        return f"{len(self.classes):,} classes in {where}. {self.predictor.describe()}{acting}"

    def __repr__(self) -> str:
        return f"FieldModel({self.describe()})"


def _boxes(size: tuple[int, int], window: int | None) -> list[tuple[int, int, int, int]]:
    if window is None:
        return [(0, 0, *size)]
    width, height = (side - side % window for side in size)
    return [(x, y, x + window, y + window) for y in range(0, height, window) for x in range(0, width, window)]


def _check_choices(decider: Any, utility: Utility | None, fallback: str | None, window: int | None) -> None:
    if decider is not None and not isinstance(decider, Decider):
        raise InputError(f"Expected a decider, got {decider!r}", "pass one of pippin.decisions.calibrate")
    if decider is not None and utility is not None:
        raise InputError("Expected a decider or a utility, got both", "choose one of them")
    if (utility is None) != (fallback is None):
        sentence = "Expected a utility together with a fallback, the action for an empty set"
        raise InputError(sentence, "pass both or neither")
    if utility is not None and fallback not in utility.actions:
        raise InputError(f"Expected the fallback among {', '.join(utility.actions)}, got {fallback!r}", "choose one")
    if window is not None and window < 1:
        raise InputError(f"Expected a window of at least one pixel, got {window}", "pass for example 224")


# The manifest field.json: settings, and checksums of the other files


def write_manifest(folder: Path, content: dict[str, Any]) -> None:
    """Write `content` to the manifest field.json, with the checksums of all other files of the folder."""
    parts = {name: file_checksum(folder / name) for name in _part_names(folder)}
    write_json(folder / MANIFEST, {"format": FORMAT, "version": VERSION, **content, "parts": parts})


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest field.json of a field model, and verify the checksums of the other files.

    Raises:
        InputError: the folder is no field model, needs a newer pippin, or has missing, unexpected or damaged files.
    """
    try:
        content = json.loads((folder / MANIFEST).read_bytes())
        form, version, parts = content["format"], content["version"], dict(content["parts"])
        window = [content[key] for key in ("classes", "utility", "fallback", "window")][-1]
        if form != FORMAT or not isinstance(version, int):
            raise ValueError(form)
        if isinstance(window, bool) or not (window is None or (isinstance(window, int) and window >= 1)):
            raise ValueError(window)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        remedy = "make it again with pippin field make"
        raise InputError(f"{folder} is no field model, or its {MANIFEST} is damaged", remedy) from error
    if version > VERSION:
        raise InputError(f"{folder} has version {version}, but this pippin reads {VERSION}", "upgrade pippin-conformal")
    for name, checksum in parts.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
            raise InputError(f"The part {name} of {folder} is missing", "make the model again")
        if file_checksum(path) != checksum:
            raise InputError(f"The part {name} of {folder} is damaged or of another model", "make the model again")
    if unexpected := sorted(set(_part_names(folder)) - set(parts)):
        raise InputError(f"The part {unexpected[0]} is not of the model {folder}", "remove it, or make the model again")
    return dict(content)


def _part_names(folder: Path) -> list[str]:
    """List the files of a folder except the manifest; list links too, since a link to a folder is no valid part."""
    paths = (path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    return sorted(path.relative_to(folder).as_posix() for path in paths if path != folder / MANIFEST)
