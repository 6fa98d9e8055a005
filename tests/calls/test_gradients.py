"""Tensors that require a gradient: it follows where torch records it.  An `out` that would lose it is refused."""

import types

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.arrays.torch_tensors import TorchTensors

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


INDICES = torch.arange(6)
# Each writes to its `out`, six integers.
INDEX_WRITES = {
    "linearize": lambda out: gl.linearize(np.indices((2, 3)).reshape(2, 6), TARGET, out=out),
    "linearize, wrapped": lambda out: gl.linearize((INDICES, INDICES), TARGET, mode="wrap", out=out),
    "delinearize": lambda out: gl.delinearize(INDICES, "f32[6]", out=out.view(1, 6)),
    "convert_linear": lambda out: gl.convert_linear(INDICES, SOURCE, TARGET, out=out),
}
# Each is refused for something else than the tensor of six elements that it would write to.
REFUSED = {
    "pack, other size": lambda out: gl.pack(FLOATS, "f32[6]{0:PD(8)}", out=out),
    "pack, overlap": lambda out: gl.pack(out.reshape(2, 3), "{0,1}", out=out),
    "unpack, other dimensions": lambda out: gl.unpack(FLOATS, "f32[2,3]", out=out),
    "unpack, short buffer": lambda out: gl.unpack(FLOATS[:5], "f32[6]", out=out),
    "unpack, overlap": lambda out: gl.unpack(out, "f32[6]", out=out),
    "relayout, short buffer": lambda out: gl.relayout(FLOATS[:5], SOURCE, TARGET, out=out),
    "relayout, other type": lambda out: gl.relayout(FLOATS.view(np.int32), "s32[2,3]", "{0,1}", out=out),
    "relayout, overlap": lambda out: gl.relayout(out[1:], "f32[5]", "{0}", out=out[:5]),
    "in place, impossible": lambda out: gl.relayout(
        out, "f32[2,2]{1,0:PD(2,3)}", "{0,1:PD(3,2)}", out=out, max_bytes=1
    ),
    "in place, no memory": lambda out: gl.relayout(out, SOURCE, TARGET, out=out, max_bytes=1),
    "in place, other memory": lambda out: gl.plan(SOURCE, TARGET).in_place()(FLOATS, out=out),
    "a later job": lambda out: gl.relayout_many(
        [(FLOATS, SOURCE, TARGET), (FLOATS[:5], SOURCE, TARGET)], out=[out, None]
    ),
    "two jobs, one out": lambda out: gl.relayout_many([(FLOATS, SOURCE, TARGET)] * 2, out=[out, out]),
    "transpose, other shape": lambda out: gl.transpose(FLOATS.reshape(2, 3), out=out),
    "transpose, other type": lambda out: gl.transpose(np.arange(6), "a -> a", out=out),
    "stream, overlap": lambda out: gl.plan(SOURCE, TARGET).stream(out, out=out),
    "stream, progress": lambda out: gl.plan(SOURCE, TARGET).stream(FLOATS, out=out, progress=1),
}
REFUSED_INDICES = {
    "other shape": lambda out: gl.delinearize(INDICES, "f32[6]", out=out),
    "linearize": lambda out: gl.linearize([INDICES], "f32[5]", out=out),
    "linearize, one array": lambda out: gl.linearize(INDICES.reshape(1, 6), "f32[5]", out=out),
    "no elements": lambda out: gl.linearize([INDICES], "f32[0]", mode="wrap", out=out),
    "delinearize": lambda out: gl.delinearize(INDICES, "f32[5]", out=out.view(1, 6)),
    "padding": lambda out: gl.delinearize(INDICES, "f32[5]{0:PD(6)}", out=out.view(1, 6)),
    "convert_linear": lambda out: gl.convert_linear(INDICES, "f32[5]", "{0}", out=out),
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


@pytest.mark.parametrize("name", INDEX_WRITES)
def test_autograd_knows_of_indices_too(name):
    out = torch.zeros(6, dtype=torch.int64)
    version = out._version
    INDEX_WRITES[name](out)
    assert out._version > version and out.any()


@pytest.mark.parametrize("name", [*REFUSED, *(f"index: {name}" for name in REFUSED_INDICES)])
def test_a_refused_call_is_no_change_to_autograd(name):
    kind, call = (
        (torch.int64, REFUSED_INDICES[name.removeprefix("index: ")])
        if name not in REFUSED
        else (torch.float32, REFUSED[name])
    )
    out = torch.arange(6, dtype=kind)
    version = out._version
    with pytest.raises((TypeError, ValueError, IndexError, BufferError)):
        call(out)
    assert out._version == version and out.tolist() == [*range(6)]


TO_OUT = ("stream", "out")  # of READS: no gradient follows a call into memory that the caller gives


@pytest.mark.parametrize("name", [name for name in READS if name not in TO_OUT])
def test_elsewhere_the_gradient_follows(name):
    given = weights()
    version = given._version
    for context in (torch.enable_grad, lambda: torch.inference_mode(False)):
        with context():
            found = READS[name](given)
        assert found.tolist() == MOVED and found.requires_grad and given._version == version
        (gradient,) = torch.autograd.grad(found, given, torch.arange(6.0))
        assert gradient.tolist() == [0, 2, 4, 1, 3, 5]


def test_elsewhere_nothing_is_written_without_its_gradient():
    given, out = weights(), torch.zeros(6)
    written = (
        "requires a gradient or has a tangent, which would not follow its values there: drop out=, or call "
        "gpulayout inside torch.no_grad()"
    )
    for call in (
        lambda: gl.pack(given.view(2, 3), "{0,1}", out=out),
        lambda: gl.unpack(given, "f32[6]", out=out),
        lambda: gl.relayout(given, SOURCE, TARGET, out=out),
        lambda: gl.relayout(given, SOURCE, TARGET, out=given),
        lambda: gl.plan(SOURCE, TARGET)(given, out=out),
        lambda: gl.relayout_many([(given, SOURCE, TARGET)], out=[out]),
        lambda: gl.transpose(given.view(2, 3), out=out.view(3, 2)),
    ):
        with pytest.raises(BufferError) as caught:
            call()
        text = str(caught.value).removeprefix("job 0: ")
        assert text.startswith("out is given, and ") and text.endswith(f" {written}")
    through = "requires a gradient, which would not follow its values through the call: pass .detach\\(\\), or call "
    for name, call in {**WRITES, "read by stream": READS["stream"]}.items():
        given = weights()
        with pytest.raises((BufferError, RuntimeError), match="in-place" if name.startswith("in place") else through):
            call(given)
        assert given._version == 0 and given.tolist() == [*range(6)]
    assert out._version == 0 and not out.any()


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # by torch itself, in make_dual
def test_a_tangent_follows_inside_no_grad_too():
    """torch.no_grad() stops gradients, but not the tangents of forward mode."""
    forward = torch.autograd.forward_ad
    with forward.dual_level(), torch.no_grad():
        dual = forward.make_dual(torch.arange(6.0), torch.arange(6.0) + 1)
        for name in READS:
            if name not in TO_OUT:
                found = forward.unpack_dual(READS[name](dual))
                assert found.primal.tolist() == MOVED and found.tangent.tolist() == [x + 1 for x in MOVED], name
        with pytest.raises(BufferError, match=r"^out is given, and buffer \(Tensor\) requires a gradient or"):
            READS["out"](dual)
        with pytest.raises(BufferError, match=r"^buffer \(Tensor\) has a tangent of .* the call: pass .detach\(\)$"):
            READS["stream"](dual)
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
        is_cpu = property(lambda self: False)

    given = torch.zeros(6, dtype=dtype).as_subclass(Elsewhere).requires_grad_()
    with torch.no_grad():
        found = TorchTensors().exported(given, "array", False)
    assert not found.requires_grad and found.data_ptr() == given.data_ptr()
    assert torch.utils.dlpack.to_dlpack(found.as_subclass(torch.Tensor))


def test_a_tensor_without_a_tangent_is_taken_beside_those_that_have_one():
    with torch.autograd.forward_ad.dual_level():
        assert gl.pack(torch.arange(6.0).reshape(2, 3), "{0,1}").tolist() == [0, 3, 1, 4, 2, 5]


def test_functionalize_is_a_transform_like_the_others():
    """Its tensors are stand-ins, and so are their clones: no memory of theirs holds values."""

    def inside(tensor):
        for given in (tensor, tensor.clone(), tensor[:0], tensor.reshape(2, 3)):
            assert gl.pack(given, gl.Layout.descending(given.ndim)).shape == (given.numel(),)
            with pytest.raises(TypeError) as caught:
                gl.shape_of(given)
            assert str(caught.value) == (
                "array is a tensor without memory of its own (Tensor), as inside torch.compile, torch.export and "
                "torch.func: gl.transpose, pack, unpack, relayout, relayout_many, transpose_many and plans work there; "
                "call this one outside of them, on plain tensors"
            )
        with pytest.raises(TypeError, match=r"^out is a tensor without memory of its own \(Tensor\)"):
            gl.pack(FLOATS, "{0}", out=tensor)
        return gl.relayout(tensor + 1, SOURCE, TARGET)

    assert torch.func.functionalize(inside)(torch.arange(6.0)).tolist() == [value + 1 for value in MOVED]
