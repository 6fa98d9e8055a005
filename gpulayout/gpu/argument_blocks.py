"""The arguments of a launch as the CUDA driver reads them: an array with the address of each argument.

Every kernel takes a few pointers, then one parameter struct.  With two pointers, a block at address 1000 is five words:
    1024 1032 S | from to          S is the address of the struct; `from` is at 1024, `to` at 1032
The driver is passed 1000.  It copies all arguments before the launch call returns, so the block can then be reused.

A struct whose first words are addresses too is different in each start.  Then a block ends with a struct of its own:
    1032 1040 1048 | from to | struct
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

Block = tuple[Any, int]  # the words, and the address of the first


class ArgumentBlocks:
    """Blocks for kernels with this many pointers.  A block belongs to one launch until it is given back.

    With `operands`, each block has a struct of its own, a copy of `parameters`, that begins with so many addresses.

    One block per thread would not be enough: a signal handler or a finalizer may launch in the same thread after a
    block is filled and before it is launched.  Popping from a list is atomic.
    """

    def __init__(self, pointers: int, operands: int = 0, parameters: bytes = b"") -> None:
        self._pointers, self._operands, self._parameters = pointers, operands, parameters
        self._layout = struct.Struct(f"={pointers + 1 + operands}Q")
        self._free: list[Block] = []
        self.give_back = self._free.append

    def filled(self, struct_address: int, *addresses: int) -> Block:
        """A block with these arguments; hand it to `give_back` after the launch.

        Blocks with a struct of their own take any number as its address.
        """
        try:
            block = self._free.pop()
        except IndexError:
            block = self._new()
        if self._operands:
            struct_address = block[1] + 8 * (2 * self._pointers + 1)
        self._layout.pack_into(block[0], 8 * self._pointers, struct_address, *addresses)
        return block

    @property
    def free_count(self) -> int:
        """Number of blocks that no launch is using."""
        return len(self._free)

    def _new(self) -> Block:
        own = self._parameters if self._operands else b""
        words = (ctypes.c_uint64 * (2 * self._pointers + 1 + -(-len(own) // 8)))()
        start = ctypes.addressof(words)
        ctypes.memmove(start + 8 * (2 * self._pointers + 1), own, len(own))
        words[: self._pointers] = [start + 8 * (self._pointers + 1 + place) for place in range(self._pointers)]
        return words, start
