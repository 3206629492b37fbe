"""Sixteen neighbouring entries of an array in one step of the processor: compiled.

A row is looked at in windows of LANES entries, of which the last may overlap with the one before it, or reach into the
rows before. Which entries answer a question is a set of lanes: a whole number with one bit per entry.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

Step = Callable[..., Any]

LANES = 16

BITS = ir.IntType(32)
WORD = ir.IntType(64)
slot: Step = cgutils.alloca_once_value  # numba has no types
_mixed: Step = types.BaseTuple.from_types


def step(describe: Step) -> Step:
    """What compiled code calls like a function: `describe` gives its signature, and who writes its instructions."""
    made: Step = intrinsic(describe)
    return made


def load(builder: Any, first: Any, start: Any, lanes: int) -> Any:
    """So many entries from `start` on, unaligned; whoever asks has seen that they exist."""
    kind = first.type.pointee
    here = builder.bitcast(builder.gep(first, [start]), ir.VectorType(kind, lanes).as_pointer())
    return builder.load(here, align=8 if isinstance(kind, ir.DoubleType) else 4)


def _window(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """The entries array[start : start + LANES]."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return load(builder, array.data, arguments[1], LANES)


def _only(builder: Any, entries: Any, lanes: Any, other: float) -> Any:
    """The entries of these lanes, and `other` in the rest."""
    chosen = builder.bitcast(builder.trunc(lanes, ir.IntType(LANES)), ir.VectorType(ir.IntType(1), LANES))
    return builder.select(chosen, entries, ir.Constant(entries.type, [other] * LANES))


def same(builder: Any, one: Any, lanes: int = LANES) -> Any:
    """One number in all lanes."""
    nothing = ir.Constant(ir.VectorType(one.type, lanes), ir.Undefined)
    first = builder.insert_element(nothing, one, BITS(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(BITS, lanes), [0] * lanes))


def _between(builder: Any, kind: Any, begin: Any, end: Any) -> Any:
    """The lanes from `begin` to `end`, for entries of this kind."""
    whole = ir.IntType(kind.bitwidth)
    numbers = ir.Constant(ir.VectorType(whole, LANES), list(range(LANES)))
    begins, ends = (same(builder, one if whole == WORD else builder.trunc(one, whole)) for one in (begin, end))
    return builder.and_(
        builder.icmp_signed(">=", numbers, begins),
        builder.icmp_signed("<", numbers, ends),
    )


def _larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _smaller(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


def _halves(builder: Any, entries: Any) -> tuple[Any, Any]:
    """The lower and the upper half of the lanes; single numbers at the end."""
    half = entries.type.count // 2
    if half == 1:
        return tuple(builder.extract_element(entries, BITS(lane)) for lane in (0, 1))
    kind = ir.VectorType(BITS, half)
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


def _slots(context: Any, builder: Any, array: Any, begin: float) -> Any:
    """A variable for a window of an array's kind, all lanes the same to begin with."""
    return slot(builder, ir.Constant(ir.VectorType(context.get_data_type(array.dtype), LANES), [begin] * LANES))


def _over(context: Any, builder: Any, signature: Any, arguments: Any, take: Step) -> None:
    """Calls take(entries, only) for the windows of array[start : start + size].

    The last one ends where the row does, and reaches back over entries that were taken before, or that stand before
    the row: `only` puts another number for these. Whoever asks has seen that the array has LANES entries at least.
    """
    array, start, size = arguments[:3]
    whole = builder.and_(size, WORD(-LANES))
    with cgutils.for_range_slice(builder, WORD(0), whole, WORD(LANES), inc=True) as (here, _):
        take(_window(context, builder, signature, (array, builder.add(start, here))), lambda entries, other: entries)
    with builder.if_then(builder.icmp_signed("<", whole, size)):
        end = builder.add(start, size)
        fits = builder.icmp_signed(">=", end, WORD(LANES))
        begin = builder.select(fits, builder.sub(end, WORD(LANES)), WORD(0))
        first = builder.sub(builder.add(start, whole), begin)
        new = _between(builder, signature.args[0].dtype, first, builder.sub(end, begin))

        def only(entries: Any, other: float) -> Any:
            return builder.select(new, entries, ir.Constant(entries.type, [other] * LANES))

        take(_window(context, builder, signature, (array, begin)), only)


def _over_long(context: Any, builder: Any, signature: Any, arguments: Any, take: Step) -> None:
    """Calls take(entries, here, new) for the windows of array[start : start + size], which has LANES entries at least.

    The last window ends where the row does; of its entries only the `new` ones, if it says any, were not taken before.
    What is new depends on nothing but the size: no row asks again.
    """
    array, start, size = arguments[:3]
    last = builder.sub(size, WORD(LANES))
    with cgutils.for_range_slice(builder, WORD(0), last, WORD(LANES), inc=True) as (here, _):
        take(_window(context, builder, signature, (array, builder.add(start, here))), here, None)
    seen = builder.and_(builder.sub(WORD(0), last), WORD(LANES - 1))
    new = _between(builder, signature.args[0].dtype, seen, WORD(LANES))
    take(_window(context, builder, signature, (array, builder.add(start, last))), last, new)


def _adding(builder: Any, total: Any) -> Step:
    """Adds the entries that are new to the lanes of `total`, as `_over_long` asks."""

    def add(entries: Any, here: Any, new: Any) -> None:
        if new is not None:
            entries = builder.select(new, entries, ir.Constant(entries.type, [0.0] * LANES))
        builder.store(builder.fadd(builder.load(total), entries), total)

    return add


def _looking(how_many: int) -> Step:
    def digest(typing: Any, array: Any, start: Any, size: Any) -> Any:
        def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            states = [_slots(context, builder, array, begin) for begin in (0.0, 2.0, -1.0, -1.0)[: 2 + how_many]]

            def take(entries: Any, only: Step) -> None:
                total, lowest, *best = map(builder.load, states)
                builder.store(builder.fadd(total, only(entries, 0.0)), states[0])
                builder.store(_smaller(builder, only(entries, 2.0), lowest), states[1])
                if best:
                    high = only(entries, -1.0)
                    builder.store(_larger(builder, best[0], high), states[2])
                    builder.store(_larger(builder, _smaller(builder, best[0], high), best[1]), states[3])

            _over(context, builder, signature, arguments, take)
            total, lowest, *best = map(builder.load, states)
            below = builder.fcmp_ordered("<", lowest, ir.Constant(lowest.type, [0.0] * LANES))
            found = (
                _folded(builder, total, builder.fadd),
                builder.icmp_unsigned("!=", builder.bitcast(below, ir.IntType(LANES)), ir.IntType(LANES)(0)),
                *(_folded_two(builder, *best) if best else ()),
            )
            return context.make_tuple(builder, signature.return_type, found)

        kinds = (array.dtype, types.boolean, array.dtype, array.dtype)[: 2 + how_many]
        return _mixed(kinds)(array, types.intp, types.intp), make

    return step(digest)


# The sum of array[start : start + size] in any order, and whether an entry is negative; `digest` tells the largest and
# the second largest entry too. No score is ever computed with the sum. A NaN shows in it, and nowhere else. Whoever
# asks has seen that the array has LANES entries at least.
checked, digest = _looking(0), _looking(2)


@step
def total_of(typing: Any, array: Any, start: Any, size: Any) -> Any:
    """The sum of array[start : start + size] in any order, for rows of LANES entries at least."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        total = _slots(context, builder, array, 0.0)
        _over_long(context, builder, signature, arguments, _adding(builder, total))
        return _folded(builder, builder.load(total), builder.fadd)

    return array.dtype(array, types.intp, types.intp), make


@step
def top_of(typing: Any, array: Any, start: Any, size: Any) -> Any:
    """The largest of array[start : start + size], of which none is NaN, for rows of LANES entries at least."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        top = _slots(context, builder, array, -1.0)

        def take(entries: Any, here: Any, new: Any) -> None:
            builder.store(_larger(builder, entries, builder.load(top)), top)

        _over_long(context, builder, signature, arguments, take)
        return _folded(builder, builder.load(top), partial(_larger, builder))

    return array.dtype(array, types.intp, types.intp), make


@step
def around(typing: Any, array: Any, start: Any, size: Any, k: Any) -> Any:
    """The sum of array[start : start + size] in any order, and the largest but entry k, for rows of LANES at least."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        total, other = (_slots(context, builder, array, begin) for begin in (0.0, -1.0))
        add = _adding(builder, total)

        def take(entries: Any, here: Any, new: Any) -> None:
            add(entries, here, new)
            whole = ir.IntType(array.dtype.bitwidth)
            place = builder.sub(arguments[3], here)
            own = builder.icmp_signed(
                "==",
                ir.Constant(ir.VectorType(whole, LANES), list(range(LANES))),
                same(builder, place if whole == WORD else builder.trunc(place, whole)),
            )
            others = builder.select(own, ir.Constant(entries.type, [-1.0] * LANES), entries)
            builder.store(_larger(builder, others, builder.load(other)), other)

        _over_long(context, builder, signature, arguments, take)
        found = (
            _folded(builder, builder.load(total), builder.fadd),
            _folded(builder, builder.load(other), partial(_larger, builder)),
        )
        return context.make_tuple(builder, signature.return_type, found)

    return _mixed((array.dtype, array.dtype))(array, types.intp, types.intp, types.intp), make


@step
def largest_below(typing: Any, array: Any, start: Any, size: Any, high: Any) -> Any:
    """The largest entry of array[start : start + size] under `high`; −1 if there is none.

    Whoever asks has seen that the array has LANES entries at least.
    """

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        largest, limits = _slots(context, builder, array, -1.0), same(builder, arguments[3])

        def take(entries: Any, only: Step) -> None:
            none = ir.Constant(entries.type, [-1.0] * LANES)
            below = builder.select(builder.fcmp_ordered("<", entries, limits), entries, none)
            builder.store(_larger(builder, only(below, -1.0), builder.load(largest)), largest)

        _over(context, builder, signature, arguments, take)
        return _folded(builder, builder.load(largest), partial(_larger, builder))

    return array.dtype(array, types.intp, types.intp, array.dtype), make


def _asking(comparison: str, windows: int = 1) -> Step:
    def lanes_where(typing: Any, array: Any, start: Any, limit: Any) -> Any:
        def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            (array, start, limit), found = arguments, WORD(0)
            limits = same(builder, limit)
            for place in range(0, LANES * windows, LANES):
                entries = _window(context, builder, signature, (array, builder.add(start, WORD(place))))
                answers = builder.bitcast(builder.fcmp_ordered(comparison, entries, limits), ir.IntType(LANES))
                found = builder.or_(found, builder.shl(builder.zext(answers, WORD), WORD(place)))
            return found

        return types.uint64(array, types.intp, array.dtype), make

    return step(lanes_where)


at_least = _asking(">=")  # the lanes of the window at `start` whose entry is at least `limit`
above = _asking(">")
four_at_least = _asking(">=", 4)  # those of four windows


@step
def next_above(typing: Any, number: Any) -> Any:
    """The smallest number above one that is not negative."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = arguments[0].type
        whole = WORD if isinstance(kind, ir.DoubleType) else BITS
        bits = builder.bitcast(builder.fadd(arguments[0], ir.Constant(kind, 0.0)), whole)  # −0.0 is 0
        return builder.bitcast(builder.add(bits, whole(1)), kind)

    return number(number), make


def _comparing(comparison: str) -> Step:
    def numbers_where(typing: Any, numbers: Any, limits: Any, start: Any) -> Any:
        def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind, entries = ir.VectorType(ir.IntType(16), 64), []
            for which in (0, 1):
                array = context.make_array(signature.args[which])(context, builder, arguments[which])
                here = builder.bitcast(builder.gep(array.data, [arguments[2]]), kind.as_pointer())
                entries.append(builder.load(here, align=2))
            return builder.bitcast(builder.icmp_unsigned(comparison, *entries), WORD)

        return types.uint64(numbers, limits, types.intp), make

    return step(numbers_where)


below = _comparing("<")  # which of the 64 numbers of 16 bits from `start` on are below their limits: one bit each
up_to = _comparing("<=")


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
def bits_of(typing: Any, number: Any) -> Any:
    """The bits of a number in float64."""
    return types.uint64(types.float64), lambda _, builder, __, arguments: builder.bitcast(arguments[0], WORD)


@step
def number_of(typing: Any, bits: Any) -> Any:
    """The number in float64 that has these bits."""
    return types.float64(types.uint64), lambda _, builder, __, arguments: builder.bitcast(arguments[0], ir.DoubleType())


@step
def apart(typing: Any) -> Any:
    """Says that the function it stands in is called, and never copied into its callers: they compile sooner."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), make
