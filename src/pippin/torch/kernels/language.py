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
COUNTS = ("n", "width", "weighty", "k", "n_groups")  # arguments whose size does not make another kernel
jit = triton.jit(do_not_specialize=COUNTS) if PRESENT else lambda kernel: kernel
constexpr = tl.constexpr if PRESENT else object
NOTHING = contextlib.nullcontext()
COMPILED: dict[Any, Any] = {}  # kernels by what they were compiled for; in the interpreter there are none
INTERPRETED = PRESENT and bool(triton.knobs.runtime.interpret)  # TRITON_INTERPRET=1: kernels run on the CPU, slowly


def serve(x: torch.Tensor) -> bool:
    """Whether the kernels can take this tensor."""
    return PRESENT and (x.is_cuda or INTERPRETED)


def on_device_of(x: torch.Tensor) -> Any:
    """A context in which kernels are launched where the tensor is."""
    elsewhere = x.is_cuda and x.device.index != torch.cuda.current_device()
    return torch.cuda.device(x.device) if elsewhere else NOTHING


def launch(
    kernel: Any,
    programs: int,
    tensors: tuple[torch.Tensor, ...],
    counts: tuple[int, ...],
    constants: tuple[Any, ...],
    warps: int,
    together: bool = False,
) -> None:
    """Starts so many programs of a kernel, on the device of its first tensor; all at the same time, if `together`.

    What was compiled for such tensors and constants before is started at once: Triton's own search for it takes longer
    than the kernels of few rows.
    """
    key = (id(kernel), warps, tensors[0].device, constants, *[(t.dtype, t.data_ptr() % 16) for t in tensors])
    with on_device_of(tensors[0]):
        compiled = COMPILED.get(key)
        if compiled is not None:
            compiled[(programs, 1, 1)](*tensors, *counts, *constants)
            return
        COMPILED[key] = kernel[(programs,)](
            *tensors,
            *counts,
            *constants,
            num_warps=warps,
            enable_fp_fusion=False,
            launch_cooperative_grid=together,
        )


def power_of_2(n: int) -> int:
    """The smallest power of two that is at least n.

    >>> power_of_2(12), power_of_2(16)
    (16, 16)
    """
    return 1 << max(0, n - 1).bit_length()
