"""Arrays that cannot be used: each is refused with its full message, and nothing is written."""

import collections
import itertools
import pickle
import unittest.mock

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.arrays import arrays
from gpulayout.choices import backends
from tests.support import executors

SOURCE = gl.parse_shape("f32[2,3]{1,0}")
TARGET = gl.parse_shape("f32[2,3]{0,1:PD(3,5)}")
AT_TARGET = "f32[2,3]{0,1:PD(3,5)}"


def floats(count, dtype=np.float32):
    return np.arange(count, dtype=dtype)


def read_only(array):
    array.flags.writeable = False
    return array


def buffer_cases():
    """(call, error, message); `a` brings an array to the executor, `o` is a target buffer of 15 sevens."""
    return {
        "buffer too small": (
            lambda a, o: gl.relayout(a(floats(5)), SOURCE, TARGET, out=o),
            BufferError,
            "buffer has 5 elements, but f32[2,3]{1,0} needs 6",
        ),
        "out too small": (
            lambda a, o: gl.relayout(a(floats(6)), SOURCE, TARGET, out=o[:14]),
            BufferError,
            f"out has 14 elements, but {AT_TARGET} needs 15",
        ),
        "wrong dtype": (
            lambda a, o: gl.relayout(a(floats(6, np.float64)), SOURCE, TARGET, out=o),
            TypeError,
            "buffer has dtype float64, but f32[2,3]{1,0} needs float32",
        ),
        "wrong dtype of out": (
            lambda a, o: gl.relayout(a(floats(6)), SOURCE, TARGET, out=a(floats(15, np.int32))),
            TypeError,
            f"out has dtype int32, but {AT_TARGET} needs float32",
        ),
        "no carrier for a native type": (
            lambda a, o: gl.relayout(a(floats(6, np.uint32)), SOURCE, TARGET, out=o),
            TypeError,
            "buffer has dtype uint32, but f32[2,3]{1,0} needs float32; buffer.view('float32') takes its bytes as these",
        ),
        "two dimensions": (
            lambda a, o: gl.relayout(a(floats(6).reshape(3, 2)), SOURCE, TARGET, out=o),
            BufferError,
            "buffer has shape (3, 2) and strides (8, 4), so its memory is f32[3,2]{1,0}, not a buffer of "
            "f32[2,3]{1,0}: gl.pack takes an array with any strides; buffer.reshape(-1) is the same memory as a flat "
            "buffer",
        ),
        "not contiguous": (
            lambda a, o: gl.relayout(a(floats(12))[::2], SOURCE, TARGET, out=o),
            BufferError,
            "buffer steps by 8 bytes, but a buffer of f32[2,3]{1,0} is contiguous and steps by 4",
        ),
        "reversed": (
            lambda a, o: gl.relayout(a(floats(6))[::-1], SOURCE, TARGET, out=o),
            BufferError,
            "buffer steps by -4 bytes, but a buffer of f32[2,3]{1,0} is contiguous and steps by 4",
        ),
        "not an array": (
            lambda a, o: gl.relayout([1.0] * 6, SOURCE, TARGET, out=o),
            TypeError,
            "buffer is a list: it must be a NumPy or CuPy array, or offer DLPack or __cuda_array_interface__; "
            "numpy.array(buffer) makes one",
        ),
        "none": (
            lambda a, o: gl.unpack(None, SOURCE),
            TypeError,
            "buffer is a NoneType: it must be a NumPy or CuPy array, or offer DLPack or __cuda_array_interface__",
        ),
        "out is not an array": (
            lambda a, o: gl.relayout(a(floats(6)), SOURCE, TARGET, out=[0.0] * 15),
            TypeError,
            "out is a list: it must be a NumPy or CuPy array, or offer DLPack or __cuda_array_interface__; "
            "numpy.array(out) makes one",
        ),
        "input inside output": (
            lambda a, o: gl.relayout(o[1:7], SOURCE, TARGET, out=o),
            BufferError,
            "buffer and out overlap in memory: out must be separate memory, or begin with the same byte",
        ),
        "output across input": (
            lambda a, o: gl.unpack(o, TARGET, out=o[9:].reshape(2, 3)),
            BufferError,
            "buffer and out overlap in memory: out must be separate memory, "
            "because only gl.relayout and plans work in place",
        ),
        "pack onto itself": (
            lambda a, o: gl.pack(o[:6].reshape(2, 3), TARGET, out=o),
            BufferError,
            "array and out overlap in memory: out must be separate memory, "
            "because only gl.relayout and plans work in place",
        ),
        "logical shape": (
            lambda a, o: gl.pack(a(floats(6).reshape(3, 2)), TARGET, out=o),
            BufferError,
            f"array has shape (3, 2), but {AT_TARGET} has dimensions (2, 3)",
        ),
        "logical out shape": (
            lambda a, o: gl.unpack(o, TARGET, out=a(floats(6))),
            BufferError,
            f"out has shape (6,), but {AT_TARGET} has dimensions (2, 3)",
        ),
        "other dimensions": (
            lambda a, o: gl.relayout(a(floats(6)), SOURCE, "f32[3,2]", out=o),
            gl.LayoutError,
            "target f32[3,2]{1,0} is not the same logical array as source f32[2,3]{1,0}: dimension 0 is 3, not 2",
        ),
        "other rank": (
            lambda a, o: gl.plan(SOURCE, "f32[6]"),
            gl.LayoutError,
            "target f32[6]{0} is not the same logical array as source f32[2,3]{1,0}: it has 1 dimension, not 2",
        ),
        "other type": (
            lambda a, o: gl.plan(SOURCE, "s32[2,3]"),
            gl.LayoutError,
            "target s32[2,3]{1,0} is not the same logical array as source f32[2,3]{1,0}: "
            "the element type is s32, not f32; dtype='s32' converts the elements on the way",
        ),
        "not a shape": (lambda a, o: gl.pack(o, 15), TypeError, "shape must be a Shape, a Layout or text, not int"),
        "not a shape for other elements": (
            lambda a, o: gl.pack(o, 15, dtype="s32"),
            TypeError,
            "shape must be a Shape, a Layout or text, not int",
        ),
        "no shape of a buffer": (
            lambda a, o: gl.unpack(o, 15),
            TypeError,
            "shape must be a Shape or its text, not int",
        ),
        "no source": (
            lambda a, o: gl.relayout(o, 15, "{0}"),
            TypeError,
            "source must be a Shape or its text, not int",
        ),
        "elements without a type of their own": (
            lambda a, o: gl.pack(np.zeros((2, 3), object), AT_TARGET),
            TypeError,
            f"array has dtype object, but {AT_TARGET} needs float32; dtype='f32' converts the elements on the way",
        ),
        "view too small": (
            lambda a, o: gl.view(o[:14], TARGET),
            BufferError,
            f"buffer has 14 elements, but {AT_TARGET} needs 15",
        ),
    }


@pytest.mark.parametrize("case", list(buffer_cases()))
def test_arrays_that_do_not_fit_are_refused_before_anything_is_written(executor, case):
    call, error, message = buffer_cases()[case]
    out = executor.array(np.full(15, 7, np.float32))
    with pytest.raises(error) as caught:
        call(executor.array, out)
    assert str(caught.value) == message
    assert executor.host(out).tolist() == [7.0] * 15


def test_what_is_wrong_with_shapes_is_said_before_what_is_wrong_with_the_output():
    read_only = floats(6)
    read_only.flags.writeable = False
    with pytest.raises(TypeError, match="^shape must be a Shape"):
        gl.pack(floats(6).reshape(2, 3), 5, out=read_only)
    with pytest.raises(BufferError, match=r"^array has shape \(2, 3\), but f32\[3,2\]"):
        gl.pack(floats(6).reshape(2, 3), "f32[3,2]", out=read_only)
    with pytest.raises(gl.LayoutError, match=r"^target f32\[2,3\].* is not the same logical array"):
        gl.relayout(floats(6), "f32[3,2]", "f32[2,3]", out=read_only)


class Foreign(np.ndarray):
    """Arrays whose overlap the library computes itself."""


def test_strided_arrays_share_memory_as_numpy_says():
    memory, host, kinds = np.zeros((6, 8), np.int16), backends.host_backend(), collections.Counter()
    parts = [
        memory[rows, columns, ...]
        for rows in (slice(0, 3), slice(3, 6), slice(4, None, -2), slice(0, 0), 2)
        for columns in (slice(0, 4), slice(4, 8), slice(None, None, -3), slice(1, 7, 2), 5)
    ]
    for a, b in itertools.product(parts, repeat=2):
        found = arrays.may_overlap(host, np.asarray(a).view(Foreign), np.asarray(b).view(Foreign))
        assert found == arrays.may_overlap(host, a, b) == np.shares_memory(a, b), (a, b)
        kinds[found] += 1
    assert min(kinds.values()) > 100


def test_out_that_overlaps_itself_is_refused(executor):
    buffer, row = executor.array(floats(6)), executor.array(np.full(6, 7, np.float32))
    for strides, message in (
        ((0, 4), "dimension 0 steps by 0 bytes where 4 are taken"),
        ((4, 4), "dimension 1 steps by 4 bytes where 8 are taken"),
        ((8, 4), "dimension 0 steps by 8 bytes where 12 are taken"),
    ):
        out = executor.backend.strided(row, (2, 3), strides)
        with pytest.raises(BufferError) as caught:
            gl.unpack(buffer, SOURCE, out=out)
        assert str(caught.value) == f"out with shape (2, 3) and strides {strides} may overlap itself: {message}"
    assert executor.host(row).tolist() == [7.0] * 6


def test_read_only_memory_is_read_but_not_written():
    source, out = read_only(floats(6)), read_only(np.full(15, 7, np.float32))
    assert gl.relayout(source, SOURCE, TARGET).tolist()[:3] == [0.0, 3.0, 0.0]
    assert gl.pack(source.reshape(2, 3), SOURCE).tolist() == floats(6).tolist()
    assert gl.linearize(read_only(np.array([[1], [2]])), SOURCE).tolist() == [5]
    for call in (
        lambda: gl.relayout(source, SOURCE, TARGET, out=out),
        lambda: gl.pack(source.reshape(2, 3), TARGET, out=out),
        lambda: gl.unpack(source, SOURCE, out=source.reshape(2, 3)),
        lambda: gl.linearize(np.array([[1], [2]]), SOURCE, out=read_only(np.zeros(1, int))),
    ):
        with pytest.raises(BufferError, match="^out is read-only: it cannot be written to$"):
            call()
    assert out.tolist() == [7.0] * 15
    assert not gl.view(source, SOURCE).flags.writeable


@pytest.mark.parametrize(
    "array, message",
    [
        (np.zeros(6, ">f8"), "buffer has dtype float64, but f32[2,3]{1,0} needs float32"),
        (np.zeros(6, object), "buffer has dtype object, but f32[2,3]{1,0} needs float32"),
        (np.zeros(6, "M8[s]"), "buffer has dtype datetime64[s], but f32[2,3]{1,0} needs float32"),
        (np.zeros(6, [("a", "f4")]), "buffer has dtype [('a', '<f4')], but f32[2,3]{1,0} needs float32"),
        (
            np.ma.masked_array(floats(6), mask=[1, 0, 0, 0, 0, 0]),
            "buffer is a masked array: its mask would be lost, pass .filled() or .data",
        ),
    ],
)
def test_dtypes_that_are_not_the_shapes_are_refused(array, message):
    with pytest.raises(TypeError) as caught:
        gl.relayout(array, SOURCE, TARGET)
    assert str(caught.value) == message


def test_element_types_without_a_numpy_dtype_may_be_carried_as_integers(executor):
    shape, target = "bf16[2,3]{1,0}", "bf16[2,3]{0,1:PD(2,4)PV(lowest)}"
    carried = executor.array(np.arange(6, dtype=np.uint16))
    found = gl.relayout(carried, shape, target)
    assert found.dtype == np.uint16
    assert executor.host(found).tolist() == [0, 3, 1, 4, 2, 5, 0xFF80, 0xFF80]


def test_of_larger_buffers_only_the_first_places_are_written_if_the_call_says_so(executor):
    buffer, out = executor.array(floats(9)), executor.array(np.full(20, 7, np.float32))
    with pytest.raises(BufferError, match="^buffer has 9 elements"):
        gl.relayout(buffer, SOURCE, TARGET, out=out)
    with pytest.raises(BufferError, match="^out has 20 elements"):
        gl.relayout(buffer[:6], SOURCE, TARGET, out=out)
    assert executor.host(out).tolist() == [7] * 20
    gl.relayout(buffer, SOURCE, TARGET, out=out, strict=False)
    assert executor.host(out).tolist() == [0, 3, 0, 1, 4, 0, 2, 5, 0, 0, 0, 0, 0, 0, 0, 7, 7, 7, 7, 7]


def test_arrays_on_different_devices_are_refused():
    class OtherBackend:
        """A second device: NumPy memory that reports another place."""

        name = "elsewhere"

        def device(self, array):
            return "cuda:1"

    from gpulayout.arrays import arrays
    from gpulayout.choices import backends

    host, other = backends.host_backend(), OtherBackend()
    with pytest.raises(BufferError) as caught:
        arrays.check_same_device(host, floats(6), other, floats(6), ("buffer", "out"))
    assert str(caught.value) == "buffer is on cpu and out is on cuda:1: nothing is copied between devices"


@pytest.mark.gpu
def test_host_and_device_arrays_do_not_mix():
    from gpulayout.choices import backends

    if backends.gpu_problem():
        pytest.skip(backends.gpu_problem())
    import cupy

    on_gpu = cupy.zeros(15, cupy.float32)
    with pytest.raises(BufferError, match="^buffer is on cpu and out is on cuda:0: nothing is copied between devices$"):
        gl.relayout(floats(6), SOURCE, TARGET, out=on_gpu)
    with pytest.raises(BufferError, match="^buffer is on cuda:0 and out is on cpu: nothing is copied between devices$"):
        gl.relayout(on_gpu, TARGET, SOURCE, out=floats(6))


@pytest.mark.simt
def test_memory_a_kernel_cannot_reach_is_refused_before_a_launch():
    if executors.simt_missing():
        pytest.skip(executors.simt_missing())
    raw = np.zeros(64, np.uint8)
    phase = -raw.__array_interface__["data"][0] % 16
    odd = raw[phase + 2 : phase + 26].view(np.float32)
    packed_rows = np.zeros(2, np.dtype([("a", "f4"), ("b", "u1")]))["a"]  # 5 bytes apart
    with executors.HostExecutor("simt", executors.SimtBackend()).active():
        with pytest.raises(BufferError) as caught:
            gl.relayout(odd, SOURCE, "f32[2,3]{0,1}")
        assert (
            str(caught.value) == "source address is 2 past a multiple of 16: elements of 4 bytes must be aligned to 4"
        )
        with pytest.raises(BufferError) as caught:
            gl.pack(packed_rows, "f32[2]")
        assert str(caught.value) == (
            "source_stride 5 of the source is not a multiple of the element's 4 bytes: "
            "a kernel cannot reach such elements"
        )
    assert gl.relayout(odd, SOURCE, "f32[2,3]{0,1}").tolist() == [0.0] * 6  # NumPy reaches them
    assert gl.pack(packed_rows, "f32[2]").tolist() == [0.0, 0.0]


def test_numpy_scalars_are_refused_as_out():
    for call in (
        lambda: gl.unpack(floats(1), "f32[]", out=np.float32(0)),
        lambda: gl.linearize((1, 2), SOURCE, out=np.int64(7)),
    ):
        with pytest.raises(BufferError, match="^out is a NumPy scalar, which cannot be written to: pass an array$"):
            call()


def test_dimensions_of_size_1_may_have_any_stride(executor):
    strange = executor.backend.strided(executor.array(np.arange(3, dtype=np.float32)), (1, 3), (7, 4))
    assert executor.host(gl.pack(strange, "f32[1,3]{1,0:PD(2,4)PV(1)}")).tolist() == [0, 1, 2, 1, 1, 1, 1, 1]


def test_logical_arrays_past_64_dimensions_are_refused(executor):
    shape = gl.Shape("f32", (1,) * 65)
    for call in (gl.unpack, gl.view):
        with pytest.raises(gl.LayoutError, match="^dimensions of f32 are 65: a logical array has at most 64$"):
            call(executor.array(floats(1)), shape)


def test_logical_arrays_of_64_dimensions_are_made():
    for call in (gl.unpack, gl.view):
        found = call(floats(1), gl.Shape("f32", (1,) * 64))
        assert found.shape == (1,) * 64 and found.ravel().tolist() == floats(1).tolist()


def test_plans_cannot_be_changed_and_travel_between_processes():
    plan = gl.plan(SOURCE, TARGET)
    with pytest.raises(AttributeError, match="^source of a plan cannot be changed: plans are shared and frozen$"):
        plan.source = TARGET
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan and again.move == plan.move and hash(pickle.loads(pickle.dumps(plan.move))) == hash(plan.move)
    assert "_kept_hash" not in plan.move.__getstate__()
    assert (SOURCE == unittest.mock.ANY) and (SOURCE.layout == unittest.mock.ANY) and (plan == unittest.mock.ANY)
