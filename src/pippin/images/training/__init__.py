"""From a folder of labelled images to a classifier's logits. Needs the extra `vision`.

What trains comes when it is first named, so that a field model reads `record.py` without torch.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pippin.images.training.fit import Epoch, Options, Trained, train

__all__ = ["Epoch", "Options", "Trained", "train"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'pippin.images.training' has no attribute {name!r}")
    from pippin._runtime.extras import need

    need("Training on images", "vision", "torch", "transformers", "safetensors", "PIL")
    from pippin.images.training import fit

    return getattr(fit, name)
