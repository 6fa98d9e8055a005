"""Memory of PyTorch and JAX in states that a call must notice: recorded, resized, saved for a gradient, packed."""

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from gpulayout.arrays import arrays
from gpulayout.arrays.torch_tensors import TorchTensors
from tests.support.kept import forget_transfers
from tests.support.six_floats import refused, traced

LINE = "f32[2,3]{1,0}"
FLOATS = np.arange(6, dtype=np.float32)


@pytest.mark.filterwarnings("ignore:`torch.jit.trace:DeprecationWarning")
def test_calls_are_recorded_while_torch_records_its_own():
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    def inside(tensor):
        traced(tensor, "used while torch records calls, as in torch.jit.trace and make_fx")
        return gl.relayout(tensor, "f32[2,3]", "{0,1:PD(2,4)}") * 2

    tensor = torch.arange(6.0)
    for recorded in (torch.jit.trace(inside, tensor, check_trace=False), make_fx(inside)(tensor)):
        assert recorded(tensor + 1).tolist() == [2, 8, 4, 10, 6, 12, 0, 0]
    with FakeTensorMode():
        traced(torch.zeros(6), "makes no memory, as in FakeTensorMode: ")


def test_a_tensor_whose_storage_was_resized_is_refused():
    torch = pytest.importorskip("torch")
    for size, held in ((0, 0), (8, 8), (23, 23)):
        tensor = torch.zeros(6)
        tensor.untyped_storage().resize_(size)
        refused(tensor, BufferError, f"(Tensor) has a storage of {held} bytes, but its shape and strides need 24")
        with pytest.raises(BufferError, match=r"^out \(Tensor\) has a storage of "):
            gl.relayout(FLOATS, LINE, "{0,1}", out=tensor)
    refused(torch._efficientzerotensor((6,)), BufferError, "has a shape, but no memory: pass .clone()")
    tensor = torch.zeros(24)[1::4]  # the storage may end with the last element
    tensor.untyped_storage().resize_(22 * 4)
    assert gl.pack(tensor, "{0}").tolist() == [0] * 6
    empty = torch.zeros(0, 3)
    empty.untyped_storage().resize_(0)
    assert gl.pack(empty, "{0,1}").shape == (0,)


def test_a_parameter_without_a_shape_yet_is_refused():
    torch = pytest.importorskip("torch")
    for kind in (torch.nn.UninitializedParameter, torch.nn.UninitializedBuffer):
        text = f" is an {kind.__name__}, which has no shape yet: call its module once, which gives it one"
        refused(kind(requires_grad=False), TypeError, text)


@pytest.mark.parametrize(
    "write",
    [
        lambda out: gl.relayout(FLOATS, LINE, "{0,1}", out=out),
        lambda out: gl.pack(FLOATS.reshape(2, 3), "{0,1}", out=out),
        lambda out: gl.relayout_many([(FLOATS, LINE, "{0,1}")], out=[out]),
        lambda out: gl.unpack(FLOATS, "f32[6]", out=out),
    ],
)
def test_autograd_knows_that_out_changed(write):
    torch = pytest.importorskip("torch")
    weights, out = torch.ones(6, requires_grad=True), torch.zeros(6)
    total = (weights * out).sum()
    write(out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()
    with torch.inference_mode():
        made = torch.zeros(6)
    write(made)
    assert made.tolist() == out.tolist()


WAYS = {
    "plan": lambda tensor, out: gl.plan(LINE, "{0,1}")(tensor, out=out),
    "pack": lambda tensor, out: gl.pack(tensor.reshape(2, 3), "{0,1}", out=out),
    "unpack": lambda tensor, out: gl.unpack(tensor, "f32[6]", out=out),
    "transpose": lambda tensor, out: gl.transpose(tensor, out=out),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_call_looks_at_each_tensor_once(way, monkeypatch):
    torch = pytest.importorskip("torch")
    looked, real = [], TorchTensors.exported

    def exported(self, given, role, writing):
        looked.append((role, writing))
        return real(self, given, role, writing)

    monkeypatch.setattr(TorchTensors, "exported", exported)
    role = "array" if way in ("pack", "transpose") else "buffer"
    forget_transfers()  # a call that resembles the one before has passed these looks
    WAYS[way](torch.arange(6.0), None)
    assert looked == [(role, False)]
    looked.clear()
    forget_transfers()
    WAYS[way](torch.arange(6.0), torch.empty(6))
    assert sorted(looked) == [(role, False), ("out", True)]


@pytest.mark.parametrize("way", WAYS)
def test_a_tensor_that_shares_memory_with_out_is_refused(way):
    torch = pytest.importorskip("torch")
    memory = torch.arange(9.0)
    with pytest.raises(BufferError, match="overlap in memory: out must be "):
        WAYS[way](memory[:6], memory[3:])
    assert memory.tolist() == list(range(9)) and memory._version == 0


def test_a_tensor_is_opened_with_its_own_strides():
    """Also along axes of size 1, whose strides tell apart the memory formats of torch."""
    torch = pytest.importorskip("torch")
    whole = torch.arange(120.0).reshape(2, 3, 4, 5)
    turned = torch.zeros(8, 1, 4, 4).as_strided((8, 1, 4, 4), (16, 1, 4, 1))
    for tensor in (
        whole,
        whole[1:, ::2],
        whole.permute(3, 1, 0, 2),
        whole[:, :1].expand(2, 9, 4, 5),
        turned,
        whole[0, 0, 0, 0],
    ):
        array = arrays.open_array(tensor, "array")[1]
        assert array.strides == tuple(4 * stride for stride in tensor.stride()) and array.shape == tuple(tensor.shape)
        assert array.tolist() == tensor.tolist() and (array.ctypes.data == tensor.data_ptr())


def test_the_memory_of_a_tensor_may_still_grow():
    torch = pytest.importorskip("torch")
    tensor, out = torch.zeros(4), torch.zeros(4)
    gl.pack(tensor, "{0}", out=out)
    assert (
        out.resize_(100).shape == tensor.resize_(100).shape == (100,)
    )  # `tensor.numpy()` would have fixed the size of its memory


def test_jax_arrays_of_types_below_a_byte_have_no_view():
    given = pytest.importorskip("jax").device_put(np.arange(6).astype(ml_dtypes.int4))
    with pytest.raises(gl.LayoutError, match="^array of int4 has no view, because XLA packs elements below a byte"):
        gl.view(given, "s4[2,3]")
