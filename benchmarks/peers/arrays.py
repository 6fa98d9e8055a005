"""This library, and the same work in plain NumPy or CuPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

import gpulayout as gl
from benchmarks.cases.case import Case, IndexCase, MoveCase
from benchmarks.peers.contender import OURS, PREPARED_CALL, UNPLANNED_CALL, Contender, in_turn
from benchmarks.peers.convert import convert_ways
from benchmarks.peers.packed import plain_ways

# This library's work as a function of input and output, the inputs and outputs it gets, and the plain contenders.
Ways = tuple[Callable[..., Any], Sequence[tuple], list[Contender]]


def array_contenders(xp: ModuleType, case: Case, pairs: list[tuple]) -> list[Contender]:
    """This library into warm memory and into fresh, then plain code.

    pairs   (input, output) arrays that take turns; as `input_and_output` makes them
    """
    ours, items, plain = (_index if isinstance(case, IndexCase) else _MOVES[case.kind])(xp, case, pairs)
    return [
        Contender(OURS, "warm", in_turn(items, ours)),
        Contender(OURS, "fresh", in_turn(items, lambda given, _: ours(given))),
        *plain,
    ]


def small_calls(xp: ModuleType, case: MoveCase, given: Any, out: Any) -> list[Contender]:
    """Single small calls, with everything prepared that can be; the plain copy comes first."""
    buffer, source, target = given.reshape(-1), case.source, case.target
    plan, texts = gl.plan(source, target), (str(source), str(target))
    view, shaped = as_copy(case, given, out)
    return [
        Contender(f"{xp.__name__}.copyto", "call", lambda i: xp.copyto(shaped, view)),
        Contender(PREPARED_CALL, "call", lambda i: plan(buffer, out=out)),
        Contender(UNPLANNED_CALL, "call", lambda i: gl.relayout(buffer, source, target, out=out)),
        Contender(f"{OURS} relayout with texts", "call", lambda i: gl.relayout(buffer, *texts, out=out)),
    ]


def as_copy(case: MoveCase, given: Any, out: Any) -> tuple[Any, Any]:
    """A relayout as a copy from a transposed view to an array of that shape."""
    return (
        (given.transpose(case.order), out.reshape([case.dimensions[dim] for dim in case.order]))
        if case.order
        else (given, out)
    )


# ---- moves -------------------------------------------------------------------------------------------------


def _relayout(xp: ModuleType, case: MoveCase, pairs: list[tuple]) -> Ways:
    flat = [(given.reshape(-1), out) for given, out in pairs]
    return _planned(case), flat, _copies(xp, [as_copy(case, given, out) for given, out in pairs])


def _strided(xp: ModuleType, case: MoveCase, pairs: list[tuple]) -> Ways:
    return _packing(case), pairs, _copies(xp, [(given, out.reshape(case.dimensions)) for given, out in pairs])


def _unpack(xp: ModuleType, case: MoveCase, pairs: list[tuple]) -> Ways:
    shape, inside = case.target, tuple(slice(size) for size in case.dimensions)
    shaped = [(given, out.reshape(case.dimensions)) for given, out in pairs]
    return (
        lambda given, out=None: gl.unpack(given, shape, out=out),
        shaped,
        _copies(xp, [(given.reshape(case.widths)[inside], out) for given, out in shaped]),
    )


def _pack(xp: ModuleType, case: MoveCase, pairs: list[tuple]) -> Ways:
    pad = np.frombuffer(case.target.padding_bytes, case.target.dtype)[0].item()
    inside = tuple(slice(size) for size in case.dimensions)
    margins = [(0, width - size) for size, width in zip(case.dimensions, case.widths)]

    def fill_and_assign(given: Any, out: Any) -> Any:
        whole = out.reshape(case.widths)
        whole.fill(pad)
        whole[inside] = given
        return out

    return (
        _packing(case),
        pairs,
        [
            Contender(f"{xp.__name__} fill and assign", "warm", in_turn(pairs, fill_and_assign)),
            Contender(
                f"{xp.__name__}.pad",
                "fresh",
                in_turn(pairs, lambda given, _: xp.pad(given, margins, constant_values=pad)),
            ),
        ],
    )


def _packed(xp: ModuleType, case: MoveCase, pairs: list[tuple]) -> Ways:
    return _planned(case), pairs, plain_ways(xp, case, pairs)


_MOVES = {
    "relayout": _relayout,
    "pack": _pack,
    "unpack": _unpack,
    "strided": _strided,
    "packed": _packed,
    "convert": convert_ways,
}


def _planned(case: MoveCase) -> Callable[..., Any]:
    plan = gl.plan(case.source, case.target)
    return lambda given, out=None: plan(given, out=out)


def _packing(case: MoveCase) -> Callable[..., Any]:
    shape = case.target
    return lambda given, out=None: gl.pack(given, shape, out=out)


def _copies(xp: ModuleType, views: list[tuple]) -> list[Contender]:
    """Contenders that copy elements from one view to another, or to new memory."""

    def copyto(given: Any, out: Any) -> Any:
        xp.copyto(out, given)
        return out

    return [
        Contender(f"{xp.__name__}.copyto", "warm", in_turn(views, copyto)),
        Contender(
            f"{xp.__name__}.ascontiguousarray", "fresh", in_turn(views, lambda given, _: xp.ascontiguousarray(given))
        ),
    ]


# ---- indices -----------------------------------------------------------------------------------------------


def _index(xp: ModuleType, case: IndexCase, pairs: list[tuple]) -> Ways:
    ours, name, peer = _INDEX_WORK[case.kind](xp, case)
    return ours, pairs, [Contender(name, "fresh", in_turn(pairs, lambda given, _: peer(given)))]


def _linearize(xp: ModuleType, case: IndexCase) -> tuple:
    shape = case.source
    # "raise" on both sides: CuPy's own default is to wrap.
    return (
        lambda given, out=None: gl.linearize(given, shape, out=out),
        f"{xp.__name__}.ravel_multi_index",
        lambda given: xp.ravel_multi_index(tuple(given), case.dimensions, mode="raise"),
    )


def _delinearize(xp: ModuleType, case: IndexCase) -> tuple:
    shape = case.source
    return (
        lambda given, out=None: gl.delinearize(given, shape, out=out),
        f"{xp.__name__}.unravel_index",
        lambda given: xp.unravel_index(given, case.dimensions),
    )


def _convert(xp: ModuleType, case: IndexCase) -> tuple:
    source, target = case.source, case.target
    sizes = tuple(case.dimensions[dim] for dim in case.order)

    def peer(given: Any) -> Any:
        index = xp.unravel_index(given, case.dimensions)
        return xp.ravel_multi_index(tuple(index[dim] for dim in case.order), sizes, mode="raise")

    return (
        lambda given, out=None: gl.convert_linear(given, source, target, out=out),
        f"{xp.__name__} unravel and ravel",
        peer,
    )


_INDEX_WORK = {"linearize": _linearize, "delinearize": _delinearize, "convert_linear": _convert}
