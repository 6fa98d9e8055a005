"""Signals wait while an array is between two layouts.

Python runs handlers in the main thread, between any two instructions.  So a handler that only takes notes stands in for
each of the program's own, and those are called afterwards.  Signals that Python does not handle act at once.

`signal.signal` also sets what the system does with a signal: it always takes away SA_RESTART, which a program gives
with `signal.siginterrupt(number, False)`, and Python cannot tell whether it was there.  So the system's side of every
signal is read before, as bytes that only the C library understands, and put back each time.

Blocking signals instead would not do: the system gives a signal to any thread that does not block it, and Python then
runs the handler in the main thread all the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

Handler = Callable[[int, "FrameType | None"], Any]

ROOM = 1 << 10  # bytes; a struct sigaction has 16 to 152


@functools.cache
def _numbers() -> tuple[int, ...]:
    return tuple(signal.valid_signals())  # it makes an enumeration member of each: too slow for every small call


@functools.cache
def _sigaction() -> Callable[..., int] | None:
    """The function of the C library; None where there is none, as on Windows, which restarts nothing."""
    return None if sys.platform == "win32" else getattr(ctypes.CDLL(None), "sigaction", None)


def _system_side(number: int) -> ctypes.Array[ctypes.c_char]:
    """What the system does with a signal."""
    action = ctypes.create_string_buffer(ROOM)
    if sigaction := _sigaction():
        sigaction(number, None, action)
    return action


def _set(number: int, handler: Handler, system_side: ctypes.Array[ctypes.c_char]) -> None:
    """Change Python's handler of a signal, and leave what the system does with it."""
    signal.signal(number, handler)
    if sigaction := _sigaction():
        sigaction(number, system_side, None)


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
    system = {number: _system_side(number) for number in handlers}
    arrived: dict[int, FrameType | None] = {}
    late: list[BaseException] = []
    try:
        for each in handlers:
            _set(each, arrived.setdefault, system[each])
        yield
    finally:
        away = dict(handlers)
        while away:  # the handler of a signal that arrives now may raise
            try:
                for each in [*away]:
                    _set(each, away[each], system[each])
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
