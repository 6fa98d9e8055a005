"""The arguments of a launch as the CUDA driver reads them: an array with the address of every argument.

Every kernel here takes a few pointers and then one parameter struct.  With two pointers a block of five words at
address 1000 is
    1024 1032 S | from to          S is the address of the struct, `from` lies at 1024 and `to` at 1032
and the driver is given 1000.  It copies all arguments before the launch call comes back, so a block can be used again
then.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

Block = tuple[Any, int]  # the words, and the address of the first


class ArgumentBlocks:
    """The blocks of kernels with this many pointers; one that is taken belongs to a single launch until it is given
    back.

    A block per thread would not do: a launch lets other threads run, but a signal handler or a finalizer may also
    launch in the same thread between filling a block and launching with it.  Taking from a list is atomic.
    """

    def __init__(self, pointers: int):
        self._pointers = pointers
        self._layout = struct.Struct(f"={pointers + 1}Q")
        self._free: list[Block] = []
        self.give_back = self._free.append

    def filled(self, struct_address: int, *addresses: int) -> Block:
        """A block with these arguments."""
        try:
            block = self._free.pop()
        except IndexError:
            block = self._new()
        self._layout.pack_into(block[0], 8 * self._pointers, struct_address, *addresses)
        return block

    def _new(self) -> Block:
        words = (ctypes.c_uint64 * (2 * self._pointers + 1))()
        start = ctypes.addressof(words)
        words[: self._pointers] = [start + 8 * (self._pointers + 1 + place) for place in range(self._pointers)]
        return words, start
