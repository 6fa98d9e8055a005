"""Host calls are timed beside the nearest call of NumPy."""

import pathlib
import re
import subprocess
import sys

from tests.support.waiting import HANG

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_host_calls_prints_every_call_beside_the_nearest_one():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.host_calls", "--backend", "numpy", "--rounds", "3", "--calls", "2"],
        capture_output=True,
        text=True,
        timeout=HANG,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    title, head, *rows = done.stdout.splitlines()
    assert "medians of 3 rounds of 2 calls" in title and "nearest of numpy" in head
    calls = [re.fullmatch(r"(\w+)\b.*  +(\d+\.\d)   (\w+)\b.*  +(\d+\.\d)", row).groups() for row in rows]
    assert {call for call, *_ in calls} == {"plan", "relayout", "pack", "unpack", "linearize"}
    assert all(float(ours) > 0 and float(nearest) > 0 for _, ours, _, nearest in calls)
