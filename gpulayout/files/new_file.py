"""New files that appear complete or not at all, and replace an existing file only on request.

A file is written under a temporary name in its own folder, and gets its name when it is complete.  The temporary name
begins with the final one: out.npy.gpulayout-partial-58f0c1d2a3b4e5f6.  Only a process that is killed leaves one behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import secrets
import shlex
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gpulayout.files.errors import FileError, Note, OutputExistsError, named, warn
from gpulayout.files.folders import refuse_folder_as_output
from gpulayout.files.linux_files import forget_content
from gpulayout.files.other_formats import refuse_other_output
from gpulayout.files.standard_streams import File, check_standard_output, names_stream, opened, status_of

NAME_BYTES = 255  # of a name, on nearly every file system
PARTIAL = ".gpulayout-partial-"  # then as many hexadecimal digits
HEX_DIGITS = 16
HEX = f"[0-9a-f]{{{HEX_DIGITS}}}"
MOST = 8  # unfinished files that a note names
RENAME_NOREPLACE = 1  # of Linux


def check_output(path: File, source: File | None, *, overwrite: bool) -> None:
    """`FileError` when `path` cannot or must not become the result of `source`, or of no file: one array, or a page."""
    if not isinstance(path, Path):
        return check_standard_output()
    refuse_other_output(path)
    check_new_file(path, source, overwrite=overwrite)


def check_new_file(path: Path, source: File | None, *, overwrite: bool) -> None:
    """The same for a file of any format."""
    if names_stream(path, 1):
        raise FileError(f"{path}: not a new file", "; write - for standard output")
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return _check_folder(path)
    try:
        status = os.stat(path)
    except FileNotFoundError:
        if not overwrite:  # the link's name is taken, and its target may be anywhere
            raise OutputExistsError(
                f"{path}: a symbolic link to {os.readlink(path)}, which does not exist",
                "; --overwrite writes that file",
            ) from None
        return _check_folder(path)
    if source and _is_open_as(status, source):
        raise FileError(f"{path}: input and output are the same file")
    refuse_folder_as_output(path, source)
    if not stat.S_ISREG(status.st_mode):
        raise FileError(f"{path}: not a regular file")
    if not overwrite:
        raise _exists(path)


def _is_open_as(status: os.stat_result, source: File) -> bool:
    """True when a file is the one that `source` reads."""
    with opened(source) as stream:
        read = status_of(stream)
    return read is not None and os.path.samestat(status, read)


def _check_folder(path: Path) -> None:
    folder = Path(os.path.realpath(path)).parent if path.is_symlink() else path.parent
    if not folder.is_dir():
        raise FileError(f"{path}: there is no folder {folder}: make it first")


def _exists(path: Path) -> FileError:
    return OutputExistsError(f"{path}: the file exists", "; --overwrite replaces it")


class Destination(NamedTuple):
    """Where a new file goes.  Its folder stays the same one when it is renamed, or when the process changes its own.

    path       what the user calls the file
    folder     a descriptor of the folder, to which the two names are relative; None where the system has none: then the
               names are absolute paths
    name       of the complete file
    temporary  of the unfinished one
    """

    path: Path
    folder: int | None
    name: str
    temporary: str


@contextlib.contextmanager
def _destination(path: Path, final: Path) -> Iterator[Destination]:
    """Where a new file goes, with its folder open inside the `with`."""
    # In the same folder, because a rename cannot cross file systems.
    temporary = partial_prefix(final.name) + secrets.token_hex(HEX_DIGITS // 2)
    if not hasattr(os, "O_PATH"):  # without it, a folder could be opened only if it may be listed
        absolute = Path(os.path.abspath(final))
        yield Destination(path, None, str(absolute), str(absolute.with_name(temporary)))
        return
    folder = os.open(str(final.parent), os.O_PATH | os.O_DIRECTORY)
    try:
        yield Destination(path, folder, final.name, temporary)
    finally:
        os.close(folder)


@contextlib.contextmanager
def new_file(path: Path, *, overwrite: bool, note: Note = warn) -> Iterator[BinaryIO]:
    """A new file to write and read inside the `with`.  It takes its name when the block ends without an error.

    After an error nothing is left, and an existing file of that name stays.  Without `overwrite`, a file that took the
    name in the meantime stays too, and the new one is discarded with a `FileError`.  With it, the old file is replaced
    in one step and its permissions are kept; a symbolic link stays, and the file behind it is replaced.
    """
    final = Path(os.path.realpath(path)) if overwrite else path
    _note_partial_files(path, final, note)
    own: tuple[str | None, ...] = None, str(final.parent)
    try:
        with _destination(path, final) as target:
            own += (target.temporary,)
            with _temporary_file(target) as stream:
                if overwrite:
                    with contextlib.suppress(FileNotFoundError):
                        mode = stat.S_IMODE(os.stat(target.name, dir_fd=target.folder).st_mode)
                        os.chmod(target.temporary, mode, dir_fd=target.folder)
                with stream:  # closed before it is renamed, as Windows needs it
                    yield stream
                    stream.flush()
                    os.fsync(stream.fileno())
                _replace(target) if overwrite else _take_free_name(target, note)
                _sync_folder(target)
    except OSError as error:
        if error.errno is None or error.filename not in own:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error  # name the file that the user asked for


@contextlib.contextmanager
def new_file_of_size(
    path: Path, beginning: bytes, size: int, *, overwrite: bool, note: Note = warn
) -> Iterator[BinaryIO]:
    """The same for a file that begins so.  The space for all its bytes is reserved before."""
    with new_file(path, overwrite=overwrite, note=note) as stream:
        stream.write(beginning)
        stream.flush()
        reserve_space(stream, size)
        try:
            yield stream
        except BaseException:
            forget_content(stream)
            raise


def reserve_space(stream: BinaryIO, size: int) -> None:
    """Take the space now, so that a full disk is an error before the work and not after it."""
    if size and hasattr(os, "posix_fallocate"):  # which refuses to reserve nothing
        os.posix_fallocate(stream.fileno(), 0, size)
    else:
        os.ftruncate(stream.fileno(), size)


def scratch_name(folder: Path) -> str:
    """What messages call a scratch file."""
    return f"the scratch file in {folder}"


@contextlib.contextmanager
def scratch_file(folder: Path, size: int) -> Iterator[BinaryIO]:
    """A file without a name, to be written and then read.  Its space is reserved at once.

    It has lost its name before it gets a byte, so nothing is left of it, however the process ends.
    """
    descriptor, temporary = tempfile.mkstemp(".gpulayout-scratch", dir=folder)
    with open(descriptor, "r+b", buffering=0) as stream:
        os.unlink(temporary)
        with named(scratch_name(folder)):
            reserve_space(stream, size)
        yield stream


@contextlib.contextmanager
def _temporary_file(target: Destination) -> Iterator[BinaryIO]:
    """A file with the temporary name, which is gone when the `with` ends."""
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        with open(os.open(target.temporary, flags, 0o666, dir_fd=target.folder), "r+b") as stream:
            yield stream
    finally:
        with contextlib.suppress(OSError):  # gone after a rename; never there on a read-only file system
            os.unlink(target.temporary, dir_fd=target.folder)


def partial_prefix(name: str) -> str:
    """How the temporary names of a file begin.  A long name is cut: a temporary name has at most 255 bytes too."""
    while len(os.fsencode(name)) > NAME_BYTES - len(PARTIAL) - HEX_DIGITS:
        name = name[:-1]
    return name + PARTIAL


def _note_partial_files(path: Path, final: Path, note: Note) -> None:
    """Name the temporary files of other runs to the same output, if there are any."""
    begins = re.compile(re.escape(partial_prefix(final.name)) + HEX)
    partial: list[str] = []
    with contextlib.suppress(OSError):  # a folder may let its files be written but not listed
        partial = sorted(str(final.with_name(name)) for name in os.listdir(final.parent) if begins.fullmatch(name))
    if partial:
        left = "another run to this output left an unfinished file, or is still writing it"
        if len(partial) > 1:
            left = f"other runs to this output left {len(partial)} unfinished files, or are still writing them"
        note(f"{path}: {left}; if no such run is alive, delete what is left: rm -- {shlex.join(partial[:MOST])}")


def _replace(target: Destination) -> None:
    """Give the file its name, whatever has it."""
    os.replace(target.temporary, target.name, src_dir_fd=target.folder, dst_dir_fd=target.folder)


def _take_free_name(target: Destination, note: Note) -> None:
    """Give the file its name unless the name is taken, in the best way that the file system offers.

    If a way fails for another reason, the next one is tried.  The last one reports what is wrong.
    """
    for way in (_link, _rename_to_free_name):
        try:
            return way(target)
        except FileExistsError:
            raise _exists(target.path) from None
        except OSError:
            continue
    claim_and_replace(target, note)


def _link(target: Destination) -> None:
    """Add a second name, which must be free, then remove the first."""
    os.link(target.temporary, target.name, src_dir_fd=target.folder, dst_dir_fd=target.folder)
    with contextlib.suppress(OSError):  # the file has its name already
        os.unlink(target.temporary, dir_fd=target.folder)


def _rename_to_free_name(target: Destination) -> None:
    """Linux's rename that fails if the name is taken; OSError where the C library or the file system lacks it."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if renameat2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    folder, old_name, new_name = target.folder, os.fsencode(target.temporary), os.fsencode(target.name)
    if renameat2(folder, old_name, folder, new_name, RENAME_NOREPLACE):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def claim_and_replace(target: Destination, note: Note) -> None:
    """Take the name with an empty file, then replace that file.

    This is not atomic, and a note says so.  In between, others see an empty file.  What they write into it is lost, and
    it stays if the process is killed then.
    """
    try:
        with named(str(target.path)):
            os.close(os.open(target.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=target.folder))
    except FileExistsError:
        raise _exists(target.path) from None
    try:
        _replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(target.name, dir_fd=target.folder)
        raise
    note(
        f"{target.path} existed as an empty file for a moment before it was complete: this file system has neither "
        "hard links nor a rename that keeps existing files"
    )


def _sync_folder(target: Destination) -> None:
    """Put the new name on disk.  Some systems cannot open folders."""
    with contextlib.suppress(OSError):
        folder = "." if target.folder is not None else os.path.dirname(target.name)
        descriptor = os.open(folder, os.O_RDONLY, dir_fd=target.folder)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
