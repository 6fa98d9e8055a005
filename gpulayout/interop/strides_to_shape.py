"""Strides to shapes, where the strides of dimensions of size 1 say which order was meant.

Any stride fits a dimension of size 1, because nothing ever steps along it.  But libraries write the stride that the
dimension would have if it were longer, and that tells apart orders with the same bytes.  Sizes (8, 1, 4, 4):

    strides (16, 16, 4, 1)     dimension 1 lies above 2 and 3: descending, {3,2,1,0}
    strides (16,  1, 4, 1)     dimension 1 is the most minor: channels last, {1,3,2,0}

Several orders may have the same strides, as those of sizes (8, 1, 1, 1) and strides (1, 1, 1, 1).  Then the descending
one is preferred, and after it those that the library has names for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex

from numpy.typing import DTypeLike

from gpulayout.layout import checks
from gpulayout.layout.element_type import TorchDType
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.strides import layout_from_strides


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
