"""Typical user code: type checkers read it, and it runs.

`tests/ci/test_types.py` runs mypy and pyright over this file.  `assert_type` states the static type of a result; when
it runs, it also checks the value, so that both agree.  Checkers must reject every line with `type: ignore`, because an
ignore that is not needed is an error.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_origin

import numpy as np
import numpy.typing as npt
import pytest

import gpulayout as gl

if TYPE_CHECKING:
    from typing import assert_type
else:

    def assert_type(value, kind):
        """The value, which must be an instance of the type; `Any` matches everything."""
        kinds = {AnyArray: Any, FloatArray: np.float32, ByteArray: np.uint8, IndexArray: np.int64}
        if kind in kinds:
            assert isinstance(value, np.ndarray) and kinds[kind] in (Any, value.dtype.type), (value, kind)
        elif kind is not Any:
            assert isinstance(value, get_origin(kind) or kind), (value, kind)
        return value


AnyArray = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float32]
ByteArray = npt.NDArray[np.uint8]
IndexArray = npt.NDArray[np.int64]


class Tensor:
    """Stands for an array of another library: it exports DLPack."""

    def __init__(self, memory: FloatArray):
        self._memory = memory

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> object:
        return self._memory.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def floats(*shape: int) -> FloatArray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_numpy_arrays_in_numpy_arrays_out() -> None:
    matrix = floats(2, 3)
    buffer = assert_type(gl.pack(matrix, "f32[2,3]{0,1}"), AnyArray)
    assert_type(gl.pack(np.float32(1), "f32[]"), AnyArray)
    assert_type(gl.unpack(buffer, "f32[2,3]{0,1}"), AnyArray)
    assert_type(gl.relayout(buffer, "f32[2,3]{0,1}", "{1,0}"), AnyArray)
    assert_type(gl.plan("f32[2,3]{0,1}", "{1,0}")(buffer), AnyArray)
    jobs = [(floats(6), "f32[2,3]", gl.Layout((0, 1))), (floats(6), "f32[2,3]", gl.Layout((1, 0)))]
    for found in assert_type(gl.relayout_many(jobs), list[AnyArray]):
        assert_type(found, AnyArray)
    for found in assert_type(
        gl.transpose_many([(matrix, "a b -> b a"), (matrix, "(a c) b -> b a c", {"c": 2})]), list[AnyArray]
    ):
        assert_type(found, AnyArray)
    assert_type(gl.transpose_many([(floats(6), "(h w) -> w h", {"h": 2})], out=[None]), list[Any])


def test_pictures_are_text() -> None:
    for picture in (gl.Shape("f32", (2, 3)).draw(elements="abcdef"), gl.Layout((0, 1)).draw((2, 3))):
        assert_type(picture.svg, str)
        assert_type(picture.as_text(width=60, ascii_only=True), str)
        assert_type(picture.text, str)


def test_functions_that_keep_the_dtype_say_so() -> None:
    assert_type(gl.transpose(floats(2, 3)), FloatArray)
    assert_type(gl.transpose(floats(6), "(h w) -> w h", h=2), FloatArray)
    assert_type(gl.transpose(np.zeros((4, 5, 3), np.uint8), [2, 0, 1]), ByteArray)
    assert_type(gl.view(floats(6), "f32[2,3]"), FloatArray)
    assert_type(gl.view(floats(2, 3), "C"), FloatArray)
    assert_type(gl.unpack(floats(2, 3), gl.Layout((1, 0))), AnyArray)
    assert_type(gl.relayout(floats(2, 3), gl.Layout((1, 0)), "F"), AnyArray)
    assert_type(gl.relayout_many([(floats(2, 3), gl.Layout((1, 0)), "F")]), list[AnyArray])


def test_the_array_given_as_out_comes_back() -> None:
    matrix = floats(2, 3)
    out: FloatArray = np.zeros((3, 2), np.float32)
    line: FloatArray = np.zeros(6, np.float32)
    places: ByteArray = np.zeros(2, np.uint8)
    assert assert_type(gl.transpose(matrix, "a b -> b a", out=out), FloatArray) is out
    assert_type(gl.pack(matrix, "f32[2,3]", out=line), FloatArray)
    assert_type(gl.relayout(matrix.reshape(-1), "f32[2,3]", "{0,1}", out=line), FloatArray)
    assert_type(gl.relayout(line, "f32[2,3]", "{0,1}", out=line, max_bytes=8), FloatArray)
    assert_type(gl.plan("f32[2,3]", "{0,1}").in_place(8)(line), FloatArray)
    assert_type(gl.plan("f32[2,3]", "{0,1}")(matrix.reshape(-1), out=line), FloatArray)
    assert_type(gl.plan("f32[2,3]", "{0,1}").stream(matrix.reshape(-1), out=line, max_bytes=1 << 20), FloatArray)
    assert_type(gl.unpack(line, "f32[3,2]{0,1}", out=out), FloatArray)
    assert_type(gl.pack(matrix, "f32[2,3]", out=Tensor(line)), Tensor)
    assert_type(gl.linearize(np.array([[0, 1], [0, 2]]), "f32[2,3]", out=places), ByteArray)
    wrapped(matrix, None)
    wrapped(matrix, line)


def wrapped(matrix: FloatArray, out: FloatArray | None) -> AnyArray:
    """A function that passes an optional `out` on."""
    return gl.pack(matrix, "f32[2,3]", out=out)


def test_arithmetic_on_the_way() -> None:
    matrix, line = floats(2, 3), floats(6)
    assert_type(gl.transpose(matrix, "a b -> b a", dtype="f16"), AnyArray)
    assert_type(gl.transpose(matrix, dtype=np.float16, scale=2, shift=[1, 2, 3]), AnyArray)
    assert_type(gl.transpose(matrix, dtype=gl.ElementType.S8, scale=floats(3) + 1, zero_point=np.int64(1)), AnyArray)
    assert_type(gl.transpose(matrix, scale=2), FloatArray)
    pixels = np.zeros((2, 3), np.uint8)
    assert_type(gl.transpose(pixels, dtype="f32", unit=True, mean=0.5, std=np.float32(0.25)), AnyArray)
    assert_type(gl.pack(matrix, "F", dtype="bf16"), AnyArray)
    assert_type(gl.pack([[1.5, 2.5]], "s8[1,2]", dtype="s8"), Any)
    assert_type(gl.unpack(line, "f32[2,3]", dtype="f8e4m3fn", saturate=False), AnyArray)
    assert_type(gl.relayout(line, "f32[2,3]", "{0,1}", mean=1), AnyArray)
    assert_type(gl.relayout_many([(line, "f32[2,3]", "{0,1}")], dtype="f16"), list[AnyArray])
    assert_type(gl.plan("f32[2,3]", "{0,1}", dtype="f64", scale=2, shift=1)(line), AnyArray)
    out: ByteArray = np.zeros((3, 2), np.uint8)
    assert assert_type(gl.transpose(matrix, dtype="u8", out=out), ByteArray) is out
    options: gl.ArithmeticOptions = {"dtype": "f16", "scale": 2}
    assert gl.pack(matrix, "F", **options).dtype == np.float16


def test_arrays_of_other_libraries_give_any() -> None:
    """The result is a NumPy or a CuPy array, depending on the device."""
    tensor = Tensor(floats(6))
    assert_type(gl.relayout(tensor, "f32[2,3]", "{0,1}"), Any)
    assert_type(gl.unpack(tensor, "f32[2,3]"), Any)
    assert_type(gl.view(tensor, "f32[2,3]"), Any)
    assert_type(gl.transpose(tensor), Any)
    assert_type(gl.relayout_many([(tensor, "f32[6]", "{0}")], out=[None]), list[Any])
    assert_type(gl.pack([[1, 2, 3], [4, 5, 6]], "f32[2,3]"), Any)
    assert_type(gl.zeros("f32[2,3]"), Any)
    assert_type(gl.zeros("f32[2,3]", align=256), Any)
    assert_type(gl.shape_of(tensor), gl.Shape)


def test_indices() -> None:
    shape = "f32[2,3]{0,1:PD(3,5)}"
    assert_type(gl.linearize((1, 2), shape), int)
    assert_type(gl.linearize([np.int64(1), np.int64(2)], shape), int)
    coordinates: Sequence[int] = [1, 2]
    assert_type(gl.linearize(coordinates, shape, mode="wrap"), int)
    points: IndexArray = np.zeros((2, 2), np.int64)
    rows: IndexArray = np.arange(2)
    assert_type(gl.linearize(points, shape, mode="clip"), IndexArray)
    assert_type(gl.linearize((rows, rows), shape), IndexArray)
    assert_type(gl.linearize((rows, 2), shape), Any)
    assert_type(gl.linearize((points[0], points[1]), shape), Any)
    assert_type(gl.linearize([[0, 1], [0, 2]], shape), Any)
    assert_type(gl.delinearize(7, shape), tuple[int, ...])
    assert_type(gl.delinearize(np.int64(7), shape, padding="mark"), tuple[int, ...])
    assert_type(gl.delinearize(rows, shape), IndexArray)
    assert_type(gl.delinearize([0, 1], shape), Any)
    assert_type(gl.code(shape, "python", name="rows"), str)
    assert_type(gl.code("f32[2,3]", bits=64), str)
    assert_type(gl.convert_linear(1, "f32[2,3]", gl.parse_layout("{0,1}")), int)
    assert_type(gl.convert_linear(rows, "f32[2,3]", shape), IndexArray)
    assert_type(gl.convert_linear(1, "f32[2,3]", "{0,1}", padding="mark"), int)
    assert_type(gl.convert_linear(rows, "f32[2,3]", shape, padding="mark", out=rows.copy()), IndexArray)


def moved(array: gl.Array, others: Sequence[gl.Array]) -> gl.Array:
    """Annotations without the type of the memory: of any library."""
    assert_type(array.buffer, Any)
    assert all(array == other for other in others)
    return assert_type(array.to("{0,1}"), gl.Array[Any])


def test_arrays_that_know_their_shape() -> None:
    array = gl.Array(floats(6), "f32[2,3]")
    assert_type(moved(array, [array, gl.asarray(floats(2, 3))]).layout_shape, gl.Shape)
    bytes_of_it: gl.Array[AnyArray] = gl.Array(np.zeros(6, np.uint8), "u8[2,3]")
    assert_type(bytes_of_it.to("F").buffer, AnyArray)
    assert_type(array.to("F", dtype="f16"), gl.Array[Any])
    with pytest.raises(TypeError, match="compares with another"):
        bool(array == 3)


def test_shapes_and_layouts() -> None:
    shape = assert_type(gl.parse_shape("f32[2,3]{0,1}"), gl.Shape)
    assert_type(shape.layout, gl.Layout)
    assert_type(gl.parse_layout("{0,1}"), gl.Layout)
    assert_type(gl.Layout.named("NHWC8c", logical="NCHW", padding_value="lowest"), gl.Layout)
    assert_type(gl.Layout((1, 0)).name(logical="HW"), str)
    assert_type(gl.Shape("f32", (3, 1000), pitch=4096).with_pitch(align=512), gl.Shape)
    assert_type(gl.shape_of(floats(2, 3)), gl.Shape)
    assert_type(gl.Shape("f32", [2, 3], "{0,1}").dimensions, tuple[int, ...])
    assert_type(gl.Shape(np.float32, (2, 3)).nbytes, int)
    plan = assert_type(gl.plan(shape, "{1,0}"), gl.Plan)
    assert_type(plan.source, gl.Shape)
    assert_type(plan.bytes_read, int)
    assert_type(plan.runs(longest="4K"), IndexArray)
    assert_type(next(plan.runs(max_runs=10)), IndexArray)
    assert_type(plan.run_list().count, int)
    assert_type(plan.fills().runs, IndexArray)
    assert_type(plan.fills().value, bytes)
    assert_type(gl.xla.is_bitcast(shape, "f32[2,3]"), bool)


def test_layouts_in_other_libraries_words() -> None:
    assert_type(gl.interop.to_cute("f32[2,3]"), str)
    assert_type(gl.interop.from_cute("(2,3):(1,2)", np.float32), gl.Shape)
    assert_type(gl.interop.from_numpy_order("F", 2), gl.Layout)
    np.zeros((2, 3), order=gl.interop.to_numpy_order("f32[2,3]"))
    assert_type(gl.interop.from_numpy_strides(floats(2, 3).strides, (2, 3), "f32"), gl.Shape)
    assert_type(gl.interop.to_torch_stride(gl.Shape("f32", (2, 3))), tuple[int, ...])
    assert_type(gl.interop.from_torch_memory_format("channels_last", 4), gl.Layout)
    assert_type(gl.interop.to_zarr_transpose(gl.Layout((0, 1))), dict[str, Any])


def test_what_runs() -> None:
    with gl.use_backend("numpy"), gl.use_threads(1), gl.use_threads(None):
        pass
    assert_type(gl.show_config("dicts"), dict[str, Any])


def test_lines_that_checkers_reject() -> None:
    """Each of them raises, too."""
    matrix, line = floats(2, 3), floats(6)
    with pytest.raises(TypeError, match="the array is the first argument"):
        gl.pack("f32[2,3]", matrix)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'target'"):
        gl.relayout(line, "f32[2,3]")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="pass out=buffer too"):
        gl.relayout(line, "f32[2,3]", "{0,1}", max_bytes=8)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"numpy.array\(buffer\) makes one"):
        gl.relayout([1.0, 2.0], "f32[2]", "{0}")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="write gl.Layout"):
        gl.relayout(line, "f32[2,3]", (0, 1))  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="arrays come before shapes"):
        gl.unpack("f32[2,3]", line)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="is only a layout"):
        gl.zeros(gl.Layout((0, 1)))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="write gl.Shape"):
        gl.linearize((1, 2), (4, 5))  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="indices are whole numbers"):
        gl.linearize((1.5, 2), "f32[2,3]")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mode 'warp' is not one of"):
        gl.linearize((1, 2), "f32[2,3]", mode="warp")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="padding 'skip' is not one of"):
        gl.delinearize(7, "f32[2,3]", padding="skip")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="language 'rust' is not one of"):
        gl.code("f32[2,3]", "rust")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="numpy.array"):
        gl.transpose([[1, 2]], (1, 0))  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        gl.zeros()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="write gl.Shape"):
        gl.zeros((2, 3))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="which has no layout"):
        gl.shape_of([1, 2])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="backend 'cuda' is not one of"):
        gl.use_backend("cuda")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="threads '2' is not an integer"):
        gl.use_threads("2")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mode 'json' is not one of"):
        gl.show_config("json")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="did you mean scale"):
        gl.pack(matrix, "F", sacle=2)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="scale is '2', not a number"):
        gl.relayout(line, "f32[2,3]", "F", scale="2")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="unit is 2: it must be True or False"):
        gl.transpose(np.zeros((2, 3), np.uint8), dtype="f32", unit=2)  # type: ignore[call-overload]
    with pytest.raises(BufferError, match="is a NumPy scalar"):
        gl.unpack(line, "f32[6]", out=np.float32(0))  # type: ignore[call-overload]
