"""Calls on tensors run on torch's current stream, and on JAX's arrays in DLPack's order; no memory is reused too early.

The real CuPy runs them, on a GPU or over the stand-in, whose work runs as late as CUDA allows.  Imitations of torch and
JAX reuse freed memory at once.  Each law has versions of the library that break it, which the same check must find.
"""

import gc
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from gpulayout.choices import backends
from tests.gpu.test_streams import keep_busy
from tests.support import device_libraries
from tests.support.device_arrays import ON_GPU
from tests.support.foreign import READ_ONLY
from tests.support.gpu_gate import needs_devices, needs_late_work
from tests.support.waiting import HANG

pytestmark = [pytest.mark.parametrize("cp", [ON_GPU], indirect=True)]

SOURCE, TARGET = "f32[50,70]", "f32[50,70]{0,1:PD(50,71)PV(3)}"
VALUES = np.arange(3500, dtype=np.float32)
PLACES = np.indices((50, 70)).reshape(2, -1)
LINEAR, ROWS = np.arange(3500), np.arange(50)
CALLS = {
    "relayout": (VALUES, lambda given: gl.relayout(given, SOURCE, TARGET)),
    "plan": (VALUES, lambda given: gl.plan(SOURCE, TARGET)(given)),
    "relayout_many": (VALUES, lambda given: gl.relayout_many([(given, SOURCE, TARGET)])[0]),
    "pack": (VALUES.reshape(50, 70), lambda given: gl.pack(given, TARGET)),
    "unpack": (VALUES, lambda given: gl.unpack(given, "f32[50,70]{0,1}")),
    "transpose": (VALUES.reshape(50, 70), lambda given: gl.transpose(given)),
    "linearize": (PLACES, lambda given: gl.linearize(given, TARGET, mode="wrap")),
    "linearize, checked": (PLACES, lambda given: gl.linearize(given, TARGET)),
    "linearize, one array for each dimension": (ROWS, lambda given: gl.linearize((given, 3), TARGET, mode="wrap")),
    "the same with tiles": (ROWS, lambda given: gl.linearize((given, 3), "f32[50,70]{1,0:T(8,128)}", mode="wrap")),
    "delinearize": (LINEAR, lambda given: gl.delinearize(given, "f32[50,70]{0,1}", padding="mark")),
    "convert_linear": (LINEAR, lambda given: gl.convert_linear(given, SOURCE, TARGET)),
}
WITHOUT_WAIT = sorted(set(CALLS) - {"linearize, checked", "delinearize", "convert_linear"})


@pytest.fixture
def torch(cp, monkeypatch):
    made = device_libraries.torch_module(cp)
    monkeypatch.setitem(sys.modules, "torch", made)
    # Where the real torch has compiled something, the library would ask the imitation for its compiler.
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)
    yield made
    cp.cuda.Device().synchronize()


@pytest.fixture
def jax(cp, monkeypatch):
    made = device_libraries.jax_module(cp)
    monkeypatch.setitem(sys.modules, "jax", made)
    yield made
    cp.cuda.Device().synchronize()


def second_device(cp):
    count = cp.cuda.runtime.getDeviceCount()
    if count < 2:
        pytest.skip(needs_devices(2, count))
    return 1


def equal(array, stream, expected):
    """Whether an array holds this, once one stream is done and whatever others do."""
    with array.device:
        return array.get(stream=stream).tobytes() == np.asarray(expected).tobytes()


# ---- torch: the stream -----------------------------------------------------------------------------------------------


def runs_on_torchs_stream(cp, torch, name, device=0):
    """Whether the call comes after what the stream held before, and before what comes next in that stream."""
    values, call = CALLS[name]
    expected, right = call(values), []
    for stream in [torch.cuda.Stream(device) for _ in range(3)]:
        with torch.cuda.stream(stream):
            given = torch.tensor(values, device)
            result = call(given)
            assert type(result) is torch.Tensor and result.device.index == device
            with cp.cuda.Device(device), stream.cupy:
                given.array.fill(1)
                late = result.array.copy()
        right.append(equal(late, stream.cupy, expected))
        assert cp.cuda.Device().id == 0 and cp.cuda.get_current_stream() == cp.cuda.Stream.null
    return all(right)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_on_a_tensor_runs_on_torchs_current_stream(cp, torch, name):
    assert runs_on_torchs_stream(cp, torch, name)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_on_a_tensor_runs_on_the_tensors_device(cp, torch, name):
    assert runs_on_torchs_stream(cp, torch, name, second_device(cp))


@pytest.mark.parametrize("name", WITHOUT_WAIT)
def test_on_another_stream_the_result_would_be_wrong(cp, torch, name, monkeypatch):
    needs_late_work()
    runtime = backends.gpu_module()
    monkeypatch.setattr(runtime, "on_stream", lambda device, pointer: cp.cuda.Device(device))
    assert not runs_on_torchs_stream(cp, torch, name)


@pytest.mark.parametrize("name", WITHOUT_WAIT)
def test_on_the_stream_of_an_earlier_call_the_result_would_be_wrong(cp, torch, name, monkeypatch):
    needs_late_work()
    runtime, first = backends.gpu_module(), []
    on_stream = runtime.on_stream
    monkeypatch.setattr(
        runtime, "on_stream", lambda device, pointer: on_stream(device, (first.append(pointer), first[0])[1])
    )
    assert not runs_on_torchs_stream(cp, torch, name)


def streams_with_tensors(cp, torch, device=0):
    """Whether `plan.stream` comes after what torch's stream held before, from a tensor and into one."""
    plan, right = gl.plan(SOURCE, TARGET), []
    expected = plan(VALUES)
    for stream in [torch.cuda.Stream(device) for _ in range(3)]:
        with torch.cuda.stream(stream):
            given, target = torch.tensor(VALUES, device), torch.tensor(np.zeros(3550, np.float32), device)
            with cp.cuda.Device(device), stream.cupy:
                before = target.array.copy()
            assert plan.stream(VALUES, out=target, max_bytes=4096) is target
            right.append(not equal(before, stream.cupy, expected) and equal(target.array, stream.cupy, expected))
            out = plan.stream(given, out=np.zeros(3550, np.float32), max_bytes=4096)
        right.append(out.tobytes() == expected.tobytes())
        assert cp.cuda.Device().id == 0 and cp.cuda.get_current_stream() == cp.cuda.Stream.null
    return all(right)


def test_streams_with_tensors_come_after_torchs_current_stream(cp, torch):
    assert streams_with_tensors(cp, torch) and streams_with_tensors(cp, torch, second_device(cp))


def test_a_stream_reads_an_array_of_jax(cp, jax):
    plan = gl.plan(SOURCE, TARGET)
    out = plan.stream(jax.array(VALUES), out=np.zeros(3550, np.float32), max_bytes=4096)
    assert out.tobytes() == plan(VALUES).tobytes()


def test_the_host_does_not_wait_for_torchs_stream(cp, torch):
    plan = gl.plan(SOURCE, TARGET)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        plan(torch.tensor(VALUES))  # compiles
        stream.synchronize()
        given = torch.tensor(VALUES)
        stream.synchronize()
        with stream.cupy:
            keep_busy(cp, 100_000_000)
        plan(given)
        assert not stream.cupy.done


def test_a_result_is_torchs_own_memory(cp, torch):
    pool = cp.get_default_memory_pool()
    with torch.cuda.stream(torch.cuda.Stream()):
        given = torch.tensor(VALUES)
        used, result = pool.used_bytes(), gl.relayout(given, SOURCE, TARGET)
        assert result.storage.stream == torch.cuda.current_stream().cuda_stream and not result.storage.used
        assert pool.used_bytes() == used


# ---- torch: memory ---------------------------------------------------------------------------------------------------


def dropped_input_is_read_in_time(cp, torch, name):
    """A tensor of one stream, dropped right after a call on another one."""
    values, call = CALLS[name]
    own, other = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(own):
        given = torch.tensor(values)
    other.wait_stream(own)
    with torch.cuda.stream(other):
        result = call(given)
    del given
    gc.collect()
    with torch.cuda.stream(own):
        torch.tensor(np.zeros_like(values))  # may be the same memory
    own.synchronize()
    return equal(result.array, other.cupy, call(values))


def to_buffer(given, **options):
    return gl.relayout(given, SOURCE, TARGET, **options)


def to_array(given, **options):
    return gl.unpack(given, "f32[50,70]{0,1}", **options)


def dropped_out_is_written_in_time(cp, torch, call):
    """The same for an `out`: its memory must not be written when it is another tensor's."""
    own, other = torch.cuda.Stream(), torch.cuda.Stream()
    expected = call(VALUES)
    with torch.cuda.stream(own):
        out = torch.tensor(np.zeros_like(expected))
    with torch.cuda.stream(other):
        given = torch.tensor(VALUES)
    other.wait_stream(own)
    with torch.cuda.stream(other):
        assert call(given, out=out) is out
    del out
    gc.collect()
    with torch.cuda.stream(own):
        new = torch.tensor(np.ones_like(expected))
    own.synchronize()
    other.synchronize()
    return equal(new.array, own.cupy, np.ones_like(expected))


@pytest.mark.usefixtures("quick_collections")
def test_a_tensor_may_be_dropped_right_after_the_call(cp, torch):
    assert [name for name in CALLS if not dropped_input_is_read_in_time(cp, torch, name)] == []
    assert dropped_out_is_written_in_time(cp, torch, to_buffer) and dropped_out_is_written_in_time(cp, torch, to_array)


@pytest.mark.parametrize("call", [to_buffer, to_array])
def test_torch_is_told_of_the_stream_that_writes_an_out(cp, torch, call):
    own, other = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(own):
        out = torch.tensor(np.zeros_like(call(VALUES)))
    with torch.cuda.stream(other):
        call(torch.tensor(VALUES), out=out)
    assert out.storage.used == {other.cuda_stream}


def test_threads_with_streams_of_their_own_share_a_plan(cp, torch):
    plan = gl.plan(SOURCE, TARGET)
    barrier = threading.Barrier(4, timeout=HANG)

    def work(number):
        stream, given = torch.cuda.Stream(), [VALUES + 100 * number + turn for turn in range(10)]
        with torch.cuda.stream(stream):
            tensors = [torch.tensor(values) for values in given]
            barrier.wait()
            results = [plan(one) for one in tensors]
            del tensors
            return [turn for turn in range(10) if not equal(results[turn].array, stream.cupy, plan(given[turn]))]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [[]] * 4


@pytest.mark.usefixtures("quick_collections")
def test_without_a_record_memory_would_be_reused_too_early(cp, torch, monkeypatch):
    needs_late_work()
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda self, stream: None)
    assert [name for name in WITHOUT_WAIT if dropped_input_is_read_in_time(cp, torch, name)] == []
    assert not dropped_out_is_written_in_time(cp, torch, to_buffer)
    assert not dropped_out_is_written_in_time(cp, torch, to_array)


def test_a_tensor_is_reused_when_the_other_stream_is_done_with_it(cp, torch):
    own, other = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(own):
        given = torch.tensor(VALUES)
    own.synchronize()
    address = given.data_ptr()
    with torch.cuda.stream(other):
        gl.relayout(given, SOURCE, TARGET)
    del given
    other.synchronize()
    with torch.cuda.stream(own):
        assert torch.tensor(VALUES).data_ptr() == address


def test_an_out_of_a_call_on_cupys_stream_may_be_dropped_too(cp, torch):
    own, expected = torch.cuda.Stream(), gl.relayout(VALUES, SOURCE, TARGET)
    with torch.cuda.stream(own):
        out = torch.tensor(np.zeros_like(expected))
    given, used = cp.asarray(VALUES), set()
    with torch.cuda.stream(torch.cuda.Stream()):
        for stream in (cp.cuda.Stream.null, cp.cuda.Stream(non_blocking=True)):
            with stream:
                gl.relayout(given, SOURCE, TARGET, out=out)
                stream.synchronize()
                used.add(stream.ptr)
                assert out.storage.used == used
    assert equal(out.array, stream, expected)


def scratch_is_safe(cp, torch):
    """Copies that a call makes for itself are not reused by CuPy's own stream."""
    stream = torch.cuda.Stream()
    strided = np.zeros((3500, 2), np.int64)
    strided[...] = PLACES.T
    with torch.cuda.stream(stream):
        given = torch.tensor(strided)
        given.array = given.array.T
        result = gl.linearize(given, TARGET, mode="wrap")
    with cp.cuda.Stream.null:
        garbage = [cp.full((2, 3500), 7) for _ in range(3)]
        cp.cuda.Stream.null.synchronize()
    del garbage
    return equal(result.array, stream.cupy, gl.linearize(PLACES, TARGET))


def test_scratch_memory_is_in_the_order_of_torchs_stream(cp, torch):
    assert all(scratch_is_safe(cp, torch) for _ in range(2))


def test_a_tensor_flagged_read_only_is_not_written(cp, torch):
    given, out = torch.tensor(VALUES), torch.tensor(np.zeros(3550, np.float32))
    out.flags = READ_ONLY
    with pytest.raises(BufferError, match="^out is read-only: it cannot be written to$"):
        gl.relayout(given, SOURCE, TARGET, out=out)
    assert not out.array.any()


@pytest.mark.parametrize("kind", ["bfloat16", "float8_e4m3fn"])
def test_types_that_cupy_may_lack_stay_torchs(cp, torch, kind):
    dtype = np.dtype(getattr(ml_dtypes, kind))
    bits = np.arange(6).astype(f"i{dtype.itemsize}" if dtype.itemsize == 2 else "u1")
    shape = gl.Shape(dtype, (2, 3))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        result = gl.relayout(torch.tensor(bits, kind=getattr(torch, kind)), shape, gl.Layout((0, 1)))
        packed = gl.pack(torch.tensor(bits.reshape(2, 3), kind=getattr(torch, kind)), "{0,1}")
    for found in (result, packed):
        assert found.dtype is getattr(torch, kind) and equal(found.array, stream.cupy, bits[[0, 3, 1, 4, 2, 5]])


@pytest.mark.parametrize("source, target", [("float32", "bfloat16"), ("bfloat16", "float32"), ("bfloat16", "uint16")])
def test_arithmetic_gives_tensors_of_the_type_that_a_call_asks_for(cp, torch, source, target):
    values = np.arange(6, dtype=np.float32)
    if source == "bfloat16":
        values = values.astype(ml_dtypes.bfloat16).view(np.int16)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        given = torch.tensor(values.reshape(2, 3), kind=getattr(torch, source))
        result = gl.transpose(given, dtype=getattr(torch, target))
    expected = np.array([0, 3, 1, 4, 2, 5]).astype(gl.ElementType.of(target).dtype).view(result.array.dtype)
    assert result.dtype is getattr(torch, target) and equal(result.array, stream.cupy, expected.reshape(3, 2))


def test_a_call_on_tensors_can_be_captured(cp, torch):
    plan, stream = gl.plan(SOURCE, TARGET), torch.cuda.Stream()
    expected = plan(VALUES)
    with torch.cuda.stream(stream):
        given, out = torch.tensor(VALUES), torch.tensor(np.zeros_like(expected))
        plan(given, out=out)
        stream.synchronize()
        with stream.cupy:
            out.array.fill(0)
        stream.synchronize()
        stream.cupy.begin_capture(cp.cuda.runtime.streamCaptureModeGlobal)
        plan(given, out=out)
        graph = stream.cupy.end_capture()
        graph.launch(stream.cupy)
    assert equal(out.array, stream.cupy, expected)


# ---- JAX -------------------------------------------------------------------------------------------------------------


def results_of_jax_are_right(cp, jax, name, device=0):
    """Inputs and results are dropped while kernels that use them still wait for their turn."""
    values, call = CALLS[name]
    expected, found = call(values) + 1, []
    with cp.cuda.Device(device), cp.cuda.Stream(non_blocking=True) as stream:
        for _ in range(3):
            given = jax.array(values, device)
            result = call(given)
            assert type(result) is jax.Array and result.device.id == device
            del given
            jax.array(np.zeros_like(values), device)  # may be the memory of the input, once JAX has it back
            found.append(jax.plus_one(result))
            del result
            with_other_memory = call(cp.zeros(values.shape, values.dtype))  # may be the memory of the result
            stream.synchronize()
            del with_other_memory
    return all(equal(array.array, array.device.stream, expected) for array in found)


@pytest.mark.parametrize("name", CALLS)
def test_results_for_jax_are_right_though_everything_is_dropped_at_once(cp, jax, name):
    assert results_of_jax_are_right(cp, jax, name)


@pytest.mark.parametrize("name", CALLS)
def test_the_same_on_another_device(cp, jax, name):
    assert results_of_jax_are_right(cp, jax, name, second_device(cp))


@pytest.mark.parametrize("kind", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_types_that_cupy_may_lack_stay_jaxs(cp, jax, kind):
    dtype = np.dtype(getattr(ml_dtypes, kind))
    bits = np.arange(6).astype(f"u{dtype.itemsize}")
    with cp.cuda.Stream(non_blocking=True):
        result = gl.relayout(jax.array(bits.view(dtype)), gl.Shape(dtype, (2, 3)), gl.Layout((0, 1)))
    assert result.dtype == dtype and equal(result.array, result.device.stream, bits[[0, 3, 1, 4, 2, 5]])


@pytest.mark.parametrize("source, target", [("f32", "bf16"), ("bf16", "f32"), ("bf16", "u16"), ("u16", "bf16")])
def test_results_with_arithmetic_are_of_the_type_that_a_call_asks_for(cp, jax, source, target):
    """Also where CuPy holds both types as the same integers."""
    source, target = gl.ElementType(source), gl.ElementType(target)
    values = np.arange(6).astype(source.dtype)
    with cp.cuda.Stream(non_blocking=True):
        result = gl.relayout(jax.array(values), gl.Shape(source, (2, 3)), gl.Layout((0, 1)), dtype=target)
    assert result.dtype == target.dtype
    expected = np.array([0, 3, 1, 4, 2, 5]).astype(target.dtype).view(result.array.dtype)
    assert equal(result.array, result.device.stream, expected)


def refuse(given):
    raise RuntimeError("JAX is in a mode that refuses the kernel that is waited for")


def test_when_jax_refuses_to_be_waited_for_the_whole_device_is(cp, jax, monkeypatch):
    monkeypatch.setattr(jax, "block_until_ready", refuse)
    assert [name for name in WITHOUT_WAIT if not results_of_jax_are_right(cp, jax, name)] == []


@pytest.mark.usefixtures("quick_collections")
@pytest.mark.parametrize("name", sorted(set(WITHOUT_WAIT) - {"the same with tiles"}))  # it reuses another block
def test_memory_that_jax_drops_would_be_reused_too_early(cp, jax, name, monkeypatch):
    needs_late_work()
    monkeypatch.setattr(backends.gpu_module(), "lent", lambda array, finish: array)
    gc.collect()
    cp.get_default_memory_pool().free_all_blocks()  # blocks of earlier tests would be taken first
    assert not results_of_jax_are_right(cp, jax, name)


# ---- all of them -----------------------------------------------------------------------------------------------------


def test_jobs_of_all_libraries_run_each_on_its_own_stream(cp, torch, jax):
    second, expected = second_device(cp), gl.relayout(VALUES, SOURCE, TARGET)
    one, two, mine = torch.cuda.Stream(), torch.cuda.Stream(second), cp.cuda.Stream(non_blocking=True)
    with torch.cuda.stream(one), torch.cuda.stream(two), mine:
        buffers = [
            torch.tensor(VALUES),
            torch.tensor(VALUES, second),
            cp.asarray(VALUES),
            jax.array(VALUES),
            jax.array(VALUES, second),
            VALUES,
        ]
        results = gl.relayout_many([(buffer, SOURCE, TARGET) for buffer in buffers])
        streams = [one.cupy, two.cupy, mine, results[3].device.stream, results[4].device.stream]
        del buffers
        arrays = [getattr(result, "array", result) for result in results]
        assert [type(result) for result in results] == [torch.Tensor] * 2 + [cp.ndarray] + [jax.Array] * 2 + [
            np.ndarray
        ]
        assert all(equal(array, stream, expected) for array, stream in zip(arrays, streams))
        assert results[5].tobytes() == expected.tobytes()


@pytest.mark.parametrize("shape", ["f32[0,3]", "f32[]"])
def test_empty_and_single_elements(cp, torch, jax, shape):
    values = np.full(gl.parse_shape(shape).element_count, 5, np.float32)
    for made in (torch.tensor(values), jax.array(values)):
        result = gl.relayout(made, shape, shape)
        cp.cuda.Device().synchronize()
        assert type(result) is type(made) and result.array.get().tolist() == values.tolist()
