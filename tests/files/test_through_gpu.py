"""Files larger than the memory that may be used go through the GPU where one works."""

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.choices import backends
from gpulayout.files import route
from tests.support.device_arrays import on_gpu_alone
from tests.support.orders import orders


@pytest.fixture
def lanes(cp, monkeypatch):
    """The bytes of the lanes that were made: (host, device)."""
    made, kind = [], backends.gpu_module().CupyLane
    monkeypatch.setattr(route, "LEAST_RUN", 0)  # small files in several blocks
    monkeypatch.setattr(backends.gpu_module(), "CupyLane", lambda *nbytes: (made.append(nbytes), kind(*nbytes))[1])
    return made


def moved(folder, source, target, memory):
    """Whether the new file has the bytes that the plan gives, and the number of blocks."""
    plan = gl.plan(source, target)
    buffer = np.random.default_rng(0).integers(0, 256, plan.source.nbytes, np.uint8)
    buffer.tofile(folder / "in.bin")
    done = gl.relayout_file(
        folder / "in.bin", folder / "out.bin", source=source, target=target, max_bytes=memory, overwrite=True
    )
    with gl.use_backend("numpy"):
        expected = plan(buffer.view(plan.source.buffer_dtype))
    return (folder / "out.bin").read_bytes() == expected.tobytes(), done.blocks[0]


@on_gpu_alone
@pytest.mark.parametrize(
    "source, target",
    [("f32[500,700]", "{0,1:T(8,128)}"), ("s4[900,2000]{1,0:E(4)}", "{0,1:E(4)}"), ("bf16[30,40,500]", "{0,1,2}")],
)
def test_a_file_of_several_blocks_goes_through_the_gpu(cp, lanes, tmp_path, source, target):
    for _ in orders([1, 2]):
        lanes.clear()
        is_right, blocks = moved(tmp_path, source, target, 1 << 20)
        assert is_right and len(lanes) >= blocks > 1
        assert max(device for _, device in lanes) <= 1 << 19


@on_gpu_alone
def test_a_file_of_one_block_and_a_file_with_numpy_chosen_do_not(cp, lanes, tmp_path):
    assert moved(tmp_path, "f32[500,700]", "{0,1}", "512M") == (True, 1)
    with gl.use_backend("numpy"):
        is_right, blocks = moved(tmp_path, "f32[500,700]", "{0,1}", 1 << 20)
    assert is_right and blocks > 1 and not lanes


@on_gpu_alone
def test_tiles_too_large_for_the_lanes_go_by_numpy(cp, lanes, tmp_path):
    is_right, blocks = moved(tmp_path, "f32[600,1200]", "{1,0:T(600,600)}", 12 << 20)
    assert is_right and blocks > 1 and not lanes
