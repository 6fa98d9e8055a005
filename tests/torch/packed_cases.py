"""Models with one packed weight of each kind, and what their tensors are while they are plain."""

import json

import numpy as np

import gpulayout as gl

# For each kind: the plain tensor's NumPy type and sizes, the layout, and `source`.  Padding needs memory of its own.
KINDS = {
    "columns": ("f4", (6, 8), "{0,1}", None),
    "tiles": ("f2", (4, 8), "{1,0:T(2,4)}", None),
    "a vector": ("f8", (6,), "{0:T(3)}", None),
    "codes": ("u1", (16, 64), "marlin:weights(dtype=u4)", None),
    "codes, turned": ("u1", (64, 16), "n k -> k n; marlin:weights(dtype=u4)", None),
    "words": ("i4", (4, 64), "marlin:weights(dtype=u4)", "gptq:qweight(dtype=u4)"),
    "padding": ("f4", (3, 5), "f32[3,5]{1,0:T(4,8)}", None),
}


def values(kind, seed=0):
    """Plain values of a weight, other ones for each seed."""
    dtype, sizes, _, _ = KINDS[kind]
    made = np.random.default_rng(seed).integers(0, 16, sizes)
    if dtype == "i4":
        made = np.random.default_rng(seed).integers(-(2**31), 2**31, sizes)
    return made.astype(dtype)


def tensor(kind, seed=0):
    """The same as a tensor."""
    import torch

    return torch.from_numpy(values(kind, seed))


def packed(kind, seed=0):
    """A new parameter with these values, packed."""
    import torch

    _, _, layout, source = KINDS[kind]
    weight = torch.nn.Parameter(tensor(kind, seed), requires_grad=False)
    if kind != "padding":
        return gl.torch.pack_(weight, layout, source=source)
    return gl.torch.copy_(gl.torch.empty_packed(layout, like=weight), weight)


def model(*kinds, seed=0):
    """A model with packed weights of these kinds, and a plain layer."""
    import torch

    made = torch.nn.Module()
    made.blocks = torch.nn.ModuleList(torch.nn.Module() for _ in kinds)
    for block, kind in zip(made.blocks, kinds):
        block.weight = packed(kind, seed)
    made.head = torch.nn.Linear(2, 3).requires_grad_(False)
    return made


def plain(given):
    """All tensors of a model as `read` gives them, by name: NumPy arrays, apart from all memory of the model."""
    tensors = {**dict(given.named_parameters(remove_duplicate=False)), **dict(given.named_buffers())}
    return {name: gl.torch.read(each).numpy().copy() for name, each in tensors.items()}


def facts(given):
    """Where each tensor of a model is, and in which layout."""
    tensors = {**dict(given.named_parameters(remove_duplicate=False)), **dict(given.named_buffers())}
    return {
        name: (each.data_ptr(), str(gl.torch.layout_of(each)), each.dtype, tuple(each.shape))
        for name, each in tensors.items()
    }


def same(one, other):
    """True for the same names with the same arrays."""
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and np.array_equal(one[name], other[name]) for name in one
    )


def in_two_files(given, folder):
    """The index of two files, with the blocks of a model of two; the second has its head too."""
    import torch

    for number, name in enumerate(("a", "b")):
        one = torch.nn.Module()
        one.blocks = torch.nn.ModuleList([torch.nn.Module(), torch.nn.Module()])
        one.blocks[number].weight = given.blocks[number].weight
        if number:
            one.head = given.head
        gl.torch.save_packed(one, folder / f"{name}.safetensors")
    files = {each: f"{'a' if each == 'blocks.0.weight' else 'b'}.safetensors" for each in given.state_dict()}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": files}))
    return index
