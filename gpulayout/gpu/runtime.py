"""What launching kernels needs from the runtime of a device: CuPy's, or in the tests one that runs them on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

NO_OFFENDER = 2**64 - 1


class Launch(NamedTuple):
    """A launch as it was planned: all but the `pointers`, which are the kernel's first arguments; the struct is its
    last.
    """

    file: str
    kernel: str
    macros: tuple[tuple[str, int], ...]
    grid: tuple[int, int]
    parameters: bytes
    pointers: int


Start = Callable[..., None]  # starts a prepared launch; called with the addresses for its pointers


class Runtime(Protocol):
    """What launching needs from the runtime of a device."""

    def prepare(self, device: int, launch: Launch) -> Start:
        """What starts the launch on a device, on the stream that is current there: as often as wanted, from any thread.

        All that takes time or memory is done here, so that starting it allocates nothing and waits for nothing.
        """

    def place(self, array: Any) -> tuple[int, int]:
        """Device address of the first element of an array, and the number of its device."""

    def new_flag(self, device: int) -> tuple[Any, int]:
        """A 64-bit word holding NO_OFFENDER, and its address."""

    def read_flag(self, flag: Any) -> int:
        """Wait for the launches before it and return the word."""
