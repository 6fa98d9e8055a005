"""The real CuPy's arrays and its driver call, without a GPU: the driver gets the kernel, the grid, the stream and every argument."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

from tests.simt import toolchain

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.mark.simt
@pytest.mark.skipif(toolchain.missing() is not None, reason=str(toolchain.missing()))
def test_cupys_driver_call_gets_every_argument(tmp_path):
    pytest.importorskip("cupy")
    from tests.real_cupy_launches import DRIVER
    (tmp_path / "libcuda.so.1").symlink_to(toolchain.shared_library(DRIVER, ("-Wl,-soname,libcuda.so.1",)))
    paths = {"LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-m", "tests.real_cupy_launches"], cwd=ROOT, env={**os.environ, **paths},
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    calls = json.loads(done.stdout)
    assert len(calls) == 6
    for saw, should in calls:
        assert saw == should
