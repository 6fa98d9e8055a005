"""Blocks of a plan against the definition: what every byte of both large buffers is, and how often blocks touch it."""

import numpy as np

import gpulayout as gl
from tests import reference
from tests.support import packed_reference
from tests.support.tiled_cases import numbers


def buffer_of(shape):
    """The bytes of a buffer of distinct values, from the definitions of layouts, of tiles and of packing."""
    if shape.is_packed:
        return packed_reference.buffer(shape)
    if shape.element_type.is_sub_byte:  # one in each byte: the same values as in a packed buffer
        elements = packed_reference.values(shape.element_count, shape.element_type.bits).astype(np.uint8)[:, None]
    else:
        elements = reference.payload(shape.element_count, shape.itemsize)
    pad = np.frombuffer(shape.padding_bytes, np.uint8)[None]
    return np.concatenate([elements, pad])[numbers(shape)].reshape(-1)


def element_bytes(shape):
    """For every byte of a buffer, whether an element lies in it."""
    places = numbers(shape) >= 0
    if not shape.is_packed:
        return np.repeat(places, shape.itemsize)
    bits = np.repeat(places, shape.element_type.bits)
    return np.concatenate([bits, np.zeros(-len(bits) % 8, bool)]).reshape(-1, 8).any(axis=1)


def bytes_of(runs):
    """The byte offsets that runs name, in order, loop by loop from the definition."""
    found = [runs.offset]
    for count, stride in runs.loops:
        found = [start + step * stride for start in found for step in range(count)]
    return [start + byte for start in found for byte in range(runs.length)]


def check(source, target, max_bytes):
    """Run the blocks of a plan on a reference buffer, and count what they touch; the blocks."""
    plan = gl.plan(source, target)
    blocks = plan.blocks(max_bytes)
    where = f"{source} to {target} in {max_bytes} bytes"
    buffer, out = buffer_of(source), np.full(target.nbytes, 0xA5, np.uint8)
    read, written = np.zeros(source.nbytes, int), np.zeros(target.nbytes, int)
    largest = 0
    for block in blocks:
        for runs, shape, count in (
            (block.source_runs, block.plan.source, read),
            (block.target_runs, block.plan.target, written),
        ):
            assert runs.nbytes == shape.nbytes, (where, block)
            np.add.at(count, np.array(bytes_of(runs), int), 1)
        largest = max(largest, block.source_runs.nbytes + block.target_runs.nbytes)
        assert block(buffer.view(source.buffer_dtype), out=out.view(target.buffer_dtype)) is not None
    assert largest == blocks.block_bytes <= max(max_bytes, 0), where
    assert (written == 1).all(), (where, written.tolist())
    assert (read <= 1).all() and read[element_bytes(source)].all(), (where, read.tolist())
    assert blocks.bytes_read == read.sum() and blocks.bytes_written == target.nbytes, where
    assert out.tolist() == buffer_of(target).tolist(), where
    return blocks


def smallest_limit(source, target, **options):
    """The bytes of the smallest block, which the error about a limit of 0 names."""
    try:
        gl.plan(source, target, **options).blocks(0)
    except gl.LayoutError as error:
        assert str(error).startswith(f"max_bytes 0 is too small to relayout {source} to {target}: "), error
        return int(str(error).split()[-2])
    return 0
