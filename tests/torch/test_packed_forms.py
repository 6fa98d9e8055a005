"""What packed tensors are made of: plain layouts, codes, words of checkpoints, patterns, tensors of any strides."""

import random

import numpy as np
import pytest

import gpulayout as gl

torch = pytest.importorskip("torch")

from tests.support.packed_tensors import (  # noqa: E402
    COLUMNS,
    GPTQ,
    MARLIN,
    MARLIN_SHAPE,
    ROWS,
    as_tensor,
    bytes_of,
    codes,
    gptq_words,
    marlin_bytes,
    packed_bytes,
    random_box,
    random_values,
    same_bits,
)

# ---- plain layouts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f32", "bf16", "u8", "s64", "pred", "c64", "f8e4m3fn"])
@pytest.mark.parametrize("text", ["{0,1}", "{1,0:T(2,4)}", "{0,1:T(4)}", "{1,0}"])
def test_a_layout_without_padding(text, dtype):
    shape = gl.Shape(dtype, (8, 16), text)
    values = random_values(shape.dimensions, shape, random.Random(text + dtype))
    for layout in (text, shape.layout, shape, str(shape)):
        plain = as_tensor(values, shape)
        address, kind = plain.data_ptr(), plain.dtype
        assert gl.torch.pack_(plain, layout) is plain
        assert gl.torch.layout_of(plain) == shape and plain.data_ptr() == address
        assert (plain.dtype, plain.shape) == (kind, (shape.buffer_length,))
        assert bytes_of(plain) == packed_bytes(values, shape)
        assert same_bits(gl.torch.read(plain), values, shape)
        assert same_bits(gl.torch.unpack_(plain), values, shape)


@pytest.mark.parametrize("text", ["{1,0:T(8,128)}", "{0,1:PD(7,10)}", "{1,0:T(4,4)L(64)}", "{0,1:PD(7,10)PV(1)}"])
@pytest.mark.parametrize("dtype", ["f32", "u8"])
def test_a_layout_with_padding(text, dtype):
    """It needs more bytes than the plain tensor has, so new memory; its padding stays as `gl.pack` fills it."""
    try:
        shape = gl.Shape(dtype, (5, 9), text)
    except gl.LayoutError:
        pytest.skip("no layout of this version")
    rng = random.Random(text)
    values = random_values(shape.dimensions, shape, rng)
    plain = as_tensor(values, shape)
    before = bytes_of(plain)
    with pytest.raises(gl.LayoutError, match="empty_packed") as caught:
        gl.torch.pack_(plain, text)
    assert bytes_of(plain) == before and gl.torch.layout_of(plain) is None and "\n" not in str(caught.value)
    assert str(shape.nbytes) in str(caught.value) and "5,9" in str(caught.value).replace(" ", "")
    made = gl.torch.empty_packed(shape, like=plain)
    assert bytes_of(made) == packed_bytes(np.zeros((5, 9), shape.dtype), shape) and made.dtype == plain.dtype
    gl.torch.copy_(made, plain)
    for _ in range(4):
        assert bytes_of(made) == packed_bytes(values, shape)
        box = random_box(shape.dimensions, rng)
        part = random_values(values[box].shape, shape, rng)
        gl.torch.copy_(made, as_tensor(part, shape), at=box)
        values[box] = part
    address = made.data_ptr()
    assert same_bits(gl.torch.unpack_(made), values, shape) and made.data_ptr() == address
    gl.torch.pack_(made, shape)  # there is room
    assert bytes_of(made) == packed_bytes(values, shape) and made.data_ptr() == address


def test_empty_packed_takes_the_place_and_the_class_of_none():
    """New memory is a plain buffer's: no gradient, and large enough for the plain tensor of codes."""
    made = gl.torch.empty_packed(f"{MARLIN}[64,128]")
    assert made.dtype == torch.int32 and made.shape == (4, 256) and not made.requires_grad and made.is_contiguous()
    assert gl.torch.layout_of(made) == MARLIN_SHAPE and bytes_of(made) == bytes(4096)
    gl.torch.copy_(made, codes(3))
    assert gl.torch.unpack_(made).equal(codes(3))
    assert gl.torch.layout_of(gl.torch.empty_packed("f32[2,3]{0,1}", like=codes())) == gl.parse_shape("f32[2,3]{0,1}")


@pytest.mark.parametrize("sizes", [(0, 16), (8, 0), (1, 1), ()])
def test_few_elements(sizes):
    shape = gl.Shape("f32", sizes, gl.Layout(range(len(sizes))))
    plain = torch.full(sizes, 2.5)
    gl.torch.pack_(plain, shape)
    assert gl.torch.read(plain).equal(torch.full(sizes, 2.5))
    gl.torch.copy_(plain, torch.full(sizes, 3.5))
    assert gl.torch.unpack_(plain).equal(torch.full(sizes, 3.5)) and plain.shape == sizes


# ---- codes ---------------------------------------------------------------------------------------------


def test_codes_of_marlin():
    plain = codes()
    tensor = plain.clone()
    address = tensor.data_ptr()
    gl.torch.pack_(tensor, MARLIN)
    assert (tensor.dtype, tensor.shape, tensor.data_ptr()) == (torch.int32, (ROWS // 16, COLUMNS * 2), address)
    assert gl.torch.layout_of(tensor) == MARLIN_SHAPE and bytes_of(tensor) == marlin_bytes(plain)
    assert gl.torch.unpack_(tensor).equal(plain) and tensor.dtype == torch.uint8


@pytest.mark.parametrize("dtype, kind", [("u4", torch.uint8), ("s4", torch.uint8), ("s4", torch.int8)])
@pytest.mark.parametrize("name", ["marlin:weights", "torchao:int4_cpu"])
def test_codes_are_read_with_their_sign(name, dtype, kind):
    """An int8 has the number, and a uint8 its four bits."""
    plain = codes().to(kind)
    if kind is torch.int8:
        plain = (plain ^ 8) - 8
    shape = gl.catalogue.find(name)(ROWS, COLUMNS, dtype=dtype)
    sign = 8 if dtype == "s4" else 0
    values = (((plain.numpy().astype(np.int8) & 15) ^ sign) - sign).astype(shape.dtype)
    tensor = gl.torch.pack_(plain.clone(), f"{name}(dtype={dtype})")
    assert bytes_of(tensor) == packed_bytes(values, shape) and gl.torch.layout_of(tensor) == shape
    assert gl.torch.read(tensor).equal(plain) and gl.torch.read(tensor).dtype == kind
    gl.torch.copy_(tensor, plain.flip(0))
    assert bytes_of(tensor) == packed_bytes(values[::-1], shape)
    assert gl.torch.read(tensor, at=(slice(3, 7), slice(5, 6))).equal(plain.flip(0)[3:7, 5:6])
    assert gl.torch.unpack_(tensor).equal(plain.flip(0)) and tensor.dtype == kind


def test_codes_of_a_byte_each_are_read_with_their_sign():
    """A layout of text keeps whole bytes: those of -1 are 255 there, and not 15."""
    plain = ((codes() ^ 8) - 8).to(torch.int8)
    tensor = gl.torch.pack_(plain.clone(), "s4[64,128]{0,1}")
    assert gl.torch.read(tensor).equal(plain)
    assert gl.torch.read(gl.torch.copy_(tensor, plain.flip(0))).equal(plain.flip(0))
    gl.torch.copy_(tensor, plain[:9].view(torch.uint8) & 15, at=(slice(0, 9), ...))
    wanted = torch.cat([plain[:9], plain.flip(0)[9:]])
    assert gl.torch.read(tensor, at=(slice(7, 11), ...)).equal(wanted[7:11])
    assert gl.torch.read(tensor).equal(wanted) and gl.torch.unpack_(tensor).equal(wanted)


@pytest.mark.parametrize("layout", ["{0,1}", "{1,0:T(8,128)}", "{0,1:E(4)}"])
def test_numbers_become_codes_of_four_bits_where_the_plain_tensor_has_these(layout):
    """A uint8 that gets values of int8 has codes up to 15 again, which can be packed."""
    plain = codes()
    numbers = ((plain ^ 8) - 8).to(torch.int8)
    tensor = gl.torch.pack_(torch.zeros_like(plain), f"s4[64,128]{layout}")
    gl.torch.copy_(tensor, numbers)
    assert gl.torch.read(tensor).equal(plain)
    gl.torch.copy_(tensor, numbers[:9].flip(0), at=(slice(0, 9), ...))
    wanted = torch.cat([plain[:9].flip(0), plain[9:]])
    assert gl.torch.read(tensor, at=(slice(5, 12), ...)).equal(wanted[5:12])
    with gl.torch.unpacked([tensor]):
        assert tensor.equal(wanted)
    assert gl.torch.read(tensor).equal(wanted)


def test_a_code_that_does_not_fit_is_refused():
    """16 has no place in 4 bits: nothing is cut off without a word."""
    plain = codes()
    plain[5, 7] = 16
    before = bytes_of(plain)
    with pytest.raises(gl.LayoutError):
        gl.torch.pack_(plain, MARLIN)
    assert bytes_of(plain) == before and gl.torch.layout_of(plain) is None
    tensor = gl.torch.pack_(codes(1), MARLIN)
    for at in (None, (slice(None), slice(0, 128))):
        with pytest.raises(gl.LayoutError):
            gl.torch.copy_(tensor, plain, at=at)
        assert bytes_of(tensor) == marlin_bytes(codes(1))


# ---- words of checkpoints ------------------------------------------------------------------------------


def test_words_of_gptq_become_marlin_s():
    plain, other = codes(1), codes(2)
    tensor = gptq_words(plain)
    address, sizes = tensor.data_ptr(), tensor.shape
    assert gl.torch.pack_(tensor, MARLIN, source=GPTQ) is tensor
    assert (tensor.dtype, tensor.shape, tensor.data_ptr()) == (torch.int32, (4, 256), address)
    assert gl.torch.layout_of(tensor) == MARLIN_SHAPE and bytes_of(tensor) == marlin_bytes(plain)
    assert gl.torch.read(tensor).equal(gptq_words(plain))
    assert gl.torch.read(tensor, at=(slice(32, 64), slice(5, 9))).equal(gptq_words(plain[32:64, 5:9]))
    gl.torch.copy_(tensor, gptq_words(other))
    assert bytes_of(tensor) == marlin_bytes(other)
    gl.torch.copy_(tensor, gptq_words(plain[:32, 1:8]), at=(slice(0, 32), slice(1, 8)))
    other[:32, 1:8] = plain[:32, 1:8]
    assert bytes_of(tensor) == marlin_bytes(other)
    assert gl.torch.unpack_(tensor) is tensor and tensor.data_ptr() == address and tensor.shape == sizes
    assert tensor.dtype == torch.int32 and bytes_of(tensor) == bytes_of(gptq_words(other))


def test_words_keep_their_form_in_new_memory():
    made = gl.torch.empty_packed(f"{MARLIN}[64,128]", source=GPTQ)
    gl.torch.copy_(made, gptq_words(codes(4)))
    assert bytes_of(made) == marlin_bytes(codes(4)) and gl.torch.read(made).equal(gptq_words(codes(4)))
    assert gl.torch.unpack_(made).equal(gptq_words(codes(4)))


def test_words_of_awq():
    """Eight columns in a word, in AWQ's order."""
    plain = codes(5)
    shape = gl.parse_shape("awq:qweight[64,128]")
    data = packed_bytes(plain.numpy().astype(shape.dtype), shape)
    words = torch.from_numpy(np.frombuffer(data, np.int32).reshape(64, 16).copy())
    tensor = gl.torch.pack_(words.clone(), MARLIN, source="awq:qweight(dtype=u4)")
    assert bytes_of(tensor) == marlin_bytes(plain) and gl.torch.unpack_(tensor).equal(words)


def test_words_that_are_no_words_are_refused():
    for tensor, source in (
        (gptq_words(codes()).view(torch.float32), GPTQ),
        (gptq_words(codes())[:3], GPTQ),
        (gptq_words(codes()), "gptq:qweight"),  # of 2, 4 or 8 bits
        (gptq_words(codes()), "gptq:qwait(dtype=u4)"),
    ):
        before = bytes_of(tensor)
        with pytest.raises((gl.LayoutError, TypeError)) as caught:
            gl.torch.pack_(tensor, MARLIN, source=source)
        assert "\n" not in str(caught.value) and bytes_of(tensor) == before
        assert gl.torch.layout_of(tensor) is None


# ---- patterns ------------------------------------------------------------------------------------------


def test_a_pattern_reorders_axes_first():
    """A checkpoint's [N, K] as Marlin's [K, N]; sizes and boxes are those of the plain tensor."""
    plain, other = codes(1, (COLUMNS, ROWS)), codes(2, (COLUMNS, ROWS))
    tensor = plain.clone()
    gl.torch.pack_(tensor, f"n k -> k n; {MARLIN}")
    assert (tensor.dtype, tensor.shape) == (torch.int32, (4, 256)) and bytes_of(tensor) == marlin_bytes(plain.t())
    assert gl.torch.layout_of(tensor) is not None and gl.torch.read(tensor).equal(plain)
    gl.torch.copy_(tensor, other)
    assert bytes_of(tensor) == marlin_bytes(other.t())
    box = slice(9, 100), slice(3, 4)
    gl.torch.copy_(tensor, plain[box], at=box)
    other[box] = plain[box]
    assert bytes_of(tensor) == marlin_bytes(other.t()) and gl.torch.read(tensor, at=box).equal(plain[box])
    assert gl.torch.unpack_(tensor).equal(other)


@pytest.mark.parametrize("layout", ["n k -> k m; {0,1}", "n k -> k; {0}", "n k; {0,1}", "; {0,1}", "n k -> k n;"])
def test_a_pattern_that_is_none(layout):
    plain = torch.arange(24.0).view(4, 6)
    with pytest.raises(gl.LayoutError) as caught:
        gl.torch.pack_(plain, layout)
    assert "\n" not in str(caught.value)
    assert plain.equal(torch.arange(24.0).view(4, 6)) and gl.torch.layout_of(plain) is None


# ---- strides and storages ------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["{0,1,2,3}", "onednn:OIhw8i8o", "{3,2,1,0}", "{1,3,2,0}"])
def test_channels_last(text):
    values = np.arange(8 * 16 * 3 * 3, dtype=np.float32).reshape(8, 16, 3, 3)
    plain = torch.from_numpy(values.copy()).to(memory_format=torch.channels_last)
    parameter = torch.nn.Parameter(plain, requires_grad=False)
    address, strides = parameter.data_ptr(), parameter.stride()
    assert gl.torch.pack_(parameter, text) is parameter and parameter.data_ptr() == address
    shape = gl.torch.layout_of(parameter)
    assert bytes_of(parameter) == packed_bytes(values, shape)
    gl.torch.copy_(parameter, torch.from_numpy(values * 2))
    assert bytes_of(parameter) == packed_bytes(values * 2, shape)
    gl.torch.unpack_(parameter)
    assert parameter.stride() == strides and parameter.data_ptr() == address
    assert parameter.equal(torch.from_numpy(values * 2)) and type(parameter) is torch.nn.Parameter


@pytest.mark.parametrize("order", [(1, 0), (2, 0, 1), (0, 2, 1), (1, 2, 0)])
def test_transposed_parameters(order):
    """Dense in another order: codes of 4 bits, too."""
    sizes = (32, 64) if len(order) == 2 else (2, 32, 64)
    for layout, base in (
        ("{" + ",".join(map(str, range(len(order)))) + "}", torch.rand(sizes)),
        (f"{'gptq:qweight(dtype=u4)'}", codes(1, tuple(64 if size == 32 else size for size in sizes))),
    ):
        plain = base.permute(order)
        if layout.startswith("gptq") and plain.shape[-2] % 32:
            continue
        expected, strides = plain.clone(), plain.stride()
        parameter = torch.nn.Parameter(plain, requires_grad=False)
        gl.torch.pack_(parameter, layout)
        assert gl.torch.read(parameter).equal(expected)
        gl.torch.unpack_(parameter)
        assert parameter.equal(expected) and parameter.stride() == strides


def test_a_part_of_a_storage():
    """Parameters that lie one after the other: each has a layout of its own, and what lies between stays."""
    flat = torch.arange(300.0)
    first, second = flat[10:138].view(8, 16), flat[140:268].view(16, 8)
    gl.torch.pack_(first, "{0,1}")
    gl.torch.pack_(second, "{1,0:T(2,2)}")
    for tensor, begin, sizes in ((first, 10, (8, 16)), (second, 140, (16, 8))):
        values = np.arange(begin, begin + 128, dtype=np.float32).reshape(sizes)
        assert bytes_of(tensor) == packed_bytes(values, gl.torch.layout_of(tensor))
        assert tensor.data_ptr() == flat.untyped_storage().data_ptr() + 4 * begin
    assert str(gl.torch.layout_of(first)) == "f32[8,16]{0,1}"
    assert str(gl.torch.layout_of(second)) == "f32[16,8]{1,0:T(2,2)}"
    gl.torch.unpack_(first)
    assert gl.torch.layout_of(first) is None and gl.torch.layout_of(second) is not None
    assert gl.torch.unpack_(second).shape == (16, 8)
    assert bytes_of(flat, 1200) == np.arange(300, dtype=np.float32).tobytes()


def test_padding_does_not_reach_a_neighbour():
    """Bytes behind a tensor are another's, though its storage has them."""
    flat = torch.arange(100.0)
    tensor = flat[:15].view(3, 5)
    with pytest.raises(gl.LayoutError, match="empty_packed"):
        gl.torch.pack_(tensor, "{1,0:T(2,4)}")
    assert bytes_of(flat, 400) == np.arange(100, dtype=np.float32).tobytes()
    assert gl.torch.layout_of(tensor) is None


def test_room_that_was_another_tensor_s_is_not_used():
    """A longer tensor at the same place was packed and unpacked: a shorter one has its own bytes only."""
    flat = torch.arange(100.0)
    gl.torch.unpack_(gl.torch.pack_(flat[:64].view(8, 8), "{0,1}"))
    with pytest.raises(gl.LayoutError, match="empty_packed"):
        gl.torch.pack_(flat[:15].view(3, 5), "{1,0:T(2,4)}")
    assert flat.equal(torch.arange(100.0)) and gl.torch.layout_of(flat) is None


def test_another_packed_tensor_in_the_room_of_a_plain_form():
    """Codes take half of their memory: what is packed in the other half stays, and goes first."""
    flat = codes().view(-1)
    behind = flat[4096:].view(torch.float32).view(32, 32)
    tensor = gl.torch.pack_(flat.view(64, 128), MARLIN)
    behind.copy_(torch.arange(1024.0).view(32, 32))
    gl.torch.pack_(behind, "{0,1}")
    before = bytes_of(flat, 8192)
    with pytest.raises(gl.LayoutError, match="unpack that one first"):
        gl.torch.unpack_(tensor)
    assert bytes_of(flat, 8192) == before and gl.torch.layout_of(tensor) == MARLIN_SHAPE
    gl.torch.unpack_(behind)
    assert behind.equal(torch.arange(1024.0).view(32, 32)) and gl.torch.unpack_(tensor).shape == (64, 128)


def test_tensors_that_overlap_packed_memory():
    """Neither a part of it, nor more than it: the bytes have one layout."""
    flat = torch.arange(100.0)
    first = gl.torch.pack_(flat[10:34].view(4, 6), "{0,1}")
    before = bytes_of(flat, 400)
    for other in (flat, flat[:11], flat[33:], flat[10:33], flat[11:34], flat[10:35], flat[9:33], flat[11:35]):
        for call in (gl.torch.layout_of, gl.torch.read, gl.torch.unpack_, lambda other: gl.torch.pack_(other, "{0}")):
            with pytest.raises(gl.LayoutError):
                call(other)
        with pytest.raises(gl.LayoutError):
            gl.torch.copy_(other, torch.zeros(len(other)))
    assert bytes_of(flat, 400) == before and gl.torch.read(first).equal(torch.arange(10.0, 34).view(4, 6))
    for other in (flat[:10], flat[34:]):
        assert gl.torch.layout_of(gl.torch.pack_(other, "{0}")) is not None


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.arange(48.0).view(6, 8)[:, ::2],
        lambda: torch.arange(48.0).view(6, 8)[:, :3],
        lambda: torch.arange(8.0).expand(6, 8),
    ],
    ids=["steps", "gaps", "expanded"],
)
def test_tensors_with_gaps_are_refused(make):
    tensor = make()
    size = tensor.untyped_storage().nbytes()
    before = bytes_of(tensor, size)
    with pytest.raises(gl.LayoutError) as caught:
        gl.torch.pack_(tensor, "{0,1}")
    assert "\n" not in str(caught.value) and bytes_of(tensor, size) == before
    assert gl.torch.layout_of(tensor) is None


# ---- arithmetic, and plain tensors ---------------------------------------------------------------------


def test_floats_are_converted_as_torch_does():
    tensor = gl.torch.pack_(torch.zeros(8, 16, dtype=torch.bfloat16), "{0,1:T(4)}")
    value = torch.randn(8, 16)
    gl.torch.copy_(tensor, value)
    assert gl.torch.read(tensor).equal(value.to(torch.bfloat16))
    gl.torch.copy_(tensor, value[2:3, 1:5].double() * 3, at=(slice(2, 3), slice(1, 5)))
    value[2:3, 1:5] *= 3
    assert gl.torch.read(tensor).equal(value.to(torch.bfloat16))


def test_floats_become_codes_by_arithmetic_only():
    tensor = gl.torch.pack_(codes(), MARLIN)
    value = codes(1).float() * 0.5
    for options in ({}, {"scale": None}, {"scale": None, "zero_point": None, "dtype": None}):
        with pytest.raises((gl.LayoutError, TypeError)) as caught:
            gl.torch.copy_(tensor, value, **options)
        assert "scale=" in str(caught.value) and "\n" not in str(caught.value)
        assert bytes_of(tensor) == marlin_bytes(codes())
    gl.torch.copy_(tensor, value, scale=2.0)
    assert bytes_of(tensor) == marlin_bytes(codes(1))


def test_a_plain_tensor_is_copied_into_as_torch_does():
    tensor, value = torch.zeros(4, 6), torch.arange(24.0).view(4, 6)
    assert gl.torch.copy_(tensor, value) is tensor and tensor.equal(value)
    gl.torch.copy_(tensor, torch.ones(2, 3), at=(slice(1, 3), slice(0, 3)))
    value[1:3, :3] = 1
    assert tensor.equal(value)
    assert gl.torch.read(tensor).equal(value) and gl.torch.read(tensor, at=(slice(1, 2),)).equal(value[1:2])
    assert gl.torch.read(tensor).data_ptr() != tensor.data_ptr()
    with pytest.raises(gl.LayoutError):
        gl.torch.copy_(tensor, torch.ones(6))  # torch would repeat it
    packed = gl.torch.pack_(torch.arange(24.0).view(4, 6) * 2, "{0,1}")
    assert gl.torch.copy_(tensor, packed).equal(torch.arange(24.0).view(4, 6) * 2)
    assert gl.torch.layout_of(tensor) is None
