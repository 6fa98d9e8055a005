"""Index conversion on the CPU, in blocks that stay in the cache.

NumPy divides fastest by a scalar and in 32 bits, so a block is narrowed to uint32 when the buffer allows it,
and remainders come from a multiplication and a subtraction.
"""
from __future__ import annotations

import numpy as np

from gpulayout.planning.index_plan import IndexPlan

BLOCK = 1 << 16              # indices: 512 KB of int64, half of a usual second-level cache


def convert(plan: IndexPlan, given: np.ndarray, result: np.ndarray | None, mode: str) -> int | None:
    """See `Backend.convert`."""
    run = _BLOCKS[plan.direction]
    count = given.shape[-1]
    for start in range(0, count, BLOCK):
        part = slice(start, min(start + BLOCK, count))
        offender = run(plan, given[..., part], None if result is None else result[..., part], mode)
        if offender is not None:
            return start + offender
    return None


def _linearize(plan: IndexPlan, index: np.ndarray, linear: np.ndarray | None, mode: str) -> int | None:
    if mode == "raise":
        offender = _first(_outside(index[digit.dim], digit.bound) for digit in plan.digits)
        if offender is not None:
            return offender
    if linear is None:
        return None
    total = np.zeros(index.shape[-1], np.int64)
    term = np.empty_like(total)
    for digit in plan.digits:
        coordinate = index[digit.dim]
        if mode == "wrap":
            coordinate = _wrapped(coordinate, digit.bound)
        elif mode == "clip":
            coordinate = np.clip(coordinate, 0, min(digit.bound - 1, np.iinfo(coordinate.dtype).max))
        np.multiply(coordinate, digit.stride, out=term, dtype=np.int64, casting="unsafe")
        total += term
    np.copyto(linear, total, casting="unsafe")
    return None


def _delinearize(plan: IndexPlan, linear: np.ndarray, index: np.ndarray | None, mode: str) -> int | None:
    outside = _outside(linear, plan.size)
    if outside is not None and outside.any():
        return int(np.argmax(outside))
    coordinates, padding = _digits(plan, linear)
    if padding is not None and mode == "raise" and padding.any():
        return int(np.argmax(padding))
    if index is not None:
        for digit, coordinate in zip(plan.digits, coordinates):
            np.copyto(index[digit.dim], coordinate, casting="unsafe")
        if padding is not None and padding.any():
            index[:, padding] = -1
    return None


def _convert_linear(plan: IndexPlan, source: np.ndarray, target: np.ndarray | None, mode: str) -> int | None:
    outside = _outside(source, plan.size)
    if outside is not None and outside.any():
        return int(np.argmax(outside))
    coordinates, padding = _digits(plan, source)
    if padding is not None and padding.any():
        return int(np.argmax(padding))
    if target is None:
        return None
    total = np.zeros(source.shape[-1], np.int64)
    term = np.empty_like(total)
    for digit, coordinate in zip(plan.digits, coordinates):
        np.multiply(coordinate, digit.stride, out=term, dtype=np.int64, casting="unsafe")
        total += term
    np.copyto(target, total, casting="unsafe")
    return None


_BLOCKS = {"linearize": _linearize, "delinearize": _delinearize, "convert_linear": _convert_linear}


def _digits(plan: IndexPlan, linear: np.ndarray) -> tuple[list[np.ndarray], np.ndarray | None]:
    """The coordinate of every digit, and where any of them lies in padding (None where no digit has padding)."""
    rest = linear.astype(np.uint32 if plan.index_bits == 32 else np.uint64)
    coordinates, padding = [], None
    for position, digit in enumerate(plan.digits):
        if position == len(plan.digits) - 1:
            coordinate = rest                        # the most major digit is what is left
        else:
            extent = rest.dtype.type(max(digit.extent, 1))
            above = rest // extent
            coordinate = rest - above * extent
            rest = above
        coordinates.append(coordinate)
        if digit.bound < digit.extent:
            past = coordinate >= rest.dtype.type(digit.bound)
            padding = past if padding is None else padding | past
    return coordinates, padding


def _outside(values: np.ndarray, bound: int) -> np.ndarray | None:
    """Where values are not in 0..bound-1; None when their type cannot leave it."""
    limits = np.iinfo(values.dtype)
    if limits.min >= 0 and limits.max < bound:
        return None
    if limits.max < bound:
        return values < 0
    # Negative numbers are large unsigned ones: one comparison for both ends.
    unsigned = values.view(f"u{values.itemsize}")
    return unsigned >= unsigned.dtype.type(bound)


def _first(masks) -> int | None:
    """The least position that is set in any of the masks."""
    found = [int(np.argmax(mask)) for mask in masks if mask is not None and mask.any()]
    return min(found, default=None)


def _wrapped(values: np.ndarray, bound: int) -> np.ndarray:
    """values modulo bound, never negative: -1 becomes bound - 1."""
    wide = np.int64 if values.dtype.kind == "i" else np.uint64
    return np.mod(values.astype(wide), wide(bound))
