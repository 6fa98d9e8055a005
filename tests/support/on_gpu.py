"""Programs in a process of their own on the GPU that this process has: a real one, or the stand-in for CUDA."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*arguments, **environment):
    """`python ARGUMENT ...` in the checkout; what it printed.  Fails with all that it said when it fails."""
    beneath = ["-m", "tests.support.standin"] if "tests.support.standin.plugin" in sys.modules else []
    done = subprocess.run(
        [sys.executable, *beneath, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
