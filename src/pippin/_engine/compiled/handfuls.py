"""A handful of neighbouring entries ranked at once: compiled.

An entry's rank is the number of those before it. Whoever sorts by counting compares one entry with all the others; here
one is compared with a handful at a time, and nothing is done that depends on how the comparison ends.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from pippin._engine.compiled.lanes import BITS, WORD, Step, load, same, slot, step

HANDFUL = 8
ARMFUL = 32  # entries of a whole row that are ranked at once


def _keys(builder: Any, entries: Any, size: Any = None) -> Any:
    """Whole numbers in the order of some entries, none negative: their bits; −1 from the lane `size` on."""
    count, whole = entries.type.count, WORD if isinstance(entries.type.element, ir.DoubleType) else BITS
    kind = ir.VectorType(whole, count)
    keys = builder.bitcast(builder.fadd(entries, ir.Constant(entries.type, [0.0] * count)), kind)  # −0.0 is 0
    if size is None:
        return keys
    size = size if whole == WORD else builder.trunc(size, whole)
    meant = builder.icmp_signed("<", ir.Constant(kind, list(range(count))), same(builder, size, count))
    return builder.select(meant, keys, ir.Constant(kind, [-1] * count))


def _ranks(builder: Any, keys: Any) -> Any:
    """The rank of each of some whole numbers, the largest first; equal ones go by lane."""
    size = keys.type.count
    less = builder.sub(keys, ir.Constant(keys.type, [1] * size))
    ranks = ir.Constant(keys.type, [0] * size)
    for lane in range(size):
        own = builder.shuffle_vector(keys, keys, ir.Constant(ir.VectorType(BITS, size), [lane] * size))
        picked = [other + (0 if other <= lane else size) for other in range(size)]
        against = builder.shuffle_vector(keys, less, ir.Constant(ir.VectorType(BITS, size), picked))
        ranks = builder.sub(ranks, builder.sext(builder.icmp_signed(">", own, against), keys.type))
    return ranks


def _ranks_among(builder: Any, row: Any, here: Any, size: Any, several: int) -> tuple[Any, Any]:
    """So many entries of a row from `here` on, and their ranks among the first `size`."""
    entries = load(builder, row, here, several)
    ranks = slot(builder, _ranks(builder, _keys(builder, entries)))
    after = builder.add(here, WORD(several))
    number = ranks.type.pointee.element
    # 1, which the compiler cannot know: or it would make numbers of the answers first, and then add them
    opaque = builder.add(builder.lshr(size, WORD(62)), WORD(1))
    more = same(builder, opaque if number == WORD else builder.trunc(opaque, number), several)
    for first, stop, comparison in ((WORD(0), here, ">="), (after, size, ">")):
        with cgutils.for_range_slice(builder, first, stop, WORD(1), inc=True) as (k, _):
            one = same(builder, builder.load(builder.gep(row, [k])), several)
            before = builder.load(ranks)
            above = builder.fcmp_ordered(comparison, one, entries)
            builder.store(builder.select(above, builder.add(before, more), before), ranks)
    return entries, builder.load(ranks)


def _write_by_rank(builder: Any, ranks: Any, numbers: list[Any], there: Any) -> None:
    """Writes some numbers, each at its rank."""
    for lane, number in enumerate(numbers):
        rank = builder.extract_element(ranks, BITS(lane))
        rank = rank if rank.type == WORD else builder.zext(rank, WORD)
        builder.store(number, builder.gep(there, [rank]))


def _from(context: Any, builder: Any, signature: Any, arguments: Any, which: int, begin: Any) -> Any:
    """Where the entries of an array from `begin` on are."""
    array = context.make_array(signature.args[which])(context, builder, arguments[which])
    return builder.gep(array.data, [begin])


@step
def write_few(typing: Any, array: Any, start: Any, lanes: Any, found: Any, used: Any) -> Any:
    """Writes up to HANDFUL lanes of the entries from `start` on to found[used:] by falling entry, ties by lane.

    It writes as many numbers as a handful has. Nothing in here depends on what the entries are, or how many: a
    processor that guesses where a loop ends would be wrong about most rows.
    """

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        here = _from(context, builder, signature, arguments, 0, arguments[1])
        values: Any = ir.Constant(ir.VectorType(here.type.pointee, HANDFUL), [0.0] * HANDFUL)
        left, classes = arguments[2], []
        for lane in range(HANDFUL):
            some = builder.icmp_unsigned("!=", left, WORD(0))
            k = builder.select(some, builder.cttz(left, ir.Constant(ir.IntType(1), 0)), WORD(0))
            values = builder.insert_element(values, builder.load(builder.gep(here, [k])), BITS(lane))
            classes.append(builder.trunc(k, BITS))
            left = builder.and_(left, builder.sub(left, WORD(1)))
        ranks = _ranks(builder, _keys(builder, values, builder.ctpop(arguments[2])))
        _write_by_rank(builder, ranks, classes, _from(context, builder, signature, arguments, 3, arguments[4]))
        return context.get_dummy_value()

    return types.void(array, types.intp, types.uint64, found, types.intp), make


@step
def list_few(typing: Any, lanes: Any, here: Any, found: Any, used: Any) -> Any:
    """Writes `here` + lane of the first HANDFUL lanes to found[used:], and what is no class if there are fewer."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, there = arguments[0], _from(context, builder, signature, arguments, 2, arguments[3])
        for place in range(HANDFUL):
            k = builder.add(arguments[1], builder.cttz(left, ir.Constant(ir.IntType(1), 0)))
            builder.store(builder.trunc(k, BITS), builder.gep(there, [WORD(place)]))
            left = builder.and_(left, builder.sub(left, WORD(1)))
        return context.get_dummy_value()

    return types.void(types.uint64, types.intp, found, types.intp), make


@step
def sort_few(typing: Any, array: Any, start: Any, found: Any, used: Any, size: Any) -> Any:
    """Sorts the classes found[used : used + size], up to HANDFUL, by falling entry of array[start:], ties as they are.

    It writes as many numbers as a handful has, and does not look at the entries for where to go on, as `write_few`.
    """

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        here = _from(context, builder, signature, arguments, 0, arguments[1])
        there = _from(context, builder, signature, arguments, 2, arguments[3])
        values: Any = ir.Constant(ir.VectorType(here.type.pointee, HANDFUL), [0.0] * HANDFUL)
        classes = []
        for lane in range(HANDFUL):
            k = builder.load(builder.gep(there, [WORD(lane)]))
            k = builder.select(builder.icmp_signed(">", arguments[4], WORD(lane)), k, BITS(0))
            one = builder.load(builder.gep(here, [builder.zext(k, WORD)]))
            values = builder.insert_element(values, one, BITS(lane))
            classes.append(k)
        _write_by_rank(builder, _ranks(builder, _keys(builder, values, arguments[4])), classes, there)
        return context.get_dummy_value()

    return types.void(array, types.intp, found, types.intp, types.intp), make


def _writing(several: int) -> Step:
    def write_some(typing: Any, array: Any, start: Any, place: Any, size: Any, found: Any, used: Any) -> Any:
        def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            row, place = _from(context, builder, signature, arguments, 0, arguments[1]), arguments[2]
            _, ranks = _ranks_among(builder, row, place, arguments[3], several)
            classes = [builder.trunc(builder.add(place, WORD(lane)), BITS) for lane in range(several)]
            _write_by_rank(builder, ranks, classes, _from(context, builder, signature, arguments, 4, arguments[5]))
            return context.get_dummy_value()

        return types.void(array, types.intp, types.intp, types.intp, found, types.intp), make

    return step(write_some)


# Write HANDFUL or ARMFUL classes from `place` on of array[start : start + size] to found[used:], each at its rank.
write_some, write_more = _writing(HANDFUL), _writing(ARMFUL)


@step
def sort_some(
    typing: Any, raw: Any, raw_classes: Any, place: Any, size: Any, values: Any, classes: Any, at: Any
) -> Any:
    """Writes HANDFUL entries from `place` on, and their classes, each at its rank in raw[:size], from `at` on."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place, size, at = arguments[2], arguments[3], arguments[6]
        source, of, target, to = (
            _from(context, builder, signature, arguments, which, first)
            for which, first in ((0, WORD(0)), (1, WORD(0)), (4, at), (5, at))
        )
        entries, ranks = _ranks_among(builder, source, place, size, HANDFUL)
        for found, there in ((entries, target), (load(builder, of, place, HANDFUL), to)):
            each = [builder.extract_element(found, BITS(lane)) for lane in range(HANDFUL)]
            _write_by_rank(builder, ranks, each, there)
        return context.get_dummy_value()

    whole = types.intp
    return types.void(raw, raw_classes, whole, whole, values, classes, whole), make
