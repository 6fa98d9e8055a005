"""pack, unpack and relayout on every order of every small shape, against the reference, on every executor.

Shapes have ranks 0 to 4 and sizes from {0, 1, 2, 3, 5}.  Element types, padding, pad values and address phases change
from case to case in a fixed pattern, so that each is combined with every order.  At rank 4 a usual run takes every
third case, which reaches every size of a dimension with every order; `ci/test --all` takes all.
"""

import functools
import itertools

import numpy as np
import pytest

import gpulayout as gl
from gpulayout import PaddingValue
from tests import reference
from tests.support.effort import ALL
from tests.support.executors import guarded, guards_intact, source_buffer

SIZES = (0, 1, 2, 3, 5)
TYPES = {1: "u8", 2: "u16", 4: "f32", 8: "f64", 16: "c128"}
PADS = {
    1: (None, PaddingValue.ZERO, PaddingValue.ONE, PaddingValue.HIGHEST, 77),
    2: (PaddingValue.LOWEST, PaddingValue.HIGHEST, 513),
    4: (PaddingValue.LOWEST, PaddingValue.UNKNOWN, 2.5, -0.0),
    8: (PaddingValue.HIGHEST, float("nan"), PaddingValue.ONE),
    16: (PaddingValue.ONE, 1 - 2j),
}
EXTRAS = ((0, 1, 0, 2), (1, 0, 3, 0), (2, 1, 1, 1))  # the padding of each dimension


# (rank, first sizes): rank 4 is one test per first size, so that no test takes long.
PARTS = [(rank, SIZES) for rank in range(4)] + [(4, (size,)) for size in SIZES]
by_part = pytest.mark.parametrize(
    "part", PARTS, ids=lambda part: f"rank{part[0]}" + (f"-{part[1][0]}xxx" if part[0] == 4 else "")
)
by_padding = pytest.mark.parametrize("padded", (False, True), ids=("dense", "padded"))


@functools.lru_cache(maxsize=4)  # shared by the executors and both directions
def cases(part, padded):
    """[(number, shape)] for every shape and order, with changing types, padding and pad values."""
    return list(_cases(part, padded))


def _cases(part, padded):
    rank, first = part
    orders = list(itertools.permutations(range(rank)))
    every = itertools.product(*([first] if rank else []), *[SIZES] * (rank - 1))
    for number, (dimensions, order) in enumerate(itertools.product(every, orders)):
        if rank == 4 and not ALL and (number + number // len(orders)) % 3:
            continue
        itemsize = (4, 1, 8, 2, 16)[number % 5]
        pads = PADS[itemsize]
        extra = EXTRAS[number // 5 % 3]
        widths = tuple(size + more for size, more in zip(dimensions, extra)) if padded else None
        layout = gl.Layout(order, padded_dimensions=widths, padding_value=pads[number // 7 % len(pads)])
        yield number, gl.Shape(TYPES[itemsize], dimensions, layout)


def logical_array(shape):
    return reference.payload(shape.element_count, shape.itemsize).view(shape.dtype).reshape(shape.dimensions)


def expected_buffer(shape):
    return reference.buffer_bytes(
        shape.dimensions,
        shape.layout.minor_to_major,
        shape.layout.padded_dimensions,
        shape.itemsize,
        shape.padding_bytes,
    )


def phase_of(number, itemsize):
    """An address modulo 16: a multiple of the element size, usually 0."""
    return (0, 0, itemsize, 0, 3 * itemsize % 16)[number % 5]


@pytest.mark.one_in(3)
@by_padding
@by_part
def test_pack_is_the_reference_buffer_and_unpack_gives_the_array_back(executor, part, padded):
    for number, shape in cases(part, padded):
        phase = phase_of(number, shape.itemsize)
        out, memory = guarded(executor, shape.dtype, shape.buffer_size, phase)
        logical = executor.array(logical_array(shape))
        assert gl.pack(logical, shape, out=out) is out
        assert executor.host(out).tobytes() == expected_buffer(shape), shape
        assert guards_intact(executor, memory, phase, shape.nbytes), shape
        back = gl.unpack(out, shape)
        assert executor.host(back).tobytes() == logical_array(shape).tobytes(), shape
        assert tuple(back.shape) == shape.dimensions


@pytest.mark.one_in(3)
@by_padding
@by_part
def test_relayout_turns_one_reference_buffer_into_the_other(executor, part, padded):
    rank = part[0]
    orders = list(itertools.permutations(range(rank)))
    for (number, source), (_, other) in zip(cases(part, padded), cases(part, not padded or rank % 2 == 0)):
        order = orders[(number * 7 + number // len(orders)) % len(orders)]  # another order for the target
        target = gl.Shape(
            source.element_type,
            source.dimensions,
            gl.Layout(
                order, padded_dimensions=other.layout.padded_dimensions, padding_value=source.layout.padding_value
            ),
        )
        phase = phase_of(number, source.itemsize)
        buffer = source_buffer(
            executor, np.frombuffer(expected_buffer(source), source.dtype), phase_of(number // 5, source.itemsize)
        )
        out, memory = guarded(executor, source.dtype, target.buffer_size, phase)
        gl.relayout(buffer, source, target, out=out)
        assert executor.host(out).tobytes() == expected_buffer(target), (source, target)
        assert guards_intact(executor, memory, phase, target.nbytes), (source, target)


def test_relayout_between_all_pairs_of_orders(executor):
    for dimensions in ((2, 3), (2, 3, 5), (3, 1, 5), (2, 3, 5, 2)):
        for source_order, target_order in itertools.product(itertools.permutations(range(len(dimensions))), repeat=2):
            source, target = (gl.Shape("s32", dimensions, gl.Layout(order)) for order in (source_order, target_order))
            buffer = executor.array(np.frombuffer(expected_buffer(source), np.int32))
            assert executor.host(gl.relayout(buffer, source, target)).tobytes() == expected_buffer(target), (
                source,
                target,
            )


@pytest.mark.parametrize("element_type", list(gl.ElementType))
def test_every_element_type_keeps_its_bytes_and_its_pad(executor, element_type):
    values = [None, PaddingValue.UNKNOWN]
    values += [PaddingValue.ONE] if element_type != "s1" else []
    values += [PaddingValue.ZERO] if element_type != "f8e8m0fnu" else []
    values += [PaddingValue.LOWEST, PaddingValue.HIGHEST] if element_type.kind != "complex" else []
    for value in values:
        shape = gl.Shape(element_type, (3, 4), gl.Layout((0, 1), padded_dimensions=(5, 6), padding_value=value))
        raw = reference.payload(12, shape.itemsize)
        if element_type == "pred":
            raw %= 2
        dtype = executor.backend.held(shape.buffer_dtype)
        logical = executor.array(raw.view(dtype).reshape(3, 4))
        packed = gl.pack(logical, shape)
        table = np.concatenate([raw, np.frombuffer(shape.padding_bytes, np.uint8)[None]])
        numbers = reference.numbers_in_places((3, 4), (0, 1), (5, 6))
        assert executor.host(packed).tobytes() == table[numbers].tobytes()
        assert executor.host(gl.unpack(packed, shape)).tobytes() == raw.tobytes()
