"""`Array`: a buffer that knows its shape, so that nobody has to carry the layout beside the memory.

`asarray` makes one of an N-d array.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

import numpy as np

from gpulayout.arrays import arrays
from gpulayout.arrays.array_types import (
    AnyArray,
    ArithmeticOptions,
    BufferOptions,
    HostArray,
    Kind,
    OwnKind,
    ShapeLike,
    TargetLike,
    Values,
)
from gpulayout.arrays.library import RequiresGrad, TracedArray
from gpulayout.arrays.memory_checks import check_dtype, check_pair, is_flat, own_strides
from gpulayout.arrays.shaped_buffer import PENDING, Memory, Pair, ShapedBuffer, register
from gpulayout.calls.array_advice import advises, no_attribute
from gpulayout.calls.array_elements import elements_at, equal_elements, host_memory, refusal, run_ufunc
from gpulayout.calls.packing import pack, shape_of, unpack
from gpulayout.calls.view import view
from gpulayout.layout.checks import ByteCount, counted, type_text
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.graph_constants import is_compiling
from gpulayout.layout.shape import Shape
from gpulayout.layout.strides import layout_from_strides
from gpulayout.layout.text import as_shape
from gpulayout.moves.lowered_run import is_torch
from gpulayout.requests.arithmetic import check_keywords
from gpulayout.requests.shape_arguments import as_target, given_shape
from gpulayout.running.array_calls import is_laid_out, relayout_array
from gpulayout.traced.array_graphs import packed_in_graph, shape_in_graph
from gpulayout.traced.traced import between_graphs


@advises
class Array(ShapedBuffer[Memory]):
    """A buffer with its shape: an array in any layout, in any library's memory.  Frozen; nothing is copied to make one.

    Calls that take a buffer and its shape take an `Array` in place of both: `relayout`, `unpack`, `view`, plans and
    others.  Then a wrong layout is an error.

    Parameters
    ----------
    buffer : array
        1-D contiguous array of `shape.buffer_length` elements; or an N-d array that lies in memory as `shape`
        says.  It is of NumPy, CuPy, PyTorch or JAX, or offers DLPack or ``__cuda_array_interface__``.  For packed
        elements, such as ``E(4)``, it is uint8.
    shape : Shape, Layout or str
        The buffer's shape, or its text; or, for an N-d array, only its layout.  That a flat buffer really lies so, the
        library cannot detect.

    Attributes
    ----------
    buffer : array
        The array that was given.
    shape : tuple of int
        The logical sizes, as arrays of other libraries have them.
    layout_shape : Shape
        Element type, dimensions and layout: the shape that calls take.

    Raises
    ------
    TypeError
        For a buffer of another element type, and for objects that are not arrays.
    BufferError
        For a buffer that is too small, too long or not contiguous, or that does not lie as `shape` says.
    LayoutError
        For a shape that no buffer can hold, and for a layout without a shape if the buffer is flat.

    See Also
    --------
    asarray : From an N-d array, as it lies or packed.

    Notes
    -----
    It has no arithmetic: ``array.logical()`` is an array of the buffer's own library.

    ``==`` of two is True or False: True for the same element type, the same dimensions and equal elements, whatever the
    layouts are.  Padding does not count, and of a byte that holds one element of ``s4`` only the lower 4 bits do.
    Beside anything else, such as an array of NumPy, it is a TypeError that says what to write; beside None it is False.
    As buffers can change, there is no hash.

    ``numpy.asarray``, ``torch.from_dlpack`` and the like take it as the N-d array.

    To JAX and PyTorch it is a pytree with one leaf, the buffer: functions under ``jax.jit``, ``jax.tree.map`` or
    ``torch.export`` take and return it.

    Examples
    --------
    >>> import numpy as np
    >>> import gpulayout as gl
    >>> tiles = gl.Array(np.arange(8, dtype=np.float32), "f32[2,3]{1,0:T(2,2)}")
    >>> tiles
    Array('f32[2,3]{1,0:T(2,2)}', 32 bytes, numpy.ndarray on cpu)
    >>> tiles.logical()
    array([[0., 1., 4.],
           [2., 3., 6.]], dtype=float32)
    >>> float(tiles[1, -1]), tiles[:, 1]
    (6.0, array([1., 3.], dtype=float32))
    >>> tiles.to("{0,1}").buffer
    array([0., 2., 1., 3., 4., 6.], dtype=float32)
    >>> tiles.to("{0,1}") == tiles
    True
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # buffers change

    def __init__(self, buffer: Memory, shape: TargetLike):
        kept: Shape | str
        if is_compiling():
            kept = shape_in_graph(buffer, shape, functools.partial(Array, buffer, shape))
        else:
            buffer = arrays.known_array(buffer, "buffer")
            kept = given_shape(shape, buffer, "shape")
            check_pair(buffer, kept)
            if PENDING:
                register(Array)
        object.__setattr__(self, "buffer", buffer)
        object.__setattr__(self, "shape_or_text", kept)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the elements, whatever library the buffer is of."""
        return self.layout_shape.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the buffer that the shape takes, padding included."""
        return self.layout_shape.nbytes

    @property
    def device(self) -> Any:
        """Where the buffer lives, in the words of its library: "cpu", or an object."""
        buffer: Any = self.buffer
        if hasattr(buffer, "device"):
            return buffer.device
        backend, opened = arrays.open_array(buffer, "buffer")
        return backend.device(opened)

    def logical(self) -> Memory:
        """The N-d array of the elements: a view of the buffer if strides can say it, or else a copy in C order.

        Returns
        -------
        array
            Of shape ``self.shape``, of the library of the buffer.

        Raises
        ------
        TypeError, BufferError, LayoutError
            As `unpack` raises them.

        See Also
        --------
        gpulayout.view : Never a copy.
        gpulayout.unpack : Always a copy.

        Examples
        --------
        >>> import numpy as np
        >>> import gpulayout as gl
        >>> gl.Array(np.arange(6), "s64[2,3]{0,1}").logical().strides
        (8, 16)
        """
        buffer: Any = self.buffer
        if not is_flat(self.buffer):
            return self.buffer
        if is_compiling():
            return unpack(self)
        if own_strides(self.layout_shape) is not None:
            try:
                seen: Memory = view(buffer, self.layout_shape)
                return seen
            except (TracedArray, BufferError, LayoutError):  # tracers; gradients, read-only memory; gaps in JAX
                pass
        copied: Memory = unpack(buffer, self.layout_shape)
        return copied

    @overload
    def to(self: Pair, target: TargetLike, *, out: None = None) -> Pair: ...  # type: ignore[overload-overlap]
    @overload
    def to(
        self, target: TargetLike | None = None, *,
        out: Any = None, max_bytes: ByteCount | None = None, **options: Unpack[BufferOptions],
    ) -> Array[Any]: ...  # fmt: skip
    def to(
        self,
        target: TargetLike | None = None,
        *,
        out: Any = None,
        max_bytes: ByteCount | None = None,
        strict: bool = True,
        **options: Unpack[ArithmeticOptions],
    ) -> Any:
        """Copy the array into another layout or element type, as `relayout` does.

        Parameters
        ----------
        target : Shape, Layout or str, optional
            The shape of the result, or only its layout, such as ``"{0,1}"``, ``"F"`` or ``"h w c -> c h w"``.  By
            default the layout stays, and `dtype` or another keyword of `ArithmeticOptions` says what changes.
        out : array or Array, optional
            A buffer to write to; or an `Array` of the target's shape.
        max_bytes, strict, **options
            As `relayout` takes them.

        Returns
        -------
        Array
            The array itself if it has that shape already and there is no `out`; else a new `Array`, or `out` if that
            is one.

        Raises
        ------
        TypeError, BufferError, LayoutError
            As `relayout` raises them.

        Examples
        --------
        >>> import numpy as np
        >>> import gpulayout as gl
        >>> gl.asarray(np.eye(2)).to("{1,0:T(2,2)}", dtype="u8").buffer
        array([1, 0, 0, 1], dtype=uint8)
        >>> gl.asarray(np.eye(2), "{0,1:T(2,2)}").to(dtype="f16")
        Array('f16[2,2]{0,1:T(2,2)}', 8 bytes, numpy.ndarray on cpu)
        """
        if is_laid_out(self, target, options) and out is None:
            return self
        return relayout_array(self, None, target, out, options, max_bytes, strict)

    if not TYPE_CHECKING:  # for checkers, the class has the attributes that it has

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name)

    def __getitem__(self, key: Any) -> Any:
        """An element, or an N-d array of the buffer's library: a view if strides can say it, or else a copy.

        Parameters
        ----------
        key : int, slice, Ellipsis, or a tuple of them
            Negative numbers count from the end.

        Raises
        ------
        IndexError
            For a coordinate out of bounds, and for more of them than dimensions.
        TypeError
            For arrays, lists, booleans and None, which index ``array.logical()``.
        """
        return elements_at(self, key)

    def __eq__(self, other: object) -> bool:
        """True for another `Array` of the same element type, the same dimensions and equal elements; False for None.

        Raises
        ------
        TypeError
            For anything else, on either side: arrays, numbers, lists, text.  And for arrays inside a traced function:
            compare what `logical` gives.
        BufferError
            For arrays on different devices.
        """
        if isinstance(other, Array):
            return equal_elements(self, other)
        if other is None:
            return False
        raise refusal(other)

    def __len__(self) -> int:
        sizes = self.shape
        if not sizes:
            raise TypeError("len() of a gl.Array without dimensions")
        return sizes[0]

    def __iter__(self) -> Iterator[Any]:
        """The parts along the first axis, as of an N-d array."""
        return map(self.__getitem__, range(self.__len__()))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """The N-d array of the elements, for NumPy.

        Parameters
        ----------
        dtype : dtype, optional
            Of the result.
        copy : bool, optional
            True copies always, False never.

        Raises
        ------
        ValueError
            With ``copy=False``, if the layout or the dtype needs a copy.
        TypeError
            For an array on a GPU, and for one inside a traced function.
        """
        try:
            memory = host_memory(self)[1]
        except RequiresGrad:
            raise BufferError(
                "array holds a tensor that requires a gradient, and NumPy follows none: pass array.logical().detach()"
            ) from None
        held = self if memory is self.buffer else Array.holding(memory, self.layout_shape)
        elements = held.logical()
        is_new = is_flat(held.buffer) and own_strides(self.layout_shape) is None
        if is_new and copy is False:
            raise ValueError(f"{self.layout_shape} needs a copy: no strides say where its elements lie")
        return np.array(elements, dtype, copy=None if is_new else copy)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """What a function of NumPy, such as ``numpy.add``, gives for the N-d array of the elements.

        Raises
        ------
        TypeError
            For ``numpy.equal`` and ``numpy.not_equal`` beside what is no `Array`, which is what ``==`` and ``!=`` of
            NumPy's arrays call; for an `Array` to write to; and as `__array__` raises it.
        """
        return run_ufunc(ufunc, method, inputs, options)

    def __dlpack__(self, **options: Any) -> Any:
        """The N-d array of the elements by DLPack, without a copy.

        Raises
        ------
        BufferError
            If no strides say where the elements lie: call `logical`, which copies them then.
        """
        if not is_flat(self.buffer):
            seen: Any = self.buffer
        else:
            try:
                seen = view(self)
            except LayoutError as error:
                raise BufferError(f"{self!r} has no view: pass .logical(), which is a copy; {error}") from None
        return seen.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The type and the number of the device, as DLPack says them."""
        buffer: Any = self.buffer
        found: tuple[int, int] = (
            buffer if hasattr(buffer, "__dlpack_device__") else arrays.open_array(buffer, "buffer")[1]
        ).__dlpack_device__()
        return found

    def __repr__(self) -> str:
        """The shape, the bytes and where they are; no elements, which may be many and on a GPU."""
        if is_compiling():
            reason = "the text of a gl.Array is made outside of graphs: call repr there"
            return str(between_graphs(reason, functools.partial(repr, self)))
        kind = type(self.buffer)
        module = kind.__module__.partition(".")[0]
        name = kind.__name__ if module == "builtins" else f"{module}.{kind.__name__}"
        device = getattr(self.buffer, "device", None)
        where = f"{name} on {device}" if device else name
        return f"Array({str(self.layout_shape)!r}, {counted(self.nbytes, 'byte')}, {where})"

    def _repr_svg_(self) -> str:
        """What a notebook shows: the picture of the layout."""
        return self.layout_shape.draw().svg

    def __copy__(self: Pair) -> Pair:
        return self  # both are frozen

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The buffer and its shape.  Pickles of NumPy keep few orders and no gaps, so N-d arrays become flat."""
        buffer: Any = self.buffer
        if not is_flat(buffer) and not is_torch(buffer):
            buffer = pack(buffer, self.layout_shape)
        return Array, (buffer, str(self.layout_shape))


@overload
def asarray(array: HostArray, layout: TargetLike | None = None) -> Array[HostArray]: ...
@overload
def asarray(array: ShapedBuffer[Kind] | OwnKind[Kind], layout: TargetLike | None = None) -> Array[Kind]: ...
@overload
def asarray(array: AnyArray | Values, layout: TargetLike | None = None) -> Array[Any]: ...
def asarray(array: Any, layout: TargetLike | None = None, **options: Any) -> Any:
    """Make an `Array` of an N-d array: as it lies in memory, or packed in a layout.

    Parameters
    ----------
    array : array or Array
        N-d array of any library that `pack` takes.  Nested lists and numbers need a whole shape as `layout`.
    layout : Layout, Shape or str, optional
        The layout of the result, such as ``"{1,0:T(8,128)}"``.  By default that of the memory of `array`, which is not
        copied, unless its bytes have to be swapped (``">f4"``).

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
    if options:
        check_keywords(options)
        name, value = next(iter(options.items()))
        raise TypeError(f"{name!r} is not a keyword of this call: write gl.asarray(array).to({name}={value!r})")
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
    array = arrays.known_array(array, "array")
    if isinstance(array, np.ndarray) and not array.dtype.isnative:
        own = Shape(array.dtype.newbyteorder("="), array.shape)
        target = shape_of(array.view(own.dtype)) if layout is None else _target(layout, own)
        return Array(pack(array, target), target)
    if layout is None:
        return Array(array, _shape_as_it_lies(array))
    try:
        lies = _shape_as_it_lies(array)
    except LayoutError:  # no layout has its strides
        lies = None
    own = lies or Shape(arrays.label(array, arrays.open_array(array, "array")[1]), tuple(array.shape))
    target = _target(layout, own)
    return Array(array, target) if target == lies else Array(pack(array, target), target)


def _target(layout: TargetLike, own: Shape) -> Shape:
    """The shape of an array of shape `own` in a layout; TypeError for other elements."""
    target = as_target(layout, own, "layout")
    check_dtype(own, target, "array", f"write gl.asarray(array).to(dtype='{target.element_type}')")
    return target


def _packed(array: Any, layout: TargetLike) -> tuple[Any, str]:
    packed = asarray(array, layout)
    return packed.buffer, str(packed.layout_shape)


def _shape_as_it_lies(array: Any) -> Shape:
    try:
        return shape_of(array)
    except TracedArray:  # without memory, there are sizes, and strides of tensors
        sizes = tuple([int(size) for size in array.shape])
        return Shape(array.dtype, sizes, layout_from_strides(sizes, array.stride()) if is_torch(array) else None)
