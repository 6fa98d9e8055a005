"""The interface of a runtime that launches kernels: CuPy, or in the tests a runtime on the CPU.

The CUDA driver reads the arguments of a launch from an array with the address of each.  Every kernel takes a few
pointers, then one parameter struct.  With two pointers, a block at address 1000 is five words:
    1024 1032 S | from to          S is the address of the struct; `from` is at 1024, `to` at 1032
The driver is passed 1000.  It copies all arguments before the launch call returns, so the block can then be reused.

A struct whose first words are addresses too is different in each start.  Then a block ends with a struct of its own:
    1024 1032 1040 | from to | struct
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

NO_OFFENDER = 2**64 - 1
Block = tuple["ctypes.Array[ctypes.c_uint64]", int]  # the words, and the address of the first
Macros = tuple[tuple[str, int], ...]  # (name, value) of the macros that a kernel is compiled with


class Launch(NamedTuple):
    """A planned launch.  The kernel's arguments are `pointers` addresses, given at the start, and then the struct.

    operands   further addresses that are given at the start: each start writes them to the first words of the struct
    """

    file: str
    kernel: str
    macros: Macros
    grid: tuple[int, int]
    parameters: bytes
    pointers: int
    operands: int = 0


class ArgumentBlocks:
    """The blocks of one prepared launch.  A block belongs to one start of it until it is given back.

    take        a block that is not in use; IndexError if there is none
    new         another block
    pack        `pack(words, first, *addresses)` writes the pointers, and the operands after them
    give_back   for a block after its launch, which is then one of the `free`

    A start calls these four itself: a method around them would take a quarter more.

    One block per thread would not be enough: a signal handler or a finalizer may launch in the same thread after a
    block is filled and before it is launched.  Popping from a list is atomic.
    """

    def __init__(self, pointers: int, parameters: bytes, operands: int = 0) -> None:
        self._pointers, self._has_operands = pointers, operands > 0
        self._struct = ctypes.create_string_buffer(parameters, len(parameters))
        self.pack, self.first = struct.Struct(f"={pointers + operands}Q").pack_into, 8 * (pointers + 1)
        self.free: list[Block] = []
        self.take: Callable[[], Block] = self.free.pop
        self.give_back: Callable[[Block], None] = self.free.append

    def new(self) -> Block:
        """A block whose pointers are not written yet."""
        size, start_of_struct = len(self._struct), ctypes.addressof(self._struct)
        own = 2 * self._pointers + 1
        words = (ctypes.c_uint64 * (own + (-(-size // 8) if self._has_operands else 0)))()
        start = ctypes.addressof(words)
        if self._has_operands:
            ctypes.memmove(start + 8 * own, self._struct, size)
            start_of_struct = start + 8 * own
        pointers = [start + self.first + 8 * number for number in range(self._pointers)]
        words[: self._pointers + 1] = [*pointers, start_of_struct]
        return words, start


Start = Callable[..., None]  # starts a prepared launch; called with the addresses for its pointers


class Runtime(Protocol):
    """Launches kernels on its devices."""

    def prepare(self, device: int, launch: Launch) -> Start:
        """A function that starts the launch on the device's current stream, any number of times, from any thread.

        Everything that takes time or memory happens here: a start allocates nothing and waits for nothing.
        """
        ...

    def locate(self, array: Any, /) -> tuple[int, int]:
        """The device address of an array's first element, and the number of its device."""
        ...

    def stream(self, device: int, /) -> Any:
        """The device's current stream: an object with a number `ptr` and a method `is_capturing`, as CuPy's have."""
        ...

    def upload(self, values: np.ndarray, device: int) -> tuple[Any, int]:
        """A copy of an array in the device's memory, and its address; made in the order of the current stream."""
        ...

    def new_flag(self, device: int) -> tuple[Any, int]:
        """A 64-bit word that holds NO_OFFENDER, and its address."""
        ...

    def read_flag(self, flag: Any) -> int:
        """Wait for the launches before it and return the word."""
        ...
