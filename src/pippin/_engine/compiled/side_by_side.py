"""ROWS rows side by side, one step of the processor for all of them: compiled.

The numbers of ROWS rows stand next to each other in one array of float64: number i of row r is
entry ROWS·i + r. Whoever asks has seen that the entries exist.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from pippin._engine.compiled.lanes import Step, step

ROWS = 4

_VECTOR = ir.VectorType(ir.DoubleType(), ROWS)
_INDEX = ir.IntType(64)
_LANE = ir.IntType(32)


class _Writer:
    """Writes the instructions of one step, whose arguments are arrays and whole numbers."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any):
        self.builder, self.numbers = builder, arguments
        self.arrays = [
            context.make_array(kind)(context, builder, given).data if isinstance(kind, types.Array) else None
            for kind, given in zip(signature.args, arguments, strict=True)
        ]

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

    def variables(self, *begin: Any) -> list[Any]:
        constants = (ir.Constant(_VECTOR, [x] * ROWS) if isinstance(x, float) else x for x in begin)
        make: Step = cgutils.alloca_once_value
        return [make(self.builder, x) for x in constants]

    def keep_where(self, better: Any, pairs: list[tuple[Any, Any]]) -> None:
        """Each variable becomes its new number in those rows."""
        for variable, new in pairs:
            self.builder.store(self.builder.select(better, new, self.builder.load(variable)), variable)

    def count(self, number: int) -> Any:
        return cgutils.for_range(self.builder, self.numbers[number])


@step
def add_along(
    typing: Any, source: Any, order: Any, at: Any, stride: Any, count: Any, totals: Any, here: Any, masses: Any
) -> Any:
    """Adds to totals[here] source[order[i]] for i = at, at + stride, …, and fills in each sum on the way as masses[i].

    `here` is an entry of `totals`; the others are numbers of ROWS rows.
    """

    def make(*given: Any) -> Any:
        write = _Writer(*given)
        builder, (_, _, begin, step, _, _, place, _) = write.builder, write.numbers
        (total,) = write.variables(write.side(5, place))
        with write.count(4) as loop:
            i = builder.add(begin, builder.mul(loop.index, step))
            added = builder.fadd(builder.load(total), write.side(0, write.times_rows(write.whole(1, i))))
            builder.store(added, total)
            write.put(added, 7, write.times_rows(i))
        write.put(builder.load(total), 5, place)
        return given[0].get_dummy_value()

    return types.void(source, order, types.intp, types.intp, types.intp, totals, types.intp, masses), make


@step
def largest(
    typing: Any, masses: Any, place: Any, value: Any, lines: Any, at: Any, count: Any, tops: Any, heads: Any, here: Any
) -> Any:
    """Raises tops[here] to the largest mass of lines[at], …, lines[at + count − 1]; heads[here]: its value."""

    def make(*given: Any) -> Any:
        write = _Writer(*given)
        builder, numbers = write.builder, write.numbers
        start = write.times_rows(numbers[8])
        top, head = write.variables(write.side(6, start), write.side(7, start))
        with write.count(5) as loop:
            line = write.whole(3, builder.add(numbers[4], loop.index))
            mass = write.side(0, write.times_rows(write.whole(1, line)))
            better = builder.fcmp_ordered(">", mass, builder.load(top))
            write.keep_where(better, [(top, mass), (head, write.repeated(write.entry(2, line)))])
        write.put(builder.load(top), 6, start)
        write.put(builder.load(head), 7, start)
        return given[0].get_dummy_value()

    arrays = masses, place, value, lines
    return types.void(*arrays, types.intp, types.intp, tops, heads, types.intp), make


@step
def furthest(typing: Any, heads: Any, tops: Any, count: Any, slopes: Any, here: Any, found: Any) -> Any:
    """Fills in found[0] and found[1]: the mass and the value of the point that has the largest value + slope·mass."""

    def make(*given: Any) -> Any:
        write = _Writer(*given)
        builder, slope = write.builder, write.side(3, write.numbers[4])
        best, its_mass, its_value = write.variables(float("-inf"), 0.0, 0.0)
        with write.count(2) as loop:
            start = write.times_rows(loop.index)
            value, mass = write.side(0, start), write.side(1, start)
            height = builder.fadd(value, builder.fmul(slope, mass))
            better = builder.fcmp_ordered(">", height, builder.load(best))
            write.keep_where(better, [(best, height), (its_mass, mass), (its_value, value)])
        write.put(builder.load(its_mass), 5, _INDEX(0))
        write.put(builder.load(its_value), 5, _INDEX(ROWS))
        return given[0].get_dummy_value()

    return types.void(heads, tops, types.intp, slopes, types.intp, found), make


@step
def lower(typing: Any, heights: Any, tops: Any, count: Any, chords: Any, here: Any) -> Any:
    """Lowers each height to that of a chord at its mass: value − slope·(mass' − mass), from chords[here] on."""

    def make(*given: Any) -> Any:
        write = _Writer(*given)
        builder = write.builder
        mass, value, slope = (write.side(3, builder.add(write.numbers[4], _INDEX(k * ROWS))) for k in range(3))
        with write.count(2) as loop:
            start = write.times_rows(loop.index)
            old = write.side(0, start)
            new = builder.fsub(value, builder.fmul(slope, builder.fsub(write.side(1, start), mass)))
            write.put(builder.select(builder.fcmp_ordered("<", new, old), new, old), 0, start)
        return given[0].get_dummy_value()

    return types.void(heights, tops, types.intp, chords, types.intp), make
