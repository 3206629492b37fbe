"""Rows of an array turned into columns of a tile, sixteen by sixteen entries at once: compiled."""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from pippin._engine.compiled.lanes import BITS, LANES, Step, load, step

_unpacked: Step = cgutils.unpack_tuple  # numba has no types


def _turned(builder: Any, rows: list[Any]) -> list[Any]:
    """The columns of LANES rows: in each step, blocks beside the diagonal change places, from the largest on."""
    across = LANES // 2
    while across:
        stays = [lane if not lane & across else lane - across + LANES for lane in range(LANES)]
        comes = [lane + across if not lane & across else lane + LANES for lane in range(LANES)]
        for one in (one for one in range(LANES) if not one & across):
            both = rows[one], rows[one + across]
            for row, picked in ((one, stays), (one + across, comes)):
                rows[row] = builder.shuffle_vector(*both, ir.Constant(ir.VectorType(BITS, LANES), picked))
        across //= 2
    return rows


@step
def turn(typing: Any, block: Any, start: Any, size: Any, tile: Any, line: Any, column: Any) -> Any:
    """Writes entry start + i·size + k of a block, row after row, to tile[line + k, column + i]; i and k < LANES."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, target = (
            context.make_array(signature.args[which])(context, builder, arguments[which]) for which in (0, 3)
        )
        _, start, size, _, line, column = arguments
        rows = []
        for _ in range(LANES):
            rows.append(load(builder, source.data, start, LANES))
            start = builder.add(start, size)
        width = _unpacked(builder, target.shape)[1]
        place = builder.add(builder.mul(line, width), column)
        for entries in _turned(builder, rows):
            there = builder.bitcast(builder.gep(target.data, [place]), entries.type.as_pointer())
            builder.store(entries, there, align=8 if isinstance(entries.type.element, ir.DoubleType) else 4)
            place = builder.add(place, width)
        return context.get_dummy_value()

    whole = types.intp
    return types.void(block, whole, whole, tile, whole, whole), make
