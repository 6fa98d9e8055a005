"""A new file goes to the folder that was named, whatever happens to folders meanwhile, and nothing else is left."""

import os
import sys
import threading

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files import new_file as new_file_module

VALUES = np.arange(70 * 90, dtype=np.float32).reshape(70, 90)

on_linux = pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="needs descriptors of folders that cannot be read")


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """The working folder `here`, with in.npy, and another one, `there`."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    np.save("in.npy", VALUES)
    return tmp_path


@pytest.fixture(params=["link", "rename", "claim"])
def way(request, monkeypatch):
    """Each way to take a free name, with those before it disabled."""

    def refused(*_, **__):
        raise OSError

    if request.param == "rename" and sys.platform != "linux":
        pytest.skip("renameat2 is Linux's")
    if request.param != "link":
        monkeypatch.setattr(new_file_module.os, "link", refused)
    if request.param == "claim":
        monkeypatch.setattr(new_file_module, "RENAME_NOREPLACE", 1 << 30)  # a flag unknown to the kernel


def move(event, **options):
    """Relayout in.npy to out.npy in blocks; the event happens once, while the file is written."""
    happened = threading.Event()

    def progress(done, total):
        if not happened.is_set():
            happened.set()
            event()

    names = ("in.npy", "out.npy")
    gl.relayout_file(*names, target="{0,1}", max_bytes=52 << 10, progress=progress, **options)
    assert happened.is_set()


def check(folder):
    assert sorted(os.listdir(folder)) == ["in.npy", "out.npy"]
    assert np.array_equal(np.load(folder / "out.npy"), VALUES)


@pytest.mark.filterwarnings("ignore:.*existed as an empty file:UserWarning")
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("scratch", [None, "."])
def test_relative_names_are_those_of_the_folder_in_which_the_call_began(folders, way, overwrite, scratch):
    move(lambda: os.chdir(folders / "there"), overwrite=overwrite, scratch=scratch)
    check(folders / "here")
    assert os.listdir(folders / "there") == []


@on_linux
@pytest.mark.filterwarnings("ignore:.*existed as an empty file:UserWarning")
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_that_is_renamed_gets_its_file(folders, way, overwrite):
    (folders / "here" / "out.npy").write_bytes(b"old") if overwrite else None
    move(lambda: os.rename(folders / "here", folders / "moved"), overwrite=overwrite)
    check(folders / "moved")


@on_linux
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_of_the_same_name_gets_nothing(folders, overwrite):
    def exchange():
        os.rename(folders / "here", folders / "moved")
        os.mkdir(folders / "here")

    move(exchange, overwrite=overwrite)
    check(folders / "moved")
    assert os.listdir(folders / "here") == []


@on_linux
def test_after_an_error_in_a_renamed_folder_nothing_is_left(folders):
    def fail():
        os.rename(folders / "here", folders / "moved")
        os.chdir(folders / "there")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        move(fail)
    assert os.listdir(folders / "moved") == ["in.npy"]


def test_in_a_folder_that_is_removed_the_error_names_the_output(folders):
    """The system does not let a folder go that holds the unfinished file, so somebody removes both."""

    def remove():
        for name in os.listdir():
            os.unlink(name)
        os.chdir(folders)
        os.rmdir("here")

    with pytest.raises(OSError, match=r"here.out\.npy") as caught:
        move(remove)
    assert caught.value.filename == str(folders / "here" / "out.npy")


def test_descriptors_are_closed(folders):
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        move(lambda: None, overwrite=True)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("overwrite", [False, True])
def test_without_descriptors_of_folders_the_names_are_absolute(folders, monkeypatch, overwrite):
    monkeypatch.delattr(new_file_module.os, "O_PATH", raising=False)
    move(lambda: os.chdir(folders / "there"), overwrite=overwrite)
    check(folders / "here")
