"""ROWS rows side by side, one step of the processor for all of them: compiled.

The numbers of ROWS rows stand next to each other in one array of float64: number i of row r is
entry ROWS·i + r. Whoever asks has seen that the entries exist.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types

from pippin._engine.compiled.lanes import Step, step

ROWS = 4
CLEAR = 1e-9  # by which masses differ whatever is rounded

_VECTOR = ir.VectorType(ir.DoubleType(), ROWS)
_INDEX = ir.IntType(64)
_LANE = ir.IntType(32)


class _Writer:
    """Writes the instructions of one step, whose arguments are arrays and whole numbers."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any):
        self.builder, self.numbers = builder, arguments
        made = [
            context.make_array(kind)(context, builder, given) if isinstance(kind, types.Array) else None
            for kind, given in zip(signature.args, arguments, strict=True)
        ]
        self.arrays, self.sizes = [one and one.data for one in made], [one and one.nitems for one in made]

    def entry(self, array: int, index: Any) -> Any:
        return self.builder.load(self.builder.gep(self.arrays[array], [index]))

    def whole(self, array: int, index: Any) -> Any:
        return self.builder.sext(self.entry(array, index), _INDEX)

    def address(self, array: int, start: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(self.arrays[array], [start]), _VECTOR.as_pointer())

    def side(self, array: int, start: Any) -> Any:
        """The ROWS entries from `start` on."""
        return self.builder.load(self.address(array, start), align=8)

    def put(self, numbers: Any, array: int, start: Any) -> None:
        self.builder.store(numbers, self.address(array, start), align=8)

    def times_rows(self, index: Any) -> Any:
        return self.builder.mul(index, _INDEX(ROWS))

    def repeated(self, number: Any) -> Any:
        nothing, zeros = ir.Constant(_VECTOR, ir.Undefined), ir.Constant(ir.VectorType(_LANE, ROWS), [0] * ROWS)
        return self.builder.shuffle_vector(self.builder.insert_element(nothing, number, _LANE(0)), nothing, zeros)

    def constant(self, number: float) -> Any:
        return ir.Constant(_VECTOR, [number] * ROWS)

    def variables(self, *begin: Any) -> list[Any]:
        constants = (self.constant(x) if isinstance(x, float) else x for x in begin)
        make: Step = cgutils.alloca_once_value
        return [make(self.builder, x) for x in constants]

    def keep_where(self, better: Any, pairs: list[tuple[Any, Any]]) -> None:
        """Each variable becomes its new number in those rows."""
        for variable, new in pairs:
            self.builder.store(self.builder.select(better, new, self.builder.load(variable)), variable)

    def count(self, number: int) -> Any:
        return cgutils.for_range(self.builder, self.numbers[number])


def _adding(several: int) -> Step:
    def add_along(
        typing: Any, source: Any, order: Any, at: Any, stride: Any, count: Any, totals: Any, here: Any, sums: Any
    ) -> Any:
        def make(*given: Any) -> Any:
            write = _Writer(*given)
            builder, (_, _, begin, step, _, _, place, _) = write.builder, write.numbers
            starts = [write.times_rows(builder.add(place, _INDEX(k))) for k in range(several)]
            totals = write.variables(*(write.side(5, start) for start in starts))
            with write.count(4) as loop:
                first = builder.add(place, builder.mul(loop.index, step))
                for k, total in enumerate(totals):
                    i = builder.add(first, _INDEX(k))
                    source = write.times_rows(write.whole(1, builder.add(begin, i)))
                    added = builder.fadd(builder.load(total), write.side(0, source))
                    builder.store(added, total)
                    write.put(added, 7, write.times_rows(i))
            for total, start in zip(totals, starts, strict=True):
                write.put(builder.load(total), 5, start)
            return given[0].get_dummy_value()

        return types.void(source, order, types.intp, types.intp, types.intp, totals, types.intp, sums), make

    return step(add_along)


# Adds to totals[here] source[order[at + i]] for i = here, here + stride, …, and fills in each sum on the way as
# sums[i]. The same for here + 1 and each i + 1, and so on: of several sums none waits for the last.
add_two_along = _adding(2)
add_three_along = _adding(3)


@step
def copy(typing: Any, source: Any, at: Any, target: Any, here: Any) -> Any:
    """target[here] becomes source[at]."""

    def make(*given: Any) -> Any:
        write = _Writer(*given)
        write.put(write.side(0, write.times_rows(write.numbers[1])), 2, write.times_rows(write.numbers[3]))
        return given[0].get_dummy_value()

    return types.void(source, types.intp, target, types.intp), make


@step
def highest(typing: Any, values: Any, masses: Any, kinds: Any, worth: Any, weights: Any, at: Any, found: Any) -> Any:
    """Fills in found[0], found[1] and found[2]: the value, the mass and the height of the highest point.

    Of all i with values[i] ≤ worth[kinds[i]]; the height is weights[at]·value + weights[at + 1]·mass.
    """

    def make(*given: Any) -> Any:
        write = _Writer(*given)
        builder, start = write.builder, write.times_rows(write.numbers[5])
        by_value, by_mass = write.side(4, start), write.side(4, builder.add(start, _INDEX(ROWS)))
        best = write.variables(0.0, 0.0, float("-inf"))
        with cgutils.for_range(builder, write.sizes[0]) as loop:
            value, mass = write.repeated(write.entry(0, loop.index)), write.side(1, write.times_rows(loop.index))
            height = builder.fadd(builder.fmul(by_value, value), builder.fmul(by_mass, mass))
            meant = builder.fcmp_ordered("<=", value, write.side(3, write.times_rows(write.whole(2, loop.index))))
            better = builder.and_(meant, builder.fcmp_ordered(">", height, builder.load(best[2])))
            write.keep_where(better, list(zip(best, (value, mass, height), strict=True)))
        for k, variable in enumerate(best):
            write.put(builder.load(variable), 6, _INDEX(k * ROWS))
        return given[0].get_dummy_value()

    return types.void(values, masses, kinds, worth, weights, types.intp, found), make


@step
def latest(typing: Any, high: Any, low: Any, masses: Any, kinds: Any, worth: Any, label: Any, point: Any) -> Any:
    """Fills in point[3]: the largest β at which a block that has lines above the label's worth meets the line `point`.

    The block's lines are nowhere above high[i] + β·masses[i], and where low[i] ≤ worth[kinds[i]], those above the
    label's worth have label[0] less mass. The line has the value point[0] and the mass point[1], less what rounding may
    add; a block of no smaller mass meets it at infinity.
    """

    def make(*given: Any) -> Any:
        write = _Writer(*given)
        builder = write.builder
        own, value, mass = write.side(5, _INDEX(0)), write.side(6, _INDEX(0)), write.side(6, _INDEX(ROWS))
        (best,) = write.variables(float("-inf"))
        with cgutils.for_range(builder, write.sizes[0]) as loop:
            first, last = (write.repeated(write.entry(array, loop.index)) for array in (0, 1))
            limit = write.side(4, write.times_rows(write.whole(3, loop.index)))
            most = write.side(2, write.times_rows(loop.index))
            most = builder.select(builder.fcmp_ordered("<=", last, limit), builder.fsub(most, own), most)
            gap = builder.fsub(builder.fsub(mass, most), write.constant(CLEAR))
            where = builder.fdiv(builder.fsub(first, value), gap)
            where = builder.select(builder.fcmp_ordered(">", gap, write.constant(0.0)), where, write.constant(np.inf))
            old = builder.load(best)
            later = builder.and_(builder.fcmp_ordered(">", first, limit), builder.fcmp_ordered(">", where, old))
            builder.store(builder.select(later, where, old), best)
        write.put(builder.load(best), 6, _INDEX(3 * ROWS))
        return given[0].get_dummy_value()

    return types.void(high, low, masses, kinds, worth, label, point), make


@step
def reaching(typing: Any, values: Any, masses: Any, weights: Any, at: Any, found: Any) -> Any:
    """Adds to the sets found[0], found[1], … of 64 numbers each those i whose height reaches weights[at + 2]."""

    def make(*given: Any) -> Any:
        write = _Writer(*given)
        builder, start = write.builder, write.times_rows(write.numbers[3])
        by_value, by_mass, limit = (write.side(2, builder.add(start, _INDEX(k * ROWS))) for k in range(3))
        bits = ir.VectorType(_INDEX, ROWS)
        with cgutils.for_range(builder, write.sizes[0]) as loop:
            value, mass = write.repeated(write.entry(0, loop.index)), write.side(1, write.times_rows(loop.index))
            height = builder.fadd(builder.fmul(by_value, value), builder.fmul(by_mass, mass))
            there = builder.fcmp_ordered(">=", height, limit)
            bit = builder.shl(_INDEX(1), builder.and_(loop.index, _INDEX(63)))
            nothing, zeros = ir.Constant(bits, ir.Undefined), ir.Constant(ir.VectorType(_LANE, ROWS), [0] * ROWS)
            own = builder.shuffle_vector(builder.insert_element(nothing, bit, _LANE(0)), nothing, zeros)
            word = write.times_rows(builder.lshr(loop.index, _INDEX(6)))
            address = builder.bitcast(builder.gep(write.arrays[4], [word]), bits.as_pointer())
            new = builder.select(there, own, ir.Constant(bits, [0] * ROWS))
            builder.store(builder.or_(builder.load(address, align=8), new), address, align=8)
        return given[0].get_dummy_value()

    return types.void(values, masses, weights, types.intp, found), make
