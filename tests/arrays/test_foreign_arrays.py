"""Arrays of other libraries: DLPack and `__cuda_array_interface__`, from small exporters and from real libraries."""

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from gpulayout.arrays import arrays
from gpulayout.choices import backends
from gpulayout.layout.checks import type_text

SOURCE, TARGET = "f32[2,3]{1,0}", "f32[2,3]{0,1}"
MOVED = [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]


class Producer:
    """Offers only DLPack."""

    def __init__(self, array, device=None):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device or self.array.__dlpack_device__()


def test_dlpack_memory_is_read_and_written_in_place():
    out = np.zeros(6, np.float32)
    producer = Producer(out)
    assert gl.relayout(Producer(np.arange(6, dtype=np.float32)), SOURCE, TARGET, out=producer) is producer
    assert out.tolist() == MOVED
    assert gl.pack(Producer(np.arange(6, dtype=np.float32).reshape(2, 3)), TARGET).tolist() == MOVED
    view = gl.view(producer, TARGET)
    view[0, 0] = 9
    assert out[0] == 9


FLOATS = np.arange(6, dtype=np.float32)


@pytest.mark.parametrize(
    "array, layout, shape",
    [
        (FLOATS.reshape(2, 3), "{0,1}", TARGET),
        (FLOATS.reshape(2, 3), gl.Layout((0, 1)), TARGET),
        (FLOATS.reshape(3, 2).T, " {1,0:PD(2,4)PV(lowest)} ", "f32[2,3]{1,0:PD(2,4)PV(lowest)}"),
        (FLOATS, "{0:T(4)}", "f32[6]{0:T(4)}"),
        (np.arange(6).astype(ml_dtypes.int4).reshape(2, 3), "{0,1:E(4)}", "s4[2,3]{0,1:E(4)}"),
        (FLOATS[2:3].reshape(()), "{}", "f32[]"),
        (
            FLOATS.astype(ml_dtypes.bfloat16),
            gl.Layout((0,), padded_dimensions=(8,), padding_value="highest"),
            "bf16[6]{0:PD(8)PV(highest)}",
        ),
    ],
)
def test_a_layout_without_a_shape_takes_type_and_dimensions_from_the_array(array, layout, shape):
    found, expected = gl.pack(array, layout), gl.pack(array, shape)
    assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes()
    out = np.empty_like(expected)
    assert gl.pack(array, layout, out=out) is out and out.tobytes() == expected.tobytes()


def test_a_layout_without_a_shape_of_dlpack_memory():
    assert gl.pack(Producer(FLOATS.reshape(2, 3)), "{0,1}").tolist() == MOVED


@pytest.mark.parametrize(
    "array, layout, error, message",
    [
        (
            [[1, 2]],
            "{0,1}",
            TypeError,
            "array is a list, which has no element type, and shape '{0,1}' is only a layout: write the whole shape",
        ),
        (FLOATS, "{0,1}", gl.LayoutError, "minor_to_major (0, 1) has 2 entries for f32[6]: the shape has 1 dimension"),
        (
            FLOATS,
            "{0:E(4)}",
            gl.LayoutError,
            "element_size_in_bits 4 is not a storage size of f32 for f32[6]{0:E(4)}: f32 takes 32 bits. Elements of "
            "4 bits are s4, u4, f4e2m1fn: a move converts to them with dtype='s4', dtype='u4' or dtype='f4e2m1fn'",
        ),
        (
            np.array(["a"]),
            "{0}",
            TypeError,
            "element type dtype('<U1') has no XLA counterpart: only booleans, integers, floats and complex "
            "numbers have one",
        ),
    ],
)
def test_a_layout_without_a_shape_that_the_array_cannot_have(array, layout, error, message):
    with pytest.raises(error) as caught:
        gl.pack(array, layout)
    assert str(caught.value) == message


def test_strided_and_reversed_dlpack_arrays_are_packed_right():
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    for part in (array[::2, ::2], array[::-2, ::-2], array[1:3].T[::2].T):
        expected = gl.pack(np.ascontiguousarray(part), TARGET)
        assert gl.pack(Producer(part), TARGET).tolist() == expected.tolist()


def test_memory_of_unknown_devices_is_refused():
    with pytest.raises(BufferError) as caught:
        gl.relayout(Producer(np.zeros(6, np.float32), device=(8, 0)), SOURCE, TARGET)
    assert (
        str(caught.value)
        == "buffer lives on a device of DLPack type 8: only CPU (1, 3) and CUDA (2, 13) memory can be used"
    )


def test_producers_that_fail_are_named_with_their_reason():
    class Failing:
        def __dlpack__(self, **options):
            raise RuntimeError("requires grad")

        def __dlpack_device__(self):
            return 1, 0

    with pytest.raises(BufferError) as caught:
        gl.relayout(Failing(), SOURCE, TARGET)
    assert str(caught.value).startswith(
        "buffer (tests.arrays.test_foreign_arrays.Failing) cannot be used without a copy: "
    )

    class Narrow(Failing):
        def __dlpack__(self, **options):
            raise RuntimeError("XLA type S4 has no DLPack equivalent")

    assert "numpy.asarray" not in str(caught.value)
    with pytest.raises(BufferError, match=r"no DLPack equivalent; a type NumPy .* as numpy.asarray\(array\)$"):
        gl.pack(Narrow(), "s4[2,3]")

    class Lost(Failing):
        def __dlpack_device__(self):
            raise RuntimeError("no idea")

    with pytest.raises(BufferError, match=r"^buffer \(Lost\) cannot say where it lives: no idea$"):
        gl.relayout(Lost(), SOURCE, TARGET)


@pytest.mark.skipif(backends.gpu_problem() is None, reason="a GPU works here, so its memory can be reached")
def test_device_memory_without_a_device_is_refused_with_the_reason():
    pytest.importorskip("cupy")

    class OnDevice:
        __cuda_array_interface__ = {
            "shape": (6,),
            "typestr": "<f4",
            "data": (1 << 32, False),
            "version": 3,
            "strides": None,
        }

    with pytest.raises(BufferError, match="cannot be used without a copy: cudaError"):
        gl.relayout(OnDevice(), SOURCE, TARGET)


def test_device_memory_without_cupy_is_refused_with_the_reason(monkeypatch):
    class OnDevice:
        __cuda_array_interface__ = {
            "shape": (6,),
            "typestr": "<f4",
            "data": (1 << 32, False),
            "version": 3,
            "strides": None,
        }

    def missing():
        raise ModuleNotFoundError("No module named 'cupy'")

    monkeypatch.setattr(arrays, "gpu_backend", missing)
    for given in (Producer(FLOATS, device=(2, 0)), Producer(FLOATS, device=(13, 0)), OnDevice()):
        with pytest.raises(
            BufferError, match="^buffer is CUDA memory, which only CuPy can reach: No module named 'cupy'$"
        ):
            gl.relayout(given, SOURCE, TARGET)


def test_scalars_lists_and_array_subclasses_go_to_pack():
    with gl.use_backend("numpy"):
        assert gl.pack(2.5, "f32[]").tolist() == [2.5]
        assert gl.pack([[1, 2, 3], [4, 5, 6]], "s8[2,3]{0,1}").tolist() == [1, 4, 2, 5, 3, 6]
        assert gl.pack([[True], [False]], "pred[2,1]").tolist() == [True, False]
        with pytest.raises(TypeError, match="^array cannot be read as an array: "):
            gl.pack([[1, 2], [3]], "s8[2,2]")
        with pytest.raises(TypeError, match="^array cannot be read as an array: "):
            gl.pack([[300]], "u8[1,1]")
        for values, shape, held in (
            ([[1, 2, 3.7]], "u8[1,3]", "it holds 3.7, a float, which uint8"),
            ([["1"]], "f32[1,1]", "its values are <U1, which float32"),
            ([[True]], "s8[1,1]", "it holds True, a bool, which int8"),
            ([[1j]], "f32[1,1]", "its values are complex128, which float32"),
            ([[2]], "pred[1,1]", "it holds 2, an int, which bool"),
        ):
            with pytest.raises(TypeError) as caught:
                gl.pack(values, shape)
            assert str(caught.value) == f"array cannot be read as an array: {held} cannot hold without loss"
        for values, shape in (
            ([[1e300]], "f32[1,1]"),
            ([[1e9]], "f8e4m3fn[1,1]"),
            ([[1e9]], "f6e2m3fn[1,1]"),
            ([[float("inf")]], "f8e4m3fn[1,1]"),
            ([[float("nan")]], "f6e3m2fn[1,1]"),
            ([[1e300 + 1j]], "c64[1,1]"),
        ):
            with pytest.raises(
                TypeError, match="^array cannot be read as an array: it holds a number past the range of "
            ):
                gl.pack(values, shape)
        for values, shape in (
            ([np.array([-1, 300])], "u8[1,2]"),
            ([[np.int64(-1)]], "u8[1,1]"),
            ([np.array([2**40, 1])], "s32[1,2]"),
        ):
            with pytest.raises(
                TypeError, match="^array cannot be read as an array: it holds -?[0-9]+, and the range of "
            ):
                gl.pack(values, shape)
        assert gl.pack([2**64 - 1, 0], "u64[2]").tolist() == [2**64 - 1, 0]
        assert gl.pack([ml_dtypes.bfloat16(1.5)], "bf16[1]").tolist() == [1.5]
        assert gl.pack([2**64], "f64[1]").tolist() == [2.0**64]
        assert gl.pack([[float("inf"), 1]], "f32[1,2]").tolist() == [float("inf"), 1.0]
        assert gl.pack([[1, 2]], "bf16[1,2]").astype(float).tolist() == [1.0, 2.0]
        assert gl.pack([[]], "f32[1,0]").tolist() == []
    assert gl.pack(np.float32(2.5), "f32[]").tolist() == [2.5]


@pytest.mark.parametrize("values", [[1, 2], ((1, 2), (3, 4)), 5, 2.5, True, 1j], ids=repr)
def test_plain_values_have_no_shape_and_the_error_says_how_to_get_one(values):
    with pytest.raises(TypeError) as caught:
        gl.shape_of(values)
    assert str(caught.value).startswith(
        f"array is {type_text(values)}, which has no layout: call gl.shape_of(numpy.asarray(array))"
    )
    assert gl.shape_of(np.asarray(values)).dimensions == np.shape(values)


def test_a_dask_array_has_no_shape_and_the_error_says_how_to_get_one():
    array = pytest.importorskip("dask.array").zeros((4, 6), dtype=np.float32, chunks=2)
    with pytest.raises(
        TypeError,
        match=r"^array is a Dask array, .* call gl.shape_of\(array.compute\(\)\), or "
        r"gl.Shape\(array.dtype, array.shape\)",
    ):
        gl.shape_of(array)
    assert gl.shape_of(array.compute()) == gl.Shape(array.dtype, array.shape)


def test_a_dask_array_is_known_by_its_module():
    chunks = type("Array", (Producer,), {"__module__": "dask.array.core"})
    with pytest.raises(TypeError, match="^array is a Dask array, "):
        gl.shape_of(chunks(FLOATS))
