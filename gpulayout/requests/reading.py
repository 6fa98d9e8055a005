"""Arguments of calls, read in one place: from what a call says, and what its arrays say of themselves, to two
placements and a change of elements.  Calls on memory, traced calls and those with gradients are read here.

What arguments say is checked here, and whether shapes, types and strides of the arrays suit them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpulayout.arrays import arrays
from gpulayout.arrays.memory_checks import (
    ArrayFacts,
    check_array,
    check_buffer_dtype,
    check_dtype,
    check_no_self_overlap,
)
from gpulayout.layout import checks
from gpulayout.layout.element_type import FLOAT4_X2, ElementType, check_has_elements
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.patterns import NamedAxis, Pattern, named_dimensions, read_pattern
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_shape, is_only_layout
from gpulayout.moves.backend import AnyArray
from gpulayout.moves.move import MAX_AXES, check_same_dimensions
from gpulayout.moves.placement import Placement, contiguous_strides, dense_shape
from gpulayout.requests.arithmetic import KEYWORDS, Asked, ElementChange, swapped
from gpulayout.requests.index_keys import box_of
from gpulayout.requests.shape_arguments import array_shape, as_target, axis_names, placed_digits, shape_of_opened

# Verbs that read an array with any strides; the others read a buffer.  Verbs that write an array, where the strides of
# `out` say; the others write a buffer.
READS_ARRAY, WRITES_ARRAY = frozenset(("pack", "transpose", "write_words")), frozenset(("unpack", "transpose"))


class Call(NamedTuple):
    """A public call without its array, as it was written: what it takes to read it, for an array of any kind.

    verb             "pack", "unpack", "relayout" or "transpose"; "plan" for a plan that is called in a graph;
                     "write_box" and "read_box", where the box has a layout of its own; "write_words" from an array
                     whose elements are the bytes of a buffer
    source, target   shapes, layouts or texts; a plan is its own source, a transpose has its axes in `target`
    sizes            of axes, by name
    options          the keywords of arithmetic
    max_bytes        of a relayout in place, or of the workspace for a box
    strict           False for buffers that may be longer than their shapes
    at               the box of a buffer that is written or read: slices; None for the whole
    """

    verb: str
    source: Any = None
    target: Any = None
    sizes: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}
    max_bytes: Any = None
    strict: bool = True
    at: Any = None

    @property
    def in_place(self) -> bool:
        """True for a call with a limit for its workspace whose arrays are the same memory."""
        return self.max_bytes is not None and self.at is None

    @property
    def role(self) -> str:
        """What messages call the array."""
        return "array" if self.verb in READS_ARRAY else "buffer"


# By the bytes of an element: a type of that width.
CARRIERS = {bits // 8: ElementType.of(f"u{bits}") for bits in (8, 16, 32, 64)} | {16: ElementType.C128}
Read = tuple[Placement, Placement, ElementChange | None]


def read_arguments(call: Call, label: np.dtype[Any], array: AnyArray, out: AnyArray | None = None) -> Read:
    """What a call reads and writes, and what becomes of elements.

    label        the element type of the array, also where CuPy holds it as integers
    array, out   as `open_array` returned them, or what they say of themselves

    NumPy's arrays may have the other byte order than the machine, such as ">f4".  They are read as if they had its own,
    and their bytes are swapped on the way, unless a transpose moves bytes as they are.
    """
    if call.verb in READS_ARRAY:
        check_has_elements(label, "array")
    if out is not None and call.verb in WRITES_ARRAY:
        check_has_elements(out.dtype, "out")
    asked, reader = Asked(call.options, KEYWORDS.get(call.verb, ())), _READERS[call.verb]
    if not label.isnative and (asked or call.verb != "transpose"):
        native = label.newbyteorder("=")
        facts = ArrayFacts(native, array.shape, array.strides, is_swapped=True)
        read, write, change = reader(call, asked, native, facts, out)
        return read, write, swapped(change, read.shape.element_type)
    sides = reader(call, asked, label, array, out)
    if label == FLOAT4_X2:  # CuPy holds it as bytes
        check_buffer_dtype(ArrayFacts.in_c_order(label, ()), sides[0].shape, call.role)
    return sides


def check_strict(strict: Any) -> None:
    """TypeError for what is no flag."""
    if not isinstance(strict, (bool, np.bool_)):
        raise TypeError(f"strict is {checks.value_text(strict)}: it must be True or False")


def check_source(call: Call) -> None:
    """The errors of a source that is a whole shape, and of what is no target: they come before those of the array."""
    if call.source is not None and not is_only_layout(call.source):
        source = as_shape(call.source, "shape" if call.verb == "unpack" else "source")
        if call.verb == "relayout" and not isinstance(call.target, (str, Layout, Shape)):
            as_target(call.target, source)  # raises


def _read_pack(call: Call, asked: Asked, label: np.dtype[Any], array: AnyArray, out: AnyArray | None) -> Read:
    target, change = call.target, None
    if call.at is not None:
        _check_has_sizes(target)
    if not asked and (isinstance(target, Shape) or (isinstance(target, str) and not is_only_layout(target))):
        target = as_shape(target)
    else:
        source = _own(label, array)
        target = as_target(target, source, "shape", asked)
        change = asked.change(source, target.element_type) if asked else None
    write = Placement.buffer(target) if call.at is None else _box(target, call.at, writes=True)
    dimensions = write.shape.dimensions
    if call.at is not None and tuple(array.shape) != dimensions:
        raise BufferError(f"array has shape {tuple(array.shape)}, but the box at={_shown(write)} has {dimensions}")
    if change is None:
        check_array(array, write.shape, "array")
        source = write.shape
    elif source.dimensions != dimensions:
        raise BufferError(f"array has shape {source.dimensions}, but {target} has dimensions {dimensions}")
    return Placement.array(source, array.strides), write, change


def _box(shape: Shape, at: Any, *, writes: bool) -> Placement:
    """A box of a buffer.  All of it is the buffer itself, unless that writes padding too."""
    box = box_of(at, shape)
    is_whole = all(interval == (0, size) for interval, size in zip(box, shape.dimensions))
    has_padding = writes and shape.element_count * shape.bits_per_element != 8 * shape.nbytes
    return Placement.buffer(shape) if is_whole and not has_padding else Placement.part_of(shape, box)


def _shown(side: Placement) -> str:
    """A box as the key of an index, and whose it is."""
    box = side.box or [(0, size) for size in side.shape.dimensions]
    return f"[{', '.join([f'{first}:{last}' for first, last in box])}] of {side.memory_shape}"


def _check_has_sizes(target: Any) -> None:
    """LayoutError for a target that does not say the sizes of the whole array, of which a box is written."""
    if isinstance(target, Layout) or is_only_layout(target):
        raise LayoutError(
            f"shape {checks.value_text(str(target))} is only a layout, and at= is a box of a larger array: write the "
            "whole shape"
        )


def _own(label: np.dtype[Any], array: AnyArray) -> Shape:
    """The shape of an array, in C order whatever its strides are."""
    return dense_shape(ElementType.of(label), tuple(array.shape))


def _read_unpack(call: Call, asked: Asked, label: np.dtype[Any], array: AnyArray, out: AnyArray | None) -> Read:
    whole = array_shape(shape_of_opened(call.source, label, array, "shape"))
    read = Placement.buffer(whole) if call.at is None else _box(whole, call.at, writes=False)
    change, shape = None, read.shape
    logical = shape
    if asked:
        logical = Shape(asked.target_type(shape.element_type), shape.dimensions)
        change = asked.change(shape, logical.element_type)
    if out is None:
        return read, Placement.array(logical, contiguous_strides(logical.dimensions, logical.itemsize)), change
    check_array(out, shape if change is None else logical, "out")
    return read, Placement.array(logical, out.strides), change


def _read_relayout(call: Call, asked: Asked, label: np.dtype[Any], array: AnyArray, out: AnyArray | None) -> Read:
    return read_shapes(shape_of_opened(call.source, label, array, "source"), call.target, asked)


def _read_write_box(call: Call, asked: Asked, label: np.dtype[Any], array: AnyArray, out: AnyArray | None) -> Read:
    source, whole = shape_of_opened(call.source, label, array, "source"), as_shape(call.target, "target")
    write = _box(whole, call.at, writes=True)
    asked.target_type(source.element_type, whole)
    change = asked.change(source, whole.element_type) if asked else None
    check_same_dimensions(source, write.shape)
    return Placement.buffer(source), write, change


def _read_write_words(call: Call, asked: Asked, label: np.dtype[Any], array: AnyArray, out: AnyArray | None) -> Read:
    of_buffer = _read_relayout if call.at is None else _read_write_box
    read, write, change = of_buffer(call, asked, label, array, out)
    bits, itemsize = read.shape.bits_per_element, label.itemsize
    if (
        math.prod(array.shape) * itemsize != read.shape.nbytes
        or 8 * itemsize < bits
        or any(8 * stride % bits for size, stride in zip(array.shape, array.strides) if size > 1)
    ):
        raise BufferError(
            f"array of {label.name} has shape {tuple(array.shape)} and strides {tuple(array.strides)}, so it is no "
            f"words of {read.shape}, which has {read.shape.nbytes} bytes and elements of {bits} bits"
        )
    return Placement.in_words(read.shape, tuple(array.shape), array.strides, label.itemsize), write, change


def _read_read_box(call: Call, asked: Asked, label: np.dtype[Any], array: AnyArray, out: AnyArray | None) -> Read:
    read = _box(shape_of_opened(call.source, label, array, "source"), call.at, writes=False)
    _, write, change = read_shapes(read.shape, call.target, asked)
    return read, write, change


def read_shapes(source: Shape, target: Any, asked: Asked, names: Sequence[str] = ()) -> Read:
    """Both sides of a relayout, and the change of its elements; `names` are those of the dimensions, if given."""
    target = as_target(target, source, asked=asked, names=names)
    change = asked.change(source, target.element_type) if asked else None
    check_same_dimensions(source, target)
    return Placement.buffer(source), Placement.buffer(target), change


def read_plan(
    source: Any, target: Any, names: Any, options: Mapping[str, Any]
) -> tuple[Shape, Shape, tuple[str, ...] | None, ElementChange | None]:
    """Both shapes of a plan, what its dimensions are called, and the change of its elements."""
    shape = as_shape(source, "source")
    given = None if names is None else named_dimensions(names, shape.rank, shape)
    _, write, change = read_shapes(shape, target, Asked(options, KEYWORDS["plan"]), given or ())
    return shape, write.shape, axis_names(target, shape.rank) if given is None else given, change


# ---- transposes ------------------------------------------------------------------------------------------------------


def _read_transpose(call: Call, asked: Asked, label: np.dtype[Any], array: AnyArray, out: AnyArray | None) -> Read:
    change, dimensions = None, tuple(array.shape)
    groups = parts_of_result(call, dimensions)
    result = tuple([math.prod([part.size for part in group]) for group in groups])
    if asked:
        source = _own(label, array)
        target = dense_shape(asked.target_type(source.element_type), dimensions)
        change = asked.change(source, target.element_type)
    if not asked:  # bytes move, whatever they mean
        source = target = _carried(array, dimensions)
    if out is None:
        strides = contiguous_strides(result, target.itemsize)
    else:
        strides = out.strides
        arrays.check_shape(out, result, "out")
        if asked:
            check_dtype(out, Shape(target.element_type, result), "out")
        elif out.dtype != array.dtype:
            raise TypeError(
                f"out has dtype {out.dtype}, but array has {array.dtype}: dtype=out.dtype converts the elements on "
                "the way"
            )
        check_no_self_overlap(out, "out")
    return Placement.array(source, array.strides), Placement(target, placed_digits(groups, strides), result), change


def _carried(array: AnyArray, dimensions: tuple[int, ...]) -> Shape:
    """A shape of elements as wide as the array's."""
    dtype = array.dtype
    if dtype.itemsize not in CARRIERS or dtype.hasobject:
        raise TypeError(
            f"array has dtype {dtype}, of {dtype.itemsize} bytes: elements of 1, 2, 4, 8 or 16 bytes other than "
            "Python objects can be moved"
        )
    return dense_shape(CARRIERS[dtype.itemsize], dimensions)


Parts = tuple[tuple[NamedAxis, ...], ...]  # for each axis of a result, what it is made of, the most major first


def parts_of_result(call: Call, dimensions: tuple[int, ...]) -> Parts:
    """What the axes of the result of a transpose are made of, for an array of these dimensions."""
    axes, sizes = call.target, call.sizes
    if not isinstance(axes, str):
        context = checks.Later(lambda: f" for an array of shape {dimensions}")
        axes = axis_order(axes, sizes, len(dimensions), context)
    find = _parts if {*map(type, sizes.values())} <= {int} else _parts.__wrapped__  # True and 2.0 equal ints
    return find(axes, dimensions, tuple(sizes.items()))


@functools.lru_cache(maxsize=1024)  # a pattern is read once
def _parts(axes: str | tuple[int, ...], dimensions: tuple[int, ...], sizes: tuple[tuple[str, Any], ...]) -> Parts:
    if not isinstance(axes, str):
        return tuple([(NamedAxis(str(dim), dimensions[dim], dim, 1),) for dim in axes])
    return transpose_pattern(axes, len(dimensions)).parts(dimensions, dict(sizes))


def transpose_pattern(text: str, rank: int) -> Pattern:
    """The pattern of a transpose; LayoutError for more axes than an array can have."""
    pattern = read_pattern(text, rank)
    most = max(len(pattern.order), len(pattern.after))
    if most > MAX_AXES:
        raise LayoutError(f"{pattern.shown} has {most} axes: {MAX_AXES} is the limit")
    return pattern


def axis_order(axes: Any, sizes: Mapping[str, Any], rank: int, context: checks.Later) -> tuple[int, ...]:
    """Numbers of axes that are no pattern, as a tuple of ints; None reverses them all.

    context   what error messages say about the array
    """
    if sizes:
        raise TypeError(
            f"sizes {', '.join(sizes)} belong to a pattern such as 'h w c -> c h w', but axes is "
            f"{checks.value_text(axes)}"
        )
    if axes is None:
        return tuple(range(rank - 1, -1, -1))
    if isinstance(axes, (Layout, Shape)):
        raise TypeError(f"axes is {checks.type_text(axes)}: gl.pack takes layouts and shapes")
    return checks.permutation("axes", axes, rank, context, from_end=True)


_READERS: dict[str, Callable[[Call, Asked, np.dtype[Any], AnyArray, AnyArray | None], Read]] = {
    "pack": _read_pack,
    "unpack": _read_unpack,
    "relayout": _read_relayout,
    "write_box": _read_write_box,
    "read_box": _read_read_box,
    "write_words": _read_write_words,
    "transpose": _read_transpose,
}
