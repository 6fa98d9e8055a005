"""Which backend runs: the fallback, the choice by name, and the log line."""

import logging
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.choices import backends
from tests.support.waiting import wait_for

needs_no_gpu = pytest.mark.skipif(backends.gpu_problem() is None, reason="a GPU works here, so nothing falls back")


@pytest.fixture
def fresh_selection(monkeypatch):
    """No choice made, nothing probed or logged yet."""
    monkeypatch.setattr(backends.choices, "statements", [])
    monkeypatch.delenv("GPULAYOUT_BACKEND", raising=False)
    backends.log_fallback.cache_clear()
    yield
    backends.log_fallback.cache_clear()


@needs_no_gpu
def test_auto_falls_back_to_numpy_with_one_log_line_that_says_why(fresh_selection, caplog):
    with caplog.at_level(logging.INFO, "gpulayout"):
        for _ in range(3):
            assert type(gl.zeros("f32[2,3]")) is np.ndarray
    assert len(caplog.records) == 1
    assert caplog.records[0].message == f"running on the CPU: {backends.gpu_problem()}"


@needs_no_gpu
def test_cupy_by_name_never_falls_back(fresh_selection, monkeypatch):
    message = f"backend 'cupy' cannot run here: {backends.gpu_problem()}"
    with pytest.raises(gl.BackendUnavailable) as caught:
        gl.use_backend("cupy")
    assert str(caught.value) == message and isinstance(caught.value, RuntimeError)
    monkeypatch.setenv("GPULAYOUT_BACKEND", "cupy")
    with pytest.raises(gl.BackendUnavailable):
        gl.zeros("f32[2,3]")
    assert gl.relayout(np.zeros(6, np.float32), "f32[2,3]", "f32[2,3]{0,1}").shape == (
        6,
    )  # an array decides by its device


def test_use_backend_sets_and_restores(fresh_selection):
    with gl.use_backend("numpy"):
        assert backends.selected() == "numpy"
        with gl.use_backend("auto"):
            assert backends.selected() == "auto"
        assert backends.selected() == "numpy"
    assert backends.selected() == "auto"
    gl.use_backend("numpy")
    assert backends.selected() == "numpy"


def test_blocks_in_other_threads_do_not_undo_each_other(fresh_selection):
    gl.use_backend("auto")
    first, second = threading.Event(), threading.Event()
    seen = []

    def block(name, enter, leave):
        with gl.use_backend(name):
            enter.set()
            wait_for(leave)
            seen.append((name, backends.selected()))

    threads = [
        threading.Thread(target=block, args=("numpy", first, second)),
        threading.Thread(target=block, args=("auto", second, first)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [("auto", "auto"), ("numpy", "numpy")] and backends.selected() == "auto"


def test_a_choice_can_be_entered_again(fresh_selection):
    choice = gl.use_backend("numpy")
    for _ in range(2):
        with choice:
            assert backends.selected() == "numpy"
        assert backends.selected() == "auto"


def test_an_empty_environment_variable_chooses_nothing(fresh_selection, monkeypatch):
    monkeypatch.setenv("GPULAYOUT_BACKEND", "")
    assert backends.selected() == "auto"


@pytest.mark.parametrize("line", ["raise RuntimeError('boom')", "raise SystemExit(3)", ""])
def test_a_broken_cupy_counts_as_no_gpu(tmp_path, line):
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy" / "__init__.py").write_text(line)
    code = "import gpulayout as gl; print(type(gl.zeros('f32[2]')).__name__, gl.show_config('dicts')['backend'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.pathsep.join(sys.path)}"},
    )
    assert done.stdout.split() == ["ndarray", "numpy"]


def test_the_environment_chooses_and_the_call_overrides_it(fresh_selection, monkeypatch):
    monkeypatch.setenv("GPULAYOUT_BACKEND", "numpy")
    assert backends.selected() == "numpy"
    with gl.use_backend("auto"):
        assert backends.selected() == "auto"


@pytest.mark.parametrize("name", ["cuda", "", "NumPy", None])
def test_unknown_backends_are_refused(fresh_selection, name, monkeypatch):
    with pytest.raises(ValueError) as caught:
        gl.use_backend(name)
    assert str(caught.value) == f"backend {name!r} is not one of 'auto', 'numpy', 'cupy'"
    monkeypatch.setenv("GPULAYOUT_BACKEND", "gpu")
    with pytest.raises(ValueError, match="^GPULAYOUT_BACKEND 'gpu' is not one of 'auto', 'numpy', 'cupy'$"):
        gl.zeros("f32[]")


def probe_with(monkeypatch, module):
    """gpu_problem() as if the GPU module were `module`."""
    monkeypatch.setattr(backends, "gpu_module", module)
    backends.gpu_problem.cache_clear()
    try:
        return backends.gpu_problem()
    finally:
        backends.gpu_problem.cache_clear()


def test_every_way_a_gpu_can_be_missing_has_its_reason(monkeypatch):
    def absent():
        raise ImportError("No module named 'cupy'")

    class Broken:
        @staticmethod
        def probe():
            raise RuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected\nsecond line")

    class Working:
        @staticmethod
        def probe():
            return "a device"

    assert probe_with(monkeypatch, absent) == "CuPy cannot be imported: No module named 'cupy'"
    assert probe_with(monkeypatch, lambda: Broken) == (
        "no working CUDA device: cudaErrorNoDevice: no CUDA-capable device is detected"
    )
    assert probe_with(monkeypatch, lambda: Working) is None


def test_show_config_says_what_runs_and_why(capsys, fresh_selection):
    gl.show_config()
    printed = capsys.readouterr().out
    found = gl.show_config("dicts")
    assert set(found) >= {"gpulayout", "numpy", "python", "ml_dtypes", "backend", "reason", "gpu", "selected"}
    assert found["reason"] in printed and "backend" in printed
    if backends.gpu_problem():
        assert found["backend"] == "numpy" and found["reason"] == backends.gpu_problem()
        assert printed.count(backends.gpu_problem()) == 1 and found["gpu_problem"] == backends.gpu_problem()
    assert found["gpu"] == ("not available" if backends.gpu_problem() else "available")
    with pytest.raises(ValueError, match="^mode 'json' is not one of 'stdout', 'dicts'$"):
        gl.show_config("json")


def test_show_config_says_where_a_choice_was_made(fresh_selection, monkeypatch):
    monkeypatch.setenv("GPULAYOUT_BACKEND", "numpy")
    assert gl.show_config("dicts")["reason"] == "chosen by GPULAYOUT_BACKEND"
    with gl.use_backend("numpy"):
        assert gl.show_config("dicts")["reason"] == "chosen by use_backend"


def test_importing_and_using_the_library_on_the_cpu_never_imports_cupy():
    code = (
        "import sys, numpy as np, gpulayout as gl\n"
        "gl.relayout(np.zeros(6, np.float32), 'f32[2,3]', 'f32[2,3]{0,1}')\n"
        "gl.linearize(np.zeros((2, 4), int), 'f32[2,3]')\n"
        "gl.plan('f32[2,3]', 'f32[2,3]{0,1}').explain()\n"
        "print('cupy' in sys.modules, 'click' in sys.modules, 'rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "False"]
