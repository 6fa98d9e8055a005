"""What the buffer of a shape is an array of: elements, or bytes where several elements share one; and what it needs at least."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpulayout.model.cached import cached_property

if TYPE_CHECKING:
    from gpulayout.model.shape import Shape

_BYTE = np.dtype(np.uint8)


class ShapeStorage:
    """A base of `Shape`: the 1-D array that is its buffer."""

    @cached_property
    def buffer_dtype(self: Shape) -> np.dtype:
        """NumPy dtype of the buffer: the element's, or uint8 where elements are packed."""
        return _BYTE if self.is_packed else self.element_type.dtype

    @cached_property
    def buffer_length(self: Shape) -> int:
        """Length of the buffer as an array of `buffer_dtype`: its places, or its bytes where elements are packed.

        >>> from gpulayout import parse_shape
        >>> parse_shape("s4[5]{0:E(4)}").buffer_length, parse_shape("s4[5]").buffer_length
        (3, 5)
        """
        return self.nbytes if self.is_packed else self.buffer_size

    @cached_property
    def unpadded_nbytes(self: Shape) -> int:
        """Bytes that the elements alone would take: `nbytes` without padding, tiles and tail.

        >>> from gpulayout import parse_shape
        >>> shape = parse_shape("f32[10]{0:T(8,128)}")
        >>> shape.nbytes, shape.unpadded_nbytes
        (4096, 40)
        """
        return -(-self.element_count * self.bits_per_element // 8)

    @property
    def unpacked_byte_strides(self: Shape) -> tuple[int, ...]:
        """Bytes between neighbours along each dimension if every element had its type's whole bytes.

        LayoutError for a tiled layout.  XLA: `UnpackedByteStrides`.

        >>> from gpulayout import parse_shape
        >>> parse_shape("s4[2,3]{0,1:E(4)}").unpacked_byte_strides
        (1, 2)
        """
        return tuple(stride * self.itemsize for stride in self.strides)
