# mypy: ignore-errors
# Triton compiles these functions itself: their arguments are pointers and blocks, for which Python has no types.
"""Triton, where it is: torch for CPUs and for Apple comes without it, and then nothing here is ever launched."""

import contextlib
from functools import reduce
from operator import or_
from typing import Any

import torch

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError:
    triton = tl = None

PRESENT = triton is not None
COUNTS = ("n", "width", "weighty", "k", "n_groups", "turn")  # arguments whose size does not make another kernel
jit = triton.jit(do_not_specialize=COUNTS) if PRESENT else lambda kernel: kernel
constexpr = tl.constexpr if PRESENT else object
# Whether a reshape may be asked to mix what it reshapes, where any order is as good: not from Triton 3.9 on.
MIXED = constexpr(tuple(map(int, triton.__version__.split(".")[:2])) < (3, 9)) if PRESENT else None
NOTHING = contextlib.nullcontext()
COMPILED: dict[Any, Any] = {}  # kernels by what they were compiled for; in the interpreter there are none
INTERPRETED = PRESENT and bool(triton.knobs.runtime.interpret)  # TRITON_INTERPRET=1: kernels run on the CPU, slowly


def serve(x: torch.Tensor) -> bool:
    """Whether the kernels can take this tensor."""
    return PRESENT and (x.is_cuda or INTERPRETED)


def stream_of(x: torch.Tensor) -> tuple[int, int]:
    """The number of a tensor's device, and the stream on which its kernels are launched."""
    device = x.get_device()
    return device, 0 if device < 0 else triton.runtime.driver.active.get_current_stream(device)


def launch(
    kernel: Any,
    programs: int,
    tensors: tuple[torch.Tensor, ...],
    counts: tuple[int, ...],
    constants: tuple[Any, ...],
    warps: int,
    together: bool = False,
    registers: int | None = None,
) -> None:
    """Starts so many programs of a kernel, on the device of its first tensor; all at the same time, if `together`.

    What was compiled for such tensors and constants before is started at once, and told bare addresses: Triton's own
    search for it, and its questions about each tensor, take longer than the kernels of few rows. With fewer `registers`
    for each thread more programs run at the same time.
    """
    device = tensors[0].get_device()
    addresses = [tensor.data_ptr() for tensor in tensors]
    odd = tuple([address & 15 for address in addresses]) if reduce(or_, addresses) & 15 else ()
    key = (id(kernel), device, constants, odd, tuple([tensor.dtype for tensor in tensors]))
    elsewhere = device >= 0 and device != torch.cuda.current_device()
    with torch.cuda.device(device) if elsewhere else NOTHING:
        known = COMPILED.get(key)
        if known is not None:
            run, function, told = known
            stream = triton.runtime.driver.active.get_current_stream(device)
            run(programs, 1, 1, stream, function, told, None, None, None, *addresses, *counts, *constants)
            return
        options = {} if registers is None else {"maxnreg": registers}
        compiled = kernel[(programs,)](
            *tensors,
            *counts,
            *constants,
            num_warps=warps,
            enable_fp_fusion=False,
            launch_cooperative_grid=together,
            **options,
        )
        if compiled is not None:
            COMPILED[key] = (compiled.run, compiled.function, compiled.packed_metadata)


def power_of_2(n: int) -> int:
    """The smallest power of two that is at least n.

    >>> power_of_2(12), power_of_2(16)
    (16, 16)
    """
    return 1 << max(0, n - 1).bit_length()
