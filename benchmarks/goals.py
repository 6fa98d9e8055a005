"""What the figures of a GPU run must reach.  Fractions are of the run's own copy ceiling, counting bytes read and bytes written.

A case holds its own fraction (`goal`); what is said of a whole run is said here.
"""
from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

PREPARED_CALL = "gpulayout plan(buffer, out)"                    # the contender's name

ALIGNED = {1: 0.92, 2: 0.92, 4: 0.95, 8: 0.95, 16: 0.95}         # 2-D transposes by element bytes, both extents whole vectors
ODD = {1: 0.60, 2: 0.75, 4: 0.85, 8: 0.85}                       # with extents that are not
ATTENTION = 0.95
THREE_CHANNELS = 0.90
PACKING = 0.92                                                   # of bytes read and bytes written once
TILES = 0.85                                                     # whole tiles, to them and from them
INDEX = 0.88
TTC_ROW, TTC_MEAN = 0.75, 0.92                                   # every one of the 57, and their geometric mean
PEER_ROW, PEER_MEAN = 0.97, 1.3                                  # the best peer's time over ours: on every row, and its geometric mean
HOST_US = 5.0                                                    # at most, of host time for one call of a prepared plan with `out`

_VECTOR = 16


def transpose_goal(itemsize: int, rows: int, columns: int) -> float | None:
    """The goal of a 2-D transpose; None where a side is no longer than a vector, which is no tile's work."""
    if min(rows, columns) * itemsize <= _VECTOR:
        return None
    aligned = rows * itemsize % _VECTOR == 0 and columns * itemsize % _VECTOR == 0
    return (ALIGNED if aligned else ODD).get(itemsize)


class Verdict(NamedTuple):
    """What was measured against what is wanted; `met` is None where there is nothing to compare."""

    what: str
    found: float | None
    wanted: float
    at_most: bool = False

    @property
    def met(self) -> bool | None:
        if self.found is None:
            return None
        return self.found <= self.wanted if self.at_most else self.found >= self.wanted

    def __str__(self) -> str:
        found = "not measured" if self.found is None else f"{self.found:.2f}"
        return f"{self.what}: {found}, wanted {'at most ' * self.at_most}{self.wanted:.2f}" + ", MISSED" * (self.met is False)


def case_verdicts(record: dict[str, Any]) -> list[Verdict]:
    """What a case's record says of the case's goal and of its peers."""
    found, name = [], record["case"]
    if record.get("goal"):
        found.append(Verdict(f"{name}: of a copy", fraction_of(record), record["goal"]))
    peer = best_peer(record)
    if peer:
        found.append(Verdict(f"{name}: {peer['contender']} ({peer['output']})", peer["against"], PEER_ROW))
    return found


def run_verdicts(cases: Sequence[dict[str, Any]], ttc: Sequence[dict[str, Any]], small: Sequence[dict[str, Any]]) -> list[Verdict]:
    """What the whole run says: the slowest prepared call, the 57 transpositions by element type, and all peers together.

    Packed elements are left out of the mean of the instances: no peer's own kernel moves them, so they would make it easier.
    """
    calls = [run["best_us"] for record in small for run in record["runs"] if run["contender"] == PREPARED_CALL]
    found = [Verdict("host time of one call of a prepared plan, us", max(calls, default=None), HOST_US, at_most=True)]
    for element_type, fractions in ttc_fractions(ttc).items():
        found += [Verdict(f"TTC {element_type}, geometric mean of a copy", mean(fractions), TTC_MEAN),
                  Verdict(f"TTC {element_type}, least of a copy", min(fractions), TTC_ROW)]
    instances = [record for record in cases if record.get("group") != "packed"]
    for what, records in (("instances", instances), ("TTC", ttc)):
        peers = [peer["against"] for record in records if (peer := best_peer(record))]
        if records:
            found.append(Verdict(f"{what}: geometric mean of the best peer's time over ours", mean(peers), PEER_MEAN))
    return found


def ttc_fractions(records: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """Fractions of a copy by element type, in the order of the list."""
    found: dict[str, list[float]] = {}
    for record in records:
        fraction = fraction_of(record)
        if fraction is not None:
            found.setdefault(record["case"].split()[0], []).append(fraction)
    return found


def mean(values: Sequence[float]) -> float | None:
    """The geometric mean, None of nothing.

    >>> round(mean([0.5, 2.0]), 6)
    1.0
    """
    return statistics.geometric_mean(values) if values else None


def fraction_of(record: dict[str, Any]) -> float | None:
    """This library's fraction of a plain copy, into memory that was written before."""
    return next((run["fraction_of_copy"] for run in record["runs"]
                 if run["output"] == "warm" and "against" not in run and "fraction_of_copy" in run), None)


def best_peer(record: dict[str, Any], output: str | None = None) -> dict[str, Any] | None:
    """The run of the fastest other contender, against ours with the same kind of output; of any kind when none is named."""
    peers = [run for run in record["runs"] if "against" in run and output in (None, run["output"])]
    return min(peers, key=lambda run: run["against"], default=None)
