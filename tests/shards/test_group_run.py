"""Exchanges on torch.distributed: processes with gloo, right bytes, and an error on all of them if one is wrong."""

import importlib.util
import re
import sys

import pytest

from tests.shards import rank_programs as programs
from tests.support.effort import examples
from tests.support.gloo_ranks import HANG, ROOT, Ranks

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or importlib.util.find_spec("torch") is None, reason="needs PyTorch with gloo, and fork"
)


@pytest.fixture(scope="module")
def ranks():
    with Ranks() as started:
        yield started


# ---- right bytes -----------------------------------------------------------------------------------------------------


def test_every_rank_gets_its_box(ranks):
    """Between 1 to 6 ranks, whatever the case says."""
    pieces = ranks.values(6, programs.random_exchanges, 1, examples(200))
    assert all(isinstance(count, int) for count in pieces), pieces
    assert sum(pieces) > examples(200)


def test_the_example_of_the_page(ranks):
    page = (ROOT / "docs" / "shards.md").read_text(encoding="utf-8").partition("## Run it on torch.distributed")[2]
    code = re.search(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[1]
    ones = "torch.bfloat16", 1024 * 256, True
    assert ranks.values(4, programs.page_example, code) == [ones, ones, None, None]


def test_groups_of_some_of_the_ranks(ranks):
    outcomes = ranks.values(5, programs.in_subgroups)
    not_a_member = "group: this process is not a member of it, and only its members call exchange.run"
    assert outcomes == [
        [not_a_member, True],
        [True, not_a_member],
        [not_a_member, True],
        [True, not_a_member],
        [True, not_a_member],
    ]


def test_threads_with_a_group_each(ranks):
    for found, afterwards in ranks.values(3, programs.in_threads, 10):
        assert found == [True] * 20 and afterwards == (None, True)


@pytest.mark.parametrize("max_bytes", [1 << 15, 1 << 17, 1 << 19])
def test_no_more_memory_than_max_bytes(ranks, max_bytes):
    for peak, is_right in ranks.values(3, programs.peak_memory, max_bytes):
        assert is_right and peak < max_bytes + 150_000  # what Python's objects take


# ---- one rank is wrong -----------------------------------------------------------------------------------------------

ON_RANK_1 = {
    "short": r"BufferError: buffer has 767 elements",
    "another type": r"TypeError: buffer has dtype float64",
    "none": r"LayoutError: buffer is None, but rank 1 of .* holds f32\[16,48\]",
    "a list": r"TypeError: buffer .* list",
    "a gradient": r"TypeError: buffer requires a gradient, which messages do not carry: pass buffer.detach\(\)",
    "the same memory": r"BufferError: buffer and out overlap in memory",
    "a read-only out": r"BufferError: out .*(read-only|writ)",
    "a short out": r"BufferError: out has 3 elements",
    "an out that is not an array": r"TypeError: out ",
    "bytes that are no number": r"LayoutError: max_bytes 'many' is not a number of bytes",
    "too few bytes": r"LayoutError: max_bytes is 10, but rank 0 sends and receives 4 messages: write at least 128",
}


def test_a_bad_buffer_on_one_rank_is_an_error_on_all(ranks):
    outcomes = ranks.values(3, programs.every_bad_buffer)
    for name, pattern in ON_RANK_1.items():
        for rank, (found, _) in enumerate(outcomes):
            error, is_as_it_was = found[name]
            assert is_as_it_was, f"{name}: rank {rank} was written"
            if rank == 1:
                assert re.match(pattern, error), f"{name}: {error}"
            else:
                words = outcomes[1][0][name][0].split(": ", 1)[1]
                assert error.startswith("LayoutError: rank 1 cannot take part, so nothing was sent: "), error
                assert words.startswith(error.split("nothing was sent: ", 1)[1])
    assert all(afterwards == (None, True) for _, afterwards in outcomes)


def test_ranks_that_run_different_exchanges(ranks):
    for found in ranks.values(3, programs.every_disagreement):
        for fact, (error, is_as_it_was) in found.items():
            assert is_as_it_was
            words = f"rank 1 has another {fact} than rank 0, so nothing was sent: every rank runs the same exchange"
            assert error == f"LayoutError: {words}"


def test_a_group_of_another_size(ranks):
    for found in ranks.values(3, programs.too_many_or_few):
        assert found == [
            f"group has 3 ranks, but the exchange has {size}: write None as the box of a rank that holds nothing"
            for size in (2, 4)
        ]


def test_arguments_that_are_wrong_on_their_face(ranks):
    (found,) = ranks.values(1, programs.wrong_arguments)
    assert found[:2] == [
        "group is 'gloo': write a torch.distributed.ProcessGroup, or None for all ranks",
        "check is 'no': it is True or False",
    ]
    assert found[2].startswith("out is a list")


def test_two_threads_on_one_group_of_which_one_waits(ranks):
    words = "group: two threads of this process run exchanges on it at once: give each its own group"
    for rank, (error, is_as_it_was) in enumerate(ranks.values(3, programs.one_group_in_two_threads)):
        other = "" if rank == 1 else "rank 1 cannot take part, so nothing was sent: "
        assert error == f"LayoutError: {other}{words}" and is_as_it_was


def test_without_a_group(ranks):
    (error,) = ranks.values(1, programs.without_a_group)
    assert error == "group: this process is in none: call torch.distributed.init_process_group first"


# ---- ranks that die, stay away or are interrupted --------------------------------------------------------------------


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("when", [None, 0, 1, 5])
def test_a_rank_that_dies_is_named(ranks, when, check):
    """Both others hear of it, also where only one waits for it: that one gives up, and closes its connections."""
    outcomes = ranks.run(3, programs.one_dies, when, check, timeout=HANG)
    assert outcomes[1].killed == 9
    errors = [outcomes[rank].value[0] for rank in (0, 2)]
    assert all(
        error.startswith("ConnectionError: ") and "1 is closed" in re.sub("1, 2|0, 1", "1", error) for error in errors
    ), errors
    if check and when is None:
        assert all("could not agree, nothing was sent" in error for error in errors), errors
        assert outcomes[0].value[1] and outcomes[2].value[1]
    else:
        assert all("out is incomplete" in error for error in errors), errors


@pytest.mark.parametrize("check", [True, False])
def test_a_rank_that_stays_away_ends_the_wait_of_the_others(ranks, check):
    outcomes = ranks.run(2, programs.one_stays_away, check, timeout=1)
    error, _ = outcomes[0].value
    assert error.startswith("ConnectionError: ") and "the group's timeout passed" in error
    assert ("every rank of the group calls exchange.run" if check else "from rank 1") in error


def test_other_pieces_are_not_taken_for_those_that_a_rank_waits_for(ranks):
    """gloo would end the process for a message of another size."""
    for outcome in ranks.run(2, programs.one_differs_unchecked, timeout=1):
        assert outcome.killed is None and outcome.value[0].startswith("ConnectionError: no message"), outcome


def test_a_closed_connection_ends_a_wait_that_would_have_no_end(ranks):
    assert ranks.values(1, programs.a_lost_transfer) == [["the connection is closed", "ended"]]


@pytest.mark.parametrize("check", [True, False])
def test_control_c_ends_the_wait(ranks, check):
    assert ranks.values(2, programs.one_is_interrupted, check) == ["interrupted", None]


@pytest.mark.parametrize("check", [True, False])
def test_the_others_hear_of_control_c(ranks, check):
    first, own, last = ranks.values(3, programs.one_is_interrupted_on_the_way, check)
    assert own == "interrupted"
    for error in (first, last):
        assert error.startswith("ConnectionError: no message ") and "has ended or given up; out is incomplete" in error


def test_control_c_before_the_ranks_agree_reaches_the_others(ranks, tmp_path):
    (error, is_as_it_was), other = ranks.values(2, programs.one_is_interrupted_before_it_agrees, tmp_path / "heard")
    assert other == "interrupted" and is_as_it_was
    assert error.startswith("ConnectionError: the ranks could not agree, nothing was sent"), error
    assert "the connection to rank 1 is closed" in error, error
