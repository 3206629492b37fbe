"""Calibration of PyTorch networks, and last layers that turn logits into prediction sets, p-values or actions."""

from pippin._runtime.errors import need

need("pippin.torch", "torch", "torch")

from pippin.torch.calibration import calibrate  # noqa: E402 - after the check above
from pippin.torch.decisions import DecisionHead, TorchDecisions  # noqa: E402
from pippin.torch.heads import ConformalHead, PValueHead, TorchSets, probabilities  # noqa: E402

__all__ = ["ConformalHead", "DecisionHead", "PValueHead", "TorchDecisions", "TorchSets", "calibrate", "probabilities"]
