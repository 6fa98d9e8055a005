"""Mistakes with packed tensors: each is one line that says what to do, and no byte is written."""

import warnings

import pytest

import gpulayout as gl

torch = pytest.importorskip("torch")

from tests.support.packed_tensors import (  # noqa: E402
    GPTQ,
    MARLIN,
    MARLIN_SHAPE,
    bytes_of,
    codes,
    gptq_words,
    marlin_bytes,
    packed_parameter,
)

REFUSED = gl.LayoutError, TypeError, BufferError


def refused(call, *arguments, **options):
    """The one line of an error."""
    with pytest.raises(REFUSED) as caught:
        call(*arguments, **options)
    text = str(caught.value)
    assert text and "\n" not in text and len(text) < 600, text
    return text


# ---- which state a tensor is in ------------------------------------------------------------------------


def test_packed_tensors_are_not_packed_again():
    parameter, plain = packed_parameter()
    for tensor in (parameter, parameter.data, parameter.view(-1), torch.nn.Parameter(parameter.data, False)):
        text = refused(gl.torch.pack_, tensor, "{0,1}")
        assert "marlin:weights" in text and "unpack_" in text
    assert gl.torch.layout_of(parameter) == MARLIN_SHAPE and bytes_of(parameter) == marlin_bytes(plain)


def test_plain_tensors_are_not_unpacked():
    plain = codes()
    assert "uint8[64,128]" in refused(gl.torch.unpack_, plain).replace(" ", "") and plain.equal(codes())
    gl.torch.pack_(plain, MARLIN)
    gl.torch.unpack_(plain)
    refused(gl.torch.unpack_, plain)
    assert plain.equal(codes())


@pytest.mark.parametrize("value", [None, 3, [1.0], "{0,1}", codes().numpy()])
def test_what_is_no_tensor(value):
    for call in (
        lambda: gl.torch.pack_(value, "{0,1}"),
        lambda: gl.torch.unpack_(value),
        lambda: gl.torch.copy_(value, codes()),
        lambda: gl.torch.read(value),
        lambda: gl.torch.layout_of(value),
    ):
        assert "tensor" in refused(call).lower()
    parameter, plain = packed_parameter()
    if not hasattr(value, "shape"):
        refused(gl.torch.copy_, parameter, value)
    assert bytes_of(parameter) == marlin_bytes(plain)


# ---- layouts that do not suit a tensor -----------------------------------------------------------------


@pytest.mark.parametrize(
    "layout",
    [
        "marlin:weight(dtype=u4)",
        "marlin:weights(dtype=u5)",
        "marlin:weights(dtype=u4)[64,64]",
        "marlin:weights(dtype=f8e4m3fn)",
        "marlin:scales",
        "{0}",
        "{0,1,2}",
        "{0,1",
        "f32[64,128]{0,1}",
        "u8[128,64]{0,1}",
        "",
        None,
        3,
        gl.Layout((0, 1, 2)),
        gl.Shape("f32", (64, 128)),
    ],
)
def test_layouts_that_do_not_suit(layout):
    plain = codes()
    refused(gl.torch.pack_, plain, layout)
    assert type(plain) is torch.Tensor and plain.equal(codes()) and gl.torch.layout_of(plain) is None


def test_codes_that_do_not_fit_in_place_fit_as_words():
    words = torch.zeros(4, 256, dtype=torch.int32)
    gl.torch.mark_packed_(words, MARLIN)
    assert "source=" in refused(gl.torch.unpack_, words) and words.shape == (4, 256)
    words = gl.torch.mark_packed_(torch.zeros(4, 256, dtype=torch.int32), MARLIN, source=GPTQ)
    assert gl.torch.unpack_(words).shape == (8, 128)


@pytest.mark.parametrize("asked, held", [("u8", "u4"), ("f8e4m3fn", "u4"), ("u4", "u8")])
def test_a_layout_of_wider_or_narrower_elements_than_the_words(asked, held):
    words = gptq_words(codes())
    text = refused(gl.torch.pack_, words, f"marlin:weights(dtype={asked})", source=f"gptq:qweight(dtype={held})")
    assert text.endswith(f"write marlin:weights(dtype={held})") and words.equal(gptq_words(codes()))
    gl.torch.pack_(words, f"marlin:weights(dtype={held})", source=f"gptq:qweight(dtype={held})")
    assert gl.torch.read(words).equal(gptq_words(codes()))


def test_sizes_that_the_owner_does_not_take():
    for sizes in ((60, 128), (64, 120), (128,)):
        plain = codes(0, sizes)
        refused(gl.torch.pack_, plain, MARLIN)
        assert plain.equal(codes(0, sizes)) and gl.torch.layout_of(plain) is None


def test_integers_of_a_parameter_that_is_trained():
    """int32 has no gradient: said before anything moves."""
    plain = torch.randn(64, 128).to(torch.float8_e4m3fn)
    parameter = torch.nn.Parameter(plain.clone())
    assert parameter.requires_grad
    before = bytes_of(parameter)
    text = refused(gl.torch.pack_, parameter, "marlin:weights(dtype=f8e4m3fn)")
    assert "requires_grad" in text
    assert bytes_of(parameter) == before and parameter.dtype == torch.float8_e4m3fn and parameter.shape == (64, 128)
    assert type(parameter) is torch.nn.Parameter and gl.torch.layout_of(parameter) is None
    gl.torch.pack_(parameter.requires_grad_(False), "marlin:weights(dtype=f8e4m3fn)")
    assert parameter.dtype == torch.int32 and gl.torch.read(parameter).view(torch.uint8).equal(plain.view(torch.uint8))


def test_results_of_autograd_are_not_packed():
    """Their memory is part of a graph."""
    parameter = torch.nn.Parameter(torch.ones(4, 6))
    result = parameter * 2
    refused(gl.torch.pack_, result, "{0,1}")
    assert result.equal(torch.full((4, 6), 2.0)) and gl.torch.layout_of(result) is None
    result.sum().backward()
    assert parameter.grad.equal(torch.full((4, 6), 2.0))


@pytest.mark.parametrize("limit", [-1, "much", 1.5])
def test_a_bound_that_is_none(limit):
    plain = codes()
    refused(gl.torch.pack_, plain, MARLIN, max_bytes=limit)
    assert plain.equal(codes()) and gl.torch.layout_of(plain) is None
    parameter, plain = packed_parameter()
    refused(gl.torch.unpack_, parameter, max_bytes=limit)
    assert bytes_of(parameter) == marlin_bytes(plain) and gl.torch.layout_of(parameter) == MARLIN_SHAPE


# ---- values that do not suit ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        codes(0, (128, 64)),
        codes(0, (64, 64)),
        codes(0, (1, 128)),
        codes(0, (128,)),
        codes(0, (1, 64, 128)),
        codes(0, ()),
        torch.zeros(4, 256, dtype=torch.int32),  # the packed tensor's own sizes, but it is not packed
        gptq_words(codes()),
        codes().bool(),
        codes().to(torch.complex64),
    ],
    ids=lambda value: f"{value.dtype} {tuple(value.shape)}",
)
def test_values_of_other_sizes_and_types(value):
    parameter, plain = packed_parameter()
    refused(gl.torch.copy_, parameter, value)
    assert bytes_of(parameter) == marlin_bytes(plain) and gl.torch.layout_of(parameter) == MARLIN_SHAPE
    words = gl.torch.pack_(gptq_words(plain), MARLIN, source=GPTQ)
    if value.dtype != torch.int32 or value.shape != (8, 128):
        refused(gl.torch.copy_, words, value)
        assert bytes_of(words) == marlin_bytes(plain)


@pytest.mark.parametrize(
    "value, at, hint",
    [
        (gptq_words(codes()).long(), None, "pass torch.int32"),
        (torch.rand(64, 128), None, "packed without source="),
        (gptq_words(codes())[:4], (slice(0, 4), ...), "elements, not words"),
        (gptq_words(codes())[:2], (slice(0, 16), ...), "holds for a box too"),
    ],
)
def test_what_is_said_to_values_for_words(value, at, hint):
    words = gl.torch.pack_(gptq_words(codes()), MARLIN, source=GPTQ)
    assert hint in refused(gl.torch.copy_, words, value, at=at)
    assert bytes_of(words) == marlin_bytes(codes())


def test_a_box_of_words_whose_source_has_sizes():
    """A whole tensor has those sizes; a part of it has others."""
    plain = codes()
    words = plain.view(64, 64, 2) @ torch.tensor([1, 16], dtype=torch.uint8)  # two codes in a byte, the first one low
    tensor = gl.torch.pack_(words.view(torch.int32).clone(), MARLIN, source="u4[64,128]{1,0:E(4)}")
    assert bytes_of(tensor) == marlin_bytes(plain)
    text = refused(gl.torch.copy_, tensor, words[:32].view(torch.int32), at=(slice(0, 32), ...))
    assert "source without sizes" in text and bytes_of(tensor) == marlin_bytes(plain)


@pytest.mark.parametrize("kind", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_what_is_said_to_codes_of_other_integers_is_true(kind):
    parameter, plain = packed_parameter()
    signed = codes(1).to(kind) - 8
    text = refused(gl.torch.copy_, parameter, signed)
    assert "(value + 8).to(torch.uint8)" in text and bytes_of(parameter) == marlin_bytes(plain)
    gl.torch.copy_(parameter, (signed + 8).to(torch.uint8))
    assert bytes_of(parameter) == marlin_bytes(codes(1))


def test_words_for_a_tensor_of_codes():
    parameter, plain = packed_parameter()
    assert "takes no words" in refused(gl.torch.copy_, parameter, gptq_words(plain))


@pytest.mark.parametrize("shape", ["f8e8m0fnu[4,8]{0,1}", "f4e2m1fn[4,8]{0,1:E(4)}"])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float8_e4m3fn])
def test_floats_that_lose_most_of_their_value_are_not_converted_unasked(shape, kind):
    """f8e8m0fnu has no 0 and no 1.5, and codes need a scale."""
    packed = gl.torch.empty_packed(shape)
    before, value = bytes_of(packed), torch.full((4, 8), 2.0).to(kind)
    name = gl.torch.layout_of(packed).element_type.value
    assert f"dtype='{name}' converts" in refused(gl.torch.copy_, packed, value)
    model = torch.nn.Module()
    model.weight = packed
    refused(gl.torch.load_state_dict, model, {"weight": value})
    assert bytes_of(packed) == before
    gl.torch.copy_(packed, value, dtype=name)
    twos = gl.torch.read(packed)
    assert (twos == 4).all() if twos.dtype == torch.uint8 else twos.float().equal(torch.full((4, 8), 2.0))


@pytest.mark.parametrize("name, kind", [("u8", torch.float8_e4m3fn), ("f8e4m3fn", torch.uint8)])
def test_bits_of_another_type_go_by_the_view_that_the_error_names(name, kind):
    packed, value = gl.torch.empty_packed(f"{name}[4,8]{{0,1}}"), torch.arange(32, dtype=torch.uint8).view(4, 8)
    view = packed.dtype
    assert f"value.view({view}) takes them as its bits" in refused(gl.torch.copy_, packed, value.view(kind))
    gl.torch.copy_(packed, value.view(kind).view(view))
    assert gl.torch.read(packed).view(torch.uint8).equal(value)


@pytest.mark.parametrize(
    "at, sizes",
    [
        ((slice(0, 8), slice(0, 8)), (8, 7)),
        ((slice(0, 8), slice(0, 8)), (8,)),
        ((slice(0, 8), slice(0, 8)), (64, 128)),
        ((slice(0, 8),), (8, 8)),
        ((slice(0, 8, 2), slice(0, 8)), (4, 8)),
        ((slice(8, 0, -1), slice(0, 8)), (8, 8)),
        ((slice(0, 8), slice(0, 8), slice(0, 1)), (8, 8, 1)),
        ((slice(0, 65), slice(0, 8)), (65, 8)),
        ((slice(0.5, 8), slice(0, 8)), (8, 8)),
        (([0, 1], slice(0, 8)), (2, 8)),
        ("0:8", (8, 128)),
    ],
    ids=str,
)
def test_boxes_that_do_not_suit(at, sizes):
    parameter, plain = packed_parameter()
    with pytest.raises((*REFUSED, IndexError)) as caught:
        gl.torch.copy_(parameter, codes(1, sizes), at=at)
    assert "\n" not in str(caught.value)
    assert bytes_of(parameter) == marlin_bytes(plain) and gl.torch.layout_of(parameter) == MARLIN_SHAPE


def test_a_value_over_the_same_memory():
    """A tensor is no copy of itself; an older view of its bytes has lost its meaning."""
    plain = codes()
    tensor = plain.clone()
    old = tensor[:32]
    gl.torch.pack_(tensor, MARLIN)
    gl.torch.copy_(tensor, tensor)
    assert bytes_of(tensor) == marlin_bytes(plain)
    refused(gl.torch.copy_, tensor, old, at=(slice(0, 32),))
    assert bytes_of(tensor) == marlin_bytes(plain)


# ---- tensors that are no plain memory ------------------------------------------------------------------


def quietly(make, *arguments, **options):
    """What torch makes with a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(*arguments, **options)


NOT_PLAIN = {
    "meta": lambda: torch.empty(8, 16, device="meta"),
    "sparse": lambda: torch.eye(8).to_sparse(),
    "sparse rows": lambda: quietly(torch.eye(8).to_sparse_csr),
    "quantised": lambda: quietly(torch.quantize_per_tensor, torch.rand(8, 16), 0.1, 0, torch.quint8),
    "nested": lambda: quietly(torch.nested.nested_tensor, [torch.rand(2, 3), torch.rand(4, 3)]),
    "conjugate": lambda: torch.ones(8, 16, dtype=torch.complex64).conj(),
    "negative": lambda: torch.ones(8, 16, dtype=torch.complex64).conj().imag,
    "lazy": lambda: torch.nn.parameter.UninitializedParameter(),
}


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_tensors_without_plain_memory(name):
    tensor = NOT_PLAIN[name]()
    kind = type(tensor)
    for call in (gl.torch.unpack_, lambda tensor: gl.torch.pack_(tensor, "{0,1}")):
        refused(call, tensor)
    assert type(tensor) is kind


def test_tensors_on_the_meta_device_get_memory_as_the_error_says():
    model = torch.nn.Linear(4, 3, device="meta")
    state = torch.nn.Linear(4, 3).requires_grad_(False).state_dict()
    gl.torch.pack_(state["weight"], "{0,1}")
    for call in (
        lambda: gl.torch.pack_(model.weight, "{0,1}"),
        lambda: gl.torch.load_state_dict(model, state),
        lambda: gl.torch.copy_(torch.zeros(3, 4), model.weight),
    ):
        assert "model.to_empty(device=...)" in refused(call)
    model.to_empty(device="cpu").requires_grad_(False)
    gl.torch.pack_(model.weight, "{0,1}")
    gl.torch.load_state_dict(model, state)
    assert gl.torch.read(model.weight).equal(gl.torch.read(state["weight"]))


@pytest.mark.parametrize("name", ["meta", "sparse", "sparse rows", "quantised", "nested", "lazy"])
def test_they_are_no_values(name):
    packed = gl.torch.empty_packed("f32[8,16]{0,1}")
    refused(gl.torch.copy_, packed, NOT_PLAIN[name]())
    assert bytes_of(packed) == bytes(512) and gl.torch.layout_of(packed) is not None


def test_memory_that_was_taken_away():
    """As FSDP does between uses."""
    parameter, plain = packed_parameter()
    parameter.untyped_storage().resize_(0)
    ways = gl.torch.read, gl.torch.unpack_, lambda tensor: gl.torch.copy_(tensor, plain)
    for call in (*ways, lambda tensor: gl.torch.unpacked([tensor]).__enter__()):
        refused(call, parameter)
        assert parameter.untyped_storage().nbytes() == 0
    tensor = codes()
    tensor.untyped_storage().resize_(0)
    refused(gl.torch.pack_, tensor, MARLIN)


def test_memory_that_begins_at_an_odd_byte():
    """torch has no int32 there: nothing moves, and no note is left."""
    tensor = torch.arange(9000, dtype=torch.uint8)[1 : 1 + 64 * 128].view(64, 128).bitwise_and_(15)
    before = tensor.clone()
    refused(gl.torch.pack_, tensor, MARLIN)
    refused(gl.torch.mark_packed_, tensor.view(-1), "s32[64,32]{0,1}")
    assert tensor.equal(before) and gl.torch.layout_of(tensor) is None
    assert gl.torch.read(gl.torch.pack_(tensor, "u8[64,128]{0,1}")).equal(before)


def test_functions_of_torch_func_see_no_memory():
    refused(torch.func.vmap(lambda row: gl.torch.pack_(row, "{0,1}")), torch.zeros(2, 4, 6))


@pytest.fixture
def group():
    distributed = pytest.importorskip("torch.distributed")
    if not distributed.is_available() or not distributed.is_gloo_available():
        pytest.skip("torch was built without gloo")
    import torch.distributed.tensor  # noqa: F401  # slow: as long as all tests here

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield distributed
    distributed.destroy_process_group()


def test_distributed_tensors(group):
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = group.device_mesh.init_device_mesh("cpu", (1,))
    for wrap in (lambda tensor: tensor, lambda tensor: torch.nn.Parameter(tensor, requires_grad=False)):
        tensor = wrap(distribute_tensor(torch.arange(128.0).view(8, 16), mesh, [Shard(0)]))
        text = refused(gl.torch.pack_, tensor, "{0,1}")
        assert "to_local" in text
        assert tensor.to_local().equal(torch.arange(128.0).view(8, 16))
        refused(gl.torch.unpack_, tensor)
        packed = gl.torch.empty_packed("f32[8,16]{0,1}")
        refused(gl.torch.copy_, packed, tensor)
        assert bytes_of(packed) == bytes(512)
    local = tensor.to_local()
    gl.torch.pack_(local, "{0,1}")
    assert gl.torch.unpack_(local).equal(torch.arange(128.0).view(8, 16))


def test_flat_parameters_of_fsdp(group):
    """One parameter for a whole module: sharded, and moved by FSDP as it likes."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FullyShardedDataParallel(torch.nn.Linear(8, 16), device_id=torch.device("cpu"))
        (flat,) = model.parameters()
        before = bytes_of(flat)
        assert "summon_full_params" in refused(gl.torch.pack_, flat, "{0}")
        assert bytes_of(flat) == before
        with FullyShardedDataParallel.summon_full_params(model):
            gl.torch.pack_(model.weight.data, "{0,1}")
            assert gl.torch.layout_of(model.weight.data) is not None
            gl.torch.unpack_(model.weight.data)
        assert bytes_of(flat) == before
