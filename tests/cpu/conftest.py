"""Fixtures of the tests of plans and threads."""

import itertools

import pytest

from gpulayout.cpu import threads
from tests.support.machine import machine
from tests.support.processors import PROCESSORS


@pytest.fixture(autouse=True)
def plans_of_numpy(request):
    """These tests are about NumPy, but for those of files that are called after the native engine."""
    if "native" not in request.path.name:
        request.getfixturevalue("numpy_alone")


@pytest.fixture
def three_threads(monkeypatch):
    monkeypatch.setenv(threads.VARIABLE, "3")


@pytest.fixture
def common():
    """The processor of tests that state which plan it gets, and the caches that `caches.DEFAULT` describes."""
    with machine.like(PROCESSORS["common"]):
        yield


@pytest.fixture
def tiny():
    """A processor whose caches hold so little that most moves are cut."""
    with machine.like(PROCESSORS["tiny"]):
        yield


@pytest.fixture(params=PROCESSORS)
def each_processor(request):
    """Caches of six kinds."""
    with machine.like(PROCESSORS[request.param]):
        yield PROCESSORS[request.param]


@pytest.fixture(params=itertools.product(PROCESSORS, (1, 3, 16)), ids=lambda given: f"{given[0]}, {given[1]} cores")
def each_machine(request):
    """18 machines: caches of six kinds, with 1, 3 and 16 cores."""
    name, cores = request.param
    processor = PROCESSORS[name]._replace(cores=cores)
    with machine.like(processor):
        yield processor
