"""Owners of memory that a GPU still uses live on until its work is done, and no longer."""

import gc
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.choices import backends
from gpulayout.gpu.held import Held
from tests.support.device_arrays import on_gpu_alone, same_bytes
from tests.support.foreign import Producer
from tests.support.gpu_gate import needs_devices
from tests.support.waiting import HANG, wait_until

SOURCE, TARGET = "f32[50,70]", "{0,1}"
VALUES, INDICES = np.arange(3500, dtype=np.float32), np.indices((50, 70)).reshape(2, -1)


class Owner:
    """An owner of memory."""


# ---- owners --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick_collections")
def test_an_owner_lives_until_the_wait_that_began_when_its_memory_was_dropped():
    may_go, asked, owner = threading.Event(), [], Owner()
    gone = weakref.ref(owner)

    def end_of_use():
        asked.append(True)
        return may_go.wait

    held = Held(owner, end_of_use)
    del owner
    assert not asked
    del held
    gc.collect()
    assert asked == [True] and gone() is not None
    may_go.set()
    wait_until(lambda: gone() is None)


@pytest.mark.usefixtures("quick_collections")
def test_with_nothing_to_wait_for_an_owner_goes_at_once():
    for end_of_use in (lambda: None, lambda: 1 / 0):
        owner = Owner()
        gone = weakref.ref(owner)
        held = Held(owner, end_of_use)
        del owner, held
        gc.collect()
        assert gone() is None


def test_a_wait_that_fails_keeps_nothing_alive():
    first, second = Owner(), Owner()
    gone = [weakref.ref(first), weakref.ref(second)]
    for owner, wait in ((first, lambda: 1 / 0), (second, lambda: None)):
        Held(owner, lambda wait=wait: wait)
    del owner, first, second
    wait_until(lambda: [one() for one in gone] == [None, None])


def test_many_threads_drop_owners():
    owners = [Owner() for _ in range(400)]
    gone = [weakref.ref(owner) for owner in owners]

    def drop(part):
        for number in part:
            Held(owners[number], lambda: time.sleep)
            owners[number] = None

    threads = [threading.Thread(target=drop, args=(range(start, 400, 8),)) for start in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: not any(one() for one in gone))


def test_at_exit_owners_go_before_the_libraries_that_were_imported_earlier_end():
    program = """
        import atexit, time
        atexit.register(print, "the library ends")
        from gpulayout.gpu.held import Held

        class Owner:
            def __del__(self):
                print("the owner goes")

        Held(Owner(), lambda: lambda: time.sleep(0.2))
        print("the program ends")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=HANG
    )
    assert (done.stdout.splitlines(), done.stderr) == (["the program ends", "the owner goes", "the library ends"], "")


# ---- memory of other libraries -------------------------------------------------------------------------------------


class Reusing(Producer):
    """A library with a stream of its own.  It orders that stream before the consumer's, as DLPack demands, and writes
    its memory again as soon as no capsule is left.
    """

    def __init__(self, cp, array, stream):
        super().__init__(array)
        self.cp, self.own = cp, stream

    def __dlpack__(self, *, stream, max_version=None):
        self.cp.cuda.Stream.from_external(Pointer(stream)).wait_event(self.own.record())
        return super().__dlpack__(stream=stream, max_version=max_version)

    def reuse(self):
        """What the library does next, in the order of its own stream; True if it could."""
        if self.deleted < self.made:
            return False
        with self.own:
            self.array.fill(-1)
            self.own.synchronize()
        return True


class Pointer:
    """A stream as other libraries pass it."""

    def __init__(self, pointer):
        self.pointer = 0 if pointer == 1 else pointer

    def __cuda_stream__(self):
        return 0, self.pointer


@on_gpu_alone
@pytest.mark.parametrize("call", ["relayout", "plan", "pack", "many", "transpose", "indices"])
def test_memory_is_not_reused_before_the_work_is_done(cp, call):
    expected = gl.relayout(VALUES, SOURCE, TARGET) if call != "indices" else gl.linearize(INDICES, SOURCE)
    own, work = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    for _ in range(3):
        with own:
            array = cp.asarray(VALUES)
            if call in ("pack", "transpose"):
                array = array.reshape(50, 70)
            if call == "indices":
                array = cp.asarray(INDICES)
        given = Reusing(cp, array, own)
        with work:
            result = {
                "relayout": lambda: gl.relayout(given, SOURCE, TARGET),
                "plan": lambda: gl.plan(SOURCE, TARGET)(given),
                "pack": lambda: gl.pack(given, TARGET),
                "many": lambda: gl.relayout_many([(given, SOURCE, TARGET)])[0],
                "transpose": lambda: gl.transpose(given).reshape(-1),
                "indices": lambda: gl.linearize(given, SOURCE, mode="wrap"),
            }[call]()
        given.reuse()
        with work:
            assert same_bytes(cp, result, expected)
        wait_until(given.reuse), "the memory is kept though nothing uses it"


@on_gpu_alone
def test_a_view_holds_the_memory_until_its_last_part_is_dropped(cp):
    own, work = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    with own:
        given = Reusing(cp, cp.asarray(VALUES), own)
    with work:
        part = gl.view(given, "f32[50,70]")[1:]
        assert not given.reuse()
        result = part * 2
    del part
    given.reuse()
    with work:
        assert same_bytes(cp, result, VALUES.reshape(50, 70)[1:] * 2)
    wait_until(given.reuse)


@on_gpu_alone
@pytest.mark.parametrize("device", [0, 1])
def test_an_owner_is_waited_for_on_its_own_device(cp, device):
    if (count := cp.cuda.runtime.getDeviceCount()) <= device:
        pytest.skip(needs_devices(device + 1, count))
    with cp.cuda.Device(device):
        own = cp.cuda.Stream(non_blocking=True)
        with own:
            given = Reusing(cp, cp.asarray(VALUES), own)
    result = gl.relayout(given, SOURCE, TARGET)
    with cp.cuda.Device(device):
        given.reuse()
        assert same_bytes(cp, result, gl.relayout(VALUES, SOURCE, TARGET))
        wait_until(given.reuse)


@on_gpu_alone
def test_while_a_graph_is_captured_nothing_is_held(cp):
    plan, out = gl.plan(SOURCE, TARGET), cp.zeros(3500, np.float32)
    given = Producer(cp.asarray(VALUES))
    plan(given, out=out)
    wait_until(lambda: given.deleted == given.made)
    out.fill(0)
    cp.cuda.Device().synchronize()
    with cp.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        plan(given, out=out)
        assert given.deleted == given.made
        graph = stream.end_capture()
        graph.launch(stream)
        assert same_bytes(cp, out, plan(VALUES))


@pytest.mark.usefixtures("quick_collections")
@on_gpu_alone
def test_a_lent_array_goes_back_to_the_pool_after_the_wait_of_its_borrower(cp):
    may_go, pool = threading.Event(), cp.get_default_memory_pool()
    gc.collect()
    array = cp.asarray(VALUES)
    address, free = array.data.ptr, pool.free_bytes()
    lent = backends.gpu_module().lent(array, may_go.wait)
    assert lent.data.ptr == address and same_bytes(cp, lent, VALUES) and lent.strides == array.strides
    del array, lent
    try:
        assert pool.free_bytes() == free
    finally:
        may_go.set()
    wait_until(lambda: pool.free_bytes() > free)


@on_gpu_alone
def test_waiting_for_owners_does_not_disturb_a_capture_of_another_thread(cp):
    plan, out = gl.plan(SOURCE, TARGET), cp.zeros(3500, np.float32)
    buffer = cp.asarray(VALUES)
    plan(buffer, out=out)
    cp.cuda.Device().synchronize()
    for _ in range(5):
        given = Producer(buffer)
        with cp.cuda.Stream(non_blocking=True):
            gl.relayout(given, SOURCE, TARGET)
        with cp.cuda.Stream(non_blocking=True) as stream:
            stream.begin_capture(cp.cuda.runtime.streamCaptureModeGlobal)
            wait_until(lambda: given.deleted == given.made)
            plan(buffer, out=out)
            graph = stream.end_capture()
            graph.launch(stream)
            assert same_bytes(cp, out, plan(VALUES))
