"""PyTorch as a peer: eager, and compiled by torch.compile for the case's own sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.cases.case import Case, MoveCase
from benchmarks.peers.contender import Contender, in_turn
from benchmarks.peers.words import pad_word, words


class EagerTorch:
    """`copy_` into a view, and the functions that allocate: `contiguous` and `pad`."""

    def __init__(self, torch: Any):
        self.torch = torch

    def __call__(self, case: Case, pairs: list[tuple]) -> list[Contender]:
        return _contenders(self.torch, case, pairs, lambda name, work: (f"torch {name}", work))


class CompiledTorch:
    """The same functions, compiled."""

    def __init__(self, torch: Any):
        self.torch = torch

    def __call__(self, case: Case, pairs: list[tuple]) -> list[Contender]:
        # All cases share the functions' code, and after a few recompilations torch would silently run it eagerly.
        self.torch._dynamo.reset()
        return _contenders(
            self.torch,
            case,
            pairs,
            lambda name, work: (f"torch.compile {name}", self.torch.compile(work, dynamic=False)),
        )


def _contenders(torch: Any, case: Case, pairs: list[tuple], prepared: Callable) -> list[Contender]:
    """prepared   (what it calls, function of input and output) -> (name, function to time)"""
    if not isinstance(case, MoveCase) or case.packed:
        return []
    # A tensor has no negative strides, and passing an array that has them ends the process: such views are passed
    # forwards.
    forwards = [(given[_reversed(case)] if case.backward else given, out) for given, out in pairs]
    items = [(words(torch.from_dlpack, given), words(torch.from_dlpack, out)) for given, out in forwards]
    works = _pack(torch, case) if case.kind == "pack" else _flip(case) if case.backward else _copy(case)
    return [
        Contender(name, output, in_turn(items, work))
        for (called, output), plain in works.items()
        for name, work in [prepared(called, plain)]
    ]


def _reversed(case: MoveCase) -> tuple[slice, ...]:
    return tuple(slice(None, None, -1 if dim in case.backward else 1) for dim in range(len(case.dimensions)))


def _flip(case: MoveCase) -> dict[tuple[str, str], Callable]:
    return {("flip", "fresh"): lambda given, out: given.flip(case.backward)}


def _copy(case: MoveCase) -> dict[tuple[str, str], Callable]:
    """Relayout, unpack and strided input are a copy of a view."""
    inside = tuple(slice(size) for size in case.dimensions)
    order = case.order or tuple(range(len(case.dimensions)))
    sizes = [case.dimensions[dim] for dim in order]

    def view(given: Any) -> Any:
        return given.view(case.widths)[inside] if case.kind == "unpack" else given.permute(order)

    return {
        ("copy_", "warm"): lambda given, out: out.view(sizes).copy_(view(given)),
        ("contiguous", "fresh"): lambda given, out: view(given).contiguous(),
    }


def _pack(torch: Any, case: MoveCase) -> dict[tuple[str, str], Callable]:
    """Filling everything, then copying the elements: two passes."""
    pad, inside = pad_word(case), tuple(slice(size) for size in case.dimensions)
    margins = [
        number for size, width in zip(reversed(case.dimensions), reversed(case.widths)) for number in (0, width - size)
    ]

    def fill_and_copy(given: Any, out: Any) -> Any:
        out.fill_(pad)
        out.view(case.widths)[inside].copy_(given)
        return out

    return {
        ("fill_ and copy_", "warm"): fill_and_copy,
        ("pad", "fresh"): lambda given, out: torch.nn.functional.pad(given, margins, value=pad),
    }
