"""Launches for moves with arithmetic: kernels/convert.cu.

One launch reads and writes along the minor axis of the target.  Where the source runs along another axis, its reads
would be scattered.  Then elements change place in the narrower type, by an ordinary move, and the arithmetic goes
between equal orders; a dense array in temporary memory is between the two:

    u8[64,48] to f32[64,48]{0,1}    a move of bytes to u8[64,48]{0,1}, then u8 to f32
    f32[64,48] to u8[64,48]{0,1}    f32 to u8 in the order of the source, then a move of bytes
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpulayout.gpu.element_width import VECTOR_BYTES, check_whole_elements
from gpulayout.gpu.kernel_numbers import CHUNKS, KINDS, MOST_PARAMETERS, OPERATIONS, SPECIAL_CODES, THREADS
from gpulayout.gpu.launch import MAX_GRID_X, Access, Kernel, KernelPlan
from gpulayout.gpu.parameters import axes_variant, convert_struct
from gpulayout.layout.element_type import ElementType
from gpulayout.moves.arithmetic import Arithmetic, Step
from gpulayout.moves.convert_move import ConvertMove
from gpulayout.moves.index_width import index_bits
from gpulayout.moves.kinds import AnyMove, Pieces
from gpulayout.moves.move import Axis, Move, coalesce

MOST_ELEMENTS = 4  # of a chunk
MOST_AXES = 56  # that fit the 4 KB of kernel parameters: 2^56 elements of two places each way
FAR = 3  # elements between neighbours in the source from which on a warp would read too much beside them
_CONVERT = Kernel(
    "convert", "convert.cu", "gpl_convert", shared_bytes=0, is_estimated=False, pointers=2 + MOST_PARAMETERS
)


class Split(NamedTuple):
    """Two moves through temporary memory: the first one writes it, the second one reads it."""

    first: Move | ConvertMove
    second: Move | ConvertMove
    temporary_bytes: int


class PlannedLaunch(NamedTuple):
    """One launch of a transfer.  Offsets are bytes, in temporary memory if the launch reads or writes that.

    starts    for each parameter, the element that belongs to the first element of the move
    """

    move: AnyMove
    reads_temporary: bool
    source_offset: int
    writes_temporary: bool
    target_offset: int
    starts: tuple[int, ...] = ()

    @property
    def is_arithmetic(self) -> bool:
        """True if the kernel takes parameters."""
        return isinstance(self.move, ConvertMove)


class PlannedPieces(NamedTuple):
    """The launches of a transfer in order, and the bytes of temporary memory that each pair of them may use."""

    launches: tuple[PlannedLaunch, ...]
    temporary_bytes: int


# ---- what is planned -------------------------------------------------------------------------------------------------


def split(move: ConvertMove) -> Split | None:
    """The move in two, where the source runs along another axis than the target; None if one launch is as good."""
    move = joined(move)  # without axes of one place, whose strides mean nothing
    axes, (source, target) = move.axes, (move.arithmetic.source, move.arithmetic.target)
    by_source = sorted(range(len(axes)), key=lambda k: (abs(axes[k].source_stride), k))
    if not axes or by_source[0] == 0 or abs(axes[0].source_stride) <= FAR * source.itemsize:
        return None
    is_wide = source.itemsize > target.itemsize
    narrow = target if is_wide else source
    order = by_source if is_wide else range(len(axes))
    between = [0] * len(axes)  # strides of the temporary array
    stride = narrow.itemsize
    for k in order:
        between[k] = stride
        stride *= axes[k].extent
    reading = [axis._replace(target_stride=step) for axis, step in zip(axes, between)]
    writing = [axis._replace(source_stride=step) for axis, step in zip(axes, between)]
    if is_wide:
        return Split(_converting(move, reading, order), _moving(writing, narrow), stride)
    return Split(_moving(reading, narrow), _converting(move, writing, order), stride)


def planned_pieces(pieces: Pieces) -> PlannedPieces:
    """The launches of pieces with arithmetic, and of fills beside them."""
    launches: list[PlannedLaunch] = []
    room = 0
    for move, source, target in pieces:
        if not move.place_count:
            continue
        starts = move.parameter_offsets if isinstance(move, ConvertMove) else ()
        found = split(move) if isinstance(move, ConvertMove) else None
        if found is None:
            launches.append(PlannedLaunch(move, False, source, False, target, starts))
            continue
        first, second = (starts if isinstance(each, ConvertMove) else () for each in found[:2])
        launches.append(PlannedLaunch(found.first, False, source, True, 0, first))
        launches.append(PlannedLaunch(found.second, True, 0, False, target, second))
        room = max(room, found.temporary_bytes)
    return PlannedPieces(tuple(launches), room)


def convert_plan(move: ConvertMove, source_phase: int = 0, target_phase: int = 0) -> KernelPlan:
    """One launch for the whole move, between two addresses given modulo 16.  If `split` gives two, its reason says so.

    BufferError when a stride is not a whole number of elements, or an address not a multiple of the element size.
    """
    found = split(move)
    move = joined(_of_parts(move))
    given, made = (side.itemsize for side in (move.arithmetic.source, move.arithmetic.target))
    check_whole_elements(given, "source", source_phase, [axis.source_stride for axis in move.axes])
    check_whole_elements(made, "target", target_phase, [axis.target_stride for axis in move.axes])
    if len(move.axes) > MOST_AXES:
        raise BufferError(f"a move with arithmetic of {len(move.axes)} axes: a launch has room for {MOST_AXES}")
    vector = _vector(move, source_phase, target_phase)
    chunks = math.ceil(move.element_count / vector)
    bits = index_bits(chunks, *_reaches(move))
    variant = min(axes_variant(max(len(move.axes), 1)), MOST_AXES)
    along = [strides[0] if strides else 0 for strides in move.parameter_strides]
    blocks = math.ceil(chunks / (THREADS * CHUNKS))
    macros = (
        ("GPL_ELEMENT_BYTES", made),
        ("GPL_INDEX_BITS", bits),
        ("GPL_AXES", variant),
        *arithmetic_macros(move.arithmetic),
        ("GPL_VECTOR", vector),
    )
    return KernelPlan(
        _CONVERT,
        macros,
        (min(blocks, MAX_GRID_X), math.ceil(blocks / MAX_GRID_X)),
        convert_struct(bits, chunks, along, _loops(move, vector), variant),
        made,
        vector * made,
        bits,
        tuple(
            Axis(axis.extent, axis.extent, axis.source_stride // given, axis.target_stride // made)
            for axis in move.axes
        ),
        None,
        () if found is None else (_why_split(move, found),),
        Access(vector * given),
    )


# ---- types and steps as the kernel gets them -------------------------------------------------------------------------


@functools.cache
def type_number(element_type: ElementType) -> int:
    """An element type as kernels/convert.cuh takes it: kind, special codes, bits, bits of the mantissa, bias.

    Floats have their sizes in their names: f8e4m3 has 4 bits of exponent and 3 of mantissa.
    """
    if not element_type.is_floating:
        kind = {"bool": "boolean"}.get(element_type.kind, element_type.kind)
        return KINDS[kind] | element_type.bits << 5
    if element_type is ElementType.F8E8M0FNU:
        return KINDS["power"] | 8 << 5 | 127 << 18
    name = {"f16": "f16e5m10", "bf16": "f16e8m7", "f32": "f32e8m23", "f64": "f64e11m52"}.get(element_type, element_type)
    found = re.fullmatch(r"f(\d+)e(\d+)m(\d+)(?:b(\d+))?(fn|fnuz)?", name)
    assert found, name
    bits, exponent_bits, mantissa_bits = (int(number) for number in found.groups()[:3])
    is_unsigned_zero = found[5] == "fnuz"
    special = "ieee"
    if is_unsigned_zero:
        special = "unsigned_zero"
    elif found[5]:
        special = "nan" if element_type.holds(np.nan) else "finite"
    bias = int(found[4] or 2 ** (exponent_bits - 1) - (not is_unsigned_zero))
    return KINDS["float"] | SPECIAL_CODES[special] << 3 | bits << 5 | mantissa_bits << 12 | bias << 18


def steps_number(steps: Sequence[Step]) -> int:
    """The steps as kernels/convert.cuh takes them: five bits each.

    >>> oct(steps_number([Step("multiply", 0), Step("add", 1)]))
    '0o501'
    """
    codes = [OPERATIONS[step.operation] | (step.parameter or 0) << 3 for step in steps]
    return sum(code << 5 * place for place, code in enumerate(codes))


def arithmetic_macros(arithmetic: Arithmetic) -> tuple[tuple[str, int], ...]:
    """The macros of a kernel for this arithmetic."""
    sides = arithmetic.source, arithmetic.target
    is_wide = any(side.itemsize == 8 for side in sides)
    if arithmetic.steps and arithmetic.compute is ElementType.F64:
        is_wide = True
    return (
        ("GPL_SOURCE_TYPE", type_number(arithmetic.source)),
        ("GPL_TARGET_TYPE", type_number(arithmetic.target)),
        ("GPL_SATURATE", int(arithmetic.saturate)),
        ("GPL_STEPS", steps_number(arithmetic.steps)),
        ("GPL_WIDE", int(is_wide)),
    )


# ---- axes ------------------------------------------------------------------------------------------------------------


def joined(move: ConvertMove) -> ConvertMove:
    """The same move in as few axes as possible: one steps exactly over the one below it on all sides."""
    columns: list[tuple[int, ...]] = []  # extent, then the strides of both sides and of the parameters
    names: list[tuple[int, ...]] = []
    dimensions = move.dimensions or ((),) * len(move.axes)
    for axis, *strides, name in zip(move.axes, *move.parameter_strides, dimensions):
        if axis.extent == 1:
            continue
        column = (axis.extent, axis.source_stride, axis.target_stride, *strides)
        below = columns[-1] if columns else None
        if below and all(step == below[0] * inner for step, inner in zip(column[1:], below[1:])):
            columns[-1] = (below[0] * axis.extent, *below[1:])
            names[-1] += name
        else:
            columns.append(column)
            names.append(name)
    return dataclasses.replace(
        move,
        axes=tuple(Axis(column[0], *column[:3]) for column in columns),
        parameter_strides=tuple(tuple(column[3 + p] for column in columns) for p in range(len(move.parameter_strides))),
        dimensions=tuple(names),
    )


def _of_parts(move: ConvertMove) -> ConvertMove:
    """A move of complex numbers as a move of their parts, of which there are twice as many."""
    source, target = move.arithmetic.source, move.arithmetic.target
    if not source.is_complex:
        return move
    parts = Axis(2, 2, source.component.itemsize, target.component.itemsize)
    return ConvertMove(
        (parts, *move.axes),
        dataclasses.replace(move.arithmetic, source=source.component, target=target.component),
        dimensions=((), *move.dimensions),
    )


def _converting(move: ConvertMove, axes: Sequence[Axis], order: Sequence[int]) -> ConvertMove:
    """The move between other strides, its axes in another order."""
    return dataclasses.replace(
        move,
        axes=tuple(axes[k] for k in order),
        parameter_strides=tuple(tuple(strides[k] for k in order) for strides in move.parameter_strides),
        dimensions=tuple(move.dimensions[k] for k in order) if move.dimensions else (),
    )


def _why_split(move: ConvertMove, found: Split) -> str:
    """Why a move takes two launches."""
    apart = abs(move.axes[0].source_stride)
    return (
        f"neighbours in the target are {apart} bytes apart in the source, so two launches run: elements change place "
        f"in the narrower type, through {found.temporary_bytes} bytes of temporary memory"
    )


def _moving(axes: Sequence[Axis], element_type: ElementType) -> Move:
    """The ordinary move of elements of this type."""
    found, dimensions = coalesce(axes)
    return Move(found, element_type.itemsize, bytes(element_type.itemsize), dimensions)


def _vector(move: ConvertMove, source_phase: int, target_phase: int) -> int:
    """How many neighbours a thread converts at once: they are contiguous and aligned on both sides."""
    sizes = [side.itemsize for side in (move.arithmetic.source, move.arithmetic.target)]
    if not move.axes or list(move.axes[0][2:]) != sizes:
        return 1
    minor, others = move.axes[0].extent, move.axes[1:]
    vector = math.gcd(MOST_ELEMENTS, VECTOR_BYTES // max(sizes), minor)
    for size, phase, side in zip(sizes, (source_phase, target_phase), (2, 3)):
        vector = math.gcd(vector, phase // size, *(axis[side] // size for axis in others))
    return vector


def _loops(move: ConvertMove, vector: int) -> list[tuple[int, ...]]:
    """Extent and strides of the axes of chunks, for `convert_struct`."""
    found = []
    for k, (axis, *strides) in enumerate(zip(move.axes, *move.parameter_strides)):
        step = vector if k == 0 else 1
        found.append((axis.extent // step, *(step * stride for stride in (*axis[2:], *strides))))
    return found


def _reaches(move: ConvertMove) -> list[int]:
    """The largest offsets on both sides and in every parameter, forwards and backwards."""
    found = []
    columns = [[axis.source_stride for axis in move.axes], [axis.target_stride for axis in move.axes]]
    for column in (*columns, *move.parameter_strides):
        moved = [(axis.extent - 1) * stride for axis, stride in zip(move.axes, column)]
        found += [sum(each for each in moved if each > 0), sum(each for each in moved if each < 0)]
    return found
