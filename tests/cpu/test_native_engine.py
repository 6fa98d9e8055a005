"""The native engine as a module of Python: errors, buffers, the lock, signals, forks, threads, and bytes."""

import array
import concurrent.futures
import contextlib
import gc
import mmap
import os
import random
import signal
import subprocess
import sys
import threading
import weakref

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tests import reference
from tests.support import random_moves
from tests.support.effort import ALL
from tests.support.kernel_cases import FRESH
from tests.support.placed import relayout_move
from tests.support.strategies import pairs
from tests.support.waiting import HANG

native = pytest.importorskip("gpulayout.cpu._native", reason="the native engine is not built", exc_type=ImportError)

NAMES = native.instruction_sets()
BEST = len(NAMES) - 1
CACHES = (1 << 15, 1 << 20, 32 << 20)  # the engine's own numbers
TINY = ((1 << 15, 1 << 11, 3), (1 << 15, 1 << 11, 32 << 20), (1 << 15, 1 << 14, 32 << 20), CACHES)
ROW = ((4, 4, 1, 1),)
TURN = ((300, 300, 200, 1), (200, 200, 1, 300))  # 60,000 bytes


@contextlib.contextmanager
def chosen(number=BEST, caches=CACHES):
    """Plans that are made in this context are for an instruction set and caches."""
    native.use(number)
    native.set_caches(*caches)
    try:
        yield
    finally:
        native.use(BEST)
        native.set_caches(*CACHES)


# ---- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "axes, itemsize, pad, error, says",
    [
        (ROW, 0, b"", ValueError, "the pad has the bytes of an element"),
        (ROW, -1, b"", ValueError, "the pad has the bytes of an element"),
        (ROW, 2, b"0", ValueError, "the pad has the bytes of an element"),
        (ROW, 1, b"00", ValueError, "the pad has the bytes of an element"),
        (ROW, 1, "0", TypeError, "bytes-like"),
        (ROW, 1, None, TypeError, "bytes-like"),
        (ROW, 1.0, b"0", TypeError, "integer"),
        (ROW, 1 << 63, b"0", OverflowError, ""),
        (None, 1, b"0", TypeError, ""),
        (4, 1, b"0", TypeError, ""),
        ({(4, 4, 1, 1)}, 1, b"0", TypeError, ""),
        ((4,), 1, b"0", TypeError, "an axis is a tuple"),
        (((4, 4, 1),), 1, b"0", TypeError, "an axis is a tuple"),
        (((4, 4, 1, 1, 1),), 1, b"0", TypeError, "an axis is a tuple"),
        (([4, 4, 1, 1],), 1, b"0", TypeError, "an axis is a tuple"),
        ((b"abcd",), 1, b"0", TypeError, "an axis is a tuple"),
        (((4, 4, 1, 1.0),), 1, b"0", TypeError, "integer"),
        (((4, None, 1, 1),), 1, b"0", TypeError, "integer"),
        (((4, 4, 1 << 64, 1),), 1, b"0", OverflowError, ""),
        (((4, 5, 1, 1),), 1, b"0", ValueError, "0 <= bound <= extent"),
        (((4, -1, 1, 1),), 1, b"0", ValueError, "0 <= bound <= extent"),
        (((-4, -4, 1, 1),), 1, b"0", ValueError, "0 <= bound <= extent"),
        (((1, 1, 1, 1),) * 63, 1, b"0", ValueError, "at most 62 axes, not 63"),
        (((1 << 40, 1, 1, 1), (1 << 40, 1, 1, 1)), 1, b"0", ValueError, "fewer than 2^63 bytes"),
        (((1 << 40, 1, 1, 1 << 40),), 1, b"0", ValueError, "fewer than 2^63 bytes"),
        (((1 << 40, 1 << 40, -(1 << 40), 1),), 1, b"0", ValueError, "fewer than 2^63 bytes"),
        (((2, 1, 1, 1 << 61),) * 3, 1, b"0", ValueError, "fewer than 2^63 bytes"),
        (((2, 2, 1 << 61, 1), (2, 2, -(1 << 61), 2), (2, 2, 1 << 61, 4)), 1, b"0", ValueError, "fewer than 2^63 bytes"),
        (((2, 2, -(1 << 62), 1),), 1, b"0", ValueError, "fewer than 2^63 bytes"),
        (((2, 2, -(1 << 63), 1),), 1, b"0", ValueError, "fewer than 2^63 bytes"),
    ],
)
def test_a_plan_of_wrong_arguments_says_what_is_wrong(axes, itemsize, pad, error, says):
    before = sys.getrefcount(native.Plan), sys.getrefcount(axes), sys.getrefcount(pad)
    for _ in range(10):
        with pytest.raises(error, match=says.replace("^", r"\^") or None):
            native.Plan(axes, itemsize, pad)
    assert (sys.getrefcount(native.Plan), sys.getrefcount(axes), sys.getrefcount(pad)) == before


def test_a_plan_takes_its_arguments_by_name_and_no_others():
    assert native.Plan(pad=b"0", itemsize=1, axes=ROW).describe() == native.Plan(ROW, 1, b"0").describe()
    for arguments, words in ((((),), {}), ((ROW, 1), {}), ((ROW, 1, b"0", 4), {}), ((ROW, 1, b"0"), {"threads": 2})):
        with pytest.raises(TypeError):
            native.Plan(*arguments, **words)


def test_sixty_two_axes_are_moved():
    axes = [(2, 2, 1 << k, 1 << (9 - k)) for k in range(9, -1, -1)] + [(1, 1, 5, 7)] * 52
    source, target = np.arange(1024, dtype=np.uint16).astype(np.uint8), np.zeros(1024, np.uint8)
    native.Plan(axes, 1, b"0").run(source, 0, target, 0, 1)
    assert (target == source.reshape((2,) * 10).transpose().reshape(-1)).all()


@pytest.mark.parametrize(
    "arguments, error",
    [
        ((b"abcd", 0, bytearray(4), 0), TypeError),
        ((b"abcd", 0, bytearray(4), 0, 1, 1), TypeError),
        (("abcd", 0, bytearray(4), 0, 1), TypeError),
        ((None, 0, bytearray(4), 0, 1), TypeError),
        ((b"abcd", 0.0, bytearray(4), 0, 1), TypeError),
        ((b"abcd", 0, bytearray(4), "0", 1), TypeError),
        ((b"abcd", 0, bytearray(4), 0, None), TypeError),
        ((b"abcd", 1 << 64, bytearray(4), 0, 1), OverflowError),
        ((b"abcd", 0, bytearray(4), 0, 1 << 64), OverflowError),
        ((b"abcd", 0, b"0000", 0, 1), (BufferError, ValueError)),
        ((b"abcd", 0, memoryview(b"0000"), 0, 1), (BufferError, ValueError)),
        ((b"abcd", 0, [0, 0, 0, 0], 0, 1), TypeError),
    ],
)
def test_a_run_with_wrong_arguments_writes_nothing_and_keeps_nothing(arguments, error):
    plan = native.Plan(ROW, 1, b"0")
    before = [sys.getrefcount(each) for each in arguments]
    for _ in range(10):
        with pytest.raises(error):
            plan.run(*arguments)
    assert [sys.getrefcount(each) for each in arguments] == before
    assert len(arguments) < 3 or bytes(arguments[2]) in (bytes(4), b"0000")
    if len(arguments) > 2 and isinstance(arguments[2], bytearray):
        arguments[2].append(0)  # no buffer is held, which would forbid it


@pytest.mark.parametrize(
    "wrong, value",
    [
        ("arguments", [3]),
        ("arguments", None),
        ("words", ()),
        ("tensors", native.Plan(ROW, 1, b"0")),
        ("tensors", "cpu"),
        ("source_offset", None),
        ("target_offset", "0"),
    ],
)
def test_a_call_refuses_wrong_arguments(wrong, value):
    plan, array = native.Plan(ROW, 1, b"0"), np.zeros(4, np.uint8)
    right = {
        "make": np.empty,
        "arguments": (4,),
        "words": {"dtype": "u1"},
        "tensors": None,
        "writes": None,
        "threads": None,
        "source_offset": 0,
        "target_offset": 0,
    }
    with pytest.raises(TypeError, match="integer" if wrong.endswith("_offset") else "arguments are a tuple"):
        plan.call(array, array, *(right | {wrong: value}).values())
    assert (plan.call(np.ones_like(array), array, *right.values()).again(np.ones_like(array), None) == 1).all()


def test_a_call_begins_at_its_offsets():
    source, target = np.arange(8, dtype=np.uint8), np.zeros(8, np.uint8)
    call = native.Plan(ROW, 1, b"0").call(source, target, None, None, None, None, None, None, 2, 3)
    for first in (0, 100):
        assert call.again(source + np.uint8(first), target) is target
        assert target.tolist() == [0, 0, 0, *range(first + 2, first + 6), 0]


def test_a_read_only_array_is_a_source_and_no_target():
    source, target = np.arange(4, dtype=np.uint8), np.zeros(4, np.uint8)
    for each in (source, target):
        each.flags.writeable = False
    plan = native.Plan(ROW, 1, b"0")
    with pytest.raises((BufferError, ValueError), match="read-only"):
        plan.run(source, 0, target, 0, 1)
    assert not target.any()
    written = np.zeros(4, np.uint8)
    assert plan.run(source, 0, written, 0, 1) is None and (written == source).all()


def test_the_module_refuses_wrong_numbers():
    for number in (-1, len(NAMES), 1 << 40):
        with pytest.raises(ValueError, match="no instruction set"):
            native.use(number)
    for wrong in ("0", None, 0.5):
        with pytest.raises(TypeError):
            native.use(wrong)
    for caches in ((), (1, 2), (1, 2, 3, 4), (1, 2, "3"), (1, 2, 3.0)):
        with pytest.raises(TypeError):
            native.set_caches(*caches)
    assert NAMES and all(isinstance(name, str) for name in NAMES)


# ---- buffers --------------------------------------------------------------------------------------------------------


def swapped(source):
    """A matrix of eight bytes whose elements are those of 4 x 2 of `source`."""
    return bytes(source[k] for k in (0, 2, 4, 6, 1, 3, 5, 7))


@pytest.mark.parametrize(
    "make", [bytearray, memoryview, lambda b: array.array("B", b), lambda b: np.frombuffer(b, np.uint8)]
)
def test_whatever_has_a_buffer_is_moved(make):
    source, target = bytes(range(8)), bytearray(8)
    native.Plan(((4, 4, 2, 1), (2, 2, 1, 4)), 1, b"0").run(make(source), 0, memoryview(target), 0, 1)
    assert target == swapped(source)
    with mmap.mmap(-1, 8) as mapped:
        native.Plan(((4, 4, 2, 1), (2, 2, 1, 4)), 1, b"0").run(make(source), 0, mapped, 0, 1)
        assert mapped[:] == swapped(source)


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float8_e4m3fn", "M8[D]", "m8[ns]", ">i4", "c16", "S5", "U2", "V7", "?", "e", "i1,f4"]
)
def test_arrays_of_types_without_a_buffer_format_are_moved(dtype):
    if dtype.startswith(("bfloat", "float8")):
        dtype = getattr(pytest.importorskip("ml_dtypes"), dtype)
    dtype = np.dtype(dtype)
    data = np.random.default_rng(1).integers(0, 2, 6 * dtype.itemsize, np.uint8)
    source, target = data.view(dtype).reshape(2, 3), np.zeros((3, 2), dtype)
    size = dtype.itemsize
    native.Plan(((2, 2, 3 * size, size), (3, 3, size, 2 * size)), size, bytes(size)).run(source, 0, target, 0, 1)
    assert target.tobytes() == source.T.tobytes()


def test_offsets_count_from_the_first_element_of_an_array_with_negative_strides():
    whole = np.arange(24, dtype=np.uint8).reshape(4, 6)
    source, target = whole[::-1, ::-2], np.full((3, 4), FRESH, np.uint8)[:, ::-1]
    axes = tuple((source.shape[d], source.shape[d], source.strides[d], target.T.strides[d]) for d in (0, 1))
    native.Plan(axes, 1, b"0").run(source, 0, target, 0, 1)
    assert (target == source.T).all()
    one = np.zeros(1, np.uint8)
    native.Plan((), 1, b"0").run(source, source.strides[1], one, 0, 1)
    assert one[0] == source[0, 1]
    native.Plan((), 1, b"0").run(bytes([1, 2, 3]), 2, one, 0, 1)
    assert one[0] == 3


@pytest.mark.parametrize("threads", (-(1 << 40), -1, 0, 1, 1 << 40))
def test_any_number_of_threads_will_do(threads):
    source, target = np.random.default_rng(1).integers(0, 256, (200, 300), np.uint8), np.zeros((300, 200), np.uint8)
    native.Plan(((200, 200, 300, 1), (300, 300, 1, 200)), 1, b"0").run(source, 0, target, 0, threads)
    assert (target == source.T).all()


@pytest.mark.parametrize("axes", [((0, 0, 1, 1),), ((5, 5, 1, 1), (0, 0, 5, 5)), ((0, 0, 9, 9), (7, 3, 1, 1))])
def test_a_move_without_places_touches_nothing(axes):
    plan = native.Plan(axes, 1, b"0")
    plan.run(b"", 1 << 50, bytearray(), -(1 << 50), 4)
    assert plan.describe()["boxes"] == 0 and plan.describe()["kernel"] is None


def test_a_move_without_axes_moves_an_element():
    target = bytearray(7)
    native.Plan((), 3, b"000").run(b"abcdef", 2, target, 1, 4)
    assert target == b"\0cde\0\0\0"


def test_an_axis_without_elements_is_nothing_but_pad():
    target = bytearray(8)
    native.Plan(((3, 0, 1 << 60, 2),), 2, b"xy").run(b"", 0, target, 1, 1)
    assert target == b"\0xyxyxy\0"


def test_a_description_says_what_the_plan_does():
    with chosen():
        found = native.Plan(((100, 90, 300, 1), (300, 300, 1, 128)), 1, b"0").describe()
        runs = native.Plan(((1 << 20, 1 << 20, 1, 1),), 1, b"0").describe()
    assert set(found) == {
        *("kernel", "element_bytes", "slot_bytes", "along_target", "along_source", "walked", "boxes", "scratch_bytes"),
        *("streams", "fills", "most_threads"),
    }
    assert found["element_bytes"] == 1 and found["boxes"] >= 1 and found["streams"] is False
    assert runs["kernel"] == "copy" and runs["boxes"] > 1 and runs["fills"] == 0
    assert {type(value) for value in found.values()} == {str, int, bool}


@pytest.mark.skipif(NAMES == ("portable",), reason="it has no stores around the caches")
def test_large_moves_are_written_around_the_caches_unless_they_mostly_repeat():
    row = 3000 * 4
    with chosen():
        whole = native.Plan(((3000, 3000, row, 4), (3000, 3000, 4, row)), 4, bytes(4))
        padded = native.Plan(((3000, 1000, 4, 4), (3000, 1000, 4000, row)), 4, bytes(4))
        repeated = native.Plan(((3000, 3000, 0, 4), (3000, 3000, 4, row)), 4, bytes(4))
        small = native.Plan(((300, 300, row, 4), (3000, 3000, 4, 1200)), 4, bytes(4))
    found = [plan.describe()["streams"] for plan in (whole, padded, repeated, small)]
    assert found == [True, True, False, False]


# ---- nothing is kept ------------------------------------------------------------------------------------------------


def test_nothing_is_kept_of_plans_and_of_what_they_moved():
    source, target, axes, pad = np.zeros(60_000, np.uint8), np.zeros(60_000, np.uint8), TURN, bytes(1)
    things = (source, target, axes, pad, axes[0], native.Plan, None)
    plan = native.Plan(axes, 1, pad)
    before = [sys.getrefcount(each) for each in things]
    results = [plan.run(source, 0, target, 0, threads) for threads in (1, 3) for _ in range(20)]
    assert set(results) == {None}
    del results
    described = [plan.describe() for _ in range(20)]
    del described
    plans = [native.Plan(axes, 1, pad) for _ in range(20)]
    del plans
    # None is immortal since Python 3.12, and counted by anything before.
    found = [sys.getrefcount(each) for each in things]
    assert found[:-1] == before[:-1] and abs(found[-1] - before[-1]) < 20


class Labelled(np.ndarray):
    """An array whose type is another object each time."""

    @property
    def dtype(self):
        return np.dtype([("red", "u1")])


def test_a_type_that_is_made_when_asked_for_is_not_kept():
    plan, array = native.Plan(ROW, 1, b"0"), np.zeros(4, np.uint8)
    call = plan.call(array.view(Labelled), array, None, None, None, None, None, None, 0, 0)
    for _ in range(100):
        assert call.again(array.view(Labelled), np.empty(4, np.uint8)) is None


@pytest.mark.usefixtures("quick_collections")
def test_a_call_in_a_cycle_is_collected():
    def make():
        return np.empty_like(array)

    plan, array = native.Plan(ROW, 1, b"0"), np.arange(4, dtype=np.uint8)
    make.call = plan.call(array, make(), make, (), None, None, None, None, 0, 0)
    assert (make.call.again(array, None) == array).all()
    make.kept = weakref.WeakSet([make])
    kept = make.kept
    del make
    gc.collect()
    assert not kept


# ---- the lock, signals and forks ------------------------------------------------------------------------------------

# Imports the engine alone.  A move along strides of 0 does the same again, so it lasts as long as a test needs.
PRELUDE = f"""
import importlib.util, os, signal, sys, threading, time
spec = importlib.util.spec_from_file_location("_native", {native.__file__!r})
native = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native)
signal.alarm({HANG})

def turned(repeats=1):
    "The axes of 4 MB that are turned, so many times."
    return ((2048, 2048, 2048, 1), (2048, 2048, 1, 2048), (repeats, repeats, 0, 0))

source = (bytes(range(1, 252)) * (1 << 15))[: 1 << 22]
right = b"".join(source[k::2048] for k in range(2048))
"""


def printed_by(program):
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PRELUDE + program], capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.split()


def test_another_interpreter_has_types_of_its_own():
    """They end with it; those of the first one go on."""
    pytest.importorskip("_testcapi", reason="Python came without its own tests")
    moved = """
class Bytes(bytearray):
    dtype = "u1"
def moved():
    "The type of a call that moved, and what it moved."
    array, plan = Bytes(4), native.Plan(((4, 4, 1, 1),), 1, b"0")
    plan.run(b"abcd", 0, array, 0, 1)
    return type(plan.call(Bytes(b"abcd"), array, None, None, None, None, None, None, 0, 0)), bytes(array)
"""
    inside = f"{PRELUDE}{moved}assert moved()[1] == b'abcd'"
    assert printed_by(f"""{moved}
import _testcapi
before = moved()
print(_testcapi.run_in_subinterp({inside!r}), moved() == before, before[0].__name__)
""") == ["0", "True", "Call"]


needs_signals = pytest.mark.skipif(not hasattr(signal, "alarm"), reason="no such signals on this system")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
threads_of_a_move = pytest.mark.parametrize("threads", (1, 3))


@needs_signals
@threads_of_a_move
def test_other_threads_run_during_a_large_move(threads):
    """Nothing but the move lets the other thread have the lock: a switch is due after hours."""
    assert printed_by(f"""
sys.setswitchinterval(10_000)
target, ran, go = bytearray(len(source)), [], threading.Lock()
go.acquire()
def other():
    go.acquire()
    ran.append(1)
thread = threading.Thread(target=other)
thread.start()
plan = native.Plan(turned(), 1, b"0")
go.release()
while not ran:
    plan.run(source, 0, target, 0, {threads})
print(bytes(target) == right)
""") == ["True"]


@needs_signals
@threads_of_a_move
def test_an_interrupt_stops_a_long_move_and_nothing_is_written_afterwards(threads):
    """The move would take years; the signal comes once it has begun."""
    assert printed_by(f"""
signal.signal(signal.SIGINT, signal.default_int_handler)  # the tests themselves may run under nohup
target = bytearray(len(source))
def interrupt():
    while not any(target[:2048]):
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    native.Plan(turned(1 << 40), 1, b"0").run(source, 0, target, 0, {threads})
    print("finished")
except KeyboardInterrupt:
    print("interrupted")
target[:] = bytes(len(target))
other = bytearray(len(source))
native.Plan(turned(), 1, b"0").run(source, 0, other, 0, {threads})     # its helpers are done with the first
print(any(target), bytes(other) == right)
""") == ["interrupted", "False", "True"]


@needs_signals
@threads_of_a_move
def test_a_handler_that_returns_lets_the_move_go_on(threads):
    """Handlers run between two looks, may move something themselves, and see the move unfinished."""
    assert printed_by(f"""
target, inner, seen, repeats = bytearray(len(source)), bytearray(len(source)), [], 8
def handle(number, frame):
    native.Plan(turned(), 1, b"0").run(source, 0, inner, 0, {threads})
    seen.append(within)
signal.signal(signal.SIGUSR1, handle)
def send():
    while True:
        begun.acquire()
        while not any(target[:2048]):
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGUSR1)
begun = threading.Semaphore(0)
threading.Thread(target=send, daemon=True).start()
while True not in seen:
    target[:] = bytes(len(target))
    repeats *= 2
    plan, count = native.Plan(turned(repeats), 1, b"0"), len(seen)
    begun.release()
    within = True
    plan.run(source, 0, target, 0, {threads}); within = False
    while len(seen) == count:
        time.sleep(0.001)
    assert bytes(target) == right
print(bytes(inner) == right)
""") == ["True"]


@needs_fork
@threads_of_a_move
def test_a_child_forked_after_threads_started_moves_with_threads_of_its_own(threads):
    assert printed_by(f"""
def moved():
    target = bytearray(len(source))
    native.Plan(turned(), 1, b"0").run(source, 0, target, 0, {threads})
    return bytes(target) == right
print(moved())
child = os.fork()
if not child:
    signal.alarm({HANG})
    grandchild = os.fork() if moved() else 0
    right_here = moved() and (not os.path.exists("/proc/self/task") or len(os.listdir("/proc/self/task")) >= {threads})
    os._exit(0 if right_here and (not grandchild or os.waitpid(grandchild, 0)[1] == 0) else 1)
print(os.waitpid(child, 0)[1], moved())
""") == ["True", "0", "True"]


@needs_fork
@threads_of_a_move
@pytest.mark.parametrize("leave", ("return", "raise SystemExit(5)"))
def test_a_child_that_a_handler_forks_during_a_move_ends_it_alone(threads, leave):
    """A child that leaves with an exception stops: nothing else does."""
    expected = "0" if leave == "return" else "1280"
    assert printed_by(f"""
target, children, parent, repeats = bytearray(len(source)), [], os.getpid(), 8
def fork(number, frame):
    if not within or children:
        return
    children.append(os.fork())
    if not children[-1]:
        signal.alarm({HANG})
        {leave}
signal.signal(signal.SIGUSR1, fork)
def send():
    while os.getpid() == parent:
        begun.acquire()
        while not any(target[:2048]):
            time.sleep(0.001)
        os.kill(parent, signal.SIGUSR1)
        sent.release()
begun, sent = threading.Semaphore(0), threading.Semaphore(0)
threading.Thread(target=send, daemon=True).start()
while not children:
    target[:] = bytes(len(target))
    repeats *= 2
    plan = native.Plan(turned(repeats), 1, b"0")
    begun.release()
    within = True
    plan.run(source, 0, target, 0, {threads}); within = False
    if os.getpid() != parent:
        other = bytearray(len(source))
        native.Plan(turned(), 1, b"0").run(source, 0, other, 0, {threads})
        os._exit(0 if bytes(target) == bytes(other) == right else 1)
    sent.acquire()
print(os.waitpid(children[0], 0)[1], bytes(target) == right)
""") == [expected, "True"]


@needs_signals
@threads_of_a_move
def test_a_process_ends_while_a_daemon_thread_moves(threads):
    """Python ends that thread within a look for signals, or leaves it waiting; the helpers then stop."""
    assert printed_by(f"""
target = bytearray(len(source))
plan = native.Plan(turned(1 << 40), 1, b"0")
threading.Thread(target=plan.run, args=(source, 0, target, 0, {threads}), daemon=True).start()
while not any(target[:2048]):
    time.sleep(0.001)
print("end")
""") == ["end"]


@needs_signals
@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="this system does not tell what each thread did")
@pytest.mark.parametrize("threads", (1, 2, 3))
def test_a_move_has_no_more_threads_than_it_asks_for(threads):
    """Although an earlier one had more; those that wait for work look for it for a moment."""
    assert printed_by(f"""
def used():
    tasks = os.listdir("/proc/self/task")
    return {{task: int(open(f"/proc/self/task/{{task}}/schedstat").read().split()[0]) for task in tasks}}
plan, target = native.Plan(turned(60), 1, b"0"), bytearray(len(source))
plan.run(source, 0, target, 0, 6)
before = used()
plan.run(source, 0, target, 0, {threads})
times = [time - before.get(task, 0) for task, time in used().items()]
print(len(times) >= 6 or times, sum(time > 0.05 * sum(times) for time in times) <= {threads} or times)
""") == ["True", "True"]


def test_many_python_threads_move_at_once():
    def work(number):
        rng, right = random.Random(number), []
        for _ in range(12):
            kind = rng.choice(("copy", "rows", "tile", "odd tile", "many axes", "gather"))
            case = random_moves.drawn(kind, 4, rng.randrange(1000))
            right.append(moved(case, rng.choice((1, 3))) == case.expected())
        source = np.random.default_rng(number).integers(0, 256, (1500, 700), np.uint8)
        target = np.zeros((700, 1500), np.uint8)
        native.Plan(((1500, 1500, 700, 1), (700, 700, 1, 1500)), 1, b"0").run(source, 0, target, 0, 3)
        return all(right) and (target == source.T).all()

    barrier = threading.Barrier(8)
    with concurrent.futures.ThreadPoolExecutor(8, initializer=barrier.wait) as pool:
        assert all(pool.map(work, range(16)))


# ---- bytes ----------------------------------------------------------------------------------------------------------


def moved(case, threads=1):
    """The target's bytes after a native move of a case; gaps stay FRESH."""
    move = case.move
    source = np.concatenate([np.full(case.source_phase, FRESH, np.uint8), case.source])
    target = np.full(case.target_phase + case.target_bytes + 64, FRESH, np.uint8)
    native.Plan(move.axes, move.itemsize, move.pad).run(
        source, case.source_phase - move.source_span[0], target, case.target_phase - move.target_span[0], threads
    )
    end = case.target_phase + case.target_bytes
    assert (target[: case.target_phase] == FRESH).all() and (target[end:] == FRESH).all()
    return target[case.target_phase : end].tobytes()


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
@pytest.mark.parametrize("kind", random_moves.AIMS)
def test_moves_aimed_at_kernels_write_what_the_definition_says(kind, number):
    for k, caches in enumerate(TINY):
        with chosen(number, caches):
            for width in random_moves.AIMS[kind].widths:
                for seed in range(20 * k, 20 * k + (20 if ALL else 2)):
                    case = random_moves.drawn(kind, width, seed)
                    assert moved(case, threads=1 + seed % 3) == case.expected(), (case.name, NAMES[number], caches)


@hypothesis.settings(max_examples=1000 if ALL else 60)
@hypothesis.given(pairs(max_elements=3000), st.integers(0, BEST), st.sampled_from(TINY), st.integers(1, 4))
def test_relayouts_write_the_buffer_of_the_reference_model(shapes, number, caches, threads):
    source, target = shapes
    move = relayout_move(source, target)

    def buffer(shape):
        widths, order = tuple(shape.buffer_dimensions), tuple(shape.layout.minor_to_major)
        return reference.buffer_bytes(shape.dimensions, order, widths, shape.itemsize, shape.padding_bytes)

    given, found = np.frombuffer(buffer(source), np.uint8), np.full(len(buffer(target)), FRESH, np.uint8)
    with chosen(number, caches):
        native.Plan(move.axes, move.itemsize, move.pad).run(given, 0, found, 0, threads)
    assert found.tobytes() == buffer(target)
