"""The row kernel in Triton's interpreter, which runs it on the CPU, and its compilation for a GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import triton

from pippin.torch import row_kernel

ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(str(ROOT / name) for name in ("src", "tests"))}


@pytest.fixture(scope="module")
def interpreted():
    """Output of `support.torch_device` with kernels in the interpreter."""
    environment = ENVIRONMENT | {"TRITON_INTERPRET": "1"}
    command = [sys.executable, "-m", "support.torch_device"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def test_results_equal_those_of_the_core(interpreted):
    """Thresholds, calibration scores, sets and p-values, for all scores, float types and kinds of thresholds."""
    assert interpreted["interpreted"]
    assert len(interpreted["cases"]) == 71
    assert {case: counts for case, counts in interpreted["cases"].items() if any(counts.values())} == {}


def test_the_kernel_decides_small_sets(interpreted):
    """No row of 2,500 classes with a small set needs a full ranking."""
    assert interpreted["left"] == 0


def test_errors_equal_those_of_the_core(interpreted):
    """Row numbers count from the first batch."""
    off, label, broken, empty = interpreted["errors"]
    assert off.startswith("Row 6 sums to 1.7")
    assert "Row 6 has the label 5" in label
    assert broken.startswith("Row 5 has nan")
    assert "empty loader" in empty


FLOATS = ("table", "numbers", "draws", "highest", "limits", "scores")
INTEGERS = ("keys", "rank_limits", "group", "sizes", "members", "labels")
TYPES = dict.fromkeys(FLOATS, "*fp64") | dict.fromkeys(INTEGERS, "*i64")
TYPES |= {"x": "*bf16", "mask": "*i8", "ranks": "*i32"} | dict.fromkeys(("n", "width", "weighted"), "i32")
TYPES |= {"K": 1000, "ROWS": 1, "BLOCK": 1024, "LISTED": 64, "MIN_LANES": 24, "MAX_LANES": 44}
TYPES |= {"SOFTMAX": True, "LINEAR": True}
FLAGS = ("DRAWN", "GROUPED", "BY_CLASS", "BY_RANK", "MASK")
PLAIN, ALL = dict.fromkeys(FLAGS, False), dict.fromkeys(FLAGS, True) | {"SOFTMAX": False}


@pytest.mark.parametrize("options", [PLAIN, ALL, ALL | {"LINEAR": False}])
@pytest.mark.parametrize("kernel", ["_sets", "_labels"])
def test_compiles_for_a_gpu(kernel, options):
    """Triton's compiler checks more than its interpreter, such as constant types in loops; it needs no GPU."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function, values = getattr(row_kernel, kernel), TYPES | options
    types = {name: values[name] if isinstance(values[name], str) else "constexpr" for name in function.arg_names}
    constants = {name: values[name] for name, kind in types.items() if kind == "constexpr"}
    source = ASTSource(function, types, constants)
    given = {"num_warps": 2, "enable_fp_fusion": False}
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=given).asm["ptx"]
    assert ".target sm_90" in compiled
    assert "fma.rn.f64" not in compiled  # sums are rounded as in NumPy
