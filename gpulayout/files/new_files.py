"""Several new files that appear all or none, also in the place of old ones."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import BinaryIO

from gpulayout.files.new_file import HEX_DIGITS, PARTIAL, partial_prefix

OLD = ".gpulayout-old-"  # then hexadecimal digits: an old file, while new ones take their places

New = Callable[[Path], AbstractContextManager[BinaryIO]]  # `new_file` with its options


class NewFiles:
    """New files, most of them open until all are written."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._streams: list[BinaryIO] = []
        self._later: list[tuple[Path, New, Callable[[BinaryIO], None]]] = []
        self._placed: list[tuple[Path, os.stat_result]] = []
        self._kept: list[tuple[str, str]] = []  # the name of an old file, and another one that it has for a while

    def open(self, path: Path, new: AbstractContextManager[BinaryIO]) -> BinaryIO:
        """Begin a file, which `new_file` makes.  What is opened first appears last."""
        stream = self._stack.enter_context(new)
        self._streams.append(stream)
        self._placed.append((path, os.fstat(stream.fileno())))
        return stream

    def write_later(self, path: Path, new: New, write: Callable[[BinaryIO], None]) -> None:
        """A file that is written when the others are there.  There may be more of these than a process may open."""
        self._later.append((path, new, write))

    def keep_old(self) -> None:
        """Put the new files on the disk, so that afterwards they get their names in a moment; and give those that they
        replace a second name, where the file system can.
        """
        for stream in self._streams:
            stream.flush()
            os.fsync(stream.fileno())
        for path in [path for path, _ in self._placed] + [path for path, *_ in self._later]:
            old = Path(os.path.realpath(path))
            prefix = partial_prefix(old.name).removesuffix(PARTIAL)
            aside = str(old.with_name(prefix + OLD + secrets.token_hex(HEX_DIGITS // 2)))
            self._kept.append((str(old), aside))
            try:
                os.link(old, aside)
            except OSError:  # there is none, or the file system has no links
                self._kept.pop()

    def finish(self) -> None:
        """Write the files that come later."""
        for path, new, write in self._later:
            with new(path) as stream:
                write(stream)
                self._placed.append((path, os.fstat(stream.fileno())))

    def take_back(self) -> None:
        """Remove the files that have their names already, and put the old ones in their places."""
        for path, status in self._placed:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(path), status):
                    os.unlink(os.path.realpath(path))
        for old, aside in reversed(self._kept):  # an index behind the shards that it names
            with contextlib.suppress(OSError):
                os.replace(aside, old)

    def forget_old(self) -> None:
        """Let the old files go."""
        for _, aside in self._kept:
            with contextlib.suppress(OSError):
                os.unlink(aside)


@contextlib.contextmanager
def new_files() -> Iterator[NewFiles]:
    """New files that get their names when the `with` ends, or none of them after an error: then those that `keep_old`
    has kept are there again.
    """
    stack = ExitStack()
    files = NewFiles(stack)
    try:
        with stack:
            yield files
        files.finish()
    except BaseException:
        files.take_back()
        raise
    finally:
        files.forget_old()
