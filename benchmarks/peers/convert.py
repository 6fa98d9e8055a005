"""Ways to convert an array on the way: this library, and NumPy or CuPy step by step and fused.

All do the same steps in f32, in the same order.  `rounding` says why a way may give other last bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

import gpulayout as gl
from benchmarks.cases.convert import DEQUANTISE, NORMALISE, QUANTISE, SCALE, ConvertCase
from benchmarks.peers.contender import Contender, in_turn

LOWEST, HIGHEST = -128, 127  # of s8
PIXELS = 255.0
MAY_FUSE = "may fuse a multiplication and an addition"


def parameters(case: ConvertCase) -> dict[str, np.ndarray]:
    """The parameters by keyword, on the host, as f32.  Those of images are ImageNet's."""
    mean, std = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    count = int(np.prod(case.parameter, dtype=np.int64))
    if case.form == NORMALISE:
        found = {"mean": mean, "std": std}
    elif case.form == SCALE:
        found = {"scale": 1 / (PIXELS * std), "shift": -mean / std}
    elif case.form in (QUANTISE, DEQUANTISE):
        chance = np.random.default_rng(1)
        found = {"scale": chance.uniform(0.02, 0.05, count), "zero_point": chance.integers(-9, 10, count)}
    else:
        return {}
    return {name: np.asarray(values, np.float32).reshape(case.parameter) for name, values in found.items()}


def planned(case: ConvertCase) -> gl.Plan:
    """This library's plan."""
    given: dict[str, Any] = {"dtype": case.target_type, **parameters(case)}
    if "zero_point" in given:
        given["zero_point"] = given["zero_point"].astype(np.int8)
    if case.form == NORMALISE:
        given["unit"] = True
    return gl.plan(case.source, case.target, **given)


def result_on_host(case: ConvertCase, given: np.ndarray) -> np.ndarray:
    """The target's buffer by this library on the CPU, which the tests hold against exact arithmetic."""
    return planned(case)(given.reshape(-1))


def tolerance(case: ConvertCase, largest: float) -> float:
    """By how much a way that rounds otherwise may differ: one for integers, a few last places for floats, nothing in a
    plain cast.

    largest   the magnitude of the results; it bounds the numbers on the way, since a pixel of 0 gives the shift
    """
    if case.form == "cast":
        return 0.0
    return 1.0 if case.form == QUANTISE else 4 * float(np.finfo(case.target.dtype).eps) * largest


# ---- steps -----------------------------------------------------------------------------------------------------------


def split(case: ConvertCase) -> tuple[list[int], list[int]]:
    """The sizes of the array and of a parameter with which they broadcast: a dimension of blocks becomes two."""
    sizes, beside = [], []
    for size, count in zip(case.dimensions, case.parameter or case.dimensions):
        if 1 < count < size:
            sizes += [count, size // count]
            beside += [count, 1]
        else:
            sizes.append(size)
            beside.append(count)
    return sizes, beside


def in_order(case: ConvertCase, array: Any, transpose: Callable[[Any, Sequence[int]], Any]) -> Any:
    """An array in the target's order of dimensions; blocks only occur where that is the source's."""
    return transpose(array, case.order) if case.is_turned else array


def operands(case: ConvertCase) -> list[np.ndarray]:
    """The parameters as f32 arrays that broadcast against the array in the target's order, the divisor 255 first."""
    unit = [np.full((1,) * len(case.dimensions), PIXELS, np.float32)] if case.form == NORMALISE else []
    found = [values.reshape(split(case)[1]) for values in parameters(case).values()]
    return unit + [np.ascontiguousarray(in_order(case, values, np.transpose)) for values in found]


def steps(xp: ModuleType, form: str) -> Callable[..., Any]:
    """A function of an array, the operands, and an output that it writes."""

    def scale_and_shift(x: Any, scale: Any, shift: Any, out: Any) -> None:
        out[...] = x * scale + shift

    def normalise(x: Any, unit: Any, mean: Any, std: Any, out: Any) -> None:
        out[...] = (x / unit - mean) / std

    def quantise(x: Any, scale: Any, zero_point: Any, out: Any) -> None:
        out[...] = xp.clip(xp.rint(x / scale) + zero_point, LOWEST, HIGHEST).astype(xp.int8)

    def dequantise(x: Any, scale: Any, zero_point: Any, out: Any) -> None:
        out[...] = (x - zero_point) * scale

    def cast(x: Any, out: Any) -> None:
        out[...] = x

    return {SCALE: scale_and_shift, NORMALISE: normalise, QUANTISE: quantise, DEQUANTISE: dequantise}.get(form, cast)


def convert_ways(xp: ModuleType, case: ConvertCase, pairs: list[tuple]) -> tuple[Any, Sequence[tuple], list[Contender]]:
    """As the other ways of peers/arrays.py: this library's call, its arrays, and the plain contenders."""
    plan = planned(case)
    flat = [(given.reshape(-1), out) for given, out in pairs]
    is_native = not (case.source.element_type.is_extended or case.target.element_type.is_extended)
    plain = _plain(xp, case, pairs) if is_native or xp is np else []
    return (lambda given, out=None: plan(given, out=out)), flat, plain


def _plain(xp: ModuleType, case: ConvertCase, pairs: list[tuple]) -> list[Contender]:
    sizes, _ = split(case)
    result = [sizes[dim] for dim in case.order] if case.is_turned else sizes
    given = [xp.asarray(values) for values in operands(case)]
    items = [
        (
            in_order(case, array.view(case.source.dtype).reshape(sizes), xp.transpose),
            out.view(case.target.dtype).reshape(result),
            out,
        )
        for array, out in pairs
    ]
    ways = {f"{xp.__name__} steps": (steps(xp, case.form), "")}
    if xp is not np:
        ways["cupy.fuse"] = (xp.fuse()(steps(xp, case.form)), MAY_FUSE)

    def writing(work: Callable[..., Any]) -> Callable[[Any, Any, Any], Any]:
        def call(view: Any, out: Any, whole: Any) -> Any:
            work(view, *given, out)
            return whole

        return call

    return [
        Contender(name, "warm", in_turn(items, writing(work)), rounding=rounding)
        for name, (work, rounding) in ways.items()
    ]
