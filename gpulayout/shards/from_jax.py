"""The box of each device of a JAX sharding.

JAX itself says which slices of an array each device has, so every kind of sharding is read by one function.
"""

from __future__ import annotations

import math
from typing import Any

from gpulayout.layout import checks
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.shape import Shape

Box = tuple[slice, ...]


def boxes_of_jax_sharding(sharding: Any, shape: Shape) -> tuple[Box, ...]:
    """The box of each device, in the order of the mesh, `sharding.mesh.devices.flat`.

    sharding    a jax.sharding.NamedSharding, or any other on devices
    shape       of the whole array

    >>> from types import SimpleNamespace            # in place of JAX's classes
    >>> sharding = SimpleNamespace(devices_indices_map=lambda sizes: {"gpu 0": (slice(0, 2),), "gpu 1": (slice(2, 4),)})
    >>> boxes_of_jax_sharding(sharding, Shape("f32", (4,)))
    ((slice(0, 2, None),), (slice(2, 4, None),))
    """
    if not hasattr(sharding, "devices_indices_map"):
        hint = _hint(sharding)
        raise LayoutTypeError(f"sharding is {checks.type_text(sharding)}, not a jax.sharding.Sharding{hint}")
    _check_cuts(sharding, shape)
    try:
        return tuple(sharding.devices_indices_map(shape.dimensions).values())
    except Exception as error:  # of any class: IndivisibleError, IndexError, AssertionError, ...
        why = checks.clipped(" ".join(str(error).split()), 300)
        raise LayoutError(f"sharding {_text(sharding)} does not fit {shape}, JAX says: {why}") from None


def _check_cuts(sharding: Any, shape: Shape) -> None:
    """LayoutError in plain words for what JAX refuses of a NamedSharding."""
    mesh, spec = getattr(sharding, "mesh", None), getattr(sharding, "spec", None)
    if mesh is None or spec is None:
        return
    if type(mesh).__name__ == "AbstractMesh":
        raise LayoutError(
            f"sharding {_text(sharding)} has an abstract mesh: ranks are devices, take a jax.sharding.Mesh"
        )
    if getattr(spec, "unreduced", None):
        raise LayoutError(
            f"sharding {_text(sharding)} of {shape} is unreduced along {checks.shown(sorted(spec.unreduced))}, whose "
            f"numbers are still to be summed: jax.reshard the array first"
        )
    if len(spec) > shape.rank:
        entries = checks.counted(len(spec), "entry")
        raise LayoutError(f"sharding {_text(sharding)} has {entries}, one for each dimension: {shape} has {shape.rank}")
    for dim, (entry, size) in enumerate(zip(spec, shape.dimensions)):
        axes = () if entry is None else entry if isinstance(entry, tuple) else (entry,)
        if not all(isinstance(axis, str) for axis in axes):
            raise LayoutError(
                f"sharding {_text(sharding)} leaves dimension {dim} of {shape} to JAX: take array.sharding"
            )
        count = math.prod(mesh.shape[axis] for axis in axes)
        if size % count:
            raise LayoutError(
                f"sharding {_text(sharding)} cuts dimension {dim} of {shape} into {count} equal parts, which do not "
                f"divide {size}: JAX has no uneven shards, gl.Sharding.by_mesh and gl.Sharding(shape, boxes) have"
            )


def _text(sharding: Any) -> str:
    """A sharding for an error message: of a NamedSharding what it says of the array, else all of it."""
    spec = getattr(sharding, "spec", None)
    return checks.value_text(sharding if spec is None else spec)


def _hint(value: Any) -> str:
    """What to write instead of something that is not a sharding."""
    if hasattr(value, "sharding"):  # an array, or a Format
        return ": pass its .sharding"
    return ": gl.Sharding.by_mesh takes a mesh and a spec" if hasattr(value, "unreduced") else ""
