"""Many relayouts or transposes in one call: on a GPU, small ones share launches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar, Unpack, overload

import numpy as np

from gpulayout.arrays import array_types as types
from gpulayout.arrays import arrays
from gpulayout.arrays.array_types import ArithmeticOptions, BufferOptions, TargetLike
from gpulayout.arrays.libraries import library_of
from gpulayout.arrays.library import FollowedParameter, Library, RequiresGrad, TracedArray
from gpulayout.arrays.shaped_buffer import Pair, ShapedBuffer, buffer_to_write
from gpulayout.arrays.torch_tensors import TORCH
from gpulayout.calls.relayout import relayout
from gpulayout.calls.transpose import Axes, name_clash
from gpulayout.layout.checks import counted, type_text, value_text
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.graph_constants import is_compiling
from gpulayout.layout.shape import Shape
from gpulayout.moves.backend import AnyArray, Backend, PreparedJob
from gpulayout.requests.arithmetic import OPTIONS, check_keywords, meant
from gpulayout.requests.reading import Call, check_strict
from gpulayout.running.array_calls import shapes_of_move
from gpulayout.running.request import Request
from gpulayout.running.running import call_key, known_request, run
from gpulayout.running.same_kind import ArrayCall
from gpulayout.traced.array_graphs import relayout_call
from gpulayout.traced.traced import between_graphs, untraceable

Moved = TypeVar("Moved")
Jobs: TypeAlias = Iterable[tuple[Moved, TargetLike, TargetLike]]
AxesJobs: TypeAlias = Iterable[tuple[Moved, Axes] | tuple[Moved, Axes, Mapping[str, int]]]
# What a job of a verb is, in how many parts.
FORMS = {
    "relayout": ("(buffer, source, target)", (3,)),
    "transpose": ("(array, axes) or (array, axes, sizes)", (2, 3)),
}


class _Opened(NamedTuple):
    """A job whose arguments were checked.

    number   of the job in the call
    out      None asks for new memory, which `array_call` makes
    """

    number: int
    request: Request
    backend: Backend
    array: AnyArray
    out: AnyArray | None
    array_call: ArrayCall


@overload
def relayout_many(
    jobs: Iterable[tuple[Pair, TargetLike] | tuple[Pair, TargetLike, TargetLike]], *,
    out: Sequence[Any] | None = None, **options: Unpack[BufferOptions],
) -> list[Pair]: ...  # fmt: skip
@overload
def relayout_many(
    jobs: Jobs[types.HostArray], *, out: None = None, **options: Unpack[BufferOptions]
) -> list[types.HostArray]: ...
@overload
def relayout_many(
    jobs: Jobs[types.OwnKind[types.Kind]], *, out: None = None, **options: Unpack[BufferOptions]
) -> list[types.Kind]: ...
@overload
def relayout_many(
    jobs: Jobs[types.AnyArray], *,
    out: Sequence[types.WritableArray | None] | None = None, **options: Unpack[BufferOptions],
) -> list[Any]: ...  # fmt: skip
def relayout_many(
    jobs: Iterable[Any],
    *,
    out: Sequence[Any] | None = None,
    strict: bool = True,
    **options: Unpack[ArithmeticOptions],
) -> list[Any]:
    """Run `relayout` for many buffers in few launches.

    On a GPU this saves time for small buffers, where launches take most of it.

    Parameters
    ----------
    jobs : iterable of (buffer, source, target)
        The arguments of `relayout`.  Shapes, element types and devices may differ between jobs.  A job of an `Array` is
        (array, target), and its result another one.
    out : sequence of arrays, optional
        Where to write: one entry per job, None for new memory.  An output must not share memory with an input or
        another output.
    strict : bool, optional
        False takes buffers and outputs that are longer, as `relayout` does.
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
    check_strict(strict)
    return _run_many("relayout", jobs, out, options, strict)


@overload
def transpose_many(
    jobs: AxesJobs[types.HostArray], *, out: None = None, **options: Unpack[ArithmeticOptions]
) -> list[types.HostArray]: ...
@overload
def transpose_many(
    jobs: AxesJobs[types.OwnKind[types.Kind]], *, out: None = None, **options: Unpack[ArithmeticOptions]
) -> list[types.Kind]: ...
@overload
def transpose_many(
    jobs: AxesJobs[types.AnyArray], *,
    out: Sequence[types.WritableArray | None] | None = None, **options: Unpack[ArithmeticOptions],
) -> list[Any]: ...  # fmt: skip
def transpose_many(
    jobs: Iterable[Any],
    *,
    out: Sequence[Any] | None = None,
    **options: Unpack[ArithmeticOptions],
) -> list[Any]:
    """Run `transpose` for many arrays of any sizes in few launches, such as images into one padded batch.

    On a GPU this saves time for small arrays, where launches take most of it.

    Parameters
    ----------
    jobs : iterable of (array, axes) or (array, axes, sizes)
        The arguments of `transpose`, with the sizes of the axes that a pattern splits as a dict, such as ``{"h": 32}``.
        Sizes, element types and devices may differ between jobs.
    out : sequence of arrays, optional
        Where to write: one entry per job, None for new memory.  An entry may have any strides, as a slice of a larger
        array has, such as ``batch[2, :, :480, :640]``.  It must not share memory with an input or another output.
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
        As `transpose` raises them, with the number of the job.  Everything is checked before the first byte is written.

    See Also
    --------
    transpose : One array.
    relayout_many : Many buffers.

    Examples
    --------
    Two images of different sizes, into one batch of floats:

    >>> import numpy as np
    >>> images = [np.full((2, 2, 3), 255, np.uint8), np.full((1, 3, 3), 51, np.uint8)]
    >>> batch = np.zeros((2, 3, 2, 3), np.float32)
    >>> slices = [batch[n, :, :height, :width] for n, (height, width, _) in enumerate(image.shape for image in images)]
    >>> _ = transpose_many([(image, "h w c -> c h w") for image in images], out=slices, dtype="f32", unit=True)
    >>> batch[:, 0]
    array([[[1. , 1. , 0. ],
            [1. , 1. , 0. ]],
    <BLANKLINE>
           [[0.2, 0.2, 0.2],
            [0. , 0. , 0. ]]], dtype=float32)
    """
    return _run_many("transpose", jobs, out, options)


def _run_many(verb: str, jobs: Any, out: Any, options: ArithmeticOptions, strict: bool = True) -> list[Any]:
    if not isinstance(jobs, Iterable):
        raise TypeError(f"jobs is {type_text(jobs)}: it must be a list of {FORMS[verb][0]}")
    jobs = list(jobs)
    if is_compiling():
        return _in_graph(verb, jobs, out, options, strict)
    if verb == "relayout":  # other keywords of a transpose may be sizes, which a job has
        check_keywords(options, ["out", "strict"])
    made: list[Any] = TORCH.disable_compiler(_many)(verb, jobs, _checked_outs(verb, out, len(jobs)), options, strict)
    return made


def _many(verb: str, jobs: list[Any], outs: Sequence[Any], options: ArithmeticOptions, strict: bool) -> list[Any]:
    """The results of jobs that are not traced by torch.compile."""
    if verb == "relayout" and True in map(_has_array, jobs):
        return _with_arrays(jobs, outs, options, strict)
    results = [_opened(verb, number, job, out, options, strict) for number, (job, out) in enumerate(zip(jobs, outs))]
    opened = [job for job in results if type(job) is _Opened]
    outputs = [(job.backend, job.out, job.number) for job in opened if job.out is not None]
    if outputs:
        inputs = [(job.backend, job.array, job.number) for job in opened]
        roles = f"{opened[0].request.role} of job {{}}", "out of job {}"
        arrays.check_none_overlap(inputs, outputs, roles)
    for job, made in zip(opened, _executed(opened, [outs[job.number] for job in opened])):
        results[job.number] = made
    return results


def _has_array(job: Any) -> bool:
    return isinstance(job, (tuple, list)) and len(job) > 0 and isinstance(job[0], ShapedBuffer)


def _in_graph(verb: str, jobs: list[Any], out: Any, options: Any, strict: bool) -> list[Any]:
    """The results inside of torch.compile: of one call for each job."""
    reason = ""
    if out is not None:
        reason = "gpulayout writes many outputs outside of graphs: leave out= out, and use the results"
    for number, job in enumerate(jobs):
        refusal = "" if reason else _job_refusal(verb, job, options, strict)
        reason = f"job {number}: {refusal}" if refusal else reason
    if reason:
        made: list[Any] = between_graphs(reason, functools.partial(_run_many, verb, jobs, out, options, strict))
        return made
    if verb == "relayout":
        return [relayout(*job, strict=strict, **options) for job in jobs]
    calls = [_call(verb, job, options, strict) for job in jobs]
    return [run(verb, job[0], None, call.target, None, options, call.sizes) for job, call in zip(jobs, calls)]


def _job_refusal(verb: str, job: Any, options: ArithmeticOptions, strict: bool) -> str:
    """Why a job cannot be part of a graph, or nothing."""
    if verb == "relayout" and _has_array(job) and len(job) in (2, 3):
        return relayout_call(job[0], job[1], job[2] if len(job) == 3 else None, None, options)[2]
    form, lengths = FORMS[verb]
    if not isinstance(job, (tuple, list)) or len(job) not in lengths:
        return f"it must be {form}"
    error = _misread(verb, job, options)
    return str(error) if error is not None else untraceable(_call(verb, job, options, strict), job[0], None)


def _call(verb: str, job: Sequence[Any], options: ArithmeticOptions, strict: bool) -> Call:
    """The call of a job, whose parts are as many as they must be."""
    if verb == "relayout":
        return Call(verb, job[1], job[2], {}, options, None, strict)
    axes, sizes = job[1], job[2] if len(job) == 3 else {}
    if type(axes) is list and not sizes:
        axes = tuple(axes)  # which can be part of a key
    return Call(verb, None, axes, sizes, options)


def _misread(verb: str, job: Sequence[Any], options: ArithmeticOptions) -> Exception | None:
    """What is wrong with the sizes and the names of axes of a job, or None."""
    if verb == "relayout":
        return None
    for name in options:
        if name not in OPTIONS and not meant(name, ["out"]):
            return TypeError(
                f"{value_text(name)} is no keyword: sizes belong to a job, as in (array, axes, {{'h': 32}})"
            )
    if len(job) == 3 and not (isinstance(job[2], Mapping) and {*map(type, job[2])} <= {str}):
        return TypeError(
            f"sizes is {value_text(job[2])}: it must be a dict of the sizes of axes by name, such as {{'h': 32}}"
        )
    reason = name_clash(job[1], options) if options else ""
    return LayoutError(reason) if reason else None


def _with_arrays(jobs: list[Any], outs: Sequence[Any], options: ArithmeticOptions, strict: bool) -> list[Any]:
    """The results of jobs with an `Array` each, (array, target) or (array, source, target), and of other jobs."""
    plain, targets = list(jobs), dict[int, Shape]()
    written = list(outs)
    for number, job in enumerate(jobs):
        if not _has_array(job):
            continue
        try:
            if len(job) not in (2, 3):
                raise TypeError(f"a job with a gl.Array has {counted(len(job), 'part')}: it must be (array, target)")
            source, target = shapes_of_move(job[0].layout_shape, job[1], job[2] if len(job) == 3 else None, options)
            plain[number] = job[0].buffer, source, target
            targets[number], written[number] = target, buffer_to_write(outs[number], target)
        except Exception as error:  # keep the type that `relayout` raises
            error.args = (f"job {number}: {error}", *error.args[1:])
            raise
    results = _many("relayout", plain, written, options, strict)
    for number, target in targets.items():
        out = outs[number]
        results[number] = out if isinstance(out, ShapedBuffer) else jobs[number][0].holding(results[number], target)
    return results


def _executed(opened: Sequence[_Opened], outs: Sequence[Any]) -> list[Any]:
    """The results of jobs that passed every check."""
    written = [_written(job) for job in opened]
    groups: dict[tuple[Backend, str, Library | None], list[int]] = {}
    for place, job in enumerate(opened):
        key = job.backend, job.backend.device(job.array), job.array_call.library
        groups.setdefault(key, []).append(place)
    # All groups are prepared before any of them runs, so that errors come before the first byte is written.
    prepared = [_prepared([(opened[place], written[place]) for place in group]) for group in groups.values()]
    for out in outs:
        if out is not None:
            arrays.will_be_written(out)
    for group, execute in zip(groups.values(), prepared):
        with opened[group[0]].array_call.running():
            execute()
    return [job.array_call.given_back() if out is None else out for out, job in zip(outs, opened)]


def _written(job: _Opened) -> AnyArray:
    """The array that a job writes."""
    if job.out is not None:
        return job.out
    with job.array_call.running():
        return job.request.empty(job.array_call, job.backend, job.array)


def _prepared(jobs: Sequence[tuple[_Opened, AnyArray]]) -> Callable[[], None]:
    """What executes these jobs, (job, target), which share a backend, a device and a library."""
    first = jobs[0][0]
    if any(job.request.change is not None for job, _ in jobs):
        prepared = [(job.request.prepared_by(job.backend), job.array, target) for job, target in jobs]

        def execute_in_turn() -> None:  # they share no launches
            for each, array, target in prepared:
                each.execute(array, target)

        return execute_in_turn
    with first.array_call.running():
        return first.backend.prepare_jobs(
            [
                PreparedJob(f"job {job.number}: ", job.request.prepared_by(job.backend), job.array, target)
                for job, target in jobs
            ]
        )


def _checked_outs(verb: str, out: Any, count: int) -> Sequence[Any]:
    if out is None:
        return [None] * count
    if not isinstance(out, Sequence) or isinstance(out, (str, bytes)):
        listed = "; list(out) is one" if getattr(out, "ndim", 0) > 1 else ""
        raise TypeError(
            f"out is {type_text(out)}: it must be a list with one {Call(verb).role} or None per job{listed}"
        )
    if len(out) != count:
        raise ValueError(
            f"out has {counted(len(out), Call(verb).role)} for {counted(count, 'job')}: it needs one or None per job"
        )
    return out


def _opened(verb: str, number: int, job: Any, out: Any, options: ArithmeticOptions, strict: bool) -> Any:
    """One job, checked as a single call checks it; errors begin with its number.

    For an array that is traced, or that requires a gradient, it is the result of a call of its own.
    """
    form, lengths = FORMS[verb]
    if not isinstance(job, (tuple, list)) or len(job) not in lengths:
        what = f"has {counted(len(job), 'part')}" if isinstance(job, (tuple, list)) else f"is {type_text(job)}"
        raise TypeError(f"job {number} {what}: it must be {form}")
    array = job[0]
    try:
        misread = _misread(verb, job, options)
        if misread is not None:
            raise misread
        call = _call(verb, job, options, strict)
        array_call = ArrayCall(array, None if type(array) is np.ndarray else library_of(array))
        try:
            with array_call.running():
                return _checked(number, call, array, array_call, out)
        except (TracedArray, RequiresGrad, FollowedParameter) as error:
            if array_call.library is None and not isinstance(error, FollowedParameter):
                raise
            return run(verb, array, call.source, call.target, out, options, call.sizes, None, strict)
    except Exception as error:  # keep the type that a single call raises
        error.args = (f"job {number}: {error}", *error.args[1:])
        raise


def _checked(number: int, call: Call, given: Any, array_call: ArrayCall, out: Any) -> _Opened:
    backend, array = array_call.opened(call.role)
    key = call_key(call.verb, given, call.source, call.target, None, call.options, call.sizes, call.strict)
    known, target = known_request(call, key, array_call.label(array), array, out)
    request = known.request
    array = request.source_memory(backend, array)
    written = None if target is None else request.separate_target(backend, array, target)
    request.check_lengths(array, written)
    return _Opened(number, request, backend, array, written, array_call)
