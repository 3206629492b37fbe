"""From a folder of labelled images to a classifier's logits. Needs the extra `vision`."""

from importlib.util import find_spec

_missing = [name for name in ("torch", "transformers", "safetensors", "PIL") if find_spec(name) is None]
if _missing:
    raise ImportError(
        f"Training on images needs {', '.join(_missing)}, which is not installed: "
        'pip install "pippin-conformal[vision]"'
    )

from pippin.images.training.fit import Epoch, Options, Trained, train  # noqa: E402 - after the check above

__all__ = ["Epoch", "Options", "Trained", "train"]
