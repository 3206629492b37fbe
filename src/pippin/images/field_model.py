"""A field model: a network, the reading of its images, a predictor of sets, and decisions, in one folder."""

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
from pippin.images.reading import crop_square, open_image, silence_pillow
from pippin.images.training.folder import TrainingRecord, read_training

PREDICTOR, DECIDER, MANIFEST = "predictor.json", "decider.json", "field.json"
FORMAT, VERSION = "pippin field model", 1


@dataclass(frozen=True, eq=False, repr=False)
class Look:
    """Result of a field model for one image, window by window: from the top left, row by row.

    Without windows the whole image is the only one.

    Attributes:
        image: the image, in RGB and upright.
        window: the side of a window in its pixels; None for the whole image.
        shape: numbers of rows and columns of windows.
        logits: a row per window, a column per class.
        sets: the set of each window.
        p_values: a row per window, a column per class.
        decisions: the action of each window; None where nothing is decided.
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
        """Action of every window; None where the model decides nothing."""
        return None if self.decisions is None else self.decisions.actions

    @property
    def certificates(self) -> Vector | None:
        """Utility certified for every action; −∞ where there is none."""
        return None if self.decisions is None else self.decisions.certificates

    @property
    def credibility(self) -> Vector:
        """Largest p-value of every window: small where it resembles no image of the calibration set."""
        return np.asarray(self.p_values.max(axis=1))

    def boxes(self) -> list[tuple[int, int, int, int]]:
        """Left, top, right and bottom of every window."""
        return _boxes(self.image.size, self.window)

    def records(self) -> list[dict[str, Any]]:
        """One record per window: row, column, set (most probable first), action, certificate, credibility."""
        records, credibility = [], self.credibility.tolist()
        for i, names in enumerate(self.sets.labels()):
            action, certificate = (None, None) if self.decisions is None else self.decisions[i]
            certificate = certificate if certificate is not None and np.isfinite(certificate) else None
            place = {"row": i // self.shape[1], "column": i % self.shape[1], "set": list(map(str, names))}
            records.append(place | {"action": action, "certificate": certificate, "credibility": credibility[i]})
        return records

    def draw(self) -> "Image.Image":
        """Draw the image with its windows: color by action or class, pattern by certainty, and a legend below."""
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
    """Everything from a photograph to sets and decisions, in one folder.

    Attributes:
        network: computes logits from pixels, in torch or in ONNX.
        size: the side in pixels of the network's images.
        training: the images that trained it, and its logits for those held out.
        predictor: computes the sets.
        decider: decides; None, if the sets do, or nothing.
        utility: worth of the actions: without a decider, the best action in the worst case over each set is
            taken.
        fallback: the action where a set is empty.
        window: the side of the windows that a photograph is cut into, in pixels; None takes whole images.
        graph: the network, predictor and decider as one ONNX graph; None without `with_onnx`.
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
        """Names of the actions; None where nothing is decided."""
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
        """Make a field model of parts that fit each other.

        Args:
            weights: the folder `weights` that `pippin train` wrote.
            predictor: a predictor calibrated on the logits that `train` wrote beside it, or its file.
            decider: a decider calibrated on them, or its file.
            utility: decides instead, by the worst case over each set; or its file.
            fallback: the action where a set is empty, with a utility.
            window: pixels of a window's side, as `prepare` cut them; None takes whole images.
            calibration: the .npz file of the calibration data, for more precise error messages.

        Raises:
            InputError: a part cannot be used, or does not fit the network; it is named.
        """
        folder = Path(weights)
        training = read_training(folder)
        conformal = predictor if isinstance(predictor, ConformalPredictor) else load(predictor)
        decides: Any = load(decider) if isinstance(decider, str | PathLike) else decider
        worth = Utility.read(utility) if isinstance(utility, str | PathLike) else utility
        _check_choices(decides, worth, fallback, window)
        for part, each in {"predictor": conformal, "decider": decides}.items():
            if each is not None:
                check_part(part, each, training, None if calibration is None else Path(calibration))
        if worth is not None:
            worth.of(training.classes)
        network, size = load_backend(folder, training)
        return cls(network, size, training, conformal, decides, worth, fallback, window)

    def with_onnx(self) -> "FieldModel":
        """Return the model with its network, sets and decisions in one ONNX graph, which runs without torch.

        The graph takes pixels as `pippin.images.reading` gives them. It has no sets where a predictor is sharpened.

        Raises:
            InputError: the network cannot be put into a graph, or gives other logits there.
        """
        if isinstance(self.network, OnnxNetwork):
            return replace(self, graph=self.network.graph)
        need("A field model in ONNX", "vision", "onnx", "onnxscript", "onnxruntime")
        heads = [head for head in (self.decider, self.predictor) if head is not None]
        return replace(self, graph=make_graph(self.network, self.size, self.training, heads))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the folder, whole or not at all; one that is there is replaced only by a model, never other files.

        Args:
            path: the folder.
        """
        folder = Path(path).absolute()
        if folder.exists() and not ((folder / MANIFEST).is_file() or (folder.is_dir() and not any(folder.iterdir()))):
            raise InputError(f"Expected a new folder or a field model's, but {folder} is something else", "rename it")
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
        """Read a folder that `save` wrote, every part checked against its checksum and against the others.

        Args:
            path: the folder.
            device: the device of the network, such as "cpu" or "cuda".

        Raises:
            InputError: a part is missing, damaged or of another model; it is named.
        """
        folder = Path(path)
        manifest = read_manifest(folder)
        utility = manifest["utility"]
        model = cls.make(
            folder / "weights",
            folder / PREDICTOR,
            decider=folder / DECIDER if (folder / DECIDER).is_file() else None,
            utility=None if utility is None else utility_from_content(utility, tuple(manifest["classes"])),
            fallback=manifest["fallback"],
            window=manifest["window"],
        )
        if not isinstance(model.network, OnnxNetwork):
            model.network.model.to(device)
        return replace(model, graph=(folder / GRAPH).read_bytes() if (folder / GRAPH).is_file() else None)

    def look(self, image: Any) -> Look:
        """Compute sets, p-values and decisions of every window of an image.

        Args:
            image: a path, a Pillow image, a NumPy array (height, width[, 3]) or a torch tensor (3, height, width).

        Raises:
            InputError: it cannot be read, could be read in several ways, or is smaller than a window.
        """
        with silence_pillow():
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
        seed = int.from_bytes(hashlib.sha256(pixels.tobytes()).digest()[:8])  # for a randomized score, by the image
        return Look(opened, side, shape, logits, *self.judge(logits, seed, features))

    def logits(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Compute the network's logits of pixels (n, 3, size, size).

        Args:
            pixels: of 0 to 255.
        """
        return self.network.outputs(pixels, False)[0]

    def judge(
        self, logits: NDArray[np.float32], seed: int = 0, features: NDArray[np.float32] | None = None
    ) -> tuple[PredictionSets, NDArray[np.float64], Decisions | None]:
        """Compute sets, p-values of every class, and decisions, from logits (n, K).

        Args:
            logits: of this network.
            seed: for a randomized score.
            features: the input of the network's last layer, where the predictor needs it.
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
        """Describe the model and its guarantee in a few sentences."""
        where = "whole images" if self.window is None else f"windows of {self.window} × {self.window}"
        acting = "" if self.decider is None else f" {self.decider.describe()}"
        if self.utility is not None:
            acting = f" Actions, the best in the worst case over each set: {', '.join(self.utility.actions)}."
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
        sentence = "Expected a utility together with a fallback, the action where a set is empty"
        raise InputError(sentence, "pass both or neither")
    if utility is not None and fallback not in utility.actions:
        raise InputError(f"Expected the fallback among {', '.join(utility.actions)}, got {fallback!r}", "choose one")
    if window is not None and window < 1:
        raise InputError(f"Expected a window of at least one pixel, got {window}", "pass for example 224")


# The manifest: checksums of all parts


def write_manifest(folder: Path, content: dict[str, Any]) -> None:
    """Write field.json, with the checksum of every other file of the folder."""
    parts = {name: file_checksum(folder / name) for name in _part_names(folder)}
    write_json(folder / MANIFEST, {"format": FORMAT, "version": VERSION, **content, "parts": parts})


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read field.json, and verify every part.

    Raises:
        InputError: it is no field model, it needs a newer pippin, or a part is missing, strange or damaged.
    """
    try:
        content = json.loads((folder / MANIFEST).read_bytes())
        form, version, parts = content["format"], content["version"], dict(content["parts"])
        window = [content[key] for key in ("classes", "utility", "fallback", "window")][-1]
        if form != FORMAT or not isinstance(version, int):
            raise ValueError(form)
        if isinstance(window, bool) or not (window is None or (isinstance(window, int) and window >= 1)):
            raise ValueError(window)
    except (OSError, ValueError, KeyError, TypeError) as error:
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
    if strange := sorted(set(_part_names(folder)) - set(parts)):
        raise InputError(f"The part {strange[0]} is not of the model {folder}", "take it out, or make the model again")
    return dict(content)


def _part_names(folder: Path) -> list[str]:
    paths = (path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)
    return sorted(path.relative_to(folder).as_posix() for path in paths)
