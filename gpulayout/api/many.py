"""Many relayouts in one call: on a GPU, small ones share launches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, overload

import numpy as np

from gpulayout.api import array_types as types
from gpulayout.api import arrays
from gpulayout.api.array_types import ArithmeticOptions, TargetLike, Unpack
from gpulayout.api.convert_transfer import ConvertTransfer
from gpulayout.api.given_shapes import given_shape
from gpulayout.api.libraries import Library, library_of
from gpulayout.api.plan import plan
from gpulayout.api.same_kind import Result
from gpulayout.api.transfer import Transfer
from gpulayout.layout.checks import counted, type_text
from gpulayout.moves.backend import Array, Backend, Prepared, PreparedJob


class _Opened(NamedTuple):
    """A job whose arguments were checked.

    out      None asks for new memory
    result   makes it for a buffer whose library gets its own kind back; None makes it on the backend
    """

    transfer: Transfer
    backend: Backend
    array: Array
    out: Array | None
    result: Result | None


@overload
def relayout_many(
    jobs: Iterable[tuple[types.HostArray, TargetLike, TargetLike]],
    *,
    out: None = None,
    **options: Unpack[ArithmeticOptions],
) -> list[types.HostArray]: ...
@overload
def relayout_many(
    jobs: Iterable[tuple[types.OwnKind[types.Kind], TargetLike, TargetLike]],
    *,
    out: None = None,
    **options: Unpack[ArithmeticOptions],
) -> list[types.Kind]: ...
@overload
def relayout_many(
    jobs: Iterable[tuple[types.Array, TargetLike, TargetLike]],
    *,
    out: Sequence[types.WritableArray | None] | None = None,
    **options: Unpack[ArithmeticOptions],
) -> list[Any]: ...
def relayout_many(
    jobs: Iterable[tuple[types.Array, TargetLike, TargetLike]],
    *,
    out: Sequence[types.WritableArray | None] | None = None,
    **options: Unpack[ArithmeticOptions],
) -> list[Any]:
    """Run `relayout` for many buffers in few launches.

    On a GPU this saves time for small buffers, where launches take most of it.

    Parameters
    ----------
    jobs : iterable of (buffer, source, target)
        The arguments of `relayout`.  Shapes, element types and devices may differ between jobs.
    out : sequence of arrays, optional
        Where to write: one entry per job, None for new memory.  An output must not share memory with an input or
        another output.
    **options
        ``dtype=``, ``scale=`` and more change the elements of every job on the way: see `ArithmeticOptions`.

    Returns
    -------
    list of arrays
        The results in the order of the jobs.

    Raises
    ------
    ValueError
        When `out` has another length than `jobs`.
    TypeError, BufferError, LayoutError
        As `relayout` raises them, with the number of the job.  Everything is checked before the first byte is written.

    See Also
    --------
    relayout : One buffer.

    Examples
    --------
    >>> import numpy as np
    >>> square, line = np.arange(4, dtype=np.float32), np.arange(3, dtype=np.uint8)
    >>> relayout_many([(square, "f32[2,2]", "{0,1}"), (line, "u8[3]", "{0:PD(4)}")])
    [array([0., 2., 1., 3.], dtype=float32), array([0, 1, 2, 0], dtype=uint8)]
    """
    if not isinstance(jobs, Iterable):
        raise TypeError(f"jobs is {type_text(jobs)}: it must be a list of (buffer, source, target)")
    jobs = list(jobs)
    outs = _checked_outs(out, len(jobs))
    opened = [_opened(number, job, given, options) for number, (job, given) in enumerate(zip(jobs, outs))]
    _check_no_overlap(opened)
    result = next((job.result for job in opened if job.result is not None), None)
    return (_executed if result is None else result.library.untraced(_executed))(opened, outs)


def _executed(opened: Sequence[_Opened], outs: Sequence[Any]) -> list[Any]:
    """The results of jobs that passed every check."""
    written = [_written(job) for job in opened]
    groups: dict[tuple[Backend, str, Library | None], list[int]] = {}
    for number, job in enumerate(opened):
        library = None if job.result is None else job.result.library
        groups.setdefault((job.backend, job.backend.device(job.array), library), []).append(number)
    # All groups are prepared before any of them runs, so that errors come before the first byte is written.
    prepared = [_prepared([(number, opened[number], written[number]) for number in group]) for group in groups.values()]
    for given in outs:
        arrays.will_be_written(given)
    for group, execute in zip(groups.values(), prepared):
        with _running(opened[group[0]].result):
            execute()
    return [
        given if given is not None else target if job.result is None else job.result.given_back()
        for given, target, job in zip(outs, written, opened)
    ]


def _running(result: Result | None) -> AbstractContextManager[object]:
    """The context in which work for a result runs."""
    return _ANY if result is None else result.running()


_ANY = nullcontext()


def _written(job: _Opened) -> Array:
    """The array that a job writes."""
    if job.out is not None:
        return job.out
    if job.result is None:
        return job.transfer.empty(job.backend, job.backend, job.array)
    with job.result.running():
        return job.transfer.empty(job.result, job.backend, job.array)


def _prepared(jobs: Sequence[tuple[int, _Opened, Array]]) -> Callable[[], None]:
    """What executes these jobs, (number, job, target), which share a backend, a device and a library."""
    first = jobs[0][1]
    if any(isinstance(job.transfer, ConvertTransfer) for _, job, _ in jobs):
        prepared = [job.transfer.prepared_by(job.backend) for _, job, _ in jobs]
        return lambda: _executed_in_turn(prepared, jobs)
    with _running(first.result):
        return first.backend.prepare_jobs(
            [
                PreparedJob(f"job {number}: ", job.transfer.prepared_by(job.backend), job.array, target)
                for number, job, target in jobs
            ]
        )


def _executed_in_turn(prepared: Sequence[Prepared], jobs: Sequence[tuple[int, _Opened, Array]]) -> None:
    """Execute jobs with arithmetic, which share no launches."""
    for each, (_, job, target) in zip(prepared, jobs):
        each.execute(job.array, target)


def _checked_outs(out: Any, count: int) -> Sequence[Any]:
    if out is None:
        return [None] * count
    if not isinstance(out, Sequence) or isinstance(out, (str, bytes)):
        raise TypeError(f"out is {type_text(out)}: it must be a list with one buffer or None per job")
    if len(out) != count:
        raise ValueError(
            f"out has {counted(len(out), 'buffer')} for {counted(count, 'job')}: it needs one or None per job"
        )
    return out


def _opened(number: int, job: Any, out: Any, options: ArithmeticOptions) -> _Opened:
    """One job, checked as `relayout` checks it; errors begin with its number."""
    if not isinstance(job, (tuple, list)) or len(job) != 3:
        what = f"has {counted(len(job), 'part')}" if isinstance(job, (tuple, list)) else f"is {type_text(job)}"
        raise TypeError(f"job {number} {what}: it must be (buffer, source, target)")
    buffer, source, target = job
    try:
        transfer = plan(given_shape(source, buffer, "source"), target, **options).transfer
        library = None if type(buffer) is np.ndarray else library_of(buffer)
        if library is None:
            return _checked(transfer, *arrays.open_array(buffer, "buffer"), out, None)
        result = Result(library, buffer)
        with result.running():
            return _checked(transfer, *result.opened("buffer"), out, result)
    except Exception as error:  # keep the type that `relayout` raises
        error.args = (f"job {number}: {error}", *error.args[1:])
        raise


def _checked(transfer: Transfer, backend: Backend, array: Array, out: Any, result: Result | None) -> _Opened:
    array = transfer.source_memory(backend, array)
    return _Opened(transfer, backend, array, None if out is None else transfer.opened_out(backend, array, out), result)


def _check_no_overlap(opened: Sequence[_Opened]) -> None:
    outputs = [(job.backend, job.out, number) for number, job in enumerate(opened) if job.out is not None]
    if outputs:
        arrays.check_none_overlap([(job.backend, job.array, number) for number, job in enumerate(opened)], outputs)
