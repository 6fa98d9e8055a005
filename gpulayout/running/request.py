"""Requests: two placements and a change of elements, planned once, and done to memory of a backend.

A request reads elements where one placement says, changes them if arithmetic is asked for, and writes them where
another placement says.  pack, unpack, relayout, transpose and plans differ only in their two placements.  What does not
depend on the arrays themselves is computed once and kept here.
"""

from __future__ import annotations

import contextlib
import copy
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpulayout.arrays import arrays
from gpulayout.arrays.array_types import HostArray
from gpulayout.arrays.memory_checks import ArrayFacts, check_buffer, check_exact, flat_buffer
from gpulayout.layout.checks import ByteCount, byte_count, counted
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.moves.backend import Again, AnyArray, Backend, Prepared
from gpulayout.moves.convert_pieces import Stages, convert_stages
from gpulayout.moves.in_place import move_in_place
from gpulayout.moves.lookup_move import NotInRegions
from gpulayout.moves.move import check_storable
from gpulayout.moves.pieces import Pieces, pieces
from gpulayout.moves.placement import Placement
from gpulayout.requests.arithmetic import ElementChange
from gpulayout.requests.parameters import Parameter
from gpulayout.requests.reading import Call, read_arguments
from gpulayout.running.box_moves import BoxMoves
from gpulayout.running.in_place import InPlace, default_limit, deferred_signals, in_place
from gpulayout.running.kept import Kept
from gpulayout.running.same_kind import ArrayCall

SEPARATE = "separate memory, because only gl.relayout and plans work in place"  # the rule for an `out` that overlaps
SAME = "separate memory, or the same from the first byte to the last"  # where elements change
FIRST = "separate memory, or begin with the same byte"

Opened = tuple[Backend, AnyArray]


class Request:
    """A move from one placement to another.

    read, write   where the elements lie, before and after
    change        what becomes of each element, with its parameters; None for nothing
    stages        of a request with arithmetic; None for one without
    pieces        moves between parts of both, as `stages` has them if there are any
    prepared      the pieces as prepared by each backend
    latest        what runs calls of a plan again without checks, by the kinds of their arrays
    strict        False for buffers that may be longer than their shapes
    max_bytes     of the workspace, for a box that one pass cannot move; None for the default
    """

    strict = True
    max_bytes: int | None = None

    def __init__(self, read: Placement, write: Placement, change: ElementChange | None):
        self.read, self.write, self.change = read, write, change
        self.stages: Stages | None = None
        self.pieces: Pieces = ()
        with contextlib.suppress(NotInRegions):  # of a box, which then moves block by block
            if change is None:
                self.pieces = pieces(read, write)
            else:
                check_storable(read.memory_shape)
                check_storable(write.memory_shape)
                self.stages = convert_stages(read, write, change.arithmetic, change.blocks)
                self.pieces = self.stages.pieces
        # New memory has the array's own dtype, also that of integers that stand for another type.
        keeps_numbers = change is None or change.arithmetic.keeps_numbers
        self._keeps_dtype = keeps_numbers and read.is_packed == write.is_packed
        self._turns_bits = read.shape.layout.bit_order != write.shape.layout.bit_order
        self._staged: dict[Backend, _Staged] = {}
        self._forget()

    def _forget(self) -> None:
        self.prepared: dict[Backend, Prepared] = {}
        self.latest: dict[tuple[object, ...], Again | None] = {}
        self._lenient: Request | None = None
        self._between: Request | None = None  # of a call in place: the elements, at their new places
        self._in_place: InPlace | None = None

    def with_change(self, change: ElementChange) -> Request:
        """The same with other parameters: it shares the stages, and what backends prepared for them."""
        other = copy.copy(self)
        other.change = change
        other._forget()
        return other

    @property
    def lenient(self) -> Request:
        """The same for buffers that may be longer than their shapes.

        It shares no `prepared`, which remembers the arrays of calls that passed the checks.
        """
        other = self._lenient
        if other is None:
            other = copy.copy(self)
            other._forget()
            other.strict, self._lenient = False, other
        return other

    def limited(self, max_bytes: ByteCount) -> Request:
        """The same with a limit for the workspace of a box."""
        other = copy.copy(self)
        other._forget()
        other.max_bytes = byte_count("max_bytes", max_bytes)
        return other

    @property
    def has_box(self) -> bool:
        """True where only a part of a buffer is read or written."""
        return self.read.box is not None or self.write.box is not None

    @property
    def is_one_pass(self) -> bool:
        """True if the pieces are the whole move; else it goes cell by cell."""
        return bool(self.pieces)

    @property
    def role(self) -> str:
        """What messages call the array that is read."""
        return "buffer" if self.read.is_buffer else "array"

    @property
    def dense_bytes(self) -> int:
        """Bytes of the dense arrays between the stages."""
        if self.stages is None:
            return 0
        source, target = (side.shape.element_count * side.shape.itemsize for side in (self.read, self.write))
        return source * bool(self.stages.before) + target * bool(self.stages.after)

    @property
    def _limit(self) -> int:
        return default_limit(self.read, self.write) if self.max_bytes is None else self.max_bytes

    def prepared_by(self, backend: Backend) -> Prepared:
        """The pieces, prepared by a backend."""
        prepared = self.prepared.get(backend)
        if prepared is not None:
            return prepared
        if self.has_box and not (self.is_one_pass and self.dense_bytes <= self._limit):
            prepared = BoxMoves(backend, self.read, self.write, self.change, self.max_bytes, request)
        else:
            prepared = self.in_one_pass(backend)
        return self.prepared.setdefault(backend, prepared)

    def in_one_pass(self, backend: Backend) -> Prepared:
        """The same for a request of one pass, whatever its dense arrays take."""
        if self.change is None or self.stages is None:
            return backend.prepare(self.pieces)
        staged = self._staged.get(backend)
        if staged is None:
            staged = self._staged[backend] = _Staged(backend, self.stages, self.read.shape.dimensions)
        return staged.with_parameters(self.change.parameters)

    # ---- on memory, with every check ---------------------------------------------------------------------------------

    def run(
        self, backend: Backend, array: AnyArray, out: Any, target: Opened | None, array_call: ArrayCall
    ) -> tuple[Any, Prepared | None]:
        """Move an array that `open_array` returned; `out` or new memory, and what has moved it, unless in place.

        target   `out` as `open_array` returned it; None asks for new memory, which `array_call` makes
        """
        array = self.source_memory(backend, array)
        if target is None:
            self.check_lengths(array, None)
            made = self.empty(array_call, backend, array)
            prepared = self.prepared_by(backend)
            prepared.execute(array, made, is_new=True)
            return made, prepared
        written = self.target_memory(backend, array, target)
        if arrays.may_overlap(backend, array, written):
            self._into_itself(backend, array, out, written)
            return out, None
        self.check_lengths(array, written)
        prepared = self.prepared_by(backend)
        if out is not written:
            arrays.will_be_written(out)
        prepared.execute(array, written)
        return out, prepared

    def source_memory(self, backend: Backend, array: AnyArray) -> AnyArray:
        """The array as the pieces read it.  Only a buffer is checked: arrays with strides were, as arguments.

        If bytes are swapped on the way, the array gets the byte order of the machine in name.
        """
        if self.change is not None and self.change.arithmetic.swapped:
            native = array.dtype.newbyteorder("=")
            if self.read.is_buffer:
                facts = ArrayFacts(native, array.shape, array.strides, is_swapped=True)
                check_buffer(facts, self.read.memory_shape, "buffer")
            array = array.view(native)
        return flat_buffer(backend, array, self.read.memory_shape, "buffer") if self.read.is_buffer else array

    def target_memory(self, backend: Backend, array: AnyArray, target: Opened) -> AnyArray:
        """The target as the pieces write it, with every check but the one for overlap."""
        other, written = target
        if self.write.is_buffer:
            written = flat_buffer(other, written, self.write.memory_shape, "out")
        if backend is not other or type(array) is not np.ndarray:
            arrays.check_same_device(backend, array, other, written, (self.role, "out"))
        return written

    def check_lengths(self, array: AnyArray, written: AnyArray | None) -> None:
        """BufferError for a buffer that is longer than its shape, unless the call is not strict."""
        if self.strict and self.read.is_buffer:
            check_exact(array, self.read.memory_shape, "buffer")
        if self.strict and self.write.is_buffer and written is not None:
            check_exact(written, self.write.memory_shape, "out")

    def separate_target(self, backend: Backend, array: AnyArray, target: Opened) -> AnyArray:
        """The target as the pieces write it, with every check; it may share no memory with the array."""
        written = self.target_memory(backend, array, target)
        arrays.check_no_overlap(backend, array, written, (self.role, "out"), rule=SEPARATE)
        return written

    def empty(self, array_call: ArrayCall, backend: Backend, array: AnyArray) -> AnyArray:
        """New memory for the target, on the device of `array`."""
        if self._keeps_dtype:
            label = array.dtype if self._turns_bits else None  # no longer what a library may call such bytes
            return array_call.empty(self.write.dimensions, array.dtype, array, label)
        dtype = self.write.dtype
        label = None if self.change is None else dtype
        return array_call.empty(self.write.dimensions, backend.held(dtype), array, label)

    # ---- in place ----------------------------------------------------------------------------------------------------

    def in_place(self, max_bytes: ByteCount | None) -> InPlace:
        """See `Plan.in_place`.  The last one is kept."""
        if self.change is not None:
            raise LayoutError(
                f"no steps in place for {self.read.shape} with {self.change.arithmetic.form}: call the plan with "
                "out=buffer, whose elements then change after they have moved"
            )
        self._in_place = in_place(self, max_bytes, self._in_place)
        return self._in_place

    def run_in_place(self, backend: Backend, array: AnyArray, out: Any, target: Opened, max_bytes: ByteCount) -> Any:
        """A call with a limit for the workspace: `out`, which has to be the same memory."""
        planned = None if self.change is not None else self.in_place(max_bytes)
        array = self.source_memory(backend, array)
        written = self.target_memory(backend, array, target)
        if not self._begin_together(backend, array, written):
            raise BufferError(
                "out is not the memory of buffer: a relayout in place, with a workspace, needs out=buffer"
            )
        self._run_in_place(planned, backend, array, out, written, max_bytes)
        return out

    def _into_itself(self, backend: Backend, array: AnyArray, out: Any, written: AnyArray) -> None:
        """A call whose arrays share memory: in place between buffers, or BufferError.

        An array with strides is no buffer, even if it is all of the memory; nor is a box.
        """
        if self.has_box or not (self.read.is_buffer and self.write.is_buffer):
            arrays.check_no_overlap(backend, array, written, (self.role, "out"), rule=SEPARATE)  # raises
        if not self._begin_together(backend, array, written):
            arrays.check_no_overlap(backend, array, written, ("buffer", "out"), rule=SAME if self.change else FIRST)
        planned = None if self.change is not None else self.in_place(None)
        self._run_in_place(planned, backend, array, out, written, None)

    def _begin_together(self, backend: Backend, array: AnyArray, written: AnyArray) -> bool:
        """Whether both arrays are the same memory: of as many bytes if elements change, else the one may be longer."""
        if self.change is not None:
            self._check_widths()
            if array.nbytes != written.nbytes:
                return False
        return arrays.is_same_memory(backend, array, written)

    def _run_in_place(
        self,
        planned: InPlace | None,
        backend: Backend,
        array: AnyArray,
        out: Any,
        written: AnyArray,
        max_bytes: ByteCount | None,
    ) -> None:
        """A call on memory that both arrays share, with the steps of `in_place` if no elements change."""
        self._check_lengths_in_place(array, written)
        if planned is None:
            self._change_in_place(backend, array, out, written, max_bytes)
            return
        memory = max(written, array, key=operator.attrgetter("nbytes"))
        if memory.nbytes < planned.nbytes:
            raise BufferError(
                f"buffer and out share {counted(memory.nbytes, 'byte')} of memory, but {self.read.shape} takes "
                f"{self.read.shape.nbytes}, and {self.write.shape} {self.write.shape.nbytes}"
            )
        if memory is array and type(array) is np.ndarray and not array.flags.writeable:
            raise BufferError(
                f"buffer is read-only: a relayout in place to {self.write.shape} writes to its memory behind out too"
            )
        planned.run(backend, memory, out)

    def _check_lengths_in_place(self, array: AnyArray, written: AnyArray) -> None:
        """As `check_lengths`; either array may also have all the memory, which the longer of both shapes needs."""
        if not self.strict:
            return
        sides = (array, self.read.shape, "buffer"), (written, self.write.shape, "out")
        most = max(self.read.shape, self.write.shape, key=operator.attrgetter("nbytes"))
        for side, shape, role in sides:
            if side.nbytes != most.nbytes:
                check_exact(side, shape, role)

    def _check_widths(self) -> None:
        """BufferError if an element may not take the place of another."""
        source, target = self.read.shape, self.write.shape
        if source.bits_per_element != target.bits_per_element or source.is_packed:
            raise BufferError(
                f"buffer and out overlap in memory: out must be separate memory, because {_width(source)} and "
                f"{_width(target)}; in place, both need the same number of whole bytes"
            )

    def _change_in_place(
        self, backend: Backend, array: AnyArray, out: Any, written: AnyArray, max_bytes: ByteCount | None
    ) -> None:
        """Move within the memory that both arrays share, then change the elements at their new places."""
        assert self.change is not None
        source, shape = self.read.shape, self.write.shape
        layout = shape.layout.replace(padding_value=None)  # the source's type may not have the value
        between = Placement.buffer(Shape(source.element_type, shape.dimensions, layout))
        moving = request(self.read, between)
        move_in_place(source, between.shape, moving.pieces)  # raises: elements change only where whole bytes move
        moved = moving.in_place(max_bytes)
        changing = self._between = self._between or request(between, self.write, self.change)
        changed = changing.prepared_by(backend)
        with deferred_signals():
            moved.run(backend, array, out)
            arrays.will_be_written(out)
            changed.execute(array, written)


def _width(shape: Shape) -> str:
    return f"{shape.element_type} takes {counted(shape.bits_per_element, 'bit')}"


# By both placements, and by the arithmetic and the blocks of its parameters; the parameters are not kept.
kept_requests: Kept[Request] = Kept()


def request(read: Placement, write: Placement, change: ElementChange | None = None) -> Request:
    """The request between two placements, a kept one if there is one.

    LayoutError unless both are the same logical array, and for shapes that no buffer can hold.
    """
    key = (read, write) if change is None else (read, write, change.arithmetic, change.blocks)
    kept = kept_requests.get(key)
    if kept is None:
        kept = Request(read, write, change)
        if change is not None:
            kept.change = change._replace(parameters=())
        kept_requests.keep(key, kept, len(kept.pieces))
    return kept.with_change(change) if change is not None and change.parameters else kept


def request_of(call: Call, label: np.dtype[Any], array: AnyArray, out: AnyArray | None = None) -> Request:
    """The request of a call on these arrays: see `read_arguments`."""
    made = request(*read_arguments(call, label, array, out))
    if call.at is not None and call.max_bytes is not None:
        made = made.limited(call.max_bytes)
    return made if call.strict else made.lenient


class _Staged:
    """What a backend prepared for the stages of requests that differ only in parameters."""

    def __init__(self, backend: Backend, stages: Stages, dimensions: tuple[int, ...]):
        self._backend, self._dimensions, self._blocks = backend, dimensions, stages.blocks
        self._types = stages.arithmetic.source.dtype, stages.arithmetic.target.dtype
        self._before, self._after = (
            backend.prepare(pieces) if pieces else None for pieces in (stages.before, stages.after)
        )
        self._main = backend.prepare_arithmetic(stages.pieces)

    def with_parameters(self, parameters: Sequence[Parameter]) -> Prepared:
        """The stages with these parameters, which nobody may change."""
        main = self._main.with_parameters(
            lambda: [_spread(*each, self._dimensions) for each in zip(parameters, self._blocks)]
        )
        return main if self._before is self._after is None else _ThroughDense(self, main)

    def execute(self, main: Prepared, source: AnyArray, target: AnyArray, is_new: bool) -> None:
        """All stages, of which `main` is the second."""
        if self._before is not None:
            dense = self._dense(0, source)
            self._before.execute(source, dense, is_new=True)
            source = dense
        written = target if self._after is None else self._dense(1, source)
        main.execute(source, written)
        if self._after is not None:
            self._after.execute(written, target, is_new=is_new)

    def _dense(self, side: int, like: AnyArray) -> AnyArray:
        """A dense array in C order, of the source's type or the target's."""
        return self._backend.temporary(self._dimensions, self._backend.held(self._types[side]), like)


def _spread(parameter: Parameter, blocks: tuple[int, ...], dimensions: tuple[int, ...]) -> HostArray:
    """The numbers of a parameter for these blocks: its own, or of one element."""
    values = parameter.values
    if parameter.blocks != blocks:
        for axis, (block, own) in enumerate(zip(parameter.blocks, dimensions)):
            if block > 1:
                values = np.repeat(values, block, axis)[(slice(None),) * axis + (slice(own),)]
    return np.ascontiguousarray(values)


class _ThroughDense:
    """`Prepared` of stages, of which `main` is the one with arithmetic."""

    __slots__ = ("pieces", "_staged", "_main")

    def __init__(self, staged: _Staged, main: Prepared):
        self.pieces, self._staged, self._main = main.pieces, staged, main

    def execute(self, source: AnyArray, target: AnyArray, *, is_new: bool = False) -> None:
        """See `Prepared.execute`."""
        self._staged.execute(self._main, source, target, is_new)

    def known_call(self, *call: Any) -> None:
        """Always None: the engine runs one move at a time, and a device has temporary arrays to free."""
