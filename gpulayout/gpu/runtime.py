"""The interface of a runtime that launches kernels: CuPy, or in the tests a runtime on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

NO_OFFENDER = 2**64 - 1
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


Start = Callable[..., None]  # starts a prepared launch; called with the addresses for its pointers


class Runtime(Protocol):
    """Launches kernels on its devices."""

    def prepare(self, device: int, launch: Launch) -> Start:
        """A function that starts the launch on the device's current stream, any number of times, from any thread.

        Everything that takes time or memory happens here: a start allocates nothing and waits for nothing.
        """
        ...

    def place(self, array: Any, /) -> tuple[int, int]:
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
