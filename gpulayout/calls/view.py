"""Views: an array over the same memory, without a copy."""

from __future__ import annotations

import functools
import math
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from gpulayout.arrays import arrays
from gpulayout.arrays.array_types import AnyArray, Kind, OwnKind, Scalar, TargetLike
from gpulayout.arrays.libraries import library_of
from gpulayout.arrays.library import Library, TracedArray
from gpulayout.arrays.memory_checks import flat_buffer, too_long
from gpulayout.arrays.shaped_buffer import Memory, ShapedBuffer
from gpulayout.layout import checks
from gpulayout.layout.element_type import check_has_elements
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.graph_constants import is_compiling
from gpulayout.layout.patterns import read_pattern
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import is_only_layout
from gpulayout.moves.backend import Backend
from gpulayout.moves.move import MAX_AXES
from gpulayout.moves.placement import view_strides
from gpulayout.requests.reading import check_strict
from gpulayout.requests.shape_arguments import array_shape, given_shape, own_shape
from gpulayout.traced.traced import between_graphs


@overload
def view(buffer: ShapedBuffer[Memory], shape: TargetLike = "", *, strict: bool = True, **sizes: int) -> Memory: ...
@overload
def view(buffer: NDArray[Scalar], shape: TargetLike, *, strict: bool = True, **sizes: int) -> NDArray[Scalar]: ...
@overload
def view(buffer: OwnKind[Kind], shape: TargetLike, *, strict: bool = True, **sizes: int) -> Kind: ...
@overload
def view(buffer: AnyArray, shape: TargetLike, *, strict: bool = True, **sizes: int) -> Any: ...
def view(  # type: ignore[misc]  # as in `transpose`
    buffer: Any, shape: TargetLike = "", /, *, strict: bool = True, **sizes: Any
) -> Any:
    """See the same memory as another array: no copy, and writing to one writes to both.

    Parameters
    ----------
    buffer : array
        1-D contiguous array of `shape.buffer_length` elements.  For a pattern, any N-d array.  An `Array` needs
        no shape.
    shape : Shape, Layout or str
        The buffer's shape, or its text; or, for an N-d array, only its layout, as `pack` takes it.  A pattern such as
        ``"b s (h d) -> b h s d"`` asks for the array after it, as `transpose` does.
    strict : bool, optional
        False takes a longer buffer too, such as a pool, and shows its first `shape.buffer_length` elements.
    **sizes : int
        Sizes of the axes that a pattern splits, such as ``h=8``; the pattern can say them too: ``"(h=8 d)"``.

    Returns
    -------
    array
        The logical array, of shape `shape.dimensions`; or the array after the pattern.  It is of the library of
        `buffer`.

    Raises
    ------
    LayoutError
        For tiles that leave no single stride per dimension, for packed elements, for a pattern that joins axes whose
        elements are not evenly spaced, for a layout without a shape if the buffer is flat, and for a JAX array if the
        view would have gaps.
    TypeError, BufferError
        For the buffer, as `unpack` raises them; BufferError for read-only memory of a GPU too, because CuPy has no
        read-only arrays.

    See Also
    --------
    unpack, transpose : Copies, for every layout and every pattern.

    Notes
    -----
    Strides express every order and every padding.  They express tiles only when neighbours along a dimension are
    always the same distance apart, as with ``T(1,128)`` or with tiles as wide as the array.

    Examples
    --------
    >>> import numpy as np
    >>> view(np.array([1, 4, 0, 2, 5, 0, 3, 6, 0], np.int8), "s8[2,3]{0,1:PD(3,3)}").strides
    (1, 3)
    >>> heads = view(np.zeros((2, 16, 512), np.float32), "b s (h d) -> b h s d", h=8)
    >>> heads.shape, heads.strides
    ((2, 8, 16, 64), (32768, 256, 2048, 4))
    """
    if is_compiling():
        reason = "gl.view is about memory: call gl.unpack or gl.transpose, whose copies the compiler fuses"
        return between_graphs(reason, functools.partial(view, buffer, shape, strict=strict, **sizes))
    shape = sizes.pop("shape") if "shape" in sizes and shape == "" else shape
    if isinstance(shape, (tuple, list)) and checks.are_sizes(shape) and sorted(shape) == [*range(len(shape))] != []:
        raise TypeError(
            f"shape {checks.shown(shape)} is not a shape: view takes a pattern such as 'h w c -> c h w'; axis numbers "
            "are for gl.transpose"
        )
    is_pattern = isinstance(shape, str) and "->" in shape and is_only_layout(shape)
    if strict is not True:
        check_strict(strict)
        if is_pattern:
            raise TypeError(f"strict is about buffers that are longer than their shape: leave it out beside {shape!r}")
    if isinstance(buffer, ShapedBuffer):
        if is_pattern:
            return view(view(buffer), shape, **sizes)
        buffer, shape = buffer.buffer, own_shape(buffer.layout_shape, shape or None, "shape")
    if sizes and not is_pattern:
        raise TypeError(f"sizes {', '.join(sizes)} belong to a pattern such as 'h w c -> c h w', but shape is {shape}")
    placed = None if is_pattern else _placed(given_shape(shape, buffer, "shape"))
    library = library_of(buffer)
    backend, opened = _opened(buffer, library, "gl.transpose" if is_pattern else "gl.unpack")
    if placed is None:
        memory = opened
        check_has_elements(arrays.label(buffer, opened), "buffer")
        dimensions, strides = _after(str(shape), tuple(opened.shape), tuple(opened.strides), opened.itemsize, sizes)
    else:
        whole, strides = placed
        dimensions, memory = whole.dimensions, flat_buffer(backend, opened, whole, "buffer")
        if strict and memory.size > whole.buffer_length:
            raise BufferError(too_long(memory, whole, "buffer"))
    if library is not None:
        return library.view(buffer, backend, memory, dimensions, strides)
    seen = backend.strided(memory, dimensions, strides)
    if type(seen) is not np.ndarray and opened is not buffer and backend.foreign_memory(buffer).read_only:
        raise BufferError(
            "buffer is read-only, but its view would be a CuPy array, which can always be written to: use "
            f"{'gl.transpose' if is_pattern else 'gl.unpack'} to copy the array"
        )
    return seen


def _opened(buffer: Any, library: Library | None, copies: str) -> tuple[Backend, Any]:
    """The backend of a buffer, and its memory; `copies` names the call for an array that is traced."""
    try:
        return arrays.open_array(buffer if library is None else library.described(buffer), "buffer")
    except TracedArray as error:
        raise TracedArray(f"{error}; or call {copies} in place of gl.view: the compiler fuses its copy") from None


@functools.lru_cache(maxsize=1024)  # to check a shape and find its strides takes longer than to make the view
def _placed(shape: Shape) -> tuple[Shape, tuple[int, ...]]:
    """The shape of a buffer, and the byte strides of the logical array in it."""
    whole = array_shape(shape)
    return whole, view_strides(whole)


def _after(
    text: str, dimensions: tuple[int, ...], strides: tuple[int, ...], itemsize: int, sizes: dict[str, int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Dimensions and byte strides of the array after a pattern; LayoutError for a joined axis without a single stride.

    Axes joined as (a b) have the stride of b if a steps over exactly the elements of b: stride a = size b * stride b.
    Axes of size 1 take no step, and an array without elements none at all.  They get strides all the same: those that
    they had, and new ones the item size.  PyTorch and others refuse a last axis whose stride is not one element.
    """
    pattern = read_pattern(text, len(dimensions), "shape")
    axes = []
    for group in pattern.parts(dimensions, sizes):
        real = [part for part in group if part.size != 1] or list(group[-1:])
        steps = [strides[part.dim] * part.step for part in real]
        for outer, inner, step, next_step in zip(real, real[1:], steps, steps[1:]):
            if 0 not in dimensions and step != inner.size * next_step:
                raise LayoutError(
                    f"{pattern.shown} joins {outer.name} and {inner.name}, whose elements are not evenly spaced: a "
                    f"step along {outer.name} is {step} bytes, and {inner.name} takes {inner.size * next_step}; "
                    "gl.transpose copies the array"
                )
        axes.append((math.prod(part.size for part in group), steps[-1] if steps else itemsize))
    if len(axes) > MAX_AXES:
        raise LayoutError(f"{pattern.shown} has {len(axes)} axes: {MAX_AXES} is the limit")
    return tuple(size for size, _ in axes), tuple(stride for _, stride in axes)
