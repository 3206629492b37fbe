"""Sixteen neighbouring entries of an array in one step of the processor: compiled.

A row is looked at in windows of LANES entries; a window may reach into the rows beside it. Which
of the entries are meant, and which ones answer a question, are sets of lanes: whole numbers with one bit per entry.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

Step = Callable[..., Any]

LANES = 16

_BITS = ir.IntType(32)
_WORD = ir.IntType(64)
_room: Step = cgutils.alloca_once_value  # numba has no types
_several: Step = types.UniTuple


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


def _larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _smaller(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


def _halves(builder: Any, entries: Any) -> tuple[Any, Any]:
    """The lower and the upper half of the lanes; single numbers at the end."""
    half = entries.type.count // 2
    if half == 1:
        return tuple(builder.extract_element(entries, _BITS(lane)) for lane in (0, 1))
    kind = ir.VectorType(_BITS, half)
    places = (range(half), range(half, 2 * half))
    return tuple(builder.shuffle_vector(entries, entries, ir.Constant(kind, list(part))) for part in places)


def _folded(builder: Any, entries: Any, join: Step) -> Any:
    """One number from all lanes, half joined to half."""
    while isinstance(entries.type, ir.VectorType):
        entries = join(*_halves(builder, entries))
    return entries


def _folded_two(builder: Any, best: Any, second: Any) -> Any:
    """The largest and the second largest number, from those of every lane."""
    while isinstance(best.type, ir.VectorType):
        (a, b), (c, d) = _halves(builder, best), _halves(builder, second)
        best, second = _larger(builder, a, b), _larger(builder, _smaller(builder, a, b), _larger(builder, c, d))
    return best, second


@step
def sum_of(typing: Any, array: Any, start: Any, lanes: Any) -> Any:
    """The sum of the entries of these lanes, in any order: no score is ever computed with it."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        entries = _only(builder, _window(context, builder, signature, arguments), arguments[2], 0.0)
        return _folded(builder, entries, builder.fadd)

    return array.dtype(array, types.intp, types.uint32), make


@step
def largest_of(typing: Any, array: Any, start: Any, lanes: Any) -> Any:
    """The largest entry of these lanes, which must not be NaN; −1 if there is none."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        entries = _only(builder, _window(context, builder, signature, arguments), arguments[2], -1.0)
        return _folded(builder, entries, partial(_larger, builder))

    return array.dtype(array, types.intp, types.uint32), make


@step
def digest(typing: Any, array: Any, start: Any, size: Any) -> Any:
    """The sum of array[start : start + size] in any order, the smallest, the largest and the second largest entry.

    No score is ever computed with the sum. A NaN shows in it, and nowhere else. Whoever asks has seen that the array
    has LANES entries at least.
    """

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(context.get_data_type(array.dtype), LANES)
        whole = builder.and_(arguments[2], _WORD(-LANES))
        states = [_room(builder, ir.Constant(vector, [one] * LANES)) for one in (0.0, 2.0, -1, -1)]

        def take(entries: Any, low: Any, high: Any) -> None:
            total, lowest, best, second = map(builder.load, states)
            builder.store(builder.fadd(total, entries), states[0])
            builder.store(_smaller(builder, low, lowest), states[1])
            builder.store(_larger(builder, _smaller(builder, best, high), second), states[3])
            builder.store(_larger(builder, best, high), states[2])

        with cgutils.for_range_slice(builder, _WORD(0), whole, _WORD(LANES), inc=True) as (here, _):
            place = builder.add(arguments[1], here)
            entries = _window(context, builder, signature, (arguments[0], place))
            take(entries, entries, entries)
        left = builder.sub(arguments[2], whole)
        with builder.if_then(builder.icmp_signed(">", left, _WORD(0))):
            end = builder.sub(context.make_array(array)(context, builder, arguments[0]).nitems, _WORD(LANES))
            place = builder.add(arguments[1], whole)
            begin = builder.select(builder.icmp_signed("<", place, end), place, end)
            entries = _window(context, builder, signature, (arguments[0], begin))
            bits = builder.shl(builder.sub(builder.shl(_WORD(1), left), _WORD(1)), builder.sub(place, begin))
            take(*(_only(builder, entries, bits, other) for other in (0.0, 2.0, -1.0)))
        total, lowest, best, second = map(builder.load, states)
        best, second = _folded_two(builder, best, second)
        found = (
            _folded(builder, total, builder.fadd),
            _folded(builder, lowest, partial(_smaller, builder)),
            best,
            second,
        )
        return context.make_tuple(builder, signature.return_type, found)

    return _several(array.dtype, 4)(array, types.intp, types.intp), make


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
    """How many lanes there are, of up to 64."""
    return types.intp(types.uint64), lambda _, builder, __, arguments: builder.ctpop(arguments[0])


@step
def first(typing: Any, lanes: Any) -> Any:
    """The lowest lane; 64 if there is none."""
    return types.intp(types.uint64), lambda _, builder, __, arguments: builder.cttz(
        arguments[0], ir.Constant(ir.IntType(1), 0)
    )


@step
def apart(typing: Any) -> Any:
    """Says that the function it stands in is called, and never copied into its callers: they compile sooner."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), make
