"""torch.float4_e2m1fn_x2, two elements in a byte: the buffer of shapes of f4e2m1fn with E(4), and no logical array."""

import numpy as np
import pytest

import gpulayout as gl

torch = pytest.importorskip("torch")
if not hasattr(torch, "float4_e2m1fn_x2"):
    pytest.skip("this torch has no float4_e2m1fn_x2", allow_module_level=True)

CODES = np.random.default_rng(0).integers(0, 16, (6, 10)).astype(np.uint8)
LAYOUTS = ("{1,0:E(4)}", "{0,1:E(4)}", "{1,0:T(2,4)E(4)}", "{0,1:PD(7,12)E(4)}")


def packed(codes):
    """Rows of codes, two in a byte, the first in the low bits."""
    return np.ascontiguousarray(codes[:, 0::2] | codes[:, 1::2] << 4)


def pairs(values):
    return torch.from_numpy(np.ascontiguousarray(values).reshape(-1).copy()).view(torch.float4_e2m1fn_x2)


def bytes_of(tensor):
    return tensor.view(torch.uint8).numpy()


def shape_in(layout):
    return gl.Shape("f4e2m1fn", (6, 10), layout)


def buffer_in(layout):
    """The buffer of CODES in a layout, made in NumPy alone for the plain orders."""
    if layout == "{1,0:E(4)}":
        return packed(CODES).reshape(-1)
    if layout == "{0,1:E(4)}":
        return packed(CODES.T).reshape(-1)
    return gl.pack(CODES, shape_in(layout))


@pytest.mark.parametrize("target", LAYOUTS)
@pytest.mark.parametrize("source", LAYOUTS)
def test_a_relayout_gives_another_such_buffer(source, target):
    before, after = shape_in(source), shape_in(target)
    given, plan = pairs(buffer_in(source)), gl.plan(before, after)
    for _ in range(3):  # the third call runs without checks
        for found in (
            gl.relayout(given, before, target), plan(given), gl.relayout_many([(given, before, after)])[0],
            gl.Array(given, before).to(after).buffer,
        ):  # fmt: skip
            if found is not given:
                assert found.dtype == torch.float4_e2m1fn_x2
                assert np.array_equal(bytes_of(found), buffer_in(target))
        plain = gl.relayout(given.view(torch.uint8), before, target)
        assert plain.dtype == torch.uint8 and np.array_equal(plain, buffer_in(target))
        out = pairs(np.zeros(after.nbytes, np.uint8))
        assert gl.relayout(given, before, after, out=out) is out and np.array_equal(bytes_of(out), buffer_in(target))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_elements_come_out_and_go_in(layout):
    shape, given = shape_in(layout), pairs(buffer_in(layout))
    numbers = CODES.view(gl.ElementType("f4e2m1fn").dtype).astype(np.float32)
    assert np.array_equal(gl.unpack(given, shape), CODES)
    assert np.array_equal(gl.unpack(given, shape, dtype="f32"), numbers)
    array = gl.Array(given, shape)
    assert array == gl.Array(given.view(torch.uint8), shape) and int(array[3, 5]) == CODES[3, 5]
    assert np.array_equal(array[1::2, ::-3], CODES[1::2, ::-3])
    assert np.array_equal(np.asarray(array).astype(np.float32), numbers)
    for values, options in ((torch.from_numpy(CODES), {}), (torch.from_numpy(numbers), {"dtype": "f4e2m1fn"})):
        out = pairs(np.zeros(shape.nbytes, np.uint8))
        assert gl.pack(values, shape, out=out, **options) is out
        assert np.array_equal(gl.unpack(out, shape, dtype="f32"), numbers)  # -0.0 is 0.0


def test_what_is_no_such_buffer_comes_back_as_bytes():
    given, shape = pairs(buffer_in("{1,0:E(4)}")), shape_in("{1,0:E(4)}")
    high_first = gl.relayout(given, shape, "{1,0:E(4,big)}")
    assert high_first.dtype == torch.uint8 and np.array_equal(high_first >> 4, bytes_of(given) & 15)
    assert gl.relayout(given, shape, "{0,1}").dtype == torch.uint8


REFUSED = {
    "another type": (lambda x: gl.relayout(x, "u8[30]", "{0:T(4)}"), "buffer"),
    "another packed type": (lambda x: gl.relayout(x, "u4[60]{0:E(4)}", "{0}"), "buffer"),
    "high bits first": (lambda x: gl.unpack(x, "f4e2m1fn[60]{0:E(4,big)}"), "buffer"),
    "one in a byte": (lambda x: gl.unpack(x, "f4e2m1fn[30]"), "buffer"),
    "an Array": (lambda x: gl.Array(x, "u8[30]"), "buffer"),
    "a plan": (lambda x: gl.plan("u8[30]", "{0:T(4)}")(x), "buffer"),
    "an output": (lambda x: gl.pack(torch.ones(30, dtype=torch.uint8), "{0}", out=x), "out"),
    "pack": (lambda x: gl.pack(x.reshape(6, 5), "{0,1}"), "array"),
    "pack in a whole shape": (lambda x: gl.pack(x.reshape(6, 5), "f4e2m1fn[6,5]{0,1}"), "array"),
    "transpose": (lambda x: gl.transpose(x.reshape(6, 5)), "array"),
    "transpose to": (lambda x: gl.transpose(torch.ones(5, 6, dtype=torch.uint8), out=x.reshape(6, 5)), "out"),
    "unpack to": (lambda x: gl.unpack(torch.ones(30).byte(), "u8[6,5]", out=x.reshape(6, 5)), "out"),
    "view": (lambda x: gl.view(x.reshape(6, 5), "a b -> b a"), "buffer"),
    "shape_of": (lambda x: gl.shape_of(x.reshape(6, 5)), ""),
    "asarray": (lambda x: gl.asarray(x.reshape(6, 5), "{0,1}"), ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_where_elements_count_the_error_says_how_to_get_bytes(name):
    call, role = REFUSED[name]
    given = pairs(np.full(30, 0x21, np.uint8))
    for _ in range(3):
        with pytest.raises(TypeError, match=rf"^{role}.*torch\.float4_e2m1fn_x2.*\.view\(torch\.uint8\)"):
            call(given)
    assert (bytes_of(given) == 0x21).all()


def test_bytes_that_went_before_do_not_let_it_pass():
    plain, given = torch.ones(30, dtype=torch.uint8), pairs(np.ones(30, np.uint8))
    for call in (lambda x: gl.relayout(x, "u8[5,6]", "{0,1}"), lambda x: gl.transpose(x.reshape(5, 6))):
        for _ in range(4):
            call(plain)
        with pytest.raises(TypeError, match="float4_e2m1fn_x2"):
            call(given)


def test_one_with_its_own_sizes_is_told_to_be_flat():
    with pytest.raises(BufferError, match=r"2 elements, is 1-D; buffer\.reshape\(-1\) is the same memory"):
        gl.unpack(pairs(packed(CODES)).reshape(6, 5), shape_in("{1,0:E(4)}"))


def test_torch_compile_runs_it_between_graphs():
    pytest.importorskip("torch._dynamo").reset()
    given, shape = pairs(buffer_in("{1,0:E(4)}")), shape_in("{1,0:E(4)}")
    found = torch.compile(lambda x: gl.relayout(x, shape, "{0,1:E(4)}"), backend="eager")(given)
    assert found.dtype == given.dtype and np.array_equal(bytes_of(found), buffer_in("{0,1:E(4)}"))
    with pytest.raises(torch._dynamo.exc.Unsupported, match="2 elements share a byte"):
        torch.compile(lambda x: gl.unpack(x, shape), backend="eager", fullgraph=True)(given)
    torch._dynamo.reset()
