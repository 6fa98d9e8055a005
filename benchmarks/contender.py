"""Who takes part in a measurement, and the check that all of them do the same work."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import gpulayout as gl
from benchmarks.cases import Case, IndexCase, MoveCase
from benchmarks.packed_cases import PackedCase, plain_ways

OURS = "gpulayout"


class Contender(NamedTuple):
    """One way to do a case's work.

    call     does it once; the argument counts calls, so that buffers can take turns; gives back the output
    output   what it is compared with: "warm" writes memory that was written before, "fresh" allocates every time
    wait     waits for an output that is made on a stream of its own, where the events of ours do not see it; None for ours
    threads  how many may take part; 0: as it is
    ready    sees to it that so many do, before a sample and outside its time
    """

    name: str
    output: str
    call: Callable[[int], Any]
    wait: Callable[[Any], None] | None = None
    threads: int = 0
    ready: Callable[[], None] = lambda: None


def array_contenders(xp: ModuleType, case: Case, pairs: list[tuple]) -> list[Contender]:
    """This library, and the plain way to write the same with NumPy or CuPy.

    pairs   (input, output) arrays that take turns; as `input_and_output` makes them
    """
    if isinstance(case, PackedCase):
        return _packed(xp, case, pairs)
    return (_index if isinstance(case, IndexCase) else _moves[case.kind])(xp, case, pairs)


def in_turn(items: Sequence[tuple], work: Callable) -> Callable[[int], Any]:
    """Call number i works on the i-th of the items, over and over."""
    return lambda i: work(*items[i % len(items)])


def input_and_output(xp: ModuleType, case: Case, seed: int) -> tuple[Any, Any]:
    """Input that looks random, and an output of the right size that was written once."""
    if isinstance(case, MoveCase):
        source, target = (case.source, case.target) if case.kind != "unpack" else (case.target, case.source)
        count = math.prod(case.cut_from) if case.cut_from else source.buffer_size
        given = _elements(xp, case, count, seed)
        return _as_given(given, case), xp.zeros(target.buffer_size, target.dtype)
    if isinstance(case, PackedCase):
        given = scrambled(xp, -(-case.source.nbytes // 4), seed).view(xp.uint8)[:case.source.nbytes]
        if case.packed == "target":
            given &= xp.uint8((1 << case.bits) - 1)          # one element in a byte
        return given, xp.zeros(case.target.nbytes, xp.uint8)
    rank, count = len(case.dimensions), case.count
    if case.kind == "linearize":
        rows = [scrambled(xp, count, seed + dim) % size for dim, size in enumerate(case.dimensions)]
        given = xp.stack(rows).astype(case.dtype)
        return given, xp.zeros(count, case.dtype)
    given = (scrambled(xp, count, seed) % math.prod(case.dimensions)).astype(case.dtype)
    return given, xp.zeros((rank, count) if case.kind == "delinearize" else count, case.dtype)


def _elements(xp: ModuleType, case: MoveCase, count: int, seed: int) -> Any:
    """Random bytes; where a peer counts instead of moving, ordinary numbers: no NaN, no infinity, no denormal.

    In the upper half of a word the exponent begins at bit 30: with 0 and 1 there f32 lies in 2^-63 .. 2, and f64 likewise.
    """
    dtype = case.source.dtype
    words = scrambled(xp, -(-count * dtype.itemsize // 4), seed)
    if dtype.kind == "f" and dtype.itemsize >= 4:
        words &= xp.uint32(0xBFFFFFFF)
        words |= xp.uint32(0x20000000)
    return words.view(xp.uint8)[:count * dtype.itemsize].view(dtype)


def _as_given(elements: Any, case: MoveCase) -> Any:
    """The elements as the case's input: a buffer to unpack, else an array, for a strided case a view into it."""
    if case.kind == "unpack":
        return elements
    if case.kind != "strided":
        return elements.reshape(case.dimensions)
    inside = elements.reshape(case.cut_from)[tuple(slice(size) for size in case.dimensions)]
    return inside[tuple(slice(None, None, -1 if dim in case.backward else 1) for dim in range(inside.ndim))]


def scrambled(xp: ModuleType, count: int, seed: int) -> Any:
    """`count` 32-bit words without a pattern that memory or an arithmetic unit could profit from; the same everywhere."""
    words = xp.arange(count, dtype=xp.uint32)
    words += xp.uint32(seed)
    words *= xp.uint32(2654435761)           # Knuth's multiplier, 2^32 divided by the golden ratio
    words ^= words >> xp.uint32(15)
    return words


# ---- moves -------------------------------------------------------------------------------------------------

def _relayout(xp: ModuleType, case: MoveCase, pairs: list[tuple]) -> list[Contender]:
    plan = gl.plan(case.source, case.target)
    flat = [(given.reshape(-1), out) for given, out in pairs]
    views = [(given.transpose(case.order) if case.order else given, _shaped(out, case)) for given, out in pairs]
    return [
        Contender(OURS, "warm", in_turn(flat, plan)),
        Contender(f"{xp.__name__}.copyto", "warm", in_turn(views, lambda given, out: _copyto(xp, given, out))),
        Contender(OURS, "fresh", in_turn(flat, lambda given, _: plan(given))),
        Contender(f"{xp.__name__}.ascontiguousarray", "fresh", in_turn(views, lambda given, _: xp.ascontiguousarray(given))),
    ]


def _shaped(out: Any, case: MoveCase) -> Any:
    return out.reshape([case.dimensions[dim] for dim in case.order]) if case.order else out


def _copyto(xp: ModuleType, given: Any, out: Any) -> Any:
    xp.copyto(out, given)
    return out


def _pack(xp: ModuleType, case: MoveCase, pairs: list[tuple]) -> list[Contender]:
    shape, pad = case.target, pad_of(case)
    inside = tuple(slice(size) for size in case.dimensions)
    margins = [(0, width - size) for size, width in zip(case.dimensions, case.widths)]

    def fill_and_assign(given: Any, out: Any) -> Any:
        whole = out.reshape(case.widths)
        whole.fill(pad)
        whole[inside] = given
        return out

    return [
        Contender(OURS, "warm", in_turn(pairs, lambda given, out: gl.pack(given, shape, out=out))),
        Contender(f"{xp.__name__} fill and assign", "warm", in_turn(pairs, fill_and_assign)),
        Contender(OURS, "fresh", in_turn(pairs, lambda given, _: gl.pack(given, shape))),
        Contender(f"{xp.__name__}.pad", "fresh", in_turn(pairs, lambda given, _: xp.pad(given, margins, constant_values=pad))),
    ]


def pad_of(case: MoveCase) -> Any:
    """The padding element as a plain number."""
    return np.frombuffer(case.target.padding_bytes, case.target.dtype)[0].item()


def _unpack(xp: ModuleType, case: MoveCase, pairs: list[tuple]) -> list[Contender]:
    shape = case.target
    inside = tuple(slice(size) for size in case.dimensions)
    shaped = [(given, out.reshape(case.dimensions)) for given, out in pairs]
    views = [(given.reshape(case.widths)[inside], out) for given, out in shaped]
    return [
        Contender(OURS, "warm", in_turn(shaped, lambda given, out: gl.unpack(given, shape, out=out))),
        Contender(f"{xp.__name__}.copyto", "warm", in_turn(views, lambda given, out: _copyto(xp, given, out))),
        Contender(OURS, "fresh", in_turn(pairs, lambda given, _: gl.unpack(given, shape))),
        Contender(f"{xp.__name__}.ascontiguousarray", "fresh", in_turn(views, lambda given, _: xp.ascontiguousarray(given))),
    ]


def _strided(xp: ModuleType, case: MoveCase, pairs: list[tuple]) -> list[Contender]:
    shape = case.target
    shaped = [(given, out.reshape(case.dimensions)) for given, out in pairs]
    return [
        Contender(OURS, "warm", in_turn(pairs, lambda given, out: gl.pack(given, shape, out=out))),
        Contender(f"{xp.__name__}.copyto", "warm", in_turn(shaped, lambda given, out: _copyto(xp, given, out))),
        Contender(OURS, "fresh", in_turn(pairs, lambda given, _: gl.pack(given, shape))),
        Contender(f"{xp.__name__}.ascontiguousarray", "fresh", in_turn(pairs, lambda given, _: xp.ascontiguousarray(given))),
    ]


_moves = {"relayout": _relayout, "pack": _pack, "unpack": _unpack, "strided": _strided}


def _packed(xp: ModuleType, case: PackedCase, pairs: list[tuple]) -> list[Contender]:
    plan = gl.plan(case.source, case.target)
    return [Contender(OURS, "warm", in_turn(pairs, plan)), Contender(OURS, "fresh", in_turn(pairs, lambda given, _: plan(given))),
            *(Contender(name, output, in_turn(pairs, work)) for name, output, work in plain_ways(xp, case))]


# ---- indices -----------------------------------------------------------------------------------------------

def _index(xp: ModuleType, case: IndexCase, pairs: list[tuple]) -> list[Contender]:
    ours, peer_name, peer = _INDEX_WORK[case.kind](xp, case)
    return [
        Contender(OURS, "warm", in_turn(pairs, ours)),
        Contender(OURS, "fresh", in_turn(pairs, lambda given, _: ours(given, None))),
        Contender(peer_name, "fresh", in_turn(pairs, lambda given, _: peer(given))),
    ]


def _linearize(xp: ModuleType, case: IndexCase) -> tuple:
    shape = case.source
    # "raise" on both sides: CuPy's own default is to wrap.
    return (lambda given, out: gl.linearize(given, shape, out=out), f"{xp.__name__}.ravel_multi_index",
            lambda given: xp.ravel_multi_index(tuple(given), case.dimensions, mode="raise"))


def _delinearize(xp: ModuleType, case: IndexCase) -> tuple:
    shape = case.source
    return (lambda given, out: gl.delinearize(given, shape, out=out), f"{xp.__name__}.unravel_index",
            lambda given: xp.unravel_index(given, case.dimensions))


def _convert(xp: ModuleType, case: IndexCase) -> tuple:
    source, target = case.source, case.target
    sizes = tuple(case.dimensions[dim] for dim in case.order)

    def peer(given: Any) -> Any:
        index = xp.unravel_index(given, case.dimensions)
        return xp.ravel_multi_index(tuple(index[dim] for dim in case.order), sizes, mode="raise")

    return lambda given, out: gl.convert_linear(given, source, target, out=out), f"{xp.__name__} unravel and ravel", peer


_INDEX_WORK = {"linearize": _linearize, "delinearize": _delinearize, "convert_linear": _convert}


# ---- the check -----------------------------------------------------------------------------------------------

class Refused(NamedTuple):
    """A peer that does not take part in a case, and why."""

    peer: str
    reason: str


class Prepared(NamedTuple):
    """Contenders that agree, and the peers that do not take part."""

    contenders: list[Contender]
    refused: list[Refused]


def for_sweep(contenders: Sequence[Contender]) -> list[Contender]:
    """Ours and one peer, both into warm memory: what a long list of cases has time for.  The last peer is PyTorch's where it is there."""
    warm = [contender for contender in contenders if contender.output == "warm"]
    return [next(contender for contender in warm if contender.name == OURS), [c for c in warm if c.name != OURS][-1]]


def agreeing(xp: ModuleType, case: Case, contenders: Sequence[Contender], pairs: list[tuple]) -> tuple[list[Contender], list[Refused]]:
    """Those contenders that give what the first peer gives, and the peers that do not; before each the output is overwritten.

    AssertionError when this library gives something else, or no peer gives anything to compare with.
    """
    kept, refused, expected, reference = [], [], None, None
    for contender in sorted(contenders, key=lambda contender: contender.name == OURS):       # the peers say what is right
        try:
            found = _output(xp, case, contender, pairs)
        except Exception as error:
            if contender.name == OURS:
                raise
            refused.append(Refused(contender.name, reason_of(error)))
            continue
        if expected is None and contender.name != OURS:
            expected, reference = found.copy(), contender.name
        if expected is not None and bool(xp.array_equal(expected, found)):
            kept.append(contender)
        elif contender.name == OURS:
            raise AssertionError(f"{case.name}: {OURS} ({contender.output}) gives another result than {reference or 'no peer at all'}")
        else:
            refused.append(Refused(contender.name, f"gives another result than {reference}"))
    return [contender for contender in contenders if contender in kept], refused


def reason_of(error: Exception) -> str:
    """One line."""
    return f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0][:200]}"


def _output(xp: ModuleType, case: Case, contender: Contender, pairs: list[tuple]) -> Any:
    pairs[0][1].view(xp.uint8).fill(0xA5)
    contender.ready()
    output = contender.call(0)
    if contender.wait:
        contender.wait(output)
    return _comparable(xp, case, output)


def _comparable(xp: ModuleType, case: Case, output: Any) -> Any:
    """Plain words for moves, because random bytes may be NaN; numbers for indices, whose dtypes differ."""
    if isinstance(case, IndexCase):
        return xp.stack(output) if isinstance(output, tuple) else output
    flat = xp.asarray(output).reshape(-1)
    return flat.view(np.dtype(f"u{math.gcd(flat.nbytes, 8)}"))       # as few comparisons as there can be
