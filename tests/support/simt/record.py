"""A recorded launch: everything that a separate program needs to repeat it."""

import dataclasses
import struct

from . import source_text
from .host_module import ASCENDING

BUFFER_ALIGN = 256  # of CUDA allocations; a buffer begins its phase after a multiple of this
FRESH = 0x3A  # fills fresh memory; shared memory is filled with 0xA5, so bytes copied from there show up


@dataclasses.dataclass(frozen=True)
class Buffer:
    """Memory that an argument points to.

    nbytes    its exact length: one byte more is out of bounds
    phase     its address modulo 256
    content   initial bytes; the rest is filled with FRESH, since fresh memory holds garbage
    writable  if False, a run whose kernel changes it is not clean
    offset    bytes from its beginning to where the argument points
    """

    nbytes: int
    phase: int = 0
    content: bytes = b""
    writable: bool = True
    offset: int = 0

    def __post_init__(self):
        if not 0 <= self.phase < BUFFER_ALIGN:
            raise ValueError(f"phase {self.phase} is outside 0..{BUFFER_ALIGN - 1}")
        if len(self.content) > self.nbytes:
            raise ValueError(f"content has {len(self.content)} bytes, the buffer {self.nbytes}")

    def initial(self):
        return self.content + bytes([FRESH]) * (self.nbytes - len(self.content))


@dataclasses.dataclass(frozen=True)
class Struct:
    """Bytes that are passed by value, whose first 8 are the address of a buffer."""

    content: bytes
    buffer: Buffer


@dataclasses.dataclass(frozen=True)
class Record:
    """One launch.  An argument is an int (8 bytes), bytes (by value), a Struct or a Buffer (its address)."""

    text: str
    macros: dict
    kernel: str
    grid: tuple
    block: tuple
    arguments: tuple
    order: int = ASCENDING
    seed: int = 1
    first: int = 0
    last: int = -1

    @property
    def buffers(self):
        found = (argument.buffer if isinstance(argument, Struct) else argument for argument in self.arguments)
        return [each for each in found if isinstance(each, Buffer)]

    @property
    def build_key(self):
        """Records with equal keys can share one program."""
        return self.text, tuple(sorted(self.macros.items()))


def launch_file(records, libraries, races):
    """The bytes that record_main.cpp reads; `libraries` are the numbers of the launches' libraries."""
    return struct.pack("<I", len(records)) + b"".join(_launch(*launch, races) for launch in zip(records, libraries))


def _launch(record, library, races):
    name = record.kernel.encode()
    header = struct.pack(
        "<6I2iQ2q8x",
        *source_text.three(record.grid),
        *source_text.three(record.block),
        record.order,
        races,
        record.seed,
        record.first,
        record.last,
    )
    arguments = b"".join(map(_argument, record.arguments))
    return struct.pack("<2I", library, len(name)) + name + header + struct.pack("<I", len(record.arguments)) + arguments


def _argument(argument):
    if isinstance(argument, Struct):
        return _buffer(2, argument.buffer) + struct.pack("<Q", len(argument.content)) + argument.content
    if isinstance(argument, Buffer):
        return _buffer(1, argument)
    if isinstance(argument, int):
        argument = struct.pack("<q" if argument < 0 else "<Q", argument)
    return struct.pack("<2I2Q", 0, 0, len(argument), 0) + argument


def _buffer(kind, buffer):
    return struct.pack("<2I2Q", kind, buffer.phase, buffer.nbytes, buffer.offset) + buffer.initial()
