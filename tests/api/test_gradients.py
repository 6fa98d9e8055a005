"""Tensors that require a gradient: taken where torch records none, as by torch itself, and refused elsewhere."""

import types

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.api.torch_tensors import TorchTensors

torch = pytest.importorskip("torch")

SOURCE, TARGET = "f32[2,3]", "f32[2,3]{0,1}"
MOVED = [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
FLOATS = np.arange(6, dtype=np.float32)
WITHOUT_GRADIENTS = [torch.no_grad, torch.inference_mode]
# What each call makes of the matrix [[0, 1, 2], [3, 4, 5]], or of its elements in this order.
READS = {
    "pack": lambda line: gl.pack(line.reshape(2, 3), "{0,1}"),
    "unpack": lambda line: gl.unpack(line, "f32[3,2]{0,1}").reshape(-1),
    "relayout": lambda line: gl.relayout(line, SOURCE, TARGET),
    "plan": lambda line: gl.plan(SOURCE, TARGET)(line),
    "relayout_many": lambda line: gl.relayout_many([(line, SOURCE, TARGET)])[0],
    "transpose": lambda line: gl.transpose(line.reshape(2, 3)).reshape(-1),
    "a pattern": lambda line: gl.transpose(line, "(a b) -> b a", a=2).reshape(-1),
    "view": lambda line: gl.view(line, "f32[3,2]{0,1}").reshape(-1),
    "stream": lambda line: gl.plan(SOURCE, TARGET).stream(line, out=torch.zeros(6)),
    "out": lambda line: gl.relayout(line, SOURCE, TARGET, out=torch.zeros(6)),
}
# Each writes MOVED to its `out`, of shape (6,).
WRITES = {
    "pack": lambda out: gl.pack(FLOATS.reshape(2, 3), "{0,1}", out=out),
    "unpack": lambda out: gl.unpack(np.array(MOVED, np.float32), "f32[6]", out=out),
    "relayout": lambda out: gl.relayout(FLOATS, SOURCE, TARGET, out=out),
    "plan": lambda out: gl.plan(SOURCE, TARGET)(FLOATS, out=out),
    "relayout_many": lambda out: gl.relayout_many([(FLOATS, SOURCE, TARGET)], out=[out])[0],
    "transpose": lambda out: gl.transpose(FLOATS.reshape(2, 3), "a b -> (b a)", out=out),
    "stream": lambda out: gl.plan(SOURCE, TARGET).stream(FLOATS, out=out),
    "in place": lambda out: gl.relayout(out.copy_(torch.arange(6.0)), SOURCE, TARGET, out=out),
    "in place, planned": lambda out: gl.plan(SOURCE, TARGET).in_place()(out.copy_(torch.arange(6.0))),
}


def weights():
    return torch.nn.Parameter(torch.arange(6.0))


@pytest.mark.parametrize("without", WITHOUT_GRADIENTS)
@pytest.mark.parametrize("name", READS)
def test_a_tensor_is_read_where_no_gradient_is_recorded(name, without):
    leaf = weights()
    for given in (leaf, leaf * 1, torch.arange(12.0, requires_grad=True)[:6]):
        with without():
            found = READS[name](given)
        assert found.tolist() == MOVED and not found.requires_grad and type(found) is torch.Tensor


@pytest.mark.parametrize("without", WITHOUT_GRADIENTS)
@pytest.mark.parametrize("name", WRITES)
def test_a_leaf_is_written_there_and_autograd_knows(name, without):
    leaf, other = weights(), torch.ones(6, requires_grad=True)
    total, version = (leaf * other).sum(), leaf._version  # the gradient of `other` needs the old values
    with without():
        assert WRITES[name](leaf) is leaf
    assert leaf.tolist() == MOVED and leaf.requires_grad and leaf.is_leaf and leaf._version > version
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


@pytest.mark.parametrize("name", [*READS, "write"])
def test_elsewhere_the_error_says_both_ways_out(name):
    call = READS.get(name, WRITES["relayout"])
    given = weights()
    version = given._version
    contexts = [torch.enable_grad, lambda: torch.inference_mode(False)]
    for context in contexts:
        with context(), pytest.raises(BufferError) as caught:
            call(given)
        text = str(caught.value).removeprefix("job 0: ")
        role = "out" if name == "write" else "array" if text.startswith("array") else "buffer"
        assert text in [
            f"{role} ({kind}) requires a gradient, which would not follow its values through the call: pass .detach(), "
            "or call gpulayout inside torch.no_grad()"
            for kind in ("Parameter", "Tensor")
        ]
    with torch.no_grad(), torch.enable_grad(), pytest.raises(BufferError, match="requires a gradient"):
        call(given)
    assert given._version == version


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # by torch itself, in make_dual
def test_a_tangent_follows_inside_no_grad_too():
    """torch.no_grad() stops gradients, but not the tangents of forward mode."""
    forward = torch.autograd.forward_ad
    with forward.dual_level(), torch.no_grad():
        dual = forward.make_dual(torch.arange(6.0), torch.ones(6))
        assert forward.unpack_dual(dual * 2).tangent is not None
        with pytest.raises(BufferError) as caught:
            gl.pack(dual, "{0}")
        assert str(caught.value) == (
            "array (Tensor) has a tangent of forward-mode autograd, which would not follow its values through the "
            "call: pass .detach()"
        )
        with pytest.raises(BufferError, match=r"^out \(Tensor\) has a tangent"):
            gl.pack(FLOATS, "{0}", out=dual)


def test_the_bits_that_delay_values_stay_refused():
    given = torch.tensor([1 + 2j], requires_grad=True)
    with torch.no_grad(), pytest.raises(BufferError, match="has its conj bit set"):
        gl.pack(given.conj(), "{0}")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_memory_of_a_gpu_is_exported_without_the_gradient(dtype):
    """torch gives no DLPack capsule of a tensor that requires a gradient, whatever the context."""

    class Elsewhere(torch.Tensor):
        device = property(lambda self: types.SimpleNamespace(type="cuda", index=0))

    given = torch.zeros(6, dtype=dtype).as_subclass(Elsewhere).requires_grad_()
    with torch.no_grad():
        found = TorchTensors().exported(given)
    assert not found.requires_grad and found.data_ptr() == given.data_ptr()
    assert torch.utils.dlpack.to_dlpack(found.as_subclass(torch.Tensor))


def test_functionalize_is_a_transform_like_the_others():
    """Its tensors are stand-ins, and so are their clones: only a call outside helps."""

    def inside(tensor):
        for given in (tensor, tensor.clone(), tensor[:0], tensor.reshape(2, 3)):
            for call in (lambda: gl.pack(given, gl.Layout.descending(given.ndim)), lambda: gl.shape_of(given)):  # noqa: B023
                with pytest.raises(TypeError) as caught:
                    call()
                assert str(caught.value) == (
                    "array is a tensor without memory of its own (Tensor), as inside torch.compile, torch.export and "
                    "torch.func: call gpulayout outside of them, on plain tensors"
                )
        with pytest.raises(TypeError, match=r"^out is a tensor without memory of its own \(Tensor\)"):
            gl.pack(FLOATS, "{0}", out=tensor)
        return tensor + 1

    assert torch.func.functionalize(inside)(torch.zeros(6)).tolist() == [1] * 6
