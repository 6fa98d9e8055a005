"""A pytest plugin: the tests marked `gpu` find two devices, and none of them may be skipped.

    pytest -p tests.support.standin.plugin -m gpu

A function that the stand-in lacks can look like a missing GPU.  So a skipped test fails the run, except for want
of PyTorch or JAX.
"""

import pytest

from tests.support.gpu_gate import OTHER_LIBRARY
from tests.support.standin import device

device.install()


def pytest_configure(config):
    # Under xdist every worker loads this too; only the process that sees all reports judges.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Skips(), "stand-in-skips")


class _Skips:
    """Collects the reasons why tests were skipped."""

    def __init__(self):
        self.refused = {}

    def pytest_runtest_logreport(self, report):
        self._look(report)

    def pytest_collectreport(self, report):
        self._look(report)

    def _look(self, report):
        if report.skipped and not hasattr(report, "wasxfail"):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            if not OTHER_LIBRARY.search(reason):
                self.refused[report.nodeid] = reason

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        if self.refused and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        if self.refused:
            terminalreporter.section("skipped tests that had to run")
            for test, reason in self.refused.items():
                terminalreporter.line(f"{test}: {reason}", red=True)
