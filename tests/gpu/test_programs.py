"""Whole programs on the GPU: the demo, the small launches of ci/gpu, the benchmarks, and per-thread default streams."""

import json

import pytest

import gpulayout as gl
from gpulayout.choices.backends import gpu_problem
from tests.support import on_gpu
from tests.support.kernel_cases import kernel_files

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _gpu():
    if problem := gpu_problem():
        pytest.skip(problem)


def test_the_demo_runs_on_both_and_every_result_is_equal():
    found = json.loads(on_gpu.run("-m", "gpulayout", "demo", "--quick", "--json"))
    assert {timing["backend"] for timing in found["timings"]} == {"numpy", "cupy"}
    assert all(timing["equal"] for timing in found["timings"])


def test_linearize_is_timed_on_both_and_every_result_is_equal():
    found = json.loads(on_gpu.run("-m", "gpulayout", "benchmark", "linearize", "--count", "1000", "--json"))
    native = ["native"] if gl.show_config("dicts")["engine"].startswith("native") else []
    assert found["ok"] and found["gpu_missing"] is None
    assert sorted(row["backend"] for row in found["rows"]) == sorted(8 * ["numpy", "cupy", *native])
    for row in found["rows"]:
        on_gpu_alone = [row[name] for name in ("kernel", "to_gpu", "from_gpu")]
        assert all(time > 0 for time in on_gpu_alone) if row["backend"] == "cupy" else on_gpu_alone == [None] * 3


def test_the_small_launches_reach_every_kernel_file():
    printed = on_gpu.run("-m", "tests.support.small_launches", "--backend", "cupy")
    assert "right everywhere" in printed
    assert set(printed.rpartition("kernel files: ")[2].strip().split(", ")) == set(kernel_files())


def test_streams_are_timed_beside_copies_and_their_results_are_right(tmp_path):
    on_gpu.run("-m", "benchmarks.stream_side", "--quick", "--rounds", "1", "--json", str(tmp_path / "streams.json"))
    rows = json.loads((tmp_path / "streams.json").read_text())["rows"]
    assert {row["direction"] for row in rows} == {"up", "down", "through"} and len(rows) == 2 * (5 + 5 + 6)
    assert all(row["seconds"] > 0 for row in rows)


def test_host_calls_are_printed_beside_cupys():
    title, head, *rows = on_gpu.run(
        "-m", "benchmarks.host_calls", "--backend", "cupy", "--rounds", "2", "--calls", "3"
    ).splitlines()
    assert "medians of 2 rounds of 3 calls" in title and "nearest of cupy" in head and len(rows) > 10


@pytest.mark.parametrize("only", ["pack f32 8191", "convert_linear rank 3 int32"])
def test_the_benchmarks_run(tmp_path, only):
    file = tmp_path / "figures.json"
    on_gpu.run(
        "-m", "benchmarks", "--backend", "cupy", "--quick", "--rounds", "1", "--no-ttc", "--only", only, "--json", file
    )
    found = json.loads(file.read_text())
    assert found["finished"] and not found["not_run"] and found["cases"]
    assert all(record["runs"] and all(run["rounds"] == 1 for run in record["runs"]) for record in found["cases"])


@pytest.mark.parametrize("only, names", [("u8 HWC to", 6), ("a scale for", 3), ("f16 NHWC to f32", 1)])
def test_the_benchmarks_convert_beside_cupy(tmp_path, only, names):
    file = tmp_path / "figures.json"
    on_gpu.run(
        "-m", "benchmarks", "--backend", "cupy", "--quick", "--rounds", "1", "--no-ttc", "--only", only, "--json", file
    )
    found = json.loads(file.read_text())
    assert found["finished"] and not found["not_run"] and len(found["arithmetic"]) == names
    assert not [refused for refused in found["peers_refused"] if refused["peer"].startswith("cupy")]
    for record in found["arithmetic"]:
        assert {"cupy steps", "cupy.fuse", "gpulayout"} <= {run["contender"] for run in record["runs"]}


PER_THREAD = """
import threading
import cupy, numpy as np
import gpulayout as gl

plan, failed = gl.plan("f32[40,70]", "{0,1:PD(41,70)PV(3)}"), []
assert cupy.cuda.get_current_stream().ptr == cupy.cuda.runtime.streamPerThread

def work(number):
    try:
        for turn in range(10):
            values = np.random.default_rng([number, turn]).random(2800, np.float32)
            buffer = cupy.asarray(values)
            out = cupy.empty(plan.target.buffer_size, np.float32)
            plan(buffer, out=out)
            fresh = plan(buffer)
            del buffer
            places = gl.linearize((cupy.arange(40), 3), plan.target)
            assert places.get().tolist() == [row + 41 * 3 for row in range(40)]
            assert out.get().tobytes() == fresh.get().tobytes() == plan(values).tobytes()
    except BaseException as error:
        failed.append(error)

threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not failed, failed
print("right")
"""


def test_threads_with_default_streams_of_their_own(tmp_path):
    (tmp_path / "threads.py").write_text(PER_THREAD)
    assert on_gpu.run(tmp_path / "threads.py", CUPY_CUDA_PER_THREAD_DEFAULT_STREAM="1") == "right\n"
