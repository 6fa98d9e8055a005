"""What becomes of one tensor: how it lies in the old file, how it will lie in the new one, and what has to move.

The format knows arrays in C order, of its own types.  A tensor in another layout, or of another type, is a 1-D array of
U8, its bytes.  A note in the metadata then says what they are:

    "__metadata__": {"gpulayout:up.weight": "f32[200,10]{1,0:T(8,128)}"}

A tensor with a note is read as what the note says.

Axes may get the reverse order, as those of the kernels of Flax's transposed convolutions.  A layout cannot express it.
The axes come first on one side of the move, so a tensor there is a row of equal parts, which stand in reverse order.  A
kernel of 3 x 3 of Flax, (h, w, in, out), has 9:

    tap        (0,0) (0,1) (0,2) (1,0) ... (2,2)
    is read as (2,2) (2,1) (2,0) (1,2) ... (0,0)

So bytes are read from other offsets of the file, or written to them.  The move itself knows nothing of it, and takes
the memory that it takes without.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from gpulayout.arrays.array_types import ArithmeticOptions
from gpulayout.files.checkpoints.header import DTYPES, StoredTensor, dtype_of, tensor_text
from gpulayout.files.checkpoints.kinds import Kind
from gpulayout.files.checkpoints.rules import Rule, is_pattern
from gpulayout.files.errors import FileError
from gpulayout.layout.checks import clipped, value_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.layout_fields import BitOrder
from gpulayout.layout.patterns import Groups, Pattern, read_pattern
from gpulayout.layout.same_places import same_buffer
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import parse_array_shape
from gpulayout.plans.plan import Plan, plan

NOTE = "gpulayout:"  # then the name of the tensor: the key of its note
# One type for all tensors is for these: narrower floats hold codes whose scales are other tensors.
WIDE_FLOATS = (ElementType.F16, ElementType.BF16, ElementType.F32, ElementType.F64)
BYTES = "U8"


class Stored(NamedTuple):
    """How a tensor will lie in the new file: the fields of its header, and its note or None."""

    dtype: str
    dimensions: tuple[int, ...]
    note: str | None

    def __str__(self) -> str:
        """As people read it: F32[2,3], or the text of a shape."""
        return self.note or f"{self.dtype}[{','.join(map(str, self.dimensions))}]"


class Flip(NamedTuple):
    """How many parts stand in reverse order before a move, and after it: 1 where none do."""

    before: int = 1
    after: int = 1


NO_FLIP = Flip()


@dataclass(frozen=True)
class TensorPlan:
    """What becomes of a tensor.

    tensor   in the old file
    name     in the new one; None if it is left out
    stored   how it will lie there
    plan     the move between the bytes of the two; None if they stay the same
    before   how it lies in the old file
    flip     the parts that stand in reverse order on a side of the plan
    kind     what the tensor was taken as, where its rules ask
    """

    tensor: StoredTensor
    name: str | None
    stored: Stored
    plan: Plan | None
    before: Stored
    flip: Flip = NO_FLIP
    kind: Kind | None = None


def changed(tensor: StoredTensor, note: str | None, rule: Rule | None, dtype: ElementType | None) -> TensorPlan:
    """What a rule makes of a tensor, or of one without a rule; a new name and the kind are the caller's.

    note    of the old file, about this tensor
    dtype   the type that all tensors of `WIDE_FLOATS` get where no rule says another
    """
    same = _same(tensor, note)
    if rule is not None and (rule.drop or rule.keep):
        return same
    options: ArithmeticOptions = {} if rule is None else rule.options
    to = None if rule is None else rule.target_for(tensor, len(dimensions_of(tensor, note)))
    element_type = DTYPES[tensor.dtype] if note is None else noted_shape(tensor, note).element_type
    if dtype is not None and "dtype" not in options and element_type in WIDE_FLOATS and dtype is not element_type:
        options = {**options, "dtype": dtype}
    if to is None and not options:
        return same
    source = source_shape(tensor, note)
    origin = f"tensor {value_text(tensor.name)}, {same.before}"
    try:
        move = plan(source, source.layout if to is None else to, **options)
        pattern = read_pattern(to, source.rank, "pattern") if is_pattern(to) else None
        stored = stored_shape(move.target if pattern is None else _array_after(pattern, source, move.target))
        flip = NO_FLIP if rule is None or pattern is None else _flip(source, rule, pattern, move)
    except LayoutError as error:
        raise LayoutError(f"{origin}: {error}") from None
    except TypeError as error:
        raise TypeError(f"{origin}: {error}") from None
    return replace(same, stored=stored, plan=None if flip == NO_FLIP and _stays(move) else move, flip=flip)


def _same(tensor: StoredTensor, note: str | None) -> TensorPlan:
    """A tensor that stays as it is."""
    lies = Stored(tensor.dtype, tensor.dimensions, note)
    return TensorPlan(tensor, tensor.name, lies, None, lies)


def _stays(move: Plan) -> bool:
    """True for a move after which all bytes are the same."""
    return move.change is None and same_buffer(move.source, move.target)


def _flip(source: Shape, rule: Rule, pattern: Pattern, move: Plan) -> Flip:
    """The flip of a rule for a tensor.

    A source that is read in reverse order reaches the plan reversed, so numbers along its flipped axes would apply to
    the wrong parts.
    """
    flip = flip_of(pattern, rule.flip, source.dimensions)
    if max(flip) < 2:
        return NO_FLIP
    flipped_shape = move.target if flip.after > 1 else source
    in_order = flip.after > 1 or same_buffer(source, _in_c_order(source.element_type, source.dimensions))
    if not in_order or flipped_shape.nbytes % max(flip):
        raise LayoutError(f"flip is for arrays in C order whose parts are whole bytes, and {flipped_shape} is none")
    flipped = [dim for dim, group in enumerate(pattern.before) if {*group} & {*rule.flip}]
    for parameter in () if move.change is None or flip.after > 1 else move.change.parameters:
        if any(parameter.blocks[dim] for dim in flipped):
            raise LayoutError(
                f"{parameter.name} has several numbers along an axis of flip {value_text(' '.join(rule.flip))}: change "
                "the elements in one relayout, and flip in another"
            )
    return flip


def flip_of(pattern: Pattern, axes: tuple[str, ...], dimensions: tuple[int, ...]) -> Flip:
    """The flip of those axes that occur in a pattern.

    `LayoutError` if they come first on neither side.

    >>> flip_of(read_pattern("i o h w -> h w i o", 4), ("d", "h", "w"), (4, 5, 3, 3))
    Flip(before=1, after=9)
    """
    sizes = pattern.axis_sizes(dimensions, {})
    flipped = {axis for axis in axes if axis in sizes}
    parts = math.prod(sizes[axis] for axis in flipped)
    if _come_first(pattern.after, flipped):
        return Flip(after=parts)
    if _come_first(pattern.before, flipped):
        return Flip(before=parts)
    raise LayoutError(
        f"flip {value_text(' '.join(axes))} is for axes that come first on one side, and in {pattern.shown} they do on "
        "neither"
    )


def _come_first(groups: Groups, axes: set[str]) -> bool:
    names = [name for group in groups for name in group]
    return {*names[: len(axes)]} == axes


def dimensions_of(tensor: StoredTensor, note: str | None) -> tuple[int, ...]:
    """The dimensions of a tensor; with a note, of what it describes."""
    return tensor.dimensions if note is None else noted_shape(tensor, note).dimensions


def source_shape(tensor: StoredTensor, note: str | None) -> Shape:
    """The shape of a tensor in its file; `LayoutError` for elements that no layout has."""
    if note is not None:
        return noted_shape(tensor, note)
    element_type = DTYPES[tensor.dtype]
    if element_type is None:
        raise LayoutError(f"tensor {value_text(tensor.name)} is {tensor}: elements of 6 bits can only be copied")
    return _in_c_order(element_type, tensor.dimensions, packed=tensor.dtype == "F4")


def _in_c_order(
    element_type: ElementType, dimensions: tuple[int, ...], *, packed: bool = False, bit_order: BitOrder = "little"
) -> Shape:
    order, bits = tuple(reversed(range(len(dimensions)))), element_type.bits if packed else 0
    return Shape(element_type, dimensions, Layout(order, element_size_in_bits=bits, bit_order=bit_order))


def noted_shape(tensor: StoredTensor, note: str) -> Shape:
    """The shape in a note; `FileError` for a note that does not fit its tensor."""
    who = f"the note about {tensor_text(tensor.name)} is {value_text(clipped(note, 100))}"
    try:
        shape = parse_array_shape(note)
    except LayoutError as error:
        raise FileError(f"{who}: {error}") from None
    if tensor.dtype != BYTES or tensor.dimensions != (shape.nbytes,):
        raise FileError(f"{who}, a buffer of {shape.nbytes} bytes, but the tensor is {tensor}")
    return shape


def _array_after(pattern: Pattern, source: Shape, target: Shape) -> Shape:
    """What the bytes of a target are after a pattern: an array in C order, of other dimensions."""
    sizes = pattern.axis_sizes(source.dimensions, {})
    dimensions = tuple(math.prod(sizes[name] for name in group) for group in pattern.after)
    bit_order = target.layout.bit_order
    result = _in_c_order(target.element_type, dimensions, packed=target.is_packed, bit_order=bit_order)
    assert result.nbytes == target.nbytes
    return result


def stored_shape(shape: Shape) -> Stored:
    """How a buffer of a shape is stored: as an array if the format can say it, else as bytes with a note.

    >>> stored_shape(parse_array_shape("bf16[2,3]{1,0}"))
    Stored(dtype='BF16', dimensions=(2, 3), note=None)
    >>> stored_shape(parse_array_shape("f32[2,3]{0,1}"))
    Stored(dtype='U8', dimensions=(24,), note='f32[2,3]{0,1}')
    """
    dtype = dtype_of(shape)
    if dtype is not None:
        packed = dtype == "F4"
        fills_bytes = not packed or shape.element_count % 2 == 0
        if fills_bytes and same_buffer(shape, _in_c_order(shape.element_type, shape.dimensions, packed=packed)):
            return Stored(dtype, shape.dimensions, None)
    return Stored(BYTES, (shape.nbytes,), str(shape))


def restored(tensor: StoredTensor, note: str | None) -> TensorPlan:
    """A tensor without its note: the array in C order that the note describes.

    Integers of 1, 2 and 4 bits become those of 8.  Types that the format lacks keep a note, now without a layout.
    """
    same = _same(tensor, note)
    if note is None:
        return same
    source = noted_shape(tensor, note)
    options: dict[str, Any] = {}
    packed = source.element_type is ElementType.F4E2M1FN and source.element_count % 2 == 0
    if source.element_type.is_sub_byte and source.element_type.is_integral:
        options["dtype"] = "s8" if source.element_type.is_signed else "u8"
    move = plan(source, _in_c_order(source.element_type, source.dimensions, packed=packed).layout, **options)
    return replace(same, stored=stored_shape(move.target), plan=None if _stays(move) else move)


def notes_of(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """The notes of a file by the names of their tensors."""
    return {key.removeprefix(NOTE): text for key, text in (metadata or {}).items() if key.startswith(NOTE)}


def metadata_with(
    metadata: Mapping[str, str] | None, more: Mapping[str, str], notes: Mapping[str, str]
) -> dict[str, str] | None:
    """The metadata of a new file: all that the old one had, what rules add, and the notes of its own tensors."""
    kept = {key: text for key, text in (metadata or {}).items() if not key.startswith(NOTE)}
    new = kept | dict(more) | {NOTE + name: text for name, text in notes.items()}
    return new if new or metadata is not None else None
