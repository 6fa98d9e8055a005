"""Tests see a made-up machine: what the library reads of this one is an error, unless the test is about it."""

import os
import pathlib
import re
import subprocess
import sys
import time

import pytest

import gpulayout as gl
from gpulayout.cpu import caches
from gpulayout.cpu.threads import thread_count
from gpulayout.files import memory
from tests.support import processors
from tests.support.machine import START, MachineRead, machine

ROOT = pathlib.Path(__file__).parents[2]
PROCESSOR = processors.chosen()


def in_the_library(expression):
    """The value of an expression in a module of the library, and in a module of another name."""
    code = "import concurrent.futures, multiprocessing, os, pathlib, time"
    values = []
    for name in ("gpulayout.made_up", "another"):
        module = {"__name__": name}
        exec(f"{code}\ndef value(): return {expression}", module)
        values.append(module["value"]())
    return values


@pytest.mark.parametrize(
    "expression",
    [
        "pathlib.Path('/proc/meminfo').read_text()",
        "open('/sys/fs/cgroup/memory.max')",
        "list(pathlib.Path('/sys/devices/system/cpu/cpu0/cache').glob('index*'))",
        "os.listdir('/sys/devices/system/node')",
        "os.sysconf('SC_PHYS_PAGES')",
        "os.getloadavg()",
    ],
)
def test_a_read_of_this_machine_says_what_to_do(expression):
    text = "test_a_read.* reads this machine: gpulayout.made_up asked for (/proc|/sys|os).* write @pytest.mark.machine"
    with pytest.raises(MachineRead, match=text):
        in_the_library(expression)
    assert len(machine.refused) == 1
    machine.refused.clear()  # which would end this test in an error


@pytest.mark.parametrize("name", ["time", "perf_counter", "monotonic", "process_time", "thread_time"])
def test_clocks_stand_still_for_the_library(name):
    first, real = in_the_library(f"time.{name}()")
    assert first == in_the_library(f"time.{name}()")[0] == in_the_library(f"time.{name}_ns()")[0] / 1e9 != real
    machine.seconds += 5
    is_wall = name in ("time", "perf_counter", "monotonic")
    assert in_the_library(f"time.{name}()")[0] == first + 5 * is_wall and (first == START) == is_wall


def test_the_library_may_use_the_made_up_cores():
    assert in_the_library("os.cpu_count()")[0] == in_the_library("multiprocessing.cpu_count()")[0] == PROCESSOR.cores
    assert in_the_library("len(os.sched_getaffinity(0))")[0] == thread_count() == PROCESSOR.cores
    for others in processors.PROCESSORS.values():
        with machine.like(others):
            assert thread_count() == gl.show_config("dicts")["cpu_count"] == others.cores
    assert thread_count() == PROCESSOR.cores


def test_the_library_sees_the_made_up_caches_and_memory():
    for name, others in processors.PROCESSORS.items():
        with machine.like(others):
            found = caches.machine_caches()
            assert memory.free_memory() == others.free << 20
            assert found.first >> 10 == int(others.caches[0][:-1])
            assert (found.second == found.third) == (len(others.caches) == 2), name
    with machine.like(processors.PROCESSORS["common"]):
        assert caches.machine_caches() == caches.DEFAULT


@pytest.mark.machine
def test_a_test_about_this_machine_reads_it():
    assert os.fspath(caches.FOLDER).startswith("/sys/") and os.fspath(memory.MEMINFO) == "/proc/meminfo"
    before = time.perf_counter()
    assert before <= in_the_library("time.perf_counter()")[0] <= time.perf_counter()
    assert in_the_library("os.cpu_count()") == [os.cpu_count()] * 2


TESTS = """
import functools, sys, types, pytest

library = types.ModuleType("gpulayout.made_up")
exec('''
import functools, os, pathlib

@functools.cache
def kept():
    return len(list(pathlib.Path("/sys").iterdir()))

def caught():
    try:
        return kept()
    except AssertionError:
        return 0
''', vars(library))
sys.modules["gpulayout.made_up"] = library

@pytest.fixture(scope="module")
def read_in_a_fixture():
    return library.kept()

@pytest.mark.machine
def test_1_marked(): library.kept()

def test_2_raises(): library.kept()

def test_3_catches(): library.caught()

def test_4_needs_a_fixture(read_in_a_fixture): pass

def test_5_reads_nothing(): pass
"""


def test_every_way_of_reading_it_fails_the_test_that_does(tmp_path):
    """Even if the library catches the error, a fixture reads, or a marked test before it left the answer in a cache."""
    (tmp_path / "conftest.py").write_text("from tests.support.machine import install as pytest_configure\n")
    (tmp_path / "test_made_up.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = machine\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.fspath(ROOT)},
    )
    found = set(re.findall(r"^(PASSED|FAILED|ERROR) .*::test_(\d)", done.stdout, re.MULTILINE))
    expected = {("PASSED", "1"), ("FAILED", "2"), ("FAILED", "3"), ("ERROR", "4"), ("PASSED", "5")}
    assert found == expected, done.stdout + done.stderr


def test_a_processor_that_is_unknown_is_an_error(monkeypatch):
    monkeypatch.setenv(processors.VARIABLE, "fast")
    with pytest.raises(ValueError, match="GPULAYOUT_TEST_PROCESSOR is 'fast': it must be one of common, tiny"):
        processors.chosen()
