"""What the figures of a run must reach on a CPU and on a GPU, and whether they do.

A ratio is the peer's time over this library's: 2 means twice as fast, and below 1 the peer wins.  A fraction is
relative to the run's own plain copy; the fraction that a single case must reach is part of the case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.cases.cpu_goals import CHANNELS, LONG_ROWS, REVERSAL, TWO_DIMENSIONS
from benchmarks.cases.wanted import TTC_ROW
from benchmarks.peers.contender import COPY, PREPARED_CALL, UNPLANNED_CALL
from benchmarks.record import Record, above_first, best_peer, fraction_of, mean, ratio, time_of

NAIVE, TORCH, JAX = "numpy.copyto", "torch copy_", "jax.jit"
MEGABYTE = 1e6
PEER_ROW, PEER_MEAN = 0.97, 1.3  # the best peer's time over ours: on every row, and its geometric mean
TTC_MEAN = 0.92
HOST_US = 5.0  # the most host time for one call of a prepared plan with `out`


class Figure(NamedTuple):
    """A number, and its case if it belongs to a single one."""

    value: float
    case: str = ""

    def __str__(self) -> str:
        return f"{self.value:.2f}" + f" ({self.case})" * bool(self.case)


class Goal(NamedTuple):
    """One line of the table: figures with one thread and with all, and their bounds; None if not set or not measured.

    A GPU has one figure.
    """

    against: str
    what: str
    found: Sequence[Figure | None]
    bounds: Sequence[float | None]
    at_most: bool = False

    @property
    def missed(self) -> list[bool | None]:
        """For each figure, None if there is nothing to judge."""
        return [
            None if found is None or bound is None else found.value > bound if self.at_most else found.value < bound
            for found, bound in zip(self.found, self.bounds)
        ]

    @property
    def verdict(self) -> str:
        """ "met", "missed", or the number of threads with which it was missed."""
        judged = [
            (missed, words)
            for missed, words in zip(self.missed, ("with one thread", "with all threads"))
            if missed is not None
        ]
        missed = [words for missed, words in judged if missed]
        if not judged:
            return "not measured"
        return "met" if not missed else "**missed**" if len(missed) == len(judged) else f"**missed** {missed[0]}"


def middle(figures: Sequence[Figure], default: None = None) -> Figure | None:
    """The geometric mean; None if there are no figures."""
    return Figure(mean([figure.value for figure in figures])) if figures else default


class Wanted(NamedTuple):
    """One goal.

    against  the peer; {cases} is the number of the section's cases
    figure   of a record and a number of threads: the judged value, None if it was not measured
    summary  combines all cases: min, max or middle
    bounds   with one thread and with all; None if not set
    chosen   the records that count
    """

    against: str
    what: str
    section: str
    figure: Callable[[Record, int], float | None]
    summary: Callable[..., Figure | None]
    bounds: Sequence[float | None]
    chosen: Callable[[Record], bool] = lambda record: True
    at_most: bool = False


def _over(
    peer: str, output: str = "warm", peer_output: str | None = None, peer_threads: int | None = None
) -> Callable[[Record, int], float | None]:
    return lambda record, threads: ratio(record, peer, output, threads, peer_output, peer_threads)


def _scratch(record: Record, threads: int) -> float | None:
    return next((entry["bytes"] / MEGABYTE for entry in record["scratch"] if entry["threads"] == threads), None)


def _indices(kind: str, peer: str, warm: float, fresh: float) -> list[Wanted]:
    against = f"`{peer.replace('numpy', 'np')}`, 10M int64, ranks 3, 4, 6"
    return [
        Wanted(
            against,
            f"{words} output at least {bound}",
            "index",
            _over(peer, output, "fresh", 1),
            min,
            (bound, bound),
            lambda record: record["kind"] == kind,
        )
        for output, words, bound in (("warm", "warm", warm), ("fresh", "new", fresh))
    ]


_COPYTO = "`np.copyto(dst, src.transpose(p))`, {cases}"
_TORCH = "torch `dst.copy_(src.permute(p))`, {cases}"
_JAX = "jax `jnp.transpose` jitted, new output on both sides, {cases}"
_PLAIN = "a plain copy of the same size with as many threads"
_NAIVE = _over(NAIVE, peer_threads=1)
_CALLS = "small arrays (1 KB), µs above `np.copyto`"

CPU_GOALS: Sequence[Wanted] = (
    Wanted(_COPYTO, "never below 0.95", "relayout", _NAIVE, min, (0.95, 0.95)),
    Wanted(
        _COPYTO, "geometric mean at least 2.2 with one thread, 3.8 with two", "relayout", _NAIVE, middle, (2.2, 3.8)
    ),
    Wanted(
        _COPYTO,
        "2-D of 4 bytes and more at least 3",
        "relayout",
        _NAIVE,
        min,
        (3.0, 3.0),
        lambda record: record["group"] == TWO_DIMENSIONS and record["itemsize"] >= 4,
    ),
    Wanted(
        _COPYTO,
        "2-D of 1 and 2 bytes at least 4",
        "relayout",
        _NAIVE,
        min,
        (4.0, 4.0),
        lambda record: record["group"] == TWO_DIMENSIONS and record["itemsize"] < 4,
    ),
    Wanted(
        _COPYTO,
        "reversal of 32^5 at least 10",
        "relayout",
        _NAIVE,
        min,
        (10.0, 10.0),
        lambda record: record["case"] == REVERSAL,
    ),
    Wanted(
        _TORCH,
        "geometric mean at least 1.3 with one thread, 1.75 with two",
        "relayout",
        _over(TORCH),
        middle,
        (1.3, 1.75),
    ),
    Wanted(_TORCH, "no case below 0.8 with two", "relayout", _over(TORCH), min, (None, 0.8)),
    Wanted(_JAX, "never below 1.0", "relayout", _over(JAX, "fresh"), min, (None, 1.0)),
    Wanted(_JAX, "geometric mean at least 1.5", "relayout", _over(JAX, "fresh"), middle, (None, 1.5)),
    Wanted(
        _PLAIN,
        "pack and unpack with long rows at least 0.85",
        "padding",
        _over(COPY, "warm", "copy"),
        min,
        (0.85, 0.85),
        lambda record: record["group"] == LONG_ROWS,
    ),
    Wanted(
        _PLAIN,
        "channels-last 3 to 4 at least 0.45",
        "padding",
        _over(COPY, "warm", "copy"),
        min,
        (0.45, 0.45),
        lambda record: record["group"] == CHANNELS and record["kind"] == "pack",
    ),
    *_indices("delinearize", "numpy.unravel_index", 3.0, 2.0),
    *_indices("linearize", "numpy.ravel_multi_index", 1.7, 1.3),
    Wanted(
        _CALLS,
        "planned call with `out=` at most 3",
        "small",
        lambda record, count: above_first(record, PREPARED_CALL, count),
        max,
        (3.0, 3.0),
        at_most=True,
    ),
    Wanted(
        _CALLS,
        "`gl.relayout` at most 8",
        "small",
        lambda record, count: above_first(record, UNPLANNED_CALL, count),
        max,
        (8.0, 8.0),
        at_most=True,
    ),
    Wanted(
        "new allocation, MB beyond the output, {cases}",
        "at most 4",
        "relayout",
        _scratch,
        max,
        (4.0, 4.0),
        at_most=True,
    ),
)


def _best(record: Record, threads: int) -> float | None:
    peer = best_peer(record)
    return peer and peer["against"]


def _ttc(element_type: str) -> list[Wanted]:
    return [
        Wanted(
            f"a copy, TTC {element_type}",
            f"{words} at least {bound}",
            "ttc",
            lambda record, count: fraction_of(record),
            summary,
            (bound,),
            lambda record: record["case"].startswith(element_type + " "),
        )
        for words, summary, bound in (("geometric mean", middle, TTC_MEAN), ("every one", min, TTC_ROW))
    ]


# No peer has a kernel for packed elements, so they would make the mean easier to reach.
GPU_GOALS: Sequence[Wanted] = (
    Wanted(
        "host time of one call, µs",
        f"prepared plan at most {HOST_US}",
        "small",
        lambda record, count: (seconds := time_of(record, PREPARED_CALL, "call")) and seconds * 1e6,
        max,
        (HOST_US,),
        at_most=True,
    ),
    *_ttc("f32"),
    *_ttc("f64"),
    Wanted(
        "best peer, whole elements",
        f"geometric mean at least {PEER_MEAN}",
        "cases",
        _best,
        middle,
        (PEER_MEAN,),
        lambda record: record["group"] != "packed",
    ),
    Wanted("best peer, TTC", f"geometric mean at least {PEER_MEAN}", "ttc", _best, middle, (PEER_MEAN,)),
)


def goals(found: Record) -> list[Goal]:
    """All lines, in the order in which they were set.  A plain run on a CPU and a run of curves have none."""
    if "cases" in found:
        wanted = GPU_GOALS if found["machine"].get("gpu") else ()
    else:
        wanted = CPU_GOALS if "relayout" in found else ()
    return [_judge(found, one) for one in wanted]


def _judge(found: Record, wanted: Wanted) -> Goal:
    records = [record for record in found[wanted.section] if wanted.chosen(record)]
    columns = [
        [Figure(value, record["case"]) for record in records if (value := wanted.figure(record, count)) is not None]
        for count in found.get("counts", (0,))
    ]
    here = len(found[wanted.section])
    listed = found.get("listed", {}).get(wanted.section, here)
    against = wanted.against.format(cases=f"{listed} cases" if here == listed else f"{here} of {listed} cases")
    return Goal(
        against,
        wanted.what,
        [wanted.summary(column, default=None) for column in columns],
        wanted.bounds,
        wanted.at_most,
    )


def case_goals(record: Record) -> list[Goal]:
    """The goals of a single case on a GPU: its own fraction of a copy, and no faster peer."""
    fraction, peer = fraction_of(record), best_peer(record)
    found = (
        [Goal(record["case"], "of a copy", [fraction and Figure(fraction)], [record["goal"]])]
        if record.get("goal")
        else []
    )
    if peer:
        found.append(
            Goal(record["case"], f"{peer['contender']} ({peer['output']})", [Figure(peer["against"])], [PEER_ROW])
        )
    return found
