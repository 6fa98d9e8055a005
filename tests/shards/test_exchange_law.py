"""The law of exchanges: every element ends where the target says, on every rank, by as few bytes as possible."""

import itertools
import math
import sys

import numpy as np
import pytest

import gpulayout as gl
from tests.support import effort
from tests.support.random_shardings import drawn_case, slices

BATCHES = 12


def check(case):
    """Move it in every way; or see the error that names the first element that nobody holds."""
    missing = case.first_missing()
    if missing is not None:
        rank, index = missing
        with pytest.raises(gl.LayoutError) as error:
            case.exchange()
        said = f"element [{','.join(map(str, index))}] of {case.target.shape}, which is in box "
        assert said in str(error.value) and f" of rank {rank} of the target" in str(error.value)
        return
    exchange, buffers, before = case.exchange(), case.buffers(), case.buffers()
    check_results(case, exchange.move(buffers))
    outs = case.outs()
    found = exchange.move(buffers, outs)
    assert all(one is other for one, other in zip(found, outs))
    check_results(case, outs)
    check_results(case, by_messages(case, exchange, buffers))
    check_messages(case, exchange)
    copied = by_addresses(case, exchange, buffers)
    if copied is not None:
        check_results(case, copied)
    assert all(own is None or own.tobytes() == old.tobytes() for own, old in zip(buffers, before))


def check_results(case, found):
    assert len(found) == case.target.ranks
    for rank, buffer in enumerate(found):
        assert case.is_result(rank, buffer), f"rank {rank}"


def by_messages(case, exchange, buffers):
    """What the ranks have after each message was packed, sent and unpacked, the last ones first."""
    outs = case.outs()
    for rank, out in enumerate(outs):
        if out is not None:
            exchange.fill_padding(rank, out)
    for message in reversed(exchange.messages):
        packed, buffer, out = message.pack(buffers[message.source]), buffers[message.source], outs[message.target]
        assert packed.dtype == np.uint8 and packed.shape == (message.nbytes,)
        assert message.sends_directly == (message.send_view(buffer) is not None)
        assert not message.sends_directly or np.shares_memory(packed, buffer) and message.nbytes
        again = np.full(message.nbytes, 0x5A, np.uint8)
        assert message.pack(buffer, again) is again and again.tobytes() == packed.tobytes()
        if message.lands_directly:
            message.receive_view(out)[:] = again
        else:
            assert message.receive_view(out) is None
            message.unpack(again, out)
    for rank in range(exchange.ranks):
        local = exchange.local(rank)
        if local is not None:
            assert local.source == local.target == rank
            local.copy(buffers[rank], outs[rank])
    return outs


def by_addresses(case, exchange, buffers):
    """What the ranks have after the listed bytes were copied one run after another; None where an error says why not.

    Only elements that change on the way and packed ones, which may share a byte, may have one.
    """
    outs = case.outs()
    try:
        listed = {pair: exchange.runs(*pair) for pair in itertools.product(range(exchange.ranks), repeat=2)}
        fills = [exchange.fills(rank) for rank in range(exchange.target.ranks)]
    except gl.LayoutError:
        assert case.options or any(shard.is_packed for shard in (*case.source.shards, *case.target.shards) if shard)
        return None
    for fill, out in zip(fills, outs):
        for first, count in [] if fill is None else fill.runs.tolist():
            repeated = fill.value * (count // len(fill.value))
            out.view(np.uint8)[first : first + count] = np.frombuffer(repeated, np.uint8)
    for (source, target), runs in listed.items():
        assert runs.shape == (len(runs), 3) and runs.dtype == np.int64
        assert len(runs) == 0 or source in [message.source for message in exchange.receives(target)] or source == target
        ends = runs[:-1, :2] + runs[:-1, 2:]
        assert (ends[:, 1] <= runs[1:, 1]).all() and not (ends == runs[1:, :2]).all(axis=1).any()
        for begin, first, count in runs.tolist():
            outs[target].view(np.uint8)[first : first + count] = buffers[source].view(np.uint8)[begin : begin + count]
    return outs


def check_messages(case, exchange):
    """Each element that a rank lacks arrives once, in the fewer bits of the two sides; one that it holds, never."""
    pairs = [(message.source, message.target) for message in exchange.messages]
    assert pairs == sorted(set(pairs)) and all(source != target for source, target in pairs)
    assert exchange.ranks == max(case.source.ranks, case.target.ranks)
    arrived = [None if box is None else np.zeros(case.codes.shape, int) for box in case.target.boxes]
    for message in exchange.messages:
        shards = case.source.shards[message.source], case.target.shards[message.target]
        bits, begin = min(shard.bits_per_element for shard in shards), 0
        for box, wire, first in message.parts:
            assert first == begin and wire.dimensions == tuple(last - first for first, last in box)
            assert wire.nbytes == math.ceil(wire.element_count * bits / 8) > 0
            assert holds(case.source.boxes[message.source], box) and holds(case.target.boxes[message.target], box)
            arrived[message.target][slices(box)] += 1
            begin += wire.nbytes
        assert begin == message.nbytes > 0
        assert message in exchange.sends(message.source) and message in exchange.receives(message.target)
    assert sum(len(exchange.sends(rank)) for rank in range(exchange.ranks)) == len(pairs)
    assert sum(len(exchange.receives(rank)) for rank in range(exchange.ranks)) == len(pairs)
    for rank, (box, counts) in enumerate(zip(case.target.boxes, arrived)):
        if box is not None:
            own = case.source.boxes[rank] if rank < case.source.ranks else None
            lacking = np.zeros(counts.shape, int)
            lacking[slices(box)] = 1
            if own is not None:
                lacking[slices(own)] = 0
            assert np.array_equal(counts, lacking), f"rank {rank}"


def holds(box, other):
    """Whether a box contains another one."""
    return all(first <= begin <= end <= last for (first, last), (begin, end) in zip(box, other))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_pairs_of_shardings(batch):
    for number in range(batch, effort.examples(3000), BATCHES):
        case = drawn_case("exchange", number)
        try:
            check(case)
        except Exception as error:
            raise AssertionError(f"case {number}: {case}") from error


def test_tensors_of_pytorch():
    """Their bytes move as those of NumPy's arrays, also of types that NumPy lacks."""
    torch = pytest.importorskip("torch")
    from tests.support.random_arrays import torch_of

    for number in range(effort.examples(100)):
        case = drawn_case("tensors", number)
        if case.first_missing() is not None:
            continue
        exchange, like = case.exchange(), case.outs()
        buffers, outs = (
            [None if each is None else torch_of(each.copy()) for each in side] for side in (case.buffers(), like)
        )
        exchange.move(buffers, outs)
        for found in (outs, exchange.move(buffers)):
            assert all(each is None or type(each) is torch.Tensor for each in found) or not any(
                each is not None for each in buffers
            )
            views = [each if each is None else bytes_of(each).view(own.dtype) for each, own in zip(found, like)]
            check_results(case, views)


def bytes_of(array):
    """The memory of a tensor, or of an array of NumPy, as NumPy's bytes."""
    if isinstance(array, np.ndarray):
        return array.view(np.uint8)
    return array.view(sys.modules["torch"].uint8).numpy() if array.numel() else np.zeros(0, np.uint8)


def test_ranks_without_buffers():
    nothing = gl.Sharding("f32[2]", [None, None])
    assert gl.exchange(nothing, nothing).move([None, None]) == [None, None]
    assert gl.exchange(nothing, nothing).move([None, None], [None, None]) == [None, None]
    empty = gl.exchange(nothing, gl.Sharding("f32[2]", [slice(0, 0), None])).move([None, None])
    assert empty[0].dtype == np.float32 and empty[0].size == 0 and empty[1] is None


@pytest.mark.parametrize(
    ("held", "first"),
    [
        ([(0, 2, 0, 3), (0, 2, 4, 5), (1, 2, 5, 6)], "0,3"),  # left out: a column, and one element of a later one
        ([(1, 2, 1, 5), (0, 1, 0, 6)], "1,0"),  # the rows below, and both ends of row 1
        ([(0, 2, 0, 6), (2, 3, 1, 6)], "2,0"),
    ],
)
def test_the_first_element_that_nobody_holds(held, first):
    source = gl.Sharding("u8[3,6]", [(slice(a, b), slice(c, d)) for a, b, c, d in held])
    with pytest.raises(gl.LayoutError, match=rf"no rank of the source holds element \[{first}\] of u8\[3,6\]"):
        gl.exchange(source, gl.Sharding("u8[3,6]", [...]))


# ---- all small ones --------------------------------------------------------------------------------------------------


def all_boxes(dimensions):
    """Every box with elements, one without, and none at all."""
    intervals = [[(first, last) for last in range(size + 1) for first in range(last)] for size in dimensions]
    return [*itertools.product(*intervals), ((0, 0),) * len(dimensions), None]


SMALL = [(dimensions, ranks, ranks * size > 8) for size in range(7) for ranks in (1, 2, 3) for dimensions in [(size,)]]
SMALL += [((1, 2), 3, False), ((2, 2), 2, False), ((2, 2), 3, True), ((2, 3), 2, True), ((1, 1, 2), 3, False)]


@pytest.mark.parametrize(("dimensions", "ranks", "is_long"), SMALL)
def test_all_small_shardings(dimensions, ranks, is_long):
    """All boxes of the source, in any combination; with each, all target boxes that it holds, and one that it does not.

    A combination has a target with a rank for each such box, and the ranks of the source get another one each time.
    """
    array = np.arange(math.prod(dimensions), dtype=np.uint16).reshape(dimensions)
    text = f"u16[{','.join(map(str, dimensions))}]"
    boxes = all_boxes(dimensions)
    combinations = list(itertools.combinations_with_replacement(boxes, ranks))
    step = 1 if effort.takes_all() or not is_long else 11
    for number, held in list(enumerate(combinations))[::step]:
        source = gl.Sharding(text, [None if box is None else slices(box) for box in held])
        buffers = [None if box is None else array[slices(box)].flatten() for box in held]
        union = np.zeros(dimensions, bool)
        for box in held:
            if box is not None:
                union[slices(box)] = True
        inside = [box for box in boxes if box is None or union[slices(box)].all()]
        outside = [box for box in boxes if box is not None and not union[slices(box)].all()]
        check_small(source, buffers, array, [*inside[number % len(inside) :], *inside[: number % len(inside)]])
        if outside:
            box = outside[number % len(outside)]
            index = [first + at for (first, _), at in zip(box, np.argwhere(~union[slices(box)])[0])]
            with pytest.raises(
                gl.LayoutError, match=rf"holds element \[{','.join(map(str, index))}\] of .* of rank 1 of"
            ):
                gl.exchange(source, gl.Sharding(text, [None, slices(box)]))


def check_small(source, buffers, array, boxes):
    """The buffers of a target with a rank for each box, whose dimensions lie the other way round."""
    order = ",".join(map(str, range(array.ndim)))
    text = f"u16[{','.join(map(str, array.shape))}]{{{order}}}"
    exchange = gl.exchange(source, gl.Sharding(text, [None if box is None else slices(box) for box in boxes]))
    for rank, (box, found) in enumerate(zip(boxes, exchange.move(buffers))):
        if box is None:
            assert found is None
            continue
        assert found.tolist() == array[slices(box)].transpose().reshape(-1).tolist()
        held = source.boxes[rank] if rank < source.ranks else None
        common = [range(max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, held)] if held is not None else [()]
        lacking = math.prod(last - first for first, last in box) - math.prod(map(len, common))
        assert sum(message.nbytes for message in exchange.receives(rank)) == 2 * lacking
