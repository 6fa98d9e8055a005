"""`pack` against the buffers of real JAX arrays: XLA lays an array out on the CPU, and the raw bytes are compared.

On the CPU, XLA stores order and packed elements, but neither tiles nor padding: it accepts a tile, counts its bytes,
and stores the elements untiled.  So these tests check the size of tiled buffers, not their order.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulayout as gl
from tests.support import oracle, strategies

jax = pytest.importorskip("jax", reason="the extra `oracle` (jax) is not installed", exc_type=ImportError)
from jax.experimental.layout import Format, Layout  # noqa: E402

CPU = jax.sharding.SingleDeviceSharding(jax.devices("cpu")[0])
TYPES = ("pred", "s8", "bf16", "f8e4m3fn", "f16", "s32", "f32", "c64")  # JAX has none of 64 bits by default


def laid_out(array, major_to_minor):
    """The array as XLA's, with its dimensions in the given order in memory."""
    return jax.device_put(array, Format(Layout(major_to_minor=tuple(major_to_minor)), CPU))


def payload(shape):
    """Elements that differ from each other and from padding, as far as the type allows."""
    count = np.arange(1, shape.element_count + 1)
    return (count % 2 if shape.element_type == "pred" else count % 100).astype(shape.dtype).reshape(shape.dimensions)


def test_pack_gives_the_bytes_of_an_array_in_every_order():
    for order in itertools.permutations(range(3)):
        shape = gl.Shape("f32", (2, 3, 4), gl.Layout.from_major_to_minor(order))
        array = payload(shape)
        buffer = oracle.device_bytes(laid_out(array, order), shape.nbytes)
        assert buffer.tobytes() == gl.pack(array, shape).tobytes(), shape
        assert gl.unpack(buffer.view(shape.dtype), shape).tobytes() == array.tobytes(), shape


def test_the_shape_of_an_array_has_the_order_that_xla_gave_it():
    for sizes in ((2, 3, 4), (3, 1, 2), (5, 2)):
        for order in itertools.permutations(range(len(sizes))):
            expected = gl.Shape("f32", sizes, gl.Layout.from_major_to_minor(order))
            array = laid_out(payload(expected), order)
            found = gl.shape_of(array)
            assert gl.xla.is_bitcast(found, expected), (found, expected)
            assert 1 in sizes or found == expected
            assert gl.shape_of(np.asarray(array)) == found


@settings(max_examples=30)
@given(st.data())
def test_pack_gives_the_bytes_of_any_array(data):
    sizes = data.draw(strategies.dimensions(max_rank=6))
    shape = gl.Shape(
        data.draw(st.sampled_from(TYPES)),
        sizes,
        data.draw(strategies.layouts(sizes, padding=False, padding_value=None)),
    )
    array = payload(shape)
    buffer = oracle.device_bytes(laid_out(array, shape.layout.major_to_minor), shape.nbytes)
    assert buffer.tobytes() == gl.pack(array, shape).tobytes()


def test_a_compiled_program_relayouts_as_relayout_does():
    source = gl.Shape("f32", (3, 4, 5), gl.Layout((1, 2, 0)))
    target = source.with_layout(gl.Layout((0, 2, 1)))
    array = payload(source)
    compiled = jax.jit(lambda x: x, out_shardings=Format(Layout(major_to_minor=target.layout.major_to_minor), CPU))
    found = compiled(laid_out(array, source.layout.major_to_minor))
    assert (
        gl.relayout(gl.pack(array, source), source, target).tobytes()
        == oracle.device_bytes(found, target.nbytes).tobytes()
    )


@pytest.mark.parametrize(
    "sizes, order, tiles, known",
    [
        ((3, 5), (0, 1), ((2, 2),), None),
        ((3, 5), (1, 0), ((2, 4),), None),
        ((16, 256), (0, 1), ((8, 128), (2, 1)), None),
        ((2048,), (0,), ((1024,), (128,), (2, 1)), None),
        ((2, 3, 10), (2, 0, 1), ((2, 4),), None),
        ((8,), (0,), ((2, 2),), None),
        ((6,), (0,), ((3,), (2,)), 24),  # XLA allocates for the first tile only; the last element is at byte 24
    ],
)
def test_a_tiled_array_has_the_same_number_of_bytes(sizes, order, tiles, known):
    shape = gl.Shape("f32", sizes, gl.Layout.from_major_to_minor(order, tiles=tiles))
    # Made on the device: newer JAX does not put an array into every tiling.
    tiled = Format(Layout(major_to_minor=order, tiling=tiles), CPU)
    array = jax.jit(lambda: jax.numpy.zeros(sizes, np.float32), out_shardings=tiled)()
    assert array.on_device_size_in_bytes() == (known or shape.nbytes)
    assert known is None or shape.nbytes > known


@pytest.mark.parametrize("name", ["s4", "u4", "s2", "u2"])
def test_pack_gives_the_bytes_of_packed_elements(name):
    """On the CPU, XLA packs narrow elements whatever the layout says.  Spare bits of the last byte are garbage."""
    for sizes, order in (((5,), (0,)), ((3, 5), (1, 0)), ((2, 3, 4), (2, 0, 1))):
        bits = gl.ElementType(name).bits
        shape = gl.Shape(name, sizes, gl.Layout.from_major_to_minor(order, element_size_in_bits=bits))
        array = np.arange(shape.element_count).astype(np.int8).reshape(sizes) % (1 << bits - 1)
        buffer = oracle.device_bytes(laid_out(array.astype(shape.dtype), order), shape.nbytes)
        packed = gl.pack(array.astype(shape.dtype), shape)
        spare = 8 * shape.nbytes - bits * shape.element_count
        buffer[-1] &= 255 >> spare
        packed[-1] &= 255 >> spare
        assert buffer.tobytes() == packed.tobytes(), shape
