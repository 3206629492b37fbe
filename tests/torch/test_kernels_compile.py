"""Triton's own reading of the kernels: its interpreter lets pass what its compiler does not, such as changing types."""

import pytest

from pippin.torch.kernels import counted, few, ranked, rows, select, tops, whole
from pippin.torch.kernels.filled import LEFT, ROWS_FROM
from pippin.torch.kernels.held import tile

triton = pytest.importorskip("triton")

POINTERS = {
    "table": "*fp64", "formula": "*fp64", "draws": "*fp64", "highest": "*fp64", "limits": "*fp64",
    "rank_limits": "*i64", "group": "*i64", "sizes": "*i64", "members": "*i64", "mask": "*i8", "labels": "*i64",
    "ranks": "*i32", "scores": "*fp64", "faults": "*i32", "left": "*i32", "rooms": "*i64", "scratch": "*fp32",
    "out": "*fp64", "probs": "*fp32", "ranked": "*fp32", "order": "*i64", "rows": "*i64", "numbers": "*fp32",
    "groups": "*fp32", "chosen": "*i32", "values": "*fp32", "classes": "*i32", "counts": "*i32", "marks": "*i32",
}  # fmt: skip
COUNTS = dict.fromkeys(("n", "k", "width", "weighty", "n_groups", "turn"), "i32")
SHARED = {
    "K": 1000, "BLOCK": 128, "BLOCKS": 8, "SOME": 128, "STEPS": 24, "WIDTH": 64, "LISTED": 64, "LEFT": LEFT,
    "ROWS_FROM": ROWS_FROM, "NEAR": 9e-4, "GROUP": 128, "GROUPS": 8, "HALVINGS": 10, "ROWS": 16, "AT_ONCE": 32,
}  # fmt: skip
PLAIN = dict.fromkeys(("GROUPED", "BY_CLASS", "BY_RANK", "DRAWN", "MASK", "FLAT", "BESIDE", "ALL"), False)
CASES = {
    "plain": {"LINEAR": True, "SOFTMAX": True},
    "mask": {"LINEAR": True, "SOFTMAX": True, "MASK": True},
    "flat": {"LINEAR": True, "SOFTMAX": True, "MASK": True, "FLAT": True, "BESIDE": True},
    "socop": {"LINEAR": False, "SOFTMAX": False, "DRAWN": True, "MASK": True},
    "per class": {"LINEAR": True, "SOFTMAX": True, "GROUPED": True, "BY_CLASS": True, "BY_RANK": True, "MASK": True},
}
KERNELS = (
    rows._sets, whole._sets, ranked._sets, ranked._mark, rows._labels, whole._labels, ranked._labels, select._smallest,
    few._sets, few._fill, few._labels, tops._list, tops._rank, counted._count, counted._order,
)  # fmt: skip


def read(kernel, x: str, constants: dict) -> None:
    """Triton's intermediate code for a Hopper GPU, which needs none."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler.compiler import make_backend

    types = POINTERS | COUNTS | {"x": x}
    signature = {name: "constexpr" if name in constants else types[name] for name in kernel.arg_names}
    fixed = {(i,): constants[name] for i, name in enumerate(kernel.arg_names) if name in constants}
    target = GPUTarget("cuda", 90, 32)
    backend = make_backend(target)
    options = backend.parse_options({"num_warps": 1, "enable_fp_fusion": False})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    ASTSource(kernel, signature, fixed, {}).make_ir(
        target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context
    )


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_types_stay_the_same(kernel, case):
    """Of bfloat16 rows of few classes."""
    deep, wide, each = tile(1000, 2, 1)
    given = SHARED | PLAIN | CASES[case] | {"DEEP": deep, "WIDE": wide, "EACH": each}
    read(kernel, "*bf16", {name: value for name, value in given.items() if name in kernel.arg_names})
