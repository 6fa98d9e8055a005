"""gpu/cupy_runtime.py on a fake CuPy, whose kernels run on the host shim: launches, devices, dtypes and flags.

On a GPU, all other tests use the real CuPy; these tests show without a GPU that the backend's own code works.
"""

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.choices import backends
from tests import reference
from tests.support import executors, fake_cuda, fake_cupy

pytestmark = [
    pytest.mark.simt,
    pytest.mark.skipif(executors.simt_missing() is not None, reason=str(executors.simt_missing())),
]


CASES = [
    ("f32[70,130]", "f32[70,130]{0,1:PD(71,131)PV(lowest)}"),
    ("u8[40,50,3]", "u8[40,50,3]{1,0,2}"),
    ("f64[4,6,8]", "f64[4,6,8]{2,0,1}"),
    ("c128[64,32]", "c128[64,32]{0,1}"),
    ("s16[2,3]", "s16[2,3]{0,1:PD(3,5)PV(7)}"),
    ("bf16[5,7]", "bf16[5,7]{0,1}"),
    ("f32[9]", "f32[9]"),
    ("f32[0,3]", "f32[0,3]{0,1:PD(2,3)PV(1)}"),
    ("f32[]", "f32[]"),
]


@pytest.mark.parametrize("source, target", CASES)
def test_moves_give_the_reference_bytes(cupy, source, target):
    source, target = gl.parse_shape(source), gl.parse_shape(target)
    raw = reference.payload(source.element_count, source.itemsize)
    logical = cupy.asarray(raw.view(source.dtype).reshape(source.dimensions))
    packed = gl.pack(logical, target)
    expected = reference.large_buffer(
        target.dimensions,
        target.layout.minor_to_major,
        target.layout.padded_dimensions,
        target.itemsize,
        target.padding_bytes,
    )
    assert isinstance(packed, cupy.ndarray) and packed.get().tobytes() == expected
    assert gl.relayout(gl.pack(logical, source), source, target).get().tobytes() == expected
    assert gl.unpack(packed, target).get().tobytes() == raw.tobytes()
    assert gl.view(packed, target).get().tobytes() == raw.tobytes()


def test_work_goes_to_the_arrays_own_device(cupy):
    with cupy.cuda.Device(1):
        buffer = cupy.asarray(np.arange(6, dtype=np.float32))
    found = gl.relayout(buffer, "f32[2,3]", "f32[2,3]{0,1}")
    assert found.device.id == 1 and found.get().tolist() == [0, 3, 1, 4, 2, 5]
    index = gl.delinearize(buffer.astype(np.int64), "f32[2,3]")
    assert index.device.id == 1 and index.get().tolist() == [[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]]
    with pytest.raises(
        BufferError, match="^buffer is on cuda:1 and out is on cuda:0: nothing is copied between devices$"
    ):
        gl.relayout(buffer, "f32[2,3]", "f32[2,3]{0,1}", out=cupy.asarray(np.zeros(6, np.float32)))
    with pytest.raises(BufferError, match="^buffer is on cuda:1 and out is on cpu: nothing is copied between devices$"):
        gl.relayout(buffer, "f32[2,3]", "f32[2,3]{0,1}", out=np.zeros(6, np.float32))


def test_kernels_are_compiled_once_per_device(cupy):
    fake_cupy.RawKernel.compiled.clear()
    for device in (0, 1, 0, 1):
        with cupy.cuda.Device(device):
            buffer = cupy.asarray(np.arange(6, dtype=np.float32))
        gl.relayout(buffer, "f32[2,3]", "f32[2,3]{0,1}")
    assert fake_cupy.RawKernel.compiled == [0, 1]


def test_many_moves_are_grouped_by_device_and_share_launches(cupy):
    jobs = []
    for number in range(30):
        with cupy.cuda.Device(number % 2):
            jobs.append((cupy.asarray(np.arange(6, dtype=np.float32) + number), "f32[2,3]", "{0,1}"))
    jobs.insert(3, (np.arange(6, dtype=np.float32), "f32[2,3]", "{0,1}"))
    found = gl.relayout_many(jobs)
    assert [call[1:3] for call in fake_cuda.calls if call[0] == "launch"] == [("gpl_many", 0), ("gpl_many", 1)]
    assert type(found[3]) is np.ndarray
    for (buffer, *_), result in zip(jobs, found):
        first = float(buffer[0])
        assert result.tolist() == [first + step for step in (0, 3, 1, 4, 2, 5)]
        assert type(result) is np.ndarray or result.device.id == buffer.device.id
    with pytest.raises(
        BufferError, match="^job 1: buffer is on cuda:1 and out is on cuda:0: nothing is copied between devices$"
    ):
        gl.relayout_many(jobs[:2], out=[None, cupy.asarray(np.zeros(6, np.float32))])


def test_many_transposes_into_slices_share_launches(cupy):
    batch = cupy.asarray(np.zeros((8, 3, 5, 7), np.uint8))
    images = [
        np.arange((k % 5 + 1) * (k % 7 + 1) * 3, dtype=np.uint8).reshape(k % 5 + 1, k % 7 + 1, 3) for k in range(8)
    ]
    slices = [batch[k, :, : len(image), : image.shape[1]] for k, image in enumerate(images)]
    fake_cuda.calls.clear()
    gl.transpose_many([(cupy.asarray(image), "h w c -> c h w") for image in images], out=slices)
    assert [call[1:3] for call in fake_cuda.calls if call[0] == "launch"] == [("gpl_many", 0)]
    assert all(part.tolist() == image.transpose(2, 0, 1).tolist() for part, image in zip(slices, images))


def test_an_address_of_one_device_that_no_kernel_can_reach_stops_the_launches_on_all(cupy):
    with cupy.cuda.Device(1):
        shifted = cupy.asarray(np.zeros(28, np.uint8))[2:26].view(np.float32)
    outs = [cupy.asarray(np.full(6, 7, np.float32)), None, np.full(6, 7, np.float32)]
    given = np.arange(6, dtype=np.float32)
    jobs = [(buffer, "f32[2,3]", "{0,1}") for buffer in (cupy.asarray(given), shifted, given)]
    with pytest.raises(BufferError, match="^job 1: source address is "):
        gl.relayout_many(jobs, out=outs)
    assert outs[0].tolist() == outs[2].tolist() == [7] * 6


def test_index_conversion_and_its_errors(cupy):
    shape = "f32[2,3]{0,1:PD(3,5)}"
    index = cupy.asarray(np.indices((2, 3)).reshape(2, -1))
    linear = gl.linearize(index, shape)
    assert linear.get().tolist() == [0, 3, 6, 1, 4, 7]
    assert gl.delinearize(linear, shape).get().tolist() == index.get().tolist()
    assert gl.convert_linear(linear, shape, "f32[2,3]").get().tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(IndexError, match=r"^linear index 5 at position 1 is padding of "):
        gl.delinearize(cupy.asarray(np.array([0, 5])), shape)
    assert gl.delinearize(cupy.asarray(np.array([0, 5])), shape, padding="mark").get().tolist() == [[0, -1], [0, -1]]


def test_broadcast_index_arrays_are_linearized_in_one_elementwise_kernel(cupy):
    shape = "f32[2,3]{0,1:PD(3,5)}"
    rows, columns = cupy.asarray(np.arange(2, dtype=np.int8)[:, None]), cupy.asarray(np.arange(3, dtype=np.uint32))
    assert gl.linearize((rows, columns), shape).get().tolist() == [[0, 3, 6], [1, 4, 7]]
    assert gl.linearize((1, columns), shape).get().tolist() == [1, 4, 7]
    assert gl.linearize((rows - 2, columns + 5), shape, mode="wrap").get().tolist() == [[6, 0, 3], [7, 1, 4]]
    assert gl.linearize((rows - 2, columns + 5), shape, mode="clip").get().tolist() == [[6, 6, 6], [6, 6, 6]]
    with pytest.raises(IndexError, match=r"^index \(0, 3\) at position \(0, 0\) is out of bounds for "):
        gl.linearize((rows, columns + 3), shape)


def test_types_cupy_lacks_are_carried_as_unsigned_integers(cupy):
    with gl.use_backend("cupy"):
        assert gl.zeros("f8e4m3fn[4]").dtype == np.uint8
        assert gl.zeros("bf16[4]").dtype.name == "bfloat16"
        assert gl.pack([[1.0, 2.0]], "f8e5m2[1,2]").get().tolist() == [0x3C, 0x40]


def test_the_probe_and_the_configuration_find_the_devices(cupy):
    assert backends.gpu_problem() is None
    found = gl.show_config("dicts")
    assert found["backend"] == "cupy" and found["devices"] == ["host memory"] * 2


def test_plain_lists_go_to_the_gpu_when_there_is_one(cupy):
    with gl.use_backend("auto"):
        assert isinstance(gl.linearize([[0, 1], [2, 2]], "f32[2,3]"), cupy.ndarray)


@pytest.mark.gpu
@pytest.mark.skipif(bool(backends.gpu_problem()), reason=str(backends.gpu_problem()))
@pytest.mark.parametrize("rank", (1, 2, 7, 25))
def test_real_cupy_takes_the_elementwise_kernels_parameters(rank):
    cupy = pytest.importorskip("cupy")
    from gpulayout.gpu.index_launch import linearize_text

    kernel = cupy.ElementwiseKernel(*linearize_text(rank), "gpl_linearize_broadcast")
    assert kernel.nin == 3 * rank + 1 and kernel.nout == 2
