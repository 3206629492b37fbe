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

from pippin._conformal.card import Card, markdown_page
from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.serialization import content_checksum, load
from pippin._conformal.sets import PredictionSets
from pippin._decisions.decider import Decider
from pippin._decisions.decisions import Decisions, decide
from pippin._decisions.utility import Utility, utility_from_content
from pippin._runtime.arrays import Flags, Vector
from pippin._runtime.disk import atomic_folder, file_checksum, write_atomically, write_json
from pippin._runtime.errors import InputError, need
from pippin._runtime.provenance import (
    TRAINING_RECORD,
    Provenance,
    provenance_from_content,
    timestamp,
    training_checksum,
)
from pippin._runtime.version import __version__
from pippin._validation.rows import Rows, softmax
from pippin.images.backends import GRAPH, Backend, OnnxNetwork, Runtime, load_backend, make_graph
from pippin.images.novelty import LEVEL, NoveltyTest, novelty_test
from pippin.images.provenance import check_part, field_cards
from pippin.images.reading import crop_square, open_image, picture_statistics
from pippin.images.training.folder import TrainingRecord, read_training
from pippin.online import Alarm, Monitor

PREDICTOR, DECIDER, MANIFEST, CARD = "predictor.json", "decider.json", "field.json", "CARD.md"
FORMAT, VERSION = "pippin field model", 1
MOST_PIXELS = 1 << 30  # pixels of all windows of an image after resizing, at most


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
        decisions: the action of each window with its certificate (utility guaranteed with probability 1 − alpha); None
            for a model without decider and utility.
        strangeness: how much each window differs from the held-out images, a number that is larger for stranger
            windows; None without novelty test.
        novelty: the p-value of each window in the novelty test; None without it.
        novel: True for each window whose p-value is at most the level; its action is then the careful one, which has
            the best worst case over all classes.
        alarm: True if all actions are the careful one after an alarm of a monitor.
    """

    image: "Image.Image"
    window: int | None
    shape: tuple[int, int]
    logits: NDArray[np.float32]
    sets: PredictionSets
    p_values: Vector
    decisions: Decisions | None
    strangeness: Vector | None = None
    novelty: Vector | None = None
    novel: Flags | None = None
    alarm: bool = False

    @property
    def actions(self) -> NDArray[Any] | None:
        """Action of each window; None for a model without decider and utility."""
        return None if self.decisions is None else self.decisions.actions

    @property
    def certificates(self) -> Vector | None:
        """Certificate (guaranteed utility) of each window's action; −∞ for an action without one.

        None for a model without decider and utility.
        """
        return None if self.decisions is None else self.decisions.certificates

    @property
    def credibility(self) -> Vector:
        """Largest p-value of each window over the classes.

        It does not detect windows without any known class; `novelty` does. Since some calibration images are wrongly
        classified, it is hardly ever below the error rate of the network.
        """
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
            For each window its row, column, class names in the set (most probable first), action, certificate,
            credibility, novelty (the p-value), and in `careful` the reason for a careful action, "novel" or "alarm".
        """
        records, credibility = [], self.credibility.tolist()
        for i, names in enumerate(self.sets.labels()):
            action, certificate = (None, None) if self.decisions is None else self.decisions[i]
            certificate = certificate if certificate is not None and np.isfinite(certificate) else None
            place = {"row": i // self.shape[1], "column": i % self.shape[1], "set": list(map(str, names))}
            novelty = None if self.novelty is None else float(self.novelty[i])
            careful = "alarm" if self.alarm else "novel" if self.novel is not None and self.novel[i] else None
            tests = {"credibility": credibility[i], "novelty": novelty, "careful": careful}
            records.append(place | {"action": action, "certificate": certificate} | tests)
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

    A photograph is divided into square windows. `FieldModel.load("MODEL").look("photo.jpg").sets` are the prediction
    sets of these windows, for a model that the command `pippin field make` wrote to the folder MODEL.

    Attributes:
        network: the network that computes logits from pixels, in torch or ONNX.
        size: the side of the network's input images in pixels.
        training: names of the training images, and logits of the images that were held out from training.
        predictor: the conformal predictor that computes the prediction sets.
        decider: the decider that selects actions; None if there are no actions, or if they follow from `utility`.
        utility: the utility of each action, for a model without decider: the selected action has the largest worst-case
            utility over the prediction set. None for other models.
        fallback: the action for an empty set, if there is a utility.
        window: the side of the windows of a photograph in pixels; None for whole images.
        graph: network, predictor and decider as one ONNX graph, exported by `with_onnx`; None before.
        novelty: the level of the novelty test, 0 without test. A window whose p-value is at most the level gets the
            careful action, which has the best worst case over all classes.
        record: the file train.json of the training; None if it is not known.
        provenance: date, author, command and versions of a model that was read from a folder; otherwise None.
        checksum: SHA-256 that identifies a model that was read from a folder, without its provenance.
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
    novelty: float = 0.0
    record: bytes | None = None
    provenance: Provenance | None = None
    checksum: str = ""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the logits."""
        return self.training.classes

    @property
    def actions(self) -> tuple[str, ...] | None:
        """Names of the actions; None for a model without decider and utility."""
        utility = self.utility if self.decider is None else self.decider.utility
        return None if utility is None else utility.actions

    @property
    def careful(self) -> str | None:
        """Action with the best worst case over all classes; None for a model without decider and utility."""
        utility = self.utility if self.decider is None else self.decider.utility
        return None if utility is None else utility.actions[utility.policy(self.classes).safe]

    @property
    def sides(self) -> tuple[int, int] | None:
        """Range (smallest, largest) of the shorter sides of the held-out images in pixels; None if not recorded."""
        sides = self.training.sides
        return None if sides is None or not len(sides) else (int(sides.min()), int(sides.max()))

    @property
    def is_calibrated(self) -> bool:
        """False if the windows have another size than the images on which the model was calibrated."""
        return self.window is None or self.sides is None or self.sides[0] <= self.window <= self.sides[1]

    @property
    def novelty_test(self) -> NoveltyTest | None:
        """Novelty test by the held-out images; None if the training has no picture statistics, or too few images."""
        return novelty_test(self.training)

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
        novelty: float | None = None,
        runtime: Runtime = "auto",
    ) -> "FieldModel":
        """Create a field model from its parts, and check that they fit each other.

        Args:
            weights: the folder `weights` that `pippin train` wrote.
            predictor: a predictor calibrated on the logits that `train` wrote with these weights, or its file.
            decider: a decider calibrated on these logits, or its file.
            utility: a utility or its file, instead of a decider: the selected action then has the largest worst-case
                utility over the prediction set.
            fallback: the action for an empty set; needed with a utility.
            window: the side of the windows in pixels, as for `pippin prepare`; None for whole images. It must be the
                size of the images of the training.
            calibration: the .npz file of the calibration data, for more precise error messages.
            novelty: the level of the novelty test; 0 for no test; by default 0.02, if the training has enough held-out
                images.
            runtime: "onnxruntime" to run the ONNX graph next to the weights; "auto" for torch if it is installed.

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
        network, size = load_backend(folder, training, runtime)
        known = training_checksum(folder.parent, "weights", training.weights)
        record = (folder.parent / TRAINING_RECORD).read_bytes() if known else None
        model = cls(network, size, training, conformal, loaded_decider, parsed, fallback, window, record=record)
        model._check_window()
        for part, each in {"predictor": conformal, "decider": loaded_decider}.items():
            if each is not None and "features" in each.takes:
                model._check_features(f"the {part}")
        return model.with_novelty(novelty)

    def with_onnx(self) -> "FieldModel":
        """Export network, predictor and decider as one ONNX graph, with which the model runs without torch.

        The input of the graph is the pixels of preprocessed images. A predictor or decider that cannot be exported is
        left out of the graph, and computed from its logits.

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

    def with_novelty(self, level: float | None) -> "FieldModel":
        """Set the level of the novelty test.

        Args:
            level: the significance level, the probability that a window like those of calibration counts as novel;
                0 for no test; None for 0.02, or no test if the training has too few held-out images.

        Returns:
            A copy of the model with this level.

        Raises:
            InputError: the level is not at least 0 and below 1, or no p-value can be that small.
        """
        is_number = isinstance(level, int | float | np.number) and not isinstance(level, bool)
        if level is not None and not (is_number and 0 <= level < 1):
            raise InputError(f"Expected a level of novelty of at least 0 and below 1, got {level!r}", "pass 0.02")
        test = self.novelty_test
        smallest = 1.0 if test is None else test.smallest
        if level is None:
            level = LEVEL if smallest <= LEVEL else 0.0
        if 0 < level < smallest:
            if test is None:
                what = "Expected a training with picture statistics of enough held-out images for a novelty test"
                raise InputError(what, "train again with this version and more images, or pass 0 for no test")
            what = f"Expected a level of novelty of at least {smallest:.2g}, the smallest p-value, got {level:g}"
            raise InputError(what, "raise it, or pass 0 for no test")
        if level and test is not None and test.takes_features:
            self._check_features("the novelty test")
        return replace(self, novelty=float(level))

    def save(self, path: str | PathLike[str], *, by: str = "", command: str = "") -> None:
        """Write the model to a folder atomically; replace an existing field model, but no other files.

        The file CARD.md in the folder states the guarantees and the provenance of the model.

        Args:
            path: the folder.
            by: the person or system responsible, for the provenance.
            command: the command that made the model, for the provenance.

        Raises:
            InputError: the folder contains files and is not a field model.
        """
        folder = Path(path).absolute()
        if folder.exists() and not ((folder / MANIFEST).is_file() or (folder.is_dir() and not any(folder.iterdir()))):
            raise InputError(f"Expected a new folder or that of a field model, got {folder}", "choose another name")
        training = "" if self.record is None else hashlib.sha256(self.record).hexdigest()
        provenance = Provenance({}, timestamp(), by, command, training)
        with atomic_folder(folder) as draft:
            self.network.save(draft / "weights", self.size, self.training)
            self.predictor.save(draft / PREDICTOR)
            if self.decider is not None:
                self.decider.save(draft / DECIDER)
            if self.graph is not None:
                write_atomically(draft / GRAPH, self.graph)
            if self.record is not None:
                write_atomically(draft / TRAINING_RECORD, self.record)
            saved = replace(self, provenance=provenance, checksum=self._identity(draft / "weights"))
            write_atomically(draft / CARD, markdown_page(folder.name, saved.cards()).encode())
            write_manifest(draft, saved._content())

    def _content(self) -> dict[str, Any]:
        """Return the content of the manifest, without the checksums of the files."""
        training = self.training
        reading = {"size": self.size, "mean": list(self.network.mean), "sd": list(self.network.sd)}
        utility = None if self.utility is None else self.utility.content()
        content: dict[str, Any] = {"classes": list(self.classes), "reading": reading, "window": self.window}
        content |= {"novelty": self.novelty, "careful": self.careful}
        content |= {"utility": utility, "fallback": self.fallback, "trained_on": len(training.trained)}
        content |= {"calibrated_on": self.predictor.n_calibration, "promises": self.describe(), "pippin": __version__}
        if self.provenance is not None:
            entries = self.provenance.content()
            del entries["data"]  # in the training record and in the provenance of predictor and decider
            content |= {"provenance": entries, "checksum": self.checksum}
        return content

    def _identity(self, weights: Path) -> str:
        """Compute the SHA-256 of network, predictor, decider and settings, without provenance such as dates."""
        content = replace(self, provenance=None)._content()
        settings = {key: value for key, value in content.items() if key not in ("promises", "pippin")}
        parts = {name: file_checksum(weights / name) for name in _part_names(weights)}
        parts |= {name: part.checksum for name, part in ((PREDICTOR, self.predictor), (DECIDER, self.decider)) if part}
        return content_checksum(settings | {"parts": parts})

    def cards(self) -> dict[str, Card]:
        """Answer the questions of an assessor about the model, its prediction sets and its decisions.

        Returns:
            The answers by question, in order, for each of these parts by title.
        """
        return field_cards(self._content(), self.training, self.record, self.predictor, self.decider)

    @classmethod
    def load(cls, path: str | PathLike[str], *, device: str = "cpu", runtime: Runtime = "auto") -> "FieldModel":
        """Read a folder that `save` wrote, and check that its parts are undamaged and fit each other.

        Args:
            path: the folder.
            device: the device of the network, such as "cpu" or "cuda".
            runtime: "onnxruntime" to run the ONNX graph, on the CPU, even if torch is installed; "auto" for torch if it
                is installed.

        Returns:
            The field model.

        Raises:
            InputError: a part is missing, damaged or of another model; the message names the part.
        """
        folder = Path(path)
        manifest = read_manifest(folder)
        choices: dict[str, Any] = {"fallback": manifest["fallback"], "window": manifest["window"]}
        choices |= {"novelty": manifest.get("novelty", 0.0), "runtime": runtime}
        if (folder / DECIDER).is_file():
            choices["decider"] = folder / DECIDER
        if manifest["utility"] is not None:
            try:
                choices["utility"] = utility_from_content(manifest["utility"], tuple(manifest["classes"]))
            except InputError as error:
                raise InputError(f"The {MANIFEST} of {folder} has no sound utility", "make the model again") from error
        model = cls.make(folder / "weights", folder / PREDICTOR, **choices)
        if not isinstance(model.network, OnnxNetwork):
            model.network.model.to(device)
        graph = (folder / GRAPH).read_bytes() if (folder / GRAPH).is_file() else None
        if "provenance" not in manifest:  # a folder of an earlier version
            return replace(model, graph=graph)
        provenance = provenance_from_content({"data": {}} | manifest["provenance"])
        return replace(model, graph=graph, provenance=provenance, checksum=manifest["checksum"])

    def look(self, image: Any) -> Look:
        """Compute prediction sets, p-values and decisions for the windows of an image.

        Args:
            image: a path, the bytes of an image file, a Pillow image, a NumPy array (height, width[, 3]) or a torch
                tensor (3, height, width). The colors are red, green, blue; OpenCV has blue, green, red, so pass
                `frame[..., ::-1]`.

        Returns:
            The results, which can be drawn.

        Raises:
            InputError: the image cannot be read, has a color mode or array type without a unique meaning, or is smaller
                than a window.
        """
        opened = open_image(image)
        shape, pixels = self.cut(opened)
        return self.judge_windows(opened, shape, pixels, *self.outputs(pixels))

    def cut(self, image: "Image.Image") -> tuple[tuple[int, int], NDArray[np.uint8]]:
        """Cut an RGB image into windows, and resize them to the size of the network.

        Args:
            image: the image.

        Returns:
            The number of rows and of columns of windows, and the pixels (n, 3, size, size).

        Raises:
            InputError: the image is smaller than a window.
        """
        width, height = image.size
        side = self.window
        shape = (1, 1) if side is None else (height // side, width // side)
        if not all(shape):
            sentence = f"The image is {width} × {height}, smaller than a window of {side} × {side}"
            raise InputError(sentence, "leave it out")
        if (n := shape[0] * shape[1]) * self.size**2 > MOST_PIXELS:
            sentence = f"The image has {n:,} windows of {side} × {side}, too many to compute at once"
            raise InputError(sentence, "cut it into parts, or choose larger windows")
        crops = [image.crop(box) if side else image for box in _boxes(image.size, side)]
        return shape, np.stack([crop_square(crop, self.size) for crop in crops])

    def outputs(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Compute the logits of windows, and the features if a part of the model takes them.

        Args:
            pixels: the windows, (n, 3, size, size).

        Returns:
            Logits (n, K), and features (n, M) or None.
        """
        tested = self.novelty > 0 and self.novelty_test is not None and self.novelty_test.takes_features
        used = any("features" in part.takes for part in (self.predictor, self.decider) if part is not None)
        return self.network.outputs(pixels, tested or used)

    def judge_windows(
        self,
        image: "Image.Image",
        shape: tuple[int, int],
        pixels: NDArray[np.uint8],
        logits: NDArray[np.float32],
        features: NDArray[np.float32] | None,
    ) -> Look:
        """Compute the results for windows from the outputs of the network.

        Args:
            image: the image.
            shape: the number of rows and of columns of windows.
            pixels: the windows, (n, 3, size, size).
            logits: the logits, (n, K).
            features: the features, (n, M), if the predictor or the novelty test takes them.

        Returns:
            The results.
        """
        # The seed depends on the pixels, so that a randomized score gives equal sets for equal images.
        seed = int.from_bytes(hashlib.sha256(pixels.tobytes()).digest()[:8])
        look = Look(image, self.window, shape, logits, *self.judge(logits, seed, features))
        if self.novelty == 0 or self.novelty_test is None:
            return look
        given = features if self.novelty_test.takes_features else None
        strangeness = self.novelty_test.strangeness(logits, given, picture_statistics(pixels))
        p_values = self.novelty_test.p_values(strangeness)
        novel: Flags = p_values <= self.novelty
        decisions = self._careful_decisions(look.decisions, novel)
        tests: dict[str, Any] = {"strangeness": strangeness, "novelty": p_values, "novel": novel}
        return replace(look, sets=look.sets.flagged(novel), decisions=decisions, **tests)

    def stop_acting(self, look: Look) -> Look:
        """Replace all actions by the careful one (the action with the best worst case), as after an alarm of a monitor.

        Args:
            look: the results of this model for an image.

        Returns:
            The results with the careful action for every window, and `alarm` True.
        """
        every = np.ones(len(look), dtype=bool)
        return replace(look, decisions=self._careful_decisions(look.decisions, every), alarm=True)

    def monitor(
        self, delta: float | None = None, *, mean_time: float | None = None, seed: int | None = None
    ) -> Monitor:
        """Make a monitor of the stream of photographs, calibrated on the held-out images of the training.

        With a novelty test, the monitor ranks the strangeness of windows, else 1 − max p. So a stream that differs from
        the training from its first photograph on raises an alarm. One held-out image per photograph is the reference.

        Args:
            delta: probability of a false alarm over the whole life of the monitor; 0.01 by default.
            mean_time: mean number of photographs between two false alarms, instead of delta.
            seed: seed of the randomized p-values.

        Returns:
            The monitor, for `observe`.
        """
        reference: Any
        if self.novelty > 0 and self.novelty_test is not None:
            reference = self.novelty_test.one_per_unit()
        else:
            order = np.random.default_rng(1).permutation(len(self.training.logits))
            first = np.unique(self.training.groups[order], return_index=True)[1]
            reference = softmax(self.training.logits[order[first]])
        return Monitor(self.predictor, delta, mean_time=mean_time, reference=reference, seed=seed)

    def observe(self, monitor: Monitor, look: Look) -> Alarm:
        """Update a monitor by one window of an image, since windows of one photograph are dependent.

        The window is chosen by a hash of the logits.

        Args:
            monitor: a monitor that `monitor` made.
            look: the results of this model for the image.

        Returns:
            The state of the monitor after the image.
        """
        window = int.from_bytes(hashlib.sha256(look.logits.tobytes()).digest()[:8]) % len(look)
        if monitor.takes_scores:
            if look.strangeness is None:
                raise InputError("Expected the monitor of a model without novelty test, got one with", "make a new one")
            return monitor.update(look.strangeness[window])
        return monitor.update(softmax(look.logits[window][None])[0])

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
            features: the inputs of the network's last layer, if the predictor or decider takes features.

        Returns:
            The sets, the p-values (n, K), and the decisions; these are None for a model without decider and utility.
        """
        predictor: Any = self.predictor
        decider: Any = self.decider
        probs, inputs = Rows(softmax(logits), checked=True), {"seed": seed, "features": features}
        more = {name: inputs[name] for name in inputs if name in predictor.takes}
        sets = predictor.predict(probs, **more)
        p_values = np.asarray(predictor.p_values(probs, **more))
        if decider is not None:
            return (
                sets,
                p_values,
                decider.decide(probs, **{name: inputs[name] for name in inputs if name in decider.takes}),
            )
        decisions = None if self.utility is None else decide(sets, self.utility, fallback=self.fallback)
        return sets, p_values, decisions

    def describe(self) -> str:
        """Describe the model and its guarantee in a few sentences.

        Returns:
            The text.
        """
        where = "whole images" if self.window is None else f"windows of {self.window} × {self.window}"
        seen = ", by the mean logits of eight flips and turns" if self.training.views else ""
        what = f"{len(self.classes):,} classes in {where}{seen}"
        acting = "" if self.decider is None else f" {self.decider.describe()}"
        if self.utility is not None:
            acting = f" Actions with the best worst case over each set: {', '.join(self.utility.actions)}."
        tested = ""
        if self.novelty > 0:
            then = "are marked" if self.careful is None else f"get the action {self.careful}"
            tested = f" Windows with a p-value of novelty of at most {self.novelty:g} {then}."
        if not self.is_calibrated:
            return f"{what}, but {self._sides_in_words()}, so sets and actions have no guarantee.{tested}"
        return f"{what}. {self.predictor.describe()}{acting}{tested}"

    def _sides_in_words(self) -> str:
        least, most = self.sides or (0, 0)
        sides = f"{least} × {most}" if least == most else f"a shorter side of {least} to {most}"
        return f"the images of the training and the calibration have {sides} pixels"

    def _check_window(self) -> None:
        """Raise an InputError if the windows have another size than the images of the training."""
        if not self.is_calibrated and self.sides is not None:
            what = f"Expected windows of the size that was calibrated, got {self.window}, but {self._sides_in_words()}"
            raise InputError(what, f"pass {self.sides[0]}, or train on windows of {self.window}")

    def _check_features(self, user: str) -> None:
        """Raise an InputError if the network does not compute the features that a part of the model takes."""
        if not self.network.has_features:
            what = f"Expected a network that computes its features for {user}, but the part {GRAPH} does not"
            raise InputError(what, "make the model again with --onnx, or install torch")

    def _careful_decisions(self, decisions: Decisions | None, where: Flags) -> Decisions | None:
        """Replace the actions of windows marked in `where` by the careful one (best worst case), without certificates.

        A certificate is a guaranteed utility.
        """
        if decisions is None or self.careful is None:
            return None
        codes = np.where(where, decisions.names.index(self.careful), decisions.codes).astype(decisions.codes.dtype)
        return replace(decisions, codes=codes, certificates=np.where(where, -np.inf, decisions.certificates))

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
    whole = {"format": FORMAT, "version": VERSION, **content, "parts": parts}
    whole.pop("sha256", None)
    write_json(folder / MANIFEST, whole | {"sha256": content_checksum(whole)})


def read_cards(folder: Path) -> dict[str, Card]:
    """Read the cards of the field model in a folder, by title; its network is not loaded.

    Raises:
        InputError: the folder is no field model, or parts are missing or damaged.
    """
    manifest, path = read_manifest(folder), folder / TRAINING_RECORD
    decider = load(folder / DECIDER) if (folder / DECIDER).is_file() else None
    record = path.read_bytes() if path.is_file() else None
    return field_cards(manifest, read_training(folder / "weights"), record, load(folder / PREDICTOR), decider)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest field.json of a field model, and verify the checksums of the other files.

    Raises:
        InputError: the folder is no field model, needs a newer pippin, or has missing, unexpected or damaged files.
    """
    try:
        content = json.loads((folder / MANIFEST).read_bytes())
        form, version, parts = content["format"], content["version"], dict(content["parts"])
        classes, _, fallback, window = (content[key] for key in ("classes", "utility", "fallback", "window"))
        novelty = content.get("novelty", 0.0)
        if not all(isinstance(text, str) for text in (*classes, *parts, *parts.values(), fallback or "")):
            raise ValueError(parts)
        if not (isinstance(novelty, float) and 0 <= novelty < 1):
            raise ValueError(novelty)
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
    checksum = content.pop("sha256", None)  # None in a folder of an earlier version
    if checksum != content_checksum(content) and (checksum is not None or "provenance" in content):
        what = f"The {MANIFEST} of {folder} was edited or damaged after it was saved (its checksum differs)"
        raise InputError(what, "make the model again")
    return dict(content)


def _part_names(folder: Path) -> list[str]:
    """List files and links in a folder, except the manifest; links are listed so that the caller can refuse them."""
    paths = (path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    return sorted(path.relative_to(folder).as_posix() for path in paths if path != folder / MANIFEST)
