"""The bit order "big": the first element of a byte has its highest bits, as `np.packbits` has it.

Moves of all kinds between both orders are in test_packed.py and tests/kernels; here are NumPy as the judge, and all
that might take a change of the order for none.
"""

import copy
import itertools
import pickle

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files.checkpoints.stored import stored_shape
from gpulayout.layout.stride_table import byte_and_bit
from gpulayout.moves.lookup_move import LookupMove
from gpulayout.moves.move import Move
from tests.support import block_cases, packed_reference
from tests.support.executors import source_buffer
from tests.support.lookup_cases import few_pieces

ORDERS = ("little", "big")
SIZES = (1, 7, 8, 9, 16, 64, 100, 1000, 4096)


def text(bits, order):
    return f"E({bits},big)" if order == "big" else f"E({bits})"


def bits_of(count):
    return packed_reference.values(count, 1).astype(np.uint8)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", SIZES)
def test_numpy_packs_and_unpacks_the_same_bytes(executor, size, order):
    array, shape = bits_of(size), f"u1[{size}]{{0:{text(1, order)}}}"
    packed = np.packbits(array, bitorder=order)
    assert executor.host(gl.pack(executor.array(array), shape)).tolist() == packed.tolist()
    found = executor.host(gl.unpack(source_buffer(executor, packed), shape)).view(np.uint8)
    assert found.tolist() == np.unpackbits(packed, bitorder=order)[:size].tolist()


def test_rows_of_a_bitmap_are_whole_bytes(executor):
    """A PBM file: each row ends with a whole byte, which NumPy fills with zeros."""
    image = bits_of(9 * 21).reshape(9, 21)
    packed = gl.pack(executor.array(image), "u1[9,21]{1,0:PD(9,24)E(1,big)}")
    assert executor.host(packed).tolist() == np.packbits(image, axis=1).ravel().tolist()
    columns = gl.relayout(packed, "u1[9,21]{1,0:PD(9,24)E(1,big)}", "u1[9,21]{0,1:PD(16,21)E(1)}")
    assert executor.host(columns).tolist() == np.packbits(image.T, axis=1, bitorder="little").ravel().tolist()


def by_numpy(values, bits, order):
    """Packed bytes as NumPy makes them: of elements one by one, each as its own bits in the order of its byte."""
    places = np.arange(bits)[::-1] if order == "big" else np.arange(bits)
    return np.packbits(np.asarray(values, np.uint8).ravel()[:, None] >> places & 1, bitorder=order)


def small_sides(bits, dimensions):
    """Each order of dimensions and of bits, with and without padding, and what NumPy makes of an array in it."""
    for axes, width, order in itertools.product(itertools.permutations(range(len(dimensions))), (0, 1), ORDERS):
        widths = [size + width for size in dimensions]
        layout = gl.Layout(axes, padded_dimensions=widths, element_size_in_bits=bits, bit_order=order)

        def packed(array, axes=axes, width=width, order=order):
            padded = np.pad(array, [(0, width)] * array.ndim)
            return by_numpy(padded.transpose(axes[::-1]), bits, order).tolist()

        yield gl.Shape(f"u{bits}", dimensions, layout), packed


@pytest.mark.one_in(2)
@pytest.mark.parametrize("bits", (1, 2, 4))
def test_all_small_shapes_match_numpy(executor, bits):
    """Every pair of orders on both sides; the judge is `np.packbits` alone."""
    for dimensions in [(1,), (3,), (8,), (9,), (17,), (1, 8), (3, 2), (3, 5), (2, 16)]:
        array = packed_reference.values(int(np.prod(dimensions)), bits).astype(np.uint8).reshape(dimensions)
        sides = [(shape, packed(array)) for shape, packed in small_sides(bits, dimensions)]
        for shape, wanted in sides:
            buffer = gl.pack(executor.array(array), shape)
            assert executor.host(buffer).tolist() == wanted, str(shape)
            assert executor.host(gl.unpack(buffer, shape)).view(np.uint8).tolist() == array.tolist(), str(shape)
        for (source, buffer), (target, wanted) in itertools.product(sides, repeat=2):
            found = gl.relayout(source_buffer(executor, np.array(buffer, np.uint8)), source, target)
            assert executor.host(found).tolist() == wanted, (str(source), str(target))


@pytest.mark.parametrize("name", ("bits", "nibbles", "nibbles of two halves"))
def test_other_formats_are_read_in_one_call(executor, name):
    """Rows of `np.packbits`; 4 bits as bitsandbytes and some NVFP4 checkpoints pack neighbours, and HQQ two halves."""
    array = packed_reference.values(120, 4).astype(np.uint8).reshape(6, 20)
    if name == "bits":
        array &= 1
        shape, raw = f"u1[6,20]{{1,0:PD(6,24){text(1, 'big')}}}", np.packbits(array, axis=1).ravel()
    elif name == "nibbles":
        shape, raw = f"u4[6,20]{{1,0:{text(4, 'big')}}}", (array[:, 0::2] << 4 | array[:, 1::2]).ravel()
    else:
        shape, raw = f"u4[2,3,20]{{0,2,1:{text(4, 'big')}}}", (array[:3] << 4 | array[3:]).ravel()
        array = array.reshape(2, 3, 20)
    buffer = source_buffer(executor, raw)
    assert executor.host(gl.unpack(buffer, shape)).view(np.uint8).tolist() == array.tolist()
    assert executor.host(gl.pack(executor.array(array), shape)).tolist() == raw.tolist()


@pytest.mark.parametrize("bits", (1, 2, 4))
def test_only_the_order_changes(executor, bits):
    """Whole bytes, which would move as bytes if the orders were the same."""
    values = packed_reference.values(96, bits)
    sides = [gl.parse_shape(f"u{bits}[12,8]{{1,0:{text(bits, order)}}}") for order in ORDERS]
    buffers = [packed_reference.packed(values, bits, order) for order in ORDERS]
    assert buffers[0].tolist() != buffers[1].tolist()
    for source, target in itertools.product((0, 1), repeat=2):
        plan = gl.plan(sides[source], sides[target])
        assert (type(plan.move) is Move) == (source == target)
        assert executor.host(plan(source_buffer(executor, buffers[source]))).tolist() == buffers[target].tolist()


@pytest.mark.parametrize("bits", (1, 2, 4))
@pytest.mark.parametrize("from_order, to_order", list(itertools.product(ORDERS, repeat=2)))
def test_places_that_are_looked_up(executor, bits, from_order, to_order):
    """Tiles that end inside a byte, to rows and back, and to elements of a byte each."""
    rows = gl.parse_shape(f"u{bits}[7,10]{{1,0:{text(bits, from_order)}}}")
    tiles = rows.with_layout(gl.parse_layout(f"{{0,1:PV(highest)T(2,3){text(bits, to_order)}}}"))
    array = packed_reference.values(70, bits).astype(np.uint8).reshape(7, 10)
    with few_pieces():
        plans = [gl.plan(rows, tiles), gl.plan(tiles, rows)]
        assert all(type(plan.move) is LookupMove for plan in plans)
        for plan in plans:
            buffer = source_buffer(executor, packed_reference.buffer(plan.source))
            assert executor.host(plan(buffer)).tolist() == packed_reference.buffer(plan.target).tolist()
            assert executor.host(gl.pack(executor.array(array), plan.target)).tolist() == (
                packed_reference.buffer(plan.target).tolist()
            )
            assert executor.host(gl.unpack(buffer, plan.source)).view(np.uint8).tolist() == array.tolist()


@pytest.mark.parametrize("shape", ["u1[21]{0:E(1,big)}", "u2[3,5]{0,1:E(2,big)}", "u4[5]{0:E(4,big)}", "u4[5]{0:E(4)}"])
def test_the_bit_of_a_place_is_its_lowest_one(shape):
    shape = gl.parse_shape(shape)
    buffer, places = packed_reference.buffer(shape), np.arange(shape.buffer_size)
    byte, bit = byte_and_bit(shape, places)
    found = buffer[byte] >> bit & (1 << shape.bits_per_element) - 1
    order = shape.layout.bit_order
    assert found.tolist() == packed_reference.unpacked(buffer, shape.bits_per_element, places.size, order).tolist()
    assert [byte_and_bit(shape, int(place)) for place in places] == list(zip(byte, bit))


# ---- what might take it for the same bytes -----------------------------------------------------------------------

BIG, LITTLE = gl.parse_shape("u2[3,8]{1,0:E(2,big)}"), gl.parse_shape("u2[3,8]{1,0:E(2)}")
VALUES = packed_reference.values(24, 2).astype(np.uint8).reshape(3, 8)


def buffer_of(shape):
    return packed_reference.packed(VALUES.ravel(), 2, shape.layout.bit_order)


def test_layouts_of_both_orders_differ():
    assert BIG != LITTLE and BIG.layout != LITTLE.layout and hash(BIG.layout) != hash(LITTLE.layout)
    copies = pickle.loads(pickle.dumps(BIG)), copy.deepcopy(BIG), gl.parse_shape(str(BIG)), eval(repr(BIG), vars(gl))
    for again in copies:
        assert again == BIG and again.layout.bit_order == "big" and hash(again) == hash(BIG)
    assert repr(BIG.layout) == "Layout((1, 0), element_size_in_bits=2, bit_order='big')"
    assert str(gl.parse_layout("{0:E(4,little)}")) == str(gl.parse_layout("{0:E(4)}")) == "{0:E(4)}"


def test_no_bitcast_changes_the_order():
    assert not gl.xla.is_bitcast(BIG, LITTLE) and not gl.xla.reshape_is_bitcast(BIG, "u2[24]{0:E(2)}")
    assert not gl.xla.is_bitcast(BIG, "s2[3,8]{1,0:E(2)}", ignore="element_type")
    assert gl.xla.is_bitcast(BIG, BIG) and gl.xla.reshape_is_bitcast(BIG, "u2[24]{0:E(2,big)}")
    assert not gl.xla.is_decomposable_bitcast(BIG, LITTLE) and gl.xla.is_decomposable_bitcast(BIG, BIG)
    for call in (gl.xla.decompose_bitcast, gl.xla.bitcast_kind):
        with pytest.raises(gl.LayoutError, match="the bit orders within a byte differ"):
            call(BIG, LITTLE)


def test_an_array_changes_its_order():
    array = gl.Array(buffer_of(BIG), BIG)
    changed = array.to(LITTLE)
    assert changed.buffer.tolist() == buffer_of(LITTLE).tolist() and array.to(BIG) is array
    assert array == changed and pickle.loads(pickle.dumps(array)).layout_shape == BIG
    for key in (np.s_[1, 3:7], np.s_[::-1, 2], np.s_[2, 5], np.s_[...]):
        assert array[key].view(np.uint8).tolist() == VALUES[key].tolist()


def test_it_is_moved_in_place():
    buffer = buffer_of(BIG).copy()
    gl.relayout(buffer, BIG, LITTLE, out=buffer)
    assert buffer.tolist() == buffer_of(LITTLE).tolist()


def test_it_survives_a_change_of_the_type_and_of_dimensions():
    assert str(BIG.with_element_type("s2")) == "s2[3,8]{1,0:E(2,big)}"
    assert str(BIG.with_element_type("u8")) == "u8[3,8]{1,0}"
    assert str(BIG.permute_dimensions((1, 0))) == "u2[8,3]{0,1:E(2,big)}"
    assert str(gl.xla.update_element_size_in_bits(BIG, True)) == str(BIG)
    assert str(gl.xla.update_element_size_in_bits(BIG, False)) == "u2[3,8]{1,0}"


@pytest.mark.parametrize(
    "call, message",
    [
        (gl.interop.to_jax_layout, "bit_order big of u2[3,8]{1,0:E(2,big)} cannot be expressed as a JAX layout"),
        (gl.interop.to_cute, "u2[3,8]{1,0:E(2,big)} has no CuTe layout: CuTe knows only the bit order 'little'"),
    ],
)
def test_forms_without_it_refuse_it(call, message):
    with pytest.raises(gl.LayoutError) as caught:
        call(BIG)
    assert str(caught.value) == message


def test_protos_refuse_it():
    pytest.importorskip("google.protobuf", reason="the extra `proto` (protobuf) is not installed")
    message = "bit_order big of layout {1,0:E(2,big)} cannot be expressed in protos: XLA has only 'little'"
    for call in (gl.xla.shape_to_proto, lambda shape, dialect: gl.xla.layout_to_proto(shape.layout, dialect)):
        for dialect in ("xla", "2017"):
            with pytest.raises(gl.LayoutError) as caught:
                call(BIG, dialect)
            assert str(caught.value) == message


def test_arithmetic_on_the_way(executor):
    """Elements are taken out of bytes of one order, changed, and put into those of the other."""
    found = gl.relayout(source_buffer(executor, buffer_of(BIG)), BIG, "u4[3,8]{0,1:E(4,big)}", dtype="u4", scale=3)
    wanted = packed_reference.packed((VALUES * 3).T.ravel(), 4, "big")
    assert executor.host(found).tolist() == wanted.tolist()


@pytest.mark.parametrize(
    "from_text, to_text",
    [
        ("{1,0:E(2,big)}", "{0,1:PV(one)L(1001)E(2)}"),
        ("{0,1:T(8,8)E(2)}", "{1,0:PD(41,24)PV(one)L(1001)E(2,big)}"),
        ("{1,0:E(2,big)}", "{0,1:E(2,big)}"),
    ],
)
def test_blocks_and_passes_of_large_arrays(from_text, to_text):
    source, target = (gl.parse_shape(f"u2[40,24]{layout}") for layout in (from_text, to_text))
    block_cases.check(source, target, 64)
    buffer = packed_reference.buffer(source)
    for plan in gl.plan(source, target).passes(64):
        buffer = plan(buffer)
    assert buffer.tolist() == packed_reference.buffer(target).tolist()


def test_files_say_it(tmp_path):
    """A .npy file holds the bytes, and the shape beside it says the order; a tensor's note says it too."""
    np.save(tmp_path / "big.npy", buffer_of(BIG))
    gl.relayout_file(tmp_path / "big.npy", tmp_path / "little.npy", target=LITTLE.layout, source=BIG)
    assert np.load(tmp_path / "little.npy").tolist() == buffer_of(LITTLE).tolist()
    gl.relayout_file(tmp_path / "little.npy", tmp_path / "back.npy", target=BIG.layout, source=LITTLE)
    assert np.load(tmp_path / "back.npy").tolist() == buffer_of(BIG).tolist()
    notes = [stored_shape(gl.parse_shape(f"f4e2m1fn[4]{{0:{text(4, order)}}}")).note for order in ORDERS]
    assert notes == [None, "f4e2m1fn[4]{0:E(4,big)}"]


def test_raw_files_say_it(tmp_path):
    """The rows of a PBM file without its header, to a byte for each dot."""
    array = bits_of(9 * 21).reshape(9, 21)
    (tmp_path / "dots.bin").write_bytes(np.packbits(array, axis=1).tobytes())
    shape = f"u1[9,21]{{1,0:PD(9,24){text(1, 'big')}}}"
    gl.relayout_file(tmp_path / "dots.bin", tmp_path / "dots.npy", source=shape)
    assert np.load(tmp_path / "dots.npy").tolist() == array.tolist()
    gl.relayout_file(tmp_path / "dots.bin", tmp_path / "turned.bin", source=shape, target=f"{{0,1:{text(1, 'big')}}}")
    assert (tmp_path / "turned.bin").read_bytes() == np.packbits(array.T.ravel()).tobytes()


def test_graphs_refuse_it_like_other_packed_elements():
    """Steps of a graph move whole elements, and an array in memory is moved right."""
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    array = jax.numpy.asarray(buffer_of(BIG))
    assert np.asarray(gl.relayout(array, BIG, LITTLE)).tolist() == buffer_of(LITTLE).tolist()
    for target in (BIG, LITTLE):
        with pytest.raises(gl.LayoutError) as caught:
            jax.jit(lambda traced: gl.relayout(traced, BIG, target))(array)
        assert str(caught.value).startswith(
            f"element_size_in_bits 2 of {BIG} cannot be lowered: 4 elements share a byte"
        )


def test_chunks_of_dask_say_it():
    dask = pytest.importorskip("dask.array", reason="the extra `dask` is not installed")
    found = gl.dask.relayout(dask.from_array(buffer_of(BIG), chunks=2), BIG, LITTLE)
    assert found.compute(scheduler="sync").tolist() == buffer_of(LITTLE).tolist()
