"""The modules of `gl.torch`: in models, compiled, exported, copied and stored."""

import copy
import io
import pickle
import subprocess
import sys

import pytest

import gpulayout as gl

torch = pytest.importorskip("torch")

LINE = torch.arange(6.0)
MATRIX = LINE.view(2, 3)
# A module, what it prints, an input, and the function that does the same.
MODULES = {
    "Relayout": (
        lambda: gl.torch.Relayout("f32[2,3]", "{0,1:PD(2,4)}"),
        "Relayout(f32[2,3]{1,0} -> f32[2,3]{0,1:PD(2,4)})",
        LINE,
        lambda x: gl.relayout(x, "f32[2,3]", "{0,1:PD(2,4)}"),
    ),
    "Pack, a layout": (
        lambda: gl.torch.Pack(gl.Layout((0, 1), tiles=[(2, 2)])),
        "Pack({0,1:T(2,2)})",
        MATRIX,
        lambda x: gl.pack(x, "{0,1:T(2,2)}"),
    ),
    "Pack, a shape": (
        lambda: gl.torch.Pack("f32[2,3]{0,1}"),
        "Pack(f32[2,3]{0,1})",
        MATRIX,
        lambda x: gl.pack(x, "F"),
    ),
    "Unpack": (
        lambda: gl.torch.Unpack("f32[2,3]{0,1}"),
        "Unpack(f32[2,3]{0,1})",
        LINE,
        lambda x: gl.unpack(x, "f32[2,3]{0,1}"),
    ),
    "Transpose, a pattern": (
        lambda: gl.torch.Transpose("a (b c) -> c (a b)", c=3),
        "Transpose('a (b c) -> c (a b)', c=3)",
        MATRIX,
        lambda x: gl.transpose(x, "a (b c) -> c (a b)", c=3),
    ),
    "Transpose, axes": (
        lambda: gl.torch.Transpose([1, 0]),
        "Transpose((1, 0))",
        MATRIX,
        lambda x: gl.transpose(x),
    ),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_its_function(name):
    make, shown, given, function = MODULES[name]
    module, expected = make(), function(given)
    assert module(given).equal(expected) and module(given).is_contiguous()
    assert repr(module) == shown
    assert not module.state_dict() and not list(module.parameters()) and not list(module.buffers())
    followed = given.clone().requires_grad_()
    module(followed).sum().backward()
    assert followed.grad.equal(torch.ones_like(given))


@pytest.mark.parametrize("name", MODULES)
def test_it_is_stored_and_copied(name):
    make, shown, given, function = MODULES[name]
    module, memory = make(), io.BytesIO()
    torch.save(torch.nn.Sequential(module), memory)
    memory.seek(0)
    for found in (
        pickle.loads(pickle.dumps(module)),
        copy.deepcopy(module),
        torch.load(memory, weights_only=False)[0],
        make().train(False).to(torch.float64),
    ):
        assert type(found) is type(module) and repr(found) == shown and found(given).equal(function(given))
    assert b"gpulayout.torch" in pickle.dumps(module) and b"gpulayout.torch.modules" not in pickle.dumps(module)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", MODULES)
def test_it_is_compiled_without_a_break_and_exported(name):
    make, _, given, function = MODULES[name]
    model = torch.nn.Sequential(make(), torch.nn.ReLU())
    for backend in ("eager", "aot_eager"):
        torch._dynamo.reset()
        followed = given.clone().requires_grad_()
        found = torch.compile(model, fullgraph=True, backend=backend)(followed)
        found.sum().backward()
        assert found.equal(function(given).relu()) and followed.grad.equal((given > 0).float())
    torch._dynamo.reset()
    assert torch.export.export(model, (given,)).module()(given).equal(function(given).relu())


def test_a_model_trains_through_them():
    """Equal to the same model in torch's own words, number by number."""
    torch.manual_seed(0)
    own = torch.nn.Sequential(
        gl.torch.Unpack("f32[4,6]{0,1:T(2,2)}"),
        torch.nn.Linear(6, 6),
        gl.torch.Transpose("a (b c) -> c (b a)", b=2),
        torch.nn.Linear(8, 1),
        gl.torch.Pack("{0,1}"),
    )
    linear = copy.deepcopy(own[1]), copy.deepcopy(own[3])

    def plain(buffer):
        matrix = gl.unpack(buffer, "f32[4,6]{0,1:T(2,2)}")
        hidden = linear[0](matrix).reshape(4, 2, 3).permute(2, 1, 0).reshape(3, 8)
        return linear[1](hidden).t().reshape(-1)

    parameters = [*linear[0].parameters(), *linear[1].parameters()]
    pairs = [(own, torch.optim.SGD(own.parameters(), 0.1)), (plain, torch.optim.SGD(parameters, 0.1))]
    for _ in range(5):
        buffer = torch.randn(gl.Shape("f32", (4, 6), gl.parse_layout("{0,1:T(2,2)}")).buffer_length)
        losses = []
        for model, optimizer in pairs:
            optimizer.zero_grad()
            loss = (model(buffer) ** 2).sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[0] == losses[1]
    assert all(one.equal(other) for one, other in zip(own.parameters(), parameters))


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")
def test_torchscript_is_refused():
    with pytest.raises(TypeError, match="^Transpose cannot be scripted, .* torch.export.export or torch.compile"):
        torch.jit.script(torch.nn.Sequential(gl.torch.Transpose("a b -> b a")))


def test_mistakes_are_found_when_a_module_is_made():
    for make, error, text in (
        (lambda: gl.torch.Relayout("f32[2,3]", "f32[3,2]"), gl.LayoutError, "not the same logical array"),
        (lambda: gl.torch.Relayout("{0,1}", "{1,0}"), ValueError, "is only a layout"),
        (lambda: gl.torch.Pack("{0,0}"), gl.LayoutError, "minor_to_major"),
        (lambda: gl.torch.Pack(3), TypeError, "shape must be a Shape"),
        (lambda: gl.torch.Pack("{0,1}", size=2), TypeError, "'size' is not a keyword of this call"),
        (lambda: gl.torch.Transpose("a b -> b a", scales=2), TypeError, "'scales' is neither .* did you mean scale?"),
        (lambda: gl.torch.Unpack("f32[?]"), gl.LayoutError, "dimension 0 is unbounded"),
        (lambda: gl.torch.Pack("f32[?]"), gl.LayoutError, "dimension 0 is unbounded"),
        (lambda: gl.torch.Unpack("f32[2]", scales=2), TypeError, "did you mean scale?"),
        (lambda: gl.torch.Transpose("a b -> b"), gl.LayoutError, "has no a on the right"),
        (lambda: gl.torch.Transpose("a b -> b a", c=2), gl.LayoutError, "has no axis c"),
        (lambda: gl.torch.Transpose((1, 0), c=2), TypeError, "belong to a pattern"),
    ):
        with pytest.raises(error, match=text):
            make()


def test_it_is_loaded_when_it_is_used():
    code = (
        "import sys, gpulayout as gl; assert gl.torch and 'torch' not in sys.modules and 'torch' in dir(gl)\n"
        "assert gl.torch.Transpose and 'torch' in sys.modules\n"
        "from gpulayout.torch import Relayout; assert gl.torch.Relayout is Relayout\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_torch_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['torch'] = None\nimport gpulayout as gl\nprint(gl.pack([1], 'u8[1]'))\ngl.torch.Pack"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[1]\n" and "pip install 'gpulayout[torch]'" in done.stderr.splitlines()[-1]
