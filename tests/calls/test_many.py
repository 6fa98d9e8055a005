"""relayout_many: the same bytes as single relayouts, in few launches; after an error nothing is written."""

import contextlib
import dataclasses
import re

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.gpu.launch import SHARED_BYTES, SHARED_TILE_BYTES
from gpulayout.gpu.many import JOBS, JobMove, many_plan, small_move
from gpulayout.gpu.run import CudaBackend
from tests import reference
from tests.support.executors import GUARD_BYTE, guarded, guards_intact, source_buffer
from tests.support.placed import relayout_move
from tests.support.strategies import WHOLE_TYPES

LISTS = 150


def random_shapes(rng):
    """A source and a target of one logical array: up to 6 dimensions, any order, some padded, some empty."""
    sizes, room = [], 3000
    for _ in range(int(rng.integers(0, 7))):
        sizes.append(int(rng.choice([size for size in (1, 2, 2, 3, 4, 5, 8, 16, 31, 64) if size <= room])))
        room //= sizes[-1]
    if sizes and rng.random() < 0.08:
        sizes[int(rng.integers(len(sizes)))] = 0
    element_type = str(rng.choice(WHOLE_TYPES))
    layouts = []
    for _ in range(2):
        widths = [size + int(rng.choice((0, 0, 0, 1, 3))) for size in sizes] if rng.random() < 0.4 else None
        layouts.append(
            gl.Layout(
                tuple(map(int, rng.permutation(len(sizes)))),
                padded_dimensions=widths,
                padding_value=gl.PaddingValue.ONE,
            )
        )
    return tuple(gl.Shape(element_type, tuple(sizes), layout) for layout in layouts)


def buffer_of(shape):
    return np.frombuffer(
        reference.large_buffer(
            shape.dimensions,
            shape.layout.minor_to_major,
            shape.layout.padded_dimensions,
            shape.itemsize,
            shape.padding_bytes,
        ),
        shape.dtype,
    )


@dataclasses.dataclass
class Guarded:
    """A job with its output between guard bytes."""

    job: tuple
    out: object
    memory: object
    phase: int

    @classmethod
    def random(cls, executor, rng):
        source, target = random_shapes(rng)
        from_phase, phase = (int(rng.choice((0, 0, 0, 1, 2, 3))) * source.itemsize for _ in range(2))
        buffer = source_buffer(executor, buffer_of(source), from_phase)
        out, memory = guarded(executor, target.dtype, target.buffer_size, phase)
        return cls((buffer, source, target), out, memory, phase)


@contextlib.contextmanager
def launches(executor):
    """The launches within the block, as (kernel, macros) pairs; only the shim records them."""
    found = []
    recorded = getattr(getattr(executor.backend, "runtime", None), "launches", [])
    before = len(recorded)
    yield found
    found += recorded[before:]


def is_shim(executor):
    return executor.name == "simt"


@pytest.mark.one_in(6)
@pytest.mark.parametrize("part", range(3))
def test_random_lists_give_what_single_relayouts_give(executor, part):
    rng = np.random.default_rng(part)
    for number in range(LISTS // 3):
        if is_shim(executor):
            executor.backend.runtime.order, executor.backend.runtime.seed = number % 3, number + 1
        work = [Guarded.random(executor, rng) for _ in range(int(rng.choice((0, 1, 2, 7, 30))))]
        given = [each.out if rng.random() < 0.7 else None for each in work]
        with launches(executor) as many:
            found = gl.relayout_many([each.job for each in work], out=given)
        with launches(executor) as single:
            expected = [gl.relayout(*each.job) for each in work]
        assert isinstance(found, list) and len(found) == len(work) and len(many) <= len(single)
        for each, out, result, one in zip(work, given, found, expected):
            assert result is out or out is None
            target = each.job[2]
            assert executor.host(result).tobytes() == executor.host(one).tobytes() == buffer_of(target).tobytes(), (
                each.job[1:]
            )
            assert result.dtype == one.dtype and result.shape == one.shape
            assert guards_intact(executor, each.memory, each.phase, target.nbytes if out is not None else 0)


def test_the_same_list_runs_in_every_order_of_threads(executor):
    rng = np.random.default_rng(9)
    work = [Guarded.random(executor, rng) for _ in range(100)]
    for order in range(3 if is_shim(executor) else 1):
        if is_shim(executor):
            executor.backend.runtime.order = order
        for each in work:
            each.memory[...] = GUARD_BYTE
        gl.relayout_many([each.job for each in work], out=[each.out for each in work])
        assert all(executor.host(each.out).tobytes() == buffer_of(each.job[2]).tobytes() for each in work)
        assert all(guards_intact(executor, each.memory, each.phase, each.job[2].nbytes) for each in work)


def test_texts_layouts_and_an_empty_list(executor):
    assert gl.relayout_many([]) == gl.relayout_many([], out=[]) == gl.relayout_many(iter(())) == []
    buffer = executor.array(np.arange(6, dtype=np.float32))
    found = gl.relayout_many([(buffer, "f32[2,3]", target) for target in ("f32[2,3]{0,1}", "{0,1}", gl.Layout((0, 1)))])
    assert [executor.host(each).tolist() for each in found] == [[0, 3, 1, 4, 2, 5]] * 3


def test_only_the_buffer_is_written_of_a_longer_out(executor):
    out = executor.array(np.full(9, 7, np.uint8))
    gl.relayout_many([(executor.array(np.arange(8, dtype=np.uint8)), "u8[2,3]", "{0,1}")], out=[out], strict=False)
    assert executor.host(out).tolist() == [0, 3, 1, 4, 2, 5, 7, 7, 7]


# ---- launches -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "element_type, sizes, order, most",
    [
        ("f32", (16, 16), (0, 1), 3),
        ("f32", (4, 4, 4, 4), (0, 1, 2, 3), 4),
        ("u8", (1024,), (0,), 3),
        ("c128", (8, 8), (0, 1), 3),
    ],
)
def test_a_hundred_jobs_of_1_kb_take_few_launches(executor, element_type, sizes, order, most):
    shape = gl.Shape(element_type, sizes)
    jobs = [(executor.array(buffer_of(shape)), shape, gl.Layout(order)) for _ in range(100)]
    with launches(executor) as found:
        results = gl.relayout_many(jobs)
    expected = buffer_of(shape.with_layout(gl.Layout(order))).tobytes()
    assert all(executor.host(result).tobytes() == expected for result in results)
    if is_shim(executor):
        assert len(found) == most <= 6 and {kernel for kernel, _ in found} == {"gpl_many"}


def test_a_hundred_mixed_jobs_take_few_launches(executor):
    rng = np.random.default_rng(3)
    work = [Guarded.random(executor, rng) for _ in range(100)]
    moves = [relayout_move(*each.job[1:]) for each in work]
    alone = sum(len(move.axes) > max(JOBS) for move in moves)
    with launches(executor) as found:
        gl.relayout_many([each.job for each in work])
    if is_shim(executor):
        assert sum(kernel == "gpl_many" for kernel, _ in found) <= 8 and len(found) <= 8 + alone


def requests(*pairs):
    return tuple(
        JobMove(f"job {number}: ", relayout_move(gl.parse_shape(source), gl.parse_shape(target)), 0, 0)
        for number, (source, target) in enumerate(pairs)
    )


SMALL = ("f32[8,8]", "f32[8,8]{0,1}")


@pytest.mark.parametrize(
    "source, target, why",
    [
        (f"u8[{SHARED_BYTES + 1}]", f"u8[{SHARED_BYTES + 1}]", "too many bytes"),
        ("f32[128,129]", "f32[128,129]{0,1}", "long runs through shared memory"),
        ("u8[2,3,2,3,2,3]", "u8[2,3,2,3,2,3]{0,1,2,3,4,5}", "six axes"),
        ("u8[2,3]", "u8[2,3]{0,1:PD(2,3)}", None),
        ("u8[2,3]{0,1:PD(2147483647,3)}", "u8[2,3]{1,0}", "offsets of 64 bits"),
        (f"u8[{SHARED_BYTES}]", f"u8[{SHARED_BYTES}]", None),
        ("f32[128,128]", "f32[128,128]{0,1}", None),
    ],
)
def test_large_moves_get_a_launch_of_their_own(source, target, why):
    request = requests((source, target))[0]
    assert (small_move(*request[1:]) is None) == (why is not None), why
    plan = many_plan(requests((source, target), SMALL, SMALL))
    if why:
        assert plan.alone == (0,) and plan.shared[0].members == (1, 2) and plan.launch_count == 2
    assert SHARED_TILE_BYTES == 128 * 128 * 4


def test_nothing_to_write_takes_no_launch_and_one_job_its_own_kernel():
    assert many_plan(()).launch_count == many_plan(requests(("f32[0]", "f32[0]"))).launch_count == 0
    assert many_plan(requests(SMALL)).alone == (0,)
    plan = many_plan(requests(*[SMALL] * (JOBS[2] + 1)))
    assert [len(launch.members) for launch in plan.shared] == [JOBS[2]] and plan.alone == (JOBS[2],)


def test_plans_are_values_that_print():
    plan = many_plan(requests(SMALL, SMALL))
    assert plan == many_plan(requests(SMALL, SMALL)) and hash(plan)
    assert str(plan) == (
        "ManyPlan(shared=(SharedLaunch(members=(0, 1), macros=(('GPL_ELEMENT_BYTES', 4), ('GPL_INDEX_BITS', 32), "
        "('GPL_AXES', 2), ('GPL_JOBS', 44)), grid=(2, 1), file='many.cu', kernel='gpl_many'),), alone=())"
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.alone = ()


# ---- errors ---------------------------------------------------------------------------------------------------


def good(executor):
    return executor.array(np.arange(6, dtype=np.float32)), "f32[2,3]", "{0,1}"


def spoiled(executor, **changes):
    """(buffer, source, target, out) of a good job, with some of them changed."""
    buffer, source, target = good(executor)
    values = {
        "buffer": buffer,
        "source": source,
        "target": target,
        "out": executor.array(np.full(6, 7, np.float32)),
    } | changes
    return tuple(values.values())


BAD = {
    "wrong dtype": lambda ex: {"buffer": ex.array(np.arange(6))},
    "too small": lambda ex: {"buffer": ex.array(np.arange(5, dtype=np.float32))},
    "two dimensions": lambda ex: {"buffer": ex.array(np.zeros((3, 2), np.float32))},
    "not contiguous": lambda ex: {"buffer": ex.array(np.zeros(12, np.float32))[::2]},
    "not an array": lambda ex: {"buffer": "text"},
    "not a shape": lambda ex: {"source": 5},
    "not the text of a shape": lambda ex: {"source": "f32[2,"},
    "not a layout": lambda ex: {"target": "{0,0}"},
    "another array": lambda ex: {"target": "f32[3,2]"},
    "out of a wrong dtype": lambda ex: {"out": ex.array(np.zeros(6, np.int32))},
    "out too small": lambda ex: {"out": ex.array(np.zeros(5, np.float32))},
    "out not an array": lambda ex: {"out": 5},
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("place", (0, 2))
def test_an_error_is_that_of_relayout_with_the_jobs_number_and_nothing_is_written(executor, name, place):
    *bad, bad_out = spoiled(executor, **BAD[name](executor))
    with pytest.raises(Exception) as alone:
        gl.relayout(*bad, out=bad_out)
    jobs, outs = [good(executor) for _ in range(3)], [executor.array(np.full(6, 7, np.float32)) for _ in range(3)]
    jobs[place], outs[place] = tuple(bad), bad_out
    with launches(executor) as found, pytest.raises(type(alone.value)) as raised:
        gl.relayout_many(jobs, out=outs)
    assert type(raised.value) is type(alone.value) and str(raised.value) == f"job {place}: {alone.value}"
    assert getattr(raised.value, "position", None) == getattr(alone.value, "position", None)
    assert not found
    assert all(executor.host(out).tolist() == [7] * 6 for i, out in enumerate(outs) if i != place)


def test_a_read_only_out_and_its_own_buffer_are_refused(executor):
    buffer = np.arange(6, dtype=np.float32)
    locked = np.zeros(6, np.float32)
    locked.flags.writeable = False
    if executor.name != "cupy":
        with pytest.raises(BufferError, match="^job 1: out is read-only: it cannot be written to$"):
            gl.relayout_many([good(executor)] * 2, out=[None, locked])
    buffer = executor.array(buffer)
    with pytest.raises(
        BufferError, match="^job 1: buffer and out overlap in memory: out must be separate memory, because "
    ):
        gl.relayout_many([good(executor), (buffer, "f32[2,3]", "{0,1}")], out=[None, buffer])


@pytest.mark.parametrize(
    "job, message",
    [
        (5, "job 1 is an int: it must be (buffer, source, target)"),
        ("abc", "job 1 is a str: it must be (buffer, source, target)"),
        ((1, 2), "job 1 has 2 parts: it must be (buffer, source, target)"),
    ],
)
def test_malformed_jobs_are_refused(executor, job, message):
    with pytest.raises(TypeError, match=r"^jobs is an int: it must be a list of \(buffer, source, target\)$"):
        gl.relayout_many(5)
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        gl.relayout_many([good(executor), job])


@pytest.mark.parametrize(
    "out, kind, message",
    [
        ([None], ValueError, "out has 1 buffer for 2 jobs: it needs one or None per job"),
        ([], ValueError, "out has 0 buffers for 2 jobs: it needs one or None per job"),
        (np.zeros(2), TypeError, "out is an ndarray: it must be a list with one buffer or None per job"),
        ("ab", TypeError, "out is a str: it must be a list with one buffer or None per job"),
    ],
)
def test_malformed_lists_of_outputs_are_refused(executor, out, kind, message):
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        gl.relayout_many([good(executor)] * 2, out=out)


@pytest.mark.parametrize("first, second", [(0, 0), (0, 5), (5, 0), (2, 4)])
def test_outputs_that_overlap_each_other_are_refused(executor, first, second):
    memory = executor.array(np.full(30, 7, np.float32))
    message = "^out of job [02] and out of job [02] overlap in memory: out of job [02] must be separate memory$"
    with pytest.raises(BufferError, match=message):
        gl.relayout_many([good(executor)] * 3, out=[memory[first : first + 6], None, memory[second : second + 6]])
    assert executor.host(memory).tolist() == [7] * 30


@pytest.mark.parametrize("start", (0, 5, 7, 12))
def test_an_output_over_another_jobs_buffer_is_refused(executor, start):
    memory = executor.array(np.full(30, 7, np.float32))
    job = (memory[7:13], "f32[2,3]", "{0,1}")
    message = "^buffer of job 1 and out of job 0 overlap in memory: out of job 0 must be separate memory$"
    with pytest.raises(BufferError, match=message):
        gl.relayout_many([good(executor), job], out=[memory[start : start + 8], None], strict=False)
    assert executor.host(memory).tolist() == [7] * 30


def test_an_overlap_is_found_past_buffers_that_lie_between(executor):
    """The array with the furthest end counts, not the one that starts last."""
    memory = executor.array(np.full(100, 7, np.float32))
    jobs = [(memory[:90], "f32[2,3]", "{0,1}"), (memory[2:8], "f32[2,3]", "{0,1}"), good(executor)]
    with pytest.raises(BufferError, match="^buffer of job 0 and out of job 2 overlap"):
        gl.relayout_many(jobs, out=[None, None, memory[50:56]], strict=False)


def test_inputs_may_overlap_and_outputs_may_touch(executor):
    memory = executor.array(np.full(12, 7, np.float32))
    job = good(executor)
    gl.relayout_many([job, job, (job[0][:0], "f32[0]", "f32[0]")], out=[memory[:6], memory[6:], memory[3:3]])
    assert executor.host(memory).tolist() == [0, 3, 1, 4, 2, 5] * 2


def test_an_address_no_kernel_can_reach_is_refused_before_any_launch(executor):
    if not isinstance(executor.backend, CudaBackend):
        pytest.skip("NumPy reaches every address")
    shifted, _ = guarded(executor, np.float32, 6, phase=2)
    outs = [executor.array(np.full(6, 7, np.float32)) for _ in range(2)]
    with (
        launches(executor) as found,
        pytest.raises(BufferError, match="^job 1: source address is 2 past a multiple of 16"),
    ):
        gl.relayout_many([good(executor), (shifted, "f32[2,3]", "{0,1}")], out=outs)
    assert not found and executor.host(outs[0]).tolist() == [7] * 6
