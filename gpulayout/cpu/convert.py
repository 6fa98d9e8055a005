"""Moves with arithmetic on the CPU: cache block by cache block, each converted while it is in the caches.

Where source and target run along the same axis, or the source's elements along the target share lines, a block is
converted from one side to the other.  Else its elements also change place, in the narrower type, by an ordinary move to
or from a scratch array:

    u8 to f32     gathered into the scratch array in the order of the target, then converted
    f32 to bf16   converted into the scratch array in the order of the source, then scattered
"""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from gpulayout.cpu import native
from gpulayout.cpu.caches import LINE_BYTES, machine_caches
from gpulayout.cpu.casts import ElementConversion
from gpulayout.cpu.float_mode import default_float_mode
from gpulayout.cpu.native_plan import NativePlan, ordinary_plan_of
from gpulayout.cpu.strided_plan import Box, StridedPlan, block_sizes, boxes_of
from gpulayout.cpu.thread_count import MOST_THREADS
from gpulayout.cpu.threads import share
from gpulayout.cpu.views import strided_view
from gpulayout.layout.element_type import ElementType
from gpulayout.moves.convert_move import ConvertMove
from gpulayout.moves.move import Axis
from gpulayout.moves.steps import move_of
from gpulayout.moves.texts import tile_text

# Bytes of a block on both sides and of all temporary arrays, in sizes of the second-level cache.  Smaller blocks would
# stay in it, but threads wait for each other before and after each of NumPy's operations.
CACHE_SHARE = 3
MOST_TEMPORARY = 1 << 17  # elements of a temporary array; malloc gives longer ones back to the system, each time
SCRATCH = 3 << 20  # bytes of the scratch arrays of all threads
MOST_SPARE = 2  # scratch arrays that are kept
SHORT_SIDE = 128  # elements of a block with a scratch array, along the side that is not converted along
LEAST_BLOCKS = 8  # for several threads
SHARE = 1 << 18  # the fewest elements that justify another thread
NEAR_BYTES = 16  # a step between elements that share lines
LEAST_RUN = 256  # elements of a long run; NumPy's inner loops take some time to begin
SMALL = 1 << 12  # elements; for fewer, a scratch array does not pay
SHORT_AXIS = 64  # a parameter that steps along a shorter minor axis is spread over the block

Way = Literal["direct", "gather", "scatter"]


class ConvertPlan(NamedTuple):
    """How a move with arithmetic is cut into blocks.

    order        the axes in the order of the conversion, major first
    block        sizes of a block in this order
    way          whether elements are gathered into a scratch array before the arithmetic, or scattered from one after
    share        the fewest blocks for a thread
    parameters   of a call: the arrays that the steps take
    """

    move: ConvertMove
    threads: int
    order: tuple[int, ...]
    block: tuple[int, ...]
    way: Way
    share: int
    parameters: Sequence[np.ndarray] = ()

    @property
    def block_count(self) -> int:
        """Number of blocks."""
        return math.prod(-(-self.move.axes[k].extent // size) for k, size in zip(self.order, self.block))

    @property
    def most_threads(self) -> int:
        """The most threads that speed the move up."""
        return min(max(self.block_count // max(self.share, 1), 1), MOST_THREADS)

    def execute(self, source: np.ndarray, source_offset: int, target: np.ndarray, target_offset: int) -> None:
        """Move between two arrays; offsets are bytes from the first element of each."""
        if not self.move.element_count:
            return
        views = self._views(source, source_offset, target, target_offset)
        boxes = boxes_of(views[0].shape, self.block)
        # A block of a move in place is read before it is written.
        way = "gather" if self.way == "direct" and np.may_share_memory(source, target) else self.way
        work = functools.partial(_convert_blocks, self, way, views, self._spread(views[2:], boxes[0]), boxes)
        share(work, self.block_count, self.share, self.threads)

    def _views(
        self, source: np.ndarray, source_offset: int, target: np.ndarray, target_offset: int
    ) -> list[np.ndarray]:
        """The elements on both sides, and those of the parameters, as arrays of one shape."""
        move, types = self.move, self.move.arithmetic
        axes = [move.axes[k] for k in self.order]
        shape = tuple([axis.extent for axis in axes])
        reading, writing = tuple([axis.source_stride for axis in axes]), tuple([axis.target_stride for axis in axes])
        views = [
            strided_view(source, storage(types.source), shape, source_offset, reading),
            strided_view(target, storage(types.target), shape, target_offset, writing),
        ]
        for parameter, offset, strides in zip(self.parameters, move.parameter_offsets, move.parameter_strides):
            size = parameter.itemsize
            steps = tuple([strides[k] * size for k in self.order])
            views.append(np.ndarray(shape, parameter.dtype, parameter, offset * size, steps))
        return views

    def _spread(self, parameters: Sequence[np.ndarray], box: Box) -> list[np.ndarray | None]:
        """A value for each element of a block, of parameters that are the same for all blocks, so that NumPy's inner
        loops are not as short as the minor axis along which they step; None for other parameters.
        """
        if not self.spreads_parameters:
            return [None] * len(parameters)
        cut = [axis for axis, size in enumerate(self.block) if size < parameters[0].shape[axis]]
        return [
            None if any(parameter.strides[axis] for axis in cut) else np.ascontiguousarray(parameter[box])
            for parameter in parameters
        ]

    @property
    def spreads_parameters(self) -> bool:
        """Whether a parameter steps along a short minor axis."""
        if not self.order or self.block[-1] >= SHORT_AXIS:
            return False
        return any(strides[self.order[-1]] for strides in self.move.parameter_strides)

    @property
    def has_columns(self) -> bool:
        """Whether a scratch array has columns that stay in a first-level cache, each a run of the target."""
        column = self.block[self.order.index(0)] if self.order else 0
        return SHORT_SIDE // 2 <= column <= 2 * SHORT_SIDE and self.block[-1] >= LEAST_RUN

    def describe(self) -> str:
        """The plan in words."""
        text = f"{self.move.arithmetic.form} in blocks of {tile_text(self.block)}"
        text += {"direct": "", "gather": ", gathered before", "scatter": ", scattered after"}[self.way]
        return text + (f"; worth up to {self.most_threads} threads" if self.most_threads > 1 else "")

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            "arithmetic": self.move.arithmetic.form,
            "cache_block": self.block[::-1],
            "way": self.way,
            "threads": self.most_threads,
        }


def numpy_convert_plan(move: ConvertMove, threads: int = 1) -> ConvertPlan:
    """The plan of a move with arithmetic for NumPy, for at most `threads` threads."""
    axes = move.axes
    by_source = sorted(range(len(axes)), key=lambda k: abs(axes[k].source_stride))
    way: Way = "scatter" if move.arithmetic.source.itemsize > move.arithmetic.target.itemsize else "gather"
    if _is_near(move, by_source):
        way = "direct"
    block = _block_of(move, by_source, way, threads)
    order = tuple(reversed(by_source if way == "scatter" else range(len(axes))))
    count = math.prod(-(-axis.extent // size) for axis, size in zip(axes, block))
    least = -(-count * SHARE // max(move.element_count, 1))
    return ConvertPlan(move, threads, order, tuple([block[k] for k in order]), way, least)


def _is_near(move: ConvertMove, by_source: Sequence[int]) -> bool:
    """Whether a block can be converted from one side to the other: runs along the target are long, and their elements
    share lines of the source, or would in no other order.
    """
    if move.element_count <= SMALL:
        return True
    source, target = move.arithmetic.source, move.arithmetic.target
    joint = 1  # elements that are neighbours on both sides
    for axis in move.axes:
        if (axis.source_stride, axis.target_stride) != (joint * source.itemsize, joint * target.itemsize):
            break
        joint *= axis.extent
    if joint >= LEAST_RUN:
        return True
    is_native = not (source.is_extended or target.is_extended)
    near = NEAR_BYTES if is_native and not conversion_of(move).temporary_bytes else source.itemsize
    run = move.axes[0]
    return run.extent >= LEAST_RUN and (abs(run.source_stride) <= near or by_source[0] == 0)


def _block_of(move: ConvertMove, by_source: Sequence[int], way: Way, threads: int) -> tuple[int, ...]:
    """Sizes of a block, axes as in the move; several blocks for several threads.

    A block that goes through scratch is long along the side that is converted along.
    """
    types, whole = move.arithmetic, tuple([axis.extent for axis in move.axes])
    if way == "direct":
        element_bytes = types.source.itemsize + types.target.itemsize + conversion_of(move).temporary_bytes
        size = CACHE_SHARE * machine_caches().second // element_bytes
    else:
        size = SCRATCH // threads // min(types.source.itemsize, types.target.itemsize)
    if threads > 1:
        size = min(size, move.element_count // LEAST_BLOCKS)
    if math.prod(whole) <= size:
        return whole
    # Directly, a block runs along the source, where elements that are near along the target are neighbours.
    along_target = {"direct": 1, "gather": max(size // SHORT_SIDE, 1), "scatter": SHORT_SIDE}[way]
    return block_sizes(whole, by_source, along_target, size)


def conversion_of(move: ConvertMove) -> ElementConversion:
    """What converts the elements of a move."""
    return _conversion(move.arithmetic)


_conversion = functools.lru_cache(maxsize=256)(ElementConversion)


@functools.cache
def storage(element_type: ElementType) -> np.dtype[Any]:
    """The dtype in which the arithmetic reads and writes elements: unsigned integers for types that NumPy lacks."""
    return element_type.carrier if element_type.is_extended else element_type.dtype


def _convert_blocks(
    plan: ConvertPlan,
    way: Way,
    views: Sequence[np.ndarray],
    spread: Sequence[np.ndarray | None],
    boxes: Sequence[Box],
    first: int,
    last: int,
) -> None:
    """Convert some blocks."""
    convert = functools.partial(_convert_parts, conversion_of(plan.move))
    memory = _taken_memory(plan, way)
    # The law says what becomes of nan, infinity and numbers out of range: no call warns of them.
    with default_float_mode(), np.errstate(all="ignore"):
        for box in boxes[first:last]:
            values, result, *parameters = [view[box + (...,)] for view in views]
            if plan.spreads_parameters:
                inside = tuple([slice(size) for size in values.shape])
                parameters = [
                    np.ascontiguousarray(parameter if block is None else block[inside])
                    for parameter, block in zip(parameters, spread)
                ]
            if way == "direct":
                convert(values, parameters, result)
                continue
            scratch = _scratch(plan, way, values.shape, memory)
            if way == "gather":
                _copy(values, scratch)
                convert(scratch, parameters, result)
            else:
                convert(values, parameters, scratch)
                if plan.has_columns:
                    result[...] = scratch
                else:
                    _copy(scratch, result)
    if 0 < memory.nbytes <= SCRATCH:
        _spare_memory.append(memory)


# Memory for scratch arrays that no thread uses.  New memory would take as long to map as a block takes to convert.
_spare_memory: deque[np.ndarray] = deque(maxlen=MOST_SPARE)


def _taken_memory(plan: ConvertPlan, way: Way) -> np.ndarray:
    """Memory for the scratch arrays of a call.  Nobody else has it, so a signal handler may convert, too."""
    if way == "direct":
        return np.empty(0, np.uint8)
    most = math.prod(_scratch_sizes(plan, way, plan.block)) * _scratch_type(plan, way).itemsize
    try:
        memory = _spare_memory.pop()
    except IndexError:
        memory = np.empty(0, np.uint8)
    return memory if memory.nbytes >= most else np.empty(most, np.uint8)


def _scratch(plan: ConvertPlan, way: Way, shape: tuple[int, ...], memory: np.ndarray) -> np.ndarray:
    """The scratch array of a block."""
    found: np.ndarray = np.ndarray(_scratch_sizes(plan, way, shape), _scratch_type(plan, way), memory)
    return found[..., : shape[-1]] if shape else found


def _scratch_type(plan: ConvertPlan, way: Way) -> np.dtype[Any]:
    types = plan.move.arithmetic
    return storage(types.source if way == "gather" else types.target)


def _scratch_sizes(plan: ConvertPlan, way: Way, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of a scratch array.  The rows above columns begin an odd number of lines apart, so that a column uses
    all sets of a cache.
    """
    if way == "gather" or not plan.has_columns:
        return shape
    itemsize = _scratch_type(plan, way).itemsize
    lines = -(-shape[-1] * itemsize // LINE_BYTES) | 1
    return (*shape[:-1], lines * LINE_BYTES // itemsize)


def _convert_parts(
    conversion: ElementConversion, values: np.ndarray, parameters: Sequence[np.ndarray], result: np.ndarray
) -> None:
    """Convert a block; its temporary arrays are cut along the first axis that has a length."""
    if not conversion.temporary_bytes or values.size <= MOST_TEMPORARY:
        conversion.convert(values, parameters, result)
        return
    axis = next(axis for axis, size in enumerate(values.shape) if size > 1)
    size = values.shape[axis]
    step = max(size * MOST_TEMPORARY // values.size, 1)
    for start in range(0, size, step):
        part = (*(slice(None),) * axis, slice(start, start + step))
        _convert_parts(conversion, values[part], [parameter[part] for parameter in parameters], result[part])


def _copy(source: np.ndarray, target: np.ndarray) -> None:
    """Copy to or from a scratch array by the plan of an ordinary move."""
    plan = _copy_plan(source.shape, source.strides, target.strides, source.itemsize, native.module())
    plan.execute(source, 0, target, 0)


@functools.lru_cache(maxsize=256)
def _copy_plan(
    shape: tuple[int, ...], source: tuple[int, ...], target: tuple[int, ...], itemsize: int, engine: object
) -> NativePlan | StridedPlan:
    axes = [Axis(size, size, *steps) for size, *steps in zip(shape, source, target)]
    return ordinary_plan_of(move_of(axes, itemsize))
