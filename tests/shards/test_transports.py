"""The functions of docs/transports.md move bytes as runs say: on stand-ins of engines, and on those that are here."""

import importlib
import importlib.util
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tests.support import transports

SIZE = 4096


def with_stand_in(*modules):
    """The stand-in of an engine, and its packages as far as they are installed."""
    return ["stand-in", *[name for name in modules if importlib.util.find_spec(name)]]


def lists_of_runs():
    """Runs in the order of their target bytes, of many sizes; gaps on both sides."""
    rng = np.random.default_rng(1)
    for count in (1, 2, 7, 100):
        sizes = rng.integers(1, SIZE // count // 2 + 1, count)
        target = np.sort(rng.choice(SIZE // count, count)) // 2 + np.arange(count) * (SIZE // count)
        target = np.arange(count) * (SIZE // count) + (target % (SIZE // count - sizes + 1))
        source = np.array([rng.integers(0, SIZE - size + 1) for size in sizes])
        yield np.stack([source, target, sizes], axis=1)


LISTS = [*lists_of_runs()]


def buffers():
    """A buffer of random bytes and an empty one, and their addresses."""
    source, target = np.random.default_rng(2).integers(0, 256, SIZE, np.uint8), np.zeros(SIZE, np.uint8)
    return source, target, source.ctypes.data, target.ctypes.data


def moved(runs, source):
    """What the target holds afterwards."""
    target = np.zeros(SIZE, np.uint8)
    for here, there, size in runs:
        target[there : there + size] = source[here : here + size]
    return target


def nixl_agents(kind):
    if kind == "stand-in":
        return transports.NixlAgent("here"), transports.NixlAgent("there")
    nixl = importlib.import_module(kind)
    settings = nixl.nixl_agent_config(backends=["UCX"])
    return nixl.nixl_agent("here", settings), nixl.nixl_agent("there", settings)


@pytest.mark.parametrize("kind", with_stand_in("nixl_cu12", "nixl_cu13"))
def test_nixl(kind):
    here, there = nixl_agents(kind)
    source, target, base, peer_base = buffers()
    for agent, address in ((here, base), (there, peer_base)):
        agent.register_memory(np.array([[address, SIZE, 0]], np.uint64), mem_type="DRAM")
    here.add_remote_agent(there.get_agent_metadata())
    for runs in LISTS:
        target[:] = 0
        transports.section("NIXL", {}).nixl_write(here, "there", runs, base, peer_base)
        np.testing.assert_array_equal(target, moved(runs, source))


def test_an_error_of_nixl_is_an_error():
    here, there = nixl_agents("stand-in")
    source, target, base, peer_base = buffers()
    here.memory.pieces, there.memory.pieces = [(base, SIZE)], [(peer_base, SIZE)]
    here.add_remote_agent(there)
    here.check_xfer_state = lambda handle: "ERR"
    with pytest.raises(RuntimeError, match="NIXL says ERR of 7 runs to there: the peer's buffer is incomplete"):
        transports.section("NIXL", {}).nixl_write(here, "there", LISTS[2], base, peer_base)


def mooncake_engines(kind):
    """Two engines, and the name of the second."""
    if kind == "stand-in":
        peers = {}
        here, there = transports.MooncakeEngine(peers), transports.MooncakeEngine(peers)
        peers["there:1"] = there
        return here, there, "there:1"
    mooncake = pytest.importorskip("mooncake.engine", exc_type=ImportError)
    here, there = mooncake.TransferEngine(), mooncake.TransferEngine()
    for engine, port in ((here, 12345), (there, 12346)):
        assert engine.initialize(f"127.0.0.1:{port}", "P2PHANDSHAKE", "tcp", "") == 0
    return here, there, f"127.0.0.1:{there.get_rpc_port()}"


@pytest.mark.parametrize("kind", with_stand_in("mooncake"))
def test_mooncake(kind):
    here, there, name = mooncake_engines(kind)
    source, target, base, peer_base = buffers()
    here.register_memory(base, SIZE)
    there.register_memory(peer_base, SIZE)
    write = transports.section("Mooncake", {}).mooncake_write
    for runs in LISTS:
        target[:] = 0
        write(here, name, runs, base, peer_base)
        np.testing.assert_array_equal(target, moved(runs, source))
    if kind == "stand-in":
        with pytest.raises(RuntimeError, match="Mooncake says -1 of 100 runs to nobody:1"):
            write(here, "nobody:1", runs, base, peer_base)


@pytest.mark.parametrize("version", [12, 13])
def test_cuda(version):
    runtime = transports.cuda_runtime(version)
    names = transports.section("Copies of one GPU, or between its GPUs", {"cuda.bindings": runtime})
    source, target, base, peer_base = buffers()
    for runs in LISTS:
        target[:] = 0
        names.cuda_copy(runs, base, peer_base, stream=7)
        np.testing.assert_array_equal(target, moved(runs, source))
    runtime.cudaMemcpyBatchAsync = lambda *_: (35, None)[: 1 + (version < 13)]
    with pytest.raises(RuntimeError, match="CUDA says 35 of 100 runs"):
        names.cuda_copy(runs, base, peer_base, stream=7)


def test_files(tmp_path, monkeypatch):
    source, target, *_ = buffers()
    path = tmp_path / "array"
    path.write_bytes(b"header" + source.tobytes())
    read_runs = transports.section("Files", {}).read_runs
    whole = os.preadv

    def short(file, views, offset):
        """What a signal or a full pipe does: fewer bytes than asked for."""
        return whole(file, [views[0][: -(-len(views[0]) // 2)]], offset)

    with open(path, "rb", buffering=0) as file:
        for preadv, runs in itertools.product((whole, short), LISTS):
            monkeypatch.setattr(os, "preadv", preadv)
            target[:] = 0
            read_runs(file.fileno(), runs, target, first=6)
            np.testing.assert_array_equal(target, moved(runs, source))
        with pytest.raises(EOFError, match="the file ends before byte 4112"):
            read_runs(file.fileno(), np.array([[SIZE - 10, 0, 20]]), target, first=6)


def mpiexec():
    """MPI's launcher: that of this environment, or else of the machine."""
    return shutil.which("mpiexec", path=pathlib.Path(sys.executable).parent) or shutil.which("mpiexec")


@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None or mpiexec() is None, reason="no MPI")
def test_mpi():
    command = [mpiexec(), "-n", "4", sys.executable, "-m", "mpi4py", "-m", "tests.support.mpi_ranks"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    said = re.findall(r"rank (\d) of 4: 11 exchanges", done.stdout)
    assert sorted(said) == ["0", "1", "2", "3"], done.stdout
