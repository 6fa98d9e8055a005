"""Random index conversions: shapes of up to six dimensions in any order, padded, some of one place; arrays that end
around what a block takes; indices out of bounds in a third of them; in 32 bits, in 64, and split after any digit.

A conversion depends only on its types, its number and the seed of tests/support/random_moves.py.  To repeat a failure:
    random_indices.drawn("int32", "int64", 17)
"""

import math
import random
from typing import NamedTuple

import numpy as np

import gpulayout as gl
from gpulayout.gpu.index_launch import index_launch
from gpulayout.gpu.kernel_numbers import ITEMS
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.gpu.runtime import Launch
from gpulayout.moves.index_program import convert_program, delinearize_program, linearize_program
from tests.support.kernel_cases import BLOCK, FILES, forced_bits, forced_part
from tests.support.kernel_runs import content, source_memory, target_memory
from tests.support.random_moves import SEED, near
from tests.support.simt import host_module
from tests.support.simt.record import FRESH

MODES = {"linearize": ("raise", "wrap", "clip"), "delinearize": ("raise", "mark"), "convert_linear": ("raise", "mark")}


class Conversion(NamedTuple):
    """A launch and its expected result: nothing for bad indices."""

    name: str
    launch: Launch
    given: np.ndarray  # (rows, count)
    expected: np.ndarray  # (rows, count) as it lies in memory afterwards
    is_bad: np.ndarray  # (count,)


def drawn(given_type, result_type, number, seed=SEED):
    """Conversion `number` between two types of indices."""
    rng = random.Random(f"{given_type} {result_type} {number} {seed}")
    direction = rng.choice(sorted(MODES))
    mode = rng.choice(MODES[direction])
    source, target = _shapes(rng, most=100 if "8" in given_type + result_type else 6000)
    program = {
        "linearize": lambda: linearize_program(source),
        "delinearize": lambda: delinearize_program(source),
        "convert_linear": lambda: convert_program(source, target),
    }[direction]()
    count = near(rng, 1, 32, BLOCK, ITEMS * BLOCK, 2 * ITEMS * BLOCK)
    kind = "wrong" if rng.random() < 0.3 else "places" if mode == "mark" else "elements"
    given = _given(np.random.default_rng(rng.randrange(2**32)), direction, source, count, np.dtype(given_type), kind)
    expected, is_bad = _reference(direction, mode, source, target, given)
    bits, low_digits = rng.choice(((32, 0), (64, 0), *((64, low + 1) for low in range(len(program.instructions)))))
    given_dtype, result_dtype = np.dtype(given_type), np.dtype(result_type)
    with forced_bits(bits), forced_part(low_digits):
        launch = index_launch(
            program, count, mode, (given_dtype.itemsize, given_dtype.kind == "i"), result_dtype.itemsize
        )
    assert launch.file == "index.cu"
    expected = np.atleast_2d(expected).astype(result_type)
    expected.view(np.uint8).reshape(*expected.shape, -1)[:, is_bad] = FRESH
    name = (
        f"random_indices.drawn({given_type!r}, {result_type!r}, {number}, {seed}) is {direction} of {source} "
        f"to {target}, mode {mode}, "
        f"{count} indices, {bits} bits, lower part of {low_digits} digits"
    )
    return Conversion(name, launch, given, expected, is_bad)


def converted(case, order, text=None):
    """(the result, the least position that was reported or 2^64 - 1) of a launch; AssertionError for bytes written
    around it.
    """
    given, first = source_memory(np.frombuffer(case.given.tobytes(), np.uint8), 8)
    result, place = target_memory(case.expected.nbytes, 8)
    offender = np.array([2**64 - 1], np.uint64)
    launch = case.launch
    kernel = host_module.load(text or kernel_text(launch.file), FILES[launch.file], dict(launch.macros)).kernel(
        launch.kernel
    )
    kernel(
        launch.grid,
        BLOCK,
        (given.ctypes.data + first, result.ctypes.data + place, offender.ctypes.data, launch.parameters),
        order,
    )
    got = content(result, place, case.expected.nbytes, case.name).view(case.expected.dtype)
    return got.reshape(case.expected.shape), int(offender[0])


def _shapes(rng, most):
    """The same dimensions in two orders, padded or not; up to `most` places."""
    sizes, room = [], most // 8
    for _ in range(rng.choice((1, 2, 3, 3, 4, 5, 6))):
        sizes.append(rng.choice([size for size in (1, 2, 3, 5, 8, 17, 33, 40) if size <= room]))
        room //= sizes[-1]
    shapes = []
    for _ in range(2):
        widths = [size + (rng.choice((0, 0, 1, 2)) if rng.random() < 0.5 else 0) for size in sizes]
        widths = widths if math.prod(widths) <= most else sizes
        shapes.append(
            gl.Shape("u8", sizes, gl.Layout(rng.sample(range(len(sizes)), len(sizes)), padded_dimensions=widths))
        )
    return shapes


def _given(rng, direction, source, count, dtype, kind):
    """Random indices, rows of coordinates or one row of places: of "elements", or of all "places" with their padding,
    or some "wrong" ones among them, a little outside or far away.
    """
    limits = source.dimensions if direction == "linearize" else (source.buffer_size,)
    places = np.stack([rng.integers(0, limit, count) for limit in limits])
    if direction != "linearize" and kind == "elements":
        index = [rng.integers(0, size, count) for size in source.dimensions]
        places = sum(coordinate * stride for coordinate, stride in zip(index, source.strides))[None]
    if kind == "wrong":
        far = rng.integers(max(np.iinfo(dtype).min, -(10**17)), min(np.iinfo(dtype).max, 10**18), places.shape)
        near_by = np.clip(places + rng.integers(-3, 4, places.shape), max(np.iinfo(dtype).min, -9), np.iinfo(dtype).max)
        places = np.where(
            rng.random(places.shape) < 0.02, far, np.where(rng.random(places.shape) < 0.1, near_by, places)
        )
    return places.astype(dtype)


def _reference(direction, mode, source, target, given):
    """(result, which indices are bad), computed with NumPy's 64-bit integers."""
    given = given.astype(np.int64)
    if direction == "linearize":
        sizes = np.array(source.dimensions)[:, None]
        is_bad = ((given < 0) | (given >= sizes)).any(0) & (mode == "raise")
        index = given % sizes if mode == "wrap" else np.clip(given, 0, sizes - 1)
        return np.array(source.strides) @ index, is_bad
    outside = (given[0] < 0) | (given[0] >= source.buffer_size)
    line = np.where(outside, 0, given[0])
    index = np.stack([line // stride % width for stride, width in zip(source.strides, source.buffer_dimensions)])
    padding = (index >= np.array(source.dimensions)[:, None]).any(0)
    result = np.array(target.strides) @ index if direction == "convert_linear" else index
    return np.where(padding, -1, result), outside | (padding & (mode == "raise"))
