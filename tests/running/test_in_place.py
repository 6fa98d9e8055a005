"""A relayout in place as users call it: executors, kinds of arrays, errors, memory and signals."""

import ctypes
import itertools
import pickle
import signal
import subprocess
import sys
import threading
import time
import tracemalloc

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.running.in_place import deferred_signals
from tests.support import executors, foreign
from tests.support.block_cases import buffer_of
from tests.support.waiting import HANG

SCRATCH = 4 << 20  # what NumPy's plans may take beside the workspace


def check(executor, source, target, workspace, phase=0):
    """A guarded buffer after a relayout in place; the bytes around it stay."""
    plan = gl.plan(source, target)
    source, target = plan.source, plan.target
    buffer, memory = executors.guarded(executor, source.buffer_dtype, source.buffer_length, phase)
    buffer[...] = executor.array(buffer_of(source).view(source.buffer_dtype))
    assert gl.relayout(buffer, source, target, out=buffer, max_bytes=workspace) is buffer
    where = f"{source} to {target} in {workspace} bytes"
    assert executor.host(buffer).view(np.uint8).tolist() == buffer_of(target).tolist(), where
    assert executors.guards_intact(executor, memory, phase, source.nbytes), where


@pytest.mark.parametrize("name, itemsize", [("u8", 1), ("f32", 4), ("c128", 16)])
def test_every_workspace(executor, name, itemsize):
    for rows, columns in [(6, 6), (7, 5), (2, 11), (11, 2)]:
        for elements in range(1, rows * columns + 1):
            check(executor, f"{name}[{rows},{columns}]", "{0,1}", elements * itemsize)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_every_order_of_three_dimensions(executor, order):
    for elements in (1, 2, 5, 9, 14, 30, 100):
        check(executor, "u16[5,4,7]", f"{{{','.join(map(str, order))}}}", 2 * elements, phase=2 * (elements % 3))


@pytest.mark.parametrize(
    "source, target",
    [
        ("f32[2,3,10,12]", "{1,3,2,0}"),  # NCHW to NHWC
        ("f32[2,10,12,3]", "{2,1,3,0}"),
        ("u8[3,3,3,3,3]", "{0,1,2,3,4}"),
        ("f32[61,67]", "{0,1}"),
        ("bf16[32,64]{1,0:T(8,16)(2,1)}", "{0,1}"),
        ("u4[8,12]{1,0:E(4)}", "{1,0:T(2,12)E(4)}"),  # whole bytes move
    ],
)
def test_kinds_of_layouts(executor, source, target):
    nbytes = gl.parse_shape(source).nbytes
    for part in (40, 11, 3, 1):
        check(executor, source, target, nbytes // part)


def test_large_arrays_with_the_default_workspace():
    for source, target in [
        ("f32[1999,2003]", "{0,1}"),
        ("u8[5000001,3]", "{0,1}"),
        ("u16[64,48,1001]{1,2,0}", "{0,2,1}"),
    ]:
        plan = gl.plan(source, target)
        buffer = np.arange(plan.source.buffer_length).astype(plan.source.dtype)
        expected = plan(buffer)
        assert plan.in_place().workspace <= max(buffer.nbytes // 20, 1 << 20)
        assert plan(buffer, out=buffer) is buffer and (buffer == expected).all()


@pytest.mark.parametrize("threads", ["1", "2", "3", "7"])
@pytest.mark.parametrize(
    "source, target",
    [
        ("f32[701,701]", "{0,1}"),  # swaps
        ("f32[2003,2003]", "{0,1}"),  # several at once
        ("u8[40,90,3,17]", "{2,3,1,0}"),  # slabs
        ("u8[40,90,1003,3]", "{2,1,3,0}"),  # several at once
        ("u16[600,1201]", "{0,1}"),  # chains and blocks, with elements left over
        ("f64[400001,3]", "{0,1}"),
        ("f64[3,400000]", "{0,1}"),
    ],
)
def test_every_number_of_threads(monkeypatch, threads, source, target):
    monkeypatch.setenv("GPULAYOUT_NUM_THREADS", threads)
    plan = gl.plan(source, target)
    buffer = np.arange(plan.source.buffer_length).astype(plan.source.dtype)
    expected = plan(buffer)
    for workspace in (buffer.nbytes // 4, buffer.nbytes // 20):
        given = buffer.copy()
        plan(given, out=given, max_bytes=workspace)
        assert (given == expected).all(), workspace


def test_the_same_memory_by_another_name(executor):
    buffer = executor.array(np.arange(35, dtype=np.float32))
    expected = executor.host(gl.relayout(buffer, "f32[5,7]", "{0,1}"))
    out = buffer[:]
    assert gl.relayout(buffer, "f32[5,7]", "{0,1}", out=out) is out
    assert (executor.host(buffer) == expected).all()


def test_arrays_that_offer_dlpack(place):
    buffer = place.array(np.arange(35, dtype=np.float32))
    if place.on_host:
        given = foreign.Producer(buffer)
    else:
        given = foreign.Interface(buffer)
    assert gl.relayout(given, "f32[5,7]", "{0,1}", out=given, max_bytes=40) is given
    assert place.host(buffer).tolist() == np.arange(35).reshape(5, 7).T.reshape(-1).tolist()


def test_arrays_of_cupy(cp):
    plan = gl.plan("f32[41,70]", "{0,1}")
    values = np.arange(41 * 70, dtype=np.float32)
    buffer = cp.asarray(values)
    for _ in range(2):
        buffer[...] = cp.asarray(values)
        assert plan(buffer, out=buffer, max_bytes=1000) is buffer
        assert cp.asnumpy(buffer).tolist() == plan(values).tolist()
    assert plan.in_place(1000)(buffer) is buffer


def test_a_longer_buffer_keeps_its_end():
    plan, expected = gl.plan("f64[2,3]", "{0,1}"), [0, 3, 1, 4, 2, 5, 6, 7, 8, 9]
    calls = [
        lambda buffer, **strict: gl.relayout(buffer, "f64[2,3]", "{0,1}", out=buffer, **strict),
        lambda buffer, **strict: plan(buffer, out=buffer, max_bytes=8, **strict),
        lambda buffer, **strict: plan.in_place()(buffer, **strict),
    ]
    for call in calls:
        buffer = np.arange(10.0)
        for _ in range(2):
            with pytest.raises(BufferError, match="^buffer has 10 elements, but f64.* has 6: pass buffer"):
                call(buffer)
            assert buffer.tolist() == list(range(10))
        assert call(buffer, strict=False).tolist() == expected


def test_an_array_of_n_dimensions_is_given_as_a_line():
    array = np.arange(6.0).reshape(2, 3)
    with pytest.raises(BufferError, match=r"^out has shape \(2, 3\) .* out.reshape\(-1\) is the same memory"):
        gl.relayout(array, "f64[2,3]", "{0,1}", out=array)
    gl.relayout(array, "f64[2,3]", "{0,1}", out=array.reshape(-1))
    assert array.tolist() == [[0, 3, 1], [4, 2, 5]]


def test_tensors():
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6, dtype=torch.bfloat16)
    version = tensor._version
    assert gl.relayout(tensor, "bf16[2,3]", "{0,1}", out=tensor) is tensor
    assert tensor.tolist() == [0, 3, 1, 4, 2, 5] and tensor._version > version
    assert gl.plan("bf16[2,3]{0,1}", "{1,0}").in_place(2)(tensor) is tensor and tensor.tolist() == list(range(6))
    with pytest.raises(BufferError, match="requires a gradient"):
        given = torch.zeros(6, requires_grad=True)
        gl.relayout(given, "f32[2,3]", "{0,1}", out=given)


def test_arrays_of_jax_never_change():
    jax = pytest.importorskip("jax")
    array = jax.numpy.arange(6, dtype="float32")
    with pytest.raises(BufferError, match="^out is read-only"):
        gl.relayout(array, "f32[2,3]", "{0,1}", out=array)


def test_a_memory_map(tmp_path):
    buffer = np.memmap(tmp_path / "array", np.int32, "w+", shape=35)
    buffer[...] = np.arange(35)
    gl.relayout(buffer, "s32[5,7]", "{0,1}", out=buffer)
    assert np.fromfile(tmp_path / "array", np.int32).tolist() == np.arange(35).reshape(5, 7).T.reshape(-1).tolist()
    again = np.memmap(tmp_path / "array", np.int32, "r+", shape=35)
    with pytest.raises(BufferError, match="overlap in the file that both map"):
        gl.relayout(buffer, "s32[5,7]", "{0,1}", out=again)
    del buffer, again


LINE = np.arange(6, dtype=np.float32)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda line: gl.relayout(line, "f32[2,3]", "{0,1}", max_bytes=8),
            TypeError,
            "max_bytes is only for a relayout in place: pass out=buffer too",
        ),
        (
            lambda line: gl.relayout(line, "f32[2,3]", "{0,1}", out=line.copy(), max_bytes=8),
            BufferError,
            "out is not the memory of buffer: a relayout in place, with a workspace, needs out=buffer",
        ),
        (
            lambda line: gl.relayout(line, "f32[2,2]", "{0,1}", out=line[1:]),
            BufferError,
            "buffer and out overlap in memory: out must be separate memory, or begin with the same byte",
        ),
        (
            lambda line: gl.relayout(line[:4], "f32[2,2]", "{0,1}", out=line),
            BufferError,
            "out has 6 elements, but f32[2,2]{0,1} has 4: pass out[:4], or strict=False to write the first 4",
        ),
        (
            lambda line: gl.relayout(line, "f32[2,3]", "{0,1}", out=line, max_bytes=3),
            gl.LayoutError,
            "max_bytes 3 is less than an element of f32[2,3]{1,0}: it takes 4 bytes",
        ),
        (
            lambda line: gl.relayout(line, "f32[2,3]", "{0,1}", out=line, max_bytes=4.0),
            gl.LayoutTypeError,
            "max_bytes 4.0 is not an integer: it is a float",
        ),
        (
            lambda line: gl.relayout(line, "f32[2,1]", "{0,1:PD(2,3)}", out=line, max_bytes=3),
            gl.LayoutError,
            "f32[2,1]{1,0} to f32[2,1]{0,1:PD(2,3)} cannot be moved in place in a workspace of 3 bytes: the source "
            "takes 8 bytes, and the target 24; max_bytes=4 is enough",
        ),
        (
            lambda line: gl.relayout(line.astype("f8"), "f32[2,3]", "{0,1}", out=line),
            TypeError,
            "buffer has dtype float64, but f32[2,3]{1,0} needs float32",
        ),
        (
            lambda line: gl.relayout_many([(line, "f32[2,3]", "{0,1}")], out=[line]),
            BufferError,
            "job 0: buffer and out overlap in memory: out must be separate memory, "
            "because only gl.relayout and plans work in place",
        ),
    ],
)
def test_errors_come_before_a_byte_is_written(call, error, message):
    line = LINE.copy()
    with pytest.raises(error) as caught:
        call(line)
    assert str(caught.value) == message and line.tolist() == LINE.tolist()


def test_read_only_buffers_are_refused():
    line = LINE.copy()
    line.flags.writeable = False
    for call in (
        lambda: gl.relayout(line, "f32[2,3]", "{0,1}", out=line),
        lambda: gl.plan("f32[2,3]", "{0,1}").in_place()(line),
    ):
        with pytest.raises(BufferError, match="^out is read-only: it cannot be written to$"):
            call()


def test_no_memory_for_the_workspace_leaves_the_buffer(monkeypatch):
    from gpulayout.cpu.run import NumpyBackend

    def full(*_, **__):
        raise MemoryError

    line = LINE.copy()
    monkeypatch.setattr(NumpyBackend, "empty", full)
    with pytest.raises(MemoryError):
        gl.relayout(line, "f32[2,3]", "{0,1}", out=line)
    assert line.tolist() == LINE.tolist()


def test_no_memory_for_the_bitmap_leaves_the_buffer(monkeypatch):
    """One bit for each block: 10403 blocks of a byte need 1301 bytes."""
    allocate = np.empty

    def limited(shape, *rest):
        if np.prod(shape) > 1300:
            raise MemoryError
        return allocate(shape, *rest)

    buffer = np.arange(101 * 103, dtype=np.uint16).astype(np.uint8)
    before = buffer.copy()
    monkeypatch.setattr("gpulayout.cpu.run.SCRATCH_BYTES", 1)
    monkeypatch.setattr(np, "empty", limited)
    with pytest.raises(MemoryError):
        gl.plan("u8[101,103]", "{0,1}").in_place(1)(buffer)
    assert (buffer == before).all()


def test_a_bad_number_of_threads_leaves_the_buffer(monkeypatch):
    monkeypatch.setenv("GPULAYOUT_NUM_THREADS", "none")
    buffer = np.arange(1000 * 1001, dtype=np.float32)
    with pytest.raises(ValueError, match="GPULAYOUT_NUM_THREADS"):
        gl.relayout(buffer, "f32[1000,1001]", "{0,1}", out=buffer)
    assert (buffer == np.arange(1000 * 1001)).all()


def test_the_backend_says_how_much_moves_at_a_time(executor, monkeypatch):
    plan, backend = gl.plan("f32[60,70,80]", "{1,2,0}"), executor.backend
    buffer = executor.array(np.arange(60 * 70 * 80, dtype=np.float32))
    expected = executor.host(plan(buffer)).tolist()
    for slab_bytes, at_once in [(3 * 22400, 1), (22400, 4)]:
        monkeypatch.setattr(type(backend), "slab_bytes", slab_bytes)
        monkeypatch.setattr(type(backend), "slabs_at_once", at_once)
        found = plan.in_place(20 * 22400 + at_once)
        (step,) = found.steps_on(backend)
        assert (step.part_bytes, step.at_once) == (slab_bytes, at_once)
        given = buffer.copy()
        assert executor.host(found(given)).tolist() == expected


def test_nothing_to_do():
    for shape in ("f32[2,3]", "f32[]", "f32[0,3]", "f32[1,6]"):
        buffer = np.arange(gl.parse_shape(shape).buffer_length, dtype=np.float32)
        plan = gl.plan(shape, gl.Layout.ascending(len(gl.parse_shape(shape).dimensions)))
        if shape == "f32[2,3]":
            plan = gl.plan(shape, "{1,0}")
        assert plan.in_place(4).steps == ()
        assert plan(buffer, out=buffer) is buffer and buffer.tolist() == list(range(len(buffer)))
        assert plan(buffer, out=buffer, max_bytes=4) is buffer


def test_an_empty_buffer_is_its_own_memory():
    buffer = np.empty(0, np.float32)
    assert gl.relayout(buffer, "f32[0,3]", "{0,1}", out=buffer, max_bytes=4) is buffer
    assert gl.plan("f32[0,3]", "{0,1}").in_place(4)(buffer) is buffer


@pytest.mark.parametrize("dimensions", [(2000, 2000), (1999, 2003), (1_000_003, 4), (4, 1_000_003)])
def test_memory_stays_within_the_workspace(dimensions):
    plan = gl.plan(gl.Shape("f32", dimensions), "{0,1}")
    buffer = np.arange(plan.source.buffer_length, dtype=np.float32)
    found = plan.in_place()
    assert found.workspace <= max(buffer.nbytes // 20, 1 << 20)
    tracemalloc.start()
    try:
        found(buffer)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.workspace <= peak <= found.workspace + SCRATCH + (1 << 18)


def test_a_plan_in_place_is_a_value():
    found = gl.plan("f32[1000,600]", "{0,1}").in_place(240000)
    assert found == pickle.loads(pickle.dumps(found)) and hash(found) == hash(
        gl.plan("f32[1000,600]", "{0,1}").in_place(240000)
    )
    assert found != gl.plan("f32[1000,600]", "{0,1}").in_place(100000)
    with pytest.raises(AttributeError):
        found.limit = 3
    assert found.workspace == 240000 and found.bytes_moved == 3 * 2 * 2_400_000


# ---- signals -------------------------------------------------------------------------------------------------------


@pytest.fixture
def handler():
    """Python's handler of SIGINT, whatever the test leaves behind."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_a_signal_waits(handler):
    done = False
    with pytest.raises(KeyboardInterrupt):
        with deferred_signals():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            time.sleep(0.001)
            done = True
    assert done and signal.getsignal(signal.SIGINT) is handler


def test_handlers_return_after_an_error(handler):
    with pytest.raises(ZeroDivisionError):
        with deferred_signals():
            1 / 0
    assert signal.getsignal(signal.SIGINT) is handler


def test_every_handler_of_a_signal_that_waited_runs(handler):
    called = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: called.append((number, frame is not None)))
    try:
        with pytest.raises(KeyboardInterrupt):
            with deferred_signals():
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGTERM)
                time.sleep(0.001)
        assert called == [(signal.SIGTERM, True)]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_main_thread_is_known_by_its_number(handler, monkeypatch):
    """A KeyError out of a handler within `threading.current_thread` makes that return a dummy from then on."""
    monkeypatch.setattr(threading, "current_thread", threading.Thread)
    done = False
    with pytest.raises(KeyboardInterrupt):
        with deferred_signals():
            signal.raise_signal(signal.SIGINT)
            time.sleep(0.001)
            done = True
    assert done


def test_other_threads_leave_handlers_alone(handler):
    found = []

    def work():
        with deferred_signals():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [handler]


def system_side(numbers):
    """What Linux does with signals: the function that it calls, and flags such as SA_RESTART."""
    library, found = ctypes.CDLL(None), ctypes.create_string_buffer(1 << 10)
    return [(library.sigaction(number, None, found), found.raw[:8], found.raw[136:140])[1:] for number in numbers]


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's struct sigaction")
@pytest.mark.parametrize("restarts", [False, True])
def test_what_the_system_does_with_signals_never_changes(restarts):
    numbers = signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGINT
    before = {number: signal.signal(number, lambda *_: None) for number in numbers[:3]}
    try:
        signal.siginterrupt(signal.SIGUSR1, not restarts)
        expected = system_side(numbers)
        assert (expected[0] == expected[1]) != restarts
        with deferred_signals():
            assert system_side(numbers) == expected
        assert system_side(numbers) == expected
        with pytest.raises(ZeroDivisionError), deferred_signals():
            1 / 0
        assert system_side(numbers) == expected
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


READING = """
import ctypes, os, signal, sys, time
import numpy as np
import gpulayout as gl

called = []
signal.signal(signal.SIGUSR1, lambda *_: called.append(1))
signal.siginterrupt(signal.SIGUSR1, sys.argv[1] == "interrupts")
buffer = np.arange(35, dtype=np.uint16)
gl.relayout(buffer, "u16[5,7]", "{0,1}", out=buffer)

reading, writing = os.pipe()
parent = os.getpid()

def wait_until_it_reads():                  # its main thread sleeps for nothing else
    while open(f"/proc/{parent}/stat").read().rpartition(")")[2].split()[0] != "S":
        time.sleep(0.001)

if not os.fork():
    wait_until_it_reads()
    os.kill(parent, signal.SIGUSR1)         # it runs when this returns
    if sys.argv[1] == "restarts":
        wait_until_it_reads()
        os.write(writing, b"x")
    os._exit(0)
found = ctypes.CDLL(None).read(reading, ctypes.create_string_buffer(1), 1)  # not os.read: Python tries that again
print(found, len(called))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux whether a process sleeps")
@pytest.mark.parametrize("choice, found", [("restarts", "1 1"), ("interrupts", "-1 1")])
def test_a_read_that_restarts_after_a_signal_still_does_so_after_a_relayout_in_place(choice, found):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", READING, choice], capture_output=True, text=True, timeout=HANG
    )
    assert (done.stdout.strip(), done.stderr) == (found, "")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers on this system")
def test_an_interrupted_relayout_is_complete():
    """Whenever the timer ends, the exception of its handler finds the array in one of the two layouts."""

    def interrupt(*_):
        raise KeyboardInterrupt

    shape, buffer = "u16[801,503]", np.arange(801 * 503).astype(np.uint16)
    plans = gl.plan(shape, "{0,1}"), gl.plan(f"{shape}{{0,1}}", "{1,0}")
    sides = buffer.copy(), plans[0](buffer)
    before, turn, interrupted = signal.signal(signal.SIGALRM, interrupt), 0, 0
    try:
        for delay in range(1, 40):
            try:
                signal.setitimer(signal.ITIMER_REAL, delay * 1e-4)
                try:
                    plans[turn](buffer, out=buffer, max_bytes=1 << 15)
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
            turn = 1 - turn if (buffer == sides[1 - turn]).all() else turn
            assert (buffer == sides[turn]).all(), delay
    finally:
        signal.signal(signal.SIGALRM, before)
    assert interrupted
