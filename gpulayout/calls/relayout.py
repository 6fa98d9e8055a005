"""Relayout: a buffer in one layout becomes a buffer in another, in one pass or in place."""

from __future__ import annotations

from typing import Any, Unpack, overload

import numpy as np

from gpulayout.arrays.array_types import (
    AnyArray,
    ArithmeticOptions,
    BufferOptions,
    HostArray,
    Kind,
    Out,
    OwnKind,
    TargetLike,
)
from gpulayout.arrays.shaped_buffer import Pair, ShapedBuffer
from gpulayout.layout.checks import ByteCount
from gpulayout.requests.arithmetic import missing
from gpulayout.running.array_calls import relayout_array
from gpulayout.running.running import run


@overload
def relayout(
    buffer: Pair, source: TargetLike | None = None, target: TargetLike | None = None, *,
    out: Any = None, max_bytes: ByteCount | None = None, **options: Unpack[BufferOptions],
) -> Pair: ...  # fmt: skip
@overload
def relayout(
    buffer: HostArray | np.generic, source: TargetLike, target: TargetLike, *,
    out: None = None, **options: Unpack[BufferOptions],
) -> HostArray: ...  # fmt: skip
@overload
def relayout(
    buffer: OwnKind[Kind], source: TargetLike, target: TargetLike, *,
    out: None = None, **options: Unpack[BufferOptions],
) -> Kind: ...  # fmt: skip
@overload
def relayout(
    buffer: AnyArray, source: TargetLike, target: TargetLike, *,
    out: None = None, **options: Unpack[BufferOptions],
) -> Any: ...  # fmt: skip
@overload
def relayout(
    buffer: AnyArray, source: TargetLike, target: TargetLike, *,
    out: Out, max_bytes: ByteCount | None = None, **options: Unpack[BufferOptions],
) -> Out: ...  # fmt: skip
def relayout(
    buffer: Any,
    source: TargetLike | None = None,
    target: TargetLike | None = None,
    *,
    out: Any = None,
    max_bytes: ByteCount | None = None,
    strict: bool = True,
    **options: Unpack[ArithmeticOptions],
) -> Any:
    """Copy a buffer of `source` into a buffer of `target`, in one pass.  Padding is filled.

    Parameters
    ----------
    buffer : array
        1-D contiguous array of `source.buffer_length` elements; or an N-d array that lies in memory as `source`
        says, such as a Fortran-ordered one for ``{0,1}``.  It is of NumPy, CuPy, PyTorch or JAX, or offers DLPack or
        ``__cuda_array_interface__``.  For packed elements, such as ``E(4)``, it is uint8.  An `Array` needs no source:
        ``relayout(array, target)``, and no target to change only its elements: ``relayout(array, dtype="f16")``.
    source : Shape, Layout or str
        The buffer's shape, or its text; or, for an N-d array, only its layout, in every form that a target takes.  The
        library cannot detect a wrong layout.
    target : Shape, Layout or str
        The shape of the result, with the same dimensions; or only its layout, such as ``"{0,1}"``.
    out : array, optional
        1-D contiguous array to write to, on the same device, of `target.buffer_length` elements.  It may be
        `buffer` itself, or another array that begins at the same byte: then the relayout is done in place.  The memory
        is as long as the larger side; what a shorter target leaves over may hold anything afterwards.  With `dtype`,
        both types need the same width then, and `out` has the new one.
    max_bytes : int or str, optional
        The most bytes that a relayout in place allocates, such as ``"64M"``; by default 5% of the larger side, or 1 MiB
        if that is more. Only with ``out=buffer``.
    strict : bool, optional
        False takes a `buffer` and an `out` that are longer, such as pools: only their first elements are read and
        written.  In place, a buffer is as long as the longer of both shapes needs.
    **options
        ``dtype=``, ``scale=``, ``shift=`` and more change the elements on the way: see `ArithmeticOptions`.

    Returns
    -------
    array
        1-D array of `target.buffer_length` elements, of the library of `buffer` and where it lives; or `out`.  An
        `Array` gives an `Array`.

    Raises
    ------
    TypeError
        For a buffer of another element type, and for objects that are not arrays.
    BufferError
        For a buffer or `out` that is too small, too long or not contiguous; for an `out` that is read-only, on another
        device, or shares memory with `buffer` but begins at another byte.
    LayoutError
        When the two shapes are not the same logical array, for a shape that no buffer can hold, for a `source` without
        sizes if the buffer is flat, and for a relayout in place that needs more than `max_bytes`.

    See Also
    --------
    pack : From an N-d array to a buffer.
    plan : The same, prepared once for many calls.
    relayout_many : Many buffers in few launches.

    Notes
    -----
    The layouts are those of XLA's *Shapes and Layout*.

    If a relayout in place is stopped in the middle, by SIGKILL for example, the array is in neither layout: it is lost.
    Python's signal handlers, so also Ctrl-C, wait until it is done.  `Plan.in_place` says beforehand what it will do.

    Examples
    --------
    >>> import numpy as np
    >>> relayout(np.arange(6, dtype=np.float32), "f32[2,3]{1,0}", "f32[2,3]{0,1}")
    array([0., 3., 1., 4., 2., 5.], dtype=float32)

    In place:

    >>> buffer = np.arange(6, dtype=np.float32)
    >>> relayout(buffer, "f32[2,3]{1,0}", "f32[2,3]{0,1}", out=buffer) is buffer
    True
    >>> buffer
    array([0., 3., 1., 4., 2., 5.], dtype=float32)
    """
    if isinstance(buffer, ShapedBuffer):
        return relayout_array(buffer, source, target, out, options, max_bytes, strict)
    if source is None or target is None:
        call, name = ("..., target", "source") if source is None else ("source, ...", "target")
        error = missing(f"relayout(buffer, {call})", name, options)
        raise TypeError(f"{error}; only a gl.Array knows its own shape, and gl.pack takes an N-d array")
    return run("relayout", buffer, source, target, out, options, max_bytes=max_bytes, strict=strict)
