"""JAX's layouts and formats, against the arrays that JAX makes and the programs that XLA compiles."""

import ctypes
import itertools
import subprocess
import sys
import types

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


def format_of(array):
    """`array.format`, which JAX 0.6 calls `array.layout`."""
    return array.format if hasattr(array, "format") else array.layout


def layout_of(array):
    found = format_of(array)
    return found.layout if hasattr(found, "layout") else found.device_local_layout


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
        assert layout_of(put) == interop.to_jax_layout(shape)
        assert interop.from_jax_layout(layout_of(put), put.shape, put.dtype) == shape
        assert interop.from_jax_format(format_of(put), put.shape, put.dtype) == shape


@pytest.mark.parametrize("text", SHARED)
def test_what_both_can_say_comes_back(jax, text):
    shape = gl.parse_shape(text)
    layout = interop.to_jax_layout(text)
    assert type(layout).__name__ in ("Layout", "DeviceLocalLayout")
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
    assert str(interop.from_jax_format(format_of(result), result.shape, result.dtype)) == "f32[3,2]{0,1}"


@pytest.mark.parametrize("text", REFUSED)
def test_what_jax_cannot_say_is_refused_by_the_name_of_its_field(text):
    for translate in (interop.to_jax_layout, interop.to_jax_format):
        with pytest.raises(gl.LayoutError, match="cannot be expressed as a JAX layout") as caught:
            translate(text)
        assert str(caught.value).startswith(REFUSED[text] + f" {text}")


def test_a_layout_that_xla_chooses_is_none(jax):
    module = jax.experimental.layout
    auto = getattr(module, "DeviceLocalLayout", module.Layout).AUTO
    for layout, name in ((auto, "AUTO"), (None, "None")):
        with pytest.raises(gl.LayoutError, match=f"^layout {name} leaves the layout to XLA: take array.format.layout"):
            interop.from_jax_layout(layout, (2, 3), "f32")
        with pytest.raises(gl.LayoutError, match=f"^layout {name} leaves"):
            interop.from_jax_format(getattr(module, "Format", module.Layout)(layout), (2, 3), "f32")


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


# ---- the names of other releases --------------------------------------------------------------------


class OldLayout:
    """DeviceLocalLayout of JAX 0.6."""

    def __init__(self, major_to_minor, _tiling=None, _sub_byte_element_size_in_bits=0):
        self.major_to_minor, self._tiling = major_to_minor, _tiling
        self._sub_byte_element_size_in_bits = _sub_byte_element_size_in_bits


class OldFormat:
    """What JAX 0.6 calls Layout."""

    def __init__(self, device_local_layout=None, sharding=None):
        self.device_local_layout, self.sharding = device_local_layout, sharding


def test_the_names_of_jax_0_6(monkeypatch):
    sharding = types.SimpleNamespace(is_fully_replicated=True)
    module = types.SimpleNamespace(DeviceLocalLayout=OldLayout, Layout=OldFormat)
    monkeypatch.setitem(sys.modules, "jax.experimental.layout", module)
    for text in SHARED:
        shape = gl.parse_shape(text)
        layout, found = interop.to_jax_layout(shape), interop.to_jax_format(shape, sharding)
        assert type(layout) is OldLayout and type(found) is OldFormat and found.sharding is sharding
        assert interop.from_jax_layout(layout, shape.dimensions, shape.element_type) == shape
        assert interop.from_jax_format(found, shape.dimensions, shape.element_type) == shape
