"""Exchanges: who sends what, that nothing travels that need not, how messages lie, and what is refused."""

import pickle

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl


def split(array, held):
    """The buffer of every rank."""
    cut = [None if box is None else array[tuple(slice(*each) for each in box)] for box in held.boxes]
    return [None if part is None else gl.pack(part, shard) for part, shard in zip(cut, held.shards)]


def assert_same(buffers, wanted):
    assert len(buffers) == len(wanted)
    for buffer, other in zip(buffers, wanted):
        assert (buffer is None) == (other is None)
        assert buffer is None or buffer.tobytes() == other.tobytes()


def by_messages(exchange, buffers):
    """The buffers of the target, by messages that are packed, sent and unpacked."""
    like = next(buffer for buffer in buffers if buffer is not None)
    outs = [exchange.new_buffer(rank, like) for rank in range(exchange.target.ranks)]
    for rank in range(exchange.ranks):
        if (stays := exchange.local(rank)) is not None:
            stays.copy(buffers[rank], outs[rank])
        for message in exchange.sends(rank):
            assert message.source == rank and message in exchange.receives(message.target)
            packed = message.pack(buffers[rank])
            assert packed.dtype == np.uint8 and packed.shape == (message.nbytes,)
            message.unpack(packed, outs[message.target])
    return outs


ARRAY = np.arange(12 * 10, dtype=np.float32).reshape(12, 10)
ROWS = gl.Sharding.by_mesh("f32[12,10]", {"x": 4}, ("x",))
COLUMNS = gl.Sharding.by_mesh("f32[12,10]{0,1}", {"x": 2}, (None, "x"))


def test_rows_of_four_ranks_become_columns_of_two():
    exchange = gl.exchange(ROWS, COLUMNS)
    wanted = split(ARRAY, COLUMNS)
    assert_same(exchange.move(split(ARRAY, ROWS)), wanted)
    assert_same(by_messages(exchange, split(ARRAY, ROWS)), wanted)
    assert len(exchange.messages) == 6 and exchange.ranks == 4
    assert sum(message.nbytes for message in exchange.messages) == ARRAY.nbytes * 6 // 8


def test_what_a_rank_holds_stays_there():
    whole = gl.Sharding("f32[12,10]", [..., ...])
    exchange = gl.exchange(whole, gl.Sharding("f32[12,10]{0,1}", [(slice(6), ...), (slice(3, 12), ...)]))
    assert exchange.messages == ()
    assert exchange.local(1).boxes == (((3, 12), (0, 10)),)


def test_the_ranks_that_hold_the_same_send_in_turns():
    held = gl.Sharding("f32[12,10]", [..., ..., None, None, None, None])
    wanted = gl.Sharding("f32[12,10]", [None, None, ..., ..., ..., ...])
    exchange = gl.exchange(held, wanted)
    assert [len(exchange.sends(rank)) for rank in range(6)] == [2, 2, 0, 0, 0, 0]


def test_boxes_that_overlap_bring_each_element_once():
    held = gl.Sharding("f32[12,10]", [slice(0, 8), slice(4, 12), (slice(2, 10), slice(3, 7))])
    exchange = gl.exchange(held, gl.Sharding("f32[12,10]", [None, None, None, ...]))
    assert sum(message.nbytes for message in exchange.messages) == ARRAY.nbytes
    assert_same(by_messages(exchange, split(ARRAY, held)), [None, None, None, ARRAY.reshape(-1)])


def test_rows_travel_without_a_copy_and_columns_with_one():
    whole = gl.Sharding("f32[12,10]", [..., None])
    rows = gl.exchange(whole, gl.Sharding("f32[12,10]", [None, slice(2, 6)])).messages[0]
    assert rows.sends_directly and rows.lands_directly
    buffer, out = ARRAY.reshape(-1), np.zeros(40, np.float32)
    assert np.shares_memory(rows.send_view(buffer), buffer) and np.shares_memory(rows.receive_view(out), out)
    assert np.shares_memory(rows.pack(buffer), buffer)
    rows.receive_view(out)[:] = rows.send_view(buffer)
    assert (out == buffer[20:60]).all()
    turned = gl.exchange(whole, gl.Sharding("f32[12,10]{0,1}", [None, slice(2, 6)])).messages[0]
    assert turned.lands_directly and not turned.sends_directly and turned.send_view(buffer) is None
    part = gl.exchange(whole, gl.Sharding("f32[12,10]{1,0:PD(12,16)}", [None, slice(2, 6)])).messages[0]
    assert part.sends_directly and not part.lands_directly and part.receive_view(np.zeros(64, np.float32)) is None


def test_elements_change_where_they_become_fewer_bytes():
    narrow = gl.Sharding("f8e4m3fn[12,10]", [None, (..., slice(0, 5))])
    wide = gl.Sharding("f32[12,10]", [(..., slice(2, 10)), None])
    there = gl.exchange(gl.Sharding("f32[12,10]", [..., None]), narrow, dtype="f8e4m3fn")
    back = gl.exchange(gl.Sharding("f8e4m3fn[12,10]", [None, ...]), wide, dtype="f32")
    assert [message.nbytes for message in (*there.messages, *back.messages)] == [60, 96]
    assert there.messages[0].changes_first and not back.messages[0].changes_first
    small = (ARRAY % 16).astype(ml_dtypes.float8_e4m3fn)
    assert_same(by_messages(there, [(ARRAY % 16).reshape(-1), None]), [None, small[:, :5].reshape(-1)])
    assert_same(by_messages(back, [None, small.reshape(-1)]), [(ARRAY % 16)[:, 2:].reshape(-1), None])


def test_scales_of_the_whole_array_are_cut_for_each_box():
    scale = np.arange(1, 11, dtype=np.float32)
    exchange = gl.exchange(ROWS, COLUMNS, scale=scale)
    assert_same(by_messages(exchange, split(ARRAY, ROWS)), split(ARRAY * scale, COLUMNS))
    assert exchange.digest != gl.exchange(ROWS, COLUMNS, scale=scale[::-1]).digest


def test_padding_gets_its_value_and_messages_leave_it_alone():
    padded = gl.Sharding("f32[12,10]{1,0:PD(12,16)PV(7)}", [None, (slice(0, 5), ...), (slice(5, 12), ...)])
    exchange = gl.exchange(gl.Sharding("f32[12,10]", [...]), padded)
    outs = [None, *(np.full(shard.buffer_length, -1, np.float32) for shard in padded.shards[1:])]
    assert exchange.move([ARRAY.reshape(-1)], outs)[1] is outs[1]
    assert_same(outs, split(ARRAY, padded))


def test_an_exchange_is_the_same_in_any_process():
    one, other = gl.exchange(ROWS, COLUMNS, dtype="f32"), pickle.loads(pickle.dumps(gl.exchange(ROWS, COLUMNS)))
    assert one.digest == other.digest and len(one.digest) == 16
    assert one.digest != gl.exchange(ROWS, gl.Sharding.by_mesh("f32[12,10]", {"x": 2}, (None, "x"))).digest
    assert [message.boxes for message in one.messages] == [message.boxes for message in other.messages]
    with pytest.raises(AttributeError, match="make another one"):
        one.source = COLUMNS
    with pytest.raises(AttributeError):
        one.messages[0].source = 3


def test_explain_counts_messages_bytes_and_copies():
    text = gl.exchange(ROWS, COLUMNS).explain()
    assert "messages 6, of at most 6 pairs of ranks" in text
    assert "bytes    360 bytes travel, the least possible; 120 bytes stay" in text
    assert "rank 0 receives most, 180 bytes" in text and "0 of 6 are sent from the buffer as it lies" in text
    assert (
        "cast: 9 before they travel" in gl.exchange(ROWS, gl.Sharding("f16[12,10]", [...] * 3), dtype="f16").explain()
    )
    many = gl.exchange(gl.Sharding.by_mesh("f32[12,10]", {"x": 12}, ("x",)), COLUMNS).explain()
    assert "and 14 others, of 20 to 20 bytes" in many


@pytest.mark.parametrize("layouts", ["{1,0:PD(12,16)PV(7)}", "{0,1:T(4,2)}", None, "F"])
def test_runs_and_fills_are_all_bytes_of_the_target(layouts):
    held = gl.Sharding("f32[12,10]", [slice(0, 8), (slice(4, 12), slice(3, 10)), (slice(8, None), slice(0, 4))])
    wanted = gl.Sharding("f32[12,10]", [..., (slice(5, 11), slice(2, 9))], "{0,1:T(4,2)}")
    if layouts and "PD" in layouts:
        wanted = gl.Sharding("f32[12,10]", [..., None], layouts)
    elif layouts:
        held = gl.Sharding(held.shape, [tuple(slice(*each) for each in box) for box in held.boxes], layouts)
    exchange, buffers = gl.exchange(held, wanted), split(ARRAY, held)
    for rank, (out, shard) in enumerate(zip(exchange.move(buffers), wanted.shards)):
        if out is None:
            assert exchange.fills(rank) is None
            continue
        made = np.full(out.nbytes, 99, np.uint8)
        for source in range(held.ranks):
            for begin, to, count in exchange.runs(source, rank):
                made[to : to + count] = buffers[source].view(np.uint8)[begin : begin + count]
        fills = exchange.fills(rank)
        for to, count in fills.runs:
            made[to : to + count] = np.resize(np.frombuffer(fills.value, np.uint8), count)
        assert made.tobytes() == out.tobytes(), shard
    nothing = gl.exchange(held, gl.Sharding("f32[12,10]", [None, (slice(9, 10), slice(5, 6)), None]))
    assert nothing.runs(0, 1).shape == (0, 3) and nothing.runs(2, 1).dtype == np.int64


def test_runs_that_no_engine_can_copy_are_refused():
    with pytest.raises(gl.LayoutError, match="cast changes elements on the way"):
        gl.exchange(ROWS, gl.Sharding("f16[12,10]", [...]), dtype="f16").runs(0, 0)
    with pytest.raises(gl.LayoutError, match="least 21 is more than the shortest run.*20 bytes"):
        gl.exchange(ROWS, gl.Sharding.by_mesh("f32[12,10]", {"x": 2}, (None, "x"))).runs(3, 0, least=21)
    with pytest.raises(gl.LayoutError, match="begin inside bytes"):
        nibbles = gl.Sharding("u4[5,3]{1,0:E(4)}", [...])
        gl.exchange(nibbles, gl.Sharding("u4[5,3]{1,0:E(4)}", [slice(1, 4)])).runs(0, 0)


def test_ranks_without_elements_have_no_messages():
    held = gl.Sharding("f32[12,10]", [..., None, slice(3, 3)])
    exchange = gl.exchange(held, gl.Sharding("f32[12,10]", [None, slice(5, 5), ..., None]))
    assert [message.source for message in exchange.messages] == [0] and exchange.local(2) is None
    outs = exchange.move([ARRAY.reshape(-1), None, np.zeros(0, np.float32)])
    assert [out if out is None else out.size for out in outs] == [None, 0, 120, None]
    scalar = gl.exchange(gl.Sharding("f32[]", [..., None]), gl.Sharding("f32[]", [None, ...]))
    assert_same(by_messages(scalar, [np.float32([5]), None]), [None, np.float32([5])])
    empty = gl.exchange(gl.Sharding("f32[0,3]", [..., None]), gl.Sharding("f32[0,3]", [None, ...]))
    assert empty.messages == () and empty.move([np.zeros(0, np.float32), None])[1].size == 0


def test_an_element_that_nobody_holds_is_named():
    holes = gl.Sharding("f32[12,10]", [slice(0, 5), slice(6, 12)])
    with pytest.raises(gl.LayoutError, match=r"no rank of the source holds element \[5,0\] of f32.* of rank 1 of the"):
        gl.exchange(holes, gl.Sharding("f32[12,10]", [slice(0, 4), slice(3, 7)]))
    overlapping = gl.Sharding("f32[12,10]", [slice(0, 5), (slice(4, 12), slice(0, 9))])
    with pytest.raises(gl.LayoutError, match=r"element \[5,9\]"):
        gl.exchange(overlapping, gl.Sharding("f32[12,10]", [...]))


REFUSED = {
    "other sizes": (gl.LayoutError, [ROWS, gl.Sharding("f32[12,9]", [...])], {}, "dimension 1 is 9, not 10"),
    "another type": (gl.LayoutError, [ROWS, gl.Sharding("f16[12,10]", [...])], {}, "dtype='f16' converts"),
    "no sharding": (TypeError, [ROWS, "f32[12,10]"], {}, "target is 'f32.*write a gl.Sharding"),
    "an unknown option": (TypeError, [ROWS, COLUMNS], {"device": 0}, "device"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_exchange_is_refused(name):
    kind, arguments, options, words = REFUSED[name]
    with pytest.raises(kind, match=words):
        gl.exchange(*arguments, **options)


def test_wrong_buffers_are_refused_before_a_byte_is_written():
    exchange = gl.exchange(gl.Sharding("f32[4]", [slice(0, 2), slice(2, 4), None]), gl.Sharding("f32[4]", [..., None]))
    good = [np.zeros(2, np.float32), np.ones(2, np.float32), None]
    out = np.full(4, -1, np.float32)
    for buffers, kind, words in [
        ([good[0], good[1]], gl.LayoutError, "buffers has 2 entries"),
        ([good[0], good[1].astype(np.float64), None], TypeError, r"buffers\[1\] has dtype float64"),
        ([good[0], np.ones(3, np.float32), None], BufferError, r"buffers\[1\] has 3"),
        ([good[0], None, None], gl.LayoutError, r"buffers\[1\] is None, but rank 1"),
        ([*good[:2], good[0]], gl.LayoutError, r"buffers\[2\] is an array, but rank 2"),
        (good[0], TypeError, "write a list"),
    ]:
        with pytest.raises(kind, match=words):
            exchange.move(buffers, [out, None])
    out.flags.writeable = False
    with pytest.raises(BufferError, match=r"outs\[0\] is read-only"):
        exchange.move(good, [out, None])
    assert (out == -1).all()


RANKS = [(3, IndexError), (-1, IndexError), (10**400, IndexError)]
RANKS += [(rank, TypeError) for rank in (True, "0", 0.0, int, np.array(0.5), np.array([0]), np.array([0, 1]))]


@pytest.mark.parametrize("rank, kind", RANKS, ids=repr)
def test_what_is_no_rank_is_refused(rank, kind):
    exchange = gl.exchange(gl.Sharding("f32[4]", [slice(0, 2), slice(2, 4), None]), gl.Sharding("f32[4]", [..., None]))
    exchange.rounds(0, None)
    for call in (exchange.sends, exchange.fills, lambda rank: exchange.rounds(rank, None)):
        with pytest.raises(kind, match="rank is"):
            call(rank)


def test_max_bytes_of_rounds_is_a_number_of_bytes():
    exchange = gl.exchange(ROWS, COLUMNS)
    assert len(exchange.rounds(0, "1K")) == len(exchange.rounds(0, 1024))
    for given, words in (("much", "max_bytes 'much' is not a number"), (np.zeros(2), "is not an integer"), (-1, "-1")):
        with pytest.raises(gl.LayoutError, match=words):
            exchange.rounds(0, given)


@pytest.mark.parametrize("lands_directly", [True, False])
def test_bytes_that_are_no_message_are_refused_before_a_byte_is_written(lands_directly):
    target = gl.Sharding("f32[12,10]", [None, slice(0, 3)], None if lands_directly else "{1,0:PD(3,16)}")
    (message,) = gl.exchange(ROWS, target).messages
    assert message.lands_directly == lands_directly
    buffer, out = split(ARRAY, ROWS)[0], np.full(target.shards[1].buffer_length, -1, np.float32)
    for wrong, kind in (
        (np.zeros(1, np.uint8), BufferError),  # NumPy would write it everywhere
        (np.zeros(message.nbytes - 1, np.uint8), BufferError),
        (np.zeros(message.nbytes + 1, np.uint8), BufferError),
        (np.zeros(message.nbytes, np.float32), TypeError),
        ([0] * message.nbytes, TypeError),
        (7, TypeError),
    ):
        with pytest.raises(kind, match="packed"):
            message.unpack(wrong, out)
        before = np.array(wrong)
        with pytest.raises(kind, match="out"):
            message.pack(buffer, wrong)
        assert (out == -1).all() and np.array_equal(before, wrong)


def test_outputs_that_share_memory_are_refused_before_a_byte_is_written():
    exchange = gl.exchange(ROWS, gl.Sharding("f32[12,10]", [slice(0, 6), slice(6, 12)]))
    memory = np.full(100, -1, np.float32)
    with pytest.raises(BufferError, match=r"outs\[0\] and outs\[1\]"):
        exchange.move(split(ARRAY, ROWS), [memory[:60], memory[40:]])
    assert (memory == -1).all()
    buffers = split(ARRAY, ROWS)
    with pytest.raises(BufferError, match=r"buffers\[1\] and outs\[0\]"):
        exchange.move([buffers[0], memory[30:60], *buffers[2:]], [memory[:60], np.zeros(60, np.float32)])


def test_tensors_of_torch_stay_tensors():
    torch = pytest.importorskip("torch")
    exchange = gl.exchange(ROWS, gl.Sharding("bf16[12,10]{0,1}", [None, ..., (slice(0, 3), ...)]), dtype="bf16")
    buffers = [torch.from_numpy(buffer) for buffer in split(ARRAY, ROWS)]
    outs = by_messages_of_tensors(torch, exchange, buffers)
    moved = exchange.move([buffer.reshape(3, 10) for buffer in buffers])
    assert moved[0] is outs[0] is None and moved[1].dtype == torch.bfloat16
    wanted = torch.from_numpy(ARRAY).to(torch.bfloat16)
    for done in (moved, outs):
        assert torch.equal(done[1].reshape(10, 12).T, wanted) and torch.equal(done[2].reshape(10, 3).T, wanted[:3])


def by_messages_of_tensors(torch, exchange, buffers):
    outs = [exchange.new_buffer(rank, buffers[0]) for rank in range(exchange.target.ranks)]
    for rank in range(exchange.ranks):
        if (stays := exchange.local(rank)) is not None:
            stays.copy(buffers[rank], outs[rank])
        for message in exchange.sends(rank):
            packed = message.pack(buffers[rank])
            assert packed.dtype == torch.uint8 and packed.numel() == message.nbytes
            message.unpack(packed, outs[message.target])
    return outs
