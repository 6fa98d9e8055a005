"""What reloads of a served model cost in memory: no more than was asked for, and nothing that stays."""

import gc
import os
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
