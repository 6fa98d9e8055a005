"""A pytest plugin for machines that must have a GPU: a test that was skipped because there is none is a failure.

    pytest -p tests.support.gpu_gate --gpu-gate FILE.json

A skip counts when the test is marked `gpu` or its reason speaks of a GPU or of CuPy.  A machine with one GPU is enough:
a test that needs several skips with the reason `needs_devices(2, 1)`, which is noted and does not count.  At least one
test marked `gpu` must have passed, or the suite proved nothing.  Tests of a missing GPU skip with a reason that begins
with `GPU_IS_THERE`, and do not count; nor does one for want of PyTorch or JAX, which is noted.

Tests that need a GPU run first, and a session that gets SIGTERM, as from `timeout`, still writes its results.

A kernel that reads or writes outside its memory takes the process's device with it: every later test in that process
would fail.  So a worker of xdist in which a test failed asks the device, and ends itself if the device is lost.  xdist
then blames that test, and starts another worker for the others.
"""

from __future__ import annotations

import collections
import json
import os
import pathlib
import re
import signal
import sys

import pytest

ABOUT_GPU = re.compile(r"\b(gpu|cupy|cuda device|cuda driver)\b", re.IGNORECASE)
GPU_IS_THERE = "a GPU works here"
# Packages that a machine with a GPU may lack.
OTHER_LIBRARY = re.compile(r"could not import '(torch|jax)'|the extra `oracle` \(jaxlib\) is not installed")
MORE_DEVICES = re.compile(r"needs [2-9] CUDA devices, there is 1$")


def needs_devices(needed: int, present: int) -> str:
    """The reason to skip a test that needs several devices."""
    return f"needs {needed} CUDA devices, there {'is' if present == 1 else 'are'} {present}"


def needs_late_work():
    """For tests that what is wrong by order goes wrong: a device may be done early, and then all is right by luck."""
    if "tests.support.standin.device" not in sys.modules:
        pytest.skip(f"{GPU_IS_THERE}, and may be done early: the stand-in, which is always late, runs this")


def pytest_addoption(parser):
    group = parser.getgroup("gpu gate")
    group.addoption(
        "--gpu-gate", metavar="FILE", help="fail on skips for want of a GPU, and write what ran on it to a JSON file"
    )


def pytest_configure(config):
    # Under xdist every worker loads this too; only the process that sees all reports judges.
    if config.getoption("--gpu-gate") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(GpuGate(config), "gpu-gate-judge")


def pytest_collection_modifyitems(items):
    """The same order in every worker of xdist: tests that need a GPU first, each group in its old order."""
    items.sort(key=lambda item: item.get_closest_marker("gpu") is None)


def device_is_lost() -> bool:
    """True if this process has used a device that answers every call with an error."""
    cupy = sys.modules.get("cupy")
    if "gpulayout.gpu.cupy_runtime" not in sys.modules or cupy is None or not hasattr(cupy, "cuda"):
        return False
    try:
        cupy.cuda.runtime.deviceSynchronize()
        cupy.cuda.runtime.memGetInfo()
    except cupy.cuda.runtime.CUDARuntimeError:
        return True
    except Exception:  # an imitation of CuPy in the place of CuPy
        return False
    return False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed and hasattr(item.config, "workerinput") and device_is_lost():
        print(f"== {item.nodeid} lost the device:\n{report.longreprtext}", file=sys.stderr, flush=True)
        os._exit(86)
    return report


class GpuGate:
    """Collects the reports of a session and sets its exit status."""

    def __init__(self, config):
        self.file = pathlib.Path(config.getoption("--gpu-gate"))
        self.outcomes = collections.Counter()
        self.gpu_passed = 0
        self.failed: list[str] = []
        self.skipped: dict[str, str] = {}
        self.needed_more: dict[str, str] = {}
        self.needed_library: dict[str, str] = {}
        self.ended_early = False
        signal.signal(signal.SIGTERM, self._end)

    def _end(self, *_):
        self.ended_early = True
        raise KeyboardInterrupt

    def pytest_runtest_logreport(self, report):
        marked = "gpu" in report.keywords
        # A worker that ended has neither part.
        if report.when not in ("setup", "teardown") or (report.when == "setup" and not report.passed):
            self.outcomes[report.outcome] += 1
            self.gpu_passed += marked and report.passed
        if report.failed:
            self.failed.append(report.nodeid)
        if report.skipped and not hasattr(report, "wasxfail"):
            self._note(report, marked)

    def pytest_collectreport(self, report):
        if report.skipped:
            self._note(report, False)

    def _note(self, report, marked):
        reason = (report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)).removeprefix(
            "Skipped: "
        )
        if MORE_DEVICES.search(reason):
            self.needed_more[report.nodeid] = reason
        elif OTHER_LIBRARY.search(reason):
            self.needed_library[report.nodeid] = reason
        elif (marked or ABOUT_GPU.search(reason)) and not reason.startswith(GPU_IS_THERE):
            self.skipped[report.nodeid] = reason

    def _problem(self) -> str | None:
        if self.ended_early:
            return "the tests were ended before all had run"
        if self.skipped:
            return f"{len(self.skipped)} tests were skipped for want of a GPU"
        if not self.gpu_passed:
            return "no test marked gpu has passed"
        return None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session, exitstatus):
        problem = self._problem()
        self.file.write_text(
            json.dumps(
                {
                    "outcomes": self.outcomes,
                    "gpu_passed": self.gpu_passed,
                    "problem": problem,
                    "failed": self.failed,
                    "skipped_for_want_of_a_gpu": self.skipped,
                    "skipped_for_want_of_more_gpus": self.needed_more,
                    "skipped_for_want_of_a_library": self.needed_library,
                },
                indent=1,
            )
            + "\n",
            encoding="utf-8",
        )
        if problem and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        problem = self._problem()
        if problem:
            terminalreporter.section("gpu gate")
            terminalreporter.line(problem, red=True)
            for test, reason in list(self.skipped.items())[:20]:
                terminalreporter.line(f"  {test}: {reason}")
