"""Boxes by DeviceMesh and placements: PyTorch's own functions are the judge."""

import itertools
import random
import re
import types

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.shards.from_torch import boxes_of_device_mesh
from tests.support import effort, gloo_ranks

torch = pytest.importorskip("torch")
placement_types = pytest.importorskip("torch.distributed.tensor.placement_types")
dtensors = pytest.importorskip("tests.support.dtensors", exc_type=ImportError)
Shard, Replicate, Partial = placement_types.Shard, placement_types.Replicate, placement_types.Partial
Strided = placement_types._StridedShard


def mesh_of(ranks):
    """What is read of a DeviceMesh, without a process group."""
    return types.SimpleNamespace(mesh=torch.tensor(ranks))


def held(sizes, mesh, placements, place):
    """For each dimension the coordinates that PyTorch's placements keep at this place of the mesh."""
    coordinates = [torch.arange(size) for size in sizes]
    for placement, count, number in zip(placements, mesh, place):
        if not isinstance(placement, Replicate):
            parts, _ = type(placement)._split_tensor(
                _along_dimension_0(placement), coordinates[placement.dim], count, with_padding=False
            )
            coordinates[placement.dim] = parts[number]
    return [part.tolist() for part in coordinates]


def _along_dimension_0(placement):
    return Strided(0, split_factor=placement.split_factor) if isinstance(placement, Strided) else Shard(0)


def check(sizes, ranks, placements):
    """The boxes are those of PyTorch, or an error where what a rank holds is no box.  Whether they are boxes."""
    ranks = np.array(ranks)
    wanted = {int(ranks[place]): held(sizes, ranks.shape, placements, place) for place in np.ndindex(ranks.shape)}
    shape = gl.Shape("f32", sizes)
    if not all(
        part == list(range(part[0], part[0] + len(part))) for parts in wanted.values() for part in parts if part
    ):
        with pytest.raises(gl.LayoutError, match="no box: redistribute"):
            boxes_of_device_mesh(mesh_of(ranks.tolist()), placements, shape)
        return False
    boxes = boxes_of_device_mesh(mesh_of(ranks.tolist()), placements, shape)
    assert len(boxes) == ranks.max(initial=-1) + 1
    for rank, box in enumerate(boxes):
        parts = wanted.get(rank)
        assert (box is None) == (parts is None)
        if box is not None:
            assert [list(range(part.start, part.stop)) for part in box] == parts
    return True


@pytest.mark.parametrize("mesh", [(1,), (2,), (3,), (4,), (2, 2), (2, 3), (3, 2)])
def test_every_small_tensor_of_one_dimension(mesh):
    choices = [Replicate(), Shard(0), Strided(0, split_factor=2), Strided(0, split_factor=3)]
    ranks = np.arange(np.prod(mesh)).reshape(mesh)
    found = [
        check((size,), ranks, placements)
        for size in range(9)
        for placements in itertools.product(choices, repeat=len(mesh))
    ]
    assert any(found) and all(found) == (len(ranks) == ranks.size == 1)


def test_random_meshes_and_placements():
    rng = random.Random(0)
    found = []
    for _ in range(effort.examples(1500)):
        sizes = tuple(rng.choice((0, 1, 2, 3, 5, 7, 8, 12)) for _ in range(rng.choice((1, 2, 3))))
        mesh = tuple(rng.choice((1, 2, 3, 4)) for _ in range(rng.choice((1, 2, 2, 3))))
        count = int(np.prod(mesh))
        ranks = np.array(rng.sample(range(count + rng.choice((0, 0, 3))), count)).reshape(mesh)
        kinds = [Shard, Shard, Replicate] + [Strided] * (rng.random() < 0.4)
        placements = [placement(rng, rng.choice(kinds), len(sizes)) for _ in mesh]
        found.append(check(sizes, ranks, placements))
    assert sum(found) > 0.5 * len(found)


def placement(rng, kind, rank):
    """A random placement of one class."""
    if kind is Replicate:
        return Replicate()
    dim = rng.randrange(rank)
    return Shard(dim) if kind is Shard else Strided(dim, split_factor=rng.choice((1, 2, 3, 4)))


def test_offsets_are_those_of_checkpoints():
    from torch.distributed.tensor import _utils

    for sizes, placements in [
        ((5, 4), [Shard(0), Shard(0)]),
        ((5, 7), [Shard(1), Shard(0)]),
        ((1, 3), [Shard(0), Shard(1)]),
    ]:
        boxes = boxes_of_device_mesh(mesh_of([[0, 1, 2], [3, 4, 5]]), placements, gl.Shape("f32", sizes))
        for rank, box in enumerate(boxes):
            place = [*divmod(rank, 3)]
            local, offset = _utils._compute_local_shape_and_global_offset(sizes, (2, 3), place, placements)
            assert tuple(part.stop - part.start for part in box) == local
            assert tuple(part.start for part in box) == offset


def test_negative_dimensions_count_from_the_end():
    assert boxes_of_device_mesh(mesh_of([0, 1]), [Shard(-1)], gl.Shape("f32", (2, 6))) == (
        (slice(0, 2), slice(0, 3)),
        (slice(0, 2), slice(3, 6)),
    )


def test_a_tensor_without_dimensions_and_a_mesh_without_ranks():
    assert boxes_of_device_mesh(mesh_of([1]), [Replicate()], gl.Shape("f32", ())) == (None, ())
    assert boxes_of_device_mesh(mesh_of([[], []]), [Replicate(), Shard(0)], gl.Shape("f32", (4,))) == ()


class Ragged(Shard):
    """A placement of another library."""


@pytest.mark.parametrize(
    ("mesh", "placements", "message"),
    [
        (
            [0, 1],
            [Partial()],
            r"placements \(Partial\(sum\),\) of f32\[6,4\]\{1,0\} has Partial\(sum\), numbers that are",
        ),
        ([0, 1], [Ragged(0)], "a Ragged: it is none of Shard, _StridedShard or Replicate"),
        ([0, 1], ["Shard(0)"], "a str: it is none of"),
        ([0, 1], Shard(0), "placements .* is a Shard: write a list"),
        ([0, 1], [Shard(2)], "dimension 2 is out of range in placements"),
        ([0, 1], [Shard(0), Shard(1)], r"has 2 entries: the mesh \(2,\) has 1 dimension, write one for each"),
        ([[0, 1], [1, 2]], [Shard(0), Shard(1)], "mesh has rank 1 twice"),
        ([0, -1], [Shard(0)], "mesh has rank -1: ranks are numbers from 0 to"),
        ([0, 2**62], [Shard(0)], f"mesh has rank {2**62}: ranks are numbers from 0 to"),
        ([0, 1], [Strided(0, split_factor=0)], "split_factor 0 is less than 1 in placements"),
        (
            [0, 1],
            [Strided(0, split_factor=3)],
            r"rank 0 coordinates 0:1 and 2:3 and more of dimension 0 of f32\[6,4\]\{1,0\}, which are no box",
        ),
    ],
)
def test_what_is_refused(mesh, placements, message):
    with pytest.raises(gl.LayoutError, match=message):
        boxes_of_device_mesh(mesh_of(mesh), placements, gl.Shape("f32", (6, 4)))


@pytest.mark.parametrize(
    "numbers, words",
    [
        ([0.5, 1], r"mesh \[0.5, 1\] is no array of ranks: it must be integers"),
        ([False, True], "is no array of ranks: it must be integers"),
        (None, "mesh None is no array of ranks: it must be integers"),
        ([[0], [1, 2]], r"mesh \[\[0\], \[1, 2\]\] is no array of ranks: NumPy says"),
    ],
)
def test_numbers_that_are_no_ranks(numbers, words):
    with pytest.raises(gl.LayoutError, match=words):
        boxes_of_device_mesh(types.SimpleNamespace(mesh=numbers), [Shard(0)], gl.Shape("f32", (6, 4)))


def test_a_split_factor_far_past_the_size():
    split = [Strided(0, split_factor=2**62), Shard(0)]
    assert boxes_of_device_mesh(mesh_of([[0], [1]]), split[:1] + [Replicate()], gl.Shape("f32", (1,))) == (
        (slice(0, 1),),
        (slice(1, 1),),
    )


def test_a_mesh_of_another_kind():
    with pytest.raises(gl.LayoutError, match="mesh is a dict, not a .*DeviceMesh: gl.Sharding.by_mesh takes"):
        boxes_of_device_mesh({"tp": 2}, [Shard(0)], gl.Shape("f32", (6, 4)))


# ---- real tensors ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ranks():
    with gloo_ranks.Ranks() as started:
        yield started


def test_tensors_that_pytorch_distributed(ranks):
    """Each is read right, and an exchange brings it to any other: on one mesh or on two, of some ranks or of all."""
    found = ranks.values(4, dtensors.random_tensors, 0, effort.examples(100))
    assert all(own == found[0] for own in found)
    assert any(None in sharding.boxes for sharding, _ in found[0])


def test_a_model_of_tensor_parallelism_and_fsdp(ranks):
    models = ranks.values(4, dtensors.fully_sharded, 5)
    assert all(own == models[0] for own in models)
    placements, sharding = models[0]["0.weight"]
    assert "_StridedShard" in placements
    assert [rows for rows, _ in sharding.boxes] == [(0, 2), (3, 4), (2, 3), (4, 5)]  # tp cuts first: ranks 0 and 1


def test_the_example_of_the_page(ranks):
    page = (gloo_ranks.ROOT / "docs" / "shards.md").read_text(encoding="utf-8").partition("## From JAX and PyTorch")[2]
    _, code = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    columns = (1024 * 256,), 1024.0 * 256
    assert ranks.values(4, dtensors.page_example, code) == [None, None, columns, columns]


def test_tensors_that_are_refused(ranks):
    for rank, found in enumerate(ranks.values(4, dtensors.refusals)):
        sizes, strides, partial, in_order, last_first, with_layout = found
        said = "sizes (5, 4) on rank 3, where its placements (Shard(dim=0),) say (6, 4): give DTensor.from_local shape="
        assert said in sizes if rank == 3 else sizes.startswith("Sharding of f32[24,4]{1,0} over 4 ranks")
        assert f"strides (1, 6) on rank {rank}, where sizes (6, 4) in its order have (4, 1)" in strides
        assert with_layout.count("f32[6,4]{0,1}") == 4
        assert "numbers that are still to be combined" in partial
        if in_order is not None:
            assert in_order.startswith("Sharding of f32[8,4]{1,0} over 4 ranks")
            assert "but a later dimension of its mesh cuts first" in last_first
