"""What becomes of a packed tensor in PyTorch's hands: every copy and every other tensor over its memory knows."""

import copy
import io
import pickle
import random
import subprocess
import sys
import threading

import numpy as np
import pytest

import gpulayout as gl

torch = pytest.importorskip("torch")

from tests.support.packed_tensors import (  # noqa: E402
    MARLIN,
    MARLIN_SHAPE,
    Layer,
    as_tensor,
    bytes_of,
    codes,
    marlin_bytes,
    packed_bytes,
    packed_layer,
    packed_parameter,
    random_values,
)


def saved(value, **options):
    """What torch.load finds of what torch.save wrote."""
    memory = io.BytesIO()
    torch.save(value, memory)
    memory.seek(0)
    return torch.load(memory, **options)


def sent(value):
    """What another process of torch.multiprocessing would get."""
    from multiprocessing.reduction import ForkingPickler

    import torch.multiprocessing  # noqa: F401  # it tells the pickler how tensors are sent

    return pickle.loads(ForkingPickler.dumps(value))


def check_packed(tensor, plain, guarded=True):
    """It says what it holds, holds it, and guards it."""
    assert gl.torch.layout_of(tensor) == MARLIN_SHAPE
    assert bytes_of(tensor, MARLIN_SHAPE.nbytes) == marlin_bytes(plain)
    assert gl.torch.read(tensor).equal(plain) and gl.torch.read(tensor).dtype == torch.uint8
    if guarded:
        with pytest.raises((gl.LayoutError, TypeError)):
            tensor.half()


OVER_THE_SAME_MEMORY = {
    "detach": lambda tensor: tensor.detach(),
    "data": lambda tensor: tensor.data,
    "a parameter of data": lambda tensor: torch.nn.Parameter(tensor.data, requires_grad=False),
    "a parameter of it": lambda tensor: torch.nn.Parameter(tensor, requires_grad=False),
    "a buffer of it": lambda tensor: torch.nn.Buffer(tensor),
    "requires_grad_": lambda tensor: tensor.requires_grad_(False),
    "to its device": lambda tensor: tensor.to("cpu"),
    "to its dtype": lambda tensor: tensor.to(torch.int32),
    "cpu": lambda tensor: tensor.cpu(),
    "contiguous": lambda tensor: tensor.contiguous(),
    "int": lambda tensor: tensor.int(),
    "view of its sizes": lambda tensor: tensor.view(tensor.shape),
    "flat view": lambda tensor: tensor.view(-1),
    "view and back": lambda tensor: tensor.view(-1).view(4, 256),
    "index": lambda tensor: tensor[...],
    "unsqueeze": lambda tensor: tensor.unsqueeze(0),
    "as_strided": lambda tensor: tensor.as_strided((4, 256), (256, 1)),
    "share_memory_": lambda tensor: tensor.share_memory_(),
}
UNSEEN = {  # torch asks nobody before these: the memory knows, but the tensor's class does not
    "set_": lambda tensor: torch.empty(0, dtype=torch.int32).set_(tensor),
    "data of another": lambda tensor: with_data(tensor),
}
IN_NEW_MEMORY = {
    "deepcopy": copy.deepcopy,
    "deepcopy of detach": lambda tensor: copy.deepcopy(tensor.detach()),
    "clone": lambda tensor: tensor.clone(),
    "torch.clone": torch.clone,
    "clone of data": lambda tensor: tensor.data.clone(),
    "a copy on its device": lambda tensor: tensor.to("cpu", copy=True),
    "pickle": lambda tensor: pickle.loads(pickle.dumps(tensor)),
    "old pickle": lambda tensor: pickle.loads(pickle.dumps(tensor, 2)),
    "torch.save": lambda tensor: saved(tensor, weights_only=False),
    "weights_only": lambda tensor: saved(tensor, weights_only=True),
    "weights_only of data": lambda tensor: saved(tensor.data, weights_only=True),
    "mapped": lambda tensor: saved({"weight": tensor}, weights_only=True, map_location="cpu")["weight"],
    "empty_packed and copy_": lambda tensor: gl.torch.copy_(gl.torch.empty_packed(f"{MARLIN}[64,128]"), tensor),
}


def with_data(tensor):
    other = torch.nn.Parameter(torch.empty(3, dtype=torch.int32), requires_grad=False)
    other.data = tensor.data
    return other


@pytest.mark.parametrize("name", OVER_THE_SAME_MEMORY)
def test_a_tensor_over_the_same_memory(name):
    parameter, plain = packed_parameter()
    other = OVER_THE_SAME_MEMORY[name](parameter)
    check_packed(other, plain)
    assert isinstance(other, gl.torch.PackedTensor)
    if name != "share_memory_":
        assert other.data_ptr() == parameter.data_ptr()
    gl.torch.copy_(parameter, plain.flip(0))
    check_packed(other, plain.flip(0))
    gl.torch.copy_(other, plain)
    check_packed(parameter, plain)


@pytest.mark.parametrize("name", UNSEEN)
def test_a_tensor_that_got_packed_memory(name):
    """It is read and filled right by gl.torch."""
    parameter, plain = packed_parameter()
    other = UNSEEN[name](parameter)
    check_packed(other, plain, guarded=False)
    gl.torch.copy_(other, plain.flip(0))
    check_packed(parameter, plain.flip(0))
    with pytest.raises(gl.LayoutError, match="packed"):
        gl.torch.pack_(other, MARLIN)
    gl.torch.unpack_(other)
    assert other.equal(plain.flip(0)) and gl.torch.layout_of(parameter) is None


@pytest.mark.parametrize("name", IN_NEW_MEMORY)
def test_a_copy(name):
    parameter, plain = packed_parameter()
    other = IN_NEW_MEMORY[name](parameter)
    check_packed(other, plain)
    assert (other.dtype, other.shape) == (parameter.dtype, parameter.shape)
    gl.torch.copy_(other, plain.flip(0))
    check_packed(parameter, plain)
    assert gl.torch.unpack_(other) is other and other.equal(plain.flip(0)) and gl.torch.layout_of(other) is None
    check_packed(parameter, plain)


@pytest.mark.parametrize("name", ["deepcopy", "pickle", "torch.save", "weights_only"])
def test_a_copied_parameter_is_a_parameter(name):
    parameter, _ = packed_parameter()
    other = IN_NEW_MEMORY[name](parameter)
    assert isinstance(other, torch.nn.Parameter) and not other.requires_grad
    gl.torch.unpack_(other)
    assert type(other) is torch.nn.Parameter


def test_another_process_gets_the_note():
    parameter, plain = packed_parameter()
    check_packed(sent(parameter), plain)
    check_packed(sent([parameter.data])[0], plain)


def test_a_file_is_read_where_only_gl_torch_was_imported(tmp_path):
    """A new process, and weights_only=True."""
    layer, plain = packed_layer()
    torch.save(layer.state_dict(), tmp_path / "state.pt")
    code = (
        "import sys, torch, gpulayout.torch as packed\n"
        "state = torch.load(sys.argv[1], weights_only=True)\n"
        "print(packed.layout_of(state['weight']), packed.read(state['weight']).sum().item())"
    )
    found = subprocess.run([sys.executable, "-c", code, tmp_path / "state.pt"], capture_output=True, text=True)
    assert found.stdout.split() == [str(MARLIN_SHAPE), str(plain.sum().item())], found.stderr


def test_pickles_name_the_public_room_and_plain_values():
    parameter, _ = packed_parameter()
    text = pickle.dumps(parameter)
    assert b"gpulayout.torch" in text and b"gpulayout.layout" not in text and b"gpulayout.torch." not in text


def test_a_file_has_the_packed_bytes_alone():
    """The weight was twice as large before; that room is not written."""
    parameter, _ = packed_parameter()
    memory, plain = io.BytesIO(), io.BytesIO()
    torch.save(parameter, memory)
    torch.save(torch.zeros(4096, dtype=torch.uint8), plain)
    assert 4096 < memory.tell() < plain.tell() + 2048
    assert len(pickle.dumps(parameter)) < 4096 + 2048


def test_bytes_that_are_only_a_part():
    """A row is no array of the layout: nothing says that it is one, and it cannot be read as one."""
    parameter, plain = packed_parameter()
    for part in (parameter[1], parameter[:2], parameter.data.view(-1)[3:9], parameter.t(), parameter[:, ::2]):
        with pytest.raises(gl.LayoutError) as caught:
            gl.torch.read(part)
        assert "\n" not in str(caught.value)
        with pytest.raises(gl.LayoutError):
            gl.torch.unpack_(part)
        with pytest.raises(gl.LayoutError):
            gl.torch.pack_(part, "{0}")
    check_packed(parameter, plain)


def test_what_is_computed_from_words_is_plain():
    parameter, _ = packed_parameter()
    words = torch.frombuffer(bytearray(bytes_of(parameter)), dtype=torch.int32).view(4, 256)
    for found, expected in (
        (parameter + 1, words + 1),
        (parameter & 15, words & 15),
        (parameter.sum(1), words.sum(1)),
        (parameter.max(), words.max()),
    ):
        assert found.equal(expected) and gl.torch.layout_of(found) is None
        assert found.to(torch.float64).equal(expected.to(torch.float64))


# ---- classes -------------------------------------------------------------------------------------------


class LoadedParameter(torch.nn.Parameter):
    """As vLLM has them: with attributes, properties and a function that loads."""

    def __new__(cls, data, loader=None, **options):
        return super().__new__(cls, data, requires_grad=False)

    def __init__(self, data, loader=None, packed_dim=0, requires_grad=False):
        self.loader, self.packed_dim = loader, packed_dim

    @property
    def pack_factor(self):
        return 8 + self.packed_dim

    def load(self, value):
        self.loader(self, value)


class CheckedParameter(LoadedParameter):
    """With a `__torch_function__` of its own."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return super().__torch_function__(function, types, args, kwargs or {})


@pytest.mark.parametrize("kind", [LoadedParameter, CheckedParameter])
def test_a_subclass_of_parameter_stays_one(kind):
    plain = codes()
    parameter = kind(plain.clone(), gl.torch.copy_, packed_dim=1)
    parameter.tag = "q"
    for made in (gl.torch.pack_(parameter, MARLIN), copy.deepcopy(parameter), pickle.loads(pickle.dumps(parameter))):
        assert isinstance(made, kind) and isinstance(made, torch.nn.Parameter)
        assert (made.tag, made.packed_dim, made.pack_factor) == ("q", 1, 9)
        check_packed(made, plain)
        made.load(plain.flip(1))
        check_packed(made, plain.flip(1))
        made.load(plain)
    gl.torch.unpack_(parameter)
    assert type(parameter) is kind and parameter.equal(plain) and parameter.tag == "q"
    layer = Layer(codes(1))
    layer.weight = gl.torch.pack_(parameter, MARLIN)
    assert dict(layer.named_parameters())["weight"] is parameter


def test_a_plain_parameter_is_one_before_and_after():
    parameter, plain = packed_parameter()
    assert isinstance(parameter, torch.nn.Parameter) and not parameter.requires_grad
    parameter.tag = 3
    gl.torch.unpack_(parameter)
    assert type(parameter) is torch.nn.Parameter and parameter.tag == 3 and parameter.equal(plain)
    tensor = gl.torch.unpack_(gl.torch.pack_(plain.clone(), MARLIN))
    assert type(tensor) is torch.Tensor and not vars(tensor)


# ---- other types, and threads --------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["marlin:scales", "aiter:weights", "{0,1}", "cublas:block_scales"])
def test_layouts_of_floats_survive_as_well(text):
    shape = gl.parse_shape(f"f32[128,64]{text}" if text[0] == "{" else f"{text}[128,64]")
    values = random_values(shape.dimensions, shape, random.Random(text))
    tensor = gl.torch.pack_(torch.nn.Parameter(as_tensor(values, shape), requires_grad=False), text)
    broken = {"pickle", "old pickle"} if shape.itemsize == 1 else set()  # torch pickles no floats of 8 bits
    for name in IN_NEW_MEMORY.keys() - {"empty_packed and copy_"} - broken:
        made = IN_NEW_MEMORY[name](tensor)
        assert gl.torch.layout_of(made) == shape and bytes_of(made) == packed_bytes(values, shape)
        assert (made.dtype, made.shape) == (tensor.dtype, tensor.shape)


def test_threads_pack_and_read():
    """Tensors of their own, parts of one storage, and one that all read."""
    shared, plain = packed_parameter()
    flat = torch.arange(8 * 24.0)
    problems = []

    def work(number):
        try:
            own = flat[24 * number : 24 * number + 24].view(4, 6)
            values = np.arange(24 * number, 24 * number + 24, dtype=np.float32).reshape(4, 6)
            for _ in range(20):
                gl.torch.pack_(own, "{0,1}")
                assert bytes_of(own) == values.T.tobytes()
                gl.torch.copy_(own, torch.from_numpy(values[1:2, 2:3] + 0), at=(slice(1, 2), slice(2, 3)))
                gl.torch.unpack_(own)
                assert bytes_of(own) == values.tobytes()
                assert gl.torch.read(shared).equal(plain) and gl.torch.layout_of(shared) == MARLIN_SHAPE
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems and flat.equal(torch.arange(8 * 24.0))


def test_inference_mode():
    """Tensors that are made in it, and tensors from outside of it."""
    parameter, plain = packed_parameter()
    with torch.inference_mode():
        tensor = plain.clone()
        gl.torch.pack_(tensor, MARLIN)
        for each in (tensor, parameter):
            gl.torch.copy_(each, plain.flip(0))
            check_packed(each, plain.flip(0))
        assert gl.torch.unpack_(tensor).equal(plain.flip(0))
        made = gl.torch.empty_packed(f"{MARLIN}[64,128]")
        assert gl.torch.layout_of(made) == MARLIN_SHAPE
        model = torch.nn.ParameterList([parameter])
        with gl.torch.unpacked(model):
            model[0].copy_(plain)
        assert gl.torch.pack_(gl.torch.unpack_(parameter), MARLIN) is parameter
    check_packed(parameter, plain)
    assert gl.torch.unpack_(parameter).equal(plain) and not parameter.is_inference()


def test_memory_is_given_back_with_its_tensor():
    """The note of a storage that is gone is not found by a storage that comes after it."""
    for number in range(50):
        tensor = codes(number)
        assert gl.torch.layout_of(tensor) is None
        gl.torch.pack_(tensor, MARLIN)
        del tensor


@pytest.mark.parametrize("kind", [torch.nn.Parameter, Layer])
def test_processes_share_the_memory_of_what_one_sends_to_another(kind):
    """Of a packed tensor as of any other, also the room that it needs to be unpacked in place."""
    layer, plain = packed_layer()
    given = layer if kind is Layer else layer.weight
    tensor, received = layer.weight, sent(given)
    other = received.weight if kind is Layer else received
    check_packed(other, plain)
    gl.torch.copy_(other, 15 - plain)
    check_packed(tensor, 15 - plain)
    assert gl.torch.unpack_(other).equal(15 - plain)


VIEWS = {"flat": lambda tensor: tensor.view(-1), "bytes": lambda tensor: tensor.view(torch.uint8)}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ["deepcopy", "clone", "pickle", "weights_only", "sent"])
def test_copies_of_views_of_the_whole_have_the_note(view, name):
    """A copy has the dtype and the sizes of the packed tensor; what is sent to a process stays a view."""
    parameter, plain = packed_parameter()
    given = VIEWS[view](parameter)
    if name == "sent":
        tensor, other = sent([parameter, given])
        assert other.dtype == given.dtype and other.shape == given.shape and gl.torch.read(other).equal(plain)
        check_packed(tensor, plain)
    else:
        other = IN_NEW_MEMORY[name](given)
        check_packed(other, plain)
        assert other.dtype == parameter.dtype and other.shape == parameter.shape
