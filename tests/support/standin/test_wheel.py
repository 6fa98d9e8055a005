"""The tests run the wheel's CuPy: NVIDIA's runtime is not loaded, and rebuilt modules match sources and Cython of the
wheel.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import cupy
import pytest

from tests.support.standin import cache, cupy_modules, wheel

ROOT = pathlib.Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.standin

# Occurs in every module that NVIDIA's static runtime is linked into.
RUNTIME = b"cudart_static"
# In the wheel, these contain it; nothing here imports the last.
WITH_RUNTIME = {*cupy_modules.NAMES, cupy_modules.WITHOUT, "cupy.cuda.jitify"}


def site_packages():
    return pathlib.Path(wheel.cupy().locate_file("")).resolve()


def loaded_libraries():
    """Every library that is mapped into this process."""
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return {
        pathlib.Path(line.split(maxsplit=5)[5]) for line in lines if ".so" in line and len(line.split(maxsplit=5)) == 6
    }


def test_nothing_of_nvidias_runtime_is_loaded():
    assert cupy.arange(4).sum().get() == 6  # whatever that takes is loaded now
    loaded = loaded_libraries()
    assert [path for path in loaded if RUNTIME in path.read_bytes()] == []
    assert not [path for path in loaded if path.name.startswith("libcudart")]
    modules = {name: sys.modules[name].__file__ for name in cupy_modules.NAMES}
    assert all(
        pathlib.Path(path).parent == cupy_modules.build() and pathlib.Path(path) in loaded for path in modules.values()
    )


def test_the_wheels_modules_that_are_replaced_are_those_with_nvidias_runtime():
    found = {
        path
        for package in ("cupy", "cupy_backends")
        for path in (site_packages() / package).rglob("*.so")
        if RUNTIME in path.read_bytes()
    }
    assert found == {wheel.module_file(name) for name in WITH_RUNTIME}


def test_the_driver_and_nvrtc_that_cupy_finds_are_the_stand_ins():
    places = {
        path.name: path.parent.name for path in loaded_libraries() if re.match(r"libcuda\.|libnvrtc\.", path.name)
    }
    assert places["libcuda.so.1"].startswith("stand-in-")
    assert {path.name for path in loaded_libraries() if path.name.startswith("libnvrtc.so")} == {
        f"libnvrtc.so.{wheel.cuda_major()}"
    }
    assert cupy.cuda.runtime.getDeviceProperties(0)["name"] == b"stand-in"


def test_the_sources_are_the_wheels():
    """Compares every text file of the wheel byte for byte: declarations, headers and all Python."""
    source, compared = wheel.sources(), 0
    for path in wheel.cupy().files:
        ours = source / path
        if path.suffix in (".py", ".pxd", ".pyx", ".pxi", ".h", ".cuh", ".hpp") and ours.exists():
            compared += 1
            assert pathlib.Path(path.locate()).read_bytes() == ours.read_bytes(), path
    assert compared > 500
    assert wheel.cupy().version == cupy.__version__
    assert f"Version: {cupy.__version__}\n" in (source / "PKG-INFO").read_text()


@pytest.mark.parametrize("name", cupy_modules.NAMES)
def test_cython_is_the_wheels(name):
    ours, theirs = (
        wheel.cython_version(path)
        for path in (cupy_modules.build() / (name + cupy_modules.SUFFIX), wheel.module_file(name))
    )
    assert ours == theirs
    assert ours or name == "cupy.cuda.cub"  # the one without shared types


SIGNATURES = """
import ctypes, importlib, json, sys
import cupy_backends.cuda.api.driver
name = ctypes.pythonapi.PyCapsule_GetName
name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
module = importlib.import_module("cupy_backends.cuda.api.runtime")
print(json.dumps([module.__file__, {key: name(value).decode() for key, value in module.__pyx_capi__.items()}]))
"""


def test_the_functions_that_other_modules_import_have_the_wheels_signatures():
    """As Cython records them, such as `int (size_t, int __pyx_skip_dispatch)`; this needs no device."""
    found = []
    for before in ("", "from tests.support.standin import device; device.install()"):
        done = subprocess.run(
            [sys.executable, "-c", before + SIGNATURES],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "LD_LIBRARY_PATH": str(stand_in()), "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    (theirs, their_functions), (ours, our_functions) = found
    assert (
        pathlib.Path(theirs) == wheel.module_file("cupy_backends.cuda.api.runtime")
        and pathlib.Path(ours).parent == cupy_modules.build()
    )
    assert our_functions == their_functions and len(their_functions) > 50


def stand_in():
    """The folder of the stand-in for the driver, in which the wheel's module finds a library of that name."""
    return next(path.parent for path in loaded_libraries() if path.name == "libcuda.so.1")


def test_a_folder_is_made_once_and_a_failed_one_is_not_kept(tmp_path):
    made = []

    def fail(folder):
        raise RuntimeError("no compiler")

    with pytest.raises(RuntimeError, match="^no compiler$"):
        cache.folder("test", [tmp_path], fail)
    places = {
        cache.folder("test", [tmp_path], lambda folder: made.append((folder / "file").write_text("x")))
        for _ in range(3)
    }
    assert len(places) == len(made) == 1
