"""Ready maps, judged by the frameworks themselves: a model exported by one and loaded by the other computes the same.

The models are small and random, all their sizes differ, and no bias, scale or statistic is 0 or 1.
"""

import os
import warnings

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "jax")  # read when keras is imported
torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
jax = pytest.importorskip("jax")
pytestmark = pytest.mark.filterwarnings(r"ignore:jax\.:DeprecationWarning")  # names of JAX that Flax still uses
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", r"jax\.", DeprecationWarning)
    flax = pytest.importorskip("flax")
    keras = pytest.importorskip("keras")

    import safetensors.flax
    import safetensors.numpy
    import safetensors.torch
    from flax import linen, nnx
    from torch import nn

import gpulayout as gl  # noqa: E402
from gpulayout.files.checkpoints.maps import ready_maps  # noqa: E402
from tests.support.effort import ALL  # noqa: E402

RANDOM = np.random.default_rng(5)


def numbers(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def shaken(name, array):
    """A parameter with other values than those it begins with; a variance stays positive."""
    array = np.asarray(array)
    if array.dtype != np.float32:
        return array
    return (
        np.abs(numbers(*array.shape)) + 0.5 if "var" in name else 0.3 * numbers(*array.shape) + (array.ndim == 1) * 0.7
    )


def moved(folder, rules, *, convolutions=True, **options):
    """Convert in.safetensors, in which no convolution is transposed."""
    out, assume = folder / "out.safetensors", {".*": "conv"} if convolutions else {}
    return gl.relayout_file(folder / "in.safetensors", out, tensors=rules, assume=assume, **options)


def same(ours, theirs):
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=2e-4, atol=2e-5)


def channels_first(images):
    return torch.tensor(np.moveaxis(images, -1, 1).copy())


# ---- flax to torch -------------------------------------------------------------------------------------------


class LinenNet(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.Conv(6, (3, 5), name="first")(x)
        x = linen.BatchNorm(use_running_average=True, name="norm")(x)
        x = linen.relu(x)
        x = linen.Conv(6, (3, 3), feature_group_count=6, name="depthwise")(x)
        x = x.reshape(x.shape[0], -1)
        return linen.Dense(7, name="last")(x)


class TorchNet(nn.Module):
    """The same network; `same` padding as Flax has it."""

    def __init__(self, height=4, width=5):
        super().__init__()
        self.first = nn.Conv2d(3, 6, (3, 5), padding="same")
        self.norm = nn.BatchNorm2d(6)
        self.depthwise = nn.Conv2d(6, 6, 3, groups=6, padding="same")
        self.last = nn.Linear(6 * height * width, 7)

    def forward(self, x):
        x = self.depthwise(torch.relu(self.norm(self.first(x))))
        return self.last(x.flatten(1))


def variables_of(module, *inputs):
    """The flat variables of a Linen module, all shaken."""
    found = flax.traverse_util.flatten_dict(module.init(jax.random.key(0), *inputs), sep="/")
    return {name: shaken(name, each) for name, each in found.items()}


def nested(flat):
    return flax.traverse_util.unflatten_dict(flat, sep="/")


FLATTEN = {r"(.*)last.kernel": r"(h=4 w=5 c) o -> o (c h w); name=last.weight"}  # channels last, to channels first


@pytest.mark.parametrize("separator", ["/", "."])
def test_a_flax_network_in_torch(tmp_path, separator):
    images = numbers(2, 4, 5, 3)
    flat = variables_of(LinenNet(), images)
    stored = {name.replace("/", separator): each for name, each in flat.items()}
    safetensors.flax.save_file(
        {name: jax.numpy.asarray(each) for name, each in stored.items()}, tmp_path / "in.safetensors"
    )
    moved(tmp_path, [FLATTEN, "flax-to-torch"])
    net = TorchNet().eval()
    net.load_state_dict(safetensors.torch.load_file(tmp_path / "out.safetensors"))
    same(LinenNet().apply(nested(flat), images), net(channels_first(images)).detach())


class LinenBlock(linen.Module):
    @linen.compact
    def __call__(self, tokens):
        x = linen.Embed(13, 12, name="embed")(tokens)
        y = linen.LayerNorm(name="before", epsilon=1e-5)(x)
        x = x + linen.MultiHeadDotProductAttention(3, qkv_features=12, name="attention")(y, y)
        y = linen.LayerNorm(name="between", epsilon=1e-5)(x)
        return x + linen.Dense(12, name="down")(linen.relu(linen.Dense(20, name="up")(y)))


class TorchAttention(nn.Module):
    def __init__(self, width, heads, out="out", size=None):
        super().__init__()
        self.heads, self.name = heads, out
        inner = heads * size if size else width
        for name in ("query", "key", "value"):
            setattr(self, name, nn.Linear(width, inner))
        setattr(self, out, nn.Linear(inner, width))

    def forward(self, x):
        split = [
            getattr(self, name)(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for name in ("query", "key", "value")
        ]
        joined = nn.functional.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2)
        return getattr(self, self.name)(joined)


class TorchBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.attention = nn.Embedding(13, 12), TorchAttention(12, 3)
        self.before, self.between = nn.LayerNorm(12), nn.LayerNorm(12)
        self.up, self.down = nn.Linear(12, 20), nn.Linear(20, 12)

    def forward(self, tokens):
        x = self.embed(tokens)
        x = x + self.attention(self.before(x))
        return x + self.down(torch.relu(self.up(self.between(x))))


def test_a_flax_transformer_block_in_torch(tmp_path):
    tokens = RANDOM.integers(0, 13, (2, 5))
    flat = variables_of(LinenBlock(), tokens)
    safetensors.numpy.save_file(flat, tmp_path / "in.safetensors")
    moved(tmp_path, "flax-to-torch", convolutions=False)
    block = TorchBlock()
    block.load_state_dict(safetensors.torch.load_file(tmp_path / "out.safetensors"))
    same(LinenBlock().apply(nested(flat), tokens), block(torch.tensor(tokens)).detach())


class NnxNet(nnx.Module):
    def __init__(self, rngs):
        self.layers = nnx.List([nnx.Linear(5, 8, rngs=rngs), nnx.Linear(8, 8, rngs=rngs)])
        self.norm = nnx.BatchNorm(8, rngs=rngs, use_running_average=True)
        self.conv = nnx.Conv(8, 9, (3,), rngs=rngs, padding="SAME")
        self.dropout = nnx.Dropout(0.5, deterministic=True, rngs=rngs)  # its state of random numbers is not saved

    def __call__(self, x):
        for each in self.layers:
            x = self.dropout(nnx.relu(each(x)))
        return self.conv(self.norm(x))


def test_an_nnx_network_in_torch_with_the_types_changed_on_the_way(tmp_path):
    net = NnxNet(nnx.Rngs(0))
    state = nnx.to_flat_state(nnx.state(net, (nnx.Param, nnx.BatchStat)))
    flat = {".".join(map(str, path)): shaken(path[-1], value[...]) for path, value in state}
    safetensors.numpy.save_file(flat, tmp_path / "in.safetensors")
    done = moved(tmp_path, "flax-to-torch", dtype="bf16")
    assert {each.after.partition("[")[0] for each in done.tensors} == {"BF16"}
    loaded = safetensors.torch.load_file(tmp_path / "out.safetensors")
    assert torch.equal(loaded["layers.0.weight"], torch.tensor(flat["layers.0.kernel"].T).to(torch.bfloat16))
    theirs = nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(5, 8), nn.Linear(8, 8)])})
    theirs["norm"], theirs["conv"] = nn.BatchNorm1d(8), nn.Conv1d(8, 9, 3, padding="same")
    theirs.load_state_dict(loaded)
    theirs.eval()
    nnx.update(net, nnx.from_flat_state([(path, value.replace(loaded_back(flat, path))) for path, value in state]))
    x = numbers(2, 6, 5)
    y = torch.tensor(x)
    for each in theirs["layers"]:
        y = torch.relu(each(y))
    y = theirs["conv"](theirs["norm"](y.transpose(1, 2))).transpose(1, 2)
    same(net(x), y.detach())


def loaded_back(flat, path):
    """The value that a parameter has after a cast to bf16."""
    return jax.numpy.asarray(flat[".".join(map(str, path))]).astype("bfloat16").astype("float32")


# ---- torch to flax, torch to mlx -----------------------------------------------------------------------------


def shaken_state(module):
    state = {name: torch.tensor(shaken(name, each)) for name, each in module.state_dict().items()}
    module.load_state_dict(state)
    return module.eval()


def exported(module, folder):
    safetensors.torch.save_file(module.state_dict(), folder / "in.safetensors")


def test_a_torch_network_in_flax(tmp_path):
    net, images = shaken_state(TorchNet()), numbers(2, 4, 5, 3)
    exported(net, tmp_path)
    moved(tmp_path, [{r"last.weight": "o (c h=4 w=5) -> (h w c) o; name=params.last.kernel"}, "torch-to-flax"])
    loaded = flax.traverse_util.unflatten_dict(safetensors.flax.load_file(tmp_path / "out.safetensors"), sep=".")
    same(LinenNet().apply(loaded, images), net(channels_first(images)).detach())


def test_a_torch_network_in_nnx_and_its_embedding(tmp_path):
    class Theirs(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.norm, self.head = nn.Embedding(11, 6), nn.LayerNorm(6), nn.Linear(6, 6)

    class Ours(nnx.Module):
        def __init__(self, rngs):
            self.embed = nnx.Embed(11, 6, rngs=rngs)
            self.norm = nnx.LayerNorm(6, rngs=rngs, epsilon=1e-5)
            self.head = nnx.Linear(6, 6, rngs=rngs)

    theirs, ours, tokens = shaken_state(Theirs()), Ours(nnx.Rngs(0)), RANDOM.integers(0, 11, (3, 4))
    exported(theirs, tmp_path)
    moved(tmp_path, "torch-to-flax", convolutions=False, rename={r"^(params|batch_stats)\.": ""})
    loaded = safetensors.flax.load_file(tmp_path / "out.safetensors")
    state = nnx.to_flat_state(nnx.state(ours, nnx.Param))
    assert {".".join(path) for path, _ in state} == {*loaded}
    nnx.update(ours, nnx.from_flat_state([(path, value.replace(loaded[".".join(path)])) for path, value in state]))
    expected = theirs.head(theirs.norm(theirs.embed(torch.tensor(tokens)))).detach()
    same(ours.head(ours.norm(ours.embed(tokens))), expected)


def test_a_torch_network_in_mlx(tmp_path):
    mx = pytest.importorskip("mlx.core")
    from mlx import nn as mlx_nn

    class Net(mlx_nn.Module):
        def __init__(self):
            super().__init__()
            self.first = mlx_nn.Conv2d(3, 6, (3, 2))
            self.norm = mlx_nn.BatchNorm(6)
            self.wave_conv = mlx_nn.Conv1d(6, 7, 3)
            self.last = mlx_nn.Linear(7, 7)

        def __call__(self, x):
            x = mlx_nn.relu(self.norm(self.first(x)))
            return self.last(self.wave_conv(x.reshape(x.shape[0], -1, 6)))

    class Theirs(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = nn.Conv2d(3, 6, (3, 2)), nn.BatchNorm2d(6)
            self.wave_conv, self.last = nn.Conv1d(6, 7, 3), nn.Linear(7, 7)

        def forward(self, x):
            x = torch.relu(self.norm(self.first(x)))
            return self.last(self.wave_conv(x.flatten(2)).transpose(1, 2))

    theirs, images = shaken_state(Theirs()), numbers(2, 6, 5, 3)
    exported(theirs, tmp_path)
    moved(tmp_path, "torch-to-mlx")
    net = Net()
    net.load_weights(str(tmp_path / "out.safetensors"), strict=True)
    net.eval()
    same(net(mx.array(images)), theirs(channels_first(images)).detach())

    os.rename(tmp_path / "out.safetensors", tmp_path / "in.safetensors")
    moved(tmp_path, "mlx-to-torch")
    back = safetensors.torch.load_file(tmp_path / "out.safetensors")
    kept = {name: each for name, each in theirs.state_dict().items() if not name.endswith("num_batches_tracked")}
    assert back.keys() == kept.keys() and all(torch.equal(each, back[name]) for name, each in kept.items())


# ---- keras to torch ------------------------------------------------------------------------------------------


def saved(model, folder):
    for each in model.variables:
        each.assign(shaken(each.path.replace("moving_var", "var"), np.asarray(each.value)))
    safetensors.numpy.save_file(
        {each.path: np.asarray(each.value) for each in model.variables}, folder / "in.safetensors"
    )


def test_a_keras_network_in_torch(tmp_path):
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((6, 7, 3)),
            layers.Conv2D(5, (3, 2), name="first"),
            layers.BatchNormalization(name="norm", epsilon=1e-5),
            layers.ReLU(),
            layers.DepthwiseConv2D(2, depth_multiplier=2, name="depthwise"),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(8, name="middle"),
            layers.LayerNormalization(name="last_norm", epsilon=1e-5),
            layers.Dense(8, name="last"),
        ],
        name="net",
    )
    saved(model, tmp_path)
    rules = {"net/middle/kernel": "(h=3 w=5 c) o -> o (c h w); name=middle.weight"}
    moved(tmp_path, [rules, "keras-to-torch"], rename={r"^net[./]": ""})
    theirs = nn.Sequential()
    theirs.add_module("first", nn.Conv2d(3, 5, (3, 2)))
    theirs.add_module("norm", nn.BatchNorm2d(5))
    theirs.add_module("relu", nn.ReLU())
    theirs.add_module("depthwise", nn.Conv2d(5, 10, 2, groups=5))
    theirs.add_module("flatten", nn.Flatten())
    theirs.add_module("middle", nn.Linear(150, 8))
    theirs.add_module("last_norm", nn.LayerNorm(8))
    theirs.add_module("last", nn.Linear(8, 8))
    theirs.load_state_dict(safetensors.torch.load_file(tmp_path / "out.safetensors"))
    images = numbers(2, 6, 7, 3)
    same(model(images), theirs.eval()(channels_first(images)).detach())


@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize("dims", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_a_depthwise_layer_of_keras_in_torch(tmp_path, dims, multiplier, bias):
    make = getattr(keras.layers, f"DepthwiseConv{dims}D")
    layer = make(3, depth_multiplier=multiplier, use_bias=bias, name="dw")
    model = keras.Sequential([keras.Input((*[6, 7][:dims], 5)), layer])
    saved(model, tmp_path)
    gl.relayout_file(tmp_path / "in.safetensors", tmp_path / "out.safetensors", tensors="keras-to-torch")
    theirs = nn.Sequential()
    theirs.add_module("dw", (nn.Conv1d, nn.Conv2d)[dims - 1](5, 5 * multiplier, 3, groups=5, bias=bias))
    theirs.load_state_dict(
        {name.rpartition("dw")[1] + name.rpartition("dw")[2]: each for name, each in loaded(tmp_path).items()}
    )
    images = numbers(2, *[6, 7][:dims], 5)
    same(model(images), theirs(channels_first(images)).detach().movedim(1, -1))


def loaded(folder):
    return safetensors.torch.load_file(folder / "out.safetensors")


@pytest.mark.skipif(not ALL, reason="10 s, and smaller networks of Keras's are tried; GPULAYOUT_TEST_ALL=1 runs it")
def test_the_mobilenet_of_keras_in_torch(tmp_path):
    """All its convolutions have telling names, and none has a bias."""
    model = keras.applications.MobileNet(weights=None, input_shape=(32, 32, 3), alpha=0.25, classes=5)
    saved(model, tmp_path)
    done = gl.relayout_file(tmp_path / "in.safetensors", tmp_path / "out.safetensors", tensors="keras-to-torch")
    found, kinds = loaded(tmp_path), {each.new_name: each.kind for each in done.tensors}
    assert sum(each == "depthwise" for each in kinds.values()) == 13
    images = numbers(2, 6, 7, 16)
    for name, channels in ("conv_dw_2", 16), ("conv_pw_2", 16):
        weight = found[f"{name}.weight"]
        depthwise = kinds[f"{name}.weight"] == "depthwise"
        assert depthwise == ("dw" in name)
        layer = nn.Conv2d(channels, len(weight), weight.shape[2:], groups=channels if depthwise else 1, bias=False)
        layer.load_state_dict({"weight": weight})
        kernel = np.asarray(model.get_layer(name).kernel.value)
        convolve = keras.ops.depthwise_conv if depthwise else keras.ops.conv
        same(convolve(images, kernel), layer(channels_first(images)).detach().movedim(1, -1))


@pytest.mark.skipif(not ALL, reason="5 s, and another network of Keras's is tried; GPULAYOUT_TEST_ALL=1 runs it")
def test_a_keras_attention_layer_in_torch(tmp_path):
    tokens = keras.Input((5,), dtype="int32")
    x = keras.layers.Embedding(11, 9, name="embed")(tokens)
    x = keras.layers.MultiHeadAttention(2, 5, name="attention")(x, x)
    model = keras.Model(tokens, keras.layers.Conv1D(4, 3, name="conv")(x))
    saved(model, tmp_path)
    moved(tmp_path, "keras-to-torch")

    class Theirs(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.conv = nn.Embedding(11, 9), nn.Conv1d(9, 4, 3)
            self.attention = TorchAttention(9, 2, "attention_output", 5)

    theirs, given = Theirs(), RANDOM.integers(0, 11, (2, 5))
    theirs.load_state_dict(safetensors.torch.load_file(tmp_path / "out.safetensors"))
    expected = theirs.conv(theirs.attention(theirs.embed(torch.tensor(given))).transpose(1, 2)).transpose(1, 2)
    same(model(given), expected.detach())


def keras_net():
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((6, 7, 3)),
            layers.Conv2D(5, (3, 2), name="first"),
            layers.BatchNormalization(name="norm", epsilon=1e-5),
            layers.ReLU(),
            layers.Conv2D(10, 2, groups=5, name="grouped"),
            layers.GlobalAveragePooling2D(),
            layers.LayerNormalization(name="last_norm", epsilon=1e-5),
            layers.Dense(8, name="last"),
        ],
        name="net",
    )


class AsKeras(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.grouped = nn.Conv2d(3, 5, (3, 2)), nn.BatchNorm2d(5), nn.Conv2d(5, 10, 2, groups=5)
        self.last_norm, self.last = nn.LayerNorm(10), nn.Linear(10, 8)

    def forward(self, x):
        x = self.grouped(torch.relu(self.norm(self.first(x))))
        return self.last(self.last_norm(x.mean((2, 3))))


def loaded_by_keras(model, folder):
    """Load out.safetensors, all of whose names must be paths of weights."""
    found = safetensors.numpy.load_file(folder / "out.safetensors")
    assert {*found} == {each.path for each in model.variables if each.path != "seed_generator_state"}
    for each in model.variables:
        each.assign(found[each.path])
    return model


def test_a_torch_network_in_keras(tmp_path):
    net, images = shaken_state(AsKeras()), numbers(2, 6, 7, 3)
    exported(net, tmp_path)
    moved(tmp_path, "torch-to-keras", rename={"^": "net/"})
    same(loaded_by_keras(keras_net(), tmp_path)(images), net(channels_first(images)).detach())


def test_a_torch_embedding_in_keras(tmp_path):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(11, 6), nn.Linear(6, 4, bias=False)

    net, given = shaken_state(Net()), RANDOM.integers(0, 11, (2, 5))
    exported(net, tmp_path)
    moved(tmp_path, "torch-to-keras", convolutions=False, rename={"^": "net/"})
    embed = keras.layers.Embedding(11, 6, name="embed")
    layers = [keras.Input((5,), dtype="int32"), embed, keras.layers.Dense(4, use_bias=False, name="head")]
    model = keras.Sequential(layers, name="net")
    same(loaded_by_keras(model, tmp_path)(given), net.head(net.embed(torch.tensor(given))).detach())


# ---- what has no rule ----------------------------------------------------------------------------------------


def refused(folder, rules, tensors):
    safetensors.numpy.save_file(tensors, folder / "in.safetensors")
    with pytest.raises(gl.LayoutError) as caught:
        gl.relayout_file(folder / "in.safetensors", folder / "out.safetensors", tensors=rules)
    assert sorted(os.listdir(folder)) == ["in.safetensors"]
    return str(caught.value)


@pytest.mark.parametrize(
    "rules, name, rank",
    [
        ("flax-to-torch", "position", 2),
        ("torch-to-flax", "attention.in_proj_weight", 2),
        ("torch-to-flax", "lstm.weight_ih_l0", 2),
        ("torch-to-mlx", "attention.in_proj_weight", 2),
        ("keras-to-torch", "lstm/lstm_cell/kernel", 2),
        ("keras-to-torch", "separable_conv2d/depthwise_kernel", 4),
        ("keras-to-torch", "gru/gru_cell/recurrent_kernel", 2),
        ("keras-to-torch", "conv_lstm2d/conv_lstm_cell/kernel", 4),
        ("torch-to-keras", "lstm.weight_hh_l0", 2),
        ("torch-to-keras", "rms.weight", 1),
        ("mlx-to-torch", "quantized.scales", 2),
    ],
)
def test_what_no_rule_knows_is_refused(tmp_path, rules, name, rank):
    said = refused(tmp_path, rules, {name: numbers(*range(2, 2 + rank))})
    assert said.startswith(f"the map {rules} has no rule for tensor '{name}', F32[")


@pytest.mark.parametrize("name", [*ready_maps()])
def test_every_ready_map_is_tested_here_and_says_what_it_is(name):
    with open(__file__) as stream:
        assert f'"{name}"' in stream.read()
    assert " to " in ready_maps()[name]
