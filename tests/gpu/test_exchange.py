"""Exchanges between buffers on a GPU: packed, unpacked and moved there, without a copy to the host."""

import numpy as np
import pytest

import gpulayout as gl
from tests.support.device_arrays import device_buffer, same_bytes

ARRAY = np.arange(12 * 10, dtype=np.float32).reshape(12, 10)
HELD = gl.Sharding("f32[12,10]{1,0:T(4,8)}", [(slice(0, 8), ...), (slice(4, 12), slice(3, 10)), (slice(8, 12), ...)])
CASES = {
    "turned": (gl.Sharding("f32[12,10]{0,1}", [None, (slice(1, 9), ...), (..., slice(2, 7))]), {}),
    "tiles, padded": (gl.Sharding("f32[12,10]{0,1:T(8,4)}", [(slice(0, 7), ...), None, None, (slice(5, 12), ...)]), {}),
    "padding of 7": (gl.Sharding("f32[12,10]{1,0:PD(12,16)PV(7)}", [None, ...]), {}),
    "narrower": (gl.Sharding("bf16[12,10]{0,1}", [None, (slice(1, 9), ...), (..., slice(2, 7))]), {"dtype": "bf16"}),
}


def part(box, array):
    return np.ascontiguousarray(array[tuple(slice(*each) for each in box)])


@pytest.mark.parametrize("name", CASES)
def test_buffers_of_a_gpu_are_exchanged_there(cp, name):
    wanted, options = CASES[name]
    exchange, array = gl.exchange(HELD, wanted, **options), ARRAY.astype(wanted.shape.dtype)
    hosts = [gl.pack(part(box, ARRAY), shard) for box, shard in zip(HELD.boxes, HELD.shards)]
    buffers = [device_buffer(cp, host) for host in hosts]
    outs = [exchange.new_buffer(rank, buffers[0]) for rank in range(wanted.ranks)]
    for rank in range(exchange.ranks):
        if (stays := exchange.local(rank)) is not None:
            stays.copy(buffers[rank], outs[rank])
        for message in exchange.sends(rank):
            packed = message.pack(buffers[rank])
            assert type(packed) is type(buffers[0]) and packed.shape == (message.nbytes,)
            message.unpack(packed, outs[message.target])
    for done in (outs, exchange.move(buffers)):
        for out, box, shard in zip(done, wanted.boxes, wanted.shards):
            assert (out is None) == (box is None)
            if box is not None:
                assert type(out) is type(buffers[0]) and same_bytes(cp, out, gl.pack(part(box, array), shard))
