"""Describe array layouts and move arrays between them: on NVIDIA GPUs with CuPy, on CPUs in native code or with NumPy.

>>> import numpy as np, gpulayout as gl
>>> image = np.zeros((1080, 1920, 3), np.uint8)
>>> gl.transpose(image, "h w c -> c h w").shape
(3, 1080, 1920)
>>> gl.pack([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "f64[2,3]{0,1}")      # column-major
array([1., 4., 2., 5., 3., 6.])

A shape is an element type, dimensions and a layout.  Every function that takes a shape also takes its text: "f32[2,3]"
is row-major; "f32[2,3]{0,1}", which lists the dimensions minor first, is column-major.  `help(gl.pack)` and the like
have the details; `print(gl.__doc__)` shows this page without the classes that `help(gl)` appends.

Moving arrays
    transpose         reorder axes, "h w c -> c h w" or (2, 0, 1); the result is in C order
    pack              copy an array into a 1-D buffer in the layout of a shape
    unpack            copy such a buffer into an array
    relayout          copy a buffer from one layout to another
    relayout_file     the same from file to file, for arrays larger than memory
    relayout_many     the same for many buffers, in few kernel launches
    transpose_many    transpose for many arrays of any sizes, such as images into one padded batch
    view              see a buffer, or an array after a pattern, as a strided array, without a copy
    zeros             make a new buffer for a shape, filled with zeros
    plan              prepare a relayout for many calls; the plan explains itself

    Elements may change on the way, as in transpose(image, "h w c -> c h w", dtype="f32", scale=1/255): see
    ArithmeticOptions.

Shapes and layouts
    Shape             element type, dimensions and layout
    Layout            order, padding and tiles
    Tile, COMBINE     one tile, and the `*` in it
    PaddingValue      what fills padding: ZERO, ONE, LOWEST, HIGHEST, UNKNOWN
    ElementType       XLA's element types, such as f32 and bf16
    parse_shape       a shape from its text
    parse_layout      a layout from its text
    shape_of          the shape of an existing array
    UNBOUNDED         a dimension without a size, `?`

Arrays that know their shape
    Array             a buffer with its shape, of any library; calls take it in place of both
    asarray           one of an N-d array, as it lies or packed

Indices
    linearize         logical indices to linear indices
    delinearize       linear indices to logical indices
    convert_linear    linear indices from one layout to another
    stride_table      where every element lies: a StrideTable of Digits
    code              the same as source text for kernels: CUDA, C or Python

Arrays held by many ranks
    Sharding          which box of an array each rank holds, and in which layout
    exchange          what goes from rank to rank between two shardings

Where calls run
    use_backend       choose "auto", "numpy" or "cupy" for calls without an array
    use_threads       choose how many threads calls on the CPU may use
    show_config       versions, devices, threads, which backend and engine run and why

Errors
    LayoutError       a layout or shape that cannot exist; also a ValueError
    LayoutTypeError   the same for a value of the wrong type; also a TypeError
    ShapeTextError    text that is not a shape; `position` says where
    BackendUnavailable
                      the requested backend cannot run here

More
    ArithmeticOptions
                      the keywords of arithmetic on the way
    Plan, Lowered, StrideTable, Digit, Picture, Exchange, Message
                      the classes of what `plan`, `plan.lower`, `stride_table`, `draw` and `exchange` return
    xla               the rest of XLA's utilities for shapes
    interop           layouts in the words of NumPy, PyTorch, JAX, CuTe and zarr
    catalogue         layouts that kernels want, by name: "cublas:block_scales[200,10]" is a shape too
    dask              pack, unpack, relayout and transpose for Dask arrays: larger than memory, on several machines
    torch             the moves as modules of PyTorch: Relayout, Pack, Unpack, Transpose
"""

import typing as _typing

import gpulayout.arrays.torch_tensors as _torch_tensors
import gpulayout.layout.picture as _picture
import gpulayout.layout.public_names as _public_names
import gpulayout.layout.text as _text
from gpulayout import xla
from gpulayout.arrays.array_types import ArithmeticOptions
from gpulayout.calls.array import Array, asarray
from gpulayout.calls.many import relayout_many, transpose_many
from gpulayout.calls.packing import pack, shape_of, unpack, zeros
from gpulayout.calls.relayout import relayout
from gpulayout.calls.transpose import transpose
from gpulayout.calls.view import view
from gpulayout.choices.backends import BackendUnavailable, show_config, use_backend, use_threads
from gpulayout.codegen.code import code
from gpulayout.indices.indexing import convert_linear, delinearize, linearize
from gpulayout.layout.digits import Digit, StrideTable
from gpulayout.layout.dynamic import UNBOUNDED
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError, LayoutTypeError, ShapeTextError
from gpulayout.layout.layout import Layout
from gpulayout.layout.layout_text import parse_layout
from gpulayout.layout.padding import PaddingValue
from gpulayout.layout.picture import Picture
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table
from gpulayout.layout.text import parse_shape
from gpulayout.layout.tile import COMBINE, Tile
from gpulayout.moves.lowered import Lowered
from gpulayout.plans.plan import Plan, plan
from gpulayout.version import __version__

if _typing.TYPE_CHECKING:
    from gpulayout import catalogue, interop
    from gpulayout import dask as dask
    from gpulayout import torch as torch
    from gpulayout.files.relayout_file import relayout_file
    from gpulayout.shards.exchange import Exchange, exchange
    from gpulayout.shards.messages import Message
    from gpulayout.shards.sharding import Sharding

__all__ = [
    "ArithmeticOptions",
    "Array",
    "BackendUnavailable",
    "COMBINE",
    "Digit",
    "ElementType",
    "Exchange",
    "Layout",
    "LayoutError",
    "LayoutTypeError",
    "Lowered",
    "Message",
    "PaddingValue",
    "Picture",
    "Plan",
    "Shape",
    "ShapeTextError",
    "Sharding",
    "StrideTable",
    "Tile",
    "UNBOUNDED",
    "__version__",
    "asarray",
    "catalogue",
    "code",
    "convert_linear",
    "delinearize",
    "exchange",
    "interop",
    "linearize",
    "pack",
    "parse_layout",
    "parse_shape",
    "plan",
    "relayout",
    "relayout_file",
    "relayout_many",
    "shape_of",
    "show_config",
    "stride_table",
    "transpose",
    "transpose_many",
    "unpack",
    "use_backend",
    "use_threads",
    "view",
    "xla",
    "zeros",
]

# What is imported when it is first used: import gpulayout need not wait for it.  `dask` and
# `torch` are not in `__all__`, because `from gpulayout import *` would hide the modules of these libraries.
_LATE = {
    "Exchange": "gpulayout.shards.exchange:Exchange",
    "Message": "gpulayout.shards.messages:Message",
    "Sharding": "gpulayout.shards.sharding:Sharding",
    "catalogue": "gpulayout.catalogue",
    "dask": "gpulayout.dask",
    "exchange": "gpulayout.shards.exchange:exchange",
    "interop": "gpulayout.interop",
    "relayout_file": "gpulayout.files.relayout_file:relayout_file",
    "torch": "gpulayout.torch",
}
_public_names.publish(
    globals(),
    [name for name in __all__ if name not in _LATE],
    late=_LATE,
    hint=lambda name: (
        f": gpulayout.xla.{name} is its name"
        if name in xla.__all__
        else ": gpulayout.transpose is its name"
        if name in ("rearrange", "permute")
        else ""
    ),
)


def _draw(subject: Shape | Layout, **choices: _typing.Any) -> Picture:
    """Draw a shape or a layout.  The first picture loads `gpulayout.pictures`."""
    from gpulayout.pictures.draw import draw

    return draw(subject, **choices)


def _named_shape(text: str) -> Shape | None:
    """The shape that a text names, None for layouts of other libraries.  The first one loads `gpulayout.catalogue`."""
    from gpulayout.catalogue.names import is_name, shape_of_name

    is_ours = "[" in text or "(" in text or is_name(text)
    return shape_of_name(text) if is_ours else None


_picture.draw_with(_draw)
_text.read_names_with(_named_shape)


def _differentiable(*arguments: _typing.Any) -> _typing.Any:
    """Run a call on a tensor that requires a gradient.  The first one loads `gpulayout.torch`."""
    from gpulayout.torch.gradients import differentiable

    _torch_tensors.TORCH.differentiable = differentiable
    return differentiable(*arguments)


_torch_tensors.TORCH.differentiable = _differentiable
