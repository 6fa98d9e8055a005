"""What a tensor of a file is: what its header says, what a note says of it, or what a rule says with `from=`.

GPTQ's qweight is I32[512,4096] in the file.  As `gptq:qweight` it is u4[4096,4096], with 8 rows in every word.  A cut
of 1024 rows there is a cut of 128 rows of words, and what is cut has the same layout.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpulayout.catalogue.names import is_name, name_of, read_name, shape_of_tensor
from gpulayout.catalogue.tensors import TensorAxis, tensor_axis, tensor_of
from gpulayout.files.checkpoints.gguf import why_opaque
from gpulayout.files.checkpoints.header import DTYPES, StoredTensor, tensor_text
from gpulayout.files.errors import FileError
from gpulayout.layout.checks import clipped, counted, shown, value_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.layout_fields import BitOrder
from gpulayout.layout.patterns import read_pattern
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import parse_array_shape
from gpulayout.plans.plan import plan


@dataclass(frozen=True)
class View:
    """How a tensor is read: its elements, and where each dimension lies in what the file holds.

    shape   of its elements, which is that of the whole tensor
    sizes   of the axes of what the file holds in C order, units of so many bits
    bits    of a unit
    places  for every dimension of the shape, where it lies along these axes; None for one that cannot be cut
    name    of the entry of the catalogue, as text without sizes; None for arrays in C order and for other layouts
    """

    shape: Shape
    sizes: tuple[int, ...]
    bits: int
    places: tuple[TensorAxis | None, ...]
    name: str | None = None

    @property
    def is_array(self) -> bool:
        """True for an array in C order."""
        return self.name is None and _is_plain(self.shape) and self.shape.layout.is_descending

    def of_sizes(self, dimensions: Sequence[int], *, stacked: bool = False) -> Shape:
        """The shape of an array of other dimensions in the same layout; `stacked` has one more in front."""
        if tuple(dimensions) == self.shape.dimensions:
            return self.shape
        if self.name is not None:
            return parse_array_shape(f"{self.name}[{','.join(map(str, dimensions))}]")
        if self.is_array:
            return array_like(self.shape, dimensions)
        if _is_plain(self.shape) and len(dimensions) - stacked == self.shape.rank:
            plain = self.shape.prepend_major_dimension(1) if stacked else self.shape
            return Shape(plain.element_type, tuple(dimensions), plain.layout)
        if tuple(dimensions[1:] if stacked else dimensions) != self.shape.dimensions:
            raise LayoutError(f"{self.shape} can be neither cut nor joined: gpulayout unpack makes an array of it")
        return self.shape.prepend_major_dimension(dimensions[0]) if stacked else self.shape


def in_c_order(
    element_type: ElementType, dimensions: Sequence[int], *, packed: bool = False, bit_order: BitOrder = "little"
) -> Shape:
    """An array in C order."""
    order, bits = tuple(reversed(range(len(dimensions)))), element_type.bits if packed else 0
    return Shape(element_type, tuple(dimensions), Layout(order, element_size_in_bits=bits, bit_order=bit_order))


def array_like(shape: Shape, dimensions: Sequence[int]) -> Shape:
    """An array in C order of elements as a shape has them."""
    return in_c_order(shape.element_type, dimensions, packed=shape.is_packed, bit_order=shape.layout.bit_order)


def view_of(tensor: StoredTensor, note: str | None, from_: Shape | Layout | str | None = None) -> View:
    """What a tensor is; `LayoutError` for elements that no layout has, and for a `from_` that does not fit."""
    if problem := why_opaque(tensor):
        raise LayoutError(problem)
    if from_ is None and note is not None:
        return _of_shape(noted_shape(tensor, note), note)
    if from_ is None:
        element_type = DTYPES[tensor.dtype]
        if element_type is None:
            raise LayoutError(f"tensor {value_text(tensor.name)} is {tensor}: elements of 6 bits can only be copied")
        return _of_header(element_type, tensor.dimensions, packed=tensor.dtype == "F4")
    try:
        view = _as_said(tensor, from_)
    except LayoutError as error:
        raise LayoutError(
            f"{tensor_text(tensor.name)} is {tensor}, and from={from_} does not fit it: {error}"
        ) from None
    if note is not None and noted_shape(tensor, note) != view.shape:
        raise LayoutError(
            f"{tensor_text(tensor.name)}: from={from_} says {view.shape}, but the note in the file says {note}: leave "
            "from= out"
        )
    return view


@functools.lru_cache(maxsize=256)  # models have thousands of tensors of a few shapes
def _of_header(element_type: ElementType, dimensions: tuple[int, ...], *, packed: bool) -> View:
    return array_view(in_c_order(element_type, dimensions, packed=packed))


def _is_plain(shape: Shape) -> bool:
    """True for an array whose dimensions lie in some order, without tiles and padding."""
    return not shape.is_tiled and shape.layout == Layout(
        shape.layout.minor_to_major,
        element_size_in_bits=shape.layout.element_size_in_bits,
        bit_order=shape.layout.bit_order,
    )


def array_view(shape: Shape) -> View:
    """The view of an array whose dimensions lie in some order."""
    order = shape.layout.major_to_minor
    places = tuple(TensorAxis(order.index(dim)) for dim in range(shape.rank))
    return View(shape, tuple(shape.dimensions[dim] for dim in order), shape.bits_per_element, places)


def _of_shape(shape: Shape, text: str) -> View:
    """The view of a whole shape and its text, which may be a name of the catalogue."""
    if is_name(text):
        return _of_entry(shape, text)
    if _is_plain(shape):
        return array_view(shape)
    return View(shape, (shape.nbytes,), 8, (None,) * shape.rank)


@functools.lru_cache(maxsize=256)  # to find where each dimension lies takes long, and models have a few shapes
def _of_entry(shape: Shape, text: str) -> View:
    """The view of a layout of the catalogue: the tensor of its owner, or bytes that cannot be cut."""
    named = read_name(text)
    name = name_of(named, shape).partition("[")[0]
    tensor = tensor_of(named.entry, shape, named.choices)
    if tensor is None:
        return View(shape, (shape.nbytes,), 8, (None,) * shape.rank, name)
    places = tuple(tensor_axis(named.entry, shape, dim, named.choices) for dim in range(shape.rank))
    return View(shape, tensor.dimensions, tensor.element_type.bits, places, name)


def _as_said(tensor: StoredTensor, from_: Shape | Layout | str) -> View:
    """The view that a rule names."""
    own, text = DTYPES[tensor.dtype], str(from_)
    if own is None:
        raise LayoutError("elements of 6 bits can only be copied")
    if isinstance(from_, str) and is_name(from_):
        has_sizes = read_name(from_).sizes is not None
        shape = parse_array_shape(from_) if has_sizes else _shape_of_tensor(from_, own, tensor.dimensions)
    elif isinstance(from_, Shape):
        shape = from_
    elif isinstance(from_, str) and text in set(ElementType):
        shape = shape_of_words(own, tensor.dimensions, ElementType(text))
    else:
        shape = _of_memory(in_c_order(own, tensor.dimensions, packed=tensor.dtype == "F4"), from_)
    if shape.nbytes != tensor.nbytes:
        raise LayoutError(f"{shape} has {counted(shape.nbytes, 'byte')}, and the tensor {tensor.nbytes}")
    return _of_shape(shape, text)


_shape_of_tensor = functools.lru_cache(maxsize=256)(shape_of_tensor)


def _of_memory(stored: Shape, from_: Layout | str) -> Shape:
    """The array whose memory a tensor is: of its dimensions, in another layout; or before a pattern.

    >>> str(_of_memory(in_c_order(ElementType.F32, (2, 3)), "o i -> i o"))
    'f32[3,2]{0,1}'
    """
    if not (isinstance(from_, str) and "->" in from_):
        return plan(stored, from_).target
    before, _, after = from_.partition("->")
    sizes = read_pattern(from_, None, "from").sizes
    back = read_pattern(f"{after} -> {before}", stored.rank, "from")
    sizes = back.axis_sizes(stored.dimensions, sizes)
    dimensions = tuple(math.prod(sizes[name] for name in group) for group in back.after)
    array = in_c_order(stored.element_type, dimensions, packed=stored.is_packed)
    full = " ".join(f"({' '.join(f'{name}={sizes[name]}' for name in group)})" for group in back.after)
    return plan(array, f"{full} -> {after}").target


def shape_of_words(words: ElementType, dimensions: Sequence[int], element_type: ElementType) -> Shape:
    """The elements that lie in the words of a tensor, along its last dimension.

    >>> str(shape_of_words(ElementType.S32, (64, 2), ElementType.U4))
    'u4[64,16]{1,0:E(4)}'
    """
    packed, own = element_type.is_sub_byte, _bits(element_type)
    *others, last = dimensions or (1,)
    bits = last * _bits(words)
    if bits % own:
        raise LayoutError(
            f"the {last} elements of {shown(dimensions)} along its last dimension are no whole number of {element_type}"
        )
    size = bits // own
    if not dimensions:
        return in_c_order(element_type, () if size == 1 else (size,), packed=packed)
    return in_c_order(element_type, (*others, size), packed=packed)


def sizes_of_words(words: ElementType, dimensions: Sequence[int], element_type: ElementType) -> tuple[int, ...]:
    """The sizes of the words that hold an array: the way back of `shape_of_words`.

    >>> sizes_of_words(ElementType.S32, (64, 16), ElementType.U4)
    (64, 2)
    """
    *others, last = dimensions or (1,)
    size, rest = divmod(last * _bits(element_type), _bits(words))
    if rest:
        raise LayoutError(
            f"the {last} elements of {element_type} along the last dimension of {shown(dimensions)} are no whole "
            f"number of {words}"
        )
    return (*others, size) if dimensions else ()


def _bits(element_type: ElementType) -> int:
    """Bits of an element among others: those of 4 bits are two in a byte."""
    return element_type.bits if element_type.is_sub_byte else 8 * element_type.itemsize


def noted_shape(tensor: StoredTensor, note: str) -> Shape:
    """The shape in a note; `FileError` for a note that does not fit its tensor."""
    who = f"the note about {tensor_text(tensor.name)} is {value_text(clipped(note, 100))}"
    try:
        shape = parse_array_shape(note)
    except LayoutError as error:
        raise FileError(f"{who}: {error}") from None
    if tensor.nbytes != shape.nbytes:
        raise FileError(f"{who}, a buffer of {shape.nbytes} bytes, but the tensor is {tensor}")
    return shape
