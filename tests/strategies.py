"""Hypothesis strategies: layouts, shapes and strided arrays."""
import math

import numpy as np
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout import PaddingValue

WHOLE_TYPES = ("u8", "s16", "f32", "s64", "c128")       # one for every element size


@st.composite
def layouts(draw, dimensions, *, padding=True, padding_value=PaddingValue.ONE):
    """A layout of these dimensions; each one may be padded."""
    order = draw(st.permutations(range(len(dimensions))))
    widths = None
    if padding and draw(st.booleans()):
        widths = [size + draw(st.sampled_from((0, 0, 0, 1, 2, 5))) for size in dimensions]
    return gl.Layout(tuple(order), padded_dimensions=widths, padding_value=padding_value)


@st.composite
def dimensions(draw, max_rank=8, max_elements=4000, sizes=(1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 16, 31, 33, 64, 65)):
    """Sizes of up to `max_rank` dimensions with few enough elements; now and then one is 0."""
    found, room = [], max_elements
    for _ in range(draw(st.integers(0, max_rank))):
        size = draw(st.sampled_from([s for s in sizes if s <= room]))
        found.append(size)
        room //= size
    if found and draw(st.integers(0, 19)) == 7:
        found[draw(st.integers(0, len(found) - 1))] = 0
    return tuple(found)


@st.composite
def pairs(draw, **limits):
    """(source, target): two shapes of the same logical array."""
    sizes = draw(dimensions(**limits))
    element_type = draw(st.sampled_from(WHOLE_TYPES))
    return tuple(gl.Shape(element_type, sizes, draw(layouts(sizes))) for _ in range(2))


@st.composite
def strided_arrays(draw, shape, payload):
    """A logical array of `shape` with the given payload and any strides: transposed, sliced, reversed."""
    rank = shape.rank
    order = draw(st.permutations(range(rank)))
    steps = [draw(st.sampled_from((1, 1, 1, 2, 3, -1, -2))) for _ in range(rank)]
    big = np.zeros([max(shape.dimensions[d] * abs(steps[d]), 1) for d in order], shape.dtype)
    view = big.transpose(np.argsort(order)) if rank else big
    view = view[(..., *(slice(None, None, step) for step in steps))]             # the ellipsis keeps rank 0 an array
    view = view[(..., *(slice(0, size) for size in shape.dimensions))]
    view[...] = payload.reshape(shape.dimensions)
    assert view.shape == shape.dimensions and math.prod(view.shape) == shape.element_count
    return view
