"""`gpulayout benchmark linearize`: what it times, what it compares first, and its table.  No time is asserted."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.cli import benchmark as command
from gpulayout.cli.backends import medians_in_turns, on_host
from gpulayout.cli.benchmark import SHAPES, Row, index_arrays, jobs, table_lines
from gpulayout.cpu import native
from gpulayout.cpu.run import NumpyBackend
from tests.support import executors, fake_gpu
from tests.support.command_line import HOSTILE, PADDED, failure, refusal, run

pytestmark = pytest.mark.machine  # the command times calls

SHORT = ("--count", "100")
ENGINES = ["native", "numpy"]  # rows of the CPU


@pytest.fixture(autouse=True)
def _with_the_engine():
    with native.chosen(True):
        if native.missing():
            pytest.skip(native.missing())
        yield


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch):
    monkeypatch.setenv("GPULAYOUT_BACKEND", "numpy")


@pytest.fixture
def gpu(request, monkeypatch):
    """The imitation of CuPy as the GPU."""
    if problem := executors.simt_missing():
        pytest.skip(problem)
    fake = request.getfixturevalue("cupy")
    fake_gpu.extend(fake, monkeypatch)
    monkeypatch.setenv("GPULAYOUT_BACKEND", "auto")
    return fake


# ---- the work ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [*SHAPES, PADDED, "s4[3,5]{0,1:E(4)}", "f32[7]", "f32[2,1,3]{1,2,0:PD(4,5,6)}"])
def test_every_call_gives_the_expected_indices_which_numpy_made(text):
    shape = gl.parse_shape(text)
    logical, linear = index_arrays(shape, 200)
    places = np.arange(200, dtype=np.int64) % shape.element_count * 1_000_003 % shape.element_count
    assert np.array_equal(logical, np.unravel_index(places, shape.dimensions))
    assert linear.tolist() == [gl.linearize(tuple(map(int, index)), shape) for index in logical.T]
    there, back = jobs(NumpyBackend(), shape, logical, linear)
    assert (there.expected is linear) and (back.expected is logical) and there.is_equal() and back.is_equal()
    for job in (there, back):
        assert set(job.calls) == {"warm", "fresh"} | (set() if shape.is_tiled else {"plain"})
        for call in job.calls.values():
            np.testing.assert_array_equal(on_host(call()), job.expected, strict=True)


def with_call(job, name, call):
    return dataclasses.replace(job, calls=job.calls | {name: call})


def test_warm_calls_write_into_one_array_and_fresh_ones_make_new_ones():
    shape = gl.parse_shape(PADDED)
    for job in jobs(NumpyBackend(), shape, *index_arrays(shape, 10)):
        warm, fresh = job.calls["warm"], job.calls["fresh"]
        assert warm() is warm() and fresh() is not fresh()


@pytest.mark.parametrize("name", ["warm", "fresh", "plain", "kernel", "from_gpu"])
def test_a_wrong_call_is_noticed(name):
    shape = gl.parse_shape(PADDED)
    job, _ = jobs(NumpyBackend(), shape, *index_arrays(shape, 10))
    assert job.is_equal()
    assert not with_call(job, name, lambda: job.expected + 1).is_equal()


def test_a_call_that_writes_nothing_is_noticed():
    shape = gl.parse_shape(PADDED)
    job, _ = jobs(NumpyBackend(), shape, *index_arrays(shape, 10))
    assert not with_call(job, "kernel", lambda: job.out).is_equal()


def test_calls_take_turns():
    seen = []
    medians = medians_in_turns([lambda: seen.append("a"), lambda: seen.append("b")], np, repeats=3)
    assert "".join(seen) == "ab" * 4 and len(medians) == 2 and min(medians) > 0


# ---- the command ---------------------------------------------------------------------------------------------------


def test_without_a_gpu_there_are_rows_for_the_cpu_and_one_line_that_says_so():
    lines = run("benchmark", "linearize", *SHORT).stdout.splitlines()
    assert lines[0] == "100 indices (int64) in each array.  Milliseconds, medians of 7 calls."
    assert lines[-1] == "No GPU rows: GPULAYOUT_BACKEND is numpy" and "No GPU" not in "".join(lines[:-1])
    assert [line for line in lines if line in SHAPES] == list(SHAPES)
    rows = [line.split()[:2] for line in lines if line.startswith(("  linear", "  delinear"))]
    pairs = [[name, engine] for name in ("linearize", "delinearize") for engine in ("native", "NumPy")]
    assert rows == pairs * len(SHAPES)
    assert max(map(len, lines)) <= 100


def test_the_page_of_the_command_line_shows_such_a_table():
    page = (Path(__file__).resolve().parents[2] / "docs" / "command-line.md").read_text()
    shown = page[page.index("    2097152 indices") : page.index("\n    Every result equals")]
    table = run("benchmark", "linearize", "--count", "100").stdout

    def form(text):
        """The words of the lines, with one word for every time and ratio; the rule is as wide as the figures."""
        lines = [line.split() for line in text.splitlines()[2:] if {*line} != {"-"}]
        return [["N" if re.fullmatch(r"[0-9.e+]+|-", word) else word for word in line] for line in lines]

    shown = "\n".join(line[4:] for line in shown.splitlines())
    assert form(shown) == form(table.partition("\nEvery result equals")[0]) and len(form(shown)) == 22


def test_without_the_engine_a_line_says_so():
    with native.chosen(False):
        found = json.loads(run("benchmark", "linearize", PADDED, *SHORT, "--json").stdout)
        lines = run("benchmark", "linearize", PADDED, *SHORT).stdout.splitlines()
    assert found["native_missing"] == "native.chosen(False) turned the native engine off"
    assert [row["backend"] for row in found["rows"]] == ["numpy"] * 2
    assert f"No native rows: {found['native_missing']}" in lines and not any("  native" in line for line in lines)


def test_json_has_a_row_for_each_engine_and_direction_of_each_shape():
    found = json.loads(run("benchmark", "linearize", PADDED, "f32[16,200]{1,0:T(8,128)}", *SHORT, "--json").stdout)
    assert (found["ok"], found["count"], found["gpu_missing"]) == (True, 100, "GPULAYOUT_BACKEND is numpy")
    assert found["native_missing"] is None
    assert [(row["shape"], row["name"], row["backend"]) for row in found["rows"]] == [
        (shape, name, engine)
        for shape in (PADDED, "f32[16,200]{1,0:T(8,128)}")
        for name in ("linearize", "delinearize")
        for engine in ENGINES
    ]
    for row in found["rows"]:
        assert row["equal"] and row["warm"] > 0 and row["fresh"] > 0
        assert row["kernel"] is row["to_gpu"] is row["from_gpu"] is None
        assert (row["plain"] is None) == ("T(" in row["shape"])


def test_a_shape_given_twice_is_timed_once():
    assert run("benchmark", "linearize", PADDED, PADDED, *SHORT).stdout.count(PADDED) == 1


def test_the_exit_code_is_1_when_a_result_differs(monkeypatch):
    right = command.delinearize

    def wrong(linear, shape, **options):
        return right(linear, shape, **options) * (2 if gl.parse_shape(PADDED) == shape else 1)

    monkeypatch.setattr(command, "delinearize", wrong)
    result = run("benchmark", "linearize", PADDED, *SHORT, code=1)
    assert "DIFFERS" in result.stdout and "results differ from the expected indices." in result.stdout
    assert not json.loads(run("benchmark", "linearize", PADDED, *SHORT, "--json", code=1).stdout)["ok"]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:24]))
def test_hostile_shapes_are_refused(text):
    assert refusal("benchmark", "linearize", text)


def test_shapes_without_indices_are_refused():
    for shape, lacks in (("f32[0,3]{1,0}", "elements"), ("f32[]", "dimensions")):
        message = f"{shape} has no {lacks}, so it has no indices to convert"
        assert failure("benchmark", "linearize", shape) == message
    assert "have no size" in failure("benchmark", "linearize", "f32[2,?]")
    assert "--count" in refusal("benchmark", "linearize", "--count", "0")


def test_the_help_of_linearize_fits_a_screen_and_has_examples():
    lines = run("benchmark", "linearize", "--help").stdout.splitlines()
    assert max(map(len, lines)) <= 100 and len(lines) <= 40
    assert any(line.startswith("    gpulayout benchmark linearize '") for line in lines)


# ---- a GPU ---------------------------------------------------------------------------------------------------------


@pytest.mark.simt
def test_the_gpu_stands_beside_the_cpu_with_its_copies_apart(gpu):
    found = json.loads(run("benchmark", "linearize", PADDED, "f32[16,200]{1,0:T(8,128)}", *SHORT, "--json").stdout)
    assert found["ok"] and found["gpu_missing"] is None and found["machine"]["devices"]
    assert [row["backend"] for row in found["rows"]] == [*ENGINES, "cupy"] * 4
    for row in found["rows"]:
        apart = [row[name] for name in ("kernel", "to_gpu", "from_gpu")]
        assert all(time > 0 for time in apart) if row["backend"] == "cupy" else apart == [None] * 3
    lines = run("benchmark", "linearize", *SHORT).stdout.splitlines()
    assert [line.split()[1] for line in lines if line.startswith(("  linear", "  delinear"))] == [
        "native",
        "NumPy",
        "GPU",
    ] * 2 * len(SHAPES)
    assert not any("No GPU" in line for line in lines) and max(map(len, lines)) <= 100


def test_ratios_are_of_the_calls_that_make_new_arrays():
    slow = Row("f32[2]{0}", "linearize", "numpy", True, 19e-3, 18e-3, 12e-3)
    cpu = Row("f32[2]{0}", "linearize", "native", True, 9e-3, 8e-3, 12e-3)
    gpu = Row("f32[2]{0}", "linearize", "cupy", False, 3e-3, 2e-3, 200e-3, 1e-3, 2e-3, 4e-3)
    assert list(table_lines([cpu, slow, gpu], with_gpu=True)) == [
        "                                         plain/           to  from  CPU/    with",
        "                       out=  new  plain     new  kernel  GPU   GPU   GPU  copies",
        "-" * 80,
        "f32[2]{0}",
        "  linearize    native     9    8     12     1.5       -    -     -     -       -",
        "  linearize    NumPy     19   18     12    0.67       -    -     -     -       -",
        "  linearize    GPU        3    2    200     100       1    2     4     4       1  DIFFERS",
    ]
    assert [len(line) for line in table_lines([cpu], with_gpu=False)][0] < 60
