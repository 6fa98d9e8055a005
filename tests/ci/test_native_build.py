"""setup.py: when the native engine is built, what a wheel says about it, and what becomes of builds that fail.

A small package stands for this one, whose engine takes a moment to compile.  ci/check_wheel builds the real one.
"""

import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest

from tests.support.waiting import HANG

setuptools = pytest.importorskip("setuptools")
ROOT = pathlib.Path(__file__).resolve().parents[2]
NO_COMPILER = "there is no C++ compiler, no-such-compiler is not on the PATH: install a C++ compiler"
FAILS = "false failed, and pip install -v shows what it said: install a C++ compiler"
ENGINE, REASON = "gpulayout/cpu/_native.abi3.so", "gpulayout/cpu/native_build.txt"
needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None or not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists(),
    reason="needs g++ and the headers of Python",
)
FREE_THREADED = """
import sysconfig
here = sysconfig.get_config_var
sysconfig.get_config_var = lambda name: 1 if name == "Py_GIL_DISABLED" else here(name)
"""
MODULE = """#include <Python.h>
#include "strided_move.h"
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", nullptr, -1};
PyMODINIT_FUNC PyInit__native() { return PyModule_Create(&definition); }
"""


@pytest.fixture
def clone(tmp_path):
    """A folder with all packages, which are empty, and an engine that does nothing."""
    clone = tmp_path / "clone"
    project = (ROOT / "pyproject.toml").read_text()
    for name in re.findall(r'"(gpulayout(?:\.\w+)*)"', project.partition("packages = [")[2].partition("]")[0]):
        folder = clone.joinpath(*name.split("."))
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "NOTICE", "gpulayout/version.py"):
        shutil.copy(ROOT / name, clone / name)
    sources = clone / "kernels" / "cpu"
    sources.mkdir(parents=True)
    (sources / "module.cpp").write_text(MODULE)
    for name in ("strided_move.cpp", "strided_move.h", "file_runs.cpp"):
        (sources / name).write_text("")
    return clone


def call(clone, *arguments, **environment):
    outside = {name: value for name, value in os.environ.items() if name not in ("GPULAYOUT_BUILD_NATIVE", "CXX")}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=clone,
        env=outside | environment,
        capture_output=True,
        text=True,
        timeout=HANG,
    )


def in_place(clone, **environment):
    """(exit status, what it wrote to stderr, whether the engine is there, the reason beside it) of a build in place."""
    done = call(clone, "setup.py", "--quiet", "build_ext", "--inplace", **environment)
    reason = clone / REASON
    return done.returncode, done.stderr, (clone / ENGINE).exists(), reason.read_text() if reason.exists() else ""


def wheel(clone, before="", **environment):
    """(name of the wheel, its WHEEL, the reason in it, whether it has the engine).  `before` is code to run first."""
    code = "from setuptools import build_meta; build_meta.build_wheel('out')"
    done = call(clone, "-c", f"{before}\n{code}", **environment)
    assert done.returncode == 0, done.stderr
    (path,) = (clone / "out").iterdir()
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith("/WHEEL"))
        reason = archive.read(REASON).decode() if REASON in names else ""
        return path.name, archive.read(metadata).decode(), reason, ENGINE in names


@needs_compiler
@pytest.mark.parametrize("wanted", ["", "auto", "require"])
def test_a_wheel_with_the_engine_serves_every_later_python_on_one_platform(clone, wanted):
    name, metadata, reason, has_engine = wheel(clone, GPULAYOUT_BUILD_NATIVE=wanted)
    assert re.fullmatch(r"gpulayout-[\d.]+-cp311-abi3-\w+\.whl", name) and "any" not in name
    assert "Root-Is-Purelib: false\n" in metadata and "Tag: cp311-abi3-" in metadata
    assert has_engine and not reason


@pytest.mark.parametrize(
    "environment, said",
    [
        ({"CXX": "no-such-compiler"}, NO_COMPILER),
        ({"CXX": "false"}, FAILS),
        ({"GPULAYOUT_BUILD_NATIVE": "0"}, "GPULAYOUT_BUILD_NATIVE was 0: unset it, then reinstall gpulayout: pip"),
        ({"before": FREE_THREADED}, "it is for CPython with a GIL, which "),
    ],
    ids=["no compiler", "fails", "0", "free-threaded"],
)
def test_a_wheel_without_the_engine_serves_every_platform_and_says_why(clone, environment, said):
    name, metadata, reason, has_engine = wheel(clone, **environment)
    assert name.endswith("-py3-none-any.whl")
    assert "Root-Is-Purelib: true\n" in metadata and "Tag: py3-none-any\n" in metadata
    assert not has_engine and reason.startswith(said) and reason.count("\n") == 1


@needs_compiler
@pytest.mark.parametrize("build", [wheel, in_place])
def test_nothing_of_an_earlier_build_is_left(clone, build):
    """Neither the engine of a build that succeeded, nor the reason of one that failed."""

    def found(**environment):
        shutil.rmtree(clone / "out", ignore_errors=True)
        *_, first, second = build(clone, **environment)
        reason, has_engine = (first, second) if build is wheel else (second, first)
        return has_engine, reason[:20]

    assert found() == (True, "")
    os.utime(clone / "kernels" / "cpu" / "strided_move.h", (2**31, 2**31))  # a change
    assert found(CXX="false") == (False, FAILS[:20])
    assert found() == (True, "")


@needs_compiler
def test_a_fault_in_the_sources_is_a_build_that_fails(clone):
    (clone / "kernels" / "cpu" / "strided_move.h").write_text("no C++")
    status, said, has_engine, reason = in_place(clone)
    assert (status, has_engine) == (0, False) and " failed, and pip install -v shows what it said: " in reason
    assert f"gpulayout is built without its native engine: {reason}" in said


@pytest.mark.parametrize(
    "compiler, said", [("no-such-compiler", NO_COMPILER), ("false", FAILS)], ids=["no compiler", "fails"]
)
def test_where_it_is_required_a_build_that_fails_is_an_error(clone, compiler, said):
    status, stderr, has_engine, _ = in_place(clone, CXX=compiler, GPULAYOUT_BUILD_NATIVE="require")
    assert status == 1 and not has_engine
    assert f"the native engine was not built, which GPULAYOUT_BUILD_NATIVE=require makes an error: {said}" in stderr


# ---- what hinders it before a compiler runs --------------------------------------------------------------------------


@pytest.fixture
def hindrance(monkeypatch):
    """What `hindrance()` of setup.py says, with GPULAYOUT_BUILD_NATIVE as given."""

    def found(wanted=""):
        monkeypatch.setenv("GPULAYOUT_BUILD_NATIVE", wanted)
        monkeypatch.setattr(setuptools, "setup", lambda **arguments: None)
        return runpy.run_path(str(ROOT / "setup.py"))["hindrance"]()

    return found


@pytest.mark.parametrize("value", ["yes", "1", "no", "Require", " ", "required"])
def test_any_other_wish_is_an_error_that_says_what_to_write(hindrance, value):
    with pytest.raises(SystemExit) as stopped:
        hindrance(value)
    assert stopped.value.code == (
        f"GPULAYOUT_BUILD_NATIVE is {value!r}: write require (an engine that cannot be built is an error), "
        "0 (do not build it), or auto (build it where that can be), which is the default"
    )


@needs_compiler
@pytest.mark.parametrize("value", ["", "auto", "require"])
def test_nothing_hinders_it_here(hindrance, value):
    assert hindrance(value) == ""


def test_zero_is_named(hindrance):
    assert hindrance("0").startswith("GPULAYOUT_BUILD_NATIVE was 0: unset it, then ")


def test_windows_has_only_numpy(hindrance, monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert hindrance() == "Microsoft's compiler lacks the vectors that it is written with, so Windows has only NumPy"


def test_a_python_that_cannot_load_it_is_named(hindrance, monkeypatch):
    here = sysconfig.get_config_var
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: 1 if name == "Py_GIL_DISABLED" else here(name))
    assert hindrance() == f"it is for CPython with a GIL, which {sys.executable} is not"


def test_missing_headers_are_named(hindrance, monkeypatch, tmp_path):
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert hindrance().startswith(f"there is no {tmp_path}/Python.h: install ")


# ---- the scripts -----------------------------------------------------------------------------------------------------

PYTHON = """#!/bin/sh
case "$*" in
  *"-m venv"*) for venv; do :; done; mkdir -p "$venv/bin"; cp "$0" "$venv/bin/python" ;;
  "-c import setuptools") exit {no_setuptools} ;;
  "setup.py "*) echo built >>{log}; {build} ;;
esac
"""


@pytest.fixture
def run_ci_venv(tmp_path):
    """run(build, **environment): ci/venv in a clone of a few files, whose Python builds by a command of the shell.

    Gives the exit status, what it said, and how many builds there were in all.
    """
    root, log = tmp_path / "root", tmp_path / "log"
    for folder in ("ci", "kernels/cpu", "gpulayout/cpu"):
        (root / folder).mkdir(parents=True)
    for name in ("ci/venv", "ci/constraints.txt", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, root / name)
    (root / "kernels" / "cpu" / "module.cpp").touch()
    (root / "kernels" / "convert.cuh").touch()
    log.touch()

    def run(build=f"touch {ENGINE}", no_setuptools=0, **environment):
        for python in (tmp_path / "python", tmp_path / "venv" / "bin" / "python"):
            if python.parent.exists():
                python.write_text(PYTHON.format(build=build, log=log, no_setuptools=no_setuptools))
                python.chmod(0o755)
        outside = {"PYTHON": str(tmp_path / "python"), "GPULAYOUT_VENV": str(tmp_path / "venv"), "GPULAYOUT_PYTHON": ""}
        done = subprocess.run(
            [root / "ci" / "venv"],
            capture_output=True,
            text=True,
            timeout=HANG,
            env={**os.environ, "GPULAYOUT_BUILD_NATIVE": "", **outside, **environment},
        )
        return done.returncode, done.stderr, len(log.read_text().splitlines())

    return root, run


@pytest.mark.parametrize("changed", ["kernels/cpu/module.cpp", "kernels/convert.cuh", "setup.py", "kernels/cpu/new.h"])
def test_the_engine_is_built_when_its_sources_are_newer_and_only_then(run_ci_venv, changed):
    root, run = run_ci_venv
    assert run()[::2] == (0, 1) and run() == (0, "", 1)
    os.utime(root / ENGINE, (0, 0))
    for name in ("kernels/cpu/module.cpp", "kernels/convert.cuh", "setup.py"):
        os.utime(root / name, (-1, -1))
    assert run() == (0, "", 1)
    (root / changed).touch()
    assert run() == (0, "", 2) and run() == (0, "", 2)


def test_a_build_that_fails_is_said_and_tried_again(run_ci_venv):
    _, run = run_ci_venv
    assert run("echo no compiler")[::2] == (0, 1)
    assert run("echo no compiler") == (0, "ci/venv: warning: no compiler\n", 2)
    assert run("echo wrong; exit 1") == (1, "ci/venv: wrong\n", 3)


def test_zero_builds_nothing(run_ci_venv):
    _, run = run_ci_venv
    assert run(GPULAYOUT_BUILD_NATIVE="0")[::2] == (0, 0)


@pytest.mark.parametrize("wanted, status", [("", 0), ("require", 1)])
def test_without_setuptools_it_is_left_out_unless_it_is_required(run_ci_venv, wanted, status):
    _, run = run_ci_venv
    found, said, builds = run(no_setuptools=1, GPULAYOUT_BUILD_NATIVE=wanted)
    assert (found, builds) == (status, 0)
    assert said.endswith("lacks setuptools, which builds it\n") == bool(status)


@pytest.mark.parametrize(
    "environment, wanted",
    [({}, "require"), ({"GPULAYOUT_BUILD_NATIVE": "0"}, "0"), ({"CXX": "no-such-compiler"}, "")],
    ids=["compiler", "chosen", "no compiler"],
)
def test_ci_test_requires_the_engine_where_there_is_a_compiler(tmp_path, environment, wanted):
    (tmp_path / "ci").mkdir()
    shutil.copy(ROOT / "ci" / "test", tmp_path / "ci" / "test")
    for name, text in {
        "python": "",
        "ci/venv": f'echo "wanted=$GPULAYOUT_BUILD_NATIVE" >&2; echo {tmp_path}/python',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    outside = {name: value for name, value in os.environ.items() if name != "GPULAYOUT_BUILD_NATIVE"}
    done = subprocess.run(
        [tmp_path / "ci" / "test", "-k", "nothing"],
        capture_output=True,
        text=True,
        timeout=HANG,
        env={**outside, "CXX": "sh", **environment},
    )
    assert done.returncode == 0 and f"wanted={wanted}\n" in done.stderr
