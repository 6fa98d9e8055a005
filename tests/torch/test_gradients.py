"""Gradients of tensors in memory: those of the same move in torch's own operations, by every way of asking for them."""

import random
import threading

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.moves.lowering import lowered_pack, lowered_relayout, lowered_unpack
from tests.support.effort import ALL
from tests.torch.layouts import random_layout, random_pair

torch = pytest.importorskip("torch")
forward = pytest.importorskip("torch.autograd.forward_ad")
make_fx = pytest.importorskip("torch.fx.experimental.proxy_tensor").make_fx
dynamo = pytest.importorskip("torch._dynamo")
pytest.importorskip("gpulayout.torch.gradients")  # else the first gradient loads them, perhaps in another process
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # by torch itself, in make_dual

PADDED, TILED = "f64[3,4]{0,1:PD(4,6)PV(one)}", "f64[3,4]{1,0:T(2,3)}"
# Each takes a tensor of 24 numbers.
CALLS = {
    "pack": lambda line: gl.pack(line[:12].view(3, 4), "{0,1}"),
    "pack, padding": lambda line: gl.pack(line[:12].view(3, 4), PADDED),
    "pack, strides": lambda line: gl.pack(line.view(4, 6).t()[::2], TILED),
    "pack, expanded": lambda line: gl.pack(line[:4].expand(3, 4), TILED),
    "pack, one axis": lambda line: gl.pack(line[::2], "{0:T(5)}"),
    "unpack": lambda line: gl.unpack(line[:24], PADDED),
    "unpack, long buffer": lambda line: gl.unpack(line, "f64[3,4]{0,1}", strict=False),
    "unpack, no axis": lambda line: gl.unpack(line[:1], "f64[]"),
    "unpack, strides of padding": lambda line: gl.unpack(line.view(6, 4).t()[:3, :4], "f64[3,4]{0,1:PD(4,6)}"),
    "relayout": lambda line: gl.relayout(line[:24], PADDED, TILED),
    "relayout, long buffer": lambda line: gl.relayout(line, TILED, PADDED),
    "relayout, N-d": lambda line: gl.relayout(line.view(6, 4).t(), "F", "C"),
    "plan": lambda line: gl.plan(TILED, "F")(line),
    "relayout_many": lambda line: torch.cat(gl.relayout_many([(line, PADDED, "C"), (line[:12], "f64[3,4]", PADDED)])),
    "transpose": lambda line: gl.transpose(line.view(2, 3, 4)),
    "transpose, axes": lambda line: gl.transpose(line.view(2, 3, 4), [1, -1, 0]),
    "transpose, pattern": lambda line: gl.transpose(line.view(4, 6), "(a b) (c d) -> (c a) 1 (d b)", a=2, c=3),
    "transpose, strides": lambda line: gl.transpose(line.view(4, 6)[:, ::2], "... (c 1) -> c ..."),
    "view": lambda line: gl.view(line, PADDED),
    "view, pattern": lambda line: gl.view(line.view(4, 6), "(a b) c -> b c a", a=2),
}

OF_MEMORY = ("unpack, strides of padding", "relayout, N-d")  # a tracer has no strides


def numbers(*sizes, dtype=torch.float64):
    return torch.randn(*sizes, dtype=dtype, generator=torch.Generator().manual_seed(3)).requires_grad_()


@pytest.mark.parametrize("name", CALLS)
def test_gradients_of_every_order(name):
    call, given = CALLS[name], numbers(24)
    every = {"check_batched_grad": True, "check_batched_forward_grad": not name.startswith("view")} if ALL else {}
    assert torch.autograd.gradcheck(call, given, check_forward_ad=True, **every)
    # in fast mode it looks at a projection of the matrix of second derivatives
    assert torch.autograd.gradgradcheck(call, given, check_fwd_over_rev=True, fast_mode=not ALL)


def test_complex_elements_whose_gradient_is_conjugated_late():
    given = numbers(3, 4, dtype=torch.complex128)
    assert torch.autograd.gradcheck(lambda x: gl.pack(x, "{0,1:PD(4,4)}"), given, check_forward_ad=True)
    assert torch.autograd.gradcheck(lambda x: gl.transpose(x).conj(), given, check_forward_ad=True)
    gl.pack(given, "{0,1}").backward(torch.full((12,), 1 + 2j, dtype=given.dtype).conj())
    assert (given.grad == 1 - 2j).all()


@pytest.mark.parametrize("seed", range(20 if ALL else 2))
def test_random_layouts_have_the_gradients_of_their_lowered_steps(seed):
    rng = random.Random(seed)
    for _ in range(120):
        source, target = random_pair(rng)
        length = source.buffer_length + rng.choice((0, 0, 3))
        sizes = source.dimensions
        for call, lowered, given in (
            (lambda x: gl.pack(x, target), lowered_pack(target), numbers(*sizes)),
            (lambda x: gl.unpack(x, source, strict=False), lowered_unpack(source, length), numbers(length)),
            (
                lambda x: gl.relayout(x, source, target, strict=False),
                lowered_relayout(source, target, length),
                numbers(length),
            ),
        ):
            found, expected = call(given), lowered(given)
            assert found.equal(expected) and found.grad_fn is not None
            weights = torch.randn(found.shape, dtype=torch.float64)
            gradients = [torch.autograd.grad(each, given, weights)[0] for each in (found, expected)]
            assert gradients[0].equal(gradients[1]), (str(source), str(target), length)
            with forward.dual_level():
                tangent = torch.randn(given.shape, dtype=torch.float64)
                dual = forward.make_dual(given.detach(), tangent)
                tangents = [forward.unpack_dual(each(dual)).tangent for each in (call, lowered)]
            assert tangents[0].equal(tangents[1]), (str(source), str(target), length)


@pytest.mark.parametrize("name", [name for name in CALLS if name not in OF_MEMORY])
def test_transforms_agree_with_autograd(name):
    """Inside torch.func a call is lowered; outside, kernels run."""
    call, given = CALLS[name], numbers(24)
    if name.startswith("view"):
        call = lambda line: CALLS["unpack"](line)  # noqa: E731 - a view of a tracer is another call
    jacobian = torch.autograd.functional.jacobian(call, given)
    line = given.detach()
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        assert transform(call)(line).equal(jacobian)
    assert torch.autograd.functional.jacobian(call, given, vectorize=True).equal(jacobian)
    found, tangent = torch.func.jvp(call, (line,), (torch.ones_like(line),))
    assert found.equal(call(given)) and tangent.equal(jacobian.sum(-1))
    lines = torch.randn(5, 24, dtype=torch.float64)
    assert torch.vmap(call)(lines).equal(torch.stack([call(each) for each in lines]))
    weights = torch.randn_like(found)
    (gradient,) = torch.func.vjp(call, line)[1](weights)
    assert gradient.equal(torch.autograd.grad(call(given), given, weights)[0])


def test_a_parameter_from_outside_of_a_transform():
    weight = numbers(3, 4)
    found = torch.func.grad(lambda x: (gl.pack(weight, PADDED)[:12] * x).sum())(torch.ones(12, dtype=torch.float64))
    assert found.equal(gl.pack(weight.detach(), PADDED)[:12])


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float8_e5m2])
def test_gradients_of_narrow_floats_reach_through_transforms(kind):
    """Compilers get these types as integers, which have no gradients, and a transformed tensor hides its own."""
    shape, weights = f"{gl.ElementType.of(kind)}[3,4]{{0,1:PD(4,4)T(2,2)}}", torch.randn(16).to(kind).float()
    calls = {
        "pack": (lambda x: gl.pack(x, shape).float() @ weights, gl.unpack(weights.to(kind), shape).float()),
        "transpose": (lambda x: gl.transpose(x, "a b -> (b a)").float() @ weights[:12], weights[:12].view(4, 3).T),
    }
    for call, expected in calls.values():
        lines = torch.randn(5, 3, 4).to(kind).requires_grad_()
        narrow = lambda x: torch.vmap(call)(x.to(kind)).sum()  # noqa: E731, B023
        assert torch.autograd.grad(torch.vmap(call)(lines).sum(), lines)[0].float().equal(expected.expand(5, 3, 4))
        assert torch.func.grad(narrow)(lines.detach().float()).equal(expected.expand(5, 3, 4))
        line = torch.randn(3, 4).requires_grad_()
        beside = torch.vmap(lambda _: call(line.to(kind)))(torch.ones(2)).sum()  # noqa: B023
        assert torch.autograd.grad(beside, line)[0].equal(2 * expected)
        found = torch.func.functionalize(lambda x: call(x.to(kind)))(line)  # noqa: B023
        assert torch.autograd.grad(found, line)[0].equal(expected)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")  # by torch itself
def test_compiled_autograd_traces_the_way_back():
    given = numbers(3, 4).detach().requires_grad_()
    results = [gl.pack(given, PADDED).square(), gl.transpose(given, "a b -> (b a)").square()]
    expected = torch.autograd.grad(sum(each.sum() for each in results), given, retain_graph=True)[0]
    with dynamo.compiled_autograd._enable(torch.compile(backend="eager", fullgraph=True)):
        sum(each.sum() for each in results).backward()
    assert given.grad.equal(expected)


@pytest.mark.filterwarnings("ignore:`torch.jit.trace:DeprecationWarning")
def test_what_was_recorded_without_a_gradient_has_one_later():
    module = gl.torch.Pack("bf16[3,4]{0,1:PD(4,4)T(2,2)}")
    given = torch.randn(3, 4).to(torch.bfloat16)
    recorded = {
        "export": torch.export.export(module, (given,)).module(),
        "make_fx": make_fx(module)(given),
        "trace": torch.jit.trace(module, (given,)),
    }
    for name, run in recorded.items():
        line = given.clone().requires_grad_()
        found = run(line)
        assert found.equal(module(given)) and found.requires_grad, name
        assert torch.autograd.grad(found.sum(), line)[0].eq(1).all(), name


@pytest.mark.parametrize("name", [name for name in CALLS if not name.startswith("view")])
def test_results_are_contiguous_new_and_equal_to_those_without_a_gradient(name):
    given = numbers(24)
    found, plain = CALLS[name](given), CALLS[name](given.detach())
    assert found.equal(plain) and found.requires_grad and not found.is_leaf and not plain.requires_grad
    expected = torch.empty(found.shape)
    assert found.stride() == expected.stride() == plain.stride() and found.storage_offset() == 0
    assert found.untyped_storage().data_ptr() != given.untyped_storage().data_ptr()
    (gradient,) = torch.autograd.grad(found.sum(), given, retain_graph=True)
    assert gradient.shape == given.shape
    assert found._base is None  # torch would refuse to change a view in place that it has never seen made
    (doubled,) = torch.autograd.grad(found.mul_(2).sum(), given)
    assert found.equal(plain * 2) and doubled.equal(gradient * 2)


def test_gradients_with_any_strides():
    given = numbers(2, 3)
    for found in (gl.pack(given, "{0,1:PD(2,4)PV(one)}"), gl.transpose(given, "a b -> (b a)")):
        length = len(found)
        weights = torch.arange(2.0 * length, dtype=torch.float64)[::2]
        (one,) = torch.autograd.grad(found, given, weights, retain_graph=True)
        (other,) = torch.autograd.grad(found, given, weights.contiguous(), retain_graph=True)
        assert one.equal(other)
        (ones,) = torch.autograd.grad(found.sum(), given)  # an expanded number
        assert ones.equal(torch.ones(2, 3, dtype=torch.float64))


def test_padding_has_no_gradient():
    buffer = torch.arange(15.0, requires_grad=True)
    gl.unpack(buffer, "f32[2,3]{0,1:PD(3,3)}", strict=False).sum().backward()
    assert buffer.grad.tolist() == [1, 1, 0] * 3 + [0] * 6  # nor have the elements behind the buffer
    matrix = torch.zeros(2, 3, requires_grad=True)
    gl.pack(matrix, "{0,1:PD(3,3)PV(highest)}").backward(torch.arange(9.0))
    assert matrix.grad.tolist() == [[0, 3, 6], [1, 4, 7]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.complex64, torch.float8_e4m3fn])
def test_every_type_that_has_gradients(dtype):
    given = torch.arange(6.0).reshape(2, 3).to(dtype).requires_grad_()
    found = gl.pack(given, "{0,1:PD(2,4)}")
    weights = torch.arange(8.0).to(dtype)
    (gradient,) = torch.autograd.grad(found, given, weights)
    assert gradient.dtype == found.dtype == dtype
    assert gradient.to(torch.complex64).real.tolist() == [[0, 2, 4], [1, 3, 5]]
    assert (
        torch.func.vjp(lambda x: gl.pack(x, "{0,1:PD(2,4)}"), given.detach())[1](weights)[0]
        .to(torch.complex64)
        .equal(gradient.to(torch.complex64))
    )


def test_integers_have_none():
    assert not gl.pack(torch.arange(6).reshape(2, 3), "{0,1}").requires_grad


class Net(torch.nn.Module):
    """A block between two layouts."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4, dtype=torch.float64)

    def forward(self, line):
        return gl.pack(self.inner(gl.unpack(line, "f64[6,4]{0,1}")), "{0,1:T(2,2)}").sin()


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(reentrant):
    net, given = Net(), numbers(24)
    expected = torch.autograd.grad(net(given).sum(), [given, *net.parameters()])
    found = torch.utils.checkpoint.checkpoint(net, given, use_reentrant=reentrant)
    found.sum().backward()
    assert all(x.grad.equal(y) for x, y in zip([given, *net.parameters()], expected))


def test_a_checkpoint_that_keeps_the_operators():
    """Policies of selective checkpoints see operators, so a call is one."""
    seen = []

    def policy(context, operator, *arguments, **keywords):
        seen.append(str(operator))
        return torch.utils.checkpoint.CheckpointPolicy.MUST_SAVE

    given = numbers(24)
    contexts = lambda: torch.utils.checkpoint.create_selective_checkpoint_contexts(policy)  # noqa: E731
    found = torch.utils.checkpoint.checkpoint(Net(), given, use_reentrant=False, context_fn=contexts)
    found.sum().backward()
    assert seen.count("gpulayout.relayout.default") >= 2 and given.grad is not None


def test_the_profiler_names_the_operators():
    given = numbers(2, 3)
    only_cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=only_cpu, acc_events=True) as profile:  # some warn without acc_events
        gl.transpose(gl.pack(given, "{0,1}").view(3, 2)).sum().backward()
    names = [event.name for event in profile.events()]
    assert names.count("gpulayout::relayout") == names.count("gpulayout::transpose") == 2  # there and back


def test_hooks_and_saved_tensors():
    given, seen = numbers(2, 3), []
    found = gl.pack(given, "{0,1}")
    found.register_hook(lambda gradient: seen.append(gradient.clone()) or gradient * 2)
    given.register_post_accumulate_grad_hook(lambda tensor: seen.append(tensor.grad.clone()))
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: packed.append(x) or x, lambda x: x):
        gl.pack(given, "{0,1}"), gl.transpose(given)
    assert not packed  # a move keeps no tensor alive
    with torch.no_grad():
        given.zero_()  # so it does not matter what becomes of its values
    found.sum().backward()
    assert seen[0].equal(torch.ones(6, dtype=torch.float64)) and seen[1].equal(torch.full((2, 3), 2.0).double())


def test_changes_in_place_of_a_result_and_of_a_view():
    given = numbers(2, 3)
    found = gl.pack(given, "{0,1}")
    square = found**2
    found.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.sum().backward()
    found.sum().backward()
    assert given.grad.equal(torch.full((2, 3), 2.0).double())

    base = given.detach().clone().reshape(-1)
    seen = gl.view(base, "f64[2,3]{0,1}")
    factor = numbers(2, 3)
    seen.mul_(factor)  # `base` gets a history through its view
    assert base.requires_grad
    gl.unpack(base, "f64[2,3]{0,1}").sum().backward()
    assert factor.grad.equal(gl.unpack(given.detach().reshape(-1), "f64[2,3]{0,1}"))
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        gl.view(numbers(6), "f64[2,3]{0,1}").zero_()


def test_an_output_that_is_written_to_is_a_change():
    """A tensor that was saved for a gradient and then written to, as `out`, makes backward raise."""
    factor, out = numbers(6), torch.ones(6, dtype=torch.float64)
    calls = {
        "pack": lambda: gl.pack(torch.zeros(2, 3).double(), "{0,1}", out=out),
        "unpack": lambda: gl.unpack(torch.zeros(6).double(), "f64[2,3]{0,1}", out=out.view(2, 3)),
        "relayout": lambda: gl.relayout(torch.zeros(6).double(), "f64[2,3]", "F", out=out),
        "in place": lambda: gl.relayout(out, "f64[2,3]", "F", out=out),
        "relayout_many": lambda: gl.relayout_many([(torch.zeros(6).double(), "f64[2,3]", "F")], out=[out]),
        "transpose": lambda: gl.transpose(torch.zeros(2, 3).double(), out=out.view(3, 2)),
        "arithmetic": lambda: gl.pack(torch.zeros(2, 3), "{0,1}", dtype="f64", out=out),
    }
    for call in calls.values():
        total = (factor * out).sum()
        call()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            total.backward()


def test_autocast_moves_what_it_is_given():
    given = numbers(2, 3, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = gl.pack(given, "{0,1}")
        product = gl.transpose(torch.mm(given, given.t()))
    assert found.dtype == torch.float32 and product.dtype == torch.bfloat16
    (found.sum() + product.sum()).backward()
    assert given.grad.dtype == torch.float32


def test_threads_share_the_functions():
    results = {}

    def work(number):
        given = torch.full((8, 8), float(number), requires_grad=True)
        for _ in range(30):
            found = gl.transpose(gl.unpack(gl.pack(given, "{1,0:T(4,4)}"), "f32[8,8]{1,0:T(4,4)}"))
        (found * number).sum().backward()
        results[number] = given.grad

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(results[number].equal(torch.full((8, 8), float(number))) for number in range(6))


def test_errors_are_those_of_a_call_without_a_gradient():
    given = numbers(24)
    for call in (
        lambda x: gl.pack(x, "f64[6,4]"),
        lambda x: gl.pack(x.view(4, 6), "f32[4,6]"),
        lambda x: gl.pack(x, "{0,1}"),
        lambda x: gl.unpack(x, "f64[5,5]"),
        lambda x: gl.unpack(x[::2], "f64[12]"),
        lambda x: gl.unpack(x, "f32[24]"),
        lambda x: gl.relayout(x.view(4, 6), "{0,1}", "C"),
        lambda x: gl.relayout(x, "u4[24]{0:E(4)}", "u4[24]"),
        lambda x: gl.transpose(x, "a b -> b a"),
        lambda x: gl.transpose(x, (0, 1)),
        lambda x: gl.transpose(x, (True,)),
        lambda x: gl.transpose(x, "(a b) -> b a", a=5),
        lambda x: gl.transpose(x, "(a b) -> b a", a=2.0),
        lambda x: gl.view(x, "f64[25]"),
    ):
        texts = []
        for tensor in (given, given.detach()):
            with pytest.raises((TypeError, ValueError, BufferError)) as caught:
                call(tensor)
            texts.append((type(caught.value), str(caught.value)))
        assert texts[0] == texts[1]


def test_sizes_that_equal_others_do_not_reach_the_kept_moves():
    given = numbers(6)
    assert gl.transpose(given, "(a b) -> b a", a=1).shape == (6, 1)
    with pytest.raises(TypeError):
        gl.transpose(given, "(a b) -> b a", a=True)


def test_tensors_of_other_sizes_strides_and_types_have_moves_of_their_own():
    """The words of the calls are the same, and each is one of many: it is that of torch's own operations."""
    whole = numbers(6, 4)
    calls = [
        lambda x: gl.pack(x, "{0,1:T(2,2)}"),
        lambda x: gl.pack(x, "{0,1}", scale=3),
        lambda x: gl.transpose(x),
        lambda x: gl.transpose(x, "(a b) c -> c b a", a=2),
        lambda x: gl.transpose(x, "(a b) c -> c b a", b=2),
    ]
    for given in (whole, whole[:4], whole[:, ::2], whole[:2].t(), whole.float(), whole):
        for call in calls:
            found = call(given)
            weights = torch.randn_like(found)
            expected, way_back = torch.func.vjp(call, given.detach())
            assert found.equal(expected)
            assert torch.autograd.grad(found, given, weights)[0].equal(way_back(weights)[0])


def test_a_tensor_that_is_no_such_buffer_is_refused_after_one_that_is():
    call = lambda x: gl.unpack(x, "f64[6,4]{0,1}")  # noqa: E731
    assert call(numbers(4, 6).t()).shape == (6, 4)
    with pytest.raises(BufferError):
        call(numbers(6, 4))


def test_layouts_that_only_permute_one_axis():
    """Their buffers have the sizes of the array, and are not the array."""
    one, other = "f64[12]{0:T(6)(2,1)}", "f64[12]{0:T(3)(4,1)}"
    weights = torch.arange(12.0, dtype=torch.float64)
    for call, back in (
        (lambda x: gl.pack(x, one), lambda x: gl.unpack(x, one)),
        (lambda x: gl.unpack(x, one), lambda x: gl.pack(x, one)),
        (lambda x: gl.relayout(x, one, other), lambda x: gl.relayout(x, other, one)),
    ):
        given = numbers(12)
        found = call(given)
        assert found.equal(call(given.detach())) and not found.equal(given)
        assert torch.autograd.grad(found, given, weights)[0].equal(back(weights))


class Blocked(torch.autograd.Function):
    """Passes numbers on, and no gradient."""

    @staticmethod
    def forward(ctx, given):
        return given.clone()

    @staticmethod
    def backward(ctx, gradient):
        return None


@pytest.mark.parametrize("options", [{}, {"scale": 2}])
def test_no_gradient_stays_none(options):
    """As in torch's own operations, it does not become zeros on the way."""
    given = numbers(2, 3)
    for found in (gl.pack(given, "{0,1}", **options), gl.transpose(given, **options), given * 2):
        assert torch.autograd.grad(Blocked.apply(found).sum(), given, allow_unused=True) == (None,)


def test_a_gradient_of_a_conjugated_gradient_of_complex_elements():
    given, weights = numbers(3, 4, dtype=torch.complex128), numbers(16, dtype=torch.complex128)
    for call in (
        lambda x: gl.pack(x, "{0,1:PD(4,4)}"),
        lambda x: torch.nn.functional.pad(gl.transpose(x).flatten(), [0, 4]),
    ):
        (gradient,) = torch.autograd.grad(call(given), given, weights.conj(), create_graph=True)
        (again,) = torch.autograd.grad(gradient, weights, torch.full((3, 4), 1 + 2j).to(gradient.dtype).conj())
        assert sorted(again.tolist(), key=abs) == [0] * 4 + [1 + 2j] * 12
    (gradient,) = torch.autograd.grad(
        torch.ops.gpulayout.transpose(given, [3, 4], [1, 0], [4, 3]),
        given,
        weights[:12].view(4, 3).conj(),
        create_graph=True,
    )
    assert gradient.requires_grad


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_a_tensor_without_memory_keeps_its_gradient(device):
    found = gl.transpose(torch.empty(2, 3, device=device, requires_grad=True))
    assert found.device.type == device and found.requires_grad and found.shape == (3, 2)


def test_operators_inside_of_torch_func():
    given = numbers(2, 3)
    call = lambda x: torch.ops.gpulayout.relayout(x, "f64[2,3]", "f64[2,3]{0,1:PD(3,3)PV(one)}", [9])  # noqa: E731
    turned = lambda x: torch.ops.gpulayout.transpose(x, [2, 3], [1, 0], [3, 2])  # noqa: E731
    plain = given.detach()
    for each in (call, turned):
        assert torch.func.grad(lambda x: each(x).square().sum())(plain).equal(2 * plain)  # noqa: B023
        assert torch.func.vmap(each)(plain[None])[0].equal(each(plain))
        assert torch.func.jacrev(each)(plain).equal(torch.func.jacfwd(each)(plain))


def test_operators_keep_torch_s_rules():
    """torch.library.opcheck: schema, fake results, autograd, and compiled with open sizes."""
    source, target = "f32[2,3]{1,0}", "f32[2,3]{0,1:PD(3,4)PV(one)}"
    strided, followed = torch.randn(3, 2).t(), torch.randn(2, 3, requires_grad=True)
    torch.library.opcheck(torch.ops.gpulayout.relayout.default, (followed, source, target, (12,)))
    torch.library.opcheck(torch.ops.gpulayout.relayout.default, (strided, source, source, (8,)))
    for given in (strided, followed):
        torch.library.opcheck(torch.ops.gpulayout.transpose.default, (given, (2, 3, 1), (2, 1, 0), (3, 2)))


def test_direct_calls_of_the_operators_have_gradients():
    given = numbers(2, 3)
    found = torch.ops.gpulayout.relayout(given, "f64[2,3]", "f64[2,3]{0,1:PD(3,3)PV(one)}", [9])
    assert found.equal(gl.pack(given, "{0,1:PD(3,3)PV(one)}")) and found.requires_grad
    call = lambda x: torch.ops.gpulayout.transpose(x, [2, 3], [1, 0], [3, 2])  # noqa: E731
    assert torch.autograd.gradcheck(call, given, check_forward_ad=True)


def test_numpy_and_torch_agree_beside_a_gradient():
    given = numbers(4, 5)
    layout = random_layout(random.Random(5), (4, 5))
    assert np.array_equal(gl.pack(given, layout).detach(), gl.pack(given.detach().numpy(), layout))
