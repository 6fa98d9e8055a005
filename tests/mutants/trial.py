"""Tries mutants in copies of the tree, several at a time, until the time is up."""

import concurrent.futures
import contextlib
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import NamedTuple

from tests.support.simt import toolchain

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ("gpulayout", "kernels", "tests", "benchmarks", "ci", "docs", "README.md", "pyproject.toml", "MANIFEST.in")
PYTEST = (sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", "-p", "no:xdist")
KILLED, SURVIVED, EQUIVALENT, WRONGLY_EQUIVALENT, VANISHED, NOTHING_KNOWN = (
    "killed",
    "SURVIVED",
    "equivalent",
    "KILLED, but the table says equivalent",
    "TEXT VANISHED",
    "NOTHING KNOWN, for a test fails anyway",
)
FAILURES = (SURVIVED, WRONGLY_EQUIVALENT, VANISHED, NOTHING_KNOWN)


class Change(NamedTuple):
    """A mutant: the new text of one file, and the arguments of one or more runs of pytest with the tests that should
    notice.

    `shown` is the change as the reader sees it.
    """

    name: str
    file: str  # from the root of the tree
    text: str | None  # None when the text to replace is not there
    runs: tuple
    shown: str = ""
    limit: float = 900  # seconds; a mutant that takes longer hangs, and so is noticed
    equivalent: str = ""  # why no test can notice


class Outcome(NamedTuple):
    """The outcome of a change: one of the words above, and the test that noticed."""

    change: Change
    verdict: str
    by: str = ""
    seconds: float = 0


class Tree:
    """A copy of the tree to be changed, with its own folder of compiled kernels, which starts with those that are
    compiled already.
    """

    def __init__(self, folder, root=ROOT, builds=None):
        self.folder, self.builds = pathlib.Path(folder, "tree"), pathlib.Path(folder, "builds")
        self.folder.mkdir(parents=True)
        for part in PARTS:
            if (root / part).is_dir():
                shutil.copytree(
                    root / part,
                    self.folder / part,
                    symlinks=True,
                    ignore=shutil.ignore_patterns("__pycache__", "*.pyc"),
                )
            elif (root / part).exists():
                shutil.copy2(root / part, self.folder / part)
        if builds:
            shutil.copytree(builds, self.builds, copy_function=_linked, ignore=_unfinished)
        self._passing = {}
        # Bytecode is written this once.  A changed file is newer than its own, so it is compiled anew and not written.
        self.pytest(("--collect-only", "tests", "gpulayout"), None, {"PYTHONDONTWRITEBYTECODE": ""})

    @contextlib.contextmanager
    def changed(self, change):
        """Within this context a file has the change's text."""
        path = self.folder / change.file
        before, times = path.read_text(encoding="utf-8"), path.stat()
        path.write_text(change.text, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + 2 * 10**9))  # bytecode knows seconds and sizes only
        try:
            yield
        finally:
            path.write_text(before, encoding="utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def pytest(self, arguments, limit, environment=None):
        """(exit status, output) of pytest here; (None, "") when it took too long; then all its processes are
        ended.
        """
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            "SIMT_BUILD": str(self.builds),
            **(environment or {}),
        }
        with subprocess.Popen(
            [*PYTEST, *arguments],
            cwd=self.folder,
            env=environment,
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            try:
                output = process.communicate(timeout=limit)[0]
                return process.returncode, output
            except subprocess.TimeoutExpired:
                return None, ""
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def passes(self, arguments, limit=None):
        """True when these tests pass without a change."""
        if arguments not in self._passing:
            self._passing[arguments] = self.pytest(arguments, limit)[0] == 0
        return self._passing[arguments]


def _linked(source, target):
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _unfinished(folder, names):
    """Files that running compilers are still writing."""
    return [name for name in names if name.startswith("tmp") or name.endswith(".lock")]


def first_failure(output):
    """The first test that a summary of pytest names as failed, or ""."""
    found = re.search(r"^(?:FAILED|ERROR) (\S+?::.*?|\S+)(?: - .*)?$", output, re.MULTILINE)
    return found[1] if found else ""


def tried(change, tree):
    """The Outcome of one change in a tree."""
    if change.text is None:
        return Outcome(change, VANISHED)
    start = time.monotonic()
    with tree.changed(change):
        for arguments in change.runs:
            status, output = tree.pytest(arguments, change.limit)
            if status != 0:
                break
    seconds = time.monotonic() - start
    if status == 0:
        return Outcome(change, EQUIVALENT if change.equivalent else SURVIVED, "", seconds)
    by = first_failure(output) if status in (1, 2) else ""  # 2: a file that cannot be imported
    again = arguments if status is None else (by,) if by else (*arguments, "--collect-only")
    if not tree.passes(again, change.limit):
        return Outcome(change, NOTHING_KNOWN, " ".join(again), seconds)
    by = by or (
        f"a time limit of {change.limit:.0f} s"
        if status is None
        else "a crash"
        if status < 0
        else "no test can be collected"
    )
    return Outcome(change, WRONGLY_EQUIVALENT if change.equivalent else KILLED, by, seconds)


def outcomes(changes, minutes, workers=2, root=ROOT):
    """The Outcome of each change as soon as it is known, in any order; after `minutes` no further change is tried."""
    end, waiting, done = time.monotonic() + 60 * minutes, iter(changes), queue.Queue()
    taking, stopped = threading.Lock(), threading.Event()
    builds = None if toolchain.missing() else toolchain.build_folder()

    def work(folder):
        tree = None
        while True:
            with taking:
                change = next(waiting, None) if time.monotonic() < end and not stopped.is_set() else None
            if change is None:
                return
            tree = tree or Tree(folder, root, builds)
            done.put(tried(change, tree))

    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as folder,
        concurrent.futures.ThreadPoolExecutor(workers) as pool,
    ):
        running = [pool.submit(work, pathlib.Path(folder, str(number))) for number in range(workers)]
        try:
            while not all(each.done() for each in running) or not done.empty():
                with contextlib.suppress(queue.Empty):
                    yield done.get(timeout=0.2)
            for each in running:
                each.result()
        finally:
            stopped.set()
