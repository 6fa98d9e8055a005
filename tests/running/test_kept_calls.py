"""What is kept of one call is never taken for another, and takes bounded memory."""

import gc
import weakref

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.running.array_calls import kept_targets
from gpulayout.running.kept import Kept
from gpulayout.running.running import MOST_LATEST, kept_calls, latest
from tests.support.kept import forget_transfers

MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)
VERBS = {
    "pack": lambda a, **options: gl.pack(a, "{0,1}", **options),
    "unpack": lambda a, **options: gl.unpack(a, "{1,0}", **options),
    "relayout": lambda a, **options: gl.relayout(a, "{1,0}", "{0,1}", **options),
    "transpose": lambda a, **options: gl.transpose(a, "h w -> w h", **options),
}


@pytest.mark.parametrize("options", [{}, {"dtype": "f32"}])
@pytest.mark.parametrize("verb", VERBS)
def test_torchs_types_below_a_byte_are_not_taken_for_bytes(verb, options, plans_anew):
    """Their memory says the same of itself: 200 is 8 in the lower 4 bits."""
    torch = pytest.importorskip("torch")
    if not hasattr(torch, "uint4"):
        pytest.skip("this torch has no uint4")
    call, whole = VERBS[verb], torch.full((2, 3), 200, dtype=torch.uint8)
    part = whole.view(torch.uint4)
    for first, second in ((whole, part), (part, whole)):
        for tensor in (first, first, first, second, second, first):
            made = call(tensor, **options)
            assert made.dtype is (torch.float32 if options else tensor.dtype)
            number = 200 if tensor is whole or not options else 8
            assert set(made.view(torch.uint8 if not options else made.dtype).flatten().tolist()) == {number}


def test_a_plan_refuses_torchs_types_below_a_byte_after_bytes(plans_anew):
    torch = pytest.importorskip("torch")
    plan, whole = gl.plan("u8[2,3]", "{0,1}"), torch.full((6,), 200, dtype=torch.uint8)
    for _ in range(3):
        plan(whole)
    with pytest.raises(TypeError, match="dtype uint4"):
        plan(whole.view(torch.uint4))


def test_moves_of_many_pieces_are_counted(monkeypatch, plans_anew):
    def call(rows):
        source = gl.Shape("u8", (rows, 300), "{1,0:T(53,59)}")
        gl.relayout(np.zeros(source.buffer_length, np.uint8), source, "{1,0:T(61,67)}")
        return len(gl.plan(source, "{1,0:T(61,67)}").pieces)

    count = call(300)
    assert count > 50
    forget_transfers()
    monkeypatch.setattr(Kept, "MOST_BYTES", 3 * (Kept.ENTRY_BYTES + count * Kept.PIECE_BYTES))
    for rows in range(300, 308):
        call(rows)
    assert 0 < len(kept_calls.keys()) <= 4


def test_calls_with_long_lists_are_not_kept(plans_anew):
    row = np.zeros((2, 500), np.float32)
    for number in (1.0, 2.0):
        for scale in ([number] * 500, (number,) * 500):
            assert gl.pack(row + 1, "{0,1}", scale=scale).tolist() == [number] * 1000
    assert not kept_calls.keys() and not latest
    for _ in range(3):
        assert gl.pack(MATRIX, "{0,1}", scale=[1.0, 2.0, 3.0]).tolist() == [0, 3, 2, 8, 6, 15]
    assert len(kept_calls.keys()) == len(latest) == 1


@pytest.mark.usefixtures("quick_collections")
def test_types_of_arrays_that_nobody_uses_any_more_are_freed(plans_anew):
    plan, flat, kinds = gl.plan("f32[2,3]", "{0,1}"), MATRIX.reshape(-1), []
    for number in range(600):
        kind = type(f"Own{number}", (np.ndarray,), {})
        kinds.append(weakref.ref(kind))
        for _ in range(2):
            plan(flat.view(kind))
            gl.pack(MATRIX.view(kind), "{0,1}")
    del kind
    gc.collect()
    assert sum(each() is not None for each in kinds) <= 300


def test_options_that_ask_for_nothing_are_none_for_plain_values_too():
    assert gl.pack([1, 2, 3], "f32[3]", dtype=None).tolist() == [1, 2, 3]
    assert gl.pack(3, "bf16[]", saturate=True).tolist() == [3]
    assert gl.pack([1, 2, 3], "u4[3]{0:E(4)}", unit=False).tolist() == [33, 3]
    with pytest.raises(TypeError, match="has no element type"):
        gl.pack([[1, 2], [3, 4]], "C", scale=None)


def test_lists_of_the_same_numbers_are_packed_as_each_call_says(plans_anew):
    """A call with another layout or other arithmetic is another call, though its list is the same."""
    numbers = [[1.0, 2.0], [3.0, 4.0]]
    for _ in range(3):
        for options, factor in (({}, 1), ({"scale": 2}, 2), ({"scale": 3}, 3)):
            for layout, order in (("{0,1}", "F"), ("{1,0}", "C")):
                found = gl.pack(numbers, f"f32[2,2]{layout}", **options)
                assert np.array_equal(found, np.ravel(numbers, order) * factor)


def test_only_torchs_types_are_read_as_such(plans_anew):
    class dtype:  # noqa: N801 - it is named like torch's
        def __init__(self, kind):
            self.dtype = np.dtype(kind)

    asked = dtype("f4")
    for kind in ("f4", "f4", "f4", "f8"):
        asked.dtype = np.dtype(kind)
        assert gl.pack(MATRIX.astype(np.int32), "{0,1}", dtype=asked).dtype == kind


def test_two_sizes_that_take_turns(plans_anew):
    """Each call finds what is kept of its own size."""
    small = MATRIX[:, :2]
    for _ in range(4):
        assert gl.pack(MATRIX, "{0,1}").tolist() == [0, 3, 1, 4, 2, 5]
        assert gl.pack(small, "{0,1}").tolist() == [0, 3, 1, 4]
        assert gl.pack(MATRIX.T, "{1,0:T(2,2)}").tolist() == [0, 3, 1, 4, 2, 5, 0, 0]
        assert gl.unpack(np.arange(6.0), "f64[2,3]{0,1}").tolist() == [[0, 2, 4], [1, 3, 5]]
    assert len(kept_calls.keys()) == 4


@pytest.mark.parametrize("layout", ["{0,1}", "{1,0:T(2,2)}", "{1,0:T(3,2)(2)}"])
def test_another_array_is_read_as_it_says_of_itself(layout, plans_anew):
    """After repeated calls with the same words: of another size, of other strides, of another type."""
    large = np.arange(15, dtype=np.float32).reshape(3, 5)
    others = [large, large.T, large[::-1], large[:, ::2], large.astype(np.int32), MATRIX]
    expected = [gl.pack(other, layout) for other in others]
    for other, wanted in zip(others, expected):
        assert gl.unpack(wanted, gl.Shape(other.dtype, other.shape, layout)).tolist() == other.tolist()
    for _ in range(3):
        for _ in range(3):
            gl.pack(MATRIX, layout)
        for other, wanted in zip(others, expected):
            found = gl.pack(other, layout)
            assert found.dtype == wanted.dtype and found.tolist() == wanted.tolist()


@pytest.mark.parametrize("layout", ["{0,1}", "{1,0:T(2,2)}", "{1,0:T(3,2)(2)}"])
def test_a_repeated_call_checks_its_output_anew(layout, plans_anew):
    """Also moves of several pieces, which the engine does not remember."""
    shape = gl.Shape("f32", (2, 3), layout)
    expected = gl.pack(MATRIX, shape).tolist()
    memory = np.zeros(60, np.float32)
    inside = memory[: MATRIX.size].reshape(MATRIX.shape)
    inside[...] = MATRIX
    for _ in range(3):
        out = np.zeros(shape.buffer_length, np.float32)
        assert gl.pack(MATRIX, shape, out=out) is out and out.tolist() == expected
        gl.pack(inside, shape, out=memory[20:], strict=False)
        assert memory[20:].tolist()[: len(expected)] == expected
        with pytest.raises(BufferError, match="^out has 40 elements"):
            gl.pack(inside, shape, out=memory[20:])
        for overlapping in (memory[3:], memory[3 : 3 + out.size]):  # the second says of itself what `out` says
            with pytest.raises(BufferError, match="overlap"):
                gl.pack(inside, shape, out=overlapping, strict=False)
        out.setflags(write=False)
        with pytest.raises(BufferError, match="read-only"):
            gl.pack(MATRIX, shape, out=out)
        with pytest.raises(BufferError, match="needs"):
            gl.pack(MATRIX, shape, out=memory[:5])
        with pytest.raises(TypeError, match="out has dtype"):
            gl.pack(MATRIX, shape, out=memory.view(np.int32))
    assert memory[: MATRIX.size].tolist() == MATRIX.reshape(-1).tolist()


def test_a_target_that_is_an_array_is_an_error_that_says_so_for_traced_arrays_too():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="arrays come before shapes"):
        torch.func.vmap(lambda row: gl.relayout(row, "f32[3]", np.zeros(3)))(torch.zeros(2, 3))


def test_a_full_table_of_latest_calls_keeps_them_while_no_other_comes(plans_anew):
    """Two sizes take turns: each of them is one of the latest, and none is forgotten for it."""
    latest.update({(number,): None for number in range(MOST_LATEST - 1)})
    small = MATRIX[:, :2]
    for _ in range(4):
        assert gl.transpose(MATRIX, "h w -> w h").tolist() == MATRIX.T.tolist()
        assert gl.transpose(small, "h w -> w h").tolist() == small.T.tolist()
    assert len(latest) == MOST_LATEST
    gl.pack(MATRIX, "{0,1}")
    gl.pack(MATRIX, "{0,1}")
    assert len(latest) == 1


def test_numbers_in_keys_are_counted():
    kept = Kept()
    for number in range(100):
        kept.keep(("pack", ("scale", bytes([number]) * (1 << 20))), number)
    assert 0 < len(kept.keys()) <= Kept.MOST_BYTES >> 21


def test_targets_of_an_array_do_not_depend_on_numbers(plans_anew):
    array = gl.asarray(MATRIX)
    for scale in range(2, 12):
        assert array.to("F", scale=scale).buffer.tolist() == (scale * MATRIX.T).reshape(-1).tolist()
        assert array.to("F", scale=[scale], dtype="f64").layout_shape == gl.parse_shape("f64[2,3]{0,1}")
        assert array.to("F", scale=None) == array
    assert len(kept_targets.keys()) == 3
