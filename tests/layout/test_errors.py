"""Errors of layouts and shapes, each with its full message: field, value, rule, whole shape, first offender."""

import numpy as np
import pytest

import gpulayout as gl
from gpulayout import Layout, LayoutError, LayoutTypeError, PaddingValue, Shape
from gpulayout.layout import checks

SHAPE = Shape("f32", (2, 3))
ERRORS = {
    # the order
    "too few dimensions": (
        lambda: Shape("f32", (2, 3), Layout((0,))),
        LayoutError,
        "minor_to_major (0,) has 1 entry for f32[2,3]: the shape has 2 dimensions",
    ),
    "too many dimensions": (
        lambda: Shape("f32", (2, 3), Layout((0, 1, 2))),
        LayoutError,
        "minor_to_major (0, 1, 2) has 3 entries for f32[2,3]: the shape has 2 dimensions",
    ),
    "no dimensions": (
        lambda: Shape("f32", (2, 3), Layout(())),
        LayoutError,
        "minor_to_major () has 0 entries for f32[2,3]: the shape has 2 dimensions",
    ),
    "a dimension twice": (
        lambda: Layout((0, 0)),
        LayoutError,
        "minor_to_major (0, 0) is not an ordering of dimensions 0..1: dimension 0 appears twice",
    ),
    "a dimension too high": (
        lambda: Layout((0, 2)),
        LayoutError,
        "minor_to_major (0, 2) is not an ordering of dimensions 0..1: dimension 2 does not exist",
    ),
    "the only dimension too high": (
        lambda: Layout((1,)),
        LayoutError,
        "minor_to_major (1,) is not an ordering of dimension 0: dimension 1 does not exist",
    ),
    "a negative dimension": (
        lambda: Layout((0, -1)),
        LayoutError,
        "minor_to_major (0, -1) is not an ordering of dimensions 0..1: dimension -1 does not exist, "
        "negative numbers do not count from the end here",
    ),
    "a dimension twice in a long order": (
        lambda: Layout((*range(40), 7)),
        LayoutError,
        "minor_to_major (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, ...) is not an ordering of "
        "dimensions 0..40: "
        "dimension 7 appears twice",
    ),
    "a huge dimension": (
        lambda: Layout((0, 10**5000)),
        LayoutError,
        "minor_to_major (0, 2^16609...) is not an ordering of dimensions 0..1: dimension 2^16609... does not exist",
    ),
    "major to minor": (
        lambda: Layout.from_major_to_minor((1, 1)),
        LayoutError,
        "major_to_minor (1, 1) is not an ordering of dimensions 0..1: dimension 1 appears twice",
    ),
    "a set": (
        lambda: Layout({0, 1}),
        LayoutTypeError,
        "minor_to_major {0, 1} is not a sequence of integers: a set has no order",
    ),
    "a dictionary": (
        lambda: Layout({0: 1}),
        LayoutTypeError,
        "minor_to_major {0: 1} is not a sequence of integers: it is a dict",
    ),
    "text": (lambda: Layout("10"), LayoutTypeError, "minor_to_major '10' is not a sequence of integers: it is a str"),
    "a number": (lambda: Layout(3), LayoutTypeError, "minor_to_major 3 is not a sequence of integers: it is an int"),
    "an array without axes": (
        lambda: Layout(np.array(3)),
        LayoutTypeError,
        "minor_to_major array(3) is not a sequence of integers: it is an ndarray",
    ),
    "a float": (
        lambda: Layout((0, 1.0)),
        LayoutTypeError,
        "minor_to_major (0, 1.0) is not all integers: entry 1 is 1.0, a float",
    ),
    "a bool": (
        lambda: Layout((False, True)),
        LayoutTypeError,
        "minor_to_major (False, True) is not all integers: entry 0 is False, a bool",
    ),
    "None": (
        lambda: Layout((0, None)),
        LayoutTypeError,
        "minor_to_major (0, None) is not all integers: entry 1 is None, a NoneType",
    ),
    "a tuple in a tuple": (
        lambda: Layout(((0, 1),)),
        LayoutTypeError,
        "minor_to_major ((0, 1),) is not all integers: entry 0 is (0, 1), a tuple",
    ),
    "a negative rank": (lambda: Layout.descending(-1), LayoutError, "rank -1 is negative"),
    "a rank that is a float": (
        lambda: Layout.ascending(2.0),
        LayoutTypeError,
        "rank 2.0 is not an integer: it is a float",
    ),
    # sizes
    "a negative size": (
        lambda: Shape("f32", (2, -3)),
        LayoutError,
        "dimensions (2, -3) has a negative size: dimension 1 is -3",
    ),
    "a size that is a float": (
        lambda: Shape("f32", (2, 3.0)),
        LayoutTypeError,
        "dimensions (2, 3.0) is not all integers: entry 1 is 3.0, a float",
    ),
    "a size that is a bool": (
        lambda: Shape("f32", (True, 3)),
        LayoutTypeError,
        "dimensions (True, 3) is not all integers: entry 0 is True, a bool",
    ),
    "a size that is NumPy's bool": (
        lambda: Shape("f32", (np.True_, 3)),
        LayoutTypeError,
        "dimensions (np.True_, 3) is not all integers: entry 0 is np.True_, a bool",
    ),
    "sizes that are a number": (
        lambda: Shape("f32", 6),
        LayoutTypeError,
        "dimensions of a Shape must be one sequence, not 1 number: write (6,)",
    ),
    "sizes by name that are a number": (
        lambda: Shape("f32", dimensions=6),
        LayoutTypeError,
        "dimensions 6 is not a sequence of integers: it is an int",
    ),
    "a size past 63 bits": (
        lambda: Shape("f32", (2, 2**63)),
        LayoutError,
        "dimensions (2, 9223372036854775808) has a size past 2^63-1: dimension 1 is 9223372036854775808",
    ),
    "a size of thousands of digits": (
        lambda: Shape("f32", (10**5000,)),
        LayoutError,
        "dimensions (2^16609...,) has a size past 2^63-1: dimension 0 is 2^16609...",
    ),
    "a product past 63 bits": (
        lambda: Shape("f32", (2**32, 2**32)),
        LayoutError,
        "dimensions (4294967296, 4294967296) is too large for f32[4294967296,4294967296]{1,0}: "
        "73786976294838206464 bytes, the limit is 2^63-1",
    ),
    "one byte too many": (
        lambda: Shape("bf16", (2**62,)),
        LayoutError,
        "dimensions (4611686018427387904,) is too large for bf16[4611686018427387904]{0}: "
        "9223372036854775808 bytes, the limit is 2^63-1",
    ),
    "a product past 63 bits with a zero": (
        lambda: Shape("u8", (2**40, 0, 2**40)),
        LayoutError,
        "dimensions (1099511627776, 0, 1099511627776) is too large for u8[1099511627776,0,1099511627776]{2,1,0}: "
        "1208925819614629174706176 bytes, zeros counted as 1, the limit is 2^63-1",
    ),
    "padding past 63 bits": (
        lambda: Shape("f32", (2, 3), Layout((0, 1), padded_dimensions=(2**32, 2**32))),
        LayoutError,
        "padded_dimensions (4294967296, 4294967296) is too large for f32[2,3]{0,1:PD(4294967296,4294967296)}: "
        "73786976294838206464 bytes, the limit is 2^63-1",
    ),
    # padding
    "padded below the size": (
        lambda: Shape("f32", (2, 3), Layout((0, 1), padded_dimensions=(3, 2))),
        LayoutError,
        "padded_dimensions (3, 2) is smaller than dimensions (2, 3) for f32[2,3]{0,1:PD(3,2)}: dimension 1 "
        "needs at least 3",
    ),
    "padded below both sizes": (
        lambda: Shape("f32", (2, 3), Layout((0, 1), padded_dimensions=(1, 1))),
        LayoutError,
        "padded_dimensions (1, 1) is smaller than dimensions (2, 3) for f32[2,3]{0,1:PD(1,1)}: dimension 0 "
        "needs at least 2",
    ),
    "too few widths": (
        lambda: Layout((0, 1), padded_dimensions=(3,)),
        LayoutError,
        "padded_dimensions (3,) has 1 entry: minor_to_major (0, 1) orders 2 dimensions",
    ),
    "too many widths": (
        lambda: Layout((0,), padded_dimensions=(3, 4)),
        LayoutError,
        "padded_dimensions (3, 4) has 2 entries: minor_to_major (0,) orders 1 dimension",
    ),
    "a negative width": (
        lambda: Layout((0, 1), padded_dimensions=(3, -1)),
        LayoutError,
        "padded_dimensions (3, -1) has a negative size: dimension 1 is -1",
    ),
    "a width that is a float": (
        lambda: Layout((0, 1), padded_dimensions=(3, 4.5)),
        LayoutTypeError,
        "padded_dimensions (3, 4.5) is not all integers: entry 1 is 4.5, a float",
    ),
    "a width for all": (
        lambda: Layout((0, 1), padded_dimensions=4),
        LayoutTypeError,
        "padded_dimensions 4 is not a sequence of integers: it is an int",
    ),
    "INVALID by hand": (
        lambda: Layout((0, 1), padded_dimensions=(3, 5), padding_value=PaddingValue.INVALID),
        LayoutError,
        "padding_value INVALID cannot fill padded_dimensions (3, 5): use None for zeros, or a named value",
    ),
    "a pad value the type cannot hold": (
        lambda: Shape("u8", (2,), Layout((0,), padding_value=300)),
        LayoutError,
        "padding_value 300 cannot be held by u8 for u8[2]{0:PV(300)}: the range is 0..255",
    ),
    "a pad value after a change of type": (
        lambda: gl.parse_shape("f32[2]{0:PD(3)PV(-0.5)}").with_element_type("u8"),
        LayoutError,
        "padding_value -0.5 cannot be held by u8 for u8[2]{0:PD(3)PV(-0.5)}: it is not a whole number",
    ),
    # other fields
    "a layout as a tuple": (
        lambda: Shape("f32", (2, 3), (0, 1)),
        LayoutTypeError,
        "layout (0, 1) is not a Layout for f32[2,3]: it is a tuple, write gl.Layout((0, 1))",
    ),
    "a layout as a number": (
        lambda: SHAPE.with_layout(1),
        LayoutTypeError,
        "layout 1 is not a Layout for f32[2,3]: it is an int",
    ),
    "text that is not a layout": (
        lambda: SHAPE.with_layout("(0,1)"),
        gl.ShapeTextError,
        "'(0,1)' is not a layout: write '{0,1}'",
    ),
    "a layout of another rank as text": (
        lambda: SHAPE.with_layout("{0}"),
        LayoutError,
        "minor_to_major (0,) has 1 entry for f32[2,3]: the shape has 2 dimensions",
    ),
    # slips
    "sizes of a tile as separate arguments": (
        lambda: gl.Tile("*", 128),
        LayoutTypeError,
        "dimensions of a Tile must be one sequence, not 2 arguments: write gl.Tile(('*', 128))",
    ),
    "shapes of a tuple as separate arguments": (
        lambda: gl.xla.TupleShape(Shape("f32", ()), gl.xla.TokenShape()),
        LayoutTypeError,
        "shapes of a TupleShape must be one sequence, not 2 arguments: write gl.xla.TupleShape((Shape('f32', (), "
        "Layout(())), TokenShape()))",
    ),
    "an order as separate arguments": (
        lambda: Layout(0, 1),
        LayoutTypeError,
        "minor_to_major of a Layout must be one sequence, not 2 arguments: write gl.Layout((0, 1))",
    ),
    "fields without names": (
        lambda: Layout((0, 1), (3, 5)),
        LayoutTypeError,
        "a Layout takes only minor_to_major without a name, not 2 arguments: write the name of the field before "
        "(3, 5), "
        "such as padded_dimensions= or tiles=",
    ),
    "the text of a layout": (
        lambda: Layout("{0,1}"),
        LayoutTypeError,
        "minor_to_major '{0,1}' is the text of a layout: write gl.parse_layout('{0,1}')",
    ),
    "sizes as separate arguments": (
        lambda: Shape("f32", np.int64(2), 3),
        LayoutTypeError,
        "dimensions of a Shape must be one sequence, not 2 numbers: write (2, 3)",
    ),
    "sizes as separate arguments, then a layout": (
        lambda: Shape("f32", 2, 3, 4, Layout((0, 1, 2))),
        LayoutTypeError,
        "dimensions of a Shape must be one sequence, not 3 numbers: write (2, 3, 4)",
    ),
    "the text of a shape": (
        lambda: Shape("f32[2,3]{0,1}"),
        LayoutTypeError,
        "element_type 'f32[2,3]{0,1}' is the text of a shape: write gl.parse_shape('f32[2,3]{0,1}')",
    ),
    "a tile for tiles": (
        lambda: Layout((0, 1), tiles=gl.Tile((8, 128))),
        LayoutTypeError,
        "tiles Tile((8, 128)) is not a sequence of tiles: write [(8,128)]",
    ),
    "a tile without sizes": (
        lambda: Layout((0, 1), tiles=((),)),
        LayoutError,
        "tile () has no sizes: it needs at least one",
    ),
    "a tile of size 0": (
        lambda: Layout((0, 1), tiles=((8, 0),)),
        LayoutError,
        "tile (8, 0) has a size of 0: entry 1 must be at least 1",
    ),
    "a tile of a negative size": (
        lambda: Layout((0, 1), tiles=((2, -2),)),
        LayoutError,
        "tile (2, -2) has a negative size: dimension 1 is -2",
    ),
    "a tile that combines with nothing": (
        lambda: Layout((0, 1), tiles=((8, "*"),)),
        LayoutError,
        "tile (8, COMBINE) ends with '*': there is no more minor dimension to combine with",
    ),
    "a single tile": (
        lambda: Layout((0, 1), tiles=(8, 128)),
        LayoutTypeError,
        "tiles (8, 128) is a sequence of sizes, not of tiles: for one tile, write [(8, 128)]",
    ),
    "a size among tiles": (
        lambda: Layout((0, 1), tiles=((8, 128), 2)),
        LayoutTypeError,
        "tile 2 is not a sequence of sizes: it is an int, write (2,)",
    ),
    "a tail padding alignment of 0": (
        lambda: Layout((0, 1), tail_padding_alignment=0),
        LayoutError,
        "tail_padding_alignment 0 is not in 1..2^63-1",
    ),
    "a negative element size": (
        lambda: Layout((0, 1), element_size_in_bits=-4),
        LayoutError,
        "element_size_in_bits -4 is not in 0..2^63-1",
    ),
    "a bit order without packed elements": (
        lambda: Layout((0, 1), bit_order="big"),
        LayoutError,
        "bit_order 'big' orders packed elements within a byte, but element_size_in_bits is 0: write "
        "element_size_in_bits=1, 2 or 4, or bit_order='little'",
    ),
    "a bit order of whole bytes": (
        lambda: Layout((0, 1), element_size_in_bits=2, bit_order="big").replace(element_size_in_bits=8),
        LayoutError,
        "bit_order 'big' orders packed elements within a byte, but element_size_in_bits is 8: write "
        "element_size_in_bits=1, 2 or 4, or bit_order='little'",
    ),
    "another bit order": (
        lambda: Layout((0, 1), element_size_in_bits=1, bit_order="msb"),
        LayoutError,
        "bit_order 'msb' is neither 'little' nor 'big': write bit_order='big'",
    ),
    "a bit order that means neither": (
        lambda: Layout((0, 1), element_size_in_bits=1, bit_order="middle"),
        LayoutError,
        "bit_order 'middle' is neither 'little' nor 'big'",
    ),
    "NumPy's keyword for the bit order": (
        lambda: Layout((0, 1), element_size_in_bits=1, bitorder="big"),
        LayoutTypeError,
        "a Layout has no field bitorder: write bit_order='big'",
    ),
    "a bit order that is no word": (
        lambda: Layout((0, 1), element_size_in_bits=1, bit_order=True),
        LayoutTypeError,
        "bit_order True is a bool: write 'little' or 'big'",
    ),
    "a memory space past a signed byte": (
        lambda: Layout((0, 1), memory_space=128),
        LayoutError,
        "memory_space 128 is not in 0..127",
    ),
    "a memory space that is a float": (
        lambda: Layout((0, 1), memory_space=1.0),
        LayoutTypeError,
        "memory_space 1.0 is not an integer: it is a float",
    ),
    "a split of no dimension": (
        lambda: Layout((0, 1), split_configs=((2, (1,)),)),
        LayoutError,
        "split_configs (2:1) cuts physical dimension 2: there are 2 dimensions",
    ),
    "two splits of one dimension": (
        lambda: Layout((0, 1), split_configs=((0, (2,)), (0, (3,)))),
        LayoutError,
        "split_configs (0:2)(0:3) cuts physical dimension 0 twice",
    ),
    "a split nowhere": (
        lambda: gl.xla.SplitConfig(0, ()),
        LayoutError,
        "split_indices () is empty: dimension 0 needs at least one",
    ),
    "splits that go back": (
        lambda: gl.xla.SplitConfig(0, (3, 3)),
        LayoutError,
        "split_indices (3, 3) are not ascending from 1: entry 1 is 3",
    ),
    "a split outside the array": (
        lambda: Shape("f32", (2, 3), Layout((1, 0), split_configs=((0, (2,)),))),
        LayoutError,
        "split_configs (0:2) cuts outside the array for f32[2,3]{1,0:SC(0:2)}: physical dimension 0 is "
        "dimension 0 of size 2",
    ),
    "an index type with a sign": (
        lambda: Layout((0, 1), index_type="s32"),
        LayoutError,
        "index_type s32 is not one of u8, u16, u32, u64",
    ),
    "tiles too large": (
        lambda: Shape("f32", (2,), Layout((0,), tiles=((2**62,),))),
        LayoutError,
        "tiles (4611686018427387904) is too large for f32[2]{0:T(4611686018427387904)}: 18446744073709551616 "
        "bytes, the limit "
        "is 2^63-1",
    ),
    "a tail too long": (
        lambda: Shape("f32", (2,), Layout((0,), tail_padding_alignment=2**62)),
        LayoutError,
        "tail_padding_alignment 4611686018427387904 is too large for f32[2]{0:L(4611686018427387904)}: "
        "18446744073709551616 bytes, "
        "the limit is 2^63-1",
    ),
    "strides of tiles": (
        lambda: Shape("f32", (2, 3), Layout((1, 0), tiles=((2, 2),))).strides,
        LayoutError,
        "tiles (2,2) of f32[2,3]{1,0:T(2,2)} have no single stride per dimension: strides are for untiled shapes; "
        "gl.view finds them if "
        "neighbours are always the same distance apart",
    ),
    "byte strides of packed elements": (
        lambda: Shape("s4", (10, 20), Layout((1, 0), element_size_in_bits=4)).byte_strides,
        LayoutError,
        "element_size_in_bits 4 of s4[10,20]{1,0:E(4)} has no byte strides: neighbours share a byte",
    ),
    "an element size of another type": (
        Shape("f32", (2,), Layout((0,), element_size_in_bits=4)).validate_layout,
        LayoutError,
        "element_size_in_bits 4 is not a storage size of f32 for f32[2]{0:E(4)}: f32 takes 32 bits. Elements of 4 bits "
        "are s4, u4, f4e2m1fn: a move converts to them with dtype='s4', dtype='u4' or dtype='f4e2m1fn'",
    ),
    "elements across bytes": (  # cameras' 10 and 12 bits
        Shape("u16", (2,), Layout((0,), element_size_in_bits=12)).validate_layout,
        LayoutError,
        "element_size_in_bits 12 is not a storage size of u16 for u16[2]{0:E(12)}: u16 takes 16 bits. Elements of 12 "
        "bits lie across bytes, which no layout describes: unpack them first (docs/video-frames.md has 10 and 12 bits)",
    ),
    "bits for truth": (  # s1 would make 0 of True
        Shape("pred", (2,), Layout((0,), element_size_in_bits=1)).validate_layout,
        LayoutError,
        "element_size_in_bits 1 is not a storage size of pred for pred[2]{0:E(1)}: pred takes 8 bits. Elements of 1 "
        "bit are u1: a move converts to them with dtype='u1'",
    ),
    "a sparse leftover": (
        Shape("f32", (2,), Layout((0,), index_type="u32")).validate_layout,
        LayoutError,
        "index_type u32 belongs to sparse layouts for f32[2]{0:#(u32)}: the array is dense",
    ),
    "inserting under tiles": (
        lambda: Layout((1, 0), tiles=((8, 128), (2, 1))).insert_dimension(1, 4),
        LayoutError,
        "tiles (8,128)(2,1) would cut different dimensions after inserting a dimension for layout {1,0:T(8,128)(2,1)}: "
        "they cut the "
        "2 most minor dimensions; drop them first with replace(tiles=())",
    ),
    "deleting under tiles": (
        lambda: Layout((2, 1, 0), tiles=((8, 128),)).delete_dimensions((0, 1)),
        LayoutError,
        "tiles (8,128) would cut different dimensions after deleting dimension 1 for layout {2,1,0:T(8,128)}: they "
        "cut the 2 most minor dimensions; drop them first with replace(tiles=())",
    ),
    "tiles as text": (
        lambda: Layout((0, 1), tiles="T(8,128)"),
        LayoutTypeError,
        "tiles 'T(8,128)' is not a sequence of tiles: write ((8, 128),)",
    ),
    # dimension numbers
    "a dimension out of range": (
        lambda: SHAPE.dimension(2),
        LayoutError,
        "dimension 2 is out of range for f32[2,3]{1,0}: there are 2 dimensions",
    ),
    "a negative dimension out of range": (
        lambda: SHAPE.stride(-3),
        LayoutError,
        "dimension -3 is out of range for f32[2,3]{1,0}: there are 2 dimensions",
    ),
    "a dimension out of range at rank 1": (
        lambda: Shape("f32", (4,)).dimension(1),
        LayoutError,
        "dimension 1 is out of range for f32[4]{0}: there is 1 dimension",
    ),
    "a dimension of a scalar": (
        lambda: Shape("f32", ()).dimension(0),
        LayoutError,
        "dimension 0 is out of range for f32[]: there are 0 dimensions",
    ),
    "a dimension number that is a float": (
        lambda: SHAPE.dimension(1.0),
        LayoutTypeError,
        "dimension 1.0 is not an integer for f32[2,3]{1,0}: it is a float",
    ),
    "a dimension number that is a bool": (
        lambda: SHAPE.dimension(True),
        LayoutTypeError,
        "dimension True is not an integer for f32[2,3]{1,0}: it is a bool",
    ),
    "a position out of range": (
        lambda: Layout((0, 1)).minor(2),
        LayoutError,
        "physical position 2 is out of range for layout {0,1}: there are 2 dimensions",
    ),
    "moving a missing dimension": (
        lambda: SHAPE.move_dimension_to_major(2),
        LayoutError,
        "dimension 2 is out of range for f32[2,3]{1,0}: there are 2 dimensions",
    ),
    "deleting a missing dimension": (
        lambda: SHAPE.delete_dimensions((0, 5)),
        LayoutError,
        "dimension 5 is out of range for f32[2,3]{1,0}: there are 2 dimensions",
    ),
    "deleting a dimension twice": (
        lambda: SHAPE.delete_dimensions(dim for dim in (0, -2)),
        LayoutError,
        "dimensions (0, -2) names dimension 0 twice for f32[2,3]{1,0}",
    ),
    "deleting a number": (
        lambda: SHAPE.delete_dimensions(0),
        LayoutTypeError,
        "dimensions 0 is not a sequence of integers for f32[2,3]{1,0}: it is an int",
    ),
    "asking about a dimension twice": (
        lambda: Layout((0, 1)).are_dimensions_consecutive((0, 0)),
        LayoutError,
        "dimensions (0, 0) names dimension 0 twice for layout {0,1}",
    ),
    # edits
    "a permutation too short": (
        lambda: SHAPE.permute_dimensions((0,)),
        LayoutError,
        "permutation (0,) has 1 entry for f32[2,3]{1,0}: it must order 2 dimensions",
    ),
    "a permutation with a dimension twice": (
        lambda: SHAPE.permute_dimensions((0, -2)),
        LayoutError,
        "permutation (0, -2) is not an ordering of dimensions 0..1 for f32[2,3]{1,0}: dimension 0 appears twice",
    ),
    "a permutation out of range": (
        lambda: SHAPE.permute_dimensions((0, -3)),
        LayoutError,
        "permutation (0, -3) is not an ordering of dimensions 0..1 for f32[2,3]{1,0}: dimension -3 does not exist",
    ),
    "a permutation of a layout": (
        lambda: Layout((0, 1)).permute((0, 2)),
        LayoutError,
        "permutation (0, 2) is not an ordering of dimensions 0..1 for layout {0,1}: dimension 2 does not exist",
    ),
    "a permutation that is a set": (
        lambda: SHAPE.permute_dimensions({0, 1}),
        LayoutTypeError,
        "permutation {0, 1} is not a sequence of integers for f32[2,3]{1,0}: a set has no order",
    ),
    "normalizing no permutation": (
        lambda: gl.xla.normalized_transpose((2, 3), (0, 0)),
        LayoutError,
        "permutation (0, 0) is not an ordering of dimensions 0..1 for dimensions (2, 3): dimension 0 appears twice",
    ),
    "inserting in front of -1": (
        lambda: SHAPE.insert_dimension(-1, 4),
        LayoutError,
        "at -1 is out of range for f32[2,3]{1,0}: a new dimension can be inserted at 0..2",
    ),
    "inserting past the end": (
        lambda: SHAPE.insert_dimension(3, 4),
        LayoutError,
        "at 3 is out of range for f32[2,3]{1,0}: a new dimension can be inserted at 0..2",
    ),
    "inserting a negative size": (
        lambda: SHAPE.insert_dimension(1, -4),
        LayoutError,
        "size -4 is negative for f32[2,3]{1,0}",
    ),
    "inserting a width below the size": (
        lambda: gl.parse_shape("f32[2]{0:PD(2)}").insert_dimension(1, 4, 3),
        LayoutError,
        "padded_dimensions (2, 3) is smaller than dimensions (2, 4) for f32[2,4]{1,0:PD(2,3)}: dimension 1 "
        "needs at least 4",
    ),
    "inserting sizes that are a number": (
        lambda: SHAPE.insert_dimensions(1, 4),
        LayoutTypeError,
        "sizes 4 is not a sequence of integers for f32[2,3]{1,0}: it is an int",
    ),
    "a layout of another shape": (
        lambda: SHAPE.with_layout(gl.parse_shape("f32[123,42,7]{2,0,1}").layout),
        LayoutError,
        "minor_to_major (2, 0, 1) has 3 entries for f32[2,3]: the shape has 2 dimensions",
    ),
    "aligning with a negative size": (
        lambda: gl.xla.align_layouts(SHAPE, (-6,)),
        LayoutError,
        "dimensions (-6,) has a negative size: dimension 0 is -6",
    ),
    # indices
    "an index outside": (
        lambda: gl.xla.bump_indices(SHAPE, (2, 0)),
        IndexError,
        "index (2, 0) is out of bounds for f32[2,3]{1,0}: coordinate 2 of dimension 0 is not in 0..1",
    ),
    "an index into nothing": (
        lambda: gl.xla.bump_indices(Shape("f32", (0,)), (0,)),
        IndexError,
        "index (0,) is out of bounds for f32[0]{0}: coordinate 0 of dimension 0 is impossible, the dimension is empty",
    ),
    "an index of another rank": (
        lambda: gl.xla.bump_indices(SHAPE, (0,)),
        IndexError,
        "index (0,) has 1 coordinate for f32[2,3]{1,0}: the shape has 2 dimensions",
    ),
    "an index of floats": (
        lambda: SHAPE.index_in_bounds((1.0, 0)),
        LayoutTypeError,
        "index (1.0, 0) is not all integers for f32[2,3]{1,0}: entry 0 is 1.0, a float",
    ),
    "indices of two arrays": (
        lambda: gl.xla.compare_indices((0,), (0, 1)),
        LayoutError,
        "first (0,) and second (0, 1) are not indices of one array: they have 1 and 2 coordinates",
    ),
    # two shapes
    "other sizes": (
        lambda: gl.plan("f32[2,3]", "f32[2,4]"),
        LayoutError,
        "target f32[2,4]{1,0} is not the same logical array as source f32[2,3]{1,0}: dimension 1 is 4, not 3",
    ),
    "another type": (
        lambda: gl.plan("f32[2,3]", "bf16[2,3]"),
        LayoutError,
        "target bf16[2,3]{1,0} is not the same logical array as source f32[2,3]{1,0}: the element type is bf16, "
        "not f32; dtype='bf16' converts the elements on the way",
    ),
    "another rank": (
        lambda: gl.plan("f32[2,3]", "f32[6]"),
        LayoutError,
        "target f32[6]{0} is not the same logical array as source f32[2,3]{1,0}: it has 1 dimension, not 2",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_message(name):
    call, error, message = ERRORS[name]
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == message
    assert type(caught.value) is error and caught.value.__suppress_context__ is (caught.value.__context__ is not None)


def test_a_wrong_type_is_found_by_either_except_clause():
    for error in (LayoutError, TypeError, ValueError):
        with pytest.raises(error):
            Layout((0, 1.0))
    with pytest.raises(LayoutError):
        gl.parse_shape("f32[")
    assert not issubclass(LayoutError, TypeError)


def test_messages_about_endless_shapes_keep_the_field_and_the_rule():
    with pytest.raises(gl.LayoutError) as caught:
        gl.Shape("f32", (3,) * 100_000)
    message = str(caught.value)
    assert (
        len(message) < 1500
        and message.startswith("dimensions (3, 3, ")
        and message.endswith("at least 2^253 bytes, the limit is 2^63-1")
    )


@pytest.mark.parametrize("length, shown", [(98, "'" + 98 * "x" + "'"), (99, "'" + 96 * "x" + "...")])
def test_values_of_up_to_100_characters_are_shown_whole(length, shown):
    assert checks.value_text("x" * length) == shown and len(shown) == 100
