"""The code that docs/reload-weights.md shows for vLLM and SGLang, in engines that call it as these do.

The engines here are small: their hooks, loaders and parameters have the names, the arguments and the order of calls of
the real ones.  What lies in memory is compared with `gl.relayout` of the checkpoint's tensors.
"""

import pathlib
import re
import types

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import gpulayout as gl  # noqa: E402

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "reload-weights.md").read_text(encoding="utf-8")
GPTQ, MARLIN = "gptq:qweight(dtype=u4)", "marlin:weights(dtype=u4)"
INPUTS = 64
PARTS = {"q": slice(0, 128), "k": slice(128, 160), "v": slice(160, 192)}


def code(heading, **names):
    """What the code of a section defines; examples with >>> are tested with the page."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    names = {"gl": gl, "torch": torch, **names}
    for block in re.findall(r"^```python\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL):
        if ">>>" not in block:
            exec(block, names)
    return types.SimpleNamespace(**names)


class EngineParameter(torch.nn.Parameter):
    """A parameter with a loader, as vLLM's own class has it: a property over an attribute."""

    def __new__(cls, data, weight_loader):
        return super().__new__(cls, data, requires_grad=False)

    def __init__(self, data, weight_loader):
        self._weight_loader = weight_loader

    @property
    def weight_loader(self):
        return self._weight_loader

    @weight_loader.setter
    def weight_loader(self, loader):
        self._weight_loader = loader


def load_part(param, loaded, shard_id):
    """The engine's own loader: into a part of the plain parameter."""
    part = param.data[:, PARTS[shard_id]]
    assert part.shape == loaded.shape
    part.copy_(loaded)


class Layer(torch.nn.Module):
    """q, k and v in one, of GPTQ, before its weights are loaded."""

    def __init__(self):
        super().__init__()
        self.qweight = EngineParameter(torch.zeros(INPUTS // 8, 192, dtype=torch.int32), load_part)
        self.scales = EngineParameter(torch.zeros(2, 192, dtype=torch.float16), load_part)


class Model(torch.nn.Module):
    """A model with such a layer, whose `load_weights` calls the loaders with names of shards."""

    def __init__(self):
        super().__init__()
        self.qkv = Layer()

    def load_weights(self, weights):
        params = dict(self.named_parameters())
        for name, loaded in weights:
            shard_id, _, rest = name.partition("_proj.")
            param = params[f"qkv.{rest}"]
            param.weight_loader(param, loaded, shard_id)


def checkpoint(seed):
    """(name, tensor) of q, k and v."""
    random = np.random.default_rng(seed)
    for name, columns in PARTS.items():
        size = columns.stop - columns.start
        words = random.integers(-(2**31), 2**31, (INPUTS // 8, size), np.int32)
        yield f"{name}_proj.qweight", torch.from_numpy(words)
        yield f"{name}_proj.scales", torch.from_numpy(random.random((2, size)).astype(np.float16))


def expected(seed):
    """The bytes that kernels read: (weights, scales)."""
    tensors = dict(checkpoint(seed))
    words, scales = (torch.cat([tensors[f"{name}_proj.{what}"] for name in PARTS], 1) for what in ("qweight", "scales"))
    sizes = f"[{INPUTS},192]"
    weights = gl.relayout(words.reshape(-1).view(torch.uint8), GPTQ + sizes, MARLIN + sizes)
    return weights.numpy().tobytes(), gl.pack(scales, "marlin:scales").numpy().tobytes()


def held(layer):
    """The bytes that a kernel finds at the parameters' addresses."""
    return tuple(bytes(param.untyped_storage()) for param in (layer.qweight, layer.scales))


def addresses(layer):
    return [param.data_ptr() for param in (layer.qweight, layer.scales)]


@pytest.fixture
def served():
    """A model that vLLM loaded and processed."""
    model = Model()
    model.load_weights(checkpoint(0))
    code("In vLLM", parts=PARTS, layer=Layer()).process_weights_after_loading(None, model.qkv)
    assert held(model.qkv) == expected(0)
    return model


def test_packing_in_place_keeps_the_parameter_its_loader_and_its_address():
    model = Model()
    model.load_weights(checkpoint(0))
    before, objects = addresses(model.qkv), [*model.parameters()]
    code("In vLLM", parts=PARTS, layer=Layer()).process_weights_after_loading(None, model.qkv)
    assert addresses(model.qkv) == before and all(a is b for a, b in zip(objects, model.parameters()))
    assert all(isinstance(each, EngineParameter) and each.weight_loader is load_part for each in model.parameters())
    assert model.qkv.qweight.shape == (INPUTS // 16, 2 * 192) and model.qkv.qweight.dtype == torch.int32


def test_vllm_loads_a_folder_that_a_recipe_made_and_packs_nothing_again(tmp_path):
    """q, k and v are one tensor of the new model; both kinds of folders load by the same code."""
    from safetensors.torch import save_file

    old, new, found = tmp_path / "old", tmp_path / "new", code("A file from a recipe")
    old.mkdir()
    save_file(dict(checkpoint(6)), old / "model.safetensors")
    (old / "config.json").write_text("{}")
    joined = r"join=q_proj.\1,k_proj.\1,v_proj.\1; along=1; name=qkv.\1"
    rules = {r"q_proj\.(qweight)": f"from={GPTQ}; {joined}; {MARLIN}", r"q_proj\.(scales)": f"{joined}; marlin:scales"}
    gl.relayout_file(old, new, tensors=rules)
    model, config = Model(), types.SimpleNamespace(model=new)
    before, objects = addresses(model.qkv), [*model.parameters()]
    found.load_weights(None, model, config)
    found.process_weights_after_loading(None, model.qkv)
    assert held(model.qkv) == expected(6) and addresses(model.qkv) == before
    assert all(a is b for a, b in zip(objects, model.parameters()))
    with gl.torch.unpacked(model):  # the engine's own loaders, as ever
        model.load_weights(checkpoint(7))
    assert held(model.qkv) == expected(7)


def test_vllms_worker_loads_again_by_the_engines_own_loaders(served):
    worker, before = code("In vLLM", parts=PARTS, layer=Layer()).Reload(), addresses(served.qkv)
    worker.model_runner = types.SimpleNamespace(model=served)
    worker.reload(checkpoint(1))
    assert held(served.qkv) == expected(1) and addresses(served.qkv) == before


def test_without_it_the_engines_own_loader_is_refused_before_a_byte_is_written(served):
    with pytest.raises(gl.LayoutError, match="marlin:weights"):
        load_part(served.qkv.qweight, torch.zeros(4, 128, dtype=torch.int32), "q")
    assert held(served.qkv) == expected(0)


def test_a_loader_of_vllm_writes_into_packed_memory(served):
    found = code("In vLLM", parts=PARTS, layer=served.qkv)
    assert served.qkv.qweight.weight_loader is found.load_qkv
    served.qkv.scales.weight_loader = found.load_qkv
    before = addresses(served.qkv)
    served.load_weights(checkpoint(2))
    assert held(served.qkv) == expected(2) and addresses(served.qkv) == before


def test_memory_that_the_engine_packed_is_marked_and_loaded_in_place():
    model, weights = Model(), torch.frombuffer(bytearray(expected(0)[0]), dtype=torch.int32).reshape(INPUTS // 16, -1)
    model.qkv.qweight = torch.nn.Parameter(weights, requires_grad=False)  # as the engine replaces it: no loader
    address = weights.data_ptr()
    code("In vLLM", parts=PARTS, layer=Layer()).mark(model.qkv)
    model.load_weights([each for each in checkpoint(5) if each[0].endswith("qweight")])
    assert held(model.qkv)[0] == expected(5)[0] and model.qkv.qweight.data_ptr() == address


def test_layerwise_reloading_copies_a_processed_layer_over_the_old_one(served):
    beside = Model()
    beside.load_weights(checkpoint(3))
    code("In vLLM", parts=PARTS, layer=Layer()).process_weights_after_loading(None, beside.qkv)
    before = addresses(served.qkv)
    for name, param in served.qkv.named_parameters():
        param.data.copy_(getattr(beside.qkv, name))
    assert held(served.qkv) == expected(3) and addresses(served.qkv) == before
    assert torch.equal(gl.torch.read(served.qkv.scales), gl.torch.read(beside.qkv.scales))


def test_sglang_restores_loads_and_processes_again():
    found, model = code("In SGLang"), Model()
    model.load_weights(checkpoint(0))
    before = model.qkv.qweight.data_ptr()
    found.process_weights_after_loading(None, model.qkv)
    for seed in (1, 2):
        found.restore_weights_before_loading(None, model.qkv)
        model.load_weights(checkpoint(seed))
        found.process_weights_after_loading(None, model.qkv)
        assert held(model.qkv)[0] == expected(seed)[0] and model.qkv.qweight.data_ptr() == before


def test_a_custom_loader_of_sglang_writes_into_packed_memory(served):
    tensors, found = dict(checkpoint(4)), code("In SGLang")
    for what in ("qweight", "scales"):
        whole = torch.cat([tensors[f"{name}_proj.{what}"] for name in PARTS], 1)
        found.load(served, [(f"qkv.{what}", whole)])
    found.process_weights_after_loading(None, served.qkv)  # as the session ends; nothing is packed twice
    assert held(served.qkv) == expected(4)
