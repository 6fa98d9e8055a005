"""Hypothesis strategies: layouts, shapes and strided arrays."""

import math

import numpy as np
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout import ElementType, LayoutError, PaddingValue

WHOLE_TYPES = ("u8", "s16", "f32", "s64", "c128")  # one for every element size
PAD_NAMES = [name for name in PaddingValue if name is not PaddingValue.INVALID]
ANY_PAD_NAME = st.sampled_from(PAD_NAMES)


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
    """Sizes of up to `max_rank` dimensions with few enough elements; sometimes one is 0."""
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
    """A logical array of `shape` with the given payload and any strides: transposed, sliced, reversed; the gaps hold
    ones.
    """
    rank = shape.rank
    order = draw(st.permutations(range(rank)))
    steps = [draw(st.sampled_from((1, 1, 1, 2, 3, -1, -2))) for _ in range(rank)]
    big = np.ones([max(shape.dimensions[d] * abs(steps[d]), 1) for d in order], shape.dtype)
    view = big.transpose(np.argsort(order)) if rank else big
    view = view[(..., *(slice(None, None, step) for step in steps))]  # the ellipsis keeps rank 0 an array
    view = view[(..., *(slice(0, size) for size in shape.dimensions))]
    view[...] = payload.reshape(shape.dimensions)
    assert view.shape == shape.dimensions and math.prod(view.shape) == shape.element_count
    return view


# ---- everything that a shape can be ----------------------------------------------------------------


def scalars(element_type):
    """Numbers that an element type can hold."""
    if element_type.kind == "bool":
        return st.booleans()
    if element_type.kind in ("signed", "unsigned"):
        bits = element_type.bits
        return (
            st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            if element_type.kind == "signed"
            else st.integers(0, 2**bits - 1)
        )
    special = st.sampled_from((0.0, -0.0, 1.0, math.nan, math.inf, -math.inf, 3.4028234663852886e38, 2.0**-149, 0.1))
    if element_type.kind == "complex":
        return st.builds(complex, special | st.floats(), special | st.floats())
    return special | st.floats(width=64) | st.floats(-8, 8)


def tiles(max_count=3, max_length=4, max_size=9):
    """Some tiles, or none: of any length, with "*" anywhere but at the end."""
    entry = st.integers(1, max_size)
    tile = st.tuples(st.lists(entry | entry | st.just("*"), max_size=max_length - 1), entry).map(
        lambda parts: (*parts[0], parts[1])
    )
    return st.lists(tile, max_size=max_count).map(tuple)


@st.composite
def split_configs(draw, sizes):
    """Cuts of some dimensions that are large enough; `sizes` are physical, most major first, None where there is no
    size.
    """
    found = []
    for dim, size in enumerate(sizes):
        if (size is None or size > 1) and draw(st.integers(0, 9)) == 7:
            points = draw(st.sets(st.integers(1, (size or 100) - 1), min_size=1, max_size=3))
            found.append((dim, tuple(sorted(points))))
    return tuple(draw(st.permutations(found)))


@st.composite
def any_layouts(draw, dimensions, pad_values=ANY_PAD_NAME, element_bits=(0, 0, 4, 8, 33)):
    """A layout with any of its fields set; `dimensions` may hold `UNBOUNDED`."""
    order = draw(st.permutations(range(len(dimensions))))
    bounded = gl.UNBOUNDED not in dimensions
    widths = draw(st.none() | st.tuples(*(st.integers(size, size + 9) for size in dimensions))) if bounded else None
    sizes = [None if dimensions[dim] is gl.UNBOUNDED else dimensions[dim] for dim in reversed(order)]
    seldom = st.sampled_from((None, None, None, "u8", "u64"))
    bits = draw(st.sampled_from(element_bits))
    return gl.Layout(
        order,
        padded_dimensions=widths,
        padding_value=draw(st.none() | pad_values),
        tiles=draw(tiles()),
        tail_padding_alignment=draw(st.sampled_from((1, 1, 1, 2, 1000))),
        memory_space=draw(st.sampled_from((0, 0, 1, 127))),
        element_size_in_bits=bits,
        bit_order=draw(st.sampled_from(("little", "big"))) if bits in (1, 2, 4) else "little",
        split_configs=draw(split_configs(sizes)),
        dynamic_shape_metadata_prefix_bytes=draw(st.sampled_from((0, 0, 8))),
        index_type=draw(seldom),
        pointer_type=draw(seldom),
    )


@st.composite
def any_shapes(draw):
    """The shape of an array with everything that its text can express: every type, dynamic sizes, every field of the
    layout.
    """
    element_type = draw(st.sampled_from(list(ElementType)))
    sizes = tuple(draw(st.lists(st.integers(0, 2**8) | st.sampled_from((0, 1, 2, gl.UNBOUNDED)), max_size=6)))
    dynamic = [size is gl.UNBOUNDED or draw(st.integers(0, 9)) == 7 for size in sizes]
    layout = draw(any_layouts(sizes, st.sampled_from(PAD_NAMES) | scalars(element_type)))
    try:
        return gl.Shape(element_type, sizes, layout, dynamic_dimensions=dynamic)
    except LayoutError:  # a pad value past the type's range, or LOWEST of a complex type
        return gl.Shape(element_type, sizes, layout.replace(padding_value=None), dynamic_dimensions=dynamic)


def all_shapes():
    """Every kind of shape: arrays, tuples, tokens, opaque values and buffers."""
    leaf = (
        any_shapes()
        | any_shapes().map(gl.xla.BufferShape)
        | st.sampled_from((gl.xla.TokenShape(), gl.xla.OpaqueShape()))
    )
    return any_shapes() | st.recursive(
        leaf, lambda inner: st.lists(inner, max_size=8).map(gl.xla.TupleShape), max_leaves=9
    )


@st.composite
def tiled_layouts(draw, dimensions, *, tails=(1, 1, 7), padding_value=PaddingValue.ONE):
    """A layout of these dimensions with only the fields that place bytes: order, padding, tiles and tail."""
    layout = draw(layouts(dimensions, padding_value=padding_value))
    return layout.replace(tiles=draw(tiles()), tail_padding_alignment=draw(st.sampled_from(tails)))
