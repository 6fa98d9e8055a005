"""Arithmetic on the way of tensors that a gradient follows: it is scaled and cast back, as by torch itself."""

import numpy as np
import pytest

import gpulayout as gl

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # by torch itself, in make_dual

PADDED = "f64[4,6]{0,1:PD(5,6)PV(one)}"
# Each takes a tensor of 40 numbers: a buffer of PADDED with some places behind it.
CALLS = {
    "pack": lambda line: gl.pack(line[:24].view(4, 6), PADDED, scale=[1, 2, 3, 4, 5, 6.5], shift=1),
    "pack, strides": lambda line: gl.pack(line[:24].view(6, 4).t(), "{1,0:T(3,4)}", shift=[[1], [2], [3], [4]]),
    "unpack": lambda line: gl.unpack(line, PADDED, scale=3, strict=False),
    "unpack, blocks": lambda line: gl.unpack(line, PADDED, scale=[[2, 3], [4, 5]], strict=False),
    "unpack, cut blocks": lambda line: gl.unpack(line, PADDED, scale=[[2, 3], [4, 5]], block=(3, 4), strict=False),
    "pack, divided": lambda line: gl.pack(
        line[:24].view(4, 6), PADDED, scale=[[2], [3]], shift=1, block=3, divide=True
    ),
    "relayout": lambda line: gl.relayout(line, PADDED, "{1,0:T(3,4)}", mean=1, std=[[2], [4], [5], [8]], strict=False),
    "relayout, N-d": lambda line: gl.relayout(line[:24].view(6, 4).t(), "F", "C", scale=[[2], [3], [4], [5]]),
    "plan": lambda line: gl.plan(PADDED, "C", scale=0.5)(line, strict=False),
    "relayout_many": lambda line: gl.relayout_many([(line, PADDED, "C")], std=4, strict=False)[0],
    "transpose": lambda line: gl.transpose(line[:24].view(4, 6), scale=[[1], [2], [3], [4]], shift=2),
    "transpose, pattern": lambda line: gl.transpose(
        line[:24].view(4, 6), "a (b c) -> c (a b)", b=2, scale=[2, 3], block=3
    ),
}


def numbers(*sizes, dtype=torch.float64):
    return torch.randn(*sizes, dtype=dtype, generator=torch.Generator().manual_seed(4)).requires_grad_()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CALLS)
def test_gradients_of_every_order(name):
    call, given = CALLS[name], numbers(40)
    assert call(given).equal(call(given.detach()))
    assert torch.autograd.gradcheck(call, given, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(call, given, check_fwd_over_rev=True, fast_mode=True)


FLOATS = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}


@pytest.mark.parametrize("target", [*FLOATS, "f8e4m3fn", "f8e5m2"])
@pytest.mark.parametrize("source", FLOATS)
def test_gradients_between_types_are_those_of_torch_s_casts(source, target):
    """The product is made in f32, or f64, of the gradient cast up, and cast to the type of the tensor."""
    given = numbers(2, 3, dtype=torch.float64).detach().to(FLOATS[source]).requires_grad_()
    kind = FLOATS.get(target) or getattr(torch, gl.ElementType.of(target).dtype.name)
    wide = torch.float64 if "f64" in (source, target) else torch.float32
    factor = torch.tensor([3.0, 0.1, -7.0], dtype=wide)
    weights = torch.tensor([[1.0, 0.3], [5.0, 0.7], [0.1, 3.0]]).to(kind)
    for call, expected in (
        (lambda x: gl.transpose(x, dtype=target), weights.t().to(FLOATS[source])),
        (
            lambda x: gl.transpose(x, dtype=target, scale=factor, shift=1),
            (weights.t().to(wide) * factor).to(FLOATS[source]),
        ),
        (lambda x: gl.transpose(x, dtype=target, std=factor), (weights.t().to(wide) / factor).to(FLOATS[source])),
    ):
        found = call(given)
        (gradient,) = torch.autograd.grad(found, given, weights)
        assert found.dtype == kind and gradient.dtype == given.dtype
        assert gradient.equal(expected)


def test_what_saturates_passes_its_gradient_on():
    """As torch's own cast, whatever becomes of the number."""
    given = torch.tensor([1.0, 1e6, float("inf"), float("nan")], requires_grad=True)
    for target, kind in (("f16", torch.float16), ("f8e4m3fn", torch.float8_e4m3fn)):
        weights = torch.tensor([1.0, 2.0, 3.0, 4.0]).to(kind)
        own = torch.autograd.grad(given.to(kind), given, weights)[0]
        assert torch.autograd.grad(gl.pack(given, "{0}", dtype=target), given, weights)[0].equal(own)
        assert own.tolist() == [1, 2, 3, 4]


def test_complex_numbers_are_cast_back():
    given = numbers(2, 3, dtype=torch.complex64)
    found = gl.pack(given, "{0,1}", dtype="c128")
    (gradient,) = torch.autograd.grad(found, given, torch.full((6,), 1 + 2j, dtype=torch.complex128).conj())
    assert gradient.dtype == torch.complex64 and (gradient == 1 - 2j).all()


def test_integer_results_have_no_gradient():
    """As with torch's `.to(torch.int8)`."""
    given = numbers(2, 3, dtype=torch.float32)
    for call in (
        lambda x: gl.pack(x, "{0,1}", dtype="s8"),
        lambda x: gl.transpose(x, dtype="s32", scale=10),
        lambda x: gl.pack(x, "{0,1}", dtype="s8", scale=0.1, zero_point=3),
        lambda x: gl.pack(x, "f4e2m1fn[2,3]{1,0}", dtype="f4e2m1fn"),  # bytes: torch cannot compute with it
        lambda x: gl.pack(x, "s4[2,3]{1,0:E(4)}", dtype="s4"),
    ):
        found = call(given)
        assert not found.requires_grad and found.equal(call(given.detach()))


def test_integers_that_become_floats_have_none():
    assert not gl.pack(torch.arange(6, dtype=torch.uint8), "{0}", dtype="f32", unit=True, mean=0.5, std=2).requires_grad


def test_a_cast_to_the_own_type_is_a_move():
    given = numbers(2, 3)
    for found in (gl.pack(given, "{0,1}", dtype="f64"), gl.transpose(given, dtype="f64").view(-1)):
        (gradient,) = torch.autograd.grad(found, given, torch.arange(6, dtype=torch.float64))
        assert gradient.tolist() == [[0, 2, 4], [1, 3, 5]]


def test_a_tangent_follows_into_another_type():
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        dual = forward.make_dual(torch.ones(2, 3), torch.arange(6.0).view(2, 3))
        found = forward.unpack_dual(gl.pack(dual, "{0,1:PD(3,3)PV(one)}", dtype="f16", scale=2, shift=1))
    assert found.primal.tolist() == [3, 3, 1] * 3 and found.tangent.dtype == torch.float16
    assert found.tangent.tolist() == [0, 6, 0, 2, 8, 0, 4, 10, 0]


@pytest.mark.parametrize("scale", [np.array([1.0, 2.0, 3.0]), [1.0, 2.0, 3.0], torch.tensor([1.0, 2.0, 3.0])], ids=type)
def test_a_repeated_call_has_the_gradient_of_the_numbers_that_it_gets(scale):
    given = numbers(2, 3)
    for number in range(1, 5):
        scale[1] = float(number)  # in place
        for call, weights in (
            (lambda x: gl.transpose(x, "a b -> b a", dtype="f32", scale=scale), torch.ones(3, 2)),
            (lambda x: gl.pack(x, "{0,1}", scale=scale), torch.ones(6, dtype=torch.float64)),
            (lambda x: gl.unpack(x.view(-1), "f64[2,3]", scale=scale, divide=True), torch.ones(2, 3).double()),
        ):
            (gradient,) = torch.autograd.grad(call(given), given, weights)
            factors = torch.tensor([1.0, number, 3.0], dtype=torch.float64)
            expected = 1 / factors if weights.shape == (2, 3) else factors
            assert torch.allclose(gradient, expected.expand(2, 3))


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # by torch, in FakeTensorMode
def test_a_gradient_inside_of_a_mode_leaves_nothing_to_later_ones():
    """Tensors that a mode makes are fake, or cannot be saved: nothing that lasts may hold one."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    given = numbers(2, 3)
    for mode in (lambda: FakeTensorMode(allow_non_fake_inputs=True), torch.inference_mode):
        found = gl.pack(given, "{0,1}", scale=3.0).sum()
        with mode():
            torch.autograd.grad(found, given)
        (gradient,) = torch.autograd.grad(gl.pack(given, "{0,1}", scale=3.0).sum(), given, create_graph=True)
        assert type(gradient) is torch.Tensor and gradient.tolist() == [[3, 3, 3]] * 2


@pytest.mark.parametrize("options", [{}, {"scale": 2.0}], ids=str)
def test_a_call_in_memory_leaves_nothing_to_tensors_without_memory(options):
    gl.pack(numbers(2, 3), "{0,1}", **options)
    found = gl.pack(torch.empty(2, 3, dtype=torch.float64, device="meta", requires_grad=True), "{0,1}", **options)
    assert found.is_meta and found.shape == (6,) and found.requires_grad


def test_errors_are_those_of_a_call_without_a_gradient():
    given = numbers(2, 3)
    for call in (
        lambda x: gl.pack(x, "{0,1}", dtype="c64"),
        lambda x: gl.pack(x, "f32[3,2]", dtype="f32"),
        lambda x: gl.transpose(x, scale=[1, 2]),
        lambda x: gl.transpose(x, "a b c -> c b a", scale=2),
        lambda x: gl.relayout(x, "{0,1}", "C", scale=2),
        lambda x: gl.unpack(x[0], "f64[4]", scale=2),
        lambda x: gl.pack(x, "{0,1}", dtype="f32", unit=True),
    ):
        texts = []
        for tensor in (given, given.detach()):
            with pytest.raises((TypeError, ValueError, BufferError)) as caught:
                call(tensor)
            texts.append((type(caught.value), str(caught.value)))
        assert texts[0] == texts[1]
    with pytest.raises(BufferError, match=r"^out is given, and array \(Tensor\) requires a gradient"):
        gl.pack(given, "{0,1}", scale=2, out=torch.zeros(6, dtype=torch.float64))
