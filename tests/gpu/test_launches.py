"""What one call sends to the device, recorded by a fake CuPy that lists every allocation, copy, wait and launch.

A prepared plan with `out` is one launch and nothing else, so it can be captured in a CUDA graph, and many threads can
share it.
"""

import collections

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.choices import backends
from gpulayout.gpu import run as cuda_run
from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.running import request
from tests.support import executors, fake_cuda
from tests.support.prepared import LAUNCH, expected, kinds, numbers, prepared

pytestmark = [
    pytest.mark.simt,
    pytest.mark.skipif(executors.simt_missing() is not None, reason=str(executors.simt_missing())),
]

FAMILIES = {
    "copy": ("f32[300]", "{0}"),
    "rows": ("f32[5,7,48]", "{2,0,1}"),
    "tile": ("f32[64,96]", "{0,1}"),
    "tile, odd and padded": ("u8[61,37]", "{0,1:PD(64,40)PV(7)}"),
    "tile of many axes": ("f64[7,5,6,3,9]", "{1,3,2,0,4}"),
    "gather": ("f32[2,3,2,3,2]", "{0,1,2,3,4}"),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_plan_with_out_is_one_launch_and_nothing_else(cupy, family, monkeypatch):
    made, real = [], cupy.backend_module.ArgumentBlocks
    monkeypatch.setattr(cupy.backend_module, "ArgumentBlocks", lambda *given: made.append(real(*given)) or made[-1])
    plan, buffer, out = prepared(cupy, *FAMILIES[family])
    assert kernel_plan(plan.move).family == family.partition(",")[0].partition(" ")[0]
    buffer += 1
    out[...] = 0
    for _ in range(3):
        assert plan(buffer, out=out) is out
    assert kinds() == [LAUNCH] * 3
    assert [len(blocks.free) for blocks in made] == [1]  # every launch gave its block back
    assert out.tolist() == expected(plan, buffer)


def test_the_first_call_is_one_launch_too(cupy):
    buffer, out = numbers(cupy, 12), cupy.empty(12, np.float32)
    fake_cuda.calls.clear()
    gl.relayout(buffer, "f32[3,4]", "{0,1}", out=out)
    assert kinds() == [LAUNCH]


def test_without_out_the_result_is_all_that_is_allocated(cupy):
    plan, buffer, _ = prepared(cupy)
    found = plan(buffer)
    assert kinds() == ["allocate", LAUNCH] and found.tolist() == expected(plan, buffer)


CALLS = {
    "plan": lambda buffer, matrix: gl.plan("f32[12,20]", "{0,1}")(buffer),
    "relayout": lambda buffer, matrix: gl.relayout(buffer, "f32[12,20]", "{0,1}"),
    "relayout of several pieces": lambda buffer, matrix: gl.relayout(buffer, "f32[12,20]", "{1,0:T(5,7)}"),
    "pack": lambda buffer, matrix: gl.pack(matrix, "f32[12,20]{0,1:PD(13,20)}"),
    "pack, a layout's text": lambda buffer, matrix: gl.pack(matrix, "{0,1}"),
    "pack, a layout": lambda buffer, matrix: gl.pack(matrix.T, gl.Layout((0, 1))),
    "unpack": lambda buffer, matrix: gl.unpack(buffer, "f32[12,20]{0,1}"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_without_out_prepares_its_launch_once_and_never_again(cupy, monkeypatch, name):
    """In any number of calls, pieces and launch are prepared once, and nothing is checked again."""
    counts = collections.Counter()

    def counted(owner, function, word):
        real = getattr(owner, function)
        monkeypatch.setattr(owner, function, lambda *given, **named: counts.update([word]) or real(*given, **named))

    counted(cuda_run.CudaBackend, "prepare", "pieces")
    counted(cuda_run.CudaBackend, "start_of_move", "launch")
    counted(cuda_run.CudaBackend, "start_of_pieces", "launch")
    counted(request.Request, "source_memory", "check")
    buffer = numbers(cupy, 240)
    matrix = buffer.reshape(12, 20)
    first = CALLS[name](buffer, matrix).tolist()
    assert counts["pieces"] == counts["launch"] == 1 and counts["check"]
    counts.clear()
    fake_cuda.calls.clear()
    assert [CALLS[name](buffer, matrix).tolist() for _ in range(3)] == [first] * 3
    assert not counts and kinds() == ["allocate", LAUNCH] * 3
    buffer += 1
    assert CALLS[name](buffer, matrix).tolist() != first  # each call writes its new array


@pytest.fixture
def launched(monkeypatch):
    """(device, both addresses modulo 16 as prepared for, both as given) of every launch."""
    found, real = [], cuda_run.CudaBackend.start_of_move

    def start_of_move(self, move, source_phase, target_phase, device):
        start = real(self, move, source_phase, target_phase, device)
        return lambda *addresses: (
            found.append((device, (source_phase, target_phase), tuple(a % 16 for a in addresses))) or start(*addresses)
        )

    monkeypatch.setattr(cuda_run.CudaBackend, "start_of_move", start_of_move)
    return found


def test_without_out_other_buffers_and_devices_are_met_with_their_own_launch(cupy, launched):
    plan, _, _ = prepared(cupy)
    memory = numbers(cupy, 600)
    with cupy.cuda.Device(1):
        elsewhere = numbers(cupy, 240, first=7)
    for _ in range(2):
        for buffer in (memory[:240], memory[1:241], elsewhere, memory[2:242]):
            found = plan(buffer)
            assert found.tolist() == expected(plan, buffer) and found.device == buffer.device
            device, planned, given = launched[-1]
            assert planned == given == (buffer.data.ptr % 16, 0) and device == buffer.data.device_id
    with pytest.raises(BufferError, match="^buffer has 239 elements, but f32"):
        plan(memory[:239])
    with pytest.raises(TypeError, match="^buffer has dtype int32"):
        plan(memory[:240].view(np.int32))


def test_new_memory_at_any_address_gets_the_launch_that_it_needs(cupy, monkeypatch, launched):
    """CuPy's allocators return multiples of 256; a user's allocator may return other addresses."""
    plan, buffer, _ = prepared(cupy)
    backend, room = backends.gpu_backend(), cupy.zeros(1000, np.float32)
    for first in (1, 0, 4, 3, 1, 0):
        monkeypatch.setattr(backend, "empty", lambda shape, dtype, like: room[first : first + 240])
        room[...] = 0
        buffer += 1
        assert plan(buffer).tolist() == expected(plan, buffer)
        assert not room[:first].any() and not room[first + 240 :].any()
    assert all(planned == given for _, planned, given in launched) and len({given for _, _, given in launched}) == 3


def test_a_prepared_plan_moves_between_other_buffers_too(cupy):
    plan, _, _ = prepared(cupy)
    memory, room = numbers(cupy, 600), cupy.empty(600, np.float32)
    for first in (0, 4, 1, 7, 13, 0, 1):
        buffer, out = memory[first : first + 240], room[2 * first : 2 * first + 240]
        assert plan(buffer, out=out) is out
        assert out.tolist() == expected(plan, buffer)
    assert kinds()[-7:] == [LAUNCH] * 7
    kept = plan.request.prepared[backends.gpu_backend()]
    assert len(kept.kinds) >= 3  # buffers at other phases have launches of their own


def test_targets_say_nothing_of_new_results(cupy):
    """Whatever the length of the outputs before it, a new result has the length that the plan says."""
    plan, buffer, _ = prepared(cupy)
    for length in range(240, 280, 4):
        out = cupy.empty(length, np.float32)
        assert plan(buffer).tolist() == expected(plan, buffer)
        assert plan(buffer, out=out, strict=False) is out and out[:240].tolist() == expected(plan, buffer)
        assert plan(buffer).tolist() == expected(plan, buffer)


def test_not_every_length_of_a_buffer_is_remembered(cupy):
    plan, _, _ = prepared(cupy)
    memory, room = numbers(cupy, 1000), cupy.empty(1000, np.float32)
    for length in range(240, 400):
        room[...] = 0
        plan(memory[:length], out=room[:length], strict=False)
        assert room[:240].tolist() == expected(plan, memory[:240]) and not room[240:].any()
    kept = plan.request.lenient.prepared[backends.gpu_backend()]
    assert 0 < len(kept.kinds) <= kept.MOST


def test_the_small_pieces_of_a_tiled_relayout_are_one_launch_each_time(cupy):
    """30 rows are 4 tiles of 7 and 2 rows; 43 columns are 5 tiles of 8 and 3 columns; the padding is a fifth piece."""
    plan, buffer, out = prepared(cupy, "f32[30,43]{1,0:T(7,8)}", "{0,1:PV(3)L(32)}")
    assert len(plan.pieces) > 4
    for first in (0, 1):
        buffer += first
        fake_cuda.calls.clear()
        assert plan(buffer, out=out) is out and plan(buffer, out=out) is out
        assert kinds() == [LAUNCH] * 2 and out.tolist() == expected(plan, buffer)
    memory, room = numbers(cupy, 5000), cupy.empty(5000, np.float32)
    for first in (0, 1, 6, 0):
        source, target = (
            memory[first : first + plan.source.buffer_size],
            room[3 * first : 3 * first + plan.target.buffer_size],
        )
        assert plan(source, out=target).tolist() == expected(plan, source)


# ---- index conversion and lists of moves -------------------------------------------------------------------------

PADDED = "f32[4,6]{0,1:PD(5,8)}"


@pytest.mark.parametrize("mode", ["wrap", "clip"])
def test_index_conversion_that_accepts_every_index_is_one_launch(cupy, mode):
    index = cupy.asarray(np.array([[-1, 2, 9], [7, 0, -3]]))
    out = cupy.empty(3, np.int64)
    result = gl.linearize(np.array(index.view(np.ndarray)), PADDED, mode=mode).tolist()
    fake_cuda.calls.clear()
    assert gl.linearize(index, PADDED, mode=mode, out=out) is out
    assert kinds() == [LAUNCH] and out.tolist() == result
    fake_cuda.calls.clear()
    assert gl.linearize(index, PADDED, mode=mode).tolist() == result
    assert kinds() == ["allocate", LAUNCH]
    fake_cuda.calls.clear()
    assert gl.linearize((index[0], index[1]), PADDED, mode=mode).tolist() == result
    assert kinds() == ["allocate", LAUNCH]


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
@pytest.mark.parametrize("mode", ["wrap", "clip"])
def test_index_arrays_that_broadcast_go_into_out_in_one_launch(cupy, mode, dtype):
    rows, columns = np.array([[-1], [2], [9]], np.int8), np.array([7, 0, -3, 5, 1], np.int32)
    expected_places = gl.linearize((rows, columns), PADDED, mode=mode)
    given, out = (cupy.asarray(rows), cupy.asarray(columns)), cupy.asarray(np.zeros((3, 5), dtype))
    fake_cuda.calls.clear()
    assert gl.linearize(given, PADDED, mode=mode, out=out) is out
    assert kinds() == [LAUNCH] and out.tolist() == expected_places.tolist()
    # the result overlaps an index array, which is copied first
    shared = cupy.asarray(np.arange(-20, 20, dtype=np.int64))
    expected_places = gl.linearize((np.arange(-18, 2), 1), PADDED, mode=mode).tolist()
    assert gl.linearize((shared[2:22], 1), PADDED, mode=mode, out=shared[:20]).tolist() == expected_places
    with pytest.raises(BufferError, match=r"^out has shape \(2,\), but the result has shape \(3, 5\)$"):
        gl.linearize(given, PADDED, mode=mode, out=cupy.asarray(np.zeros(2, dtype)))


def test_only_an_index_that_may_be_refused_costs_a_flag_and_a_wait(cupy):
    index, linear = cupy.asarray(np.zeros((2, 3), np.int64)), cupy.asarray(np.array([0, 4, 6]))
    looking = ["allocate", "memset", LAUNCH, "synchronize"]
    for call, result in [
        (lambda: gl.linearize(index, PADDED), [0] * 3),
        (lambda: gl.linearize((index[0], index[1]), PADDED), [0] * 3),
        (lambda: gl.delinearize(linear, PADDED, padding="mark"), [[0, -1, 1], [0, -1, 1]]),
    ]:
        fake_cuda.calls.clear()
        assert call().tolist() == result
        assert kinds() == ["allocate", *looking]


@pytest.mark.parametrize("padding", ["raise", "mark"])
def test_into_an_array_of_the_caller_indices_are_checked_before_they_are_converted(cupy, padding):
    """Two launches and one wait; an error comes after the first, and is that of a call without `out`."""
    out, wide = cupy.asarray(np.full(3, 7)), cupy.asarray(np.full((2, 3), 7))
    good, bad = [0, 5, 6], [0, 40, 41]
    calls = [
        (lambda given, out: gl.delinearize(given, PADDED, padding=padding, out=out), wide, good, bad),
        (lambda given, out: gl.convert_linear(given, PADDED, "{1,0}", padding=padding, out=out), out, good, bad),
        (lambda given, out: gl.linearize(given, PADDED, out=out), out, [[0, 1, 3], [5, 4, 0]], [[0, 4, 5], [0, 0, 0]]),
    ]
    for call, out, good, bad in calls:
        good, bad = cupy.asarray(np.array(good)), cupy.asarray(np.array(bad))
        before, looking = out.tolist(), ["allocate", "memset", LAUNCH]
        messages = []
        for target, begun in ((None, ["allocate", *looking]), (out, looking)):
            fake_cuda.calls.clear()
            with pytest.raises(IndexError, match="at position 1 is out of bounds") as error:
                call(bad, target)
            assert kinds() == [*begun, "synchronize"]
            messages.append(str(error.value))
        assert messages[0] == messages[1] and out.tolist() == before
        fake_cuda.calls.clear()
        assert call(good, out) is out and kinds() == [*looking, "synchronize", *looking]
        assert out.tolist() == call(good, None).tolist()


def test_a_list_of_moves_with_outs_is_only_launches(cupy):
    plans = [gl.plan("f32[3,4]", "{0,1}"), gl.plan("f32[5,6]", "{0,1}"), gl.plan("u8[700,900]", "{0,1}")]
    jobs = [(numbers(cupy, p.source.buffer_size, p.source.dtype), p.source, p.target) for p in plans]
    outs = [cupy.empty(p.target.buffer_size, p.source.dtype) for p in plans]
    for _ in range(2):
        fake_cuda.calls.clear()
        assert gl.relayout_many(jobs, out=outs) == outs
        assert kinds() == [LAUNCH] * 2
    assert [out.tolist() for out in outs] == [expected(p, job[0]) for p, job in zip(plans, jobs)]


# ---- calls that are refused after a correct one --------------------------------------------------------------------


def refused(cupy, name, buffer, out):
    """(buffer, out) with one thing wrong."""
    with cupy.cuda.Device(1):
        elsewhere = cupy.empty(240, np.float32)
    memory = cupy.zeros(1000, np.uint8)
    room = cupy.zeros(400, np.float32)
    return {
        "short buffer": (buffer[:239], out),
        "short out": (buffer, out[:239]),
        "dtype": (buffer.view(np.int32), out),
        "dtype of out": (buffer, out.view(np.uint32)),
        "rank": (buffer.reshape(20, 12), out),
        "rank of out": (buffer, out.reshape(12, 20)),
        "steps": (cupy.zeros(480, np.float32)[::2], out),
        "device": (buffer, elsewhere),
        "misaligned in place": (memory[2:962].view(np.float32),) * 2,
        "overlap": (room[:240], room[160:]),
        "overlap from behind": (room[160:], room[:240]),
        "misaligned": (memory[2:962].view(np.float32), out),
        "misaligned out": (buffer, memory[2:962].view(np.float32)),
        "host out": (buffer, np.zeros(240, np.float32)),
        "host buffer": (np.zeros(240, np.float32), out),
        "no array": (buffer, [0.0] * 240),
    }[name]


@pytest.mark.parametrize(
    "name",
    [
        "short buffer",
        "short out",
        "dtype",
        "dtype of out",
        "rank",
        "rank of out",
        "steps",
        "device",
        "misaligned in place",
        "overlap",
        "overlap from behind",
        "misaligned",
        "misaligned out",
        "host out",
        "host buffer",
        "no array",
    ],
)
def test_a_call_that_cannot_be_is_refused_before_a_launch(cupy, name):
    plan, buffer, out = prepared(cupy)
    given = refused(cupy, name, buffer, out)
    before = [np.array(array) for array in given]
    fake_cuda.calls.clear()
    with pytest.raises((BufferError, TypeError)):
        plan(*given)
    assert LAUNCH not in kinds()
    assert all(np.array_equal(array, copy) for array, copy in zip(given, before))
    assert plan(buffer, out=out).tolist() == expected(plan, buffer)


def test_a_graph_that_captures_a_relayout_in_place_is_refused(cupy, monkeypatch):
    """Its workspace would hold other arrays when the graph runs."""
    plan, buffer, _ = prepared(cupy)
    before = np.array(buffer)
    monkeypatch.setattr(fake_cuda.Stream, "is_capturing", lambda stream: True)
    with pytest.raises(BufferError, match="cannot be captured in a CUDA graph"):
        plan(buffer, out=buffer)
    assert LAUNCH not in kinds() and np.array_equal(buffer, before)


def test_neighbours_that_touch_do_not_overlap(cupy):
    plan, _, _ = prepared(cupy)
    memory = numbers(cupy, 480)
    for first, second in ((memory[:240], memory[240:]), (memory[240:], memory[:240])):
        for _ in range(2):
            assert plan(first, out=second).tolist() == expected(plan, first)


def aligned_like(cupy, array, count):
    """A buffer of `count` f32 whose address equals that of an array modulo 16."""
    memory = cupy.zeros(count + 4, np.float32)
    return next(
        part
        for part in (memory[start : start + count] for start in range(4))
        if part.data.ptr % 16 == array.data.ptr % 16
    )


@pytest.mark.parametrize("kind", ("gaps", "reversed", "unpack", "transpose"))
def test_a_remembered_call_sees_an_overlap_with_what_strides_reach(cupy, kind):
    """Arrays with gaps span more than the bytes of their elements, and negative strides reach below the address."""
    memory = cupy.zeros(400, np.float32)
    strided = {
        "gaps": memory[0:200:2],
        "reversed": memory[199::-1][:100],
        "unpack": memory[0:200:2],
        "transpose": memory[0:400].reshape(20, 20)[:, :5],
    }[kind]
    # wholly below the address of the reversed array
    inside = memory[95:195] if kind == "reversed" else memory[150:250]
    far = aligned_like(cupy, inside, 100)
    call = {
        "gaps": lambda out: gl.pack(strided, "f32[100]", out=out),
        "reversed": lambda out: gl.pack(strided, "f32[100]", out=out),
        "unpack": lambda buffer: gl.unpack(buffer, "f32[100]", out=strided),
        "transpose": lambda out: gl.transpose(strided, out=out.reshape(5, 20)),
    }[kind]
    call(far)
    for _ in range(2):
        with pytest.raises(BufferError, match="overlap in memory"):
            call(inside)
        call(far)


@pytest.mark.parametrize("shape", ("f32[2,3]", "f32[16,256]{1,0:T(8,128)}"))
def test_plain_operands_go_to_the_device_of_the_arrays(cupy, shape):
    with cupy.cuda.Device(1):
        columns = cupy.asarray(np.arange(2))
    for operands in ((1, columns), (columns, 1), ([0, 1], columns)):
        fake_cuda.calls.clear()
        assert gl.linearize(operands, shape).device.id == 1
        assert {call[2] for call in fake_cuda.calls if call[0] == LAUNCH} == {1}
