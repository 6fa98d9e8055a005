"""`plan.stream`: host to device, device to host, and host to host through a device, against the definition of layouts.

On NumPy and on the host-compiled kernels the same code runs, with host memory for the device's.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

import gpulayout as gl
from gpulayout.cpu.run import NumpyBackend
from gpulayout.plans import stream
from tests.moves.test_blocks import TILES, cases, limit_of
from tests.support.effort import examples
from tests.support.executors import HostExecutor
from tests.support.stream_cases import check, distinct_limits, limits_of

NUMPY = HostExecutor("numpy", NumpyBackend())

# ---- every byte is right -------------------------------------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize("padding", [(0, 0), (1, 2)])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_every_small_shape_in_every_limit(rank, padding):
    """On NumPy."""
    for sizes in itertools.product({1: range(5), 2: (0, 1, 3, 4)}.get(rank, ()), repeat=rank):
        for order in itertools.permutations(range(rank)):
            source, target = (
                gl.Shape("u16", sizes, gl.Layout(o, padded_dimensions=[n + pad for n in sizes], padding_value=1))
                for o, pad in zip((range(rank), order), padding)
            )
            for limit in distinct_limits(source, target):
                check(NUMPY, source, target, limit)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_small_shapes_on_every_executor(executor, order):
    for sizes, bits in (((4, 3, 5), 4), ((1, 6, 2), 4), ((2, 3, 0), 4), ((3, 2, 7), 16)):
        widths = [size + (dim == sum(sizes) % 3) for dim, size in enumerate(sizes)]
        source = gl.Shape({4: "f32", 16: "c128"}[bits], sizes, gl.Layout((2, 1, 0)))
        target = gl.Shape(source.element_type, sizes, gl.Layout(order, padded_dimensions=widths, padding_value=7))
        for limit in limits_of(source, target, 4):
            check(executor, source, target, limit, phase=sum(sizes) % 3)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "pair",
    [
        ("f32[37,29]", "{0,1:PD(40,29)PV(2)T(4,8)L(100)}"),
        ("f32[37,29]{1,0:T(8,16)}", "{1,0:T(4,8)}"),
        ("s4[17,9]{1,0:E(4)}", "{0,1:E(4)}"),
        ("u1[16,24]{1,0:E(1)}", "{1,0}"),
        ("bf16[6,14,3]{2,0,1}", "{0,1,2:T(2,4)}"),
        ("f8e4m3fn[30,7]", "{0,1:PV(lowest)L(512)}"),
        ("pred[30,7]", "{0,1}"),
        ("u8[100]", "{0:PD(3000)PV(9)}"),
        ("u8[0]", "{0:PD(3000)PV(9)}"),
    ],
)
def test_any_layouts_on_every_executor(executor, pair):
    plan = gl.plan(*pair)
    for limit in limits_of(plan.source, plan.target, 5):
        check(executor, plan.source, plan.target, limit)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("tiles", TILES)
def test_tiles_of_either_side(tiles):
    for sizes, order in itertools.product([(5, 7), (3, 16)], [(0, 1), (1, 0)]):
        plain = gl.parse_shape("u8[{},{}]".format(*sizes))
        tiled = plain.with_layout("{{{},{}:PV(9){}}}".format(*order, tiles))
        for source, target in ((plain, tiled), (tiled, plain)):
            for limit in limits_of(source, target, 3):
                check(NUMPY, source, target, limit)


@given(cases())
@settings(max_examples=examples(100))
def test_any_layouts(case):
    source, target, number = case
    if source.nbytes + target.nbytes < 9000:
        check(NUMPY, source, target, limit_of(source, target, number))
        check(NUMPY, source, target, 2 * limit_of(source, target, number) + 32)


# ---- as much memory as there is --------------------------------------------------------------------------------------


def test_lanes_shrink_to_the_memory_that_there_is_unless_a_limit_is_given(monkeypatch):
    asked, lanes = [], NumpyBackend.lanes

    def scarce(backend, count, host_bytes, device_bytes, like=None):
        asked.append(count * device_bytes)
        if asked[-1] > memory:
            raise MemoryError(f"{asked[-1]} bytes")
        return lanes(backend, count, host_bytes, device_bytes, like)

    monkeypatch.setattr(NumpyBackend, "lanes", scarce)
    monkeypatch.setattr(stream, "DEFAULT", 1 << 16)
    monkeypatch.setattr(stream, "LEAST_DEFAULT", 1 << 12)
    array = np.arange(1 << 14, dtype=np.float32)
    plan, out = gl.plan("f32[128,128]", "{0,1}"), np.zeros_like(array)
    with gl.use_backend("numpy"):
        memory = 1 << 13
        plan.stream(array, out=out)
        assert np.array_equal(out.reshape(128, 128).T, array.reshape(128, 128))
        assert len(asked) > 2 and asked == sorted(asked, reverse=True) and asked[-1] <= memory < asked[-2]
        memory, asked[:] = 0, []
        with pytest.raises(MemoryError):
            plan.stream(array, out=out)
        assert len(asked) == 5  # 64, 32, 16, 8 and 4 KiB
        asked.clear()
        with pytest.raises(MemoryError):
            plan.stream(array, out=out, max_bytes=1 << 14)
        assert len(asked) == 1
