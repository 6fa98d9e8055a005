"""The machine that tests see is made up, so that they pass or fail alike on every processor, idle or busy.

What the library reads of a machine:

- Its caches and its free memory: the paths of their descriptions lead to files of a made-up processor.
- Its number of cores: the functions of `os` give the library that of the made-up processor.
- Its clocks: those of `time` stand still for the library, unless a test moves them: `machine.seconds += 5`.

Any other read is an error, even if the library catches it.  A test that is about this machine says so with
@pytest.mark.machine, and reads all of it.  Processes that tests start read it too, so their tests hold on any machine.

This module replaces functions of `time` and `os`.  They answer only modules of the library in a new way.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from tests.support import processors

THROUGH = {*sys.stdlib_module_names, "psutil"}  # who asks them asks the system
# Linux says there what a machine has, and what it does at the moment.
FOLDER = "/sys/"
FILES = {f"/proc/{name}" for name in ("meminfo", "cpuinfo", "stat", "loadavg", "vmstat", "self/cgroup", "self/stat")}
WALL_CLOCKS = ("time", "perf_counter", "monotonic")
CPU_CLOCKS = ("process_time", "thread_time")  # of work
OTHERS = ("sysconf", "getloadavg")


class MachineRead(AssertionError):
    """A test that is not about this machine read it."""


class Machine:
    """What the library sees of the machine.

    processor   the made-up one; None for this machine itself
    seconds     the time of made-up clocks; no threads rest, because all calls with real clocks were before it
    refused     the reads of this machine in this test
    """

    def __init__(self) -> None:
        self.processor: processors.Processor | None = processors.chosen()
        self.seconds, self.worked = START, 0.0
        self.test = "the import of the tests"
        self.refused: list[str] = []
        self._real: dict[str, pathlib.Path] = {}
        self._described: dict[processors.Processor, pathlib.Path] = {}

    def begin(self, test: str, *, is_real: bool) -> None:
        """Begin a test."""
        self.test, self.seconds, self.worked = test, START, 0.0
        self.refused.clear()
        self.become(None if is_real else processors.chosen())

    def become(self, processor: processors.Processor | None) -> None:
        """Be another processor: plans and results that were kept are those of the one before."""
        if processor == self.processor and self._real:
            return
        was_real, self.processor = self.processor is None, processor
        self._show(processor)
        forget_plans()
        if was_real:
            _forget_results()

    def _show(self, processor: processors.Processor | None) -> None:
        """Lead the library's paths to the description of a processor."""
        from gpulayout.cpu import caches
        from gpulayout.files import memory

        names = (caches, "FOLDER", "caches"), (memory, "MEMINFO", "meminfo"), (memory, "OWN_GROUPS", "none")
        for module, name, file in (*names, (memory, "GROUPS", "none")):
            real = self._real.setdefault(name, getattr(module, name))
            setattr(module, name, self._description(processor) / file if processor else real)
        caches.machine_caches.cache_clear()

    def _description(self, processor: processors.Processor) -> pathlib.Path:
        if processor not in self._described:
            self._described[processor] = pathlib.Path(_folder().name) / str(len(self._described))
            processors.describe(self._described[processor], processor)
        return self._described[processor]

    @contextlib.contextmanager
    def like(self, processor: processors.Processor) -> Iterator[None]:
        """Be a processor for a while."""
        before = self.processor
        self.become(processor)
        try:
            yield
        finally:
            self.become(before)

    def refuse(self, what: str, reader: str) -> None:
        """Raise for a read of this machine."""
        text = (
            f"{self.test} reads this machine: {reader} asked for {what}.  Let tests/support/machine.py make up what it"
            " gives, or write @pytest.mark.machine above a test that is about it"
        )
        self.refused.append(text)
        raise MachineRead(text)


START = 1e9  # seconds; later than any clock that counts from the start of a machine
machine = Machine()


@functools.cache
def _folder() -> tempfile.TemporaryDirectory:
    """The folder of all descriptions, which goes with the process."""
    return tempfile.TemporaryDirectory(prefix="gpulayout-processors-")


def forget_plans() -> None:
    """Every later call makes its plan anew, for the processor of now."""
    from tests.support.kept import forget_transfers

    forget_transfers()


def _forget_results() -> None:
    """Forget what any function of the library kept while it saw this machine, but for the GPU's one backend."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "gpulayout" and name != "gpulayout.choices.backends":
            for value in list(vars(module).values()):
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()


def _reader(depth: int) -> str:
    """The module that asked, past those of Python; "" unless it is one of the library."""
    frame = sys._getframe(depth)
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] in THROUGH:
        frame = frame.f_back
    name = frame.f_globals.get("__name__", "") if frame else ""
    return name if name.partition(".")[0] == "gpulayout" else ""


class _Replaced:
    """A function in place of one of `time` or `os`.  Not a method when a class holds it, and pickled by its name, as
    that one.
    """

    def __init__(self, real: Callable, answer: Callable) -> None:
        functools.update_wrapper(self, real)
        self.real, self.answer = real, answer

    def __reduce__(self) -> str:
        return self.__qualname__


class _Clock(_Replaced):
    """A clock that shows the library a made-up time."""

    def __call__(self):
        if machine.processor and sys._getframe(1).f_globals.get("__name__", "").partition(".")[0] == "gpulayout":
            return self.answer()
        return self.real()


class _Question(_Replaced):
    """A question about the machine, which the library asks in vain."""

    def __call__(self, *given):
        reader = machine.processor and _reader(2)
        return self.answer(reader) if reader else self.real(*given)


def _replacements() -> Iterator[tuple[ModuleType, str, _Replaced]]:
    """(module, name, what to have in place of its function) for all that the library may ask."""
    for name in (*WALL_CLOCKS, *CPU_CLOCKS):
        field = "seconds" if name in WALL_CLOCKS else "worked"
        yield time, name, _Clock(getattr(time, name), functools.partial(getattr, machine, field))
        in_ns = functools.partial(lambda field: int(getattr(machine, field) * 1e9), field)
        yield time, f"{name}_ns", _Clock(getattr(time, f"{name}_ns"), in_ns)
    for name in filter(functools.partial(hasattr, os), ("cpu_count", "process_cpu_count", "sched_getaffinity")):
        cores = set if name == "sched_getaffinity" else len
        answer = functools.partial(lambda cores, reader: cores(range(machine.processor.cores)), cores)
        yield os, name, _Question(getattr(os, name), answer)
    for name in filter(functools.partial(hasattr, os), OTHERS):
        yield os, name, _Question(getattr(os, name), functools.partial(machine.refuse, f"os.{name}"))


def _replace_functions() -> None:
    """Also where a module of the library that was imported before holds one under a name of its own."""
    loaded = [module for name, module in sys.modules.items() if name.partition(".")[0] == "gpulayout"]
    for owner, name, replaced in list(_replacements()):
        setattr(owner, name, replaced)
        for module in loaded:
            for own in [own for own, value in vars(module).items() if value is replaced.real]:
                setattr(module, own, replaced)


def _watch(event: str, arguments: tuple) -> None:
    """Refuse the library the files that describe this machine."""
    if event in ("open", "os.listdir", "os.scandir") and machine.processor:
        path = arguments[0]
        if isinstance(path, (str, os.PathLike)):
            path = os.fspath(path)
            if isinstance(path, str) and (f"{path}/".startswith(FOLDER) or path in FILES):
                reader = _reader(2)
                if reader:
                    machine.refuse(path, reader)


class Guard:
    """A plugin of pytest: each test runs on the made-up machine, unless it is marked."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        """Fixtures of all scopes belong to the test that needs them first."""
        machine.begin(item.nodeid, is_real=item.get_closest_marker("machine") is not None)
        try:
            return (yield)
        finally:
            machine.begin("code between tests", is_real=False)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self):
        return (yield from _without_reads())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self):
        return (yield from _without_reads())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self):
        return (yield from _without_reads())


def _without_reads():
    """A part of a test fails by a read, even if the library caught the error."""
    try:
        result = yield
        if machine.refused:
            pytest.fail(machine.refused[0], pytrace=False)
        return result
    finally:
        machine.refused.clear()


def install(config) -> None:
    """Make the machine up from now on, in this process."""
    os.environ.pop("GPULAYOUT_NUM_THREADS", None)  # a number of the one who runs the tests, not of a test
    machine.begin("the import of the tests", is_real=False)
    config.pluginmanager.register(Guard(), "gpulayout-machine")


_replace_functions()
sys.addaudithook(_watch)
