"""Transfers with arithmetic: what pack, unpack, transpose and relayout do when elements change on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from gpulayout.api import arrays
from gpulayout.api.arithmetic import ElementChange
from gpulayout.api.deferred_signals import deferred_signals
from gpulayout.api.in_place import RelayoutTransfer
from gpulayout.api.kept import Kept
from gpulayout.api.libraries import library_of
from gpulayout.api.parameters import Parameter
from gpulayout.api.same_kind import Maker, Result, same_kind
from gpulayout.api.sides import ArraySide, BufferSide, Side
from gpulayout.api.transfer import Transfer
from gpulayout.layout.checks import counted
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.moves.arithmetic import Arithmetic
from gpulayout.moves.backend import AnyArray, Backend, Prepared
from gpulayout.moves.convert_pieces import Stages, convert_stages
from gpulayout.moves.pieces import pieces
from gpulayout.moves.placement import Placement
from gpulayout.moves.supported import check_storable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpulayout.api.array_types import HostArray


class _Staged:
    """What a backend prepared for the stages of a transfer."""

    def __init__(self, backend: Backend, stages: Stages, arithmetic: Arithmetic, dimensions: tuple[int, ...]):
        self._backend, self._dimensions, self._blocks = backend, dimensions, stages.blocks
        self._types = arithmetic.source.dtype, arithmetic.target.dtype
        self._before, self._after = (
            backend.prepare(pieces) if pieces else None for pieces in (stages.before, stages.after)
        )
        self._main = backend.prepare_arithmetic(stages.pieces)

    def with_parameters(self, parameters: Sequence[Parameter]) -> Prepared:
        """The stages of a transfer with these parameters, which nobody may change."""
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
    found = parameter.values
    if parameter.blocks != blocks:
        for axis, (block, own) in enumerate(zip(parameter.blocks, dimensions)):
            if block > 1:
                found = np.repeat(found, block, axis)[(slice(None),) * axis + (slice(own),)]
    return np.ascontiguousarray(found)


class _ThroughDense:
    """`Prepared` of stages, of which `main` is the one with arithmetic."""

    __slots__ = ("pieces", "_staged", "_main")

    def __init__(self, staged: _Staged, main: Prepared):
        self.pieces, self._staged, self._main = main.pieces, staged, main

    def execute(self, source: AnyArray, target: AnyArray, *, is_new: bool = False) -> None:
        """See `Prepared.execute`."""
        self._staged.execute(self._main, source, target, is_new)

    def again(self, source: AnyArray, target: AnyArray | None) -> None:
        """Always None: calls that need temporary arrays are checked each time."""


class ConvertTransfer(Transfer):
    """A transfer with arithmetic.  Those that differ only in parameters share their stages and what backends prepared.

    In place, a relayout comes first, and then the arithmetic at the elements' new places.
    """

    __slots__ = ("stages", "change", "_staged", "_changing")

    def __init__(
        self, source: Side, target: Side, stages: Stages, change: ElementChange, staged: dict[Backend, _Staged]
    ):
        super().__init__(source, target, stages.pieces)
        self.stages, self.change, self._staged = stages, change, staged
        self._changing: ConvertTransfer | None = None  # of a call in place: the elements, at their new places

    @property
    def dense_bytes(self) -> int:
        """Bytes of the dense arrays between the stages."""
        source, target = (side.shape.element_count * side.shape.itemsize for side in self.sides)
        return source * bool(self.stages.before) + target * bool(self.stages.after)

    def traced_call(self) -> tuple[Any, ...]:
        """See `Transfer.traced_call`."""
        return *self._call, {}, self.change.options

    def prepared_by(self, backend: Backend) -> Prepared:
        found = self.prepared.get(backend)
        if found is None:
            staged = self._staged.get(backend)
            if staged is None:
                dimensions = self.sides[0].shape.dimensions
                staged = self._staged[backend] = _Staged(backend, self.stages, self.change.arithmetic, dimensions)
            found = self.prepared.setdefault(backend, staged.with_parameters(self.change.parameters))
        return found

    def empty(self, maker: Maker, backend: Backend, array: AnyArray) -> AnyArray:
        """See `Transfer.empty`."""
        target = self.sides[1]
        dtype = target.shape.buffer_dtype if isinstance(target, BufferSide) else target.shape.dtype
        if isinstance(maker, Result):
            return maker.empty(target.dimensions, backend.held(dtype), array, dtype)
        return maker.empty(target.dimensions, backend.held(dtype), array)

    def move_into_itself(self, backend: Backend, array: AnyArray, out: Any, target: AnyArray) -> None:
        """See `Transfer.move_into_itself`: in place between buffers of elements of equal width; BufferError for others.

        An array with strides is no buffer, even if it is all of the memory.
        """
        if not all(isinstance(side, BufferSide) for side in self.sides):
            return super().move_into_itself(backend, array, out, target)
        self._check_widths()
        if not arrays.is_same_memory(backend, array, target):
            rule = "separate memory, or the same from the first byte to the last"
            arrays.check_no_overlap(backend, array, target, ("buffer", "out"), rule=rule)  # raises
        self._in_place(backend, array, out, target, None)

    def in_place(self, max_bytes: Any) -> NoReturn:
        """See `Plan.in_place`."""
        raise LayoutError(
            f"no steps in place for {self.sides[0].shape} with {self.change.arithmetic.form}: call the plan with "
            "out=buffer, whose elements then change after they have moved"
        )

    def call_in_place(self, buffer: Any, out: Any, max_bytes: Any) -> Any:
        """A call with a limit for the workspace of the relayout in place."""
        if out is None:
            raise TypeError("max_bytes is only for a relayout in place: pass out=buffer too")

        def work(backend: Backend, array: AnyArray, out: Any, result: Result | None = None) -> Any:
            array = self.source_memory(backend, array)
            target = self.target_memory(backend, array, out)
            self._check_widths()
            if not arrays.is_same_memory(backend, array, target):
                raise BufferError(
                    "out is not the memory of buffer: a relayout in place, with a workspace, needs out=buffer"
                )
            self._in_place(backend, array, out, target, max_bytes)
            return out

        library = library_of(buffer)
        if library is not None:
            return same_kind(library, buffer, "buffer", out, work)
        return work(*arrays.open_array(buffer, "buffer"), out)

    def _check_widths(self) -> None:
        """BufferError if an element may not take the place of another."""
        source, target = (side.shape for side in self.sides)
        if source.bits_per_element != target.bits_per_element or source.is_packed:
            raise BufferError(
                f"buffer and out overlap in memory: out must be separate memory, because {_width(source)} and "
                f"{_width(target)}; in place, both need the same number of whole bytes"
            )

    def _in_place(self, backend: Backend, array: AnyArray, out: Any, target: AnyArray, max_bytes: Any) -> None:
        """Move within the memory that both arrays share, then change the elements."""
        source, shape = (side.shape for side in self.sides)
        layout = shape.layout.replace(padding_value=None)  # the source's type may not have the value
        between = Shape(source.element_type, shape.dimensions, layout)
        moved = RelayoutTransfer(source, between, pieces(Placement.buffer(source), Placement.buffer(between))).in_place(
            max_bytes
        )
        changing = self._changing = self._changing or relayout_transfer(between, shape, self.change)
        changed = changing.prepared_by(backend)
        with deferred_signals():
            moved.run(backend, array, out)
            arrays.will_be_written(out)
            changed.execute(array, target)


def _width(shape: Shape) -> str:
    return f"{shape.element_type} takes {counted(shape.bits_per_element, 'bit')}"


class _Shared(NamedTuple):
    """What transfers share that differ only in their parameters, which are not kept; and those without any."""

    stages: Stages
    staged: dict[Backend, _Staged]
    casts: dict[object, ConvertTransfer]  # by what holds the target: a buffer, or an array of this form


# By both sides, the arithmetic and the blocks of its parameters.
kept_conversions: Kept[_Shared] = Kept()


def relayout_transfer(source: Shape, target: Shape, change: ElementChange) -> ConvertTransfer:
    """From a buffer of `source` to a buffer of `target`."""
    return convert_transfer(BufferSide(source), BufferSide(target), Placement.buffer(target), change)


def convert_transfer(source: Side, target: Side, written: Placement, change: ElementChange) -> ConvertTransfer:
    """The transfer between two sides; `written` says where the target's elements are, by the source's coordinates."""
    strides = source.strides if isinstance(source, ArraySide) else None
    key = source.shape, strides, written, change.arithmetic, change.blocks
    found = kept_conversions.get(key)
    if found is None:
        check_storable(source.shape)
        check_storable(target.shape)
        read = Placement.buffer(source.shape) if strides is None else Placement.array(source.shape, strides)
        found = _Shared(convert_stages(read, written, change.arithmetic, change.blocks), {}, {})
        kept_conversions.keep(key, found, len(found.stages.pieces))
    held = (target.dimensions, target.strides) if isinstance(target, ArraySide) else None
    transfer = None if change.parameters else found.casts.get(held)
    if transfer is None:
        transfer = ConvertTransfer(source, target, found.stages, change, found.staged)
        if not change.parameters:
            found.casts[held] = transfer
    return transfer
