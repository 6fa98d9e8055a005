"""Shardings: which box of a logical array each rank holds, and in which layout.

    Sharding("f32[6,4]", [slice(0, 3), slice(3, 6)])       rank 0 has rows 0 to 3, rank 1 rows 3 to 6
    Sharding.by_mesh("f32[6,4]", {"x": 2, "y": 2}, ("y",)) four ranks; 0 and 2 have rows 0 to 3, 1 and 3 the others

Several ranks may hold the same elements, and a rank may hold none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from gpulayout.arrays.array_types import ShapeLike, TargetLike
from gpulayout.layout.checks import counted, number_text, product, shown, value_text
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_shape
from gpulayout.moves.boxes import part_shape
from gpulayout.moves.move import check_storable
from gpulayout.moves.placement import Box
from gpulayout.requests.index_keys import box_of
from gpulayout.requests.shape_arguments import as_target
from gpulayout.shards.from_jax import boxes_of_jax_sharding
from gpulayout.shards.from_torch import MOST_RANKS, boxes_of_device_mesh, check_local, shape_of_dtensor

Layouts = TargetLike | Sequence[TargetLike | None] | None
Spec = Iterable[str | Sequence[str] | None]


class Sharding:
    """Which box of a logical array each rank holds, and in which layout.  Frozen.

    Parameters
    ----------
    shape : Shape or str
        The logical array.  Its layout is also that of every shard, as `Plan.part` has it.
    boxes : sequence
        For each rank its box, as it would index the array: a slice, ``...``, or a tuple of them.  None for a rank that
        holds nothing.  Boxes may be equal (replicas), overlap, leave gaps or have no elements.
        Those of another sharding's `boxes` are taken too.
    layouts : layout, str, or a sequence of them, optional
        Another layout for the shards, or one for each rank: whatever `plan` takes as a target, for an array of the
        sizes of the shard.  None in a sequence keeps the layout of `shape`.

    Attributes
    ----------
    shape : Shape
        The logical array.
    boxes : tuple
        For each rank a tuple of (first, last) for each dimension, `last` not included; or None.
    shards : tuple of Shape or None
        For each rank the shape of its buffer.

    Raises
    ------
    LayoutError
        When a box has steps other than 1 or ends beyond the array, when there is not one layout for each rank, and when
        no buffer can hold a shape.
    TypeError
        When an argument is not a shape, a box or a layout.
    IndexError
        When a box has more slices than the array has dimensions.

    See Also
    --------
    exchange : From one sharding to another.
    Plan.part : The plan of one box.

    Notes
    -----
    Ranks are numbered from 0.  The transport decides which process each of them is.

    Examples
    --------
    >>> import gpulayout as gl
    >>> rows = gl.Sharding("f32[6,4]", [slice(0, 4), slice(4, None), None])
    >>> rows.boxes
    (((0, 4), (0, 4)), ((4, 6), (0, 4)), None)
    >>> print(rows.shards[1])
    f32[2,4]{1,0}

    The sharding of an engine whose ranks come after three others:

    >>> gl.Sharding("f32[6,4]", [None, None, None, *rows.boxes])
    <Sharding of f32[6,4]{1,0} over 6 ranks>
    """

    __slots__ = ("shape", "boxes", "shards")

    shape: Shape
    boxes: tuple[Box | None, ...]
    shards: tuple[Shape | None, ...]

    def __init__(self, shape: ShapeLike, boxes: Sequence[Any], layouts: Layouts = None):
        whole = as_shape(shape)
        if whole.is_dynamic:
            raise LayoutError(f"shape {whole} has sizes that are not known: a sharding is of an array with all sizes")
        check_storable(whole)
        if isinstance(boxes, (str, slice, Mapping)) or not isinstance(boxes, Sequence):
            raise TypeError(f"boxes is {value_text(boxes)}: write a list with a box for each rank")
        if not boxes:
            raise LayoutError(f"boxes of {whole} is empty: write a box for each rank, or None for a rank without one")
        own = tuple([None if box is None else _box(rank, box, whole) for rank, box in enumerate(boxes)])
        shards = zip(range(len(own)), own, _layout_of_each(layouts, len(own)))
        self._fill(whole, own, tuple([_shard(rank, whole, box, layout) for rank, box, layout in shards]))

    def _fill(self, shape: Shape, boxes: tuple[Box | None, ...], shards: tuple[Shape | None, ...]) -> None:
        for name, value in zip(self.__slots__, (shape, boxes, shards)):
            object.__setattr__(self, name, value)

    @classmethod
    def by_mesh(cls, shape: ShapeLike, mesh: Mapping[str, int], spec: Spec, layouts: Layouts = None) -> Sharding:
        """The sharding that names of mesh axes say, as JAX's `PartitionSpec` does.

        Parameters
        ----------
        shape : Shape or str
            The logical array.
        mesh : mapping of str to int
            The axes of the mesh and their sizes, the most major first: rank 1 is the next along the last axis.
        spec : sequence
            For each dimension of the array the name of the axis that cuts it, several names, or None.  Dimensions
            after the last entry are not cut.  Along axes of the mesh that it does not name, ranks hold the same.
        layouts
            As for the class.

        Returns
        -------
        Sharding
            A dimension of size n over k ranks is cut into parts of ceil(n / k): the last ones may be shorter, or empty.

        Raises
        ------
        LayoutError
            For an axis that the mesh does not have or the spec has twice, and for several axes over a dimension that
            they do not divide, which JAX and PyTorch would cut differently.

        Notes
        -----
        `torch.chunk` and XLA cut in the same way as long as one axis cuts a dimension.

        Examples
        --------
        >>> import gpulayout as gl
        >>> tp = gl.Sharding.by_mesh("bf16[7,4]", {"dp": 2, "tp": 3}, ("tp", None))
        >>> [box[0] for box in tp.boxes]
        [(0, 3), (3, 6), (6, 7), (0, 3), (3, 6), (6, 7)]
        """
        whole = as_shape(shape)
        sizes = _mesh_sizes(mesh)
        cuts = _mesh_cuts(whole, sizes, spec)
        boxes = []
        for place in itertools.product(*map(range, sizes.values())):
            at = dict(zip(sizes, place))
            box = []
            for size, names in zip(whole.dimensions, cuts):
                part = 0
                for name in names:
                    part = part * sizes[name] + at[name]
                box.append(slice(*chunk(size, math.prod(sizes[name] for name in names), part)))
            boxes.append(tuple(box))
        return cls(whole, boxes, layouts)

    @classmethod
    def from_jax_sharding(cls, sharding: Any, shape: ShapeLike, layouts: Layouts = None) -> Sharding:
        """The sharding of an array of JAX.

        Parameters
        ----------
        sharding : jax.sharding.Sharding
            A `NamedSharding`, as `array.sharding` is, or any other whose devices are known.
        shape : Shape or str
            The whole array.
        layouts
            As for the class.

        Returns
        -------
        Sharding
            Ranks are devices, in the order of ``sharding.mesh.devices.flat``.

        Raises
        ------
        LayoutError
            For dimensions that the mesh does not divide, which JAX refuses, for unreduced axes and abstract meshes.
        TypeError
            For what is no sharding.

        See Also
        --------
        by_mesh : A mesh and a `PartitionSpec` without devices, also with uneven shards.

        Examples
        --------
        >>> import gpulayout as gl
        >>> from types import SimpleNamespace            # in place of a sharding of JAX
        >>> rows = SimpleNamespace(devices_indices_map=lambda sizes: {"a": (slice(0, 4),), "b": (slice(4, 8),)})
        >>> gl.Sharding.from_jax_sharding(rows, "f32[8]").boxes
        (((0, 4),), ((4, 8),))
        """
        whole = as_shape(shape)
        return cls(whole, boxes_of_jax_sharding(sharding, whole), layouts)

    @classmethod
    def from_device_mesh(
        cls, mesh: Any, placements: Iterable[Any], shape: ShapeLike, layouts: Layouts = None
    ) -> Sharding:
        """The sharding of a DTensor of PyTorch, by its mesh and its placements.

        Parameters
        ----------
        mesh : torch.distributed.device_mesh.DeviceMesh
            Its numbers are the ranks, in any order.  Of a slice such as ``mesh["tp"]`` only the ranks of the caller's
            own slice hold anything: take the whole mesh, with `Replicate` for its other dimensions.
        placements : sequence
            For each dimension of the mesh `Shard` or `Replicate`.
        shape : Shape or str
            The whole tensor.
        layouts
            As for the class.

        Returns
        -------
        Sharding
            Its ranks are those of the default process group; one that is not in the mesh holds nothing.  Where a
            dimension is cut unevenly, the last shards are shorter, or empty, as `torch.chunk` cuts.

        Raises
        ------
        LayoutError
            For `Partial`, whose numbers are still to be combined, for placements that leave a rank with coordinates
            that are no box, and as many placements as the mesh has no dimensions.
        TypeError
            For what is no mesh, and other placements.

        Notes
        -----
        `_StridedShard`, which PyTorch writes for tensor parallelism below FSDP, is read as PyTorch reads it.

        Examples
        --------
        >>> import gpulayout as gl
        >>> from types import SimpleNamespace            # in place of PyTorch's classes
        >>> mesh = SimpleNamespace(mesh=[[0, 1], [2, 3]])
        >>> Shard, Replicate = (type(name, (SimpleNamespace,), {}) for name in ("Shard", "Replicate"))
        >>> tp = gl.Sharding.from_device_mesh(mesh, [Replicate(), Shard(dim=1)], "bf16[8,5]")
        >>> [box[1] for box in tp.boxes]
        [(0, 3), (3, 5), (0, 3), (3, 5)]
        """
        whole = as_shape(shape)
        return cls(whole, boxes_of_device_mesh(mesh, placements, whole), layouts)

    @classmethod
    def from_dtensor(cls, tensor: Any, layouts: Layouts = None) -> Sharding:
        """The sharding of a DTensor of PyTorch.  The buffer of a rank is ``tensor.to_local()``.

        Parameters
        ----------
        tensor : torch.distributed.tensor.DTensor
            The shape is that of the whole tensor, in the order of its strides.
        layouts
            As for the class: how local tensors lie, where they do not lie in that order.

        Returns
        -------
        Sharding

        Raises
        ------
        LayoutError
            As for `from_device_mesh`; and for a local tensor with other sizes than the placements say, or strides in
            another order.
        TypeError
            For what is no DTensor.

        Examples
        --------
        >>> import gpulayout as gl
        >>> gl.Sharding.from_dtensor("bf16[8,5]")
        Traceback (most recent call last):
            ...
        gpulayout.LayoutTypeError: tensor is a str, not a torch.distributed.tensor.DTensor
        """
        whole = shape_of_dtensor(tensor)
        boxes = boxes_of_device_mesh(tensor.device_mesh, tensor.placements, whole)
        check_local(tensor, boxes, whole, strides=layouts is None)
        return cls(whole, boxes, layouts)

    @property
    def ranks(self) -> int:
        """The number of ranks, those that hold nothing included."""
        return len(self.boxes)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} of a sharding cannot be changed: make another one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name} of a sharding cannot be deleted")

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Sharding) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.boxes, self.shards

    def __reduce__(self) -> tuple[Any, ...]:
        return _sharding, self._key

    def __repr__(self) -> str:
        return f"<Sharding of {self.shape} over {counted(self.ranks, 'rank')}>"

    def __str__(self) -> str:
        lines = [repr(self)[1:-1]]
        for rank, (box, shard) in enumerate(zip(self.boxes, self.shards)):
            lines.append(f"  rank {rank}  " + ("nothing" if box is None else f"{box_text(box)}  {shard}"))
        return "\n".join(lines)


def _sharding(shape: Shape, boxes: tuple[Box | None, ...], shards: tuple[Shape | None, ...]) -> Sharding:
    """A sharding of what another one had, which was checked."""
    made = object.__new__(Sharding)
    made._fill(shape, boxes, shards)
    return made


def box_text(box: Box) -> str:
    """A box as it would index an array.

    >>> box_text(((0, 3), (2, 4)))
    '[0:3, 2:4]'
    """
    return f"[{', '.join(f'{first}:{last}' for first, last in box)}]"


def chunk(size: int, parts: int, part: int) -> tuple[int, int]:
    """The part of a dimension that is cut into parts of the same size, the last ones shorter or empty.

    >>> [chunk(7, 4, part) for part in range(4)], [chunk(2, 4, part) for part in range(4)]
    ([(0, 2), (2, 4), (4, 6), (6, 7)], [(0, 1), (1, 2), (2, 2), (2, 2)])
    """
    each = -(-size // parts)
    return min(part * each, size), min((part + 1) * each, size)


def _box(rank: int, box: Any, shape: Shape) -> Box:
    try:
        return _within(box, shape) if _is_box(box) else box_of(box, shape, within=True)
    except (LayoutError, IndexError, TypeError) as error:
        raise type(error)(f"boxes[{rank}]: {error}") from None


def _is_box(box: Any) -> bool:
    """Is it a box as `boxes` of a sharding has it, and no index?"""
    return type(box) is tuple and bool(box) and all(type(pair) is tuple for pair in box)


def _within(box: tuple[Any, ...], shape: Shape) -> Box:
    """A box of another sharding, which may be one of another array."""
    if len(box) != shape.rank:
        raise LayoutError(f"box {value_text(box)} has {counted(len(box), 'axis')}, and {shape} has {shape.rank}")
    for axis, (pair, size) in enumerate(zip(box, shape.dimensions)):
        if len(pair) != 2 or any(type(end) is not int for end in pair) or not 0 <= pair[0] <= pair[1] <= size:
            raise LayoutError(
                f"box has {value_text(pair)} for axis {axis} of {shape}: write a slice, or (first, last) of an axis, "
                f"0 <= first <= last <= {size}"
            )
    return box


def _layout_of_each(layouts: Layouts, ranks: int) -> list[TargetLike | None]:
    if layouts is None or isinstance(layouts, (str, Layout, Shape)):
        return [layouts] * ranks
    if isinstance(layouts, Mapping) or not isinstance(layouts, Sequence):
        raise TypeError(f"layouts is {value_text(layouts)}: write a layout, or a list with one for each rank")
    if len(layouts) != ranks:
        raise LayoutError(f"layouts has {counted(len(layouts), 'entry')}, but there are {counted(ranks, 'rank')}")
    return list(layouts)


def _shard(rank: int, whole: Shape, box: Box | None, layout: TargetLike | None) -> Shape | None:
    """The shape of a rank's buffer; LayoutError for a layout that does not suit its sizes."""
    if box is None:
        return None
    try:
        if layout is None:
            shard = part_shape(whole, box)
        else:
            sizes = tuple([last - first for first, last in box])
            shard = as_target(layout, Shape(whole.element_type, sizes), "layout")
            if shard.dimensions != sizes or shard.element_type is not whole.element_type:
                raise LayoutError(f"{shard} is no {whole.element_type}[{','.join(map(str, sizes))}], the rank's box")
        check_storable(shard)
    except (LayoutError, TypeError) as error:
        raise type(error)(f"layout of rank {rank}, box {box_text(box)} of {whole}: {error}") from None
    return shard


def _mesh_sizes(mesh: Mapping[str, int]) -> dict[str, int]:
    if not isinstance(mesh, Mapping):
        raise TypeError(f"mesh is {value_text(mesh)}: write names and sizes, such as {{'dp': 2, 'tp': 4}}")
    for name, size in mesh.items():
        if not isinstance(name, str) or isinstance(size, bool) or not isinstance(size, int):
            raise TypeError(f"mesh has {value_text(name)}: {value_text(size)}; an axis is a name and a whole number")
        if size < 1:
            raise LayoutError(f"mesh has {value_text(name)}: {number_text(size)}; an axis has at least one rank")
    if product(mesh.values()) > MOST_RANKS:
        raise LayoutError(f"mesh {value_text(dict(mesh))} has more than {MOST_RANKS} ranks")
    return dict(mesh)


def _mesh_cuts(whole: Shape, sizes: Mapping[str, int], spec: Spec) -> list[tuple[str, ...]]:
    """For every dimension the axes of the mesh that cut it, each checked."""
    if isinstance(spec, (str, Mapping, Set)) or not isinstance(spec, Iterable):  # a PartitionSpec is no Sequence
        raise TypeError(f"spec is {value_text(spec)}: write an entry for each dimension, such as ('tp', None)")
    if getattr(spec, "unreduced", None):
        raise LayoutError(f"spec is {value_text(spec)}, whose numbers are still to be summed along unreduced axes")
    try:
        spec = tuple(spec)
    except TypeError:  # an array without dimensions
        raise TypeError(
            f"spec is {value_text(spec)}: write an entry for each dimension, such as ('tp', None)"
        ) from None
    if len(spec) > whole.rank:
        raise LayoutError(f"spec has {counted(len(spec), 'entry')} for {whole}, whose rank is {whole.rank}")
    cuts: list[tuple[str, ...]] = []
    seen: dict[str, int] = {}
    for dim, entry in enumerate([*spec, *[None] * (whole.rank - len(spec))]):
        names = () if entry is None else (entry,) if isinstance(entry, str) else entry
        if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
            raise TypeError(f"spec[{dim}] is {value_text(entry)}: write the name of an axis, a tuple of names, or None")
        names = tuple(names)
        for name in names:
            if name not in sizes:
                raise LayoutError(f"spec[{dim}] has {value_text(name)}, but the mesh has the axes {shown([*sizes])}")
            if name in seen:
                raise LayoutError(f"spec has {value_text(name)} for dimensions {seen[name]} and {dim}: cut one of them")
            seen[name] = dim
        size, parts = whole.dimensions[dim], math.prod(sizes[name] for name in names)
        if len(names) > 1 and size % parts:
            raise LayoutError(
                f"dimension {dim} of {whole} has size {size}, which {' x '.join(names)} = {parts} parts do not divide: "
                "JAX and PyTorch cut it in different places; write the box of each rank, gl.Sharding(shape, boxes)"
            )
        cuts.append(names)
    return cuts
