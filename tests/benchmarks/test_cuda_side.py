"""The GPU side of the benchmarks on an imitation of CuPy: every case, every installed peer, and the file of figures.

Kernels run on the host shim; times mean nothing here.
"""

import importlib
import json
import sys
import types

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks.cases import select
from benchmarks.cases.build import transpose
from benchmarks.cases.convert import CONVERT_CASES
from benchmarks.cases.gpu import GPU_CASES, GPU_SMALL_CASES
from benchmarks.cases.select import quick
from benchmarks.cases.ttc import TTC_CASES
from benchmarks.clock import Effort
from benchmarks.peers import stages
from benchmarks.peers.contender import OURS, Contender
from benchmarks.pictures import pictures
from tests.support import executors, fake_gpu
from tests.support.effort import ALL

# Peers and their compilers emit warnings of their own.
pytestmark = [
    pytest.mark.simt,
    pytest.mark.skipif(executors.simt_missing() is not None, reason=str(executors.simt_missing())),
    pytest.mark.filterwarnings("ignore"),
]
# Modules that import CuPy, or read the environment.
OVER_CUPY = ("benchmarks.cuda_side", "benchmarks.peers.geam", "benchmarks.peers.triton_peer")
KINDS = (
    "f32 8192x8192",
    "u8 NCHW to NHWC 64x3x1024x1024",
    "c128 8192x8192",
    "pack f32 8191x8191 in 8191x8192",
    "unpack f32 8191x8191 in 8191x8192",
    "f32 63x70x1001, all backwards",
    "f32 255x10x24x35 out of rows of 40",
    "pack u4 32768x32768",
    "u4 16385x65537, packed, odd",
    "unpack u1 32768x32768",
    "convert_linear rank 3 int32",
)


@pytest.fixture
def installed():
    """{name: module} of the installed peers."""
    return {}


@pytest.fixture
def cuda_side(monkeypatch, installed, cupy):
    """The module `benchmarks.cuda_side` over the imitation, with few and tiny cases."""
    fake_gpu.extend(cupy, monkeypatch)
    before = {name: sys.modules.pop(name, None) for name in OVER_CUPY}

    def optional(name, missing):
        if name not in installed:
            missing[name] = "not in this test"
        return installed.get(name)

    monkeypatch.setattr(stages, "on_gpu", optional)
    monkeypatch.setattr(select, "QUICK_ELEMENTS", 2000)
    module = importlib.import_module("benchmarks.cuda_side")
    monkeypatch.setattr(module, "HOST_SECONDS", 0.0)
    monkeypatch.setattr(module.CudaSide, "effort", Effort(2, 1e-4, (1, 2), lead_bytes=1 << 12))
    monkeypatch.setattr(
        module.CudaSide,
        "cases",
        {
            "small": GPU_SMALL_CASES[:2],
            "cases": [case for case in GPU_CASES if case.name in KINDS],
            "ttc": [TTC_CASES[3], TTC_CASES[57 + 9]],
            "arithmetic": CONVERT_CASES,
        },
    )
    yield module
    for name, found in before.items():
        sys.modules.pop(name, None)
        if found is not None:
            sys.modules[name] = found


def figures(tmp_path, *options):
    """The file that a run on the imitation writes."""
    file = tmp_path / "figures.json"
    assert command.main(["--backend", "cupy", "--quick", "--json", str(file), *options]) == 0
    return json.loads(file.read_text())


def names_of(record):
    return [(run["contender"], run["output"]) for run in record["runs"]]


def test_a_peer_that_fails_costs_no_row_of_the_long_list(cuda_side, tmp_path, monkeypatch):
    def geam(case, pairs):
        return [Contender("cupy.cublas.geam", "warm", lambda number: 1 / 0)]

    monkeypatch.setattr(importlib.import_module("benchmarks.peers.geam"), "geam", geam)
    found = figures(tmp_path, "--ttc", "--only", " order ")
    assert not found["not_run"] and len(found["ttc"]) == 2
    assert {refused["peer"] for refused in found["peers_refused"]} == {"cupy.cublas.geam"}
    assert [names_of(record)[-1] for record in found["ttc"]] == [("cupy.copyto", "warm")] * 2


@pytest.mark.skipif(not ALL, reason="12 s, and the rehearsal of ci/gpu runs them too; GPULAYOUT_TEST_ALL=1 runs it")
def test_every_kind_of_case_runs_beside_cupy(cuda_side, tmp_path, capsys):
    found = figures(tmp_path)
    assert found["finished"] and not found["not_run"] and not found["peers_refused"]
    assert [record["case"] for record in found["cases"]] == [case.name for case in GPU_CASES if case.name in KINDS]
    assert names_of(found["cases"][0]) == [
        ("cudaMemcpyAsync", "copy"),
        ("gpulayout copy kernel", "copy"),
        (OURS, "warm"),
        (OURS, "fresh"),
        ("cupy.copyto", "warm"),
        ("cupy.ascontiguousarray", "fresh"),
        ("cupy.cublas.geam", "warm"),
        ("cupy.asfortranarray", "fresh"),
    ]
    for record in found["cases"] + found["ttc"]:
        ours = [run for run in record["runs"] if run["contender"] == OURS]
        assert all(run["rounds"] == 2 and run["fraction_of_copy"] > 0 for run in ours) and ours[0]["output"] == "warm"
        assert all(run["against"] > 0 for run in record["runs"] if run["output"] != "copy" and run["contender"] != OURS)
    assert [len(record["runs"]) for record in found["ttc"]] == [4, 4] and len(found["small"]) == 2
    assert {run["output"] for record in found["small"] for run in record["runs"]} == {"call"}
    assert found["machine"]["gpu"] == "host memory" and found["machine"]["commit"] and "cuda_driver" in found["machine"]
    assert found["peers_missing"]["torch"] == "not in this test" and "not installed" in found["peers_missing"]["nvmath"]
    printed = capsys.readouterr().out
    assert "\nTTC f32, 1 transpositions|" in printed and "- left out: " in printed and "no measure of speed" in printed


def test_a_peer_that_cannot_be_loaded_is_named_and_one_that_fails_is_refused(cuda_side, tmp_path, monkeypatch):
    def broken_peer(case, pairs):
        raise OSError("no such library")

    monkeypatch.setitem(sys.modules, "cupy.cublas", None)
    load = stages.load
    monkeypatch.setattr(
        stages, "load", lambda *args: [stages.Stage(stage.name, (*stage.peers, broken_peer)) for stage in load(*args)]
    )
    found = figures(tmp_path, "--only", "f32 8192")
    assert found["peers_missing"]["cupy.cublas"].startswith("ModuleNotFoundError: ")
    assert found["peers_refused"] == [
        {"case": "f32 8192x8192", "peer": "broken_peer", "reason": "OSError: no such library"}
    ]
    assert len(names_of(found["cases"][0])) == 6


def test_a_full_run_takes_more_samples(cuda_side, tmp_path, monkeypatch):
    monkeypatch.setattr(cuda_side.CudaSide, "full_effort", Effort(3, 1e-4, (1, 2)))
    monkeypatch.setitem(cuda_side.CudaSide.cases, "cases", [])
    found = figures(tmp_path, "--full")
    assert found["full"] and {run["rounds"] for record in found["ttc"] for run in record["runs"]} == {3}


def test_without_the_long_list(cuda_side, tmp_path):
    assert not figures(tmp_path, "--no-ttc", "--only", "f32 8192")["ttc"]


def test_memory_decides_what_can_run(cuda_side, monkeypatch):
    side = cuda_side.CudaSide()
    by_name = {case.name: case for case in GPU_CASES}
    monkeypatch.setattr(cuda_side.cupy.cuda.runtime, "memGetInfo", lambda: (24 << 30, 24 << 30))
    assert side.why_not(by_name["f32 8192x8192"]) is None
    assert side.why_not(by_name["f64 32768x16384"]) == "needs 32768 MiB of device memory, 24576 are free"
    monkeypatch.setattr(cuda_side.cupy.cuda.runtime, "memGetInfo", lambda: (139 << 30, 139 << 30))
    assert [case.name for case in GPU_CASES if side.why_not(case)] == []


def test_buffers_take_turns_until_the_cache_has_forgotten_them(cuda_side):
    side = cuda_side.CudaSide()
    side.l2_bytes = 60 << 20
    by_name = {case.name: case for case in GPU_CASES}
    assert [
        side._pairs(by_name[name])
        for name in ("f32 8192x8192", "f16 NCHW to NHWC 256x2048x7x7", "s8 4096x4096 to columns of 32", "f32 32x32")
    ] == [1, 3, 8, 1]


def test_the_ceiling_copies_as_many_bytes_between_aligned_random_buffers(cuda_side):
    side, copied = cuda_side.CudaSide(), []
    side._copy = lambda source, target: copied.append((source, target))
    side.copies(transpose("odd", "u8", 31, 33))[0].call(0)
    ((source, target),) = copied
    assert source.nbytes == target.nbytes == 31 * 33 and source.data.ptr % 16 == target.data.ptr % 16 == 0
    assert len(np.unique(source)) > 200


def test_the_lead_outlasts_the_launches_of_a_sample(cuda_side, monkeypatch):
    monkeypatch.setattr(cuda_side, "HOST_SECONDS", 40e-6)
    copies = []
    side = cuda_side.CudaSide()
    side._copy = lambda source, target: copies.append((source.nbytes, target.nbytes))
    side._lead(50)
    size = side.effort.lead_bytes
    assert len(copies) * 2 * size / 4e12 >= 50 * 40e-6 and set(copies) == {(size, size)}
    copies.clear()
    quick = side.effort.quick()._replace(lead_bytes=64)  # shorter ones precede the samples of a quick run
    side.take([Contender("nothing", "warm", lambda i: None)], quick)
    assert set(copies) == {(64, 64)}


def test_the_device_is_timed_by_events_what_waits_for_itself_by_the_wall_clock_and_small_calls_on_the_host(cuda_side):
    side, asked = cuda_side.CudaSide(), []
    for name in ("events", "wall", "host"):
        setattr(
            side,
            name,
            types.SimpleNamespace(
                sample=lambda contender, calls, name=name: asked.append((name, contender.name)) or 1.0
            ),
        )
    side.take([Contender("own", "warm", None), Contender("jax.jit", "fresh", None, wait=print)], side.effort)
    side.take([Contender("plan", "call", None)], side.effort)
    assert set(asked) == {("events", "own"), ("wall", "jax.jit"), ("host", "plan")}


# ---- the peers that are installed --------------------------------------------------------------------------


@pytest.fixture
def torch(installed, monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.setattr(torch.cuda, "set_stream", lambda stream: None)
    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda pointer: None, raising=False)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    installed["torch"] = torch
    return torch


@pytest.fixture
def jax(installed):
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    jax.config.update("jax_enable_x64", True)
    installed["jax"] = jax
    return jax


def test_torch_agrees_on_every_kind(torch, cuda_side):
    side = cuda_side.CudaSide()
    found = {
        case.name: side.prepare("cases", small) for case, small in zip(side.cases["cases"], quick(side.cases["cases"]))
    }
    assert not [one for prepared in found.values() for one in prepared.refused]
    torchs = {
        name: [c.name for c in prepared.contenders if c.name.startswith("torch")] for name, prepared in found.items()
    }
    assert [torchs.pop(name) for name in KINDS[-4:]] == [[]] * 4  # packed elements and indices
    assert torchs.pop("f32 63x70x1001, all backwards") == ["torch flip"]
    assert torchs.pop("pack f32 8191x8191 in 8191x8192") == ["torch fill_ and copy_", "torch pad"]
    assert set(map(tuple, torchs.values())) == {("torch copy_", "torch contiguous")}
    assert [c.name for c in side.prepare("ttc", quick(side.cases["ttc"])[0]).contenders[2:]] == [OURS, "torch copy_"]


def test_torch_compile_agrees(torch, cuda_side):
    assert of_stage(cuda_side, "torch.compile", "pack f32 8191x8191 in 8191x8192") == [
        ["torch.compile fill_ and copy_", "torch.compile pad"]
    ]


def test_triton_agrees_wherever_matrices_are_transposed(torch, cuda_side):
    """Both 2-D cases have four kernels; 16-byte elements and the other kinds have none."""
    pytest.importorskip("triton", reason="Triton is not installed")
    assert [len(names) for names in of_stage(cuda_side, "triton")] == [4, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0]


def test_jax_agrees_on_every_dense_kind(jax, cuda_side):
    assert [names.count("jax.jit") for names in of_stage(cuda_side, "jax")] == [1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0]


def of_stage(cuda_side, stage, only=""):
    """The peers of a stage that agree on each case; none is refused."""
    side = cuda_side.CudaSide()
    number = [one.name for one in side.stages].index(stage)
    found = [side.prepare("cases", case, number) for case in quick(side.cases["cases"]) if case.name.startswith(only)]
    assert not [one for prepared in found for one in prepared.refused]
    return [[contender.name for contender in prepared.contenders if not contender.is_ours] for prepared in found]


# ---- conversions -------------------------------------------------------------------------------------------


def test_every_conversion_runs_beside_cupy_and_is_in_the_table(cuda_side, tmp_path, capsys):
    found = figures(tmp_path, "--only", " to f")
    records = {record["case"]: record for record in found["arithmetic"]}
    assert list(records) == [case.name for case in CONVERT_CASES if " to f" in case.name]
    assert not found["not_run"] and not found["peers_refused"] and len(records) > 10
    first = records["u8 HWC to f32 CHW scaled, 1080p"]
    copies = [("cudaMemcpyAsync", "copy"), ("gpulayout copy kernel", "copy")]
    ours, cupys = [(OURS, "warm"), (OURS, "fresh")], [("cupy steps", "warm"), ("cupy.fuse", "warm")]
    assert names_of(first) == [*copies, *ours, *cupys]
    assert [run.get("rounding") for run in first["runs"]] == 5 * [None] + ["may fuse a multiplication and an addition"]
    assert first["work"] == "convert u8[1,17,30,3]{3,2,1,0} -> f32[1,17,30,3]{2,1,3,0}"
    assert names_of(records["bf16 to f32, 8192x8192"]) == [*copies, *ours]
    assert all(record["kernel"] and not record["model"]["measured"] for record in records.values())
    printed = capsys.readouterr().out
    assert "\narithmetic on the way" in printed and printed.count("u8 HWC to f32 CHW normalised, 1080p, quick") == 1


def test_torch_agrees_on_every_conversion(torch, cuda_side):
    side = cuda_side.CudaSide()
    found = {case.name: side.prepare("arithmetic", small) for case, small in zip(CONVERT_CASES, quick(CONVERT_CASES))}
    assert not [one for prepared in found.values() for one in prepared.refused]
    torchs = {
        name: [(c.name, c.output) for c in prepared.contenders if c.name.startswith("torch")]
        for name, prepared in found.items()
    }
    assert set(map(len, torchs.values())) == {2}
    called = {case.form: torchs[case.name][0] for case in CONVERT_CASES}
    assert called == {
        "scale and shift": ("torch copy_, mul_, add_", "warm"),
        "normalise": ("torch copy_, div_, sub_, div_", "warm"),
        "cast": ("torch copy_", "warm"),
        "dequantise": ("torch chain and copy_", "warm"),
        "quantise": ("torch chain and copy_", "warm"),
    }


def test_torch_compile_converts_images(torch, cuda_side):
    side = cuda_side.CudaSide()
    number = [one.name for one in side.stages].index("torch.compile")
    prepared = side.prepare("arithmetic", quick(CONVERT_CASES)[1], number)
    assert not prepared.refused
    assert [(c.name, c.output) for c in prepared.contenders if not c.is_ours] == [
        ("torch.compile", "warm"),
        ("torch.compile", "fresh"),
    ]


def test_a_conversion_that_gives_other_bytes_is_left_out_and_named(cuda_side, monkeypatch):
    side, case = cuda_side.CudaSide(), quick(CONVERT_CASES)[0]
    right = side.prepare("arithmetic", case).contenders[2].call(0).copy()
    near, far = right + np.float32(2e-7), right + np.float32(1e-3)
    peers = [
        Contender("near", "warm", lambda i: near),
        Contender("near, and says so", "warm", lambda i: near, rounding="up"),
        Contender("far, and says so", "warm", lambda i: far, rounding="up"),
    ]
    monkeypatch.setattr(side, "_peers", lambda section, stage: [lambda case, pairs: peers])
    prepared = side.prepare("arithmetic", case)
    assert prepared.contenders[-1] == peers[1]
    reason = "gives a different result from the result on the CPU"
    assert prepared.refused == [("near", reason), ("far, and says so", reason)]


def test_this_library_must_give_what_the_cpu_gives(cuda_side, monkeypatch):
    result = cuda_side.result_on_host
    monkeypatch.setattr(cuda_side, "result_on_host", lambda case, given: result(case, given) + np.float32(1e-6))
    with pytest.raises(AssertionError, match="gpulayout .* a different result from the result on the CPU"):
        cuda_side.CudaSide().prepare("arithmetic", quick(CONVERT_CASES)[0])


def test_the_curves_run_beside_cupy_and_a_copy(cuda_side, tmp_path, monkeypatch):
    monkeypatch.setattr(
        cuda_side.CudaCurves, "cases", {section: cases[:2] for section, cases in cuda_side.CudaCurves.cases.items()}
    )
    found = figures(tmp_path, "--curves")
    assert found["finished"] and not found["not_run"] and not found["peers_refused"]
    assert [len(found[section]) for section in ("bytes", "linearize")] == [2, 2]
    assert {("cudaMemcpyAsync", "copy"), (OURS, "warm"), ("cupy.copyto", "warm")} <= set(names_of(found["bytes"][0]))
    assert {picture.file for picture in pictures([found])} == {"bytes.svg", "linearize.svg"}
