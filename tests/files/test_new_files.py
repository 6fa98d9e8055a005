"""How a new file gets its name: complete or not at all, over another file only on request, with errors that name it."""

import errno
import itertools
import os
import shlex
import stat
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

from gpulayout.files import new_file as new_file_module
from gpulayout.files.errors import FileError
from gpulayout.files.new_file import check_output, new_file
from tests.support.unprivileged import unprivileged
from tests.support.waiting import HANG


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out.npy"


@pytest.fixture(params=["link", "rename", "claim"])
def way(request, monkeypatch):
    """Each way to take a free name, with the others disabled."""

    def refused(*_, **__):
        raise OSError(errno.EPERM, "Operation not permitted")

    if request.param == "rename" and sys.platform != "linux":
        pytest.skip("renameat2 is Linux's")
    if request.param != "link":
        monkeypatch.setattr(new_file_module.os, "link", refused)
    if request.param != "rename":
        monkeypatch.setattr(new_file_module, "RENAME_NOREPLACE", 1 << 30)  # a flag unknown to the kernel
    if request.param != "claim":
        monkeypatch.setattr(new_file_module, "claim_and_replace", None)
    return request.param


def write(path, content=b"new", *, overwrite=False, note=lambda text: None):
    with new_file(path, overwrite=overwrite, note=note) as stream:
        stream.write(content)


def said(error):
    """What the command line says."""
    return f"{error}{error.advice}"


def names(path):
    return sorted(os.listdir(path.parent))


def appear(path, kind):
    """Let something take the name; returns a check that it is still there."""
    if kind == "file":
        path.write_bytes(b"theirs")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("nowhere")
    return os.lstat(path)


# ---- a free name ---------------------------------------------------------------------------------------------


def test_the_file_has_its_name_when_it_is_complete_and_not_before(path, way):
    with new_file(path, overwrite=False, note=lambda text: None) as stream:
        stream.write(b"new")
        assert not os.path.lexists(path)
    assert path.read_bytes() == b"new" and names(path) == ["out.npy"] and path.stat().st_nlink == 1


@pytest.mark.parametrize("kind", ["file", "folder", "pipe", "link to nothing"])
def test_a_file_that_took_the_name_in_the_meantime_stays(kind, path, way):
    with pytest.raises(FileError) as caught, new_file(path, overwrite=False) as stream:
        stream.write(b"new")
        before = appear(path, kind)
    assert said(caught.value) == f"{path}: the file exists; --overwrite replaces it"
    assert os.path.samestat(os.lstat(path), before) and os.lstat(path).st_size == before.st_size
    assert names(path) == ["out.npy"]


def test_one_of_many_writers_of_the_same_name_wins(path, way):
    count = 8
    for _ in range(10):
        ready, won, lost = threading.Barrier(count), [], []

        def race(number):
            try:
                with new_file(path, overwrite=False, note=lambda text: None) as stream:
                    stream.write(b"%d" % number)
                    ready.wait(HANG)
                won.append(number)
            except FileError:
                lost.append(number)

        threads = [threading.Thread(target=race, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1 and len(lost) == count - 1
        assert path.read_bytes() == b"%d" % won[0] and names(path) == ["out.npy"]
        path.unlink()


def test_there_is_a_note_only_if_the_name_was_claimed_with_an_empty_file(path, way):
    notes = []
    write(path, note=notes.append)
    text = (
        f"{path} existed as an empty file for a moment before it was complete: this file system has neither hard links "
        "nor a rename that keeps existing files"
    )
    assert notes == ([text] if way == "claim" else [])


def test_a_note_is_a_warning_unless_the_caller_wants_it(path, way):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with new_file(path, overwrite=False):
            pass
    assert [str(warning.message).split(" existed ")[0] for warning in caught] == ([str(path)] if way == "claim" else [])


def test_a_temporary_name_that_cannot_be_removed_is_not_a_failure(path, way, monkeypatch):
    def broken(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(new_file_module.os, "unlink", broken)
    write(path)
    assert path.read_bytes() == b"new"


def test_the_file_is_on_the_disk_before_it_has_its_name(path, way, monkeypatch):
    synced = []
    monkeypatch.setattr(
        new_file_module.os, "fsync", lambda descriptor: synced.append((os.fstat(descriptor).st_size, path.exists()))
    )
    write(path)
    assert synced[0] == (len(b"new"), False) and synced[1][1]  # the file, then the folder with its name


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt(), SystemExit(143)])
def test_a_claimed_name_is_given_up_when_the_rename_fails(error, path, way, monkeypatch):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr(new_file_module.os, "replace", broken)
    if way == "claim":
        with pytest.raises(type(error)):
            write(path)
        assert names(path) == []
    else:  # they never rename over a file
        write(path)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit, OSError])
@pytest.mark.parametrize("overwrite", [False, True])
def test_after_an_error_the_old_file_is_untouched_and_nothing_is_left(overwrite, error, path):
    path.write_bytes(b"old")
    with pytest.raises(error) as caught, new_file(path, overwrite=overwrite) as stream:
        stream.write(b"new")
        raise error("why")
    assert caught.value.args == ("why",)
    assert path.read_bytes() == b"old" and names(path) == ["out.npy"]


def test_a_name_of_the_maximum_length(path, way):
    longest = path.with_name("x" * 255)
    write(longest)
    assert longest.read_bytes() == b"new"
    with pytest.raises(OSError) as caught:
        check_output(path.with_name("x" * 256), path, overwrite=False)
    assert caught.value.errno == errno.ENAMETOOLONG and str(caught.value.filename).endswith("x" * 256)


def test_a_name_that_is_not_text(path, way):
    odd = Path(os.fsdecode(os.fsencode(path.parent) + b"/\xff\n'.npy"))
    write(odd)
    assert os.listdir(os.fsencode(path.parent)) == [b"\xff\n'.npy"]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o777])
def test_the_umask_decides_who_may_read_a_new_file(mask, path, way):
    before = os.umask(mask)
    try:
        write(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def interrupted(line, path, overwrite):
    """Write the file, with a KeyboardInterrupt before the n-th line that runs in new_file.py; False if fewer run."""
    count, tracing = 0, sys.gettrace()

    def trace(frame, event, _):
        nonlocal count
        count += event == "line" and frame.f_code.co_filename == new_file_module.__file__
        if count == line:
            sys.settrace(tracing)
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        write(path, overwrite=overwrite)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(tracing)
    return False


# An exception just after the stream was opened leaves it to the garbage collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("overwrite", [False, True])
def test_an_interruption_at_any_line_leaves_the_whole_file_or_none(overwrite, path, way):
    """Only a claimed name may stay behind, as an empty file: it cannot be told from another program's file."""
    before = b"old" if overwrite else None
    allowed = {before, b"new"} | ({b""} if way == "claim" and not overwrite else set())
    found = set()
    for line in itertools.count(1):
        if overwrite:
            path.write_bytes(b"old")
        if not interrupted(line, path, overwrite):
            break
        assert names(path) in ([], ["out.npy"]), line
        found.add(path.read_bytes() if path.exists() else None)
        path.unlink(missing_ok=True)
    assert line > 20 and {before, b"new"} <= found <= allowed


# ---- unfinished files of other runs ---------------------------------------------------------------------------


def partial_name(path):
    """The temporary name that a run to this path has."""
    before = set(os.listdir(path.parent))
    with new_file(path, overwrite=True, note=lambda text: None):
        (found,) = set(os.listdir(path.parent)) - before
    path.unlink()
    return path.with_name(found)


def notes_of(path, overwrite=False):
    notes = []
    write(path, overwrite=overwrite, note=notes.append)
    return notes


@pytest.mark.parametrize("name", ["out.npy", "-out", "a b.npy", "*[a].npy", "x" * 255, "ä" * 127, "x" + "ä" * 127])
def test_a_temporary_name_begins_with_the_name_of_the_output(name, tmp_path):
    partial = partial_name(tmp_path / name).name
    assert len(os.fsencode(partial)) <= 255
    begin, _, digits = partial.partition(".gpulayout-partial-")
    assert name.startswith(begin) and (begin == name or len(os.fsencode(partial)) > 253)
    assert len(digits) == 16 and int(digits, 16) >= 0
    assert partial_name(tmp_path / name).name != partial


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["out.npy", "-out", "a b.npy", "*[a].npy", "x" * 255, "ä" * 127])
def test_the_next_run_names_an_unfinished_file_and_leaves_it(name, overwrite, tmp_path):
    path = tmp_path / name
    left = partial_name(path)
    left.write_bytes(b"half")
    (note,) = notes_of(path, overwrite)
    assert note == (
        f"{path}: another run to this output left an unfinished file, or is still writing it; if no such run is alive, "
        f"delete what is left: rm -- {shlex.quote(str(left))}"
    )
    assert left.read_bytes() == b"half" and path.read_bytes() == b"new"
    subprocess.run(["sh", "-c", note.partition("delete what is left: ")[2]], check=True)
    assert os.listdir(tmp_path) == [name] and notes_of(path, overwrite=True) == []


def test_several_unfinished_files_are_named_together(path):
    left = sorted(str(partial_name(path)) for _ in range(3))
    for name in left:
        Path(name).touch()
    (note,) = notes_of(path)
    assert note == (
        f"{path}: other runs to this output left 3 unfinished files, or are still writing them; if no such run is "
        f"alive, delete what is left: rm -- {' '.join(left)}"
    )


def test_the_unfinished_file_of_another_output_is_not_named(path):
    for name in ("other.npy", "out.npy.x", "xout.npy", "out.np", "out.npyx"):
        partial_name(path.with_name(name)).touch()
    for digits in ("", "12", "g" * 16, "0" * 17):
        path.with_name(f"out.npy.gpulayout-partial-{digits}").touch()
    assert notes_of(path) == []


def test_an_unfinished_file_behind_a_link_is_named(path, tmp_path):
    (tmp_path / "data").mkdir()
    path.symlink_to("data/target.npy")
    left = partial_name(tmp_path / "data" / "target.npy")
    left.touch()
    (note,) = notes_of(path, overwrite=True)
    assert note.startswith(f"{path}: another run to this output left") and note.endswith(f"rm -- {left}")


def test_a_run_that_still_goes_on_is_named_and_not_disturbed(path):
    with new_file(path, overwrite=True) as stream:
        stream.write(b"first")
        (note,) = notes_of(path)
        assert "or is still writing it" in note
    assert path.read_bytes() == b"first"


def test_a_folder_that_cannot_be_listed_gets_its_file():
    with unprivileged() as folder:
        folder.chmod(0o333)
        write(folder / "out.npy")
        folder.chmod(0o755)
        assert os.listdir(folder) == ["out.npy"]


# ---- replaced files ------------------------------------------------------------------------------------------


def test_a_replaced_file_is_the_old_one_until_the_new_one_is_complete(path):
    path.write_bytes(b"old")
    with new_file(path, overwrite=True) as stream:
        stream.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new" and names(path) == ["out.npy"]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o444, 0o000])
def test_a_replaced_file_keeps_its_permissions(mode, path):
    path.write_bytes(b"old")
    path.chmod(mode)
    write(path, overwrite=True)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("links", [1, 3])
@pytest.mark.parametrize("exists", [True, False])
def test_links_stay_and_the_file_behind_them_is_replaced(exists, links, path, tmp_path):
    """The links are relative and in other folders; the last one may point to nothing yet."""
    (tmp_path / "data").mkdir()
    target = tmp_path / "data" / "target.npy"
    if exists:
        target.write_bytes(b"old")
    for number in range(links):
        (tmp_path / f"link{number}").symlink_to(f"link{number + 1}" if number + 1 < links else "data/target.npy")
    write(tmp_path / "link0", overwrite=True)
    assert target.read_bytes() == b"new" and all((tmp_path / f"link{number}").is_symlink() for number in range(links))
    assert os.listdir(target.parent) == ["target.npy"] and len(os.listdir(tmp_path)) == links + 1


# ---- refused outputs -----------------------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path):
    source = tmp_path / "source.npy"
    source.write_bytes(b"source")
    return source


def refusal(path, source, *, overwrite):
    with pytest.raises(FileError) as caught:
        check_output(path, source, overwrite=overwrite)
    return said(caught.value)


def test_an_existing_output_needs_overwrite(path, source):
    path.write_bytes(b"old")
    assert refusal(path, source, overwrite=False) == f"{path}: the file exists; --overwrite replaces it"
    check_output(path, source, overwrite=True)


def test_an_existing_output_is_pythons_own_error_too_and_names_no_option(path, source):
    path.write_bytes(b"old")
    for call in (lambda: check_output(path, source, overwrite=False), lambda: write(path)):
        with pytest.raises(FileExistsError) as caught:
            call()
        assert str(caught.value) == f"{path}: the file exists" and isinstance(caught.value, ValueError)


def test_a_link_to_nothing_needs_overwrite(path, source):
    """The name is taken, and another program chose where the link points."""
    path.symlink_to("target.npy")
    assert refusal(path, source, overwrite=False) == (
        f"{path}: a symbolic link to target.npy, which does not exist; --overwrite writes that file"
    )
    check_output(path, source, overwrite=True)
    path.unlink()
    path.symlink_to("missing/target.npy")
    assert (
        refusal(path, source, overwrite=True) == f"{path}: there is no folder {path.parent / 'missing'}: make it first"
    )


def test_links_in_a_loop_are_an_error_that_names_the_output(path, source):
    path.symlink_to(path.name)
    for overwrite in (False, True):
        with pytest.raises(OSError) as caught:
            check_output(path, source, overwrite=overwrite)
        assert caught.value.errno == errno.ELOOP and str(caught.value.filename) == str(path)


def test_an_output_that_is_the_input_is_refused_under_any_name(source, tmp_path):
    linked, other = tmp_path / "hard.npy", tmp_path / "soft.npy"
    linked.hardlink_to(source)
    other.symlink_to(source)
    for same in (source, linked, other, tmp_path / ".." / tmp_path.name / "source.npy"):
        for overwrite in (False, True):
            assert refusal(same, source, overwrite=overwrite) == f"{same}: input and output are the same file"


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_output_that_cannot_be_a_file_is_refused(overwrite, path, source, tmp_path):
    os.mkfifo(path)
    for odd in (path, Path(os.devnull)):
        assert refusal(odd, source, overwrite=overwrite) == f"{odd}: not a regular file"
    said = f"{tmp_path}: this is a folder: write the name of a file in it, such as {tmp_path / source.name}"
    assert refusal(tmp_path, source, overwrite=overwrite) == said
    for missing in (tmp_path / "missing" / "x.npy", source / "x.npy"):
        assert (
            refusal(missing, source, overwrite=overwrite)
            == f"{missing}: there is no folder {missing.parent}: make it first"
        )


# ---- errors of the system ------------------------------------------------------------------------------------


@pytest.mark.parametrize("overwrite", [False, True])
def test_on_a_read_only_file_system_the_output_is_named(overwrite, path, monkeypatch):
    def refused(name, *_, **__):
        raise OSError(errno.EROFS, "Read-only file system", name)

    for call in ("open", "unlink"):  # both fail there, whether or not the name exists
        monkeypatch.setattr(new_file_module.os, call, refused)
    with pytest.raises(OSError) as caught:
        write(path, overwrite=overwrite)
    assert str(caught.value) == f"[Errno {errno.EROFS}] Read-only file system: '{path}'"


@pytest.mark.parametrize("overwrite", [False, True])
def test_in_a_folder_that_cannot_be_written_the_output_is_named(overwrite):
    with unprivileged() as folder:
        folder.chmod(0o555)
        with pytest.raises(PermissionError) as caught:
            write(folder / "out.npy", overwrite=overwrite)
        assert str(caught.value) == f"[Errno {errno.EACCES}] Permission denied: '{folder / 'out.npy'}'"
        assert os.listdir(folder) == []


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_an_error_while_the_file_is_completed_names_the_output_and_leaves_nothing(call, path, monkeypatch):
    def broken(*names, **_):
        raise OSError(errno.EIO, "Input/output error", *names[:1])

    if call == "replace":
        path.write_bytes(b"old")
    monkeypatch.setattr(new_file_module.os, call, broken if call == "replace" else lambda descriptor: broken())
    with pytest.raises(OSError) as caught:
        write(path, overwrite=True)
    assert str(caught.value) == f"[Errno {errno.EIO}] Input/output error: '{path}'"
    assert names(path) == (["out.npy"] if call == "replace" else [])
