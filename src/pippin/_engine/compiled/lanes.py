"""Sixteen neighbouring entries of an array in one step of the processor: compiled.

A row of few classes fits into a window of LANES entries. Which of the entries are meant, and
which ones answer a question, are sets of lanes: whole numbers with one bit per entry.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

Step = Callable[..., Any]

LANES = 16

_BITS = ir.IntType(32)


def step(describe: Step) -> Step:
    """What compiled code calls like a function: `describe` gives its signature, and who writes its instructions."""
    made: Step = intrinsic(describe)
    return made


def _window(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """The entries array[start : start + LANES], unaligned; whoever asks has seen that they exist."""
    kind = signature.args[0]
    array = context.make_array(kind)(context, builder, arguments[0])
    vector = ir.VectorType(context.get_data_type(kind.dtype), LANES)
    here = builder.bitcast(builder.gep(array.data, [arguments[1]]), vector.as_pointer())
    return builder.load(here, align=kind.dtype.bitwidth // 8)


def _only(builder: Any, entries: Any, lanes: Any, other: float) -> Any:
    """The entries of these lanes, and `other` in the rest."""
    chosen = builder.bitcast(builder.trunc(lanes, ir.IntType(LANES)), ir.VectorType(ir.IntType(1), LANES))
    return builder.select(chosen, entries, ir.Constant(entries.type, [other] * LANES))


def _reduced(builder: Any, name: str, before: list[Any], entries: Any, freedom: str) -> Any:
    """One number from all lanes, by one of LLVM's reductions."""
    number = entries.type.element
    kind = ir.FunctionType(number, [*(part.type for part in before), entries.type])
    suffix = "f32" if number == ir.FloatType() else "f64"
    insert: Step = cgutils.get_or_insert_function
    reduction = insert(builder.module, kind, f"llvm.vector.reduce.{name}.v{LANES}{suffix}")
    return builder.call(reduction, [*before, entries], fastmath=(freedom,))


@step
def sum_of(typing: Any, array: Any, start: Any, lanes: Any) -> Any:
    """The sum of the entries of these lanes, in any order: no score is ever computed with it."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        entries = _only(builder, _window(context, builder, signature, arguments), arguments[2], 0.0)
        return _reduced(builder, "fadd", [ir.Constant(entries.type.element, 0.0)], entries, "reassoc")

    return array.dtype(array, types.intp, types.uint32), make


@step
def largest_of(typing: Any, array: Any, start: Any, lanes: Any) -> Any:
    """The largest entry of these lanes, which must not be NaN; −1 if there is none."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        entries = _only(builder, _window(context, builder, signature, arguments), arguments[2], -1.0)
        return _reduced(builder, "fmax", [], entries, "nnan")

    return array.dtype(array, types.intp, types.uint32), make


def _asking(comparison: str) -> Step:
    def lanes_where(typing: Any, array: Any, start: Any, limit: Any) -> Any:
        def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            entries = _window(context, builder, signature, arguments)
            nothing = ir.Constant(entries.type, ir.Undefined)
            first = builder.insert_element(nothing, arguments[2], _BITS(0))
            limits = builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_BITS, LANES), [0] * LANES))
            answers = builder.fcmp_ordered(comparison, entries, limits)
            return builder.zext(builder.bitcast(answers, ir.IntType(LANES)), _BITS)

        return types.uint32(array, types.intp, array.dtype), make

    return step(lanes_where)


at_least = _asking(">=")  # the lanes of the window at `start` whose entry is at least `limit`
above = _asking(">")


@step
def count(typing: Any, lanes: Any) -> Any:
    """How many lanes there are."""
    return types.intp(types.uint32), lambda _, builder, __, arguments: builder.zext(
        builder.ctpop(arguments[0]), ir.IntType(64)
    )


@step
def first(typing: Any, lanes: Any) -> Any:
    """The lowest lane; 32 if there is none."""
    return types.intp(types.uint32), lambda _, builder, __, arguments: builder.zext(
        builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0)), ir.IntType(64)
    )
