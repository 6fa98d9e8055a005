"""Objects that describe their memory to NumPy, such as images of Pillow, are read as NumPy's arrays."""

import numpy as np
import pytest

import gpulayout as gl

PIXELS = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)


class Image:
    """What PIL.Image.Image offers; it counts how often it was asked."""

    def __init__(self, array):
        self.array, self.asked = array, 0

    @property
    def __array_interface__(self):
        self.asked += 1
        return self.array.__array_interface__


class Struct:
    def __init__(self, array):
        self.__array_struct__ = array.__array_struct__
        self.array = array


def pillow(array):
    return pytest.importorskip("PIL.Image", reason="Pillow is not installed").fromarray(array)


KINDS = {"interface": Image, "struct": Struct, "Pillow": pillow}
CALLS = {
    "transpose": lambda x: gl.transpose(x, "h w c -> c h w"),
    "transpose, converted": lambda x: gl.transpose(x, "h w c -> c h w", dtype="f32", unit=True),
    "pack": lambda x: gl.pack(x, "h w c -> c h w"),
    "pack in a whole shape": lambda x: gl.pack(x, "u8[4,5,3]{0,1,2}"),
    "relayout": lambda x: gl.relayout(x, "{2,1,0}", "{0,1,2}"),
    "unpack": lambda x: gl.unpack(x, "u8[4,5,3]"),
    "view": lambda x: gl.view(x, "h w c -> c h w"),
    "plan": lambda x: gl.plan("u8[4,5,3]", "h w c -> c h w")(x),
    "relayout_many": lambda x: gl.relayout_many([(x, "u8[4,5,3]", "{0,1,2}")])[0],
    "asarray": lambda x: gl.asarray(x, "h w c -> c h w").buffer,
    "Array": lambda x: gl.Array(x, "{2,1,0}").to("h w c -> c h w").buffer,
    "element": lambda x: gl.asarray(x)[1:, 2],
    "shape_of": lambda x: gl.shape_of(x),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", KINDS)
def test_they_are_read_as_numpy_arrays(kind, name):
    given = KINDS[kind](PIXELS)
    for _ in range(3):
        found, expected = CALLS[name](given), CALLS[name](PIXELS)
        assert type(found) is type(expected) and np.array_equal(np.asarray(found), np.asarray(expected))


def test_nothing_is_copied_and_the_memory_is_kept():
    given = Image(PIXELS)
    assert np.shares_memory(gl.view(given, "h w c -> c h w"), PIXELS)
    array = gl.asarray(given)
    assert type(array.buffer) is np.ndarray and np.shares_memory(array.buffer, PIXELS)
    made = gl.view(Image(np.full((50, 50), 7.0)), "a b -> b a")  # which nothing else keeps
    np.full((50, 50), 8.0)
    assert (made == 7).all()


def test_one_is_asked_once():
    for name in ("transpose", "pack", "plan", "asarray"):
        given = Image(PIXELS)
        CALLS[name](given)
        assert given.asked == 1, name


@pytest.mark.parametrize(
    "mode, kind", [("1", "bool"), ("L", "uint8"), ("P", "uint8"), ("RGB", "uint8"), ("RGBA", "uint8"), ("F", "float32"),
                   ("I", "int32"), ("I;16", "uint16")]
)  # fmt: skip
def test_modes_of_pillow(mode, kind):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed").new(mode, (5, 4))
    packed = gl.pack(image, "F")
    assert packed.dtype == kind and np.array_equal(packed, np.asarray(image).ravel("F"))


def test_bits_and_big_endian_numbers_of_pillow():
    module = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    bits = np.array([[True, False, False], [True, True, False]])
    image = module.fromarray(bits)  # each True is a byte of 255
    assert gl.pack(image, "{1,0}", dtype="u8").tolist() == [1, 0, 0, 1, 1, 0]
    assert np.array_equal(gl.pack(image, "{1,0:E(1,big)}", dtype="u1"), np.packbits(bits.reshape(-1)))
    wide = module.new("I;16B", (2, 3), 258)
    turned = gl.transpose(wide)
    assert turned.dtype == ">u2" and np.array_equal(turned, np.asarray(wide).T)


FOREIGN = {
    "plan": lambda x: gl.plan("u16[4,5]", "F")(x),
    "plan and scale": lambda x: gl.plan("u16[4,5]", "F", dtype="f32", scale=0.5)(x),
    "plan into memory": lambda x: gl.plan("u16[4,5]", "F")(x, out=np.zeros(20, np.uint16)),
    "pack": lambda x: gl.pack(x, "F"),
    "unpack": lambda x: gl.unpack(x, "u16[4,5]"),
    "relayout": lambda x: gl.relayout(x, "u16[4,5]", "F"),
    "relayout_many": lambda x: gl.relayout_many([(x, "u16[4,5]", "F")])[0],
    "transpose": lambda x: gl.transpose(x, dtype="f32"),
    "asarray": lambda x: gl.asarray(x, "F").buffer,
    "scale": lambda x: gl.pack(np.ones((4, 5), np.float32), "F", scale=x),
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("kind", ["interface", "struct"])
def test_numbers_in_the_other_byte_order_are_read_as_those_of_numpy_arrays(kind, name):
    values = np.arange(250, 270, dtype=np.uint16).reshape(4, 5)
    foreign = values.astype(values.dtype.newbyteorder("S"))
    for _ in range(4):
        found, expected = FOREIGN[name](KINDS[kind](foreign)), FOREIGN[name](values)
        assert found.dtype == expected.dtype and found.dtype.isnative and np.array_equal(found, expected)
        native = FOREIGN[name](KINDS[kind](values))  # calls take turns
        assert native.dtype == expected.dtype and np.array_equal(native, expected)


def test_an_image_of_pillow_in_big_endian_runs_a_plan():
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed").new("I;16B", (2, 3), 258)
    for _ in range(3):
        assert gl.plan("u16[3,2]", "F")(image).tolist() == [258] * 6


@pytest.mark.parametrize("kind", KINDS)
def test_one_to_write_to_is_an_error_before_a_byte_is_written(kind):
    memory = PIXELS.copy()
    given = KINDS[kind](memory)
    planes = np.zeros((3, 4, 5), np.uint8)
    for call in (
        lambda: gl.transpose(planes, "c h w -> h w c", out=given),
        lambda: gl.relayout(np.zeros(60, np.uint8), "u8[4,5,3]", "{0,1,2}", out=given),
        lambda: gl.relayout(given, "u8[4,5,3]", "{0,1,2}", out=given),
    ):
        with pytest.raises(TypeError, match=r"^out is an? \w+, which may describe a copy .*: pass a NumPy array"):
            call()
    assert np.array_equal(memory, PIXELS)


def test_descriptions_that_are_wrong_are_errors_with_the_role():
    class Odd:
        def __init__(self, **fields):
            self.fields = fields

        @property
        def __array_interface__(self):
            return {**np.zeros(3).__array_interface__, **self.fields}

    class Raises:
        @property
        def __array_interface__(self):
            raise RuntimeError("the file is closed")

    for given, words in (
        (Odd(mask=np.zeros(3)), "it has a mask, which would be lost"),
        (Odd(typestr="<q9"), "type"),
        (Odd(shape="x"), "shape"),
        (Raises(), "the file is closed"),
    ):
        with pytest.raises(BufferError, match=rf"^array \(an? \w+\) cannot be used: .*{words}"):
            gl.transpose(given)
    with pytest.raises(TypeError, match="^array is the class Odd: it must be an array"):
        gl.transpose(Odd)


def test_a_description_fits_the_buffer_that_it_names():
    class Described:
        def __init__(self, **fields):
            self.__array_interface__ = {"version": 3, "typestr": "|u1", **fields}

    numbers = bytearray(range(9))
    for fields in (
        {"shape": (1 << 28,), "data": b"abc"},
        {"shape": (2, 3), "data": b"abcdefgh", "typestr": "<f4"},
        {"shape": (2, 3), "data": numbers, "strides": (-3, 1)},
        {"shape": (2, 3), "data": numbers, "offset": 4},
    ):
        with pytest.raises(BufferError, match=r"^array \(a Described\) cannot be used: "):
            gl.transpose(Described(**fields))
    assert gl.transpose(Described(shape=(2, 3), data=numbers, offset=3)).tolist() == [[3, 6], [4, 7], [5, 8]]
