"""The arguments of a launch as the CUDA driver reads them: an array with the address of each argument.

Every kernel takes a few pointers, then one parameter struct.  With two pointers, a block at address 1000 is five words:
    1024 1032 S | from to          S is the address of the struct; `from` is at 1024, `to` at 1032
The driver is passed 1000.  It copies all arguments before the launch call returns, so the block can then be reused.

A struct whose first words are addresses too is different in each start.  Then a block ends with a struct of its own:
    1024 1032 1040 | from to | struct
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable

Block = tuple["ctypes.Array[ctypes.c_uint64]", int]  # the words, and the address of the first


class ArgumentBlocks:
    """The blocks of one prepared launch.  A block belongs to one start of it until it is given back.

    take        a block that is not in use; IndexError if there is none
    new         another block
    pack        `pack(words, first, *addresses)` writes the pointers, and the operands after them
    give_back   for a block after its launch

    A start calls these four itself: a method around them would take a quarter more.

    One block per thread would not be enough: a signal handler or a finalizer may launch in the same thread after a
    block is filled and before it is launched.  Popping from a list is atomic.
    """

    def __init__(self, pointers: int, parameters: bytes, operands: int = 0) -> None:
        self._pointers, self._has_operands = pointers, operands > 0
        self._struct = ctypes.create_string_buffer(parameters, len(parameters))
        self.pack, self.first = _packer(pointers + operands), 8 * (pointers + 1)
        self._free: list[Block] = []
        self.take: Callable[[], Block] = self._free.pop
        self.give_back: Callable[[Block], None] = self._free.append

    @property
    def free_count(self) -> int:
        """Number of blocks that no launch is using."""
        return len(self._free)

    def new(self) -> Block:
        """A block whose pointers are not written yet."""
        size, start_of_struct = len(self._struct), ctypes.addressof(self._struct)
        own = 2 * self._pointers + 1
        words = (ctypes.c_uint64 * (own + (-(-size // 8) if self._has_operands else 0)))()
        start = ctypes.addressof(words)
        if self._has_operands:
            ctypes.memmove(start + 8 * own, self._struct, size)
            start_of_struct = start + 8 * own
        pointers = [start + self.first + 8 * place for place in range(self._pointers)]
        words[: self._pointers + 1] = [*pointers, start_of_struct]
        return words, start


@functools.cache
def _packer(count: int) -> Callable[..., None]:
    """What writes so many words."""
    return struct.Struct(f"={count}Q").pack_into
