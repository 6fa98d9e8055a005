"""Array layouts as values, and the bytes moved between them: on NVIDIA GPUs with CuPy, without one with NumPy.

Shape, Layout, Tile, PaddingValue, ElementType    what an array in memory is
parse_shape, parse_layout, shape_of               the same as text, or of an array
transpose, pack, unpack, relayout, relayout_many,
view, empty, plan                                 moving bytes
linearize, delinearize, convert_linear            index conversion
stride_table, is_bitcast                          where elements lie, and whether two shapes are the same bytes
use_backend, show_config                          where things run
xla                                               the rest of XLA's utilities for shapes
"""

import warnings as _warnings

from gpulayout import xla
from gpulayout.api.backends import BackendUnavailable, use_backend
from gpulayout.api.config import show_config
from gpulayout.api.indexing import convert_linear, delinearize, linearize
from gpulayout.api.many import relayout_many
from gpulayout.api.packing import empty, pack, shape_of, unpack, view
from gpulayout.api.relayout import Plan, plan, relayout
from gpulayout.api.transpose import transpose
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
from gpulayout.layout.text import parse_shape
from gpulayout.layout.tile import COMBINE, Tile
from gpulayout.version import __version__
from gpulayout.xla.bitcast import is_bitcast

__all__ = [
    "BackendUnavailable",
    "BufferShape",
    "COMBINE",
    "Digit",
    "ElementType",
    "Layout",
    "LayoutError",
    "LayoutTypeError",
    "MemorySpace",
    "OpaqueShape",
    "PaddingValue",
    "Plan",
    "Shape",
    "ShapeTextError",
    "SplitConfig",
    "StrideTable",
    "Tile",
    "TokenShape",
    "TupleShape",
    "UNBOUNDED",
    "__version__",
    "convert_linear",
    "delinearize",
    "empty",
    "is_bitcast",
    "linearize",
    "pack",
    "parse_layout",
    "parse_shape",
    "plan",
    "relayout",
    "relayout_many",
    "shape_of",
    "show_config",
    "stride_table",
    "transpose",
    "unpack",
    "use_backend",
    "view",
    "xla",
]

# What is public says the name it is imported by: in tracebacks, and in pickles, which outlive the file that it stands
# in.
for _public in [globals()[name] for name in __all__]:
    if hasattr(_public, "__module__"):
        (_public if hasattr(_public, "__qualname__") else type(_public)).__module__ = __name__


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> object:
    """Names that stood here before they moved to `gpulayout.xla`; of no use to new code."""
    if name not in xla.__all__:
        raise AttributeError(f"module 'gpulayout' has no attribute {name!r}")
    found = getattr(xla, name)
    if not isinstance(found, type):
        _warnings.warn(f"gpulayout.{name} has moved to gpulayout.xla.{name}", DeprecationWarning, stacklevel=2)
    return found
