"""Likely slips in the arguments: each error ends with a hint that says what to write instead."""

import numpy as np
import pytest

import gpulayout as gl

IMAGE = np.zeros((4, 5, 3), np.uint8)
LINE = np.arange(6, dtype=np.float32)
MATRIX = LINE.reshape(2, 3)
SHAPE, LAYOUT = gl.parse_shape("f32[2,3]"), gl.Layout((0, 1))
FIRST, BEFORE = "; the {} is the first argument", ": arrays come before shapes"
SPACED = "; spaces separate the names, write 'h w c -> c h w'"


class Lazy:
    """Like an array of zarr or h5py: it is not in memory."""

    def __array__(self, dtype=None, copy=None):
        return MATRIX


SLIPS = {
    "a pattern without spaces": (lambda: gl.transpose(IMAGE, "hwc->chw"), SPACED),
    "a pattern with commas": (lambda: gl.transpose(IMAGE, "h,w,c -> c,h,w"), SPACED),
    "a layout as a pattern": (lambda: gl.transpose(IMAGE, "{2,0,1}"), "; gl.pack takes the text of a layout"),
    "a Layout as a pattern": (lambda: gl.transpose(IMAGE, gl.Layout((1, 0, 2))), ": gl.pack takes layouts and shapes"),
    "sizes beside a list of axes": (lambda: gl.transpose(IMAGE, [2, 0, 1], h=2), "but axes is [2, 0, 1]"),
    "a Shape as a pattern": (
        lambda: gl.transpose(IMAGE, gl.Shape("f32", (2, 3))),
        "axes is a Shape: gl.pack takes layouts and shapes",
    ),
    "a size under another name": (
        lambda: gl.transpose(MATRIX, "(h w) c -> c h w", height=2),
        "size height is given, but axes '(h w) c -> c h w' has no axis height",
    ),
    "an argument of numpy": (lambda: gl.transpose(MATRIX, "h w -> w h", order="F"), "size order is given, but axes"),
    "a pattern to pack": (
        lambda: gl.pack(IMAGE, "CHW"),
        "; write 'named:CHW:HWC' if",
    ),
    "transpose swapped": (lambda: gl.transpose("h w c -> c h w", IMAGE), FIRST.format("array")),
    "pack swapped": (lambda: gl.pack("f32[2,3]", MATRIX), FIRST.format("array")),
    "pack swapped, with a Shape": (lambda: gl.pack(SHAPE, MATRIX), FIRST.format("array")),
    "pack swapped, with a Layout": (lambda: gl.pack(LAYOUT, MATRIX), FIRST.format("array")),
    "unpack swapped": (lambda: gl.unpack("f32[2,3]", LINE), BEFORE),
    "view swapped": (lambda: gl.view("f32[2,3]", LINE), BEFORE),
    "relayout swapped": (lambda: gl.relayout("f32[2,3]", LINE, "{0,1}"), BEFORE),
    "linearize swapped": (lambda: gl.linearize("f32[2,3]", np.array([[1], [2]])), BEFORE),
    "linearize swapped, with a tuple": (lambda: gl.linearize("f32[2,3]", (1, 2)), ": the index comes first"),
    "code of an array": (lambda: gl.code(MATRIX), "not ndarray: arrays come before shapes, and gl.shape_of(array) is"),
    "a plan of an array": (lambda: gl.plan(LINE, "f32[2,3]"), BEFORE),
    "a plan that is called with a shape": (lambda: gl.plan("f32[6]", "{0}")("f32[6]"), FIRST.format("buffer")),
    "a layout is missing": (lambda: gl.relayout(LINE, "f32[2,3]"), "missing 1 required positional argument: 'target'"),
    "a list to relayout": (lambda: gl.relayout([1.0], "f32[1]", "{0}"), "; numpy.array(buffer) makes one"),
    "a file of bfloat16 that NumPy read": (
        lambda: gl.unpack(np.zeros(6, "V2"), "bf16[2,3]"),
        ": numpy.save keeps no name of this type, so pass buffer.view(ml_dtypes.bfloat16)",
    ),
    "an object that makes an array": (lambda: gl.pack(Lazy(), "{0,1}"), "; numpy.asarray(array) makes one"),
    "a list to transpose": (lambda: gl.transpose([[1, 2]], (1, 0)), "; numpy.array(array) makes one"),
    "a range of indices": (lambda: gl.delinearize(range(3), SHAPE), "; numpy.array(linear) makes one"),
    "a list without an element type": (lambda: gl.pack([[1, 2]], "{0,1}"), "is only a layout: write the whole shape"),
    "sizes as a shape": (lambda: gl.linearize((1, 2), (4, 5)), ": write gl.Shape('f32', (4, 5)) or its text"),
    "sizes to empty": (lambda: gl.zeros([2, 3]), ": write gl.Shape('f32', (2, 3)) or its text"),
    "an order to pack": (lambda: gl.pack(MATRIX, (0, 1)), ": write gl.Layout((0, 1))"),
    "sizes to pack": (lambda: gl.pack(MATRIX, (2, 3)), ": write gl.Shape('f32', (2, 3)) or its text"),
    "an order as a target": (lambda: gl.relayout(LINE, SHAPE, [0, 1]), ": write gl.Layout((0, 1))"),
    "a layout where a shape belongs": (
        lambda: gl.zeros(LAYOUT),
        ": {0,1} is only a layout, write the whole shape, such as 'f32[2,3]{0,1}'",
    ),
    "its text": (
        lambda: gl.zeros("{0,1}"),
        "is only a layout: write the whole shape, such as 'f32[2,3]{0,1}'",
    ),
    "points in rows": (
        lambda: gl.linearize(np.zeros((5, 2), int), SHAPE),
        "the first axis must be 2 (for points in rows, pass index.T)",
    ),
    "points in rows, as lists": (
        lambda: gl.linearize([[0, 1], [1, 2], [0, 0]], SHAPE),
        ": for points in rows, pass numpy.array(index).T",
    ),
    "an N-d array to relayout": (
        lambda: gl.relayout(np.asfortranarray(MATRIX), SHAPE, "{0,1}"),
        "pass its own shape, gl.shape_of(buffer); or call gl.pack, which takes an array with any strides",
    ),
    "a layout of a flat buffer": (
        lambda: gl.unpack(LINE, "h w -> w h"),
        "a flat buffer does not say the sizes: write the whole shape, such as gl.plan('f32[2,3]', 'h w -> w h').target",
    ),
    "a pattern as a shape": (
        lambda: gl.zeros("h w -> w h"),
        "shape 'h w -> w h' is a pattern: write the whole shape; gl.plan(shape, pattern).target is one",
    ),
    "a pattern as a source": (lambda: gl.plan("h w -> w h", "F"), "source 'h w -> w h' is a pattern: write"),
    "axis numbers to view": (
        lambda: gl.view(IMAGE, (0, 2, 1)),
        "shape (0, 2, 1) is not a shape: view takes a pattern such as 'h w c -> c h w'; axis numbers are for "
        "gl.transpose",
    ),
    "bytes": (lambda: gl.relayout(bytes(24), SHAPE, "F"), "; numpy.frombuffer(buffer, dtype) makes one"),
    "a bytearray": (lambda: gl.unpack(bytearray(24), SHAPE), "; numpy.frombuffer(buffer, dtype) makes one"),
    "a memoryview": (lambda: gl.pack(memoryview(LINE), SHAPE), "; numpy.frombuffer(array, dtype) makes one"),
    "a bytearray as out": (lambda: gl.pack(MATRIX, SHAPE, out=bytearray(24)), "; numpy.frombuffer(out, dtype) makes"),
    "a name in lower case": (lambda: gl.plan("f32[2,3,4,5]", "nhwc"), "; write 'named:nhwc:nchw' if the array's"),
    "a name of torch alone": (lambda: gl.plan(SHAPE, "channels_last"), "; did you mean 'torch:channels_last'?"),
    "a name with a hyphen": (lambda: gl.plan(SHAPE, "torch:channels-last"), "; did you mean 'torch:channels_last'?"),
    "an order in lower case": (lambda: gl.plan(SHAPE, "f"), "; did you mean 'F'?"),
    "the other one": (lambda: gl.pack(MATRIX, "c"), "; did you mean 'C'?"),
    "the shape of big-endian numbers": (
        lambda: gl.shape_of(MATRIX.astype(">f4")),
        "is big-endian: convert the array with .astype(array.dtype.newbyteorder('='))",
    ),
    "a big-endian type": (
        lambda: gl.pack(MATRIX, "F", dtype=">f4"),
        "is big-endian: convert the array with .astype(array.dtype.newbyteorder('='))",
    ),
    "big-endian indices": (
        lambda: gl.delinearize(np.zeros(3, ">i4"), SHAPE),
        "is big-endian: convert it with .astype('int32')",
    ),
    "the text of a shape to shape_of": (
        lambda: gl.shape_of("f32[2,3]"),
        ": call gl.parse_shape to read the text of a shape",
    ),
    "another type to asarray": (
        lambda: gl.asarray(MATRIX, "f16[2,3]"),
        "needs float16; write gl.asarray(array).to(dtype='f16')",
    ),
    "dtype to asarray": (lambda: gl.asarray(MATRIX, dtype="f16"), ": write gl.asarray(array).to(dtype='f16')"),
    "a vector format": (lambda: gl.pack(IMAGE, "CHW8"), "; write 'named:CHW8c:CHW' if the array's dimensions are C, H"),
    "a vector format of a shape": (
        lambda: gl.Shape("f32", (35, 4, 5), "CHW32"),
        ": write gl.Layout.named('CHW32c', logical='CHW') if the array's dimensions are C, H and W",
    ),
    "a camera's format": (lambda: gl.pack(MATRIX, "RAW10"), ": unpack them first (docs/video-frames.md has 10 and 12"),
    "another one": (
        lambda: gl.pack(MATRIX, "Mono12p"),
        ": unpack them first (docs/video-frames.md has 10 and 12 bits)",
    ),
    "its elements": (lambda: gl.view(LINE, "u10[8]"), ": unpack them first (docs/video-frames.md has 10 and 12 bits)"),
    "its bits": (lambda: gl.view(LINE, "u16[8]{0:E(12)}"), ": unpack them first (docs/video-frames.md has 10 and 12 b"),
    "colours as axes": (
        lambda: gl.transpose(IMAGE, "BGR -> RGB"),
        "axes 'BGR -> RGB': colours are no axes: image[..., ::-1] reverses them without a copy, and no layout does",
    ),
    "four of them": (lambda: gl.plan("u8[4,5,6,4]", "rgba -> bgra"), ": colours are no axes: image[..., ::-1]"),
    "colours as a layout": (lambda: gl.pack(IMAGE, "BGR"), "; colours are no axes: image[..., ::-1] reverses them"),
    "an array by keyword": (
        lambda: gl.transpose(array=IMAGE, axes="h w c -> c h w"),
        "'array': the array comes first, by position",
    ),
    "a device": (lambda: gl.transpose(IMAGE, device="cuda"), "nor an axis: results stay where the array is: move that"),
    "a device to an Array": (
        lambda: gl.asarray(MATRIX).to(device="cpu"),
        "gl.Array(array.buffer.to(device), array.layout_shape)",
    ),
    "axes of all jobs": (
        lambda: gl.transpose_many([(IMAGE, (2, 0, 1))], axes=(2, 0, 1)),
        "belong to each job of gl.transpose_many: (array, axes)",
    ),
    "an array for several outs": (
        lambda: gl.transpose_many([(IMAGE, (2, 0, 1))], out=np.zeros((1, 3, 4, 5), np.uint8)),
        "per job; list(out) is one",
    ),
    "a pattern by keyword": (
        lambda: gl.transpose(IMAGE, pattern="h w c -> c h w"),
        ": a pattern is the second argument of gl.transpose, by position",
    ),
    "another arrow": (lambda: gl.transpose(IMAGE, "h w c → c h w"), "it has no '->'; write 'h w c -> c h w'"),
    "an arrow of code": (lambda: gl.transpose(IMAGE, "h w c => c h w"), "it has no '->'; write 'h w c -> c h w'"),
    "a pattern to relayout": (lambda: gl.relayout(IMAGE, "h w c -> c h w"), ", and gl.pack takes an N-d array"),
    "16 bits to a unit": (
        lambda: gl.transpose(IMAGE.astype("u2"), dtype="f32", unit=True),
        "not u16: write scale=1/65535",
    ),
    "16 bits normalised": (
        lambda: gl.transpose(IMAGE.astype("u2"), dtype="f32", unit=True, mean=0.5, std=0.25),
        "not u16: write mean=mean*65535, std=std*65535",
    ),
    "back to pixels": (
        lambda: gl.transpose(IMAGE.astype("f4"), dtype="u8", mean=0.5, std=0.25),
        "; the way back is scale=std*255, shift=mean*255",
    ),
    "a list to shape_of": (lambda: gl.shape_of([1, 2]), "call gl.shape_of(numpy.asarray(array)) for the layout of"),
}


@pytest.mark.parametrize(
    "call",
    [
        lambda: gl.relayout(LINE, SHAPE, (2, 4)),  # neither an order nor the sizes
        lambda: gl.Shape("f32", (4, 5), (8, 128)),
        lambda: gl.linearize((1, 2), (4, 5.0)),
        lambda: gl.linearize((1, 2), [[4, 5]]),
    ],
)
def test_no_hint_says_what_would_fail_too(call):
    with pytest.raises((TypeError, gl.LayoutError), match="^(?!.*write)"):
        call()


@pytest.mark.parametrize("slip", SLIPS)
def test_the_error_says_what_to_write(slip):
    call, hint = SLIPS[slip]
    with pytest.raises((TypeError, IndexError, BufferError, gl.LayoutError)) as caught:
        call()
    assert hint in str(caught.value)


def test_slips_with_tensors():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"; torch.stack\(array\) makes one$"):
        gl.transpose([torch.zeros(2), torch.zeros(2)], (1, 0))
    images = torch.zeros(2, 3, 4, 5)
    with pytest.raises(TypeError, match="write 'torch:channels_last'$"):
        gl.pack(images, torch.channels_last)
    with pytest.raises(TypeError, match="write 'torch:channels_last'$"):
        gl.relayout(images, gl.shape_of(images), torch.channels_last)
    gl.pack(images, "torch:channels_last")
    plan = gl.plan("f32[1,3,4,5]", "F")
    for call in (plan, torch.compile(lambda array: plan(array), fullgraph=True, backend="eager")):
        with pytest.raises(Exception, match=r"has 60 elements, not 120: write the shape that it has"):
            call(images)
    with pytest.raises(TypeError, match="'out' is neither .*: out belongs to the call that moves"):
        gl.torch.Transpose("h w c -> c h w", out=images)


def test_what_is_written_instead_is_accepted():
    assert gl.transpose(IMAGE, "h w c -> c h w").shape == gl.transpose(IMAGE, [2, 0, 1]).shape == (3, 4, 5)
    assert gl.linearize((1, 2), gl.Shape("f32", (4, 5))) == 7
    assert gl.linearize(np.array([[0, 1], [1, 2], [0, 0]]).T, SHAPE).tolist() == [1, 5, 0]
    assert gl.relayout(np.array([1.0], "f4"), "f32[1]", "{0}").tolist() == [1.0]
    assert gl.relayout(LINE, SHAPE, gl.Layout((0, 1))).tolist() == [0, 3, 1, 4, 2, 5]
    assert gl.unpack(LINE, gl.plan(SHAPE, "h w -> w h").target).tolist() == [[0, 2, 4], [1, 3, 5]]
    out = np.frombuffer(bytearray(24), np.float32)
    assert gl.pack(MATRIX, SHAPE, out=out) is out and out.tolist() == LINE.tolist()
    big = MATRIX.astype(">f4")
    assert gl.shape_of(big.astype(big.dtype.newbyteorder("="))) == gl.parse_shape("f32[2,3]")
    layout = gl.plan("f32[2,3,4,5]", "named:nhwc:nchw").target.layout
    assert layout == gl.Layout.named("NHWC", logical="NCHW")


@pytest.mark.parametrize("layout", ["CHW32", "kHWC8", "torch:channels_last", "h w c -> c h w", "F", "named:CHW8c:CHW"])
def test_the_example_of_a_whole_shape_is_one(layout):
    with pytest.raises(gl.LayoutError, match="write the whole shape, such as gl.plan") as caught:
        gl.unpack(LINE, layout)
    example = str(caught.value).partition("such as ")[2]
    assert eval(example, {"gl": gl}).layout  # noqa: S307


def test_the_advice_about_cameras_and_types_works():
    assert gl.asarray(gl.asarray(MATRIX).to(dtype="f16"), "f16[2,3]{1,0}").dtype == np.float16
    planes = np.zeros((35, 4, 5), np.float32)
    assert (
        gl.pack(planes, "named:CHW8c:CHW").size == gl.pack(planes, gl.Layout.named("CHW8c", logical="CHW")).size == 800
    )
    deep = np.arange(60, dtype=np.uint16).reshape(4, 5, 3) * 1000
    unit = gl.transpose(deep, dtype="f32", scale=1 / 65535)
    both = gl.transpose(deep, dtype="f32", mean=0.5 * 65535, std=0.25 * 65535)
    assert np.allclose(both, (unit - 0.5) / 0.25, atol=1e-6)
    assert (gl.transpose(both, dtype="u16", scale=0.25 * 65535, shift=0.5 * 65535) == deep).all()
    assert gl.transpose(IMAGE, "R G B -> B R G").shape == (3, 4, 5)


def test_objects_that_only_resemble_a_slip_get_no_hint():
    with pytest.raises(gl.LayoutError, match="dropped or repeated$"):
        gl.transpose(IMAGE, "hwc->abc")
    with pytest.raises(TypeError, match="__cuda_array_interface__$"):
        gl.pack(object(), "f32[2,3]")
    with pytest.raises(TypeError, match="not type$"):
        gl.pack(MATRIX, np.float32)


def test_a_name_of_xla_s_module_is_pointed_at():
    with pytest.raises(AttributeError, match="has no attribute 'is_bitcast': gpulayout.xla.is_bitcast is its name$"):
        gl.is_bitcast  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'transposed'$"):
        gl.transposed  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'rearrange': gpulayout.transpose is its name$"):
        gl.rearrange  # noqa: B018
