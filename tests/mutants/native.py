"""Tries the mutants of the native engine: each is compiled with the program that stresses it, in several ways until one
notices.  No file of the tree changes, so any number of these may run at a time.
"""

import concurrent.futures
import contextlib
import pathlib
import subprocess
import tempfile
import time
from collections.abc import Iterator
from unittest import mock

from tests.mutants import trial
from tests.mutants.kernels import changed_text
from tests.mutants.native_table import MUTANTS
from tests.support.native import stress
from tests.support.simt import toolchain

LIMIT = 60  # seconds of a run that takes a few; a mutant that takes longer hangs, and so is noticed
CASES = (  # kind, cases, most bytes
    ("moves", 6000, 100_000),
    ("callers", 400, 300_000),
    ("stops", 60, 1 << 20),
    ("within", 60, 1 << 20),
    ("forks", 60, 1 << 20),
    ("leaves", 100, 1 << 20),
)
_CONVERTS, _PACKED, _INDICES = (("converts", 3000, 60_000),), (("packed", 12_000, 20_000),), (("indices", 4000, 5000),)
CASES_OF = {  # of files that only some programs call
    "convert_move.cpp": _CONVERTS,
    "convert_kernels.h": _CONVERTS,
    "packed_move.cpp": _PACKED,
    "bit_kernels.h": _PACKED,
    "index_program.cpp": _INDICES,
    "index_kernels.h": _INDICES,
}
BUILDS = ("first", "quick", "asan")  # what compiles soonest comes first; it lacks wide vectors


def changes(only: str = "") -> list[trial.Change]:
    """The Change of each mutant whose name contains a text."""
    found = []
    for mutant in MUTANTS:
        if only in mutant.name:
            text = changed_text(stress.files()[mutant.file], mutant)
            shown = f"{mutant.old.strip()}\n  became  {mutant.new.strip()}"
            runs = tuple((name, *case) for name in BUILDS for case in CASES_OF.get(mutant.file, CASES))
            found.append(trial.Change(mutant.name, mutant.file, text, runs, shown, LIMIT, mutant.equivalent))
    return found


def tried(change: trial.Change) -> trial.Outcome:
    """The Outcome of one change."""
    if change.text is None:
        return trial.Outcome(change, trial.VANISHED)
    start, by = time.monotonic(), ""
    text = {change.file: change.text}
    for name, kind, count, most_bytes in change.runs:
        try:
            done = stress.run(stress.BUILDS[name], kind, 1, 0, count, most_bytes, changed=text, limit=change.limit)
        except subprocess.TimeoutExpired:
            by = f"{kind} ({name}), a time limit of {change.limit:.0f} s"
        except toolchain.BuildError:
            return trial.Outcome(change, trial.NOTHING_KNOWN, "the compiler rejects it")
        else:
            by = f"{kind} ({name})" if done.returncode else ""
        if by:
            break
    words = (trial.WRONGLY_EQUIVALENT, trial.EQUIVALENT) if change.equivalent else (trial.KILLED, trial.SURVIVED)
    return trial.Outcome(change, words[0 if by else 1], by, time.monotonic() - start)


@contextlib.contextmanager
def builds_of_its_own() -> Iterator[None]:
    """Compiled mutants are gone afterwards: nobody needs them again."""
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as folder,
        mock.patch.object(toolchain, "build_folder", lambda: pathlib.Path(folder)),
    ):
        yield


def outcomes(changes: list[trial.Change], minutes: float, workers: int) -> Iterator[trial.Outcome]:
    """The Outcome of each change as soon as it is known, in any order; after `minutes` no further change is tried."""
    end = time.monotonic() + 60 * minutes
    with builds_of_its_own(), concurrent.futures.ThreadPoolExecutor(workers) as pool:
        running = [pool.submit(lambda each: tried(each) if time.monotonic() < end else None, each) for each in changes]
        try:
            for done in concurrent.futures.as_completed(running):
                if outcome := done.result():
                    yield outcome
        finally:
            pool.shutdown(cancel_futures=True)
