"""Real DTensors of PyTorch on the ranks of a process group, against what this library reads of them.

All of PyTorch that they need is imported at the top, so once: ranks are forked from a process that has imported it.
"""

import importlib
import random

import numpy as np
import pytest

import gpulayout as gl

torch = pytest.importorskip("torch")
importlib.import_module("torch._dynamo")  # the first redistribution would import it
import torch.distributed as dist  # noqa: E402
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor  # noqa: E402
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta  # noqa: E402
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module  # noqa: E402

MESHES = [(2, 2), (4,), (3,), (1, 2), (2, 1, 2), (2, 2)]


def check(tensor, whole):
    """The local tensor is the box of its rank; the sharding."""
    sharding = gl.Sharding.from_dtensor(tensor)
    box, shard = sharding.boxes[dist.get_rank()], sharding.shards[dist.get_rank()]
    assert sharding.ranks == dist.get_world_size()
    assert (box is None) == (local(tensor) is None)
    if box is not None:
        own, part = local(tensor), whole[tuple(slice(*interval) for interval in box)]
        assert np.array_equal(own.numpy(), part), f"{tensor.placements} of {whole.shape}: {own} is not {part}"
        assert np.array_equal(gl.unpack(own, shard).numpy(), part)
    assert gl.Sharding.from_device_mesh(tensor.device_mesh, tensor.placements, sharding.shape) == sharding
    return sharding


def random_tensors(seed, count):
    """Tensors that PyTorch distributed over meshes of any ranks, and their shardings."""
    rng, found = random.Random(seed), []
    meshes = [*(random_mesh(rng, sizes) for sizes in MESHES), DeviceMesh("cpu", [1, 0])]
    for _ in range(count):
        dimensions = [rng.choice((0, 1, 2, 3, 5, 8)) for _ in range(rng.choice((1, 2, 3)))]
        whole = torch.arange(float(np.prod(dimensions))).reshape(dimensions)
        tensors = [distributed(rng, whole, rng.choice(meshes)) for _ in range(2)]
        before, after = (check(tensor, whole.numpy()) for tensor in tensors)
        assert before.shape == after.shape == gl.Shape("f32", dimensions)
        moved = gl.exchange(before, after).run(local(tensors[0]))
        assert (moved is None) == (local(tensors[1]) is None)
        assert moved is None or torch.equal(moved, local(tensors[1]).reshape(-1))
        order = rng.sample(range(len(dimensions)), len(dimensions))
        check(tensors[0].permute(order), whole.permute(order).numpy())
        found += [(before, str(tensors[0].placements)), (after, str(tensors[1].placements))]
    return found


def random_mesh(rng, sizes):
    """A mesh of some ranks, in any order."""
    ranks = rng.sample(range(dist.get_world_size()), int(np.prod(sizes)))
    return DeviceMesh("cpu", np.array(ranks).reshape(sizes).tolist())


def distributed(rng, whole, mesh):
    """The tensor cut anyhow over a mesh."""
    placements = [rng.choice((Replicate(), Shard(rng.randrange(whole.ndim)))) for _ in range(mesh.ndim)]
    return distribute_tensor(whole, mesh, placements, src_data_rank=None)


def local(tensor):
    """What this rank holds of a tensor; None outside its mesh."""
    return None if tensor.device_mesh.get_coordinate() is None else tensor.to_local()


def fully_sharded(size):
    """The weights of a layer under tensor parallelism and then FSDP, which PyTorch cuts in the other order."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, size), torch.nn.Linear(size, 6))
    whole = {name: weight.detach().clone().numpy() for name, weight in model.named_parameters()}
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "1": RowwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    return {
        name: (str(weight.placements), check(weight.detach(), whole[name])) for name, weight in model.named_parameters()
    }


def page_example(code):
    """Run the example of the page: the sum and the sizes of what this rank gets."""
    names = {"gl": gl, "torch": torch, "DeviceMesh": DeviceMesh, "Shard": Shard, "distribute_tensor": distribute_tensor}
    exec(code, names)
    found = names["out"]
    return None if found is None else (tuple(found.shape), float(found.sum()))


def refusals():
    """What is said of local tensors that are not those of the placements, and of an order of cuts of its own."""
    mesh, rows = DeviceMesh("cpu", [[0, 1], [2, 3]]), DeviceMesh("cpu", [0, 1, 2, 3])
    whole = {"shape": (24, 4), "stride": (4, 1), "run_check": False}
    short = DTensor.from_local(torch.zeros(5 if dist.get_rank() == 3 else 6, 4), rows, [Shard(0)], **whole)
    turned = DTensor.from_local(torch.zeros(4, 6).t(), rows, [Shard(0)], **whole)
    partial = DTensor.from_local(torch.zeros(6, 4), mesh, [Partial(), Shard(0)])
    in_order, last_first = (cut_in_order(torch.zeros(2, 4), mesh, order) for order in ((0, 1), (1, 0)))
    return [*map(said, (short, turned, partial, in_order, last_first)), said(turned, layouts="{0,1}")]


def cut_in_order(local, mesh, order):
    """A DTensor of eight rows, cut along the dimensions of the mesh in this order, as only PyTorch itself can say."""
    spec = DTensorSpec(mesh, (Shard(0), Shard(0)), TensorMeta(torch.Size((8, 4)), (4, 1), local.dtype))
    if not hasattr(spec, "shard_order"):
        return None
    spec.shard_order = (type(spec.shard_order[0])(0, order),)
    return DTensor(local, spec, requires_grad=False)


def said(tensor, **layouts):
    """The sharding of a tensor as text, or the error; None for no tensor."""
    try:
        return None if tensor is None else str(gl.Sharding.from_dtensor(tensor, **layouts))
    except gl.LayoutError as error:
        return str(error)
