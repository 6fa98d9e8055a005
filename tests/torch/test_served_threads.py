"""Threads that write the weights of one served model at the same time, as loaders do, while others read."""

import concurrent.futures
import contextlib
import copy
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import gpulayout as gl

torch = pytest.importorskip("torch")

from gpulayout.torch.notes import lock_of  # noqa: E402  # they need torch
from tests.support import served_laws  # noqa: E402
from tests.support.served_models import (  # noqa: E402
    PACKED,
    SLOTS,
    checkpoint,
    in_memory,
    part_tensors,
    served,
    whole_array,
)

ROUNDS = 30


@pytest.fixture(autouse=True)
def _in_turns():
    """Threads take turns often."""
    kept = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(kept)


def together(*tasks):
    """Run functions at the same time, and raise what any of them raises."""
    start = threading.Barrier(len(tasks))

    def run(task):
        start.wait()
        task()

    with concurrent.futures.ThreadPoolExecutor(len(tasks)) as pool:
        for each in [pool.submit(run, task) for task in tasks]:
            each.result()


FORMS = {  # dtype, layout, law, elements in memory
    "Marlin": (np.uint8, "marlin:weights(dtype=u4)", served_laws.marlin, "u4"),
    "tiles": (np.float32, "{1,0:T(8,128)}", served_laws.tiles_8_128, "f32"),
    "shuffled": (np.uint8, "flashinfer:gate_up", served_laws.gate_up, "u8"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cut", [64, 37])
def test_boxes_of_one_parameter(form, cut):
    """Two threads write two boxes, again and again; between 36 and 37 they share tiles, and bytes of two codes."""
    dtype, layout, law, held = FORMS[form]
    sizes = (128, 256)
    rng = np.random.default_rng(0)
    tensor = gl.torch.pack_(torch.from_numpy(np.zeros(sizes, dtype)), layout)
    values = rng.integers(0, 16, (ROUNDS, *sizes)).astype(dtype)
    sent = torch.from_numpy(values)
    for axis in (0, 1):
        boxes = [(slice(None),) * axis + (slice(*ends),) for ends in ((0, cut), (cut, sizes[axis]))]
        for number in range(ROUNDS):
            together(*(lambda box=box: gl.torch.copy_(tensor, sent[number][box], at=box) for box in boxes))
            assert np.array_equal(served_laws.in_memory(tensor, law, sizes, held), values[number]), (axis, number)


def test_the_parts_of_a_model_in_any_order():
    """A pool of four threads writes all parts of a checkpoint."""
    model = served(0)
    for seed in (1, 2, 3):
        given = checkpoint(seed)
        parts = [(name, *part) for name in SLOTS for part in part_tensors(name, given)]
        order = np.random.default_rng(seed).permutation(len(parts)).tolist()

        def write(number):
            name, tensor, box = parts[number]
            gl.torch.copy_(model.get_parameter(name), tensor, at=box or None)

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(write, order))
        read = in_memory(model)
        for name in SLOTS:
            assert read(name).tobytes() == whole_array(name, given).tobytes(), name


def test_some_parameters_are_read_while_others_are_written():
    """Half of the parameters are packed, unpacked and written; the other half is read, and never changes."""
    model, given, other = served(0), checkpoint(0), checkpoint(1)
    written, kept = PACKED[::2], PACKED[1::2]

    def write():
        for number in range(8):
            for name in written:
                tensor = model.get_parameter(name)
                for part, box in part_tensors(name, (given, other)[number % 2]):
                    gl.torch.copy_(tensor, part, at=box or None)
                gl.torch.unpack_(tensor)
                gl.torch.pack_(tensor, SLOTS[name].layout, source=SLOTS[name].source)

    def read():
        wanted = {name: next(part_tensors(name, given)) for name in kept}
        for _ in range(20):
            for name in kept:
                tensor, (part, box) = model.get_parameter(name), wanted[name]
                found = gl.torch.read(tensor, at=box or None)
                assert torch.equal(found.view(torch.uint8), part.view(torch.uint8)), name
                assert gl.torch.layout_of(tensor) is not None

    together(write, read, read)
    in_rest = in_memory(model)
    for name in SLOTS:
        wanted = other if name in written else given
        assert in_rest(name).tobytes() == whole_array(name, wanted).tobytes(), name


def test_one_tensor_is_read_and_filled_while_it_is_packed_and_unpacked():
    """Every call waits for the one before: none meets bytes between two layouts, nor a tensor of half its new form."""
    values = torch.from_numpy(np.random.default_rng(0).random((256, 256), np.float32))
    tensor, over = values.clone(), threading.Event()

    def move():
        for number in range(100):
            gl.torch.pack_(tensor, ("{0,1}", "{1,0:T(8,128)}")[number % 2])
            gl.torch.unpack_(tensor)
        gl.torch.pack_(tensor, "{0,1}")
        over.set()

    def read():
        while not over.is_set():
            assert gl.torch.read(tensor).equal(values)
            gl.torch.layout_of(tensor)

    def write():
        while not over.is_set():
            gl.torch.copy_(tensor, values)
            gl.torch.copy_(tensor, values[8:16], at=(slice(8, 16), ...))

    together(move, read, write)
    assert gl.torch.read(tensor).equal(values)


@pytest.mark.parametrize("copied", [copy.deepcopy, torch.clone, lambda tensor: tensor.to("cpu", copy=True)])
def test_one_tensor_is_copied_while_it_is_packed_and_unpacked(copied):
    """A copy that has a note has the bytes that it names; torch may refuse a tensor that changes under its hands."""
    values = torch.from_numpy(np.random.default_rng(0).random((256, 256), np.float32))
    tensor, over = values.clone(), threading.Event()

    def move():
        for _ in range(100):
            gl.torch.pack_(tensor, "{0,1}")
            gl.torch.unpack_(tensor)
        over.set()

    def make():
        while not over.is_set():
            with contextlib.suppress(RuntimeError):
                made = copied(tensor)
                if gl.torch.layout_of(made) is not None:
                    assert gl.torch.read(made).equal(values)

    together(move, make)


def test_two_tensors_are_copied_into_each_other():
    """Neither waits for the other for ever."""
    one, other = (gl.torch.pack_(torch.rand(64, 128), layout) for layout in ("{0,1}", "{1,0:T(8,128)}"))

    def fill(target, value):
        for _ in range(200):
            gl.torch.copy_(target, value)

    together(lambda: fill(one, other), lambda: fill(other, one))
    assert gl.torch.read(one).equal(gl.torch.read(other))


def test_a_plain_value_is_read_alone():
    """While a thread has the lock of its memory, perhaps to pack it, no other copies its bytes."""
    value, over = torch.rand(64, 128), threading.Event()
    tensor = gl.torch.pack_(torch.zeros(64, 128), "{0,1}")
    thread = threading.Thread(target=lambda: (gl.torch.copy_(tensor, value), over.set()))
    with lock_of(value):
        thread.start()
        assert not over.wait(0.1)
    thread.join()
    assert gl.torch.read(tensor).equal(value)


FORK = """
import contextlib, os, signal, sys, threading
import torch
import gpulayout as gl
from gpulayout.torch.notes import LOCK, lock_of

def hold():
    with LOCK if sys.argv[1] == "all" else lock_of(tensor):
        held.set()
        over.wait(0.2)

tensor, held, over = gl.torch.pack_(torch.rand(64, 128), "{0,1}"), threading.Event(), threading.Event()
values = gl.torch.read(tensor)
thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if not child:
    signal.alarm(3)  # ends a child that waits
    gl.torch.copy_(tensor, gl.torch.read(tensor))
    os._exit(not gl.torch.unpack_(tensor).equal(values))
assert os.waitpid(child, 0)[1] == 0
thread.join()
assert gl.torch.unpack_(tensor).equal(values)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.parametrize("lock", ["one", "all"])
def test_a_forked_child_waits_for_no_thread_of_its_parent(lock):
    """Such as a DataLoader's worker, while another thread loads weights."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK, lock], capture_output=True)
    assert not done.returncode, done.stderr.decode()


FIRST_USE = """
import inspect, sys, threading
import torch
sys.setswitchinterval(1e-6)
import gpulayout as gl

def use():
    start.wait()
    try:
        signatures.append(str(inspect.signature(gl.torch.copy_)))
    except BaseException as error:
        signatures.append(repr(error))

start, signatures = threading.Barrier(8), []
threads = [threading.Thread(target=use) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(signatures) == 8 and len(set(signatures)) == 1 and "scale" in signatures[0], signatures
"""


def test_threads_use_a_function_first_at_the_same_time():
    """Public names are imported when they are first used, and get their signatures then."""
    done = subprocess.run([sys.executable, "-c", FIRST_USE], capture_output=True)
    assert not done.returncode, done.stderr.decode()
