"""Keeps the memory of other libraries alive until a GPU is done with it, while the caller goes on.

A call returns before its work on the GPU has ended.  A library that then takes back its memory may give it to work in
another stream, which would write it while ours still reads it.  So the memory's owner goes to a thread that waits for
our work, and only then lets go of it.

A list that later calls purge would need no thread, but would keep the memory of the last call forever.  A host callback
of CUDA could not let go of an owner, because it must not call CUDA, and most owners do to free their memory.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue

from gpulayout.gpu import driver

Wait = Callable[[], object]


class Held:
    """The owner of memory that arrays use: the owner of those arrays' memory, in its place.

    When the last array is gone, the owner lives on until `end_of_use()`, called at that moment, says that it may go.
    `end_of_use` returns a function that waits, or None when there is nothing to wait for.
    """

    __slots__ = ("_owner", "_end_of_use")

    def __init__(self, owner: object, end_of_use: Callable[[], Wait | None]) -> None:
        self._owner, self._end_of_use = owner, end_of_use
        _releases.start()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # a device that failed does no more work, and Python may be ending
            wait = self._end_of_use()
            if wait:
                _releases.after(wait, self._owner)


class _Releases:
    """A thread that waits, one owner after the other, and lets go of each."""

    def __init__(self) -> None:
        # `put` may run anywhere, even within another `put`: a finalizer calls it
        self._queue: SimpleQueue[tuple[Wait, object] | None] = SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread with the first owner."""
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    thread = threading.Thread(target=self._run, name="gpulayout releases", daemon=True)
                    thread.start()
                    self._thread = thread
                    atexit.register(self._finish, thread)

    def after(self, wait: Wait, owner: object) -> None:
        """Let go of the owner after `wait()`."""
        self._queue.put((wait, owner))

    def _run(self) -> None:
        driver.leave_captures_alone()
        while (entry := self._queue.get()) is not None:
            with contextlib.suppress(Exception):
                entry[0]()
            del entry  # now, not when the next one comes

    def _finish(self, thread: threading.Thread) -> None:
        """Wait for all owners, before the libraries that they belong to end; but not for a GPU that hangs."""
        self._queue.put(None)
        thread.join(timeout=10)


_releases = _Releases()
