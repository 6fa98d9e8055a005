"""How the array of a new tensor is put together from boxes of old tensors, and where its bytes lie in their files.

    TensorBox  a box of an old tensor
    Turns      arrays one after the other along an axis, or in turns; or on a new axis

The rows [0:2] of q, and then those of k, with 3 columns of 4 bytes, are two stretches of 24 bytes.  Along axis 1 they
take turns: 12 bytes of q, 12 of k, 12 of q, 12 of k.  So a region of a file is a run, or runs at regular distances,
and the regions of a segment take turns:

    segments   ((q, Runs(0, 12, ((2, 12),))), (k, Runs(0, 12, ((2, 12),))))
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias, TypeGuard

from gpulayout.files.checkpoints.header import StoredTensor, tensor_text
from gpulayout.files.checkpoints.opening import Shard
from gpulayout.layout.checks import counted
from gpulayout.layout.errors import LayoutError
from gpulayout.moves.runs import Runs, runs_of

MOST_REGIONS = 1 << 20  # of one tensor

Box = tuple[tuple[int, int], ...]  # in each dimension the first coordinate, and one past the last


@dataclass(frozen=True)
class TensorBox:
    """A box of an old tensor.

    shard, tensor   the file, and what its header says
    sizes           of the whole tensor's axes, the most major first, in units of `bits`
    box             the part that is taken
    """

    shard: Shard
    tensor: StoredTensor
    sizes: tuple[int, ...]
    box: Box
    bits: int

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The sizes of the box."""
        return tuple(end - begin for begin, end in self.box)


@dataclass(frozen=True)
class Turns:
    """Arrays one after the other along an axis.

    interleave   they take turns along the axis, one index each
    is_new       the axis is a new one, with an index for each array
    """

    arrays: tuple[Array, ...]
    axis: int
    interleave: bool = False
    is_new: bool = False

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The sizes of all arrays together."""
        first = self.arrays[0].dimensions
        if self.is_new:
            return (*first[: self.axis], len(self.arrays), *first[self.axis :])
        along = sum(each.dimensions[self.axis] for each in self.arrays)
        return (*first[: self.axis], along, *first[self.axis + 1 :])


Array: TypeAlias = TensorBox | Turns


class TensorRuns(NamedTuple):
    """Bytes of an old tensor: runs, whose offsets count from its first byte."""

    part: TensorBox
    runs: Runs


Segments = list[list[TensorRuns]]


def whole(shard: Shard, tensor: StoredTensor, sizes: Sequence[int], bits: int) -> TensorBox:
    """All of a tensor."""
    return TensorBox(shard, tensor, tuple(sizes), tuple((0, size) for size in sizes), bits)


def parts_of(array: Array) -> Iterator[TensorBox]:
    """The parts of an array, in order."""
    if isinstance(array, TensorBox):
        yield array
    else:
        for each in array.arrays:
            yield from parts_of(each)


def cut(array: Array, axis: int, begin: int, end: int, step: int = 1) -> Array:
    """The indices `begin` to `end - 1` along an axis; with a step every so many of them, from one tensor."""
    if step > 1:
        return _every(array, axis, begin, step)
    if isinstance(array, TensorBox):
        low = array.box[axis][0]
        return _checked(replace(array, box=(*array.box[:axis], (low + begin, low + end), *array.box[axis + 1 :])))
    if array.axis != axis:
        return replace(array, arrays=tuple(cut(each, axis, begin, end) for each in array.arrays))
    kept, start = [], 0
    for each in array.arrays:
        size = each.dimensions[axis]
        first, last = max(begin - start, 0), min(end - start, size)
        if first < last:
            kept.append(cut(each, axis, first, last))
        start += size
    kept = kept or [cut(array.arrays[0], axis, 0, 0)]
    return kept[0] if len(kept) == 1 else replace(array, arrays=tuple(kept))


def _every(array: Array, axis: int, begin: int, step: int) -> Array:
    """Every index in turn, for one tensor: its axis as two, of which the minor one is cut."""
    if isinstance(array, Turns):
        if array.axis == axis:
            raise LayoutError("interleave is for tensors that lie in one file each")
        return replace(array, arrays=tuple(_every(each, axis, begin, step) for each in array.arrays))
    (low, high), size = array.box[axis], array.sizes[axis]
    if low or high != size:
        raise LayoutError("interleave is for whole tensors, not for shards of them")
    sizes = (*array.sizes[:axis], size // step, step, *array.sizes[axis + 1 :])
    box = (*array.box[:axis], (0, size // step), (begin, begin + 1), *array.box[axis + 1 :])
    return _checked(replace(array, sizes=sizes, box=box))


def _checked(part: TensorBox) -> TensorBox:
    """A part of a tensor; `LayoutError` for a cut within a block, which is said before anything moves."""
    if part.tensor.blocks is not None and 0 not in part.dimensions:
        _runs(part)
    return part


def segments_of(array: Array) -> Segments:
    """Where the bytes of an array in C order lie: those of one segment after the other, whose regions take turns.

    `LayoutError` for a cut within a byte, and for more regions than can be listed.
    """
    if not math.prod(array.dimensions):
        return []
    if isinstance(array, TensorBox):
        return [[TensorRuns(array, _runs(array))]]
    if len(parts := _alike(array)) > 1:
        return [segment for part in parts for segment in segments_of(part)]
    dimensions = array.arrays[0].dimensions
    rows = math.prod(dimensions[: array.axis + 1 if array.interleave else array.axis])
    arrays = [segments_of(each) for each in _in_a_row(array) if math.prod(each.dimensions)]
    if rows == 1:
        return [segment for each in arrays for segment in each]
    for each in arrays:
        if sum(runs.nbytes for segment in each for _, runs in segment) % rows:
            tensor = each[0][0].part.tensor
            raise LayoutError(f"{tensor_text(tensor.name)} is {tensor}: where it is joined, a row ends within a byte")
    in_rows = [_in_rows(each, rows) for each in arrays]
    whole_rows = [each for each in in_rows if each is not None]
    if len(whole_rows) == len(arrays):
        return [[*itertools.chain.from_iterable(whole_rows)]]
    return _row_by_row(arrays, rows)


def _in_a_row(array: Turns) -> list[Array]:
    """The arrays of turns; those of one that is itself several along the same axis stand in its place."""
    if not _goes_on(array, array.axis):
        return [*array.arrays]
    return [part for each in array.arrays for part in (_in_a_row(each) if _goes_on(each, array.axis) else [each])]


def _goes_on(array: Array, axis: int) -> TypeGuard[Turns]:
    """True for arrays one after the other along this axis."""
    return isinstance(array, Turns) and array.axis == axis and not (array.interleave or array.is_new)


def _alike(array: Turns) -> list[Turns]:
    """Arrays that take turns, cut where one of them goes on in another tensor: rows of one are then in one place each.

    Only along the first axis: along others, rows of all places take turns.
    """
    axis = array.axis
    if not array.interleave or math.prod(array.dimensions[:axis]) > 1:
        return [array]
    borders = {0}
    for each in array.arrays:
        parts = _in_a_row(each) if _goes_on(each, axis) else [each]
        borders |= {*itertools.accumulate(part.dimensions[axis] for part in parts)}
    return [
        replace(array, arrays=tuple(cut(each, axis, begin, end) for each in array.arrays))
        for begin, end in itertools.pairwise(sorted(borders))
    ]


def one_by_one(segments: Segments) -> Iterator[TensorRuns]:
    """All runs, each as a region, in the order of the array."""
    for segment in segments:
        for starts in zip(*(region.runs.starts() for region in segment)):
            for (part, runs), start in zip(segment, starts):
                yield TensorRuns(part, Runs(int(start), runs.length))


def reversed_parts(segments: Segments, parts: int) -> Segments:
    """The same bytes as so many equal parts in reverse order."""
    if parts < 2 or not segments:
        return segments
    size = sum(region.runs.nbytes for segment in segments for region in segment) // parts
    part, runs = segments[0][0]
    if len(segments) == len(segments[0]) == runs.run_count == 1:
        return [[TensorRuns(part, Runs(runs.offset + runs.length - size, size, ((parts, -size),)))]]
    take = _stretches(segments)
    _check_count(parts)
    in_order = [take(size) for _ in range(parts)]
    return [[region] for regions in reversed(in_order) for region in regions]


def mean_run(array: Array) -> float:
    """The mean of the bytes that follow one another in the files; infinite for an array without bytes."""
    regions = [region for segment in segments_of(array) for region in segment]
    count = sum(region.runs.run_count for region in regions)
    return sum(region.runs.nbytes for region in regions) / count if count else math.inf


def _runs(part: TensorBox) -> Runs:
    """The runs of a box, in bytes."""
    offset, inner, levels = 0, part.bits, [(part.bits, 1)]
    for size, (begin, end) in zip(reversed(part.sizes), reversed(part.box)):
        levels.append((end - begin, inner))
        offset += begin * inner
        inner *= size
    offset, length, loops = runs_of(levels, offset, 8)  # in bits: each is a place of 8
    if any(each % 8 for each in (offset, length, *(stride for _, stride in loops))):
        raise LayoutError(f"{tensor_text(part.tensor.name)} is {part.tensor}: a cut lies within a byte")
    runs = Runs(offset // 8, length // 8, tuple((count, stride // 8) for count, stride in loops))
    return runs if part.tensor.blocks is None else _in_blocks(part.tensor, runs)


def _in_blocks(tensor: StoredTensor, runs: Runs) -> Runs:
    """Where runs of a tensor's bytes lie that are in blocks of its file."""
    assert tensor.blocks is not None
    taken, step = tensor.blocks
    number, inside = divmod(runs.offset, taken)
    offset = number * step + inside
    loops = [(count, stride // taken * step) for count, stride in runs.loops]
    if not any(stride % taken for _, stride in runs.loops):
        if inside + runs.length <= taken:
            return Runs(offset, runs.length, tuple(loops))
        if not inside and not runs.length % taken:
            return Runs(offset, taken, (*loops, (runs.length // taken, step)))
    raise LayoutError(
        f"{tensor_text(tensor.name)} is {tensor}, in blocks of {counted(taken, 'byte')}: a cut lies within a block: "
        "cut at a multiple, or copy the tensor in one relayout and cut it in another"
    )


def _in_rows(segments: Segments, rows: int) -> list[TensorRuns] | None:
    """The one region of an array as regions that take turns, with a run in each of so many rows; None where it is not
    that regular."""
    if len(segments) != 1 or len(segments[0]) != 1:
        return None
    part, runs = segments[0][0]
    outer: list[tuple[int, int]] = []
    inner: list[tuple[int, int]] = []  # loops within a row
    for count, stride in runs.loops:
        own = math.gcd(rows, count)
        if own < min(rows, count):
            return None
        rows //= own
        outer += [(own, stride * (count // own))] if own > 1 else []
        inner += [(count // own, stride)] if own < count else []
    length, rest = divmod(runs.length, rows)
    if rest:
        return None
    outer += [(rows, length)] if rows > 1 else []
    within = Runs(runs.offset, length, (*inner,))
    _check_count(within.run_count)
    return [TensorRuns(part, Runs(start, length, tuple(outer))) for start in within.starts().tolist()]


def _row_by_row(arrays: Sequence[Segments], rows: int) -> Segments:
    """All regions one by one, of the first row of every array, then of the second."""
    cuts = [_stretches(each) for each in arrays]
    sizes = [sum(runs.nbytes for segment in each for _, runs in segment) // rows for each in arrays]
    segments: Segments = []
    for _ in range(rows):
        for take, size in zip(cuts, sizes):
            segments += [[region] for region in take(size)]
            _check_count(len(segments))
    return segments


def _check_count(regions: int) -> None:
    if regions > MOST_REGIONS:
        raise LayoutError(
            f"it would take more than {MOST_REGIONS} pieces of the files: cut and join in two relayouts, one after "
            f"the other"
        )


def _stretches(segments: Segments) -> Callable[[int], list[TensorRuns]]:
    """A function that gives the regions of the next so many bytes."""
    ahead = one_by_one(segments)
    left: list[TensorRuns] = []

    def take(nbytes: int) -> list[TensorRuns]:
        taken = []
        while nbytes:
            part, runs = left.pop() if left else next(ahead)
            size = min(runs.length, nbytes)
            taken.append(TensorRuns(part, Runs(runs.offset, size, ())))
            if size < runs.length:
                left.append(TensorRuns(part, Runs(runs.offset + size, runs.length - size, ())))
            nbytes -= size
        return taken

    return take
