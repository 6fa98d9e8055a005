"""Elements that no old file has: zeros behind a tensor, and tensors whose elements are all one number.

They lie in a file without a name, so that all that reads old files reads them too.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from gpulayout.files.checkpoints.assembly import TensorBox, whole
from gpulayout.files.checkpoints.header import Contents, StoredTensor, tensor_text
from gpulayout.files.checkpoints.opening import Shard
from gpulayout.files.elements import write_at
from gpulayout.layout.errors import LayoutError

MOST_MADE = 1 << 20  # bytes that are not zero, of one tensor
_FILES: dict[bytes, BinaryIO] = {}  # by their element; open as long as the process lives


def made(path: Path, name: str, dtype: str, sizes: Sequence[int], bits: int, element: bytes = b"\0") -> TensorBox:
    """A tensor whose bytes are `element`, again and again; `LayoutError` for a part of a byte, and for too many.

    path    of the file that is named where reading fails, whose shard gets the tensor
    sizes   of its axes, in units of `bits`
    """
    nbytes, rest = divmod(math.prod(sizes) * bits, 8)
    if rest or (any(element) and nbytes > MOST_MADE):
        what = "ends within a byte" if rest else f"has {nbytes} bytes, and {MOST_MADE} is the limit"
        raise LayoutError(f"what is added to {tensor_text(name)} {what}")
    tensor = StoredTensor(name, dtype, tuple(sizes), 0, nbytes)
    return whole(Shard(path, _stream(element, nbytes), Contents(None, (tensor,), 0)), tensor, sizes, bits)


def _stream(element: bytes, nbytes: int) -> BinaryIO:
    """An open file that begins with so many bytes.  It only grows, also where threads ask at once."""
    stream = _file(element)
    if os.fstat(stream.fileno()).st_size < nbytes:
        last = element * -(-nbytes // len(element)) if any(element) else b"\0"  # the rest is a hole
        write_at(stream, memoryview(last), 0 if any(element) else nbytes - 1, "a temporary file")
    return stream


def _file(element: bytes) -> BinaryIO:
    if element not in _FILES:
        _FILES.setdefault(element, tempfile.TemporaryFile(prefix="gpulayout-"))
    return _FILES[element]
