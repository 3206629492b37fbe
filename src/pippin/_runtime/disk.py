"""Reading and writing; the only place of the core that touches the disk."""

import hashlib
import io
import json
import math
import os
import secrets
import zipfile
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

FORMAT = "pippin predictor"
VERSION = 2

_KEYS = {"score", "alpha", "threshold", "n_calibration", "n_classes", "classes", "calibration_scores"}
_INFINITE = {"inf": math.inf, "-inf": -math.inf}
_MAY_BE_INFINITE = {
    "threshold",
    "thresholds",
    "margin_threshold",
    "ip_threshold",
    "calibration_scores",
    "fold_scores",
}


def write_whole(path: "str | PathLike[str]", data: bytes) -> None:
    """Writes the file under another name and renames it, so that it is never seen half-written."""
    target = Path(path)
    draft = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with open(draft, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def write_predictor(path: "str | PathLike[str]", content: dict[str, Any], kind: str | None = None) -> None:
    """Writes the predictor's JSON file: version 1 for one threshold, version 2 for every other `kind`.

    Floats are written with as many digits as bring back the same bits; infinity, which
    JSON lacks, as the text "inf". The checksum is the SHA-256 of the content as JSON
    without spaces, its keys sorted.
    """
    content = {key: _encoded(value) for key, value in content.items()}
    if kind is not None:
        content = {"kind": kind, **content}
    whole = {"format": FORMAT, "version": 1 if kind is None else 2, "sha256": _checksum(content), "predictor": content}
    write_whole(path, json.dumps(whole, allow_nan=False).encode())


def read_predictor(path: "str | PathLike[str]") -> tuple[str | None, dict[str, Any]]:
    """The kind and the content that `write_predictor` was given, checked.

    Raises:
        ValueError: the file is damaged, was edited, is something else, or is newer.
    """
    text = Path(path).read_bytes()
    try:
        whole = json.loads(text, parse_constant=_refuse_constant)
        form, version = whole["format"], whole["version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(
            f"{path} is no predictor file, or is damaged or cut short: save the predictor again."
        ) from error
    if form != FORMAT:
        raise ValueError(f"{path} is not a predictor: expected the format {FORMAT!r}, got {form!r}.")
    if not isinstance(version, int) or version < 1:
        raise ValueError(f"{path} is damaged: expected a format version from 1 to {VERSION}, got {version!r}.")
    if version > VERSION:
        raise ValueError(
            f"{path} has format version {version}, but this pippin reads up to {VERSION}: upgrade pippin-conformal."
        )
    content = whole.get("predictor")
    whole_keys = isinstance(content, dict) and (set(content) == _KEYS if version == 1 else "kind" in content)
    if not whole_keys or not _is_sound(content, whole.get("sha256")):
        raise ValueError(
            f"{path} was edited or damaged after it was saved (its checksum differs): calibrate again and save."
        )
    kind = content.pop("kind", None)
    return kind, {key: _decoded(value) if key in _MAY_BE_INFINITE else value for key, value in content.items()}


class Checkpoint:
    """Finished splits on disk: `values[:, :done]` is filled at once from an earlier, stopped run.

    Without a path nothing is kept. A file of another experiment is refused, not overwritten.
    """

    def __init__(self, path: str | None, fingerprint: str, values: NDArray[np.float64]) -> None:
        self.path, self.fingerprint, self.values = path, fingerprint, values
        self.done = 0
        if path is None or not Path(path).exists():
            return
        try:
            with np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False) as kept:
                known, earlier = str(kept["fingerprint"]), kept["values"]
        except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} is no checkpoint, or is damaged: delete it to start anew.") from error
        if known != fingerprint:
            raise ValueError(
                f"{path} belongs to another run (other data, scores, alpha, fraction or seed): "
                "delete it or choose another output folder."
            )
        self.done = min(earlier.shape[1], values.shape[1])
        values[:, : self.done] = earlier[:, : self.done]

    def keep(self, done: int) -> None:
        """Notes that the first `done` splits are finished."""
        self.done = done
        if self.path is not None:
            buffer = io.BytesIO()
            np.savez(buffer, fingerprint=np.array(self.fingerprint), values=self.values[:, :done])
            write_whole(self.path, buffer.getvalue())


def _checksum(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _is_sound(content: dict[str, Any], checksum: object) -> bool:
    try:
        return checksum == _checksum(content)
    except ValueError:  # a number too large for a float
        return False


def _encoded(value: Any) -> Any:
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return [_encoded(v) for v in value] if isinstance(value, list) else value


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(v) for v in value]
    return _INFINITE.get(value, value) if isinstance(value, str) else value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
