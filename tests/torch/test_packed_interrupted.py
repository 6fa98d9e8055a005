"""Moves that fail in the middle, and exceptions while a model is unpacked: every tensor says what it holds."""

import contextlib
import copy
import itertools
import pickle

import pytest

import gpulayout as gl

torch = pytest.importorskip("torch")

from gpulayout.torch import packing  # noqa: E402
from tests.support.packed_tensors import (  # noqa: E402
    MARLIN,
    MARLIN_SHAPE,
    Layer,
    bytes_of,
    codes,
    marlin_bytes,
    packed_layer,
    packed_parameter,
)


class Broken(Exception):
    """What no check raises: the device is gone."""


STOPS = Broken, KeyboardInterrupt, RuntimeError


@pytest.fixture(params=STOPS)
def failing(request):
    """A context in which the first move in place, or a later one, writes half of its bytes and fails."""

    @contextlib.contextmanager
    def fail(number=1):
        relayout, calls = packing.relayout, itertools.count(1)

        def half(buffer, source, target, *, out, **options):
            if next(calls) != number:
                return relayout(buffer, source, target, out=out, **options)
            data = out.view(torch.uint8)
            data[: len(data) // 2] = 0xA5
            raise request.param("in the middle")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(packing, "relayout", half)
            yield

    return fail


def between(tensor):
    """Every question to a tensor is answered by the one error."""
    for ask in (
        gl.torch.layout_of,
        gl.torch.read,
        gl.torch.unpack_,
        lambda tensor: gl.torch.pack_(tensor, MARLIN),
        lambda tensor: gl.torch.read(tensor, at=(slice(0, 1),)),
        lambda tensor: gl.torch.copy_(torch.zeros(64, 128, dtype=torch.uint8), tensor),
    ):
        with pytest.raises(gl.LayoutError, match="between two layouts") as caught:
            ask(tensor)
        assert "\n" not in str(caught.value) and "copy_" in str(caught.value)


def test_a_failed_pack_is_told(failing):
    tensor = codes().clone()
    with pytest.raises(STOPS), failing():
        gl.torch.pack_(tensor, MARLIN)
    between(tensor)
    between(tensor.detach())
    assert gl.torch.copy_(tensor, codes(1)) is tensor
    assert tensor.equal(codes(1)) and gl.torch.layout_of(tensor) is None
    gl.torch.pack_(tensor, MARLIN)
    assert bytes_of(tensor) == marlin_bytes(codes(1)) and gl.torch.layout_of(tensor) == MARLIN_SHAPE


def test_a_failed_unpack_is_told(failing):
    parameter, _ = packed_parameter()
    with pytest.raises(STOPS), failing():
        gl.torch.unpack_(parameter)
    between(parameter)
    between(parameter.data)
    gl.torch.copy_(parameter, codes(1))
    assert bytes_of(parameter) == marlin_bytes(codes(1)) and gl.torch.layout_of(parameter) == MARLIN_SHAPE
    assert gl.torch.unpack_(parameter).equal(codes(1)) and type(parameter) is torch.nn.Parameter


def test_a_box_does_not_mend_what_is_between(failing):
    """Only all elements anew do."""
    parameter, _ = packed_parameter()
    for tensor, call in ((parameter, gl.torch.unpack_), (codes(), lambda tensor: gl.torch.pack_(tensor, MARLIN))):
        with pytest.raises(STOPS), failing():
            call(tensor)
        for value, at in ((codes(1, (8, 8)), (slice(0, 8), slice(0, 8))), (codes(1, (0, 128)), (slice(0, 0),))):
            with pytest.raises(gl.LayoutError, match="between two layouts"):
                gl.torch.copy_(tensor, value, at=at)
            between(tensor)
        with pytest.raises((gl.LayoutError, TypeError)):
            gl.torch.copy_(tensor, codes(1, (8, 8)))
        between(tensor)
        gl.torch.copy_(tensor, codes(1))
        assert gl.torch.read(tensor).equal(codes(1))


def test_nothing_else_takes_what_is_between(failing):
    """torch's own copies do not pass for the tensor."""
    parameter, _ = packed_parameter()
    for tensor, call in ((parameter, gl.torch.unpack_), (codes(), lambda tensor: gl.torch.pack_(tensor, MARLIN))):
        with pytest.raises(STOPS), failing():
            call(tensor)
        target = torch.zeros(tensor.shape, dtype=tensor.dtype)
        for take in (copy.deepcopy, pickle.dumps, torch.clone, target.copy_, lambda tensor: tensor.to(torch.float64)):
            with pytest.raises(gl.LayoutError, match="between two layouts"):
                take(tensor)
        with pytest.raises(gl.LayoutError, match="between two layouts"):
            tensor.copy_(target)
        assert not target.any()
        gl.torch.copy_(tensor, codes(1))
        assert gl.torch.read(copy.deepcopy(tensor)).equal(codes(1)) and gl.torch.read(tensor.clone()).equal(codes(1))
    assert type(tensor) is torch.Tensor and isinstance(parameter, torch.nn.Parameter)


@pytest.mark.parametrize("error", [gl.LayoutError, TypeError, BufferError])
def test_a_refused_move_leaves_the_tensor_as_it_was(error, monkeypatch):
    """An error before the first byte is written."""

    def refuse(*arguments, **options):
        raise error("not this one")

    plain = codes()
    parameter, _ = packed_parameter(1)
    with monkeypatch.context() as patch:
        patch.setattr(packing, "relayout", refuse)
        with pytest.raises(error, match="not this one"):
            gl.torch.pack_(plain, MARLIN)
        with pytest.raises(error, match="not this one"):
            gl.torch.unpack_(parameter)
    assert plain.equal(codes()) and gl.torch.layout_of(plain) is None and type(plain) is torch.Tensor
    assert bytes_of(parameter) == marlin_bytes(codes(1)) and gl.torch.layout_of(parameter) == MARLIN_SHAPE


# ---- with unpacked(model) ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Broken, KeyboardInterrupt, SystemExit, GeneratorExit, gl.LayoutError])
def test_an_exception_while_a_model_is_unpacked(kind):
    layer, plain = packed_layer(1)
    address = layer.weight.data_ptr()
    with pytest.raises(kind), gl.torch.unpacked(layer):
        assert gl.torch.layout_of(layer.weight) is None and layer.weight.equal(plain)
        with torch.no_grad():
            layer.weight[:32] = codes(2)[:32]  # half of a checkpoint
        raise kind("stop")
    plain[:32] = codes(2)[:32]
    assert gl.torch.layout_of(layer.weight) == MARLIN_SHAPE and bytes_of(layer.weight) == marlin_bytes(plain)
    assert layer.weight.data_ptr() == address and gl.torch.layout_of(layer.bias) is None


def packed_layers(count):
    """Layers in Marlin's layout, and their codes."""
    pairs = [packed_layer(number) for number in range(count)]
    return torch.nn.ModuleList([layer for layer, _ in pairs]), [plain for _, plain in pairs]


def test_a_model_that_cannot_be_unpacked_is_as_it_was(failing):
    """The second of three parameters fails: the first is packed again, and the third was not touched."""
    model, plains = packed_layers(3)
    with pytest.raises(STOPS), failing(2), gl.torch.unpacked(model):
        raise AssertionError("the model is not unpacked")
    for number in (0, 2):
        assert gl.torch.layout_of(model[number].weight) == MARLIN_SHAPE
        assert bytes_of(model[number].weight) == marlin_bytes(plains[number])
    between(model[1].weight)
    gl.torch.copy_(model[1].weight, plains[1])
    assert bytes_of(model[1].weight) == marlin_bytes(plains[1])


def test_a_model_that_cannot_be_packed_again_says_so(failing):
    """One of two fails; the other is packed all the same."""
    model, _ = packed_layers(2)
    with pytest.raises(STOPS), failing(3), gl.torch.unpacked(model):
        pass
    states = [said(layer.weight) for layer in model]
    assert sorted(states) == ["between", "packed"]
    broken = model[states.index("between")].weight
    gl.torch.copy_(broken, codes(7))
    assert gl.torch.read(broken).equal(codes(7))


def said(tensor):
    """What a tensor says of itself."""
    try:
        shape = gl.torch.layout_of(tensor)
    except gl.LayoutError as error:
        assert "between two layouts" in str(error)
        return "between"
    return "plain" if shape is None else "packed"


def test_what_is_loaded_into_other_memory_is_packed_there():
    """load_state_dict(assign=True) gives the model other tensors: those are packed, or it is an error."""
    layer, plain = packed_layer(1)
    kept = layer.weight
    try:
        with gl.torch.unpacked(layer):
            layer.load_state_dict({"weight": codes(2), "bias": torch.zeros(3)}, assign=True)
    except gl.LayoutError as error:
        assert "weight" in str(error) and "\n" not in str(error)
    else:
        assert gl.torch.read(layer.weight).equal(codes(2)) and gl.torch.layout_of(layer.weight) == MARLIN_SHAPE
        with pytest.raises(gl.LayoutError, match="part of the memory"):  # the model's tensor has its memory now
            gl.torch.read(kept)


def test_unpacked_twice():
    """The inner one finds a plain model; the model is packed when the outer one ends."""
    layer, plain = packed_layer(1)
    with gl.torch.unpacked(layer):
        with gl.torch.unpacked(layer):
            assert layer.weight.equal(plain)
        assert layer.weight.equal(plain) and gl.torch.layout_of(layer.weight) is None
    assert gl.torch.layout_of(layer.weight) == MARLIN_SHAPE and bytes_of(layer.weight) == marlin_bytes(plain)
    with gl.torch.unpacked(torch.nn.Linear(2, 2)) as nothing:
        assert nothing is None or isinstance(nothing, torch.nn.Module)


def test_tied_weights_are_unpacked_once():
    model = torch.nn.ModuleList([Layer(codes(1)), Layer(codes(2))])
    model[1].weight = model[0].weight
    gl.torch.pack_(model[0].weight, MARLIN)
    third = Layer(model[0].weight.data)  # tied by memory
    model.append(third)
    with gl.torch.unpacked(model):
        assert model[0].weight.equal(codes(1)) and model[1].weight is model[0].weight
        assert bytes_of(third.weight, 8192) == bytes_of(codes(1))
    for layer in model:
        assert gl.torch.layout_of(layer.weight) == MARLIN_SHAPE and gl.torch.read(layer.weight).equal(codes(1))
