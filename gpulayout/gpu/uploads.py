"""The parameters of moves with arithmetic on devices: copied there once, and kept as long as the plan.

A copy belongs to one stream of one device.  The stream makes it before any launch that reads it, and its memory is
reused only by later work in the same stream.  So neither the host nor another stream has to wait when a copy is made or
dropped.  A call in another stream gets a copy of its own.

On an H100, a copy in each call took longer than the kernels of images, and 27 times as long with a scale for every 128
elements (docs/performance.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpulayout.gpu.runtime import Runtime

PER_THREAD = 2  # CUDA's cudaStreamPerThread: another stream in each thread


class Upload(NamedTuple):
    """A copy of parameters on a device.

    address   of its first value
    stream    the stream that it belongs to.  Keeping it here means that no other stream can get its number.  Another
              library may still destroy a stream of its own; CuPy's memory pool relies on that number too
    memory    keeps the copy alive; a caller holds it until every launch that reads it was issued.  It is the last
              field, so it is released before the stream, into whose pool the memory goes back
    """

    address: int
    stream: Any
    memory: Any


class Uploads:
    """Copies to devices.  Small ones are kept by value, for calls that make no plan: `gl.transpose(x, mean=, std=)`.

    CuPy gives such a copy 512 bytes or more, up to 4 KB: all together take at most 256 KB.
    """

    MOST, MOST_BYTES = 64, 4096  # copies that are kept, and the bytes of each; when full, all are dropped

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._small: dict[tuple[bytes, int, int], Upload] = {}

    def copy(self, values: np.ndarray, device: int, stream: Any) -> Upload:
        """A copy of these values for the device's current stream."""
        if values.nbytes > self.MOST_BYTES or stream.ptr == PER_THREAD:
            return self._new(values, device, stream)
        key = values.tobytes(), device, stream.ptr
        upload = self._small.get(key)
        if upload is None:
            upload = self._new(values, device, stream)
            if len(self._small) >= self.MOST:
                self._small.clear()
            self._small[key] = upload
        return upload

    def _new(self, values: np.ndarray, device: int, stream: Any) -> Upload:
        memory, address = self._runtime.upload(values, device)
        return Upload(address, stream, memory)


class Parameters:
    """The parameters of one transfer, one after the other in one array.

    values   makes that array; called for each copy, so that the host keeps none
    """

    MOST, MOST_BYTES = 8, 1 << 26  # copies that are kept, and their bytes together; when full, all are dropped

    def __init__(self, values: Callable[[], np.ndarray], uploads: Uploads, runtime: Runtime) -> None:
        self._values, self._uploads, self._current_stream = values, uploads, runtime.stream
        self._copies: dict[tuple[int, int], Upload] = {}

    def on(self, device: int) -> Upload:
        """The copy for the device's current stream; BufferError in a capture."""
        stream = self.stream(device)
        return self._copies.get((device, stream.ptr)) or self._copy(device, stream)

    def stream(self, device: int) -> Any:
        """The device's current stream; BufferError in a capture."""
        stream = self._current_stream(device)
        if stream.is_capturing():
            raise BufferError(
                "a call with arithmetic cannot be captured in a CUDA graph if it has parameters, because a graph does "
                "not keep their memory, which is given back with the plan: run it before the capture"
            )
        return stream

    def _copy(self, device: int, stream: Any) -> Upload:
        values = self._values()
        upload = self._uploads.copy(values, device, stream)
        most = min(self.MOST, self.MOST_BYTES // values.nbytes)
        if most and stream.ptr != PER_THREAD:
            if len(self._copies) >= most:
                self._copies.clear()
            self._copies[device, stream.ptr] = upload
        return upload
