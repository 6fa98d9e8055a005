"""Models with packed parameters: moved, copied, saved, compiled, and loaded by torch's own functions."""

import copy
import io
import pickle

import pytest

import gpulayout as gl

torch = pytest.importorskip("torch")

from tests.support.packed_tensors import (  # noqa: E402
    MARLIN,
    MARLIN_SHAPE,
    Layer,
    as_values,
    bytes_of,
    codes,
    marlin_bytes,
    packed_bytes,
    packed_layer,
)

SAME = "aiter:weights"  # of the type and the sizes of the plain tensor: nothing but the note tells them apart
X = torch.arange(3.0)


def same_layer(seed=0):
    """A layer whose packed weight has the type and the sizes of the plain one, and the plain weight."""
    plain = torch.randn(32, 64, generator=torch.Generator().manual_seed(seed)).to(torch.bfloat16)
    layer = torch.nn.Linear(64, 32, bias=False, dtype=torch.bfloat16).requires_grad_(False)
    layer.weight.copy_(plain)
    gl.torch.pack_(layer.weight, SAME)
    return layer, plain


def same_bytes(plain):
    shape = gl.parse_shape(f"{SAME}[32,64]")
    return packed_bytes(as_values(plain, shape), shape)


def check_layer(layer, plain, bias=0.0):
    assert gl.torch.layout_of(layer.weight) == MARLIN_SHAPE and isinstance(layer.weight, torch.nn.Parameter)
    assert bytes_of(layer.weight) == marlin_bytes(plain) and gl.torch.read(layer.weight).equal(plain)
    assert gl.torch.layout_of(layer.bias) is None and layer.bias.equal(torch.full((3,), bias))
    assert layer.state_dict().keys() == {"weight", "bias"}


# ---- moves and copies ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "move",
    [
        lambda model: model.to("cpu"),
        lambda model: model.to(device="cpu", dtype=None),
        lambda model: model.to("cpu", non_blocking=True),
        lambda model: model.cpu(),
        lambda model: model.to(torch.float32),  # the words are no floats
        lambda model: model.eval(),
        lambda model: model.requires_grad_(False),
        lambda model: model.share_memory(),
        copy.deepcopy,
        lambda model: pickle.loads(pickle.dumps(model)),
        lambda model: saved(model, weights_only=False),
        lambda model: model._apply(torch.clone),
        lambda model: swapped(model),
    ],
)
def test_a_model_that_is_moved_or_copied(move):
    layer, plain = packed_layer()
    expected = layer(X)
    moved = move(layer)
    check_layer(moved, plain)
    assert moved(X).equal(expected)
    gl.torch.copy_(moved.weight, plain.flip(0))
    check_layer(moved, plain.flip(0))


def saved(value, **options):
    memory = io.BytesIO()
    torch.save(value, memory)
    memory.seek(0)
    return torch.load(memory, **options)


def swapped(model):
    """torch's other way to convert a model: it swaps the tensors' insides."""
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        return model._apply(torch.clone)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


def test_a_model_without_memory_keeps_its_layouts():
    """On the device "meta" there is nothing to read; the layout is told all the same."""
    layer, _ = packed_layer()
    moved = copy.deepcopy(layer).to("meta")
    assert moved.weight.is_meta and moved.weight.shape == (4, 256)
    assert gl.torch.layout_of(moved.weight) == MARLIN_SHAPE
    with pytest.raises((gl.LayoutError, BufferError, TypeError)) as caught:
        gl.torch.read(moved.weight)
    assert "meta" in str(caught.value) and "\n" not in str(caught.value)


def test_tied_weights_stay_tied():
    plain = codes()
    model = torch.nn.ModuleList([Layer(plain.clone()), Layer(codes(1))])
    model[1].weight = model[0].weight
    gl.torch.pack_(model[0].weight, MARLIN)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), saved(model, weights_only=False)):
        assert copied[0].weight is copied[1].weight and copied[0].weight.data_ptr() != model[0].weight.data_ptr()
        check_layer(copied[1], plain)
        gl.torch.copy_(copied[0].weight, codes(2))
        check_layer(copied[1], codes(2))
        check_layer(model[1], plain)


def test_two_parameters_over_one_memory():
    """Tied by their memory, not by their object."""
    first, plain = packed_layer()
    second = Layer(first.weight.data)
    check_layer(second, plain)
    gl.torch.copy_(second.weight, codes(1))
    check_layer(first, codes(1))
    gl.torch.unpack_(first.weight)
    assert gl.torch.layout_of(first.weight) is None


def test_buffers_are_packed_too():
    model = torch.nn.Module()
    model.register_buffer("table", codes())
    model.register_buffer("kept", codes(1), persistent=False)
    for name in ("table", "kept"):
        assert gl.torch.pack_(getattr(model, name), MARLIN) is getattr(model, name)
    for moved in (model.to("cpu"), copy.deepcopy(model), saved(model, weights_only=False)):
        assert dict(moved.named_buffers()).keys() == {"table", "kept"} and list(moved.state_dict()) == ["table"]
        assert gl.torch.layout_of(moved.table) == gl.torch.layout_of(moved.kept) == MARLIN_SHAPE
        assert gl.torch.read(moved.table).equal(codes()) and gl.torch.read(moved.kept).equal(codes(1))
    other = torch.nn.Module()
    other.register_buffer("table", model.table)
    assert gl.torch.layout_of(other.table) == MARLIN_SHAPE and not list(other.parameters())


# ---- state_dict ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights_only", [True, False])
def test_a_state_that_is_saved_and_loaded(weights_only):
    layer, plain = packed_layer(1)
    state = saved(layer.state_dict(), weights_only=weights_only)
    assert gl.torch.layout_of(state["weight"]) == MARLIN_SHAPE and gl.torch.layout_of(state["bias"]) is None
    other, _ = packed_layer(2)
    assert str(other.load_state_dict(state)) == "<All keys matched successfully>"
    check_layer(other, plain)
    other, _ = packed_layer(3)
    other.load_state_dict(state, assign=True)  # the tensors of the state themselves
    check_layer(other, plain)
    assert other.weight.data_ptr() == state["weight"].data_ptr()


def unloaded(model, state, **options):
    """torch gathers what does not fit, and says it in one error of its own."""
    with pytest.raises((RuntimeError, *REFUSED)) as caught:
        model.load_state_dict(state, **options)
    return str(caught.value)


REFUSED = gl.LayoutError, TypeError


def test_a_packed_state_does_not_fit_a_plain_model():
    layer, _ = packed_layer(1)
    other = Layer(codes(2), 1.0)
    assert "weight" in unloaded(other, layer.state_dict())
    assert other.weight.equal(codes(2)) and gl.torch.layout_of(other.weight) is None


def test_a_plain_state_does_not_fit_a_packed_model():
    layer, plain = packed_layer(1)
    assert "weight" in unloaded(layer, Layer(codes(2)).state_dict())
    check_layer(layer, plain)


def test_the_same_type_and_sizes_do_not_deceive():
    layer, plain = same_layer()
    assert layer.weight.shape == plain.shape and layer.weight.dtype == plain.dtype
    other = torch.nn.Linear(64, 32, bias=False, dtype=torch.bfloat16)
    kept = bytes_of(other.weight)
    assert "gl.torch" in unloaded(other, layer.state_dict())
    assert bytes_of(other.weight) == kept and gl.torch.layout_of(other.weight) is None
    assert "gl.torch" in unloaded(layer, other.state_dict())
    assert "gl.torch" in unloaded(layer, {"weight": plain})
    assert bytes_of(layer.weight) == same_bytes(plain) and gl.torch.read(layer.weight).equal(plain)
    twin, _ = same_layer(1)
    twin.load_state_dict(layer.state_dict())
    other.load_state_dict(layer.state_dict(), assign=True)
    for model in (twin, other):
        assert bytes_of(model.weight) == same_bytes(plain) and gl.torch.read(model.weight).equal(plain)


def test_another_layout_of_the_same_type_and_sizes_does_not_deceive():
    """It is moved into the other layout, or refused; never taken for it."""
    layer, plain = same_layer()
    other = torch.nn.Linear(64, 32, bias=False, dtype=torch.bfloat16).requires_grad_(False)
    gl.torch.pack_(other.weight, "flashinfer:gate_up(dtype=bf16)")
    before = gl.torch.read(other.weight)
    unloaded(other, layer.state_dict())
    assert gl.torch.read(other.weight).equal(before)
    gl.torch.copy_(other.weight, layer.weight)
    assert gl.torch.read(other.weight).equal(plain)


def test_the_checkpoint_s_view_of_a_packed_model():
    """gl.torch.state_dict has plain tensors, which plain models load; gl.torch.load_state_dict takes them."""
    layer, plain = packed_layer(1)
    state = gl.torch.state_dict(layer)
    assert state["weight"].equal(plain) and state["bias"].equal(layer.bias) and list(state) == ["weight", "bias"]
    fresh = Layer(codes(2))
    fresh.load_state_dict(state)
    assert fresh.weight.equal(plain)
    gl.torch.load_state_dict(layer, Layer(codes(3), 2.0).state_dict())
    check_layer(layer, codes(3), 2.0)
    gl.torch.load_state_dict(fresh, layer.state_dict())  # packed tensors into a plain model
    assert fresh.weight.equal(codes(3)) and gl.torch.layout_of(fresh.weight) is None


@pytest.mark.parametrize("state", [{}, {"weight": codes()}, {"weight": codes(), "bias": X, "more": X}])
def test_a_checkpoint_with_other_names(state):
    layer, plain = packed_layer(1)
    with pytest.raises((RuntimeError, *REFUSED, KeyError)):
        gl.torch.load_state_dict(layer, state)
    check_layer(layer, plain)
    gl.torch.load_state_dict(layer, state, strict=False)
    assert gl.torch.read(layer.weight).equal(state.get("weight", plain))


def test_unpacked_lets_torch_load_a_checkpoint():
    layer, plain = packed_layer(1)
    objects = layer.weight, layer.weight.data_ptr()
    with gl.torch.unpacked(layer):
        assert layer.weight.equal(plain) and gl.torch.layout_of(layer.weight) is None
        assert type(layer.weight) is torch.nn.Parameter
        layer.load_state_dict(Layer(codes(2), 1.0).state_dict())
    check_layer(layer, codes(2), 1.0)
    assert objects == (layer.weight, layer.weight.data_ptr())
    with gl.torch.unpacked([layer.weight, layer.bias]):
        assert layer.weight.equal(codes(2))
    check_layer(layer, codes(2), 1.0)


# ---- compiled and exported -----------------------------------------------------------------------------


@torch.library.custom_op("gpulayout_tests::sum_of_words", mutates_args=())
def sum_of_words(x: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """A kernel that takes packed memory."""
    return x + int.from_bytes(bytes_of(words)[:2], "little") + words.sum()


@sum_of_words.register_fake
def sum_without_memory(x, words):
    return torch.empty_like(x)


class KernelLayer(Layer):
    def forward(self, x):
        return sum_of_words(x, self.weight) * 2


@pytest.mark.parametrize("kind", [Layer, KernelLayer])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_model_reads_packed_memory(kind, backend):
    plain = codes()
    layer = kind(plain.clone())
    gl.torch.pack_(layer.weight, MARLIN)
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    with torch.no_grad():
        assert compiled(X).equal(layer(X))
        gl.torch.copy_(layer.weight, codes(1))
        assert compiled(X).equal(layer(X))
    check_layer(layer, codes(1))
    torch._dynamo.reset()


@pytest.mark.parametrize("kind", [Layer, KernelLayer])
def test_an_exported_model_reads_packed_memory(kind):
    plain = codes()
    layer = kind(plain.clone())
    gl.torch.pack_(layer.weight, MARLIN)
    found = torch.export.export(layer, (X,)).module()
    assert found(X).equal(layer(X))
    check_layer(layer, plain)


def test_a_call_with_other_parameters():
    """torch.func.functional_call: packed ones for plain ones, too."""
    layer, plain = packed_layer()
    other, _ = packed_layer(1)
    found = torch.func.functional_call(layer, {"weight": other.weight}, X)
    assert found.equal(other(X)) and not found.equal(layer(X))
    check_layer(layer, plain)


def test_what_autograd_saved_is_not_changed_unseen():
    """A weight that is moved or filled between forward and backward is torch's error, not another gradient."""
    for change in (
        lambda weight: gl.torch.pack_(weight, "{0,1}"),
        lambda weight: gl.torch.copy_(gl.torch.pack_(weight, "{0,1}"), torch.zeros(4, 6)),
    ):
        weight, x = torch.rand(4, 6), torch.rand(4, 6, requires_grad=True)
        result = (x * weight).sum()
        change(weight)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.backward()
    packed = gl.torch.pack_(torch.rand(4, 6), "{0,1}")
    for change in (gl.torch.unpack_, lambda packed: gl.torch.copy_(packed, torch.zeros(4, 6))):
        x = torch.rand(24, requires_grad=True)
        result = (x * packed).sum()
        change(packed)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.backward()
        if gl.torch.layout_of(packed) is None:
            gl.torch.pack_(packed, "{0,1}")


@pytest.mark.parametrize("copied", [torch.clone, lambda weight: weight.to("cpu", copy=True)])
def test_gradients_pass_a_copy(copied):
    """It is packed, and no leaf."""
    weight = gl.torch.pack_(torch.nn.Parameter(torch.rand(4, 6)), "{0,1}")
    other, factors = copied(weight), torch.rand(24)
    assert str(gl.torch.layout_of(other)) == "f32[4,6]{0,1}" and other.data_ptr() != weight.data_ptr()
    assert gl.torch.read(other).equal(gl.torch.read(weight))
    (other * factors).sum().backward()
    assert weight.grad.equal(factors)


def test_gradients_pass_a_packed_layer():
    """The weight has none; what it is computed with has."""
    layer, _ = packed_layer()
    x = X.clone().requires_grad_()
    layer(x).sum().backward()
    assert x.grad.equal(torch.ones(3)) and layer.bias.grad.equal(torch.ones(3)) and layer.weight.grad is None
    torch.optim.SGD(layer.parameters(), 0.5).step()
    check_layer(layer, codes(), -0.5)
