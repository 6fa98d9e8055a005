"""The modules of CuPy's wheel that NVIDIA's runtime is linked into, rebuilt from CuPy's sources on the stand-in.

The wheel's sources and the wheel's Cython make them, so they fit its other modules: on import, Cython compares names
and signatures of the functions that they share.  Only header files of CUDA are needed.
"""

import concurrent.futures
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import sys
import sysconfig

from . import cache, wheel

INCLUDE = pathlib.Path(__file__).resolve().parent / "include"
# Arrays, streams, graphs and launches use the first.  `import cupy` imports the others, whose kernels exist only as
# machine code; these builds have none.
NAMES = ("cupy_backends.cuda.api.runtime", "cupy.cuda.cub", "cupy.random._generator_api")
WITHOUT = "cupy.cuda.thrust"  # CuPy works without it, and reports that it is missing
SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
# As in CuPy's own build: install/cupy_builder/_command.py in its sources.
DIRECTIVES = {
    "embedsignature": True,
    "c_api_binop_methods": True,
    "binding": False,
    "freethreading_compatible": True,
    "warn.deprecated.IF": False,
}


class Finder:
    """Imports only these modules, from a folder; comes first in `sys.meta_path`."""

    def __init__(self, folder):
        self.folder = folder

    def find_spec(self, name, path=None, target=None):
        if name == WITHOUT:
            raise ModuleNotFoundError(f"{name} is left out: its kernels exist only as machine code", name=name)
        if name in NAMES:
            return importlib.util.spec_from_file_location(name, str(self.folder / (name + SUFFIX)))
        return None


def build():
    """A folder with the modules, and with the names of the CUDA functions that they need in `asked.json`."""
    headers = [path.read_bytes() for path in sorted(INCLUDE.rglob("*")) if path.is_file()]
    made_from = [
        wheel.cupy().name,
        wheel.cupy().version,
        SUFFIX,
        wheel.cuda_version(),
        *cache.compiler(),
        pathlib.Path(__file__).read_bytes(),
        *headers,
    ]
    return cache.folder("cupy-modules", made_from, _build)


def _build(folder):
    source, cython = wheel.sources(), wheel.cython()
    (folder / "libcuda.so.1").touch()
    # The modules need a library of this name to link with; here it is empty.  It is loaded before they are.
    cache.run(
        cache.compiler()[0],
        "-shared",
        "-x",
        "c",
        "/dev/null",
        "-o",
        folder / "libcuda.so.1",
        "-Wl,-soname,libcuda.so.1",
    )
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        asked = list(pool.map(lambda name: _build_module(folder, name, source, cython), NAMES))
    (folder / "libcuda.so.1").unlink()
    (folder / "asked.json").write_text(json.dumps(sorted(set().union(*asked)), indent=1))


def _build_module(folder, name, source, cython):
    """Build a module and return the undefined names of its object file."""
    module, unit, code = source / (name.replace(".", "/") + ".pyx"), folder / f"{name}.cpp", folder / f"{name}.o"
    settings = {
        "CUPY_USE_CUDA_PYTHON": False,
        "CUPY_CUFFT_STATIC": False,
        "CUPY_HIP_VERSION": 0,
        "CUPY_CUDA_VERSION": wheel.cuda_version(),
    }
    cache.run(
        sys.executable,
        "-m",
        "cython",
        "--cplus",
        "-3",
        "--compile-time-env",
        _pairs(settings),
        "--directive",
        _pairs(DIRECTIVES),
        module,
        "-o",
        unit,
        cwd=source,
        env={**os.environ, "PYTHONPATH": str(cython)},
    )
    gpp = cache.compiler()[0]
    cache.run(
        gpp,
        "-std=c++17",
        "-fPIC",
        "-O0",
        "-w",
        "-I",
        INCLUDE,
        "-I",
        wheel.cuda_headers(),
        "-I",
        module.parent,
        "-I",
        sysconfig.get_paths()["include"],
        "-c",
        unit,
        "-o",
        code,
    )
    cache.run(gpp, "-shared", code, "-Wl,--no-as-needed", folder / "libcuda.so.1", "-o", folder / (name + SUFFIX))
    asked = set(re.findall(r" U (\w+)", cache.run("nm", "-u", code)))
    unit.unlink()
    code.unlink()
    return asked


def _pairs(values):
    return ",".join(f"{name}={value}" for name, value in values.items())
