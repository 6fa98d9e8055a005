"""JAX's layouts and formats, against the arrays that JAX makes and the programs that XLA compiles."""

import ctypes
import itertools
import subprocess
import sys

import numpy as np
import pytest

import gpulayout as gl
from gpulayout import interop

SHARED = (
    "f32[2,3]{1,0}",
    "f32[2,3]{0,1}",
    "f32[4,8]{0,1:T(2,4)}",
    "f32[4,8]{1,0:T(2,4)(2,1)}",
    "f32[]",
    "f32[0,3]{0,1}",
)
SHARED += ("s4[2,3]{1,0:E(4)}", "bf16[16,256]{1,0:T(8,128)(2,1)}", "f32[5]{0:T(8)}")
REFUSED = {
    "f32[2,3]{0,1:PD(3,5)}": "padded_dimensions (3, 5) of",
    "f32[4,4]{1,0:PV(lowest)T(8,8)}": "padding_value PaddingValue.LOWEST of",
    "f32[4,4]{1,0:T(*,4)}": "tile (*,4) of",
    "f32[4,4]{1,0:L(64)}": "tail_padding_alignment 64 of",
    "f32[4,4]{1,0:S(1)}": "memory_space 1 of",
}


@pytest.fixture
def jax():
    pytest.importorskip("jax.experimental.layout")
    return pytest.importorskip("jax")


def memory_of(array):
    """The bytes of a JAX array on the CPU."""
    array.block_until_ready()
    return ctypes.string_at(array.unsafe_buffer_pointer(), array.on_device_size_in_bytes())


@pytest.mark.parametrize("rank", range(5))
def test_an_array_put_with_a_format_lies_as_the_shape_says(jax, rank):
    sizes = (2, 3, 4, 5)[:rank]
    array = np.arange(np.prod(sizes, dtype=int), dtype=np.float32).reshape(sizes)
    for order in itertools.permutations(range(rank)):
        shape = gl.Shape("f32", sizes, gl.Layout(order))
        put = jax.device_put(array, interop.to_jax_format(shape))
        assert memory_of(put) == gl.pack(array, shape).tobytes()
        assert put.format.layout == interop.to_jax_layout(shape)
        assert interop.from_jax_layout(put.format.layout, put.shape, put.dtype) == shape
        assert interop.from_jax_format(put.format, put.shape, put.dtype) == shape


@pytest.mark.parametrize("text", SHARED)
def test_what_both_can_say_comes_back(jax, text):
    shape = gl.parse_shape(text)
    layout = interop.to_jax_layout(text)
    assert type(layout) is jax.experimental.layout.Layout
    assert interop.from_jax_layout(layout, shape.dimensions, shape.element_type) == shape
    found = interop.to_jax_format(shape, jax.sharding.SingleDeviceSharding(jax.devices()[0]))
    assert interop.from_jax_format(found, shape.dimensions, shape.element_type) == shape
    assert found == interop.to_jax_format(text)


@pytest.mark.parametrize("text", ["f32[4,8]{0,1}", "f32[4,8]{0,1:T(2,4)}", "f32[4,8]{1,0:T(2,4)(2,1)}"])
def test_xla_prints_the_same_layout(jax, text):
    compiled = (
        jax.jit(lambda a: a + 1, in_shardings=interop.to_jax_format(text)).lower(np.zeros((4, 8), "f4")).compile()
    )
    assert f"entry_computation_layout={{({text})->" in compiled.as_text()


def test_the_result_of_a_program_says_its_layout(jax):
    result = jax.jit(lambda a: a.T, out_shardings=interop.to_jax_format("f32[3,2]{0,1}"))(np.ones((2, 3), "f4"))
    assert str(interop.from_jax_format(result.format, result.shape, result.dtype)) == "f32[3,2]{0,1}"


@pytest.mark.parametrize("text", REFUSED)
def test_what_jax_cannot_say_is_refused_by_the_name_of_its_field(text):
    for translate in (interop.to_jax_layout, interop.to_jax_format):
        with pytest.raises(gl.LayoutError, match="cannot be expressed as a JAX layout") as caught:
            translate(text)
        assert str(caught.value).startswith(REFUSED[text] + f" {text}")


def test_a_layout_that_xla_chooses_is_none(jax):
    module = jax.experimental.layout
    for layout, name in ((module.Layout.AUTO, "AUTO"), (None, "None")):
        with pytest.raises(gl.LayoutError, match=f"^layout {name} leaves the layout to XLA: take array.format.layout"):
            interop.from_jax_layout(layout, (2, 3), "f32")
        with pytest.raises(gl.LayoutError, match=f"^layout {name} leaves"):
            interop.from_jax_format(module.Format(layout), (2, 3), "f32")


def test_other_objects_are_refused(jax):
    with pytest.raises(gl.LayoutTypeError, match="^layout is a .*: gl.interop.from_jax_format takes a Format$"):
        interop.from_jax_layout(interop.to_jax_format("f32[2,3]"), (2, 3), "f32")
    with pytest.raises(gl.LayoutTypeError, match="^layout is an int, not a jax.experimental.layout.Layout$"):
        interop.from_jax_layout(3, (2, 3), "f32")
    with pytest.raises(gl.LayoutTypeError, match="^format is a .*, not a jax.experimental.layout.Format$"):
        interop.from_jax_format(interop.to_jax_layout("f32[2,3]"), (2, 3), "f32")
    with pytest.raises(gl.LayoutError, match=r"minor_to_major \(1, 0\) has 2 entries for f32\[2,3,4\]"):
        interop.from_jax_layout(interop.to_jax_layout("f32[2,3]"), (2, 3, 4), "f32")


SHARDED = """
import jax, numpy as np, gpulayout as gl
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
for names in (("x", None), ()):
    array = jax.device_put(np.ones((4, 6), "f4"), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*names)))
    format = array.format if hasattr(array, "format") else array.layout
    try:
        print(gl.interop.from_jax_format(format, array.shape, array.dtype))
    except gl.LayoutError as error:
        print(error)
        part = array.addressable_shards[0].data
        format = part.format if hasattr(part, "format") else part.layout
        print(gl.interop.from_jax_format(format, part.shape, part.dtype))
"""


def test_a_split_array_is_refused_and_a_shard_or_a_copy_on_every_device_is_not(jax, monkeypatch):
    """In a process of its own, where the CPU poses as two devices."""
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    done = subprocess.run([sys.executable, "-c", SHARDED], capture_output=True, text=True, check=True)
    error, shard, copy = done.stdout.splitlines()
    assert "splits dimensions (4, 6) over 2 devices" in error and "take array.addressable_shards[n].data" in error
    assert shard == "f32[2,6]{1,0}" and copy == "f32[4,6]{1,0}"
