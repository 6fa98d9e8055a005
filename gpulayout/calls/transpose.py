"""Transposes by pattern, such as "h w c -> c h w", or by numbers of axes, in one move."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from gpulayout.arrays.array_types import AnyArray, ElementTypeLike, HostArray, Kind, Out, OwnKind, Parameter, Scalar
from gpulayout.layout import checks
from gpulayout.layout.errors import LayoutError
from gpulayout.requests.arithmetic import OPTIONS, meant
from gpulayout.running.running import run

NUMBERS = int, np.integer  # no arrays

# The overloads write every keyword: beside `**sizes: int`, mypy reads no `Unpack[ArithmeticOptions]`.
Axes: TypeAlias = str | Iterable[int] | None
Type: TypeAlias = ElementTypeLike | None
Number: TypeAlias = Parameter | None
Flag: TypeAlias = bool | None


@overload
def transpose(
    array: NDArray[Scalar], axes: Axes = None, *, out: None = None, dtype: None = None, scale: Number = None,
    shift: Number = None, mean: Number = None, std: Number = None, unit: Flag = None, zero_point: Number = None,
    divide: Flag = None, block: int | Sequence[int] | None = None, saturate: Flag = None, **sizes: int,
) -> NDArray[Scalar]: ...  # fmt: skip
@overload
def transpose(
    array: HostArray, axes: Axes = None, *, out: None = None, dtype: Type = None, scale: Number = None,
    shift: Number = None, mean: Number = None, std: Number = None, unit: Flag = None, zero_point: Number = None,
    divide: Flag = None, block: int | Sequence[int] | None = None, saturate: Flag = None, **sizes: int,
) -> HostArray: ...  # fmt: skip
@overload
def transpose(
    array: OwnKind[Kind], axes: Axes = None, *, out: None = None, dtype: Type = None, scale: Number = None,
    shift: Number = None, mean: Number = None, std: Number = None, unit: Flag = None, zero_point: Number = None,
    divide: Flag = None, block: int | Sequence[int] | None = None, saturate: Flag = None, **sizes: int,
) -> Kind: ...  # fmt: skip
@overload
def transpose(
    array: AnyArray, axes: Axes = None, *, out: None = None, dtype: Type = None, scale: Number = None,
    shift: Number = None, mean: Number = None, std: Number = None, unit: Flag = None, zero_point: Number = None,
    divide: Flag = None, block: int | Sequence[int] | None = None, saturate: Flag = None, **sizes: int,
) -> Any: ...  # fmt: skip
@overload
def transpose(
    array: AnyArray, axes: Axes = None, *, out: Out, dtype: Type = None, scale: Number = None,
    shift: Number = None, mean: Number = None, std: Number = None, unit: Flag = None, zero_point: Number = None,
    divide: Flag = None, block: int | Sequence[int] | None = None, saturate: Flag = None, **sizes: int,
) -> Out: ...  # fmt: skip
def transpose(  # the overloads name `axes`, which is then one of `sizes`
    array: Any = None,
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
    if array is None:
        raise TypeError(
            "transpose() missing 1 required positional argument: 'array': the array comes first, by position"
        )
    if axes is None and "axes" in sizes:  # by keyword; beside a pattern it is the size of an axis of that name
        axes = sizes.pop("axes")
    options: dict[str, Any] = {} if dtype is None else {"dtype": dtype}
    if not (scale is shift is mean is std is unit is zero_point is divide is block is saturate is None):
        asked = dtype, scale, shift, mean, std, unit, zero_point, divide, block, saturate
        options = {name: value for name, value in zip(OPTIONS, asked) if value is not None}
    reason = name_clash(axes, options) if options else ""
    if reason:
        raise LayoutError(reason)
    if sizes:
        check_axis_names(axes, sizes)
    if isinstance(out, NUMBERS) and isinstance(axes, str):
        raise TypeError(
            f"out is the number {checks.value_text(out)}, not an array: to give the size of an axis called out, write "
            f"it in the pattern, as out={checks.value_text(out)}"
        )
    if type(axes) is list and not sizes:
        axes = tuple(axes)  # which can be part of a key
    return run("transpose", array, None, axes, out, options, sizes)


def name_clash(axes: object, options: Mapping[str, Any]) -> str:
    """The message about an axis of a pattern called like a keyword of arithmetic that is given, or nothing."""
    if isinstance(axes, str):
        for name in options:
            if name in axes and name in re.findall(r"[^\W\d]\w*", axes):
                return (
                    f"axes {checks.value_text(axes)} has an axis called {name}, and {name}= is arithmetic: write the "
                    f"size of the axis in the pattern, as in ({name}=2 n), or call it something else"
                )
    return ""


def check_axis_names(axes: object, sizes: Mapping[str, Any], others: Sequence[str] = ("out",)) -> None:
    """TypeError for the size of an axis that is no axis of the pattern, but nearly a keyword, one of `others` too."""
    pattern = axes if isinstance(axes, str) else ""
    for name in sizes:
        if name not in pattern and (hint := meant(name, others)):
            raise TypeError(f"{checks.value_text(name)} is neither a keyword of this call nor an axis{hint}")
