"""The contenders in a measurement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks.cases.case import Case

OURS = "gpulayout"
PREPARED_CALL = f"{OURS} plan(buffer, out)"
COPY = "numpy.copyto of one run"
UNPLANNED_CALL = f"{OURS} relayout(buffer, source, target, out=out)"


class Contender(NamedTuple):
    """One way to do a case's work.

    call     does it once and returns the output; the argument counts calls, so that buffers can take turns
    output   what it is compared with: "warm" writes memory that was written before, "fresh" allocates every time,
             "call" is a single small call into warm memory, "copy" a plain copy of as many bytes
    wait     waits for an output that is made on another stream, where our events do not see it; None for ours
    threads  the most that may take part; 0 keeps the current setting
    ready    sets the number of threads before a sample, outside its time
    rounding why the last places of its result may be others; "" if it gives the same bytes
    """

    name: str
    output: str
    call: Callable[[int], Any]
    wait: Callable[[Any], None] | None = None
    threads: int = 0
    ready: Callable[[], None] = lambda: None
    rounding: str = ""

    @property
    def is_ours(self) -> bool:
        return self.name.partition(" ")[0] == OURS


Peer = Callable[[Case, list[tuple]], list[Contender]]  # empty if the peer cannot do the work


class Refused(NamedTuple):
    """A peer that does not take part in a case, and why."""

    peer: str
    reason: str


class Prepared(NamedTuple):
    """Contenders that agree, the peers that do not take part, and further findings for the record."""

    contenders: list[Contender]
    refused: list[Refused]
    more: dict[str, Any] = {}


def in_turn(items: Sequence[tuple], work: Callable) -> Callable[[int], Any]:
    """Call number i works on item i, modulo their number."""
    return lambda i: work(*items[i % len(items)])


def for_sweep(contenders: Sequence[Contender]) -> list[Contender]:
    """Ours and one peer, both into warm memory: a long list of cases has no time for more.  Of the peers that gave the
    same bytes the last is PyTorch's if it is installed, then cuBLAS', then CuPy's.
    """
    warm = [contender for contender in contenders if contender.output == "warm"]
    return [next(c for c in warm if c.is_ours), [c for c in warm if not c.is_ours][-1]]


def reason_of(error: Exception) -> str:
    """One line."""
    return f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0][:200]}"
