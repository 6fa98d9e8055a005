"""pack, unpack and relayout on random shapes up to rank 8, with strided arrays and odd addresses, on every executor."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpulayout as gl
from tests import reference
from tests.support import strategies
from tests.support.effort import examples
from tests.support.executors import guarded, guards_intact, source_buffer

# The executor fixture keeps no state between examples, so all of them may share it.
shared_fixture = settings(
    max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
phases = st.sampled_from((0, 0, 0, 1, 2, 3))


def expected_buffer(shape):
    return reference.large_buffer(
        shape.dimensions,
        shape.layout.minor_to_major,
        shape.layout.padded_dimensions,
        shape.itemsize,
        shape.padding_bytes,
    )


def logical_array(shape):
    return reference.payload(shape.element_count, shape.itemsize).view(shape.dtype).reshape(shape.dimensions)


@shared_fixture
@given(pair=strategies.pairs(), phase=phases, seed=st.integers(1, 99))
def test_relayout_turns_one_reference_buffer_into_the_other(executor, pair, phase, seed):
    source, target = pair
    if executor.name == "simt":
        executor.backend.runtime.order, executor.backend.runtime.seed = seed % 3, seed
    phase *= source.itemsize
    out, memory = guarded(executor, target.dtype, target.buffer_size, phase)
    buffer = source_buffer(executor, np.frombuffer(expected_buffer(source), source.dtype), phase)
    assert gl.relayout(buffer, source, target, out=out) is out
    assert executor.host(out).tobytes() == expected_buffer(target)
    assert guards_intact(executor, memory, phase, target.nbytes)
    assert executor.host(gl.relayout(buffer, source, target)).tobytes() == expected_buffer(target)


@shared_fixture
@given(data=st.data(), pair=strategies.pairs(max_rank=5, max_elements=2000), phase=phases)
def test_pack_takes_any_strides_and_unpack_writes_any_strides(executor, data, pair, phase):
    shape = pair[0]
    host = data.draw(strategies.strided_arrays(shape, logical_array(shape)))
    strided, around = _same_strides(executor, host)
    before = executor.host(around).tobytes()
    out, memory = guarded(executor, shape.dtype, shape.buffer_size, phase * shape.itemsize)
    gl.pack(strided, shape, out=out)
    assert executor.host(out).tobytes() == expected_buffer(shape)
    assert guards_intact(executor, memory, phase * shape.itemsize, shape.nbytes)
    strided[...] = 0
    assert gl.unpack(out, shape, out=strided) is strided
    assert executor.host(around).tobytes() == before  # the elements, and the bytes between them


@shared_fixture
@given(pair=strategies.pairs(max_rank=4))
def test_a_view_shows_the_logical_array_and_writes_to_the_buffer(executor, pair):
    shape = pair[0]
    buffer = executor.array(np.frombuffer(expected_buffer(shape), shape.dtype))
    seen = gl.view(buffer, shape)
    assert tuple(seen.shape) == shape.dimensions
    assert np.ascontiguousarray(executor.host(seen)).tobytes() == logical_array(shape).tobytes()
    if shape.element_count:
        seen[(-1,) * shape.rank] = 0
        assert executor.host(gl.unpack(buffer, shape)).reshape(-1)[-1] == 0


# Extents around every tile size, both ways; the reference is NumPy's transpose.
@pytest.mark.one_in(3)
@pytest.mark.parametrize("element_type", strategies.WHOLE_TYPES)
@pytest.mark.parametrize("extra", (-1, 0, 1))
def test_tiles_with_edges(executor, element_type, extra):
    itemsize = gl.Shape(element_type, ()).itemsize
    side = {1: 128, 2: 64, 4: 64, 8: 32, 16: 32}[itemsize]
    for rows, columns in (
        (side + extra, side),
        (side, side + extra),
        (2 * side + extra, side // 2),
        (side + extra, 3 * side + extra),
        (3, 500 + extra),
    ):
        for widths in (None, (rows + 3, columns + 16)):
            source = gl.Shape(element_type, (rows, columns))
            target = source.with_layout(gl.Layout((0, 1), padded_dimensions=widths, padding_value=1))
            buffer = executor.array(np.frombuffer(expected_buffer(source), source.dtype))
            out, memory = guarded(executor, target.dtype, target.buffer_size)
            gl.relayout(buffer, source, target, out=out)
            assert executor.host(out).tobytes() == expected_buffer(target), target
            assert guards_intact(executor, memory, 0, target.nbytes)
            assert executor.host(gl.relayout(out, target, source)).tobytes() == expected_buffer(source), target


def test_broadcast_arrays_are_packed(executor):
    row = executor.array(np.arange(5, dtype=np.float32))
    wide = executor.backend.strided(row, (3, 5), (0, 4))
    assert executor.host(gl.pack(wide, "f32[3,5]{0,1}")).tolist() == np.repeat(np.arange(5.0), 3).tolist()


def test_a_whole_rank_of_64_works(executor):
    sizes = (1,) * 40 + (2,) * 10 + (1,) * 14
    shape = gl.Shape("s16", sizes, gl.Layout.ascending(64))
    packed = gl.pack(executor.array(logical_array(shape)), shape)
    assert executor.host(packed).tobytes() == expected_buffer(shape)


def _same_strides(executor, host):
    """(the array in the executor's memory, with the strides it has on the host; all the memory it is part of)."""
    base = host
    while base.base is not None:
        base = base.base
    if executor.name != "cupy":
        return host, base
    offset = (host.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // base.itemsize
    flat = executor.array(base.reshape(-1))
    return executor.backend.strided(flat[offset:], host.shape, host.strides), flat
