"""`asarray`: an N-d array as an `Array`, as it lies or packed."""

from __future__ import annotations

import functools
from typing import Any, cast, overload

from gpulayout.api import arrays
from gpulayout.api.array import Array
from gpulayout.api.array_graphs import packed_in_graph, shape_in_graph
from gpulayout.api.array_types import AnyArray, HostArray, Kind, OwnKind, ShapeLike, TargetLike, Values
from gpulayout.api.not_memory import TracedArray
from gpulayout.api.packing import pack, shape_of
from gpulayout.api.shaped_buffer import ShapedBuffer
from gpulayout.api.targets import as_target
from gpulayout.layout.checks import type_text
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.graph_constants import is_compiling
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_shape


@overload
def asarray(array: HostArray, layout: TargetLike | None = None) -> Array[HostArray]: ...
@overload
def asarray(array: ShapedBuffer[Kind] | OwnKind[Kind], layout: TargetLike | None = None) -> Array[Kind]: ...
@overload
def asarray(array: AnyArray | Values, layout: TargetLike | None = None) -> Array[Any]: ...
def asarray(array: Any, layout: TargetLike | None = None) -> Any:
    """Make an `Array` of an N-d array: as it lies in memory, or packed in a layout.

    Parameters
    ----------
    array : array or Array
        N-d array of any library that `pack` takes.  Nested lists and numbers need a whole shape as `layout`.
    layout : Layout, Shape or str, optional
        The layout of the result, such as ``"{1,0:T(8,128)}"``.  By default that of the memory of `array`, which is not
        copied.

    Returns
    -------
    Array
        Over the memory of `array`, if that lies as asked; else over a new buffer, as `pack` makes it.  An `Array`
        itself if its layout is that, or else what its `to` returns.

    Raises
    ------
    LayoutError
        Without `layout`, when no layout has the strides of `array`; else as `pack` raises it.
    TypeError, BufferError
        As `shape_of` and `pack` raise them.

    See Also
    --------
    shape_of : The layout of an array's memory.

    Examples
    --------
    >>> import numpy as np
    >>> matrix = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    >>> asarray(matrix)
    Array('f64[2,3]{0,1}', 48 bytes, numpy.ndarray on cpu)
    >>> asarray(matrix).buffer is matrix
    True
    >>> asarray(matrix, "{1,0:PD(2,4)}").buffer
    array([0., 1., 2., 0., 3., 4., 5., 0.])
    """
    if isinstance(array, ShapedBuffer):
        return array if layout is None else cast(Array[Any], array).to(layout)
    if isinstance(array, arrays.PLAIN):
        if layout is None:
            raise TypeError(
                f"array is {type_text(array)}, which lies in no layout: pass numpy.asarray(array), or say the "
                "whole shape, as gl.asarray([1, 2], 'f32[2]')"
            )
        return Array.holding(pack(array, layout), as_shape(cast(ShapeLike, layout)))
    if is_compiling():
        if layout is None:
            return Array.holding(array, shape_in_graph(array, None, functools.partial(asarray, array)))
        return Array.holding(*packed_in_graph(array, layout, functools.partial(_packed, array, layout)))
    if layout is None:
        return Array(array, _shape_as_it_lies(array))
    try:
        lies = _shape_as_it_lies(array)
    except LayoutError:  # no layout has its strides
        lies = None
    own = lies or Shape(arrays.label(array, arrays.open_array(array, "array")[1]), tuple(array.shape))
    target = as_target(layout, own, "layout")
    return Array(array, target) if target == lies else Array(pack(array, target), target)


def _packed(array: Any, layout: TargetLike) -> tuple[Any, str]:
    found = asarray(array, layout)
    return found.buffer, str(found.shape)


def _shape_as_it_lies(array: Any) -> Shape:
    try:
        return shape_of(array)
    except TracedArray:  # without memory, there are only sizes
        return Shape(array.dtype, tuple([int(size) for size in array.shape]))
