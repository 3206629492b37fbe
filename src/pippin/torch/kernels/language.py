# mypy: ignore-errors
# Triton compiles these functions itself: their arguments are pointers and blocks, for which Python has no types.
"""Triton, where it is: torch for CPUs and for Apple comes without it, and then nothing here is ever launched."""

import contextlib
from typing import Any

import torch

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError:
    triton = tl = None

PRESENT = triton is not None
jit = triton.jit if PRESENT else lambda kernel: kernel
constexpr = tl.constexpr if PRESENT else object
INTERPRETED = PRESENT and bool(triton.knobs.runtime.interpret)  # TRITON_INTERPRET=1: kernels run on the CPU, slowly


def serve(x: torch.Tensor) -> bool:
    """Whether the kernels can take this tensor."""
    return PRESENT and (x.is_cuda or INTERPRETED)


def on_device_of(x: torch.Tensor) -> Any:
    """A context in which kernels are launched where the tensor is."""
    return torch.cuda.device(x.device) if x.is_cuda else contextlib.nullcontext()


def power_of_2(n: int) -> int:
    """The smallest power of two that is at least n.

    >>> power_of_2(12), power_of_2(16)
    (16, 16)
    """
    return 1 << max(0, n - 1).bit_length()
