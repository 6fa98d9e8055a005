"""What the CPU's figures must reach, and the tables of a recorded run, in Markdown: `python -m benchmarks --tables FILE`.

A ratio is the peer's time over this library's, so 2 is twice as fast and below 1 the peer wins.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks.contender import OURS
from benchmarks.goal_cases import CHANNELS, LONG_ROWS, REVERSAL, TWO_DIMENSIONS
from benchmarks.goal_peers import COPY, JAX, TORCH
from benchmarks.goals import PREPARED_CALL, mean

NAIVE = "numpy.copyto"
UNPLANNED_CALL = f"{OURS} relayout(buffer, source, target, out=out)"
MEGABYTE = 1e6

Record = dict[str, Any]


class Figure(NamedTuple):
    """A number, and the case it comes from where it is one case's."""

    value: float
    case: str = ""

    def __str__(self) -> str:
        return f"{self.value:.2f}" + f" ({self.case})" * bool(self.case)


class Goal(NamedTuple):
    """One line of the table: figures with one thread and with all, and the bounds they must keep; None: none is set or measured."""

    against: str
    what: str
    found: tuple[Figure | None, Figure | None]
    wanted: tuple[float | None, float | None]
    at_most: bool = False

    @property
    def verdict(self) -> str:
        """"met", "missed", or with how many threads it was missed."""
        judged = [(found.value <= wanted if self.at_most else found.value >= wanted, words)
                  for found, wanted, words in zip(self.found, self.wanted, ("with one thread", "with all threads"))
                  if found is not None and wanted is not None]
        missed = [words for met, words in judged if not met]
        if not judged:
            return "not measured"
        if not missed:
            return "met"
        return "**missed**" if len(missed) == len(judged) else f"**missed** {missed[0]}"


def goals(found: Record) -> list[Goal]:
    """All lines, in the order in which they were set."""
    return [*_naive(found), *_torch(found), *_jax(found), *_copies(found), *_indices(found), *_small(found), *_scratch(found)]


# ---- the rows --------------------------------------------------------------------------------------------------

def _naive(found: Record) -> list[Goal]:
    ratios = _over(found["relayout"], found["counts"], NAIVE, "warm", peer_threads=1)
    wide, narrow = (lambda r: r["itemsize"] >= 4), (lambda r: r["itemsize"] < 4)
    flat = [record for record in found["relayout"] if record["group"] == TWO_DIMENSIONS]
    against = f"`np.copyto(dst, src.transpose(p))`, {_counted(found, 'relayout')}"
    rows = [("never below 0.95", ratios(least), (0.95, 0.95)),
            ("geometric mean at least 2.2 with one thread, 3.8 with two", ratios(middle), (2.2, 3.8))]
    for words, records, bound in (("2-D of 4 bytes and more at least 3", filter(wide, flat), 3.0),
                                  ("2-D of 1 and 2 bytes at least 4", filter(narrow, flat), 4.0),
                                  ("reversal of 32^5 at least 10", (r for r in found["relayout"] if r["case"] == REVERSAL), 10.0)):
        chosen = _over(list(records), found["counts"], NAIVE, "warm", peer_threads=1)
        rows.append((words, chosen(least), (bound, bound)))
    return [Goal(against, *row) for row in rows]


def _torch(found: Record) -> list[Goal]:
    against = f"torch `dst.copy_(src.permute(p))`, {_counted(found, 'relayout')}"
    ratios = _over(found["relayout"], found["counts"], TORCH, "warm")
    return [Goal(against, "geometric mean at least 1.3 with one thread, 1.75 with two", ratios(middle), (1.3, 1.75)),
            Goal(against, "no case below 0.8 with two", ratios(least), (None, 0.8))]


def _jax(found: Record) -> list[Goal]:
    against = f"jax `jnp.transpose` jitted, new output on both sides, {_counted(found, 'relayout')}"
    ratios = _over(found["relayout"], found["counts"], JAX, "fresh")
    return [Goal(against, "never below 1.0", ratios(least), (None, 1.0)),
            Goal(against, "geometric mean at least 1.5", ratios(middle), (None, 1.5))]


def _copies(found: Record) -> list[Goal]:
    """A plain copy of as many bytes, in as many threads as ours."""
    long_rows = [record for record in found["padding"] if record["group"] == LONG_ROWS]
    channels = [record for record in found["padding"] if record["group"] == CHANNELS and record["kind"] == "pack"]
    return [Goal("a plain copy of as many bytes in as many threads", words,
                 _over(records, found["counts"], COPY, "warm", "copy")(least), (bound, bound))
            for words, records, bound in (("pack and unpack with long rows at least 0.85", long_rows, 0.85),
                                          ("channels-last 3 to 4 at least 0.45", channels, 0.45))]


def _indices(found: Record) -> list[Goal]:
    rows = []
    for kind, peer, bounds in (("delinearize", "numpy.unravel_index", (3.0, 2.0)), ("linearize", "numpy.ravel_multi_index", (1.7, 1.3))):
        records = [record for record in found["index"] if record["kind"] == kind]
        for output, words, bound in zip(("warm", "fresh"), ("warm output", "new output"), bounds):
            ratios = _over(records, found["counts"], peer, output, "fresh", peer_threads=1)
            rows.append(Goal(f"`{peer.replace('numpy', 'np')}`, 10M int64, ranks 3, 4, 6", f"{words} at least {bound}",
                             ratios(least), (bound, bound)))
    return rows


def _small(found: Record) -> list[Goal]:
    return [Goal("small arrays (1 KB), µs above `np.copyto`", f"{words} at most {bound:.0f}",
                 tuple(most([Figure(us, record["case"]) for record in found["small"] if (us := above(record, call, count)) is not None])
                       for count in found["counts"]), (bound, bound), at_most=True)
            for words, call, bound in (("planned call with `out=`", PREPARED_CALL, 3.0), ("`gl.relayout`", UNPLANNED_CALL, 8.0))]


def _scratch(found: Record) -> list[Goal]:
    figures = tuple(most([Figure(entry["bytes"] / MEGABYTE, record["case"]) for record in found["relayout"]
                          for entry in record["scratch"] if entry["threads"] == count]) for count in found["counts"])
    return [Goal(f"new allocation, MB beyond the output, {_counted(found, 'relayout')}", "at most 4", figures, (4.0, 4.0), at_most=True)]


# ---- the arithmetic --------------------------------------------------------------------------------------------

def ratio(record: Record, peer: str, output: str, threads: int, peer_output: str | None = None, peer_threads: int = 0) -> float | None:
    """The peer's median over ours, both with `threads` unless the peer has a number of its own; None when one was not measured."""
    ours = median(record, OURS, output, threads)
    theirs = median(record, peer, peer_output or output, peer_threads or threads)
    return theirs / ours if ours and theirs else None


def above(record: Record, call: str, threads: int) -> float | None:
    """Microseconds that a small call takes more than NumPy's."""
    ours, theirs = median(record, call, "call", threads), median(record, NAIVE, "call", 1)
    return (ours - theirs) * 1e6 if ours and theirs else None


def least(figures: Sequence[Figure]) -> Figure | None:
    """The smallest, None of nothing."""
    return min(figures, default=None)


def most(figures: Sequence[Figure]) -> Figure | None:
    """The largest, None of nothing."""
    return max(figures, default=None)


def middle(figures: Sequence[Figure]) -> Figure | None:
    """The geometric mean, None of nothing."""
    return Figure(mean([figure.value for figure in figures])) if figures else None


def median(record: Record, contender: str, output: str, threads: int) -> float | None:
    """Seconds of one contender, None where it was not measured."""
    return next((run["median_s"] for run in record["runs"]
                 if (run["contender"], run["output"], run["threads"]) == (contender, output, threads)), None)


def _over(records: Sequence[Record], counts: Sequence[int], peer: str, output: str, peer_output: str | None = None,
          peer_threads: int = 0) -> Callable[[Callable], tuple]:
    """What a summary makes of the records' ratios, for every number of threads."""
    columns = [[Figure(value, record["case"]) for record in records
                if (value := ratio(record, peer, output, count, peer_output, peer_threads)) is not None] for count in counts]
    return lambda summary: tuple(summary(column) for column in columns)


def _counted(found: Record, section: str) -> str:
    here, listed = len(found[section]), found["listed"][section]
    return f"{listed} cases" if here == listed else f"{here} of {listed} cases"
