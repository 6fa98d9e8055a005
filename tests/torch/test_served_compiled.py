"""Layers that read packed weights by an operator of their own, in torch.compile: a reload needs no new graph."""

import numpy as np
import pytest

import gpulayout as gl

torch = pytest.importorskip("torch")

from tests.support import served_laws  # noqa: E402  # it needs torch

INPUTS, OUTPUTS, GROUP = 128, 256, 32


@torch.library.custom_op("gpulayout_tests::marlin_linear", mutates_args=())
def marlin_linear(x: torch.Tensor, words: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """What Marlin's kernel computes, from the bytes at the addresses that it gets."""
    codes = served_laws.in_memory(words, served_laws.marlin, (INPUTS, OUTPUTS), "u4")
    factors = served_laws.in_memory(scales, served_laws.marlin_scales, (INPUTS // GROUP, OUTPUTS), "f16")
    return torch.from_numpy(product(x.numpy(), codes, factors))


@marlin_linear.register_fake
def _(x, words, scales):
    assert words.dtype == torch.int32 and words.shape == (INPUTS // 16, OUTPUTS * 2)
    return x.new_empty(*x.shape[:-1], OUTPUTS)


@torch.library.custom_op("gpulayout_tests::tiled_linear", mutates_args=())
def tiled_linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A product with a weight in tiles of 8 x 128, (outputs, inputs)."""
    values = served_laws.in_memory(weight, served_laws.tiles_8_128, (OUTPUTS, OUTPUTS), "f32")
    return torch.from_numpy(x.numpy() @ values.T)


@tiled_linear.register_fake
def _(x, weight):
    return torch.empty_like(x)


def product(x, codes, scales):
    return x @ ((codes.astype(np.float32) - 8) * np.repeat(scales.astype(np.float32), GROUP, 0))


class Layer(torch.nn.Module):
    """Two products with packed weights, and what torch itself computes between them."""

    def __init__(self):
        super().__init__()
        for name, value in values(0).items():
            setattr(self, name, torch.nn.Parameter(torch.from_numpy(value), requires_grad=False))

    def forward(self, x):
        hidden = torch.nn.functional.silu(marlin_linear(x * self.norm, self.codes, self.scales))
        return tiled_linear(hidden, self.tiled) + 1


LAYOUTS = {"codes": "marlin:weights(dtype=u4)", "scales": "marlin:scales(dtype=f16)", "tiled": "{1,0:T(8,128)}"}


def values(seed):
    """Weights, in the checkpoint's form."""
    rng = np.random.default_rng(seed)
    return {
        "codes": rng.integers(0, 16, (INPUTS, OUTPUTS), np.uint8),
        "scales": rng.uniform(0.005, 0.02, (INPUTS // GROUP, OUTPUTS)).astype(np.float16),
        "tiled": rng.normal(0, 0.1, (OUTPUTS, OUTPUTS)).astype(np.float32),
        "norm": rng.normal(1, 0.1, INPUTS).astype(np.float32),
    }


def wanted(x, given):
    """What a layer with these weights gives."""
    hidden = product(x * given["norm"], given["codes"], given["scales"])
    return hidden / (1 + np.exp(-hidden)) @ given["tiled"].T + 1


def by_boxes(layer, given):
    for name, value in given.items():
        for rows in (slice(0, len(value) // 2), slice(len(value) // 2, None)):
            gl.torch.copy_(getattr(layer, name), torch.from_numpy(value[rows]), at=rows)


def by_state_dict(layer, given):
    gl.torch.load_state_dict(layer, {name: torch.from_numpy(value) for name, value in given.items()})


def by_loader(layer, given):
    with gl.torch.unpacked(layer):
        layer.load_state_dict({name: torch.from_numpy(value) for name, value in given.items()})


def test_a_compiled_layer_takes_new_weights():
    """One graph, whatever happens to the weights; each result is that of the weights that the memory has."""
    layer, graphs = Layer(), []
    for name, layout in LAYOUTS.items():
        gl.torch.pack_(getattr(layer, name), layout)

    def backend(graph, inputs):
        graphs.append(graph)
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)

    compiled = torch.compile(layer, fullgraph=True, backend=backend, dynamic=False)
    x = np.random.default_rng(9).normal(size=(5, INPUTS)).astype(np.float32)
    for seed, reload in enumerate([None, by_boxes, by_state_dict, by_loader, by_boxes]):
        given = values(seed)
        if reload is not None:
            reload(layer, given)
        with torch.no_grad():
            found = compiled(torch.from_numpy(x)), layer(torch.from_numpy(x))
        for each in found:
            assert type(each) is torch.Tensor
            np.testing.assert_allclose(each.numpy(), wanted(x, given), rtol=1e-4, atol=1e-4)
        assert len(graphs) == 1
    torch._dynamo.reset()
