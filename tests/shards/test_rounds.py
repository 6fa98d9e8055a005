"""Messages in rounds: both ranks cut a message in the same places, and no rank packs more than it has memory for."""

import collections
import random

import numpy as np
import pytest

import gpulayout as gl
from tests.support.effort import examples
from tests.support.random_shardings import drawn_case, slices


def aligned(messages):
    return sum(-(-message.nbytes // 16) * 16 for message in messages)


def staged(each):
    """The bytes of a round that are packed, or have to be unpacked."""
    packed = [message for message in each.sends if not message.sends_directly]
    return aligned([*packed, *(message for message in each.receives if not message.lands_directly)])


def least(made):
    return 32 * max(len(made.sends(rank)) + len(made.receives(rank)) for rank in range(made.ranks))


def check_rounds(made, max_bytes):
    sent, received = {}, {}
    for rank in range(made.ranks):
        rounds = made.rounds(rank, max_bytes)
        for number, each in enumerate(rounds):
            sent |= {(number, rank, message.target): message for message in each.sends}
            received |= {(number, message.source, rank): message for message in each.receives}
        for one, other in zip(rounds, rounds[1:] or rounds):
            total = staged(one) + (staged(other) if other is not one else 0)
            assert max_bytes is None or total <= max_bytes, f"{made}: rank {rank} holds {total} of {max_bytes} bytes"
    assert {place: message.boxes for place, message in sent.items()} == {
        place: message.boxes for place, message in received.items()
    }
    pieces = collections.defaultdict(list)
    for (_, source, target), message in sorted(sent.items(), key=lambda item: item[0]):
        pieces[source, target].append(message)
    assert [*pieces] and sorted(pieces) == [(m.source, m.target) for m in made.messages] or not made.messages
    for message in made.messages:
        whole, cut = (np.zeros(made.source.shape.dimensions, int) for _ in range(2))
        for box in message.boxes:
            whole[slices(box)] += 1
        for piece in pieces[message.source, message.target]:
            for box in piece.boxes:
                cut[slices(box)] += 1
        assert (whole == cut).all()
    return len(sent) - len(made.messages)


def test_both_ranks_cut_in_the_same_places_and_in_bounded_memory():
    rng, cut = random.Random(0), 0
    for number in range(examples(400)):
        case = drawn_case("rounds", number)
        if case.first_missing():
            continue
        made = case.exchange()
        for max_bytes in (None, *(least(made) + rng.choice((0, 0, 16, 100)) for _ in range(2))):
            cut += check_rounds(made, max_bytes)
    assert cut > 20


@pytest.mark.parametrize("max_bytes", [1 << 10, 1 << 12, 1 << 20])
def test_ranks_with_many_and_few_messages(max_bytes):
    """Rank 0 sends to eight others, each of which gets one message."""
    one = gl.Sharding("u8[8,1024]", [..., *[None] * 8])
    each = gl.Sharding("u8[8,1024]{0,1:T(4)}", [None, *(slice(n, n + 1) for n in range(8))])
    for made in (gl.exchange(one, each), gl.exchange(each, one)):
        assert check_rounds(made, max_bytes) > 0 or max_bytes == 1 << 20


def test_what_lies_as_it_travels_goes_whole():
    whole = gl.Sharding("u8[1024]", [slice(0, 512), slice(512, 1024)])
    other = gl.Sharding("u8[1024]", [slice(512, 1024), slice(0, 512)])
    assert [len(each.sends) for each in gl.exchange(whole, other).rounds(0, 64)] == [1]


def test_too_little_memory_is_an_error_with_the_least():
    rows = gl.Sharding.by_mesh("f32[64,64]", {"x": 4}, ("x",))
    made = gl.exchange(rows, gl.Sharding.by_mesh("f32[64,64]", {"x": 4}, (None, "x")))
    for rank in range(4):
        with pytest.raises(
            gl.LayoutError, match="^max_bytes is 191, but rank 0 sends and receives 6 messages: write at least 192$"
        ):
            made.rounds(rank, 191)
        assert made.rounds(rank, 192)
