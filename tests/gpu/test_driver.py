"""A driver is found without CuPy, and decides how loudly the fallback to NumPy is logged."""

import logging
import os
import subprocess
import sys

import pytest

import gpulayout as gl
from gpulayout.choices import backends
from gpulayout.gpu import driver

needs_no_gpu = pytest.mark.skipif(backends.gpu_problem() is None, reason="a GPU works here, so nothing falls back")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine without a driver, until a test adds a part of one."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(driver, "KERNEL_MODULE", tmp_path / "nvidia")
    monkeypatch.setattr(driver, "LIBRARY", "libgpulayout-no-such-driver.so.1")
    return tmp_path


def test_no_module_and_no_library_is_no_driver(machine):
    assert not driver.has_driver()


def test_the_kernel_module_is_enough(machine):
    (machine / "nvidia").mkdir()
    assert driver.has_driver()


@pytest.mark.skipif(sys.platform != "linux", reason="names a library of Linux")
def test_the_library_is_enough(machine, monkeypatch):
    monkeypatch.setattr(driver, "LIBRARY", "libc.so.6")
    assert driver.has_driver()


@pytest.mark.parametrize("value, found", [("", False), ("-1", False), ("0", True), ("0,1", True)])
def test_hidden_devices_count_as_no_driver(machine, monkeypatch, value, found):
    (machine / "nvidia").mkdir()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert driver.has_driver() is found


@needs_no_gpu
@pytest.mark.parametrize("present, level", [(True, logging.WARNING), (False, logging.INFO)])
def test_an_unused_gpu_is_a_warning_and_no_gpu_is_not(machine, caplog, present, level):
    if present:
        (machine / "nvidia").mkdir()
    backends.log_fallback.cache_clear()
    try:
        with gl.use_backend("auto"), caplog.at_level(logging.DEBUG, "gpulayout"):
            for _ in range(3):
                gl.zeros("f32[2,3]")
    finally:
        backends.log_fallback.cache_clear()
    assert [(record.levelno, record.message) for record in caplog.records] == [
        (level, f"running on the CPU: {backends.gpu_problem()}")
    ]


@pytest.mark.parametrize("present", [True, False])
def test_a_program_without_logging_sees_the_warning_only(tmp_path, present):
    """CuPy is broken; the warning goes to stderr, as Python's default for a logger that nothing configures."""
    (tmp_path / "cupy.py").write_text("raise RuntimeError('boom')")
    (tmp_path / "nvidia").mkdir()
    place = tmp_path / ("nvidia" if present else "none")
    code = (
        "import pathlib, gpulayout as gl; from gpulayout.gpu import driver\n"
        f"driver.KERNEL_MODULE, driver.LIBRARY = pathlib.Path({str(place)!r}), 'no-such-library.so'\n"
        "gl.zeros('f32[2]'); gl.zeros('f32[2]')"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.pathsep.join(sys.path)}"}
    for name in ("GPULAYOUT_BACKEND", "CUDA_VISIBLE_DEVICES"):
        environment.pop(name, None)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    expected = "running on the CPU: no working CUDA device: boom\n" if present else ""
    assert done.stderr == expected


def test_without_a_driver_there_are_no_captures_to_leave_alone(monkeypatch):
    monkeypatch.setattr(driver, "LIBRARY", "libnothing.so.0")
    driver.leave_captures_alone()
