"""Relayouts in place with padding, packed elements and any tiles: the same bytes as in a second buffer."""

import itertools
import random
import tracemalloc

import numpy as np
import pytest

import gpulayout as gl
from tests.support import executors
from tests.support.block_cases import buffer_of
from tests.support.catalogue_cases import random_call
from tests.support.tiled_cases import drawn_layout

BITS = {"u1": 1, "s2": 2, "u4": 4}


def check(executor, source, target, limit, phase=0):
    """Move in memory as long as the longer side.  The bytes around it stay.  False if the limit is too small."""
    plan = gl.plan(source, target)
    source, target = plan.source, plan.target
    where = f"{source} to {target} in {limit} bytes"
    try:
        found = plan.in_place(limit)
    except gl.LayoutError as error:
        check_least(plan, limit, str(error))
        return False
    assert max((step.workspace for step in found.steps_on(executor.backend)), default=0) <= limit, where
    nbytes = max(source.nbytes, target.nbytes)
    buffer, memory = executors.guarded(executor, np.dtype(np.uint8), nbytes, phase)
    buffer[: source.nbytes] = executor.array(buffer_of(source))
    given, out = buffer[: source.nbytes].view(source.buffer_dtype), buffer[: target.nbytes].view(target.buffer_dtype)
    assert gl.relayout(given, source, target, out=out, max_bytes=limit) is out
    assert executor.host(buffer[: target.nbytes]).tolist() == buffer_of(target).tolist(), where
    assert executors.guards_intact(executor, memory, phase, nbytes), where
    return True


def check_least(plan, limit, message):
    """The limit that the error names is enough, and no smaller one is."""
    if "less than an element" in message:
        return
    least = int(message.rpartition("max_bytes=")[2].split()[0])
    assert limit < least and plan.in_place(least).limit == least
    with pytest.raises(gl.LayoutError):
        plan.in_place(least - 1)


def limits(source, target):
    """From what is too small to what holds everything."""
    size = max(source.nbytes, target.nbytes)
    return sorted({1, 7, size // 8, size // 3, size, 1 << 20} - {0})


def layouts(sizes, bits):
    """Layouts of a matrix: both orders, with padding, tiles that divide and that do not, and packed."""
    for order, packed in itertools.product(((1, 0), (0, 1)), ({}, {"element_size_in_bits": bits})):
        for tiles in ((), ((2, 2),), ((2, 3),), ((3, 2), (2, 1))):
            yield gl.Layout(order, tiles=tiles, **packed)
        yield gl.Layout(order, padded_dimensions=[size + 1 for size in sizes], padding_value=1, **packed)


@pytest.mark.one_in(20)
@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize("sizes", list(itertools.product((0, 1, 2, 5), repeat=2)), ids=str)
def test_all_pairs_of_small_matrices(executor, sizes, part):
    shapes = [gl.Shape("u4", sizes, layout) for layout in layouts(sizes, 4)]
    for source, target in itertools.product(shapes[part::5], shapes):
        if random.Random(f"{source}{target}").random() < {"numpy": 1, "native": 0.3, "simt": 0.02}.get(
            executor.name, 0.1
        ):
            for limit in (1, 8):
                check(executor, source, target, limit)


@pytest.mark.one_in(10)
@pytest.mark.parametrize("seed", range(40))
def test_random_pairs(executor, seed):
    rng = random.Random(seed)
    for _ in range(2 if executor.name == "simt" else 12):
        kind = rng.choice(("u8", "f32", "u16", "u1", "s2", "u4", "u4"))
        sizes = [rng.choice((1, 2, 3, 5, 8, 12, 16, 17, 24)) for _ in range(rng.randint(1, 3))]
        sides = []
        for _ in range(2):
            layout = drawn_layout(rng, sizes).replace(padding_value=1)
            if kind in BITS and rng.random() < 0.7:
                layout = layout.replace(element_size_in_bits=BITS[kind], bit_order=rng.choice(("little", "big")))
            if rng.random() < 0.1:
                layout = layout.replace(tail_padding_alignment=rng.choice((5, 16)))
            sides.append(gl.Shape(kind, sizes, layout))
        for limit in limits(*sides):
            check(executor, *sides, limit, phase=rng.choice((0, 8)))


ENTRIES = {entry.name: entry for entry in gl.catalogue.entries()}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ENTRIES)
def test_every_entry_of_the_catalogue(executor, name):
    """A plain array to what the kernel wants, and back."""
    rng = random.Random(name)
    for _ in range(1 if executor.name == "simt" else 3):
        *_, shape = random_call(ENTRIES[name], rng)
        plain = gl.Shape(shape.element_type, shape.dimensions)
        for sides in ((plain, shape), (shape, plain)):
            assert check(executor, *sides, 1 << 20)
            check(executor, *sides, max(shape.nbytes // 8, 1))


@pytest.mark.parametrize(
    "source, target, one_step",
    [
        ("u8[2000,10]", "{1,0:T(128,4)(32,4)(4,1,1,4)}", True),
        ("u4[256,64]", "{1,0:T(16,64)E(4)}", True),  # half the bytes
        ("u4[256,64]{1,0:T(8)(8,1)E(4)}", "{1,0:T(16,64)(8,16)E(4)}", True),  # as many
        ("u4[6,64,64]", "{2,1,0:T(16,64)E(4)}", True),  # a stack of experts
        ("f32[100,60]{0,1}", "{1,0:T(8,64)}", False),
        ("f32[100,60]{1,0:T(8,64)}", "{0,1}", False),
        ("u4[128,96]{0,1:E(4)}", "{1,0}", False),
        ("u4[128,96]{0,1:E(4)}", "{1,0:E(4)}", False),  # bricks of 2 bytes
        ("u4[128,96]{0,1:E(4)}", "{1,0:T(16,64)(8,16)E(4)}", False),
        ("u2[20,16,48]{2,0,1:E(2)}", "{0,1,2:E(2,big)}", False),  # bricks of 4 bytes, and another dimension between
        ("u2[20,13,12]{2,1,0:E(2)}", "{0,2,1:E(2)}", False),
        ("u1[64,64]{1,0:E(1,big)}", "{0,1:E(1)}", False),  # of 8
        ("u8[56,80]{1,0:T(7,8)}", "{1,0:T(8,4)}", False),
    ],
)
def test_an_eighth_is_enough(executor, source, target, one_step):
    plan = gl.plan(source, target)
    limit = max(plan.source.nbytes, plan.target.nbytes) // 8
    kinds = [step.kind for step in plan.in_place(limit).steps]
    assert (kinds == ["streamed"]) == one_step and check(executor, source, target, limit)


@pytest.mark.parametrize("source, target", [("u4[2048,1024]", "{1,0:T(16,64)E(4)}"), ("f32[1999,1001]", "{0,1:T(8)}")])
def test_memory_stays_within_the_workspace(source, target):
    for sides in ((source, target), (gl.plan(source, target).target, source)):
        plan = gl.plan(*sides)
        memory = np.zeros(max(plan.source.nbytes, plan.target.nbytes), np.uint8)
        given, out = (memory[: side.nbytes].view(side.buffer_dtype) for side in (plan.source, plan.target))
        found = plan.in_place()
        found(given, out=out)
        tracemalloc.start()
        try:
            found(given, out=out)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert found.workspace <= found.limit == max(memory.nbytes // 20, 1 << 20)
        assert found.workspace <= peak <= found.workspace + (4 << 20) + (1 << 18)


# ---- what the two arrays may be ------------------------------------------------------------------------------------

GROWS, SHRINKS = ("u8[2,3]", "{1,0:PD(3,4)}"), ("u8[2,3]{1,0:PD(3,4)}", "{1,0}")


@pytest.mark.parametrize("sides", [GROWS, SHRINKS])
def test_either_array_may_be_all_the_memory(sides):
    plan = gl.plan(*sides)
    for short, long in itertools.product((False, True), repeat=2):
        memory = np.zeros(12, np.uint8)
        memory[: plan.source.nbytes] = buffer_of(plan.source)
        given = memory if short else memory[: plan.source.nbytes]
        out = memory if long else memory[: plan.target.nbytes]
        assert gl.relayout(given, *sides, out=out) is out
        assert memory[: plan.target.nbytes].tolist() == buffer_of(plan.target).tolist()


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda m: gl.relayout(m, *GROWS, out=m[:12]),
            r"^buffer has 16 elements, but u8\[2,3\]\{1,0\} has 6: pass buffer\[:6\], or strict=False",
        ),
        (lambda m: gl.relayout(m[:6], *GROWS, out=m), r"^out has 16 elements, but .* has 12: pass out\[:12\], or"),
        (lambda m: gl.relayout(m[:6], *GROWS, out=m[:11]), r"^out has 11 elements, but .* needs 12$"),
        (lambda m: gl.relayout(m[:6], *GROWS, out=m[1:13]), "^buffer and out overlap in memory: out must be separate "),
        (lambda m: gl.relayout(m[:6], *GROWS, out=m[1:13], max_bytes=9), "^out is not the memory of buffer"),
        (lambda m: gl.relayout(read_only(m[:12]), *SHRINKS, out=m[:6]), "^buffer is read-only: a relayout in place"),
    ],
)
def test_errors_come_before_a_byte_is_written(call, message):
    memory = np.arange(16, dtype=np.uint8)
    with pytest.raises(BufferError, match=message):
        call(memory)
    assert memory.tolist() == list(range(16))


def read_only(array):
    array = array.view()
    array.flags.writeable = False
    return array


def test_a_longer_buffer_keeps_its_end():
    memory = np.arange(16, dtype=np.uint8)
    gl.relayout(memory, *GROWS, out=memory, strict=False)
    assert memory.tolist() == [0, 1, 2, 0, 3, 4, 5, 0, 0, 0, 0, 0, 12, 13, 14, 15]


def test_the_dtypes_of_both_arrays_may_differ():
    import ml_dtypes

    memory = np.zeros(12, np.uint8)
    memory[:] = range(12)
    packed = gl.relayout(memory.view(ml_dtypes.uint4), "u4[3,4]", "{1,0:E(4)}", out=memory[:6])
    assert packed.tolist() == [0x10, 0x32, 0x54, 0x76, 0x98, 0xBA]
    codes = gl.relayout(packed, "u4[3,4]{1,0:E(4)}", "{1,0}", out=memory.view(ml_dtypes.uint4))
    assert codes.astype(int).tolist() == list(range(12))


def test_tensors():
    torch = pytest.importorskip("torch")
    memory = torch.arange(24, dtype=torch.uint8) % 16
    before, version = memory.clone(), memory._version
    words = memory[:12].view(torch.int32)
    assert gl.relayout(memory, "u4[6,4]", "{1,0:T(2,4)E(4)}", out=memory[:12], max_bytes=4) is not None
    assert memory._version > version and words.tolist() == (
        gl.relayout(before.numpy(), "u4[6,4]", "{1,0:T(2,4)E(4)}").view(np.int32).tolist()
    )


def test_no_memory_for_the_workspace_leaves_the_buffer(monkeypatch):
    from gpulayout.cpu.run import NumpyBackend

    def full(*_, **__):
        raise MemoryError

    memory = np.arange(12, dtype=np.uint8)
    monkeypatch.setattr(NumpyBackend, "empty", full)
    with pytest.raises(MemoryError):
        gl.relayout(memory[:6], *GROWS, out=memory)
    assert memory.tolist() == list(range(12))


def test_a_plan_says_its_steps():
    found = gl.plan("u4[4096,4096]", "{1,0:T(16,64)E(4)}").in_place("1M")
    assert str(found).splitlines()[1:] == [
        "  memory   524288 bytes, 3.1% of the buffer; on a GPU 1048576, 6.2%",
        "  moved    25165824 bytes: 1.00 times what a relayout to another buffer moves",
        "    step 0  16 blocks of up to 1048576 bytes to 524288 bytes",
    ]
    assert found.as_json()["steps"] == [{"kind": "streamed", "count": 16, "bytes_each": 1048576}]
