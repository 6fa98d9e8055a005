"""`relayout`, plans and `unpack` take an N-d array whose own memory is the buffer, so that nobody flattens one."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulayout as gl
from tests.support.placed import pack_pieces, relayout_pieces, unpack_pieces
from tests.support.strategies import dimensions, layouts

TARGETS = ("{2,1,0}", "{0,1,2}", "{0,2,1:PD(4,5,4)PV(one)}", "{2,1,0:T(2,2)}", "{1,2,0:T(4,2)(2,1)}")


def shapes_of_rank_3():
    for sizes in itertools.product(range(4), repeat=3):
        for order in itertools.permutations(range(3)):
            for more in ((0, 0, 0), (1, 0, 0), (0, 2, 1)):
                widths = [size + extra for size, extra in zip(sizes, more)]
                yield gl.Shape("s16", sizes, gl.Layout(order, padded_dimensions=widths))


def test_an_array_over_a_buffer_is_the_buffer(place):
    for shape in itertools.islice(shapes_of_rank_3(), 0, None, 7):
        buffer = np.arange(shape.buffer_length, dtype=np.int16) + 100
        array = gl.view(place.array(buffer), shape)
        for target in TARGETS[1::2]:
            expected = gl.relayout(buffer, shape, target)
            assert place.host(gl.relayout(array, shape, target)).tolist() == expected.tolist(), (shape, target)
        assert place.host(gl.unpack(array, shape)).tolist() == gl.view(buffer, shape).tolist()


@given(st.data())
def test_moves_from_a_buffer_read_what_moves_from_its_array_read(data):
    """No move reads padding, not even the padding after the last element: the moves are those of `pack`, which is given
    nothing but the elements.
    """
    sizes = tuple(size for size in data.draw(dimensions(max_rank=5)) if size)
    shape, target = (gl.Shape("f32", sizes, data.draw(layouts(sizes))) for _ in range(2))
    assert moves(relayout_pieces(shape, target)) == moves(pack_pieces(shape.byte_strides, target))
    plain = shape.with_layout(None)
    assert moves(unpack_pieces(shape, plain.byte_strides)) == moves(pack_pieces(shape.byte_strides, plain))


def test_so_do_moves_to_tiles():
    for shape in shapes_of_rank_3():
        for target in TARGETS if shape.element_count else ():
            tiled = shape.with_layout(gl.parse_layout(target))
            assert moves(relayout_pieces(shape, tiled)) == moves(pack_pieces(shape.byte_strides, tiled))


def moves(pieces):
    """What is read and written where, without the names of the axes."""
    return [(piece.move.axes, *piece[1:]) for piece in pieces]


def test_only_the_elements_need_to_be_there():
    """f32[2,3]{0,1:PD(3,5)} has 15 places, and the last element is at 7."""
    shape = "f32[2,3]{0,1:PD(3,5)}"
    memory = np.arange(8, dtype=np.float32)
    array = np.lib.stride_tricks.as_strided(memory, (2, 3), (4, 12))
    whole = np.concatenate([memory, np.full(7, np.nan, np.float32)])
    for target in ("f32[2,3]", "{0,1:PD(3,5)PV(one)}", "{1,0:T(2,2)}"):
        assert gl.relayout(array, shape, target).tolist() == gl.relayout(whole, shape, target).tolist()


CALLS = {
    "relayout": lambda array, source, target: gl.relayout(array, source, target),
    "plan": lambda array, source, target: gl.plan(source, target)(array),
    "relayout_many": lambda array, source, target: gl.relayout_many([(array, source, target)])[0],
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("name", ["numpy", "torch", "jax"])
def test_arrays_of_each_library(call, name):
    if name != "numpy":
        module = pytest.importorskip(name)
    host = np.arange(6, dtype=np.float32).reshape(2, 3)
    given = {
        "numpy": lambda: np.asfortranarray(host),
        "torch": lambda: module.tensor(host).t().contiguous().t(),
        "jax": lambda: in_order_of_jax(host, (1, 0)),
    }[name]()
    assert str(gl.shape_of(given)) == "f32[2,3]{0,1}"
    assert np.asarray(call(given, "f32[2,3]{0,1}", "{1,0}")).tolist() == list(range(6))
    with pytest.raises(BufferError) as caught:
        call(given, "f32[2,3]", "{0,1}")
    assert (
        "buffer has shape (2, 3) and strides (4, 8), so its memory is f32[2,3]{0,1}, not a buffer of f32[2,3]{1,0}, "
        "which has strides (12, 4): pass its own shape, gl.shape_of(buffer); or call gl.pack, which takes an array "
        "with any strides" in str(caught.value)
    )


def test_an_array_of_another_size_is_told_so():
    """As the last, smaller batch of a loop."""
    plan = gl.plan("f32[8,3,4]", "{1,2,0}")
    for role, call in (
        ("buffer", lambda: plan(np.zeros((5, 3, 4), np.float32))),
        ("out", lambda: plan(np.zeros((8, 3, 4), np.float32), out=np.zeros((5, 3, 4), np.float32))),
    ):
        with pytest.raises(
            BufferError, match=rf"^{role} has shape \(5, 3, 4\), but .* has 96 elements, not 60: write the shape"
        ):
            call()


def test_an_array_that_no_shape_describes_is_for_pack():
    columns = np.zeros((4, 6), np.float32)
    with pytest.raises(BufferError) as caught:
        gl.relayout(columns[:, ::2], "f32[4,3]", "{0,1}")
    assert str(caught.value).endswith(
        "so its memory is not a buffer of f32[4,3]{1,0}, which has strides (12, 4): gl.pack takes an array with any "
        "strides"
    )


def test_what_the_message_says_to_pass_gives_the_right_elements():
    """Arrays in another order, and with gaps: their own shape, or `pack`."""
    host = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for array in (host.transpose(0, 2, 1), np.zeros((2, 3, 6), np.float32)[:, :, :4]):
        with pytest.raises(BufferError, match="pass its own shape, gl.shape_of.buffer.; or call gl.pack"):
            gl.relayout(array, gl.Shape("f32", array.shape), "a b c -> c a b")
        expected = gl.transpose(array, "a b c -> c a b").ravel()
        assert np.array_equal(gl.relayout(array, gl.shape_of(array), "a b c -> c a b"), expected)
        assert np.array_equal(gl.pack(array, "a b c -> c a b"), expected)


def test_an_output_of_many_dimensions_is_told_what_writes_it():
    image, planes = np.zeros((4, 5, 3), np.uint8), np.zeros((3, 4, 5), np.uint8)
    with pytest.raises(BufferError) as caught:
        gl.pack(image, "h w c -> c h w", out=planes)
    assert str(caught.value).endswith(
        "gl.unpack and gl.transpose write an array with any strides; out.reshape(-1) is the same memory as a flat "
        "buffer"
    )
    assert gl.pack(image, "h w c -> c h w", out=planes.reshape(-1)).shape == (60,)


def in_order_of_jax(array, major_to_minor):
    import jax
    from jax.experimental.layout import Format, Layout

    given = jax.device_put(array, jax.devices("cpu")[0])
    return jax.device_put(given, Format(Layout(major_to_minor), given.sharding))


def test_the_strides_of_dimensions_of_size_1_mean_nothing():
    array = np.lib.stride_tricks.as_strided(np.arange(6, dtype=np.float32), (1, 6), (400, 4))
    assert gl.relayout(array, "f32[1,6]", "{0,1}").tolist() == list(range(6))


def test_channels_last_is_nobodys_business():
    torch = pytest.importorskip("torch")
    image = torch.arange(120).reshape(2, 3, 4, 5).to(torch.bfloat16).contiguous(memory_format=torch.channels_last)
    shape = gl.shape_of(image)
    assert str(shape) == "bf16[2,3,4,5]{1,3,2,0}"
    found = gl.relayout(image, shape, "{3,2,1,0}")
    assert found.dtype is torch.bfloat16 and found.equal(image.flatten())
    assert gl.unpack(image, shape).is_contiguous() and gl.unpack(image, shape).equal(image)


def test_an_out_of_many_dimensions_needs_all_places():
    buffer = np.arange(6, dtype=np.float32)
    out = np.zeros((2, 3), np.float32, order="F")
    assert gl.relayout(buffer, "f32[2,3]", "{0,1}", out=out) is out
    assert out.tolist() == [[0, 1, 2], [3, 4, 5]]
    padded = gl.view(np.zeros(15, np.float32), "f32[2,3]{0,1:PD(3,5)}")
    with pytest.raises(BufferError) as caught:
        gl.relayout(buffer, "f32[2,3]", "{0,1:PD(3,5)}", out=padded)
    assert str(caught.value) == (
        "out has shape (2, 3), without the padding of f32[2,3]{0,1:PD(3,5)}: pass its whole buffer, of 15 elements"
    )
    with pytest.raises(
        BufferError, match="^out has shape .*: gl.unpack and gl.transpose write an array with any strides"
    ):
        gl.relayout(buffer, "f32[2,3]", "{0,1}", out=np.zeros((2, 3), np.float32))
    assert not padded.any()


def test_packed_elements_and_cut_tiles_have_no_strides():
    for shape in ("s4[2,3]{1,0:E(4)}", "f32[2,3]{1,0:T(2,2)}"):
        shape = gl.parse_shape(shape)
        with pytest.raises(BufferError, match="so its memory is .*not a buffer of .* gl.pack"):
            gl.relayout(np.zeros((2, 3), shape.buffer_dtype), shape, "{0,1}")
    wide = np.zeros((3, 128), np.float32)
    assert gl.relayout(wide, "f32[3,128]{1,0:T(1,128)}", "{0,1}").shape == (384,)
    narrow = np.zeros((3, 128), np.float32)[:, :100]
    with pytest.raises(BufferError, match="^buffer has shape .*, without the padding of f32.*, of 384 elements$"):
        gl.relayout(narrow, "f32[3,100]{1,0:T(1,128)}", "{0,1}")


def test_the_padding_of_a_buffer_is_no_place_for_an_output():
    """Whether the buffer is given flat or as the array that lies in it."""
    memory = np.arange(64, dtype=np.int32)
    flat, rows = memory[:32], memory[:32].reshape(2, 16)[:, :4]
    before, outside = memory.copy(), memory[32:40]
    for buffer in (flat, rows):
        with pytest.raises(BufferError, match="^buffer and out overlap in memory"):
            gl.relayout(buffer, "s32[2,4]{1,0:PD(2,16)}", "{0,1}", out=memory[6:14])
        assert (memory == before).all()
        found = gl.relayout(buffer, "s32[2,4]{1,0:PD(2,16)}", "{0,1}", out=outside)
        assert found.tolist() == [0, 16, 1, 17, 2, 18, 3, 19]
        memory[:] = before


@pytest.mark.parametrize("shape", ["f32[1]", "f32[1,1]", "f32[1,1,1]"])
def test_an_array_without_dimensions_is_no_buffer_of_some(shape):
    one = np.array(3, np.float32)
    with pytest.raises(BufferError, match=r"^buffer has shape \(\) and strides \(\), .* not a buffer of f32\[1"):
        gl.unpack(one, shape)
    with pytest.raises(BufferError, match=r"^out has shape \(\) and strides \(\), .* not a buffer of f32\[1"):
        gl.relayout(np.ones(1, np.float32), shape, shape, out=one)
    assert gl.unpack(one, "f32[]") == 3 and one == 3


def test_a_flat_buffer_is_contiguous_however_short_it_is():
    for count in (1, 2, 3):
        shape = f"f32[{count}]"
        for step in (2, 3, -1):
            memory = np.arange(9, dtype=np.float32)
            part = memory[::step][:count]
            if count == 1:  # which makes no step
                assert gl.unpack(part, shape).tolist() == part.tolist()
                continue
            for call in (
                lambda part, shape=shape: gl.unpack(part, shape),
                lambda part, shape=shape, count=count: gl.pack(np.ones(count, np.float32), shape, out=part),
            ):
                with pytest.raises(BufferError, match=f"steps by {4 * step} bytes, .* is contiguous and steps by 4$"):
                    call(part)
            assert (memory == np.arange(9)).all()


def test_two_rows_lie_as_the_shape_says_or_are_refused():
    memory = np.arange(16, dtype=np.float32).reshape(4, 4)
    for rows in (memory[:2, :3], memory[::2, :3], memory[1::-1], memory[:2, ::2]):
        shape = f"f32[2,{rows.shape[1]}]"
        with pytest.raises(BufferError, match=f"not a buffer of f32\\[2,{rows.shape[1]}\\]"):
            gl.unpack(rows, shape)
        assert gl.unpack(np.ascontiguousarray(rows), shape).tolist() == rows.tolist()


def test_an_array_without_elements_is_a_buffer_of_padding_alone():
    for layout in ("{1,0:PD(2,4)}", "{1,0:PD(2,4)T(2,2)}", "{0,1:T(2,2)}"):
        assert gl.unpack(np.zeros((0, 3), np.float32), f"f32[0,3]{layout}").shape == (0, 3)
