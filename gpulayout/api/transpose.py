"""Transposes by pattern, such as "h w c -> c h w", or by numbers of axes, in one move."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from gpulayout.api import arrays
from gpulayout.api.arithmetic import OPTIONS, Asked, meant
from gpulayout.api.array_types import AnyArray, ElementTypeLike, HostArray, Kind, Out, OwnKind, Parameter, Scalar
from gpulayout.api.backends import host_backend
from gpulayout.api.convert_transfer import convert_transfer
from gpulayout.api.copies import copy_between
from gpulayout.api.kept import with_values
from gpulayout.api.libraries import library_of
from gpulayout.api.same_kind import Maker, Result, again_of, same_kind
from gpulayout.api.sides import ArraySide, check_no_self_overlap
from gpulayout.api.traced import TracedCall, traced
from gpulayout.api.transfer import SEPARATE, Transfer
from gpulayout.layout import checks
from gpulayout.layout.digits import Digit
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.graph_constants import is_compiling
from gpulayout.layout.layout import Layout
from gpulayout.layout.patterns import read_pattern
from gpulayout.layout.shape import Shape
from gpulayout.moves.backend import Again, Backend, Prepared
from gpulayout.moves.move import MAX_AXES
from gpulayout.moves.placement import Placement, contiguous_strides

CARRIERS = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "c128"}  # bytes of an element -> a type of that width


@overload
def transpose(
    array: NDArray[Scalar],
    axes: str | Iterable[int] | None = None,
    *,
    out: None = None,
    dtype: None = None,
    scale: Parameter | None = None,
    shift: Parameter | None = None,
    mean: Parameter | None = None,
    std: Parameter | None = None,
    unit: bool | None = None,
    zero_point: Parameter | None = None,
    divide: bool | None = None,
    block: int | Sequence[int] | None = None,
    saturate: bool | None = None,
    **sizes: int,
) -> NDArray[Scalar]: ...
@overload
def transpose(
    array: HostArray,
    axes: str | Iterable[int] | None = None,
    *,
    out: None = None,
    dtype: ElementTypeLike | None = None,
    scale: Parameter | None = None,
    shift: Parameter | None = None,
    mean: Parameter | None = None,
    std: Parameter | None = None,
    unit: bool | None = None,
    zero_point: Parameter | None = None,
    divide: bool | None = None,
    block: int | Sequence[int] | None = None,
    saturate: bool | None = None,
    **sizes: int,
) -> HostArray: ...
@overload
def transpose(
    array: OwnKind[Kind],
    axes: str | Iterable[int] | None = None,
    *,
    out: None = None,
    dtype: ElementTypeLike | None = None,
    scale: Parameter | None = None,
    shift: Parameter | None = None,
    mean: Parameter | None = None,
    std: Parameter | None = None,
    unit: bool | None = None,
    zero_point: Parameter | None = None,
    divide: bool | None = None,
    block: int | Sequence[int] | None = None,
    saturate: bool | None = None,
    **sizes: int,
) -> Kind: ...
@overload
def transpose(
    array: AnyArray,
    axes: str | Iterable[int] | None = None,
    *,
    out: None = None,
    dtype: ElementTypeLike | None = None,
    scale: Parameter | None = None,
    shift: Parameter | None = None,
    mean: Parameter | None = None,
    std: Parameter | None = None,
    unit: bool | None = None,
    zero_point: Parameter | None = None,
    divide: bool | None = None,
    block: int | Sequence[int] | None = None,
    saturate: bool | None = None,
    **sizes: int,
) -> Any: ...
@overload
def transpose(
    array: AnyArray,
    axes: str | Iterable[int] | None = None,
    *,
    out: Out,
    dtype: ElementTypeLike | None = None,
    scale: Parameter | None = None,
    shift: Parameter | None = None,
    mean: Parameter | None = None,
    std: Parameter | None = None,
    unit: bool | None = None,
    zero_point: Parameter | None = None,
    divide: bool | None = None,
    block: int | Sequence[int] | None = None,
    saturate: bool | None = None,
    **sizes: int,
) -> Out: ...
def transpose(  # type: ignore[misc]  # the overloads name `axes`, which is then one of `sizes`
    array: AnyArray,
    axes: str | Iterable[int] | None = None,
    /,
    *,
    out: Any = None,
    dtype: ElementTypeLike | None = None,
    scale: Parameter | None = None,
    shift: Parameter | None = None,
    mean: Parameter | None = None,
    std: Parameter | None = None,
    unit: bool | None = None,
    zero_point: Parameter | None = None,
    divide: bool | None = None,
    block: int | Sequence[int] | None = None,
    saturate: bool | None = None,
    **sizes: Any,
) -> Any:
    """Reorder the axes of an array, in one pass; a new result is in C order.

    Parameters
    ----------
    array : array
        Any array the library takes, with any strides and elements of 1, 2, 4, 8 or 16 bytes.
    axes : str or sequence of int, optional
        A pattern such as ``"h w c -> c h w"``, as in einops; or, as in `numpy.transpose`, the old number of every new
        axis.  By default the axes are reversed.
    out : array, optional
        Array to write to, of the shape and dtype of the result, on the same device, with any strides that do not
        overlap: a slice of a larger array, such as ``cache[:, 0]``.
    dtype : ElementType or dtype, optional
        The element type of the result, such as ``"bf16"``.
    scale, shift, mean, std, unit, zero_point, divide, block, saturate : optional
        What becomes of each element on the way, such as ``x * scale + shift``: see `ArithmeticOptions`.
    **sizes : int
        Sizes of the axes that a pattern splits, such as ``h=32``; the pattern can say them too: ``"(h=32 w) -> w h"``.
        One per split axis may be left out.  The pattern has to say the size of an axis named like a keyword.

    Returns
    -------
    array
        A new array of the library of `array`, where it lives; or `out`.

    Raises
    ------
    LayoutError
        For a pattern or an order that does not fit the array.
    TypeError
        For elements of another size, Python objects, an `out` of another dtype, and keywords that do not go together.
    BufferError
        For an `out` of another shape, that is read-only, on another device, overlaps itself or shares memory with
        `array`.  Planes of one array, such as ``cache[:, 0]`` and ``cache[:, 1]``, share none.

    See Also
    --------
    pack : Order, padding and tiles, as a flat buffer.

    Examples
    --------
    >>> import numpy as np
    >>> image = np.arange(12).reshape(2, 2, 3)
    >>> transpose(image, "h w c -> c h w").tolist()
    [[[0, 3], [6, 9]], [[1, 4], [7, 10]], [[2, 5], [8, 11]]]
    >>> transpose(image, (2, 0, 1)).shape, transpose(image, "h w c -> c (h w)").shape
    ((3, 2, 2), (3, 4))
    >>> transpose(np.arange(6), "(h w) -> w h", h=2)
    array([[0, 3],
           [1, 4],
           [2, 5]])

    Pixels become numbers on the way, with a factor and a shift for each channel:

    >>> transpose(image.astype(np.uint8), "h w c -> c h w", dtype="f32", scale=[1, 2, 3], shift=0.5)[:, 0].tolist()
    [[0.5, 3.5], [2.5, 8.5], [6.5, 15.5]]

    Keys go into their plane of a cache, in the cache's order:

    >>> cache = np.zeros((1, 2, 3, 2), int)
    >>> keys = np.arange(6).reshape(1, 2, 3)
    >>> transpose(keys, "b h s -> b s h", out=cache[:, 0]).tolist()
    [[[0, 3], [1, 4], [2, 5]]]
    """
    if axes is None and "axes" in sizes:  # by keyword; beside a pattern it is the size of an axis of that name
        axes = sizes.pop("axes")
    asked: tuple[Any, ...] = ()
    key: tuple[object, ...] | None = None
    if not (dtype is scale is shift is mean is std is unit is zero_point is divide is block is saturate is None):
        asked = dtype, scale, shift, mean, std, unit, zero_point, divide, block, saturate
    is_plain = axes is None or type(axes) is str or (type(axes) is tuple and {*map(type, axes)} == {int})
    if is_plain and not sizes and not is_compiling():
        key = axes, type(array), host_backend(), out is None
        if asked:
            key = with_values(key, asked)
        if key and (recent := latest.get(key)) is not None and (done := recent(array, out)) is not None:
            return done
    options = _options(axes, asked, sizes) if sizes or asked else {}
    if out is not None and isinstance(out, (int, np.integer)) and isinstance(axes, str):
        raise TypeError(
            f"out is the number {checks.value_text(out)}, not an array: to give the size of an axis called out, write "
            f"it in the pattern, as out={checks.value_text(out)}"
        )
    if options and is_compiling():
        again = functools.partial(transpose, array, axes, out=out, **options, **sizes)
        return traced(TracedCall("transpose", None, axes, sizes, options), array, out, again)
    return _checked(key, array, axes, sizes, Asked(options), out)


def _checked(
    key: tuple[object, ...] | None, array: Any, axes: Any, sizes: dict[str, Any], asked: Asked, out: Any
) -> Any:
    """A call with every check, kept under a key."""
    ran: list[Prepared] = []
    work = functools.partial(_transposed, axes, sizes, ran=ran)
    if asked:
        work = functools.partial(_converted, axes, sizes, asked, ran=ran)
    library = library_of(array)
    if library is not None:
        call = "transpose", None, axes, sizes, asked.options if asked else {}
        result = same_kind(library, array, "array", out, work, call)
    else:
        backend, source = arrays.open_array(array, "array")
        result = work(backend, source, out, backend)
    if key and ran and (known := again_of(library, ran[0], array, result, is_new=out is None)):
        if len(latest) >= MOST_LATEST:
            latest.clear()
        latest[key] = known
    return result


# By what a call says beside its arrays, and their kinds: runs the latest call again without its checks, for arrays that
# say what its arrays said.  Three quarters of the time of a small call go into checks.
latest: dict[tuple[object, ...], Again] = {}
MOST_LATEST = 256


def _converted(
    axes: str | Iterable[int] | None,
    sizes: dict[str, Any],
    asked: Asked,
    backend: Backend,
    array: Any,
    out: Any,
    maker: Maker,
    ran: list[Prepared],
) -> Any:
    """`_transposed` with arithmetic."""
    label = maker.given_dtype if isinstance(maker, Result) else array.dtype
    way = axes if isinstance(axes, str) else axis_numbers(axes, sizes, array)
    find = _placed if not sizes or {*map(type, sizes.values())} == {int} else _placed.__wrapped__
    written = None if out is None else arrays.open_array(out, "out", writing=True)[1]
    key = way, label, asked.dtype, tuple(array.shape), tuple(array.strides), tuple(sizes.items())
    found = find(*key, None if written is None else written.strides)
    asked.check_type(found.source.shape.element_type)
    change = asked.change(found.source.shape, found.target.shape.element_type)
    if change is None:
        return _transposed(axes, sizes, backend, array, out, maker, ran)
    if written is not None:
        arrays.check_shape(written, found.target.dimensions, "out")
        found.target.check(written, "out")
    transfer = convert_transfer(found.source, found.target, found.written, change)
    done = transfer.run(backend, array, out, maker if isinstance(maker, Result) else None)
    ran.append(transfer.prepared_by(backend))
    return done


def _options(axes: object, options: Sequence[Any], sizes: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of arithmetic that are given, by name; `options` are in the order of OPTIONS.

    LayoutError if an axis of its pattern has the name of a keyword that is given; TypeError for a misspelt keyword.
    """
    given = {name: value for name, value in zip(OPTIONS, options) if value is not None}
    check_axis_names(axes, sizes)
    pattern = axes if isinstance(axes, str) else ""
    if given and any(name in pattern for name in given):
        for name in given.keys() & re.findall(r"[^\W\d]\w*", pattern):
            raise LayoutError(
                f"axes {checks.value_text(axes)} has an axis called {name}, and {name}= is arithmetic: write the size "
                f"of the axis in the pattern, as in ({name}=2 n), or call it something else"
            )
    return given


def check_axis_names(axes: object, sizes: Mapping[str, Any]) -> None:
    """TypeError for the size of an axis that is no axis of the pattern, but nearly a keyword of arithmetic."""
    pattern = axes if isinstance(axes, str) else ""
    for name in sizes:
        if name not in pattern and (hint := meant(name)):
            raise TypeError(f"{checks.value_text(name)} is neither a keyword of this call nor an axis{hint}")


class _Placed(NamedTuple):
    """What a call with arithmetic knows about its arrays: everything but the memory.

    written   where the results are, by the coordinates of the array
    """

    source: ArraySide
    target: ArraySide
    written: Placement


@functools.lru_cache(maxsize=1024)
def _placed(
    axes: str | tuple[int, ...],
    dtype: np.dtype[Any],
    asked: ElementType | None,
    dimensions: tuple[int, ...],
    strides: tuple[int, ...],
    sizes: tuple[tuple[str, int], ...],
    out_strides: tuple[int, ...] | None,
) -> _Placed:
    """What is known from the types, and from the shape and strides of the arrays; without `out`, in C order."""
    source = Shape(dtype, dimensions)
    way = _way(axes, dict(sizes), dimensions)
    target = Shape(asked or source.element_type, tuple(math.prod(extent for extent, _ in group) for group in way))
    steps = contiguous_strides(target) if out_strides is None else out_strides
    digits = []
    for group, stride in zip(way, steps):
        for extent, place in reversed(group):
            if extent != 1:  # else another digit of the dimension may have the same step
                digits.append(Digit(*place, extent, stride))
            stride *= extent
    written = Placement(Shape(target.element_type, dimensions), tuple(digits), target.dimensions)
    return _Placed(ArraySide(source, strides), ArraySide(target, steps), written)


# For each axis of the result, what it is made of, major first: (extent, (dimension of the array, step)).
_Way = Sequence[Sequence[tuple[int, tuple[int, int]]]]


def _way(axes: str | tuple[int, ...], sizes: dict[str, Any], dimensions: tuple[int, ...]) -> _Way:
    """What the axes of the result are made of."""
    if not isinstance(axes, str):
        numbers = checks.permutation("axes", axes, len(dimensions), _context(dimensions), from_end=True)
        return [[(dimensions[dim], (dim, 1))] for dim in numbers]
    found = read_pattern(axes, len(dimensions))
    if max(len(found.order), len(found.after)) > MAX_AXES:
        raise LayoutError(f"{found.shown} has {max(len(found.order), len(found.after))} axes: {MAX_AXES} is the limit")
    named, places = found.axis_sizes(dimensions, sizes), {}
    for dim, group in enumerate(found.before):
        step = 1
        for name in reversed(group):
            places[name] = dim, step
            step *= named[name]
    return [[(named[name], places[name]) for name in group] for group in found.after]


class _Rearranged(NamedTuple):
    """What a call knows about its array: everything but the memory.

    shape      of the result
    whole      the logical array in the order of the result, with elements as wide as the array's: a transpose moves
               bytes, whatever they mean
    strides    its byte strides in the array
    transfer   the copy into a contiguous result; None without elements
    """

    shape: tuple[int, ...]
    whole: Shape
    strides: tuple[int, ...]
    transfer: Transfer | None


def _transposed(
    axes: str | Iterable[int] | None,
    sizes: dict[str, Any],
    backend: Backend,
    source: Any,
    out: Any,
    maker: Maker,
    ran: list[Prepared],
) -> Any:
    """The transpose of an array that `open_array` returned; `maker` makes new memory; `ran` gets what moved it."""
    if not isinstance(axes, str):
        axes = axis_numbers(axes, sizes, source)
    # Sizes such as True or 2.0, which equal ints, must not reach the cache.
    find = rearranged if not sizes or {*map(type, sizes.values())} == {int} else rearranged.__wrapped__
    found = find(axes, source.dtype, source.shape, source.strides, tuple(sizes.items()))
    transfer = found.transfer
    if out is None:
        result = out = maker.empty(found.shape, source.dtype, source)
    else:
        result = _opened_out(backend, source, found.shape, out)
        if transfer is not None and not result.flags.c_contiguous:
            transfer = copy_between(found.whole, found.strides, result.shape, result.strides)
        arrays.will_be_written(out)
    if transfer is not None:
        prepared = transfer.prepared_by(backend)
        prepared.execute(source, result)
        ran.append(prepared)
    return out


def axis_numbers(axes: Any, sizes: Mapping[str, Any], source: Any) -> tuple[int, ...]:
    """Numbers of axes as a tuple of ints, which may be the key of a cache: True and 1.0 equal the int 1."""
    if sizes:
        raise TypeError(
            f"sizes {', '.join(sizes)} belong to a pattern such as 'h w c -> c h w', but axes is "
            f"{checks.value_text(axes)}"
        )
    if axes is None:
        return tuple(range(source.ndim - 1, -1, -1))
    if isinstance(axes, (Layout, Shape)):
        raise TypeError(f"axes is {checks.type_text(axes)}: gl.pack takes layouts and shapes")
    return checks.whole_numbers("axes", axes, _context(source.shape))


def _context(shape: tuple[int, ...]) -> checks.Later:
    """What error messages say about the array."""
    return checks.Later(lambda: f" for an array of shape {tuple(shape)}")


def _opened_out(backend: Backend, source: Any, shape: tuple[int, ...], out: Any) -> Any:
    """`out` as an array of its backend, with every check."""
    out_backend, result = arrays.open_array(out, "out", writing=True)
    arrays.check_shape(result, shape, "out")
    if result.dtype != source.dtype:
        raise TypeError(
            f"out has dtype {result.dtype}, but array has {source.dtype}: dtype=out.dtype converts the elements on the "
            "way"
        )
    check_no_self_overlap(result, "out")
    if backend is not out_backend or type(source) is not np.ndarray:
        arrays.check_same_device(backend, source, out_backend, result, ("array", "out"))
    arrays.check_no_overlap(backend, source, result, ("array", "out"), rule=SEPARATE)
    return result


@functools.lru_cache(maxsize=1024)  # a repeated call reads no pattern and plans nothing; an entry takes up to 6 KB
def rearranged(
    axes: str | tuple[int, ...],
    dtype: np.dtype[Any],
    dimensions: tuple[int, ...],
    strides: tuple[int, ...],
    sizes: tuple[tuple[str, int], ...],
) -> _Rearranged:
    """What is known of a transpose from its array's type, shape and strides."""
    if isinstance(axes, str):
        order, stepped, shape = _by_pattern(axes, tuple(dimensions), tuple(strides), dict(sizes))
    else:
        numbers = checks.permutation("axes", axes, len(dimensions), _context(dimensions), from_end=True)
        order, stepped = tuple(dimensions[dim] for dim in numbers), tuple(strides[dim] for dim in numbers)
        shape = order
    if dtype.itemsize not in CARRIERS or dtype.hasobject:
        raise TypeError(
            f"array has dtype {dtype}, of {dtype.itemsize} bytes: elements of 1, 2, 4, 8 or 16 bytes other than "
            "Python objects can be moved"
        )
    whole = Shape(CARRIERS[dtype.itemsize], order)
    if 0 in shape:
        return _Rearranged(shape, whole, stepped, None)
    contiguous = Shape(whole.element_type, shape).byte_strides
    return _Rearranged(shape, whole, stepped, copy_between(whole, stepped, shape, contiguous))


def _by_pattern(
    pattern: str, dimensions: tuple[int, ...], strides: tuple[int, ...], sizes: dict[str, int]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(sizes, byte strides) of the axes by name, in the order of the result, and the shape of the result."""
    found = read_pattern(pattern, len(dimensions))
    if max(len(found.order), len(found.after)) > MAX_AXES:
        raise LayoutError(f"{found.shown} has {max(len(found.order), len(found.after))} axes: {MAX_AXES} is the limit")
    named = found.axis_sizes(dimensions, sizes)
    stepped = found.axis_strides(named, strides)
    return (
        tuple(named[name] for name in found.order),
        tuple(stepped[name] for name in found.order),
        tuple(math.prod(named[name] for name in group) for group in found.after),
    )
