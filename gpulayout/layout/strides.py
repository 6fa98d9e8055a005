"""From strides to a layout: the order of the strides is the order of the dimensions, and gaps are padding.

Example: dimensions (2, 3) with strides (1, 3) elements.  Dimension 0 is minor; dimension 1 steps over 3 places where
dimension 0 needs only 2, so dimension 0 is padded to 3.  Nothing lies above the most major dimension to show a gap, so
its width is its size.

Any stride fits a dimension of size 1, because nothing ever steps along it.  But libraries write the stride that the
dimension would have if it were longer, and that tells apart orders with the same bytes.  Sizes (8, 1, 4, 4):

    strides (16, 16, 4, 1)     dimension 1 lies above 2 and 3: descending, {3,2,1,0}
    strides (16,  1, 4, 1)     dimension 1 is the most minor: channels last, {1,3,2,0}

`shape_from_strides` reads them so.  Several orders may have the same strides, as those of sizes (8, 1, 1, 1) and
strides (1, 1, 1, 1).  Then the descending one is preferred, and after it those that the library has names for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import SupportsIndex

from numpy.typing import DTypeLike

from gpulayout.layout import checks
from gpulayout.layout.element_type import ElementType, TorchDType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape


def layout_from_strides(
    dimensions: Iterable[SupportsIndex],
    strides: Iterable[SupportsIndex],
    *,
    itemsize: SupportsIndex = 1,
    padding: bool = True,
) -> Layout:
    """The layout that puts elements where `strides` put them.

    Parameters
    ----------
    dimensions : iterable of int
        Logical sizes in elements.
    strides : iterable of int
        The distance between neighbours along each dimension: in bytes, or in elements if `itemsize` is 1.
    itemsize : int, optional
        Bytes of one element when strides are in bytes; 1 (the default) when they are in elements.
    padding : bool, optional
        True (the default) turns gaps between strides into padded dimensions; False refuses them.

    Returns
    -------
    Layout

    Raises
    ------
    LayoutError
        No layout has these strides: they are negative, zero, not whole elements or overlapping, or a gap is not a
        multiple of the stride below it.

    See Also
    --------
    gpulayout.shape_of : the shape of an array.

    Notes
    -----
    Strides of dimensions of size 1 are ignored; these dimensions are placed beside their neighbours.  An array without
    elements gets the descending layout.

    Examples
    --------
    >>> layout_from_strides((2, 3), (4, 12), itemsize=4)
    Layout((0, 1), padded_dimensions=(3, 3))
    """
    dimensions = checks.sizes("dimensions", dimensions)
    strides = checks.whole_numbers("strides", strides)
    itemsize = checks.whole_number("itemsize", itemsize)
    if itemsize < 1:
        raise LayoutError(f"itemsize {itemsize} is not a number of bytes: it must be at least 1")
    shown = f"strides {checks.shown(strides)} cannot be a layout of dimensions {checks.shown(dimensions)}"
    if len(strides) != len(dimensions):
        raise LayoutError(
            f"{shown}: {checks.counted(len(strides), 'stride')} for {checks.counted(len(dimensions), 'dimension')}"
        )
    if 0 in dimensions:
        return Layout.descending(len(dimensions))
    real = [dim for dim, size in enumerate(dimensions) if size > 1]
    for dim in real:
        if strides[dim] <= 0:
            raise LayoutError(
                f"{shown}: dimension {dim} has the "
                + (f"negative stride {strides[dim]}" if strides[dim] else "stride 0, so its elements share one place")
            )
        if strides[dim] % itemsize:
            raise LayoutError(
                f"{shown}: the stride {strides[dim]} of dimension {dim} is not a multiple of "
                f"the element's {itemsize} bytes"
            )
    real.sort(key=lambda dim: strides[dim])
    widths = _widths(dimensions, [strides[dim] // itemsize for dim in range(len(dimensions))], real, shown)
    if widths != dimensions and not padding:
        dim = next(d for d in real if widths[d] != dimensions[d])
        raise LayoutError(f"{shown} without padding: dimension {dim} would be padded to {widths[dim]}")
    return Layout(with_degenerate(real, dimensions), padded_dimensions=widths if widths != dimensions else None)


def _widths(dimensions: Sequence[int], steps: list[int], real: list[int], shown: str) -> tuple[int, ...]:
    """The width of every dimension; `steps` are strides in elements, `real` the sizes above 1, minor first."""
    widths = list(dimensions)
    if real and steps[real[0]] != 1:
        ones = [dim for dim, size in enumerate(dimensions) if size == 1]
        if not ones:
            raise LayoutError(
                f"{shown}: no dimension steps by one element, dimension {real[0]} is the most minor "
                f"and steps by {steps[real[0]]}"
            )
        real.insert(0, ones[-1])  # a padded dimension of size 1 can lie below all others
        steps[ones[-1]] = 1
    for lower, upper in zip(real, real[1:]):
        below = steps[lower]
        width, rest = divmod(steps[upper], below)
        if rest:
            raise LayoutError(
                f"{shown}: dimension {upper} steps by {steps[upper]} elements, which is not a multiple "
                f"of {below}, the step of dimension {lower} below it"
            )
        if width < dimensions[lower]:
            raise LayoutError(
                f"{shown}: dimensions {lower} and {upper} overlap, {upper} steps by {steps[upper]} elements "
                f"over the {dimensions[lower] * below} of dimension {lower}"
            )
        widths[lower] = width
    return tuple(widths)


def with_degenerate(real: Sequence[int], dimensions: Sequence[int]) -> tuple[int, ...]:
    """All dimensions, minor first: those of size 1 go beside a neighbour, so that a descending order stays one."""
    ascending = len(real) > 1 and list(real) == sorted(real)
    step, before = (1, -1) if ascending else (-1, len(dimensions))
    placed, order = set(real), []
    for dim in (before, *real):  # each is followed by the dimensions of size 1 beside it
        order.append(dim)
        while 0 <= order[-1] + step < len(dimensions) and order[-1] + step not in placed:
            order.append(order[-1] + step)
    return tuple(order[1:])


def shape_from_strides(
    strides: Iterable[SupportsIndex],
    dimensions: Iterable[SupportsIndex],
    element_type: str | DTypeLike | TorchDType,
    *,
    itemsize: int = 1,
    named: Iterable[Layout] = (),
) -> Shape:
    """The shape whose elements lie where `strides` put them; LayoutError when there is none.

    itemsize    bytes of an element when strides are in bytes; 1 when they count elements
    named       layouts without padding that the library has names for, the first one preferred

    >>> [str(shape_from_strides(strides, (8, 1, 4, 4), "f32").layout) for strides in ((16, 16, 4, 1), (16, 1, 4, 1))]
    ['{3,2,1,0}', '{1,3,2,0}']
    """
    sizes, steps = checks.sizes("dimensions", dimensions), checks.whole_numbers("strides", strides)
    if len(sizes) == len(steps):
        by_stride = sorted(range(len(sizes)), key=lambda dim: (steps[dim], sizes[dim] != 1, -dim))
        for layout in (*named, Layout(by_stride)):
            dense = Shape(element_type, sizes, layout)
            if steps == tuple(stride * itemsize for stride in dense.strides):
                return dense
    return Shape(element_type, sizes, layout_from_strides(sizes, steps, itemsize=itemsize))


def byte_strides_is_major_to_minor(
    byte_strides: Iterable[SupportsIndex], dimensions: Iterable[SupportsIndex], element_type: str | DTypeLike
) -> bool:
    """True when elements are contiguous in row-major order: C-contiguous in NumPy's terms.

    Parameters
    ----------
    byte_strides : iterable of int
        Bytes between neighbours along each dimension.
    dimensions : iterable of int
        Logical sizes in elements.
    element_type : str or DTypeLike
        An XLA name, or what `ElementType.of` takes.

    Returns
    -------
    bool
        True also for an array without elements.

    Raises
    ------
    LayoutError
        The number of strides is not the number of dimensions.

    Notes
    -----
    XLA: `ByteStridesIsMajorToMinor`.  It also checks the strides of dimensions of size 1, which are ignored here.

    Examples
    --------
    >>> byte_strides_is_major_to_minor((12, 4), (2, 3), "f32"), byte_strides_is_major_to_minor((99, 4), (1, 3), "f32")
    (True, True)
    """
    dimensions = checks.sizes("dimensions", dimensions)
    strides = checks.whole_numbers("byte_strides", byte_strides)
    if len(strides) != len(dimensions):
        raise LayoutError(
            f"byte_strides {checks.shown(strides)} has {checks.counted(len(strides), 'entry')} for "
            f"{checks.counted(len(dimensions), 'dimension')} {checks.shown(dimensions)}"
        )
    if 0 in dimensions:
        return True
    step = ElementType.of(element_type).itemsize
    for size, stride in zip(reversed(dimensions), reversed(strides)):
        if size != 1 and stride != step:
            return False
        step *= size
    return True
