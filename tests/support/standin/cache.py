"""Folders that are built once and named after their inputs, beside the products of the host shim."""

import contextlib
import fcntl
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

from tests.support.simt import toolchain


def folder(name, parts, make):
    """The path of a folder that `make(path)` fills unless it exists; `parts` are the texts or bytes of all its inputs.

    Processes that need the same folder at the same time wait for the one that makes it; none sees an unfinished one.
    """
    place = toolchain.build_folder() / f"{name}-{_hash(parts)}"
    if not place.exists():
        with _locked(place.with_name(place.name + ".lock")):
            if not place.exists():
                with tempfile.TemporaryDirectory(dir=place.parent) as around:
                    (made := pathlib.Path(around, place.name)).mkdir()
                    make(made)
                    os.rename(made, place)
    return place


def run(*command, **options):
    """The standard output of a command; if it fails, a RuntimeError with all its output."""
    command = [str(part) for part in command]
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


@functools.cache
def compiler():
    """The C++ compiler and its version."""
    path = os.environ.get("CXX", "g++")
    if shutil.which(path) is None:
        raise RuntimeError(f"no C++ compiler: {path} is not on the PATH")
    return path, run(path, "--version").splitlines()[0]


def _hash(parts):
    key = hashlib.sha256()
    for part in parts:
        key.update((part if isinstance(part, bytes) else str(part).encode()) + b"\0")
    return key.hexdigest()[:16]


@contextlib.contextmanager
def _locked(path):
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
