"""Fixtures of the tests of threads."""

import pytest

from gpulayout.cpu import thread_count


@pytest.fixture
def three_threads(monkeypatch):
    monkeypatch.setenv(thread_count.VARIABLE, "3")
