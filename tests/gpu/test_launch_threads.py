"""Launches on several devices, on streams and in many threads at once, on the fake CuPy."""

import ctypes
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.gpu.runtime import ArgumentBlocks
from tests.support import executors, fake_cuda, fake_cupy
from tests.support.kept import forget_transfers
from tests.support.prepared import LAUNCH, expected, kinds, numbers, prepared
from tests.support.waiting import HANG

pytestmark = [
    pytest.mark.simt,
    pytest.mark.skipif(executors.simt_missing() is not None, reason=str(executors.simt_missing())),
]


def on_device_one(cupy):
    with cupy.cuda.Device(1):
        found = prepared(cupy)
    fake_cuda.calls.clear()
    return found


def test_the_device_is_switched_for_the_launch_and_back(cupy):
    plan, buffer, out = on_device_one(cupy)
    plan(buffer, out=out)
    before, launch, after = fake_cuda.calls
    assert (before, launch[0], launch[2:], after) == (("set device", 1), LAUNCH, (1, 0), ("set device", 0))
    with cupy.cuda.Device(1):
        fake_cuda.calls.clear()
        plan(buffer, out=out)
        assert kinds() == [LAUNCH]


def test_one_plan_works_on_two_devices(cupy):
    plan, buffer, out = prepared(cupy)
    plan, other, other_out = on_device_one(cupy)
    other += 1000
    for _ in range(2):
        plan(buffer, out=out)
        plan(other, out=other_out)
    assert [call[2] for call in fake_cuda.calls if call[0] == LAUNCH] == [0, 1, 0, 1]
    assert out.tolist() == expected(plan, buffer) and other_out.tolist() == expected(plan, other)
    with pytest.raises(
        BufferError, match="^buffer is on cuda:0 and out is on cuda:1: nothing is copied between devices$"
    ):
        plan(buffer, out=other_out)


def test_a_launch_that_fails_leaves_the_device_as_it_was_and_the_next_one_works(cupy, monkeypatch):
    plan, buffer, out = on_device_one(cupy)

    def fail():
        raise RuntimeError("no launch")

    monkeypatch.setattr(fake_cuda, "before_reading", fail)
    with pytest.raises(RuntimeError, match="^no launch$"):
        plan(buffer, out=out)
    assert cupy.cuda.runtime.getDevice() == 0
    monkeypatch.setattr(fake_cuda, "before_reading", None)
    buffer += 1
    assert plan(buffer, out=out).tolist() == expected(plan, buffer)


def test_launches_go_to_the_current_stream_of_the_arrays_device(cupy):
    plan, buffer, out = on_device_one(cupy)
    here = cupy.cuda.Stream()
    with cupy.cuda.Device(1):
        there = cupy.cuda.Stream()
        there.__enter__()
    with here:
        fake_cuda.calls.clear()
        plan(buffer, out=out)
        assert [call[2:] for call in fake_cuda.calls if call[0] == LAUNCH] == [(1, there.ptr)]
    with cupy.cuda.Device(1):
        there.__exit__()
    plan, buffer, out = prepared(cupy)
    for stream in (here, cupy.cuda.Stream(), cupy.cuda.Stream.null):
        with stream:
            plan(buffer, out=out)
    assert [call[3] for call in fake_cuda.calls][0] == here.ptr and len({call[3] for call in fake_cuda.calls}) == 3


def test_a_thread_enters_the_context_of_a_device_before_it_launches(cupy):
    plan, buffer, out = on_device_one(cupy)
    _, mine, my_out = prepared(cupy)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(plan, buffer, out=out).result() is out
        assert pool.submit(plan, mine, out=my_out).result() is my_out
        with pytest.raises(AssertionError, match="has not entered the device's context"):  # and it had to
            pool.submit(launch_without_context, cupy, plan).result()


def launch_without_context(cupy, plan):
    fake_cuda.thread.contexts.clear()
    buffer, out = numbers(cupy, 240), cupy.empty(240, np.float32)
    plan(buffer, out=out)


class SharedBlock(ArgumentBlocks):
    """Broken on purpose: every launch shares one block, as if a plan had a single buffer."""

    def __init__(self, *given):
        super().__init__(*given)
        block = self.new()
        self.take, self.give_back = lambda: block, lambda block: None


def wrong_results(cupy, plan, calls):
    """The numbers of the jobs whose results are wrong after `calls(plan, jobs)`."""
    jobs = [(numbers(cupy, 240, first=1000 * number), cupy.empty(240, np.float32)) for number in range(8)]
    for _buffer, out in jobs:
        out[...] = -1
    calls(plan, jobs)
    return [number for number, (buffer, out) in enumerate(jobs) if out.tolist() != expected(plan, buffer)]


def two_at_once(plan, jobs):
    """Pairs of threads; neither launch reads its arguments before both have begun."""
    together = threading.Barrier(2, timeout=HANG)
    fake_cuda.before_reading = together.wait
    with ThreadPoolExecutor(2) as pool:
        for pair in zip(jobs[::2], jobs[1::2]):
            for done in [pool.submit(plan, job[0], out=job[1]) for job in pair]:
                done.result()


def one_inside_the_other(plan, jobs):
    """A signal handler or a finalizer launches after another launch filled in its arguments, before they are read."""
    waiting = list(jobs)

    def launch_the_next():
        if waiting:
            buffer, out = waiting.pop()
            plan(buffer, out=out)

    fake_cuda.before_reading = launch_the_next
    buffer, out = waiting.pop()
    plan(buffer, out=out)


@pytest.mark.parametrize("calls", [two_at_once, one_inside_the_other])
@pytest.mark.parametrize("blocks", [ArgumentBlocks, SharedBlock])
def test_the_arguments_of_launches_under_way_are_never_mixed(cupy, monkeypatch, blocks, calls):
    monkeypatch.setattr(cupy.backend_module, "ArgumentBlocks", blocks)
    monkeypatch.setattr(fake_cuda, "before_reading", None)
    plan, _, _ = prepared(cupy)
    assert bool(wrong_results(cupy, plan, calls)) is (blocks is SharedBlock)


@pytest.mark.parametrize("calls", [two_at_once, one_inside_the_other])
@pytest.mark.parametrize("blocks", [ArgumentBlocks, SharedBlock])
def test_the_parameters_of_launches_under_way_are_never_mixed(cupy, monkeypatch, blocks, calls):
    """The calls share a prepared launch, and each has a scale of its own for every element."""
    monkeypatch.setattr(cupy.backend_module, "ArgumentBlocks", blocks)
    monkeypatch.setattr(fake_cuda, "before_reading", None)
    source, scales = cupy.empty(240, np.uint8), [np.arange(240, dtype=np.float32) + 1000 * job for job in range(8)]
    source[...] = 1
    plans = [gl.plan("u8[240]", "f32[240]", scale=scale) for scale in scales]
    outs = [plan(source) for plan in plans]
    for out in outs:
        out[...] = -1
    calls(lambda plan, out: plan(source, out=out), list(zip(plans, outs)))
    wrong = [out.tolist() != scale.tolist() for out, scale in zip(outs, scales)]
    assert any(wrong) is (blocks is SharedBlock)


def test_many_threads_share_a_plan(cupy, monkeypatch):
    plan, _, _ = prepared(cupy)
    barrier = threading.Barrier(6, timeout=HANG)
    monkeypatch.setattr(fake_cuda, "before_reading", lambda: threading.Event().wait(0.0001))

    def work(number):
        barrier.wait()
        with cupy.cuda.Stream():
            for turn in range(20):
                buffer, out = numbers(cupy, 240, first=240 * (20 * number + turn)), cupy.empty(240, np.float32)
                plan(buffer, out=out)
                result = out.tolist()
                assert result == expected(plan, buffer), (number, turn)
        return True

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(6)))


def test_kernels_are_compiled_once_however_many_threads_ask(cupy):
    fake_cupy.RawKernel.compiled.clear()
    buffers = [numbers(cupy, 12) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda buffer: gl.relayout(buffer, "f32[3,4]", "{0,1}").tolist(), buffers))
    assert fake_cupy.RawKernel.compiled == [0] and len({str(one) for one in found}) == 1
    forget_transfers()
    gl.relayout(buffers[0], "f32[3,4]", "{0,1}")
    assert fake_cupy.RawKernel.compiled == [0]


# ---- blocks of arguments -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operands", (0, 1))
@pytest.mark.parametrize("pointers", range(4))
def test_a_block_leads_to_every_argument(pointers, operands):
    parameters = bytes(range(1, 22))
    blocks = ArgumentBlocks(pointers, parameters, operands)
    given = [2**64 - 1 - number for number in range(pointers + operands)]
    words, address = blocks.new()
    blocks.pack(words, blocks.first, *given)
    table = (ctypes.c_uint64 * (pointers + 1)).from_address(address)
    assert [ctypes.c_uint64.from_address(place).value for place in table[:pointers]] == given[:pointers]
    expected = np.array(given[pointers:], np.uint64).tobytes()
    assert ctypes.string_at(table[pointers], len(parameters)) == expected + parameters[len(expected) :]


@pytest.mark.parametrize("operands", (0, 1))
def test_a_block_is_used_again_only_after_it_was_given_back(operands):
    blocks = ArgumentBlocks(2, bytes(16), operands)
    with pytest.raises(IndexError):
        blocks.take()
    first, second = blocks.new(), blocks.new()
    for number, block in enumerate((first, second)):
        blocks.pack(block[0], blocks.first, *[number] * (2 + operands))
    assert list(first[0])[3:5] == [0, 0] and list(second[0])[3:5] == [1, 1]
    assert (first[0][2] == second[0][2]) is (not operands), "each block has its own struct if it begins with addresses"
    blocks.give_back(first)
    assert blocks.take() is first and not blocks.free
