"""Parameters of arithmetic on the way: the numbers of a keyword, and which elements of an array each is for.

A parameter broadcasts as in NumPy, against the array before the move.  There may also be a number for each block of
elements: `block` says how many share one, and the last block may be cut.  Without it, a parameter with as many
dimensions as the array may have sizes that divide the array's.  But not `mean` and `std`, which are for channels: of
shape (3, 1, 1) for H W C they are for the wrong dimension.

    f8e4m3fn[576,256], scale of (5, 2), block=128     rows 512..575 have the numbers scale[4]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpulayout.arrays import arrays
from gpulayout.arrays.array_types import HostArray
from gpulayout.arrays.libraries import library_of
from gpulayout.arrays.library import FollowedParameter, Library, RequiresGrad, TracedArray
from gpulayout.arrays.torch_tensors import TORCH
from gpulayout.choices.backends import host_backend
from gpulayout.cpu.convert import cast_values
from gpulayout.layout.checks import counted, number_text, type_text, value_text, whole_number, whole_numbers
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.memory.foreign_memory import CUDA_INTERFACE, DLPACK, offers
from gpulayout.moves.arithmetic import Arithmetic, range_of


class Parameter(NamedTuple):
    """The numbers of one keyword, for an array of certain dimensions.

    name     the keyword; "unit" for 255
    values   of the type `Arithmetic.compute`, on the host, with one dimension for each of the array's
    blocks   for each dimension how many elements share a number, 0 for all.  The last block may be cut.
    """

    name: str
    values: HostArray
    blocks: tuple[int, ...]

    def part(self, dimensions: Sequence[int], box: Sequence[tuple[int, int]]) -> Parameter:
        """The numbers for a box of an array of these dimensions; see `ElementChange.part`.

        One number for each block of 128 stays that where the box begins and ends between blocks.  If it begins at 64,
        there is one for each 64 elements.
        """
        rank = len(dimensions)
        if rank and (not box or any(first >= last for first, last in box)):
            return self._replace(values=_kept(np.ones((1,) * rank, self.values.dtype)), blocks=(0,) * rank)
        values, blocks = self.values, list(self.blocks)
        for axis, ((first, last), whole, block) in enumerate(zip(box, dimensions, self.blocks)):
            if not block or (first, last) == (0, whole):
                continue
            step = math.gcd(first, block) if last == whole else math.gcd(first, last, block)
            numbers = np.arange(first, last, step) // block
            is_one = numbers[0] == numbers[-1]
            values = np.take(values, numbers[:1] if is_one else numbers, axis)
            blocks[axis] = 0 if is_one else step
        return self._replace(values=_kept(values), blocks=tuple(blocks))


@dataclass(frozen=True)
class Unknown:
    """A parameter of which only the type and the sizes are known while a function is traced: an input of its graph."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_torch: bool


def follower(given: Any) -> Library | None:
    """The library that follows a parameter, or a part of a list of them; None for numbers that are known."""
    if isinstance(given, (list, tuple)):
        for part in given:
            if (found := follower(part)) is not None:
                return found
        return None
    library = library_of(given)
    return library if library is not None and library.follows(given) else None


def _kept(values: HostArray) -> HostArray:
    """The numbers, which nobody may change."""
    values.setflags(write=False)
    return values


def read_parameter(
    name: str, given: Any, arithmetic: Arithmetic, shape: Shape, block: tuple[int, ...] | None
) -> Parameter:
    """A parameter as an array of C, each number rounded once; errors name it and the array's dimensions."""
    compute = arithmetic.compute
    if type(given) is np.ndarray and given.dtype == compute.dtype:
        values, kind = given, compute
    else:
        values, kind = _numbers(name, given)
    if name == "zero_point":
        _check_zero_point(values, kind, arithmetic.source if arithmetic.form == "dequantise" else arithmetic.target)
    elif kind is ElementType.U8 and not isinstance(given, arrays.PLAIN):
        _check_no_codes(name, given, arithmetic)
    blocks = fitted_blocks(name, values.shape, shape.dimensions, block)
    values = values.reshape([-(-own // size) if size else 1 for own, size in zip(shape.dimensions, blocks)])
    if kind is compute:
        values = np.array(values, order="C")  # a plan keeps the numbers, whatever becomes of the caller's array
    else:  # torch.compile looks into what runs between its graphs, and would end in there
        values = TORCH.disable_compiler(cast_values)(values, kind, compute)
    return Parameter(name, values, blocks)


def _numbers(name: str, given: Any) -> tuple[HostArray, ElementType]:
    """The numbers of a parameter as a host array, and their type."""
    if isinstance(given, (str, bytes)):
        raise TypeError(f"{name} is {value_text(given)}, not a number or an array of numbers")
    numbers = given
    if type(given) is Unknown:
        return _real(name, np.zeros(given.shape, given.dtype), ElementType.of(given.dtype))
    if isinstance(given, arrays.PLAIN):  # on a machine with a GPU the default backend is not the host's
        numbers = _plain_numbers(name, given)
    elif not (hasattr(given, "__array__") or offers(given, *DLPACK) or offers(given, CUDA_INTERFACE)):
        numbers = arrays.known_array(given, name)
        if numbers is given:
            problem = "it must be a number, such as a float, or an array of numbers"
            raise TypeError(f"{name} is {type_text(given)}: {problem}")
    try:
        backend, array = arrays.open_array(numbers, name)
    except (TracedArray, RequiresGrad) as error:
        raise _followed(name, numbers, isinstance(error, TracedArray)) from None
    if backend is not host_backend():
        raise BufferError(f"{name} is on {backend.device(array)}: parameters are read on the host, pass a NumPy array")
    try:
        label = arrays.label(numbers, array)
        if not label.isnative:  # numbers of another machine's byte order
            label = label.newbyteorder("=")
            array = array.astype(label)
        kind = ElementType.of(label)
    except TypeError as error:
        raise TypeError(f"{name} is {type_text(given)}, not a number or an array of numbers: {error}") from None
    return _real(name, array, kind)


def _real(name: str, array: HostArray, kind: ElementType) -> tuple[HostArray, ElementType]:
    if kind is ElementType.PRED or kind.is_complex:
        raise TypeError(f"{name} holds {kind} elements: it must hold real numbers")
    return array, kind


def _followed(name: str, given: Any, is_traced: bool) -> FollowedParameter:
    """The error for a parameter without numbers; calls on arrays of its library run in the library's operations."""
    library = library_of(given)
    assert library is not None
    if is_traced:
        message = (
            f"{name} is an array without memory ({type(given).__name__}), whose numbers are not known yet: calls on "
            "traced arrays of the same library take it, without out=; here it must hold numbers"
        )
    else:
        message = (
            f"{name} requires a gradient or has a tangent, which would not follow it into this call: tensors take it "
            f"in gl.transpose, pack, unpack and relayout without out=; else pass {name}.detach()"
        )
    return FollowedParameter(message, library, is_traced)


def _plain_numbers(name: str, given: Any) -> HostArray:
    """Plain numbers and lists of them, as NumPy reads them; f64 for integers of more than 64 bits."""
    arrays.check_no_dask(given, name)
    if isinstance(given, (list, tuple)) and not {*map(type, given)} <= {int, float}:
        _check_none_followed(name, given)
    values = arrays.array_of_values(given, name, None)
    return arrays.array_of_values(given, name, np.dtype(np.float64)) if values.dtype == object else values


def _check_none_followed(name: str, given: Any) -> None:
    """FollowedParameter for a list with a part that a library follows: NumPy could not read it."""
    for part in given:
        if isinstance(part, (list, tuple)):
            _check_none_followed(name, part)
        elif (library := follower(part)) is not None:
            raise _followed(name, part, not library.requires_grad(part))


def _check_zero_point(values: HostArray, kind: ElementType, quantised: ElementType) -> None:
    if not kind.is_integral:
        raise TypeError(f"zero_point holds {kind} elements: it must hold integers, of the range of {quantised}")
    if quantised.is_integral and values.size:
        lowest, highest = range_of(quantised)
        for extreme in (int(values.min()), int(values.max())):
            if not lowest <= extreme <= highest:
                raise LayoutError(f"zero_point {extreme} is outside the range of {quantised}, {lowest}..{highest}")


def _check_no_codes(name: str, given: Any, arithmetic: Arithmetic) -> None:
    """TypeError for an array of u8 beside floats of few bits, whose scales are often kept as codes of powers of two."""
    is_torch = given.is_torch if type(given) is Unknown else type(given).__module__ == "torch"
    codes, numbers = ("torch.float8_e8m0fnu", "float()") if is_torch else ("ml_dtypes.float8_e8m0fnu", "astype('f')")
    for element_type in (arithmetic.source, arithmetic.target):
        if element_type.is_floating and element_type.bits <= 8:
            raise TypeError(
                f"{name} holds u8 elements beside {element_type}, whose scales are often stored as codes of f8e8m0fnu, "
                f"powers of two: write {name}.view({codes}) if these are, or {name}.{numbers} if they are numbers"
            )


# ---- how a parameter fits its array ----------------------------------------------------------------------------------


def block_sizes(given: Any, dimensions: tuple[int, ...]) -> tuple[int, ...]:
    """`block` as one number for each dimension of the array; LayoutError for other values."""
    context = f" for an array of shape {dimensions}"
    if isinstance(given, (list, tuple)):
        sizes = whole_numbers("block", given, context)
        if len(sizes) != len(dimensions):
            raise LayoutError(
                f"block {sizes} has {counted(len(sizes), 'number')}{context}: it takes one for each of its "
                f"{counted(len(dimensions), 'dimension')}, or one number for all"
            )
    else:
        sizes = (whole_number("block", given, context),) * len(dimensions)
    for dim, size in enumerate(sizes):
        if size < 1:
            raise LayoutError(
                f"block {value_text(given)} has {number_text(size)} for dimension {dim}{context}: at least 1 element"
            )
    return sizes


def fitted_blocks(
    name: str, sizes: tuple[int, ...], dimensions: tuple[int, ...], block: tuple[int, ...] | None
) -> tuple[int, ...]:
    """For each dimension of the array how many elements share a number of a parameter of these sizes, 0 for all.

    LayoutError for sizes that do not fit.

    >>> fitted_blocks("scale", (3,), (480, 640, 3), None), fitted_blocks("scale", (4, 2), (512, 256), None)
    ((0, 0, 1), (128, 128))
    >>> fitted_blocks("scale", (5, 2), (576, 256), (128, 128))
    (128, 128)
    """
    misfit = f"{name} of shape {sizes} does not fit an array of shape {dimensions}"
    more = len(sizes) - len(dimensions)
    if more > 0 and {*sizes[:more]} != {1}:
        raise LayoutError(f"{misfit}, which has {counted(len(dimensions), 'dimension')}")
    divides = block is None and name not in ("mean", "std")
    blocks = []
    for dim, (size, own) in enumerate(zip((1,) * -more + sizes[max(more, 0) :], dimensions)):
        if size == 1:
            blocks.append(0)
        elif size == own:
            blocks.append(1)
        elif block is not None and size == -(-own // block[dim]):
            blocks.append(block[dim])
        elif divides and not more and size and own and own % size == 0:
            blocks.append(own // size)
        elif block is not None:
            cut = f"{counted(-(-own // block[dim]), 'block')} of {block[dim]}"
            raise LayoutError(f"{misfit}: dimension {dim} has {own} elements, {cut}, and {name} has {size} numbers")
        else:
            problem = f"its size {size} is not the size {own} of dimension {dim}"
            rule = "a parameter broadcasts as in NumPy, against the array before the move"
            raise LayoutError(f"{misfit}: {problem}, and {rule}{_advice(sizes, dimensions, divides)}")
    return tuple(blocks)


def _advice(sizes: tuple[int, ...], dimensions: tuple[int, ...], may_be_blocks: bool) -> str:
    """What to write in place of a parameter that does not fit, if that can be told."""
    several = [size for size in sizes if size != 1]
    alike = [dim for dim, own in enumerate(dimensions) if several == [own]]
    if len(alike) == 1:
        fitting = (*several, *(1,) * (len(dimensions) - 1 - alike[0]))
        return f"; for a number for each index of dimension {alike[0]}, reshape it to {fitting}"
    block = _likely_block(sizes, dimensions) if may_be_blocks else None
    if block is None:
        return ""
    more = "" if len(sizes) == len(dimensions) else f", and give it {counted(len(dimensions), 'dimension')}"
    return f"; for a number for each block of elements, say how many share one, such as block={block}{more}"


def _likely_block(sizes: tuple[int, ...], dimensions: tuple[int, ...]) -> int | None:
    """The `block` with which all sizes fit: one that divides, or else a power of two if there is one.

    None if no block fits, or if the sizes may be those of other dimensions: fewer than the array's, which divide none.

    >>> _likely_block((5, 2), (576, 256)), _likely_block((7, 32), (1024, 4096)), _likely_block((2,), (3, 4))
    (128, None, 2)
    """
    cut = [(size, own) for size, own in zip(reversed(sizes), reversed(dimensions)) if size not in (1, own)]
    if not cut or any(not 1 < size < own for size, own in cut):
        return None
    least = max([-(-own // size) for size, own in cut])
    most = min([-(-own // (size - 1)) - 1 for size, own in cut])
    power = 1 << most.bit_length() - 1
    divides = all(own == size * least for size, own in cut)
    if most < least or (len(sizes) < len(dimensions) and not divides):
        return None
    return least if divides or power < least else power
