"""Array layouts as values, and the bytes moved between them: on NVIDIA GPUs with CuPy, without one with NumPy.

    Shape, Layout, Tile, PaddingValue, ElementType    what an array in memory is
    parse_shape, parse_layout, find_shapes        the same as text, and those in the text of a whole program
    shape_to_proto, shape_from_proto,
    layout_to_proto, layout_from_proto            the same as the bytes of XLA's protos
    is_bitcast, shapes_equal, subshapes, ...      questions about shapes: docs/xla-names.md has all of them
    least_waste                                   the order of dimensions that needs the fewest bytes under the same tiles
    linearize, delinearize, convert_linear        index conversion
    pack, unpack, relayout, relayout_many,
    view, empty, plan                             moving bytes
    use_backend, show_config                      where things run
"""
from gpulayout.api.backends import BackendUnavailable, use_backend
from gpulayout.api.config import show_config
from gpulayout.api.indexing import convert_linear, delinearize, linearize
from gpulayout.api.many import relayout_many
from gpulayout.api.packing import empty, pack, shape_of, unpack, view
from gpulayout.api.relayout import Plan, plan, relayout
from gpulayout.layout.digits import Digit, StrideTable
from gpulayout.layout.dynamic import UNBOUNDED
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError, LayoutTypeError, ShapeTextError
from gpulayout.layout.layout import Layout
from gpulayout.layout.layout_text import parse_layout
from gpulayout.layout.memory_space import MemorySpace
from gpulayout.layout.other_shapes import BufferShape, OpaqueShape, TokenShape, TupleShape
from gpulayout.layout.padding import PaddingValue
from gpulayout.layout.shape import Shape
from gpulayout.layout.split_config import SplitConfig
from gpulayout.layout.stride_table import stride_table
from gpulayout.layout.strides import byte_strides_is_major_to_minor, layout_from_strides
from gpulayout.layout.text import parse_array_shape, parse_shape
from gpulayout.layout.tile import COMBINE, Tile
from gpulayout.version import __version__
from gpulayout.xla.bitcast import (
    align_layouts,
    bitcast_kind,
    decompose_bitcast,
    deduce_transpose_dimensions_for_bitcast,
    is_bitcast,
    is_decomposable_bitcast,
    is_reshape_or_transpose_bitcast,
    is_untiled,
    normalized_transpose,
    reshape_is_bitcast,
    transpose_is_bitcast,
    with_descending_layout_and_same_physical_layout,
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
from gpulayout.xla.hlo import FoundShape, find_shapes
from gpulayout.xla.indices import bump_indices, compare_indices, each_index
from gpulayout.xla.least_padding import least_waste
from gpulayout.xla.protos.layout import layout_from_proto, layout_to_proto
from gpulayout.xla.protos.shape import shape_from_proto, shape_to_proto
from gpulayout.xla.reshape import (
    dimensions_unmodified_by_reshape,
    inserted_or_deleted_1_sized_dimensions,
    reshape_leaves_dimensions_unmodified,
)
from gpulayout.xla.sizes import data_nbytes, max_elements_in_split, max_split_size, packed_factor_for_1d_interleaved_array
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
    "BackendUnavailable", "BufferShape", "COMBINE", "Digit", "ElementType", "FoundShape", "Layout", "LayoutError",
    "LayoutTypeError", "MemorySpace", "OpaqueShape", "PaddingValue", "Plan", "Shape", "ShapeTextError", "SplitConfig",
    "StrideTable", "Tile", "TokenShape", "TupleShape", "UNBOUNDED", "__version__", "align_layouts", "bitcast_kind",
    "bump_indices", "byte_strides_is_major_to_minor", "can_upcast", "compare_indices", "convert_linear",
    "copy_layout_between_shapes", "data_nbytes", "decompose_bitcast", "deduce_transpose_dimensions_for_bitcast",
    "delinearize", "dimensions_unmodified_by_reshape", "each_index", "empty", "equal_structure", "find_shapes",
    "has_custom_element_size_in_bits", "has_element_type", "higher_precision_element_type", "index_is_valid",
    "inserted_or_deleted_1_sized_dimensions", "is_bitcast", "is_decomposable_bitcast", "is_leaf_index", "is_prefix",
    "is_reshape_or_transpose_bitcast", "is_untiled", "layout_from_proto", "layout_from_strides", "layout_to_proto",
    "layouts_equal", "layouts_in_shapes_equal", "leaf_shapes", "least_waste", "linearize", "map_arrays",
    "max_elements_in_split", "max_split_size", "maybe_tuple_shape", "normalized_transpose", "pack",
    "packed_factor_for_1d_interleaved_array", "parse_array_shape", "parse_layout", "parse_shape", "plan", "relayout",
    "relayout_many", "reshape_is_bitcast", "reshape_leaves_dimensions_unmodified", "same_dimensions", "same_element_type",
    "same_rank", "shape_from_proto", "shape_of", "shape_to_proto", "shapes_compatible", "shapes_compatible_kind",
    "shapes_equal", "show_config", "stride_table", "subshape", "subshapes", "transpose_is_bitcast", "unpack",
    "update_element_size_in_bits", "use_backend", "validate_layouts", "view",
    "with_descending_layout_and_same_physical_layout", "with_subshape",
]

# What is public says the name it is imported by: in tracebacks, and in pickles, which outlive the file that it stands in.
for _public in [globals()[name] for name in __all__]:
    if hasattr(_public, "__module__"):
        (_public if hasattr(_public, "__qualname__") else type(_public)).__module__ = __name__
