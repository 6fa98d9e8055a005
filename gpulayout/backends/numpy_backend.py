"""The CPU backend: the same plans with NumPy alone."""
from __future__ import annotations

import numpy as np

from gpulayout.backends.numpy_index import convert
from gpulayout.model.shape import Shape
from gpulayout.planning.move import Move

# Elements move as unsigned integers of their width; 16 bytes move as complex128, which NumPy copies whole.
_WORDS = {size: np.dtype(name) for size, name in ((1, "u1"), (2, "u2"), (4, "u4"), (8, "u8"), (16, "c16"))}


class NumpyBackend:
    """Carries out moves with `np.copyto` on strided views, and index conversion in cache-sized blocks."""

    name = "numpy"

    def adopt(self, foreign: object) -> np.ndarray:
        return np.from_dlpack(foreign)

    def array(self, values: object, dtype: np.dtype | None, order: str | None = None) -> np.ndarray:
        return np.array(values, dtype, order=order)

    def dtype_for(self, shape: Shape) -> np.dtype:
        return shape.dtype

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, like: object = None) -> np.ndarray:
        return np.empty(shape, dtype)

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return np.zeros(shape, dtype)

    def device(self, array: np.ndarray) -> str:
        return "cpu"

    def address(self, array: np.ndarray) -> int:
        return array.__array_interface__["data"][0]

    def is_writeable(self, array: np.ndarray) -> bool:
        return array.flags.writeable

    def strided(self, array: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
        return np.lib.stride_tricks.as_strided(array, shape, strides, writeable=array.flags.writeable)

    def move(self, move: Move, source: np.ndarray, target: np.ndarray) -> None:
        word = _WORDS[move.itemsize]
        if move.element_count:
            block = move.block
            np.copyto(_view(target, word, block.shape, 0, block.target_strides),
                      _view(source, word, block.shape, 0, block.source_strides))
        if move.is_padded:
            pad = np.frombuffer(move.pad, word)[0]
            for slab in move.padding_slabs:
                _view(target, word, slab.shape, slab.target_offset, slab.target_strides)[...] = pad

    convert = staticmethod(convert)


def _view(array: np.ndarray, word: np.dtype, shape: tuple[int, ...], offset: int, strides: tuple[int, ...]) -> np.ndarray:
    """A strided view of an array's memory, from its first element on; `offset` and `strides` in bytes."""
    if array.flags.c_contiguous:
        flat = array if array.ndim == 1 else array.reshape(-1)
        return np.ndarray(shape, word, flat if flat.dtype is word else flat.view(word), offset, strides)
    # Only logical arrays get here, which have no padding and so no offset.
    return np.lib.stride_tricks.as_strided(array.view(word), shape, strides, writeable=array.flags.writeable)
