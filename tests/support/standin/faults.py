"""Small programs with a fault that CUDA reports or that gives wrong results, each with its correct form.

    python -m tests.support.standin.faults         all programs, correct and faulty, as JSON: {name: [outcome, outcome]}
    python -m tests.support.standin.faults NAME    a faulty one on the stand-in without the check: see twins.py

Every program runs in its own process, because a fault may end it or lose the context.  An outcome is "right" or "wrong"
for the result of the program, the name of an error, or the name of a signal.
"""

import contextlib
import ctypes
import json
import os
import signal
import sys
import threading

import numpy as np

PROGRAMS = {}
COUNT = 1000
ADD = (
    'extern "C" __global__ void add(int* p, int n, int v) '
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] += v; }"
)
SUM = (
    'extern "C" __global__ void sum(const int* p, int n, int* out) '
    "{ int total = 0; for (int i = 0; i < n; ++i) total += p[i]; *out = total; }"
)


def program(function):
    """A function of (cupy, faulty) that returns whether its result is right."""
    PROGRAMS[function.__name__] = function
    return function


def kernel(cupy, text):
    return cupy.RawKernel(text, text.split("void ")[1].split("(")[0])


def add(cupy, array, value, count=None):
    """Add a value to the first `count` elements, all by default, on the current stream."""
    count = array.size if count is None else count
    kernel(cupy, ADD)((-(-max(count, 1) // 128),), (128,), (array, np.int32(count), np.int32(value)))


# ---- order -----------------------------------------------------------------------------------------------------------


@program
def a_kernel_on_another_stream_than_its_input(cupy, faulty):
    first, second = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    numbers = cupy.zeros(COUNT, np.int32)
    cupy.cuda.Device().synchronize()
    with first:
        add(cupy, numbers, 5)
    with second if faulty else first:
        doubled = numbers * 2
        return bool((doubled.get() == 10).all())


@program
def an_array_dropped_while_another_stream_reads_it(cupy, faulty):
    """CuPy's pool reuses the memory in the order of the stream that it came from."""
    owner, reader = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    with owner:
        numbers = cupy.full(COUNT, 3, np.int32)
    reader.wait_event(owner.record())
    with reader:
        result = numbers * 2
    if not faulty:
        owner.wait_event(reader.record())
    with owner:
        del numbers
        cupy.full(COUNT, 9, np.int32)
        owner.synchronize()
    with reader:
        return bool((result.get() == 6).all())


@program
def pinned_memory_changed_before_it_is_copied(cupy, faulty):
    memory = cupy.cuda.alloc_pinned_memory(4 * COUNT)
    numbers = np.frombuffer(memory, np.int32, COUNT)
    numbers[:] = 7
    array = cupy.empty(COUNT, np.int32)
    stream = cupy.cuda.Stream(non_blocking=True)
    array.set(numbers, stream=stream)
    if not faulty:
        stream.synchronize()
    numbers[:] = 8
    return bool((array.get(stream=stream) == 7).all())


@program
def managed_memory_read_before_the_kernel_ended(cupy, faulty):
    memory = cupy.cuda.malloc_managed(4 * COUNT)
    array = cupy.ndarray((COUNT,), np.int32, memory)
    array.fill(1)
    add(cupy, array, 1)
    if not faulty:
        cupy.cuda.Device().synchronize()
    return ctypes.c_int32.from_address(memory.ptr).value == 2


@program
def memory_changed_in_one_stream_while_another_reads_it(cupy, faulty):
    """The host waits for the reader first, so both the latest and the earliest order are right."""
    from tests.support.standin import device

    reader, writer = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    wrong = 0
    for order in (-1, *range(30)):
        numbers = cupy.full(COUNT, 3, np.int32)
        cupy.cuda.Device().synchronize()
        device.set_order(order)
        with reader:
            result = numbers * 2
        if not faulty:
            writer.wait_event(reader.record())
        with writer:
            add(cupy, numbers, 1)
        reader.synchronize()
        wrong += bool((result.get(stream=reader) != 6).any())
        device.set_order(0)
    return not wrong


# ---- memory ----------------------------------------------------------------------------------------------------------


@program
def a_kernel_reads_freed_memory(cupy, faulty):
    cupy.cuda.set_allocator(None)
    numbers, out = cupy.ones(COUNT, np.int32), cupy.zeros(1, np.int32)
    address = numbers.data.ptr
    if faulty:
        del numbers
    kernel(cupy, SUM)((1,), (1,), (np.uint64(address), np.int32(COUNT), out))
    return int(out[0]) == COUNT


@program
def memory_freed_in_one_stream_and_used_in_another(cupy, faulty):
    cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
    owner, reader = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    with owner:
        numbers = cupy.ones(COUNT, np.int32)
    reader.wait_event(owner.record())
    with reader:
        out = cupy.zeros(1, np.int32)
        kernel(cupy, SUM)((1,), (1,), (numbers, np.int32(COUNT), out))
    if not faulty:
        owner.wait_event(reader.record())
    with owner:
        del numbers
    owner.synchronize()
    with reader:
        return int(out.get()[0]) == COUNT


@program
def the_host_reads_device_memory(cupy, faulty):
    array = cupy.ones(COUNT, np.int32)
    cupy.cuda.Device().synchronize()
    if faulty:
        return ctypes.string_at(array.data.ptr, 4) == b"\1\0\0\0"
    return int(array.get()[0]) == 1


@program
def a_copy_past_an_allocation(cupy, faulty):
    cupy.cuda.set_allocator(None)
    source, target = cupy.zeros(COUNT, np.uint8), cupy.zeros(2 * COUNT, np.uint8)
    target.data.copy_from_device(source.data, COUNT + faulty)
    return not target[:COUNT].get().any()


@program
def a_fill_past_an_allocation(cupy, faulty):
    cupy.cuda.set_allocator(None)
    array = cupy.empty(COUNT, np.uint8)
    array.data.memset_async(1, COUNT + faulty)
    return bool((array.get() == 1).all())


@program
def a_kernel_writes_just_past_an_allocation(cupy, faulty):
    """Within the same page, so freeing the memory finds it."""
    cupy.cuda.set_allocator(None)
    array = cupy.zeros(COUNT, np.int32)
    add(cupy, array, 1, COUNT + faulty)
    cupy.cuda.Device().synchronize()
    del array
    cupy.cuda.Device().synchronize()
    return True


@program
def a_kernel_reads_far_past_an_allocation(cupy, faulty):
    cupy.cuda.set_allocator(None)
    numbers, out = cupy.ones(COUNT, np.int32), cupy.zeros(1, np.int32)
    kernel(cupy, SUM)((1,), (1,), (numbers, np.int32(COUNT + 512 * faulty), out))
    return int(out[0]) == COUNT


@program
def a_kernel_reads_another_devices_memory(cupy, faulty):
    with cupy.cuda.Device(int(faulty)):
        numbers = cupy.ones(COUNT, np.int32)
        cupy.cuda.Device().synchronize()
    out = cupy.zeros(1, np.int32)
    kernel(cupy, SUM)((1,), (1,), (np.uint64(numbers.data.ptr), np.int32(COUNT), out))
    return int(out[0]) == COUNT


@program
def memory_taken_for_zeros(cupy, faulty):
    cupy.cuda.set_allocator(None)
    array = (cupy.empty if faulty else cupy.zeros)(COUNT, np.int32)
    return not array.get().any()


@program
def a_misaligned_access(cupy, faulty):
    room = cupy.zeros(4 * COUNT + 4, np.uint8)
    add(cupy, room[faulty:][: 4 * COUNT].view(np.int32), 1)
    return int(room[int(faulty)]) == 1


# ---- launches --------------------------------------------------------------------------------------------------------


def launch(cupy, function, array, stream=0, value=1):
    """The driver's own call.  Returns its arguments, which the caller can change, and the array of their addresses."""
    arguments = (ctypes.c_uint64(array.data.ptr), ctypes.c_int32(array.size), ctypes.c_int32(value))
    addresses = (ctypes.c_uint64 * 3)(*map(ctypes.addressof, arguments))
    cupy.cuda.driver.launchKernel(
        function.kernel.ptr, -(-array.size // 128), 1, 1, 128, 1, 1, 0, stream, ctypes.addressof(addresses), 0
    )
    return arguments, addresses


@program
def arguments_changed_after_the_launch(cupy, faulty):
    """Not a fault: a launch has read its arguments when it returns.  A device that kept their addresses would fail."""
    array = cupy.zeros(COUNT, np.int32)
    arguments, _addresses = launch(cupy, kernel(cupy, ADD), array)
    arguments[2].value = 100
    return bool((array.get() == 1).all())


@program
def arguments_changed_after_the_capture(cupy, faulty):
    """The same for a launch that is captured in a graph."""
    array, function = cupy.zeros(COUNT, np.int32), kernel(cupy, ADD)
    launch(cupy, function, array, value=0)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        arguments, _addresses = launch(cupy, function, array, stream.ptr)
        graph = stream.end_capture()
        arguments[2].value = 100
        graph.launch(stream)
        return bool((array.get(stream=stream) == 1).all())


@program
def a_launch_without_a_context(cupy, faulty):
    array, function, found = cupy.zeros(COUNT, np.int32), kernel(cupy, ADD), []
    function.compile()

    def work():
        if not faulty:
            cupy.cuda.Device(0).use()
        try:
            launch(cupy, function, array)
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if found:
        raise found[0]
    return bool((array.get() == 1).all())


@program
def a_launch_on_another_devices_stream(cupy, faulty):
    array, function = cupy.zeros(COUNT, np.int32), kernel(cupy, ADD)
    function.compile()
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Device(int(faulty)):
        stream = cupy.cuda.Stream()
    launch(cupy, function, array, stream.ptr)
    return bool((array.get() == 1).all())


@program
def a_launch_on_another_device(cupy, faulty):
    array, function = cupy.zeros(COUNT, np.int32), kernel(cupy, ADD)
    pointer = function.kernel.ptr
    with cupy.cuda.Device(int(faulty)):
        addresses = (ctypes.c_uint64 * 3)()
        values = (ctypes.c_uint64(array.data.ptr), ctypes.c_int32(0), ctypes.c_int32(1))
        addresses[:] = list(map(ctypes.addressof, values))
        cupy.cuda.driver.launchKernel(pointer, 1, 1, 1, 1, 1, 1, 0, 0, ctypes.addressof(addresses), 0)
    return not array.get().any()


@program
def a_wait_within_a_capture(cupy, faulty):
    array = cupy.zeros(COUNT, np.int32)
    add(cupy, array, 0)
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture(cupy.cuda.runtime.streamCaptureModeGlobal)
        add(cupy, array, 1)
        if faulty:
            cupy.cuda.Device().synchronize()
        graph = stream.end_capture()
        graph.launch(stream)
        return bool((array.get(stream=stream) == 1).all())


@program
def a_wait_in_another_thread_within_a_capture(cupy, faulty):
    """A capture in the global mode forbids it, unless that thread asked to be left out."""
    from gpulayout.gpu import driver

    array = cupy.zeros(COUNT, np.int32)
    add(cupy, array, 0)
    event = cupy.cuda.get_current_stream().record()

    def work():
        if not faulty:
            driver.leave_captures_alone()
        with contextlib.suppress(Exception):  # the capture reports it too
            event.synchronize()

    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture(cupy.cuda.runtime.streamCaptureModeGlobal)
        add(cupy, array, 1)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        graph = stream.end_capture()
        graph.launch(stream)
        return bool((array.get(stream=stream) == 1).all())


@program
def a_branch_of_a_capture_that_is_not_joined(cupy, faulty):
    array = cupy.zeros(COUNT, np.int32)
    add(cupy, array, 0)
    cupy.cuda.Device().synchronize()
    stream, branch = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    stream.begin_capture()
    branch.wait_event(stream.record())
    with branch:
        add(cupy, array, 1)
    if not faulty:
        stream.wait_event(branch.record())
    graph = stream.end_capture()
    graph.launch(stream)
    return bool((array.get(stream=stream) == 1).all())


# ---- the library's own launches --------------------------------------------------------------------------------------


@program
def the_library_on_another_stream(cupy, faulty):
    import gpulayout as gl
    from gpulayout.gpu import cupy_runtime

    if faulty:
        cupy_runtime.current_stream = lambda device: cupy.cuda.Stream.null
    with cupy.cuda.Stream(non_blocking=True):
        buffer = cupy.arange(6, dtype=np.float32)
        return gl.relayout(buffer, "f32[2,3]", "{0,1}").get().tolist() == [0, 3, 1, 4, 2, 5]


@program
def the_library_in_a_thread_that_entered_no_context(cupy, faulty):
    import gpulayout as gl
    from gpulayout.gpu import cupy_runtime

    if faulty:
        cupy_runtime.enter_context = lambda device: None
    plan, found = gl.plan("f32[2,3]", "{0,1}"), []
    buffer, out = cupy.arange(6, dtype=np.float32), cupy.zeros(6, np.float32)
    plan(buffer, out=out)
    out.fill(0)

    def work():
        try:
            plan(buffer, out=out)
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if found:
        raise found[0]
    return out.get().tolist() == [0, 3, 1, 4, 2, 5]


# ---- running them ----------------------------------------------------------------------------------------------------


def outcome(cupy, name, faulty):
    """The outcome of a program, run in its own process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the outcome names the error
        try:
            result = "right" if PROGRAMS[name](cupy, faulty) else "wrong"
        except Exception as error:
            result = str(error).split(":")[0]
        os.write(writing, result.encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        result = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return signal.Signals(-status).name if status < 0 else result


def main(name=None):
    from tests.support.standin import device
    from tests.support.standin.twins import TWINS

    device.install([TWINS[name].replacement] if name else ())
    import cupy

    if name:
        print(json.dumps(outcome(cupy, name, True)))
    else:
        print(json.dumps({name: [outcome(cupy, name, faulty) for faulty in (False, True)] for name in PROGRAMS}))


if __name__ == "__main__":
    main(*sys.argv[1:])
