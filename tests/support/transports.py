"""The functions of docs/transports.md, and stand-ins for the engines that they call.

A stand-in takes what the engine takes, and refuses what the engine refuses: other types, lists of different lengths,
addresses outside of registered memory.  Then it copies.
"""

import ctypes
import pathlib
import re
import types

import numpy as np

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "transports.md"


def section(heading, modules):
    """The names that the Python text below a heading defines; `modules` are stand-ins for what it imports."""
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    [text] = re.findall(r"^```python\n(.*?)^```", found[1], flags=re.MULTILINE | re.DOTALL)
    for name, module in modules.items():
        text = text.replace(f"from {name} import {module.__name__}\n", "")
    names = {"np": np, **{module.__name__: module for module in modules.values()}}
    exec(compile(text, f"{PAGE.name}, {heading}", "exec"), names)
    return types.SimpleNamespace(**names)


class Memory:
    """Registered memory: (address, bytes) of each piece."""

    def __init__(self):
        self.pieces = []

    def check(self, addresses, sizes):
        for address, size in zip(addresses, sizes, strict=True):
            assert size > 0 and any(first <= address and address + size <= first + n for first, n in self.pieces)


def move(targets, sources, sizes):
    """Copies in an order of its own: engines promise none."""
    for target, source, size in reversed([*zip(targets, sources, sizes, strict=True)]):
        ctypes.memmove(int(target), int(source), int(size))


class NixlAgent:
    """nixl_agent of nixl 1.5, as far as the page calls it; `peers` are the agents whose metadata it has."""

    def __init__(self, name):
        self.name, self.memory, self.peers, self.running = name, Memory(), {}, {}

    def register_memory(self, pieces, mem_type):
        assert pieces.dtype == np.uint64 and pieces.shape[1:] == (3,) and mem_type == "DRAM"
        self.memory.pieces += [(int(first), int(size)) for first, size, _ in pieces]

    def get_agent_metadata(self):
        return self

    def add_remote_agent(self, metadata):
        self.peers[metadata.name] = metadata

    def get_xfer_descs(self, descs, mem_type):
        assert descs.dtype in (np.uint64, np.int64) and descs.ndim == 2 and descs.shape[1] == 3
        assert mem_type == "DRAM" and not descs[:, 2].any()
        return descs[:, :2].tolist()

    def initialize_xfer(self, operation, local_descs, remote_descs, remote_agent, notif_msg=b""):
        assert operation == "WRITE" and [size for _, size in local_descs] == [size for _, size in remote_descs]
        self.memory.check(*zip(*local_descs))
        self.peers[remote_agent].memory.check(*zip(*remote_descs))
        handle = object()
        self.running[handle] = local_descs, remote_descs
        return handle

    def transfer(self, handle):
        return "PROC"

    def check_xfer_state(self, handle):
        local, remote = self.running[handle]
        move([address for address, _ in remote], *zip(*local))
        return "DONE"

    def release_xfer_handle(self, handle):
        del self.running[handle]


class MooncakeEngine:
    """TransferEngine of Mooncake 0.3.13; every engine of `peers` has a name."""

    def __init__(self, peers):
        self.memory, self.peers = Memory(), peers

    def register_memory(self, address, size):
        self.memory.pieces.append((address, size))
        return 0

    def batch_transfer_sync_write(self, target_hostname, buffers, peer_buffer_addresses, lengths):
        assert all(type(value) is int for values in (buffers, peer_buffer_addresses, lengths) for value in values)
        if target_hostname not in self.peers:
            return -1
        self.memory.check(buffers, lengths)
        self.peers[target_hostname].memory.check(peer_buffer_addresses, lengths)
        move(peer_buffer_addresses, buffers, lengths)
        return 0


def cuda_runtime(version):
    """cuda.bindings.runtime of cuda-python 12 or 13, whose devices are this machine's memory."""
    module = types.ModuleType("runtime")
    module.cudaError_t = types.SimpleNamespace(cudaSuccess=0)
    module.cudaMemcpySrcAccessOrder = types.SimpleNamespace(cudaMemcpySrcAccessOrderStream=1)
    module.cudaMemcpyAttributes = lambda: types.SimpleNamespace(srcAccessOrder=0)

    def batch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, stream):
        assert all(type(values) is list for values in (dsts, srcs, sizes, attrs, attrsIdxs))
        assert len(dsts) == len(srcs) == len(sizes) == count and len(attrs) == len(attrsIdxs) == numAttrs <= count
        assert attrsIdxs[0] == 0 and all(one.srcAccessOrder for one in attrs) and stream
        move(dsts, srcs, sizes)
        return (0,) if version >= 13 else (0, None)

    module.cudaMemcpyBatchAsync = batch
    return module
