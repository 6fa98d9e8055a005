"""A pattern and a layout by name say an order: elements that are packed in bytes stay packed, in every call."""

import numpy as np
import pytest

import gpulayout as gl

TYPES = {"u4": "E(4)", "s4": "E(4,big)", "u2": "E(2)", "u1": "E(1,big)", "f4e2m1fn": "E(4)"}
ORDERS = {
    "h w -> w h": "{0,1%s}",
    "h w -> h w": "{1,0%s}",
    "h (a=2 w) -> a h w": "{0,1:T(4,1)%s}",
    "F": "{0,1%s}",
    "C": "{1,0%s}",
    "named:ba:ab": "{0,1%s}",
    "cute:(6,8):(1,6)": "{0,1%s}",
}


def written(order, packing):
    """The layout of an order, as text."""
    layout = ORDERS[order]
    return layout % (packing if ":" in layout else f":{packing}")


def of_dask(buffer, source, order):
    da = pytest.importorskip("dask.array", reason="the extra `dask` is not installed")
    return gl.dask.relayout(da.from_array(buffer, chunks=7), source, order).compute()


def of_file(buffer, source, order, folder):
    (folder / "before.raw").write_bytes(buffer.tobytes())
    gl.relayout_file(folder / "before.raw", folder / "after.raw", source=source, target=order, overwrite=True)
    return np.fromfile(folder / "after.raw", np.uint8)


def of_torch(buffer, source, order):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    return gl.torch.Relayout(source, order)(torch.from_numpy(buffer)).numpy()


DOORS = {
    "relayout": gl.relayout,
    "plan": lambda buffer, source, order: gl.plan(source, order)(buffer),
    "Array.to": lambda buffer, source, order: gl.Array(buffer, source).to(order).buffer,
    "relayout_many": lambda buffer, source, order: gl.relayout_many([(buffer, source, order)])[0],
    "dask": of_dask,
    "torch": of_torch,
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", TYPES)
def test_an_order_keeps_the_packing_in_every_call(kind, order, tmp_path):
    codes = (np.arange(48).reshape(6, 8) * 7 % 2 ** gl.ElementType(kind).bits).astype(np.uint8)
    source = gl.Shape(kind, (6, 8), f"{{1,0:{TYPES[kind]}}}")
    buffer = gl.pack(codes.view(gl.ElementType(kind).dtype), source)
    layout = written(order, TYPES[kind])
    expected = gl.relayout(buffer, source, layout)
    assert gl.plan(source, order).target == gl.Shape(kind, (6, 8), layout)
    for name, call in DOORS.items():
        assert np.array_equal(call(buffer, source, order), expected), name
    assert np.array_equal(of_file(buffer, source, order, tmp_path), expected)


def test_transposed_nibbles_are_those_of_numpy(executor):
    codes = np.random.default_rng(0).integers(0, 16, (6, 8)).astype(np.uint8)
    nibbles = codes[:, 0::2] | codes[:, 1::2] << 4
    turned = np.ascontiguousarray(codes.T)
    given = executor.array(np.ascontiguousarray(nibbles).reshape(-1))
    for order in ("h w -> w h", "F"):
        found = executor.host(gl.relayout(given, "u4[6,8]{1,0:E(4)}", order))
        assert np.array_equal(found.reshape(8, 3), turned[:, 0::2] | turned[:, 1::2] << 4)


def test_what_changes_the_type_keeps_the_packing_only_of_types_that_can_be_packed():
    source = "u4[6,8]{0,1:E(4,big)}"
    for order in ("h w -> w h", "F"):
        for dtype, packing in (("s4", ":E(4,big)"), ("f4e2m1fn", ":E(4,big)"), ("s8", ""), ("bf16", "")):
            assert gl.plan(source, order, dtype=dtype).target == gl.Shape(dtype, (6, 8), f"{{0,1{packing}}}")
    assert str(gl.plan("u8[6,8]", "F", dtype="u4").target) == "u4[6,8]{0,1}"  # nothing was packed


def test_padding_and_tiles_are_not_kept_and_layouts_say_all_themselves():
    for source in ("u4[6,8]{1,0:PD(6,9)E(4)}", "u4[6,8]{1,0:T(2,4)E(4)}"):
        for order in ("h w -> w h", "F"):
            assert str(gl.plan(source, order).target) == "u4[6,8]{0,1:E(4)}"
        assert str(gl.plan(source, "{0,1}").target) == "u4[6,8]{0,1}"
        assert str(gl.plan(source, gl.Layout((0, 1))).target) == "u4[6,8]{0,1}"
    awq = "awq:qweight"  # an entry of the catalogue says itself how its elements are packed
    assert gl.plan("u4[64,64]{1,0:E(4,big)}", awq).target.layout == gl.plan("u4[64,64]", awq).target.layout


def test_an_array_in_an_order_is_not_moved_again():
    array = gl.Array(np.zeros(24, np.uint8), "u4[6,8]{0,1:E(4)}")
    assert array.to("F") is array and array.to("h w -> w h") is array
    assert gl.unpack(array, "F").shape == (6, 8)
