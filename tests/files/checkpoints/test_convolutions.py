"""Convolutions, plain and transposed, from torch to each framework and back: both layers compute the same.

No two sizes of a weight are equal, so no axis can be taken for another, and no kernel is symmetric.
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

    import safetensors.numpy
    import safetensors.torch
    from flax import linen, nnx

import gpulayout as gl  # noqa: E402

INPUTS, OUTPUTS, KERNEL, STRIDE = 3, 5, (2, 4, 3), 2
KINDS = ["conv", "conv_transpose"]


def numbers(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def torch_layer(kind, dims):
    """A layer called up, and what it makes of images whose channels are last."""
    name = f"Conv{'Transpose' if kind == 'conv_transpose' else ''}{dims}d"
    layer = torch.nn.ModuleDict({"up": getattr(torch.nn, name)(INPUTS, OUTPUTS, KERNEL[:dims], STRIDE)})

    def apply(images):
        return layer["up"](torch.tensor(np.moveaxis(images, -1, 1).copy())).detach().movedim(1, -1).numpy()

    return {name: each.numpy().copy() for name, each in layer.state_dict().items()}, layer.load_state_dict, apply


def linen_layer(kind, dims):
    make = linen.ConvTranspose if kind == "conv_transpose" else linen.Conv
    layer = make(OUTPUTS, KERNEL[:dims], STRIDE, padding="VALID")
    found = layer.init(jax.random.key(0), numbers(1, *[6] * dims, INPUTS))["params"]

    def load(loaded):
        assert {*loaded} == {"params.up.kernel", "params.up.bias"}
        found.update({name: loaded[f"params.up.{name}"] for name in found})

    return (
        {f"params.up.{name}": each for name, each in found.items()},
        load,
        lambda x: layer.apply({"params": found}, x),
    )


def nnx_layer(kind, dims):
    make = nnx.ConvTranspose if kind == "conv_transpose" else nnx.Conv
    layer = make(INPUTS, OUTPUTS, KERNEL[:dims], STRIDE, padding="VALID", rngs=nnx.Rngs(0))

    def load(loaded):
        layer.kernel[...], layer.bias[...] = loaded["params.up.kernel"], loaded["params.up.bias"]

    return {"up.kernel": layer.kernel[...], "up.bias": layer.bias[...]}, load, layer


def keras_layer(kind, dims):
    make = getattr(keras.layers, f"Conv{dims}D{'Transpose' if kind == 'conv_transpose' else ''}")
    layer = make(OUTPUTS, KERNEL[:dims], STRIDE, name="up")
    layer.build((None, *[6] * dims, INPUTS))

    def load(loaded):
        assert {*loaded} == {each.path for each in layer.weights}
        for each in layer.weights:
            each.assign(loaded[each.path])

    return {each.path: np.asarray(each.value) for each in layer.weights}, load, layer


def mlx_layer(kind, dims):
    mx = pytest.importorskip("mlx.core")
    from mlx import nn

    make = getattr(nn, f"Conv{'Transpose' if kind == 'conv_transpose' else ''}{dims}d")
    layer = make(INPUTS, OUTPUTS, KERNEL[0] if dims == 1 else KERNEL[:dims], STRIDE)
    state = {"up.weight": np.array(layer.weight), "up.bias": np.array(layer.bias)}

    def load(loaded):
        layer.load_weights([(name.removeprefix("up."), mx.array(each)) for name, each in loaded.items()], strict=True)

    return state, load, lambda images: np.array(layer(mx.array(images)))


LAYERS = {"flax": linen_layer, "nnx": nnx_layer, "keras": keras_layer, "mlx": mlx_layer}


def moved(folder, tensors, rules, kind):
    tensors = {name: np.ascontiguousarray(each) for name, each in tensors.items()}
    safetensors.numpy.save_file(tensors, folder / "in.safetensors")
    out = folder / "out.safetensors"
    done = gl.relayout_file(folder / "in.safetensors", out, tensors=rules, assume={".*": kind}, overwrite=True)
    assert [each.kind for each in done.tensors if len(tensors[each.name].shape) > 2] == [kind]
    return safetensors.numpy.load_file(folder / "out.safetensors")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("framework", [*LAYERS])
def test_a_convolution_computes_the_same_in_torch_and_elsewhere(tmp_path, framework, kind, dims):
    images = numbers(2, *range(5, 5 + dims), INPUTS)
    torch_state, torch_load, torch_apply = torch_layer(kind, dims)
    state, load, apply = LAYERS[framework](kind, dims)
    other = "flax" if framework == "nnx" else framework

    expected = np.asarray(apply(images))  # before the values of torch are loaded
    found = moved(tmp_path, state, f"{other}-to-torch", kind)
    theirs = torch_apply(images)
    torch_load({name: torch.tensor(each) for name, each in found.items()})
    assert expected.shape == theirs.shape
    np.testing.assert_allclose(torch_apply(images), expected, rtol=1e-4, atol=1e-5)

    load(moved(tmp_path, torch_state, f"torch-to-{other}", kind))
    np.testing.assert_allclose(np.asarray(apply(images)), theirs, rtol=1e-4, atol=1e-5)
