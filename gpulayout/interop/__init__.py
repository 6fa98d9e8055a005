"""Layouts in the words of other libraries: each pair of functions goes from their form to ours, and back.

    from_numpy_order, to_numpy_order                    "C", "F"
    from_numpy_strides, to_numpy_strides                bytes between neighbours
    from_torch_memory_format, to_torch_memory_format    torch.channels_last and the like
    from_torch_stride, to_torch_stride                  elements between neighbours
    from_jax_layout, to_jax_layout                      jax.experimental.layout.Layout
    from_jax_format, to_jax_format                      jax.experimental.layout.Format
    from_cute, to_cute                                  "((2,2),3):((1,4),2)"
    from_zarr_transpose, to_zarr_transpose              the codec {"name": "transpose", ...}

`docs/interop.md` says what each form can express.  A layout that it cannot express is a LayoutError.  A function that
takes a shape or a layout also takes its text.
"""

from gpulayout.interop.cute import from_cute, to_cute
from gpulayout.interop.jax_layouts import from_jax_format, from_jax_layout, to_jax_format, to_jax_layout
from gpulayout.interop.numpy_layouts import from_numpy_order, from_numpy_strides, to_numpy_order, to_numpy_strides
from gpulayout.interop.torch_layouts import (
    from_torch_memory_format,
    from_torch_stride,
    to_torch_memory_format,
    to_torch_stride,
)
from gpulayout.interop.zarr_codecs import from_zarr_transpose, to_zarr_transpose
from gpulayout.layout.public_names import publish as _publish

__all__ = [
    "from_cute",
    "from_jax_format",
    "from_jax_layout",
    "from_numpy_order",
    "from_numpy_strides",
    "from_torch_memory_format",
    "from_torch_stride",
    "from_zarr_transpose",
    "to_cute",
    "to_jax_format",
    "to_jax_layout",
    "to_numpy_order",
    "to_numpy_strides",
    "to_torch_memory_format",
    "to_torch_stride",
    "to_zarr_transpose",
]

_publish(globals(), __all__)
