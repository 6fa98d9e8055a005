"""What the pictures of recorded runs show, as plain numbers: no figure is computed while drawing."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.goals import JAX, NAIVE, TORCH
from benchmarks.peers.contender import COPY, OURS
from benchmarks.record import Record, best_peer, fraction_of, mean, ratio, sized, time_of

RAVEL = "ravel_multi_index"
FRACTION = "fraction of the speed of a plain copy"
NAMED = ("numpy", "torch", "jax")
BACKENDS = {"numpy": "NumPy", "cupy": "CuPy"}


class Bars(NamedTuple):
    """One panel of horizontal bars: for each case a ratio or a fraction, None if it was not measured.

    ranges   what a model expects for each case, from and to; None for kernels that it does not know
    """

    title: str
    cases: tuple[str, ...]
    values: tuple[float | None, ...]
    ranges: tuple[tuple[float, float] | None, ...] = ()


class Curve(NamedTuple):
    """One line: the case, x and y of each point."""

    name: str
    cases: tuple[str, ...]
    x: tuple[float, ...]
    y: tuple[float, ...]


class Picture(NamedTuple):
    """One file.  `note` states the machine and how it was measured."""

    file: str
    title: str
    note: str
    x_label: str
    y_label: str
    panels: Sequence[Bars] = ()
    curves: Sequence[Curve] = ()


def pictures(runs: Sequence[Record]) -> list[Picture]:
    """All pictures that these runs have figures for.

    Of several runs with the same lists the last one is drawn, so name the newest last.  Linearization shows every run
    that has it: one for each backend.
    """
    found, runs = [], [sized(run) for run in runs]
    gpus, cpus = ([run for run in runs if bool(run.get("machine", {}).get("gpu")) == gpu] for gpu in (True, False))
    for wanted, draw, given in (
        ("relayout", _relayouts, runs),
        ("cases", _copies, cpus),
        ("cases", _on_gpu, gpus),
        ("relayout", _threads, runs),
        ("bytes", _bytes, runs),
    ):
        having = [run for run in given if run.get(wanted)]
        if having:
            found.append(draw(having[-1]))
    linearized = [run for run in runs if run.get("linearize")]
    return [*found, *([_linearize(linearized)] if linearized else [])]


def _note(run: Record) -> str:
    machine = run["machine"]
    who = machine.get("gpu") or f"{machine['cpu']}, {machine['cores']} cores"
    versions = [
        f"{name} {version}"
        for name, version in machine["packages"].items()
        if name in NAMED or ("gpu" in machine and name.startswith("cupy"))
    ]
    load = f", load {machine['load']} at the start" if "load" in machine else ""
    rounds = run.get("rounds") or run["effort"]["rounds"]
    statistic = run.get("statistic") or next(
        (r["statistic"] for r in run.get("cases", ()) if "statistic" in r), "median"
    )
    quick = "tiny arrays, no measure of speed; " if run.get("quick") else ""
    return f"{quick}{who}{load}; {', '.join(versions)}; {statistic} of {rounds} rounds; commit {machine['commit']}"


# ---- ratios ----------------------------------------------------------------------------------------------------


def _relayouts(run: Record) -> Picture:
    """For every relayout with all threads, the time of NumPy, PyTorch, JAX and a plain copy over ours."""
    records, count = run["relayout"], run["counts"][-1]
    cases = tuple(record["case"] for record in records)
    columns = {
        "NumPy": [ratio(record, NAIVE, "warm", count, peer_threads=1) for record in records],
        "PyTorch": [ratio(record, TORCH, "warm", count) for record in records],
        "JAX": [ratio(record, JAX, "fresh", count) for record in records],
        "a plain copy": [ratio(record, COPY, "warm", count, "copy", count) for record in records],
    }
    panels = [Bars(name, cases, tuple(values)) for name, values in columns.items() if any(values)]
    means = [f"{mean([value for value in panel.values if value]):.1f} times {panel.title}'s" for panel in panels]
    return Picture(
        "relayouts.svg",
        f"{len(cases)} relayouts with {count} threads: gpulayout's speed is {_list(means)} (geometric means)",
        _note(run),
        "the other library's time over gpulayout's; right of 1, gpulayout is faster",
        "",
        panels,
    )


def _list(texts: Sequence[str]) -> str:
    """Texts as a list in a sentence.

    >>> _list(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else texts[0]


def _fractions(run: Record) -> tuple[Bars, Bars, str]:
    """For every case, the fraction of a plain copy's speed that this library and the best peer reach; the title."""
    records = [record for record in run["cases"] if fraction_of(record) is not None]
    cases = tuple(record["case"] for record in records)
    ours = tuple(fraction_of(record) for record in records)
    peers = tuple(_fraction_of_peer(record) for record in records)
    models = [record.get("model") for record in records]
    ranges = tuple(tuple(model["fraction_of_copy"]) if model else None for model in models)
    title = (
        f"{len(cases)} cases: gpulayout reaches {statistics.median(ours):.2f} of the speed of a plain copy of as many "
        f"bytes (median), the best peer {statistics.median(filter(None, peers)):.2f}"
    )
    return Bars("gpulayout", cases, ours, ranges if any(ranges) else ()), Bars("best peer", cases, peers), title


def _copies(run: Record) -> Picture:
    """Fractions of a copy on a CPU."""
    ours, peers, title = _fractions(run)
    threads = run["machine"]["threads"]
    note = f"{_note(run)}; {threads} thread{'s' * (threads > 1)} for gpulayout, 1 for NumPy and the copy"
    return Picture("copies.svg", title, note, FRACTION, "", [ours._replace(ranges=()), peers])


def _on_gpu(run: Record) -> Picture:
    """Fractions of a copy on a GPU, with the model's ranges."""
    ours, peers, title = _fractions(run)
    title = title.replace(" cases:", f" cases on {run['machine']['gpu']}:", 1)
    missed = run.get("peers_not_timed", {})
    late = "".join(f"out of time for {peer} on {len(cases)}; " for peer, cases in missed.items())
    note = f"black lines: the range that the model expects; {late}{_note(run)}"
    return Picture("gpu.svg", title, note, FRACTION, "", [ours, peers])


def _fraction_of_peer(record: Record) -> float | None:
    peer = best_peer(record, "warm") or best_peer(record)
    return peer and peer.get("fraction_of_copy")


def _threads(run: Record) -> Picture:
    """For every relayout, the time with one thread over the time with more."""
    records = run["relayout"]
    first, *more = dict.fromkeys(run["counts"])
    cases = tuple(record["case"] for record in records)
    panels = [
        Bars(
            f"{count} threads",
            cases,
            tuple(time_of(record, OURS, "warm", first) / time_of(record, OURS, "warm", count) for record in records),
        )
        for count in more
    ]
    most = panels[-1]
    return Picture(
        "threads.svg",
        f"{len(cases)} relayouts with {most.title}: {mean(most.values):.1f} times as fast as with one (geometric mean)",
        _note(run),
        "time with 1 thread over the time with more; right of 1, more threads are faster",
        "",
        panels,
    )


# ---- curves ----------------------------------------------------------------------------------------------------


def _times(records: Sequence[Record], name: str, contender: str, output: str, threads: int) -> Curve:
    """Microseconds over the bytes moved."""
    points = [(r, seconds) for r in records if (seconds := time_of(r, contender, output, threads)) is not None]
    return Curve(
        name,
        tuple(record["case"] for record, _ in points),
        tuple(record["bytes_moved"] for record, _ in points),
        tuple(seconds * 1e6 for _, seconds in points),
    )


def _counts(run: Record) -> list[int]:
    return run.get("counts", [0])  # a GPU's records have no number of threads


def _of_threads(count: int) -> str:
    return f", {count} thread{'s' * (count > 1)}" if count else ""


def _bytes(run: Record) -> Picture:
    records, counts = run["bytes"], _counts(run)
    module = run["bytes"][0]["backend"]
    one = min(counts)
    curves = [
        *(_times(records, f"gpulayout{_of_threads(count)}", OURS, "warm", count) for count in counts),
        _times(records, f"{module}.copyto of the transpose", f"{module}.copyto", "warm", one),
        _times(records, "plain copy", records[0]["runs"][0]["contender"], "copy", one),
    ]
    ours, peer, copy = curves[len(counts) - 1].y[-1], curves[-2].y[-1], curves[-1].y[-1]
    largest = f"{records[-1]['bytes_moved'] / 1e6:.0f} MB"
    return Picture(
        "bytes.svg",
        f"f32 transposes: {peer / ours:.1f} times as fast as {module}.copyto at {largest}, "
        f"where a plain copy takes {copy / ours:.2f} of the time",
        _note(run),
        "bytes read and written",
        "time of one transpose",
        curves=curves,
    )


def _linearize(runs: Sequence[Record]) -> Picture:
    """Nanoseconds for one index, for each recorded backend."""
    curves = []
    for run in runs:
        records = run["linearize"]
        backend = f"gpulayout, {BACKENDS[records[0]['backend']]} backend"
        peer = next(r["contender"] for r in records[0]["runs"] if r["contender"].endswith(RAVEL))
        for name, contender, output, count in (
            *((f"{backend}{_of_threads(count)}", OURS, "fresh", count) for count in _counts(run)),
            (peer, peer, "fresh", min(_counts(run))),
        ):
            curves.append(_per_index(_times(records, name, contender, output, count), records))
    ours, peer = curves[-2], curves[-1]
    return Picture(
        "linearize.svg",
        f"linearize, {ours.x[-1] / 1e6:.0f} million indices of rank 3: {peer.y[-1] / ours.y[-1]:.1f} times as fast as "
        f"{peer.name}",
        " | ".join(map(_note, runs)),
        "indices in one call",
        "time for one index",
        curves=curves,
    )


def _per_index(curve: Curve, records: Sequence[Record]) -> Curve:
    """Nanoseconds over the number of indices: each moves rank + 1 numbers of 8 bytes."""
    counts = [record["bytes_moved"] / (8 * (record["rank"] + 1)) for record in records if record["case"] in curve.cases]
    return curve._replace(x=tuple(counts), y=tuple(us * 1e3 / count for us, count in zip(curve.y, counts)))
