"""Signals wait while an array is between two layouts.

Python runs handlers in the main thread, between any two instructions.  So a handler that only takes notes stands in for
each of the program's own, and those are called afterwards.  Signals that Python does not handle act at once.
"""

from __future__ import annotations

import contextlib
import functools
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

Handler = Callable[[int, "FrameType | None"], Any]


@functools.cache
def _numbers() -> tuple[int, ...]:
    return tuple(signal.valid_signals())  # takes 100 us


@contextlib.contextmanager
def deferred_signals() -> Iterator[None]:
    """A context in which no signal handler runs.  Those of signals that arrive run when it ends, each once.

    Other threads than the main one need nothing: no handler interrupts them.
    """
    # Not threading.current_thread: it takes a KeyError that a handler raises for a thread that it does not know.
    if threading.get_ident() != threading.main_thread().ident:
        yield
        return
    handlers: dict[int, Handler] = {}
    for number in _numbers():
        handler = signal.getsignal(number)
        if callable(handler):  # and no default action
            handlers[number] = handler
    arrived: dict[int, FrameType | None] = {}
    late: list[BaseException] = []
    try:
        for each in handlers:
            signal.signal(each, arrived.setdefault)
        yield
    finally:
        away = dict(handlers)
        while away:  # the handler of a signal that arrives now may raise
            try:
                for each in [*away]:
                    signal.signal(each, away[each])
                    del away[each]
            except BaseException as error:
                late.append(error)
        for each, frame in arrived.items():
            try:
                handlers[each](each, frame)
            except BaseException as error:
                late.append(error)
        if late:
            raise late[0]
