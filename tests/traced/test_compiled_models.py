"""Models whose layouts are gpulayout's: compiled, exported, with sizes that stay open, trained."""

import re
import shutil
import subprocess
import sys

import pytest

import gpulayout as gl
from tests.support.effort import ALL

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo.testing")
functional = torch.nn.functional
TILES = "{1,0:T(8,4)}"
BACKENDS = ["aot_eager", "inductor"] if ALL and shutil.which("g++") else ["aot_eager"]


@pytest.fixture(autouse=True)
def _forget():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


# ---- sizes that stay open ------------------------------------------------------------------------------------------


OPEN = {
    "a permute": lambda x: gl.transpose(x, "n h w c -> n c h w"),
    "axes joined": lambda x: gl.transpose(x, "n h w c -> (n h) (c w)"),
    "axes split": lambda x: gl.transpose(x, "n (h a) w c -> n a c (h w)", a=2),
    "numbers": lambda x: gl.transpose(x, (3, 0, 1, 2)),
    "reversed": lambda x: gl.transpose(x),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", OPEN)
@pytest.mark.parametrize("how", ["dynamic=True", "mark_dynamic"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # by Inductor itself
def test_a_transpose_has_one_graph_for_every_batch(name, how, backend):
    call, count = OPEN[name], torch._dynamo.testing.CompileCounterWithBackend(backend)
    compiled = torch.compile(call, backend=count, fullgraph=True, dynamic=True if how == "dynamic=True" else None)
    for batch in (2, 3, 7):
        x = torch.randn(batch, 4, 5, 3)
        if how == "mark_dynamic":
            torch._dynamo.mark_dynamic(x, 0)
        assert compiled(x).equal(call(x))
    assert count.frame_count == 1


def test_calls_elsewhere_do_not_compile_a_graph_again():
    count = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(
        lambda x: gl.transpose(gl.unpack(gl.pack(x, TILES), gl.Shape("f32", (10, 6), TILES))), backend=count
    )
    for _ in range(3):
        assert compiled(torch.ones(10, 6)).equal(torch.ones(6, 10))
        gl.transpose(torch.zeros(2, 3).as_subclass(type("Other", (torch.Tensor,), {})))  # a kind of array never seen
    assert count.frame_count == 1


def test_a_layout_fixes_the_sizes():
    """Another size compiles again; `dynamic=True` is no error."""
    count = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(lambda x: gl.pack(x, TILES), backend=count, fullgraph=True, dynamic=True)
    for rows in (8, 9, 8):
        x = torch.randn(rows, 5)
        assert compiled(x).equal(gl.pack(x, TILES))
    assert count.frame_count == 2


def test_bf16_moves_as_integers_in_a_graph():
    """Inductor computes with it as f32, and so would change the bits of nans.  But not where a gradient follows it."""
    kinds = []

    def backend(graph, _):
        kinds.append("torch.int16" in graph.code)
        return graph.forward

    codes = torch.arange(-(1 << 15), 1 << 15).to(torch.int16)
    given = codes.view(torch.bfloat16).reshape(256, 256)
    for call in (gl.transpose, lambda x: gl.pack(x, "{0,1:PD(257,256)}")):
        found = torch.compile(call, fullgraph=True, backend=backend)(given)
        assert found.view(torch.int16).equal(call(given).view(torch.int16))
        torch._dynamo.reset()
        assert torch.compile(torch.func.grad(lambda x: call(x).sum()), fullgraph=True, backend=backend)(given).equal(  # noqa: B023
            torch.ones_like(given)
        )
        torch._dynamo.reset()
    assert kinds == [True, False] * 2


def test_jax_may_be_imported_without_compiling_again():
    code = """if True:
        import sys, torch, torch._dynamo.testing, gpulayout as gl
        count = torch._dynamo.testing.CompileCounter()
        call = lambda x: gl.transpose(gl.pack(x, "{0,1:T(2,2)}").reshape(2, 4))
        compiled = torch.compile(call, backend=count, fullgraph=True)
        compiled(torch.ones(2, 3))
        assert "jax" not in sys.modules
        import jax
        compiled(torch.ones(2, 3))
        print(count.frame_count)
    """
    pytest.importorskip("jax")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"


# ---- gradients and out ---------------------------------------------------------------------------------------------


def through(x):
    """Padding, tiles, a relayout and back: the identity, times the number of each element."""
    packed = gl.pack(x, TILES)
    turned = gl.relayout(packed, gl.Shape(x.dtype, x.shape, TILES), "{0,1:PD(12,8)PV(one)}")
    back = gl.unpack(turned, gl.Shape(x.dtype, x.shape, "{0,1:PD(12,8)PV(one)}"))
    return gl.transpose(gl.transpose(back)) * torch.arange(x.numel(), dtype=x.dtype).reshape(x.shape)


@pytest.mark.one_in(3)
@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # by Inductor itself
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_gradients_go_through_compiled_calls(backend):
    x = torch.randn(10, 6, requires_grad=True)
    found = torch.compile(through, backend=backend, fullgraph=True)(x)
    numbers = torch.arange(60.0).reshape(10, 6)
    assert found.equal(x * numbers) and found.requires_grad
    found.sum().backward()
    assert x.grad.equal(numbers)


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # by torch itself, in jvp
def test_transforms_differentiate_calls():
    x, numbers = torch.randn(10, 6, dtype=torch.float64), torch.arange(60.0, dtype=torch.float64).reshape(10, 6)
    func = torch.func
    assert func.grad(lambda x: through(x).sum())(x).equal(numbers)
    assert func.jvp(through, (x,), (2 * x,))[1].equal(2 * x * numbers)
    assert func.jacrev(through)(x).reshape(60, 60).equal(func.jacfwd(through)(x).reshape(60, 60))
    assert (
        func.hessian(lambda x: (through(x) ** 2).sum())(x)
        .reshape(60, 60)
        .equal(torch.diag(2 * numbers.reshape(-1) ** 2))
    )
    stack = torch.stack([x, -x])
    assert func.vmap(through)(stack).equal(stack * numbers)
    assert func.vmap(func.grad(lambda x: through(x).sum()))(stack).equal(numbers.expand(2, 10, 6))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_out_is_written_in_the_graph(backend):
    def write(x, line, cache):
        gl.pack(x + 1, TILES, out=line)
        return gl.transpose(x, out=cache[1]) + 1

    x, lines, caches = torch.randn(10, 6), torch.zeros(2, 128), torch.zeros(2, 2, 6, 10)
    found = torch.compile(write, backend=backend, fullgraph=True)(x, lines[0], caches[0])
    assert found.equal(write(x, lines[1], caches[1]))
    assert lines[0].equal(lines[1]) and caches[0].equal(caches[1]) and lines.any() and caches.any()


def test_fake_tensors_have_the_shapes_of_results():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.zeros(10, 6, dtype=torch.float8_e5m2)
        assert gl.pack(x, TILES).shape == (128,) and gl.transpose(x).shape == (6, 10)
        assert gl.unpack(gl.pack(x, TILES), "f8e5m2[10,6]" + TILES).dtype == torch.float8_e5m2


# ---- export --------------------------------------------------------------------------------------------------------


class Turned(torch.nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.linear, self.fixed = torch.nn.Linear(6, 4), fixed

    def forward(self, x):
        x = gl.transpose(x, "n c s -> n s c") if not self.fixed else gl.unpack(gl.pack(x, "{1,2,0:T(3,2)}"), FIXED)
        return self.linear(x)


FIXED = "f32[2,5,6]{1,2,0:T(3,2)}"
WITHOUT = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "gpulayout":
            raise ImportError("gpulayout is not here")
sys.meta_path.insert(0, Blocker())
import torch
path, given, wanted = sys.argv[1:]
found = torch.export.load(path).module()(torch.load(given))
assert found.equal(torch.load(wanted)) and "gpulayout" not in sys.modules
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("fixed", [False, True], ids=["an open batch", "a layout"])
def test_an_exported_program_runs_without_this_package(tmp_path, fixed, strict):
    model = Turned(fixed).eval()
    x = torch.randn(2, 5, 6) if fixed else torch.randn(3, 6, 5)
    shapes = None if fixed else {"x": {0: torch.export.Dim("batch", min=1, max=64)}}
    program = torch.export.export(model, (x,), dynamic_shapes=shapes, strict=strict)
    given = x if fixed else torch.randn(9, 6, 5)
    assert program.module()(given).equal(model(given))
    if strict or (fixed and not ALL):  # saved the same, and a process takes seconds to import torch
        return
    torch.export.save(program, tmp_path / "model.pt2")
    torch.save(given, tmp_path / "given.pt")
    torch.save(model(given).detach(), tmp_path / "wanted.pt")
    files = [str(tmp_path / name) for name in ("model.pt2", "given.pt", "wanted.pt")]
    subprocess.run([sys.executable, "-c", WITHOUT, *files], check=True, cwd=tmp_path)


# ---- cost ----------------------------------------------------------------------------------------------------------


BY_HAND = {
    "tiles of 8x128": (
        lambda x: gl.pack(x * 2, "{1,0:T(8,128)}"),
        lambda x: (x * 2).reshape(4, 8, 2, 128).permute(0, 2, 1, 3).reshape(-1).clone(),
        (32, 256),
    ),
    "tiles of 8x128, back": (
        lambda x: gl.unpack(x * 2, "f32[32,256]{1,0:T(8,128)}"),
        lambda x: (x * 2).reshape(4, 2, 8, 128).permute(0, 2, 1, 3).reshape(32, 256).clone(),
        (8192,),
    ),
    "BSHD to BHSD": (
        lambda x: gl.transpose(x * 2, "b s h d -> b h s d"),
        lambda x: (x * 2).permute(0, 2, 1, 3).contiguous(),
        (2, 16, 4, 8),
    ),
    "NCHW to NHWC, padded": (
        lambda x: gl.pack(x * 2, "{1,3,2,0:PD(2,4,14,16)}"),
        lambda x: functional.pad((x * 2).permute(0, 2, 3, 1), (0, 1, 0, 2)).reshape(-1),
        (2, 3, 14, 14),
    ),
}


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # by Inductor itself
@pytest.mark.parametrize("name", [*BY_HAND] if ALL else [*BY_HAND][:1])
def test_inductor_writes_the_kernel_of_the_line_by_hand(name):
    """The compiled function costs what the hand-written line does, because its machine code is the same."""
    inductor = pytest.importorskip("torch._inductor.utils")
    if not shutil.which("g++"):
        pytest.skip("Inductor needs g++")
    *calls, sizes = BY_HAND[name]
    x, kernels, results = torch.randn(sizes), [], []
    for call in calls:
        torch._dynamo.reset()
        found, (code,) = inductor.run_and_get_code(torch.compile(call, fullgraph=True), x)
        kernels.append(re.findall(r'extern "C".*?\n}\n', code, re.S))
        results.append(found)
    assert results[0].equal(results[1]) and results[0].equal(calls[0](x))
    assert len(kernels[0]) == 1 and kernels[0] == kernels[1]


# ---- models --------------------------------------------------------------------------------------------------------


class Block(torch.nn.Module):
    """A convolution of images in channels-last order, as a kernel of its own would take them."""

    def __init__(self, channels_last):
        super().__init__()
        self.first, self.last = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Linear(8, 4)
        self.channels_last = channels_last

    def forward(self, images):
        x = functional.relu(self.first(images))
        if self.channels_last:
            x = gl.transpose(x, "n c h w -> n h w c")
            x = gl.transpose(functional.layer_norm(x, (8,)), "n h w c -> n c h w")
        else:
            x = functional.layer_norm(x.permute(0, 2, 3, 1), (8,)).permute(0, 3, 1, 2)
        return self.last(x.mean((2, 3)))


@pytest.mark.parametrize("how", ["eager", *BACKENDS])
@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # by Inductor itself
def test_a_small_cnn_trains_as_the_plain_one(how):
    """Twenty steps, bit for bit but for the order of sums."""
    losses = []
    for channels_last in (False, True):
        torch.manual_seed(1)
        model = Block(channels_last)
        run = model if how == "eager" else torch.compile(model, backend=how, fullgraph=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        images, labels = torch.randn(16, 3, 8, 8), torch.randint(0, 4, (16,))
        for _ in range(20):
            optimizer.zero_grad()
            loss = functional.cross_entropy(run(images), labels)
            loss.backward()
            optimizer.step()
        losses.append((loss.item(), [each.detach().clone() for each in model.parameters()]))
    (plain, wanted), (other, found) = losses
    assert plain < 1.38 and other == pytest.approx(plain, rel=1e-5)
    for one, two in zip(found, wanted):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # by Inductor itself
def test_compiled_attention_between_two_orders(backend):
    def attend(q, k, v):
        q, k, v = (gl.transpose(each, "b s h d -> b h s d") for each in (q, k, v))
        return gl.transpose(functional.scaled_dot_product_attention(q, k, v), "b h s d -> b s h d")

    q, k, v = (torch.randn(2, 16, 4, 8, requires_grad=True) for _ in range(3))
    plain = functional.scaled_dot_product_attention(*(each.transpose(1, 2) for each in (q, k, v))).transpose(1, 2)
    found = torch.compile(attend, backend=backend, fullgraph=True)(q, k, v)
    torch.testing.assert_close(found, plain)
    gradients = [torch.autograd.grad(result.square().sum(), (q, k, v), retain_graph=True) for result in (found, plain)]
    for one, two in zip(*gradients):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # by Inductor itself
def test_a_page_of_a_cache_in_its_layout(backend):
    """Keys of 16 tokens, 2 heads, 8 wide, as vLLM's `[heads, width / x, tokens, x]`; the caller gathers pages."""
    page = gl.Shape("bf16", (16, 2, 8), gl.plan("bf16[16,2,8]", "t h (d x=4) -> h d t x").target.layout)
    cache, table = torch.zeros(5, page.buffer_size, dtype=torch.bfloat16), torch.tensor([3, 1])

    def write_and_read(cache, table, keys):
        pages = torch.stack([gl.pack(each, page) for each in keys])
        cache = cache.index_copy(0, table, pages)
        return cache, torch.stack([gl.unpack(each, page) for each in cache[table.flip(0)].unbind()])

    keys = torch.randn(2, 16, 2, 8, dtype=torch.bfloat16)
    filled, read = torch.compile(write_and_read, backend=backend, fullgraph=True)(cache, table, keys)
    assert read.equal(keys.flip(0))
    assert filled[3].equal(keys[0].reshape(16, 2, 2, 4).permute(1, 2, 0, 3).reshape(-1)) and not filled[0].any()
