"""What reloads of a served model cost in memory: no more than was asked for, and nothing that stays."""

import gc
import json
import os
import subprocess
import sys
import tracemalloc
from collections import Counter

import numpy as np
import pytest

import gpulayout as gl

torch = pytest.importorskip("torch")

from tests.support import reloads  # noqa: E402  # they need torch
from tests.support.served_logits import logits  # noqa: E402
from tests.support.served_models import addresses, checkpoint, in_checkpoint, in_memory, served  # noqa: E402

STATUS = "/proc/self/status"


def resident():
    """Bytes of this process in memory; 0 where the system does not say."""
    if not os.path.exists(STATUS):
        return 0
    with open(STATUS) as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) << 10


def objects():
    """How many objects there are that hold others, such as tensors and notes."""
    gc.collect()
    return Counter(type(each).__name__ for each in gc.get_objects())


def traced():
    """What the package's lines have allocated."""
    gc.collect()
    of_package = tracemalloc.Filter(True, os.path.join(os.path.dirname(gl.__file__), "*"))
    return tracemalloc.take_snapshot().filter_traces([of_package])


@pytest.mark.usefixtures("quick_collections")
def test_fifty_reloads_leave_nothing_behind():
    """A trainer sends weights again and again, in several ways: no tensor, no memory and no note stays."""
    model, given = served(0), [checkpoint(seed) for seed in (1, 2)]
    ways = [getattr(reloads, name) for name in ("whole", "boxes", "state_dict", "loader")]
    before = addresses(model)

    def rounds(count):
        for number in range(count):
            ways[number % len(ways)](model, given[number % 2])

    rounds(12)
    memory = resident()
    for _ in range(2):  # Python itself keeps some objects of a first time
        kept = objects()
        rounds(12)
        more = objects() - kept
    more.subtract(["Counter"])  # the one of before
    assert not +more, more
    assert resident() - memory < 16 << 20  # a reload that stays is 2 MB
    tracemalloc.start()
    try:
        rounds(4)
        first = traced()
        rounds(8)
        last = traced()
    finally:
        tracemalloc.stop()
    grown = last.compare_to(first, "lineno")
    assert sum(line.size_diff for line in grown) < 64 << 10, "\n".join(map(str, grown[:10]))
    assert addresses(model) == before
    assert np.array_equal(logits(in_memory(model)), logits(in_checkpoint(given[1])))


MEASURED = """
import json, sys, tracemalloc
import torch, gpulayout as gl

layout, dtype, rows, columns, max_bytes = *sys.argv[1:3], *map(int, sys.argv[3:])
dtype, found = getattr(torch, dtype), {}

def status(name):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) << 10

def measure(name, run):
    with open("/proc/self/clear_refs", "w") as marks:
        marks.write("5")  # the most that there was is what there is now
    before = status("VmRSS")
    tracemalloc.start()
    run()
    found[name] = status("VmHWM") - before, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

def measure_all(weight, value):
    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(weight, requires_grad=False)
    half = value[: len(value) // 2]
    measure("pack_", lambda: gl.torch.pack_(model.weight, layout, max_bytes=max_bytes))
    measure("copy_", lambda: gl.torch.copy_(model.weight, value))
    measure("copy_ of a box", lambda: gl.torch.copy_(model.weight, half, at=slice(0, len(half))))
    odd = value[: len(half), 1:]  # a part of a larger tensor, where no tile begins
    box = slice(3, 3 + len(half)), slice(1, None)
    measure("copy_ of an odd box", lambda: gl.torch.copy_(model.weight, odd, at=box))
    measure("load_state_dict", lambda: gl.torch.load_state_dict(model, {"weight": value}))
    with torch.no_grad():
        measure("unpacked", lambda: load_plain(model, value))
    measure("unpack_", lambda: gl.torch.unpack_(model.weight, max_bytes=max_bytes))
    assert torch.equal(model.weight.data, value)

def load_plain(model, value):
    with gl.torch.unpacked(model, max_bytes=max_bytes):
        model.weight.copy_(value)

def numbers(rows):
    first, last = (torch.arange(size).to(torch.uint8) for size in (rows, columns))
    return (first[:, None] * 7 + last).bitwise_and_(15).to(dtype)

measure_all(numbers(128), numbers(128))  # what is made once
measure_all(numbers(rows), numbers(rows))
print(json.dumps(found))
"""


@pytest.mark.one_in(2)
@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="Linux forgets how much memory a process had")
@pytest.mark.parametrize(
    "layout, dtype, sizes", [("marlin:weights(dtype=u4)", "uint8", (8192, 8192)), ("{0,1}", "float32", (4096, 4096))]
)
def test_a_large_parameter_needs_no_second_one(layout, dtype, sizes):
    """64 MB are packed, written, and unpacked with the 2 MB that were asked for, and what the engine needs.

    What Python and NumPy allocate is counted to the byte. The memory of the process is not: the system hands it out
    in pages of up to 2 MB, and the allocator keeps some. There a second parameter or box must not fit.
    """
    workspace, engine, pages = 2 << 20, 6 << 20, 16 << 20  # the engine's own scratch does not grow with arrays
    words = [layout, dtype, *map(str, sizes), str(workspace)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", MEASURED, *words], capture_output=True, env=environment)
    assert not done.returncode, done.stderr.decode()
    for name, (resident_bytes, traced_bytes) in json.loads(done.stdout).items():
        asked = workspace * (name in ("pack_", "unpack_", "unpacked"))
        assert traced_bytes <= engine + asked and resident_bytes <= pages + asked, (name, resident_bytes, traced_bytes)
