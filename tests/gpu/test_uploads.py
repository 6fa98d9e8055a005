"""The parameters of moves with arithmetic are copied to a device once, and kept as long as the plan."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.gpu.uploads import PER_THREAD, Parameters, Uploads
from tests.gpu.test_streams import keep_busy
from tests.support import fake_cuda
from tests.support.device_arrays import host_buffer, on_gpu_alone, same_bytes
from tests.support.gpu_gate import needs_devices, needs_late_work
from tests.support.prepared import LAUNCH, kinds
from tests.support.waiting import HANG

SHAPE, SIZES = "s8[64,96]", (64, 96)
MEAN, STD = np.float32([0.1, 0.2, 0.3]), np.float32([2, 3, 4])


def scaled(scale, shape=SHAPE):
    return gl.plan(shape, "{0,1}", dtype="f32", scale=scale)


def numbers(seed=0, sizes=SIZES):
    return np.random.default_rng(seed).random(sizes, np.float32)


def arrays(cp, plan, seed=0):
    """(bytes on the host, buffer, out) on the current device."""
    given = host_buffer(plan.source, seed)
    return given, cp.asarray(given), cp.zeros(plan.target.buffer_size, np.float32)


# ---- what reaches the device: on the imitation of CuPy --------------------------------------------------------------


@pytest.mark.simt
@pytest.mark.parametrize("sizes", [(1,), (96,), SIZES], ids=str)
def test_a_second_call_is_one_launch_and_nothing_else(cupy, sizes):
    plan = scaled(numbers(sizes=sizes))
    given, buffer, out = arrays(cupy, plan)
    plan(buffer, out=out)
    for _ in range(2):
        fake_cuda.calls.clear()
        assert plan(buffer, out=out) is out and kinds() == [LAUNCH]
        assert same_bytes(cupy, out, plan(given))
    fake_cuda.calls.clear()
    assert same_bytes(cupy, plan(buffer), plan(given)) and kinds() == ["allocate", LAUNCH, "synchronize"]


@pytest.mark.simt
def test_the_pieces_of_a_tiled_plan_share_one_copy(cupy):
    plan = gl.plan("u8[30,43]{1,0:T(7,8)}", "{0,1:PV(3)L(32)}", dtype="f32", scale=numbers(sizes=(43,)))
    given, buffer, out = arrays(cupy, plan)
    launches = sum(piece.move.place_count > 0 for piece in plan.pieces)
    assert launches > 4
    for copies in (["copy"], []):
        fake_cuda.calls.clear()
        plan(buffer, out=out)
        assert [kind for kind in kinds() if kind == "copy"] == copies and kinds().count(LAUNCH) == launches
        assert same_bytes(cupy, out, plan(given))


@pytest.mark.simt
def test_calls_without_a_plan_copy_small_parameters_once(cupy):
    image, out = cupy.asarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)), cupy.zeros((3, 8, 8), np.float32)

    def call(mean):
        fake_cuda.calls.clear()
        gl.transpose(image, "h w c -> c h w", dtype="f32", unit=True, mean=mean, std=STD, out=out)
        found = kinds()
        expected = gl.transpose(image.get(), "h w c -> c h w", dtype="f32", unit=True, mean=mean, std=STD)
        assert same_bytes(cupy, out, expected)
        return found

    assert call(MEAN).count("copy") == 1
    assert call(MEAN.copy()) == [LAUNCH]
    mean = MEAN.copy()
    assert call(mean) == [LAUNCH]
    mean[1] = 5  # an array that the caller changes means other parameters
    assert call(mean).count("copy") == 1


@pytest.mark.simt
def test_few_copies_are_kept(cupy):
    """Neither of a plan that many streams use, nor by value; results are right all the same."""
    plan, backend = scaled(numbers()), gl.choices.backends.gpu_backend()
    given, buffer, out = arrays(cupy, plan)
    for number in range(3 * Parameters.MOST):
        with cupy.cuda.Stream():
            plan(buffer, out=out)
        gl.relayout(buffer, SHAPE, "{0,1}", dtype="f32", scale=float(number), out=cupy.zeros(64 * 96, np.float32))
        assert same_bytes(cupy, out, plan(given))
    assert 0 < len(_copies(plan)) <= Parameters.MOST
    for number in range(3 * Uploads.MOST):
        gl.relayout(buffer, SHAPE, "{0,1}", dtype="f32", scale=float(number), out=out)
        assert 0 < len(backend.uploads._small) <= Uploads.MOST
    assert same_bytes(cupy, out, gl.relayout(given, SHAPE, "{0,1}", dtype="f32", scale=float(number)))


@pytest.mark.simt
def test_parameters_beyond_the_limit_are_copied_in_each_call(cupy, monkeypatch):
    monkeypatch.setattr(Parameters, "MOST_BYTES", 4 * 64 * 96 - 1)
    plan = scaled(numbers())
    given, buffer, out = arrays(cupy, plan)
    for _ in range(2):
        fake_cuda.calls.clear()
        plan(buffer, out=out)
        assert kinds().count("copy") == 1 and not _copies(plan)
        assert same_bytes(cupy, out, plan(given))


@pytest.mark.simt
def test_a_stream_of_each_thread_shares_nothing(cupy):
    """Its number is the same in all threads."""
    plan = scaled(np.float32(3))
    given, buffer, out = arrays(cupy, plan)
    for _ in range(2):
        fake_cuda.calls.clear()
        with cupy.cuda.Stream(PER_THREAD):
            plan(buffer, out=out)
        assert kinds().count("copy") == 1 and same_bytes(cupy, out, plan(given))


def _copies(plan):
    return plan.request.prepared[gl.choices.backends.gpu_backend()]._parameters._copies


def _copy_of(plan):
    (copy,) = _copies(plan).values()
    return copy


# ---- results, streams and lifetimes: on the imitation, and on CuPy --------------------------------------------------


def test_parameters_that_the_caller_changes_afterwards(cp):
    """A plan keeps the numbers that it was made of, and a later plan takes the new ones."""
    scale = numbers()
    first = scaled(scale)
    given, buffer, out = arrays(cp, first)
    old = first(given)
    assert same_bytes(cp, first(buffer, out=out), old)
    scale *= 2
    assert same_bytes(cp, first(buffer, out=out), old)
    second = scaled(scale)
    new = second(given)
    assert same_bytes(cp, second(buffer, out=out), new) and new.tobytes() != old.tobytes()
    assert same_bytes(cp, first(buffer, out=out), old)


def test_plans_that_differ_only_in_parameters(cp):
    plans = [scaled(numbers(seed)) for seed in range(3)]
    given, buffer, out = arrays(cp, plans[0])
    for plan in plans * 2:
        assert same_bytes(cp, plan(buffer, out=out), plan(given))


def test_arrays_that_overlap_are_found_in_a_repeated_call(cp):
    plan = gl.plan("f32[64,96]", "{1,0}", scale=numbers())
    memory = cp.zeros(2 * 64 * 96, np.float32)
    for _ in range(2):
        plan(memory[: 64 * 96], out=memory[64 * 96 :])
    with pytest.raises(BufferError, match="overlap"):
        plan(memory[: 64 * 96], out=memory[4 : 4 + 64 * 96])
    assert not cp.asnumpy(memory).any()


def test_in_place_too_the_parameters_are_copied_once(cp):
    plan = gl.plan("f32[64,96]", "{0,1}", scale=numbers())
    given = numbers(1).reshape(-1)  # no nan, whose bits differ between processors
    for _ in range(2):
        buffer = cp.asarray(given)
        assert plan(buffer, out=buffer) is buffer
        assert same_bytes(cp, buffer, plan(given))


def test_threads_with_streams_of_their_own_share_a_plan_with_parameters(cp):
    plan = scaled(numbers())

    def work(number):
        with cp.cuda.Stream(non_blocking=True) as stream:
            given, buffer, out = arrays(cp, plan, number)
            stream.synchronize()
            for _ in range(10):
                plan(buffer, out=out)
            stream.synchronize()
            return same_bytes(cp, out, plan(given))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(12), timeout=HANG)) == [True] * 12


def test_each_device_has_its_own_copy(cp):
    count = cp.cuda.runtime.getDeviceCount()
    if count < 2:
        pytest.skip(needs_devices(2, count))
    plan, placed = scaled(numbers()), []
    for device in (0, 1):
        with cp.cuda.Device(device):
            placed.append((device, *arrays(cp, plan, device)))
            cp.cuda.get_current_stream().synchronize()
    for _ in range(2):
        for device, given, buffer, out in placed:
            plan(buffer, out=out)
            with cp.cuda.Device(device):
                assert same_bytes(cp, out, plan(given))


@pytest.mark.usefixtures("quick_collections")
def test_a_plan_goes_with_its_copies(cp):
    plan = scaled(numbers())
    _, buffer, out = arrays(cp, plan)
    plan(buffer, out=out)
    gone = weakref.ref(_copy_of(plan).memory)
    del plan
    gc.collect()
    assert gone() is None


@pytest.fixture
def late_copies(cp, monkeypatch):
    """Copies take their turn in the stream; some releases of CuPy wait for those of `cupy.asarray`."""

    def upload(self, values, device):
        memory = cp.empty(values.shape, values.dtype)
        memory.set(values)
        return memory, memory.data.ptr

    monkeypatch.setattr(gl.choices.backends.gpu_module().CupyRuntime, "upload", upload)


@on_gpu_alone
def test_a_plan_that_is_dropped_while_its_launch_waits(cp, late_copies):
    """The memory of its parameters is written by what comes later in its stream, and by no other stream."""
    needs_late_work()
    with cp.cuda.Stream(non_blocking=True) as stream:
        plan = scaled(numbers())
        given, buffer, out = arrays(cp, plan)
        expected = plan(given)
        plan(buffer, out=out)  # loads the kernel
        stream.synchronize()
        keep_busy(cp)
        out[...] = 0
        plan(buffer, out=out)
        address = _copy_of(plan).address
        del plan
        later = [cp.full(SIZES, 9, np.float32) for _ in range(4)]
        with cp.cuda.Stream.null:
            elsewhere = [cp.full(SIZES, 8, np.float32) for _ in range(4)]
            cp.cuda.Stream.null.synchronize()
        running = not stream.done
        stream.synchronize()
    assert running and same_bytes(cp, out, expected)
    assert address in [each.data.ptr for each in later] and address not in [each.data.ptr for each in elsewhere]


@on_gpu_alone
def test_a_second_stream_does_not_read_a_copy_that_the_first_has_not_made(cp, late_copies):
    plan = scaled(numbers())
    given, buffer, out = arrays(cp, plan)
    other = cp.empty_like(out)
    first, second = (cp.cuda.Stream(non_blocking=True) for _ in range(2))
    scaled(numbers(1))(buffer, out=out)  # loads the kernel
    cp.cuda.Device().synchronize()
    with first:
        keep_busy(cp)
        plan(buffer, out=other)
    with second:
        plan(buffer, out=out)
        second.synchronize()
        running = not first.done
        assert same_bytes(cp, out, plan(given))
    first.synchronize()
    assert running, "the second stream waited for the first"


@on_gpu_alone
def test_a_capture_is_refused_before_and_after_a_first_call_and_stays_valid(cp):
    plan, plain = scaled(numbers()), gl.plan(SHAPE, "{0,1}", dtype="f32")
    given, buffer, out = arrays(cp, plan)
    with cp.cuda.Stream(non_blocking=True) as stream:
        for _ in range(2):
            cp.cuda.Device().synchronize()
            plain(buffer, out=out)
            stream.synchronize()
            stream.begin_capture()
            with pytest.raises(BufferError, match="cannot be captured in a CUDA graph if it has parameters"):
                plan(buffer, out=out)
            plain(buffer, out=out)
            graph = stream.end_capture()
            out[...] = 0
            graph.launch(stream)
            assert same_bytes(cp, out, plain(given))
            assert same_bytes(cp, plan(buffer, out=out), plan(given))
