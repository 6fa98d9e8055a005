"""A rank of MPI that checks the functions of docs/transports.md.

    mpiexec -n 4 python -m mpi4py -m tests.support.mpi_ranks

Every rank makes the same shardings and buffers, carries out its part, and compares its result with that of
`exchange.move`, which has all buffers.  By `-m mpi4py` an error of one rank ends all.
"""

import numpy as np

import gpulayout as gl
from tests.support import transports


def exchanges():
    """Exchanges over 4 ranks, and whether elements change on the way."""
    rows = gl.Sharding.by_mesh("f32[12,10]{1,0:T(4,4)}", {"x": 4}, ("x",))
    columns = gl.Sharding.by_mesh("f32[12,10]{0,1}", {"x": 4}, (None, "x"))
    one = gl.Sharding("f32[12,10]", [None, None, ..., None])
    uneven = gl.Sharding("f32[12,10]", [slice(0, 5), slice(5, 5), slice(4, 12), slice(5, 12)])
    for source, target in [(rows, columns), (columns, rows), (one, rows), (uneven, columns), (columns, one)]:
        yield gl.exchange(source, target), False
    yield gl.exchange(rows, gl.Sharding("f16[12,10]", columns_of(columns)), dtype="f16"), True


def columns_of(sharding):
    return [tuple(slice(first, last) for first, last in box) for box in sharding.boxes]


def main():
    from mpi4py import MPI  # which starts MPI

    comm = MPI.COMM_WORLD
    by_runs = transports.section("MPI", {}).mpi_exchange
    by_messages = transports.section("Messages", {}).mpi_messages
    values = np.random.default_rng(0).integers(0, 99, (12, 10)).astype(np.float32)
    count = 0
    for exchange, changes in exchanges():
        buffers = [
            None if box is None else gl.pack(values[tuple(slice(*side) for side in box)], shard)
            for box, shard in zip(exchange.source.boxes, exchange.source.shards)
        ]
        buffers += [None] * (comm.size - len(buffers))
        expected = [*exchange.move(buffers[: exchange.source.ranks]), *[None] * comm.size][comm.rank]
        for function in [by_messages] if changes else [by_messages, by_runs]:
            out = exchange.new_buffer(comm.rank, values)
            if function is by_messages:
                function(comm, exchange, buffers[comm.rank], out)
            else:
                bytes_of = [None if array is None else array.view(np.uint8) for array in (buffers[comm.rank], out)]
                function(comm, exchange, *bytes_of)
            np.testing.assert_array_equal(out, expected)
            count += 1
    print(f"rank {comm.rank} of {comm.size}: {count} exchanges", flush=True)


if __name__ == "__main__":
    main()
