"""The installed CuPy wheel, and the inputs of its modules: CuPy's sources, Cython, CUDA's headers."""

import functools
import importlib.metadata
import importlib.util
import os
import pathlib
import re
import sys
import tarfile

from . import cache

_HEADERS = {"12": "nvidia-cuda-runtime-cu12", "13": "nvidia-cuda-runtime"}
_NVRTC = {"12": "nvidia-cuda-nvrtc-cu12", "13": "nvidia-cuda-nvrtc"}


@functools.cache
def cupy():
    """The distribution: cupy-cuda12x or cupy-cuda13x."""
    found = [wheel for wheel in importlib.metadata.distributions() if re.fullmatch(r"cupy-cuda1[23]x", wheel.name)]
    if len(found) != 1:
        raise RuntimeError(f"exactly one CuPy wheel must be installed, not {sorted(wheel.name for wheel in found)}")
    return found[0]


def cuda_major():
    """The major version of CUDA that the wheel is for, as text."""
    return re.search(r"cuda(\d+)x", cupy().name)[1]


@functools.cache
def cuda_headers():
    """The folder of CUDA's headers; no library is used from there."""
    return _file_of(_HEADERS[cuda_major()], "driver_types.h").parent


@functools.cache
def cuda_version():
    """The version of the headers, as CUDA writes it: 13020 is 13.2."""
    return int(re.search(r"define CUDA_VERSION (\d+)", (cuda_headers() / "cuda.h").read_text())[1])


def nvrtc():
    """The library of the real NVRTC."""
    return _file_of(_NVRTC[cuda_major()], f"libnvrtc.so.{cuda_major()}")


def module_file(name):
    """The file of a module of the installed wheel."""
    package, _, last = name.rpartition(".")
    root = pathlib.Path(cupy().locate_file("")).resolve()
    return next((root / package.replace(".", "/")).glob(last + ".*.so"))


def cython_version(path):
    """The version of the Cython that made a module, read from the names of its shared types; None if it has none."""
    found = re.search(rb"_cython_(\d+)_(\d+)_(\d+)", pathlib.Path(path).read_bytes())
    return found and ".".join(part.decode() for part in found.groups())


@functools.cache
def cython():
    """A folder with the Cython version that made the wheel; modules of different versions cannot share types."""
    version = cython_version(module_file("cupy_backends.cuda.api.runtime"))

    def make(folder):
        cache.run(
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--disable-pip-version-check",
            f"cython=={version}",
            "setuptools>=77",
            "--target",
            folder,
        )

    return cache.folder(f"cython-{version}", [sys.version], make)


@functools.cache
def sources():
    """CuPy's source tree, in exactly the wheel's version."""
    version = cupy().version

    def make(folder):
        # pip asks the sources for their metadata.  A stub build needs no CUDA for that, and since the build's
        # requirements are on the path, pip needs no environment of its own.
        cache.run(
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-binary",
            "cupy",
            "--no-deps",
            "--no-build-isolation",
            "--disable-pip-version-check",
            f"cupy=={version}",
            "--dest",
            folder,
            env={**os.environ, "CUPY_INSTALL_USE_STUB": "1", "PYTHONPATH": str(cython())},
        )
        (archive,) = folder.glob("cupy-*.tar.gz")
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")

    return cache.folder(f"cupy-sources-{version}", [], make) / f"cupy-{version}"


def _file_of(distribution, name):
    files = importlib.metadata.files(distribution) or ()
    for path in files:
        if path.name == name:
            return pathlib.Path(path.locate()).resolve()
    raise RuntimeError(f"{distribution} has no {name}")
