"""Real arrays of JAX on eight devices of one CPU, against the boxes that this library reads of their shardings.

A process of its own, as JAX counts its devices once:  python -m tests.support.jax_shards EXAMPLES
"""

import itertools
import os
import pathlib
import random
import re
import sys

import numpy as np

import gpulayout as gl

ROOT = pathlib.Path(__file__).parents[2]
DEVICES = 8
ENVIRONMENT = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}", "JAX_PLATFORMS": "cpu"}
MESHES = [(8,), (2, 4), (4, 2), (2, 2, 2), (1, 8), (3,), (2, 3)]


def check(jax, array, sharding, devices):
    """The boxes are those of the shards of a real array, in the order of these devices."""
    placed = jax.device_put(array, sharding)
    found = gl.Sharding.from_jax_sharding(sharding, f"s32[{','.join(map(str, array.shape))}]")
    assert found.ranks == len(devices)
    shards = {shard.device: np.asarray(shard.data) for shard in placed.addressable_shards}
    for device, box, shape in zip(devices, found.boxes, found.shards):
        part = array[tuple(slice(*interval) for interval in box)]
        assert np.array_equal(shards[device], part) and shape.dimensions == part.shape


def random_spec(rng, names, rank):
    """For each dimension no axis, one, or several, each axis at most once."""
    names, spec = rng.sample(names, len(names)), []
    for _ in range(rank):
        taken = tuple(names.pop() for _ in range(min(len(names), rng.choice((0, 1, 1, 2)))))
        spec.append(taken if len(taken) > 1 else taken[0] if taken else None)
    return spec[: rng.randint(0, rank)] if rng.random() < 0.2 else spec


def random_case(jax, rng):
    """A mesh of devices in any order, and an array that its axes divide."""
    sizes = rng.choice(MESHES)
    names = ["x", "y", "z"][: len(sizes)]
    devices = rng.sample(jax.devices(), int(np.prod(sizes)))
    mesh = jax.sharding.Mesh(np.array(devices).reshape(sizes), names)
    rank = rng.choice((0, 1, 2, 2, 3))
    spec = random_spec(rng, names, rank)
    entries = [() if entry is None else (entry,) if isinstance(entry, str) else entry for entry in spec]
    cuts = [int(np.prod([mesh.shape[name] for name in entry])) for entry in entries]
    dimensions = [count * rng.choice((0, 1, 2, 3)) for count in cuts + [1] * (rank - len(cuts))]
    array = np.arange(np.prod(dimensions), dtype=np.int32).reshape(dimensions)
    return array, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec)), devices


def check_move(jax, rng):
    """An exchange brings the shards of one array to where JAX has those of another sharding, as arrays of JAX."""
    array, held = np.arange(24 * 24, dtype=np.int32).reshape(24, 24), []
    sizes = rng.choice(MESHES)
    devices = rng.sample(jax.devices(), int(np.prod(sizes)))
    names = ["x", "y", "z"][: len(sizes)]
    mesh = jax.sharding.Mesh(np.array(devices).reshape(sizes), names)
    for _ in range(2):
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*random_spec(rng, names, 2)))
        shards = {shard.device: shard.data for shard in jax.device_put(array, sharding).addressable_shards}
        held.append((sharding, [shards[device] for device in devices]))
    (before, buffers), (after, wanted) = held
    exchange = gl.exchange(*(gl.Sharding.from_jax_sharding(each, "s32[24,24]") for each in (before, after)))
    for device, found, shard in zip(devices, exchange.move(buffers), wanted):
        assert isinstance(found, jax.Array) and found.devices() == {device}
        assert np.array_equal(found, np.asarray(shard).reshape(-1))
    for message in exchange.messages:
        out = exchange.new_buffer(message.target, buffers[0])
        message.unpack(message.pack(buffers[message.source]), out)


def check_page(jax):
    """The example of docs/shards.md."""
    mesh, P = jax.make_mesh((2, 4), ("dp", "tp")), jax.sharding.PartitionSpec
    array = jax.random.normal(jax.random.key(0), (1024, 512), "bfloat16")
    x = jax.device_put(array, jax.sharding.NamedSharding(mesh, P("tp", "dp")))
    page = (ROOT / "docs" / "shards.md").read_text(encoding="utf-8").partition("## From JAX and PyTorch")[2]
    names = {"gl": gl, "mesh": mesh, "P": P, "x": x}
    exec(re.search(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[1], names)
    for rank, found in enumerate(names["tiles"]):
        columns = array[:, rank % 4 * 128 : rank % 4 * 128 + 128]
        assert found.devices() == {mesh.devices.flat[rank]}
        assert np.array_equal(found, gl.pack(columns, "{1,0:T(8,128)}"))


def refusals(jax):
    """The errors for shardings that do not map ranks to shards, or that do not fit the array."""
    P, mesh = jax.sharding.PartitionSpec, jax.make_mesh((2, 4), ("x", "y"))
    named = jax.sharding.NamedSharding
    cases = [
        (named(mesh, P("x")), "f32[7,4]"),
        (named(mesh, P(("x", "y"))), "f32[12,4]"),
        (named(mesh, P(None, "x")), "f32[4]"),
        (named(mesh, P(unreduced={"y"})), "f32[4]"),
        (named(mesh.abstract_mesh, P("x")), "f32[4]"),
        (jax.numpy.zeros(4), "f32[4]"),
        (P("x"), "f32[4]"),
    ]
    for sharding, shape in cases:
        try:
            gl.Sharding.from_jax_sharding(sharding, shape)
        except gl.LayoutError as error:
            yield str(error)
        else:
            raise AssertionError(f"{sharding} of {shape} is not refused")


def main(examples):
    import jax

    rng = random.Random(0)
    for _ in range(examples):
        check(jax, *random_case(jax, rng))
    for _ in range(examples // 5):
        check_move(jax, rng)
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    check(jax, array, jax.sharding.SingleDeviceSharding(jax.devices()[3]), [jax.devices()[3]])
    whole = getattr(jax.sharding, "GSPMDSharding", None) or jax._src.sharding_impls.GSPMDSharding
    check(jax, array, whole.get_replicated(jax.devices()), jax.devices())
    # A mesh and a spec by their names, without JAX's devices, are the same sharding.
    mesh = jax.make_mesh((2, 4), ("x", "y"))
    for spec in itertools.permutations(["x", "y", None], 2):
        spec = jax.sharding.PartitionSpec(*spec)
        read = gl.Sharding.from_jax_sharding(jax.sharding.NamedSharding(mesh, spec), "f32[8,8]")
        assert read == gl.Sharding.by_mesh("f32[8,8]", dict(mesh.shape), spec)
    check_page(jax)
    for line in refusals(jax):
        print(line)


if __name__ == "__main__":
    os.environ |= ENVIRONMENT
    main(int(sys.argv[1]))
