"""A field model: a network, how its images are read, what makes sets of its logits, and what acts on them."""

import hashlib
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.loading import load
from pippin._conformal.protocol import ConformalPredictor
from pippin._conformal.sets import PredictionSets
from pippin._decisions.decider import Decider
from pippin._decisions.files import utility_of
from pippin._decisions.results import Decisions
from pippin._decisions.utility import Utility
from pippin._decisions.worst_case import decide
from pippin._runtime.disk import whole_folder, write_whole
from pippin._runtime.errors import InputError
from pippin._runtime.extras import need
from pippin._runtime.version import __version__
from pippin._validation.rows import Rows, softmax
from pippin.images.field.belonging import check_calibration, check_classes, check_kind
from pippin.images.field.folder import MANIFEST, read_manifest, write_manifest
from pippin.images.field.look import Look
from pippin.images.field.seeing import GRAPH, OnnxNetwork, Seer, seeing
from pippin.images.reading import open_image, squared, without_doubts
from pippin.images.said import Said
from pippin.images.training.record import Training, read_training

PREDICTOR, DECIDER = "predictor.json", "decider.json"

Place = str | PathLike[str]


@dataclass(frozen=True, eq=False, repr=False)
class FieldModel:
    """Everything from a photograph to sets and decisions, in one folder.

    Attributes:
        network: what turns pixels into logits, in torch or in ONNX.
        size: the side in pixels of what the network sees.
        training: what it was trained on, and how images are read.
        predictor: what makes sets.
        decider: what decides; None, if sets do, or nothing.
        utility: what actions are worth: without a decider, the best action in the worst case over each set is
            taken.
        fallback: the action where a set is empty.
        window: the side of the windows that a photograph is cut into, in pixels; None takes whole images.
        graph: the network and what follows it in ONNX, if somebody has asked for it.
    """

    network: Seer
    size: int
    training: Training
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
        weights: Place,
        predictor: "ConformalPredictor | Place",
        *,
        decider: "Decider | Place | None" = None,
        utility: "Utility | Place | None" = None,
        fallback: str | None = None,
        window: int | None = None,
        calibration: Place | None = None,
    ) -> "FieldModel":
        """A field model of parts that belong together.

        Args:
            weights: the folder `weights` that `pippin train` wrote.
            predictor: what `calibrate` gave on the logits that `train` wrote beside it, or its file.
            decider: what `calibrate_decisions` gave on them, or its file; decides what to do.
            utility: decides instead, by the worst case over each set; or its file.
            fallback: the action where a set is empty, with a utility.
            window: pixels of a window's side, as `prepare` cut them; None takes whole images.
            calibration: the .npz file that calibrated the predictor, where it is to be told what is wrong with it.

        Raises:
            InputError: a part cannot be used, or does not belong to the network; it is named.
        """
        folder = Path(weights)
        training = read_training(folder)
        given = predictor if isinstance(predictor, ConformalPredictor) else load(predictor)
        acting: Any = load(decider) if isinstance(decider, str | PathLike) else decider
        worth = Utility.read(utility) if isinstance(utility, str | PathLike) else utility
        _check_choices(acting, worth, fallback, window)
        for part, one in {"predictor": given, "decider": acting}.items():
            if one is not None:
                check_kind(one)
                check_classes(part, one.classes, training)
                check_calibration(part, one, training, None if calibration is None else Path(calibration))
        if worth is not None:
            worth.of(training.classes)
        network, size = seeing(folder, training)
        return cls(network, size, training, given, acting, worth, fallback, window)

    def with_onnx(self) -> "FieldModel":
        """The same with its network, sets and decisions in one ONNX graph, which runs where there is no torch.

        The graph takes pixels as `pippin.images.reading` gives them. It has no sets where a predictor is sharpened.

        Raises:
            InputError: the network cannot be put into a graph, or gives other logits there.
        """
        if isinstance(self.network, OnnxNetwork):
            return replace(self, graph=self.network.graph)
        need("A field model in ONNX", "vision", "onnx", "onnxscript", "onnxruntime")
        from pippin.images.field.graph import make_graph

        network: Any = self.network
        heads = [head for head in (self.decider, self.predictor) if head is not None]
        return replace(self, graph=make_graph(network, self.size, self.training, heads))

    def save(self, path: Place) -> None:
        """Writes the folder, whole or not at all; one that is there is replaced only by a model, never other files.

        Args:
            path: the folder.
        """
        folder = Path(path).absolute()
        if folder.exists() and not ((folder / MANIFEST).is_file() or (folder.is_dir() and not any(folder.iterdir()))):
            raise InputError(
                f"Expected a new folder or that of a field model, but {folder} is something else", "rename it"
            )
        with whole_folder(folder) as draft:
            self._write(draft)

    @classmethod
    def load(cls, path: Place, *, device: str = "cpu") -> "FieldModel":
        """Reads a folder that `save` wrote, every part checked against its checksum and against the others.

        Args:
            path: the folder.
            device: where the network is to work, such as "cpu" or "cuda".

        Raises:
            InputError: a part is missing, damaged or of another model; it is named.
        """
        folder = Path(path)
        told = read_manifest(folder)
        utility = None if told["utility"] is None else utility_of(told["utility"], tuple(told["classes"]))
        decider = folder / DECIDER if (folder / DECIDER).is_file() else None
        made = cls.make(
            folder / "weights",
            folder / PREDICTOR,
            decider=decider,
            utility=utility,
            fallback=told["fallback"],
            window=told["window"],
        )
        if not isinstance(made.network, OnnxNetwork):
            network: Any = made.network
            network.model.to(device)
        graph = folder / GRAPH
        return replace(made, graph=graph.read_bytes() if graph.is_file() else None)

    def look(self, image: Any) -> Look:
        """Sets, p-values and decisions of every window of an image.

        Args:
            image: a path, a Pillow image, a NumPy array (height, width[, 3]) or a torch tensor (3, height, width).

        Raises:
            InputError: it cannot be read, could be read in several ways, or is smaller than a window.
        """
        with without_doubts():
            opened = open_image(image)
        width, height = opened.size
        side = self.window
        shape = (1, 1) if side is None else (height // side, width // side)
        if not all(shape):
            raise InputError(
                f"The image is {width} × {height}, smaller than a window of {side} × {side}", "leave it out"
            )
        blank = Look(opened, side, shape, np.empty((0, 0), np.float32), _NO_SETS, np.empty((0, 0)), None)
        pixels = np.stack([squared(opened.crop(box) if side else opened, self.size) for box in blank.boxes()])
        said = self._said(pixels)
        sets, p_values, decisions = self.judge(said.logits, _seed(pixels), said.features)
        return Look(opened, side, shape, said.logits, sets, p_values, decisions)

    def logits(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """What the network says of pixels (n, 3, size, size).

        Args:
            pixels: of 0 to 255.
        """
        return self._said(pixels).logits

    def judge(
        self, logits: NDArray[np.float32], seed: int = 0, features: NDArray[np.float32] | None = None
    ) -> tuple[PredictionSets, NDArray[np.float64], Decisions | None]:
        """Sets, p-values of every class, and decisions, from logits (n, K).

        Args:
            logits: of this network.
            seed: for a randomised score.
            features: the input of the network's last layer, where the predictor was shown it.
        """
        predictor: Any = self.predictor
        probs = Rows(softmax(logits), checked=True)
        beside = {name: value for name, value in (("seed", seed), ("features", features)) if name in predictor.takes}
        sets = predictor.predict(probs, **beside)
        p_values = np.asarray(predictor.p_values(probs, **beside))
        if self.decider is not None:
            return sets, p_values, self.decider.decide(probs)
        decisions = None if self.utility is None else decide(sets, self.utility, fallback=self.fallback)
        return sets, p_values, decisions

    def describe(self) -> str:
        """What it is and what it promises, in a few sentences."""
        where = "whole images" if self.window is None else f"windows of {self.window} × {self.window}"
        acting = "" if self.decider is None else f" {self.decider.describe()}"
        if self.utility is not None:
            acting = f" Actions, the best in the worst case over each set: {', '.join(self.utility.actions)}."
        return f"{len(self.classes):,} classes in {where}. {self.predictor.describe()}{acting}"

    def __repr__(self) -> str:
        return f"FieldModel({self.describe()})"

    def _said(self, pixels: NDArray[np.uint8]) -> Said:
        """What the network says, with the features that the predictor may want."""
        return self.network.says(pixels, "features" in self.predictor.takes)

    def _write(self, folder: Path) -> None:
        self.network.save(
            folder / "weights", self.size, lambda checksum: replace(self.training, weights=checksum).encoded()
        )
        self.predictor.save(folder / PREDICTOR)
        if self.decider is not None:
            self.decider.save(folder / DECIDER)
        if self.graph is not None:
            write_whole(folder / GRAPH, self.graph)
        content = {
            "classes": list(self.classes),
            "reading": {"size": self.size, "mean": list(self.network.mean), "sd": list(self.network.sd)},
            "window": self.window,
            "utility": None if self.utility is None else self.utility.content(),
            "fallback": self.fallback,
            "trained_on": len(self.training.trained),
            "calibrated_on": self.predictor.n_calibration,
            "promises": self.describe(),
            "pippin": __version__,
        }
        write_manifest(folder, content)


_NO_SETS = PredictionSets(np.empty(0, np.int64), np.empty(0, np.int32), range(2))


def _check_choices(decider: Any, utility: Utility | None, fallback: str | None, window: int | None) -> None:
    if decider is not None and not isinstance(decider, Decider):
        raise InputError(f"Expected a decider, got {decider!r}", "calibrate one with calibrate_decisions or --utility")
    if decider is not None and utility is not None:
        raise InputError("Expected a decider or a utility, got both", "choose one of them")
    if (utility is None) != (fallback is None):
        raise InputError(
            "Expected a utility together with a fallback, the action where a set is empty", "pass both or neither"
        )
    if utility is not None and fallback not in utility.actions:
        raise InputError(f"Expected the fallback among {', '.join(utility.actions)}, got {fallback!r}", "choose one")
    if window is not None and window < 1:
        raise InputError(f"Expected a window of at least one pixel, got {window}", "pass for example 224")


def _seed(pixels: NDArray[np.uint8]) -> int:
    """The same image draws the same, for a randomised score."""
    return int.from_bytes(hashlib.sha256(pixels.tobytes()).digest()[:8])
