"""The CuPy wheel that is installed, and what its modules were made from: CuPy's sources, Cython, CUDA's headers."""

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
        raise RuntimeError(f"one wheel of CuPy must be installed, there are {sorted(wheel.name for wheel in found)}")
    return found[0]


def cuda_major():
    """The major version of CUDA that the wheel is for, as text."""
    return re.search(r"cuda(\d+)x", cupy().name)[1]


@functools.cache
def cuda_headers():
    """The folder of CUDA's headers.  No library comes from there."""
    return _file_of(_HEADERS[cuda_major()], "driver_types.h").parent


@functools.cache
def cuda_version():
    """The version of the headers, as CUDA writes it: 13020 is 13.2."""
    return int(re.search(r"define CUDA_VERSION (\d+)", (cuda_headers() / "cuda.h").read_text())[1])


def nvrtc():
    """The real NVRTC's library."""
    return _file_of(_NVRTC[cuda_major()], f"libnvrtc.so.{cuda_major()}")


def module_file(name):
    """A module of the wheel, as it is installed."""
    package, _, last = name.rpartition(".")
    root = pathlib.Path(cupy().locate_file("")).resolve()
    return next((root / package.replace(".", "/")).glob(last + ".*.so"))


def cython_version(path):
    """The version of the Cython that made a module, which stands in the names of shared types; None for a module
    without any.
    """
    found = re.search(rb"_cython_(\d+)_(\d+)_(\d+)", pathlib.Path(path).read_bytes())
    return found and ".".join(part.decode() for part in found.groups())


@functools.cache
def cython():
    """A folder to import Cython from, of the version that made the wheel: modules of different versions share no
    types.
    """
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
    """CuPy's source tree, of exactly the wheel's version."""
    version = cupy().version

    def make(folder):
        # pip asks the sources for their metadata.  A build of stubs needs no CUDA for that, and with the build's
        # requirements at hand pip makes no environment of its own for it.
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
