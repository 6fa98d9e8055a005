"""Checked small moves and conversions through every kernel file, for compute-sanitizer to watch.

Buffers are exactly as long as they must be, begin at every kind of alignment, and are allocated one by one, without a
memory pool, so that an access past an end is an access outside an allocation.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import gpulayout as gl
from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.index_launch import index_launch
from gpulayout.gpu.many import JobMove, many_plan
from gpulayout.moves.index_program import linearize_program
from tests.support.kernel_cases import kernel_files
from tests.support.placed import relayout_move

# dimensions, source order and target order (most major first), target widths, elements before the buffers begin
MOVES = [
    ((257,), (0,), (0,), None, 0),  # a contiguous copy
    ((257,), (0,), (0,), None, 1),  # with a head before the first vector
    ((5, 7, 48), (0, 1, 2), (1, 0, 2), None, 0),  # rows, in vectors
    ((5, 7, 13), (0, 1, 2), (1, 0, 2), (6, 8, 16), 0),  # rows with padding
    ((130, 96), (0, 1), (1, 0), None, 0),  # aligned tiles, the last ones cut off
    ((130, 96), (0, 1), (1, 0), (144, 128), 0),  # the same with padding
    ((3, 61, 37), (0, 1, 2), (0, 2, 1), None, 0),  # odd tiles
    ((67, 33), (0, 1), (1, 0), (70, 35), 1),  # odd, padded, and beginning at any address
    ((131, 70), (0, 1), (1, 0), (135, 75), 1),  # the same, and long enough for tiles of words
    ((7, 5, 6, 3, 9), (0, 1, 2, 3, 4), (4, 0, 2, 3, 1), None, 1),  # tiles of many axes
    ((7, 5, 6, 3, 9), (0, 1, 2, 3, 4), (4, 0, 2, 3, 1), (8, 5, 6, 4, 11), 0),  # the same with padding
    ((3, 300, 3), (0, 1, 2), (0, 2, 1), None, 0),  # pixels of 3 channels to planes
    ((3, 3, 300), (0, 1, 2), (0, 2, 1), (3, 4, 304), 0),  # planes to pixels of 4 channels
    ((2, 3, 2, 3, 2), (0, 1, 2, 3, 4), (4, 3, 2, 1, 0), None, 0),  # runs too short for tiles
]
# source, target, bytes before the buffers begin: packed elements that do not move as whole bytes
PACKED = [
    ("s4[37,51]{1,0:E(4)}", "{0,1:PD(39,51)PV(lowest)E(4)}", 0),  # single elements
    ("u2[29,64]{1,0:PD(29,67)E(2)}", "{1,0:E(2)}", 3),  # shifted words
    ("u1[1001]{0:E(1)}", "{0}", 1),  # unpacked
    ("s4[1001]{0}", "{0:PD(1011)E(4)}", 2),  # packed
    ("s4[13,19]{1,0:T(8,8)(8,1)E(4)}", "{1,0:PD(14,19)PV(highest)E(4)}", 3),  # tiles to rows that end inside of bytes
    ("s4[16,20]{1,0:E(4)}", "{1,0:T(8,8)(8,1)E(4)}", 1),  # tiles of whole bytes, one of them cut
    ("s4[16,20]{1,0:T(8,8)E(4)}", "{1,0}", 1),  # tiles to bytes: runs with gaps between them
    ("s4[64,72]{1,0:E(4)}", "{0,1:PD(80,72)PV(highest)E(4)}", 4),  # blocks of whole words, turned
    ("u1[96,64]{0,1:E(1)}", "{1,0:E(1)}", 8),
    ("u4[224,256]{1,0:E(4)}", "{0,1:E(4)}", 16),  # the same in vectors on both sides
    ("u8[60,70]{1,0:T(7,11)}", "{1,0:PV(3)T(8,13)}", 3),  # boxes without number: places looked up
]
# source, target, arithmetic, elements before the buffers begin
CONVERTED = [
    ("u8[37,52]{1,0}", "f32[37,52]{1,0:PD(37,56)PV(7)}", {"scale": np.ones((37, 1)), "shift": np.array(3.0)}, 0),
    ("u8[37,51]{1,0}", "f16[37,51]{0,1}", {"mean": np.array(3), "std": np.array(0.25), "unit": True}, 1),  # turned
    (
        "f32[37,51]{1,0}",
        "s4[37,51]{0,1:E(4)}",
        {"scale": np.array(2.0**32), "zero_point": np.array(1)},
        1,
    ),  # and packed
    ("f64[9,5,26]{2,0,1:T(3)(2)}", "f8e4m3fn[9,5,26]{1,2,0:T(2,*,4)(3)}", {}, 0),  # tiles
]
ELEMENT_TYPES = ("u8", "f16", "f32", "f64", "c128")
INDEX_DTYPES = ("int8", "uint8", "int16", "int32", "uint32", "int64")
INDEX_SHAPES = ("u8[5,3,4]{1,2,0:PD(6,4,4)}", "u8[5,3,4]{1,2,0:T(3,2)(2)}", "u8[5,3,4]{1,2,0:T(2,*,5)}")


wrong: list[str] = []


def _wrong(what: str) -> None:
    """Notes a wrong result.  The others run all the same: a device is lent rarely, and each tells something."""
    wrong.append(what)
    print(what, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=("cupy", "numpy"), required=True)
    xp = _arrays(parser.parse_args().backend)
    moves = []
    for element_type in ELEMENT_TYPES:
        for dimensions, source_order, target_order, widths, before in MOVES:
            source = gl.Shape(element_type, dimensions, gl.Layout.from_major_to_minor(source_order))
            target = source.with_layout(gl.Layout.from_major_to_minor(target_order, padded_dimensions=widths))
            moves.append((source, target, before))
    used = (
        {_move(xp, *move) for move in moves} | _move_together(xp, moves) | {_move_packed(xp, *move) for move in PACKED}
    )
    used |= {_move_with_arithmetic(xp, *move) for move in CONVERTED}
    for dtype in INDEX_DTYPES:
        used |= {_convert(xp, dtype, text) for text in INDEX_SHAPES}
    missing = set(kernel_files()) - used
    verdict = f"{len(wrong)} WRONG" if wrong else "right everywhere"
    print(
        f"{len(moves)} moves, one by one and together, {len(PACKED)} of packed elements and odd tiles, "
        f"{len(CONVERTED)} with arithmetic, "
        f"and {3 * len(INDEX_DTYPES) * len(INDEX_SHAPES)} index conversions, {verdict}; "
        f"kernel files: {', '.join(sorted(used))}"
    )
    if missing:
        print(f"no launch of {', '.join(sorted(missing))}", file=sys.stderr)
    return 1 if missing or wrong else 0


def _arrays(backend: str):
    if backend == "numpy":
        return np
    import cupy

    cupy.cuda.set_allocator(None)
    return cupy


def _move(xp, source: gl.Shape, target: gl.Shape, before: int) -> str:
    """Pack, relayout, unpack; the file of the relayout's kernel."""
    logical = (
        np.random.default_rng(0).integers(0, 256, source.element_count * source.itemsize, np.uint8).view(source.dtype)
    )
    logical = logical.reshape(source.dimensions)
    buffer = _buffer(xp, source, before)
    moved = _buffer(xp, target, before)
    gl.pack(xp.asarray(logical), source, out=buffer)
    gl.relayout(buffer, source, target, out=moved)
    back = gl.unpack(moved, target)
    if _host(moved).tobytes() != gl.pack(logical, target).tobytes() or _host(back).tobytes() != logical.tobytes():
        _wrong(f"relayout {source} -> {target} gave wrong bytes")
    phase = before * source.itemsize % 16
    return kernel_plan(relayout_move(source, target), phase, phase).file


def _move_packed(xp, source: str, target: str, before: int) -> str:
    """Relayout, and unpack to an array with gaps; the file of the relayout's kernel."""
    plan = gl.plan(source, target)
    given = np.random.default_rng(0).integers(0, 256, plan.source.nbytes, np.uint8)
    buffer, moved = _buffer(xp, plan.source, before), _buffer(xp, plan.target, before)
    buffer[:] = xp.asarray(given)
    plan(buffer, out=moved)
    back = xp.zeros((*plan.target.dimensions, 2), np.uint8)[..., 1]
    gl.unpack(moved, plan.target, out=back)
    expected = plan(given)
    if (
        _host(moved).tobytes() != expected.tobytes()
        or _host(back).tobytes() != gl.unpack(expected, plan.target).tobytes()
    ):
        _wrong(f"relayout {source} -> {target} gave wrong bytes")
    return kernel_plan(plan.move, before % 16, before % 16).file


def _move_with_arithmetic(xp, source: str, target: str, options: dict, before: int) -> str:
    """Relayout; the file of the kernel for the arithmetic."""
    written = gl.parse_shape(target)
    plan = gl.plan(source, written.layout, dtype=written.element_type, **options)
    given = np.random.default_rng(0).integers(0, 256, plan.source.nbytes, np.uint8)
    buffer, moved = _buffer(xp, plan.source, before), _buffer(xp, plan.target, before)
    buffer.view(xp.uint8)[:] = xp.asarray(given)
    plan(buffer, out=moved)
    expected = plan(given.view(plan.source.dtype)).view(np.uint8)
    if not _same_numbers(_host(moved).view(np.uint8), expected, plan.target):
        _wrong(f"relayout {source} -> {target} with {options} gave wrong bytes")
    return kernel_plan(plan.move, before * plan.source.itemsize % 16, 0).file


def _same_numbers(found: np.ndarray, expected: np.ndarray, shape: gl.Shape) -> bool:
    """Whether two buffers have the same bytes, nans excepted."""
    if shape.is_packed:
        return found.tobytes() == expected.tobytes()
    numbers = [each.view(shape.dtype).astype(np.float64) for each in (found, expected)]
    return np.array_equal(*numbers, equal_nan=True)


def _move_together(xp, moves: list[tuple[gl.Shape, gl.Shape, int]]) -> set[str]:
    """All the moves as one list; the files of the launches that several of them share."""
    jobs, outs = [], []
    for source, target, before in moves:
        buffer = _buffer(xp, source, before)
        buffer.view(xp.uint8)[:] = xp.arange(source.nbytes) % 251
        jobs.append((buffer, source, target))
        outs.append(_buffer(xp, target, before))
    gl.relayout_many(jobs, out=outs)
    for (buffer, source, target), out in zip(jobs, outs):
        if _host(out).tobytes() != gl.relayout(_host(buffer), source, target).tobytes():
            _wrong(f"relayout {source} -> {target} among others gave wrong bytes")
    phases = [before * source.itemsize % 16 for source, _, before in moves]
    requests = [
        JobMove(number, relayout_move(source, target), phase, phase)
        for number, ((source, target, _), phase) in enumerate(zip(moves, phases))
    ]
    return {launch.file for launch in many_plan(tuple(requests)).shared}


def _buffer(xp, shape: gl.Shape, before: int):
    """Memory full of ones that ends with the buffer's last element."""
    dtype = shape.element_type.carrier if shape.element_type.is_extended else shape.dtype  # CuPy lacks what NumPy lacks
    return xp.full((before + shape.buffer_length) * shape.itemsize, 0xFF, xp.uint8).view(dtype)[before:]


def _convert(xp, dtype: str, text: str) -> str:
    """Every index of a layout there and back, and into another layout; the file of the kernels."""
    source = gl.parse_shape(text)
    target = gl.parse_shape("u8[5,3,4]{2,1,0}")
    index = np.indices(source.dimensions, dtype).reshape(3, -1)
    linear = gl.linearize(xp.asarray(index), source)
    narrow = linear.astype(dtype)
    there = gl.delinearize(narrow, source, out=xp.zeros(index.shape, np.int64))
    converted = gl.convert_linear(narrow, source, target)
    if not (np.array_equal(_host(there), index) and np.array_equal(_host(converted), np.arange(index.shape[1]))):
        _wrong(f"index conversion of {source} with {dtype} is wrong")
    return index_launch(linearize_program(source), index.shape[1], "raise", (narrow.itemsize, True), 8).file


def _host(array) -> np.ndarray:
    return array if isinstance(array, np.ndarray) else array.get()


if __name__ == "__main__":
    sys.exit(main())
