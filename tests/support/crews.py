"""Crews of threads that behave badly, and waiting for those that behave well."""

import time
from collections.abc import Callable

from gpulayout.cpu import threads


class SoloCrew(threads.Crew):
    """No thread comes to help."""

    def invite(self, call, guests, size):
        pass


def refuse(function, arguments):
    raise RuntimeError("can't start new thread")


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)
