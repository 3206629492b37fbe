"""From a folder of labelled images to a classifier's logits. Needs the extra `vision`."""

from pippin._runtime.extras import need

need("Training on images", "vision", "torch", "transformers", "safetensors", "PIL")

from pippin.images.training.fit import Epoch, Options, Trained, train  # noqa: E402 - after the check above

__all__ = ["Epoch", "Options", "Trained", "train"]
