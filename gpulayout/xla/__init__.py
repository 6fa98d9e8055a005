"""The rest of XLA's utilities for shapes: bitcasts, comparison, tuples, protos, programs as text.

Every function that takes a shape also takes its text.  A text that is not such a shape, a negative size, a dimension
that does not exist or comes twice, and a name that `ignore` does not take are a LayoutError; an index that does not
exist is an IndexError; an argument of another type is a TypeError.  Docstrings name the other errors.

Most functions have XLA's name, `same_rank` for `SameRank`.  Where one has another name or answers otherwise, its
docstring says so.  `docs/xla-names.md` has all names.

    TupleShape, TokenShape, OpaqueShape, BufferShape            shapes in XLA programs that are not one array
    MemorySpace, SplitConfig                                    memory spaces, and where an array is split across them
    is_bitcast, reshape_is_bitcast, align_layouts, ...          whether two shapes are the same bytes
    shapes_equal, shapes_compatible, layouts_equal, ...         comparison; ignore="tiles" and the like leaves parts out
    subshapes, subshape, map_arrays, leaf_shapes, ...           tuples of shapes
    shape_to_proto, shape_from_proto, layout_to_proto, ...      the bytes of XLA's protos; need protobuf
    find_shapes, find_copies                                    shapes and copies in the text of a whole program
    data_nbytes, max_split_size, ...                            sizes of the data and of the parts of a split array
    least_waste                                                 the order of dimensions that needs the fewest bytes
    each_index, bump_indices, compare_indices                   logical indices
"""

from gpulayout.layout.layout_fields import MemorySpace, SplitConfig
from gpulayout.layout.other_shapes import BufferShape, OpaqueShape, TokenShape, TupleShape
from gpulayout.layout.public_names import publish as _publish
from gpulayout.layout.strides import byte_strides_is_major_to_minor, layout_from_strides
from gpulayout.layout.text import parse_any_shape, parse_array_shape
from gpulayout.xla.bitcast import (
    deduce_transpose_dimensions_for_bitcast,
    is_bitcast,
    is_reshape_or_transpose_bitcast,
    is_untiled,
    reshape_is_bitcast,
    transpose_is_bitcast,
)
from gpulayout.xla.compare import (
    equal_structure,
    layouts_equal,
    layouts_in_shapes_equal,
    same_dimensions,
    same_element_type,
    same_rank,
    shapes_compatible,
    shapes_compatible_kind,
    shapes_equal,
)
from gpulayout.xla.decompose import (
    align_layouts,
    bitcast_kind,
    decompose_bitcast,
    is_decomposable_bitcast,
    normalized_transpose,
    with_descending_layout_and_same_physical_layout,
)
from gpulayout.xla.hlo import FoundShape, find_shapes
from gpulayout.xla.hlo_copies import FoundCopy, find_copies
from gpulayout.xla.indices import bump_indices, compare_indices, each_index
from gpulayout.xla.least_padding import least_waste
from gpulayout.xla.protos import layout_from_proto, layout_to_proto, shape_from_proto, shape_to_proto
from gpulayout.xla.reshape import (
    dimensions_unmodified_by_reshape,
    inserted_or_deleted_1_sized_dimensions,
    reshape_leaves_dimensions_unmodified,
)
from gpulayout.xla.sizes import (
    data_nbytes,
    max_elements_in_split,
    max_split_size,
    packed_factor_for_1d_interleaved_array,
)
from gpulayout.xla.trees import (
    copy_layout_between_shapes,
    has_custom_element_size_in_bits,
    has_element_type,
    index_is_valid,
    is_leaf_index,
    is_prefix,
    leaf_shapes,
    map_arrays,
    maybe_tuple_shape,
    subshape,
    subshapes,
    update_element_size_in_bits,
    validate_layouts,
    with_subshape,
)
from gpulayout.xla.types import can_upcast, higher_precision_element_type

__all__ = [
    "BufferShape",
    "FoundCopy",
    "FoundShape",
    "MemorySpace",
    "OpaqueShape",
    "SplitConfig",
    "TokenShape",
    "TupleShape",
    "align_layouts",
    "bitcast_kind",
    "bump_indices",
    "byte_strides_is_major_to_minor",
    "can_upcast",
    "compare_indices",
    "copy_layout_between_shapes",
    "data_nbytes",
    "decompose_bitcast",
    "deduce_transpose_dimensions_for_bitcast",
    "dimensions_unmodified_by_reshape",
    "each_index",
    "equal_structure",
    "find_copies",
    "find_shapes",
    "has_custom_element_size_in_bits",
    "has_element_type",
    "higher_precision_element_type",
    "index_is_valid",
    "inserted_or_deleted_1_sized_dimensions",
    "is_bitcast",
    "is_decomposable_bitcast",
    "is_leaf_index",
    "is_prefix",
    "is_reshape_or_transpose_bitcast",
    "is_untiled",
    "layout_from_proto",
    "layout_from_strides",
    "layout_to_proto",
    "layouts_equal",
    "layouts_in_shapes_equal",
    "leaf_shapes",
    "least_waste",
    "map_arrays",
    "max_elements_in_split",
    "max_split_size",
    "maybe_tuple_shape",
    "normalized_transpose",
    "packed_factor_for_1d_interleaved_array",
    "parse_any_shape",
    "parse_array_shape",
    "reshape_is_bitcast",
    "reshape_leaves_dimensions_unmodified",
    "same_dimensions",
    "same_element_type",
    "same_rank",
    "shape_from_proto",
    "shape_to_proto",
    "shapes_compatible",
    "shapes_compatible_kind",
    "shapes_equal",
    "subshape",
    "subshapes",
    "transpose_is_bitcast",
    "update_element_size_in_bits",
    "validate_layouts",
    "with_descending_layout_and_same_physical_layout",
    "with_subshape",
]

_publish(globals(), __all__)
