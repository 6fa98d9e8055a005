"""Waiting in tests: for what happens, never for a time, and with a limit that only a hang reaches."""

import time
from collections.abc import Callable

HANG = 300  # seconds; beside ten other processes on two cores, what ends at all ended within thirty


def wait_until(condition: Callable[[], object]) -> None:
    """Return once a condition is true."""
    end = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < end, f"still not true after {HANG} seconds, so it never will be"
        time.sleep(0.001)


def wait_for(event) -> None:
    """Return once a `threading.Event` is set."""
    assert event.wait(HANG), f"the event was not set within {HANG} seconds, so it never will be"
