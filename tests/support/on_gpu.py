"""Runs programs in another process, on the same GPU as this one: a real one, or the stand-in for CUDA."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*arguments, **environment):
    """The output of `python ARGUMENT ...` in the checkout.  Fails with the whole output if the program fails."""
    beneath = ["-m", "tests.support.standin"] if "tests.support.standin.plugin" in sys.modules else []
    path = [os.environ.get("PYTHONPATH")]  # a rehearsal of ci/gpu puts the stand-in beneath every process by it
    done = subprocess.run(
        [sys.executable, *beneath, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, path)]), **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
