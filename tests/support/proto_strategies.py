"""Hypothesis strategies: shapes that a dialect of XLA's protos can express."""

from hypothesis import strategies as st

import gpulayout as gl
from tests.support import strategies


def arrays(dialect):
    """An array shape with any property of the dialect."""
    return strategies.any_shapes().map(_today if dialect == "xla" else _first)


def shapes(dialect):
    """A shape of any kind: mostly an array, else a tuple of some, a token, an opaque value or a buffer.

    Arrays inside others are stored densely: XLA's reader of text validates them there, and only there.
    """
    dense = arrays(dialect).map(_dense)
    leaf = dense | dense | dense.map(gl.xla.BufferShape) | st.sampled_from((gl.xla.TokenShape(), gl.xla.OpaqueShape()))
    return (
        arrays(dialect)
        | arrays(dialect)
        | st.recursive(leaf, lambda inner: st.lists(inner, max_size=8).map(gl.xla.TupleShape), max_leaves=6)
    )


def _today(shape):
    """Without padding, without `*` in tiles, and in the bit order of XLA."""
    tiles = [[size for size in tile if size is not gl.COMBINE] for tile in shape.layout.tiles]
    layout = shape.layout.replace(padded_dimensions=None, padding_value=None, tiles=tiles, bit_order="little")
    return shape.with_layout(layout)


def _first(shape):
    """Only sizes, order and padding with a named value."""
    sizes = [3 if size is gl.UNBOUNDED else size for size in shape.dimensions]
    value = shape.layout.padding_value
    layout = gl.Layout(
        shape.layout.minor_to_major,
        padded_dimensions=shape.layout.padded_dimensions or None,
        padding_value=value if isinstance(value, gl.PaddingValue) else None,
    )
    return gl.Shape(shape.element_type, sizes, layout)


def _dense(shape):
    splits = () if gl.UNBOUNDED in shape.dimensions else shape.layout.split_configs
    return shape.with_layout(
        shape.layout.replace(
            index_type=None, pointer_type=None, element_size_in_bits=0, bit_order="little", split_configs=splits
        )
    )
