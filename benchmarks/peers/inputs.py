"""The arrays that cases move."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

from benchmarks.cases.case import Case, MoveCase
from benchmarks.cases.convert import ConvertCase


def input_and_output(xp: ModuleType, case: Case, seed: int) -> tuple[Any, Any]:
    """Input that looks random, and an output of the right size that was written once."""
    if isinstance(case, ConvertCase):
        target = case.target
        kind = target.element_type.carrier if target.element_type.is_extended else target.dtype
        return _numbers(xp, case, seed), xp.zeros(target.buffer_size, kind)
    if case.kind == "packed":
        given = scrambled(xp, -(-case.source.nbytes // 4), seed).view(xp.uint8)[: case.source.nbytes]
        if case.packed == "target":
            given &= xp.uint8((1 << case.bits) - 1)  # one element in a byte
        return given, xp.zeros(case.target.nbytes, xp.uint8)
    if isinstance(case, MoveCase):
        source, target = (case.source, case.target) if case.kind != "unpack" else (case.target, case.source)
        count = math.prod(case.cut_from) if case.cut_from else source.buffer_size
        given = _elements(xp, case, count, seed)
        return _as_given(given, case), xp.zeros(target.buffer_size, target.dtype)
    rank, count = len(case.dimensions), case.count
    if case.kind == "linearize":
        rows = [scrambled(xp, count, seed + dim) % size for dim, size in enumerate(case.dimensions)]
        given = xp.stack(rows).astype(case.dtype)
        return given, xp.zeros(count, case.dtype)
    given = (scrambled(xp, count, seed) % math.prod(case.dimensions)).astype(case.dtype)
    return given, xp.zeros((rank, count) if case.kind == "delinearize" else count, case.dtype)


def _elements(xp: ModuleType, case: MoveCase, count: int, seed: int) -> Any:
    """Random bytes.  For peers that compute instead of moving, ordinary numbers: no NaN, infinity or denormal.

    In the upper half of a word the exponent begins at bit 30: with 0 and 1 there f32 lies in 2^-63 .. 2, and f64
    likewise.
    """
    dtype = case.source.dtype
    words = scrambled(xp, -(-count * dtype.itemsize // 4), seed)
    if dtype.kind == "f" and dtype.itemsize >= 4:
        words &= xp.uint32(0xBFFFFFFF)
        words |= xp.uint32(0x20000000)
    return words.view(xp.uint8)[: count * dtype.itemsize].view(dtype)


def _numbers(xp: ModuleType, case: ConvertCase, seed: int) -> Any:
    """Any integers; floats from -4 to 4, of which bf16 are the upper halves of f32's."""
    dtype, count = case.source.dtype, math.prod(case.dimensions)
    if dtype.kind in "iu":
        words = scrambled(xp, -(-count * dtype.itemsize // 4), seed)
        return words.view(xp.uint8)[: count * dtype.itemsize].view(dtype).reshape(case.dimensions)
    numbers = (scrambled(xp, count, seed) >> xp.uint32(8)).astype(xp.float32) * xp.float32(2.0**-21) - xp.float32(4)
    if case.source_type == "bf16":
        return (numbers.view(xp.uint32) >> xp.uint32(16)).astype(xp.uint16).reshape(case.dimensions)
    return numbers.astype(dtype, copy=False).reshape(case.dimensions)


def _as_given(elements: Any, case: MoveCase) -> Any:
    """The elements as the case's input: a buffer to unpack, else an array; for a strided case a view into one."""
    if case.kind == "unpack":
        return elements
    if case.kind != "strided":
        return elements.reshape(case.dimensions)
    inside = elements.reshape(case.cut_from)[tuple(slice(size) for size in case.dimensions)]
    return inside[tuple(slice(None, None, -1 if dim in case.backward else 1) for dim in range(inside.ndim))]


def scrambled(xp: ModuleType, count: int, seed: int) -> Any:
    """`count` 32-bit words without a pattern that memory or an arithmetic unit could exploit; the same everywhere."""
    words = xp.arange(count, dtype=xp.uint32)
    words += xp.uint32(seed)
    words *= xp.uint32(2654435761)  # Knuth's multiplier, 2^32 divided by the golden ratio
    words ^= words >> xp.uint32(15)
    return words
