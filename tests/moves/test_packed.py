"""Elements of 1, 2 and 4 bits: packed buffers match the definition bit by bit, and no other bits are used."""

import itertools
import math
import random
from unittest import mock

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from gpulayout.cpu import lookup, native
from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.moves.lookup_move import LookupMove
from gpulayout.moves.move import Move
from gpulayout.moves.packed_move import PackedMove
from tests.support import packed_reference
from tests.support.executors import guarded, guards_intact, source_buffer
from tests.support.kept import forget_transfers
from tests.support.packed_reference import buffer as buffer_of
from tests.support.placed import relayout_pieces

BITS = {"s1": 1, "u1": 1, "s2": 2, "u2": 2, "s4": 4, "u4": 4, "f4e2m1fn": 4}
ORDERS = ("little", "big")
SIZES = {1: (1, 3, 8, 17), 2: (1, 2, 3, 5), 3: (1, 2, 3)}


def logical(name, dimensions):
    """An array as ml_dtypes stores it: an element in the low bits of each byte."""
    return (
        packed_reference.values(math.prod(dimensions), BITS[name])
        .astype(np.uint8)
        .view(gl.Shape(name, ()).dtype)
        .reshape(dimensions)
    )


def pad_name(name):
    """A pad value other than 0."""
    return "lowest" if name[0] == "s" else "highest"


def layouts(name, rank, dimensions):
    """Every order, with and without padding; bit orders so that all four pairs of them follow each other."""
    bits, pad = BITS[name], gl.PaddingValue[pad_name(name).upper()]
    for number, order in enumerate(itertools.permutations(range(rank))):
        first, second = (("little", "little"), ("big", "big"), ("little", "big"), ("big", "little"))[number % 4]
        yield gl.Layout(order, element_size_in_bits=bits, bit_order=first)
        widths = [size + (number + dim) % 3 for dim, size in enumerate(dimensions)]
        padded = gl.Layout(order, padded_dimensions=widths, padding_value=pad, element_size_in_bits=bits)
        yield padded.replace(bit_order=second)


def in_order(shape, bit_order):
    """The same shape with its packed elements in this bit order; one of whole bytes stays."""
    return shape.with_layout(shape.layout.replace(bit_order=bit_order)) if shape.is_packed else shape


def packed_shapes(name):
    """Pairs of shapes of rank 0 to 3 with different layouts."""
    yield gl.parse_shape(f"{name}[]{{:E({BITS[name]})}}"), gl.parse_shape(f"{name}[]{{:L(5)E({BITS[name]})}}")
    for rank, sizes in SIZES.items():
        for dimensions in itertools.product(sizes, repeat=rank):
            found = [gl.Shape(name, dimensions, layout) for layout in layouts(name, rank, dimensions)]
            yield from zip(found, found[1:] + found[:1])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", BITS)
def test_small_shapes_of_every_order(executor, name):
    for number, (source, target) in enumerate(packed_shapes(name)):
        array, expected, phase = logical(name, source.dimensions), buffer_of(source), number % 16
        assert len(expected) == source.nbytes
        out, memory = guarded(executor, np.uint8, source.nbytes, phase)
        assert gl.pack(executor.array(array), source, out=out) is out
        assert executor.host(out).tolist() == expected.tolist(), str(source)
        assert guards_intact(executor, memory, phase, source.nbytes), str(source)
        back = gl.unpack(out, source)
        assert executor.host(back).tobytes() == array.tobytes() and back.shape == array.shape, str(source)
        assert back.dtype == array.dtype or executor.name == "cupy" and back.dtype == np.uint8, str(source)
        moved, memory = guarded(executor, np.uint8, target.nbytes, 5 * phase % 16)
        gl.relayout(out, source, target, out=moved)
        assert executor.host(moved).tolist() == buffer_of(target).tolist(), (str(source), str(target))
        assert guards_intact(executor, memory, 5 * phase % 16, target.nbytes), (str(source), str(target))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", BITS)
def test_between_packed_and_unpacked(executor, name):
    for packed, other in packed_shapes(name):
        bytes_each = other.with_layout(other.layout.replace(element_size_in_bits=0, bit_order="little"))
        buffer = source_buffer(executor, buffer_of(packed))
        there = gl.relayout(buffer, packed, bytes_each)
        wanted = gl.pack(logical(name, packed.dimensions), bytes_each)
        assert executor.host(there).tobytes() == wanted.tobytes(), (str(packed), str(bytes_each))
        assert there.dtype in (wanted.dtype, np.uint8 if executor.name == "cupy" else wanted.dtype)
        again = gl.relayout(there, bytes_each, packed)
        assert again.dtype == np.uint8 and executor.host(again).tolist() == buffer_of(packed).tolist(), str(packed)


@pytest.mark.parametrize("name", BITS)
def test_unpacked_elements_are_those_of_ml_dtypes(executor, name):
    """Each byte equals that of a conversion, so that they compare, add and convert."""
    dtype, bits = gl.Shape(name, ()).dtype, BITS[name]
    everything = np.arange(1 << bits, dtype=np.uint8)
    numbers = everything.view(dtype).astype(np.float32)
    found = executor.host(
        gl.unpack(executor.array(packed_reference.packed(everything, bits)), f"{name}[{1 << bits}]{{0:E({bits})}}")
    )
    assert found.view(np.uint8).tobytes() == numbers.astype(dtype).view(np.uint8).tobytes()
    assert found.view(dtype).astype(np.float32).tolist() == numbers.tolist()


@pytest.mark.parametrize(
    "text", ["u4[3,5]{0,1:PD(3,6)PV(highest)L(7)E(4)}", "s2[3]{0:PD(3)PV(lowest)L(50)E(2)}", "u1[]{:L(5)E(1)}"]
)
def test_tails_are_padding(executor, text):
    shape = gl.parse_shape(text)
    buffer, memory = guarded(executor, np.uint8, shape.nbytes)
    gl.pack(executor.array(logical(shape.element_type.value, shape.dimensions)), shape, out=buffer)
    assert executor.host(buffer).tolist() == buffer_of(shape).tolist() and guards_intact(
        executor, memory, 0, shape.nbytes
    )


def test_unused_bits_are_ignored(executor):
    """Old int4 arrays repeat the sign in the high bits of a byte; spare bits of a packed buffer are not read."""
    array = np.array([-1, 0, -3], np.int8).view(ml_dtypes.int4)
    packed = gl.pack(executor.array(array), "s4[3]{0:E(4)}")
    assert executor.host(packed).tolist() == [0x0F, 0x0D]
    buffer = source_buffer(executor, np.array([0x0F, 0xED], np.uint8))
    assert executor.host(gl.unpack(buffer, "s4[3]{0:E(4)}")).view(np.uint8).tolist() == [15, 0, 13]
    assert executor.host(gl.relayout(buffer, "s4[3]{0:E(4)}", "s4[3]{0:E(4)}")).tolist() == [0x0F, 0x0D]
    assert executor.host(gl.relayout(buffer, "s4[3]{0:E(4)}", "s4[3]{0:PD(6)PV(highest)E(4)}")).tolist() == [
        0x0F,
        0x7D,
        0x77,
    ]


def test_strided_packed_arrays(executor):
    base = executor.array(np.arange(5 * 12 * 7, dtype=np.uint8).reshape(5, 12, 7))
    for view in (
        base[::-1, 1::2, :],
        base.transpose(2, 0, 1),
        base[:, ::-3, ::2].transpose(1, 0, 2),
        base[2:, 5:6, ::-1],
        base[:0],
    ):
        shape = gl.Shape("u2", view.shape, gl.Layout((0, 1, 2), element_size_in_bits=2))
        wanted = packed_reference.packed(executor.host(view).transpose(2, 1, 0).ravel() & 3, 2)
        found = gl.pack(view, shape)
        assert executor.host(found).tolist() == wanted.tolist(), view.strides
        room = executor.array(np.full(base.shape, 0x77, np.uint8))
        offset = tuple(slice(None) for _ in range(3))
        out = room.transpose(1, 2, 0)[: view.shape[0], : view.shape[1], : view.shape[2]][offset]
        if out.shape == view.shape:
            gl.unpack(found, shape, out=out)
            assert executor.host(out).tolist() == (executor.host(view) & 3).tolist()
    narrow = executor.array(np.full((8, 9), 0x77, np.uint8))
    gl.unpack(executor.array(np.array([0xE4, 0x1B], np.uint8)), "u2[2,4]{1,0:E(2)}", out=narrow[1::4, 7::-2])
    assert executor.host(narrow)[1::4, 7::-2].tolist() == [[0, 1, 2, 3], [3, 2, 1, 0]]
    assert (executor.host(narrow) == 0x77).sum() == 72 - 8


TILED = (
    "T(2,8)",
    "T(4,16)(4,1)",
    "T(8,16)(8,1)",
    "T(1,8)",
    "T(16)",
    "T(*,8)",
    "T(2,*,8)",
    "T(2,4)L(50)",
    "T(3,8)",
    "T(4,8)(2,8)",
    "T(2,3)",
    "T(5)(3)",
    "T(*,3)(2)",
)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ("s4", "u2", "s1"))
def test_tiles_to_tiles(executor, name):
    """Sizes that tiles do not divide; tiles and rows of the target end at a byte boundary, or inside a byte."""
    rng, bits, looked_up, count = random.Random(f"tiles {name}"), BITS[name], 0, 60
    for _ in range(count):
        dimensions = [rng.choice((1, 3, 5, 7, 8, 16, 19)) for _ in range(rng.choice((2, 3)))]
        shapes = []
        for tiles in rng.sample(TILED, 2):
            order = ",".join(map(str, rng.sample(range(len(dimensions)), len(dimensions))))
            padding = (
                f"PD({','.join(str(size + rng.randrange(3)) for size in dimensions)})PV({pad_name(name)})"
                if rng.random() < 0.3
                else ""
            )
            shapes.append(
                gl.parse_shape(f"{name}[{','.join(map(str, dimensions))}]{{{order}:{padding}{tiles}E({bits})}}")
            )
        source, target = [in_order(shape, rng.choice(ORDERS)) for shape in shapes]
        buffer = source_buffer(executor, buffer_of(source), rng.randrange(16))
        assert executor.host(gl.unpack(buffer, source)).tobytes() == logical(name, dimensions).tobytes(), str(source)
        apart = executor.array(np.zeros((*dimensions, 3), np.uint8))[..., 1]
        gl.unpack(buffer, source, out=apart)
        assert executor.host(apart).tobytes() == logical(name, dimensions).tobytes(), str(source)
        packed, moved = gl.pack(executor.array(logical(name, dimensions)), target), gl.relayout(buffer, source, target)
        looked_up += type(relayout_pieces(source, target)[0].move) is LookupMove
        assert executor.host(packed).tolist() == executor.host(moved).tolist() == buffer_of(target).tolist(), (
            str(source),
            str(target),
        )
    assert 10 < looked_up < count - 10


@pytest.mark.parametrize("name", ("s4", "u2", "s1"))
def test_tiles_to_rows_of_any_length(executor, name):
    """Rows of the target end inside a byte."""
    rng, bits, looked_up = random.Random(f"rows {name}"), BITS[name], 0
    for number in range(60):
        dimensions = [rng.choice((1, 3, 5, 7, 8, 16, 19)) for _ in range(rng.choice((1, 2, 3)))]
        orders = [",".join(map(str, rng.sample(range(len(dimensions)), len(dimensions)))) for _ in range(2)]
        widths = ",".join(str(size + rng.randrange(3)) for size in dimensions)
        tiles = rng.choice((*TILED, "T(2,3)", "T(1024)(128)(2,1)"))
        source = gl.parse_shape(
            f"{name}[{','.join(map(str, dimensions))}]{{{orders[0]}:{tiles}{f'E({bits})' * (number % 3 > 0)}}}"
        )
        target = gl.parse_layout(
            f"{{{orders[1]}:PD({widths})PV({pad_name(name)}){'L(9)' * (number % 4 == 0)}E({bits})}}"
        )
        source, target = in_order(source, rng.choice(ORDERS)), target.replace(bit_order=rng.choice(ORDERS))
        plan = gl.plan(source, target)
        buffer = (
            source_buffer(executor, buffer_of(source), number % 16)
            if source.is_packed
            else gl.pack(executor.array(logical(name, dimensions)), source)
        )
        out, memory = guarded(executor, np.uint8, plan.target.nbytes, 3 * number % 16)
        plan(buffer, out=out)
        assert executor.host(out).tolist() == buffer_of(plan.target).tolist(), (str(source), str(target))
        assert guards_intact(executor, memory, 3 * number % 16, plan.target.nbytes), (str(source), str(target))
        looked_up += type(plan.move) is LookupMove
    assert looked_up >= 20


TURNED = [
    ("[256,192]{1,0:%s}", "{0,1:%s}"),
    ("[64,3,96]{2,1,0:%s}", "{0,1,2:PD(96,4,128)PV(highest)%s}"),
    ("[128,160]{0,1:%s}", "{1,0:T(32,64)%s}"),
    ("[96,256]{1,0:%s}", "{1,0:T(32,128)(32,1)%s}"),
    ("[5,64,32,3]{3,2,1,0:%s}", "{3,1,2,0:%s}"),
    ("[520,40]{1,0:%s}", "{0,1:%s}"),
    ("[64,32]{1,0:%s}", "{0,1:PV(highest)L(3000)%s}"),
    ("[67,101]{1,0:%s}", "{0,1:%s}"),
    ("[43,3,67]{2,1,0:%s}", "{0,1,2:PD(44,3,70)PV(highest)%s}"),
    ("[75,161]{1,0:%s}", "{0,1:T(8,64)%s}"),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ("u4", "s2", "u1"))
@pytest.mark.parametrize("dimensions, target_text", TURNED)
def test_other_minor_dimensions(executor, monkeypatch, plans_anew, name, dimensions, target_text):
    """Sizes of whole bytes, some of whole words, and odd ones, in many chunks."""
    monkeypatch.setattr(lookup, "CHUNK", 2000)
    monkeypatch.setenv("GPULAYOUT_NUM_THREADS", "3")
    packed = f"E({BITS[name]})"
    little = gl.parse_shape(name + dimensions % packed)
    for phase, orders in zip((0, 4, 6, 0), itertools.product(ORDERS, repeat=2)):
        source, target = map(in_order, (little, little.with_layout(target_text % packed)), orders)
        buffer = source_buffer(executor, buffer_of(source), phase)
        out, memory = guarded(executor, np.uint8, target.nbytes, 8)
        gl.relayout(buffer, source, target, out=out)
        assert executor.host(out).tolist() == buffer_of(target).tolist()
        assert guards_intact(executor, memory, 8, target.nbytes)


@pytest.mark.parametrize("name", ("u4", "s2", "u1"))
def test_bits_after_the_last_element_are_0_for_any_pad(executor, monkeypatch, plans_anew, name):
    """The last of several chunks ends inside a byte."""
    monkeypatch.setattr(lookup, "CHUNK", 64)
    packed = f"E({BITS[name]})"
    for sizes, order in (("[7,19]", "1,0"), ("[7,19]", "0,1"), ("[201]", "0")):
        source = gl.parse_shape(f"{name}{sizes}{{{order}:{packed}}}")
        widths = ",".join(str(size + 4) for size in source.dimensions)
        target = source.with_layout(f"{{{order}:PD({widths})PV(highest){packed}}}")
        assert target.buffer_size * BITS[name] % 8
        found = gl.relayout(source_buffer(executor, buffer_of(source)), source, target)
        assert executor.host(found).tolist() == buffer_of(target).tolist(), str(target)


@pytest.mark.parametrize("name", ("u4", "s2", "u1"))
def test_higher_bits_of_elements_are_not_packed(executor, monkeypatch, plans_anew, name):
    """Elements that lie as they are packed, and others; higher bits in no byte, in a single one, or in most."""
    monkeypatch.setattr(lookup, "CHUNK", 64)
    bits, count = BITS[name], 64 * 6 + 21
    low = packed_reference.values(count, bits).astype(np.uint8)
    one = low.copy()
    one[70] = 1 << bits
    for memory in (low, one, low | (np.arange(count) * 37 << bits).astype(np.uint8)):
        array = executor.array(memory if executor.name == "cupy" else memory.view(gl.Shape(name, ()).dtype))
        for part in (array, array[1:], array[:320], array[::2], array[::-1], array[:402].reshape(3, 134)[:, :128]):
            values = executor.host(part).view(np.uint8).ravel().tolist()
            flat = gl.Layout.descending(part.ndim).replace(element_size_in_bits=bits)
            widths = (*part.shape[:-1], part.shape[-1] + 70)
            padded = flat.replace(padded_dimensions=widths, padding_value=gl.PaddingValue.ONE)
            rows = np.array(values).reshape(part.shape)
            wanted = np.pad(rows, [(0, 0)] * (part.ndim - 1) + [(0, 70)], constant_values=1).ravel()
            for layout, expected in ((flat, values), (padded, wanted)):
                found = executor.host(gl.pack(part, gl.Shape(name, part.shape, layout)))
                assert found.tolist() == packed_reference.packed(expected, bits).tolist()
        assert executor.host(array).tobytes() == memory.tobytes()


def test_which_moves_the_gpu_transposes_in_blocks():
    for source, target, file in (
        ("u4[256,512]{1,0:E(4)}", "{0,1:E(4)}", "bits_turn_wide.cu"),
        ("u1[256,512]{1,0:E(1)}", "{0,1:E(1)}", "bits_turn.cu"),
        ("u2[132,516]{1,0:E(2)}", "{0,1:E(2)}", "bits_turn_any.cu"),
    ):
        assert kernel_plan(gl.plan(source, target).move).file == file, (source, target)


@pytest.fixture(params=["numpy", "native"])
def engine(request):
    """The engine that runs moves on the CPU in this test."""
    with native.chosen(request.param == "native"):
        if request.param == "native" and native.missing():
            pytest.skip(native.missing())
        forget_transfers()
        yield request.param
    forget_transfers()


def test_chunks_of_large_moves(engine):
    """On the CPU: several chunks or boxes, odd sizes, and look-ups."""
    for dimensions, target_text in (
        ((3 * 524287,), "{0:E(4)}"),
        ((911, 1117), "{0,1:PD(915,1117)E(4)}"),
        ((3,) * 12, "{" + ",".join(map(str, range(12))) + ":E(4)}"),
        ((37, 1023, 29), "{1,2,0:E(4)}"),
    ):
        source = gl.Shape("u4", dimensions, gl.Layout(range(len(dimensions))[::-1], element_size_in_bits=4))
        target = gl.parse_shape(source.text_without_layout() + target_text)
        array = logical("u4", dimensions)
        packed = gl.pack(array, source)
        wanted = array.view(np.uint8).ravel()
        assert (packed == (wanted[::2] | np.append(wanted[1::2], [0] * (wanted.size % 2)) << 4)).all()
        moved = gl.relayout(packed, source, target)
        assert (gl.unpack(moved, target).view(np.uint8) == array.view(np.uint8)).all()
        padded = gl.unpack(
            moved, gl.Shape("u4", target.buffer_dimensions, target.layout.replace(padded_dimensions=None))
        )
        assert padded.view(np.uint8).sum(dtype=np.int64) == wanted.sum(dtype=np.int64)


def test_chunks_of_a_large_move_into_tiles(engine):
    """Whole tiles and those at the edges are pieces of their own, which leave places between their bytes."""
    target = gl.parse_shape("u4[4101,1003]{1,0:T(8,128)E(4)}")
    array = logical("u4", target.dimensions)
    packed = gl.pack(array, target)
    assert (gl.unpack(packed, target).view(np.uint8) == array.view(np.uint8)).all()
    places = np.arange(0, target.element_count, 1009)
    indices = np.stack(np.unravel_index(places, target.dimensions))
    linear = gl.linearize(indices, target)
    assert ((packed[linear // 2] >> linear % 2 * 4 & 15) == array.view(np.uint8).ravel()[places]).all()


def test_a_broken_twin_is_caught(numpy_alone):
    """The twin puts the first element into the high bits in both directions, which a round trip does not reveal."""
    shape, array = gl.parse_shape("s4[5]{0:E(4)}"), logical("s4", (5,))
    pack, look_up = lookup.packed, lookup.slots_at

    swapped = mock.patch.object(lookup, "packed", lambda values, bits, big: pack(values, bits, not big))
    turned = mock.patch.object(lookup, "slots_at", lambda *where: look_up(*where[:-1], not where[-1]))
    with swapped, turned:
        packed = gl.pack(array, shape)
        assert gl.unpack(packed, shape).tobytes() == array.tobytes()
        assert packed.tolist() != buffer_of(shape).tolist()


def test_lists_of_relayouts(executor):
    jobs = [
        (source_buffer(executor, buffer_of(source)), source, target)
        for source, target in itertools.islice(packed_shapes("s4"), 3, 40)
    ]
    jobs.append((executor.array(np.arange(6, dtype=np.float32)), "f32[2,3]", "{0,1}"))
    results = gl.relayout_many(jobs)
    for (_, _, target), result in zip(jobs[:-1], results):
        assert result.dtype == np.uint8 and executor.host(result).tolist() == buffer_of(target).tolist(), str(target)
    assert executor.host(results[-1]).tolist() == [0, 3, 1, 4, 2, 5]


def test_new_buffers_are_bytes(executor):
    assert (
        executor.host(gl.zeros("s4[3,5]{1,0:E(4)}")).tolist() == [0] * 8
        and gl.zeros("u1[9]{0:L(32)E(1)}").dtype == np.uint8
    )
    assert gl.pack(executor.array(logical("s2", (3, 3))), "s2[3,3]{1,0:E(2)}").dtype == np.uint8
    indices = np.arange(15)
    assert (
        gl.linearize(np.unravel_index(indices, (3, 5)), "s4[3,5]{0,1:E(4)}").tolist()
        == (indices // 5 + indices % 5 * 3).tolist()
    )


@pytest.mark.parametrize(
    "source, target, kind",
    [
        ("s4[64,64]{1,0:E(4)}", "{1,0:PD(64,80)E(4)}", Move),
        ("s4[64,6,4]{2,1,0:E(4)}", "{2,0,1:E(4)}", Move),
        ("u2[9,4]{1,0:E(2)}", "{1,0:E(2)}", Move),
        ("s4[64,5]{1,0:E(4)}", "{1,0:PD(64,6)E(4)}", PackedMove),
        ("u2[9,6]{1,0:E(2)}", "{1,0:PD(9,8)E(2)}", PackedMove),
        ("s4[256,512]{1,0:T(8,128)E(4)}", "{1,0:T(64,128)E(4)}", Move),
        ("s4[64,64]{1,0:E(4)}", "{0,1:E(4)}", PackedMove),
        ("s4[6]{0:E(4)}", "{0}", PackedMove),
    ],
)
def test_contiguous_runs_of_whole_bytes_move_as_bytes(source, target, kind):
    plan = gl.plan(source, target)
    assert {type(piece.move) for piece in plan.pieces} == {kind}
    assert plan.bytes_written == plan.target.nbytes and f"-> {plan.target}" in str(plan.explain())


@pytest.mark.parametrize(
    "source, target, bits",
    [
        ("s4[40001,40001]{1,0:E(4)}", "{0,1:E(4)}", 32),
        ("s4[65537,65537]{1,0:E(4)}", "{0,1:E(4)}", 64),
        ("u1[4294967297]{0}", "{0:E(1)}", 64),
        ("s4[40001,40001]{1,0:T(8,128)E(4)}", "{1,0:E(4)}", 32),
        ("s4[3,3]{1,0:T(50000,50000)E(4)}", "{1,0:E(4)}", 64),
        ("s4[65537,65537]{1,0:T(8,128)E(4)}", "{1,0:E(4)}", 64),
    ],
)
def test_offsets_are_as_wide_as_both_sides_reach(source, target, bits):
    (piece,) = gl.plan(source, target).pieces
    assert kernel_plan(piece.move).index_bits == bits


@pytest.mark.parametrize(
    "call, kind, message",
    [
        (
            lambda b: gl.unpack(b[:7], "s4[3,5]{1,0:E(4)}"),
            BufferError,
            "buffer has 7 bytes, but s4[3,5]{1,0:E(4)} needs 8",
        ),
        (
            lambda b: gl.unpack(b.view(np.int8), "s4[3,5]{1,0:E(4)}"),
            TypeError,
            "buffer has dtype int8, but s4[3,5]{1,0:E(4)} is packed, 2 elements in a byte: its buffer is uint8",
        ),
        (
            lambda b: gl.unpack(b.view(np.int8), "u1[3,5]{1,0:E(1)}"),
            TypeError,
            "buffer has dtype int8, but u1[3,5]{1,0:E(1)} is packed, 8 elements in a byte: its buffer is uint8",
        ),
        (
            lambda b: gl.relayout(logical("s4", (15,)), "s4[3,5]{1,0:E(4)}", "{0,1}"),
            TypeError,
            "buffer has dtype int4, but s4[3,5]{1,0:E(4)} is packed, 2 elements in a byte: its buffer is uint8",
        ),
        (
            lambda b: gl.relayout(b[::2], "u1[3]{0:E(1)}", "{0}"),
            BufferError,
            "buffer steps by 2 bytes, but a buffer of u1[3]{0:E(1)} is contiguous and steps by 1",
        ),
        (
            lambda b: gl.pack(logical("u4", (3, 5)), "s4[3,5]{1,0:E(4)}"),
            TypeError,
            "array has dtype uint4, but s4[3,5]{1,0:E(4)} needs int4 (or uint8); dtype='s4' converts the elements "
            "on the way",
        ),
        (
            lambda b: gl.pack(logical("s4", (3, 5)), "s4[3,5]{1,0:E(4)}", out=np.zeros(8, np.int16)),
            TypeError,
            "out has dtype int16, but s4[3,5]{1,0:E(4)} is packed, 2 elements in a byte: its buffer is uint8",
        ),
        (
            lambda b: gl.pack(logical("s4", (3, 5)), "s4[3,5]{1,0:E(4)}", out=b[:2]),
            BufferError,
            "out has 2 bytes, but s4[3,5]{1,0:E(4)} needs 8",
        ),
        (
            lambda b: gl.view(b, "s4[3,5]{1,0:E(4)}"),
            gl.LayoutError,
            "element_size_in_bits 4 of s4[3,5]{1,0:E(4)} has no strides in bytes: 2 elements share a byte; "
            "use gl.unpack to copy the array",
        ),
        (
            lambda b: gl.pack(b, "s4[9]{0:E(2)}"),
            gl.LayoutError,
            "element_size_in_bits 2 is not a storage size of s4 for s4[9]{0:E(2)}: s4 takes 4 or 8 bits. Elements "
            "of 2 bits are s2, u2: a move converts to them with dtype='s2' or dtype='u2'",
        ),
    ],
)
def test_errors(call, kind, message):
    before = np.arange(9, dtype=np.uint8)
    buffer = before.copy()
    with pytest.raises(kind) as caught:
        call(buffer)
    assert str(caught.value) == message and (buffer == before).all()
