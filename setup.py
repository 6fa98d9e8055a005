"""Builds the native engine of the CPU's moves where that can be; pyproject.toml says everything else.

GPULAYOUT_BUILD_NATIVE says what becomes of a build that fails:

    unset or auto   gpulayout is installed without the engine, from a wheel for every platform, and moves by NumPy
    require         an error
    0               the engine is not built

Why it was not built stands in gpulayout/cpu/native_build.txt, which gpulayout/cpu/native.py reads.
"""

import glob
import os
import pathlib
import shutil
import sys
import sysconfig

from setuptools import Extension, errors, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

VARIABLE = "GPULAYOUT_BUILD_NATIVE"
WANTED = os.environ.get(VARIABLE) or "auto"
if WANTED not in ("auto", "require", "0"):
    sys.exit(
        f"{VARIABLE} is {WANTED[:40]!r}: write require (an engine that cannot be built is an error), "
        "0 (do not build it), or auto (build it where that can be), which is the default"
    )
if os.environ.get("CXX") == "":  # setuptools would run a compiler without a name
    del os.environ["CXX"]
REINSTALL = "reinstall gpulayout: pip install --force-reinstall --no-deps . in a clone"
ADVICE = f"install a C++ compiler (g++ 12, clang 14 or newer) and Python's headers, then {REINSTALL}"

ENGINE = Extension(
    "gpulayout.cpu._native",
    sorted(glob.glob("kernels/cpu/*.cpp")),
    depends=["setup.py", "kernels/convert.cuh", *sorted(glob.glob("kernels/cpu/*.h"))],
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
    py_limited_api=True,
    language="c++",
    # Instruction sets are chosen when it runs, so there is no -march.
    extra_compile_args=[
        *("-std=c++17", "-O3", "-g0", "-pthread", "-fvisibility=hidden"),
        *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-Wno-unknown-pragmas"),  # nvcc's
    ],
    extra_link_args=["-pthread"],
)


def hindrance() -> str:
    """Why the engine is not even compiled; empty if it is."""
    if WANTED == "0":
        return f"{VARIABLE} was 0: unset it, then {REINSTALL}"
    if sys.platform == "win32":
        return "Microsoft's compiler lacks the vectors that it is written with, so Windows has only NumPy"
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return f"it is for CPython with a GIL, which {sys.executable} is not"
    folders = {sysconfig.get_path(name) for name in ("include", "platinclude")}
    if not any(pathlib.Path(folder, "Python.h").exists() for folder in folders):
        return f"there is no {' or '.join(sorted(folders))}/Python.h: {ADVICE}"
    return ""


class BuildEngine(build_ext):
    """Compiles the engine, or says why not and leaves a distribution without extensions."""

    def run(self) -> None:
        reason, inplace = hindrance(), self.inplace
        if not reason:
            try:
                super().run()
            except (errors.BaseError, errors.CCompilerError, OSError) as error:
                reason = f"{error}: {ADVICE}"
        self.leave(reason, inplace)
        if reason and WANTED == "require":
            sys.exit(f"the native engine was not built, which {VARIABLE}=require makes an error: {reason}")
        if reason:
            print(f"gpulayout is built without its native engine: {reason}", file=sys.stderr)
            self.extensions = self.distribution.ext_modules = []

    def build_extensions(self) -> None:
        compiler = self.compiler.compiler_so_cxx[0]
        if shutil.which(compiler) is None:
            raise errors.CompileError(f"there is no C++ compiler, {compiler} is not on the PATH")
        try:
            super().build_extensions()
        except (errors.CCompilerError, errors.ExecError) as error:
            raise errors.CompileError(f"{compiler} failed, and pip install -v shows what it said") from error

    def leave(self, reason: str, inplace: bool) -> None:
        """In each folder of results either the engine or the reason why it is not there, none of an earlier build."""
        folders = [pathlib.Path(self.build_lib, "gpulayout", "cpu")]
        if inplace:
            folders.append(pathlib.Path(self.get_finalized_command("build_py").get_package_dir("gpulayout.cpu")))
        for folder in folders:
            text = folder / "native_build.txt"
            text.unlink(missing_ok=True)
            if reason:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "_native.abi3.so").unlink(missing_ok=True)
                text.write_text(f"{' '.join(reason.split())}\n", encoding="utf-8")


class Wheel(bdist_wheel):
    """A wheel for one platform if the engine is in it, and every CPython from 3.11 on; else one for all platforms."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = bool(hindrance())

    def run(self) -> None:
        self.run_command("build_ext")
        self.root_is_pure = not self.distribution.has_ext_modules()
        super().run()

    def get_tag(self) -> tuple[str, str, str]:
        tag = super().get_tag()
        return tag if self.root_is_pure else ("cp311", "abi3", tag[2])


setup(ext_modules=[ENGINE], cmdclass={"build_ext": BuildEngine, "bdist_wheel": Wheel})
