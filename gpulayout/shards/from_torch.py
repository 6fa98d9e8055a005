"""The box of each rank of a PyTorch DeviceMesh, by the placements of a DTensor.

A placement says for one dimension of the mesh what its ranks do with the tensor, the first dimension of the mesh first:

    Shard(0)                            consecutive rows, cut as by torch.chunk: the last ranks may have fewer, or none
    Replicate()                         all ranks have the same
    _StridedShard(0, split_factor=2)    the rows are cut into 2 parts, and each rank takes its share of both

PyTorch writes the last one where a later dimension of the mesh cuts first, as tensor parallelism below FSDP does.  That
cut then leaves a rank one of the 2 shares, so consecutive rows again.  Where it does not, the rows are no box.

Nothing of PyTorch is imported: placements are known by their names.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gpulayout.layout import checks
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape

Box = tuple[slice, ...]
MOST_RANKS = 1 << 24  # each takes memory
_Runs = list[tuple[int, int]]  # coordinates of one dimension as intervals, in the order in which a rank holds them


def boxes_of_device_mesh(mesh: Any, placements: Iterable[Any], shape: Shape) -> tuple[Box | None, ...]:
    """The box of each rank of the process group; None for a rank that is not in the mesh.

    mesh          a DeviceMesh: its numbers are ranks, in any order
    placements    one for each dimension of the mesh
    shape         of the whole tensor

    >>> from types import SimpleNamespace            # in place of PyTorch's classes
    >>> mesh = SimpleNamespace(mesh=[[0, 1], [2, 3]])
    >>> Shard, Replicate = (type(name, (SimpleNamespace,), {}) for name in ("Shard", "Replicate"))
    >>> boxes = boxes_of_device_mesh(mesh, [Replicate(), Shard(dim=0)], Shape("f32", (5, 8)))
    >>> [(rows.start, rows.stop) for rows, _ in boxes]
    [(0, 3), (3, 5), (0, 3), (3, 5)]
    """
    ranks = _ranks(mesh)
    placements = _placements(placements, ranks.shape, shape)
    boxes: list[Box | None] = [None] * max(_world_size(), int(ranks.max(initial=-1)) + 1)
    for place in np.ndindex(ranks.shape):
        rank = int(ranks[place])
        boxes[rank] = _box(placements, ranks.shape, place, shape, rank)
    return tuple(boxes)


def shape_of_dtensor(tensor: Any) -> Shape:
    """The shape of a whole DTensor: its type, its sizes, and its dimensions in the order of their strides."""
    if not hasattr(tensor, "device_mesh") or not hasattr(tensor, "placements"):
        raise LayoutTypeError(f"tensor is {checks.type_text(tensor)}, not a torch.distributed.tensor.DTensor")
    order_of_cuts = getattr(getattr(tensor, "_spec", None), "shard_order", None) or ()
    if any(list(entry.mesh_dims) != sorted(entry.mesh_dims) for entry in order_of_cuts):
        raise LayoutError(
            f"tensor has placements {_texts(tensor.placements)}, but a later dimension of its mesh cuts first, as "
            f"{checks.value_text(order_of_cuts)} says: redistribute it to Replicate() and then to these placements"
        )
    strides = tuple(tensor.stride())
    order = sorted(range(len(strides)), key=lambda dim: (strides[dim], -dim))
    return Shape(ElementType.of(tensor.dtype), tuple(tensor.shape), Layout(order))


def check_local(tensor: Any, boxes: Sequence[Box | None], shape: Shape, *, strides: bool) -> None:
    """LayoutError unless the local tensor of this process has the sizes of its box, and with `strides` its order.

    `DTensor.from_local` compares neither: by default it supposes that all local tensors are alike.
    """
    place = tensor.device_mesh.get_coordinate()
    if place is None:  # this process is not in the mesh
        return
    rank, local = int(_ranks(tensor.device_mesh)[tuple(place)]), tensor.to_local()
    sizes, said = tuple(local.shape), tuple(part.stop - part.start for part in boxes[rank] or ())
    if sizes != said:
        raise LayoutError(
            f"tensor {shape} has a local tensor of sizes {checks.shown(sizes)} on rank {rank}, where its placements "
            f"{_texts(tensor.placements)} say {checks.shown(said)}: give DTensor.from_local shape= and stride="
        )
    dense, step = [0] * len(sizes), 1
    for dim in shape.layout.minor_to_major:
        dense[dim], step = step, step * sizes[dim]
    if strides and step and any(a != b for a, b, size in zip(local.stride(), dense, sizes) if size > 1):
        raise LayoutError(
            f"tensor {shape} has a local tensor of strides {checks.shown(local.stride())} on rank {rank}, where sizes "
            f"{checks.shown(sizes)} in its order have {checks.shown(dense)}: say with layouts= how shards lie"
        )


# ---- arguments -----------------------------------------------------------------------------------


def _ranks(mesh: Any) -> np.ndarray[Any, Any]:
    """The ranks of a mesh, as an array with its dimensions."""
    if not hasattr(mesh, "mesh"):
        hint = ": gl.Sharding.by_mesh takes a dict of sizes" if isinstance(mesh, dict) else ""
        raise LayoutTypeError(f"mesh is {checks.type_text(mesh)}, not a torch.distributed.device_mesh.DeviceMesh{hint}")
    ranks = _whole_numbers(mesh.mesh)
    found, times = np.unique(ranks, return_counts=True)
    if (times > 1).any():
        raise LayoutError(f"mesh has rank {found[times > 1][0]} twice: a rank holds one part of a tensor")
    return ranks


def _whole_numbers(given: Any) -> np.ndarray[Any, Any]:
    """The numbers of a mesh, each that of a rank."""
    try:
        numbers = np.array(given.tolist() if hasattr(given, "tolist") else given)
        if not numbers.size:
            numbers = numbers.astype(np.int64)  # NumPy takes an empty list for floats
    except Exception as why:  # rows of different lengths, what is no array, ...
        text = checks.value_text(str(why))
        raise LayoutTypeError(f"mesh {checks.value_text(given)} is no array of ranks: NumPy says {text}") from None
    if numbers.dtype.kind not in "iu":
        raise LayoutTypeError(f"mesh {checks.value_text(given)} is no array of ranks: it must be integers")
    wrong = numbers[(numbers < 0) | (numbers >= MOST_RANKS)]
    if wrong.size:
        raise LayoutError(f"mesh has rank {wrong[0]}: ranks are numbers from 0 to {MOST_RANKS - 1}")
    return numbers.astype(np.int64)


def _world_size() -> int:
    """The number of ranks of the process group, from which meshes take theirs; 0 where there is none."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 0
    return int(distributed.get_world_size())


def _placements(placements: Iterable[Any], mesh: Sequence[int], shape: Shape) -> list[tuple[int, int] | None]:
    """For each placement the dimension that it cuts and its split factor, 1 for a plain cut; None for replicas."""
    try:
        placements = tuple(placements)
    except TypeError:
        text = f"placements {checks.value_text(placements)} is {checks.type_text(placements)}"
        raise LayoutTypeError(f"{text}: write a list with one for each dimension of the mesh") from None
    if len(placements) != len(mesh):
        raise LayoutError(
            f"placements {_texts(placements)} of {shape} has {checks.counted(len(placements), 'entry')}: the mesh "
            f"{checks.shown(mesh)} has {checks.counted(len(mesh), 'dimension')}, write one for each"
        )
    return [_placement(entry, placements, shape) for entry in placements]


def _placement(placement: Any, placements: Sequence[Any], shape: Shape) -> tuple[int, int] | None:
    names = [kind.__name__ for kind in type(placement).__mro__]
    where = f"placements {_texts(placements)} of {shape}"
    if "Partial" in names:
        raise LayoutError(
            f"{where} has {checks.value_text(placement)}, numbers that are still to be combined: "
            f"redistribute the DTensor to Replicate() or Shard(dim) first"
        )
    if names[0] == "Replicate":
        return None
    if names[0] not in ("Shard", "_StridedShard"):
        kinds = "Shard, _StridedShard or Replicate"
        raise LayoutTypeError(
            f"{where} has {checks.value_text(placement)}, {checks.type_text(placement)}: it is none of {kinds}"
        )
    dim = checks.dimension_number(placement.dim, shape.rank, f" in {where}")
    if names[0] == "Shard":
        return dim, 1
    split = checks.whole_number("split_factor", placement.split_factor, f" in {where}")
    if split < 1:
        raise LayoutError(f"split_factor {checks.number_text(split)} is less than 1 in {where}")
    return dim, split


def _texts(placements: Iterable[Any]) -> str:
    return checks.shown(tuple(placements))


# ---- cuts ----------------------------------------------------------------------------------------


def _box(
    cuts: Sequence[tuple[int, int] | None], mesh: Sequence[int], place: Sequence[int], shape: Shape, rank: int
) -> Box:
    """The box of the rank at this place of the mesh."""
    held: list[_Runs] = [[(0, size)] for size in shape.dimensions]
    for cut, count, number in zip(cuts, mesh, place):
        if cut is not None:
            dim, split = cut
            parts = min(split, shape.dimensions[dim])  # those after them are empty
            held[dim] = [run for part in range(parts) for run in _chunk(_chunk(held[dim], split, part), count, number)]
    box = []
    for dim, (runs, size) in enumerate(zip(held, shape.dimensions)):
        runs = _joined(runs) or [(size, size)]  # an empty shard begins at the end, as PyTorch says too
        if len(runs) > 1:
            shown = " and ".join(f"{first}:{last}" for first, last in runs[:2]) + (" and more" if runs[2:] else "")
            raise LayoutError(
                f"placements give rank {rank} coordinates {shown} of dimension {dim} of {shape}, which are no box: "
                f"redistribute the DTensor to Shard({dim}) or Replicate() first"
            )
        box.append(slice(*runs[0]))
    return tuple(box)


def _chunk(runs: _Runs, count: int, number: int) -> _Runs:
    """One of the chunks into which torch.chunk cuts these coordinates; the last ones may be shorter, or empty.

    >>> _chunk([(0, 4), (8, 11)], 2, 1)          # 7 coordinates: 4 and 3
    [(8, 11)]
    """
    longest = -(-sum(last - first for first, last in runs) // count)
    begin, found = number * longest, []
    end = begin + longest
    for first, last in runs:
        part = (first + max(begin, 0), min(last, first + end))
        if part[0] < part[1]:
            found.append(part)
        begin, end = begin - (last - first), end - (last - first)
    return found


def _joined(runs: _Runs) -> _Runs:
    """The runs without empty ones, and those that follow each other as one."""
    found: _Runs = []
    for first, last in runs:
        if first < last and found and found[-1][1] == first:
            found[-1] = (found[-1][0], last)
        elif first < last:
            found.append((first, last))
    return found
