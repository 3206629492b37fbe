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


def _adding(several: int) -> Step:
    def add_along(
        typing: Any, source: Any, order: Any, at: Any, stride: Any, count: Any, totals: Any, here: Any, masses: Any
    ) -> Any:
        def make(*given: Any) -> Any:
            write = _Writer(*given)
            builder, (_, _, begin, step, _, _, place, _) = write.builder, write.numbers
            starts = [write.times_rows(builder.add(place, _INDEX(k))) for k in range(several)]
            totals = write.variables(*(write.side(5, start) for start in starts))
            with write.count(4) as loop:
                first = builder.add(begin, builder.mul(loop.index, step))
                for k, total in enumerate(totals):
                    i = builder.add(first, _INDEX(k))
                    added = builder.fadd(builder.load(total), write.side(0, write.times_rows(write.whole(1, i))))
                    builder.store(added, total)
                    write.put(added, 7, write.times_rows(i))
            for total, start in zip(totals, starts, strict=True):
                write.put(builder.load(total), 5, start)
            return given[0].get_dummy_value()

        return types.void(source, order, types.intp, types.intp, types.intp, totals, types.intp, masses), make

    return step(add_along)


# Adds to totals[here] source[order[i]] for i = at, at + stride, …, and fills in each sum on the way as masses[i]. The
# same for here + 1 and each i + 1, and so on: of several sums none waits for the last.
add_two_along = _adding(2)
add_three_along = _adding(3)


@step
def largest(typing: Any, masses: Any, place: Any, value: Any, lines: Any, tops: Any, heads: Any, here: Any) -> Any:
    """Raises tops[here] to the largest of itself, the top before it and the masses of these lines; heads[here] is the
    value of the line that has it, and of the earliest."""

    def make(*given: Any) -> Any:
        write = _Writer(*given)
        builder, start = write.builder, write.times_rows(write.numbers[6])
        before = builder.select(builder.icmp_signed(">", start, _INDEX(0)), builder.sub(start, _INDEX(ROWS)), start)
        top, head = write.variables(write.side(4, before), write.side(5, before))
        better = builder.fcmp_ordered(">", write.side(4, start), builder.load(top))
        write.keep_where(better, [(top, write.side(4, start)), (head, write.side(5, start))])
        with cgutils.for_range(builder, write.sizes[3]) as loop:
            line = write.whole(3, loop.index)
            mass = write.side(0, write.times_rows(write.whole(1, line)))
            better = builder.fcmp_ordered(">", mass, builder.load(top))
            write.keep_where(better, [(top, mass), (head, write.repeated(write.entry(2, line)))])
        write.put(builder.load(top), 4, start)
        write.put(builder.load(head), 5, start)
        return given[0].get_dummy_value()

    return types.void(masses, place, value, lines, tops, heads, types.intp), make


@step
def furthest(typing: Any, heads: Any, tops: Any, count: Any, slopes: Any, here: Any, found: Any) -> Any:
    """Fills in found[0] and found[1]: the mass and the value of the point that has the largest value + slope·mass.

    Two points at a time are held against two that were best so far, so that neither waits for the other.
    """

    def make(*given: Any) -> Any:
        write = _Writer(*given)
        builder, slope = write.builder, write.side(3, write.numbers[4])
        two = [write.variables(float("-inf"), 0.0, 0.0) for _ in range(2)]
        last = builder.sub(write.numbers[2], _INDEX(1))
        with cgutils.for_range(builder, builder.lshr(builder.add(write.numbers[2], _INDEX(1)), _INDEX(1))) as loop:
            even = builder.shl(loop.index, _INDEX(1))
            odd = builder.add(even, _INDEX(1))
            for i, (best, its_mass, its_value) in zip(
                (even, builder.select(builder.icmp_signed("<", odd, last), odd, last)), two, strict=True
            ):
                start = write.times_rows(i)
                value, mass = write.side(0, start), write.side(1, start)
                height = builder.fadd(value, builder.fmul(slope, mass))
                better = builder.fcmp_ordered(">", height, builder.load(best))
                write.keep_where(better, [(best, height), (its_mass, mass), (its_value, value)])
        one, other = ([builder.load(variable) for variable in best] for best in two)
        better = builder.fcmp_ordered(">", other[0], one[0])
        for k in (1, 2):
            write.put(builder.select(better, other[k], one[k]), 5, _INDEX((k - 1) * ROWS))
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
