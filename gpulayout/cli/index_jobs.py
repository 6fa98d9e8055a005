"""The work of `gpulayout benchmark linearize`: index arrays, this library's calls on them, and NumPy's or CuPy's own.

NumPy says order and padding when it gets the rows of an index from major to minor and the widths in memory:
f32[2,3]{0,1:PD(3,5)} holds (1, 2) at ravel_multi_index((2, 1), (5, 3)) = 7.  It has no words for tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulayout.api.index_conversion import conversion
from gpulayout.api.indexing import delinearize, linearize
from gpulayout.cli.backends import array_module, on_host
from gpulayout.cli.failures import Failure
from gpulayout.gpu.index_launch import index_launch
from gpulayout.gpu.run import CudaBackend
from gpulayout.layout.shape import Shape
from gpulayout.moves.backend import AnyArray, Backend
from gpulayout.moves.move import MAX_AXES

Call = Callable[[], Any]
Indices = NDArray[np.int64]
STEP = 1_000_003  # a prime: consecutive places are far apart


@dataclass(frozen=True)
class IndexJob:
    """One conversion of an index array on one backend: calls that each do all of it, and the right result.

    warm      checks every index and writes into `out`; a pass that only checks comes first, so that an index out of
              bounds leaves `out` as it was
    fresh     checks every index and makes a new array, as most people call it
    plain     what NumPy or CuPy does for `fresh`; None for tiles
    kernel    on a GPU, the one launch of `fresh` alone, into `out`: it is not waited for
    to_gpu    copies the indices to the GPU, into memory made before
    from_gpu  copies `out` back
    """

    name: str
    out: AnyArray
    expected: Indices
    warm: Call
    fresh: Call
    plain: Call | None
    kernel: Call | None = None
    to_gpu: Call | None = None
    from_gpu: Call | None = None

    def calls(self) -> dict[str, Call]:
        """The calls that this job has, by name."""
        names = ("warm", "fresh", "plain", "kernel", "to_gpu", "from_gpu")
        return {name: call for name in names if (call := getattr(self, name)) is not None}

    def is_equal(self) -> bool:
        """True when every call gives the expected indices."""
        for call in (self.warm, self.fresh, self.plain, self.kernel):
            self.out.fill(-1)  # or a call that writes nothing would leave the last one's result
            if call and not np.array_equal(on_host(call()), self.expected):
                return False
        return self.from_gpu is None or np.array_equal(self.from_gpu(), self.expected)


def index_arrays(shape: Shape, count: int) -> tuple[Indices, Indices]:
    """`count` logical indices of a shape, (rank, count), and their linear indices, (count,)."""
    if not shape.rank or not shape.element_count:
        raise Failure(f"{shape} has no {'elements' if shape.rank else 'dimensions'}, so it has no indices to convert")
    places = np.arange(count, dtype=np.int64) % shape.element_count * STEP % shape.element_count
    logical = delinearize(places, shape.with_layout(None))
    return logical, linearize(logical, shape)


def jobs(backend: Backend, shape: Shape, logical: Indices, linear: Indices) -> Iterator[IndexJob]:
    """Both directions on one backend."""
    yield _job("linearize", backend, shape, logical, linear)
    yield _job("delinearize", backend, shape, linear, logical)


def _job(name: str, backend: Backend, shape: Shape, given: Indices, expected: Indices) -> IndexJob:
    source, out = (backend.empty(array.shape, array.dtype) for array in (given, expected))
    convert = linearize if name == "linearize" else delinearize
    job = IndexJob(
        name,
        out,
        expected,
        partial(convert, source, shape, out=out),
        partial(convert, source, shape),
        _plain(name, backend, shape, source),
    )
    if not isinstance(backend, CudaBackend):
        np.copyto(source, given)
        return job
    source.set(given)
    return replace(
        job,
        kernel=_kernel(name, backend, shape, source, out),
        to_gpu=partial(source.set, given),
        from_gpu=partial(out.get, out=np.empty_like(expected)),
    )


def _kernel(name: str, backend: CudaBackend, shape: Shape, source: AnyArray, out: AnyArray) -> Call:
    """The launch of a conversion that checks its indices.  The flag for the first bad one is never read."""
    program, runtime = conversion(name, shape).program, backend.runtime
    source_address, device = runtime.place(source)
    out_address, _ = runtime.place(out)
    count = out.size if name == "linearize" else source.size
    launch = index_launch(program, count, "raise", (8, True), 8)
    start = runtime.prepare(device, launch)
    flag, flag_address = runtime.new_flag(device)

    def kernel() -> AnyArray:
        start(source_address, out_address, flag_address)
        return out

    kernel.__dict__["flag"] = flag  # keeps its memory
    return kernel


def _plain(name: str, backend: Backend, shape: Shape, source: AnyArray) -> Call | None:
    """The call of NumPy or CuPy that gives the same; its rows are put into our order, which copies nothing."""
    if shape.is_tiled or shape.rank > MAX_AXES:
        return None
    xp = array_module(backend)
    major_to_minor = shape.layout.major_to_minor
    widths = tuple(shape.buffer_dimensions[dim] for dim in major_to_minor)
    if name == "linearize":
        rows = tuple(source[dim] for dim in major_to_minor)
        return partial(xp.ravel_multi_index, rows, widths, mode="raise")

    def unravel() -> tuple[AnyArray, ...]:
        found = xp.unravel_index(source, widths)
        return tuple(found[major_to_minor.index(dim)] for dim in range(shape.rank))

    return unravel
