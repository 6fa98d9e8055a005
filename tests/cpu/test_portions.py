"""How threads share work: portions that they claim, and when they rest."""

import threading

import pytest

from gpulayout.cpu import threads
from tests.support.crews import SoloCrew, refuse
from tests.support.machine import machine
from tests.support.waiting import wait_for, wait_until


@pytest.mark.parametrize(
    "least, count", [(0, 9), (1, 0), (1, 1), (1, 2), (1, 7), (5, 14), (5, 15), (100, 99), (100, 1000), (1, 10**4)]
)
def test_portions_cover_everything_once(three_threads, least, count):
    seen, parts = [], []

    def work(first, last):
        parts.append((first, last))
        seen.extend(range(first, last))

    threads.share(work, count, least)
    assert sorted(seen) == list(range(count))
    assert len(parts) == 1 or all(last - first >= least for first, last in parts)
    assert 1 <= len(parts) <= 3 * threads.PORTIONS
    assert (len(parts) > 1) == (least > 0 and count >= 2 * least)


def test_the_caller_does_everything_when_no_thread_comes(three_threads, monkeypatch):
    monkeypatch.setattr(threads, "process_crew", SoloCrew())
    parts, names = [], set()

    def work(first, last):
        parts.append((first, last))
        names.add(threading.current_thread().name)

    threads.share(work, 100, 1)
    assert [first for first, _ in parts] == [0, *(last for _, last in parts[:-1])] and parts[-1][1] == 100
    assert len(parts) == 3 * threads.PORTIONS and names == {threading.current_thread().name}


def test_the_caller_does_everything_when_no_thread_can_start(three_threads, monkeypatch):
    monkeypatch.setattr(threads, "start_new_thread", refuse)
    monkeypatch.setattr(threads, "process_crew", threads.Crew())  # none of its threads has started
    seen = []
    threads.share(lambda first, last: seen.extend(range(first, last)), 100, 1)
    assert seen == [*range(100)]


def test_a_thread_that_stands_still_holds_up_one_portion(monkeypatch):
    """The caller does all others meanwhile."""
    caller, others_done, done = threading.get_ident(), threading.Event(), []

    def work(first, last):
        if threading.get_ident() != caller:
            wait_for(others_done)
        done.append(first)
        if len(done) == portions - 1:
            others_done.set()
        if not first:
            wait_until(lambda: threads.process_crew.busy)

    portions = 2 * threads.PORTIONS
    threads.share(work, 100, 1, 2)
    assert len(done) == portions == len(set(done))


def test_threads_rest_when_a_caller_waited_longer_than_they_worked(monkeypatch):
    """Here time passes without work in a thread, as in one without a core, while the caller waits for it."""
    monkeypatch.setattr(threads, "PAUSES", (1e6, 1e6))
    crew = threads.Crew()
    monkeypatch.setattr(threads, "process_crew", crew)
    caller, helped, seen = threading.get_ident(), threading.Event(), []

    def work(first, last):
        if threading.get_ident() != caller:
            machine.seconds += 0.05
            helped.set()
        else:
            wait_for(helped)

    assert not crew.rests()
    threads.share(work, 2, 1, 2)
    assert crew.rests()
    threads.share(lambda first, last: seen.append((first, last)), 2, 1, 2)
    assert seen == [(0, 2)]


def test_the_more_losses_the_longer_the_rest(monkeypatch):
    shortest, longest = 2.0, 100.0
    monkeypatch.setattr(threads, "PAUSES", (shortest, longest))
    crew, pauses = threads.Crew(), []
    for loss in (1, 1, 0, -1, 0, 0, *[1] * 9):
        pauses.append(crew.pause)
        crew.judge(loss)
    assert pauses[:7] == [shortest * times for times in (1, 4, 16, 8, 4, 2, 1)]
    assert crew.pause == longest and max(pauses) == longest
    assert crew.rests()


def test_small_losses_do_not_count(monkeypatch):
    monkeypatch.setattr(threads, "PAUSES", (2.0, 100.0))
    crew = threads.Crew()
    crew.judge(threads.LOSS)
    assert not crew.rests() and crew.pause == 2.0
