"""The tensor in which the owner of an entry keeps an array, in a checkpoint or as a kernel's argument.

`tensor_of` goes from the shape of an array to its owner's tensor, `shape_in` back, and `tensor_axis` says where an
axis of the array lies in the tensor, so that a cut of one is a cut of the other.  `tensor_text.py` reads what an entry
says.  Sizes in front of an array, such as the number of experts, stand in front of the tensor's dimensions too.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple

from gpulayout.catalogue.entry import Entry
from gpulayout.catalogue.tensor_text import Dimension, read_tensor
from gpulayout.layout.checks import counted, either
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table

Choices = Mapping[str, int | str]
NONE: Choices = MappingProxyType({})


class OwnerTensor(NamedTuple):
    """The element type and the dimensions of a tensor."""

    element_type: ElementType
    dimensions: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.element_type}[{','.join(map(str, self.dimensions))}]"


class TensorAxis(NamedTuple):
    """Where an axis of an array lies in the tensor that holds it.

    Elements i to j of the axis are i / step to j / step of the tensor's `axis`, where `multiple` divides i, and j if it
    is not the end.
    """

    axis: int
    step: Fraction = Fraction(1)
    multiple: int = 1


def tensor_of(entry: Entry, shape: Shape, choices: Choices = NONE) -> OwnerTensor | None:
    """What the owner of an entry keeps an array in, with the bytes of the packed array; None for no fixed tensor.

    Parameters
    ----------
    shape : Shape
        A shape that the entry gave.
    choices : mapping
        What was chosen then, by name.

    Raises
    ------
    LayoutError
        The entry gives another shape for these sizes, this type and these choices.

    Examples
    --------
    >>> from gpulayout.catalogue.marlin import weights
    >>> str(tensor_of(weights, weights(4096, 4096))), str(tensor_of(weights, weights(8, 4096, 128, dtype="u8")))
    ('s32[256,8192]', 's32[8,256,512]')
    """
    check_is_of(entry, shape, choices)
    if not entry.tensor:
        return None
    element_type, dimensions = read_tensor(entry.tensor, shape.element_type, entry.chosen(choices))
    in_front, sizes = _sizes(entry, shape)
    lengths = [dimension.length(sizes) for dimension in dimensions]
    tensor = OwnerTensor(element_type, (*in_front, *map(int, lengths)))
    is_whole = all(length.denominator == 1 for length in lengths)
    return tensor if is_whole and math.prod(tensor.dimensions) * element_type.itemsize == shape.nbytes else None


def tensor_axis(entry: Entry, shape: Shape, axis: int, choices: Choices = NONE) -> TensorAxis | None:
    """Where an axis of a shape lies in its owner's tensor; None where cuts of the tensor are no cuts of the array.

    Examples
    --------
    >>> from gpulayout.catalogue.marlin import weights
    >>> tensor_axis(weights, weights(4096, 4096), 1)
    TensorAxis(axis=1, step=Fraction(1, 2), multiple=64)

    Rows of two halves that lie in turns, so half of the tensor has rows of both:

    >>> from gpulayout.catalogue.flashinfer import gate_up
    >>> tensor_axis(gate_up, gate_up(4096, 2048), 0), tensor_axis(gate_up, gate_up(4096, 2048), 1)
    (None, TensorAxis(axis=1, step=Fraction(1, 1), multiple=1))
    """
    axis = shape.dimension_number(axis)
    if tensor_of(entry, shape, choices) is None:
        return None
    _, dimensions = read_tensor(entry.tensor, shape.element_type, entry.chosen(choices))
    in_front = len(shape.dimensions) - len(entry.sizes)
    there = TensorAxis(axis)
    if axis >= in_front:
        size = entry.sizes[axis - in_front]
        place, own = next(pair for pair in enumerate(dimensions, in_front) if pair[1].size == size.name)
        there = TensorAxis(place, 1 / own.ratio, math.lcm(size.multiple, own.whole))
    # A digit that grows with the axis, such as the half in which a row is, is no place to cut.
    majors = set()
    for longer in _longer(entry, shape, axis, dimensions, choices):
        tensor = tensor_of(entry, longer, choices)
        majors.add(None if tensor is None else _counts_steps(longer, axis, tensor, there))
    major = majors.pop()
    return None if majors or major is None else there._replace(multiple=math.lcm(there.multiple, major))


def _longer(
    entry: Entry, shape: Shape, axis: int, dimensions: Iterable[Dimension], choices: Choices
) -> Iterator[Shape]:
    """The array with sizes as the owner rounds them up, and one axis two and three times as long."""
    in_front, sizes = _sizes(entry, shape)
    wholes = {dimension.size: dimension.rounded(sizes) for dimension in dimensions}
    whole = [size or 1 for size in in_front]
    whole += [wholes[size.name] or usual for size, usual in zip(entry.sizes, entry.usual)]
    for times in (2, 3):
        longer = (*whole[:axis], whole[axis] * times, *whole[axis + 1 :])
        yield entry(*longer, **_with(choices, shape.element_type))


def _counts_steps(shape: Shape, axis: int, tensor: OwnerTensor, there: TensorAxis) -> int | None:
    """The least number of elements that the most major digit of an axis and the tensor's axis both count; or None."""
    digits = [digit for digit in stride_table(shape).digits if digit.dim == axis and digit.extent > 1]
    major = max(digits, key=lambda digit: digit.step)
    bits_below = math.prod(tensor.dimensions[there.axis + 1 :]) * tensor.element_type.bits
    if major.stride * shape.bits_per_element != major.step / there.step * bits_below:
        return None
    return math.lcm(major.step, there.step.numerator)


def shape_in(entry: Entry, tensor: OwnerTensor, choices: Choices = NONE) -> Shape:
    """The shape that an owner keeps in a tensor: the way back of `tensor_of`.

    Where `dtype` is not among the choices, it is the tensor's, or the entry's first type if the owner keeps words.
    Sizes that the owner rounds up are the rounded ones.  Words that may hold elements of 4 bits or of 8 need a `dtype`.

    Raises
    ------
    LayoutError
        The owner has no such tensor.  The message says what it has, and what to write.

    Examples
    --------
    >>> from gpulayout.catalogue.marlin import weights
    >>> words = OwnerTensor(ElementType.S32, (256, 8192))
    >>> shape_in(weights, words, {"dtype": "u4"}).dimensions, shape_in(weights, words, {"dtype": "u8"}).dimensions
    ((4096, 4096), (4096, 2048))
    >>> shape_in(weights, OwnerTensor(ElementType.F32, (256, 8192)))
    Traceback (most recent call last):
        ...
    gpulayout.LayoutError: tensor f32[256,8192] is not marlin:weights, which is s32[rows/16,columns*bits/2]: its type \
is not s32; where the bytes are the same, write the sizes: marlin:weights[rows,columns]
    """
    if not entry.tensor:
        raise LayoutError(f"{entry.name} has no tensor that gives its sizes, as {tensor} should: write {entry.call}")
    try:
        shape = _shape(entry, tensor, choices)
    except LayoutError as error:
        problem = str(error)
    else:
        _check_one_width(entry, tensor, choices)
        return shape
    others = [f"{entry.name}({text})" for text in _fitting(entry, tensor, choices)]
    hint = f"where the bytes are the same, write the sizes: {entry.call}"
    hint = f"write {either(others[:3])}" if others else hint
    raise LayoutError(f"tensor {tensor} is not {entry.name}, which is {entry.tensor}: {problem}; {hint}")


def _check_one_width(entry: Entry, tensor: OwnerTensor, choices: Choices) -> None:
    """LayoutError for words that may hold elements of several widths, where none is chosen."""
    if "dtype" in choices or entry.tensor.startswith("dtype["):
        return
    widths: dict[int, str] = {}
    for name in entry.types:
        with contextlib.suppress(LayoutError):
            bits = _shape(entry, tensor, {**choices, "dtype": name}).element_type.bits
            widths.setdefault(bits, f"{entry.name}(dtype={name})")
    if len(widths) > 1:
        sizes, names = either([*map(str, widths)]), either([*widths.values()])
        raise LayoutError(f"tensor {tensor} may hold elements of {sizes} bits: write {names}")


def _shape(entry: Entry, tensor: OwnerTensor, choices: Choices) -> Shape:
    """The shape, or LayoutError, which says what of the tensor does not fit."""
    stored = tensor.element_type if entry.tensor.startswith("dtype[") else None
    dtype = entry.type_of(choices.get("dtype", stored))
    element_type, dimensions = read_tensor(entry.tensor, dtype, entry.chosen(choices))
    if tensor.element_type != element_type:
        raise LayoutError(f"its type is not {element_type}")
    in_front = len(tensor.dimensions) - len(dimensions)
    if in_front < 0:
        raise LayoutError(f"it has {counted(len(tensor.dimensions), 'dimension')}, not {len(dimensions)}")
    numbered = enumerate(zip(dimensions, tensor.dimensions[in_front:]), in_front)
    sizes = {dimension.size: dimension.size_of(number, count) for number, (dimension, count) in numbered}
    own = (sizes[size.name] for size in entry.sizes)
    return entry(*tensor.dimensions[:in_front], *own, **_with(choices, dtype))


def _fitting(entry: Entry, tensor: OwnerTensor, choices: Choices) -> Iterator[str]:
    """Choices, as text, with which a tensor would fit; what is chosen stays."""
    offered = {"dtype": entry.types} | {choice.name: choice.values for choice in entry.choices}
    offered |= {name: (value,) for name, value in choices.items()}
    usual = {name: values[0] for name, values in offered.items()}
    for values in itertools.product(*offered.values()):
        others = dict(zip(offered, values))
        try:
            _shape(entry, tensor, others)
        except LayoutError:
            continue
        yield ",".join(f"{name}={value}" for name, value in others.items() if value != usual[name] or name in choices)


def check_is_of(entry: Entry, shape: Shape, choices: Choices) -> None:
    """LayoutError for a shape that is not what an entry gives for its sizes, its type and these choices."""
    own = entry(*shape.dimensions, **_with(choices, choices.get("dtype", shape.element_type)))
    if own != shape:
        raise LayoutError(f"shape {shape} is not {entry.name}, which is {own}")


def _sizes(entry: Entry, shape: Shape) -> tuple[tuple[int, ...], dict[str, int]]:
    """The sizes in front, and the entry's own by name."""
    in_front = len(shape.dimensions) - len(entry.sizes)
    own = zip((size.name for size in entry.sizes), shape.dimensions[in_front:])
    return shape.dimensions[:in_front], dict(own)


def _with(choices: Choices, dtype: ElementType | int | str) -> dict[str, Any]:
    return {**choices, "dtype": dtype}
