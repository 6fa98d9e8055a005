"""Files whose elements change on the way: the law is the relayout of the whole array in memory."""

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files.route import route

DTYPES = [  # of the file, and keywords
    ("u1", {"dtype": "f32", "scale": 0.3, "shift": -1}),
    ("u1", {"dtype": "bf16", "scale": [1, 2, 3]}),
    ("f4", {"dtype": "f8e4m3fn"}),
    ("f4", {"dtype": "s8", "scale": np.arange(5)[:, None, None], "shift": np.arange(40)[:, None]}),
    ("f8", {"dtype": "f16", "scale": 2}),
    ("f4", {"scale": 2, "shift": 1}),
    ("f4", {"dtype": "f8e4m3fn", "scale": np.arange(1, 10).reshape(3, 3, 1), "block": (27, 16, 1), "divide": True}),
    ("f4", {"dtype": "u4"}),
    ("u1", {"dtype": "f16", "unit": True, "mean": [0.4, 0.5, 0.6], "std": [0.2, 0.3, 0.4]}),
    ("f4", {"mean": np.arange(80).reshape(80, 1, 1), "std": 3}),
    ("f4", {"dtype": "s8", "scale": 0.7, "zero_point": [3, -4, 5]}),
    ("f8", {"dtype": "u4", "scale": np.full((3, 40, 1), 9.5), "zero_point": np.arange(15).reshape(3, 5, 1),
            "block": (27, 8, 1)}),
    ("i2", {"dtype": "bf16", "scale": np.arange(1, 41)[:, None], "zero_point": 7}),
    ("f4", {"dtype": "f8e4m3fn", "scale": 90, "saturate": False}),
]  # fmt: skip


def saved(folder, dtype, dimensions=(80, 40, 3)):
    array = np.random.default_rng(5).integers(0, 100, dimensions).astype(dtype)
    np.save(folder / "in.npy", array)
    return array, folder / "in.npy", folder / "out.npy"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype, options", DTYPES)
@pytest.mark.parametrize("target", [None, "F", "h w c -> c h w", "{0,1,2:PD(81,40,4)}", "{2,1,0:T(8,4)}"])
@pytest.mark.parametrize("memory", ["52K", "1M"])
def test_the_file_is_the_relayout_of_the_whole_array(tmp_path, dtype, options, target, memory):
    array, before, after = saved(tmp_path, dtype)
    done = gl.relayout_file(before, after, target=target, max_bytes=memory, scratch=tmp_path, **options)
    wanted = gl.pack(array, target or "C", **options)
    found = np.load(after)
    assert found.tobytes(order="A") == wanted.tobytes()
    assert found.itemsize == wanted.itemsize and (memory == "1M" or done.blocks[0] > 1)
    assert done.bytes_written >= done.target.nbytes == wanted.nbytes


@pytest.mark.parametrize("source, target", [("u4[133,50]{1,0:E(4)}", "{0,1}"), ("bf16[133,50]{0,1:T(8,16)}", "{1,0}")])
def test_a_file_of_plain_bytes(tmp_path, source, target):
    shape = gl.parse_shape(source)
    buffer = np.random.default_rng(2).integers(0, 60, shape.nbytes).astype(np.uint8)
    (tmp_path / "in.bin").write_bytes(buffer.tobytes())
    gl.relayout_file(
        tmp_path / "in.bin", tmp_path / "out.bin", source=source, target=target, dtype="f32", scale=3, max_bytes="40K"
    )
    wanted = gl.relayout(buffer.view(shape.buffer_dtype), shape, target, dtype="f32", scale=3)
    assert (tmp_path / "out.bin").read_bytes() == wanted.tobytes()


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"dtype": "s8", "mean": 3}, TypeError, "normalised elements are fractions, not s8"),
        ({"dtype": "f32", "zero_point": 3}, TypeError, "zero_point is part of a quantisation, which needs scale too"),
        ({"dtype": "f32", "zero_point": 300, "scale": 1}, gl.LayoutError, "zero_point 300 is outside the range of u8"),
        ({"dtype": "f32", "saturate": False, "unit": 3}, TypeError, "unit is 3: it must be True or False"),
        ({"skale": 3}, TypeError, "'skale' is not a keyword of this call: did you mean scale?"),
        ({"scale": 3}, TypeError, "scale of u8 elements gives numbers that would be rounded"),
        ({"dtype": "f32", "scale": [1, 2]}, gl.LayoutError, "its size 2 is not the size 3 of dimension 2"),
        ({"dtype": "c64"}, TypeError, "no cast from u8 to c64"),
    ],
)
def test_errors_come_before_a_byte_is_written(tmp_path, options, error, message):
    _, before, after = saved(tmp_path, "u1")
    with pytest.raises(error, match=message.replace("?", "[?]")):
        gl.relayout_file(before, after, **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.npy"]


def test_opaque_elements_need_a_name(tmp_path):
    array, before, after = saved(tmp_path, "u1")
    gl.relayout_file(before, after, dtype="bf16")
    with pytest.raises(ValueError, match="out.npy: its elements are opaque .*V2.*shape, with source=SHAPE$"):
        gl.relayout_file(after, tmp_path / "back.npy", dtype="u8")
    gl.relayout_file(after, tmp_path / "back.npy", source="bf16[80,40,3]", dtype="u8")
    assert (np.load(tmp_path / "back.npy") == array).all()


def test_a_file_is_not_changed_in_place(tmp_path):
    _, before, _ = saved(tmp_path, "f4")
    content = before.read_bytes()
    with pytest.raises(ValueError, match="input and output are the same file"):
        gl.relayout_file(before, before, dtype="s32", overwrite=True)
    assert before.read_bytes() == content


def test_only_a_packed_side_takes_a_dense_array():
    """Of a byte for each element that it packs."""
    packed, wide = "u2[40,30]{0,1:E(2)}", "f32[40,30]"
    for source, target, each in ((packed, wide, 1), (wide, packed, 1), (packed, packed, 2), (wide, wide, 0)):
        plan = gl.plan(source, target, scale=2.0, dtype=gl.parse_shape(target).element_type)
        assert plan.request.dense_bytes == each * 40 * 30


def test_dense_arrays_between_packed_buffers_are_within_the_limit():
    plan = gl.plan("u1[4000,4000]{1,0:E(1)}", "u2[4000,4000]{0,1:E(2)}", dtype="u2")
    assert plan.request.dense_bytes == 2 * 4000 * 4000
    (blocks,) = route(plan, 4 << 20, None).passes
    assert max(each.block_bytes + each.plan.request.dense_bytes for each in map(Each, blocks)) <= 4 << 20


class Each:
    """A block as the list of one."""

    def __init__(self, block):
        self.plan, self.block_bytes = block.plan, block.source_runs.nbytes + block.target_runs.nbytes
