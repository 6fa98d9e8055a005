"""What would take packed bytes for plain ones, or plain ones for packed, is one clear error, and writes nothing."""

import pytest

import gpulayout as gl

torch = pytest.importorskip("torch")

from tests.support.packed_tensors import (  # noqa: E402
    MARLIN,
    MARLIN_SHAPE,
    bytes_of,
    codes,
    marlin_bytes,
    packed_bytes,
    packed_parameter,
)

REFUSED = (gl.LayoutError, TypeError)
WORDS = torch.arange(1024, dtype=torch.int32).view(4, 256)  # of the packed tensor's type and sizes


def refused(call, *arguments):
    """One line that says what to write."""
    with pytest.raises(REFUSED) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value) and "gl.torch" in str(caught.value), caught.value


WRITES = {
    "copy_": lambda tensor: tensor.copy_(WORDS),
    "copy_ to data": lambda tensor: tensor.data.copy_(WORDS),
    "copy_ to detach": lambda tensor: tensor.detach().copy_(WORDS),
    "copy_ of a number": lambda tensor: tensor.copy_(torch.tensor(1, dtype=torch.int32)),
    "copy_ to a row": lambda tensor: tensor[1].copy_(WORDS[1]),
    "copy_ to a flat view": lambda tensor: tensor.view(-1).copy_(WORDS.view(-1)),
    "copy_ to a part": lambda tensor: tensor.data.narrow(1, 8, 16).copy_(WORDS[:, :16]),
    "copy_ to bytes": lambda tensor: tensor.data.view(torch.uint8).copy_(WORDS.view(torch.uint8)),
    "copy_ to a parameter of data": lambda tensor: torch.nn.Parameter(tensor.data, requires_grad=False).data.copy_(
        WORDS
    ),
    "setitem": lambda tensor: tensor.__setitem__(slice(0, 2), WORDS[:2]),
    "setitem of data": lambda tensor: tensor.data.__setitem__(..., WORDS),
    "index_copy_": lambda tensor: tensor.index_copy_(0, torch.tensor([1]), WORDS[:1]),
    "module_load, as load_state_dict calls it": lambda tensor: tensor.module_load(WORDS),
    "foreach": lambda tensor: torch._foreach_copy_([tensor], [WORDS]),
}


@pytest.mark.parametrize("name", WRITES)
def test_plain_bytes_are_not_written_over_packed_ones(name):
    parameter, plain = packed_parameter()
    refused(WRITES[name], parameter)
    assert gl.torch.layout_of(parameter) == MARLIN_SHAPE and bytes_of(parameter) == marlin_bytes(plain)


@pytest.mark.parametrize(
    "write",
    [
        lambda target, packed: target.copy_(packed),
        lambda target, packed: target.data.copy_(packed.data),
        lambda target, packed: target.copy_(packed.view(-1)[:1024].view(4, 256)),
        lambda target, packed: target[:2].copy_(packed[:2]),
        lambda target, packed: target.__setitem__(slice(0, 4), packed),
        lambda target, packed: torch._foreach_copy_([target], [packed]),
    ],
)
def test_packed_bytes_are_not_written_over_plain_ones(write):
    parameter, plain = packed_parameter()
    target = WORDS.clone()
    refused(write, target, parameter)
    assert target.equal(WORDS) and bytes_of(parameter) == marlin_bytes(plain)


def test_packed_bytes_of_one_layout_are_copied_as_they_are():
    first, plain = packed_parameter(1)
    second, _ = packed_parameter(2)
    first.data.copy_(second.data)
    assert bytes_of(first) == marlin_bytes(codes(2)) and gl.torch.layout_of(first) == MARLIN_SHAPE
    first.copy_(gl.torch.pack_(plain.clone(), MARLIN))
    assert bytes_of(first) == marlin_bytes(plain)


def test_packed_bytes_of_another_layout_are_not():
    """The same type and sizes: [4,256] of int32 are zero points, too."""
    first, plain = packed_parameter(1)
    second = gl.torch.empty_packed("marlin:zero_points[4,2048]")
    assert (second.dtype, second.shape) == (first.dtype, first.shape)
    refused(first.copy_, second)
    refused(second.copy_, first)
    assert bytes_of(first) == marlin_bytes(plain) and bytes_of(second) == bytes(4096)


CONVERSIONS = {
    "half": lambda tensor: tensor.half(),
    "float": lambda tensor: tensor.float(),
    "double": lambda tensor: tensor.double(),
    "bfloat16": lambda tensor: tensor.bfloat16(),
    "long": lambda tensor: tensor.long(),
    "to a dtype": lambda tensor: tensor.to(torch.float64),
    "to a device and a dtype": lambda tensor: tensor.to("cpu", torch.float64),
    "to the dtype of a tensor": lambda tensor: tensor.to(torch.zeros(1, dtype=torch.float64)),
    "type": lambda tensor: tensor.type(torch.float64),
    "type_as": lambda tensor: tensor.type_as(torch.zeros(1, dtype=torch.float64)),
    "half of data": lambda tensor: tensor.data.half(),
    "half of a row": lambda tensor: tensor[0].double(),
}


@pytest.mark.parametrize("name", CONVERSIONS)
@pytest.mark.parametrize("text", [MARLIN, "{0,1}"])
def test_packed_elements_are_not_converted(name, text):
    plain = codes() if text == MARLIN else torch.arange(32, dtype=torch.int16).view(4, 8)
    tensor = gl.torch.pack_(torch.nn.Parameter(plain.clone(), requires_grad=False), text)
    before = bytes_of(tensor)
    refused(CONVERSIONS[name], tensor)
    assert bytes_of(tensor) == before and gl.torch.layout_of(tensor) is not None


@pytest.mark.parametrize("convert", ["half", "float", "double", "bfloat16"])
def test_a_model_of_packed_floats_is_not_converted(convert):
    """Its weights are of another type afterwards, but torch would convert packed elements one by one."""
    linear = torch.nn.Linear(8, 16, dtype=torch.bfloat16 if convert != "bfloat16" else torch.float16)
    linear.requires_grad_(False)
    gl.torch.pack_(linear.weight, "{0,1:T(4)}")
    before, kind = bytes_of(linear.weight), linear.weight.dtype
    refused(getattr(linear, convert))
    refused(linear.to, torch.float64)
    assert bytes_of(linear.weight) == before and linear.weight.dtype == kind
    assert linear.to("cpu") is linear and gl.torch.layout_of(linear.weight) is not None
    assert linear.to(kind) is linear and gl.torch.layout_of(linear.weight) is not None


def test_a_model_of_packed_words_is_converted_but_for_them():
    """torch converts floating-point parameters only: int32 words stay what they are."""
    model = torch.nn.ParameterDict({"weight": packed_parameter()[0], "bias": torch.nn.Parameter(torch.ones(3))})
    model.half()
    assert model["bias"].dtype == torch.float16 and gl.torch.layout_of(model["weight"]) == MARLIN_SHAPE
    assert bytes_of(model["weight"]) == marlin_bytes(codes())


def test_new_memory_takes_the_note_away():
    """`p.data = plain` makes a plain parameter of it."""
    parameter, plain = packed_parameter()
    kept = parameter.data
    parameter.data = WORDS.clone()
    assert gl.torch.layout_of(parameter) is None and parameter.equal(WORDS) and parameter.float().equal(WORDS.float())
    assert parameter.copy_(WORDS + 1).equal(WORDS + 1) and isinstance(parameter, torch.nn.Parameter)
    with pytest.raises(gl.LayoutError):
        gl.torch.unpack_(parameter)
    assert gl.torch.layout_of(kept) == MARLIN_SHAPE and gl.torch.read(kept).equal(plain)


def test_reading_the_words_is_free():
    """Kernels get the bytes as they are."""
    parameter, plain = packed_parameter()
    assert parameter.numpy().tobytes() == marlin_bytes(plain) and parameter.data_ptr() % 4 == 0
    assert torch.from_dlpack(parameter.detach()).numpy().tobytes() == marlin_bytes(plain)
    assert parameter.view(torch.uint8).tolist()[0] == list(marlin_bytes(plain)[:1024])
    assert "int32" in repr(parameter) or "tensor" in repr(parameter)


def test_gl_s_functions_take_it_as_its_buffer():
    parameter, plain = packed_parameter()
    found = gl.unpack(parameter.data.view(torch.uint8).view(-1), MARLIN_SHAPE)
    assert packed_bytes(found.numpy().astype(MARLIN_SHAPE.dtype), MARLIN_SHAPE) == marlin_bytes(plain)


# ---- notes that are not true, and threads between two steps ------------------------------------------------


@pytest.mark.parametrize(
    "plain",
    [
        ("f32[2,3]{1,0}", "float32", (2, 3), (-3, 1)),
        ("f32[2,3]{1,0}", "float32", (2, 3), (9, 1)),
        ("f32[1099511627776]{0}", "float32", (1 << 40,), (1,)),
        ("f32[2,3]{1,0}", "float64", (2, 3), (3, 1)),
        ("f32[2,3]{1,0}", "nothing", (2, 3), (3, 1)),
        ("f32[2,3]{1,0}", "float32", (2, 3), (1,)),
    ],
)
def test_a_pickle_whose_note_is_not_true(plain):
    rebuild, (data, facts, *rest) = gl.torch.pack_(torch.arange(6.0).reshape(2, 3), "{0,1}").__reduce_ex__(2)
    assert torch.equal(gl.torch.read(rebuild(data.clone(), facts, *rest)), torch.arange(6.0).reshape(2, 3))
    with pytest.raises(gl.LayoutError, match="cannot be read"):
        rebuild(data.clone(), facts | {"plain": plain}, *rest)


def test_calls_that_have_a_packed_tensor_beside_one_without_memory():
    """Nothing is asked of a storage that is not there."""
    packed, sparse = gl.torch.pack_(torch.rand(4, 6), "{0,1}"), torch.eye(3).to_sparse()
    assert sparse.to(packed).to_dense().equal(torch.eye(3)) and gl.torch.layout_of(sparse) is None
    copied = torch.clone(input=packed)
    assert gl.torch.read(copied).equal(gl.torch.read(packed)) and copied.data_ptr() != packed.data_ptr()
    with pytest.raises(gl.LayoutError):
        torch.ops.aten.copy_.default(packed, torch.zeros(24))


def test_a_tensor_that_was_packed_and_unpacked_while_it_is_packed(monkeypatch):
    from gpulayout.torch import packing

    tensor, calls = torch.arange(6.0).reshape(2, 3), []
    check = packing.check_codes

    def meanwhile(*arguments):
        if not calls:
            calls.append(1)
            gl.torch.unpack_(gl.torch.pack_(tensor, "{0,1}"))
        return check(*arguments)

    monkeypatch.setattr(packing, "check_codes", meanwhile)
    with pytest.raises(gl.LayoutError, match="meanwhile"):
        gl.torch.pack_(tensor, "{0,1}")
    assert torch.equal(tensor, torch.arange(6.0).reshape(2, 3)) and gl.torch.layout_of(tensor) is None


@pytest.mark.parametrize(
    "value", [torch.full((64, 128), 200, dtype=torch.uint8), torch.zeros(64, 128, dtype=torch.uint8, device="meta")]
)
def test_values_that_cannot_be_packed_stop_a_checkpoint_before_a_byte_is_written(value):
    zeros = torch.zeros(64, 128, dtype=torch.uint8)
    model = torch.nn.ParameterDict({name: torch.nn.Parameter(zeros.clone(), requires_grad=False) for name in "ab"})
    for parameter in model.values():
        gl.torch.pack_(parameter, "marlin:weights(dtype=u4)")
    with pytest.raises(gl.LayoutError, match="'b'"):
        gl.torch.load_state_dict(model, {"a": zeros + 1, "b": value})
    assert not gl.torch.read(model["a"]).any()


@pytest.mark.parametrize("write", [torch.nn.init.normal_, torch.nn.init.zeros_, lambda p: torch.add(p, 1, out=p)])
def test_numbers_are_not_written_over_packed_elements(write):
    tensor = gl.torch.pack_(torch.arange(6.0).reshape(2, 3), "{0,1}")
    with pytest.raises(gl.LayoutError, match="takes its packed elements for plain ones"):
        write(tensor)
    assert torch.equal(gl.torch.read(tensor), torch.arange(6.0).reshape(2, 3))
